/* read_in.h: reads bytes of a mapped file into memory, on behalf of a thread that must not wait for the disk. Private to csrc/store.
 *
 * Threads  any; blocks on the disk. After each half millisecond of CPU time the thread yields: a kernel that does not preempt its own
 *          work would keep a producer waiting for the pages of the whole stretch. It does not yield more often, because on a busy core
 *          each yield costs a time slice: 100 ms for 4 MiB in steps of 128 KB.
 */
#ifndef RP_STORE_READ_IN_H
#define RP_STORE_READ_IN_H

#include <stddef.h>
#include <stdint.h>

#include "../base/file_ops.h"

/* Returns when the bytes are in memory. fd: of the file, -1 if it is not kept open. A failure is not reported: a later read meets it. */
void rp_read_in(const rp_file_ops *ops, const uint8_t *address, size_t size, int fd, int64_t file_offset);

#endif
