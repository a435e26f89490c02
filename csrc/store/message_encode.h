/* message_encode.h: writes one commit log record; the body is copied once, and its CRC computed in that pass.
 * RocketMQ: MessageExtEncoder, CommitLog.DefaultAppendMessageCallback (5.3.3 store/).
 *
 * Threads  pure, except for the target bytes, which must belong to the caller (the commit log's append lock).
 */
#ifndef RP_STORE_MESSAGE_ENCODE_H
#define RP_STORE_MESSAGE_ENCODE_H

#include <stdint.h>

#include "../base/slice.h"
#include "message.h"

#define RP_ENCODE_PROPERTY_PARTS 3

/* The content of a record; the caller sets every field. */
typedef struct rp_encode_source {
    int32_t queue_id;
    int32_t flag;
    int32_t sys_flag; /* its two V6 bits say how long the hosts are */
    int32_t reconsume_times;
    int64_t born_timestamp_ms;
    int64_t store_timestamp_ms;
    int64_t queue_offset;
    int64_t physical_offset;
    int64_t prepared_transaction_offset;
    const uint8_t *born_host;
    const uint8_t *store_host;
    rp_slice topic;
    rp_slice body;
    rp_slice properties[RP_ENCODE_PROPERTY_PARTS];
    int32_t append_crc; /* 1: end the properties in __CRC32# over the whole record; one that is there already is left out */
} rp_encode_source;

/* 1 if a property added behind the existing ones needs no separator before it. */
int rp_encode_properties_are_closed(const rp_encode_source *source);

/* Returns the size of the record; RP_E_TOO_LARGE if topic or properties exceed the format, or the whole exceeds INT32_MAX. */
int64_t rp_message_encoded_size(const rp_encode_source *source);

/* Writes `size` (from rp_message_encoded_size) bytes at target. The first eight, size and magic, are written last: until then readers,
 * and a recovery after a kill, see the end of the log there. */
void rp_message_encode(const rp_encode_source *source, uint8_t *target, uint32_t size);

/* Writes the first eight bytes of the padding record that ends a file. */
void rp_message_encode_blank(uint8_t *target, uint32_t size);

#endif
