/* clock.h: monotonic and wall time behind a pointer, so that tests can set the time.
 *
 * Threads  any. A clock is fixed after it is passed to an open function and must outlive the object.
 */
#ifndef RP_BASE_CLOCK_H
#define RP_BASE_CLOCK_H

#include <stdint.h>

typedef struct rp_clock {
    int64_t (*monotonic_ns)(void *context);
    int64_t (*wall_ms)(void *context); /* milliseconds since 1970, as RocketMQ's timestamps */
    void *context;
} rp_clock;

/* The system's clocks; static storage. Every option struct takes NULL for this one. */
const rp_clock *rp_clock_system(void);

int64_t rp_clock_monotonic_ns(const rp_clock *clock);
int64_t rp_clock_wall_ms(const rp_clock *clock);

#endif
