/* liburing.h: loads the functions of liburing that uring.c calls from a shared object at run time: the one that pyuring bundles.
 *
 * Threads  load and unload from the owner. Bounds: none. Nothing is loaded from a search path: the starter of the broker passes the
 *          path.
 */
#ifndef RP_BASE_LIBURING_H
#define RP_BASE_LIBURING_H

#include <signal.h>

#include "error.h"

struct io_uring; /* liburing's own structs; uring.c declares what it needs of them */
struct io_uring_cqe;
struct io_uring_params;
struct io_uring_sqe;

typedef struct rp_liburing {
    void *handle; /* NULL: not loaded; in tests the calls below may be set all the same */
    int (*queue_init_params)(unsigned entries, struct io_uring *ring, struct io_uring_params *params);
    struct io_uring_sqe *(*get_sqe)(struct io_uring *ring);
    int (*submit_and_wait)(struct io_uring *ring, unsigned wait_count);
    int (*get_cqe)(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned submit_count, unsigned wait_count, sigset_t *mask);
    void (*queue_exit)(struct io_uring *ring);
} rp_liburing;

/* Loads the library at an absolute path; NULL: there is none. RP_OK; RP_E_UNSUPPORTED: it does not exist, or lacks one of the calls;
 * error says which and what to do, and library is empty. */
int rp_liburing_load(const char *path, rp_liburing *library, rp_error *error);
/* Unloads it after the last ring is closed. Does nothing if it is empty. */
void rp_liburing_unload(rp_liburing *library);

#endif
