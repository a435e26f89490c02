/* json_reader.c: see json_reader.h. */
#include "json_reader.h"

#include "../base/error.h"
#include "../base/java_number.h"
#include "../base/slice_inl.h"
#include "json_escape.h"

rp_json rp_json_of(rp_slice text, rp_arena *arena) { return (rp_json){text.data, text.data + text.size, arena}; }

/* The next byte that is neither white space nor a separator, 0 at the end. */
static uint8_t peek(rp_json *json) {
    for (; json->at < json->end; json->at++) {
        uint8_t byte = *json->at;
        if (byte != ' ' && byte != ',' && byte != ':' && byte != '\n' && byte != '\r' && byte != '\t')
            return byte;
    }
    return 0;
}

/* Passes the string whose opening quote comes next. Returns its raw content, and whether that has escapes. */
static int pass_string(rp_json *json, rp_slice *raw, int *escaped) {
    const uint8_t *content = ++json->at;
    *escaped = 0;
    for (; json->at < json->end && *json->at != '"'; json->at++) {
        if (*json->at != '\\')
            continue;
        *escaped = 1;
        json->at += json->end - json->at > 1; /* an escaped character does not end the string */
    }
    if (json->at == json->end)
        return RP_E_PROTOCOL;
    *raw = (rp_slice){content, (uint32_t)(json->at - content)};
    json->at++;
    return RP_OK;
}

static int read_string(rp_json *json, rp_slice *text) {
    int escaped;
    int status = pass_string(json, text, &escaped);
    if (status != RP_OK || !escaped)
        return status;
    const uint8_t *content = text->data;
    uint8_t *target = rp_arena_take(json->arena, (size_t)text->size + 1);
    if (target == NULL)
        return RP_E_NO_MEMORY;
    int64_t size = rp_json_unescape(&content, json->at, target);
    *text = (rp_slice){target, size < 0 ? 0 : (uint32_t)size};
    return size < 0 ? RP_E_PROTOCOL : RP_OK;
}

static int is_scalar_byte(uint8_t byte) {
    return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') || byte == '-' || byte == '+' || byte == '.';
}

static int read_scalar(rp_json *json, rp_slice *text) {
    const uint8_t *start = json->at;
    while (json->at < json->end && is_scalar_byte(*json->at))
        json->at++;
    *text = (rp_slice){start, (uint32_t)(json->at - start)};
    if (text->size == 0)
        return RP_E_PROTOCOL;
    if (rp_slice_is(*text, "null"))
        *text = (rp_slice){NULL, 0};
    return RP_OK;
}

/* Passes an object or array as a whole: brackets are counted, not matched. */
static int read_nested(rp_json *json, rp_slice *text) {
    const uint8_t *start = json->at;
    uint32_t depth = 0;
    rp_slice skipped;
    do {
        uint8_t byte = peek(json);
        int status = RP_OK, escaped;
        if (byte == '{' || byte == '[' || byte == '}' || byte == ']') {
            depth = byte == '{' || byte == '[' ? depth + 1 : depth - 1;
            json->at++;
        } else {
            status = byte == '"' ? pass_string(json, &skipped, &escaped) : read_scalar(json, &skipped);
        }
        if (status != RP_OK)
            return status;
    } while (depth > 0);
    *text = (rp_slice){start, (uint32_t)(json->at - start)};
    return RP_OK;
}

int rp_json_read(rp_json *json, rp_slice *text) {
    uint8_t byte = peek(json);
    if (byte == '"')
        return read_string(json, text);
    return byte == '{' || byte == '[' ? read_nested(json, text) : read_scalar(json, text);
}

int rp_json_read_text(rp_json *json, rp_slice *text) {
    uint8_t byte = peek(json);
    if (byte == '"')
        return read_string(json, text);
    return byte == 'n' && read_scalar(json, text) == RP_OK && text->data == NULL ? RP_OK : RP_E_PROTOCOL;
}

int rp_json_is_over(rp_json *json) { return peek(json) == 0 && json->at == json->end; }

static int read_integer(rp_json *json, int64_t min, int64_t max, int64_t *number) {
    rp_slice text;
    int escaped;
    *number = 0;
    int status = peek(json) == '"' ? pass_string(json, &text, &escaped) : read_scalar(json, &text);
    if (status != RP_OK || text.data == NULL)
        return status;
    return rp_java_integer(text, min, max, number) ? RP_OK : RP_E_PROTOCOL;
}

int rp_json_read_i64(rp_json *json, int64_t *number) { return read_integer(json, INT64_MIN, INT64_MAX, number); }

int rp_json_read_i32(rp_json *json, int32_t *number) {
    int64_t wide;
    int status = read_integer(json, INT32_MIN, INT32_MAX, &wide);
    *number = status == RP_OK ? (int32_t)wide : 0;
    return status;
}

int rp_json_enter(rp_json *json, uint8_t bracket) {
    rp_slice text;
    uint8_t byte = peek(json);
    if (byte == bracket) {
        json->at++;
        return RP_OK;
    }
    return byte == 'n' && read_scalar(json, &text) == RP_OK && text.data == NULL ? RP_E_NOT_FOUND : RP_E_PROTOCOL;
}

int rp_json_next_member(rp_json *json, rp_slice *name) {
    uint8_t byte = peek(json);
    if (byte == '}') {
        json->at++;
        return 0;
    }
    int status = byte == '"' ? read_string(json, name) : RP_E_PROTOCOL;
    return status == RP_OK ? 1 : status;
}

int rp_json_next_element(rp_json *json) {
    uint8_t byte = peek(json);
    if (byte == ']') {
        json->at++;
        return 0;
    }
    return byte != 0 && byte != '}' ? 1 : RP_E_PROTOCOL;
}

int64_t rp_json_count_elements(const rp_json *json, uint32_t max) {
    rp_json copy = *json;
    rp_slice passed;
    uint32_t count = 0;
    int more;
    while ((more = rp_json_next_element(&copy)) > 0) {
        int status = rp_json_read(&copy, &passed);
        if (status != RP_OK)
            return status;
        if (++count > max)
            return RP_E_TOO_LARGE;
    }
    return more < 0 ? (int64_t)more : (int64_t)count;
}

int rp_json_is_either(rp_slice name, const char *short_form, const char *long_form) {
    return rp_slice_is(name, short_form) || rp_slice_is(name, long_form);
}
