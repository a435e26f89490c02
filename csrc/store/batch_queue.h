/* batch_queue.h: the entries of a batch queue. An entry stands for all messages of its record and holds their queue offsets.
 * RocketMQ: BatchConsumeQueue (5.5.0 store/queue/), in batchconsumequeue/TOPIC/QUEUE.
 *
 *  at size
 *   0  8  commit log offset       28  8  queue offset of the first message
 *   8  4  record size             36  2  message count
 *  12  8  tags code               38  4  -1: RocketMQ's field for compaction
 *  20  8  store time, ms          42  4  0
 *
 * An offset is found by binary search over all entries, about 20 steps. The offsets of two neighbouring entries may leave a gap; an
 * offset in a gap is resolved to the entry behind it. Files, disk space, syncs, the end found at start and retention work in entries and
 * are shared with consume_queue.
 *
 * Threads  reads from any thread; the rest as in consume_queue_writer.h. Private to the store.
 */
#ifndef RP_STORE_BATCH_QUEUE_H
#define RP_STORE_BATCH_QUEUE_H

#include <stdint.h>

#include "../base/error.h"
#include "consume_queue.h"

#define RP_BATCH_ENTRY_SIZE 46

/* 1 if the bytes are an entry that was written for some message. rp_batch_entry_read also decodes it. */
int rp_batch_entry_is_written(const uint8_t *at);
int rp_batch_entry_read(const uint8_t *at, rp_queue_entry *entry);

/* Sets the queue's min and max offset once its entries are known. RP_OK, or the error of the read. */
int rp_batch_queue_load(rp_consume_queue *queue, rp_error *error);
/* Puts the entry behind the last one in one step; or in two steps: write the bytes, then show the entry. */
void rp_batch_queue_put(rp_consume_queue *queue, const rp_queue_entry *entry);
void rp_batch_entry_write(uint8_t *at, const rp_queue_entry *entry);
/* Publishes the entry that was written behind the last one. */
void rp_batch_queue_show(rp_consume_queue *queue, const rp_queue_entry *entry);
/* Returns the number of the entry that holds the offset, or of the first one behind it; the end if there is none. With in_memory 1 the
 * disk is not read: RP_E_BUSY if it would have to be. Negative: the entries cannot be read now. */
int64_t rp_batch_queue_find(rp_consume_queue *queue, int64_t offset, int in_memory, rp_error *error);
/* Returns the offset of the first message of that entry; for the number behind the last entry, the max offset. Negative: the entry
 * cannot be read now. */
int64_t rp_batch_queue_offset_of(rp_consume_queue *queue, int64_t entry, rp_error *error);
/* As the functions of the same names in consume_queue.h. */
int64_t rp_batch_queue_read(rp_consume_queue *queue, int64_t offset, rp_queue_entry *entries, uint32_t entries_max);
int64_t rp_batch_queue_read_before(rp_consume_queue *queue, int64_t offset, rp_queue_entry *entry);
int64_t rp_batch_queue_offset_by_time(rp_consume_queue *queue, int64_t timestamp_ms, int boundary);

#endif
