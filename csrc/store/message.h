/* message.h: the commit log record: its layout, and how one is decoded (message_encode.h writes it).
 * RocketMQ: CommitLog.checkMessageAndReturnSize, MessageDecoder (5.3.3 store/, common/message/).
 *
 *  at size
 *   0  4  total size, this field included          36  4  sys flag
 *   4  4  magic: RP_MESSAGE_MAGIC_V1 or _V2        40  8  born timestamp, ms
 *   8  4  body CRC-32 & 0x7FFFFFFF                 48  8|20 born host: address, 4-byte port (20 when sys flag has BORN_V6)
 *  12  4  queue id                                  +  8  store timestamp, ms
 *  16  4  flag                                      +  8|20 store host (20 when STORE_V6)
 *  20  8  queue offset                              +  4  reconsume times;  8 prepared transaction offset
 *  28  8  physical offset                           +  4+n body;  1+n (V1) or 2+n (V2) topic;  2+n properties
 * A blank record (total size, RP_MESSAGE_MAGIC_BLANK, then anything) fills the rest of a file; it is at least 8 bytes.
 *
 * Threads  pure functions.
 */
#ifndef RP_STORE_MESSAGE_H
#define RP_STORE_MESSAGE_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/slice.h"

#define RP_MESSAGE_MAGIC_V1 0xDAA320A7u
#define RP_MESSAGE_MAGIC_V2 0xDAA320ABu
#define RP_MESSAGE_MAGIC_BLANK 0xCBD43194u
#define RP_MESSAGE_BLANK_SIZE_MIN 8

#define RP_SYSFLAG_COMPRESSED 0x1
#define RP_SYSFLAG_MULTI_TAGS 0x2
#define RP_SYSFLAG_TRANSACTION_MASK 0xC
#define RP_SYSFLAG_TRANSACTION_PREPARED 0x4
#define RP_SYSFLAG_TRANSACTION_COMMIT 0x8
#define RP_SYSFLAG_TRANSACTION_ROLLBACK 0xC
#define RP_SYSFLAG_BORN_V6 0x10
#define RP_SYSFLAG_STORE_V6 0x20
#define RP_SYSFLAG_HOSTS_MASK 0x30 /* both say how long the record's hosts are */
#define RP_SYSFLAG_NEED_UNWRAP 0x40 /* the body is a batch, which clients unpack if the next flag is set too */
#define RP_SYSFLAG_INNER_BATCH 0x80 /* the record of a batch queue (inner_batch.h) */
#define RP_SYSFLAG_BATCH_MASK (RP_SYSFLAG_NEED_UNWRAP | RP_SYSFLAG_INNER_BATCH)

#define RP_PROPERTIES_SIZE_MAX 32767 /* Short.MAX_VALUE, as stored */

/* A decoded record. Its slices point into the record's bytes. */
typedef struct rp_message {
    uint32_t size;
    uint32_t magic;
    uint32_t body_crc;
    int32_t queue_id;
    int32_t flag;
    int32_t sys_flag;
    int32_t reconsume_times;
    int64_t queue_offset;
    int64_t physical_offset;
    int64_t born_timestamp_ms;
    int64_t store_timestamp_ms;
    int64_t prepared_transaction_offset;
    rp_slice born_host;  /* 8 or 20 bytes */
    rp_slice store_host; /* 8 or 20 bytes */
    rp_slice body;
    rp_slice topic;
    rp_slice properties;
} rp_message;

enum rp_record_kind {
    RP_RECORD_MESSAGE = 1,
    RP_RECORD_BLANK = 2, /* the rest of the file is padding; message->size is its size */
    RP_RECORD_END = 0    /* size and magic are zero: nothing is written here */
};

/* Which CRCs rp_message_decode verifies. The CRC behind the properties (enabledAppendPropCRC) is verified only on request: a producer
 * may send a property that looks like one. */
enum rp_check_crc { RP_CHECK_NO_CRC = 0, RP_CHECK_BODY_CRC = 1, RP_CHECK_RECORD_CRC = 2 };

/* Decodes the record at data, of which `size` bytes may be read. check_crc is an rp_check_crc. Returns an rp_record_kind; RP_E_CORRUPT
 * with the cause in error if sizes disagree, the magic is unknown, or a CRC is wrong. */
int rp_message_decode(const uint8_t *data, uint64_t size, int check_crc, rp_message *message, rp_error *error);

/* Returns the value of a property (name\1value\2…), data NULL if it is absent. */
rp_slice rp_message_property(rp_slice properties, const char *name);

/* Returns the tags code for a consume queue entry: Java's hashCode of the TAGS property, 0 without one. */
int64_t rp_message_tags_code(rp_slice properties);

#endif
