/* record_check.h: goes ahead of recovery's pass over the log on a thread of its own: brings pages in, checks and decodes every record, so
 * that the pass only dispatches. Private to csrc/store.
 *
 *   disk ─ READ_AHEAD ─► page cache ─ one piece ─► decode + CRC ─► batch of records ─► the pass: dispatch
 *
 * It says only how far all is well. At the first place that is not, it ends, and the pass looks for itself.
 *
 * Threads  one of its own; open, take and close from the owner. Borrows the row, which must outlive it and keep its files meanwhile.
 * Bounds   RP_CHECK_BATCHES batches in front of the pass, each of at most RP_CHECK_BATCH_RECORDS records.
 */
#ifndef RP_STORE_RECORD_CHECK_H
#define RP_STORE_RECORD_CHECK_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"
#include "dispatcher.h"
#include "mapped_file_queue.h"
#include "message.h"

#define RP_CHECK_BATCHES 8
#define RP_CHECK_BATCH_RECORDS 1024

typedef struct rp_record_check rp_record_check;

/* A whole record, and what would have to be searched for in its bytes, which only the thread that checks them has at hand. */
typedef struct rp_checked_record {
    rp_message message; /* slices point into the mapped files */
    int64_t tags_code;
} rp_checked_record;

typedef struct rp_record_check_setup {
    const rp_file_ops *ops;
    rp_mapped_file_queue *row;
    const rp_dispatcher *dispatcher; /* knows the tags codes */
    int64_t start;
    int32_t check_crc; /* rp_check_crc */
    int32_t read_only; /* the files may be another user's */
    int32_t has_entries; /* as rp_log_cursor's, with the entry before start */
    int64_t last_index, last_term;
} rp_record_check_setup;

/* RP_OK, RP_E_NO_MEMORY, RP_E_BUSY (no thread). */
int rp_record_check_open(const rp_record_check_setup *setup, rp_record_check **check, rp_error *error);
/* The next records, in the order of the log: *count of them, good until the next call. With *count 0 there are no more: everything up
 * to *checked is whole (padding included), what lies there is not. Waits.
 * RP_OK; RP_E_IO when the disk does not give the bytes: error names the place. */
int rp_record_check_take(rp_record_check *check, const rp_checked_record **records, uint32_t *count, int64_t *checked, rp_error *error);
/* When there are no more: the last entry, of a log that has some. */
void rp_record_check_last(const rp_record_check *check, int64_t *last_index, int64_t *last_term);
/* Also before it has come to the end. NULL is allowed. */
void rp_record_check_close(rp_record_check *check);

#endif
