/* protobuf.c: see protobuf.h. */
#include "protobuf.h"

#include <string.h>

#include "../base/utf8_inl.h"

#define NUMBER_MAX 0x1FFFFFFFu
#define KEY_SIZE_MAX 5u
#define SECONDS_MAX UINT64_C(315576000000) /* of a Duration */
#define NANOS_MAX 999999999u

enum duration_field { DURATION_SECONDS = 1, DURATION_NANOS = 2 };

/* Returns RP_OK or RP_E_PROTOCOL. */
static int take_varint(rp_slice *message, uint64_t *value) {
    uint64_t taken = 0;
    for (uint32_t at = 0; at < message->size && at < RP_VARINT_SIZE_MAX; at++) {
        uint8_t byte = message->data[at];
        if (at == RP_VARINT_SIZE_MAX - 1 && byte > 1)
            return RP_E_PROTOCOL;
        taken |= (uint64_t)(byte & 0x7F) << (7 * at);
        if (byte < 0x80) {
            *value = taken;
            *message = (rp_slice){message->data + at + 1, message->size - at - 1};
            return RP_OK;
        }
    }
    return RP_E_PROTOCOL;
}

static int take_bytes(rp_slice *message, uint64_t size, rp_slice *bytes) {
    if (size > message->size)
        return RP_E_PROTOCOL;
    *bytes = (rp_slice){message->data, (uint32_t)size};
    *message = (rp_slice){message->data + size, message->size - (uint32_t)size};
    return RP_OK;
}

int rp_protobuf_next(rp_slice *message, rp_protobuf_field *field) {
    if (message->size == 0)
        return 0;
    uint64_t key, size;
    rp_slice skipped;
    uint32_t size_before = message->size;
    if (take_varint(message, &key) != RP_OK || size_before - message->size > KEY_SIZE_MAX || key >> 3 == 0 || key >> 3 > NUMBER_MAX)
        return RP_E_PROTOCOL;
    *field = (rp_protobuf_field){.number = (uint32_t)(key >> 3), .wire_type = (uint32_t)key & 7};
    int status = RP_E_PROTOCOL;
    switch (field->wire_type) {
    case RP_WIRE_VARINT:
        status = take_varint(message, &field->value);
        break;
    case RP_WIRE_FIXED64:
        status = take_bytes(message, 8, &skipped);
        break;
    case RP_WIRE_FIXED32:
        status = take_bytes(message, 4, &skipped);
        break;
    case RP_WIRE_BYTES:
        status = take_varint(message, &size);
        status = status == RP_OK ? take_bytes(message, size, &field->bytes) : status;
        break;
    default:
        break;
    }
    return status == RP_OK ? 1 : RP_E_PROTOCOL;
}

int rp_protobuf_is_text(rp_slice text) {
    for (uint32_t at = 0; at < text.size;) {
        uint64_t eight;
        if (text.size - at >= sizeof eight) {
            memcpy(&eight, text.data + at, sizeof eight);
            if ((eight & UINT64_C(0x8080808080808080)) == 0) {
                at += sizeof eight;
                continue;
            }
        }
        int is_whole;
        at += rp_utf8_next(text.data + at, text.size - at, &is_whole);
        if (!is_whole)
            return 0;
    }
    return 1;
}

int rp_protobuf_read_duration(rp_slice duration, int64_t *ms) {
    rp_protobuf_field field;
    uint64_t seconds = 0, nanos = 0;
    int status;
    while ((status = rp_protobuf_next(&duration, &field)) == 1) {
        if (field.number > DURATION_NANOS || field.wire_type != RP_WIRE_VARINT)
            return 0;
        *(field.number == DURATION_SECONDS ? &seconds : &nanos) = field.value;
    }
    if (status != 0 || seconds > SECONDS_MAX || nanos > NANOS_MAX)
        return 0;
    *ms = (int64_t)seconds * 1000 + (int64_t)nanos / 1000000;
    return 1;
}

uint8_t *rp_protobuf_put_varint(uint8_t *target, uint64_t value) {
    while (value >= 0x80) {
        *target++ = (uint8_t)value | 0x80;
        value >>= 7;
    }
    *target++ = (uint8_t)value;
    return target;
}

uint8_t *rp_protobuf_put_number(uint8_t *target, uint32_t number, int64_t value) {
    if (value == 0)
        return target;
    target = rp_protobuf_put_varint(target, (uint64_t)number << 3 | RP_WIRE_VARINT);
    return rp_protobuf_put_varint(target, (uint64_t)value);
}

uint8_t *rp_protobuf_put_head(uint8_t *target, uint32_t number, uint32_t size) {
    target = rp_protobuf_put_varint(target, (uint64_t)number << 3 | RP_WIRE_BYTES);
    return rp_protobuf_put_varint(target, size);
}

uint8_t *rp_protobuf_put_bytes(uint8_t *target, uint32_t number, rp_slice bytes) {
    if (bytes.size == 0)
        return target;
    target = rp_protobuf_put_head(target, number, bytes.size);
    memcpy(target, bytes.data, bytes.size);
    return target + bytes.size;
}

static uint32_t varint_size(uint64_t value) { return (70u - (uint32_t)__builtin_clzll(value | 1)) / 7; }

uint32_t rp_protobuf_number_size(uint32_t number, int64_t value) {
    return value == 0 ? 0 : varint_size((uint64_t)number << 3) + varint_size((uint64_t)value);
}

uint32_t rp_protobuf_head_size(uint32_t number, uint32_t size) { return varint_size((uint64_t)number << 3) + varint_size(size); }

uint32_t rp_protobuf_bytes_size(uint32_t number, uint32_t size) { return size == 0 ? 0 : rp_protobuf_head_size(number, size) + size; }
