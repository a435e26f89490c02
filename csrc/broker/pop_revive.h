/* pop_revive.h: popped messages that were not acked in time go to their group's retry topic. Private to csrc/broker.
 * RocketMQ: PopReviveService (5.3.3 broker/processor/), which has one thread a revive queue.
 *
 *   revive queue, from the group's offset ─┬ ck ─► kept until due ─┬─ all acked ───────────────────────────────────┐
 *                                          └ ack ─► its bit        └─ not acked: message ─► %RETRY%…, then an ack ─┴─ over: offset moves
 *
 * A checkpoint is due two seconds after its revive time (RocketMQ: ackTimeInterval + SECOND), and not before everything has been read that
 * was in the revive queue then. One that takes long holds up no other.
 * While the timer service is behind, so is this: of a store that RocketMQ wrote it brings the acks (rp_timer_delivered_until).
 * A message revived has the stored one's body, properties, flags and born time, this broker's host, reconsumeTimes + 1, and 1ST_POP_TIME
 * from its first time on. One that was sent with a delay comes at once; RocketMQ delays it again. What is gone (retention) is passed over.
 * It goes to the retry topic's queue of its own queue's number with useSeparateRetryQueue, else to the first.
 * What cannot be read or appended just now, or whose retry topic is missing or does not have its queue (Python may mend that:
 * wanted_topic), is tried again each second. A queue is waited for no longer than 5 s, then the first one is taken;
 * after 30 s each message gets a checkpoint of its own with a longer and longer invisible time (rePutTimes), so that the offset moves on.
 * Where the group or topic is gone the checkpoint is dropped, with a line now and then: the tables are filled before the start.
 * A checkpoint that names another broker was sent by a slave that stands in for its master: its messages are fetched from there
 * (foreign_messages.h). One that names none, or this one, is of this store.
 *
 * Restart  CID_RMQ_SYS_REVIVE_GROUP's offset is that of the last record that is over, as in RocketMQ. What was revived behind it is known
 *          by its ack. A checkpoint a million records behind is written again at the end.
 * Threads  one, for all revive queues; start and stop from Python's. Sleeps until the earliest checkpoint is due, a second at most.
 * Bounds   RP_POP_KEPT_MAX checkpoints, a quarter of them for those that are invisible for more than an hour; beyond, further ones are not
 *          kept but their place is remembered (acks are read on for those that are), and read again once a quarter is free. 32 messages
 *          of 1 MiB an append. REVIVE_WANTED_MAX missing retry topics are named at once, the others when those are there.
 */
#ifndef RP_BROKER_POP_REVIVE_H
#define RP_BROKER_POP_REVIVE_H

#include <stdint.h>

#include "../base/error.h"
#include "broker.h"
#include "pop_noted_acks.h"

#define RP_POP_KEPT_MAX 1000000u

typedef struct rp_pop_revive rp_pop_revive;

rp_pop_revive *rp_pop_revive_create(rp_broker *broker); /* NULL: no memory */
void rp_pop_revive_destroy(rp_pop_revive *revive);      /* stops it; NULL is allowed */
/* A master's. RP_OK; RP_E_NO_MEMORY, RP_E_BUSY. Stop returns when the thread has ended; both may be repeated. Offsets are in the offset
 * table all the time. */
int rp_pop_revive_start(rp_pop_revive *revive, rp_error *error);
void rp_pop_revive_stop(rp_pop_revive *revive);
/* One round with the clock passed in, for tests; not while the thread runs. How long it may sleep. */
int64_t rp_pop_revive_round(rp_pop_revive *revive, int64_t now_ms);
/* Takes the name of a retry topic that a checkpoint waits for, and how many queues it is to have; the name's size, 0: none. Each try of the
 * checkpoint names it again. Any thread. */
uint32_t rp_pop_revive_wanted_topic(rp_pop_revive *revive, uint8_t *name, int32_t *queues);

/* An ack that is not in the log: that of an acting slave (pop_noted_acks.h). It marks what the thread has read before. Takes it over; NULL
 * is allowed. Any thread. */
void rp_pop_revive_note(rp_pop_revive *revive, rp_noted_ack *noted);

typedef struct rp_pop_revive_stats {
    uint64_t checkpoints_kept, checkpoints_done, revived, put_again, dropped, append_failures;
    int64_t oldest_due_ms; /* wall clock; 0: none is kept */
} rp_pop_revive_stats;
void rp_pop_revive_read_stats(const rp_pop_revive *revive, rp_pop_revive_stats *stats);

#endif
