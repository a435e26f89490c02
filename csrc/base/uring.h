/* uring.h: syncs through an io_uring, by liburing. Opening a ring shows whether the kernel, or a container's seccomp filter, permits it.
 *
 * Threads  sync_range and sync_data from any thread; a thread that finds the ring in use makes the plain system call. Open and close
 *          from the owner.
 * Failure  if the kernel does not accept a request, the ring is not used any more and every sync is a plain system call. If it accepted
 *          a request but its result cannot be read, the sync has failed: its outcome is unknown.
 */
#ifndef RP_BASE_URING_H
#define RP_BASE_URING_H

#include "error.h"
#include "file_ops.h"
#include "liburing.h"

typedef struct rp_uring rp_uring;

/* Opens a ring; library is borrowed until it is closed. RP_OK; RP_E_UNSUPPORTED: the kernel has none (ENOSYS) or refuses (EPERM), or the
 * library's layout is unknown; error says which and what to do; RP_E_NO_MEMORY. */
int rp_uring_open(const rp_liburing *library, rp_uring **ring, rp_error *error);
void rp_uring_close(rp_uring *ring);
/* The system's calls, except that syncs go through the ring. Valid until the ring is closed. */
const rp_file_ops *rp_uring_file_ops(rp_uring *ring);

#endif
