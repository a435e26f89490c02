/* recovery.c: see recovery.h. */
#include "recovery.h"

#include <stdbool.h>
#include <string.h>

#include "consume_queue_writer.h"
#include "mapped_file_inl.h"

#define TIME_MARGIN_MS 3000 /* RocketMQ subtracts it from the checkpoint's times */

static rp_mapped_file_queue *files(const rp_recovery *recovery) { return rp_commit_log_files(recovery->commit_log); }

/* Decodes the record at offset into message, with a pin on *file that is exchanged as the offset moves on. */
static int decode_at(rp_recovery *recovery, int64_t offset, rp_mapped_file **file, rp_message *message, rp_error *error) {
    if (*file == NULL || offset >= (*file)->base_offset + (int64_t)(*file)->size || offset < (*file)->base_offset) {
        if (*file != NULL) {
            rp_mapped_file_release(*file);
        }
        *file = NULL;
        if (offset < rp_mapped_file_queue_begin(files(recovery)) || offset >= rp_mapped_file_queue_end(files(recovery))) {
            return RP_RECORD_END;
        }
        *file = rp_mapped_file_queue_find(files(recovery), offset, error);
        if (*file == NULL) {
            return RP_E_IO; /* not the end: a file that cannot be read must not cost what lies in it */
        }
    }
    uint64_t at = (uint64_t)(offset - (*file)->base_offset);
    if ((*file)->size - at < RP_MESSAGE_BLANK_SIZE_MIN) {
        return rp_error_set(error, RP_E_CORRUPT, 0, NULL, offset, "no room for a record before the end of the file");
    }
    int kind = rp_message_decode(rp_mapped_file_address(*file) + at, (*file)->size - at, recovery->check_crc, message, error);
    if (kind == RP_RECORD_BLANK && message->size != (*file)->size - at) {
        return rp_error_set(error, RP_E_CORRUPT, 0, NULL, offset, "padding of %u bytes does not end with its file", message->size);
    }
    if (kind == RP_RECORD_MESSAGE && message->physical_offset != offset) {
        return rp_error_set(error, RP_E_CORRUPT, 0, NULL, offset, "record says it lies at %lld", (long long)message->physical_offset);
    }
    return kind;
}

/* The file of the row that the checkpoint's times allow as a start, the first one when none is old enough. */
static int64_t start_by_time(rp_recovery *recovery) {
    const rp_checkpoint *checkpoint = recovery->checkpoint;
    int64_t time_ms = checkpoint->log_time_ms < checkpoint->queues_time_ms ? checkpoint->log_time_ms : checkpoint->queues_time_ms;
    int64_t size = (int64_t)rp_mapped_file_queue_file_size(files(recovery)), begin = rp_mapped_file_queue_begin(files(recovery));
    for (int64_t base = rp_mapped_file_queue_end(files(recovery)) - size; base > begin; base -= size) {
        rp_mapped_file *file = NULL;
        rp_message message;
        int kind = decode_at(recovery, base, &file, &message, NULL);
        if (file != NULL) {
            rp_mapped_file_release(file);
        }
        if (kind == RP_RECORD_MESSAGE && message.store_timestamp_ms != 0 && message.store_timestamp_ms <= time_ms - TIME_MARGIN_MS) {
            return base;
        }
    }
    return begin;
}

typedef struct queue_ends {
    rp_recovery *recovery;
    int64_t end;     /* of the record that the furthest entry points to */
    int64_t queues, entries;
    bool disagree;   /* an entry's record is not what the entry says */
    int rc;
    rp_error *error;
} queue_ends;

/* The last entry must point to a record that names the queue and the offset. */
static bool last_entry_is_true(rp_recovery *recovery, rp_consume_queue *queue, const rp_queue_entry *entry) {
    rp_mapped_file *file = NULL;
    rp_message message;
    rp_slice topic = rp_consume_queue_topic(queue);
    int kind = decode_at(recovery, entry->commit_log_offset, &file, &message, NULL);
    bool is_true = kind == RP_RECORD_MESSAGE && message.size == (uint32_t)entry->size && message.queue_id == rp_consume_queue_id(queue) &&
                   message.queue_offset == rp_consume_queue_max_offset(queue) - 1 && message.topic.size == topic.size &&
                   memcmp(message.topic.data, topic.data, topic.size) == 0;
    if (file != NULL) {
        rp_mapped_file_release(file);
    }
    return is_true;
}

static int look_at_queue(void *context, rp_consume_queue *queue) {
    queue_ends *ends = context;
    int64_t max = rp_consume_queue_max_offset(queue);
    rp_queue_entry last;
    ends->queues += max > 0;
    ends->entries += max;
    if (max == rp_consume_queue_min_offset(queue) || rp_consume_queue_read(queue, max - 1, &last, 1) != 1) {
        return 0;
    }
    if (last.commit_log_offset < rp_mapped_file_queue_begin(files(ends->recovery))) {
        return 0; /* its messages are gone; only the offset is kept */
    }
    if (!last_entry_is_true(ends->recovery, queue, &last)) {
        ends->disagree = true;
    } else if (last.commit_log_offset + last.size > ends->end) {
        ends->end = last.commit_log_offset + last.size;
    }
    return 0;
}

/* Where the pass over the log must begin. */
static int64_t choose_start(rp_recovery *recovery) {
    const rp_checkpoint *checkpoint = recovery->checkpoint;
    int64_t begin = rp_mapped_file_queue_begin(files(recovery)), end = rp_mapped_file_queue_end(files(recovery));
    if (recovery->queues_damaged) {
        return begin;
    }
    if (recovery->was_clean) {
        queue_ends ends = {.recovery = recovery, .end = begin};
        rp_queue_table_each(recovery->queues, look_at_queue, &ends);
        bool all_there = !checkpoint->is_exact || checkpoint->queue_count < 0 ||
                         (checkpoint->queue_count == ends.queues && checkpoint->entry_count == ends.entries);
        if (!ends.disagree && all_there) {
            return ends.end;
        }
        rp_log_write(recovery->log, RP_LOG_WARNING, "consume queues do not match the commit log: rebuilding them");
        recovery->queues_damaged = 1;
        return begin;
    }
    if (checkpoint->is_exact && checkpoint->queues_offset >= begin && checkpoint->queues_offset <= end) {
        return checkpoint->queues_offset;
    }
    return start_by_time(recovery);
}

/* Entries that point at or behind the start are not trusted after an unclean end. */
static int cut_queue(void *context, rp_consume_queue *queue) {
    queue_ends *ends = context;
    int64_t offset = ends->recovery->queues_damaged ? -1 : rp_consume_queue_offset_by_log_offset(queue, ends->end);
    if (offset < 0) {
        ends->rc = rp_consume_queue_clear(queue, ends->error);
    } else {
        ends->rc = rp_consume_queue_truncate(queue, offset, ends->error);
        if (ends->rc == RP_OK && !ends->recovery->was_clean) {
            ends->rc = rp_consume_queue_clear_tail(queue, ends->error);
        }
    }
    return ends->rc != RP_OK;
}

static int trim_queue(void *context, rp_consume_queue *queue) {
    queue_ends *ends = context;
    ends->rc = rp_consume_queue_trim(queue, ends->end, ends->error);
    return ends->rc != RP_OK;
}

static int each_queue(rp_recovery *recovery, int (*visit)(void *context, rp_consume_queue *queue), int64_t log_offset, rp_error *error) {
    queue_ends ends = {.recovery = recovery, .end = log_offset, .rc = RP_OK, .error = error};
    rp_queue_table_each(recovery->queues, visit, &ends);
    return ends.rc;
}

/* Reads records from start on and dispatches them; recovery->end is behind the last whole one. */
static int pass_over_log(rp_recovery *recovery, rp_error *error) {
    rp_mapped_file *file = NULL;
    rp_message message;
    int64_t offset = recovery->start;
    int rc = RP_OK;
    recovery->end = offset;
    while (rc == RP_OK) {
        int kind = decode_at(recovery, offset, &file, &message, &recovery->cause);
        if (kind == RP_RECORD_BLANK) {
            offset += message.size;
            continue;
        }
        if (kind < 0 && kind != RP_E_CORRUPT) {
            rc = kind;
            if (error != NULL) {
                *error = recovery->cause;
            }
            break;
        }
        if (kind != RP_RECORD_MESSAGE) {
            recovery->cut = kind < 0;
            break;
        }
        rc = recovery->read_only ? RP_OK : rp_dispatcher_apply(recovery->dispatcher, &message, error);
        if (rc == RP_E_CORRUPT) { /* a whole record that names an impossible queue: keep it, it hurts nobody */
            rp_log_write(recovery->log, RP_LOG_WARNING, "record at %lld is in no queue: %s", (long long)offset,
                         error != NULL ? error->message : "impossible topic, queue id or offset");
            rc = RP_OK;
        }
        offset += message.size;
        recovery->end = offset;
        recovery->store_timestamp_ms = message.store_timestamp_ms;
        recovery->records++;
    }
    if (file != NULL) {
        rp_mapped_file_release(file);
    }
    return rc;
}

/* The time of the record that ends at end, when the pass read none. */
static void find_last_time(rp_recovery *recovery) {
    if (recovery->records == 0) {
        recovery->store_timestamp_ms = recovery->checkpoint->log_time_ms;
    }
}

int rp_recovery_run(rp_recovery *recovery, rp_error *error) {
    int64_t begin = rp_mapped_file_queue_begin(files(recovery));
    recovery->start = choose_start(recovery);
    if (!recovery->was_clean || recovery->queues_damaged) {
        int rc = recovery->read_only ? RP_OK : each_queue(recovery, cut_queue, recovery->start, error);
        if (rc != RP_OK) {
            return rc;
        }
    }
    int rc = pass_over_log(recovery, error);
    if (rc != RP_OK) {
        return rc;
    }
    find_last_time(recovery);
    if (recovery->cut) {
        rp_log_write(recovery->log, RP_LOG_WARNING, "commit log ends at %lld: %s", (long long)recovery->end, recovery->cause.message);
    }
    if (recovery->read_only) {
        return RP_OK;
    }
    if (!recovery->was_clean || recovery->cut) {
        rc = rp_mapped_file_queue_clear_tail(files(recovery), recovery->end, error);
    }
    if (rc == RP_OK && recovery->was_clean && !recovery->queues_damaged) {
        rc = each_queue(recovery, cut_queue, recovery->end, error);
    }
    return rc == RP_OK ? each_queue(recovery, trim_queue, begin, error) : rc;
}
