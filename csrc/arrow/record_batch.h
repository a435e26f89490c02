/* record_batch.h: commit log records as one Arrow record batch: the rows Spark reads.
 *
 * Columns  one table (record_columns.c): the nine of the rocketmq-spark connector in its order, then ours. A mask picks some; what
 *          is not asked for is not built.
 * Threads  one owner.
 * Owns     its buffers, which come from a pool; rp_record_batch_export moves them out and leaves an empty batch ready for the next rows.
 * Bounds   rows_max rows or records of bytes_max bytes together, whichever comes first: then put returns RP_E_BUSY and changes nothing.
 */
#ifndef RP_ARROW_RECORD_BATCH_H
#define RP_ARROW_RECORD_BATCH_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/slice.h"
#include "../store/message.h"
#include "arrow_abi.h"
#include "buffer_pool.h"

/* Bit i of a mask is column i. Order and names are part of the product: docs/spark.md. */
enum rp_record_column {
    RP_RECORD_TOPIC = 0,
    RP_RECORD_FLAG = 1,
    RP_RECORD_BODY = 2,
    RP_RECORD_PROPERTIES = 3,
    RP_RECORD_BROKER_NAME = 4,
    RP_RECORD_QUEUE_ID = 5,
    RP_RECORD_QUEUE_OFFSET = 6,
    RP_RECORD_BORN_TIMESTAMP = 7,
    RP_RECORD_STORE_TIMESTAMP = 8,
    RP_RECORD_TAGS = 9,
    RP_RECORD_KEYS = 10,
    RP_RECORD_MSG_ID = 11,
    RP_RECORD_OFFSET_MSG_ID = 12,
    RP_RECORD_BODY_CRC = 13,
    RP_RECORD_COMMIT_LOG_OFFSET = 14,
    RP_RECORD_SYS_FLAG = 15,
    RP_RECORD_RECONSUME_TIMES = 16,
    RP_RECORD_BORN_HOST = 17,
    RP_RECORD_STORE_HOST = 18,
    RP_RECORD_PREPARED_TRANSACTION_OFFSET = 19,
    RP_RECORD_VALID = 20, /* store files only: the record passed every check */
    RP_RECORD_DAMAGE = 21 /* store files only: what is wrong with it, null when nothing is */
};
#define RP_RECORD_COLUMN_COUNT 22

typedef struct rp_record_batch rp_record_batch;

typedef struct rp_record_batch_options {
    uint32_t column_mask;
    const char *broker_name;     /* copied */
    int32_t properties_as_map;   /* 0: properties is a JSON text, 1: map<string,string> */
    uint32_t rows_max;           /* default 10,000 */
    uint64_t bytes_max;          /* of records, default 16 MiB */
} rp_record_batch_options;

void rp_record_batch_options_default(rp_record_batch_options *options);
/* pool: held by the batch and by what it exports; NULL: one of its own. RP_OK, RP_E_INVALID, RP_E_NO_MEMORY. */
int rp_record_batch_create(const rp_record_batch_options *options, rp_buffer_pool *pool, rp_record_batch **batch, rp_error *error);
void rp_record_batch_destroy(rp_record_batch *batch);

/* Appends one decoded record. What its slices point at must stay until rp_record_batch_settle or an export.
 * RP_OK; RP_E_BUSY: full, export first; RP_E_TOO_LARGE: a column is past 2 GiB; RP_E_NO_MEMORY. After the last two the batch is of no
 * more use. */
int rp_record_batch_put(rp_record_batch *batch, const rp_message *message);

/* What RP_E_TOO_LARGE and RP_E_NO_MEMORY of a put mean, and what to do. Static storage. */
const char *rp_record_batch_cause(int status);

/* Copies what earlier puts point at. As rp_record_batch_put, but never RP_E_BUSY. */
int rp_record_batch_settle(rp_record_batch *batch);

/* Appends a row for bytes that are not a record: every column null but commitLogOffset, valid (false) and damage. As
 * rp_record_batch_put. */
int rp_record_batch_put_damage(rp_record_batch *batch, int64_t commit_log_offset, const char *damage);

/* Decodes records that lie one after the other (a pull response's body, a piece of a commit log file) and appends them.
 * Returns bytes consumed: all of size, or fewer when the batch is full or (at a record's start) the rest is incomplete.
 * first_queue_offset..last_queue_offset (inclusive) bounds what is taken, INT64_MIN..INT64_MAX for all.
 * RP_E_CORRUPT with the place of the bad record in error (records before it were appended). */
int64_t rp_record_batch_put_records(rp_record_batch *batch, const uint8_t *data, uint64_t size, int check_crc, int64_t first_queue_offset,
                                    int64_t last_queue_offset, rp_error *error);

int64_t rp_record_batch_rows(const rp_record_batch *batch);
int rp_record_batch_is_full(const rp_record_batch *batch);
/* The flags of all rows since the last export, or-ed: a bit that is not set here is set in no row. */
int32_t rp_record_batch_sys_flags(const rp_record_batch *batch);
/* The queue offset of the last appended row, -1 when empty since the last export. */
int64_t rp_record_batch_last_queue_offset(const rp_record_batch *batch);

/* Fills both structs (Arrow C data interface; the receiver calls release). RP_OK, or as rp_record_batch_settle: then neither is filled, and
 * the batch is of no more use. */
int rp_record_batch_export(rp_record_batch *batch, struct ArrowArray *array, struct ArrowSchema *schema);

#endif
