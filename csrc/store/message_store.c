/* message_store.c: the operations of an open store. See message_store.h. */
#include "message_store_inl.h"

#include <stdio.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "commit_log_inl.h"
#include "commit_log_ledger.h"
#include "consume_queue_inl.h"
#include "consume_queue_space.h"
#include "cut_intent.h"

#define INDEX_PATIENCE_MS 200

rp_commit_log *rp_message_store_commit_log(rp_message_store *store) { return store->commit_log; }

void rp_message_store_set_message_size_max(rp_message_store *store, uint32_t bytes) {
    rp_commit_log_set_message_size_max(store->commit_log, bytes);
}

void rp_message_store_set_append_timing(rp_message_store *store, uint32_t busy_timeout_ms, uint32_t wait_timeout_ms) {
    rp_commit_log_set_append_timing(store->commit_log, busy_timeout_ms, wait_timeout_ms);
}

int rp_message_store_set_flush_timing(rp_message_store *store, const rp_flush_timing *timing, rp_error *error) {
    int rc = rp_message_store_check_intervals(timing->interval_ms, timing->queue_interval_ms, error);
    if (rc == RP_OK && store->flusher != NULL) { /* a read-only store has no flusher */
        rp_flusher_set_timing(store->flusher, timing);
    }
    return rc;
}

rp_consume_queue *rp_message_store_queue(rp_message_store *store, rp_slice topic, int32_t queue_id, int create, rp_error *error) {
    return rp_queue_table_find(store->queues, topic, queue_id, create && !store->options.read_only, error);
}

int rp_message_store_set_batch_topic(rp_message_store *store, rp_slice topic, int is_batch) {
    return rp_queue_table_set_batch_topic(store->queues, topic, is_batch);
}

int32_t rp_message_store_delay_level_max(const rp_message_store *store) { return store->dispatcher.delay_level_max; }

int64_t rp_message_store_delay_ms(const rp_message_store *store, int32_t level) { return store->dispatcher.delay_level_ms[level]; }

rp_consume_queue *rp_message_store_delay_queue(rp_message_store *store, int32_t level, int create, rp_error *error) {
    rp_slice topic = {(const uint8_t *)RP_DELAY_TOPIC, sizeof RP_DELAY_TOPIC - 1};
    rp_consume_queue *queue = rp_message_store_queue(store, topic, level - 1, create, error);
    if (queue != NULL) {
        queue->is_delay_level = true;
        queue->delay_ms = store->dispatcher.delay_level_ms[level];
    }
    return queue;
}

int rp_message_store_prepare_queue(rp_message_store *store, rp_consume_queue *queue, rp_error *error) {
    if (store->options.read_only) {
        return rp_error_set(error, RP_E_READ_ONLY, 0, NULL, -1, "the store is open for reading only");
    }
    return rp_consume_queue_prepare(queue, error);
}

typedef struct topic_deletion {
    rp_slice topic;
    rp_commit_log *log;
    rp_compaction *compaction;
    int64_t log_offset;
    int rc, kept;
    rp_error *error;
} topic_deletion;

/* Under the append lock: may the topic have been created again since? RP_OK: it was not; 1: it may have been; or an error. */
static int is_younger(rp_consume_queue *queue, int64_t log_offset, rp_error *error) {
    rp_queue_entry last;
    int64_t end = rp_consume_queue_max_offset(queue);
    if (log_offset == INT64_MAX || end == rp_consume_queue_min_offset(queue)) {
        return RP_OK;
    }
    int64_t got = rp_consume_queue_read_before(queue, end, &last);
    if (got != 1) {
        return rp_error_set(error, got < 0 ? (int)got : RP_E_CORRUPT, 0, NULL, end - 1, "the queue's last entry cannot be read");
    }
    return last.commit_log_offset >= log_offset;
}

/* Under the append lock: everything in the log at this moment, entered or not, belonged to the topic being deleted. */
static int64_t end_of_topic(const topic_deletion *deletion) {
    return deletion->log->position < deletion->log_offset ? deletion->log->position : deletion->log_offset;
}

/* Deletes the compacted copy first, or a kill would leave it to the next topic of this name; and again what was copied meanwhile. */
static void delete_copy(topic_deletion *deletion, rp_consume_queue *queue) {
    if (deletion->compaction == NULL) {
        return;
    }
    int rc = rp_compaction_delete(deletion->compaction, queue, deletion->error);
    deletion->rc = rc < RP_OK ? rc : deletion->rc;
}

static int delete_queue(void *context, rp_consume_queue *queue) {
    topic_deletion *deletion = context;
    if (queue->topic.size == deletion->topic.size && memcmp(queue->topic.data, deletion->topic.data, queue->topic.size) == 0) {
        if (deletion->log_offset == INT64_MAX) {
            delete_copy(deletion, queue);
        }
        pthread_mutex_lock(&deletion->log->append_lock); /* keeps others from putting entries meanwhile */
        int rc = is_younger(queue, deletion->log_offset, deletion->error);
        deletion->kept += rc == 1;
        bool goes = rc == RP_OK;
        rc = goes ? rp_consume_queue_clear(queue, deletion->error) : rc;
        if (goes) {
            queue->deleted_at = end_of_topic(deletion);
            rp_consume_queue_place(queue, 0);
        }
        pthread_mutex_unlock(&deletion->log->append_lock);
        if (goes) {
            delete_copy(deletion, queue);
            rp_path_remove_empty(rp_consume_queue_directory(queue), 2); /* a directory left behind would come back as an empty queue */
        }
        deletion->rc = rc < RP_OK ? rc : deletion->rc;
    }
    return 0;
}

/* Makes sure that a recovery does not dispatch again what is in the log now. A failing disk is reported elsewhere. */
static void checkpoint_queues(rp_message_store *store) {
    rp_error local = {0};
    (void)rp_flusher_checkpoint_queues(store->flusher, &local);
}

int rp_message_store_delete_topic(rp_message_store *store, rp_slice topic, rp_error *error) {
    return rp_message_store_delete_topic_before(store, topic, INT64_MAX, error);
}

int rp_message_store_delete_topic_before(rp_message_store *store, rp_slice topic, int64_t log_offset, rp_error *error) {
    topic_deletion deletion = {
        .topic = topic, .log = store->commit_log, .compaction = store->compaction, .log_offset = log_offset, .rc = RP_OK, .error = error};
    if (store->options.read_only) {
        return rp_error_set(error, RP_E_READ_ONLY, 0, NULL, -1, "the store is open for reading only");
    }
    /* Otherwise a kill during the unlinks would bring back the last messages, in a queue without the earlier ones. */
    checkpoint_queues(store);
    rp_retention_lock(store->retention);
    rp_queue_table_each(store->queues, delete_queue, &deletion);
    rp_queue_table_make_room(store->queues);
    rp_retention_unlock(store->retention);
    checkpoint_queues(store); /* for what arrived between the two */
    return deletion.rc < RP_OK ? deletion.rc : deletion.kept;
}

int rp_message_store_cut_at_open(rp_message_store *store, int64_t offset, rp_error *error) {
    int64_t min = rp_commit_log_min_offset(store->commit_log), max = rp_commit_log_max_offset(store->commit_log);
    if (store->options.read_only) {
        return rp_error_set(error, RP_E_READ_ONLY, 0, store->paths.root, -1, "a store that is only read is not cut");
    }
    if (offset <= min || offset > max) {
        return rp_error_set(error, RP_E_RANGE, 0, store->paths.commit_log, offset,
                            "the log can be cut behind %lld and up to %lld, not at %lld", (long long)min, (long long)max,
                            (long long)offset);
    }
    return rp_cut_intent_write(store->ops, store->paths.root, offset, error);
}

int rp_message_store_expire_file(rp_message_store *store, rp_error *error) {
    return store->retention != NULL ? rp_retention_expire_file(store->retention, error)
                                    : rp_error_set(error, RP_E_READ_ONLY, 0, NULL, -1, "the store is open for reading only");
}

uint32_t rp_message_store_reclaim(rp_message_store *store) { return store->retention != NULL ? rp_retention_reclaim(store->retention) : 0; }

typedef struct queue_visit {
    int (*visit)(void *context, rp_consume_queue *queue);
    void *context;
} queue_visit;

static int visit_live_queue(void *context, rp_consume_queue *queue) {
    const queue_visit *each = context;
    return atomic_load(&queue->deleted) ? 0 : each->visit(each->context, queue);
}

void rp_message_store_each_queue(rp_message_store *store, int (*visit)(void *context, rp_consume_queue *queue), void *context) {
    queue_visit each = {visit, context};
    rp_queue_table_each(store->queues, visit_live_queue, &each);
}

void rp_message_store_on_flushed(rp_message_store *store, void (*flushed)(void *context, int64_t flushed_offset), void *context) {
    if (store->flusher != NULL) {
        rp_flusher_on_flushed(store->flusher, flushed, context);
    }
}

void rp_message_store_on_arrival(rp_message_store *store, void (*arrived)(void *context, rp_consume_queue *queue, uint64_t waiting),
                                 void *context) {
    store->commit_log->arrived = arrived;
    store->commit_log->arrived_context = context;
}

int rp_message_store_on_appended(rp_message_store *store, void (*appended)(void *context), void *context) {
    return rp_commit_log_add_follower(store->commit_log, appended, context);
}

void rp_message_store_forget_appended(rp_message_store *store, const void *context) {
    rp_commit_log_remove_follower(store->commit_log, context);
}

rp_key_query rp_message_store_query(rp_message_store *store, rp_slice topic, rp_slice key, int64_t begin_ms, int64_t end_ms,
                                    int64_t *offsets, uint32_t offsets_max) {
    if (store->index == NULL)
        return (rp_key_query){0};
    if (store->index_builder != NULL) /* if the index is far behind, the answer has what is in it */
        (void)rp_index_builder_await(store->index_builder, rp_commit_log_dispatched_offset(store->commit_log), INDEX_PATIENCE_MS);
    return rp_key_index_query(store->index, topic, key, begin_ms, end_ms, offsets, offsets_max);
}

int rp_message_store_wait_flushed(rp_message_store *store, int64_t offset, uint32_t timeout_ms) {
    return store->flusher != NULL ? rp_flusher_wait(store->flusher, offset, timeout_ms) : RP_E_READ_ONLY;
}

int rp_message_store_wait_committed(rp_message_store *store, int64_t offset, uint64_t cuts, uint32_t timeout_ms) {
    int64_t begun_ns = rp_clock_monotonic_ns(rp_clock_system());
    int rc = rp_message_store_wait_flushed(store, offset, timeout_ms);
    if (rc != RP_OK || store->ledger_index == NULL) {
        return rc;
    }
    int64_t waited_ms = (rp_clock_monotonic_ns(rp_clock_system()) - begun_ns) / RP_NS_PER_MS;
    return rp_commit_log_wait_committed(store->commit_log, offset, cuts, waited_ms < timeout_ms ? timeout_ms - (uint32_t)waited_ms : 0);
}

void rp_message_store_request_flush(rp_message_store *store, int64_t offset) {
    if (store->flusher != NULL) {
        rp_flusher_request(store->flusher, offset);
    }
}

int rp_message_store_flush_is_idle(const rp_message_store *store) { return store->flusher != NULL && rp_flusher_is_idle(store->flusher); }

int rp_message_store_writable(rp_message_store *store, rp_error *error) { return rp_commit_log_failure(store->commit_log, error); }

static uint64_t counter(const _Atomic uint64_t *value) { return atomic_load_explicit(value, memory_order_relaxed); }

void rp_message_store_read_stats(const rp_message_store *store, rp_message_store_stats *stats) {
    const rp_commit_log *log = store->commit_log;
    uint64_t cuts = rp_commit_log_cuts(log);
    rp_flusher_stats flusher = {0};
    rp_retention_stats retention = {0};
    if (store->retention != NULL) {
        rp_retention_read_stats(store->retention, &retention);
    }
    if (store->flusher != NULL) {
        rp_flusher_read_stats(store->flusher, &flusher);
    }
    *stats = (rp_message_store_stats){
        .messages_appended = counter(&log->messages),
        .bytes_appended = counter(&log->bytes),
        .append_failures = counter(&log->failures),
        .append_refused_busy = counter(&log->refused_busy),
        .flushes = flusher.flushes,
        .flush_ns_total = flusher.flush_ns_total,
        .flush_ns_max = flusher.flush_ns_max,
        .append_lock_ns_max = counter(&log->lock_ns_max),
        .commit_log_min_offset = rp_commit_log_min_offset(log),
        .flushed_offset = rp_commit_log_flushed_offset(log),
        .commit_log_max_offset = rp_commit_log_max_offset(log),
        .commit_log_end_offset = rp_commit_log_max_offset(log),
        .commit_log_cuts = cuts,
        .queue_count = rp_queue_table_count(store->queues),
        .indexed_offset = store->index_builder == NULL ? 0 : rp_index_builder_offset(store->index_builder),
        .recovered_from = store->recovery.start,
        .recovered_records = (int64_t)store->recovery.records,
        .flush_backend = store->backend != NULL ? rp_flush_backend_kind_of(store->backend) : RP_FLUSH_BACKEND_SYSCALL,
        .files_deleted = (int64_t)retention.files_deleted,
        .bytes_deleted = (int64_t)retention.bytes_deleted,
        .files_leaving = retention.files_leaving,
    };
    stats->dispatched_offset = rp_commit_log_dispatched_offset(store->commit_log);
    stats->appended_not_synced_bytes = stats->commit_log_max_offset - stats->flushed_offset;
    if (rp_commit_log_has_entries(log)) { /* uncommitted records may be taken back */
        stats->commit_log_max_offset = stats->dispatched_offset;
    }
}
