/* log_staging.h: records of one batch on their way into the commit log's file by one write, as SYNC_FLUSH appends them. Private to
 * csrc/store.
 *
 *   encode ─► staged bytes ─ write_at ─► page cache ─► published (max offset, queue entries)
 *
 * Why      a store through the map leaves pages that each sync has to write-protect on every core (a TLB shoot-down) and that fault at
 *          the next store: 9 µs a page of 4 KB, 1 ms for a group of 300 KB of which the disk needs a quarter. Written bytes cost 0.4 µs a
 *          KB, and only the blocks that changed go to disk. Measured: docs/design-store.md.
 * Failure  what a failed write may have left behind is zeroed before the next one: an old record must not look like the log's next.
 *
 * Threads  under the append lock. Bounds: RP_STAGING_BYTES, or one record.
 */
#ifndef RP_STORE_LOG_STAGING_H
#define RP_STORE_LOG_STAGING_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"

#define RP_STAGING_BYTES (256 * 1024)

typedef struct rp_log_staging {
    const rp_file_ops *ops; /* fixed */
    uint8_t *bytes;         /* owned */
    uint32_t size, capacity;
    uint32_t item_first, item_end; /* of the batch that is being appended: whose records are staged */
    int64_t begin;          /* log offset of the first staged byte */
    int64_t torn_begin, torn_end; /* log offsets: between them a failed write may have left something; the end 0: nowhere */
} rp_log_staging;

int rp_log_staging_open(rp_log_staging *staging, const rp_file_ops *ops);
void rp_log_staging_close(rp_log_staging *staging);
/* 1 when size bytes more have room without a write first. An empty staging takes a record of any size. */
int rp_log_staging_fits(const rp_log_staging *staging, uint32_t size);
/* Where the record of size bytes at log offset is to be encoded; it follows what is staged. NULL: no memory. */
uint8_t *rp_log_staging_take(rp_log_staging *staging, int64_t offset, uint32_t size);
/* Writes what is staged into the file that starts at log offset base; staging is empty afterwards, whatever came of it. Nothing may lie
 * behind it: zeros follow up to the end of its last page, so that a page which has left memory since it was made ready is not read first.
 * RP_OK; RP_E_IO, RP_E_DISK_FULL, and errno: nothing of it counts, it may be tried again. */
int rp_log_staging_write(rp_log_staging *staging, int fd, int64_t base, int64_t file_size);
/* Those bytes may be ones of records that are not. */
void rp_log_staging_tear(rp_log_staging *staging, int64_t begin, int64_t end);
/* Zeros over them, from `begin` on, in this file; those in the next one are zeroed when that is written to. RP_OK; RP_E_IO, RP_E_DISK_FULL,
 * and errno. */
int rp_log_staging_clear(rp_log_staging *staging, int64_t begin, int fd, int64_t base, int64_t file_size);

#endif
