/* protobuf.h: protobuf's wire format, field by field: as much of it as messages of MessagingService need.
 * RocketMQ: apache.rocketmq.v2 (apache/rocketmq-apis), whose classes are generated.
 *
 * A message is fields, in any order: [key: number << 3 | wire type][value]. A varint is little-endian, seven bits a byte.
 *
 * Threads  pure functions. Slices point into what is read.
 * Bounds   nothing is allocated, and nothing is read past the message; groups, which proto3 does not have, are refused.
 */
#ifndef RP_PROXY_PROTOBUF_H
#define RP_PROXY_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>

#include "../base/error.h"
#include "../base/slice.h"

enum rp_wire_type { RP_WIRE_VARINT = 0, RP_WIRE_FIXED64 = 1, RP_WIRE_BYTES = 2, RP_WIRE_FIXED32 = 5 };

#define RP_VARINT_SIZE_MAX 10

typedef struct rp_protobuf_field {
    uint32_t number;
    uint32_t wire_type; /* rp_wire_type */
    uint64_t value;     /* of a varint; 0 for the others, of which those of fixed size are skipped */
    rp_slice bytes;     /* of RP_WIRE_BYTES */
} rp_protobuf_field;

/* Takes the next field off the front of *message. 1; 0: there is none left; RP_E_PROTOCOL: cut off, a varint of more than ten bytes or
 * past 64 bits, a key of more than five, the number 0, a group, or a size that the message does not hold. */
int rp_protobuf_next(rp_slice *message, rp_protobuf_field *field);
/* Whether text is UTF-8, which a string has to be. */
int rp_protobuf_is_text(rp_slice text);
/* 1: a Duration that is not below 0, in whole milliseconds; 0: another one, or none. */
int rp_protobuf_read_duration(rp_slice duration, int64_t *ms);

/* What follows writes at `target`, where there has to be room, and returns the place behind it. Fields of their default, 0 and the empty
 * string, are left out, as protobuf does. */
uint8_t *rp_protobuf_put_varint(uint8_t *target, uint64_t value);
uint8_t *rp_protobuf_put_number(uint8_t *target, uint32_t number, int64_t value);
uint8_t *rp_protobuf_put_bytes(uint8_t *target, uint32_t number, rp_slice bytes);
/* The key and size of a message that the caller writes behind them, which is there even when it is empty. */
uint8_t *rp_protobuf_put_head(uint8_t *target, uint32_t number, uint32_t size);
/* Sizes of what the functions above write. */
uint32_t rp_protobuf_number_size(uint32_t number, int64_t value);
uint32_t rp_protobuf_bytes_size(uint32_t number, uint32_t size);
uint32_t rp_protobuf_head_size(uint32_t number, uint32_t size);

#endif
