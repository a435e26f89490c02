/* consume_queue_time.c: finds the entry that belongs to a time. Except in batch queues, entries carry no time; the records they point to
 * do.
 * RocketMQ: ConsumeQueue.binarySearchInQueueByTime, ConsumeQueueStore.getOffsetInQueueByTime (5.3.3 store/).
 *
 * A binary search over the whole queue. Entries whose record is gone count as older than everything, since they lie at the old end.
 * Store times follow the wall clock: if it was set back, several places match, and the search finds one of them, as RocketMQ's does.
 */
#include "consume_queue.h"

#include "../base/bytes_inl.h"
#include "batch_queue.h"
#include "consume_queue_inl.h"
#include "message_layout_inl.h"

#define LOOKED_AT_ONCE 8192 /* entries: 40 pages */

static int64_t time_of(const rp_log_range *range) {
    uint32_t at = RP_AT_BORN_HOST + rp_born_host_size((int32_t)rp_get_u32(range->address + RP_AT_SYS_FLAG));
    return at + 8 <= range->size ? (int64_t)rp_get_u64(range->address + at) : -1;
}

/* What is known to be in memory, for a caller that must not wait for the disk. */
typedef struct known_memory {
    int64_t entries_from; /* entries from here to the queue's end are in memory: one check of all costs as much as a check of one */
} known_memory;

/* Reads the store time of the record at the entry; -1 if the record is gone. RP_OK; RP_E_IO, RP_E_NO_MEMORY: it exists and cannot be
 * read now; RP_E_BUSY: the disk would have to be read. known NULL: the disk may be read. */
static int record_time(rp_consume_queue *queue, int64_t offset, const known_memory *known, int64_t *time_ms) {
    const rp_file_ops *ops = queue->setup->ops;
    rp_queue_entry entry;
    rp_log_range range;
    *time_ms = -1;
    if (known != NULL && offset < known->entries_from && !rp_consume_queue_in_memory(queue, offset, offset + 1)) {
        return RP_E_BUSY;
    }
    int64_t rc = rp_consume_queue_read(queue, offset, &entry, 1);
    if (rc == 1 && entry.size >= RP_RECORD_SIZE_MIN &&
        (rc = rp_commit_log_read(queue->setup->log, entry.commit_log_offset, (uint32_t)entry.size, &range)) == RP_OK) {
        if (known != NULL && !ops->in_memory(ops->context, range.address, RP_RECORD_SIZE_MIN)) {
            rc = RP_E_BUSY;
        } else {
            *time_ms = time_of(&range);
        }
        rp_log_range_release(range.pin);
    }
    return rc == RP_E_BUSY || rp_status_is_passing((int)rc) ? (int)rc : RP_OK;
}

int64_t rp_consume_queue_time_at(rp_consume_queue *queue, int64_t offset) {
    int64_t time_ms;
    return record_time(queue, offset, NULL, &time_ms) == RP_OK ? time_ms : -1;
}

int64_t rp_consume_queue_earliest_time(rp_consume_queue *queue) {
    return rp_consume_queue_time_at(queue, rp_consume_queue_min_offset(queue));
}

/* Returns the first offset in [low, high) whose time is >= timestamp_ms; high if there is none; or a negative status. */
static int64_t first_at_or_after(rp_consume_queue *queue, int64_t low, int64_t high, int64_t timestamp_ms, const known_memory *known) {
    while (low < high) {
        int64_t middle = low + (high - low) / 2, time_ms;
        int rc = record_time(queue, middle, known, &time_ms);
        if (rc != RP_OK) {
            return rc;
        }
        if (time_ms < timestamp_ms) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static int64_t offset_by_time(rp_consume_queue *queue, int64_t timestamp_ms, int boundary, const known_memory *known) {
    int64_t max = rp_consume_queue_max_offset(queue), min = rp_consume_queue_min_offset(queue);
    if (boundary == 0) {
        return first_at_or_after(queue, min, max, timestamp_ms, known);
    }
    int64_t after = timestamp_ms == INT64_MAX ? max : first_at_or_after(queue, min, max, timestamp_ms + 1, known);
    return after > min ? after - 1 : after < 0 ? after : min;
}

int64_t rp_consume_queue_offset_by_time(rp_consume_queue *queue, int64_t timestamp_ms, int boundary) {
    if (queue->is_batch) {
        return rp_batch_queue_offset_by_time(queue, timestamp_ms, boundary);
    }
    return offset_by_time(queue, timestamp_ms, boundary, NULL);
}

int64_t rp_consume_queue_offset_by_time_in_memory(rp_consume_queue *queue, int64_t timestamp_ms, int boundary) {
    if (queue->is_batch || rp_consume_queue_compacted(queue) != NULL) {
        return RP_E_BUSY;
    }
    int64_t max = rp_consume_queue_max_offset(queue), min = rp_consume_queue_min_offset(queue);
    int64_t from = max - min > LOOKED_AT_ONCE ? max - LOOKED_AT_ONCE : min;
    known_memory known = {rp_consume_queue_in_memory(queue, from, max) ? from : max};
    return offset_by_time(queue, timestamp_ms, boundary, &known);
}

int64_t rp_consume_queue_entry_by_log_offset(rp_consume_queue *queue, int64_t log_offset, rp_error *error) {
    int64_t low = rp_mapped_file_queue_begin(queue->row) / queue->entry_size, high = rp_consume_queue_end_entry(queue);
    rp_error local;
    low = low < high ? low : high; /* a cleared queue: its row still reports the position of its removed files */
    return rp_consume_queue_search(queue, low, high, 0, log_offset, 0, error == NULL ? &local : error);
}

int64_t rp_consume_queue_offset_by_log_offset(rp_consume_queue *queue, int64_t log_offset, rp_error *error) {
    rp_error local;
    error = error == NULL ? &local : error;
    int64_t entry = rp_consume_queue_entry_by_log_offset(queue, log_offset, error);
    return queue->is_batch && entry >= 0 ? rp_batch_queue_offset_of(queue, entry, error) : entry;
}
