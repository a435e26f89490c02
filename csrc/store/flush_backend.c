/* flush_backend.c: see flush_backend.h. */
#include "flush_backend.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../base/clock.h"
#include "../base/log_inl.h"
#include "../base/uring.h"
#include "store_path.h"

#define BLOCK_BYTES 4096
#define ROUNDS 9
#define MEASURE_NS_MAX INT64_C(100000000)

struct rp_flush_backend {
    int32_t kind;
    rp_liburing liburing; /* empty for SYSCALL */
    rp_uring *ring;       /* owned; NULL for SYSCALL */
};

static int open_ring(rp_flush_backend *backend, const char *liburing_path, rp_error *error) {
    int rc = rp_liburing_load(liburing_path, &backend->liburing, error);
    if (rc == RP_OK && (rc = rp_uring_open(&backend->liburing, &backend->ring, error)) != RP_OK) {
        rp_liburing_unload(&backend->liburing);
    }
    return rc;
}

static void close_ring(rp_flush_backend *backend) {
    rp_uring_close(backend->ring);
    backend->ring = NULL;
    rp_liburing_unload(&backend->liburing);
}

/* Returns the ns that a write and its sync take; -1 if one fails. */
static int64_t time_sync(const rp_file_ops *ops, int fd, int filling) {
    uint8_t block[BLOCK_BYTES];
    memset(block, filling, sizeof block);
    int64_t begun_ns = rp_clock_monotonic_ns(rp_clock_system());
    if (rp_file_write_all(ops, fd, block, sizeof block, 0) != 0 || ops->sync_data(ops->context, fd) != 0) {
        return -1;
    }
    return rp_clock_monotonic_ns(rp_clock_system()) - begun_ns;
}

static int64_t lesser(int64_t least_ns, int64_t ns) { return least_ns < 0 || (ns >= 0 && ns < least_ns) ? ns : least_ns; }

/* Alternates between the two, so that a briefly busy disk affects both, and takes the smallest time of each: anything above is somebody
 * else's load. */
static void time_both(int fd, rp_uring *ring, rp_sync_times *times) {
    int64_t begun_ns = rp_clock_monotonic_ns(rp_clock_system());
    time_sync(rp_file_ops_system(), fd, 0); /* creates the file */
    for (int round = 1; round <= ROUNDS; round++) {
        times->syscall_ns = lesser(times->syscall_ns, time_sync(rp_file_ops_system(), fd, round));
        if (times->syscall_ns < 0) {
            return; /* errno says why */
        }
        if (ring != NULL) {
            times->io_uring_ns = lesser(times->io_uring_ns, time_sync(rp_uring_file_ops(ring), fd, round + ROUNDS));
        }
        if (rp_clock_monotonic_ns(rp_clock_system()) - begun_ns > MEASURE_NS_MAX) {
            return;
        }
    }
}

static int failed(rp_error *error, const char *path) {
    return rp_error_set(error, rp_status_from_errno(errno), errno, path, -1, "cannot write and sync: %s", strerror(errno));
}

/* ring is NULL if there is none. */
static int measure(const char *directory, rp_uring *ring, rp_sync_times *times, rp_error *error) {
    const rp_file_ops *ops = rp_file_ops_system();
    char path[RP_PATH_MAX];
    *times = (rp_sync_times){.syscall_ns = -1, .io_uring_ns = -1, .taken = RP_FLUSH_BACKEND_SYSCALL};
    int rc = rp_path_join(path, directory, "flush-backend.tmp", error);
    if (rc != RP_OK) {
        return rc;
    }
    int fd = ops->open(ops->context, path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) {
        return failed(error, path);
    }
    time_both(fd, ring, times);
    bool is_faster = times->io_uring_ns > 0 && times->io_uring_ns * 10 < times->syscall_ns * 9; /* a smaller difference is noise */
    times->taken = is_faster ? RP_FLUSH_BACKEND_IO_URING : RP_FLUSH_BACKEND_SYSCALL;
    rc = times->syscall_ns < 0 ? failed(error, path) : RP_OK;
    ops->close(ops->context, fd);
    ops->unlink(ops->context, path);
    return rc;
}

int rp_flush_backend_measure(const char *directory, const char *liburing_path, rp_sync_times *times, rp_error *error) {
    rp_flush_backend backend = {0};
    rp_error refused = {0};
    open_ring(&backend, liburing_path, &refused);
    int rc = measure(directory, backend.ring, times, error);
    memcpy(times->refusal, refused.message, sizeof times->refusal);
    close_ring(&backend);
    return rc;
}

/* Chooses for AUTO, with a ring. */
static int32_t take_the_faster(const rp_flush_backend_setup *setup, rp_uring *ring) {
    rp_sync_times times;
    rp_error error = {0};
    if (measure(setup->directory, ring, &times, &error) != RP_OK) {
        rp_log_write(setup->log, RP_LOG_WARNING, "flushBackend=AUTO: msync and fdatasync sync; not measured: %s [%s]", error.message,
                     error.file);
        return RP_FLUSH_BACKEND_SYSCALL;
    }
    rp_log_write(setup->log, RP_LOG_INFO, "flushBackend=AUTO: %s; a sync takes %lld us by msync and fdatasync, %lld us by io_uring (%s)",
                 times.taken == RP_FLUSH_BACKEND_IO_URING ? "io_uring syncs" : "msync and fdatasync sync",
                 (long long)times.syscall_ns / 1000, (long long)times.io_uring_ns / 1000, setup->liburing_path);
    return times.taken;
}

int rp_flush_backend_open(const rp_flush_backend_setup *setup, rp_flush_backend **out, rp_error *error) {
    if (setup->wanted < RP_FLUSH_BACKEND_AUTO || setup->wanted > RP_FLUSH_BACKEND_IO_URING) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "flushBackend must be AUTO, SYSCALL or IO_URING");
    }
    rp_flush_backend *backend = calloc(1, sizeof *backend);
    if (backend == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for the flush backend");
    }
    rp_error refused = {0};
    int rc = setup->wanted == RP_FLUSH_BACKEND_SYSCALL ? RP_OK : open_ring(backend, setup->liburing_path, &refused);
    if (rc != RP_OK && setup->wanted == RP_FLUSH_BACKEND_IO_URING) {
        free(backend);
        return rp_error_set(error, rc, refused.os_errno, NULL, -1, "flushBackend=IO_URING, but %s; or set flushBackend=AUTO",
                            refused.message);
    }
    if (rc != RP_OK) {
        rp_log_write(setup->log, RP_LOG_INFO, "flushBackend=AUTO: msync and fdatasync sync; %s", refused.message);
    }
    backend->kind = setup->wanted != RP_FLUSH_BACKEND_AUTO ? setup->wanted
                    : backend->ring != NULL                ? take_the_faster(setup, backend->ring)
                                                           : RP_FLUSH_BACKEND_SYSCALL;
    if (backend->kind == RP_FLUSH_BACKEND_SYSCALL) {
        close_ring(backend);
    }
    *out = backend;
    return RP_OK;
}

void rp_flush_backend_close(rp_flush_backend *backend) {
    if (backend != NULL) {
        close_ring(backend);
        free(backend);
    }
}

int32_t rp_flush_backend_kind_of(const rp_flush_backend *backend) { return backend->kind; }

const rp_file_ops *rp_flush_backend_ops(const rp_flush_backend *backend) {
    return backend->ring != NULL ? rp_uring_file_ops(backend->ring) : rp_file_ops_system();
}
