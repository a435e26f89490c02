/* clock.c: the system's clocks behind rp_clock. CLOCK_MONOTONIC and CLOCK_REALTIME are vDSO reads, ~20 ns each. */
#include "clock.h"

#include <stddef.h>
#include <time.h>

#include "clock_inl.h"

static int64_t system_monotonic_ns(void *context) {
    (void)context;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * RP_NS_PER_S + now.tv_nsec;
}

static int64_t system_wall_ms(void *context) {
    (void)context;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / RP_NS_PER_MS;
}

static const rp_clock system_clock = {system_monotonic_ns, system_wall_ms, NULL};

const rp_clock *rp_clock_system(void) { return &system_clock; }

int64_t rp_clock_monotonic_ns(const rp_clock *clock) {
    const rp_clock *chosen = clock != NULL ? clock : &system_clock;
    return chosen->monotonic_ns(chosen->context);
}

int64_t rp_clock_wall_ms(const rp_clock *clock) {
    const rp_clock *chosen = clock != NULL ? clock : &system_clock;
    return chosen->wall_ms(chosen->context);
}
