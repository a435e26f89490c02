/* json_escape.c: decodes a JSON string with escapes into UTF-8.
 *
 * Accepted are JSON's escapes and those that fastjson 1 reads in addition: \0..\7, \v, \F, \' and \xHH. \u becomes UTF-8; a pair of
 * surrogates becomes one character of four bytes, and half a pair becomes '?', as in Java's encoder. No escape decodes to more bytes
 * than it has, so the target needs no more room than the source.
 */
#include "json_escape.h"

#include <stddef.h>

#include "json_text_inl.h"

/* A hex digit's value plus one; 0 for other bytes. */
static const uint8_t hex_values[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,  ['8'] = 9,  ['9'] = 10, ['a'] = 11,
    ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16, ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

/* Reads `digits` hex digits; -1 if they are not there. */
static int32_t read_hex(const uint8_t *cursor, const uint8_t *end, int digits) {
    if (end - cursor < digits) {
        return -1;
    }
    int32_t value = 0;
    for (int index = 0; index < digits; index++) {
        int digit = hex_values[cursor[index]];
        if (digit == 0) {
            return -1;
        }
        value = value << 4 | (digit - 1);
    }
    return value;
}

static uint8_t *put_utf8(uint8_t *target, uint32_t character) {
    if (character < 0x80) {
        *target++ = (uint8_t)character;
    } else if (character < 0x800) {
        *target++ = (uint8_t)(0xC0 | character >> 6);
        *target++ = (uint8_t)(0x80 | (character & 0x3F));
    } else if (character < 0x10000) {
        *target++ = (uint8_t)(0xE0 | character >> 12);
        *target++ = (uint8_t)(0x80 | (character >> 6 & 0x3F));
        *target++ = (uint8_t)(0x80 | (character & 0x3F));
    } else {
        *target++ = (uint8_t)(0xF0 | character >> 18);
        *target++ = (uint8_t)(0x80 | (character >> 12 & 0x3F));
        *target++ = (uint8_t)(0x80 | (character >> 6 & 0x3F));
        *target++ = (uint8_t)(0x80 | (character & 0x3F));
    }
    return target;
}

static int is_high_surrogate(int32_t unit) { return (unit & 0xFC00) == 0xD800; }
static int is_low_surrogate(int32_t unit) { return (unit & 0xFC00) == 0xDC00; }

/* *cursor is behind "\u"; moves it past the digits, and past a second escape if both form a pair. NULL: not hexadecimal. */
static uint8_t *read_unicode(const uint8_t **cursor, const uint8_t *end, uint8_t *target) {
    int32_t unit = read_hex(*cursor, end, 4);
    if (unit < 0) {
        return NULL;
    }
    *cursor += 4;
    if (is_high_surrogate(unit) && end - *cursor >= 6 && (*cursor)[0] == '\\' && (*cursor)[1] == 'u') {
        int32_t second = read_hex(*cursor + 2, end, 4);
        if (second >= 0 && is_low_surrogate(second)) {
            *cursor += 6;
            return put_utf8(target, 0x10000 + (((uint32_t)unit & 0x3FF) << 10 | ((uint32_t)second & 0x3FF)));
        }
    }
    return put_utf8(target, is_high_surrogate(unit) || is_low_surrogate(unit) ? '?' : (uint32_t)unit);
}

/* Returns the byte that a one-letter escape stands for; -1 for others. */
static int simple_escape(uint8_t letter) {
    switch (letter) {
    case '"':
    case '\\':
    case '/':
    case '\'':
        return letter;
    case 'b':
        return '\b';
    case 'f':
    case 'F':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'v':
        return '\v';
    default:
        return letter >= '0' && letter <= '7' ? letter - '0' : -1;
    }
}

int64_t rp_json_unescape(const uint8_t **position, const uint8_t *end, uint8_t *target) {
    const uint8_t *cursor = *position;
    uint8_t *out = target;
    for (;;) {
        const uint8_t *plain_end = rp_json_copy_plain(out, cursor, end);
        out += plain_end - cursor;
        cursor = plain_end;
        if (cursor < end && *cursor == '"') {
            break;
        }
        if (end - cursor < 2) {
            *position = cursor;
            return RP_JSON_UNTERMINATED;
        }
        uint8_t letter = cursor[1];
        cursor += 2;
        if (letter == 'u') {
            /* The common escape: a control character of the message properties. */
            if (end - cursor >= 4 && cursor[0] == '0' && cursor[1] == '0' && (cursor[2] == '0' || cursor[2] == '1') &&
                hex_values[cursor[3]] != 0) {
                *out++ = (uint8_t)((cursor[2] - '0') << 4 | (hex_values[cursor[3]] - 1));
                cursor += 4;
                continue;
            }
            uint8_t *next = read_unicode(&cursor, end, out);
            if (next == NULL) {
                *position = cursor;
                return RP_JSON_BAD_ESCAPE;
            }
            out = next;
            continue;
        }
        int byte = letter == 'x' ? read_hex(cursor, end, 2) : simple_escape(letter);
        if (byte < 0) {
            *position = cursor;
            return RP_JSON_BAD_ESCAPE;
        }
        cursor += letter == 'x' ? 2 : 0;
        out = put_utf8(out, (uint32_t)byte);
    }
    *position = cursor + 1;
    return out - target;
}
