/* clock_inl.h: nanoseconds of longer units, and waits with a time limit. C only. */
#ifndef RP_BASE_CLOCK_INL_H
#define RP_BASE_CLOCK_INL_H

#include <pthread.h>
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

/* A condition variable whose timed waits end at rp_deadline_after(CLOCK_MONOTONIC, …). */
static inline void rp_monotonic_cond_init(pthread_cond_t *cond) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

#endif
