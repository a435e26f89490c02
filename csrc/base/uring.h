/* uring.h: syncs through io_uring, by its system calls alone: <linux/io_uring.h> is all it needs, and whether the kernel (or a container's
 * seccomp filter) allows it is found out when a ring is opened.
 *
 * Why not liburing: one request at a time, submitted and waited for by the thread that wants it, needs two calls and three offsets of the
 * shared rings; a library that is loaded at run time (pyuring's) would add a way to fail and nothing else.
 *
 * Threads  sync_range from any thread; who finds the ring in use syncs by the plain system call. Open and close from the owner.
 */
#ifndef RP_BASE_URING_H
#define RP_BASE_URING_H

#include <stdint.h>

#include "error.h"
#include "file_ops.h"

typedef struct rp_uring rp_uring;

/* RP_OK; RP_E_UNSUPPORTED: the kernel has none (ENOSYS) or refuses (EPERM), error says which; RP_E_NO_MEMORY. */
int rp_uring_open(rp_uring **ring, rp_error *error);
void rp_uring_close(rp_uring *ring);
/* The system's calls, but syncs go through the ring. Valid until the ring is closed. */
const rp_file_ops *rp_uring_file_ops(rp_uring *ring);

#endif
