/* consume_queue.c: the readers' side of a queue. See consume_queue.h. */
#include "consume_queue.h"

#include "../base/bytes_inl.h"
#include "commit_log_writer.h"
#include "consume_queue_inl.h"
#include "read_in.h"

rp_slice rp_consume_queue_topic(const rp_consume_queue *queue) { return queue->topic; }
int32_t rp_consume_queue_id(const rp_consume_queue *queue) { return queue->id; }

int64_t rp_consume_queue_min_offset(const rp_consume_queue *queue) {
    return atomic_load_explicit(&queue->min_offset, memory_order_acquire);
}

int64_t rp_consume_queue_max_offset(const rp_consume_queue *queue) {
    return atomic_load_explicit(&queue->max_offset, memory_order_acquire);
}

int64_t rp_consume_queue_read(rp_consume_queue *queue, int64_t offset, rp_queue_entry *entries, uint32_t entries_max) {
    int64_t max = rp_consume_queue_max_offset(queue), min = rp_consume_queue_min_offset(queue);
    if (offset < min || offset > max) {
        return RP_E_RANGE;
    }
    uint32_t count = 0, wanted = max - offset < entries_max ? (uint32_t)(max - offset) : entries_max;
    while (count < wanted) {
        int64_t byte = (offset + count) * RP_CONSUME_QUEUE_ENTRY_SIZE;
        rp_error error;
        error.status = 0;
        rp_mapped_file *file = rp_mapped_file_queue_find(queue->row, byte, &error);
        if (file == NULL) {
            int rc = error.status == 0 ? RP_E_NOT_FOUND : rp_commit_log_tell_unreadable(queue->setup->log, &error);
            return count > 0 ? (int64_t)count : rc;
        }
        const uint8_t *at = rp_mapped_file_address(file) + (byte - file->base_offset);
        const uint8_t *end = rp_mapped_file_address(file) + file->size;
        for (; count < wanted && at < end; at += RP_CONSUME_QUEUE_ENTRY_SIZE, count++) {
            entries[count].commit_log_offset = (int64_t)rp_get_u64(at);
            entries[count].size = (int32_t)rp_get_u32(at + 8);
            entries[count].tags_code = (int64_t)rp_get_u64(at + 12);
        }
        rp_mapped_file_release(file);
    }
    return count;
}

/* What of the entries [offset, end) lies in one file. NULL: the file cannot be had. */
static rp_mapped_file *pin_piece(rp_consume_queue *queue, int64_t offset, int64_t end, const uint8_t **address, size_t *size) {
    rp_error error;
    int64_t begin_byte = offset * RP_CONSUME_QUEUE_ENTRY_SIZE, end_byte = end * RP_CONSUME_QUEUE_ENTRY_SIZE;
    rp_mapped_file *file = rp_mapped_file_queue_find(queue->row, begin_byte, &error);
    if (file != NULL) {
        int64_t in_file = begin_byte - file->base_offset, left = (int64_t)file->size - in_file;
        *address = rp_mapped_file_address(file) + in_file;
        *size = (size_t)(left < end_byte - begin_byte ? left : end_byte - begin_byte);
    }
    return file;
}

int rp_consume_queue_in_memory(rp_consume_queue *queue, int64_t offset, int64_t end) {
    const rp_file_ops *ops = queue->setup->ops;
    const uint8_t *address;
    size_t size;
    int all = 1;
    for (rp_mapped_file *file; offset < end && all; rp_mapped_file_release(file)) {
        if ((file = pin_piece(queue, offset, end, &address, &size)) == NULL) {
            return 1; /* nothing to wait for: reading them says what is wrong */
        }
        all = ops->in_memory(ops->context, address, size);
        offset += (int64_t)size / RP_CONSUME_QUEUE_ENTRY_SIZE;
    }
    return all;
}

void rp_consume_queue_read_in(rp_consume_queue *queue, int64_t offset, int64_t end) {
    const uint8_t *address;
    size_t size;
    rp_mapped_file *file;
    while (offset < end && (file = pin_piece(queue, offset, end, &address, &size)) != NULL) {
        rp_read_in(queue->setup->ops, address, size, -1, 0);
        offset += (int64_t)size / RP_CONSUME_QUEUE_ENTRY_SIZE;
        rp_mapped_file_release(file);
    }
}

void rp_consume_queue_set_waiting(rp_consume_queue *queue, uint16_t reactor_index) {
    atomic_fetch_or_explicit(&queue->waiting, (uint64_t)1 << (reactor_index & 63), memory_order_seq_cst);
}

void rp_consume_queue_clear_waiting(rp_consume_queue *queue, uint16_t reactor_index) {
    atomic_fetch_and_explicit(&queue->waiting, ~((uint64_t)1 << (reactor_index & 63)), memory_order_seq_cst);
}

rp_compaction_log *rp_consume_queue_compacted(const rp_consume_queue *queue) {
    return atomic_load_explicit(&queue->compacted, memory_order_acquire);
}

void rp_consume_queue_set_user(rp_consume_queue *queue, void *user) { atomic_store_explicit(&queue->user, user, memory_order_release); }

void *rp_consume_queue_user(const rp_consume_queue *queue) { return atomic_load_explicit(&queue->user, memory_order_acquire); }
