/* received_message.c: see received_message.h. Field numbers are those of rocketpy/proxy/schema.py.
 *
 * The system properties are written into the arena first, because their size comes before them. */
#include "received_message.h"

#include <stdbool.h>
#include <string.h>

#include "../base/address.h"
#include "../base/hex_inl.h"
#include "../base/md5.h"
#include "../base/slice_inl.h"
#include "message_fields.h"
#include "protobuf.h"
#include "sent_message.h"

#define DIGEST_MD5 2
#define ENCODING_IDENTITY 1
#define ENCODING_GZIP 2
#define ATTEMPTS_MAX (INT32_MAX - 1)
#define TIME_MIN_MS INT64_C(-62135596800000)
#define TIME_MAX_MS INT64_C(253402300799999) /* the latest that a Timestamp can hold */
#define WHOLE_DIGITS_MAX 19u
#define SYSTEM_SIZE 1024u /* of the system properties, without the texts that come from the message */

enum response_field { RESPONSE_STATUS = 1, RESPONSE_MESSAGE = 2, RESPONSE_DELIVERED = 3 };
enum resource_field { RESOURCE_NAME = 2 };
enum dead_letter_field { DEAD_TOPIC = 1, DEAD_ID = 2 };
enum message_type { TYPE_NORMAL = 1, TYPE_FIFO = 2, TYPE_DELAY = 3, TYPE_TRANSACTION = 4, TYPE_LITE = 5, TYPE_PRIORITY = 6 };

/* ---- parts ---- */

/* Writes a text even if it is empty, unless it is absent. */
static uint8_t *put_text(uint8_t *at, uint32_t number, rp_slice text) {
    if (text.data == NULL)
        return at;
    at = rp_protobuf_put_head(at, number, text.size);
    memcpy(at, text.data, text.size);
    return at + text.size;
}

/* Writes a number even if it is 0, so that readers see that it is there. */
static uint8_t *put_present(uint8_t *at, uint32_t number, int64_t value) {
    at = rp_protobuf_put_varint(at, (uint64_t)number << 3 | RP_WIRE_VARINT);
    return rp_protobuf_put_varint(at, (uint64_t)value);
}

static uint8_t *put_time(uint8_t *at, uint32_t number, int64_t ms) {
    ms = ms < TIME_MIN_MS ? TIME_MIN_MS : ms > TIME_MAX_MS ? TIME_MAX_MS : ms;
    int64_t rest_ms = ms % 1000 + (ms % 1000 < 0 ? 1000 : 0), seconds = (ms - rest_ms) / 1000, nanos = rest_ms * 1000000;
    at = rp_protobuf_put_head(at, number,
                              rp_protobuf_number_size(TIMESTAMP_SECONDS, seconds) + rp_protobuf_number_size(TIMESTAMP_NANOS, nanos));
    at = rp_protobuf_put_number(at, TIMESTAMP_SECONDS, seconds);
    return rp_protobuf_put_number(at, TIMESTAMP_NANOS, nanos);
}

static uint8_t *put_keys(uint8_t *at, rp_slice keys) {
    for (uint32_t begin = 0, end = 0; begin < keys.size; begin = end + 1) {
        for (end = begin; end < keys.size && keys.data[end] != ' ';)
            end++;
        at = rp_protobuf_put_bytes(at, SYSTEM_KEYS, (rp_slice){keys.data + begin, end - begin});
    }
    return at;
}

static uint8_t *put_digest(uint8_t *at, rp_slice body) {
    uint8_t digest[RP_MD5_SIZE], digits[2 * RP_MD5_SIZE];
    rp_md5(body.data, body.size, digest);
    rp_put_hex_bytes(digits, digest, RP_MD5_SIZE);
    const rp_slice checksum = {digits, sizeof digits};
    at = rp_protobuf_put_head(at, SYSTEM_DIGEST,
                              rp_protobuf_number_size(DIGEST_TYPE, DIGEST_MD5) + rp_protobuf_bytes_size(DIGEST_CHECKSUM, checksum.size));
    at = rp_protobuf_put_number(at, DIGEST_TYPE, DIGEST_MD5);
    return rp_protobuf_put_bytes(at, DIGEST_CHECKSUM, checksum);
}

static int64_t type_of(const rp_shown_properties *shown) {
    if (shown->transaction.data != NULL && rp_slice_is(shown->transaction, "true"))
        return TYPE_TRANSACTION;
    if (shown->delay_level.data != NULL || shown->deliver_ms.data != NULL || shown->delay_s.data != NULL || shown->delay_ms.data != NULL)
        return TYPE_DELAY;
    if (shown->message_group.data != NULL)
        return TYPE_FIFO;
    if (shown->priority.data != NULL)
        return TYPE_PRIORITY;
    return shown->lite_topic.data != NULL ? TYPE_LITE : TYPE_NORMAL;
}

/* Writes a host that is stored as address and port as "1.2.3.4" or "[::1]", with ":5" behind it if wanted; returns its size. */
static uint32_t write_host(rp_slice host, bool with_port, char text[RP_ADDRESS_TEXT_MAX]) {
    rp_address address = {.size = (uint8_t)(host.size - 4)};
    memcpy(address.bytes, host.data, address.size);
    uint32_t port = rp_get_u32(host.data + address.size);
    address.port = (uint16_t)port;
    rp_address_text(&address, text);
    char *end = strrchr(text, ':');
    return (uint32_t)(with_port ? strlen(text) : (size_t)(end - text));
}

/* False: the text is not a whole number, or has more than WHOLE_DIGITS_MAX digits. */
static bool read_whole(rp_slice text, uint64_t *number) {
    *number = 0;
    for (uint32_t at = 0; at < text.size; at++) {
        if (text.data[at] < '0' || text.data[at] > '9' || at == WHOLE_DIGITS_MAX)
            return false;
        *number = *number * 10 + (text.data[at] - '0');
    }
    return text.size > 0;
}

static uint8_t *put_delivery(uint8_t *at, const rp_shown_properties *shown, int64_t now_ms) {
    uint64_t number;
    if (read_whole(shown->delay_s, &number))
        return put_time(at, SYSTEM_DELIVERY, number > TIME_MAX_MS / 1000 ? TIME_MAX_MS : now_ms + (int64_t)number * 1000);
    if (read_whole(shown->deliver_ms, &number))
        return put_time(at, SYSTEM_DELIVERY, number > TIME_MAX_MS ? TIME_MAX_MS : (int64_t)number);
    return at;
}

static uint8_t *put_dead_letter(uint8_t *at, const rp_shown_properties *shown) {
    rp_slice topic = shown->dead_topic, id = shown->dead_id;
    if (topic.data == NULL || id.data == NULL)
        return at;
    at = rp_protobuf_put_head(at, SYSTEM_DEAD, rp_protobuf_bytes_size(DEAD_TOPIC, topic.size) + rp_protobuf_bytes_size(DEAD_ID, id.size));
    at = rp_protobuf_put_bytes(at, DEAD_TOPIC, topic);
    return rp_protobuf_put_bytes(at, DEAD_ID, id);
}

static uint8_t *put_priority(uint8_t *at, rp_slice priority) {
    uint64_t number;
    return read_whole(priority, &number) && number <= INT32_MAX ? put_present(at, SYSTEM_PRIORITY, (int64_t)number) : at;
}

/* ---- system properties ---- */

static uint8_t *put_system(uint8_t *at, const rp_popped_message *popped, int64_t now_ms) {
    const rp_message *stored = &popped->stored;
    const rp_shown_properties *shown = &popped->shown;
    char host[RP_ADDRESS_TEXT_MAX];
    int32_t attempts = popped->attempts < 0 ? 0 : popped->attempts > ATTEMPTS_MAX ? ATTEMPTS_MAX : popped->attempts;
    at = put_keys(put_text(at, SYSTEM_TAG, shown->tag), shown->keys);
    at = put_digest(rp_protobuf_put_bytes(at, SYSTEM_ID, shown->message_id), stored->body);
    at = rp_protobuf_put_number(at, SYSTEM_ENCODING, (stored->sys_flag & RP_SYSFLAG_COMPRESSED) != 0 ? ENCODING_GZIP : ENCODING_IDENTITY);
    at = rp_protobuf_put_number(at, SYSTEM_TYPE, type_of(shown));
    at = put_time(at, SYSTEM_BORN, stored->born_timestamp_ms);
    rp_slice born = shown->born_host;
    if (born.size == 0)
        born = (rp_slice){(const uint8_t *)host, write_host(stored->born_host, false, host)};
    at = put_time(rp_protobuf_put_bytes(at, SYSTEM_BORN_HOST, born), SYSTEM_STORED, stored->store_timestamp_ms);
    at = rp_protobuf_put_bytes(at, SYSTEM_STORE_HOST, (rp_slice){(const uint8_t *)host, write_host(stored->store_host, true, host)});
    at = put_text(put_delivery(at, shown, now_ms), SYSTEM_HANDLE, (rp_slice){popped->handle, popped->handle_size});
    at = put_present(rp_protobuf_put_number(at, SYSTEM_QUEUE_ID, stored->queue_id), SYSTEM_OFFSET, stored->queue_offset);
    at = put_text(put_present(at, SYSTEM_ATTEMPT, (int64_t)attempts + 1), SYSTEM_GROUP, shown->message_group);
    at = put_dead_letter(put_text(at, SYSTEM_TRACE, shown->trace_context), shown);
    return put_priority(put_text(at, SYSTEM_LITE_TOPIC, shown->lite_topic), shown->priority);
}

/* ---- the producer's properties ---- */

/* Of the properties with reserved names, consumers are shown only these two. */
static bool is_shown(rp_slice name) {
    return !rp_sent_name_is_reserved(name) || rp_slice_is(name, "__SHARDINGKEY") || rp_slice_is(name, "TRACE_CONTEXT");
}

static uint32_t pair_size(rp_slice name, rp_slice value) {
    return rp_protobuf_head_size(PAIR_NAME, name.size) + name.size + rp_protobuf_head_size(PAIR_VALUE, value.size) + value.size;
}

static uint64_t properties_size(rp_slice properties) {
    rp_slice name, value;
    uint64_t size = 0;
    while (rp_stored_property_next(&properties, &name, &value)) {
        if (is_shown(name))
            size += rp_protobuf_head_size(MESSAGE_PROPERTIES, pair_size(name, value)) + pair_size(name, value);
    }
    return size;
}

static uint8_t *put_properties(uint8_t *at, rp_slice properties) {
    rp_slice name, value;
    while (rp_stored_property_next(&properties, &name, &value)) {
        if (!is_shown(name))
            continue;
        at = rp_protobuf_put_head(at, MESSAGE_PROPERTIES, pair_size(name, value));
        at = put_text(put_text(at, PAIR_NAME, name), PAIR_VALUE, value);
    }
    return at;
}

/* ---- the response ---- */

int rp_received_message_fill(rp_received_message *received, const rp_popped_message *popped, rp_slice topic, int64_t now_ms,
                             rp_arena *arena) {
    const rp_message *stored = &popped->stored;
    uint8_t *system = rp_arena_take(arena, SYSTEM_SIZE + 2 * (size_t)stored->properties.size + popped->handle_size);
    if (system == NULL)
        return 0;
    uint32_t system_size = (uint32_t)(put_system(system, popped, now_ms) - system);
    rp_arena_give_back(arena, system + system_size);
    uint32_t resource = rp_protobuf_bytes_size(RESOURCE_NAME, topic.size);
    uint64_t size = rp_protobuf_head_size(MESSAGE_TOPIC, resource) + resource + properties_size(stored->properties) +
                    rp_protobuf_head_size(MESSAGE_SYSTEM, system_size) + system_size +
                    rp_protobuf_bytes_size(MESSAGE_BODY, stored->body.size);
    if (size > INT32_MAX / 2)
        return 0;
    *received = (rp_received_message){.topic = topic,
                                      .system = {system, system_size},
                                      .properties = stored->properties,
                                      .body = stored->body,
                                      .message_size = (uint32_t)size,
                                      .size = rp_protobuf_head_size(RESPONSE_MESSAGE, (uint32_t)size) + (uint32_t)size};
    return 1;
}

void rp_received_message_write(const rp_received_message *received, uint8_t *target) {
    target = rp_protobuf_put_head(target, RESPONSE_MESSAGE, received->message_size);
    target = rp_protobuf_put_head(target, MESSAGE_TOPIC, rp_protobuf_bytes_size(RESOURCE_NAME, received->topic.size));
    target = rp_protobuf_put_bytes(target, RESOURCE_NAME, received->topic);
    target = put_properties(target, received->properties);
    target = put_text(target, MESSAGE_SYSTEM, received->system);
    rp_protobuf_put_bytes(target, MESSAGE_BODY, received->body);
}

uint32_t rp_received_status_size(const rp_answer_status *status) {
    uint32_t size = rp_answer_status_size(status);
    return rp_protobuf_head_size(RESPONSE_STATUS, size) + size;
}

void rp_received_status_write(const rp_answer_status *status, uint8_t *target) {
    target = rp_protobuf_put_head(target, RESPONSE_STATUS, rp_answer_status_size(status));
    rp_answer_status_write(status, target);
}

uint32_t rp_delivered_write(int64_t now_ms, uint8_t target[RP_DELIVERED_SIZE_MAX]) {
    return (uint32_t)(put_time(target, RESPONSE_DELIVERED, now_ms) - target);
}
