/* message_packer.h: turns rows of Arrow batches into the bodies of send requests: the writing half of the Spark sink.
 * RocketMQ: MessageDecoder.encodeMessages, MessageBatch (5.3.3 common/message/).
 *
 *   batch ──begin──► next: row by row into the open parcel of its queue, or of any queue ──► a parcel that is full ──► flush: the rest
 *
 * A parcel is the body of one send-batch request: ([4 size][4 0][4 0][4 flag][4 body size][body][2 properties size][properties])*.
 * A delayed message is a parcel of its own, since RocketMQ takes none in a batch. A row with a message group goes to the queue given by the
 * group's hash code, a row with a queueId to that queue, any other to any queue, which the caller picks when it sends.
 * Every row gets the property UNIQ_KEY: id_prefix and its row number in eight hex digits.
 *
 * Threads  one owner.
 * Owns     its buffers, except those of parcels that were given out. Borrows the batch from begin until next has returned 0.
 * Bounds   a parcel holds rows_max rows or bytes_max bytes (a single row may be larger); open parcels hold RP_PACKER_OPEN_BYTES_MAX
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
#define RP_PACKER_ROWS_MAX 4294967296 /* as many ids as eight hex digits can number */

typedef struct rp_message_packer rp_message_packer;

typedef struct rp_message_packer_options {
    const char *topic;     /* of every row; NULL: the column `topic` says */
    const char *id_prefix; /* 24 digits */
    uint32_t rows_max;     /* of a parcel; default 256 */
    uint32_t bytes_max;    /* of a parcel; default 1 MiB */
} rp_message_packer_options;

/* One request's content. Its receiver releases it, on any thread; it may outlive the packer. */
typedef struct rp_message_parcel {
    int32_t topic;      /* as rp_message_packer_put_topic returned */
    int32_t queue;      /* index of the topic's queue; -1: any */
    int32_t rows;
    int32_t flag;       /* of the first row */
    int32_t is_ordered; /* it holds rows with message groups */
    int32_t is_delayed; /* it is a single message that must be sent alone */
    int64_t first_row, last_row;
    uint8_t *data;
    uint64_t size, capacity;
    rp_buffer_pool *pool; /* held: data is given back to it */
} rp_message_parcel;

void rp_message_parcel_release(rp_message_parcel *parcel); /* empty afterwards */

void rp_message_packer_options_default(rp_message_packer_options *options);
int rp_message_packer_open(const rp_message_packer_options *options, rp_message_packer **packer, rp_error *error);
void rp_message_packer_close(rp_message_packer *packer);

/* Adds a topic with its writable queues. Returns the topic's number; RP_E_INVALID: no queue or too many; RP_E_BUSY: RP_PACKER_TOPICS_MAX
 * is reached; RP_E_EXISTS; RP_E_NO_MEMORY. */
int rp_message_packer_put_topic(rp_message_packer *packer, rp_slice name, const int32_t *queue_ids, uint32_t queue_count);

/* Takes the next rows, whose numbers continue those of the batch before. RP_OK; RP_E_INVALID: the batch does not have the columns, or
 * rows of the one before are left; RP_E_TOO_LARGE: there would be more than RP_PACKER_ROWS_MAX, and no row is taken. */
int rp_message_packer_begin(rp_message_packer *packer, const struct ArrowSchema *schema, const struct ArrowArray *array, rp_error *error);

/* Returns 1: *parcel is full; 0: every row is in a parcel; RP_E_NOT_FOUND with status 0 in error: put the wanted topic, then call again;
 * otherwise RP_E_INVALID, RP_E_TOO_LARGE, RP_E_NOT_FOUND, each with the row in error, or RP_E_NO_MEMORY. */
int rp_message_packer_next(rp_message_packer *packer, rp_message_parcel *parcel, rp_error *error);
/* Returns the topic that next did not know; data NULL: none. */
rp_slice rp_message_packer_wanted_topic(const rp_message_packer *packer);

/* Returns 1: *parcel is one of the open parcels; 0: none is left. */
int rp_message_packer_flush(rp_message_packer *packer, rp_message_parcel *parcel);

#endif
