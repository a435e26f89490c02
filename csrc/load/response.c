/* response.c: see response.h. One pass over a header, without allocation. JSON is scanned as a stream of members; unknown ones are
 * skipped.
 * RocketMQ: RemotingCommand.decode, RocketMQSerializable (5.3.3 remoting/protocol/).
 */
#include "response.h"

#include <stddef.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "../base/error.h"

#define FRAME_HEAD 8
#define BINARY_HEADER_MIN 21
#define JSON_DEPTH_MAX 16

static const struct {
    const char *name;
    uint32_t size;
    size_t at;
} wanted_fields[] = {
    {"queueId", 7, offsetof(rp_load_response, queue_id)},
    {"queueOffset", 11, offsetof(rp_load_response, queue_offset)},
    {"nextBeginOffset", 15, offsetof(rp_load_response, next_begin_offset)},
    {"minOffset", 9, offsetof(rp_load_response, min_offset)},
    {"maxOffset", 9, offsetof(rp_load_response, max_offset)},
    {"offset", 6, offsetof(rp_load_response, offset)},
};
#define WANTED_COUNT (sizeof wanted_fields / sizeof *wanted_fields)

static int parse_integer(rp_slice text, int64_t *value) {
    uint32_t at = 0;
    int negative = text.size > 0 && text.data[0] == '-';
    at += (uint32_t)negative;
    if (at == text.size)
        return 0;
    int64_t result = 0;
    for (; at < text.size; at++) {
        unsigned digit = (unsigned)text.data[at] - '0';
        if (digit > 9)
            return 0;
        if (__builtin_mul_overflow(result, 10, &result) || __builtin_sub_overflow(result, (int64_t)digit, &result))
            return 0;
    }
    if (!negative && result == INT64_MIN)
        return 0;
    *value = negative ? result : -result;
    return 1;
}

static int parse_int32(rp_slice text, int32_t *value) {
    int64_t wide;
    if (!parse_integer(text, &wide) || wide < INT32_MIN || wide > INT32_MAX)
        return 0;
    *value = (int32_t)wide;
    return 1;
}

/* Keeps a field if it is used. Returns 0 if its value is not a number. */
static int take_field(rp_load_response *response, rp_slice name, rp_slice value) {
    for (size_t i = 0; i < WANTED_COUNT; i++) {
        if (name.size == wanted_fields[i].size && memcmp(name.data, wanted_fields[i].name, name.size) == 0)
            return parse_integer(value, (int64_t *)(void *)((char *)response + wanted_fields[i].at));
    }
    return 1;
}

typedef struct scanner {
    const uint8_t *at;
    const uint8_t *end;
} scanner;

static inline void skip_blanks(scanner *in) {
    while (in->at < in->end && *in->at <= ' ' && (*in->at == ' ' || *in->at == '\t' || *in->at == '\n' || *in->at == '\r'))
        in->at++;
}

/* Takes one character if it is the wanted one. */
static inline int take(scanner *in, char wanted) {
    if (__builtin_expect(in->at < in->end && *in->at == (uint8_t)wanted, 1)) {
        in->at++;
        return 1;
    }
    skip_blanks(in);
    if (in->at == in->end || *in->at != (uint8_t)wanted)
        return 0;
    in->at++;
    return 1;
}

#define EACH_BYTE(value) (UINT64_C(0x0101010101010101) * (value))

/* Returns the first byte that ends a plain run of a string: a quote, a backslash or a control character; `end` if there is none. Eight
 * bytes at a time: a high bit is set where x - 1 borrows, and the lowest one that is set is always right. */
static inline const uint8_t *plain_end(const uint8_t *at, const uint8_t *end) {
    while (end - at >= 8) {
        uint64_t bytes;
        memcpy(&bytes, at, sizeof bytes); /* little-endian, like all of bytes_inl.h: the first byte is the lowest */
        uint64_t quote = bytes ^ EACH_BYTE('"'), slash = bytes ^ EACH_BYTE('\\');
        uint64_t found = (((quote - EACH_BYTE(1)) & ~quote) | ((slash - EACH_BYTE(1)) & ~slash) | ((bytes - EACH_BYTE(0x20)) & ~bytes)) &
                         EACH_BYTE(0x80);
        if (found != 0)
            return at + __builtin_ctzll(found) / 8;
        at += 8;
    }
    while (at < end && *at != '"' && *at != '\\' && *at >= 0x20)
        at++;
    return at;
}

/* Takes the inside of a string, with its escapes. */
static inline int take_string(scanner *in, rp_slice *text) {
    if (!take(in, '"'))
        return 0;
    const uint8_t *start = in->at;
    for (;;) {
        in->at = plain_end(in->at, in->end);
        if (in->at == in->end || *in->at < 0x20)
            return 0;
        if (*in->at == '"') {
            *text = (rp_slice){start, (uint32_t)(in->at - start)};
            in->at++;
            return 1;
        }
        if (in->end - in->at < 2)
            return 0;
        in->at += 2; /* a backslash and what it escapes */
    }
}

/* Takes a number, true, false or null, as text. */
static int take_word(scanner *in, rp_slice *text) {
    skip_blanks(in);
    const uint8_t *start = in->at;
    while (in->at < in->end && *in->at > ' ' && *in->at != ',' && *in->at != '}' && *in->at != ']' && *in->at != '"' && *in->at != ':')
        in->at++;
    *text = (rp_slice){start, (uint32_t)(in->at - start)};
    return text->size > 0;
}

static int skip_value(scanner *in, int depth) {
    rp_slice ignored;
    skip_blanks(in);
    if (in->at == in->end || depth > JSON_DEPTH_MAX)
        return 0;
    if (*in->at == '"')
        return take_string(in, &ignored);
    if (*in->at != '{' && *in->at != '[')
        return take_word(in, &ignored);
    int object = *in->at++ == '{';
    char close = object ? '}' : ']';
    if (take(in, close))
        return 1;
    do {
        if (object && !(take_string(in, &ignored) && take(in, ':')))
            return 0;
        if (!skip_value(in, depth + 1))
            return 0;
    } while (take(in, ','));
    return take(in, close);
}

static int is_null(rp_slice word) { return word.size == 4 && memcmp(word.data, "null", 4) == 0; }

static const char *parse_ext_fields(scanner *in, rp_load_response *response) {
    rp_slice name, value;
    if (!take(in, '{'))
        return take_word(in, &value) && is_null(value) ? NULL : "extFields is not an object";
    if (take(in, '}'))
        return NULL;
    do {
        if (!take_string(in, &name) || !take(in, ':'))
            return "extFields has a malformed member name";
        skip_blanks(in);
        int is_string = in->at < in->end && *in->at == '"';
        if (!(is_string ? take_string(in, &value) : take_word(in, &value)))
            return "extFields has a malformed value";
        if (!is_string && is_null(value))
            continue;
        if (!take_field(response, name, value))
            return "a numeric field of extFields is not a number";
    } while (take(in, ','));
    return take(in, '}') ? NULL : "extFields does not end";
}

static int name_is(rp_slice name, const char *wanted, uint32_t size) { return name.size == size && memcmp(name.data, wanted, size) == 0; }

static const char *parse_json(scanner *in, rp_load_response *response) {
    rp_slice name, value;
    int have_code = 0, have_opaque = 0;
    if (!take(in, '{'))
        return "the header is not a JSON object";
    do {
        if (!take_string(in, &name) || !take(in, ':'))
            return "the header has a malformed member name";
        if (name_is(name, "code", 4)) {
            have_code = take_word(in, &value) && parse_int32(value, &response->code);
            if (!have_code)
                return "code is not a number";
        } else if (name_is(name, "opaque", 6)) {
            have_opaque = take_word(in, &value) && parse_int32(value, &response->opaque);
            if (!have_opaque)
                return "opaque is not a number";
        } else if (name_is(name, "flag", 4)) {
            if (!take_word(in, &value) || !parse_int32(value, &response->flag))
                return "flag is not a number";
        } else if (name_is(name, "extFields", 9)) {
            const char *cause = parse_ext_fields(in, response);
            if (cause != NULL)
                return cause;
        } else if (name_is(name, "remark", 6)) {
            if (!take_string(in, &response->remark) && !(take_word(in, &value) && is_null(value)))
                return "remark is not a string";
        } else if (!skip_value(in, 0)) {
            return "the header has a malformed member";
        }
    } while (take(in, ','));
    if (!take(in, '}'))
        return "the header's object does not end";
    skip_blanks(in);
    if (in->at != in->end)
        return "the header goes on after its object";
    if (!have_code || !have_opaque)
        return "code or opaque is missing";
    return NULL;
}

static int take_slice(scanner *in, unsigned size_bytes, rp_slice *slice) {
    if ((size_t)(in->end - in->at) < size_bytes)
        return 0;
    uint32_t size = size_bytes == 2 ? rp_get_u16(in->at) : rp_get_u32(in->at);
    in->at += size_bytes;
    if ((size_t)(in->end - in->at) < size)
        return 0;
    *slice = (rp_slice){in->at, size};
    in->at += size;
    return 1;
}

static const char *parse_binary(scanner *in, rp_load_response *response) {
    if (in->end - in->at < BINARY_HEADER_MIN)
        return "the binary header is too short";
    response->code = (int16_t)rp_get_u16(in->at);
    response->opaque = (int32_t)rp_get_u32(in->at + 5);
    response->flag = (int32_t)rp_get_u32(in->at + 9);
    in->at += 13;
    rp_slice remark, fields, name, value;
    if (!take_slice(in, 4, &remark))
        return "the remark is longer than the header";
    if (remark.size > 0)
        response->remark = remark;
    if (!take_slice(in, 4, &fields))
        return "the fields are longer than the header";
    if (in->at != in->end)
        return "the header goes on after its fields";
    scanner inside = {fields.data, fields.data + fields.size};
    while (inside.at < inside.end) {
        if (!take_slice(&inside, 2, &name) || !take_slice(&inside, 4, &value))
            return "a field is longer than the header";
        if (!take_field(response, name, value))
            return "a numeric field is not a number";
    }
    return NULL;
}

int64_t rp_load_frame_size(const uint8_t *data, uint64_t size) {
    if (size < 4)
        return 0;
    uint32_t rest = rp_get_u32(data);
    if (rest > RP_RESPONSE_FRAME_MAX)
        return RP_E_TOO_LARGE;
    if (rest < 4)
        return RP_E_PROTOCOL;
    return (int64_t)rest + 4;
}

int rp_load_parse_response(const uint8_t *frame, uint32_t size, rp_load_response *response, const char **cause) {
    *response =
        (rp_load_response){.queue_id = -1, .queue_offset = -1, .next_begin_offset = -1, .min_offset = -1, .max_offset = -1, .offset = -1};
    if (size < FRAME_HEAD) {
        *cause = "the frame has no header";
        return RP_E_PROTOCOL;
    }
    uint32_t header_size = rp_get_u32(frame + 4) & 0xFFFFFFu;
    if (header_size > size - FRAME_HEAD) {
        *cause = "the header is longer than the frame";
        return RP_E_PROTOCOL;
    }
    if (frame[4] > 1) {
        *cause = "the header is neither JSON nor ROCKETMQ";
        return RP_E_PROTOCOL;
    }
    scanner in = {frame + FRAME_HEAD, frame + FRAME_HEAD + header_size};
    response->serialize_type = frame[4];
    *cause = frame[4] == 0 ? parse_json(&in, response) : parse_binary(&in, response);
    response->body = (rp_slice){frame + FRAME_HEAD + header_size, size - FRAME_HEAD - header_size};
    return *cause == NULL ? RP_OK : RP_E_PROTOCOL;
}
