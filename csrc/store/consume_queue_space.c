/* consume_queue_space.c: see consume_queue_space.h. */
#include "consume_queue_space.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "../base/page_inl.h"
#include "commit_log_inl.h"
#include "consume_queue_inl.h"
#include "store_path.h"

#define STEP_MAX (64 * 1024)

void rp_consume_queue_leave_file(rp_consume_queue *queue) {
    if (queue->active != NULL) {
        rp_mapped_file_release(queue->active);
        queue->active = NULL;
        queue->active_address = NULL;
        queue->active_end = 0;
        queue->allocated_end = 0;
        queue->wanted_entry = 0;
    }
}

/* Returns the pinned file that holds the byte; creates it if it is the row's next one. */
static rp_mapped_file *find_or_make_file(rp_consume_queue *queue, int64_t byte, rp_error *error) {
    if (byte >= rp_mapped_file_queue_begin(queue->row) && byte < rp_mapped_file_queue_end(queue->row)) {
        return rp_mapped_file_queue_find(queue->row, byte, error);
    }
    if (rp_mapped_file_queue_begin(queue->row) == rp_mapped_file_queue_end(queue->row) &&
        rp_path_make_directories(rp_mapped_file_queue_directory(queue->row), error) != RP_OK) {
        return NULL;
    }
    return rp_mapped_file_queue_append(queue->row, byte, error);
}

/* Returns where a step that makes room for the entry at byte `entry` of a file ends: at a page boundary, and behind all of the entry,
 * which may extend beyond its first page. */
static int64_t step_end(const rp_consume_queue *queue, int64_t entry) {
    int64_t from = rp_page_begin(entry), page_size = (int64_t)rp_page_size(),
            step = from < page_size  ? page_size
                   : from > STEP_MAX ? STEP_MAX
                                     : from,
            file_size = queue->setup->file_size;
    int64_t wanted = entry + queue->entry_size > from + step ? entry + queue->entry_size : from + step;
    int64_t end = rp_page_end(wanted);
    return end < file_size ? end : file_size;
}

/* True if the file is known to have blocks for all of bytes [from, end). */
static bool has_blocks(int fd, int64_t from, int64_t end) { return lseek(fd, (off_t)from, SEEK_HOLE) >= (off_t)end; }

/* Allocates blocks and pages for bytes [from, end) of the file. */
static int make_space(rp_consume_queue *queue, rp_mapped_file *file, int64_t from, int64_t end, rp_error *error) {
    const rp_file_ops *ops = queue->setup->ops;
    int64_t allocate_end = from >= STEP_MAX ? (int64_t)file->size : end;
    char path[RP_PATH_MAX];
    int rc = rp_path_of_offset(path, rp_mapped_file_queue_directory(queue->row), file->base_offset, error);
    if (rc != RP_OK) {
        return rc;
    }
    int fd = ops->open(ops->context, path, O_RDWR, 0), os_errno = errno;
    int failed = fd < 0;
    if (fd >= 0) {
        rc = rp_mapped_file_check_length(file, rp_mapped_file_queue_directory(queue->row), fd, error);
        if (rc != RP_OK) {
            ops->close(ops->context, fd);
            return rc;
        }
        failed = ops->allocate(ops->context, fd, from, allocate_end - from) < 0;
        if (failed && allocate_end != end) {
            failed = ops->allocate(ops->context, fd, from, end - from) < 0; /* a nearly full disk: allocate only what is needed */
        }
        os_errno = errno;
        /* xfs wants free blocks even where it has to allocate none. */
        bool is_full = os_errno == ENOSPC || os_errno == EDQUOT;
        failed = failed && !(is_full && has_blocks(fd, from, end));
        ops->close(ops->context, fd);
    }
    rp_file_map_random(rp_mapped_file_address(file), (size_t)file->size);
    if (!failed && ops->populate(ops->context, rp_mapped_file_address(file) + from, (size_t)(end - from)) != 0 && errno == EFAULT) {
        failed = 1; /* touching it would have been a SIGBUS: no space, on a file system that cannot allocate */
        os_errno = ENOSPC;
    }
    return failed ? rp_error_set(error, rp_status_from_errno(os_errno), os_errno, path, from,
                                 "no space for %lld bytes of queue entries: %s; %s", (long long)(end - from), strerror(os_errno),
                                 rp_write_remedy(os_errno, path))
                  : RP_OK;
}

/* Under the append lock: publishes that bytes below `end` of the active file have space. */
static void publish_space(rp_consume_queue *queue, int64_t end) {
    const rp_mapped_file *file = queue->active;
    int64_t entry = end == (int64_t)file->size ? queue->active_end : (file->base_offset + end) / queue->entry_size;
    if (entry > queue->allocated_end) {
        int64_t put = atomic_load_explicit(&queue->end_entry, memory_order_relaxed);
        queue->wanted_entry = put + (entry - put) / 2;
        queue->allocated_end = entry;
    }
}

static bool has_enough_files(const rp_consume_queue_setup *setup) {
    return setup->files_max > 0 && atomic_load_explicit(setup->files, memory_order_relaxed) >= setup->files_max;
}

int rp_consume_queue_prepare(rp_consume_queue *queue, rp_error *error) {
    if (rp_mapped_file_queue_end(queue->row) != 0 || rp_consume_queue_end_entry(queue) != 0) {
        return RP_OK;
    }
    rp_error local;
    error = error == NULL ? &local : error;
    error->status = RP_OK;
    if (has_enough_files(queue->setup)) {
        /* Not RP_E_NO_MEMORY, which would hit any queue: who delivers messages to many queues sets aside those for this one only. */
        int refused = rp_error_set(error, RP_E_IO, ENOMEM, rp_mapped_file_queue_directory(queue->row), -1,
                                   "a new queue needs a file, and those of the other queues are as many maps of this process as leave it "
                                   "room for its log and memory: delete topics, or raise vm.max_map_count (sysctl) and restart");
        rp_commit_log_tell_refused(queue->setup->log, error);
        return refused;
    }
    rp_mapped_file *file = find_or_make_file(queue, 0, error);
    int rc = file == NULL ? RP_E_IO : make_space(queue, file, 0, step_end(queue, 0), error);
    if (file != NULL) {
        rp_mapped_file_release(file);
    }
    if (rc != RP_OK && error->status != RP_OK) {
        rp_commit_log_tell_refused(queue->setup->log, error);
    }
    return rc;
}

/* Makes sure that the entry can be stored to the active file. */
static int hold_entry(const rp_consume_queue *queue, int64_t entry, rp_error *error) {
    return rp_mapped_file_hold(queue->active, rp_mapped_file_queue_directory(queue->row),
                               entry * queue->entry_size - queue->active->base_offset, queue->entry_size, error);
}

int rp_consume_queue_reserve(rp_consume_queue *queue, rp_error *error) {
    int64_t entry = atomic_load_explicit(&queue->end_entry, memory_order_relaxed) + queue->staged;
    if (__builtin_expect(entry < queue->allocated_end, 1)) {
        if (__builtin_expect(entry >= queue->wanted_entry, 0) && !atomic_load_explicit(&queue->is_wanted, memory_order_relaxed)) {
            rp_commit_log_want_space(queue->setup->log, queue);
        }
        return hold_entry(queue, entry, error);
    }
    rp_error local = {0};
    error = error == NULL ? &local : error;
    if (queue->active == NULL || entry >= queue->active_end) {
        rp_consume_queue_leave_file(queue);
        rp_mapped_file *file = find_or_make_file(queue, entry * queue->entry_size, error);
        if (file == NULL) {
            return error->status < 0 ? error->status : RP_E_IO;
        }
        queue->active = file;
        queue->active_address = rp_mapped_file_address(file);
        queue->active_end = (file->base_offset + (int64_t)file->size) / queue->entry_size;
    }
    int64_t in_file = entry * queue->entry_size - queue->active->base_offset, end = step_end(queue, in_file);
    int rc = make_space(queue, queue->active, rp_page_begin(in_file), end, error);
    if (rc == RP_OK) {
        publish_space(queue, end);
        rc = hold_entry(queue, entry, error);
    }
    return rc;
}

int rp_consume_queue_extend(rp_consume_queue *queue, rp_error *error) {
    rp_commit_log *log = queue->setup->log;
    pthread_mutex_lock(&log->append_lock);
    rp_mapped_file *file = queue->active;
    int64_t allocated = queue->allocated_end, file_end = queue->active_end;
    int pinned = file != NULL && rp_mapped_file_pin(file);
    pthread_mutex_unlock(&log->append_lock);
    int rc = RP_OK;
    if (pinned && allocated < file_end) {
        int64_t in_file = allocated * queue->entry_size - file->base_offset, end = step_end(queue, in_file);
        rc = make_space(queue, file, rp_page_begin(in_file), end, error);
        pthread_mutex_lock(&log->append_lock);
        if (rc == RP_OK && queue->active == file) { /* still the active file, so the space made is where entries are written */
            publish_space(queue, end);
        }
        pthread_mutex_unlock(&log->append_lock);
    } else if (pinned && rp_mapped_file_queue_end(queue->row) <= file_end * queue->entry_size) {
        rp_mapped_file *next = rp_mapped_file_queue_append_next(queue->row, file_end * queue->entry_size, error);
        rc = next == NULL ? RP_E_IO : make_space(queue, next, 0, step_end(queue, 0), error);
        if (next != NULL) {
            rp_mapped_file_release(next);
        }
    }
    if (pinned) {
        rp_mapped_file_release(file);
    }
    return rc;
}
