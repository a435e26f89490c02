/* message_packer.h: rows of Arrow batches become the bodies of send requests: the writing half of the Spark sink.
 * RocketMQ: MessageDecoder.encodeMessages, MessageBatch (5.3.3 common/message/).
 *
 *   batch ──begin──► next: row by row into the open parcel of its queue, or of any queue ──► a parcel that is full ──► flush: the rest
 *
 * A parcel is the body of one send-batch request: ([4 size][4 0][4 0][4 flag][4 body size][body][2 properties size][properties])*.
 * A delayed message is a parcel of its own, since RocketMQ takes none in a batch. Rows of a message group go to the queue that the
 * group's hash code says, rows with a queueId to that queue, all others to any queue, which the caller picks when it sends.
 * Every row gets the property UNIQ_KEY: id_prefix and eight hex digits of its number.
 *
 * Threads  one owner.
 * Owns     its buffers, but those of parcels that were given out. Borrows the batch from begin until next has returned 0.
 * Bounds   a parcel holds rows_max rows or bytes_max bytes (one row alone may be larger); open parcels hold RP_PACKER_OPEN_BYTES_MAX
 *          together, then the largest goes out early; RP_PACKER_TOPICS_MAX topics; RP_PACKER_ROWS_MAX rows of all batches.
 */
#ifndef RP_ARROW_MESSAGE_PACKER_H
#define RP_ARROW_MESSAGE_PACKER_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/slice.h"
#include "arrow_abi.h"
#include "buffer_pool.h"

#define RP_PACKER_OPEN_BYTES_MAX 67108864u
#define RP_PACKER_TOPICS_MAX 1024
#define RP_PACKER_QUEUES_MAX 65536
#define RP_PACKER_ROWS_MAX 4294967296 /* the eight hex digits of an id tell so many apart */

typedef struct rp_message_packer rp_message_packer;

typedef struct rp_message_packer_options {
    const char *topic;     /* of every row; NULL: the column `topic` says */
    const char *id_prefix; /* 24 digits */
    uint32_t rows_max;     /* of a parcel; default 256 */
    uint32_t bytes_max;    /* of a parcel; default 1 MiB */
} rp_message_packer_options;

/* One request's content. Whoever has it releases it, in any thread; it may outlive the packer. */
typedef struct rp_message_parcel {
    int32_t topic;      /* as rp_message_packer_put_topic returned */
    int32_t queue;      /* which of the topic's queues; -1: any */
    int32_t rows;
    int32_t flag;       /* of the first row */
    int32_t is_ordered; /* it holds rows of message groups */
    int32_t is_delayed; /* it is one message that is to be sent alone */
    int64_t first_row, last_row;
    uint8_t *data;
    uint64_t size, capacity;
    rp_buffer_pool *pool; /* held: data goes back there */
} rp_message_parcel;

void rp_message_parcel_release(rp_message_parcel *parcel); /* empty afterwards */

void rp_message_packer_options_default(rp_message_packer_options *options);
int rp_message_packer_open(const rp_message_packer_options *options, rp_message_packer **packer, rp_error *error);
void rp_message_packer_close(rp_message_packer *packer);

/* Makes a topic's writable queues known. Its number, RP_E_INVALID without a queue or with too many, RP_E_BUSY past
 * RP_PACKER_TOPICS_MAX, RP_E_EXISTS, RP_E_NO_MEMORY. */
int rp_message_packer_put_topic(rp_message_packer *packer, rp_slice name, const int32_t *queue_ids, uint32_t queue_count);

/* The next rows. They are numbered on from the batch before. RP_OK; RP_E_INVALID: the batch has no such columns, or rows of the one
 * before are left; RP_E_TOO_LARGE: with it there are more than RP_PACKER_ROWS_MAX, and none of it is taken. */
int rp_message_packer_begin(rp_message_packer *packer, const struct ArrowSchema *schema, const struct ArrowArray *array, rp_error *error);

/* 1: a parcel is full; 0: every row is in a parcel; RP_E_NOT_FOUND with status 0 in error: put the wanted topic, then go on;
 * else RP_E_INVALID, RP_E_TOO_LARGE, RP_E_NOT_FOUND with the row in error, RP_E_NO_MEMORY. */
int rp_message_packer_next(rp_message_packer *packer, rp_message_parcel *parcel, rp_error *error);
/* The topic that next did not know; data NULL: there is none. */
rp_slice rp_message_packer_wanted_topic(const rp_message_packer *packer);

/* 1: one of the parcels that are open; 0: none is left. */
int rp_message_packer_flush(rp_message_packer *packer, rp_message_parcel *parcel);

#endif
