/* sent_message.c: see sent_message.h. Field numbers are those of rocketpy/proxy/schema.py. */
#include "sent_message.h"

#include <stdbool.h>
#include <string.h>

#include "../base/decimal_inl.h"
#include "../base/slice_inl.h"
#include "message_fields.h"
#include "protobuf.h"
#include "resource.h"

#define ENCODING_GZIP 2
#define TYPE_TRANSACTION 4
#define SECONDS_MIN INT64_C(-62135596800)
#define SECONDS_MAX INT64_C(253402300799) /* the latest that a Timestamp can hold */
#define NANOS_MAX 999999999u
#define NAME_END 1
#define PAIR_END 2

enum request_field { REQUEST_MESSAGES = 1 };

/* Names that rocketpy/proxy/messages.py forbids producers (SYSTEM_PROPERTIES), and those that it writes itself. */
static const char *const reserved[] = {"TRACE_ON",
                                       "MSG_REGION",
                                       "KEYS",
                                       "TAGS",
                                       "WAIT",
                                       "DELAY",
                                       "RETRY_TOPIC",
                                       "REAL_TOPIC",
                                       "REAL_QID",
                                       "TRAN_MSG",
                                       "PGROUP",
                                       "MIN_OFFSET",
                                       "MAX_OFFSET",
                                       "BUYER_ID",
                                       "ORIGIN_MESSAGE_ID",
                                       "TRANSFER_FLAG",
                                       "CORRECTION_FLAG",
                                       "MQ2_FLAG",
                                       "RECONSUME_TIME",
                                       "UNIQ_KEY",
                                       "MAX_RECONSUME_TIMES",
                                       "CONSUME_START_TIME",
                                       "POP_CK",
                                       "POP_CK_OFFSET",
                                       "1ST_POP_TIME",
                                       "TRAN_PREPARED_QUEUE_OFFSET",
                                       "DUP_INFO",
                                       "EXTEND_UNIQ_INFO",
                                       "INSTANCE_ID",
                                       "CORRELATION_ID",
                                       "REPLY_TO_CLIENT",
                                       "TTL",
                                       "ARRIVE_TIME",
                                       "PUSH_REPLY_TIME",
                                       "CLUSTER",
                                       "MSG_TYPE",
                                       "INNER_MULTI_QUEUE_OFFSET",
                                       "TIMER_DELAY_MS",
                                       "TIMER_DELAY_SEC",
                                       "TIMER_DELIVER_MS",
                                       "TIMER_ENQUEUE_MS",
                                       "TIMER_DEQUEUE_MS",
                                       "TIMER_ROLL_TIMES",
                                       "TIMER_OUT_MS",
                                       "TIMER_DEL_UNIQKEY",
                                       "TIMER_DELAY_LEVEL",
                                       "__BORNHOST",
                                       "BORN_TIMESTAMP",
                                       "DLQ_ORIGIN_TOPIC",
                                       "DLQ_ORIGIN_MESSAGE_ID",
                                       "__CRC32#",
                                       "_SYS_MSG_PRIORITY_",
                                       "__LITE_TOPIC",
                                       "__SHARDINGKEY",
                                       "TRACE_CONTEXT"};

int rp_sent_name_is_reserved(rp_slice name) {
    for (uint32_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        if (name.size > 0 && name.data[0] == (uint8_t)reserved[i][0] && rp_slice_is(name, reserved[i]))
            return 1;
    }
    return 0;
}

/* Whether the text has no control characters: U+0000 to U+001F and U+007F to U+009F. */
static bool is_plain(rp_slice text) {
    for (uint32_t at = 0; at < text.size; at++) {
        uint8_t byte = text.data[at];
        if (byte < 0x20 || byte == 0x7F || (byte == 0xC2 && at + 1 < text.size && text.data[at + 1] < 0xA0))
            return false;
    }
    return rp_protobuf_is_text(text);
}

/* Whether the text is plain and certainly not blank: the bytes 0xC2 and 0xE1 to 0xE3 begin every white space that is not ASCII. */
static bool is_visible(rp_slice text) {
    bool is_seen = false;
    for (uint32_t at = 0; at < text.size && !is_seen; at++) {
        uint8_t byte = text.data[at];
        is_seen = (byte > 0x20 && byte < 0x7F) || (byte > 0xC2 && byte != 0xE1 && byte != 0xE2 && byte != 0xE3);
    }
    return is_seen && is_plain(text);
}

static bool is_of(const rp_protobuf_field *field, uint32_t wire_type, uint64_t value_max) {
    return field->wire_type == wire_type && field->value <= value_max;
}

static bool read_timestamp(rp_slice timestamp, int64_t *ms) {
    rp_protobuf_field field;
    int64_t seconds = 0, nanos = 0;
    int status;
    while ((status = rp_protobuf_next(&timestamp, &field)) == 1) {
        if (field.number > TIMESTAMP_NANOS)
            continue;
        if (!is_of(&field, RP_WIRE_VARINT, field.number == TIMESTAMP_NANOS ? NANOS_MAX : UINT64_MAX))
            return false;
        *(field.number == TIMESTAMP_SECONDS ? &seconds : &nanos) = (int64_t)field.value;
    }
    *ms = seconds >= SECONDS_MIN && seconds <= SECONDS_MAX ? seconds * 1000 + nanos / 1000000 : 0;
    return status == 0 && seconds >= SECONDS_MIN && seconds <= SECONDS_MAX;
}

/* A digest must be well-formed, though nothing uses it. */
static bool check_digest(rp_slice digest) {
    rp_protobuf_field field;
    int status;
    while ((status = rp_protobuf_next(&digest, &field)) == 1) {
        if (field.number == DIGEST_CHECKSUM && !(field.wire_type == RP_WIRE_BYTES && rp_protobuf_is_text(field.bytes)))
            return false;
    }
    return status == 0;
}

static bool add_key(rp_sent_message *message, rp_slice key) {
    if (message->key_count == RP_SENT_KEYS_MAX || !is_visible(key))
        return false;
    message->keys[message->key_count++] = key;
    return true;
}

static bool read_type(const rp_protobuf_field *field) {
    return is_of(field, RP_WIRE_VARINT, INT32_MAX) && field->value != TYPE_TRANSACTION;
}

static bool read_number(const rp_protobuf_field *field, int32_t *number) {
    *number = (int32_t)field->value;
    return is_of(field, RP_WIRE_VARINT, INT32_MAX);
}

/* For texts that may be empty, which then count as absent. */
static bool read_text(const rp_protobuf_field *field, rp_slice *text) {
    *text = field->bytes;
    return field->wire_type == RP_WIRE_BYTES && (text->size == 0 || is_visible(*text));
}

static bool read_plain_text(const rp_protobuf_field *field, rp_slice *text) {
    *text = field->bytes;
    return field->wire_type == RP_WIRE_BYTES && is_plain(*text);
}

/* Letters, digits and two marks only, because it becomes part of a light queue's name; empty counts as absent. */
static bool read_lite_topic(const rp_protobuf_field *field, rp_slice *name) {
    *name = field->bytes;
    for (uint32_t at = 0; at < name->size; at++) {
        uint8_t c = name->data[at];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_letter && c != '_' && c != '-')
            return false;
    }
    return field->wire_type == RP_WIRE_BYTES;
}

/* Reads one field of the system properties. *born counts time stamps: being messages, two of them would be merged. */
static bool read_system_field(const rp_protobuf_field *field, rp_sent_message *message, uint32_t *born, int32_t *encoding) {
    bool is_bytes = field->wire_type == RP_WIRE_BYTES;
    switch (field->number) {
    case SYSTEM_TAG:
        return read_text(field, &message->tag);
    case SYSTEM_KEYS:
        return is_bytes && add_key(message, field->bytes);
    case SYSTEM_ID:
        return read_text(field, &message->message_id);
    case SYSTEM_DIGEST:
        return is_bytes && check_digest(field->bytes);
    case SYSTEM_ENCODING:
        return read_number(field, encoding);
    case SYSTEM_TYPE:
        return read_type(field);
    case SYSTEM_BORN:
        return is_bytes && ++*born == 1 && read_timestamp(field->bytes, &message->born_ms);
    case SYSTEM_BORN_HOST:
        return read_text(field, &message->born_host);
    case SYSTEM_QUEUE_ID:
        return field->wire_type == RP_WIRE_VARINT;
    case SYSTEM_ATTEMPT:
        return read_number(field, &message->attempt);
    case SYSTEM_DELIVERY:
        return is_bytes && ++message->has_delivery == 1 && read_timestamp(field->bytes, &message->deliver_ms);
    case SYSTEM_GROUP:
        return read_text(field, &message->message_group);
    case SYSTEM_TRACE:
        return read_plain_text(field, &message->trace_context);
    case SYSTEM_LITE_TOPIC:
        return read_lite_topic(field, &message->lite_topic);
    case SYSTEM_PRIORITY:
        message->has_priority = 1;
        return read_number(field, &message->priority);
    default:
        return field->number > SYSTEM_PRIORITY;
    }
}

static bool read_system(rp_slice system, rp_sent_message *message) {
    rp_protobuf_field field;
    uint32_t born = 0, fields = 0;
    int32_t encoding = 0;
    int status;
    while ((status = rp_protobuf_next(&system, &field)) == 1) {
        if (++fields > RP_SENT_FIELDS_MAX || !read_system_field(&field, message, &born, &encoding))
            return false;
    }
    message->is_compressed = encoding == ENCODING_GZIP;
    return status == 0;
}

static bool read_pair(rp_slice pair, rp_sent_property *property) {
    rp_protobuf_field field;
    int status;
    *property = (rp_sent_property){0};
    while ((status = rp_protobuf_next(&pair, &field)) == 1) {
        /* On unknown fields libraries differ. */
        if (field.number > PAIR_VALUE || field.wire_type != RP_WIRE_BYTES || !is_plain(field.bytes))
            return false;
        *(field.number == PAIR_NAME ? &property->name : &property->value) = field.bytes;
    }
    return status == 0 && property->name.size > 0;
}

static bool add_property(rp_sent_message *message, rp_slice pair) {
    rp_sent_property *property = &message->properties[message->property_count];
    if (message->property_count == RP_SENT_PROPERTIES_MAX || !read_pair(pair, property) || rp_sent_name_is_reserved(property->name))
        return false;
    for (uint32_t i = 0; i < message->property_count; i++) {
        if (rp_slice_equals(message->properties[i].name, property->name))
            return false;
    }
    message->property_count++;
    return true;
}

static bool read_message(rp_slice bytes, rp_sent_message *message) {
    rp_protobuf_field field;
    uint32_t topics = 0, systems = 0, fields = 0;
    int status;
    while ((status = rp_protobuf_next(&bytes, &field)) == 1) {
        if (++fields > RP_SENT_FIELDS_MAX)
            return false;
        if (field.number > MESSAGE_BODY)
            continue;
        if (field.wire_type != RP_WIRE_BYTES)
            return false;
        bool is_read = true;
        switch (field.number) {
        case MESSAGE_TOPIC:
            message->resource = field.bytes;
            is_read = ++topics == 1 && rp_resource_read(field.bytes, &message->topic);
            break;
        case MESSAGE_PROPERTIES:
            is_read = add_property(message, field.bytes);
            break;
        case MESSAGE_SYSTEM:
            is_read = ++systems == 1 && read_system(field.bytes, message);
            break;
        default:
            message->body = field.bytes;
            break;
        }
        if (!is_read)
            return false;
    }
    return status == 0;
}

static uint32_t size_of_properties(const rp_sent_message *message) {
    uint32_t size = message->tag.size;
    for (uint32_t i = 0; i < message->key_count; i++)
        size += message->keys[i].size;
    for (uint32_t i = 0; i < message->property_count; i++)
        size += message->properties[i].name.size + message->properties[i].value.size;
    return size;
}

/* Whether the host is present and has no white space around it. */
static bool is_bare(rp_slice host) {
    return host.size == 0 ||
           (host.data[0] > 0x20 && host.data[0] < 0x7F && host.data[host.size - 1] > 0x20 && host.data[host.size - 1] < 0x7F);
}

static bool is_allowed(const rp_sent_message *message, const rp_send_rules *rules, int64_t now_ms) {
    uint32_t size = message->body.size, group_size = message->message_group.size;
    bool is_tag = message->tag.size == 0 || memchr(message->tag.data, '|', message->tag.size) == NULL;
    bool is_late = rules->delay_ms_max > 0 && message->deliver_ms - now_ms > rules->delay_ms_max;
    return (size > 0 || rules->takes_empty_body) && (rules->message_size_max == 0 || size <= rules->message_size_max) && is_tag &&
           message->message_id.size > 0 && message->message_id.size <= RP_SENT_ID_MAX && is_bare(message->born_host) &&
           message->property_count <= rules->user_properties_max && size_of_properties(message) <= rules->user_property_size_max &&
           (rules->message_group_size_max == 0 || group_size < rules->message_group_size_max) &&
           message->lite_topic.size <= rules->lite_topic_size_max && !(message->has_delivery && (is_late || rules->uses_delay_level));
}

int rp_sent_next(rp_slice *request, rp_slice *message) {
    rp_protobuf_field field;
    int status;
    for (uint32_t skipped = 0; (status = rp_protobuf_next(request, &field)) == 1; skipped++) {
        if (field.number == REQUEST_MESSAGES) {
            *message = field.bytes;
            return field.wire_type == RP_WIRE_BYTES ? 1 : RP_E_PROTOCOL;
        }
        if (skipped == RP_SENT_FIELDS_MAX)
            return RP_E_PROTOCOL;
    }
    return status;
}

int rp_sent_has_several(rp_slice request) {
    rp_slice message;
    return rp_sent_next(&request, &message) == 1 && rp_sent_next(&request, &message) == 1;
}

int rp_sent_message_read(rp_slice bytes, const rp_send_rules *rules, int64_t now_ms, rp_sent_message *message) {
    memset(message, 0, offsetof(rp_sent_message, properties));
    return read_message(bytes, message) && is_allowed(message, rules, now_ms);
}

uint32_t rp_sent_message_type(const rp_sent_message *message) {
    if (message->has_delivery)
        return RP_SENT_DELAY;
    if (message->message_group.size > 0)
        return RP_SENT_FIFO;
    if (message->has_priority)
        return RP_SENT_PRIORITY;
    return message->lite_topic.size > 0 ? RP_SENT_LITE : RP_SENT_NORMAL;
}

rp_slice rp_sent_message_group(const rp_sent_message *message) {
    return message->message_group.size > 0 ? message->message_group : message->lite_topic;
}

/* Room for the names, separators and numbers of all properties but the client's own. */
#define OWN_SIZE_MAX 256u

uint32_t rp_sent_message_properties_size(const rp_sent_message *message, uint32_t peer_host_size) {
    return OWN_SIZE_MAX + size_of_properties(message) + 2 * message->property_count + message->key_count + message->message_id.size +
           message->topic.size + message->message_group.size + message->lite_topic.size + message->trace_context.size +
           message->born_host.size + peer_host_size;
}

static uint8_t *put(uint8_t *target, rp_slice text) {
    if (text.size > 0)
        memcpy(target, text.data, text.size);
    return target + text.size;
}

static uint8_t *put_property(uint8_t *target, rp_slice name, rp_slice value) {
    target = put(target, name);
    *target++ = NAME_END;
    target = put(target, value);
    *target++ = PAIR_END;
    return target;
}

static uint8_t *put_own(uint8_t *target, const char *name, rp_slice value) { return put_property(target, rp_slice_of(name), value); }

static uint8_t *put_own_number(uint8_t *target, const char *name, int64_t value) {
    uint8_t digits[RP_DECIMAL_SIZE_MAX];
    return put_own(target, name, (rp_slice){digits, (uint32_t)(rp_decimal(digits, value) - digits)});
}

static uint8_t *put_keys(uint8_t *target, const rp_sent_message *message) {
    target = put(target, (rp_slice){(const uint8_t *)"KEYS\x01", 5});
    for (uint32_t i = 0; i < message->key_count; i++) {
        if (i > 0)
            *target++ = ' ';
        target = put(target, message->keys[i]);
    }
    *target++ = PAIR_END;
    return target;
}

uint32_t rp_sent_message_write_properties(const rp_sent_message *message, rp_slice peer_host, uint8_t *target) {
    uint8_t *at = target;
    rp_slice host = message->born_host.size > 0 ? message->born_host : peer_host;
    for (uint32_t i = 0; i < message->property_count; i++)
        at = put_property(at, message->properties[i].name, message->properties[i].value);
    if (message->tag.size > 0)
        at = put_own(at, "TAGS", message->tag);
    if (message->key_count > 0)
        at = put_keys(at, message);
    at = put_own(at, "UNIQ_KEY", message->message_id);
    if (message->has_delivery)
        at = put_own_number(at, "TIMER_DELIVER_MS", message->deliver_ms);
    if (message->has_priority)
        at = put_own_number(at, "_SYS_MSG_PRIORITY_", message->priority);
    at = put_own_number(at, "RECONSUME_TIME", message->attempt);
    at = put_own(at, "PGROUP", message->topic);
    if (message->message_group.size > 0)
        at = put_own(at, "__SHARDINGKEY", message->message_group);
    if (message->lite_topic.size > 0)
        at = put_own(at, "__LITE_TOPIC", message->lite_topic);
    if (message->trace_context.size > 0)
        at = put_own(at, "TRACE_CONTEXT", message->trace_context);
    if (host.size > 0)
        at = put_own(at, "__BORNHOST", host);
    at = put_own_number(at, "BORN_TIMESTAMP", message->born_ms);
    return (uint32_t)(at - target);
}
