/* pop_noted_acks.h: acks that a slave received while acting for its master, of messages that the master gave out before it failed: their
 * checkpoints are in the slave's log, whose revive thread has read them, but nothing can be appended there. Private to csrc/broker.
 *
 * Kept in memory only: after a crash of the slave these messages come once more, as they do from RocketMQ's, which passes the acks on to
 * a broker that does not have the checkpoint.
 *
 * Threads  any thread notes; the revive thread takes. Bounds: RP_NOTED_ACKS_MAX, further ones are dropped.
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
    rp_pop_ack ack; /* what it points to lies behind it */
    int64_t offsets[];
};

typedef struct rp_noted_acks {
    _Atomic(rp_noted_ack *) stack; /* pushed with release, taken whole with acquire */
    _Atomic uint32_t count; /* relaxed; a bound */
} rp_noted_acks;

/* Returns a copy, to be added or freed by free(); NULL: no memory. */
rp_noted_ack *rp_noted_ack_copy(const rp_pop_ack *ack);
/* Adds an ack and takes it over. */
void rp_noted_acks_add(rp_noted_acks *acks, rp_noted_ack *noted);
/* Takes all of them; the caller frees each. */
rp_noted_ack *rp_noted_acks_take(rp_noted_acks *acks);

#endif
