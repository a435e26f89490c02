/* pop_noted_acks.h: acks that a slave got while it stands in for its master, of what the master gave before it went: the checkpoints lie in
 * the slave's log, whose revive thread has read them, and which takes no acks. Private to csrc/broker.
 *
 * In memory alone: after a crash of the slave such messages come once more, as they do from RocketMQ's, which passes the acks on to where
 * nobody has the checkpoint.
 *
 * Threads  any note; the revive thread takes. Bounds: RP_NOTED_ACKS_MAX, further ones are dropped.
 */
#ifndef RP_BROKER_POP_NOTED_ACKS_H
#define RP_BROKER_POP_NOTED_ACKS_H

#include <stdatomic.h>
#include <stdint.h>

#include "pop_records.h"

#define RP_NOTED_ACKS_MAX 65536u

typedef struct rp_noted_ack rp_noted_ack;
struct rp_noted_ack {
    rp_noted_ack *next;
    rp_pop_ack ack; /* what it points to lies behind */
    int64_t offsets[];
};

typedef struct rp_noted_acks {
    _Atomic(rp_noted_ack *) stack; /* pushed with release, taken whole with acquire */
    _Atomic uint32_t count; /* relaxed; a bound */
} rp_noted_acks;

/* A copy, to be noted or freed by free(); NULL: memory. */
rp_noted_ack *rp_noted_ack_copy(const rp_pop_ack *ack);
/* Takes it over. */
void rp_noted_acks_add(rp_noted_acks *acks, rp_noted_ack *noted);
/* All of them, to be freed one by one. */
rp_noted_ack *rp_noted_acks_take(rp_noted_acks *acks);

#endif
