/* commit_log_replicated.c: bytes that a master has appended, taken over as they are. See commit_log_writer.h.
 *
 * The replicating thread is the only writer of a slave's log. Bytes may end in the middle of a record: they are published (a slave of
 * RocketMQ counts them as held too) but dispatched only once the record is whole; recovery cuts an incomplete one off. It would cut off
 * what is no record too, with all that follows: so nothing more is taken then, and the slave vouches for what comes before it only.
 */

#include <errno.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "commit_log.h"
#include "commit_log_inl.h"
#include "consume_queue_writer.h"
#include "index_key.h"
#include "message.h"

#define WOKEN_QUEUES_MAX 64

/* Queues that got entries, to wake their readers outside the lock. */
typedef struct woken_queues {
    rp_consume_queue *queues[WOKEN_QUEUES_MAX];
    uint32_t count;
} woken_queues;

static int damage_of(const rp_commit_log *log, rp_error *error);

/* Under the lock: an empty log starts where its master says. */
int rp_commit_log_start_at(rp_commit_log *log, int64_t offset, rp_error *error) {
    if (offset % log->file_size != 0) {
        return rp_error_set(
            error, RP_E_RANGE, 0, log->setup.directory, offset,
            "an empty slave is sent offset %lld, which starts no file of mappedFileSizeCommitLog %lld: set it as on the master",
            (long long)offset, (long long)log->file_size);
    }
    if (log->active != NULL) {
        rp_mapped_file_release(log->active);
        log->active = NULL;
    }
    int rc = rp_preallocation_move(log->preallocation, offset, error);
    if (rc == RP_OK) {
        log->position = offset;
        atomic_store_explicit(&log->dispatched, offset, memory_order_release);
        log->ready_end = rp_preallocation_ready_end(log->preallocation);
        atomic_store_explicit(&log->flushed_offset, offset, memory_order_release);
        atomic_store_explicit(&log->max_offset, offset, memory_order_release);
    }
    return rc;
}

static int check_offset(rp_commit_log *log, int64_t offset, rp_error *error) {
    int rc = rp_commit_log_failure(log, error);
    rc = rc == RP_OK ? damage_of(log, error) : rc;
    if (rc != RP_OK || offset == log->position) {
        return rc;
    }
    if (log->position == 0) {
        return rp_commit_log_start_at(log, offset, error);
    }
    return rp_error_set(error, RP_E_RANGE, 0, log->setup.directory, offset, "replicated bytes of offset %lld do not follow our end %lld",
                        (long long)offset, (long long)log->position);
}

/* Under the lock: the first `stored` of the bytes that were reserved find space in the active file. */
static int hold(const rp_commit_log *log, uint32_t stored, uint32_t room, rp_error *error) {
    return rp_mapped_file_hold(log->active, log->setup.directory, log->position - log->active->base_offset, stored < room ? stored : room,
                               error);
}

int rp_commit_log_reserve_replicated(rp_commit_log *log, int64_t offset, uint32_t stored, uint8_t **address, uint32_t *room,
                                     rp_error *error) {
    pthread_mutex_lock(&log->append_lock);
    int rc = check_offset(log, offset, error);
    if (rc == RP_OK && log->position + 1 > log->ready_end) {
        rc = rp_preallocation_require(log->preallocation, log->position + 1, error);
    }
    if (rc == RP_OK && (log->active == NULL || log->position >= log->active_end)) {
        rc = rp_commit_log_enter_file(log, log->position, error);
    }
    if (rc == RP_OK) {
        log->ready_end = rp_preallocation_ready_end(log->preallocation);
        int64_t end = log->ready_end < log->active_end ? log->ready_end : log->active_end;
        int64_t left = end - log->position;
        *address = log->active_address + (log->position - log->active->base_offset);
        *room = left > INT32_MAX ? INT32_MAX : (uint32_t)left;
        rc = hold(log, stored, *room, error);
    }
    pthread_mutex_unlock(&log->append_lock);
    return rc;
}

/* What the first bytes of a record tell. file_left: bytes to the end of the file they lie in. */
static int check_head(uint32_t size, uint32_t magic, int64_t file_left, rp_error *error) {
    if (magic == RP_MESSAGE_MAGIC_BLANK ? size != file_left : size > file_left) {
        return rp_error_set(error, RP_E_CORRUPT, 0, NULL, -1, "%u bytes do not fit to its file's end: set mappedFileSizeCommitLog as there",
                            size);
    }
    return RP_OK;
}

/* What lies at `at`, `left` bytes before its file's end, of which `there` are there: *size bytes that are padding or, with *head before it,
 * a record, or neither yet. RP_OK, RP_E_CORRUPT. */
static int look_at_head(const rp_commit_log *log, const uint8_t *at, int64_t left, uint32_t *size, bool *is_padding, rp_error *error) {
    uint32_t first = rp_get_u32(at), second = rp_get_u32(at + 4);
    if (log->head_size == 0) {
        *size = first;
        *is_padding = second == RP_MESSAGE_MAGIC_BLANK;
        return check_head(first, second, left, error);
    }
    rp_ledger_entry entry;
    *size = second;
    *is_padding = first == RP_LEDGER_MAGIC_BLANK;
    if (first == RP_LEDGER_MAGIC && second > RP_LEDGER_HEAD_SIZE && second <= left) {
        return RP_OK;
    }
    return *is_padding && rp_ledger_entry_decode(at, (uint64_t)left, &entry) == RP_LEDGER_BLANK && second == left
               ? RP_OK
               : rp_error_set(error, RP_E_CORRUPT, 0, NULL, -1, "no entry of the log, or one that does not fit to its file's end");
}

/* As the appender does (index_feed.h): its one key is hashed while the record is in the cache. What has more keys, or none, goes by the
 * record. */
static void feed_index(rp_index_feed *feed, const rp_message *message) {
    rp_index_feed_entry fed = {message->physical_offset, message->store_timestamp_ms, message->size, RP_INDEX_HASH_UNKNOWN, 0};
    rp_index_keys keys = rp_index_keys_of(message);
    int has_one = keys.unique.data != NULL && keys.words.size == 0;
    if (has_one && (keys.tags.size == 0 || (fed.tags_hash = rp_index_tags_hash(message->topic, keys.tags)) > 0)) {
        fed.key_hash = rp_index_key_hash(message->topic, keys.unique);
    }
    rp_index_feed_put(feed, &fed);
}

/* Enters a record into its queue. A whole one that names an impossible queue stays: it hurts nobody (recovery.c does the same). */
static int enter_record(rp_commit_log *log, const rp_message *message, woken_queues *woken, rp_error *error) {
    rp_consume_queue *queue = NULL;
    int rc = log->dispatch(log->dispatch_context, message, &queue, error);
    if (rc == RP_E_CORRUPT) {
        rp_log_write(log->setup.log, RP_LOG_WARNING, "record at %lld is in no queue: %s", (long long)message->physical_offset,
                     error->message);
    } else if (rc != RP_OK) {
        return rc;
    }
    if (queue != NULL && (woken->count == 0 || woken->queues[woken->count - 1] != queue)) {
        woken->queues[woken->count++] = queue;
    }
    if (queue != NULL && message->queue_offset == 0) {
        atomic_fetch_add_explicit(&log->queues_begun, 1, memory_order_relaxed);
    }
    if (log->index_feed != NULL) {
        feed_index(log->index_feed, message);
    }
    if (log->head_size == 0 || log->is_following) { /* a leader's appends are ahead of what it dispatches */
        atomic_store_explicit(&log->store_timestamp_ms, message->store_timestamp_ms, memory_order_release);
    }
    atomic_store_explicit(&log->messages, atomic_load_explicit(&log->messages, memory_order_relaxed) + 1, memory_order_relaxed);
    return RP_OK;
}

/* One piece of the log in one file, from offset `begin` on, which is log->dispatched. *done: bytes dispatched, all of them when the rest
 * of the file is padding. RP_OK; RP_E_CORRUPT when what follows them is no record; what entering one failed with. */
static int dispatch_piece(rp_commit_log *log, int64_t begin, const rp_log_range *piece, woken_queues *woken, int64_t *done,
                          rp_error *error) {
    int64_t file_left = log->file_size - begin % log->file_size;
    while (piece->size - *done >= RP_MESSAGE_BLANK_SIZE_MIN && woken->count < WOKEN_QUEUES_MAX) {
        rp_message message;
        const uint8_t *record = piece->address + *done;
        uint32_t size;
        bool is_padding;
        int rc = look_at_head(log, record, file_left - *done, &size, &is_padding, error);
        if (rc != RP_OK) {
            return rc;
        }
        if (size > piece->size - *done) {
            break; /* the rest of it is still to come */
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
        if (kind != RP_RECORD_MESSAGE || message.physical_offset != begin + at || message.size + log->head_size != size) {
            return rp_error_set(error, RP_E_CORRUPT, 0, NULL, -1, "zero bytes, or a record of another place");
        }
        rc = enter_record(log, &message, woken, error);
        if (rc != RP_OK) {
            return rc;
        }
        *done = at + message.size;
    }
    return RP_OK;
}

/* Under the lock, at log->dispatched. */
static void note_damage(rp_commit_log *log, const rp_error *cause) {
    int64_t at = rp_commit_log_dispatched_offset(log);
    rp_error_set(
        &log->damage, RP_E_CORRUPT, 0, log->setup.directory, at,
        "the master's bytes at %lld are no record: %s; if `rocketpy store verify` says so of its log too, begin with a copy of its "
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

static int damage_of(const rp_commit_log *log, rp_error *error) { return rp_commit_log_damaged_at(log, error) >= 0 ? RP_E_CORRUPT : RP_OK; }

/* Under the lock: entries for the whole records from log->dispatched on. 1 when there may be more, 0 when not. */
static int dispatch_some(rp_commit_log *log, woken_queues *woken) {
    int64_t begin = rp_commit_log_dispatched_offset(log), file_end = begin - begin % log->file_size + log->file_size;
    int64_t end = log->position < file_end ? log->position : file_end;
    end = end < log->dispatch_limit ? end : log->dispatch_limit;
    rp_log_range piece;
    if (end <= begin || rp_commit_log_read(log, begin, (uint32_t)(end - begin), &piece) != RP_OK) {
        return 0;
    }
    rp_error error = {0};
    int64_t done = 0;
    int rc = dispatch_piece(log, begin, &piece, woken, &done, &error);
    rp_log_range_release(piece.pin);
    atomic_store_explicit(&log->dispatched, begin + done, memory_order_release);
    if (rc == RP_E_CORRUPT) {
        note_damage(log, &error);
    } else if (rc != RP_OK && log->dispatch_failed_at != begin + done) {
        log->dispatch_failed_at = begin + done;
        rp_log_write(log->setup.log, RP_LOG_ERROR,
                     "replicated messages from log offset %lld on cannot be queued: %s [%s]; tried again every few seconds",
                     (long long)log->dispatch_failed_at, error.message, error.file);
    }
    return rc == RP_OK && done > 0;
}

static void wake(rp_commit_log *log, const woken_queues *woken) {
    for (uint32_t i = 0; i < woken->count; i++) {
        uint64_t waiting = rp_consume_queue_waiting_after_put(woken->queues[i]);
        if (waiting != 0 && log->arrived != NULL) {
            log->arrived(log->arrived_context, woken->queues[i], waiting);
        }
    }
}

/* Under the lock, which is given up to wake readers. */
static void dispatch_all(rp_commit_log *log) {
    for (int more = 1; more;) {
        woken_queues woken = {.count = 0};
        more = dispatch_some(log, &woken);
        pthread_mutex_unlock(&log->append_lock);
        wake(log, &woken);
        pthread_mutex_lock(&log->append_lock);
    }
}

void rp_commit_log_dispatch_replicated(rp_commit_log *log) {
    pthread_mutex_lock(&log->append_lock);
    int64_t before = rp_commit_log_dispatched_offset(log);
    if (rp_commit_log_failure(log, NULL) == RP_OK && damage_of(log, NULL) == RP_OK) {
        dispatch_all(log);
    }
    pthread_mutex_unlock(&log->append_lock);
    if (rp_commit_log_dispatched_offset(log) > before) {
        rp_commit_log_tell_followers(log);
    }
}

uint64_t rp_commit_log_queues_begun(const rp_commit_log *log) { return atomic_load_explicit(&log->queues_begun, memory_order_relaxed); }

/* Publishes and dispatches; *position is the log's end then. */
static int commit(rp_commit_log *log, int64_t offset, uint32_t size, int64_t *position, rp_error *error) {
    pthread_mutex_lock(&log->append_lock);
    int rc = rp_commit_log_failure(log, error);
    if (rc == RP_OK && (offset != log->position || (int64_t)size > log->active_end - log->position)) {
        rc = rp_error_set(error, RP_E_INVALID, 0, log->setup.directory, offset, "%u bytes were not reserved at offset %lld", size,
                          (long long)offset);
    }
    if (rc == RP_OK) {
        log->position += size;
        atomic_store_explicit(&log->max_offset, log->position, memory_order_release);
        atomic_store_explicit(&log->bytes, atomic_load_explicit(&log->bytes, memory_order_relaxed) + size, memory_order_relaxed);
        dispatch_all(log);
    }
    *position = log->position;
    pthread_mutex_unlock(&log->append_lock);
    if (rc == RP_OK) {
        rp_commit_log_tell_followers(log);
        rc = damage_of(log, error);
    }
    return rc;
}

int rp_commit_log_commit_replicated(rp_commit_log *log, int64_t offset, uint32_t size, rp_error *error) {
    int64_t position;
    int rc = commit(log, offset, size, &position, error);
    if (rc == RP_OK) {
        rp_preallocation_advise(log->preallocation, position);
    }
    return rc;
}

/* The file of the position and how many of the `size` bytes belong into it: they have space there. */
static int claim(rp_commit_log *log, int64_t offset, uint32_t size, rp_mapped_file **file, uint32_t *room, rp_error *error) {
    pthread_mutex_lock(&log->append_lock);
    int rc = check_offset(log, offset, error);
    int64_t file_end = offset - offset % log->file_size + log->file_size;
    *room = size < file_end - offset ? size : (uint32_t)(file_end - offset);
    rc = rc == RP_OK ? rp_preallocation_claim(log->preallocation, offset + *room, error) : rc;
    if (rc == RP_OK && (log->active == NULL || offset >= log->active_end)) {
        rc = rp_commit_log_enter_file(log, offset, error);
    }
    *file = log->active;
    pthread_mutex_unlock(&log->append_lock);
    return rc;
}

int rp_commit_log_splice_replicated(rp_commit_log *log, int64_t offset, int pipe_fd, uint32_t size, rp_error *error) {
    const rp_file_ops *ops = log->setup.ops;
    int rc = RP_OK;
    while (size > 0 && rc == RP_OK) {
        rp_mapped_file *file = NULL; /* stays the active one: who replicates is the only one to leave it */
        uint32_t room = 0;
        int64_t position;
        rc = claim(log, offset, size, &file, &room, error);
        if (rc != RP_OK) {
            break;
        }
        int64_t moved = ops->splice_at(ops->context, pipe_fd, file->fd, room, offset - file->base_offset);
        if (moved <= 0) {
            int os_errno = moved < 0 ? errno : EIO;
            return rp_error_set(error, rp_status_from_errno(os_errno), os_errno, log->setup.directory, offset,
                                "cannot write the master's bytes: %s; %s", strerror(os_errno), rp_write_remedy(os_errno));
        }
        rc = commit(log, offset, (uint32_t)moved, &position, error); /* no advice: zeros ahead of a backlog are made in vain */
        offset += moved;
        size -= (uint32_t)moved;
    }
    return rc;
}
