/* check.h: shared by the C test programs. A program exits 0 if its claims hold, 1 if one does not.
 * CHECK prints the failed claim and exits at once; CHECK_AT_LAST does so if it has not become true within a minute. */
#ifndef RP_TESTS_CHECK_H
#define RP_TESTS_CHECK_H

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define AT_LAST_S 60 /* for what must happen: a busy machine may pause */

#define CHECK(claim)                                                                                                                       \
    do {                                                                                                                                   \
        if (!(claim)) {                                                                                                                    \
            fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, __func__, #claim);                                              \
            exit(1);                                                                                                                       \
        }                                                                                                                                  \
    } while (0)

static inline struct timespec check_until(void) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += AT_LAST_S;
    return until;
}

static inline int check_is_over(const struct timespec *until) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > until->tv_sec;
}

#define CHECK_AT_LAST(claim)                                                                                                               \
    do {                                                                                                                                   \
        struct timespec until = check_until();                                                                                             \
        while (!(claim)) {                                                                                                                 \
            if (check_is_over(&until)) {                                                                                                   \
                fprintf(stderr, "%s:%d: %s: not so after %d s: %s\n", __FILE__, __LINE__, __func__, AT_LAST_S, #claim);                    \
                exit(1);                                                                                                                   \
            }                                                                                                                              \
            sched_yield();                                                                                                                 \
        }                                                                                                                                  \
    } while (0)

#define RUN(test)                                                                                                                          \
    do {                                                                                                                                   \
        test();                                                                                                                            \
        printf("ok %s\n", #test);                                                                                                          \
        fflush(stdout);                                                                                                                    \
    } while (0)

#endif
