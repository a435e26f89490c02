/* request.c: encodes requests in both header encodings, and makes send requests from templates.
 * RocketMQ: RemotingCommand.encodeHeader, RocketMQSerializable, MessageDecoder.encodeMessages (5.3.3 remoting/, common/).
 */
#include "request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "../base/error.h"
#include "../base/hex_inl.h"

#define LANGUAGE_OTHER 7    /* LanguageCode.OTHER */
#define CLIENT_VERSION 513  /* MQVersion V5_5_0 */
#define FRAME_SIZE_MAX 16777216u
#define PROPERTIES_ROOM 512
#define HEADER_ROOM 65536u  /* properties, two names and fixed fields, at six bytes for each escaped byte */
#define BORN_DIGITS 13
#define KEY_DIGITS 32
#define KEY_FIXED 8         /* the run; producer and sequence follow */
#define BINARY_OPAQUE_AT 13 /* in a frame: behind both lengths, code, language and version */

/* Placeholders of the patched values. Topic and group names have no braces, so a search finds nothing else. */
#define BORN_MARK "{{{{{born}}}}"
#define KEY_MARK "{{{{{{{{{{{{{unique}}}}}}}}}}}}}"
_Static_assert(sizeof BORN_MARK - 1 == BORN_DIGITS, "the mark is as long as the digits");
_Static_assert(sizeof KEY_MARK - 1 == KEY_DIGITS, "the mark is as long as the key");

/* Appends; what does not fit is not written, but remembered as a failure. */
typedef struct writer {
    uint8_t *data;
    size_t size;
    size_t at;
    int overflow;
} writer;

static void put_bytes(writer *out, const void *data, size_t size) {
    if (out->overflow || size > out->size - out->at) {
        out->overflow = 1;
        return;
    }
    memcpy(out->data + out->at, data, size);
    out->at += size;
}

static void put_text(writer *out, const char *text) { put_bytes(out, text, strlen(text)); }

static void put_number(writer *out, uint64_t value, unsigned bytes) {
    uint8_t big_endian[8];
    rp_put_u64(big_endian, value);
    put_bytes(out, big_endian + 8 - bytes, bytes);
}

static void put_json_string(writer *out, const char *text) {
    put_text(out, "\"");
    for (const char *c = text; *c != '\0'; c++) {
        char escaped[8];
        if ((uint8_t)*c < 0x20) {
            snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)(uint8_t)*c);
            put_text(out, escaped);
        } else {
            if (*c == '"' || *c == '\\')
                put_text(out, "\\");
            put_bytes(out, c, 1);
        }
    }
    put_text(out, "\"");
}

static void put_header_json(writer *out, int32_t code, int32_t opaque, const rp_load_field *fields, uint32_t field_count) {
    char text[64];
    snprintf(text, sizeof text, "{\"code\":%d,\"extFields\":{", code);
    put_text(out, text);
    for (uint32_t i = 0; i < field_count; i++) {
        if (i > 0)
            put_text(out, ",");
        put_json_string(out, fields[i].name);
        put_text(out, ":");
        put_json_string(out, fields[i].value);
    }
    snprintf(text, sizeof text, "},\"flag\":0,\"language\":\"OTHER\",\"opaque\":%d,", opaque);
    put_text(out, text);
    snprintf(text, sizeof text, "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":%d}", CLIENT_VERSION);
    put_text(out, text);
}

static void put_header_binary(writer *out, int32_t code, int32_t opaque, const rp_load_field *fields, uint32_t field_count) {
    put_number(out, (uint16_t)code, 2);
    put_number(out, LANGUAGE_OTHER, 1);
    put_number(out, CLIENT_VERSION, 2);
    put_number(out, (uint32_t)opaque, 4);
    put_number(out, 0, 4); /* flag */
    put_number(out, 0, 4); /* no remark */
    size_t size_at = out->at;
    put_number(out, 0, 4);
    for (uint32_t i = 0; i < field_count; i++) {
        put_number(out, strlen(fields[i].name), 2);
        put_text(out, fields[i].name);
        put_number(out, strlen(fields[i].value), 4);
        put_text(out, fields[i].value);
    }
    if (!out->overflow)
        rp_put_u32(out->data + size_at, (uint32_t)(out->at - size_at - 4));
}

int64_t rp_load_encode_request(uint8_t *target, size_t target_size, int serialize_type, int32_t code, int32_t opaque,
                               const rp_load_field *fields, uint32_t field_count, uint32_t body_size) {
    writer out = {target, target_size, 0, 0};
    put_number(&out, 0, 8);
    if (serialize_type == 0) {
        put_header_json(&out, code, opaque, fields, field_count);
    } else {
        put_header_binary(&out, code, opaque, fields, field_count);
    }
    if (out.overflow || out.at - 4 > FRAME_SIZE_MAX || body_size > FRAME_SIZE_MAX - (out.at - 4))
        return RP_E_TOO_LARGE;
    rp_put_u32(target, (uint32_t)(out.at - 4) + body_size);
    rp_put_u32(target + 4, (uint32_t)serialize_type << 24 | (uint32_t)(out.at - 8));
    return (int64_t)out.at;
}

struct rp_load_template { /* fixed after open */
    const rp_payload *payload;
    int32_t serialize_type;
    uint32_t size;        /* of the frame */
    uint32_t header_size; /* with both lengths: where the body begins */
    uint32_t opaque_at;
    uint32_t born_at;
    uint32_t key_at;      /* of a single message, from the frame's start; 0: none */
    uint32_t batch_size;
    uint32_t inner_size;    /* of one message of a batch; 0: not a batch */
    uint32_t inner_body_at; /* from the start of the inner message */
    uint32_t inner_key_at;  /* likewise; 0: none */
    uint8_t bytes[];
};

static uint32_t position_of(const uint8_t *data, size_t size, const char *mark) {
    const uint8_t *found = memmem(data, size, mark, strlen(mark));
    return found == NULL ? 0 : (uint32_t)(found - data);
}

/* The properties on the wire: name 1 value 2 … */
static size_t make_properties(const rp_load_template_options *options, char *target, size_t target_size) {
    size_t at = 0;
    target[0] = '\0';
    if (options->unique_key)
        at += (size_t)snprintf(target, target_size, "UNIQ_KEY\1" KEY_MARK "\2WAIT\1true\2");
    if (options->tags != NULL && at < target_size)
        at += (size_t)snprintf(target + at, target_size - at, "TAGS\1%s\2", options->tags);
    return at;
}

static uint32_t make_fields_v1(const rp_load_template_options *options, const char *queue, const char *properties, rp_load_field *fields) {
    const rp_load_field all[] = {{"producerGroup", options->producer_group},
                                 {"topic", options->topic},
                                 {"defaultTopic", "TBW102"},
                                 {"defaultTopicQueueNums", "4"},
                                 {"queueId", queue},
                                 {"sysFlag", "0"},
                                 {"bornTimestamp", BORN_MARK},
                                 {"flag", "0"},
                                 {"properties", properties},
                                 {"reconsumeTimes", "0"},
                                 {"unitMode", "false"},
                                 {"maxReconsumeTimes", "0"},
                                 {"batch", "false"}};
    memcpy(fields, all, sizeof all);
    return sizeof all / sizeof *all;
}

static uint32_t make_fields_v2(const rp_load_template_options *options, const char *queue, const char *properties, rp_load_field *fields) {
    int batch = options->send_code == RP_REQUEST_SEND_BATCH;
    const rp_load_field all[] = {{"a", options->producer_group},
                                 {"b", options->topic},
                                 {"c", "TBW102"},
                                 {"d", "4"},
                                 {"e", queue},
                                 {"f", "0"},
                                 {"g", BORN_MARK},
                                 {"h", "0"},
                                 {"i", batch ? "" : properties},
                                 {"j", "0"},
                                 {"k", "false"},
                                 {"l", "0"},
                                 {"m", batch ? "true" : "false"}};
    memcpy(fields, all, sizeof all);
    return sizeof all / sizeof *all;
}

/* One message of a batch: [4 size][4 magic][4 CRC][4 flag][4 body size][body][2 properties size][properties]; magic and CRC stay 0. */
#define INNER_BODY_AT 20
#define INNER_FIXED_SIZE (INNER_BODY_AT + 2)
static void make_inner(rp_load_template *template, const rp_load_template_options *options, const char *properties,
                       size_t properties_size) {
    uint8_t *target = template->bytes + template->header_size;
    uint32_t at = template->inner_body_at + options->message_size;
    for (uint32_t i = 0; i < template->batch_size; i++, target += template->inner_size) {
        memset(target, 0, template->inner_size);
        rp_put_u32(target, template->inner_size);
        rp_put_u32(target + 16, options->message_size);
        rp_put_u16(target + at, (uint16_t)properties_size);
        memcpy(target + at + 2, properties, properties_size);
    }
}

/* Returns the offset of the opaque in the frame. In JSON it is the last match: an earlier field may contain the same text, but the
 * header's own member comes after extFields. */
static uint32_t find_opaque(const rp_load_template *template) {
    static const char name[] = "\"opaque\":";
    const uint32_t size = sizeof name - 1;
    uint32_t found = template->serialize_type == 0 ? 0 : BINARY_OPAQUE_AT;
    for (uint32_t at = 0; template->serialize_type == 0 && at + size < template->header_size; at++) {
        if (memcmp(template->bytes + at, name, size) == 0)
            found = at + size;
    }
    return found;
}

/* Writes the run into the key of the message, or of each message of a batch, and notes where the rest of the key goes. */
static void place_keys(rp_load_template *template, const rp_load_template_options *options, char *properties, size_t properties_size) {
    char key[KEY_DIGITS + 1];
    snprintf(key, sizeof key, "%08X%024X", options->run, 0);
    if (options->send_code == RP_REQUEST_SEND_BATCH) {
        char *mark = strstr(properties, KEY_MARK);
        if (mark != NULL)
            memcpy(mark, key, KEY_DIGITS);
        template->inner_size = (uint32_t)(INNER_FIXED_SIZE + options->message_size + properties_size);
        template->inner_body_at = INNER_BODY_AT;
        template->inner_key_at = mark == NULL ? 0 : INNER_FIXED_SIZE + options->message_size + (uint32_t)(mark - properties);
        make_inner(template, options, properties, properties_size);
    } else {
        template->key_at = position_of(template->bytes, template->header_size, KEY_MARK);
        if (template->key_at != 0)
            memcpy(template->bytes + template->key_at, key, KEY_DIGITS);
    }
}

int rp_load_template_open(const rp_load_template_options *options, const rp_payload *payload, rp_load_template **result) {
    char properties[PROPERTIES_ROOM], queue[16];
    size_t properties_size = make_properties(options, properties, sizeof properties);
    if (properties_size >= sizeof properties)
        return RP_E_TOO_LARGE;
    snprintf(queue, sizeof queue, "%u", options->queue_id);
    int batch = options->send_code == RP_REQUEST_SEND_BATCH;
    uint64_t inner_size = INNER_FIXED_SIZE + (uint64_t)options->message_size + properties_size;
    uint64_t body_size = batch ? inner_size * options->batch_size : options->message_size;
    if (body_size > FRAME_SIZE_MAX - HEADER_ROOM)
        return RP_E_TOO_LARGE;
    rp_load_field fields[RP_LOAD_REQUEST_FIELDS_MAX];
    uint32_t field_count = (options->send_code == RP_REQUEST_SEND ? make_fields_v1 : make_fields_v2)(options, queue, properties, fields);
    rp_load_template *template = calloc(1, sizeof *template + HEADER_ROOM + body_size);
    if (template == NULL)
        return RP_E_NO_MEMORY;
    int64_t header_size = rp_load_encode_request(template->bytes, HEADER_ROOM, options->serialize_type, options->send_code,
                                                 RP_LOAD_OPAQUE_MIN, fields, field_count, (uint32_t)body_size);
    if (header_size < 0) {
        free(template);
        return RP_E_TOO_LARGE;
    }
    template->payload = payload;
    template->serialize_type = options->serialize_type;
    template->header_size = (uint32_t)header_size;
    template->size = (uint32_t)((uint64_t)header_size + body_size);
    template->batch_size = options->batch_size;
    template->opaque_at = find_opaque(template);
    template->born_at = position_of(template->bytes, template->header_size, BORN_MARK);
    place_keys(template, options, properties, properties_size);
    *result = template;
    return RP_OK;
}

void rp_load_template_close(rp_load_template *template) { free(template); }

uint32_t rp_load_template_size(const rp_load_template *template) { return template->size; }

static void put_key(uint8_t *target, const rp_payload_head *head) {
    rp_put_hex_u64(rp_put_hex_u32(target + KEY_FIXED, head->producer), head->sequence);
}

static void put_ten_digits(uint8_t *target, uint32_t value) {
    for (int i = 9; i >= 0; i--) {
        target[i] = (uint8_t)('0' + value % 10);
        value /= 10;
    }
}

void rp_load_template_write(const rp_load_template *template, int32_t opaque, const char *born_digits, const rp_payload_head *head,
                            uint8_t *target) {
    int batch = template->inner_size != 0;
    memcpy(target, template->bytes, batch ? template->size : template->header_size);
    if (template->serialize_type == 0) {
        put_ten_digits(target + template->opaque_at, (uint32_t)opaque);
    } else {
        rp_put_u32(target + template->opaque_at, (uint32_t)opaque);
    }
    memcpy(target + template->born_at, born_digits, BORN_DIGITS);
    if (template->key_at != 0)
        put_key(target + template->key_at, head);
    if (!batch) {
        rp_payload_write(template->payload, head, target + template->header_size);
        return;
    }
    rp_payload_head inner = *head;
    uint8_t *message = target + template->header_size;
    for (uint32_t i = 0; i < template->batch_size; i++, inner.sequence++, message += template->inner_size) {
        rp_payload_write(template->payload, &inner, message + template->inner_body_at);
        if (template->inner_key_at != 0)
            put_key(message + template->inner_key_at, &inner);
    }
}
