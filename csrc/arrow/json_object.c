/* json_object.c: see json_object.h. */
#include "json_object.h"

#include <string.h>

#include "../base/error.h"
#include "../remoting/json_escape.h"

static void skip_spaces(rp_json_object *object) {
    while (object->cursor < object->end && memchr(" \t\r\n", *object->cursor, 4) != NULL)
        object->cursor++;
}

static int take(rp_json_object *object, uint8_t wanted) {
    skip_spaces(object);
    if (object->cursor >= object->end || *object->cursor != wanted)
        return 0;
    object->cursor++;
    return 1;
}

/* Called with the cursor behind the opening quote. */
static int take_string(rp_json_object *object, rp_slice *text) {
    int64_t size = rp_json_unescape(&object->cursor, object->end, object->scratch);
    if (size < 0)
        return RP_E_INVALID;
    *text = (rp_slice){object->scratch, (uint32_t)size};
    object->scratch += size;
    return RP_OK;
}

static int is_word_byte(uint8_t c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == 'E' || c == '+' || c == '-' || c == '.';
}

static uint32_t count_digits(rp_slice word, uint32_t at) {
    uint32_t end = at;
    while (end < word.size && word.data[end] >= '0' && word.data[end] <= '9')
        end++;
    return end - at;
}

static uint8_t byte_at(rp_slice word, uint32_t at) { return at < word.size ? word.data[at] : 0; }

/* RFC 8259, section 6: an optional minus, digits without a leading zero, an optional fraction, an optional exponent. */
static int is_number(rp_slice word) {
    uint32_t at = byte_at(word, 0) == '-', digits = count_digits(word, at);
    if (digits == 0 || (digits > 1 && word.data[at] == '0'))
        return 0;
    at += digits;
    if (byte_at(word, at) == '.') {
        digits = count_digits(word, ++at);
        if (digits == 0)
            return 0;
        at += digits;
    }
    if (byte_at(word, at) == 'e' || byte_at(word, at) == 'E') {
        at++;
        at += byte_at(word, at) == '+' || byte_at(word, at) == '-';
        digits = count_digits(word, at);
        if (digits == 0)
            return 0;
        at += digits;
    }
    return at == word.size;
}

static int is_name(rp_slice word) {
    return (word.size == 4 && (memcmp(word.data, "true", 4) == 0 || memcmp(word.data, "null", 4) == 0)) ||
           (word.size == 5 && memcmp(word.data, "false", 5) == 0);
}

/* Takes a number, true, false or null, in its source form. */
static int take_word(rp_json_object *object, rp_slice *word) {
    const uint8_t *start = object->cursor;
    while (object->cursor < object->end && is_word_byte(*object->cursor))
        object->cursor++;
    *word = (rp_slice){start, (uint32_t)(object->cursor - start)};
    return is_number(*word) || is_name(*word) ? RP_OK : RP_E_INVALID;
}

int rp_json_object_begin(rp_json_object *object, rp_slice text, uint8_t *scratch) {
    *object = (rp_json_object){text.data, text.data + text.size, scratch, 1};
    return take(object, '{') ? RP_OK : RP_E_INVALID;
}

static int end_of_object(rp_json_object *object) {
    skip_spaces(object);
    return object->cursor == object->end ? 0 : RP_E_INVALID;
}

int rp_json_object_next(rp_json_object *object, rp_slice *name, rp_slice *value) {
    for (;;) {
        if (take(object, '}'))
            return end_of_object(object);
        if (!object->is_first && !take(object, ','))
            return RP_E_INVALID;
        object->is_first = 0;
        if (!take(object, '"') || take_string(object, name) < 0 || !take(object, ':'))
            return RP_E_INVALID;
        skip_spaces(object);
        if (object->cursor >= object->end)
            return RP_E_INVALID;
        if (*object->cursor == '{' || *object->cursor == '[')
            return RP_E_UNSUPPORTED;
        if (take(object, '"'))
            return take_string(object, value) < 0 ? RP_E_INVALID : 1;
        if (take_word(object, value) < 0)
            return RP_E_INVALID;
        if (value->data[0] != 'n')
            return 1;
    }
}
