/* preallocation.c: see preallocation.h. */
#include "preallocation.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../base/page_inl.h"
#include "../base/thread.h"
#include "consume_queue_inl.h"
#include "consume_queue_space.h"
#include "mapped_file_inl.h"
#include "store_path.h"

#define PIECE_BYTES_MAX (256 * 1024)
#define ALLOCATE_BYTES (64 * 1024 * 1024) /* asked of the file system at once, for fewer extents */
/* Average size of a sync from which on zeroing ahead, which writes everything twice, costs the disk more than a journal commit. */
#define SYNC_BYTES_LARGE (256 * 1024)
#define SYNC_BYTES_MAX (4 * SYNC_BYTES_LARGE) /* a larger sync counts as this: a few huge ones must not hide that the rest are small */
#define SYNCS_AVERAGED 8
#define LEAD_OF_BLOCKS (4 * 1024 * 1024) /* the lead while it holds no zeros, since syncs may become small again */

/* In bytes; the chunk is a power of two. A thread that loses its core to a chunk waits for all of it, so the chunk is small; but under
 * RP_READY_FOR_SYNC each chunk costs a sync. */
static const struct {
    int64_t piece;  /* size of one write */
    int64_t chunk;  /* prepared under one hold of the lock */
    int64_t refill; /* how much of the lead is used up before the thread is woken; at most half of it */
} portions[] = {
    [RP_READY_FOR_ASYNC] = {PIECE_BYTES_MAX, PIECE_BYTES_MAX, PIECE_BYTES_MAX},
    [RP_READY_FOR_SYNC] = {16 * 1024, 1024 * 1024, 2 * 1024 * 1024},
};

struct rp_preallocation {
    const rp_file_ops *ops;    /* fixed */
    rp_mapped_file_queue *row; /* fixed */
    rp_log *log;               /* fixed */
    int64_t ahead_bytes;       /* fixed */
    int64_t refill;            /* fixed */
    int64_t chunk_bytes;       /* fixed */
    int64_t piece_bytes;       /* fixed */
    int64_t file_size;         /* fixed */
    int32_t mode;              /* fixed */
    /* Fixed: PIECE_BYTES_MAX of addresses, all mapped to the kernel's one page of zeros, which stays in the cache. */
    const uint8_t *zeros;
    void (*sync_failed)(void *context, const rp_error *error); /* fixed */
    void *context;             /* fixed */
    rp_thread *thread;         /* owner; set before the first append, NULL after the last */
    /* Owned by the thread: the file whose zeros it synced last, opened a second time for its syncs; NULL: none. */
    rp_mapped_file *reopened;
    const rp_mapped_file *reopened_of; /* owned by the thread: only compared */

    _Atomic int64_t ready_end; /* released after the bytes below it are ready; written under extend_lock; at most zeroed_end */
    _Atomic int64_t position;  /* the appender's position, a hint */
    _Atomic bool is_paused;    /* set by the appender during a write of its own: a hint */
    _Atomic int64_t sync_bytes; /* running average, owned by the thread that syncs; a hint for others */

    pthread_mutex_t extend_lock; /* after the append lock; before the row's */
    rp_mapped_file *file;        /* guarded by extend_lock: pinned, holds zeroed_end; NULL before the first extension */
    int64_t zeroed_end;          /* guarded by extend_lock: bytes below it have pages in the page cache, were claimed, or need no zeros */
    int64_t allocated_end;       /* guarded by extend_lock: bytes below it have disk space */
    /* 0: the file system cannot allocate, so only written bytes have space; written under extend_lock, a hint for others */
    _Atomic bool can_allocate;
    bool has_zeroed;             /* guarded by extend_lock: the last extension wrote zeros */
    int failing;                 /* guarded by extend_lock: the status that was reported, while extensions fail; else RP_OK */

    _Atomic(rp_consume_queue *)
        wanted; /* a stack of queues: pushed by appenders, taken whole by the thread; sequentially consistent against
                                         * awake */

    pthread_mutex_t wake_lock; /* leaf */
    pthread_cond_t wake;
    _Atomic bool awake; /* set by whoever wakes the thread, cleared by the thread before it checks for work; false positives are harmless */
    bool stopping; /* guarded by wake_lock */
};

/* Under extend_lock, or before thread and appender use it: starts over from position. */
static void reset(rp_preallocation *ahead, int64_t position) {
    if (ahead->file != NULL) {
        rp_mapped_file_release(ahead->file);
        ahead->file = NULL;
    }
    /* A page that holds written bytes has space already, and must not be zeroed. */
    int64_t from = position % ahead->file_size == 0 ? position : rp_page_end(position);
    int64_t file_end = position - position % ahead->file_size + ahead->file_size;
    from = from > file_end ? file_end : from;
    ahead->allocated_end = ahead->zeroed_end = from;
    atomic_store(&ahead->position, position);
    atomic_store(&ahead->ready_end, from);
}

int rp_preallocation_open(const rp_preallocation_options *options, rp_preallocation **out, rp_error *error) {
    rp_preallocation *ahead = calloc(1, sizeof *ahead);
    if (ahead == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for the preallocation");
    }
    void *zeros = mmap(NULL, PIECE_BYTES_MAX, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (zeros == MAP_FAILED) {
        free(ahead);
        return rp_error_set(error, RP_E_NO_MEMORY, errno, NULL, -1, "no address space for %d bytes of zeros", PIECE_BYTES_MAX);
    }
    ahead->zeros = zeros;
    ahead->ops = options->ops;
    ahead->row = options->row;
    ahead->log = options->log;
    ahead->ahead_bytes = (int64_t)(options->ahead_bytes < rp_page_size() ? rp_page_size() : options->ahead_bytes);
    ahead->piece_bytes = portions[options->mode].piece;
    ahead->chunk_bytes = portions[options->mode].chunk;
    ahead->refill = portions[options->mode].refill;
    ahead->file_size = (int64_t)rp_mapped_file_queue_file_size(options->row);
    ahead->mode = options->mode;
    ahead->sync_failed = options->sync_failed;
    ahead->context = options->context;
    pthread_mutex_init(&ahead->extend_lock, NULL);
    pthread_mutex_init(&ahead->wake_lock, NULL);
    pthread_cond_init(&ahead->wake, NULL);
    reset(ahead, options->position);
    *out = ahead;
    return RP_OK;
}

int rp_preallocation_move(rp_preallocation *ahead, int64_t position, rp_error *error) {
    pthread_mutex_lock(&ahead->extend_lock);
    reset(ahead, position);
    int rc = RP_OK;
    while (rc == RP_OK && rp_mapped_file_queue_end(ahead->row) > rp_mapped_file_queue_begin(ahead->row)) {
        rc = rp_mapped_file_queue_remove_last(ahead->row, error);
    }
    pthread_mutex_unlock(&ahead->extend_lock);
    return rc;
}

static int no_space(rp_preallocation *ahead, int64_t offset, int os_errno, rp_error *error) {
    char path[RP_PATH_MAX];
    (void)rp_path_of_offset(path, rp_mapped_file_queue_directory(ahead->row), offset - offset % ahead->file_size, NULL);
    return rp_error_set(error, rp_status_from_errno(os_errno), os_errno, path, offset % ahead->file_size,
                        "cannot allocate space for the commit log: %s; %s", strerror(os_errno), rp_write_remedy(os_errno, path));
}

/* Under extend_lock: makes the file that holds offset ahead->file. */
static int enter_file(rp_preallocation *ahead, int64_t offset, rp_error *error) {
    if (ahead->file != NULL && offset < ahead->file->base_offset + ahead->file_size) {
        return RP_OK;
    }
    rp_error local = {0};
    error = error == NULL ? &local : error;
    error->status = 0;
    bool exists = offset >= rp_mapped_file_queue_begin(ahead->row) && offset < rp_mapped_file_queue_end(ahead->row);
    rp_mapped_file *file =
        exists ? rp_mapped_file_queue_find(ahead->row, offset, error) : rp_mapped_file_queue_append(ahead->row, offset, error);
    if (file == NULL) {
        return error->status < 0 ? error->status : RP_E_IO;
    }
    if (!file->is_writable) { /* its descriptor is not writable either: writes would fail with a misleading error */
        int rc = rp_mapped_file_hold(file, rp_mapped_file_queue_directory(ahead->row), offset - file->base_offset, 1, error);
        rp_mapped_file_release(file);
        return rc;
    }
    if (ahead->file != NULL) {
        rp_mapped_file_release(ahead->file);
    }
    ahead->file = file;
    return RP_OK;
}

/* Under extend_lock. */
static int check_length(const rp_preallocation *ahead, rp_error *error) {
    return rp_mapped_file_check_length(ahead->file, rp_mapped_file_queue_directory(ahead->row), ahead->file->fd, error);
}

/* Under extend_lock: allocates [from, end) of ahead->file, and more than asked while space is plentiful. */
static int allocate(rp_preallocation *ahead, int64_t from, int64_t end, rp_error *error) {
    if (end <= ahead->allocated_end) {
        return RP_OK;
    }
    int64_t base = ahead->file->base_offset, file_end = base + ahead->file_size,
            start = from > ahead->allocated_end ? from : ahead->allocated_end;
    int64_t plenty = start + ALLOCATE_BYTES < file_end ? start + ALLOCATE_BYTES : file_end;
    int64_t ends[2] = {plenty > end ? plenty : end, end};
    int os_errno = 0, rc = check_length(ahead, error);
    for (int i = 0; i < 2 && rc == RP_OK; i++) {
        int allocated = ahead->ops->allocate(ahead->ops->context, ahead->file->fd, start - base, ends[i] - start);
        if (allocated >= 0) {
            atomic_store_explicit(&ahead->can_allocate, allocated == 0, memory_order_relaxed);
            ahead->allocated_end = ends[i];
            return RP_OK;
        }
        os_errno = errno;
        if (os_errno != ENOSPC && os_errno != EDQUOT && os_errno != EFBIG) {
            break;
        }
    }
    return rc == RP_OK ? no_space(ahead, start, os_errno, error) : rc;
}

static int write_zeros(rp_preallocation *ahead, int64_t from, int64_t end, rp_error *error) {
    int64_t base = ahead->file->base_offset, piece = ahead->piece_bytes;
    int rc = check_length(ahead, error);
    while (rc == RP_OK && from < end) {
        while (atomic_load_explicit(&ahead->is_paused, memory_order_relaxed)) {
            sched_yield();
        }
        int64_t piece_end = (from & ~(piece - 1)) + piece, stop = piece_end < end ? piece_end : end;
        int64_t count = ahead->ops->write_at(ahead->ops->context, ahead->file->fd, ahead->zeros, (size_t)(stop - from), from - base);
        if (count <= 0) {
            return no_space(ahead, from, count < 0 ? errno : ENOSPC, error);
        }
        from += count;
    }
    return rc;
}

static bool needs_zeros(const rp_preallocation *ahead) {
    return ahead->mode == RP_READY_FOR_ASYNC || !atomic_load_explicit(&ahead->can_allocate, memory_order_relaxed) ||
           atomic_load_explicit(&ahead->sync_bytes, memory_order_relaxed) < SYNC_BYTES_LARGE;
}

void rp_preallocation_count_sync(rp_preallocation *ahead, int64_t bytes) {
    int64_t average = atomic_load_explicit(&ahead->sync_bytes, memory_order_relaxed);
    bytes = bytes < SYNC_BYTES_MAX ? bytes : SYNC_BYTES_MAX;
    atomic_store_explicit(&ahead->sync_bytes, average + (bytes - average) / SYNCS_AVERAGED, memory_order_relaxed);
}

/* Under extend_lock: zeroes one more chunk, if zeros are of use, at least up to `end` as far as the file goes. */
static int extend(rp_preallocation *ahead, int64_t end, rp_error *error) {
    int64_t from = ahead->zeroed_end;
    int rc = enter_file(ahead, from, error);
    if (rc != RP_OK) {
        return rc;
    }
    int64_t file_end = ahead->file->base_offset + ahead->file_size, chunk = ahead->chunk_bytes, stop = (from & ~(chunk - 1)) + chunk;
    stop = stop < end ? rp_page_end(end) : stop;
    stop = stop < file_end ? stop : file_end;
    rc = allocate(ahead, from, stop, error);
    if (rc == RP_E_DISK_FULL && rp_page_end(end) < stop) {
        stop = rp_page_end(end);
        rc = allocate(ahead, from, stop, error);
    }
    ahead->has_zeroed = needs_zeros(ahead);
    rc = rc == RP_OK && ahead->has_zeroed ? write_zeros(ahead, from, stop, error) : rc;
    if (rc == RP_OK) {
        ahead->zeroed_end = stop;
    }
    return rc;
}

static void report(rp_preallocation *ahead, int rc, const rp_error *error) {
    if (rc != RP_OK && ahead->failing == RP_OK) {
        rp_log_write(ahead->log, RP_LOG_ERROR, "commit log: %s [%s]", error->message, error->file);
    } else if (rc == RP_OK && ahead->failing != RP_OK) {
        const char *cause = ahead->failing == RP_E_DISK_FULL ? "space is there again, " : "";
        rp_log_write(ahead->log, RP_LOG_INFO, "commit log: %swriting resumes", cause);
    }
    if (rc == RP_OK || ahead->failing == RP_OK) {
        ahead->failing = rc;
    }
}

/* Prepares everything below end, one step after the other. */
static int make_ready(rp_preallocation *ahead, int64_t end, int (*step)(rp_preallocation *, int64_t, rp_error *), rp_error *error) {
    rp_error local = {0};
    int rc = RP_OK;
    error = error == NULL ? &local : error;
    pthread_mutex_lock(&ahead->extend_lock);
    /* Bytes that were ready before say nothing about the disk now, so reaching them is not reported. */
    while (rc == RP_OK && ahead->zeroed_end < end) {
        rc = step(ahead, end, error);
        report(ahead, rc, error);
    }
    if (ahead->zeroed_end > atomic_load_explicit(&ahead->ready_end, memory_order_relaxed)) {
        /* Not mapped yet: the appender will take the faults. */
        atomic_store_explicit(&ahead->ready_end, ahead->zeroed_end, memory_order_release);
    }
    pthread_mutex_unlock(&ahead->extend_lock);
    return rc;
}

int rp_preallocation_require(rp_preallocation *ahead, int64_t end, rp_error *error) { return make_ready(ahead, end, extend, error); }

/* Under extend_lock: makes space for one more part of what is claimed. */
static int claim_some(rp_preallocation *ahead, int64_t end, rp_error *error) {
    int64_t from = ahead->zeroed_end;
    int rc = enter_file(ahead, from, error);
    if (rc != RP_OK) {
        return rc;
    }
    int64_t file_end = ahead->file->base_offset + ahead->file_size, stop = rp_page_end(end) < file_end ? rp_page_end(end) : file_end;
    rc = allocate(ahead, from, stop, error);
    if (rc == RP_OK) {
        ahead->zeroed_end = stop;
    }
    return rc;
}

int rp_preallocation_claim(rp_preallocation *ahead, int64_t end, rp_error *error) { return make_ready(ahead, end, claim_some, error); }

void rp_preallocation_pause(rp_preallocation *ahead) { atomic_store_explicit(&ahead->is_paused, true, memory_order_relaxed); }

void rp_preallocation_resume(rp_preallocation *ahead) { atomic_store_explicit(&ahead->is_paused, false, memory_order_relaxed); }

int64_t rp_preallocation_ready_end(const rp_preallocation *ahead) { return atomic_load_explicit(&ahead->ready_end, memory_order_acquire); }

static void wake_thread(rp_preallocation *ahead, bool stopping) {
    pthread_mutex_lock(&ahead->wake_lock);
    ahead->stopping = ahead->stopping || stopping;
    atomic_store(&ahead->awake, true);
    pthread_cond_signal(&ahead->wake);
    pthread_mutex_unlock(&ahead->wake_lock);
}

/* How far to stay ahead at `position`. The next file is always made in time. */
static int64_t lead_of(const rp_preallocation *ahead, int64_t position) {
    bool is_short = ahead->ahead_bytes > LEAD_OF_BLOCKS && position % ahead->file_size + ahead->ahead_bytes < ahead->file_size;
    return is_short && !needs_zeros(ahead) ? LEAD_OF_BLOCKS : ahead->ahead_bytes;
}

void rp_preallocation_advise(rp_preallocation *ahead, int64_t position) {
    atomic_store_explicit(&ahead->position, position, memory_order_relaxed);
    int64_t lead = lead_of(ahead, position), wake_below = lead - (lead / 2 < ahead->refill ? lead / 2 : ahead->refill);
    if (rp_preallocation_ready_end(ahead) - position < wake_below && !atomic_load_explicit(&ahead->awake, memory_order_relaxed)) {
        wake_thread(ahead, false);
    }
}

/* How far the thread may go: the lead, but at most to the end of the file after the one being written. */
static int64_t goal(const rp_preallocation *ahead) {
    int64_t position = atomic_load_explicit(&ahead->position, memory_order_relaxed), lead = position + lead_of(ahead, position);
    int64_t limit = position - position % ahead->file_size + 2 * ahead->file_size;
    return lead < limit ? lead : limit;
}

/* Opens the file a second time (rp_mapped_file_queue_reopen), unless it is open so already. */
static int reopen(rp_preallocation *ahead, const rp_mapped_file *file, rp_error *error) {
    if (ahead->reopened == NULL || ahead->reopened_of != file) {
        rp_mapped_file_queue_close_reopened(ahead->reopened);
        ahead->reopened = rp_mapped_file_queue_reopen(ahead->row, file, error);
        ahead->reopened_of = file;
    }
    return ahead->reopened != NULL ? RP_OK : error->status;
}

/* Zeros that cannot be synced for want of a file or a descriptor are synced with the records that replace them. */
static void sync_zeros(rp_preallocation *ahead, const rp_mapped_file *file, int64_t begin, int64_t end) {
    rp_error error = {0};
    if (reopen(ahead, file, &error) != RP_OK) {
        return;
    }
    int rc = rp_mapped_file_queue_sync_reopened(ahead->row, ahead->reopened, begin, end, &error);
    if (rc != RP_OK && rc != RP_E_NOT_FOUND && rc != RP_E_BUSY && ahead->sync_failed != NULL) {
        ahead->sync_failed(ahead->context, &error);
    }
}

/* Syncs the zeros outside the lock, so that the appender need not wait for the disk. If the appender overtakes, the bytes are written to
 * meanwhile; if the log has moved, their file, which is pinned, may have left the row. */
static void settle_zeros(rp_preallocation *ahead, rp_mapped_file *file, int64_t begin, int64_t end) {
    if (ahead->mode == RP_READY_FOR_SYNC) { /* the appender writes by system calls and needs no mapped pages */
        sync_zeros(ahead, file, begin, end);
    } else { /* a failure only costs faults later: blocks and pages are there */
        ahead->ops->populate(ahead->ops->context, rp_mapped_file_address(file) + (begin - file->base_offset), (size_t)(end - begin));
    }
}

/* Under extend_lock: will the file's blocks soon be used up, although the file goes on behind them? */
static bool is_short_of_blocks(const rp_preallocation *ahead) {
    return ahead->file != NULL && ahead->allocated_end - ahead->zeroed_end < ALLOCATE_BYTES / 2 &&
           ahead->allocated_end < ahead->file->base_offset + ahead->file_size;
}

/* Allocates disk space for the next extension while the lead is full: a file system that reads its bitmaps after a burst of writes takes
 * 40 to 140 ms, during which nobody can write to the file. A failure occurs again, and is reported, when the space is needed. */
static void allocate_ahead(rp_preallocation *ahead) {
    pthread_mutex_lock(&ahead->extend_lock);
    if (is_short_of_blocks(ahead)) {
        rp_error unused = {0};
        (void)allocate(ahead, ahead->allocated_end, ahead->allocated_end + 1, &unused);
    }
    pthread_mutex_unlock(&ahead->extend_lock);
}

static bool is_stopping(rp_preallocation *ahead) {
    pthread_mutex_lock(&ahead->wake_lock);
    bool stopping = ahead->stopping;
    pthread_mutex_unlock(&ahead->wake_lock);
    return stopping;
}

/* A lead is many chunks, and on a busy machine this thread seldom gets a core, so it checks between chunks whether to stop. */
static void work(rp_preallocation *ahead) {
    rp_error error = {0};
    int rc = RP_OK;
    while (rc == RP_OK && rp_preallocation_ready_end(ahead) < goal(ahead) && !is_stopping(ahead)) {
        pthread_mutex_lock(&ahead->extend_lock);
        int64_t begin = ahead->zeroed_end;
        rc = extend(ahead, begin + 1, &error);
        int64_t end = ahead->zeroed_end;
        bool has_zeroed = ahead->has_zeroed;
        rp_mapped_file *file = ahead->file;
        if (rc == RP_OK) {
            rp_mapped_file_pin(file); /* cannot fail: ahead holds a pin */
        }
        report(ahead, rc, &error);
        pthread_mutex_unlock(&ahead->extend_lock);
        if (rc == RP_OK) {
            if (has_zeroed) {
                settle_zeros(ahead, file, begin, end);
            }
            rp_mapped_file_release(file);
            pthread_mutex_lock(&ahead->extend_lock);
            end = end < ahead->zeroed_end ? end : ahead->zeroed_end; /* less if the log has moved */
            if (rp_preallocation_ready_end(ahead) < end) {
                atomic_store_explicit(&ahead->ready_end, end, memory_order_release);
            }
            pthread_mutex_unlock(&ahead->extend_lock);
        }
    }
    if (rc == RP_OK && !is_stopping(ahead)) {
        allocate_ahead(ahead);
    }
}

void rp_preallocation_step(rp_preallocation *ahead) {
    if (ahead->mode != RP_READY_FOR_SYNC || goal(ahead) - rp_preallocation_ready_end(ahead) < ahead->chunk_bytes || is_stopping(ahead) ||
        pthread_mutex_trylock(&ahead->extend_lock) != 0) {
        return;
    }
    rp_error error = {0};
    int64_t begin = ahead->zeroed_end;
    int rc = extend(ahead, begin + 1, &error);
    report(ahead, rc, &error);
    if (rc == RP_OK) {
        if (ahead->has_zeroed) {
            rp_file_begin_write_out(ahead->file->fd, begin - ahead->file->base_offset, (size_t)(ahead->zeroed_end - begin));
        }
        if (rp_preallocation_ready_end(ahead) < ahead->zeroed_end) {
            atomic_store_explicit(&ahead->ready_end, ahead->zeroed_end, memory_order_release);
        }
    }
    bool needs_blocks = rc == RP_OK && is_short_of_blocks(ahead);
    pthread_mutex_unlock(&ahead->extend_lock);
    if (needs_blocks) {
        wake_thread(ahead, false);
    }
}

void rp_preallocation_want_space(rp_preallocation *ahead, rp_consume_queue *queue) {
    if (ahead->thread == NULL || atomic_exchange(&queue->is_wanted, true)) {
        return;
    }
    rp_consume_queue *head = atomic_load_explicit(&ahead->wanted, memory_order_relaxed);
    do {
        queue->next_wanted = head;
    } while (!atomic_compare_exchange_weak_explicit(&ahead->wanted, &head, queue, memory_order_seq_cst, memory_order_relaxed));
    if (!atomic_load(&ahead->awake)) {
        wake_thread(ahead, false);
    }
}

/* A queue that cannot be extended asks again, or its appender gets the error, so errors are ignored here. */
static void extend_queues(rp_preallocation *ahead) {
    rp_consume_queue *queue = atomic_exchange(&ahead->wanted, NULL);
    while (queue != NULL) {
        rp_consume_queue *next = queue->next_wanted;
        rp_consume_queue_extend(queue, NULL);
        atomic_store(&queue->is_wanted, false);
        queue = next;
    }
}

static void run(void *context) {
    rp_preallocation *ahead = context;
    if (ahead->mode == RP_READY_FOR_ASYNC) {
        rp_thread_lower_priority(); /* the appender does its work if it falls behind */
    }
    for (;;) {
        pthread_mutex_lock(&ahead->wake_lock);
        while (!ahead->stopping && !atomic_load(&ahead->awake)) {
            pthread_cond_wait(&ahead->wake, &ahead->wake_lock);
        }
        bool stopping = ahead->stopping;
        pthread_mutex_unlock(&ahead->wake_lock);
        if (stopping) {
            return;
        }
        do {
            atomic_store(&ahead->awake, false); /* before checking: a request that comes during the check wakes it again */
            extend_queues(ahead);
            work(ahead);
        } while (atomic_load(&ahead->awake));
    }
}

int rp_preallocation_start(rp_preallocation *ahead, rp_error *error) {
    atomic_store(&ahead->awake, true); /* so that the first lead is made at once */
    int rc = rp_thread_start(&ahead->thread, "rp-prealloc", run, ahead);
    return rc == RP_OK ? RP_OK : rp_error_set(error, rc, 0, NULL, -1, "cannot start the preallocation thread: %s", rp_thread_refusal(rc));
}

void rp_preallocation_stop(rp_preallocation *ahead) {
    if (ahead != NULL && ahead->thread != NULL) {
        wake_thread(ahead, true);
        rp_thread_join(ahead->thread);
        ahead->thread = NULL;
    }
}

void rp_preallocation_close(rp_preallocation *ahead) {
    if (ahead != NULL) {
        rp_preallocation_stop(ahead);
        if (ahead->file != NULL) {
            rp_mapped_file_release(ahead->file);
        }
        rp_mapped_file_queue_close_reopened(ahead->reopened);
        munmap((void *)(uintptr_t)ahead->zeros, PIECE_BYTES_MAX);
        pthread_cond_destroy(&ahead->wake);
        pthread_mutex_destroy(&ahead->wake_lock);
        pthread_mutex_destroy(&ahead->extend_lock);
        free(ahead);
    }
}
