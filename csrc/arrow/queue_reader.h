/* queue_reader.h: reads a range of one queue from a broker into record batches: the pull client of the Spark source.
 * RocketMQ: DefaultLitePullConsumerImpl, PullAPIWrapper (5.3.3 client/), PullMessageProcessor's answers (broker/).
 *
 * Requests run ahead of decoding: the next one is sent before a response is turned into rows. While responses cover the same number of
 * offsets, up to `depth` requests are sent at guessed offsets. A wrong guess costs its response but never a row: only offsets at or
 * behind next_offset are taken, and a gap discards the guesses.
 *
 * Threads  one owner; rp_queue_reader_fill blocks for up to wait_ms.
 * Owns     the socket and its buffers.
 * Bounds   depth + 2 frames of at most 16 MB; everything received is checked before it is used.
 */
#ifndef RP_ARROW_QUEUE_READER_H
#define RP_ARROW_QUEUE_READER_H

#include <stdint.h>

#include "../base/error.h"
#include "record_batch.h"

typedef struct rp_queue_reader rp_queue_reader;

#define RP_QUEUE_READER_DEPTH_MAX 16

typedef struct rp_queue_reader_options {
    const char *consumer_group;
    const char *topic;
    const char *subscription;   /* a tag expression; NULL or "*": everything */
    int32_t is_sql;             /* 1: it is a SQL92 expression, which the broker must have enabled */
    int32_t queue_id;
    int64_t begin_offset;
    int64_t end_offset;         /* exclusive; the caller knows that the queue has reached it */
    uint32_t pull_batch;        /* messages per request, default 1,024; a broker may answer with fewer */
    uint32_t depth;             /* requests under way, default 8, at most RP_QUEUE_READER_DEPTH_MAX */
    int32_t fail_on_data_loss;  /* 1: offsets that are gone are an error; 0: they are counted and skipped */
    int32_t check_crc;          /* 1: the CRC of each body is verified */
    uint32_t patience_ms;       /* how long to keep asking for what the broker does not have yet, default 30,000; then RP_E_RANGE */
} rp_queue_reader_options;

typedef struct rp_queue_reader_progress {
    int64_t next_offset;   /* everything before it has been put into batches, filtered out or lost */
    int64_t lost_offsets;  /* skipped because the broker no longer has them */
    uint64_t bytes_received;
    uint64_t responses;
    uint64_t wasted_responses; /* guesses that were wrong */
    int32_t is_behind; /* RP_E_RANGE was for offsets that are not there yet: another replica may have them */
} rp_queue_reader_progress;

void rp_queue_reader_options_default(rp_queue_reader_options *options);

/* fd: a connected stream socket, which belongs to the reader from now on, even if this fails. RP_OK, RP_E_INVALID, RP_E_NO_MEMORY. */
int rp_queue_reader_open(int fd, const rp_queue_reader_options *options, rp_queue_reader **reader, rp_error *error);
void rp_queue_reader_close(rp_queue_reader *reader);

/* Fills the batch. Returns 1: the range is done; 0: the batch is full, export it and call again; RP_E_TIMEOUT: nothing arrived in
 * wait_ms, call again; RP_E_RANGE: offsets of the range are gone (fail_on_data_loss), or did not appear in patience_ms; RP_E_NETWORK:
 * the connection is lost; RP_E_PROTOCOL, RP_E_CORRUPT: the answer is malformed; RP_E_NOT_FOUND: the broker refused (its remark is in
 * error); RP_E_BUSY: it refuses for now. After any error but RP_E_TIMEOUT the reader can only be closed; earlier rows are in the batch. */
int rp_queue_reader_fill(rp_queue_reader *reader, rp_record_batch *batch, uint32_t wait_ms, rp_error *error);
void rp_queue_reader_read_progress(const rp_queue_reader *reader, rp_queue_reader_progress *progress);

#endif
