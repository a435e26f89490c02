/* header_json_encode.c: writes a JSON header. RocketMQ: RemotingSerializable over fastjson 1, whose alphabetical member order is kept.
 *
 *   {"code":0,"extFields":{"k":"v"},"flag":1,"language":"JAVA","opaque":7,"remark":"…","serializeTypeCurrentRPC":"JSON","version":0}
 *
 * Absent members (no fields, no remark) are left out, as fastjson leaves out null. Strings are written as UTF-8, unchanged.
 */
#include "header.h"

#include <string.h>

#include "json_text_inl.h"

#define MEMBERS_SIZE_MAX 256 /* all names, punctuation and numbers of the header itself */
#define ESCAPE_SIZE_MAX 6    /* "\u001f" */

struct writer {
    uint8_t *cursor;
    uint8_t *end;
    int overflowed;
};

static inline int has_room(struct writer *writer, uint64_t size) {
    if ((uint64_t)(writer->end - writer->cursor) < size) {
        writer->overflowed = 1;
        return 0;
    }
    return 1;
}

static inline void put_text(struct writer *writer, const char *text) {
    size_t size = strlen(text);
    if (has_room(writer, size)) {
        memcpy(writer->cursor, text, size);
        writer->cursor += size;
    }
}

/* Writes the escape of byte into target, which has room for ESCAPE_SIZE_MAX; returns its end. */
static uint8_t *put_escape(uint8_t *target, uint8_t byte) {
    static const char hex[] = "0123456789ABCDEF";
    static const char letters[0x20] = {[8] = 'b', [9] = 't', [10] = 'n', [12] = 'f', [13] = 'r'};
    *target++ = '\\';
    if (byte == '"' || byte == '\\') {
        *target++ = byte;
    } else if (letters[byte] != 0) {
        *target++ = (uint8_t)letters[byte];
    } else {
        memcpy(target, "u00", 3);
        target[3] = (uint8_t)hex[byte >> 4];
        target[4] = (uint8_t)hex[byte & 15];
        target += 5;
    }
    return target;
}

/* target has room for every byte of text escaped. */
static uint8_t *put_content(uint8_t *target, const uint8_t *cursor, const uint8_t *end) {
    while (cursor < end) {
        const uint8_t *special = rp_json_copy_unescaped(target, cursor, end);
        target += special - cursor;
        cursor = special;
        if (cursor < end) {
            target = put_escape(target, *cursor++);
        }
    }
    return target;
}

/* The size of text when escaped. */
static uint64_t measure_content(rp_slice text) {
    uint8_t escape[ESCAPE_SIZE_MAX];
    uint64_t size = text.size;
    for (uint32_t index = 0; index < text.size; index++) {
        uint8_t byte = text.data[index];
        if (byte == '"' || byte == '\\' || byte < 0x20) {
            size += (uint64_t)(put_escape(escape, byte) - escape) - 1;
        }
    }
    return size;
}

static void put_string(struct writer *writer, rp_slice text) {
    /* Near the target's end the exact size is computed; elsewhere the bound is enough. */
    uint64_t room = (uint64_t)(writer->end - writer->cursor);
    if (room < (uint64_t)text.size * ESCAPE_SIZE_MAX + 2 && !has_room(writer, measure_content(text) + 2)) {
        return;
    }
    uint8_t *cursor = writer->cursor;
    *cursor++ = '"';
    if (text.size > 0) {
        cursor = put_content(cursor, text.data, text.data + text.size);
    }
    *cursor++ = '"';
    writer->cursor = cursor;
}

static void put_int(struct writer *writer, int32_t value) {
    char digits[12];
    int count = 0;
    uint32_t rest = value < 0 ? 0u - (uint32_t)value : (uint32_t)value;
    do {
        digits[count++] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0) {
        digits[count++] = '-';
    }
    if (has_room(writer, (size_t)count)) {
        while (count > 0) {
            *writer->cursor++ = (uint8_t)digits[--count];
        }
    }
}

static void put_ext_fields(struct writer *writer, const rp_command *command) {
    const char *separator = "\"extFields\":{";
    for (uint32_t index = 0; index < command->field_count; index++) {
        const rp_field *field = &command->fields[index];
        if (field->value.data != NULL) {
            put_text(writer, separator);
            put_string(writer, field->key);
            put_text(writer, ":");
            put_string(writer, field->value);
            separator = ",";
        }
    }
    if (separator[0] == ',') {
        put_text(writer, "},");
    }
}

uint64_t rp_header_json_size_max(const rp_command *command) {
    uint64_t strings = command->remark.size;
    for (uint32_t index = 0; index < command->field_count; index++) {
        strings += (uint64_t)command->fields[index].key.size + command->fields[index].value.size + 1; /* 1 x 6: quotes, ':' and ',' */
    }
    return MEMBERS_SIZE_MAX + strings * ESCAPE_SIZE_MAX;
}

int64_t rp_header_json_encode(const rp_command *command, uint8_t *target, size_t target_size) {
    struct writer writer = {target, target + target_size, 0};
    put_text(&writer, "{\"code\":");
    put_int(&writer, command->code);
    put_text(&writer, ",");
    put_ext_fields(&writer, command);
    put_text(&writer, "\"flag\":");
    put_int(&writer, command->flag);
    put_text(&writer, ",\"language\":\"");
    put_text(&writer, rp_language_name(command->language));
    put_text(&writer, "\",\"opaque\":");
    put_int(&writer, command->opaque);
    if (command->remark.data != NULL) {
        put_text(&writer, ",\"remark\":");
        put_string(&writer, command->remark);
    }
    put_text(&writer, ",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
    put_int(&writer, command->version);
    put_text(&writer, "}");
    return writer.overflowed ? RP_E_TOO_LARGE : writer.cursor - target;
}
