/* pop_revive_put.c: puts messages that were not acked into their groups' retry topics, several from any checkpoints in one append
 * (pop_revive.h). */
#include <stdlib.h>
#include <string.h>

#include "../base/clock.h"
#include "../base/slice_inl.h"
#include "../store/light_queue.h"
#include "../store/message.h"
#include "../store/compaction_log.h"
#include "../store/topic_prefix_inl.h"
#include "escape_bridge.h"
#include "foreign_messages.h"
#include "inner_messages.h"
#include "pop_revive_inl.h"
#include "property_text.h"
#include "stored_message.h"

#define BATCH_BYTES_MAX (1u << 20) /* limit of the records of one append, unless there is only one */
#define WIDER_MS 5000 /* how long a message waits for a queue of its own number */
#define FIRST_POP_TIME "1ST_POP_TIME"
#define FIRST_POP_ROOM 48u

/* ---- where it goes ---- */

rp_slice revive_normal_topic(rp_slice topic, rp_slice group) {
    uint32_t prefix = RP_RETRY_PREFIX_SIZE + group.size;
    if (!rp_is_retry_topic(topic) || topic.size <= prefix + 1 || memcmp(topic.data + RP_RETRY_PREFIX_SIZE, group.data, group.size) != 0 ||
        (topic.data[prefix] != '+' && topic.data[prefix] != '_'))
        return topic;
    return (rp_slice){topic.data + prefix + 1, topic.size - prefix - 1};
}

static bool is_wanted(const rp_pop_revive *revive, rp_slice name) {
    for (uint32_t i = 0; i < revive->wanted_count; i++) {
        if (rp_slice_equals((rp_slice){revive->wanted[i].name, revive->wanted[i].size}, name))
            return true;
    }
    return false;
}

static void want_topic(rp_pop_revive *revive, rp_slice name, int32_t queues) {
    pthread_mutex_lock(&revive->lock);
    if (revive->wanted_count < REVIVE_WANTED_MAX && !is_wanted(revive, name)) {
        revive_wanted *wanted = &revive->wanted[revive->wanted_count++];
        memcpy(wanted->name, name.data, name.size);
        wanted->size = name.size;
        wanted->queues = queues;
    }
    pthread_mutex_unlock(&revive->lock);
}

rp_topic *revive_target(rp_pop_revive *revive, const rp_pop_checkpoint *record, const rp_topic *normal) {
    rp_broker *broker = revive->broker;
    uint8_t room[RP_POP_RETRY_NAME_MAX];
    rp_slice name = record->topic;
    if (!rp_is_retry_topic(name)) {
        int version = atomic_load_explicit(&broker->settings.retry_topic_version, memory_order_relaxed);
        name = (rp_slice){room, rp_pop_retry_topic_name(record->topic, record->group, version, room)};
    }
    if (name.size == 0 || name.size > RP_TOPIC_NAME_MAX)
        return NULL;
    rp_topic *topic = rp_topic_table_find(broker->topics, name);
    int32_t queues = rp_pop_retry_queues(broker, normal);
    if (topic == NULL || (queues > 1 && rp_pop_retry_width(topic) < queues))
        want_topic(revive, name, queues);
    return topic;
}

/* Returns the first queue, or the one with the number of the message's queue, which preserves its priority; -1: the retry topic is about
 * to get it. It may never get it, if the topic had more queues than it has now, or Python cannot widen the retry topic. */
static int32_t queue_of(const rp_pop_revive *revive, const rp_kept_checkpoint *kept, const rp_pop_checkpoint *record,
                        const rp_topic *target, int32_t own_id) {
    const rp_broker *broker = revive->broker;
    if (own_id <= 0 || !atomic_load_explicit(&broker->settings.separate_retry_queues, memory_order_relaxed))
        return 0;
    if (own_id < rp_pop_retry_width(target))
        return own_id;
    const rp_topic *normal = rp_topic_table_find(broker->topics, revive_normal_topic(record->topic, record->group));
    bool is_to_come = normal != NULL && own_id < rp_pop_retry_queues(broker, normal);
    return is_to_come && (kept->failing_ms == 0 || revive->now_ms - kept->failing_ms < WIDER_MS) ? -1 : 0;
}

/* A group begins a retry topic with its first message, not where its topics begin. RocketMQ: initPopRetryOffset. */
static void begin_offset(rp_pop_revive *revive, rp_group *group, rp_topic *topic, const rp_consume_queue *queue) {
    rp_consumption *consumption = rp_group_table_consumption_entry(revive->broker->groups, group, topic);
    rp_offset_cell *cell = consumption != NULL ? rp_offset_cells_open(&consumption->offsets, rp_consume_queue_id(queue)) : NULL;
    int64_t none = RP_OFFSET_NONE;
    if (cell != NULL && atomic_compare_exchange_strong_explicit(&cell->committed, &none, rp_consume_queue_min_offset(queue),
                                                                memory_order_relaxed, memory_order_relaxed))
        rp_note_change(&revive->broker->offset_version);
}

/* ---- one message ---- */

/* A message that lies behind the checkpoint in the log is another one: its topic was deleted and created again. */
static int find_queued(rp_consume_queue *queue, int64_t offset, int64_t log_offset_max, int64_t *log_offset) {
    rp_queue_entry entry;
    int64_t count = rp_consume_queue_read(queue, offset, &entry, 1);
    if (count <= 0)
        return rp_status_is_passing((int)count) ? (int)count : RP_E_NOT_FOUND;
    *log_offset = entry.commit_log_offset;
    return entry.commit_log_offset > log_offset_max ? RP_E_NOT_FOUND : RP_OK;
}

/* Copies a message that a compacted queue keeps for longer than the commit log. */
static int copy_kept(rp_compaction_log *log, int64_t offset, int64_t log_offset_max, revived_message *due) {
    rp_compaction_segment *segment = rp_compaction_log_find(log, offset);
    rp_compaction_entry entry = {.queue_offset = -1};
    rp_slice record = {NULL, 0};
    int status = RP_E_NOT_FOUND;
    if (segment != NULL && rp_compaction_segment_find(segment, offset) < rp_compaction_segment_count(segment)) {
        rp_compaction_segment_entry(segment, rp_compaction_segment_find(segment, offset), &entry);
        record = rp_compaction_segment_record(segment, &entry);
    }
    if (entry.queue_offset == offset && record.size > 0) {
        due->record = malloc(record.size);
        status = due->record != NULL ? RP_OK : RP_E_NO_MEMORY;
    }
    if (status == RP_OK) {
        memcpy(due->record, record.data, record.size);
        int kind = rp_message_decode(due->record, record.size, RP_CHECK_BODY_CRC, &due->stored.message, NULL);
        bool is_it = kind == RP_RECORD_MESSAGE && due->stored.message.physical_offset <= log_offset_max;
        status = is_it ? RP_OK : RP_E_NOT_FOUND;
    }
    rp_compaction_segment_release(segment);
    return status;
}

/* Takes the popped message out of a batch queue's record. */
static int take_apart(revive_batch *batch, int64_t log_offset, int64_t offset, revived_message *due) {
    rp_inner_places *places = &batch->revive->inner_places;
    rp_stored_message *whole = &batch->whole;
    int64_t found;
    uint64_t size;
    if (whole->pin == NULL || whole->message.physical_offset != log_offset) {
        rp_stored_message_close(whole);
        int status = rp_stored_message_open(batch->revive->broker->commit_log, log_offset, whole);
        if (status != RP_OK)
            return status;
    }
    if (rp_inner_messages(places, &whole->message, offset, 1, &found, &size, NULL) == 0)
        return RP_E_NOT_FOUND;
    due->record = malloc(size);
    if (due->record == NULL)
        return RP_E_NO_MEMORY;
    (void)rp_inner_messages(places, &whole->message, offset, 1, &found, &size, due->record);
    int kind = rp_message_decode(due->record, size, RP_CHECK_NO_CRC, &due->stored.message, NULL);
    return kind == RP_RECORD_MESSAGE ? RP_OK : RP_E_NOT_FOUND;
}

static rp_slice broker_of(const rp_pop_revive *revive, const rp_pop_checkpoint *record) {
    return record->broker_name.size > 0 ? record->broker_name : revive_broker_name(revive);
}

/* The same for a foreign message: its broker sends the whole batch. */
static int part_of(revive_batch *batch, int64_t offset, revived_message *due) {
    rp_message whole = due->stored.message;
    uint8_t *record = due->record;
    int64_t found;
    uint64_t size;
    due->record = NULL;
    int status = rp_inner_messages(&batch->revive->inner_places, &whole, offset, 1, &found, &size, NULL) == 1 ? RP_OK : RP_E_NOT_FOUND;
    if (status == RP_OK && (due->record = malloc(size)) == NULL)
        status = RP_E_NO_MEMORY;
    if (status == RP_OK) {
        (void)rp_inner_messages(&batch->revive->inner_places, &whole, offset, 1, &found, &size, due->record);
        int kind = rp_message_decode(due->record, size, RP_CHECK_NO_CRC, &due->stored.message, NULL);
        status = kind == RP_RECORD_MESSAGE ? RP_OK : RP_E_NOT_FOUND;
    }
    free(record);
    return status;
}

/* As open_message, for a message of the broker that gave it out; RP_E_BUSY: it is on its way. */
static int open_foreign(revive_batch *batch, const rp_pop_checkpoint *record, int64_t offset, revived_message *due) {
    uint32_t size = 0;
    int status = rp_foreign_messages_find(batch->revive->broker->foreign, record->broker_name, record->topic, record->queue_id, offset,
                                          rp_clock_wall_ms(rp_clock_system()), &due->record, &size);
    if (status == RP_E_INVALID)
        return RP_E_NOT_FOUND;
    if (status != RP_OK)
        return status;
    int kind = rp_message_decode(due->record, size, RP_CHECK_BODY_CRC, &due->stored.message, NULL);
    if (kind != RP_RECORD_MESSAGE)
        return RP_E_BUSY; /* damaged on its way: requested again */
    return due->stored.message.sys_flag & RP_SYSFLAG_INNER_BATCH ? part_of(batch, offset, due) : RP_OK;
}

/* Opens the stored record; RP_E_NOT_FOUND: it is gone, and nothing is revived; RP_E_IO, RP_E_NO_MEMORY. */
static int open_message(revive_batch *batch, const rp_pop_checkpoint *record, int64_t offset, revived_message *due) {
    rp_pop_revive *revive = batch->revive;
    if (!rp_slice_equals(broker_of(revive, record), revive_broker_name(revive)))
        return open_foreign(batch, record, offset, due);
    rp_consume_queue *queue = rp_message_store_queue(revive->broker->store, record->topic, record->queue_id, 0, NULL);
    if (queue == NULL || offset < 0)
        return RP_E_NOT_FOUND;
    int64_t log_offset_max = due->kept->log_offset, log_offset = 0;
    int status = find_queued(queue, offset, log_offset_max, &log_offset);
    if (status == RP_OK && rp_consume_queue_is_batch(queue))
        status = take_apart(batch, log_offset, offset, due);
    else if (status == RP_OK)
        status = rp_stored_message_open(revive->broker->commit_log, log_offset, &due->stored);
    rp_compaction_log *log = rp_consume_queue_compacted(queue);
    return status == RP_E_NOT_FOUND && log != NULL ? copy_kept(log, offset, log_offset_max, due) : status;
}

/* Sets the properties, with the time of the first pop, without the CRC that ended the old record. RP_OK, RP_E_NO_MEMORY. */
static int set_properties(rp_append_item *item, revived_message *due) {
    static const char *const replaced[] = {"__CRC32#", RP_LIGHT_OFFSETS, "INNER_NUM", "INNER_BASE", FIRST_POP_TIME, NULL};
    static const char *const replaced_later[] = {"__CRC32#", RP_LIGHT_OFFSETS, "INNER_NUM", "INNER_BASE", NULL};
    const rp_message *message = &due->stored.message;
    bool is_first = (message->reconsume_times == 0 || rp_message_property(message->properties, FIRST_POP_TIME).data == NULL) &&
                    message->properties.size + FIRST_POP_ROOM <= RP_PROPERTIES_SIZE_MAX; /* if it fits */
    due->text = malloc((size_t)message->properties.size + FIRST_POP_ROOM);
    if (due->text == NULL)
        return RP_E_NO_MEMORY;
    uint8_t *end = rp_copy_pairs_without(due->text, message->properties, is_first ? replaced : replaced_later);
    if (is_first)
        end = rp_put_number_pair(end, FIRST_POP_TIME, due->kept->pop_time_ms);
    item->properties[0] = (rp_slice){due->text, (uint32_t)(end - due->text)};
    return RP_OK;
}

static void set_born_host(const rp_broker *broker, rp_append_item *item) {
    int32_t v6 = broker->options.store_host_is_v6 ? RP_SYSFLAG_BORN_V6 : 0;
    item->sys_flag = (item->sys_flag & ~RP_SYSFLAG_BORN_V6) | v6;
    memcpy(item->born_host, broker->options.store_host, sizeof item->born_host);
}

static void release(revived_message *due) {
    rp_stored_message_close(&due->stored);
    free(due->text);
    free(due->record);
}

void revive_flush(revive_batch *batch) {
    rp_pop_revive *revive = batch->revive;
    if (batch->count > 0)
        rp_escape_append(revive->broker, batch->items, batch->count);
    for (uint32_t i = 0; i < batch->count; i++) {
        const rp_append_item *item = &batch->items[i];
        revived_message *due = &batch->messages[i];
        if (item->status == RP_OK) {
            if (item->size > 0) /* stored here, not by another master */
                rp_count_put_inside(revive->broker, due->topic, RP_MESSAGE_NORMAL, item->size);
            revive_count(&revive->revived);
            revive_is_over(due->kept, due->index);
        } else {
            revive_count(&revive->append_failures);
            batch->is_refused |= item->status != RP_E_TOO_LARGE;
        }
        release(due);
    }
    batch->count = 0;
    batch->bytes = 0;
}

void revive_end(revive_batch *batch) { rp_stored_message_close(&batch->whole); }

int revive_take(revive_batch *batch, rp_kept_checkpoint *kept, const rp_pop_checkpoint *record, rp_group *group, rp_topic *target,
                uint32_t index) {
    rp_pop_revive *revive = batch->revive;
    if (batch->count == REVIVE_BATCH_MAX)
        revive_flush(batch);
    revived_message *message = &batch->messages[batch->count];
    rp_append_item *item = &batch->items[batch->count];
    *message = (revived_message){.kept = kept, .index = index, .topic = target};
    int status = open_message(batch, record, rp_pop_checkpoint_offset(record, index), message);
    if (status == RP_E_NOT_FOUND)
        revive_is_over(kept, index);
    if (status != RP_OK) {
        release(message);
        return status == RP_E_NOT_FOUND ? RP_OK : status;
    }
    *item = rp_item_of_message(&message->stored.message);
    item->reconsume_times = (int32_t)((uint32_t)item->reconsume_times + 1); /* a producer may have sent any number */
    set_born_host(revive->broker, item);
    status = set_properties(item, message);
    int32_t queue_id = queue_of(revive, kept, record, target, message->stored.message.queue_id);
    if (status == RP_OK && queue_id < 0)
        status = RP_E_BUSY;
    if (status == RP_OK && rp_topic_open_queue_to_send(revive->broker->topics, target, queue_id, &item->queue) == NULL)
        status = RP_E_IO;
    if (status != RP_OK) {
        release(message);
        return status;
    }
    begin_offset(revive, group, target, item->queue);
    batch->count++;
    batch->bytes += message->stored.message.size;
    if (batch->bytes >= BATCH_BYTES_MAX)
        revive_flush(batch);
    return RP_OK;
}
