/* pop_revive.h: popped messages that were not acked in time go to their group's retry topic. Private to csrc/broker.
 * RocketMQ: PopReviveService (5.3.3 broker/processor/), which has one thread a revive queue.
 *
 *   revive queue, from CID_RMQ_SYS_REVIVE_GROUP's offset ─ ck ─► kept until due ─┬─ all acked ─────────────────────────────┐
 *                                                        └ ack ─► its bit ───────└─ not acked: message ─► %RETRY%… ─► kept ─┴─ offset moves behind the
 *                                                                                                                  oldest that is still kept
 *
 * A checkpoint is due when its revive time is past and everything that was in the revive queue then has been read: an ack that is there counts.
 * A message revived has the stored one's body, properties, born host and time; reconsumeTimes + 1 from a topic that is not a retry topic's,
 * else as RocketMQ counts; RETRY_TOPIC or ORIGIN… and 1ST_POP_TIME as there. A message that is gone (retention) is passed over. One that cannot be appended
 * or read just now is tried again, the checkpoint kept: RocketMQ puts it back as a new checkpoint (rePutTimes), with a longer and longer invisible time; so here.
 * Where the retry topic is missing the checkpoint waits for Python to make it (wanted_topic); where the group or topic is gone it is dropped, with one line
 * now and then (popReviveSkipIfGroupAbsent).
 *
 * Threads  one, for all revive queues; start and stop from Python's. Sleeps until the earliest checkpoint is due, a second at most.
 * Bounds   RP_POP_KEPT_MAX checkpoints; beyond, further ones are not kept but their place is remembered (acks are read on for those that are), and read again once
 *          there is room. 32 messages of 1 MiB an append.
 */
#ifndef RP_BROKER_POP_REVIVE_H
#define RP_BROKER_POP_REVIVE_H

#include <stdint.h>

#include "../base/error.h"
#include "broker.h"

#define RP_POP_KEPT_MAX 1000000u

typedef struct rp_pop_revive rp_pop_revive;

rp_pop_revive *rp_pop_revive_create(rp_broker *broker); /* NULL: no memory */
void rp_pop_revive_destroy(rp_pop_revive *revive);      /* stops it; NULL is allowed */
/* A master's. RP_OK; RP_E_NO_MEMORY, RP_E_BUSY. Stop returns when the thread has ended; both may be repeated. Offsets are in the offset table all the time. */
int rp_pop_revive_start(rp_pop_revive *revive, rp_error *error);
void rp_pop_revive_stop(rp_pop_revive *revive);
/* One round with the clock passed in, for tests; not while the thread runs. How long it may sleep. */
int64_t rp_pop_revive_round(rp_pop_revive *revive, int64_t now_ms);
/* Copies the name of a retry topic that a checkpoint waits for; its size, 0: none. Any thread. */
uint32_t rp_pop_revive_wanted_topic(rp_pop_revive *revive, uint8_t *name);

typedef struct rp_pop_revive_stats {
    uint64_t checkpoints_kept, checkpoints_done, revived, put_again, dropped, append_failures;
    int64_t oldest_due_ms; /* wall clock; 0: none is kept */
} rp_pop_revive_stats;
void rp_pop_revive_read_stats(const rp_pop_revive *revive, rp_pop_revive_stats *stats);

#endif
