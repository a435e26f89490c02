/* message_encode.h: writes one commit log record, the body copied once with its CRC in that pass.
 * RocketMQ: MessageExtEncoder, CommitLog.DefaultAppendMessageCallback (5.3.3 store/).
 *
 * Threads  pure but for the target bytes, which must belong to the caller (the commit log's append lock).
 */
#ifndef RP_STORE_MESSAGE_ENCODE_H
#define RP_STORE_MESSAGE_ENCODE_H

#include <stdint.h>

#include "../base/slice.h"
#include "message.h"

#define RP_ENCODE_PROPERTY_PARTS 3

/* What goes into a record; the caller sets every field. */
typedef struct rp_encode_source {
    int32_t queue_id;
    int32_t flag;
    int32_t sys_flag; /* both V6 bits say how long the hosts are */
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
    int32_t append_crc; /* end the properties in __CRC32# over the whole record; one that is there already is left out */
} rp_encode_source;

/* 1: a property behind those that are there needs no separator before it. */
int rp_encode_properties_are_closed(const rp_encode_source *source);

/* Bytes the record will take; RP_E_TOO_LARGE when topic or properties exceed the format, or the whole exceeds INT32_MAX. */
int64_t rp_message_encoded_size(const rp_encode_source *source);

/* Writes `size` (from rp_message_encoded_size) bytes at target. The first eight, size and magic, are written last: until then a
 * reader or a recovery after the process was killed sees the end of the log there. */
void rp_message_encode(const rp_encode_source *source, uint8_t *target, uint32_t size);

/* Writes the padding record that ends a file; only the first eight bytes of it. */
void rp_message_encode_blank(uint8_t *target, uint32_t size);

#endif
