/* dispatcher.c: see dispatcher.h.
 *
 * The record's queue offset, compared with the queue's next offset:
 *   equal    the usual case: the entry is put.
 *   lower    if the existing entry points to this record, it was dispatched before. If it points elsewhere, the queue was reset after
 *            that entry (topic deleted and created again), or the entry was left by a crash: the queue is cut there, then the entry is
 *            put.
 *   higher   entries are missing. Before a queue's first entry, retention took them: the queue starts here. In the middle, something was
 *            lost: short gaps are filled with entries nobody can read, for longer ones the queue starts again. A batch queue needs no
 *            entries in a gap, because its entries give their own offsets.
 *
 * The sys flag of a record says whether it belongs to a batch queue. A queue of the other kind belonged to a deleted topic and is
 * removed. But a topic that the broker declares as one of batch queues keeps its queues: plain messages that RocketMQ has accepted for
 * it are in no queue, there as here.
 */
#include "dispatcher.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/java_number.h"
#include "consume_queue_inl.h"
#include "consume_queue_space.h"
#include "consume_queue_writer.h"
#include "inner_batch.h"
#include "light_queue.h"
#include "message_layout_inl.h"
#include "store_path.h"

#define GAP_MAX 100000 /* entries filled in one by one; a hostile queue offset must not fill the disk */
#define DELAY_LEVELS_DEFAULT "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

static int64_t unit_ms(char unit) {
    switch (unit) {
    case 's':
        return 1000;
    case 'm':
        return 60 * 1000;
    case 'h':
        return 3600 * 1000;
    case 'd':
        return 24 * 3600 * 1000;
    default:
        return 0;
    }
}

int rp_dispatcher_init(rp_dispatcher *dispatcher, rp_queue_table *queues, rp_log *log, const char *delay_levels, rp_error *error) {
    memset(dispatcher, 0, sizeof *dispatcher);
    dispatcher->queues = queues;
    dispatcher->log = log;
    const char *at = delay_levels == NULL ? DELAY_LEVELS_DEFAULT : delay_levels;
    while (*(at += strspn(at, " ")) != 0) {
        char *unit;
        int64_t count = strtoll(at, &unit, 10);
        int64_t scale = unit_ms(*unit);
        if (unit == at || scale == 0 || count < 0 || count > INT32_MAX || (unit[1] != ' ' && unit[1] != 0) ||
            dispatcher->delay_level_max == RP_DELAY_LEVELS_MAX) {
            return rp_error_set(error, RP_E_INVALID, 0, NULL, -1,
                                "messageDelayLevel: \"%.16s\" is not a number with s, m, h or d, or there are more than %d levels", at,
                                RP_DELAY_LEVELS_MAX);
        }
        dispatcher->delay_level_ms[++dispatcher->delay_level_max] = count * scale;
        at = unit + 1;
    }
    return RP_OK;
}

int64_t rp_dispatcher_tags_code(const rp_dispatcher *dispatcher, const rp_message *message) {
    if (message->topic.size == sizeof RP_DELAY_TOPIC - 1 && memcmp(message->topic.data, RP_DELAY_TOPIC, message->topic.size) == 0) {
        int64_t level, due_ms;
        if (rp_java_integer(rp_message_property(message->properties, "DELAY"), 1, INT32_MAX, &level)) {
            level = level > dispatcher->delay_level_max ? dispatcher->delay_level_max : level;
            bool is_damaged = __builtin_add_overflow(message->store_timestamp_ms, dispatcher->delay_level_ms[level], &due_ms);
            return is_damaged ? INT64_MAX : due_ms; /* the time in a record is not covered by its CRC */
        }
    }
    return rp_message_tags_code(message->properties);
}

static void note_touched(rp_dispatcher *dispatcher, rp_consume_queue *queue) {
    uint32_t count = dispatcher->touched_count;
    bool is_known = count > 0 && dispatcher->touched[count - 1] == queue;
    if (!is_known && count < sizeof dispatcher->touched / sizeof dispatcher->touched[0]) {
        dispatcher->touched[dispatcher->touched_count++] = queue;
    }
}

static int put(rp_dispatcher *dispatcher, rp_consume_queue *queue, const rp_queue_entry *entry, rp_error *error) {
    bool is_first = rp_consume_queue_max_offset(queue) == rp_consume_queue_min_offset(queue);
    int rc = rp_consume_queue_reserve(queue, error);
    rc = rc == RP_OK ? rp_consume_queue_write(queue, entry, error) : rc;
    if (rc == RP_OK) {
        rp_consume_queue_show(queue, entry);
        if (__builtin_expect(is_first, 0)) {
            rp_queue_table_keep(dispatcher->queues, queue);
        }
        dispatcher->entries_added++;
        note_touched(dispatcher, queue);
    }
    return rc;
}

static void warn(const rp_dispatcher *dispatcher, const rp_consume_queue *queue, const char *what, int64_t from, int64_t to) {
    rp_slice topic = rp_consume_queue_topic(queue);
    rp_log_write(dispatcher->log, RP_LOG_WARNING, "queue %.*s/%d: %s (offsets %lld to %lld)", (int)topic.size, (const char *)topic.data,
                 rp_consume_queue_id(queue), what, (long long)from, (long long)to);
}

/* Voids everything in the queue; its next entry will be `offset`. */
static int restart_at(rp_consume_queue *queue, int64_t offset, rp_error *error) {
    int rc = rp_consume_queue_clear(queue, error);
    return rc == RP_OK ? rp_consume_queue_start_at(queue, offset, error) : rc;
}

/* Handles a record that is later than the queue's next entry. */
static int bridge_gap(rp_dispatcher *dispatcher, rp_consume_queue *queue, int64_t offset, int64_t log_offset, rp_error *error) {
    /* Its position follows the log's order, as searches expect, but no record has its size. */
    const rp_queue_entry unreadable = {.commit_log_offset = log_offset, .size = INT32_MAX, .tags_code = 0};
    int64_t next = rp_consume_queue_max_offset(queue);
    bool is_empty = next == rp_consume_queue_min_offset(queue);
    if (!is_empty && queue->is_batch) {
        return RP_OK;
    }
    if (is_empty || offset - next > GAP_MAX) {
        if (!is_empty) {
            warn(dispatcher, queue, "too many records are missing, older entries are dropped", next, offset);
        }
        return restart_at(queue, offset, error);
    }
    warn(dispatcher, queue, "records are missing, they read as gone", next, offset - 1);
    int rc = RP_OK;
    for (; next < offset && rc == RP_OK; next++, dispatcher->gaps_filled++) {
        rc = put(dispatcher, queue, &unreadable, error);
    }
    return rc;
}

/* The topic was deleted and created again with queues of the other kind. NULL as rp_queue_table_find. */
static rp_consume_queue *exchange(rp_dispatcher *dispatcher, rp_consume_queue *queue, bool is_batch, rp_error *error) {
    warn(dispatcher, queue, "the topic was made again with queues of another kind, older entries are dropped",
         rp_consume_queue_min_offset(queue), rp_consume_queue_max_offset(queue));
    if (rp_consume_queue_clear(queue, error) != RP_OK) {
        return NULL;
    }
    rp_consume_queue_place(queue, 0);
    rp_path_remove_empty(rp_consume_queue_directory(queue), 2);
    return rp_queue_table_find_kind(dispatcher->queues, rp_consume_queue_topic(queue), rp_consume_queue_id(queue), is_batch, error);
}

/* As queue_of, for a queue that is not in recent_queues, or is not of the record's kind. */
static rp_consume_queue *look_for_queue(rp_dispatcher *dispatcher, const rp_message *message, bool is_batch, rp_error *error) {
    is_batch = is_batch || rp_queue_table_is_batch_topic(dispatcher->queues, message->topic);
    rp_consume_queue *queue = rp_queue_table_find_kind(dispatcher->queues, message->topic, message->queue_id, is_batch, error);
    bool is_other = queue != NULL && queue->is_batch != is_batch && message->physical_offset >= queue->deleted_at;
    return is_other ? exchange(dispatcher, queue, is_batch, error) : queue;
}

/* Returns the record's queue, made if this is its first record; NULL as rp_queue_table_find. */
static rp_consume_queue *queue_of(rp_dispatcher *dispatcher, const rp_message *message, rp_error *error) {
    rp_consume_queue **place = &dispatcher->recent_queues[(uint32_t)message->queue_id % RP_RECENT_QUEUES], *queue = *place;
    rp_slice topic = queue == NULL ? (rp_slice){NULL, 0} : rp_consume_queue_topic(queue);
    bool is_batch = (message->sys_flag & RP_SYSFLAG_INNER_BATCH) != 0;
    if (queue == NULL || rp_consume_queue_id(queue) != message->queue_id || queue->is_batch != is_batch ||
        topic.size != message->topic.size || memcmp(topic.data, message->topic.data, topic.size) != 0) {
        queue = look_for_queue(dispatcher, message, is_batch, error);
        *place = queue != NULL ? queue : *place;
    }
    return queue;
}

/* Fills in the record's entry. 1; 0: it has none in that queue. RP_E_CORRUPT: it belongs to a batch queue, and does not give a valid
 * place. */
static int describe(const rp_consume_queue *queue, const rp_message *message, rp_queue_entry *entry, rp_error *error) {
    entry->commit_log_offset = message->physical_offset;
    entry->size = (int32_t)message->size;
    entry->messages = 1;
    entry->queue_offset = message->queue_offset;
    entry->store_timestamp_ms = message->store_timestamp_ms;
    if (__builtin_expect(!queue->is_batch, 1) || (message->sys_flag & RP_SYSFLAG_INNER_BATCH) == 0) {
        return !queue->is_batch && message->physical_offset >= queue->deleted_at;
    }
    if (!rp_inner_batch_read(message, entry)) {
        return rp_error_set(error, RP_E_CORRUPT, 0, NULL, message->physical_offset,
                            "a batch whose INNER_NUM and INNER_BASE are not its place in the queue");
    }
    return message->physical_offset >= queue->deleted_at;
}

/* Enters the entry at its offset of the queue, as the head of this file describes. */
static int enter(rp_dispatcher *dispatcher, rp_consume_queue *queue, int64_t offset, const rp_queue_entry *entry, rp_error *error) {
    int64_t next = rp_consume_queue_max_offset(queue);
    if (offset < 0 || offset > RP_QUEUE_OFFSETS_MAX) {
        return rp_error_set(error, RP_E_CORRUPT, 0, NULL, entry->commit_log_offset, "queue offset %lld cannot be", (long long)offset);
    }
    int rc = RP_OK;
    if (offset < next) {
        rp_queue_entry found;
        int64_t got = rp_consume_queue_read(queue, offset, &found, 1);
        if (rp_status_is_passing((int)got)) { /* it is not known where the existing entry points: nothing is cut */
            return rp_error_set(error, (int)got, 0, NULL, entry->commit_log_offset, "the queue's entry %lld cannot be read: %s",
                                (long long)offset, rp_status_text((int)got));
        }
        if (got == 1 && found.commit_log_offset == entry->commit_log_offset && found.size == entry->size) {
            return RP_OK;
        }
        dispatcher->entries_replaced += (uint64_t)(next - offset);
        rc = offset < rp_consume_queue_min_offset(queue) ? restart_at(queue, offset, error)
                                                         : rp_consume_queue_truncate(queue, offset, error);
    } else if (offset > next) {
        rc = bridge_gap(dispatcher, queue, offset, entry->commit_log_offset, error);
    }
    return rc == RP_OK ? put(dispatcher, queue, entry, error) : rc;
}

/* Finds a light queue of the message; NULL: it does not exist, was deleted since, or the store has as many queues as it may. RP_OK,
 * RP_E_NO_MEMORY. */
static int find_light(const rp_dispatcher *dispatcher, const rp_message *message, rp_slice name, rp_consume_queue **queue,
                      rp_error *error) {
    rp_error cause;
    cause.status = RP_OK;
    rp_consume_queue *found = dispatcher->makes_light_queues ? rp_queue_table_find_light(dispatcher->queues, name, UINT32_MAX, &cause)
                                                             : rp_queue_table_find(dispatcher->queues, name, RP_LIGHT_QUEUE_ID, 0, &cause);
    *queue = found != NULL && message->physical_offset >= found->deleted_at ? found : NULL;
    if (found == NULL && cause.status == RP_E_NO_MEMORY) {
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, message->physical_offset, "no memory for a light queue");
    }
    return RP_OK;
}

/* An offset below the queue's end, where another message is: RocketMQ's copies of a message carry the offsets of the first one, and
 * nothing is cut for them, as in RocketMQ. A queue that was deleted and created again begins at 0. */
static bool is_stale(rp_consume_queue *queue, int64_t offset) { return offset > 0 && offset < rp_consume_queue_max_offset(queue); }

/* Enters the message into its light queues. A light queue that cannot take the entry is passed over; only errors that will pass stop the
 * dispatch. */
static int enter_light_queues(rp_dispatcher *dispatcher, const rp_message *message, const rp_queue_entry *entry, rp_error *error) {
    rp_light_queues light = rp_light_queues_of(message->properties);
    rp_slice name;
    int64_t offset;
    int rc = RP_OK;
    while (rc == RP_OK && rp_light_queues_next(&light, &name, &offset)) {
        rp_consume_queue *queue;
        rc = find_light(dispatcher, message, name, &queue, error);
        rc = rc == RP_OK && queue != NULL && !is_stale(queue, offset) ? enter(dispatcher, queue, offset, entry, error) : rc;
        rc = rc == RP_E_CORRUPT ? RP_OK : rc;
    }
    return rc;
}

static int place_in_light_queues(const rp_dispatcher *dispatcher, const rp_message *message, rp_error *error) {
    rp_light_queues light = rp_light_queues_of(message->properties);
    rp_slice name;
    int64_t offset;
    int rc = RP_OK;
    while (rc == RP_OK && rp_light_queues_next(&light, &name, &offset)) {
        rp_consume_queue *queue;
        rc = find_light(dispatcher, message, name, &queue, error);
        if (queue != NULL && offset <= RP_QUEUE_OFFSETS_MAX && offset >= rp_consume_queue_next_offset(queue)) {
            rp_consume_queue_place(queue, offset + 1);
        }
    }
    return rc;
}

static bool is_in_light_queues(const rp_dispatcher *dispatcher, const rp_message *message) {
    return dispatcher->has_light_queues && rp_topic_has_light_queues(message->topic);
}

static int find_light_queue(void *context, rp_consume_queue *queue) {
    rp_dispatcher *dispatcher = context;
    dispatcher->has_light_queues = rp_is_light_queue(rp_consume_queue_topic(queue));
    return dispatcher->has_light_queues;
}

void rp_dispatcher_look_for_light_queues(rp_dispatcher *dispatcher, int makes_light_queues) {
    dispatcher->has_light_queues = dispatcher->makes_light_queues = makes_light_queues;
    if (!makes_light_queues) {
        rp_queue_table_each(dispatcher->queues, find_light_queue, dispatcher);
    }
}

int rp_dispatcher_apply(rp_dispatcher *dispatcher, const rp_message *message, rp_error *error) {
    return rp_dispatcher_apply_coded(dispatcher, message, rp_dispatcher_tags_code(dispatcher, message), error);
}

/* The status for a record without a queue: an error that will pass as it is, any other as RP_E_CORRUPT. */
static int queue_failure(const rp_error *error) {
    return error != NULL && rp_status_is_passing(error->status) ? error->status : RP_E_CORRUPT;
}

int rp_dispatcher_apply_coded(rp_dispatcher *dispatcher, const rp_message *message, int64_t tags_code, rp_error *error) {
    dispatcher->touched_count = 0;
    if (!rp_message_is_queued(message->sys_flag)) {
        return RP_OK;
    }
    rp_consume_queue *queue = queue_of(dispatcher, message, error);
    if (queue == NULL) {
        return queue_failure(error);
    }
    rp_queue_entry entry = {.tags_code = tags_code};
    int rc = describe(queue, message, &entry, error);
    rc = rc > 0 ? enter(dispatcher, queue, entry.queue_offset, &entry, error) : rc;
    return rc == RP_OK && is_in_light_queues(dispatcher, message) ? enter_light_queues(dispatcher, message, &entry, error) : rc;
}

int rp_dispatcher_place(rp_dispatcher *dispatcher, const rp_message *message, rp_error *error) {
    if (!rp_message_is_queued(message->sys_flag)) {
        return RP_OK;
    }
    rp_consume_queue *queue = queue_of(dispatcher, message, error);
    if (queue == NULL) {
        return queue_failure(error);
    }
    if (message->queue_offset < 0 || message->queue_offset > RP_QUEUE_OFFSETS_MAX) {
        return RP_E_CORRUPT;
    }
    rp_queue_entry entry;
    int rc = describe(queue, message, &entry, error);
    if (rc > 0) {
        rp_consume_queue_place(queue, entry.queue_offset + entry.messages);
    }
    return rc >= 0 && is_in_light_queues(dispatcher, message) ? place_in_light_queues(dispatcher, message, error) : rc < 0 ? rc : RP_OK;
}
