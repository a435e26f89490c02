/* message.c: decodes one commit log record from hostile bytes, and reads its properties.
 *
 * Every length is compared with what is left before it moves the cursor, and the parts must add up to the record's size, so a record
 * that passes has no slice outside [data, data + size).
 */
#include "message.h"

#include <stdbool.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "../base/crc32.h"
#include "../base/hash.h"
#include "message_layout_inl.h"

typedef struct cursor {
    const uint8_t *at;
    uint64_t left;
} cursor;

static bool take(cursor *from, uint64_t size, rp_slice *slice) {
    if (size > from->left || size > UINT32_MAX) {
        return false;
    }
    slice->data = from->at;
    slice->size = (uint32_t)size;
    from->at += size;
    from->left -= size;
    return true;
}

static int corrupt(rp_error *error, const char *cause, int64_t found) {
    return rp_error_set(error, RP_E_CORRUPT, 0, NULL, -1, "record is damaged: %s (%lld)", cause, (long long)found);
}

/* Decodes the fixed part up to and including the body length. record holds at least RP_RECORD_SIZE_MIN bytes. */
static bool decode_fixed(const uint8_t *record, cursor *rest, rp_message *message, int32_t *body_size) {
    message->body_crc = rp_get_u32(record + RP_AT_BODY_CRC);
    message->queue_id = (int32_t)rp_get_u32(record + RP_AT_QUEUE_ID);
    message->flag = (int32_t)rp_get_u32(record + RP_AT_FLAG);
    message->queue_offset = (int64_t)rp_get_u64(record + RP_AT_QUEUE_OFFSET);
    message->physical_offset = (int64_t)rp_get_u64(record + RP_AT_PHYSICAL_OFFSET);
    message->sys_flag = (int32_t)rp_get_u32(record + RP_AT_SYS_FLAG);
    message->born_timestamp_ms = (int64_t)rp_get_u64(record + RP_AT_BORN_TIMESTAMP);
    rest->at = record + RP_AT_BORN_HOST;
    rest->left = message->size - RP_AT_BORN_HOST;
    rp_slice part;
    if (!take(rest, rp_born_host_size(message->sys_flag), &message->born_host) || !take(rest, 8, &part)) {
        return false;
    }
    message->store_timestamp_ms = (int64_t)rp_get_u64(part.data);
    if (!take(rest, rp_store_host_size(message->sys_flag), &message->store_host) || !take(rest, 4 + 8 + 4, &part)) {
        return false;
    }
    message->reconsume_times = (int32_t)rp_get_u32(part.data);
    message->prepared_transaction_offset = (int64_t)rp_get_u64(part.data + 4);
    *body_size = (int32_t)rp_get_u32(part.data + 12);
    return true;
}

static int decode_variable(cursor *rest, int32_t body_size, rp_message *message, rp_error *error) {
    rp_slice part;
    if (body_size < 0 || !take(rest, (uint64_t)body_size, &message->body)) {
        return corrupt(error, "body length", body_size);
    }
    uint32_t length_size = message->magic == RP_MESSAGE_MAGIC_V2 ? 2 : 1;
    if (!take(rest, length_size, &part)) {
        return corrupt(error, "no room for the topic length", (int64_t)rest->left);
    }
    uint32_t topic_size = length_size == 2 ? rp_get_u16(part.data) : part.data[0];
    /* Java reads both lengths as signed numbers: beyond Java's maximum RocketMQ cannot read the record either. */
    uint32_t topic_size_max = length_size == 2 ? INT16_MAX : INT8_MAX;
    if (topic_size > topic_size_max || !take(rest, topic_size, &message->topic)) {
        return corrupt(error, "topic length", topic_size);
    }
    if (!take(rest, 2, &part)) {
        return corrupt(error, "no room for the properties length", (int64_t)rest->left);
    }
    uint32_t properties_size = rp_get_u16(part.data);
    if (properties_size > RP_PROPERTIES_SIZE_MAX || !take(rest, properties_size, &message->properties)) {
        return corrupt(error, "properties length", properties_size);
    }
    if (rest->left != 0) {
        return corrupt(error, "record size is larger than its parts, by", (int64_t)rest->left);
    }
    return RP_RECORD_MESSAGE;
}

/* Returns the CRC that enabledAppendPropCRC writes behind the properties, -1 if the record does not end in one. */
static int64_t trailing_crc(rp_slice properties) {
    static const char name[] = RP_PROPERTY_CRC32 "\x01";
    if (properties.size < RP_PROPERTY_CRC32_SIZE) {
        return -1;
    }
    const uint8_t *tail = properties.data + properties.size - RP_PROPERTY_CRC32_SIZE, *digits = tail + sizeof name - 1;
    if (memcmp(tail, name, sizeof name - 1) != 0 || tail[RP_PROPERTY_CRC32_SIZE - 1] != RP_PROPERTY_SEPARATOR) {
        return -1;
    }
    int64_t crc = 0;
    for (int i = RP_PROPERTY_CRC32_DIGITS - 1; i >= 0; i--) { /* least significant digit first */
        if (digits[i] < '0' || digits[i] > '9') {
            return -1;
        }
        crc = crc * 10 + (digits[i] - '0');
    }
    return crc;
}

static int check_crcs(const uint8_t *record, int check_crc, const rp_message *message, rp_error *error) {
    if (message->body.size != 0) {
        uint32_t crc = rp_crc32(0, message->body.data, message->body.size) & 0x7FFFFFFFu;
        if (crc != message->body_crc) {
            return corrupt(error, "body CRC does not match, computed", crc);
        }
    }
    if (check_crc == RP_CHECK_RECORD_CRC) {
        int64_t expected = trailing_crc(message->properties);
        if (expected >= 0) {
            uint32_t crc = rp_crc32(0, record, message->size - RP_PROPERTY_CRC32_SIZE) & 0x7FFFFFFFu;
            if ((int64_t)crc != expected) {
                return corrupt(error, "record CRC does not match, computed", crc);
            }
        }
    }
    return RP_RECORD_MESSAGE;
}

int rp_message_decode(const uint8_t *data, uint64_t size, int check_crc, rp_message *message, rp_error *error) {
    memset(message, 0, sizeof *message);
    if (size < RP_MESSAGE_BLANK_SIZE_MIN) {
        return corrupt(error, "fewer bytes than size and magic take", (int64_t)size);
    }
    message->size = rp_get_u32(data);
    message->magic = rp_get_u32(data + RP_AT_MAGIC);
    if (message->size == 0 && message->magic == 0) {
        return RP_RECORD_END;
    }
    if (message->magic == RP_MESSAGE_MAGIC_BLANK) {
        return message->size >= RP_MESSAGE_BLANK_SIZE_MIN && message->size <= size ? RP_RECORD_BLANK
                                                                                   : corrupt(error, "blank size", message->size);
    }
    if (message->magic != RP_MESSAGE_MAGIC_V1 && message->magic != RP_MESSAGE_MAGIC_V2) {
        return corrupt(error, "unknown magic", message->magic);
    }
    if (message->size < RP_RECORD_SIZE_MIN || message->size > size || message->size > INT32_MAX) {
        return corrupt(error, "record size", message->size);
    }
    cursor rest;
    int32_t body_size;
    if (!decode_fixed(data, &rest, message, &body_size)) {
        return corrupt(error, "hosts do not fit into the record size", message->size);
    }
    int kind = decode_variable(&rest, body_size, message, error);
    return kind == RP_RECORD_MESSAGE && check_crc != RP_CHECK_NO_CRC ? check_crcs(data, check_crc, message, error) : kind;
}

/* As Java's string2messageProperties: a pair ends in \2 or at the end of the text, name and value must not be empty, and the last of
 * equal names counts. */
rp_slice rp_message_property(rp_slice properties, const char *name) {
    rp_slice value = {NULL, 0};
    size_t name_size = strlen(name);
    const uint8_t *at = properties.data, *end = at + properties.size;
    while (at != NULL && at < end) {
        const uint8_t *stop = memchr(at, RP_PROPERTY_SEPARATOR, (size_t)(end - at));
        stop = stop == NULL ? end : stop;
        if ((size_t)(stop - at) > name_size + 1 && at[name_size] == RP_PROPERTY_NAME_VALUE_SEPARATOR && memcmp(at, name, name_size) == 0) {
            value.data = at + name_size + 1;
            value.size = (uint32_t)(stop - value.data);
        }
        at = stop + 1;
    }
    return value;
}

/* rp_message_property for TAGS, called for each record of the log. It searches for G, the rarest of the name's letters, as keys are
 * mostly hexadecimal. */
static rp_slice find_tags(rp_slice properties) {
    static const char name[] = "TAGS\x01";
    const uint8_t *begin = properties.data, *end = begin + properties.size, *at = begin;
    rp_slice value = {NULL, 0};
    while (end - at >= (ptrdiff_t)sizeof name) { /* room for the name, the separator and a value of at least one byte */
        const uint8_t *hit = memchr(at + 2, 'G', (size_t)(end - at) - 2);
        if (hit == NULL) {
            break;
        }
        at = hit - 2;
        bool is_first = at == begin || at[-1] == RP_PROPERTY_SEPARATOR;
        if (is_first && end - at >= (ptrdiff_t)sizeof name && memcmp(at, name, sizeof name - 1) == 0 && at[5] != RP_PROPERTY_SEPARATOR) {
            const uint8_t *stop = memchr(at + 5, RP_PROPERTY_SEPARATOR, (size_t)(end - at) - 5);
            value = (rp_slice){at + 5, (uint32_t)((stop == NULL ? end : stop) - (at + 5))};
        }
        at++;
    }
    return value;
}

int64_t rp_message_tags_code(rp_slice properties) {
    rp_slice tags = find_tags(properties);
    return tags.data == NULL ? 0 : rp_hash_java(tags.data, tags.size);
}
