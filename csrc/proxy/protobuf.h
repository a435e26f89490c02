/* protobuf.h: protobuf's wire format, field by field, as far as the messages of MessagingService need it.
 * RocketMQ: apache.rocketmq.v2 (apache/rocketmq-apis), whose classes are generated.
 *
 * A message is a sequence of fields in any order: [key: number << 3 | wire type][value]. A varint is little-endian, seven bits a byte.
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
    uint32_t wire_type; /* of rp_wire_type */
    uint64_t value;     /* of a varint; 0 for the others: values of fixed size are skipped */
    rp_slice bytes;     /* of RP_WIRE_BYTES */
} rp_protobuf_field;

/* Removes the next field from the front of *message. Returns 1; 0: none is left; RP_E_PROTOCOL: the field is cut off, its varint has
 * more than ten bytes or 64 bits, its key more than five bytes, its number is 0, it is a group, or its size is more than the message
 * holds. */
int rp_protobuf_next(rp_slice *message, rp_protobuf_field *field);
/* Whether text is UTF-8, as a string must be. */
int rp_protobuf_is_text(rp_slice text);
/* Returns 1 for a Duration of at least 0, in whole milliseconds; 0: it is negative, or malformed. */
int rp_protobuf_read_duration(rp_slice duration, int64_t *ms);

/* The functions below write at `target`, which must have room, and return the end of what they wrote. Fields with their default value, 0
 * or the empty string, are left out, as protobuf does. */
uint8_t *rp_protobuf_put_varint(uint8_t *target, uint64_t value);
uint8_t *rp_protobuf_put_number(uint8_t *target, uint32_t number, int64_t value);
uint8_t *rp_protobuf_put_bytes(uint8_t *target, uint32_t number, rp_slice bytes);
/* Writes key and size of a nested message, which the caller writes behind them. Written even if the message is empty. */
uint8_t *rp_protobuf_put_head(uint8_t *target, uint32_t number, uint32_t size);
/* Sizes of what the functions above write. */
uint32_t rp_protobuf_number_size(uint32_t number, int64_t value);
uint32_t rp_protobuf_bytes_size(uint32_t number, uint32_t size);
uint32_t rp_protobuf_head_size(uint32_t number, uint32_t size);

#endif
