/* held_clock.h: a clock that can be held, which stands in for SIGSTOP: meanwhile the reactor waits in it, with the events that it had come
 * for. */
#ifndef RP_TESTS_HELD_CLOCK_H
#define RP_TESTS_HELD_CLOCK_H

#include "server_harness.h"

static _Atomic int is_held, is_waiting;

static inline int64_t held_time(void *context) {
    while (atomic_load(&is_held)) {
        atomic_store(&is_waiting, 1);
        poll(NULL, 0, 1);
    }
    return hand_time(context);
}

/* Of a server with one reactor. */
static inline void use_held_clock(rp_server_options *options) {
    static const rp_clock clock = {held_time, hand_time, NULL};
    options->reactors = 1;
    options->spin_us = 0;
    options->clock = &clock;
}

/* The next event has the reactor stand still. */
static inline void hold(void) {
    atomic_store(&is_waiting, 0);
    atomic_store(&is_held, 1);
}

static inline void wait_held(void) { CHECK_AT_LAST(atomic_load(&is_waiting)); }

static inline void go_on(int64_t after_ms) {
    atomic_fetch_add(hand(), after_ms * 1000000);
    atomic_store(&is_held, 0);
}

#endif
