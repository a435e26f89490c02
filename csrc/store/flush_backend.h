/* flush_backend.h: the system calls that make syncs, chosen at start.
 *
 *   SYSCALL   msync of the range, fdatasync. Always available.
 *   IO_URING  fsync requests of a ring, through liburing (uring.h); RP_E_UNSUPPORTED if the library is missing, or the kernel or a
 *             container forbids it.
 *   AUTO      times both for a few syncs in the store's own directory, and takes io_uring if it is a tenth faster. Usually it is not,
 *             because waking its worker thread costs more than it saves (docs/design-store.md). The log says which was taken and why.
 *
 * Threads  the owner's.
 */
#ifndef RP_STORE_FLUSH_BACKEND_H
#define RP_STORE_FLUSH_BACKEND_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"
#include "../base/log.h"

enum rp_flush_backend_kind { RP_FLUSH_BACKEND_AUTO = 0, RP_FLUSH_BACKEND_SYSCALL = 1, RP_FLUSH_BACKEND_IO_URING = 2 };

typedef struct rp_flush_backend rp_flush_backend;

typedef struct rp_flush_backend_setup {
    int32_t wanted;            /* rp_flush_backend_kind */
    const char *directory;     /* exists and is writable */
    const char *liburing_path; /* absolute path; NULL: there is no liburing */
    rp_log *log;
} rp_flush_backend_setup;

typedef struct rp_sync_times {
    int64_t syscall_ns, io_uring_ns; /* smallest time of a write of 4 KB and its sync; -1: not available */
    int32_t taken;                   /* the rp_flush_backend_kind that AUTO takes by these times */
    char refusal[RP_ERROR_MESSAGE_MAX]; /* why io_uring is not available, and what to do; "" if it is */
} rp_sync_times;

/* If io_uring is not available, IO_URING fails and AUTO takes SYSCALL. RP_OK, RP_E_UNSUPPORTED, RP_E_INVALID, RP_E_NO_MEMORY. */
int rp_flush_backend_open(const rp_flush_backend_setup *setup, rp_flush_backend **backend, rp_error *error);
void rp_flush_backend_close(rp_flush_backend *backend);
int32_t rp_flush_backend_kind_of(const rp_flush_backend *backend);
/* Valid until the backend is closed. */
const rp_file_ops *rp_flush_backend_ops(const rp_flush_backend *backend);

/* Times both on a temporary file in directory; takes at most 100 ms and one sync. RP_OK, RP_E_IO, RP_E_DISK_FULL. */
int rp_flush_backend_measure(const char *directory, const char *liburing_path, rp_sync_times *times, rp_error *error);

#endif
