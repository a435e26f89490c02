/* liburing.h: the functions of liburing that uring.c calls, from a shared object that is loaded at run time: the one that pyuring bundles.
 *
 * Threads  load and unload from the owner. Bounds: none. Nothing is loaded from a search path: whoever starts the broker says where it is.
 */
#ifndef RP_BASE_LIBURING_H
#define RP_BASE_LIBURING_H

#include <signal.h>

#include "error.h"

struct io_uring; /* liburing's own; uring.c knows as much of it as it needs */
struct io_uring_cqe;
struct io_uring_params;
struct io_uring_sqe;

typedef struct rp_liburing {
    void *handle; /* NULL when it is not loaded; the calls below are of a test's then */
    int (*queue_init_params)(unsigned entries, struct io_uring *ring, struct io_uring_params *params);
    struct io_uring_sqe *(*get_sqe)(struct io_uring *ring);
    int (*submit_and_wait)(struct io_uring *ring, unsigned wait_count);
    int (*get_cqe)(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned submit_count, unsigned wait_count, sigset_t *mask);
    void (*queue_exit)(struct io_uring *ring);
} rp_liburing;

/* path is absolute; NULL when there is none. RP_OK; RP_E_UNSUPPORTED: it is not there, or lacks one of the calls; error says which and
 * what to do, library is empty. */
int rp_liburing_load(const char *path, rp_liburing *library, rp_error *error);
/* After the last ring is closed. Does nothing to an empty one. */
void rp_liburing_unload(rp_liburing *library);

#endif
