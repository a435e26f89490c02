/* clock_inl.h: nanoseconds of longer units, and the moment at which a wait with a time limit ends. C only. */
#ifndef RP_BASE_CLOCK_INL_H
#define RP_BASE_CLOCK_INL_H

#include <stdint.h>
#include <time.h>

#define RP_NS_PER_MS INT64_C(1000000)
#define RP_NS_PER_S INT64_C(1000000000)

/* wait_ms from now, by the clock that the waiting call goes by. */
static inline struct timespec rp_deadline_after(clockid_t clock, uint64_t wait_ms) {
    struct timespec now;
    clock_gettime(clock, &now);
    int64_t ns = now.tv_nsec + (int64_t)(wait_ms % 1000) * RP_NS_PER_MS;
    return (struct timespec){.tv_sec = now.tv_sec + (time_t)(wait_ms / 1000) + (time_t)(ns / RP_NS_PER_S),
                             .tv_nsec = (long)(ns % RP_NS_PER_S)};
}

#endif
