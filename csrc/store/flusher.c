/* flusher.c: see flusher.h. */
#include "flusher.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "../base/clock_inl.h"
#include "../base/thread.h"
#include "consume_queue.h"

#define PAGE_SIZE 4096
#define CUT_SYNCS_MAX 8 /* for a waiter: a sync during which the log was cut proves nothing and is repeated, this often at most */
#define QUEUE_LEAST_PAGES 2 /* flushConsumeQueueLeastPages */

struct rp_flusher {
    rp_flusher_setup setup; /* fixed; its checkpoint is guarded by queue_lock */
    rp_thread *thread;      /* thread of the log */
    rp_thread *queue_thread; /* thread of the queues and the checkpoint */
    pthread_mutex_t tell_lock; /* held while `flushed` runs, so removing the callback waits for it; leaf */
    void (*flushed)(void *context, int64_t flushed_offset); /* guarded by tell_lock */
    void *flushed_context;

    pthread_mutex_t sync_lock; /* not held over the sync itself */
    pthread_cond_t synced;     /* a sync has ended */
    _Atomic bool is_syncing;   /* a leader is syncing; guarded by sync_lock, and read without it as a hint */
    _Atomic bool is_owed;      /* a sync could not begin, so the log's thread must retry it. Written by the leader */
    pthread_mutex_t queue_lock; /* held over one pass over the queues and the checkpoint's write */
    _Atomic int64_t checkpointed; /* flushed offset in the checkpoint on disk; written under queue_lock */
    bool is_ahead;              /* guarded by queue_lock: the checkpoint on disk claims more than is synced */
    int64_t index_count;        /* guarded by queue_lock: number of index files after close; -1: unknown */
    bool queues_failed;         /* guarded by queue_lock: a queue's sync failed in this run */
    _Atomic uint64_t flushes, flush_ns_total, flush_ns_max; /* written by the leader, relaxed */

    pthread_mutex_t wake_lock; /* leaf */
    pthread_cond_t wake, queue_wake; /* one for each thread */
    _Atomic int64_t requested; /* highest offset requested without waiting; a cut may have moved the log's end below it */
    _Atomic bool is_resting;   /* the log's thread is checking `requested` before it sleeps */
    rp_flush_timing timing;    /* guarded by wake_lock */
    uint64_t retimed;          /* guarded by wake_lock: counts changes of timing */
    bool stopping;             /* guarded by wake_lock */
};

int rp_flusher_open(const rp_flusher_setup *setup, rp_flusher **out, rp_error *error) {
    rp_flusher *flusher = calloc(1, sizeof *flusher);
    if (flusher == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for the flusher");
    }
    flusher->setup = *setup;
    flusher->timing = setup->timing;
    flusher->index_count = -1;
    atomic_init(&flusher->checkpointed, setup->checkpoint.flushed_offset);
    pthread_mutex_init(&flusher->sync_lock, NULL);
    pthread_mutex_init(&flusher->queue_lock, NULL);
    pthread_mutex_init(&flusher->tell_lock, NULL);
    pthread_mutex_init(&flusher->wake_lock, NULL);
    rp_monotonic_cond_init(&flusher->wake);
    rp_monotonic_cond_init(&flusher->queue_wake);
    rp_monotonic_cond_init(&flusher->synced);
    *out = flusher;
    return RP_OK;
}

void rp_flusher_close(rp_flusher *flusher) {
    if (flusher != NULL) {
        pthread_mutex_destroy(&flusher->sync_lock);
        pthread_mutex_destroy(&flusher->queue_lock);
        pthread_mutex_destroy(&flusher->tell_lock);
        pthread_mutex_destroy(&flusher->wake_lock);
        pthread_cond_destroy(&flusher->wake);
        pthread_cond_destroy(&flusher->queue_wake);
        pthread_cond_destroy(&flusher->synced);
        free(flusher);
    }
}

static void add_relaxed(_Atomic uint64_t *counter, uint64_t value) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + value, memory_order_relaxed);
}

/* Called by the leader: makes everything appended so far durable. RP_OK, RP_E_IO; RP_E_BUSY: not now, because descriptors are out or
 * somebody moved the directory away and may put it back. */
static int sync_log(rp_flusher *flusher, rp_error *error) {
    rp_commit_log *log = flusher->setup.commit_log;
    uint64_t cuts = rp_commit_log_cuts(log);
    int64_t begin = rp_commit_log_flushed_offset(log), end = rp_commit_log_max_offset(log);
    int failure = rp_commit_log_failure(log, NULL);
    if (failure != 0 && failure != RP_E_CLOSED) {
        rp_commit_log_failure(log, error); /* not for a closed log: that would overwrite an error that the caller has already */
        error->status = RP_E_IO;
        return RP_E_IO;
    }
    if (begin >= end) {
        return RP_OK;
    }
    int64_t started = rp_clock_monotonic_ns(flusher->setup.clock);
    int rc = rp_mapped_file_queue_sync(rp_commit_log_files(log), begin, end, error);
    if (rc == RP_E_NOT_FOUND && error->os_errno == ENOENT) {
        rc = error->status = RP_E_BUSY;
    }
    if (rc == RP_E_NOT_FOUND && rp_commit_log_cuts(log) != cuts) { /* its files were removed by the cut: nothing of it needs syncing */
        return RP_OK;
    }
    bool was_owed = atomic_exchange_explicit(&flusher->is_owed, rc == RP_E_BUSY, memory_order_relaxed);
    if (rc == RP_E_BUSY) {
        if (!was_owed) {
            rp_log_write(flusher->setup.log, RP_LOG_ERROR, "commit log: %s [%s]", error->message, error->file);
        }
        return rc;
    }
    if (rc != RP_OK) {
        rp_commit_log_fail(log, RP_E_READ_ONLY, error);
        return RP_E_IO;
    }
    uint64_t elapsed = (uint64_t)(rp_clock_monotonic_ns(flusher->setup.clock) - started);
    add_relaxed(&flusher->flushes, 1);
    add_relaxed(&flusher->flush_ns_total, elapsed);
    if (elapsed > atomic_load_explicit(&flusher->flush_ns_max, memory_order_relaxed)) {
        atomic_store_explicit(&flusher->flush_ns_max, elapsed, memory_order_relaxed);
    }
    rp_commit_log_set_synced(log, end, cuts);
    return RP_OK;
}

/* Under queue_lock. */
static int write_checkpoint(rp_flusher *flusher, rp_error *error) {
    rp_checkpoint *checkpoint = &flusher->setup.checkpoint;
    checkpoint->confirm_offset = rp_commit_log_dispatched_offset(flusher->setup.commit_log);
    int rc = rp_checkpoint_write(flusher->setup.ops, flusher->setup.checkpoint_path, checkpoint, error);
    flusher->is_ahead = rc != RP_OK;
    if (rc == RP_OK) {
        atomic_store(&flusher->checkpointed, checkpoint->flushed_offset);
    }
    return rc;
}

/* The offset that the checkpoint may call flushed: on a slave, a last record that is incomplete is left out, since the master sends it
 * again. */
static int64_t sound_offset(rp_flusher *flusher) {
    rp_commit_log *log = flusher->setup.commit_log;
    int64_t flushed = rp_commit_log_flushed_offset(log), dispatched = rp_commit_log_dispatched_offset(log);
    return dispatched < flushed ? dispatched : flushed;
}

int rp_flusher_checkpoint_log(rp_flusher *flusher, int64_t offset, rp_error *error) {
    if (offset <= atomic_load(&flusher->checkpointed)) {
        return RP_OK;
    }
    pthread_mutex_lock(&flusher->queue_lock);
    flusher->setup.checkpoint.flushed_offset = sound_offset(flusher);
    int rc = write_checkpoint(flusher, error);
    pthread_mutex_unlock(&flusher->queue_lock);
    return rc;
}

/* Returns when offset is flushed, by another thread's sync or by leading one. deadline NULL: no limit. */
static int sync_up_to(rp_flusher *flusher, int64_t offset, const struct timespec *deadline, rp_error *error) {
    rp_commit_log *log = flusher->setup.commit_log;
    rp_error local;
    int rc = RP_OK;
    error = error == NULL ? &local : error;
    pthread_mutex_lock(&flusher->sync_lock);
    while (atomic_load_explicit(&flusher->is_syncing, memory_order_relaxed) && rp_commit_log_flushed_offset(log) < offset) {
        int timed_out = deadline == NULL ? pthread_cond_wait(&flusher->synced, &flusher->sync_lock)
                                         : pthread_cond_timedwait(&flusher->synced, &flusher->sync_lock, deadline);
        if (timed_out != 0) {
            pthread_mutex_unlock(&flusher->sync_lock);
            return RP_E_TIMEOUT;
        }
    }
    int64_t before = rp_commit_log_flushed_offset(log), flushed = before;
    if (before < offset) {
        atomic_store_explicit(&flusher->is_syncing, true, memory_order_relaxed);
        pthread_mutex_unlock(&flusher->sync_lock);
        rc = sync_log(flusher, error);
        rc = rc == RP_OK ? rp_flusher_checkpoint_log(flusher, rp_commit_log_min_offset(log), error) : rc; /* a slave's first bytes */
        flushed = rp_commit_log_flushed_offset(log);
        pthread_mutex_lock(&flusher->sync_lock);
        atomic_store_explicit(&flusher->is_syncing, false, memory_order_relaxed);
        pthread_cond_broadcast(&flusher->synced);
    }
    pthread_mutex_unlock(&flusher->sync_lock);
    if (flushed > before || rc == RP_E_IO) { /* waiters have to learn of success and failure alike */
        pthread_mutex_lock(&flusher->tell_lock);
        if (flusher->flushed != NULL) {
            flusher->flushed(flusher->flushed_context, flushed);
        }
        pthread_mutex_unlock(&flusher->tell_lock);
    }
    return rc;
}

static int sync_now(rp_flusher *flusher, rp_error *error) {
    return sync_up_to(flusher, rp_commit_log_max_offset(flusher->setup.commit_log), NULL, error);
}

int rp_flusher_wait(rp_flusher *flusher, int64_t offset, uint32_t timeout_ms) {
    rp_commit_log *log = flusher->setup.commit_log;
    struct timespec deadline = rp_deadline_after(CLOCK_MONOTONIC, timeout_ms);
    int rc = RP_OK;
    for (int tries = 0; rc == RP_OK && rp_commit_log_flushed_offset(log) < offset; tries++) {
        if (offset > rp_commit_log_max_offset(log)) {
            return RP_E_RANGE; /* nothing was appended there: no sync would ever reach it */
        }
        rc = tries < CUT_SYNCS_MAX ? sync_up_to(flusher, offset, &deadline, NULL) : RP_E_TIMEOUT;
    }
    return rc;
}

/* False for what was cut after it was requested: it will never be on disk. */
static bool is_requested(const rp_flusher *flusher) {
    int64_t flushed = rp_commit_log_flushed_offset(flusher->setup.commit_log);
    return atomic_load(&flusher->requested) > flushed && rp_commit_log_max_offset(flusher->setup.commit_log) > flushed;
}

void rp_flusher_request(rp_flusher *flusher, int64_t offset) {
    int64_t before = atomic_load_explicit(&flusher->requested, memory_order_relaxed);
    while (before < offset && !atomic_compare_exchange_weak(&flusher->requested, &before, offset)) {
    }
    atomic_thread_fence(memory_order_seq_cst); /* orders the log's end and the request before the read of is_resting */
    if (atomic_load(&flusher->is_resting) && atomic_exchange(&flusher->is_resting, false)) {
        pthread_mutex_lock(&flusher->wake_lock); /* the thread has checked and sleeps */
        pthread_mutex_unlock(&flusher->wake_lock);
        pthread_cond_signal(&flusher->wake);
    }
}

void rp_flusher_set_timing(rp_flusher *flusher, const rp_flush_timing *timing) {
    pthread_mutex_lock(&flusher->wake_lock);
    flusher->timing = *timing;
    flusher->retimed++;
    pthread_mutex_unlock(&flusher->wake_lock);
    pthread_cond_signal(&flusher->wake);
    pthread_cond_signal(&flusher->queue_wake);
}

int rp_flusher_is_idle(const rp_flusher *flusher) {
    return !atomic_load_explicit(&flusher->is_syncing, memory_order_relaxed) && !is_requested(flusher);
}

void rp_flusher_on_flushed(rp_flusher *flusher, void (*flushed)(void *context, int64_t flushed_offset), void *context) {
    pthread_mutex_lock(&flusher->tell_lock);
    flusher->flushed = flushed;
    flusher->flushed_context = context;
    pthread_mutex_unlock(&flusher->tell_lock);
}

static int64_t least_bytes(bool thorough) { return thorough ? 1 : QUEUE_LEAST_PAGES * PAGE_SIZE; }

typedef struct queue_sums {
    int64_t queues, entries, begin_bytes;
} queue_sums;

static int add_queue(void *context, rp_consume_queue *queue) {
    queue_sums *sums = context;
    int64_t max = rp_consume_queue_max_offset(queue);
    sums->queues += max > 0;
    sums->entries += max;
    sums->begin_bytes += rp_consume_queue_begin_bytes(queue);
    return 0;
}

/* Syncs the queues. With thorough, all of them, and then the checkpoint moves to where the log was when the pass began. After a failed
 * sync it never moves again in this run: what the kernel dropped is not in the pages that a later sync would write. */
static int sync_queues(rp_flusher *flusher, bool thorough, bool closing, rp_error *error) {
    rp_commit_log *log = flusher->setup.commit_log;
    pthread_mutex_lock(&flusher->queue_lock);
    rp_checkpoint *checkpoint = &flusher->setup.checkpoint;
    /* Read the time first, so that it is never ahead of the offsets. */
    int64_t time_ms = rp_commit_log_store_timestamp(log), offset = sound_offset(flusher);
    int rc = rp_queue_sync_pass(&flusher->setup.queues, least_bytes(thorough), error);
    rc = rc == RP_OK && thorough && flusher->setup.ledger_index != NULL ? rp_ledger_index_sync(flusher->setup.ledger_index, error) : rc;
    if (rc != RP_OK && rc != RP_E_BUSY && !flusher->queues_failed) {
        flusher->queues_failed = true;
        rp_log_write(flusher->setup.log, RP_LOG_ERROR,
                     "consume queues: %s [%s]; they will be rebuilt from the commit log at the next start", error->message, error->file);
    }
    bool is_news = closing || flusher->is_ahead || offset != checkpoint->queues_offset || !checkpoint->is_exact;
    if (rc == RP_OK && !flusher->queues_failed && thorough && is_news) {
        queue_sums sums = {0};
        if (closing) {
            rp_queue_table_each(flusher->setup.queues.queues, add_queue, &sums);
        }
        checkpoint->log_time_ms = checkpoint->queues_time_ms = time_ms;
        checkpoint->flushed_offset = checkpoint->queues_offset = offset;
        rp_checkpoint_forget_counts(checkpoint);
        if (closing) {
            checkpoint->queue_count = sums.queues;
            checkpoint->entry_count = sums.entries;
            checkpoint->begin_bytes = sums.begin_bytes;
            checkpoint->index_count = flusher->index_count;
        }
        checkpoint->is_exact = 1;
        rc = write_checkpoint(flusher, error);
    }
    if (flusher->queues_failed) {
        rc = rc != RP_OK ? RP_E_IO
                         : rp_error_set(error, RP_E_IO, 0, NULL, -1,
                                        "consume queues: a sync of theirs failed before; they are rebuilt from the commit log at "
                                        "the next start");
    }
    pthread_mutex_unlock(&flusher->queue_lock);
    return rc;
}

/* What one of the two threads waits for. */
typedef struct rhythm {
    bool is_of_queues;       /* fixed */
    rp_flush_timing timing;  /* copied when `retimed` was */
    uint64_t retimed;
    int64_t due_ns, thorough_due_ns;
} rhythm;

static int64_t after_ms(int64_t now_ns, uint32_t ms) { return now_ns + (int64_t)ms * RP_NS_PER_MS; }

static int64_t next_ns(const rhythm *rhythm, int64_t now_ns) {
    return after_ms(now_ns, rhythm->is_of_queues ? rhythm->timing.queue_interval_ms : rhythm->timing.interval_ms);
}

static int64_t next_thorough_ns(const rhythm *rhythm, int64_t now_ns) { return after_ms(now_ns, rhythm->timing.thorough_interval_ms); }

static int64_t sooner(int64_t a_ns, int64_t b_ns) { return a_ns < b_ns ? a_ns : b_ns; }

/* Applies new timing from now on; nothing that was due sooner is postponed. */
static void bring_forward(rhythm *rhythm, int64_t now_ns) {
    rhythm->due_ns = sooner(rhythm->due_ns, next_ns(rhythm, now_ns));
    rhythm->thorough_due_ns = sooner(rhythm->thorough_due_ns, next_thorough_ns(rhythm, now_ns));
}

/* Takes something that is due and sets its next time. Returns whether it was the thorough one. */
static bool take_due(rhythm *rhythm, int64_t now_ns) {
    bool thorough = now_ns >= rhythm->thorough_due_ns;
    rhythm->due_ns = next_ns(rhythm, now_ns);
    rhythm->thorough_due_ns = thorough ? next_thorough_ns(rhythm, now_ns) : rhythm->thorough_due_ns;
    return thorough;
}

/* Sets is_resting before checking: a request made after the check wakes the thread. */
static bool has_work(rp_flusher *flusher, const rhythm *rhythm) {
    if (!rhythm->is_of_queues) {
        atomic_store(&flusher->is_resting, true);
        atomic_thread_fence(memory_order_seq_cst);
    }
    return flusher->stopping || flusher->retimed != rhythm->retimed || (!rhythm->is_of_queues && is_requested(flusher));
}

/* Sleeps until something is due, a sync of the log is requested, or the timing has changed, which it copies. Returns false when the
 * flusher stops. */
static bool wait_for_work(rp_flusher *flusher, rhythm *rhythm, int64_t now_ns) {
    int64_t left_ns = rhythm->due_ns - now_ns;
    struct timespec deadline = rp_deadline_after(CLOCK_MONOTONIC, left_ns > 0 ? (uint64_t)left_ns / RP_NS_PER_MS + 1 : 0);
    pthread_cond_t *wake = rhythm->is_of_queues ? &flusher->queue_wake : &flusher->wake;
    pthread_mutex_lock(&flusher->wake_lock);
    int timed_out = left_ns > 0 ? 0 : ETIMEDOUT;
    while (timed_out == 0 && !has_work(flusher, rhythm)) {
        timed_out = pthread_cond_timedwait(wake, &flusher->wake_lock, &deadline);
    }
    if (!rhythm->is_of_queues) {
        atomic_store(&flusher->is_resting, false);
    }
    bool stopping = flusher->stopping, is_retimed = flusher->retimed != rhythm->retimed;
    rhythm->retimed = flusher->retimed;
    rhythm->timing = flusher->timing;
    pthread_mutex_unlock(&flusher->wake_lock);
    if (is_retimed) {
        bring_forward(rhythm, rp_clock_monotonic_ns(flusher->setup.clock));
    }
    return !stopping;
}

static rhythm begin_rhythm(const rp_flusher *flusher, bool is_of_queues, int64_t now_ns) {
    rhythm rhythm = {.is_of_queues = is_of_queues, .timing = flusher->setup.timing};
    rhythm.due_ns = next_ns(&rhythm, now_ns);
    rhythm.thorough_due_ns = next_thorough_ns(&rhythm, now_ns);
    return rhythm;
}

/* Syncs what nobody waits for. If producers wait for syncs, even little is synced at the next interval. */
static void flush_log_in_time(rp_flusher *flusher, const rp_flush_timing *timing, bool thorough) {
    const rp_commit_log *log = flusher->setup.commit_log;
    int64_t unsynced = rp_commit_log_max_offset(log) - rp_commit_log_flushed_offset(log);
    int64_t least = flusher->setup.is_timed_only ? (int64_t)timing->least_pages * PAGE_SIZE : 1;
    bool is_owed = atomic_load_explicit(&flusher->is_owed, memory_order_relaxed);
    if (unsynced > 0 && (thorough || is_owed || unsynced >= least)) {
        sync_now(flusher, NULL); /* a failure makes the log refuse writes */
    }
}

static void run_log(void *context) {
    rp_flusher *flusher = context;
    const rp_flusher_setup *setup = &flusher->setup;
    if (setup->is_timed_only) {
        rp_thread_lower_priority();
    }
    int64_t now_ns = rp_clock_monotonic_ns(setup->clock);
    rhythm rhythm = begin_rhythm(flusher, false, now_ns);
    while (wait_for_work(flusher, &rhythm, now_ns)) {
        int64_t requested = atomic_load(&flusher->requested);
        if (is_requested(flusher)) {
            if (sync_now(flusher, NULL) == RP_OK) {
                rp_commit_log_step_ahead(setup->commit_log);
            } else { /* nothing can be flushed any more, or not before it is due; asked again only on behalf of new requests */
                atomic_compare_exchange_strong(&flusher->requested, &requested, 0);
            }
        }
        now_ns = rp_clock_monotonic_ns(setup->clock);
        if (now_ns >= rhythm.due_ns) {
            bool thorough = take_due(&rhythm, now_ns);
            flush_log_in_time(flusher, &rhythm.timing, thorough);
        }
    }
}

/* Has its own thread: a pass makes one sync per queue, and producers wait for those of the log. */
static void run_queues(void *context) {
    rp_flusher *flusher = context;
    const rp_flusher_setup *setup = &flusher->setup;
    if (setup->is_timed_only) {
        rp_thread_lower_priority(); /* otherwise it might lead a sync that producers wait for */
    }
    int64_t now_ns = rp_clock_monotonic_ns(setup->clock);
    rhythm rhythm = begin_rhythm(flusher, true, now_ns);
    while (wait_for_work(flusher, &rhythm, now_ns)) {
        now_ns = rp_clock_monotonic_ns(setup->clock);
        if (now_ns >= rhythm.due_ns) {
            rp_error error = {0};
            bool thorough = take_due(&rhythm, now_ns);
            if (thorough || rp_queue_sync_is_together(&setup->queues, least_bytes(thorough))) {
                sync_now(flusher, NULL); /* in steps: a sync of the file system would write the log in one piece */
            }
            sync_queues(flusher, thorough, false, &error); /* a failure is remembered; the log continues */
        }
    }
}

static void end_threads(rp_flusher *flusher) {
    pthread_mutex_lock(&flusher->wake_lock);
    flusher->stopping = true;
    pthread_cond_signal(&flusher->wake);
    pthread_cond_signal(&flusher->queue_wake);
    pthread_mutex_unlock(&flusher->wake_lock);
    rp_thread_join(flusher->thread);
    rp_thread_join(flusher->queue_thread);
    flusher->thread = flusher->queue_thread = NULL;
}

int rp_flusher_start(rp_flusher *flusher, rp_error *error) {
    int rc = rp_thread_start(&flusher->thread, "rp-flusher", run_log, flusher);
    rc = rc == RP_OK ? rp_thread_start(&flusher->queue_thread, "rp-queue-flush", run_queues, flusher) : rc;
    if (rc != RP_OK) {
        end_threads(flusher);
        return rp_error_set(error, rc, 0, NULL, -1, "cannot start the flusher's threads: %s", rp_thread_refusal(rc));
    }
    return RP_OK;
}

int rp_flusher_stop(rp_flusher *flusher, rp_error *error) {
    end_threads(flusher);
    rp_error local = {0};
    error = error == NULL ? &local : error;
    int rc = sync_now(flusher, error);
    return rc == RP_OK ? sync_queues(flusher, true, true, error) : rc;
}

int rp_flusher_checkpoint_queues(rp_flusher *flusher, rp_error *error) {
    int rc = sync_now(flusher, error);
    return rc == RP_OK ? sync_queues(flusher, true, false, error) : rc;
}

void rp_flusher_set_indexed(rp_flusher *flusher, int64_t time_ms, int64_t log_offset) {
    pthread_mutex_lock(&flusher->queue_lock);
    flusher->is_ahead |= flusher->setup.checkpoint.index_offset != log_offset;
    flusher->setup.checkpoint.index_time_ms = time_ms;
    flusher->setup.checkpoint.index_offset = log_offset;
    pthread_mutex_unlock(&flusher->queue_lock);
}

void rp_flusher_set_index_count(rp_flusher *flusher, uint32_t files) {
    pthread_mutex_lock(&flusher->queue_lock);
    flusher->index_count = files;
    pthread_mutex_unlock(&flusher->queue_lock);
}

void rp_flusher_read_stats(const rp_flusher *flusher, rp_flusher_stats *stats) {
    stats->flushes = atomic_load_explicit(&flusher->flushes, memory_order_relaxed);
    stats->flush_ns_total = atomic_load_explicit(&flusher->flush_ns_total, memory_order_relaxed);
    stats->flush_ns_max = atomic_load_explicit(&flusher->flush_ns_max, memory_order_relaxed);
}
