/* batch_queue.h: what is different about a batch queue: an entry stands for all messages of its record, and says which offsets they have.
 * RocketMQ: BatchConsumeQueue (5.5.0 store/queue/), in batchconsumequeue/TOPIC/QUEUE.
 *
 *  at size
 *   0  8  commit log offset       28  8  offset of the first message
 *   8  4  record size             36  2  messages
 *  12  8  tags code               38  4  -1: RocketMQ's, of compaction
 *  20  8  store time, ms          42  4  0
 *
 * So an offset is found by a binary search over all entries, some 20 steps. There may be gaps between the offsets of two entries; an offset
 * in a gap leads to the entry behind it. Files, space, syncs, the end at a start and retention count entries, and are consume_queue's.
 *
 * Threads  reads from any; the rest as of consume_queue_writer.h. Private to the store.
 */
#ifndef RP_STORE_BATCH_QUEUE_H
#define RP_STORE_BATCH_QUEUE_H

#include <stdint.h>

#include "../base/error.h"
#include "consume_queue.h"

#define RP_BATCH_ENTRY_SIZE 46

/* 1: the bytes of an entry are one that somebody wrote, of some message. Reads it, too. */
int rp_batch_entry_is_written(const uint8_t *at);
int rp_batch_entry_read(const uint8_t *at, rp_queue_entry *entry);

/* Its offsets, once its entries are known. RP_OK, or why they cannot be read. */
int rp_batch_queue_load(rp_consume_queue *queue, rp_error *error);
/* Puts the entry behind the last one: in one step, or in two. */
void rp_batch_queue_put(rp_consume_queue *queue, const rp_queue_entry *entry);
void rp_batch_entry_write(uint8_t *at, const rp_queue_entry *entry);
/* The entry that was written behind the last one counts. */
void rp_batch_queue_show(rp_consume_queue *queue, const rp_queue_entry *entry);
/* The entry that holds the offset, or the first behind it; the end when there is none. With in_memory 1 no disk is asked: RP_E_BUSY when
 * one would have to be. Or why it cannot be told just now. */
int64_t rp_batch_queue_find(rp_consume_queue *queue, int64_t offset, int in_memory, rp_error *error);
/* Where the entry begins, the max offset of the one behind the last. Or why it cannot be told just now. */
int64_t rp_batch_queue_offset_of(rp_consume_queue *queue, int64_t entry, rp_error *error);
/* As the functions of consume_queue.h. */
int64_t rp_batch_queue_read(rp_consume_queue *queue, int64_t offset, rp_queue_entry *entries, uint32_t entries_max);
int64_t rp_batch_queue_read_before(rp_consume_queue *queue, int64_t offset, rp_queue_entry *entry);
int64_t rp_batch_queue_offset_by_time(rp_consume_queue *queue, int64_t timestamp_ms, int boundary);

#endif
