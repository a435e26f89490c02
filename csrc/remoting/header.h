/* header.h: the two encodings of a command's header, as a table that frame.c selects from. Internal to csrc/remoting.
 * RocketMQ: SerializeType with RemotingSerializable and RocketMQSerializable.
 *
 * Threads  pure functions.
 */
#ifndef RP_REMOTING_HEADER_H
#define RP_REMOTING_HEADER_H

#include "command.h"

typedef struct rp_header_codec {
    /* Fills every member of command but body and serialize_type from header[0..size). Offsets in error count from header's start. */
    int (*decode)(const uint8_t *header, uint32_t size, rp_arena *arena, rp_command *command, rp_error *error);
    /* Upper bound of what encode writes. */
    uint64_t (*size_max)(const rp_command *command);
    /* Writes the header; returns its size, or RP_E_TOO_LARGE, RP_E_INVALID. */
    int64_t (*encode)(const rp_command *command, uint8_t *target, size_t target_size);
} rp_header_codec;

int rp_header_json_decode(const uint8_t *header, uint32_t size, rp_arena *arena, rp_command *command, rp_error *error);
uint64_t rp_header_json_size_max(const rp_command *command);
int64_t rp_header_json_encode(const rp_command *command, uint8_t *target, size_t target_size);

int rp_header_binary_decode(const uint8_t *header, uint32_t size, rp_arena *arena, rp_command *command, rp_error *error);
uint64_t rp_header_binary_size_max(const rp_command *command);
int64_t rp_header_binary_encode(const rp_command *command, uint8_t *target, size_t target_size);

#endif
