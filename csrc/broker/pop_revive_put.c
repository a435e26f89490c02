/* pop_revive_put.c: what of a revive queue is due: its messages go to their groups' retry topics (pop_revive.h).
 *
 *   due ─ its record, once more ─ topic, group, retry topic ─ each message that is not over ─► batch ─► one append ─┬─ all over: done
 *                                                                                                                  └─ else looked at again;
 *                                                                             after PATIENCE_MS: a new checkpoint of each that is left ◄─┘
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../base/log_inl.h"
#include "../store/message.h"
#include "pop_revive_inl.h"
#include "property_text.h"
#include "stored_message.h"

#define DUE_MAX 32u            /* checkpoints at once */
#define BATCH_MAX 32u          /* messages of one append */
#define BATCH_BYTES_MAX (1u << 20) /* of their records, or one */
#define PATIENCE_MS 30000
#define RETRY_PREFIX "%RETRY%"
#define FIRST_POP_TIME "1ST_POP_TIME"
#define FIRST_POP_ROOM 48u

/* One message on its way. */
typedef struct due_message {
    rp_kept_checkpoint *kept;
    uint32_t index;
    rp_stored_message stored;
    uint8_t *text; /* its properties where they are not the record's; owned */
    rp_topic *topic;
} due_message;

typedef struct due_batch {
    rp_pop_revive *revive;
    uint32_t count;
    uint64_t bytes;
    bool is_refused; /* an append was: the log takes no more just now */
    rp_append_item items[BATCH_MAX];
    due_message messages[BATCH_MAX];
} due_batch;

/* A checkpoint as it is looked at. */
typedef struct due_checkpoint {
    rp_pop_checkpoint record; /* its texts are in `stored` or the arena */
    rp_stored_message stored;
    rp_topic *target;
} due_checkpoint;

static void count_one(_Atomic uint64_t *counter) { rp_count(counter, 1); }

/* ---- where it goes ---- */

static bool starts_with(rp_slice text, const char *prefix) {
    return text.size >= strlen(prefix) && memcmp(text.data, prefix, strlen(prefix)) == 0;
}

/* The topic whose messages these are: of a pop retry topic's name the part behind the group. */
static rp_slice normal_topic(rp_slice topic, rp_slice group) {
    uint32_t prefix = sizeof RETRY_PREFIX - 1 + group.size;
    if (!starts_with(topic, RETRY_PREFIX) || topic.size <= prefix + 1 ||
        memcmp(topic.data + sizeof RETRY_PREFIX - 1, group.data, group.size) != 0 ||
        (topic.data[prefix] != '+' && topic.data[prefix] != '_'))
        return topic;
    return (rp_slice){topic.data + prefix + 1, topic.size - prefix - 1};
}

static void want_topic(rp_pop_revive *revive, rp_slice name) {
    pthread_mutex_lock(&revive->lock);
    memcpy(revive->wanted, name.data, name.size);
    revive->wanted_size = name.size;
    pthread_mutex_unlock(&revive->lock);
}

/* The live retry topic; NULL: it is missing, which is said where Python may look. */
static rp_topic *find_target(rp_pop_revive *revive, const rp_pop_checkpoint *record) {
    rp_broker *broker = revive->broker;
    uint8_t room[RP_POP_RETRY_NAME_MAX];
    rp_slice name = record->topic;
    if (!starts_with(name, RETRY_PREFIX)) {
        int version = atomic_load_explicit(&broker->settings.retry_topic_version, memory_order_relaxed);
        name = (rp_slice){room, rp_pop_retry_topic_name(record->topic, record->group, version, room)};
    }
    if (name.size == 0 || name.size > RP_TOPIC_NAME_MAX)
        return NULL;
    rp_topic *topic = rp_topic_table_find(broker->topics, name);
    if (topic == NULL)
        want_topic(revive, name);
    return topic;
}

/* A group begins a retry topic with its first message, not where its topics begin. RocketMQ: initPopRetryOffset. */
static void begin_offset(rp_pop_revive *revive, rp_group *group, rp_topic *topic, const rp_consume_queue *queue) {
    rp_consumption *consumption = rp_group_table_consumption_entry(revive->broker->groups, group, topic);
    rp_offset_cell *cell = consumption != NULL ? rp_offset_cells_open(&consumption->offsets, 0) : NULL;
    int64_t none = RP_OFFSET_NONE;
    if (cell != NULL && atomic_compare_exchange_strong_explicit(&cell->committed, &none, rp_consume_queue_min_offset(queue),
                                                                memory_order_relaxed, memory_order_relaxed))
        atomic_fetch_add_explicit(&revive->broker->offset_version, 1, memory_order_relaxed);
}

/* ---- one message ---- */

static void is_over(rp_kept_checkpoint *kept, uint32_t index) { kept->over |= UINT32_C(1) << index; }

/* The stored record; RP_E_NOT_FOUND: it is gone, and so is what was to come of it; RP_E_IO, RP_E_NO_MEMORY. */
static int open_message(rp_pop_revive *revive, const rp_pop_checkpoint *record, int64_t offset, rp_stored_message *stored) {
    rp_queue_entry entry;
    rp_consume_queue *queue = rp_message_store_queue(revive->broker->store, record->topic, record->queue_id, 0, NULL);
    if (queue == NULL || offset < 0)
        return RP_E_NOT_FOUND;
    int64_t count = rp_consume_queue_read(queue, offset, &entry, 1);
    if (count <= 0)
        return rp_status_is_passing((int)count) ? (int)count : RP_E_NOT_FOUND;
    return rp_stored_message_open(revive->broker->commit_log, entry.commit_log_offset, stored);
}

/* The properties with the time of the first pop, without the CRC that the old record ends with. RP_OK, RP_E_NO_MEMORY. */
static int set_properties(rp_append_item *item, due_message *due) {
    static const char *const replaced[] = {"__CRC32#", FIRST_POP_TIME, NULL};
    static const char *const replaced_later[] = {"__CRC32#", NULL};
    const rp_message *message = &due->stored.message;
    bool is_first = (message->reconsume_times == 0 || rp_message_property(message->properties, FIRST_POP_TIME).data == NULL) &&
                    message->properties.size + FIRST_POP_ROOM <= RP_PROPERTIES_SIZE_MAX; /* where it fits */
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

static void release(due_message *due) {
    rp_stored_message_close(&due->stored);
    free(due->text);
}

/* Appends the batch, and marks what is over by it. */
static void flush(due_batch *batch) {
    rp_pop_revive *revive = batch->revive;
    if (batch->count > 0)
        rp_commit_log_append(revive->broker->commit_log, batch->items, batch->count);
    for (uint32_t i = 0; i < batch->count; i++) {
        const rp_append_item *item = &batch->items[i];
        due_message *due = &batch->messages[i];
        if (item->status == RP_OK) {
            atomic_fetch_add_explicit(&due->topic->messages_in, 1, memory_order_relaxed);
            atomic_fetch_add_explicit(&due->topic->bytes_in, item->size, memory_order_relaxed);
            count_one(&revive->revived);
            is_over(due->kept, due->index);
        } else {
            count_one(&revive->append_failures);
            batch->is_refused |= item->status != RP_E_TOO_LARGE;
        }
        release(due);
    }
    batch->count = 0;
    batch->bytes = 0;
}

/* Takes one message into the batch, or marks that it is over. RP_OK; what to try again for. */
static int take(due_batch *batch, rp_kept_checkpoint *kept, const due_checkpoint *due, rp_group *group, uint32_t index) {
    rp_pop_revive *revive = batch->revive;
    if (batch->count == BATCH_MAX)
        flush(batch);
    due_message *message = &batch->messages[batch->count];
    rp_append_item *item = &batch->items[batch->count];
    *message = (due_message){.kept = kept, .index = index, .topic = due->target};
    int status = open_message(revive, &due->record, rp_pop_checkpoint_offset(&due->record, index), &message->stored);
    if (status == RP_E_NOT_FOUND)
        is_over(kept, index);
    if (status != RP_OK)
        return status == RP_E_NOT_FOUND ? RP_OK : status;
    *item = rp_item_of_message(&message->stored.message);
    item->reconsume_times = (int32_t)((uint32_t)item->reconsume_times + 1); /* a producer may have sent any number */
    set_born_host(revive->broker, item);
    status = set_properties(item, message);
    if (status == RP_OK && rp_topic_open_queue_to_send(revive->broker->topics, due->target, 0, &item->queue) == NULL)
        status = RP_E_IO;
    if (status != RP_OK) {
        release(message);
        return status;
    }
    begin_offset(revive, group, due->target, item->queue);
    batch->count++;
    batch->bytes += message->stored.message.size;
    if (batch->bytes >= BATCH_BYTES_MAX)
        flush(batch);
    return RP_OK;
}

/* ---- one checkpoint ---- */

/* RP_OK; RP_E_NOT_FOUND: its record is gone; RP_E_IO, RP_E_NO_MEMORY. To be closed. */
static int open_checkpoint(rp_pop_revive *revive, const rp_kept_checkpoint *kept, due_checkpoint *due) {
    *due = (due_checkpoint){0};
    int status = rp_stored_message_open(revive->broker->commit_log, kept->log_offset, &due->stored);
    if (status != RP_OK)
        return status;
    rp_arena_reset(revive->arena);
    status = rp_pop_checkpoint_read(due->stored.message.body, revive->arena, &due->record);
    if (status != RP_OK)
        rp_stored_message_close(&due->stored);
    return status == RP_OK || status == RP_E_NO_MEMORY ? status : RP_E_NOT_FOUND;
}

/* How much of a name a line shows. */
static int shown(rp_slice name) { return (int)(name.size < RP_TOPIC_NAME_MAX ? name.size : RP_TOPIC_NAME_MAX); }

static void drop(rp_pop_revive *revive, rp_kept_checkpoint *kept, rp_slice topic, rp_slice group, const char *why) {
    kept->over = UINT32_MAX;
    kept->is_dropped = 1;
    count_one(&revive->dropped);
    if (rp_log_is_due(&revive->line_due_ns))
        rp_log_write(revive->broker->options.log, RP_LOG_WARNING,
                     "pop: messages that group %.*s has not acked of topic %.*s are not revived: %s", shown(group),
                     (const char *)group.data, shown(topic), (const char *)topic.data, why);
}

/* Takes its messages. What is not over afterwards is tried again. */
static void revive_checkpoint(due_batch *batch, rp_kept_checkpoint *kept) {
    rp_pop_revive *revive = batch->revive;
    due_checkpoint due;
    int status = open_checkpoint(revive, kept, &due);
    if (status == RP_E_NOT_FOUND)
        drop(revive, kept, (rp_slice){(const uint8_t *)"?", 1}, (rp_slice){(const uint8_t *)"?", 1}, "their checkpoint is gone");
    if (status != RP_OK)
        return;
    const rp_pop_checkpoint *record = &due.record;
    rp_group *group = rp_group_table_find(revive->broker->groups, record->group);
    if (group == NULL)
        drop(revive, kept, record->topic, record->group, "the group was deleted");
    else if (rp_topic_table_find(revive->broker->topics, normal_topic(record->topic, record->group)) == NULL)
        drop(revive, kept, record->topic, record->group, "the topic was deleted");
    else if ((due.target = find_target(revive, record)) != NULL) {
        for (uint32_t i = 0; i < record->count && !batch->is_refused; i++) {
            if ((kept->over >> i & 1) == 0)
                (void)take(batch, kept, &due, group, i); /* not over: that says it */
        }
    }
    rp_stored_message_close(&due.stored);
}

/* A new checkpoint for each message that is left, with an invisible time that grows each time: the group's offset need not wait for it.
 * RocketMQ: PopReviveService.rePutCK. Its pop time is another one: the ack of what is over, which follows, is not about it. */
static void put_again(rp_pop_revive *revive, int32_t queue_id, rp_kept_checkpoint *kept) {
    static const uint16_t longer_s[] = {10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200};
    const int32_t last = sizeof longer_s / sizeof longer_s[0] - 1;
    due_checkpoint due;
    if (open_checkpoint(revive, kept, &due) != RP_OK)
        return;
    const rp_pop_checkpoint *record = &due.record;
    if (rp_log_is_due(&revive->line_due_ns))
        rp_log_write(revive->broker->options.log, RP_LOG_WARNING,
                     "pop: messages that group %.*s has not acked of topic %.*s cannot be revived just now: it is tried again later",
                     shown(record->group), (const char *)record->group.data, shown(record->topic), (const char *)record->topic.data);
    for (uint32_t i = 0; i < record->count; i++) {
        if (kept->over >> i & 1)
            continue;
        int32_t times = record->re_puts;
        rp_pop_checkpoint again = {
            .topic = record->topic,
            .group = record->group,
            .broker_name = record->broker_name,
            .start_offset = rp_pop_checkpoint_offset(record, i),
            .pop_time_ms = record->pop_time_ms < INT64_MAX ? record->pop_time_ms + 1 : 0,
            .queue_id = record->queue_id,
            .re_puts = times < RP_POP_RE_PUTS_MAX ? times + 1 : times,
            .count = 1,
            .diff_count = 1,
        };
        if (__builtin_add_overflow(record->invisible_ms, INT64_C(1000) * longer_s[times < last ? times : last], &again.invisible_ms))
            again.invisible_ms = record->invisible_ms;
        if (rp_pop_log_put_checkpoint(revive->broker, queue_id, &again) != RP_OK) {
            count_one(&revive->append_failures);
            break;
        }
        count_one(&revive->put_again);
        is_over(kept, i);
    }
    rp_stored_message_close(&due.stored);
}

/* Acks in the name of the group what has gone to the retry topic, or into a checkpoint of its own: who reads the queue once more, from before
 * a checkpoint that is not due for long, does not revive it twice. It may fail, then that happens. */
static void ack_over(rp_pop_revive *revive, int32_t queue_id, const rp_kept_checkpoint *kept, uint32_t over) {
    due_checkpoint due;
    int64_t offsets[RP_POP_MESSAGES_MAX];
    if (open_checkpoint(revive, kept, &due) != RP_OK)
        return;
    const rp_pop_checkpoint *record = &due.record;
    rp_pop_ack ack = {
        .topic = record->topic,
        .group = record->group,
        .broker_name = record->broker_name,
        .start_offset = record->start_offset,
        .pop_time_ms = record->pop_time_ms,
        .queue_id = record->queue_id,
        .is_batch = 1,
        .offsets = offsets,
    };
    for (uint32_t i = 0; i < record->count; i++) {
        if (over >> i & 1)
            offsets[ack.offset_count++] = rp_pop_checkpoint_offset(record, i);
    }
    if (ack.offset_count > 0 && rp_pop_log_put_ack(revive->broker, queue_id, &ack) != RP_OK)
        count_one(&revive->append_failures);
    rp_stored_message_close(&due.stored);
}

/* After the batch: it is done, or looked at again. `before`: what was over already. */
static void settle(due_batch *batch, int32_t queue_id, revive_queue *state, rp_kept_checkpoint *kept, uint32_t before, int64_t now_ms) {
    rp_pop_revive *revive = batch->revive;
    if (!rp_kept_is_over(kept)) {
        if (kept->failing_ms == 0 || kept->failing_ms > now_ms)
            kept->failing_ms = now_ms;
        if (now_ms - kept->failing_ms >= PATIENCE_MS && !batch->is_refused)
            put_again(revive, queue_id, kept);
    }
    if (!kept->is_dropped && kept->over != before)
        ack_over(revive, queue_id, kept, kept->over & ~before);
    if (!rp_kept_is_over(kept)) {
        rp_kept_put_off(&state->kept, kept, now_ms + REVIVE_AGAIN_MS);
        return;
    }
    count_one(&revive->done);
    rp_kept_remove(&revive->kept, &state->kept, kept);
}

/* ---- what is due ---- */

static void tell(due_batch *batch) {
    rp_pop_revive *revive = batch->revive;
    if (batch->is_refused != revive->is_refused)
        rp_log_write(revive->broker->options.log, RP_LOG_WARNING, "pop: messages that were not acked %s",
                     batch->is_refused ? "cannot be put into their retry topics; it is tried again" : "go to their retry topics again");
    revive->is_refused = batch->is_refused;
}

/* What is next, if it is due. One further away than it was ever made invisible for was kept before the clock was set back. */
static rp_kept_checkpoint *next_due(revive_queue *state, int64_t now_ms) {
    rp_kept_checkpoint *kept;
    while ((kept = rp_kept_next(&state->kept)) != NULL) {
        int64_t farthest = now_ms + kept->invisible_ms + REVIVE_GRACE_MS;
        if (kept->look_ms <= now_ms)
            return kept;
        if (kept->look_ms <= farthest)
            return NULL;
        rp_kept_put_off(&state->kept, kept, farthest);
    }
    return NULL;
}

bool revive_put_due(rp_pop_revive *revive, int32_t queue_id, revive_queue *state, int64_t now_ms) {
    rp_kept_checkpoint *due[DUE_MAX];
    uint32_t before[DUE_MAX];
    due_batch batch;
    batch.revive = revive;
    batch.count = 0;
    batch.bytes = 0;
    batch.is_refused = false;
    while (!batch.is_refused && !revive_is_stopping(revive)) {
        uint32_t count = 0;
        for (; count < DUE_MAX && (due[count] = next_due(state, now_ms)) != NULL; count++) {
            before[count] = due[count]->over;
            rp_kept_put_off(&state->kept, due[count], INT64_MAX);
        }
        if (count == 0)
            break;
        for (uint32_t i = 0; i < count; i++) {
            if (!rp_kept_is_over(due[i]))
                revive_checkpoint(&batch, due[i]);
        }
        flush(&batch);
        for (uint32_t i = 0; i < count; i++)
            settle(&batch, queue_id, state, due[i], before[i], now_ms);
        tell(&batch);
    }
    return !batch.is_refused;
}
