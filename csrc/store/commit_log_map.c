/* commit_log_map.c: stores to the commit log's mapped file, where a full disk may take back what was reserved (../base/map_hold.h). See
 * commit_log_inl.h. */
#include <errno.h>
#include <string.h>

#include "../base/map_hold.h"
#include "commit_log.h"
#include "commit_log_inl.h"
#include "mapped_file_inl.h"

int rp_commit_log_hold(rp_commit_log *log, uint32_t size) {
    const rp_mapped_file *file = log->active;
    rp_error error;
    int rc = rp_mapped_file_hold(file, rp_mapped_file_queue_directory(log->row), log->position - file->base_offset, size, &error);
    if (rc == RP_OK && __builtin_expect(log->staging.torn_end != 0, 0)) {
        rc = rp_log_staging_clear(&log->staging, log->position, file->fd, file->base_offset, (int64_t)file->size);
        if (rc != RP_OK) {
            rp_error_set(&error, rc, errno, log->setup.directory, log->position, "cannot clear what a failed append left: %s",
                         strerror(errno));
        }
    }
    if (__builtin_expect(rc != RP_OK, 0)) {
        rp_commit_log_tell_refused(log, &error);
    }
    return rc;
}

int rp_commit_log_store(rp_commit_log *log, uint32_t size, void (*store)(void *context), void *context) {
    int64_t at = log->position - log->active->base_offset;
    if (__builtin_expect(!log->active->copies_on_write, 1)) {
        store(context);
        return RP_OK;
    }
    if (rp_map_store(log->active_address + at, size, store, context)) {
        return RP_OK;
    }
    rp_commit_log_tell_taken(log, log->setup.directory);
    return RP_E_DISK_FULL;
}

void rp_commit_log_tell_taken(rp_commit_log *log, const char *directory) {
    rp_error error;
    rp_error_set(&error, RP_E_DISK_FULL, ENOSPC, directory, -1, "the space of a mapped file was taken back: %s; %s", strerror(ENOSPC),
                 rp_write_remedy(ENOSPC));
    rp_commit_log_tell_refused(log, &error);
}
