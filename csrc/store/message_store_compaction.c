/* message_store_compaction.c: the compacted topics of an open store. See message_store.h. */
#include "message_store_inl.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "commit_log_inl.h"

/* For a queue that has lost its log or never had one, as on a new slave: its next message goes behind what was compacted. The copy is
 * not compared meanwhile, because a queue that is only part of the way to its end would look cut. */
static int begin_behind_copy(rp_message_store *store, rp_consume_queue *queue, rp_error *error) {
    rp_compaction_log *log = rp_consume_queue_compacted(queue);
    int rc = RP_OK;
    if (rp_consume_queue_max_offset(queue) > 0) /* the usual case, without the lock, which a compaction may hold for long */
        return RP_OK;
    rp_compaction_log_lock_writer(log);
    pthread_mutex_lock(&store->commit_log->append_lock);
    int64_t end = rp_compaction_log_max_offset(log);
    if (end > 0 && rp_consume_queue_max_offset(queue) == 0 && rp_consume_queue_next_offset(queue) == 0) {
        rc = rp_consume_queue_start_at(queue, end, error);
    }
    pthread_mutex_unlock(&store->commit_log->append_lock);
    rp_compaction_log_unlock_writer(log);
    return rc;
}

int rp_message_store_compact(rp_message_store *store, rp_slice topic, int32_t queue_count, rp_error *error) {
    int rc = RP_OK;
    for (int32_t id = 0; store->compaction != NULL && id < queue_count && rc == RP_OK; id++) {
        rp_consume_queue *queue = rp_queue_table_of_kind(store->queues, topic, id, 0, error);
        if (queue == NULL) {
            return error->status;
        }
        rc = rp_compaction_follow(store->compaction, queue, error);
        /* Or it waits for the deleted topic's queue to be removed. */
        bool is_there = rp_queue_table_find(store->queues, topic, id, 0, error) == queue;
        rc = rc == RP_OK && is_there ? begin_behind_copy(store, queue, error) : rc;
    }
    return rc;
}

typedef struct topic_leave {
    rp_compaction *compaction;
    rp_slice topic;
} topic_leave;

static int leave_queue(void *context, rp_consume_queue *queue) {
    const topic_leave *leave = context;
    rp_slice topic = rp_consume_queue_topic(queue);
    if (topic.size == leave->topic.size && memcmp(topic.data, leave->topic.data, topic.size) == 0) {
        rp_compaction_leave(leave->compaction, queue);
    }
    return 0;
}

void rp_message_store_compact_no_more(rp_message_store *store, rp_slice topic) {
    topic_leave leave = {store->compaction, topic};
    if (store->compaction != NULL) {
        rp_queue_table_each(store->queues, leave_queue, &leave);
    }
}

void rp_message_store_hold_gaps(rp_message_store *store, int holds) {
    if (store->compaction != NULL) {
        rp_compaction_hold_gaps(store->compaction, holds);
    }
}

int rp_message_store_next_gap(rp_message_store *store, uint32_t *cursor, rp_consume_queue **queue, int64_t *from, int64_t *to) {
    rp_compaction_gap gap = {NULL, 0, 0};
    int is_there = store->compaction != NULL && rp_compaction_next_gap(store->compaction, cursor, &gap);
    *queue = gap.queue;
    *from = gap.from;
    *to = gap.to;
    return is_there;
}

int rp_message_store_fill_gap(rp_message_store *store, rp_slice topic, int32_t queue_id, rp_slice records, int64_t next_offset,
                              rp_error *error) {
    rp_consume_queue *queue = store->compaction != NULL ? rp_message_store_queue(store, topic, queue_id, 0, error) : NULL;
    if (queue == NULL) {
        return rp_error_set(error, RP_E_NOT_FOUND, 0, NULL, -1, "no such queue is compacted");
    }
    int rc = rp_compaction_fill(store->compaction, queue, records, next_offset, error);
    bool is_compacted = rc == RP_OK && rp_consume_queue_compacted(queue) != NULL;
    return is_compacted ? begin_behind_copy(store, queue, error) : rc;
}

int64_t rp_message_store_first_offset(const rp_consume_queue *queue) {
    const rp_compaction_log *log = rp_consume_queue_compacted(queue);
    int64_t min = rp_consume_queue_min_offset(queue);
    if (log == NULL || rp_compaction_log_max_offset(log) == 0) {
        return min;
    }
    int64_t kept = rp_compaction_log_min_offset(log);
    return kept < rp_compaction_log_end(log) ? kept : min;
}

/* Returns the offset of the first kept message that was stored at that time or later, -1 if there is none; *before: the last one before
 * it, or itself. */
static int64_t find_kept(rp_compaction_log *log, int64_t timestamp_ms, int64_t *before) {
    rp_compaction_segment *segment;
    *before = -1;
    for (int64_t at = 0; (segment = rp_compaction_log_find(log, at)) != NULL; rp_compaction_segment_release(segment)) {
        rp_compaction_entry entry;
        uint32_t low = rp_compaction_segment_find(segment, at), count = rp_compaction_segment_count(segment), high = count;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            rp_compaction_segment_entry(segment, middle, &entry);
            if (entry.store_timestamp_ms < timestamp_ms) {
                *before = entry.queue_offset;
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if (low < count) {
            rp_compaction_segment_entry(segment, low, &entry);
            rp_compaction_segment_release(segment);
            *before = *before < 0 ? entry.queue_offset : *before;
            return entry.queue_offset;
        }
        /* Or the segment was cut. */
        at = rp_compaction_segment_last_offset(segment) + 1 > at ? rp_compaction_segment_last_offset(segment) + 1 : INT64_MAX;
    }
    return -1;
}

int64_t rp_message_store_offset_by_time(rp_consume_queue *queue, int64_t timestamp_ms, int boundary) {
    int64_t offset = rp_consume_queue_offset_by_time(queue, timestamp_ms, boundary), min = rp_consume_queue_min_offset(queue), before;
    rp_compaction_log *log = rp_consume_queue_compacted(queue);
    if (log == NULL || offset < 0 || offset > min) {
        return offset;
    }
    int64_t kept = find_kept(log, boundary != 0 && timestamp_ms < INT64_MAX ? timestamp_ms + 1 : timestamp_ms, &before);
    return kept < 0 || kept >= min ? offset : boundary != 0 ? before : kept;
}

void rp_message_store_read_compaction(const rp_message_store *store, rp_compaction_stats *stats) {
    *stats = (rp_compaction_stats){0};
    if (store->compaction != NULL) {
        rp_compaction_read_stats(store->compaction, stats);
    }
}
