/* batch_queue.c: see batch_queue.h. */
#include "batch_queue.h"

#include <stdatomic.h>

#include "../base/bytes_inl.h"
#include "commit_log_writer.h"
#include "consume_queue_inl.h"
#include "inner_batch.h"

#define AT_SIZE 8
#define AT_TAGS_CODE 12
#define AT_STORE_TIME 20
#define AT_OFFSET 28
#define AT_MESSAGES 36
#define AT_COMPACTED 38
#define AT_RESERVED 42
_Static_assert(AT_RESERVED + 4 == RP_BATCH_ENTRY_SIZE, "RocketMQ's CQ_STORE_UNIT_SIZE");

static int64_t first_entry(const rp_consume_queue *queue) { return atomic_load_explicit(&queue->first_entry, memory_order_acquire); }

int rp_batch_entry_is_written(const uint8_t *at) {
    return (int64_t)rp_get_u64(at) >= 0 && (int32_t)rp_get_u32(at + AT_SIZE) > 0 &&
           rp_get_u64(at + AT_OFFSET) <= (uint64_t)RP_QUEUE_OFFSETS_MAX && (int16_t)rp_get_u16(at + AT_MESSAGES) > 0;
}

/* The size is written last: an entry without a size does not count. */
void rp_batch_entry_write(uint8_t *at, const rp_queue_entry *entry) {
    rp_put_u64(at, (uint64_t)entry->commit_log_offset);
    rp_put_u64(at + AT_TAGS_CODE, (uint64_t)entry->tags_code);
    rp_put_u64(at + AT_STORE_TIME, (uint64_t)entry->store_timestamp_ms);
    rp_put_u64(at + AT_OFFSET, (uint64_t)entry->queue_offset);
    rp_put_u16(at + AT_MESSAGES, (uint16_t)entry->messages);
    rp_put_u32(at + AT_COMPACTED, UINT32_MAX);
    rp_put_u32(at + AT_RESERVED, 0);
    atomic_signal_fence(memory_order_release);
    rp_put_u32(at + AT_SIZE, (uint32_t)entry->size);
}

int rp_batch_entry_read(const uint8_t *at, rp_queue_entry *entry) {
    entry->commit_log_offset = (int64_t)rp_get_u64(at);
    entry->size = (int32_t)rp_get_u32(at + AT_SIZE);
    entry->messages = (int16_t)rp_get_u16(at + AT_MESSAGES);
    entry->queue_offset = (int64_t)rp_get_u64(at + AT_OFFSET);
    entry->store_timestamp_ms = (int64_t)rp_get_u64(at + AT_STORE_TIME);
    entry->tags_code = (int64_t)rp_get_u64(at + AT_TAGS_CODE);
    return rp_batch_entry_is_written(at);
}

/* Reads entry `number`. Returns 1; RP_E_NOT_FOUND if its file is gone or the entry was never written; else the error of the read. */
static int64_t entry_at(rp_consume_queue *queue, int64_t number, rp_queue_entry *entry, rp_error *error) {
    rp_mapped_file *file;
    const uint8_t *at = rp_consume_queue_pin_entry(queue, number, &file, error);
    if (at == NULL) {
        return error->status == 0 ? RP_E_NOT_FOUND : error->status;
    }
    int is_written = rp_batch_entry_read(at, entry);
    rp_mapped_file_release(file);
    return is_written ? 1 : RP_E_NOT_FOUND;
}

/* Readers receive a status only, so the cause goes to the log. */
static int64_t tell(const rp_consume_queue *queue, int64_t rc, const rp_error *error) {
    return rc < 0 && rp_status_is_passing((int)rc) ? rp_commit_log_tell_unreadable(queue->setup->log, error) : rc;
}

int rp_batch_queue_load(rp_consume_queue *queue, rp_error *error) {
    int64_t first = first_entry(queue), end = rp_consume_queue_end_entry(queue);
    rp_queue_entry oldest = {0}, newest = {0};
    rp_error local;
    error = error == NULL ? &local : error;
    int64_t rc = first < end ? entry_at(queue, first, &oldest, error) : 1;
    rc = rc == 1 && first < end ? entry_at(queue, end - 1, &newest, error) : rc;
    if (rc == RP_E_NOT_FOUND || (rc == 1 && newest.queue_offset < oldest.queue_offset)) {
        rc = rp_error_set(error, RP_E_CORRUPT, 0, rp_mapped_file_queue_directory(queue->row), first * RP_BATCH_ENTRY_SIZE,
                          "the entries of a batch queue are not in the order of their offsets");
    }
    if (rc == 1) {
        atomic_store(&queue->batch_max, newest.queue_offset + newest.messages);
        atomic_store(&queue->batch_min, oldest.queue_offset);
    }
    return rc == 1 ? RP_OK : (int)rc;
}

void rp_batch_queue_put(rp_consume_queue *queue, const rp_queue_entry *entry) {
    int64_t at = atomic_load_explicit(&queue->end_entry, memory_order_relaxed);
    rp_batch_entry_write(queue->active_address + (at * RP_BATCH_ENTRY_SIZE - queue->active->base_offset), entry);
    rp_batch_queue_show(queue, entry);
}

void rp_batch_queue_show(rp_consume_queue *queue, const rp_queue_entry *entry) {
    int64_t at = atomic_load_explicit(&queue->end_entry, memory_order_relaxed);
    if (atomic_load_explicit(&queue->first_entry, memory_order_relaxed) == at) { /* it was empty: its offsets begin here */
        atomic_store_explicit(&queue->batch_max, entry->queue_offset, memory_order_release);
        atomic_store_explicit(&queue->batch_min, entry->queue_offset, memory_order_release);
    }
    atomic_store_explicit(&queue->end_entry, at + 1, memory_order_release);
    atomic_store_explicit(&queue->batch_max, entry->queue_offset + entry->messages, memory_order_release);
}

int64_t rp_batch_queue_find(rp_consume_queue *queue, int64_t offset, int in_memory, rp_error *error) {
    int64_t first = first_entry(queue), end = rp_consume_queue_end_entry(queue);
    rp_queue_entry before;
    if (offset == INT64_MAX) {
        return end;
    }
    int64_t behind = rp_consume_queue_search(queue, first, end, AT_OFFSET, offset + 1, in_memory, error);
    if (behind <= first) {
        return behind;
    }
    int64_t rc = entry_at(queue, behind - 1, &before, error); /* in memory already: it was just read */
    if (rp_status_is_passing((int)rc)) {
        return rc;
    }
    return rc == 1 && before.queue_offset + before.messages > offset ? behind - 1 : behind;
}

int64_t rp_batch_queue_offset_of(rp_consume_queue *queue, int64_t number, rp_error *error) {
    rp_queue_entry entry;
    if (number >= rp_consume_queue_end_entry(queue)) {
        return rp_consume_queue_max_offset(queue);
    }
    int64_t rc = entry_at(queue, number, &entry, error);
    return rc == 1 ? entry.queue_offset : rc == RP_E_NOT_FOUND ? rp_consume_queue_max_offset(queue) : rc;
}

/* Copies entries from `number` on, as long as their offsets continue behind `offset`. An entry that does not continue is damaged and
 * ends the copy. */
static uint32_t copy(rp_consume_queue *queue, int64_t number, int64_t offset, rp_queue_entry *entries, uint32_t wanted, int64_t *rc,
                     rp_error *error) {
    uint32_t count = 0;
    for (; count < wanted && (*rc = entry_at(queue, number + count, &entries[count], error)) == 1; count++) {
        int64_t behind = entries[count].queue_offset + entries[count].messages;
        if (behind <= offset) {
            *rc = RP_E_NOT_FOUND;
            break;
        }
        offset = behind;
    }
    return count;
}

int64_t rp_batch_queue_read(rp_consume_queue *queue, int64_t offset, rp_queue_entry *entries, uint32_t entries_max) {
    int64_t max = rp_consume_queue_max_offset(queue), min = rp_consume_queue_min_offset(queue), rc = RP_OK;
    rp_error error;
    if (offset < min || offset > max) {
        return RP_E_RANGE;
    }
    if (offset == max || entries_max == 0) {
        return 0;
    }
    int64_t number = rp_batch_queue_find(queue, offset, 0, &error), end = rp_consume_queue_end_entry(queue);
    if (number < 0) {
        return tell(queue, number, &error);
    }
    uint32_t wanted = end - number < entries_max ? (uint32_t)(end - number) : entries_max;
    uint32_t count = copy(queue, number, offset, entries, wanted, &rc, &error);
    return count > 0 ? (int64_t)count : wanted == 0 ? RP_E_NOT_FOUND : tell(queue, rc, &error);
}

int64_t rp_batch_queue_read_before(rp_consume_queue *queue, int64_t offset, rp_queue_entry *entry) {
    int64_t first = first_entry(queue), end = rp_consume_queue_end_entry(queue);
    rp_error error;
    int64_t behind = rp_consume_queue_search(queue, first, end, AT_OFFSET, offset, 0, &error);
    int64_t rc = behind < 0 ? behind : behind == first ? RP_E_RANGE : entry_at(queue, behind - 1, entry, &error);
    return tell(queue, rc, &error);
}

/* For any time later than the last entry, RocketMQ returns the last entry's offset, and so does this: a client that asks for "now" reads
 * the last batch again. */
int64_t rp_batch_queue_offset_by_time(rp_consume_queue *queue, int64_t timestamp_ms, int boundary) {
    int64_t first = first_entry(queue), end = rp_consume_queue_end_entry(queue);
    int64_t above = boundary == 0 || timestamp_ms == INT64_MAX ? timestamp_ms : timestamp_ms + 1;
    rp_error error;
    int64_t found = rp_consume_queue_search(queue, first, end, AT_STORE_TIME, above, 0, &error);
    if (found > first && (boundary != 0 || found == end)) {
        found--;
    }
    return tell(queue, found < 0 ? found : rp_batch_queue_offset_of(queue, found, &error), &error);
}
