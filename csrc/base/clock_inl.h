/* clock_inl.h: nanoseconds of longer units, and waits and locks with a time limit. C only. */
#ifndef RP_BASE_CLOCK_INL_H
#define RP_BASE_CLOCK_INL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define RP_NS_PER_MS INT64_C(1000000)
#define RP_NS_PER_S INT64_C(1000000000)

/* Returns the time wait_ms from now, by the clock that the waiting call uses. */
static inline struct timespec rp_deadline_after(clockid_t clock, uint64_t wait_ms) {
    struct timespec now;
    clock_gettime(clock, &now);
    int64_t ns = now.tv_nsec + (int64_t)(wait_ms % 1000) * RP_NS_PER_MS;
    return (struct timespec){.tv_sec = now.tv_sec + (time_t)(wait_ms / 1000) + (time_t)(ns / RP_NS_PER_S),
                             .tv_nsec = (long)(ns % RP_NS_PER_S)};
}

/* ThreadSanitizer does not know pthread_mutex_clocklock and would not see that the lock is held. */
static inline bool rp_lock_within(pthread_mutex_t *mutex, uint64_t wait_ms) {
#if defined(__SANITIZE_THREAD__)
    struct timespec deadline = rp_deadline_after(CLOCK_REALTIME, wait_ms);
    return pthread_mutex_timedlock(mutex, &deadline) == 0;
#else
    struct timespec deadline = rp_deadline_after(CLOCK_MONOTONIC, wait_ms);
    return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &deadline) == 0;
#endif
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
