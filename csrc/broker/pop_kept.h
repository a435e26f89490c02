/* pop_kept.h: the open checkpoints that the revive thread has read, found by their acks, by when they are due, and by where they lie.
 * Private to csrc/broker.
 * RocketMQ: PopReviveService.ConsumeReviveObj (5.3.3 broker/processor/), which is rebuilt from the queue each second.
 *
 *   ck ─► rp_kept_add ─┬─ table, by what an ack says of its pop
 *                      ├─ heap of its revive queue: what is looked at next
 *                      └─ list of its revive queue and kind: the oldest; the group's offset stays before it
 *
 * There are two kinds of checkpoints, each with a bound of its own. Short ones are over within LONG_MS, so one that finds no room gets
 * it by then, however many messages somebody has made invisible for years.
 *
 * Threads  the revive thread's.
 * Owns     what is kept. Names are not kept: they are in the record.
 * Bounds   rp_kept_table.count_max of each kind; SAME_POP_MAX of one pop.
 */
#ifndef RP_BROKER_POP_KEPT_H
#define RP_BROKER_POP_KEPT_H

#include <stdint.h>

#include "pop_records.h"

enum rp_kept_kind { RP_KEPT_SHORT, RP_KEPT_LONG };
#define RP_KEPT_KINDS 2

typedef struct rp_kept_checkpoint rp_kept_checkpoint;
struct rp_kept_checkpoint {
    rp_kept_checkpoint *older, *newer; /* in the list of its queue and kind */
    rp_kept_checkpoint *next;          /* in its bucket */
    uint64_t pop;                      /* hash of what an ack names: names, queue, start offset, pop time */
    int64_t revive_offset, log_offset; /* of its record */
    int64_t start_offset, pop_time_ms, invisible_ms;
    int64_t look_ms;       /* when it is looked at, wall clock */
    int64_t failing_ms;    /* since when a message of it could not be revived; 0: none has failed */
    int32_t queue_id;
    uint32_t over;         /* a bit for each message that is acked, in the retry topic, or gone */
    uint32_t heap_place;
    uint8_t kind, count, diff_count;
    uint8_t is_dropped; /* its messages no longer belong to anybody */
    uint8_t is_carried; /* its record was appended again, and the new one is still to be read */
    int32_t diffs[];
};

typedef struct rp_kept_queue {
    rp_kept_checkpoint *oldest[RP_KEPT_KINDS], *newest[RP_KEPT_KINDS];
    rp_kept_checkpoint **heap; /* owned; by look_ms */
    uint32_t heap_count, heap_room;
} rp_kept_queue;

typedef struct rp_kept_table {
    rp_kept_checkpoint **buckets; /* owned; bucket_count, a power of two */
    uint32_t bucket_count;
    uint32_t count[RP_KEPT_KINDS], count_max[RP_KEPT_KINDS];
    uint64_t seed;
} rp_kept_table;

/* RP_OK, RP_E_NO_MEMORY. */
int rp_kept_table_init(rp_kept_table *table, uint32_t count_max);
void rp_kept_table_free(rp_kept_table *table); /* its queues must have been freed */
void rp_kept_queue_free(rp_kept_table *table, rp_kept_queue *queue);

enum rp_kept_kind rp_kept_kind_of(const rp_pop_checkpoint *checkpoint);

/* Adds a checkpoint; those of one kind and queue must be added in the order in which they lie. A checkpoint that was written again is
 * kept once, where its later record lies, unless that lacks an ack, which lies before it in the queue: then where the earlier one does.
 * broker_name: this broker's, used if the checkpoint has none. RP_OK; RP_E_BUSY: the bound; RP_E_NO_MEMORY; RP_E_EXISTS: there are
 * SAME_POP_MAX of that pop already, so it is no real one. */
int rp_kept_add(rp_kept_table *table, rp_kept_queue *queue, const rp_pop_checkpoint *checkpoint, rp_slice broker_name,
                int64_t revive_offset, int64_t log_offset, int64_t look_ms);
/* Marks the acked messages in every checkpoint of that pop. Returns how many checkpoints there are. */
uint32_t rp_kept_ack(rp_kept_table *table, const rp_pop_ack *ack, rp_slice broker_name);
int rp_kept_is_over(const rp_kept_checkpoint *kept);

/* Returns the checkpoint to look at next; NULL: there is none. */
rp_kept_checkpoint *rp_kept_next(const rp_kept_queue *queue);
void rp_kept_put_off(rp_kept_queue *queue, rp_kept_checkpoint *kept, int64_t look_ms);
/* After the clock was set back to now_ms: nothing is looked at later than grace_ms behind its invisible time from now on. */
void rp_kept_clock_set_back(rp_kept_queue *queue, int64_t now_ms, int64_t grace_ms);
void rp_kept_remove(rp_kept_table *table, rp_kept_queue *queue, rp_kept_checkpoint *kept);
/* Returns the revive offset of the oldest; INT64_MAX: there is none. */
int64_t rp_kept_oldest(const rp_kept_queue *queue);

#endif
