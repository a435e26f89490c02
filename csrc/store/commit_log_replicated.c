/* commit_log_replicated.c: takes over the bytes that a master has appended, unchanged. See commit_log_writer.h.
 *
 * The replicating thread is the only writer of a slave's log. Bytes may end in the middle of a record: they are published (a RocketMQ
 * slave counts them as held too) but dispatched only once the record is whole; recovery cuts an incomplete one off. Recovery would also
 * cut off bytes that are no record, with everything behind them; so once such bytes arrive, nothing more is accepted, and the slave
 * reports only what lies before them as held.
 */

#include <errno.h>
#include <string.h>

#include "commit_log.h"
#include "commit_log_inl.h"

static int damage_of(const rp_commit_log *log, rp_error *error) { return rp_commit_log_damaged_at(log, error) >= 0 ? RP_E_CORRUPT : RP_OK; }

/* Under the lock: lets an empty log start where its master says. */
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
        log->uncleared_end = log->staging.torn_end = 0; /* the files that these refer to are gone */
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
    rc = rc == RP_OK ? rp_commit_log_clear_behind(log, error) : rc;
    if (rc != RP_OK || offset == log->position) {
        return rc;
    }
    if (log->position == 0) {
        return rp_commit_log_start_at(log, offset, error);
    }
    return rp_error_set(error, RP_E_RANGE, 0, log->setup.directory, offset, "replicated bytes of offset %lld do not follow our end %lld",
                        (long long)offset, (long long)log->position);
}

/* Under the lock: makes sure that the first `stored` of the reserved bytes have space in the active file. */
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

/* Publishes and dispatches; *position is then the log's end. */
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
        rp_error local = {0}; /* failures of dispatch are logged and retried */
        (void)rp_commit_log_dispatch_all(log, &local);
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

/* Finds the file of the position, and how many of the `size` bytes go into it; makes sure that they have space there. */
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
        rp_mapped_file *file = NULL; /* stays the active file: only the replicating thread leaves it */
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
                                "cannot write the master's bytes: %s; %s", strerror(os_errno),
                                rp_write_remedy(os_errno, log->setup.directory));
        }
        rc = commit(log, offset, (uint32_t)moved, &position, error); /* no madvise: zeroing pages ahead of a backlog is wasted work */
        offset += moved;
        size -= (uint32_t)moved;
    }
    return rc;
}
