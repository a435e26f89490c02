/* response_writer_inl.h: writes a response frame's header field by field straight into a connection's buffer. C only.
 *
 * The hot answers (send, pull, offsets) are written this way instead of through an rp_command: no field array is filled, constant text
 * is copied by fixed-size stores, and both encodings share the calls. The caller reserves room first: RP_RESPONSE_SIZE_BASE, and
 * RP_RESPONSE_TEXT_FACTOR bytes for each byte of its texts.
 *
 * A response that was written before its outcome was known is corrected in place: rp_response_set_outcome. The code has a fixed place in
 * both encodings; in JSON, what follows it moves when it gets a second digit. It is not padded, because fastjson 1.2.3, in Java clients
 * of 3.2, accepts no blank between a number and the comma behind it.
 */
#ifndef RP_BROKER_RESPONSE_WRITER_INL_H
#define RP_BROKER_RESPONSE_WRITER_INL_H

#include <stdint.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "../base/decimal_inl.h"
#include "../base/hex_inl.h"
#include "../remoting/command.h"

#define RP_RESPONSE_VERSION 479 /* MQVersion V5_3_3 */
#define RP_RESPONSE_CODE_PLACE_BINARY 8u
#define RP_RESPONSE_CODE_PLACE_JSON 16u
#define RP_RESPONSE_REMARK_PLACE_BINARY 21u
/* Room for a response; in JSON a byte of its texts (remark, field values) may become six. */
#define RP_RESPONSE_SIZE_BASE 640u
#define RP_RESPONSE_TEXT_FACTOR 6u

typedef struct rp_response_writer {
    uint8_t *start;
    uint8_t *at;
    uint8_t *fields; /* binary: where the size of the fields is written */
    int json;
    int first; /* JSON: no field was written yet */
} rp_response_writer;

#define RP_RESPONSE_PUT(writer, text) rp_response_put(writer, text, sizeof(text) - 1)

static inline void rp_response_put(rp_response_writer *writer, const void *text, size_t size) {
    memcpy(writer->at, text, size);
    writer->at += size;
}

static inline void rp_response_put_escaped(rp_response_writer *writer, rp_slice text) {
    uint8_t *at = writer->at;
    for (uint32_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        if (c == '"' || c == '\\') {
            *at++ = '\\';
            *at++ = c;
        } else if (c >= 0x20) {
            *at++ = c;
        } else {
            memcpy(at, "\\u00", 4);
            at = rp_put_hex_bytes(at + 4, &c, 1);
        }
    }
    writer->at = at;
}

/* Replaces the code SUCCESS by another, 0..99. Returns the frame's new size; its length fields are not changed. */
static inline uint32_t rp_response_set_code(uint8_t *frame, uint32_t size, int32_t code) {
    if (frame[4] == RP_SERIALIZE_ROCKETMQ) {
        rp_put_u16(frame + RP_RESPONSE_CODE_PLACE_BINARY, (uint16_t)code);
        return size;
    }
    uint8_t *place = frame + RP_RESPONSE_CODE_PLACE_JSON;
    if (code >= 10) {
        memmove(place + 2, place + 1, size - RP_RESPONSE_CODE_PLACE_JSON - 1);
        size++;
    }
    rp_decimal(place, code);
    return size;
}

/* Changes a frame of code SUCCESS, without remark and body, to that code and remark (data NULL: none; it must need no escapes). Returns
 * its new size, at most RP_RESPONSE_OUTCOME_SIZE of the remark larger. */
#define RP_RESPONSE_OUTCOME_SIZE(remark_size) ((uint32_t)sizeof "1,\"remark\":\"" + (remark_size))
static inline uint32_t rp_response_set_outcome(uint8_t *frame, uint32_t size, int32_t code, rp_slice remark) {
    static const char name[] = ",\"remark\":\"";
    size = rp_response_set_code(frame, size, code);
    if (remark.data == NULL) {
        /* only the code changes */
    } else if (frame[4] == RP_SERIALIZE_ROCKETMQ) {
        uint8_t *place = frame + RP_RESPONSE_REMARK_PLACE_BINARY;
        memmove(place + 4 + remark.size, place + 4, size - RP_RESPONSE_REMARK_PLACE_BINARY - 4);
        rp_put_u32(place, remark.size);
        memcpy(place + 4, remark.data, remark.size);
        size += remark.size;
    } else {
        uint8_t *at = frame + size - 1; /* the closing brace */
        memcpy(at, name, sizeof name - 1);
        memcpy(at + sizeof name - 1, remark.data, remark.size);
        memcpy(at + sizeof name - 1 + remark.size, "\"}", 2);
        size += (uint32_t)sizeof name + remark.size;
    }
    rp_put_u32(frame, size - 4);
    rp_put_u32(frame + 4, (uint32_t)frame[4] << 24 | (size - 8));
    return size;
}

/* Begins a response. code: 0..99; remark data NULL: none. */
static inline void rp_response_begin(rp_response_writer *writer, uint8_t *target, uint8_t serialize_type, int32_t code, int32_t opaque,
                                     rp_slice remark) {
    *writer = (rp_response_writer){.start = target, .at = target + 8, .json = serialize_type == RP_SERIALIZE_JSON, .first = 1};
    target[4] = serialize_type;
    if (writer->json) {
        RP_RESPONSE_PUT(writer, "{\"code\":");
        writer->at = rp_decimal(writer->at, code);
        RP_RESPONSE_PUT(writer, ",\"flag\":1,\"language\":\"JAVA\",\"version\":479,\"serializeTypeCurrentRPC\":\"JSON\",\"opaque\":");
        writer->at = rp_decimal(writer->at, opaque);
        if (remark.data != NULL) {
            RP_RESPONSE_PUT(writer, ",\"remark\":\"");
            rp_response_put_escaped(writer, remark);
            *writer->at++ = '"';
        }
        RP_RESPONSE_PUT(writer, ",\"extFields\":{");
    } else {
        uint8_t *at = writer->at;
        rp_put_u16(at, (uint16_t)code);
        at[2] = 0; /* LanguageCode JAVA */
        rp_put_u16(at + 3, RP_RESPONSE_VERSION);
        rp_put_u32(at + 5, (uint32_t)opaque);
        rp_put_u32(at + 9, RP_COMMAND_RESPONSE);
        rp_put_u32(at + 13, remark.size);
        writer->at = at + 17;
        if (remark.size > 0)
            rp_response_put(writer, remark.data, remark.size);
        writer->fields = writer->at;
        writer->at += 4;
    }
}

static inline void rp_response_name(rp_response_writer *writer, const char *name, size_t size) {
    if (writer->json) {
        if (!writer->first)
            *writer->at++ = ',';
        writer->first = 0;
        *writer->at++ = '"';
        rp_response_put(writer, name, size);
        RP_RESPONSE_PUT(writer, "\":\"");
    } else {
        rp_put_u16(writer->at, (uint16_t)size);
        writer->at += 2;
        rp_response_put(writer, name, size);
        writer->at += 4;
    }
}

/* Closes a value that began at `value`. */
static inline void rp_response_value_end(rp_response_writer *writer, uint8_t *value) {
    if (writer->json)
        *writer->at++ = '"';
    else
        rp_put_u32(value - 4, (uint32_t)(writer->at - value));
}

#define RP_RESPONSE_NUMBER(writer, name, number) rp_response_number(writer, name, sizeof(name) - 1, number)
#define RP_RESPONSE_TEXT(writer, name, text) rp_response_text(writer, name, sizeof(name) - 1, text)

static inline void rp_response_number(rp_response_writer *writer, const char *name, size_t size, int64_t number) {
    rp_response_name(writer, name, size);
    uint8_t *value = writer->at;
    writer->at = rp_decimal(value, number);
    rp_response_value_end(writer, value);
}

static inline void rp_response_text(rp_response_writer *writer, const char *name, size_t size, rp_slice text) {
    rp_response_name(writer, name, size);
    uint8_t *value = writer->at;
    if (writer->json)
        rp_response_put_escaped(writer, text);
    else if (text.size > 0)
        rp_response_put(writer, text.data, text.size);
    rp_response_value_end(writer, value);
}

/* Ends the header and fills in all sizes; body_size bytes follow from elsewhere. Returns the bytes written. */
static inline uint32_t rp_response_end(rp_response_writer *writer, uint32_t body_size) {
    if (writer->json)
        RP_RESPONSE_PUT(writer, "}}");
    else
        rp_put_u32(writer->fields, (uint32_t)(writer->at - writer->fields - 4));
    uint32_t size = (uint32_t)(writer->at - writer->start);
    rp_put_u32(writer->start, size - 4 + body_size);
    rp_put_u32(writer->start + 4, (uint32_t)(writer->json ? RP_SERIALIZE_JSON : RP_SERIALIZE_ROCKETMQ) << 24 | (size - 8));
    return size;
}

#endif
