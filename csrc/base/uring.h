/* uring.h: syncs through an io_uring, by liburing. Whether the kernel (or a container's seccomp filter) allows one is found out when a
 * ring is opened.
 *
 * Threads  sync_range and sync_data from any thread; a thread that finds the ring in use makes the plain system call. Open and close from
 *          the owner.
 * Failure  when the kernel does not take a request, the ring is not used any more and every sync is a plain system call. When the kernel
 *          took a request but its result cannot be read, the sync has failed: nobody knows what became of it.
 */
#ifndef RP_BASE_URING_H
#define RP_BASE_URING_H

#include "error.h"
#include "file_ops.h"
#include "liburing.h"

typedef struct rp_uring rp_uring;

/* library is borrowed until the ring is closed. RP_OK; RP_E_UNSUPPORTED: the kernel has none (ENOSYS) or refuses (EPERM), or the library
 * lays its rings out in another way; error says which and what to do; RP_E_NO_MEMORY. */
int rp_uring_open(const rp_liburing *library, rp_uring **ring, rp_error *error);
void rp_uring_close(rp_uring *ring);
/* The system's calls, but syncs go through the ring. Valid until the ring is closed. */
const rp_file_ops *rp_uring_file_ops(rp_uring *ring);

#endif
