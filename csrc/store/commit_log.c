/* commit_log.c: open, reads by offset, end of life. The append is in commit_log_append.c. */
#include "commit_log.h"

#include <errno.h>
#include <stdlib.h>

#include "../base/clock_inl.h"
#include "../base/log_inl.h"
#include "commit_log_inl.h"
#include "message.h"
#include "read_in.h"

int rp_commit_log_open(const rp_commit_log_setup *setup, rp_commit_log **out, rp_error *error) {
    rp_commit_log *log = calloc(1, sizeof *log);
    rp_mapped_file_queue_options row = {.ops = setup->ops,
                                        .directory = setup->directory,
                                        .file_size = setup->file_size,
                                        .aside_directory = setup->aside_directory,
                                        .mode = setup->read_only ? RP_MAP_READ : RP_MAP_WRITE};
    if (log == NULL || rp_mapped_file_queue_create(&row, &log->row) != RP_OK) {
        free(log);
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, setup->directory, -1, "no memory for the commit log");
    }
    log->setup = *setup;
    atomic_store_explicit(&log->message_size_max, setup->message_size_max, memory_order_relaxed);
    rp_commit_log_set_append_timing(log, setup->busy_timeout_ms, setup->wait_timeout_ms);
    log->file_size = (int64_t)setup->file_size;
    log->head_size = setup->ledger_index != NULL ? RP_LEDGER_HEAD_SIZE : 0;
    log->is_following = log->head_size != 0; /* a log with entries has no leader at first */
    log->next_index = 0;
    atomic_init(&log->begin_index, -1);
    atomic_init(&log->end_index, -1);
    atomic_init(&log->end_term, -1);
    log->store_sys_flag = setup->store_host_is_v6 ? RP_SYSFLAG_STORE_V6 : 0;
    pthread_mutexattr_t adaptive; /* spins a little before it sleeps: the lock is held for microseconds */
    pthread_mutexattr_init(&adaptive);
    pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&log->append_lock, &adaptive);
    pthread_mutexattr_destroy(&adaptive);
    pthread_mutex_init(&log->failure_lock, NULL);
    pthread_mutex_init(&log->committed_lock, NULL);
    pthread_mutex_init(&log->flushed_lock, NULL);
    rp_monotonic_cond_init(&log->committed);
    atomic_init(&log->failure, RP_E_CLOSED); /* until recovery has found the end */
    int rc = setup->read_only ? RP_OK : rp_log_staging_open(&log->staging, setup->ops);
    rc = rc == RP_OK ? rp_mapped_file_queue_load(log->row, setup->unsynced_from, 1, error)
                     : rp_error_set(error, rc, ENOMEM, setup->directory, -1, "no memory for the commit log");
    if (rc != RP_OK) {
        rp_commit_log_close(log);
        return rc;
    }
    *out = log;
    return RP_OK;
}

static void sync_failed(void *context, const rp_error *error) { rp_commit_log_fail(context, RP_E_READ_ONLY, error); }

int rp_commit_log_set_end(rp_commit_log *log, int64_t end, int64_t dispatched, int64_t store_timestamp_ms, rp_error *error) {
    while (!log->setup.read_only && rp_mapped_file_queue_end(log->row) > rp_mapped_file_queue_begin(log->row) &&
           rp_mapped_file_queue_end(log->row) - log->file_size >= end) {
        int rc = rp_mapped_file_queue_set_last_aside(log->row, error);
        if (rc != RP_OK) {
            return rc;
        }
    }
    log->position = end;
    atomic_store_explicit(&log->dispatched, dispatched, memory_order_release);
    log->dispatch_failed_at = -1;
    log->dispatch_limit = dispatched < end || log->head_size != 0 ? dispatched : INT64_MAX;
    rp_commit_log_set_lease(log, INT64_MAX);
    atomic_init(&log->damaged_at, -1);
    atomic_store(&log->store_timestamp_ms, store_timestamp_ms);
    atomic_store(&log->flushed_offset, end);
    atomic_store_explicit(&log->max_offset, end, memory_order_release);
    atomic_store(&log->failure, log->setup.read_only ? RP_E_READ_ONLY : 0);
    if (log->setup.read_only) {
        return RP_OK;
    }
    rp_preallocation_options options = {.ops = log->setup.ops,
                                        .row = log->row,
                                        .log = log->setup.log,
                                        .ahead_bytes = log->setup.ahead_bytes,
                                        .mode = log->setup.ready_mode,
                                        .position = end,
                                        .sync_failed = sync_failed,
                                        .context = log};
    int rc = rp_preallocation_open(&options, &log->preallocation, error);
    log->ready_end = rc == RP_OK ? rp_preallocation_ready_end(log->preallocation) : 0;
    return rc;
}

int rp_commit_log_start(rp_commit_log *log, rp_error *error) { return rp_preallocation_start(log->preallocation, error); }

void rp_commit_log_step_ahead(rp_commit_log *log) { rp_preallocation_step(log->preallocation); }

void rp_commit_log_want_space(rp_commit_log *log, rp_consume_queue *queue) {
    if (log->preallocation != NULL) {
        rp_preallocation_want_space(log->preallocation, queue);
    }
}

int rp_commit_log_stop(rp_commit_log *log, rp_error *error) {
    rp_error closed = {.status = RP_E_CLOSED, .message = "the store is closed"};
    rp_commit_log_fail(log, RP_E_CLOSED, &closed);
    pthread_mutex_lock(&log->append_lock); /* wait for appends that had seen the log open */
    int rc = rp_commit_log_clear_behind(log, error);
    pthread_mutex_unlock(&log->append_lock);
    rp_preallocation_stop(log->preallocation);
    return rc;
}

int64_t rp_commit_log_dispatched_offset(const rp_commit_log *log) { return atomic_load_explicit(&log->dispatched, memory_order_acquire); }

void rp_commit_log_close(rp_commit_log *log) {
    if (log == NULL) {
        return;
    }
    rp_preallocation_close(log->preallocation);
    if (log->active != NULL) {
        rp_mapped_file_release(log->active);
    }
    rp_log_staging_close(&log->staging);
    free(log->inner_text);
    rp_mapped_file_queue_destroy(log->row);
    pthread_mutex_destroy(&log->append_lock);
    pthread_mutex_destroy(&log->failure_lock);
    pthread_mutex_destroy(&log->committed_lock);
    pthread_mutex_destroy(&log->flushed_lock);
    pthread_cond_destroy(&log->committed);
    free(log);
}

void rp_commit_log_feed_index(rp_commit_log *log, rp_index_feed *feed) { log->index_feed = feed; }

int rp_commit_log_add_follower(rp_commit_log *log, void (*appended)(void *context), void *context) {
    for (int i = 0; i < RP_LOG_FOLLOWERS_MAX; i++) {
        if (atomic_load_explicit(&log->followers[i].appended, memory_order_relaxed) == NULL) {
            atomic_store_explicit(&log->followers[i].context, context, memory_order_relaxed);
            atomic_store_explicit(&log->followers[i].appended, appended, memory_order_release);
            return RP_OK;
        }
    }
    return RP_E_BUSY;
}

void rp_commit_log_remove_follower(rp_commit_log *log, const void *context) {
    for (int i = 0; i < RP_LOG_FOLLOWERS_MAX; i++) {
        if (atomic_load_explicit(&log->followers[i].context, memory_order_relaxed) == context) {
            atomic_store_explicit(&log->followers[i].appended, NULL, memory_order_release);
        }
    }
}

void rp_commit_log_tell_followers(rp_commit_log *log) {
    for (int i = 0; i < RP_LOG_FOLLOWERS_MAX; i++) {
        void (*appended)(void *context) = atomic_load_explicit(&log->followers[i].appended, memory_order_acquire);
        if (appended != NULL) {
            appended(atomic_load_explicit(&log->followers[i].context, memory_order_relaxed));
        }
    }
}

void rp_commit_log_on_dispatch(rp_commit_log *log, rp_dispatch_record *dispatch, rp_dispatch_record *place, void *context) {
    log->dispatch = dispatch;
    log->place = place;
    log->dispatch_context = context;
}

rp_mapped_file_queue *rp_commit_log_files(const rp_commit_log *log) { return log->row; }

int64_t rp_commit_log_min_offset(const rp_commit_log *log) { return rp_mapped_file_queue_begin(log->row); }
int64_t rp_commit_log_max_offset(const rp_commit_log *log) { return atomic_load_explicit(&log->max_offset, memory_order_acquire); }
int64_t rp_commit_log_flushed_offset(const rp_commit_log *log) { return atomic_load(&log->flushed_offset); }
int64_t rp_commit_log_store_timestamp(const rp_commit_log *log) {
    return atomic_load_explicit(&log->store_timestamp_ms, memory_order_acquire);
}
uint64_t rp_commit_log_cuts(const rp_commit_log *log) { return atomic_load(&log->cuts); }

void rp_commit_log_set_synced(rp_commit_log *log, int64_t end, uint64_t cuts) {
    pthread_mutex_lock(&log->flushed_lock);
    if (rp_commit_log_cuts(log) == cuts) { /* otherwise other bytes may lie there now, even below where the sync began */
        rp_preallocation_count_sync(log->preallocation, end - atomic_load(&log->flushed_offset));
        atomic_store(&log->flushed_offset, end);
    }
    pthread_mutex_unlock(&log->flushed_lock);
}

void rp_commit_log_count_cut(rp_commit_log *log, int64_t offset) {
    pthread_mutex_lock(&log->flushed_lock);
    atomic_fetch_add(&log->cuts, 1);
    if (rp_commit_log_flushed_offset(log) > offset) {
        atomic_store(&log->flushed_offset, offset);
    }
    pthread_mutex_unlock(&log->flushed_lock);
}

void rp_commit_log_fail(rp_commit_log *log, int status, const rp_error *error) {
    pthread_mutex_lock(&log->failure_lock);
    int32_t before = atomic_load(&log->failure);
    if (before == 0) {
        log->failure_error = *error;
        atomic_store_explicit(&log->failure, status, memory_order_release);
    }
    pthread_mutex_unlock(&log->failure_lock);
    if (before == 0 && status != RP_E_CLOSED) {
        rp_log_write(log->setup.log, RP_LOG_ERROR, "commit log takes no more writes: %s [%s at %lld]", error->message, error->file,
                     (long long)error->offset);
    }
}

int rp_commit_log_failure(rp_commit_log *log, rp_error *error) {
    int32_t status = atomic_load_explicit(&log->failure, memory_order_acquire);
    if (status != 0 && error != NULL) {
        pthread_mutex_lock(&log->failure_lock);
        *error = log->failure_error;
        error->status = status;
        pthread_mutex_unlock(&log->failure_lock);
    }
    return status;
}

int rp_commit_log_tell_unreadable(rp_commit_log *log, const rp_error *error) {
    if (rp_log_is_due(&log->unreadable_due_ns)) {
        rp_log_write(log->setup.log, RP_LOG_ERROR, "store: %s [%s]; its readers %s", error->message, error->file,
                     rp_status_is_passing(error->status) ? "are told to come again" : "pass over what it held");
    }
    return error->status;
}

void rp_commit_log_tell_refused(rp_commit_log *log, const rp_error *error) {
    if (rp_log_is_due(&log->refused_due_ns)) {
        rp_log_write(log->setup.log, RP_LOG_ERROR, "sends are refused: %s [%s]", error->message, error->file);
    }
}

int rp_commit_log_read(rp_commit_log *log, int64_t offset, uint32_t size, rp_log_range *range) {
    int64_t max = rp_commit_log_max_offset(log);
    if (offset < 0 || offset > max || (int64_t)size > max - offset) {
        return RP_E_RANGE;
    }
    rp_error error;
    error.status = 0;
    rp_mapped_file *file = rp_mapped_file_queue_find(log->row, offset, &error);
    if (file == NULL) {
        return offset < rp_commit_log_min_offset(log) || error.status == 0 ? RP_E_RANGE : rp_commit_log_tell_unreadable(log, &error);
    }
    int64_t at = offset - file->base_offset;
    if ((uint64_t)at + size > file->size) {
        rp_mapped_file_release(file);
        return RP_E_RANGE;
    }
    range->address = rp_mapped_file_address(file) + at;
    range->size = size;
    range->fd = file->fd;
    range->file_offset = at;
    range->pin = file;
    return RP_OK;
}

void rp_log_range_release(void *pin) {
    if (pin != NULL) {
        rp_mapped_file_release(pin);
    }
}

/* Pins the part of [begin, end) that lies in one file. Returns 0 if none of it is in the log. */
static int pin_piece(rp_commit_log *log, int64_t begin, int64_t end, rp_log_range *piece) {
    int64_t file_size = (int64_t)rp_mapped_file_queue_file_size(log->row), file_end = begin - begin % file_size + file_size;
    int64_t stop = end < file_end ? end : file_end, max = rp_commit_log_max_offset(log);
    stop = stop < max ? stop : max;
    return begin >= 0 && begin < stop && rp_commit_log_read(log, begin, (uint32_t)(stop - begin), piece) == RP_OK;
}

int rp_commit_log_in_memory(rp_commit_log *log, int64_t begin, int64_t end) {
    const rp_file_ops *ops = log->setup.ops;
    int all = 1;
    while (begin < end && all) {
        rp_log_range piece;
        if (!pin_piece(log, begin, end, &piece)) {
            return 0;
        }
        all = ops->in_memory(ops->context, piece.address, piece.size);
        begin += piece.size;
        rp_log_range_release(piece.pin);
    }
    return all;
}

void rp_commit_log_read_in(rp_commit_log *log, int64_t begin, int64_t end) {
    rp_log_range piece;
    while (begin < end && pin_piece(log, begin, end, &piece)) {
        rp_read_in(log->setup.ops, piece.address, piece.size, piece.fd, piece.file_offset);
        begin += piece.size;
        rp_log_range_release(piece.pin);
    }
}
