/* read_in.h: brings bytes of a mapped file from the disk into memory for somebody who shall not wait for that. Private to csrc/store.
 *
 * Threads  any; blocks on the disk. Between its pieces it gives the core to whoever wants it: a kernel that does not preempt its own work
 *          would keep a producer waiting for a whole stretch's pages.
 */
#ifndef RP_STORE_READ_IN_H
#define RP_STORE_READ_IN_H

#include <stddef.h>
#include <stdint.h>

#include "../base/file_ops.h"

/* Returns when they are there. fd: of the file, -1 when it is not kept. A failure costs whoever reads them later. */
void rp_read_in(const rp_file_ops *ops, const uint8_t *address, size_t size, int fd, int64_t file_offset);

#endif
