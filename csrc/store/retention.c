/* retention.c: see retention.h. */
#include "retention.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "commit_log_ledger.h"
#include "consume_queue_inl.h"
#include "mapped_file_inl.h"
#include "store_path.h"

#define STEP_BYTES (64 * 1024 * 1024)
#define STEP_REST_MS 10

/* A file that has left the row: its blocks are freed once nobody has it mapped. */
typedef struct leaving_file {
    rp_mapped_file *file; /* owned by the row, until that is destroyed */
    int fd;               /* keeps the blocks until it is closed; -1: it could not be opened, and they go with the last mapping */
    int64_t size;
} leaving_file;

struct rp_retention {
    rp_retention_setup setup; /* fixed */
    pthread_mutex_t lock;     /* before the append lock, the rows' and the index's */
    leaving_file leaving[RP_LEAVING_FILES_MAX]; /* guarded by lock */
    uint32_t leaving_count;                     /* guarded by lock */
    _Atomic uint64_t files_deleted, bytes_deleted; /* written under lock, relaxed */
    _Atomic uint32_t files_leaving;                /* leaving_count, for readers without the lock */
};

int rp_retention_open(const rp_retention_setup *setup, rp_retention **out, rp_error *error) {
    rp_retention *retention = calloc(1, sizeof *retention);
    if (retention == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for retention");
    }
    retention->setup = *setup;
    pthread_mutex_init(&retention->lock, NULL);
    *out = retention;
    return RP_OK;
}

void rp_retention_close(rp_retention *retention) {
    if (retention == NULL) {
        return;
    }
    for (uint32_t i = 0; i < retention->leaving_count; i++) {
        if (retention->leaving[i].fd >= 0) {
            retention->setup.ops->close(retention->setup.ops->context, retention->leaving[i].fd);
        }
    }
    pthread_mutex_destroy(&retention->lock);
    free(retention);
}

void rp_retention_lock(rp_retention *retention) { pthread_mutex_lock(&retention->lock); }
void rp_retention_unlock(rp_retention *retention) { pthread_mutex_unlock(&retention->lock); }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Returns the offset at or below which a file must end to be deleted. */
static int64_t deletable_end(const rp_retention *retention) {
    rp_commit_log *log = retention->setup.commit_log;
    int64_t size = (int64_t)rp_mapped_file_queue_file_size(rp_commit_log_files(log)), max = rp_commit_log_max_offset(log);
    int64_t end = least(least(rp_commit_log_flushed_offset(log), rp_commit_log_dispatched_offset(log)), max);
    if (retention->setup.compaction != NULL)
        end = least(end, rp_compaction_needed_from(retention->setup.compaction));
    return end - end % size;
}

static int trim_queue(void *context, rp_consume_queue *queue) {
    rp_retention *retention = context;
    rp_error error = {0};
    if (!atomic_load(&queue->deleted) &&
        rp_consume_queue_trim(queue, rp_commit_log_min_offset(retention->setup.commit_log), &error) != RP_OK) {
        rp_log_write(retention->setup.log, RP_LOG_WARNING, "retention: %s [%s]", error.message, error.file);
    }
    return 0;
}

/* True if the file has another name, as in a backup of hard links: its bytes must not be cut. */
static bool is_kept_elsewhere(int fd) {
    struct stat status;
    return fstat(fd, &status) != 0 || status.st_nlink > 0;
}

/* True if another process has it open (a query on the files, a copy): what it has mapped must not vanish, which would be a SIGBUS. The
 * kernel grants a write lease only for a file that nobody else has open, and without a name nobody can open it later, except through
 * /proc; an open while the lease is held sends us a signal, by default one that ends the process. */
static bool is_read_elsewhere(int fd) {
    (void)fcntl(fd, F_SETSIG, SIGURG); /* ignored by default */
    if (fcntl(fd, F_SETLEASE, F_WRLCK) != 0) {
        return errno == EAGAIN;
    }
    (void)fcntl(fd, F_SETLEASE, F_UNLCK);
    return false;
}

/* Under lock: frees the blocks of files that nobody reads any more, step by step. Pages that sendfile took last stay in use until the
 * network has sent them, and cutting a page or a folio in two zeroes the part behind the cut: so each cut is at a multiple of
 * STEP_BYTES, which no folio crosses. */
static void reclaim(rp_retention *retention) {
    const rp_file_ops *ops = retention->setup.ops;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < retention->leaving_count; i++) {
        leaving_file *leaving = &retention->leaving[i];
        if (atomic_load_explicit(&leaving->file->pins, memory_order_acquire) > 0) {
            retention->leaving[kept++] = *leaving;
            continue;
        }
        bool is_cut = leaving->fd >= 0 && leaving->size > STEP_BYTES && !is_kept_elsewhere(leaving->fd) && !is_read_elsewhere(leaving->fd);
        while (is_cut && leaving->size > STEP_BYTES) {
            leaving->size = (leaving->size - 1) / STEP_BYTES * STEP_BYTES;
            if (ops->truncate(ops->context, leaving->fd, leaving->size) != 0) {
                break; /* closing it frees the rest */
            }
            (void)poll(NULL, 0, STEP_REST_MS); /* a pace, not a signal: leaves the journal to others */
        }
        if (leaving->fd >= 0) {
            ops->close(ops->context, leaving->fd);
        }
    }
    retention->leaving_count = kept;
    atomic_store_explicit(&retention->files_leaving, kept, memory_order_relaxed);
}

uint32_t rp_retention_reclaim(rp_retention *retention) {
    pthread_mutex_lock(&retention->lock);
    reclaim(retention);
    uint32_t left = retention->leaving_count;
    pthread_mutex_unlock(&retention->lock);
    return left;
}

static void trim_ledger_index(rp_retention *retention) {
    rp_error error;
    if (retention->setup.ledger_index != NULL) {
        rp_commit_log_find_begin(retention->setup.commit_log);
        int64_t begin = rp_commit_log_begin_index(retention->setup.commit_log);
        if (begin >= 0 && rp_ledger_index_trim(retention->setup.ledger_index, begin, &error) != RP_OK) {
            rp_log_write(retention->setup.log, RP_LOG_WARNING, "retention: %s [%s]", error.message, error.file);
        }
    }
}

/* Under lock: takes the oldest file out of the row. Its descriptor, opened before the name is removed, keeps the blocks. */
static int remove_oldest(rp_retention *retention, rp_error *error) {
    const rp_file_ops *ops = retention->setup.ops;
    rp_mapped_file_queue *row = rp_commit_log_files(retention->setup.commit_log);
    int64_t begin = rp_mapped_file_queue_begin(row), size = (int64_t)rp_mapped_file_queue_file_size(row);
    char path[RP_PATH_MAX];
    rp_mapped_file *file = NULL;
    int rc = rp_path_of_offset(path, rp_mapped_file_queue_directory(row), begin, error);
    if (rc != RP_OK) {
        return rc;
    }
    /* Syncs names: a power cut must not bring back the file before without this one. */
    rc = rp_mapped_file_queue_sync(row, begin, begin, error);
    if (rc != RP_OK) {
        return rc;
    }
    int fd = ops->open(ops->context, path, O_RDWR, 0);
    rc = rp_mapped_file_queue_remove_first(row, &file, error);
    if (file != NULL) {
        retention->leaving[retention->leaving_count++] = (leaving_file){file, fd, size};
        atomic_store_explicit(&retention->files_deleted, retention->files_deleted + 1, memory_order_relaxed);
        atomic_store_explicit(&retention->bytes_deleted, retention->bytes_deleted + (uint64_t)size, memory_order_relaxed);
        rp_queue_table_each(retention->setup.queues, trim_queue, retention);
        if (retention->setup.index != NULL) {
            rp_key_index_delete_before(retention->setup.index, begin + size);
        }
        trim_ledger_index(retention);
    } else if (fd >= 0) {
        ops->close(ops->context, fd);
    }
    return rc;
}

int rp_retention_expire_file(rp_retention *retention, rp_error *error) {
    rp_commit_log *log = retention->setup.commit_log;
    int64_t size = (int64_t)rp_mapped_file_queue_file_size(rp_commit_log_files(log));
    const char *directory = rp_mapped_file_queue_directory(rp_commit_log_files(log));
    pthread_mutex_lock(&retention->lock);
    reclaim(retention);
    int rc;
    if (rp_commit_log_min_offset(log) + size > deletable_end(retention)) {
        rc = rp_error_set(error, RP_E_NOT_FOUND, 0, directory, -1, "every file of the commit log is still needed");
    } else if (retention->leaving_count == RP_LEAVING_FILES_MAX) {
        rc = rp_error_set(error, RP_E_BUSY, 0, directory, -1, "%d deleted files are still being read; look for readers that do not end",
                          RP_LEAVING_FILES_MAX);
    } else {
        rc = rp_flusher_checkpoint_log(retention->setup.flusher, rp_commit_log_min_offset(log) + size, error);
        rc = rc == RP_OK ? remove_oldest(retention, error) : rc;
        reclaim(retention);
    }
    pthread_mutex_unlock(&retention->lock);
    return rc;
}

void rp_retention_read_stats(const rp_retention *retention, rp_retention_stats *stats) {
    stats->files_deleted = atomic_load_explicit(&retention->files_deleted, memory_order_relaxed);
    stats->bytes_deleted = atomic_load_explicit(&retention->bytes_deleted, memory_order_relaxed);
    stats->files_leaving = atomic_load_explicit(&retention->files_leaving, memory_order_relaxed);
}
