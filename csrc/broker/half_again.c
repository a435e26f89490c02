/* half_again.c: stores prepared messages once more: to ask about them, or to give them up (transactions.h).
 * RocketMQ: TransactionalMessageBridge.renewHalfMessageInner, DefaultTransactionalMessageCheckListener,
 * AdminBrokerProcessor.resumeCheckHalfMessage (5.3.3 broker/).
 */
#include <stdlib.h>
#include <string.h>

#include "half_messages.h"
#include "lane.h"
#include "property_text.h"
#include "stored_message.h"
#include "transactions.h"
#include "../store/message_encode.h"

#define GIVEN_UP_TOPIC "TRANS_CHECK_MAX_TIME_TOPIC"

#define CHECK_TIMES "TRANSACTION_CHECK_TIMES"

/* The properties that each fate replaces. */
static const char *const nothing_but_crc[] = {"__CRC32#", NULL};
static const char *const check_times_pair[] = {CHECK_TIMES, "__CRC32#", NULL};
static const char *const first_offset_pair[] = {RP_FIRST_OFFSET, "__CRC32#", NULL};

typedef struct again {
    rp_broker *broker;
    rp_stored_message stored;
    rp_append_item item;
    rp_topic *topic; /* where the message is counted */
    uint8_t *text;   /* owned: the message's properties */
    int64_t first_offset; /* as in rp_half_copy */
} again;

static int write_properties(again *half, int fate, int32_t check_times) {
    rp_slice sent = half->stored.message.properties;
    int is_checked = fate == RP_HALF_IS_ASKED_FOR || fate == RP_HALF_IS_IMMUNE;
    half->first_offset = is_checked ? rp_half_said_first_offset(sent) : -1;
    int is_copy = rp_half_is_copy_of(half->broker, &half->stored.message, half->first_offset);
    if (is_copy < 0)
        return is_copy;
    if (!is_copy)
        half->first_offset = -1;
    int is_counted = fate == RP_HALF_IS_ASKED_FOR || fate == RP_HALF_IS_RESUMED;
    int is_first_copy = fate == RP_HALF_IS_IMMUNE && half->first_offset < 0;
    half->text = malloc((size_t)sent.size + RP_PROPERTY_TEXT_ROOM);
    if (half->text == NULL)
        return RP_E_NO_MEMORY;
    const char *const *replaced = is_counted ? check_times_pair : is_first_copy ? first_offset_pair : nothing_but_crc;
    uint8_t *end = rp_copy_pairs_without(half->text, sent, replaced);
    if (is_counted)
        end = rp_put_number_pair(end, CHECK_TIMES, check_times);
    if (is_first_copy) {
        half->first_offset = half->stored.message.queue_offset;
        end = rp_put_number_pair(end, RP_FIRST_OFFSET, half->first_offset);
    }
    half->item.properties[0] = (rp_slice){half->text, (uint32_t)(end - half->text)};
    return RP_OK;
}

static int choose_queue(again *half, int fate) {
    static const rp_slice given_up = {(const uint8_t *)GIVEN_UP_TOPIC, sizeof GIVEN_UP_TOPIC - 1};
    rp_topic_table *topics = half->broker->topics;
    if (fate != RP_HALF_IS_GIVEN_UP)
        return rp_half_open_queue(half->broker, &half->topic, &half->item.queue);
    half->topic = rp_topic_table_find(topics, given_up);
    if (half->topic == NULL)
        return RP_E_EXISTS;
    return rp_topic_open_queue_to_send(topics, half->topic, 0, &half->item.queue) != NULL ? RP_OK : RP_E_IO;
}

/* Describes the copy as a record of the topic the message was sent to. */
static rp_encode_source question_of(const again *half) {
    const rp_message *message = &half->stored.message;
    rp_slice topic = rp_message_property(message->properties, "REAL_TOPIC");
    int32_t queue_id = 0;
    (void)rp_slice_to_i32(rp_message_property(message->properties, "REAL_QID"), &queue_id);
    return (rp_encode_source){
        .queue_id = queue_id,
        .flag = message->flag,
        .sys_flag = message->sys_flag,
        .reconsume_times = message->reconsume_times,
        .born_timestamp_ms = message->born_timestamp_ms,
        .store_timestamp_ms = half->item.store_timestamp_ms,
        .queue_offset = half->item.queue_offset,
        .physical_offset = half->item.commit_log_offset,
        .born_host = message->born_host.data,
        .store_host = message->store_host.data,
        .topic = topic.data != NULL ? topic : message->topic,
        .body = message->body,
        .properties = {half->item.properties[0]},
    };
}

/* Allocates the question before the copy is appended: a copy that exists, while its producer cannot be asked, would be made again in
 * every round. RP_OK, RP_E_NO_MEMORY, RP_E_TOO_LARGE. */
static int make_room(const again *half, rp_half_copy *copy) {
    rp_encode_source source = question_of(half);
    int64_t size = rp_message_encoded_size(&source);
    if (size < 0)
        return (int)size;
    copy->question = malloc((size_t)size);
    if (copy->question == NULL)
        return RP_E_NO_MEMORY;
    copy->question_size = (uint32_t)size;
    return RP_OK;
}

static int append(again *half, rp_half_copy *copy) {
    rp_append_item *item = &half->item;
    rp_commit_log_append(half->broker->commit_log, item, 1);
    if (item->status != RP_OK)
        return item->status;
    if (copy->question != NULL)
        rp_count_put_inside(half->broker, half->topic, RP_MESSAGE_TRANSACTION, item->size);
    else
        rp_intake_add_one(&half->topic->in[RP_MESSAGE_TRANSACTION], item->size);
    copy->queue_offset = item->queue_offset;
    copy->log_offset = item->commit_log_offset;
    copy->first_offset = half->first_offset;
    if (copy->question != NULL) {
        rp_encode_source source = question_of(half);
        rp_message_encode(&source, copy->question, copy->question_size);
    }
    return RP_OK;
}

static int is_of_topic(const rp_message *message, const char *topic) {
    return message->topic.size == strlen(topic) && memcmp(message->topic.data, topic, message->topic.size) == 0;
}

int rp_broker_put_half_again(rp_broker *broker, int64_t log_offset, int fate, int32_t check_times, rp_half_copy *copy) {
    again half = {.broker = broker};
    *copy = (rp_half_copy){0};
    if (!atomic_load_explicit(&broker->settings.store_writable, memory_order_relaxed))
        return RP_E_DISK_FULL; /* retention reports the disk as nearly full */
    int status = rp_stored_message_open(broker->commit_log, log_offset, &half.stored);
    if (status != RP_OK)
        return status;
    status = is_of_topic(&half.stored.message, fate == RP_HALF_IS_RESUMED ? GIVEN_UP_TOPIC : RP_HALF_TOPIC) ? RP_OK : RP_E_NOT_FOUND;
    half.item = rp_item_of_message(&half.stored.message);
    if (status == RP_OK)
        status = choose_queue(&half, fate);
    if (status == RP_OK)
        status = write_properties(&half, fate, check_times);
    if (status == RP_OK && fate == RP_HALF_IS_ASKED_FOR)
        status = make_room(&half, copy);
    if (status == RP_OK)
        status = append(&half, copy);
    if (status != RP_OK) {
        free(copy->question);
        *copy = (rp_half_copy){0};
    }
    rp_stored_message_close(&half.stored);
    free(half.text);
    return status;
}
