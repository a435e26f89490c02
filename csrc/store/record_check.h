/* record_check.h: goes ahead of recovery's pass over the log on a thread of its own: brings pages in and checks every record, so that
 * the pass itself finds warm, checked bytes and only dispatches them. Private to csrc/store.
 *
 *   disk ─ READ_AHEAD ─► page cache ─ one piece ─► decode + CRC ─► checked ─► the pass: decode without CRC, dispatch
 *
 * It says only how far all is well. At the first place that is not, it ends, and the pass looks for itself.
 *
 * Threads  one of its own; open, wait and close from the owner. Borrows the row, which must outlive it.
 * Bounds   at most AHEAD_MAX bytes in front of the pass.
 */
#ifndef RP_STORE_RECORD_CHECK_H
#define RP_STORE_RECORD_CHECK_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"
#include "mapped_file_queue.h"

typedef struct rp_record_check rp_record_check;

/* check_crc as rp_message_decode takes it. RP_OK, RP_E_NO_MEMORY, RP_E_BUSY (no thread). */
int rp_record_check_open(const rp_file_ops *ops, rp_mapped_file_queue *row, int64_t start, int check_crc, rp_record_check **check,
                         rp_error *error);
/* Waits for the record at offset: everything from there to the result is whole, CRCs included. The result is offset itself when there
 * is no good record. offset never falls from call to call. RP_E_IO when the disk does not give the bytes: error names the place. */
int64_t rp_record_check_wait(rp_record_check *check, int64_t offset, rp_error *error);
/* Also before it has come to the end. NULL is allowed. */
void rp_record_check_close(rp_record_check *check);

#endif
