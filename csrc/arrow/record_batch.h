/* record_batch.h: collects commit log records in one Arrow record batch: the rows that Spark reads.
 *
 * Columns  one table (record_columns.c): the nine of the rocketmq-spark connector in its order, then ours. Only those in the mask are
 *          built.
 * Threads  one owner.
 * Owns     its buffers, which come from a pool; rp_record_batch_export moves them out and leaves an empty batch ready for the next rows.
 * Bounds   rows_max rows, or records of bytes_max bytes together, whichever comes first: then put returns RP_E_BUSY and changes nothing.
 */
#ifndef RP_ARROW_RECORD_BATCH_H
#define RP_ARROW_RECORD_BATCH_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/slice.h"
#include "../store/message.h"
#include "arrow_abi.h"
#include "buffer_pool.h"

/* Bit i of a mask is column i. Order and names are documented for users: docs/spark.md. */
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
    RP_RECORD_VALID = 20, /* store files only: whether the record passed every check */
    RP_RECORD_DAMAGE = 21 /* store files only: what is wrong with it, null if nothing is */
};
#define RP_RECORD_COLUMN_COUNT 22

typedef struct rp_record_batch rp_record_batch;

typedef struct rp_record_batch_options {
    uint32_t column_mask;
    const char *broker_name;     /* copied */
    int32_t properties_as_map;   /* 0: properties is a JSON text; 1: map<string,string> */
    uint32_t rows_max;           /* default 10,000 */
    uint64_t bytes_max;          /* of records, default 16 MiB */
} rp_record_batch_options;

void rp_record_batch_options_default(rp_record_batch_options *options);
/* pool: held by the batch and by what it exports; NULL: it creates its own. RP_OK, RP_E_INVALID, RP_E_NO_MEMORY. */
int rp_record_batch_create(const rp_record_batch_options *options, rp_buffer_pool *pool, rp_record_batch **batch, rp_error *error);
void rp_record_batch_destroy(rp_record_batch *batch);

/* Appends one decoded record. What its slices point at must stay until rp_record_batch_settle or an export. RP_OK; RP_E_BUSY: full,
 * export first; RP_E_TOO_LARGE: a column would exceed 2 GiB; RP_E_NO_MEMORY. After the last two the batch can only be destroyed. */
int rp_record_batch_put(rp_record_batch *batch, const rp_message *message);

/* Returns what RP_E_TOO_LARGE or RP_E_NO_MEMORY of a put means, and what to do. Static storage. */
const char *rp_record_batch_cause(int status);

/* Copies what earlier puts point at. Returns as rp_record_batch_put, but never RP_E_BUSY. */
int rp_record_batch_settle(rp_record_batch *batch);

/* Appends a row for bytes that are not a record: commitLogOffset, valid (false) and damage are set, all other columns are null. Returns
 * as rp_record_batch_put. */
int rp_record_batch_put_damage(rp_record_batch *batch, int64_t commit_log_offset, const char *damage);

/* Decodes records that lie one after the other (the body of a pull response, a piece of a commit log file) and appends those with queue
 * offsets from first_queue_offset to last_queue_offset, inclusive; INT64_MIN and INT64_MAX take all. Returns the bytes consumed: `size`,
 * or fewer, up to a record's start, if the batch is full or the rest is incomplete. RP_E_CORRUPT with the place of the bad record in
 * error; records before it were appended. */
int64_t rp_record_batch_put_records(rp_record_batch *batch, const uint8_t *data, uint64_t size, int check_crc, int64_t first_queue_offset,
                                    int64_t last_queue_offset, rp_error *error);

int64_t rp_record_batch_rows(const rp_record_batch *batch);
int rp_record_batch_is_full(const rp_record_batch *batch);
/* Returns the sysFlags of all rows since the last export, ORed: a bit that is clear here is clear in every row. */
int32_t rp_record_batch_sys_flags(const rp_record_batch *batch);
/* Returns the queue offset of the last appended row; -1: no row since the last export. */
int64_t rp_record_batch_last_queue_offset(const rp_record_batch *batch);

/* Fills both structs (Arrow C data interface; the receiver calls release). RP_OK, or as rp_record_batch_settle: then neither is filled,
 * and the batch can only be destroyed. */
int rp_record_batch_export(rp_record_batch *batch, struct ArrowArray *array, struct ArrowSchema *schema);

#endif
