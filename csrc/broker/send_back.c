/* send_back.c: handles messages that consumers send back (broker.h, send_back.h).
 * RocketMQ: AbstractSendMessageProcessor.consumerSendMsgBack (5.3.3 broker/processor/).
 *
 *   record ─ another copy of it ─┬─ delay level ─ (schedule_service) ─ retry topic
 *                                └─ dead letters
 *
 * The message is copied within the log: its bytes do not leave csrc/store and csrc/broker.
 */
#include "send_back.h"

#include <stdlib.h>
#include <string.h>

#include "../base/hex_inl.h"
#include "../base/slice_inl.h"
#include "../store/light_queue.h"
#include "../store/topic_prefix_inl.h"
#include "lane.h"
#include "property_text.h"
#include "send_batch.h"
#include "stored_message.h"

#define DELAY_FIRST 3 /* the level after the first failure; each later try uses the next level */
#define ID_SIZE_MAX (2 * (20 + 8))
#define TEXT_ROOM (RP_PROPERTY_TEXT_ROOM + ID_SIZE_MAX + 64) /* for what is added besides topics */

/* A message being sent back. */
typedef struct returning {
    rp_broker *broker;
    const rp_send_back *request;
    rp_stored_message stored;
    int32_t delay_level; /* 0: dead letter */
    rp_topic *topic;     /* where it is counted */
    int64_t delay_ms;
    rp_append_item item;
    uint8_t *text; /* owned */
} returning;

static int is_blank(rp_slice text) {
    for (uint32_t i = 0; i < text.size; i++) {
        if (text.data[i] > ' ')
            return 0;
    }
    return 1;
}

/* Returns the id of the message before any try, that of its first copy. */
static rp_slice original_id(const rp_message *message, uint8_t room[ID_SIZE_MAX]) {
    rp_slice known = rp_message_property(message->properties, "ORIGIN_MESSAGE_ID");
    if (known.data != NULL && !is_blank(known))
        return known;
    uint8_t *end = rp_put_hex_bytes(room, message->store_host.data, message->store_host.size);
    end = rp_put_hex_u64(end, (uint64_t)message->physical_offset);
    return (rp_slice){room, (uint32_t)(end - room)};
}

static int write_properties(returning *back) {
    static const char *const replaced[] = {
        "DELAY", "REAL_TOPIC",        "REAL_QID",       "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "RETRY_TOPIC",
        "WAIT",  "ORIGIN_MESSAGE_ID", RP_LIGHT_OFFSETS, "__CRC32#",         "INNER_NUM",       "INNER_BASE",     NULL};
    static const char *const replaced_by_dead_letters[] = {
        "DELAY", "RETRY_TOPIC", "WAIT", "ORIGIN_MESSAGE_ID", RP_LIGHT_OFFSETS, "__CRC32#", "INNER_NUM", "INNER_BASE", NULL};
    const rp_message *message = &back->stored.message;
    rp_slice first_topic = rp_message_property(message->properties, "RETRY_TOPIC");
    if (first_topic.data == NULL)
        first_topic = message->topic;
    uint8_t id[ID_SIZE_MAX];
    back->text = malloc((size_t)message->properties.size + first_topic.size + back->request->retry_topic.size + TEXT_ROOM);
    if (back->text == NULL)
        return RP_E_NO_MEMORY;
    uint8_t *end = rp_copy_pairs_without(back->text, message->properties, back->delay_level > 0 ? replaced : replaced_by_dead_letters);
    end = rp_put_pair(end, "RETRY_TOPIC", first_topic);
    end = rp_put_pair(end, "WAIT", (rp_slice){(const uint8_t *)"false", 5});
    end = rp_put_pair(end, "ORIGIN_MESSAGE_ID", original_id(message, id));
    end = rp_put_number_pair(end, "DELAY", back->delay_level);
    if (back->delay_level > 0)
        end = rp_put_real_place(end, back->request->retry_topic, back->request->retry_queue_id);
    back->item.properties[0] = (rp_slice){back->text, (uint32_t)(end - back->text)};
    return RP_OK;
}

static int open_delay_queue(returning *back) {
    rp_schedule_service *schedule = back->broker->schedule;
    rp_delay_queue queue;
    int status = rp_schedule_open_queue(schedule, back->delay_level, &queue);
    if (status != RP_OK)
        return status;
    back->topic = rp_schedule_topic(schedule);
    back->delay_ms = queue.delay_ms;
    back->item.queue = queue.queue;
    return RP_OK;
}

static int open_dead_letters(returning *back) {
    back->topic = rp_topic_table_find(back->broker->topics, back->request->dead_letter_topic);
    if (back->topic == NULL)
        return RP_E_EXISTS;
    return rp_topic_open_queue_to_send(back->broker->topics, back->topic, back->request->dead_letter_queue_id, &back->item.queue) != NULL
               ? RP_OK
               : RP_E_IO;
}

/* Chooses its queue. */
static int choose_queue(returning *back) {
    int32_t tries = back->stored.message.reconsume_times;
    int32_t wanted = back->request->delay_level;
    if (wanted < 0 || tries >= back->request->reconsume_times_max)
        return open_dead_letters(back);
    back->delay_level = rp_schedule_level(back->broker->schedule, wanted > 0 ? wanted : (int64_t)DELAY_FIRST + tries);
    return open_delay_queue(back);
}

static int append(returning *back) {
    rp_append_item *item = &back->item;
    uint32_t leadership = rp_leadership(back->broker);
    rp_commit_log_append(back->broker->commit_log, item, 1);
    if (item->status != RP_OK)
        return item->status;
    rp_intake_add_one(&back->topic->in[back->delay_level > 0 ? RP_MESSAGE_DELAY : RP_MESSAGE_NORMAL], item->size);
    if (back->delay_level > 0)
        rp_schedule_stored(back->broker->schedule, item->store_timestamp_ms + back->delay_ms);
    int64_t end_offset = item->commit_log_offset + item->size;
    rp_broker_request_flush(back->broker, end_offset);
    int status = rp_broker_wait_committed(back->broker, leadership, end_offset, rp_broker_commit_patience_ms(back->broker));
    if (status != RP_OK)
        return status; /* the consumer keeps the message, and sends it back again */
    return back->delay_level > 0 ? RP_SENT_BACK_TO_RETRY : RP_SENT_BACK_TO_DEAD_LETTERS;
}

/* Takes the intended message out of a batch queue's record, for a client that popped it; for a later try clients send such a message
 * themselves. RP_OK; RP_E_INVALID: it is not there, or the request does not name it. */
static int take_inner(returning *back) {
    rp_message *record = &back->stored.message;
    rp_batch_message inner;
    uint32_t position = 0;
    if (back->request->delay_level >= 0 || back->request->unique_key.size == 0 || (record->sys_flag & RP_SYSFLAG_COMPRESSED) != 0)
        return RP_E_INVALID;
    while (rp_batch_next(record->body, &position, &inner) == 1) {
        if (!rp_slice_equals(rp_message_property(inner.properties, "UNIQ_KEY"), back->request->unique_key))
            continue;
        record->flag = inner.flag;
        record->body = inner.body;
        record->properties = inner.properties;
        record->sys_flag &= ~RP_SYSFLAG_BATCH_MASK;
        return RP_OK;
    }
    return RP_E_INVALID;
}

/* RocketMQ: BrokerStatsManager.incSendBackNums. A topic that does not exist here is not counted. The record is still pinned. */
static void count_sent_back(const returning *back) {
    const rp_message *message = &back->stored.message;
    rp_slice before = rp_message_property(message->properties, "RETRY_TOPIC"); /* set on messages that came back before */
    rp_group_table *groups = back->broker->groups;
    rp_group *group = rp_group_table_find(groups, back->request->group);
    rp_topic *topic = rp_topic_table_find(back->broker->topics, before.data != NULL ? before : message->topic);
    rp_consumption *consumption = group != NULL && topic != NULL ? rp_group_table_consumption_entry(groups, group, topic) : NULL;
    if (consumption != NULL)
        atomic_fetch_add_explicit(&consumption->sent_back, 1, memory_order_relaxed);
}

int rp_broker_send_back(rp_broker *broker, const rp_send_back *request) {
    returning back = {.broker = broker, .request = request};
    if (!atomic_load_explicit(&broker->settings.store_writable, memory_order_relaxed))
        return RP_E_CLOSED;
    int status = rp_stored_message_open(broker->commit_log, request->log_offset, &back.stored);
    if (status != RP_OK)
        return status;
    if ((back.stored.message.sys_flag & RP_SYSFLAG_NEED_UNWRAP) && take_inner(&back) != RP_OK) {
        rp_stored_message_close(&back.stored);
        return RP_E_INVALID;
    }
    back.item = rp_item_of_message(&back.stored.message);
    back.item.reconsume_times = (int32_t)((uint32_t)back.item.reconsume_times + 1); /* a producer may have sent any number */
    status = choose_queue(&back);
    if (status == RP_OK)
        status = write_properties(&back);
    if (status == RP_OK)
        status = append(&back);
    if (status >= 0)
        count_sent_back(&back);
    rp_stored_message_close(&back.stored);
    free(back.text);
    return status;
}

/* ---- the request ---- */

/* 1 if the message can be stored there without further checks: by a master, and without a wait. */
static int takes_retries(const rp_broker *broker, rp_slice retry_topic) {
    const rp_topic *topic = rp_topic_table_find(broker->topics, retry_topic);
    uint32_t flags = topic != NULL ? atomic_load_explicit(&topic->flags, memory_order_relaxed) : 0;
    return (flags & (RP_TOPIC_RETRY_SEND | RP_TOPIC_CHECKED_BACK)) == RP_TOPIC_RETRY_SEND &&
           (atomic_load_explicit(&topic->permission, memory_order_relaxed) & RP_PERMISSION_WRITE) &&
           (atomic_load_explicit(&broker->settings.permission, memory_order_relaxed) & RP_PERMISSION_WRITE) &&
           atomic_load_explicit(&broker->settings.role, memory_order_relaxed) != RP_ROLE_SLAVE && !broker->waits_for_commit;
}

int rp_send_back_request(rp_lane *lane, rp_connection *connection, const rp_command *command) {
    rp_broker *broker = lane->broker;
    uint8_t name[RP_TOPIC_NAME_MAX];
    rp_send_back_header header;
    rp_header_fault fault;
    if (rp_send_back_header_read(command, &header, &fault) != RP_OK || header.group.size > sizeof name - RP_RETRY_PREFIX_SIZE)
        return RP_PUNT;
    memcpy(name, RP_RETRY_PREFIX, RP_RETRY_PREFIX_SIZE);
    memcpy(name + RP_RETRY_PREFIX_SIZE, header.group.data, header.group.size);
    rp_slice retry_topic = {name, RP_RETRY_PREFIX_SIZE + header.group.size};
    const rp_group *group = rp_group_table_find(broker->groups, header.group);
    int32_t queues = group != NULL ? atomic_load_explicit(&group->retry_queues, memory_order_relaxed) : 0;
    if (queues <= 0 || !takes_retries(broker, retry_topic) || rp_lane_log_is_slow(lane) ||
        !rp_stored_message_in_memory(broker->commit_log, header.log_offset))
        return RP_PUNT;
    int says_tries = header.has_reconsume_times_max && command->version >= RP_VERSION_3_4_9;
    rp_send_back request = {
        .log_offset = header.log_offset,
        .group = header.group,
        .retry_topic = retry_topic,
        .retry_queue_id = (int32_t)(rp_lane_random(lane) % (uint32_t)queues),
        .delay_level = header.delay_level,
        .reconsume_times_max =
            says_tries ? header.reconsume_times_max : atomic_load_explicit(&group->retry_times_max, memory_order_relaxed),
        .unique_key = header.origin_message_id,
    };
    int64_t begun_ns = rp_clock_monotonic_ns(rp_clock_system());
    int status = rp_broker_send_back(broker, &request);
    rp_lane_spent(lane, begun_ns);
    if (status != RP_SENT_BACK_TO_RETRY)
        return RP_PUNT; /* nothing was stored: Python comes to the same result, and knows the error text */
    return rp_answer(rp_answer_to_command(lane, connection, command), RP_RESPONSE_SUCCESS, NULL, 0, NULL);
}
