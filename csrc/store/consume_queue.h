/* consume_queue.h: the index of one queue of one topic: entry i says where message i lies in the commit log.
 * RocketMQ: ConsumeQueue (5.3.3 store/); of a batch queue, whose entries stand for the messages of a record each, BatchConsumeQueue.
 *
 * Entry    20 bytes big-endian: [8 commit log offset][4 record size][8 tags code]; files of 300,000 entries named by start byte.
 *          Those of a batch queue go on behind that: batch_queue.h.
 * Threads  put and the assignment of queue offsets: under the commit log's append lock. Reads: any thread, lock-free, of
 *          entries below rp_consume_queue_max_offset.
 * Lifetime a pointer from rp_message_store_queue lives until the store closes, also when its topic is deleted (then it reads empty).
 */
#ifndef RP_STORE_CONSUME_QUEUE_H
#define RP_STORE_CONSUME_QUEUE_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/slice.h"

#define RP_CONSUME_QUEUE_ENTRY_SIZE 20
/* beyond any real queue offset: a record with a larger one is entered in no queue */
#define RP_QUEUE_OFFSETS_MAX (INT64_MAX / RP_CONSUME_QUEUE_ENTRY_SIZE / 2)
/* The topic of delayed messages. Level l, from 1, has queue l - 1. The tags codes of its entries are the due times in ms. */
#define RP_DELAY_TOPIC "SCHEDULE_TOPIC_XXXX"
#define RP_DELAY_LEVELS_MAX 64

typedef struct rp_consume_queue rp_consume_queue;
typedef struct rp_compaction_log rp_compaction_log; /* compaction_log.h */

typedef struct rp_queue_entry {
    int64_t commit_log_offset;
    int32_t size;
    int32_t messages;     /* messages that the entry stands for, from queue_offset on; 1 except in a batch queue */
    int64_t queue_offset; /* set by reads. A put needs it only for a batch queue; so with messages and store_timestamp_ms */
    int64_t store_timestamp_ms; /* set by reads of a batch queue only */
    int64_t tags_code;
} rp_queue_entry;

rp_slice rp_consume_queue_topic(const rp_consume_queue *queue);
int32_t rp_consume_queue_id(const rp_consume_queue *queue);
int rp_consume_queue_is_lite(const rp_consume_queue *queue); /* it is the light queue of a lite topic: light_queue.h */
int rp_consume_queue_is_batch(const rp_consume_queue *queue);
int64_t rp_consume_queue_min_offset(const rp_consume_queue *queue); /* first queue offset that still exists */
int64_t rp_consume_queue_max_offset(const rp_consume_queue *queue); /* one past the last dispatched entry */
/* The offset of the next message: the max offset, or behind messages whose entries are held back (commit_log_held.c). Exact under the
 * append lock; elsewhere it may be slightly out of date. */
int64_t rp_consume_queue_next_offset(const rp_consume_queue *queue);
/* Copies entries from offset on; in a batch queue the first is the one that contains the offset, or the next one. Returns how many
 * (0..entries_max): 0 if offset == max; RP_E_RANGE outside min..max; RP_E_NOT_FOUND if the file is gone; RP_E_IO, RP_E_NO_MEMORY as for
 * rp_commit_log_read. The next entry begins at queue_offset + messages of the last one. */
int64_t rp_consume_queue_read(rp_consume_queue *queue, int64_t offset, rp_queue_entry *entries, uint32_t entries_max);
/* Reads the last entry that begins below offset; offset must be above the min offset. Returns 1, or an error as rp_consume_queue_read. */
int64_t rp_consume_queue_read_before(rp_consume_queue *queue, int64_t offset, rp_queue_entry *entry);
/* 1 if the entries [offset, end) are in memory, 0 if some have to be read from disk. Reads none of them. */
int rp_consume_queue_in_memory(rp_consume_queue *queue, int64_t offset, int64_t end);
/* Reads those entries into memory. Blocks on the disk. */
void rp_consume_queue_read_in(rp_consume_queue *queue, int64_t offset, int64_t end);
/* boundary 0 (LOWER): the first offset whose store time is >= timestamp_ms (the max offset if there is none); 1 (UPPER): the last one whose
 * store time is <= timestamp_ms. As RocketMQ's getOffsetInQueueByTime, which for a batch queue gives the last entry instead of the max
 * offset. RP_E_IO, RP_E_NO_MEMORY as for rp_commit_log_read; no offset can be given then. */
int64_t rp_consume_queue_offset_by_time(rp_consume_queue *queue, int64_t timestamp_ms, int boundary);
/* As rp_message_store_offset_by_time, for callers that must not wait for the disk: RP_E_BUSY if the disk would have to be read, and for
 * every batch or compacted queue. */
int64_t rp_consume_queue_offset_by_time_in_memory(rp_consume_queue *queue, int64_t timestamp_ms, int boundary);
/* Store timestamp of the first message, or of the one at offset; -1 when there is none. */
int64_t rp_consume_queue_earliest_time(rp_consume_queue *queue);
int64_t rp_consume_queue_time_at(rp_consume_queue *queue, int64_t offset);

/* For long polling: bit i is set if reactor i has pulls suspended on this queue. Set the bit, then read max_offset again. The appender
 * reads the bits after it has published the new max offset; both sides are sequentially consistent. */
void rp_consume_queue_set_waiting(rp_consume_queue *queue, uint16_t reactor_index);
void rp_consume_queue_clear_waiting(rp_consume_queue *queue, uint16_t reactor_index);
/* The compacted log of the queue, valid until the store closes; NULL for a plain queue (rp_message_store_compact). */
rp_compaction_log *rp_consume_queue_compacted(const rp_consume_queue *queue);
/* One pointer per queue for the broker's own use (suspended pulls, statistics). */
void rp_consume_queue_set_user(rp_consume_queue *queue, void *user);
void *rp_consume_queue_user(const rp_consume_queue *queue);

#endif
