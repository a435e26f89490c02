/* compaction.c: see compaction.h. */
#include "compaction.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "../base/log_inl.h"
#include "../base/thread.h"
#include "compaction_copy.h"
#include "compaction_pass.h"
#include "compaction_positions.h"
#include "consume_queue_inl.h"
#include "store_path.h"

#define ROUND_MS 100
#define RETRY_NS RP_NS_PER_S
#define SYNC_NS RP_NS_PER_S
#define FLUSH_PATIENCE_MS 10000
#define ENTRIES_A_FILE_MIN 2
#define SHARES_OF_LOG 5 /* CompactionLog.getCompactionLogSize: a file of records is at least this many times as long as a file of entries */

/* One compacted queue. Created once, kept until close. */
typedef struct followed_queue {
    rp_consume_queue *queue; /* fixed, like the log */
    rp_compaction_log *log;
    _Atomic int32_t stop; /* set when the queue is left or about to be deleted: ends copies and compactions */
    _Atomic bool is_left;
    /* Guarded by the log's writer lock. */
    int64_t position; /* compacted up to this queue offset, inclusive */
    bool is_compared; /* its last records were compared after the latest cut of the log and the queue */
    uint64_t cuts;
    rp_compaction_pass pass; /* the last one; if unfinished it is retried, and nothing else is compacted before it is done */
    bool has_complained, has_complained_of_sync;
    _Atomic int64_t filled_to; /* first offset of the queue when everything that its master kept before it had arrived; -1: never */
    /* Owned by the thread. */
    int64_t retry_at_ns, pass_at_ns, synced_at_ns, pass_begun_ns, finish_at_ns;
} followed_queue;

struct rp_compaction {
    rp_compaction_options options; /* fixed */
    char directory[RP_PATH_MAX], log_directory[RP_PATH_MAX], queue_directory[RP_PATH_MAX];
    rp_compaction_log_setup log_setup;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    followed_queue **queues; /* guarded by lock, like all up to stopping */
    uint32_t count, room;
    rp_compaction_positions *positions;
    bool stopping;
    rp_thread *thread; /* copies and compacts; NULL: no queue is followed */
    _Atomic int32_t holds_gaps;
    _Atomic uint64_t copied, without_key, passed_over, passes, failures, kept, dropped;
};

static int64_t now_ns(const rp_compaction *compaction) { return rp_clock_monotonic_ns(compaction->options.clock); }

static void count(_Atomic uint64_t *counter, uint64_t more) { atomic_fetch_add_explicit(counter, more, memory_order_relaxed); }

/* ---- the thread ---- */

/* Logs the error once; *told must be cleared before it is logged again. */
static void complain(const followed_queue *followed, const rp_compaction *compaction, const char *what, const rp_error *error, bool *told) {
    rp_slice topic = rp_consume_queue_topic(followed->queue);
    if (!*told)
        rp_log_write(compaction->options.log, RP_LOG_ERROR, "compacted queue %.*s/%d %s: %s [%s]; it is tried again every second",
                     (int)topic.size, (const char *)topic.data, rp_consume_queue_id(followed->queue), what, error->message, error->file);
    *told = true;
}

/* The position cannot lie behind what the files hold: files may have been removed or cut. */
static void bound_position(followed_queue *followed) {
    int64_t last = rp_compaction_log_max_offset(followed->log) - 1;
    followed->position = followed->position < last ? followed->position : last;
}

static void save_position(rp_compaction *compaction, const followed_queue *followed);

/* Under the writer lock. The newest compacted messages are no longer in the log, and older messages of their keys were dropped in their
 * favour. Those that the queue still has are copied again; the others come from the master, if there is one. Returns as
 * rp_compaction_copy_compare. */
static int copy_anew(rp_compaction *compaction, followed_queue *followed, rp_error *error) {
    int64_t min = rp_consume_queue_min_offset(followed->queue);
    int64_t from = atomic_load(&compaction->holds_gaps) ? 0 : min;
    rp_slice topic = rp_consume_queue_topic(followed->queue);
    rp_log_write(compaction->options.log, RP_LOG_WARNING,
                 "compacted queue %.*s/%d was compacted up to offset %lld, and its log is cut before that: it is copied once more from "
                 "offset %lld on",
                 (int)topic.size, (const char *)topic.data, rp_consume_queue_id(followed->queue), (long long)followed->position,
                 (long long)from);
    int rc = rp_compaction_log_cut_anew(followed->log, from, error);
    if (rc != RP_OK)
        return rc;
    atomic_store(&followed->filled_to, -1);
    bound_position(followed);
    save_position(compaction, followed);
    return from < min ? 0 : 1; /* first the gap must be filled */
}

/* Under the writer lock. Returns as rp_compaction_copy_compare. The queue's own cuts count too: on a slave, a queue is cut without the
 * log when its topic is deleted and created again. */
static int compare(rp_compaction *compaction, followed_queue *followed, rp_compaction_copy *copy, rp_error *error) {
    uint64_t cuts = rp_commit_log_cuts(compaction->options.commit_log) + atomic_load(&followed->queue->cuts);
    if (followed->is_compared && followed->cuts == cuts)
        return 1;
    if (followed->pass.unfinished != NULL) /* it would bring back what is to be cut */
        return rp_error_set(error, RP_E_BUSY, 0, rp_compaction_log_place(followed->log)->log_directory, -1,
                            "the files of its last compaction have to be moved first");
    int rc = rp_compaction_copy_compare(copy, followed->position, error);
    if (rc == RP_COMPACTION_COPY_ANEW)
        rc = copy_anew(compaction, followed, error);
    if (rc == 1) /* not after a failure halfway: the position is what says that the copy has to be made anew */
        bound_position(followed);
    followed->is_compared = rc == 1;
    followed->cuts = cuts;
    return rc;
}

/* Does the queue wait for messages that only its master has kept? For a queue without messages this cannot be ruled out if the log does
 * not begin at 0. */
static bool find_gap(rp_compaction *compaction, const followed_queue *followed, rp_compaction_gap *gap) {
    int64_t end = rp_compaction_log_end(followed->log), max = rp_consume_queue_max_offset(followed->queue);
    int64_t min = rp_consume_queue_min_offset(followed->queue), filled_to = atomic_load(&followed->filled_to);
    bool has_begun_late = rp_commit_log_min_offset(compaction->options.commit_log) > 0;
    *gap = (rp_compaction_gap){followed->queue, end, max > 0 ? min : INT64_MAX};
    return atomic_load(&compaction->holds_gaps) && (max > 0 ? end < min && min > filled_to : has_begun_late && filled_to < 0);
}

/* Under the writer lock. After a failed sync the kernel has dropped pages, and the next sync would succeed all the same. So everything
 * since the last good sync is copied from the commit log again, as far as retention has kept it. What the log no longer has, or what was
 * copied before this start, cannot be copied again. */
static void copy_again(rp_compaction *compaction, followed_queue *followed) {
    rp_error error = {0};
    int64_t synced_end = rp_compaction_log_synced_end(followed->log);
    int64_t unfinished = followed->pass.unfinished != NULL ? rp_compaction_replacement_end(followed->pass.unfinished) : 0;
    synced_end = synced_end > unfinished ? synced_end : unfinished; /* sealed segments were synced */
    if (synced_end > 0 && synced_end >= rp_consume_queue_min_offset(followed->queue) &&
        rp_compaction_log_cut(followed->log, synced_end, &error) != RP_OK)
        complain(followed, compaction, "cannot be copied", &error, &followed->has_complained);
    if (followed->is_compared)
        bound_position(followed);
    followed->retry_at_ns = now_ns(compaction) + RETRY_NS;
}

/* Under the writer lock. Returns 1 if there may be more to copy. */
static int copy_some(rp_compaction *compaction, followed_queue *followed) {
    rp_compaction_copy copy = {
        .commit_log = compaction->options.commit_log, .queue = followed->queue, .to = followed->log, .log = compaction->options.log};
    rp_error error = {0};
    rp_compaction_gap gap;
    int rc = find_gap(compaction, followed, &gap) ? 0 : compare(compaction, followed, &copy, &error);
    rc = rc == 1 ? rp_compaction_copy_some(&copy, &error) : rc;
    count(&compaction->copied, copy.copied);
    count(&compaction->without_key, copy.without_key);
    count(&compaction->passed_over, copy.passed_over);
    if (rc < 0) {
        complain(followed, compaction, "cannot be copied", &error, &followed->has_complained);
        followed->retry_at_ns = now_ns(compaction) + RETRY_NS;
        if (rc == RP_E_IO && followed->is_compared) /* it may be the sync of a full file that failed */
            copy_again(compaction, followed);
        return 0;
    }
    followed->has_complained = false;
    return rc;
}

/* Under the writer lock. */
static void sync_queue(rp_compaction *compaction, followed_queue *followed) {
    rp_error error = {0};
    followed->synced_at_ns = now_ns(compaction);
    if (rp_compaction_log_sync(followed->log, &error) == RP_OK) {
        followed->has_complained_of_sync = false;
    } else {
        complain(followed, compaction, "cannot be synced", &error, &followed->has_complained_of_sync);
        copy_again(compaction, followed);
    }
}

static void save_position(rp_compaction *compaction, const followed_queue *followed) {
    rp_error error = {0};
    pthread_mutex_lock(&compaction->lock);
    int rc = rp_compaction_positions_set(compaction->positions, rp_consume_queue_topic(followed->queue),
                                         rp_consume_queue_id(followed->queue), followed->position, &error);
    rc = rc == RP_OK ? rp_compaction_positions_save(compaction->positions, &error) : rc;
    pthread_mutex_unlock(&compaction->lock);
    if (rc != RP_OK)
        rp_log_write(compaction->options.log, RP_LOG_WARNING, "%s [%s]; a restart compacts once more", error.message, error.file);
}

/* Under the writer lock. */
static void note_pass(rp_compaction *compaction, followed_queue *followed) {
    const rp_compaction_pass *pass = &followed->pass;
    rp_slice topic = rp_consume_queue_topic(followed->queue);
    followed->position = pass->compacted_to;
    save_position(compaction, followed);
    count(&compaction->passes, 1);
    count(&compaction->kept, pass->kept);
    count(&compaction->dropped, pass->dropped);
    rp_log_write(compaction->options.log, RP_LOG_INFO,
                 "compacted queue %.*s/%d: %llu messages stay, %llu go, up to offset %lld, in %lld ms", (int)topic.size,
                 (const char *)topic.data, rp_consume_queue_id(followed->queue), (unsigned long long)pass->kept,
                 (unsigned long long)pass->dropped, (long long)pass->compacted_to,
                 (long long)((now_ns(compaction) - followed->pass_begun_ns) / RP_NS_PER_MS));
}

static void forget_unfinished(followed_queue *followed) {
    rp_compaction_replacement_destroy(followed->pass.unfinished);
    followed->pass.unfinished = NULL;
}

/* Under the writer lock. Finishes moving the files of the last compaction. The failure was logged when it happened; a second line
 * reports that it is over. */
static void finish(rp_compaction *compaction, followed_queue *followed) {
    rp_error error = {0};
    followed->finish_at_ns = now_ns(compaction) + RETRY_NS;
    if (rp_compaction_replacement_finish(followed->pass.unfinished, &error) != RP_OK)
        return;
    forget_unfinished(followed);
    note_pass(compaction, followed);
}

/* Under the writer lock. */
static void compact(rp_compaction *compaction, followed_queue *followed) {
    const rp_compaction_options *options = &compaction->options;
    rp_error error = {0};
    rp_compaction_pass *pass = &followed->pass;
    uint32_t segments;
    uint64_t bytes;
    rp_compaction_log_read_size(followed->log, &segments, &bytes);
    if (segments < 2)
        return;
    if (options->wait_flushed(options->context, rp_commit_log_max_offset(options->commit_log), FLUSH_PATIENCE_MS) != RP_OK)
        return; /* the flusher logs why */
    *pass = (rp_compaction_pass){.compaction_log = followed->log,
                                 .log = options->log,
                                 .key_memory = options->key_memory,
                                 .stop = &followed->stop,
                                 .position = followed->position};
    followed->pass_begun_ns = now_ns(compaction);
    int rc = rp_compaction_pass_run(pass, &error);
    rp_slice topic = rp_consume_queue_topic(followed->queue);
    if (rc == 1) {
        note_pass(compaction, followed);
    } else if (rc < 0) {
        followed->finish_at_ns = now_ns(compaction) + RETRY_NS;
        count(&compaction->failures, 1);
        rp_log_write(options->log, RP_LOG_ERROR, "compacted queue %.*s/%d cannot be compacted: %s [%s]; %s", (int)topic.size,
                     (const char *)topic.data, rp_consume_queue_id(followed->queue), error.message, error.file,
                     pass->unfinished != NULL ? "what is left of it is tried again every second, and at the next start; messages are read "
                                                "and copied as before"
                                              : "it is tried again");
    }
}

/* Returns the index-th queue; NULL behind the last. */
static followed_queue *queue_at(rp_compaction *compaction, uint32_t index) {
    pthread_mutex_lock(&compaction->lock);
    followed_queue *followed = index < compaction->count && !compaction->stopping ? compaction->queues[index] : NULL;
    pthread_mutex_unlock(&compaction->lock);
    return followed;
}

/* Returns 1 if the queue has more to copy. */
static int turn(rp_compaction *compaction, followed_queue *followed) {
    int64_t now = now_ns(compaction);
    if (atomic_load(&followed->stop) || now < followed->retry_at_ns)
        return 0;
    rp_compaction_log_lock_writer(followed->log);
    int has_more = 0;
    if (!atomic_load(&followed->stop)) {
        if (followed->pass.unfinished != NULL && now >= followed->finish_at_ns)
            finish(compaction, followed);
        has_more = copy_some(compaction, followed);
        if (now - followed->synced_at_ns >= SYNC_NS)
            sync_queue(compaction, followed);
        if (now >= followed->pass_at_ns && followed->is_compared && followed->pass.unfinished == NULL) {
            compact(compaction, followed);
            followed->pass_at_ns = now_ns(compaction) + (int64_t)compaction->options.interval_ms * RP_NS_PER_MS;
        }
    }
    rp_compaction_log_unlock_writer(followed->log);
    return has_more;
}

static bool sleep_a_round(rp_compaction *compaction, bool has_more) {
    struct timespec until = rp_deadline_after(CLOCK_MONOTONIC, ROUND_MS);
    pthread_mutex_lock(&compaction->lock);
    if (!has_more && !compaction->stopping)
        pthread_cond_timedwait(&compaction->wake, &compaction->lock, &until);
    bool goes_on = !compaction->stopping;
    pthread_mutex_unlock(&compaction->lock);
    return goes_on;
}

static void run(void *context) {
    rp_compaction *compaction = context;
    bool has_more;
    rp_thread_lower_priority();
    do {
        has_more = false;
        followed_queue *followed;
        for (uint32_t i = 0; (followed = queue_at(compaction, i)) != NULL; i++)
            has_more |= turn(compaction, followed) == 1;
    } while (sleep_a_round(compaction, has_more));
}

/* ---- open and close ---- */

/* Sets the file lengths, rounded as RocketMQ rounds them: it opens files of no other length. */
static int set_sizes(rp_compaction *compaction, rp_error *error) {
    const rp_compaction_options *options = &compaction->options;
    uint64_t queue_size = options->queue_file_size / RP_COMPACTION_ENTRY_SIZE * RP_COMPACTION_ENTRY_SIZE;
    if (queue_size < (uint64_t)ENTRIES_A_FILE_MIN * RP_COMPACTION_ENTRY_SIZE || options->log_file_size > INT32_MAX ||
        queue_size > INT32_MAX / (SHARES_OF_LOG + 1) || options->interval_ms == 0)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1,
                            "compactionCqMappedFileSize must be 92 to 357,913,941 bytes, compactionMappedFileSize 2,147,483,647 at most, "
                            "compactionScheduleInternal 1 ms at least");
    uint64_t shares = options->log_file_size / queue_size, rest = options->log_file_size % queue_size;
    uint64_t log_size = shares < SHARES_OF_LOG              ? queue_size * SHARES_OF_LOG
                        : rest > 0 && rest < queue_size / 2 ? shares * queue_size
                                                            : (shares + 1) * queue_size;
    if (log_size > INT32_MAX)
        log_size = shares * queue_size;
    compaction->log_setup = (rp_compaction_log_setup){.ops = options->ops,
                                                      .log = options->log,
                                                      .log_directory = compaction->log_directory,
                                                      .queue_directory = compaction->queue_directory,
                                                      .log_size = log_size,
                                                      .queue_size = queue_size,
                                                      .checks_records = options->checks_records};
    return RP_OK;
}

int rp_compaction_open(const rp_compaction_options *options, rp_compaction **out, rp_error *error) {
    rp_compaction *compaction = calloc(1, sizeof *compaction);
    if (compaction == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for compacted topics");
    compaction->options = *options;
    pthread_mutex_init(&compaction->lock, NULL);
    rp_monotonic_cond_init(&compaction->wake);
    int rc = strlen(options->directory) < RP_PATH_MAX - 1 ? RP_OK : RP_E_TOO_LARGE;
    if (rc == RP_OK)
        memcpy(compaction->directory, options->directory, strlen(options->directory) + 1);
    compaction->options.directory = compaction->directory;
    rc = rc == RP_OK ? rp_path_join(compaction->log_directory, compaction->directory, "compactionLog", error) : rc;
    rc = rc == RP_OK ? rp_path_join(compaction->queue_directory, compaction->directory, "compactionCq", error) : rc;
    rc = rc == RP_OK ? set_sizes(compaction, error) : rc;
    rc = rc == RP_OK ? rp_compaction_positions_open(options->ops, compaction->directory, options->log, &compaction->positions, error) : rc;
    if (rc != RP_OK) {
        rp_compaction_close(compaction);
        return rc;
    }
    *out = compaction;
    return RP_OK;
}

static void stop(rp_compaction *compaction) {
    pthread_mutex_lock(&compaction->lock);
    compaction->stopping = true;
    for (uint32_t i = 0; i < compaction->count; i++)
        atomic_store(&compaction->queues[i]->stop, 1);
    pthread_cond_signal(&compaction->wake);
    pthread_mutex_unlock(&compaction->lock);
    rp_thread_join(compaction->thread);
    compaction->thread = NULL;
}

void rp_compaction_close(rp_compaction *compaction) {
    if (compaction == NULL)
        return;
    stop(compaction);
    for (uint32_t i = 0; i < compaction->count; i++) {
        followed_queue *followed = compaction->queues[i];
        sync_queue(compaction, followed);
        forget_unfinished(followed); /* the next open finishes it */
        atomic_store(&followed->queue->compacted, NULL);
        rp_compaction_log_close(followed->log);
        free(followed);
    }
    free(compaction->queues);
    rp_compaction_positions_close(compaction->positions);
    pthread_cond_destroy(&compaction->wake);
    pthread_mutex_destroy(&compaction->lock);
    free(compaction);
}

/* ---- who follows ---- */

static followed_queue *find(rp_compaction *compaction, const rp_consume_queue *queue) {
    pthread_mutex_lock(&compaction->lock);
    followed_queue *found = queue->followed;
    pthread_mutex_unlock(&compaction->lock);
    return found;
}

static int start_thread(rp_compaction *compaction, rp_error *error) {
    if (compaction->thread != NULL)
        return RP_OK;
    int rc = rp_thread_start(&compaction->thread, "compaction", run, compaction);
    return rc == RP_OK ? RP_OK : rp_error_set(error, rc, 0, NULL, -1, "cannot start the compaction's thread: %s", rp_thread_refusal(rc));
}

/* Adds the queue to the row. RP_OK, RP_E_NO_MEMORY. */
static int enter(rp_compaction *compaction, followed_queue *followed, rp_error *error) {
    pthread_mutex_lock(&compaction->lock);
    int rc = RP_OK;
    if (compaction->count == compaction->room) {
        uint32_t room = compaction->room == 0 ? 16 : compaction->room * 2;
        followed_queue **larger = realloc(compaction->queues, room * sizeof(followed_queue *));
        if (larger != NULL) {
            compaction->queues = larger;
            compaction->room = room;
        } else {
            rc = rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for a compacted queue");
        }
    }
    if (rc == RP_OK) {
        compaction->queues[compaction->count++] = followed;
        followed->queue->followed = followed;
    }
    pthread_mutex_unlock(&compaction->lock);
    return rc;
}

static int open_followed(rp_compaction *compaction, rp_consume_queue *queue, followed_queue **out, rp_error *error) {
    followed_queue *followed = calloc(1, sizeof *followed);
    if (followed == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for a compacted queue");
    rp_slice topic = rp_consume_queue_topic(queue);
    int32_t id = rp_consume_queue_id(queue);
    followed->queue = queue;
    atomic_init(&followed->filled_to, -1);
    followed->pass_at_ns = now_ns(compaction) + (int64_t)compaction->options.interval_ms * RP_NS_PER_MS;
    int rc = rp_compaction_log_open(&compaction->log_setup, topic, id, &followed->log, error);
    if (rc == RP_OK) {
        pthread_mutex_lock(&compaction->lock); /* the thread stores the positions of other queues meanwhile */
        followed->position = rp_compaction_positions_get(compaction->positions, topic, id);
        pthread_mutex_unlock(&compaction->lock);
        bound_position(followed);
        rc = enter(compaction, followed, error);
    }
    if (rc != RP_OK) {
        rp_compaction_log_close(followed->log);
        free(followed);
        return rc;
    }
    *out = followed;
    return RP_OK;
}

/* Compares before anybody can read entries that were cut from the log. If that is not possible now, the thread does it later. */
static void compare_now(rp_compaction *compaction, followed_queue *followed) {
    rp_error error = {0};
    rp_compaction_copy copy = {
        .commit_log = compaction->options.commit_log, .queue = followed->queue, .to = followed->log, .log = compaction->options.log};
    rp_compaction_log_lock_writer(followed->log);
    (void)compare(compaction, followed, &copy, &error);
    rp_compaction_log_unlock_writer(followed->log);
}

int rp_compaction_follow(rp_compaction *compaction, rp_consume_queue *queue, rp_error *error) {
    followed_queue *followed = find(compaction, queue);
    if (atomic_load(&queue->compacted) != NULL) /* called with each change of the topic, and a compaction may hold the lock for long */
        return RP_OK;
    int rc = followed != NULL ? RP_OK : open_followed(compaction, queue, &followed, error);
    rc = rc == RP_OK ? start_thread(compaction, error) : rc;
    if (rc != RP_OK)
        return rc;
    compare_now(compaction, followed);
    atomic_store(&followed->is_left, false);
    atomic_store(&followed->stop, 0);
    atomic_store(&queue->compacted, followed->log);
    return RP_OK;
}

void rp_compaction_leave(rp_compaction *compaction, rp_consume_queue *queue) {
    followed_queue *followed = find(compaction, queue);
    if (followed == NULL)
        return;
    atomic_store(&queue->compacted, NULL);
    atomic_store(&followed->is_left, true);
    atomic_store(&followed->stop, 1);
}

int rp_compaction_delete(rp_compaction *compaction, rp_consume_queue *queue, rp_error *error) {
    followed_queue *followed = find(compaction, queue);
    if (followed == NULL)
        return RP_OK;
    atomic_store(&followed->stop, 1);
    rp_compaction_log_lock_writer(followed->log);
    int rc = rp_compaction_log_clear(followed->log, error);
    bool was_compacted = followed->position >= 0;
    followed->position = -1;
    followed->is_compared = false;
    forget_unfinished(followed);
    atomic_store(&followed->filled_to, -1);
    rp_compaction_log_unlock_writer(followed->log);
    if (was_compacted)
        save_position(compaction, followed);
    atomic_store(&followed->stop, atomic_load(&followed->is_left));
    return rc;
}

/* ---- gaps ---- */

void rp_compaction_hold_gaps(rp_compaction *compaction, int holds) { atomic_store(&compaction->holds_gaps, holds); }

int rp_compaction_next_gap(rp_compaction *compaction, uint32_t *cursor, rp_compaction_gap *gap) {
    followed_queue *followed;
    while ((followed = queue_at(compaction, (*cursor)++)) != NULL) {
        if (!atomic_load(&followed->stop) && find_gap(compaction, followed, gap))
            return 1;
    }
    return 0;
}

int rp_compaction_fill(rp_compaction *compaction, rp_consume_queue *queue, rp_slice records, int64_t next_offset, rp_error *error) {
    followed_queue *followed = find(compaction, queue);
    rp_compaction_gap gap;
    int rc = RP_OK;
    if (followed == NULL)
        return RP_OK;
    rp_compaction_copy copy = {
        .commit_log = compaction->options.commit_log, .queue = queue, .to = followed->log, .log = compaction->options.log};
    rp_compaction_log_lock_writer(followed->log);
    if (!atomic_load(&followed->stop) && find_gap(compaction, followed, &gap)) {
        rc = rp_compaction_copy_fill(&copy, records, gap.to, error);
        followed->is_compared = false; /* compared again with what arrives: a master may lose messages that it has not sent to our log */
        if (rc == RP_OK && next_offset > rp_compaction_log_end(followed->log) && gap.to != INT64_MAX)
            rp_compaction_log_set_end(followed->log, next_offset < gap.to ? next_offset : gap.to);
        if (rc == RP_OK && next_offset >= gap.to)
            atomic_store(&followed->filled_to, gap.to != INT64_MAX ? gap.to : 0);
    }
    rp_compaction_log_unlock_writer(followed->log);
    count(&compaction->copied, copy.copied);
    count(&compaction->passed_over, copy.passed_over);
    return rc;
}

/* ---- what others ask ---- */

/* Returns the commit log offset of the queue's first message that its compacted log does not have on disk; INT64_MAX: there is none. */
static int64_t needed_of(const followed_queue *followed) {
    rp_queue_entry entry;
    int64_t at = rp_compaction_log_synced_end(followed->log), min = rp_consume_queue_min_offset(followed->queue);
    at = at > min ? at : min;
    if (atomic_load(&followed->is_left) || at >= rp_consume_queue_max_offset(followed->queue))
        return INT64_MAX;
    int64_t got = rp_consume_queue_read(followed->queue, at, &entry, 1);
    if (got == 1)
        return entry.commit_log_offset;
    return rp_status_is_passing((int)got) ? 0 : INT64_MAX;
}

int64_t rp_compaction_needed_from(rp_compaction *compaction) {
    int64_t least = INT64_MAX;
    pthread_mutex_lock(&compaction->lock);
    for (uint32_t i = 0; i < compaction->count; i++) {
        int64_t from = needed_of(compaction->queues[i]);
        least = from < least ? from : least;
    }
    pthread_mutex_unlock(&compaction->lock);
    return least;
}

static int64_t read_counter(const _Atomic uint64_t *counter) { return (int64_t)atomic_load_explicit(counter, memory_order_relaxed); }

void rp_compaction_read_stats(rp_compaction *compaction, rp_compaction_stats *stats) {
    *stats = (rp_compaction_stats){.copied = read_counter(&compaction->copied),
                                   .without_key = read_counter(&compaction->without_key),
                                   .passed_over = read_counter(&compaction->passed_over),
                                   .passes = read_counter(&compaction->passes),
                                   .failures = read_counter(&compaction->failures),
                                   .kept = read_counter(&compaction->kept),
                                   .dropped = read_counter(&compaction->dropped)};
    pthread_mutex_lock(&compaction->lock);
    for (uint32_t i = 0; i < compaction->count; i++) {
        const followed_queue *followed = compaction->queues[i];
        uint32_t segments;
        uint64_t bytes;
        rp_compaction_log_read_size(followed->log, &segments, &bytes);
        stats->bytes += (int64_t)bytes;
        if (atomic_load(&followed->is_left))
            continue;
        int64_t behind = rp_consume_queue_max_offset(followed->queue) - rp_compaction_log_end(followed->log);
        stats->queues++;
        stats->behind += behind > 0 ? behind : 0;
    }
    pthread_mutex_unlock(&compaction->lock);
}
