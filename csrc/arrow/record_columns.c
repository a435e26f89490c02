/* record_columns.c: see record_columns.h. */
#include "record_columns.h"

#include <stddef.h>
#include <string.h>

#include "../base/error.h"
#include "../base/slice_inl.h"
#include "column_inl.h"

static int fill_i32(rp_column *column, rp_record_context *context, uint32_t member, const rp_message *messages, uint32_t count) {
    (void)context;
    int status = rp_column_reserve(column, count, 0);
    for (uint32_t i = 0; i < count && status == RP_OK; i++) {
        int32_t value;
        memcpy(&value, (const uint8_t *)&messages[i] + member, sizeof value);
        rp_column_add_i32(column, value);
    }
    return status;
}

static int fill_i64(rp_column *column, rp_record_context *context, uint32_t member, const rp_message *messages, uint32_t count) {
    (void)context;
    int status = rp_column_reserve(column, count, 0);
    for (uint32_t i = 0; i < count && status == RP_OK; i++) {
        int64_t value;
        memcpy(&value, (const uint8_t *)&messages[i] + member, sizeof value);
        rp_column_add_i64(column, value);
    }
    return status;
}

/* The years 1 to 9999, the range of Spark's and Python's timestamps. */
#define MS_MIN INT64_C(-62135596800000)
#define MS_MAX INT64_C(253402300799999)

/* Converts milliseconds to Arrow's microseconds. Times out of range become null: clients may set any number, and damaged records hold
 * nonsense. */
static int fill_ms(rp_column *column, rp_record_context *context, uint32_t member, const rp_message *messages, uint32_t count) {
    (void)context;
    int status = rp_column_reserve(column, count, 0);
    for (uint32_t i = 0; i < count && status == RP_OK; i++) {
        int64_t ms;
        memcpy(&ms, (const uint8_t *)&messages[i] + member, sizeof ms);
        if (ms > MS_MAX || ms < MS_MIN)
            status = rp_column_put_nulls(column, 1);
        else
            rp_column_add_i64(column, ms * 1000);
    }
    return status;
}

static rp_slice slice_at(const void *holder, uint32_t member) {
    rp_slice slice;
    memcpy(&slice, (const uint8_t *)holder + member, sizeof slice);
    return slice;
}

static int fill_body(rp_column *column, rp_record_context *context, uint32_t member, const rp_message *messages, uint32_t count) {
    (void)context;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += slice_at(&messages[i], member).size;
    int status = rp_column_reserve(column, count, bytes);
    for (uint32_t i = 0; i < count && status == RP_OK; i++)
        rp_column_add_text(column, slice_at(&messages[i], member));
    return status;
}

/* Appends a text, mended to valid UTF-8 if a client has sent other bytes. */
static int put_text(rp_column *column, rp_slice text) {
    if (rp_text_is_utf8(text))
        return rp_column_put_bytes(column, text.data, text.size);
    int status = rp_column_reserve(column, 1, RP_TEXT_MENDED_MAX(text.size));
    if (status == RP_OK)
        rp_column_end_text(column, rp_text_mend(text, column->values.data + column->values.size));
    return status;
}

static int fill_topic(rp_column *column, rp_record_context *context, uint32_t member, const rp_message *messages, uint32_t count) {
    (void)context;
    (void)member;
    int status = RP_OK;
    for (uint32_t i = 0, end; i < count && status == RP_OK; i = end) { /* runs of one topic: usually the whole block */
        rp_slice topic = messages[i].topic;
        for (end = i + 1; end < count && rp_slice_equals(messages[end].topic, topic);)
            end++;
        if (!rp_text_is_utf8(topic)) {
            end = i + 1;
            status = put_text(column, topic);
        } else {
            status = rp_column_put_repeated(column, topic, end - i);
        }
    }
    return status;
}

static int fill_broker_name(rp_column *column, rp_record_context *context, uint32_t member, const rp_message *messages, uint32_t count) {
    (void)member;
    (void)messages;
    return rp_column_put_repeated(column, context->broker_name, count);
}

static int fill_map(rp_column *column, const rp_message *messages, uint32_t count) {
    int status = RP_OK;
    for (uint32_t i = 0; i < count && status == RP_OK; i++) {
        rp_slice properties = messages[i].properties, name, value;
        while (status == RP_OK && rp_properties_next(&properties, &name, &value))
            if ((status = put_text(column->keys, name)) == RP_OK)
                status = put_text(column->items, value);
        if (status == RP_OK)
            status = rp_column_end_map(column);
    }
    return status;
}

static int fill_properties(rp_column *column, rp_record_context *context, uint32_t member, const rp_message *messages, uint32_t count) {
    (void)member;
    if (context->properties_as_map)
        return fill_map(column, messages, count);
    for (uint32_t i = 0; i < count; i++) {
        int status = rp_column_reserve(column, 1, RP_PROPERTIES_JSON_MAX(messages[i].properties.size));
        if (status < 0)
            return status;
        uint8_t *json = column->values.data + column->values.size;
        rp_column_end_text(column, rp_properties_to_json(messages[i].properties, json, &context->names[i]));
    }
    return RP_OK;
}

void rp_record_context_find_names(rp_record_context *context, const rp_message *messages, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        rp_record_names_find(&context->names[i], messages[i].properties);
}

/* member: offset in rp_record_names. */
static int fill_name(rp_column *column, rp_record_context *context, uint32_t member, const rp_message *messages, uint32_t count) {
    (void)messages;
    uint32_t nulls = 0;
    for (uint32_t i = 0; i < count; i++)
        nulls += slice_at(&context->names[i], member).data == NULL;
    if (nulls == count)
        return rp_column_put_nulls(column, count);
    int status = RP_OK;
    for (uint32_t i = 0; i < count && status == RP_OK; i++) {
        rp_slice value = slice_at(&context->names[i], member);
        status = value.data == NULL ? rp_column_put_nulls(column, 1) : put_text(column, value);
    }
    return status;
}

static void add_offset_msg_id(rp_column *column, const rp_message *message) {
    uint8_t *target = column->values.data + column->values.size;
    rp_column_end_text(column, rp_offset_msg_id(message->store_host, message->physical_offset, target));
}

static int fill_offset_msg_id(rp_column *column, rp_record_context *context, uint32_t member, const rp_message *messages, uint32_t count) {
    (void)context;
    (void)member;
    int status = rp_column_reserve(column, count, (uint64_t)count * RP_OFFSET_MSG_ID_MAX);
    for (uint32_t i = 0; i < count && status == RP_OK; i++)
        add_offset_msg_id(column, &messages[i]);
    return status;
}

/* The msgId that a Java client shows: the client's id if there is one, else the broker's. */
static int fill_msg_id(rp_column *column, rp_record_context *context, uint32_t member, const rp_message *messages, uint32_t count) {
    (void)member;
    int status = RP_OK;
    for (uint32_t i = 0; i < count && status == RP_OK; i++) {
        rp_slice id = context->names[i].unique_key;
        if (id.data != NULL)
            status = put_text(column, id);
        else if ((status = rp_column_reserve(column, 1, RP_OFFSET_MSG_ID_MAX)) == RP_OK)
            add_offset_msg_id(column, &messages[i]);
    }
    return status;
}

static int is_remembered(const rp_host_memo *memo, rp_slice host) {
    return host.size == memo->host_size && memcmp(host.data, memo->host, host.size) == 0;
}

static void remember(rp_host_memo *memo, rp_slice host) {
    memo->host_size = host.size <= sizeof memo->host ? host.size : 0;
    memcpy(memo->host, host.data, memo->host_size);
    memo->text_size = rp_host_to_text(host, memo->text);
}

/* In runs of one host: usually the whole block. */
static int fill_host(rp_column *column, rp_host_memo *memo, uint32_t member, const rp_message *messages, uint32_t count) {
    int status = RP_OK;
    for (uint32_t i = 0, end; i < count && status == RP_OK; i = end) {
        rp_slice host = slice_at(&messages[i], member);
        if (!is_remembered(memo, host))
            remember(memo, host);
        for (end = i + 1; end < count && is_remembered(memo, slice_at(&messages[end], member));)
            end++;
        rp_slice text = {(const uint8_t *)memo->text, memo->text_size};
        status = text.size == 0 ? rp_column_put_nulls(column, end - i) : rp_column_put_repeated(column, text, end - i);
    }
    return status;
}

static int fill_born_host(rp_column *column, rp_record_context *context, uint32_t member, const rp_message *messages, uint32_t count) {
    return fill_host(column, &context->born_host, member, messages, count);
}

static int fill_store_host(rp_column *column, rp_record_context *context, uint32_t member, const rp_message *messages, uint32_t count) {
    return fill_host(column, &context->store_host, member, messages, count);
}

static int fill_valid(rp_column *column, rp_record_context *context, uint32_t member, const rp_message *messages, uint32_t count) {
    (void)context;
    (void)member;
    (void)messages;
    int status = RP_OK;
    for (uint32_t i = 0; i < count && status == RP_OK; i++)
        status = rp_column_put_bit(column, 1);
    return status;
}

static int fill_nulls(rp_column *column, rp_record_context *context, uint32_t member, const rp_message *messages, uint32_t count) {
    (void)context;
    (void)member;
    (void)messages;
    return rp_column_put_nulls(column, count);
}

#define MEMBER(name) offsetof(rp_message, name)
const rp_record_column_row rp_record_columns[RP_RECORD_COLUMN_COUNT] = {
    [RP_RECORD_TOPIC] = {"topic", "u", RP_COLUMN_TEXT, fill_topic, 0},
    [RP_RECORD_FLAG] = {"flag", "i", RP_COLUMN_INT32, fill_i32, MEMBER(flag)},
    [RP_RECORD_BODY] = {"body", "z", RP_COLUMN_BINARY, fill_body, MEMBER(body)},
    [RP_RECORD_PROPERTIES] = {"properties", "u", RP_COLUMN_TEXT, fill_properties, MEMBER(properties)},
    [RP_RECORD_BROKER_NAME] = {"brokerName", "u", RP_COLUMN_TEXT, fill_broker_name, 0},
    [RP_RECORD_QUEUE_ID] = {"queueId", "i", RP_COLUMN_INT32, fill_i32, MEMBER(queue_id)},
    [RP_RECORD_QUEUE_OFFSET] = {"queueOffset", "l", RP_COLUMN_INT64, fill_i64, MEMBER(queue_offset)},
    [RP_RECORD_BORN_TIMESTAMP] = {"bornTimestamp", "tsu:UTC", RP_COLUMN_INT64, fill_ms, MEMBER(born_timestamp_ms)},
    [RP_RECORD_STORE_TIMESTAMP] = {"storeTimestamp", "tsu:UTC", RP_COLUMN_INT64, fill_ms, MEMBER(store_timestamp_ms)},
    [RP_RECORD_TAGS] = {"tags", "u", RP_COLUMN_TEXT, fill_name, offsetof(rp_record_names, tags)},
    [RP_RECORD_KEYS] = {"keys", "u", RP_COLUMN_TEXT, fill_name, offsetof(rp_record_names, keys)},
    [RP_RECORD_MSG_ID] = {"msgId", "u", RP_COLUMN_TEXT, fill_msg_id, 0},
    [RP_RECORD_OFFSET_MSG_ID] = {"offsetMsgId", "u", RP_COLUMN_TEXT, fill_offset_msg_id, 0},
    [RP_RECORD_BODY_CRC] = {"bodyCrc", "i", RP_COLUMN_INT32, fill_i32, MEMBER(body_crc)},
    [RP_RECORD_COMMIT_LOG_OFFSET] = {"commitLogOffset", "l", RP_COLUMN_INT64, fill_i64, MEMBER(physical_offset)},
    [RP_RECORD_SYS_FLAG] = {"sysFlag", "i", RP_COLUMN_INT32, fill_i32, MEMBER(sys_flag)},
    [RP_RECORD_RECONSUME_TIMES] = {"reconsumeTimes", "i", RP_COLUMN_INT32, fill_i32, MEMBER(reconsume_times)},
    [RP_RECORD_BORN_HOST] = {"bornHost", "u", RP_COLUMN_TEXT, fill_born_host, MEMBER(born_host)},
    [RP_RECORD_STORE_HOST] = {"storeHost", "u", RP_COLUMN_TEXT, fill_store_host, MEMBER(store_host)},
    [RP_RECORD_PREPARED_TRANSACTION_OFFSET] = {"preparedTransactionOffset", "l", RP_COLUMN_INT64, fill_i64,
                                               MEMBER(prepared_transaction_offset)},
    [RP_RECORD_VALID] = {"valid", "b", RP_COLUMN_BIT, fill_valid, 0},
    [RP_RECORD_DAMAGE] = {"damage", "u", RP_COLUMN_TEXT, fill_nulls, 0},
};
