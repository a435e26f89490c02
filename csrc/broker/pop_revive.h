/* pop_revive.h: the thread that puts popped messages that were not acked in time into their group's retry topic. Private to csrc/broker.
 * RocketMQ: PopReviveService (5.3.3 broker/processor/), which has one thread for each revive queue.
 *
 *   revive queue, from the group's offset ─┬ ck ─► kept until due ─┬─ all acked ───────────────────────────────────┐
 *                                          └ ack ─► its bit        └─ not acked: message ─► %RETRY%…, then an ack ─┴─ over: offset moves
 *
 * A checkpoint is due two seconds after its revive time (RocketMQ: ackTimeInterval + SECOND), and not before everything has been read
 * that was in the revive queue at that time. A checkpoint that takes long delays no other.
 * While the timer service is behind, so is this: in a store written by RocketMQ the timers deliver the acks (rp_timer_delivered_until).
 * A revived message has the stored one's body, properties, flags and born time, this broker's host, reconsumeTimes + 1, and from its
 * first time on 1ST_POP_TIME. A message sent with a delay is revived at once; RocketMQ delays it again. A message that retention has
 * removed is passed over.
 * It goes to the queue of the retry topic with the number of its own queue (useSeparateRetryQueue), else to the first.
 * What cannot be read or appended, or whose retry topic or queue is missing (Python may create it: wanted_topic), is tried again each
 * second. A queue is waited for no longer than 5 s, then the first one is taken; after 30 s each message gets a checkpoint of its own
 * with growing invisible times (rePutTimes), so that the offset can move on.
 * If the group or topic is gone the checkpoint is dropped, which is logged at a limited rate: the tables are filled before the start.
 * A checkpoint that names another broker was sent by a slave acting for its master: its messages are fetched from there
 * (foreign_messages.h). One that names none, or this one, refers to this store.
 *
 * Restart  CID_RMQ_SYS_REVIVE_GROUP's offset is that of the last finished record, as in RocketMQ. Messages revived behind it are
 *          recognized by their acks. A checkpoint that lies a million records behind is appended again at the end.
 * Threads  one, for all revive queues; start and stop from Python's. Sleeps until the earliest checkpoint is due, at most a second.
 * Bounds   RP_POP_KEPT_MAX checkpoints, a quarter of them for those that are invisible for more than an hour. Further ones are not kept,
 *          but their place is remembered (acks of kept ones are still read), and they are read again once a quarter is free. 32 messages
 *          or 1 MiB an append. REVIVE_WANTED_MAX missing retry topics are reported at once, the others when those exist.
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
void rp_pop_revive_destroy(rp_pop_revive *revive);      /* stops it first; NULL is allowed */
/* Starts the thread, on a master. RP_OK; RP_E_NO_MEMORY, RP_E_BUSY. Stop returns when the thread has ended. Both may be repeated.
 * Offsets are in the offset table at all times. */
int rp_pop_revive_start(rp_pop_revive *revive, rp_error *error);
void rp_pop_revive_stop(rp_pop_revive *revive);
/* Runs one round with the clock passed in, for tests; not while the thread runs. Returns how long, in ms, it may sleep. */
int64_t rp_pop_revive_round(rp_pop_revive *revive, int64_t now_ms);
/* Takes the name of a retry topic that a checkpoint waits for, and how many queues it needs. Returns the name's size, 0: there is none.
 * Each try of the checkpoint reports it again. Any thread. */
uint32_t rp_pop_revive_wanted_topic(rp_pop_revive *revive, uint8_t *name, int32_t *queues);

/* Notes an ack that is not in the log: that of an acting slave (pop_noted_acks.h). It marks what the thread has read before. Takes the
 * ack over; NULL is allowed. Any thread. */
void rp_pop_revive_note(rp_pop_revive *revive, rp_noted_ack *noted);

typedef struct rp_pop_revive_stats {
    uint64_t checkpoints_kept, checkpoints_done, revived, put_again, dropped, append_failures;
    int64_t oldest_due_ms; /* wall clock; 0: none is kept */
} rp_pop_revive_stats;
void rp_pop_revive_read_stats(const rp_pop_revive *revive, rp_pop_revive_stats *stats);

#endif
