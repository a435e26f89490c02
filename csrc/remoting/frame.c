/* frame.c: finds where a frame begins and ends, and converts between its bytes and a command.
 * RocketMQ: NettyDecoder, RemotingCommand.decode and encode.
 *
 *   0  size of the rest (4)    4  serialize type (1)    5  header size (3)    8  header    8 + header size  body
 *
 * Valid: 4 + header size <= size <= frame_max - 4. Everything a peer may send is checked here or in the header's codec; nothing
 * allocates.
 */
#include "header.h"

#include <string.h>

#include "../base/bytes_inl.h"
#include "header_form.h"

#define PREFIX_SIZE 8u
#define HEADER_SIZE_MAX 0xFFFFFFu

/* Indexed by the serialize type byte of the frame. */
static const rp_header_codec codecs[] = {
    [RP_SERIALIZE_JSON] = {rp_header_json_decode, rp_header_json_size_max, rp_header_json_encode},
    [RP_SERIALIZE_ROCKETMQ] = {rp_header_binary_decode, rp_header_binary_size_max, rp_header_binary_encode},
};
#define CODEC_COUNT (sizeof codecs / sizeof codecs[0])

int rp_frame_scan(const uint8_t *data, size_t size, uint32_t frame_max, uint32_t *frame_size) {
    *frame_size = 0;
    if (size < 4) {
        return 0;
    }
    uint32_t rest = rp_get_u32(data);
    if (rest < 4) {
        return RP_E_PROTOCOL;
    }
    if (rest > frame_max || rest > UINT32_MAX - 4 || rest + 4 > frame_max) {
        return RP_E_TOO_LARGE;
    }
    *frame_size = rest + 4;
    if (size < PREFIX_SIZE) {
        return 0;
    }
    if ((rp_get_u32(data + 4) & HEADER_SIZE_MAX) > rest - 4) {
        return RP_E_PROTOCOL;
    }
    return size >= *frame_size;
}

static int decode_header(rp_header_forms *forms, const uint8_t *header, uint32_t size, rp_arena *arena, rp_command *command,
                         rp_error *error) {
    if (forms == NULL || command->serialize_type != RP_SERIALIZE_JSON) {
        return codecs[command->serialize_type].decode(header, size, arena, command, error);
    }
    if (rp_header_forms_read(forms, header, size, arena, command)) {
        return RP_OK;
    }
    int status = rp_header_json_decode(header, size, arena, command, error);
    if (status == RP_OK) {
        rp_header_forms_learn(forms, header, size, command);
    }
    return status;
}

int rp_command_decode(const uint8_t *frame, uint32_t size, rp_arena *arena, rp_command *command, rp_error *error) {
    return rp_command_decode_formed(NULL, frame, size, arena, command, error);
}

int rp_command_decode_formed(rp_header_forms *forms, const uint8_t *frame, uint32_t size, rp_arena *arena, rp_command *command,
                             rp_error *error) {
    if (size < PREFIX_SIZE || rp_get_u32(frame) != size - 4) {
        return rp_error_set(error, RP_E_PROTOCOL, 0, NULL, 0, "%u bytes are not one frame", size);
    }
    uint8_t serialize_type = frame[4];
    uint32_t header_size = rp_get_u32(frame + 4) & HEADER_SIZE_MAX;
    if (header_size > size - PREFIX_SIZE) {
        return rp_error_set(error, RP_E_PROTOCOL, 0, NULL, 4, "header of %u bytes in a frame of %u", header_size, size);
    }
    if (serialize_type >= CODEC_COUNT) {
        return rp_error_set(error, RP_E_PROTOCOL, 0, NULL, 4, "serialize type %u is neither JSON (0) nor ROCKETMQ (1)", serialize_type);
    }
    command->serialize_type = serialize_type;
    int status = decode_header(forms, frame + PREFIX_SIZE, header_size, arena, command, error);
    if (status != RP_OK) {
        if (error != NULL) {
            error->offset += PREFIX_SIZE;
        }
        return status;
    }
    uint32_t body_size = size - PREFIX_SIZE - header_size;
    command->body = (rp_slice){body_size > 0 ? frame + PREFIX_SIZE + header_size : NULL, body_size};
    return RP_OK;
}

size_t rp_command_size_max(const rp_command *command) {
    if (command->serialize_type >= CODEC_COUNT) {
        return 0;
    }
    uint64_t size = PREFIX_SIZE + codecs[command->serialize_type].size_max(command) + command->body.size;
    return size <= INT32_MAX ? (size_t)size : 0;
}

int64_t rp_command_encode(const rp_command *command, uint8_t *target, size_t target_size) {
    if (command->serialize_type >= CODEC_COUNT) {
        return RP_E_INVALID;
    }
    if (target_size < PREFIX_SIZE) {
        return RP_E_TOO_LARGE;
    }
    int64_t header_size = codecs[command->serialize_type].encode(command, target + PREFIX_SIZE, target_size - PREFIX_SIZE);
    if (header_size < 0) {
        return header_size;
    }
    uint64_t frame_size = PREFIX_SIZE + (uint64_t)header_size + command->body.size;
    if (header_size > (int64_t)HEADER_SIZE_MAX || frame_size > INT32_MAX) {
        return RP_E_TOO_LARGE;
    }
    int64_t written = (int64_t)PREFIX_SIZE + header_size;
    if (command->body.data != NULL && command->body.size > 0) {
        if (frame_size > target_size) {
            return RP_E_TOO_LARGE;
        }
        memcpy(target + written, command->body.data, command->body.size);
        written += command->body.size;
    }
    rp_put_u32(target, (uint32_t)frame_size - 4);
    rp_put_u32(target + 4, (uint32_t)command->serialize_type << 24 | (uint32_t)header_size);
    return written;
}
