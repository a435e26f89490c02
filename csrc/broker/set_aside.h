/* set_aside.h: messages of one queue that cannot go to their target while those behind them do: their offsets, and when each is tried
 * again. Private to csrc/broker.
 *
 *   position = the first that is set aside … reached: all between are over, except those set aside
 *
 * A message is tried again after a second, then after twice as long each time, up to a quarter of an hour: a target that stays broken
 * costs a bounded rate, however many messages there are for it.
 *
 * Threads  the owner's. Bounds: RP_SET_ASIDE_MAX, of 32 bytes each.
 */
#ifndef RP_BROKER_SET_ASIDE_H
#define RP_BROKER_SET_ASIDE_H

#include <stdint.h>

#include "broker.h"

#define RP_SET_ASIDE_MAX RP_DELAY_ASIDE_MAX
#define RP_SET_ASIDE_NEVER INT64_MAX

typedef struct rp_set_aside_entry {
    int64_t offset, again_ms;
    int64_t slot_ms; /* of a timed message, like the last */
    int32_t tries;
    int32_t magic;
} rp_set_aside_entry;

/* Zero-initialized: empty. */
typedef struct rp_set_aside {
    rp_set_aside_entry *entries; /* owned; ordered by offset */
    uint32_t count, room;
} rp_set_aside;

void rp_set_aside_clear(rp_set_aside *aside);
/* Adds an offset, to be tried after now_ms, wall clock. RP_OK, also if it is there already; RP_E_BUSY at the bound; RP_E_NO_MEMORY. */
int rp_set_aside_add(rp_set_aside *aside, int64_t offset, int64_t now_ms);
/* Writes the first offsets that are due, at most `max`; returns how many. A clock that was set back lets none wait longer than planned. */
uint32_t rp_set_aside_due(const rp_set_aside *aside, int64_t now_ms, int64_t *offsets, uint32_t max);
/* Returns when the next is due; RP_SET_ASIDE_NEVER: there is none. */
int64_t rp_set_aside_next_ms(const rp_set_aside *aside);
/* After a try: remove it if it is over, else postpone it. */
void rp_set_aside_remove(rp_set_aside *aside, int64_t offset);
void rp_set_aside_postpone(rp_set_aside *aside, int64_t offset, int64_t now_ms);
/* Forgets the offsets from `end` on. */
void rp_set_aside_end_at(rp_set_aside *aside, int64_t end);

#endif
