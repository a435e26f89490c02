/* header_binary.c: the ROCKETMQ encoding of a header. RocketMQ: RocketMQSerializable.
 *
 *   0 code (2, signed)   2 language (1)   3 version (2, signed)   5 opaque (4)   9 flag (4)   13 remark size (4)   remark
 *   fields size (4)   then, until the fields size is used up: key size (2)  key  value size (4)  value
 *
 * Sizes are signed in Java: a negative one is refused. A size of zero means null: no remark, no such field. Bytes of the header behind
 * the fields are skipped.
 */
#include "header.h"

#include <string.h>

#include "../base/bytes_inl.h"

#define FIXED_SIZE 17u /* up to and including the remark's size */
#define KEY_SIZE_MAX 0x7FFF

static int refuse(rp_error *error, uint64_t offset, const char *cause) {
    return rp_error_set(error, RP_E_PROTOCOL, 0, NULL, (int64_t)offset, "ROCKETMQ header: %s", cause);
}

static int decode_fields(const uint8_t *header, uint32_t offset, uint32_t end, rp_command *command, rp_error *error) {
    uint16_t count = 0;
    while (offset < end) {
        if (end - offset < 2) {
            return refuse(error, offset, "a field's key size is cut off");
        }
        uint32_t key_size = rp_get_u16(header + offset);
        offset += 2;
        if (key_size > KEY_SIZE_MAX || end - offset < 4 || key_size > end - offset - 4) {
            return refuse(error, offset, "a field's key is longer than the fields");
        }
        const uint8_t *key = header + offset;
        offset += key_size;
        uint32_t value_size = rp_get_u32(header + offset);
        offset += 4;
        if (value_size > end - offset) {
            return refuse(error, offset, "a field's value is longer than the fields");
        }
        if (key_size > 0 && value_size > 0) {
            if (count == RP_COMMAND_FIELDS_MAX) {
                return refuse(error, offset, "more fields than a command may have");
            }
            command->fields[count++] = (rp_field){{key, key_size}, {header + offset, value_size}};
        }
        offset += value_size;
    }
    command->field_count = count;
    return RP_OK;
}

int rp_header_binary_decode(const uint8_t *header, uint32_t size, rp_arena *arena, rp_command *command, rp_error *error) {
    (void)arena;
    if (size < FIXED_SIZE + 4) {
        return refuse(error, size, "shorter than its fixed part");
    }
    command->code = (int16_t)rp_get_u16(header);
    command->language = header[2];
    command->version = (int16_t)rp_get_u16(header + 3);
    command->opaque = (int32_t)rp_get_u32(header + 5);
    command->flag = (int32_t)rp_get_u32(header + 9);
    uint32_t remark_size = rp_get_u32(header + 13);
    if (remark_size > size - FIXED_SIZE - 4) {
        return refuse(error, 13, "the remark is longer than the header");
    }
    command->remark = (rp_slice){remark_size > 0 ? header + FIXED_SIZE : NULL, remark_size};
    uint32_t offset = FIXED_SIZE + remark_size;
    uint32_t fields_size = rp_get_u32(header + offset);
    offset += 4;
    if (fields_size > size - offset) {
        return refuse(error, offset - 4, "the fields are longer than the header");
    }
    return decode_fields(header, offset, offset + fields_size, command, error);
}

uint64_t rp_header_binary_size_max(const rp_command *command) {
    uint64_t size = FIXED_SIZE + 4 + (uint64_t)command->remark.size;
    for (uint32_t index = 0; index < command->field_count; index++) {
        size += 6 + (uint64_t)command->fields[index].key.size + command->fields[index].value.size;
    }
    return size;
}

static uint8_t *put_bytes(uint8_t *cursor, rp_slice slice) {
    if (slice.size > 0) {
        memcpy(cursor, slice.data, slice.size);
    }
    return cursor + slice.size;
}

int64_t rp_header_binary_encode(const rp_command *command, uint8_t *target, size_t target_size) {
    if (rp_header_binary_size_max(command) > target_size) {
        return RP_E_TOO_LARGE;
    }
    if (command->code != (int16_t)command->code || command->version != (int16_t)command->version) {
        return RP_E_INVALID;
    }
    rp_put_u16(target, (uint16_t)command->code);
    target[2] = command->language;
    rp_put_u16(target + 3, (uint16_t)command->version);
    rp_put_u32(target + 5, (uint32_t)command->opaque);
    rp_put_u32(target + 9, (uint32_t)command->flag);
    rp_put_u32(target + 13, command->remark.size);
    uint8_t *fields_size = put_bytes(target + FIXED_SIZE, command->remark);
    uint8_t *cursor = fields_size + 4;
    for (uint32_t index = 0; index < command->field_count; index++) {
        const rp_field *field = &command->fields[index];
        if (field->key.size > KEY_SIZE_MAX) {
            return RP_E_INVALID;
        }
        if (field->value.data == NULL) {
            continue;
        }
        rp_put_u16(cursor, (uint16_t)field->key.size);
        cursor = put_bytes(cursor + 2, field->key);
        rp_put_u32(cursor, field->value.size);
        cursor = put_bytes(cursor + 4, field->value);
    }
    rp_put_u32(fields_size, (uint32_t)(cursor - fields_size - 4));
    return cursor - target;
}
