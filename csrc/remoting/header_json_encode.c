/* header_json_encode.c: writes a JSON header. RocketMQ: RemotingSerializable over fastjson 1, whose member order (alphabetical) is kept.
 *
 *   {"code":0,"extFields":{"k":"v"},"flag":1,"language":"JAVA","opaque":7,"remark":"…","serializeTypeCurrentRPC":"JSON","version":0}
 *
 * Absent members (no fields, no remark) are left out, as fastjson leaves out null. Strings are written as the UTF-8 they are.
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

static int has_room(struct writer *writer, size_t size) {
    if ((size_t)(writer->end - writer->cursor) < size) {
        writer->overflowed = 1;
        return 0;
    }
    return 1;
}

static void put_text(struct writer *writer, const char *text) {
    size_t size = strlen(text);
    if (has_room(writer, size)) {
        memcpy(writer->cursor, text, size);
        writer->cursor += size;
    }
}

static void put_escape(struct writer *writer, uint8_t byte) {
    static const char hex[] = "0123456789ABCDEF";
    static const char letters[0x20] = {[8] = 'b', [9] = 't', [10] = 'n', [12] = 'f', [13] = 'r'};
    if (!has_room(writer, ESCAPE_SIZE_MAX)) {
        return;
    }
    *writer->cursor++ = '\\';
    if (byte == '"' || byte == '\\') {
        *writer->cursor++ = byte;
    } else if (letters[byte] != 0) {
        *writer->cursor++ = (uint8_t)letters[byte];
    } else {
        memcpy(writer->cursor, "u00", 3);
        writer->cursor[3] = (uint8_t)hex[byte >> 4];
        writer->cursor[4] = (uint8_t)hex[byte & 15];
        writer->cursor += 5;
    }
}

static void put_string(struct writer *writer, rp_slice text) {
    const uint8_t *cursor = text.data;
    const uint8_t *end = text.size > 0 ? text.data + text.size : cursor;
    put_text(writer, "\"");
    while (cursor < end && !writer->overflowed) {
        const uint8_t *special = rp_json_unescaped_end(cursor, end);
        size_t size = (size_t)(special - cursor);
        if (!has_room(writer, size)) {
            return;
        }
        memcpy(writer->cursor, cursor, size);
        writer->cursor += size;
        cursor = special;
        if (cursor < end) {
            put_escape(writer, *cursor++);
        }
    }
    put_text(writer, "\"");
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
