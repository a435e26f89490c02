/* consume_queue.c: the readers' side of a queue. See consume_queue.h. */
#include "consume_queue.h"

#include "../base/bytes_inl.h"
#include "batch_queue.h"
#include "commit_log_writer.h"
#include "consume_queue_inl.h"
#include "read_in.h"

rp_slice rp_consume_queue_topic(const rp_consume_queue *queue) { return queue->topic; }
int32_t rp_consume_queue_id(const rp_consume_queue *queue) { return queue->id; }
int rp_consume_queue_is_lite(const rp_consume_queue *queue) { return queue->is_lite; }

int rp_consume_queue_is_batch(const rp_consume_queue *queue) { return queue->is_batch; }

int64_t rp_consume_queue_min_offset(const rp_consume_queue *queue) {
    return atomic_load_explicit(__builtin_expect(queue->is_batch, 0) ? &queue->batch_min : &queue->first_entry, memory_order_acquire);
}

int64_t rp_consume_queue_max_offset(const rp_consume_queue *queue) {
    return atomic_load_explicit(__builtin_expect(queue->is_batch, 0) ? &queue->batch_max : &queue->end_entry, memory_order_acquire);
}

const uint8_t *rp_consume_queue_pin_entry(rp_consume_queue *queue, int64_t entry, rp_mapped_file **file, rp_error *error) {
    int64_t byte = entry * queue->entry_size;
    error->status = 0;
    *file = rp_mapped_file_queue_find(queue->row, byte, error);
    return *file != NULL ? rp_mapped_file_address(*file) + (byte - (*file)->base_offset) : NULL;
}

int64_t rp_consume_queue_search(rp_consume_queue *queue, int64_t low, int64_t high, uint32_t field_at, int64_t value, int in_memory,
                                rp_error *error) {
    const rp_file_ops *ops = queue->setup->ops;
    while (low < high) {
        int64_t middle = low + (high - low) / 2, found = INT64_MAX;
        rp_mapped_file *file;
        const uint8_t *at = rp_consume_queue_pin_entry(queue, middle, &file, error);
        if (at == NULL && error->status != 0 && error->status != RP_E_NOT_FOUND) {
            return error->status;
        }
        bool is_out = at != NULL && in_memory && !ops->in_memory(ops->context, at, queue->entry_size);
        if (at != NULL && !is_out && (int32_t)rp_get_u32(at + 8) > 0) {
            found = (int64_t)rp_get_u64(at + field_at);
        }
        if (file != NULL) {
            rp_mapped_file_release(file);
        }
        if (is_out) {
            return RP_E_BUSY;
        }
        if (found < value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

int64_t rp_consume_queue_read(rp_consume_queue *queue, int64_t offset, rp_queue_entry *entries, uint32_t entries_max) {
    if (__builtin_expect(queue->is_batch, 0)) {
        return rp_batch_queue_read(queue, offset, entries, entries_max);
    }
    int64_t max = rp_consume_queue_max_offset(queue), min = rp_consume_queue_min_offset(queue);
    if (offset < min || offset > max) {
        return RP_E_RANGE;
    }
    uint32_t count = 0, wanted = max - offset < entries_max ? (uint32_t)(max - offset) : entries_max;
    while (count < wanted) {
        rp_error error;
        rp_mapped_file *file;
        const uint8_t *at = rp_consume_queue_pin_entry(queue, offset + count, &file, &error);
        if (at == NULL) {
            int rc = error.status == 0 ? RP_E_NOT_FOUND : rp_commit_log_tell_unreadable(queue->setup->log, &error);
            return count > 0 ? (int64_t)count : rc;
        }
        const uint8_t *end = rp_mapped_file_address(file) + file->size;
        for (; count < wanted && at < end; at += RP_CONSUME_QUEUE_ENTRY_SIZE, count++) {
            entries[count].commit_log_offset = (int64_t)rp_get_u64(at);
            entries[count].size = (int32_t)rp_get_u32(at + 8);
            entries[count].messages = 1;
            entries[count].queue_offset = offset + count;
            entries[count].tags_code = (int64_t)rp_get_u64(at + 12);
        }
        rp_mapped_file_release(file);
    }
    return count;
}

int64_t rp_consume_queue_read_before(rp_consume_queue *queue, int64_t offset, rp_queue_entry *entry) {
    return queue->is_batch ? rp_batch_queue_read_before(queue, offset, entry) : rp_consume_queue_read(queue, offset - 1, entry, 1);
}

/* Pins the part of the entries [entry, end) that lies in one file. NULL: the file is not available. */
static rp_mapped_file *pin_piece(rp_consume_queue *queue, int64_t entry, int64_t end, const uint8_t **address, size_t *size) {
    rp_error error;
    rp_mapped_file *file;
    *address = rp_consume_queue_pin_entry(queue, entry, &file, &error);
    if (file != NULL) {
        int64_t left = (int64_t)file->size - (*address - rp_mapped_file_address(file)), wanted = (end - entry) * queue->entry_size;
        *size = (size_t)(left < wanted ? left : wanted);
    }
    return file;
}

/* Turns the offsets [*offset, *end) into numbers of entries. RP_OK, or an error of rp_batch_queue_find. */
static int entries_of(rp_consume_queue *queue, int64_t *offset, int64_t *end, int in_memory) {
    rp_error error;
    if (__builtin_expect(!queue->is_batch, 1) || *offset >= *end) {
        return RP_OK;
    }
    *offset = rp_batch_queue_find(queue, *offset, in_memory, &error);
    int64_t last = *offset < 0 ? *offset : rp_batch_queue_find(queue, *end - 1, in_memory, &error),
            behind = rp_consume_queue_end_entry(queue);
    *end = last < behind ? last + 1 : behind;
    return last < 0 ? (int)last : RP_OK;
}

int rp_consume_queue_in_memory(rp_consume_queue *queue, int64_t offset, int64_t end) {
    const rp_file_ops *ops = queue->setup->ops;
    const uint8_t *address;
    size_t size;
    int all = 1, rc = entries_of(queue, &offset, &end, 1);
    if (rc != RP_OK) {
        return rc != RP_E_BUSY;
    }
    for (rp_mapped_file *file; offset < end && all; rp_mapped_file_release(file)) {
        if ((file = pin_piece(queue, offset, end, &address, &size)) == NULL) {
            return 1; /* nothing to wait for: reading them reports what is wrong */
        }
        all = ops->in_memory(ops->context, address, size);
        offset += (int64_t)size / queue->entry_size;
    }
    return all;
}

void rp_consume_queue_read_in(rp_consume_queue *queue, int64_t offset, int64_t end) {
    const uint8_t *address;
    size_t size;
    rp_mapped_file *file;
    if (entries_of(queue, &offset, &end, 0) != RP_OK) {
        return;
    }
    while (offset < end && (file = pin_piece(queue, offset, end, &address, &size)) != NULL) {
        rp_read_in(queue->setup->ops, address, size, -1, 0);
        offset += (int64_t)size / queue->entry_size;
        rp_mapped_file_release(file);
    }
}

void rp_consume_queue_set_waiting(rp_consume_queue *queue, uint16_t reactor_index) {
    atomic_fetch_or_explicit(&queue->waiting, (uint64_t)1 << (reactor_index & 63), memory_order_seq_cst);
}

void rp_consume_queue_clear_waiting(rp_consume_queue *queue, uint16_t reactor_index) {
    atomic_fetch_and_explicit(&queue->waiting, ~((uint64_t)1 << (reactor_index & 63)), memory_order_seq_cst);
}

void rp_consume_queue_take_readers(rp_consume_queue *queue, rp_consume_queue *left) {
    void *user = rp_consume_queue_user(left);
    if (user != NULL) {
        rp_consume_queue_set_user(queue, user);
    }
    atomic_fetch_or_explicit(&queue->waiting, atomic_load_explicit(&left->waiting, memory_order_seq_cst), memory_order_seq_cst);
}

rp_compaction_log *rp_consume_queue_compacted(const rp_consume_queue *queue) {
    return atomic_load_explicit(&queue->compacted, memory_order_acquire);
}

void rp_consume_queue_set_user(rp_consume_queue *queue, void *user) { atomic_store_explicit(&queue->user, user, memory_order_release); }

void *rp_consume_queue_user(const rp_consume_queue *queue) { return atomic_load_explicit(&queue->user, memory_order_acquire); }
