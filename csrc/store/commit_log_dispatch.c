/* commit_log_dispatch.c: queue and index entries for records that are in the log already: a slave's, from its master, and our own that
 * were held back (commit_log_held.c). See commit_log.h.
 * RocketMQ: DefaultMessageStore.ReputMessageService (5.3.3 store/).
 *
 * Whole records are visited in order from the dispatched offset on, one round of them under one hold of the append lock: a backlog of a
 * quarter of an hour must not keep appends waiting.
 */
#include "commit_log.h"

#include <string.h>

#include "../base/bytes_inl.h"
#include "commit_log_inl.h"
#include "consume_queue_inl.h"
#include "index_key.h"
#include "message.h"

/* Checks the first bytes of a record. file_left: bytes to the end of the file they lie in. */
static int check_head(uint32_t size, uint32_t magic, int64_t file_left, rp_error *error) {
    if (magic == RP_MESSAGE_MAGIC_BLANK ? size != file_left : size > file_left) {
        return rp_error_set(error, RP_E_CORRUPT, 0, NULL, -1, "%u bytes do not fit to its file's end: set mappedFileSizeCommitLog as there",
                            size);
    }
    return RP_OK;
}

/* Looks at the head of what lies at `at`, `left` bytes before its file's end. *size: the size that the head gives (0: nothing is written
 * here), for an entry including its head; the bytes themselves may still be incomplete. RP_OK, RP_E_CORRUPT. */
static int look_at_head(const rp_commit_log *log, const uint8_t *at, int64_t left, uint32_t *size, bool *is_padding, rp_error *error) {
    uint32_t first = rp_get_u32(at), second = rp_get_u32(at + 4);
    if (log->head_size == 0) {
        *size = first;
        *is_padding = second == RP_MESSAGE_MAGIC_BLANK;
        return check_head(first, second, left, error);
    }
    *size = second;
    *is_padding = first == RP_LEDGER_MAGIC_BLANK;
    return (*is_padding && second == left) || (first == RP_LEDGER_MAGIC && second > RP_LEDGER_HEAD_SIZE && second <= left)
               ? RP_OK
               : rp_error_set(error, RP_E_CORRUPT, 0, NULL, -1, "no entry of the log, or one that does not fit to its file's end");
}

/* Visits the whole records of a piece that begins at log offset `begin`, as rp_commit_log_visit. *done: bytes visited; all of them if
 * the rest of the file is padding. */
static int visit_piece(rp_commit_log *log, int64_t begin, const rp_log_range *piece, rp_visit_record *visit, rp_dispatch_round *round,
                       int64_t *done, rp_error *error) {
    int64_t file_left = log->file_size - begin % log->file_size;
    while (piece->size - *done >= RP_MESSAGE_BLANK_SIZE_MIN && round->count < RP_WOKEN_QUEUES_MAX &&
           round->records < RP_ROUND_RECORDS_MAX) {
        rp_message message;
        const uint8_t *record = piece->address + *done;
        uint32_t size;
        bool is_padding;
        int rc = look_at_head(log, record, file_left - *done, &size, &is_padding, error);
        if (rc != RP_OK) {
            return rc;
        }
        if (size > piece->size - *done) {
            break; /* the rest has not arrived, or is not confirmed */
        }
        if (is_padding) {
            *done += size;
            break;
        }
        int64_t at = *done + log->head_size;
        int kind = rp_message_decode(record + log->head_size, (uint64_t)(piece->size - at), RP_CHECK_NO_CRC, &message, error);
        if (kind < 0) {
            return kind;
        }
        if (kind != RP_RECORD_MESSAGE || message.physical_offset != begin + at ||
            (log->head_size != 0 && at + message.size != *done + size)) {
            return rp_error_set(error, RP_E_CORRUPT, 0, NULL, -1, "zero bytes, or a record of another place");
        }
        rc = visit(log, &message, round, error);
        if (rc != RP_OK) {
            return rc;
        }
        round->records++;
        *done = at + message.size;
    }
    return RP_OK;
}

int rp_commit_log_visit(rp_commit_log *log, int64_t *offset, int64_t end, rp_visit_record *visit, rp_dispatch_round *round,
                        rp_error *error) {
    int64_t begin = *offset, file_end = begin - begin % log->file_size + log->file_size, done = 0;
    rp_log_range piece;
    end = end < file_end ? end : file_end;
    if (end <= begin) {
        return RP_OK;
    }
    int rc = rp_commit_log_read(log, begin, (uint32_t)(end - begin), &piece);
    if (rc != RP_OK) {
        return rp_error_set(error, rp_status_is_passing(rc) ? rc : RP_E_IO, 0, log->setup.directory, begin, "the log cannot be read: %s",
                            rp_status_text(rc));
    }
    rc = visit_piece(log, begin, &piece, visit, round, &done, error);
    rp_log_range_release(piece.pin);
    *offset = begin + done;
    return rc;
}

/* As the appender does (index_feed.h): a single key is hashed while the record is in the cache. For a message with more keys, or none,
 * the index thread reads the record. */
static void feed_index(rp_index_feed *feed, const rp_message *message) {
    rp_index_feed_entry fed = {message->physical_offset, message->store_timestamp_ms, message->size, RP_INDEX_HASH_UNKNOWN, 0};
    rp_index_keys keys = rp_index_keys_of(message);
    int has_one = keys.unique.data != NULL && keys.words.size == 0;
    if (has_one && (keys.tags.size == 0 || (fed.tags_hash = rp_index_tags_hash(message->topic, keys.tags)) > 0)) {
        fed.key_hash = rp_index_key_hash(message->topic, keys.unique);
    }
    rp_index_feed_put(feed, &fed);
}

/* Counts a record of the master; own records were counted by their append. */
static void count_record(rp_commit_log *log, const rp_message *message, int is_entered) {
    if (message->physical_offset < log->appended_end) {
        return;
    }
    if (is_entered && message->queue_offset == 0) {
        atomic_fetch_add_explicit(&log->queues_begun, 1, memory_order_relaxed);
    }
    atomic_store_explicit(&log->store_timestamp_ms, message->store_timestamp_ms, memory_order_release);
    atomic_store_explicit(&log->messages, atomic_load_explicit(&log->messages, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* Enters a record into its queue. A whole record that names an impossible queue is passed over and stays in the log: it harms nobody
 * (recovery.c does the same). */
static int enter_record(rp_commit_log *log, const rp_message *message, rp_dispatch_round *round, rp_error *error) {
    rp_consume_queue *const *queues;
    uint32_t count;
    int rc = log->dispatch(log->dispatch_context, message, &queues, &count, error);
    /* Also when another queue had no room: that one is retried, and these already have their entry then. */
    for (uint32_t i = 0; i < count; i++) {
        if (!queues[i]->is_in_round) {
            queues[i]->is_in_round = true;
            round->queues[round->count++] = queues[i];
        }
    }
    if (rc == RP_E_CORRUPT) {
        rp_log_write(log->setup.log, RP_LOG_WARNING, "record at %lld is in no queue: %s", (long long)message->physical_offset,
                     error->message);
    } else if (rc != RP_OK) {
        return rc;
    }
    if (log->index_feed != NULL) {
        feed_index(log->index_feed, message);
    }
    count_record(log, message, count > 0);
    return RP_OK;
}

/* Under the lock. Notes that the bytes at log->dispatched are no record. */
static void note_damage(rp_commit_log *log, const rp_error *cause) {
    int64_t at = rp_commit_log_dispatched_offset(log);
    rp_error_set(
        &log->damage, RP_E_CORRUPT, 0, log->setup.directory, at,
        "the master's bytes at %lld are not a record: %s; if `rocketpy store verify` says so of its log too, begin with a copy of its "
        "store, made while it is stopped, or with an empty one when it writes to a later file",
        (long long)at, cause->message);
    atomic_store_explicit(&log->damaged_at, at, memory_order_release);
}

int64_t rp_commit_log_damaged_at(const rp_commit_log *log, rp_error *error) {
    int64_t at = atomic_load_explicit(&log->damaged_at, memory_order_acquire);
    if (at >= 0 && error != NULL) {
        *error = log->damage;
    }
    return at;
}

int rp_commit_log_dispatch_round(rp_commit_log *log, rp_dispatch_round *round, rp_error *error) {
    int64_t begin = rp_commit_log_dispatched_offset(log), at = begin;
    if (rp_commit_log_failure(log, error) != RP_OK || rp_commit_log_damaged_at(log, error) >= 0) {
        return error->status;
    }
    int64_t end = log->position < log->dispatch_limit ? log->position : log->dispatch_limit;
    int rc = rp_commit_log_visit(log, &at, end, enter_record, round, error);
    atomic_store_explicit(&log->dispatched, at, memory_order_release);
    for (uint32_t i = 0; i < round->count; i++) {
        round->queues[i]->is_in_round = false;
    }
    if (rc == RP_E_CORRUPT) {
        note_damage(log, error);
    } else if (rc != RP_OK && log->dispatch_failed_at != at) {
        log->dispatch_failed_at = at;
        rp_log_write(log->setup.log, RP_LOG_ERROR,
                     "messages from log offset %lld on cannot be queued: %s [%s]; tried again every few seconds", (long long)at,
                     error->message, error->file);
    }
    return rc != RP_OK ? rc : at > begin;
}

void rp_commit_log_wake_round(rp_commit_log *log, const rp_dispatch_round *round) {
    for (uint32_t i = 0; i < round->count; i++) {
        uint64_t waiting = rp_consume_queue_waiting_after_put(round->queues[i]);
        if ((waiting != 0 || round->queues[i]->is_lite) && log->arrived != NULL) {
            log->arrived(log->arrived_context, round->queues[i], waiting);
        }
        if (round->queues[i]->is_delay_level && log->arrived != NULL) {
            log->arrived(log->arrived_context, round->queues[i], 0);
        }
    }
}

int rp_commit_log_dispatch_all(rp_commit_log *log, rp_error *error) {
    int more = 1;
    while (more > 0) {
        rp_dispatch_round round = {.count = 0};
        more = rp_commit_log_dispatch_round(log, &round, error);
        pthread_mutex_unlock(&log->append_lock);
        rp_commit_log_wake_round(log, &round);
        pthread_mutex_lock(&log->append_lock);
    }
    return more;
}

void rp_commit_log_dispatch_replicated(rp_commit_log *log) {
    pthread_mutex_lock(&log->append_lock);
    rp_error error = {0}; /* a line in the log reports it */
    int64_t before = rp_commit_log_dispatched_offset(log);
    (void)rp_commit_log_dispatch_all(log, &error);
    pthread_mutex_unlock(&log->append_lock);
    if (rp_commit_log_dispatched_offset(log) > before) {
        rp_commit_log_tell_followers(log);
    }
}

uint64_t rp_commit_log_queues_begun(const rp_commit_log *log) { return atomic_load_explicit(&log->queues_begun, memory_order_relaxed); }
