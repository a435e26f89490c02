/* record_check.h: checks and decodes the records of the log on a thread of its own, ahead of recovery's pass, so that the pass only
 * dispatches. Private to csrc/store.
 *
 *   disk ─ READ_AHEAD ─► page cache ─ one piece ─► decode + CRC ─► batch of records ─► the pass: dispatch
 *
 * It reports only how far everything is whole. At the first place that is not, it ends, and the pass examines that place itself.
 *
 * Threads  one of its own; open, take and close from the owner. Borrows the row, which must outlive it and keep its files meanwhile.
 * Bounds   RP_CHECK_BATCHES batches ahead of the pass, each of at most RP_CHECK_BATCH_RECORDS records.
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

/* A whole record, and its tags code, found while the record is in the checking thread's cache. */
typedef struct rp_checked_record {
    rp_message message; /* slices point into the mapped files */
    int64_t tags_code;
} rp_checked_record;

typedef struct rp_record_check_setup {
    const rp_file_ops *ops;
    rp_mapped_file_queue *row;
    const rp_dispatcher *dispatcher; /* computes the tags codes */
    int64_t start;
    int32_t check_crc; /* rp_check_crc */
    int32_t read_only; /* 1: the files may belong to another user */
    int32_t has_entries; /* as in rp_log_cursor, with the entry before start */
    int64_t last_index, last_term;
} rp_record_check_setup;

/* RP_OK, RP_E_NO_MEMORY, RP_E_BUSY (no thread). */
int rp_record_check_open(const rp_record_check_setup *setup, rp_record_check **check, rp_error *error);
/* Returns the next records in the order of the log, *count of them, valid until the next call. Waits for them. *count 0: there are no
 * more; everything up to *checked is whole (padding included), what lies there is not. RP_OK; RP_E_IO if the disk cannot read the bytes:
 * error names the place. */
int rp_record_check_take(rp_record_check *check, const rp_checked_record **records, uint32_t *count, int64_t *checked, rp_error *error);
/* After the last records: the last entry, for a log with entries. */
void rp_record_check_last(const rp_record_check *check, int64_t *last_index, int64_t *last_term);
/* Ends the check, also before it is complete. NULL is allowed. */
void rp_record_check_close(rp_record_check *check);

#endif
