/* header_json.c: parses a JSON header in one pass, without copying. RocketMQ: RemotingSerializable over fastjson 1. A header like an
 * earlier one is read by header_form.c, with the same result.
 *
 * Strings without escapes are slices of the frame, others are written into the arena. Members come in any order; the last of a name
 * counts. Clients differ in what they quote (the C++ client writes some extFields as numbers), so a scalar's text is taken as it stands,
 * and the integers of the header may be quoted. Unknown members are skipped. Nesting is bounded by DEPTH_MAX.
 */
#include "header.h"

#include <stdbool.h>
#include <string.h>

#include "../base/slice_inl.h"
#include "json_escape.h"
#include "json_text_inl.h"

#define DEPTH_MAX 64

struct reader {
    const uint8_t *cursor;
    const uint8_t *end;
    const uint8_t *start;
    rp_arena *arena;
    rp_error *error;
};

static int refuse(struct reader *reader, const char *cause) {
    return rp_error_set(reader->error, RP_E_PROTOCOL, 0, NULL, reader->cursor - reader->start, "JSON header: %s", cause);
}

static inline bool is_space(uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }

/* Returns the next byte that is not white space, 0 at the end. */
static inline uint8_t peek(struct reader *reader) {
    const uint8_t *cursor = reader->cursor;
    while (cursor < reader->end && is_space(*cursor)) {
        cursor++;
    }
    reader->cursor = cursor;
    return cursor < reader->end ? *cursor : 0;
}

static int read_escaped_string(struct reader *reader, const uint8_t *content, rp_slice *text) {
    /* The text takes no more bytes than are left of the header; what it does not use is returned to the arena. */
    size_t room = (size_t)(reader->end - content);
    uint8_t *target = reader->arena != NULL ? rp_arena_take(reader->arena, room) : NULL;
    if (target == NULL) {
        return rp_error_set(reader->error, RP_E_NO_MEMORY, 0, NULL, content - reader->start, "no room for a string of %zu bytes", room);
    }
    reader->cursor = content;
    int64_t size = rp_json_unescape(&reader->cursor, reader->end, target);
    if (size < 0) {
        return refuse(reader, size == RP_JSON_BAD_ESCAPE ? "an unknown escape in a string" : "a string does not end");
    }
    rp_arena_give_back(reader->arena, target + size);
    *text = (rp_slice){target, (uint32_t)size};
    return RP_OK;
}

/* The cursor is at the opening quote. */
static inline int read_string(struct reader *reader, rp_slice *text) {
    const uint8_t *content = reader->cursor + 1;
    const uint8_t *special = rp_json_plain_end(content, reader->end);
    reader->cursor = special;
    if (special == reader->end) {
        return refuse(reader, "a string does not end");
    }
    if (*special == '\\') {
        return read_escaped_string(reader, content, text);
    }
    *text = (rp_slice){content, (uint32_t)(special - content)};
    reader->cursor = special + 1;
    return RP_OK;
}

static inline bool is_scalar_byte(uint8_t byte) {
    return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') || byte == '-' || byte == '+' || byte == '.';
}

/* Reads a number, true, false or null as its text; data NULL for null. */
static int read_scalar(struct reader *reader, rp_slice *text) {
    const uint8_t *start = reader->cursor;
    const uint8_t *cursor = start;
    while (cursor < reader->end && is_scalar_byte(*cursor)) {
        cursor++;
    }
    rp_slice scalar = {start, (uint32_t)(cursor - start)};
    bool is_number = scalar.size > 0 && (*start == '-' || (*start >= '0' && *start <= '9'));
    if (rp_slice_is(scalar, "null")) {
        scalar = (rp_slice){NULL, 0};
    } else if (!is_number && !rp_slice_is(scalar, "true") && !rp_slice_is(scalar, "false")) {
        return refuse(reader, "neither a string, a number, true, false nor null");
    }
    reader->cursor = cursor;
    *text = scalar;
    return RP_OK;
}

/* Skips an object or array and returns its text. */
static int read_nested(struct reader *reader, rp_slice *text) {
    const uint8_t *start = reader->cursor;
    uint8_t closers[DEPTH_MAX];
    int depth = 0;
    rp_slice skipped;
    do {
        uint8_t byte = peek(reader);
        int status = RP_OK;
        if (byte == '"') {
            status = read_string(reader, &skipped);
        } else if (byte == '{' || byte == '[') {
            if (depth == DEPTH_MAX) {
                return refuse(reader, "nested too deep");
            }
            closers[depth++] = byte == '{' ? '}' : ']';
            reader->cursor++;
        } else if (byte == '}' || byte == ']') {
            if (byte != closers[depth - 1]) {
                return refuse(reader, "brackets do not match");
            }
            depth--;
            reader->cursor++;
        } else if (byte == ',' || byte == ':') {
            reader->cursor++;
        } else {
            status = read_scalar(reader, &skipped);
        }
        if (status != RP_OK) {
            return status;
        }
    } while (depth > 0);
    *text = (rp_slice){start, (uint32_t)(reader->cursor - start)};
    return RP_OK;
}

/* Reads any value as its text; data NULL for null. */
static inline int read_value(struct reader *reader, rp_slice *text) {
    uint8_t byte = peek(reader);
    if (byte == '"') {
        return read_string(reader, text);
    }
    return byte == '{' || byte == '[' ? read_nested(reader, text) : read_scalar(reader, text);
}

static int read_spaced_key(struct reader *reader, rp_slice *key) {
    if (peek(reader) != '"') {
        return refuse(reader, "a member's name is not a string");
    }
    int status = read_string(reader, key);
    if (status == RP_OK && peek(reader) != ':') {
        status = refuse(reader, "no ':' after a member's name");
    }
    reader->cursor += status == RP_OK;
    return status;
}

/* Reads `"key" :`, which must begin at the cursor. */
static inline int read_key(struct reader *reader, rp_slice *key) {
    const uint8_t *cursor = reader->cursor;
    const uint8_t *end = reader->end;
    if (cursor < end && *cursor == '"') {
        const uint8_t *key_end = rp_json_plain_end(cursor + 1, end);
        if (end - key_end >= 2 && key_end[0] == '"' && key_end[1] == ':') {
            *key = (rp_slice){cursor + 1, (uint32_t)(key_end - cursor - 1)};
            reader->cursor = key_end + 2;
            return RP_OK;
        }
    }
    return read_spaced_key(reader, key);
}

/* After a member: 1 if another follows, 0 at the object's end, otherwise a status. */
static inline int read_separator(struct reader *reader) {
    if (reader->cursor < reader->end && *reader->cursor == ',') {
        reader->cursor++;
        return 1;
    }
    uint8_t byte = peek(reader);
    if (byte != ',' && byte != '}') {
        return refuse(reader, "neither ',' nor '}' after a member");
    }
    reader->cursor++;
    return byte == ',';
}

/* The cursor is behind '{'. 1 if the object has a member; 0 if it is empty (the cursor is then behind it). */
static inline int object_has_member(struct reader *reader) {
    if (peek(reader) != '}') {
        return 1;
    }
    reader->cursor++;
    return 0;
}

/* Finds the quote (or escape) behind a key whose opening quote is at cursor. Hot headers have keys of one letter: guessing that costs
 * nothing, and lets the CPU continue with the value before the key is scanned. */
static inline const uint8_t *find_key_end(const uint8_t *cursor, const uint8_t *end) {
    if (end - cursor >= 4 && cursor[2] == '"' && cursor[3] == ':' && cursor[1] != '"' && cursor[1] != '\\') {
        return cursor + 2;
    }
    return rp_json_plain_end(cursor + 1, end);
}

/* Reads the common case, `"key":"value"` without space and escapes, as long as such members follow. The cursor is at the begin of a
 * member before and after. Returns the fields read; *done is set if the object has ended. */
static inline uint16_t read_plain_fields(struct reader *reader, rp_field *fields, uint32_t fields_max, bool *done) {
    const uint8_t *cursor = reader->cursor;
    const uint8_t *end = reader->end;
    uint16_t count = 0;
    while (count < fields_max && cursor < end && *cursor == '"') {
        const uint8_t *key_end = find_key_end(cursor, end);
        if (end - key_end < 5 || key_end[0] != '"' || key_end[1] != ':' || key_end[2] != '"') {
            break;
        }
        const uint8_t *value = key_end + 3;
        const uint8_t *value_end = rp_json_plain_end(value, end);
        if (end - value_end < 2 || value_end[0] != '"' || (value_end[1] != ',' && value_end[1] != '}')) {
            break;
        }
        fields[count].key = (rp_slice){cursor + 1, (uint32_t)(key_end - cursor - 1)};
        fields[count].value = (rp_slice){value, (uint32_t)(value_end - value)};
        count++;
        cursor = value_end + 2;
        if (value_end[1] == '}') {
            *done = true;
            break;
        }
    }
    reader->cursor = cursor;
    return count;
}

static int read_ext_fields(struct reader *reader, rp_command *command) {
    uint16_t count = 0;
    bool done = false;
    command->field_count = 0;
    if (peek(reader) != '{') {
        rp_slice text;
        int status = read_value(reader, &text);
        return status == RP_OK && text.data != NULL ? refuse(reader, "extFields is not an object") : status;
    }
    reader->cursor++;
    for (int more = object_has_member(reader); more != 0;) {
        count += read_plain_fields(reader, command->fields + count, (uint32_t)RP_COMMAND_FIELDS_MAX - count, &done);
        if (done) {
            break;
        }
        rp_field field;
        int status = read_key(reader, &field.key);
        if (status == RP_OK) {
            status = read_value(reader, &field.value);
        }
        if (status != RP_OK) {
            return status;
        }
        if (field.value.data != NULL) {
            if (count == RP_COMMAND_FIELDS_MAX) {
                return refuse(reader, "more extFields than a command may have");
            }
            command->fields[count++] = field;
        }
        more = read_separator(reader);
        if (more < 0) {
            return more;
        }
    }
    command->field_count = count;
    return RP_OK;
}

static inline int read_int(struct reader *reader, int32_t *value) {
    /* The common case: up to nine digits. */
    const uint8_t *digits = reader->cursor;
    const uint8_t *cursor = digits;
    int32_t sum = 0;
    while (cursor < reader->end && cursor - digits < 9 && *cursor >= '0' && *cursor <= '9') {
        sum = sum * 10 + (*cursor++ - '0');
    }
    if (cursor > digits && cursor < reader->end && (*cursor == ',' || *cursor == '}')) {
        reader->cursor = cursor;
        *value = sum;
        return RP_OK;
    }
    rp_slice text;
    int status = read_value(reader, &text);
    if (status != RP_OK || text.data == NULL) {
        return status;
    }
    return rp_slice_to_i32(text, value) == RP_OK ? RP_OK : refuse(reader, "a member is not a 32-bit integer");
}

static inline int read_language(struct reader *reader, uint8_t *language) {
    rp_slice text;
    int32_t number;
    int status = read_value(reader, &text);
    if (status == RP_OK && text.data != NULL) {
        bool is_number = rp_slice_to_i32(text, &number) == RP_OK;
        *language = !is_number ? rp_language_number(text) : number >= 0 && number < 255 ? (uint8_t)number : 255;
    }
    return status;
}

static inline int read_member(struct reader *reader, rp_slice key, rp_command *command) {
    switch (key.size) {
    case 4:
        if (memcmp(key.data, "code", 4) == 0) {
            return read_int(reader, &command->code);
        }
        if (memcmp(key.data, "flag", 4) == 0) {
            return read_int(reader, &command->flag);
        }
        break;
    case 6:
        if (memcmp(key.data, "opaque", 6) == 0) {
            return read_int(reader, &command->opaque);
        }
        if (memcmp(key.data, "remark", 6) == 0) {
            return read_value(reader, &command->remark);
        }
        break;
    case 7:
        if (memcmp(key.data, "version", 7) == 0) {
            return read_int(reader, &command->version);
        }
        break;
    case 8:
        if (memcmp(key.data, "language", 8) == 0) {
            return read_language(reader, &command->language);
        }
        break;
    case 9:
        if (memcmp(key.data, "extFields", 9) == 0) {
            return read_ext_fields(reader, command);
        }
        break;
    }
    rp_slice skipped;
    return read_value(reader, &skipped);
}

int rp_header_json_decode(const uint8_t *header, uint32_t size, rp_arena *arena, rp_command *command, rp_error *error) {
    struct reader reader = {header, header + size, header, arena, error};
    command->code = command->version = command->opaque = command->flag = 0;
    command->language = 0;
    command->field_count = 0;
    command->remark = (rp_slice){NULL, 0};
    if (peek(&reader) != '{') {
        return refuse(&reader, "does not begin with '{'");
    }
    reader.cursor++;
    for (int more = object_has_member(&reader); more != 0;) {
        rp_slice key;
        int status = read_key(&reader, &key);
        if (status == RP_OK) {
            status = read_member(&reader, key, command);
        }
        if (status != RP_OK) {
            return status;
        }
        more = read_separator(&reader);
        if (more < 0) {
            return more;
        }
    }
    peek(&reader);
    return reader.cursor == reader.end ? RP_OK : refuse(&reader, "bytes after its end");
}
