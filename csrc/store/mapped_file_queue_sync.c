/* mapped_file_queue_sync.c: makes a row of files durable: names, bytes, and zeros behind the last record. See mapped_file_queue.h. */
#include "mapped_file_queue_inl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "../base/page_inl.h"
#include "store_path.h"

static int sync_failed(const rp_mapped_file_queue *row, int64_t offset, rp_error *error) {
    return rp_error_set(error, RP_E_IO, errno, row->directory, offset, "sync failed: %s; what was written may be lost, check the disk",
                        strerror(errno));
}

/* A directory that could not be opened for want of descriptors has lost nothing: its sync can be retried. One that does not exist has
 * nothing to sync. */
static int names_failed(const rp_mapped_file_queue *row, int64_t offset, rp_error *error) {
    if (errno == ENOENT) {
        return rp_error_set(error, RP_E_NOT_FOUND, errno, row->directory, offset,
                            "the directory to sync is gone: put it back, or restart the broker");
    }
    if (errno != EMFILE && errno != ENFILE) {
        return sync_failed(row, offset, error);
    }
    return rp_error_set(error, RP_E_BUSY, errno, row->directory, offset,
                        "cannot open the directory to sync it: %s; raise the limit of open files, the sync is tried again",
                        strerror(errno));
}

/* Returns 0 when the names of all files made so far are on disk, whichever thread synced them. */
static int sync_names(rp_mapped_file_queue *row) {
    if (atomic_load(&row->synced_changes) == atomic_load(&row->name_changes)) {
        return 0;
    }
    pthread_mutex_lock(&row->name_lock);
    uint64_t changes = atomic_load(&row->name_changes);
    int failed = 0;
    if (atomic_load(&row->synced_changes) != changes) {
        failed = row->ops->sync_directory(row->ops->context, row->directory);
        if (failed == 0) {
            atomic_store(&row->synced_changes, changes);
        }
    }
    pthread_mutex_unlock(&row->name_lock);
    return failed;
}

uint64_t rp_mapped_file_queue_name_changes(const rp_mapped_file_queue *row) { return atomic_load(&row->name_changes); }

void rp_mapped_file_queue_names_are_synced(rp_mapped_file_queue *row, uint64_t changes) {
    pthread_mutex_lock(&row->name_lock);
    if (atomic_load(&row->synced_changes) < changes) {
        atomic_store(&row->synced_changes, changes);
    }
    pthread_mutex_unlock(&row->name_lock);
}

/* Syncs [begin, end) of the file, or all of it. */
static int sync_file(const rp_mapped_file_queue *row, const rp_mapped_file *file, int64_t begin, int64_t end, bool whole) {
    const rp_file_ops *ops = row->ops;
    if (whole && file->fd >= 0) {
        return ops->sync_data(ops->context, file->fd);
    }
    int64_t first = rp_page_begin(begin - file->base_offset);
    size_t size = (size_t)(end - file->base_offset - first);
    return ops->sync_range(ops->context, file->fd, rp_mapped_file_address(file) + first, first, size);
}

static int sync_pieces(rp_mapped_file_queue *row, int64_t begin, int64_t end, bool whole_files, rp_error *error) {
    if (sync_names(row) != 0) {
        return names_failed(row, begin, error);
    }
    while (begin < end) {
        rp_error refusal = {0};
        rp_mapped_file *file = rp_mapped_file_queue_find(row, begin, &refusal);
        if (file == NULL) {
            if (begin < atomic_load(&row->begin)) {
                begin = atomic_load(&row->begin); /* removed by retention meanwhile */
                continue;
            }
            if (rp_status_is_passing(refusal.status)) { /* no descriptor or no memory now: no sync has failed */
                *error = refusal;
                return error->status = RP_E_BUSY;
            }
            return rp_error_set(error, RP_E_NOT_FOUND, 0, row->directory, begin, "the file to sync is gone");
        }
        int64_t file_end = file->base_offset + (int64_t)file->size, stop = end < file_end ? end : file_end;
        int rc = sync_file(row, file, begin, stop, whole_files) != 0 ? sync_failed(row, begin, error) : RP_OK;
        rp_mapped_file_release(file);
        if (rc != RP_OK) {
            return rc;
        }
        begin = stop;
    }
    return RP_OK;
}

int rp_mapped_file_queue_sync(rp_mapped_file_queue *row, int64_t begin, int64_t end, rp_error *error) {
    return sync_pieces(row, begin, end, false, error);
}

rp_mapped_file *rp_mapped_file_queue_reopen(rp_mapped_file_queue *row, const rp_mapped_file *file, rp_error *error) {
    rp_mapped_file *reopened = rp_mapped_file_new(row->ops, file->base_offset, file->size);
    if (reopened == NULL) {
        rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, row->directory, -1, "no memory for a file of %llu bytes",
                     (unsigned long long)file->size);
        return NULL;
    }
    if (rp_mapped_file_queue_map(row, reopened, 0, error) != RP_OK) {
        rp_mapped_file_queue_close_reopened(reopened);
        return NULL;
    }
    return reopened;
}

void rp_mapped_file_queue_close_reopened(rp_mapped_file *reopened) {
    if (reopened != NULL) {
        rp_mapped_file_release(reopened);
        rp_mapped_file_free(reopened);
    }
}

int rp_mapped_file_queue_sync_reopened(rp_mapped_file_queue *row, const rp_mapped_file *reopened, int64_t begin, int64_t end,
                                       rp_error *error) {
    if (sync_names(row) != 0) {
        return names_failed(row, begin, error);
    }
    return sync_file(row, reopened, begin, end, false) != 0 ? sync_failed(row, begin, error) : RP_OK;
}

int rp_mapped_file_queue_sync_files(rp_mapped_file_queue *row, int64_t begin, int64_t end, rp_error *error) {
    return sync_pieces(row, begin, end, true, error);
}

/* Allocates the rest of the page that holds offset, where blocks are smaller than a page: the appender assumes that this page has all
 * its blocks, and on a disk that is full by then its store would be a SIGBUS. */
static int fill_page(const rp_file_ops *ops, int fd, int64_t offset, int64_t size) {
    int64_t page_end = rp_page_end(offset), end = page_end < size ? page_end : size;
    return rp_file_write_zeros(ops, fd, end - offset, offset);
}

/* The file is not truncated and lengthened again: a process killed in between would leave a file that no start takes for one of this
 * row. On a full disk, a file system that copies on write (btrfs) has no space even for a hole; bytes that are zeros already may stay
 * there. */
static int clear_bytes(const rp_file_ops *ops, int fd, int64_t offset, int64_t size) {
    if (ops->clear(ops->context, fd, offset, size - offset) == 0 && fill_page(ops, fd, offset, size) == 0) {
        return ops->sync_data(ops->context, fd);
    }
    int os_errno = errno;
    bool is_clear = (os_errno == ENOSPC || os_errno == EDQUOT) && rp_file_is_zero(ops, fd, offset, size);
    errno = os_errno;
    return is_clear ? 0 : -1;
}

int rp_mapped_file_queue_clear_tail(rp_mapped_file_queue *row, int64_t offset, rp_error *error) {
    const rp_file_ops *ops = row->ops;
    int64_t size = (int64_t)row->file_size, base = offset - offset % size;
    if (base < atomic_load(&row->begin) || base >= atomic_load(&row->end)) {
        return RP_OK;
    }
    char path[RP_PATH_MAX];
    int rc = rp_path_of_offset(path, row->directory, base, error);
    if (rc != RP_OK) {
        return rc;
    }
    int fd = ops->open(ops->context, path, O_RDWR, 0);
    if (fd < 0 || clear_bytes(ops, fd, offset - base, size) != 0) {
        rc = rp_error_set(error, rp_status_from_errno(errno), errno, path, offset - base,
                          "cannot clear what lies behind the last whole record: %s; free disk space or mend the disk, then start again",
                          strerror(errno));
    }
    if (fd >= 0) {
        ops->close(ops->context, fd);
    }
    return rc;
}
