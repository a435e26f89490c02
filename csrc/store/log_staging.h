/* log_staging.h: collects the records of a batch so that one system call writes them to the commit log's file, as SYNC_FLUSH appends
 * them. Private to csrc/store.
 *
 *   encode ─► staged bytes ─ write_at ─► page cache ─► published (max offset, queue entries)
 *
 * Why      after stores through the map, each sync has to write-protect the pages on every core (a TLB shoot-down), and the next store
 *          faults: 9 µs a page of 4 KB, 1 ms for a group of 300 KB, of which the disk needs a quarter. Written bytes cost 0.4 µs a KB,
 *          and only changed blocks go to disk. Measured: docs/design-store.md.
 * Failure  bytes that a failed write may have left are zeroed before the next write: an old record must not look like the log's next.
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
    uint32_t item_first, item_end; /* items of the current batch whose records are staged */
    int64_t begin;          /* log offset of the first staged byte */
    int64_t torn_begin, torn_end; /* log offsets between which a failed write may have left bytes; end 0: nowhere */
} rp_log_staging;

int rp_log_staging_open(rp_log_staging *staging, const rp_file_ops *ops);
void rp_log_staging_close(rp_log_staging *staging);
/* 1 if `size` more bytes fit without a write first. An empty staging takes a record of any size. */
int rp_log_staging_fits(const rp_log_staging *staging, uint32_t size);
/* Returns where to encode the record of `size` bytes at log offset `offset`, which must follow what is staged. NULL: no memory. */
uint8_t *rp_log_staging_take(rp_log_staging *staging, int64_t offset, uint32_t size);
/* Writes the staged bytes into the file that starts at log offset base; staging is then empty, whatever the result. Nothing may lie
 * behind them: zeros are added up to the end of the last page, so that a page which has left memory since it was prepared is not read
 * first. RP_OK; RP_E_IO, RP_E_DISK_FULL, and errno: none of it counts, and it may be tried again. */
int rp_log_staging_write(rp_log_staging *staging, int fd, int64_t base, int64_t file_size);
/* Notes that these bytes may be left over from records that were not appended. */
void rp_log_staging_tear(rp_log_staging *staging, int64_t begin, int64_t end);
/* Zeroes those bytes from `begin` on, in this file; those in the next file are zeroed when that is written to. RP_OK; RP_E_IO,
 * RP_E_DISK_FULL, and errno. */
int rp_log_staging_clear(rp_log_staging *staging, int64_t begin, int fd, int64_t base, int64_t file_size);

#endif
