/* commit_log_cut.c: cuts off the end of a log that follows while the store is open. See commit_log.h.
 *
 * The bytes are zeroed and synced first; then the log's end moves. After a kill in between, the next start finds the end at the zeros,
 * or behind records that were there before; nobody has been told of the cut yet. When a call fails in between, the log ends at the first
 * zero, and nothing is written there until the rest is zeroed too. Undispatched bytes are read only by syncs and by the thread that
 * sends them on to slaves, and a log that follows sends nothing on.
 */
#include "commit_log.h"

#include <string.h>

#include "commit_log_inl.h"

#define PIECE_BYTES_MAX (1 << 20)

void rp_commit_log_set_following(rp_commit_log *log, int follows) {
    pthread_mutex_lock(&log->append_lock);
    log->is_following = follows != 0;
    pthread_mutex_unlock(&log->append_lock);
}

void rp_commit_log_set_lease(rp_commit_log *log, int64_t until_ns) {
    atomic_store_explicit(&log->lease_until_ns, until_ns, memory_order_relaxed);
}

int64_t rp_commit_log_lease(const rp_commit_log *log) { return atomic_load_explicit(&log->lease_until_ns, memory_order_relaxed); }

/* Under the lock: zeroes one piece of one file. Returns how many bytes were zeroed, or a negative status. */
static int64_t clear_piece(rp_commit_log *log, int64_t begin, int64_t end, rp_error *error) {
    rp_error local = {0};
    error = error == NULL ? &local : error;
    error->status = RP_OK;
    int64_t file_end = begin - begin % log->file_size + log->file_size, stop = end < file_end ? end : file_end;
    stop = stop - begin > PIECE_BYTES_MAX ? begin + PIECE_BYTES_MAX : stop;
    rp_mapped_file *file = rp_mapped_file_queue_find(log->row, begin, error);
    if (file == NULL) {
        return error->status < 0 ? error->status
                                 : rp_error_set(error, RP_E_NOT_FOUND, 0, log->setup.directory, begin, "the file to be cut is gone");
    }
    int64_t at = begin - file->base_offset;
    int rc = rp_mapped_file_hold(file, log->setup.directory, at, (size_t)(stop - begin), error);
    if (rc == RP_OK) {
        rc = rp_mapped_file_clear(file, log->setup.directory, at, (size_t)(stop - begin), error);
    }
    rp_mapped_file_release(file);
    return rc == RP_OK ? stop - begin : rc;
}

/* Under the lock: zeroes begin..end and syncs. *cleared: the end of the bytes that were zeroed, also after a failure. */
static int clear_synced(rp_commit_log *log, int64_t begin, int64_t end, int64_t *cleared, rp_error *error) {
    for (*cleared = begin; *cleared < end;) {
        int64_t size = clear_piece(log, *cleared, end, error);
        if (size < 0) {
            return (int)size;
        }
        *cleared += size;
    }
    return rp_mapped_file_queue_sync(log->row, begin, end, error);
}

int rp_commit_log_clear_behind(rp_commit_log *log, rp_error *error) {
    rp_log_staging *staging = &log->staging;
    int64_t begin = log->position, end = log->uncleared_end, cleared;
    if (__builtin_expect(end <= begin && staging->torn_end <= begin, 1)) {
        return RP_OK;
    }
    if (end <= begin) {
        begin = staging->torn_begin > begin ? staging->torn_begin : begin;
    }
    int rc = clear_synced(log, begin, staging->torn_end > end ? staging->torn_end : end, &cleared, error);
    if (rc == RP_OK) {
        log->uncleared_end = staging->torn_end = 0;
    }
    return rc;
}

/* Under the lock: prepares what is ahead of the new end as after an open; the next append looks its file up again. */
static void move_end(rp_commit_log *log, int64_t offset) {
    if (log->active != NULL) {
        rp_mapped_file_release(log->active);
        log->active = NULL;
    }
    log->position = offset;
    log->dispatch_failed_at = -1;
    log->appended_end = log->appended_end < offset ? log->appended_end : offset;
    atomic_store_explicit(&log->max_offset, offset, memory_order_release);
    rp_commit_log_count_cut(log, offset);
}

static int check_cut(const rp_commit_log *log, int64_t offset, rp_error *error) {
    if (!log->is_following) {
        return rp_error_set(error, RP_E_INVALID, 0, log->setup.directory, offset, "the log of a master is not cut");
    }
    int64_t dispatched = rp_commit_log_dispatched_offset(log);
    if (offset < dispatched || offset > log->position) {
        return rp_error_set(
            error, RP_E_RANGE, 0, log->setup.directory, offset,
            "the log cannot be cut at %lld while the store is open: messages up to %lld are in their queues, its end is %lld",
            (long long)offset, (long long)dispatched, (long long)log->position);
    }
    return rp_commit_log_failure((rp_commit_log *)log, error);
}

int rp_commit_log_cut(rp_commit_log *log, int64_t offset, rp_error *error) {
    pthread_mutex_lock(&log->append_lock);
    int rc = check_cut(log, offset, error);
    /* A failed write may have left bytes behind the new end: they are cleared here, not again by the next write. */
    int64_t torn_end = log->staging.torn_end;
    int64_t end = torn_end > log->position ? torn_end : log->position, cleared;
    end = log->uncleared_end > end ? log->uncleared_end : end;
    if (rc == RP_OK && offset < end) {
        rc = clear_synced(log, offset, end, &cleared, error);
        if (cleared > offset) { /* zeroed bytes are no records any more, whether or not the zeros are on disk */
            move_end(log, offset);
            log->staging.torn_end = 0;
            log->uncleared_end = rc == RP_OK ? 0 : end;
        }
    }
    pthread_mutex_unlock(&log->append_lock);
    return rc;
}
