/* uring.c: see uring.h. */
#include "uring.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES 4 /* one is used */
#define ROOM 512  /* more than liburing's struct has ever had (216 bytes) */

/* liburing's struct io_uring up to the end of its completion ring. Only that ring's head is written here: marking a result as read is an
 * inline function of liburing's header. The ABI has had this layout since 2.0, and has_known_layout checks it. */
struct io_uring {
    void *submission[13];
    uint32_t *head, *tail, *mask, *entries, *flags, *overflow;
    struct io_uring_cqe *results;
    size_t size;
    uint8_t *start;
    uint8_t rest[ROOM];
};

struct rp_uring {
    rp_file_ops ops; /* fixed */
    const rp_liburing *library; /* fixed */
    pthread_mutex_t lock; /* held while a sync is under way; leaf */
    struct io_uring queue; /* guarded by lock */
    int is_broken; /* guarded by lock: a request was not accepted, or its result never came */
};

/* Under lock: makes one request and returns its result: 0 or a negative errno; -EBUSY: it was not made. */
static int submit_and_wait(rp_uring *ring, int fd, int64_t offset, uint32_t size) {
    struct io_uring_sqe *request = ring->is_broken ? NULL : ring->library->get_sqe(&ring->queue);
    if (request == NULL) {
        return -EBUSY;
    }
    *request = (struct io_uring_sqe){
        .opcode = IORING_OP_FSYNC, .fd = fd, .fsync_flags = IORING_FSYNC_DATASYNC, .off = (uint64_t)offset, .len = size};
    if (ring->library->submit_and_wait(&ring->queue, 1) != 1) {
        ring->is_broken = 1;
        return -EBUSY;
    }
    struct io_uring_cqe *completion = NULL;
    int rc;
    do {
        rc = ring->library->get_cqe(&ring->queue, &completion, 0, 1, NULL);
    } while (rc == -EINTR);
    if (rc != 0 || completion == NULL) {
        ring->is_broken = 1;
        return rc < 0 && rc != -EBUSY ? rc : -EIO;
    }
    int result = completion->res;
    __atomic_store_n(ring->queue.head, *ring->queue.head + 1, __ATOMIC_RELEASE); /* io_uring_cqe_seen */
    return result == -EBUSY ? -EIO : result;
}

/* Syncs the bytes [offset, offset + size) of a file, all of it with size 0; 0, or -1 with errno. EBUSY: the ring is in use, or no longer
 * usable. */
static int sync_by_ring(rp_uring *ring, int fd, int64_t offset, size_t size) {
    if (size > UINT32_MAX || pthread_mutex_trylock(&ring->lock) != 0) {
        errno = EBUSY;
        return -1;
    }
    int result = submit_and_wait(ring, fd, offset, (uint32_t)size);
    pthread_mutex_unlock(&ring->lock);
    errno = result < 0 ? -result : 0;
    return result < 0 ? -1 : 0;
}

static int uring_sync_data(void *context, int fd) {
    int rc = sync_by_ring(context, fd, 0, 0);
    return rc != 0 && errno == EBUSY ? rp_file_ops_system()->sync_data(NULL, fd) : rc;
}

static int uring_sync_range(void *context, int fd, void *address, int64_t offset, size_t size) {
    int rc = -1;
    errno = EBUSY;
    if (fd >= 0 && size != 0) {
        rc = rp_file_write_out(fd, address, offset, size);
        rc = rc == 0 ? sync_by_ring(context, fd, offset, size) : rc;
    }
    /* Bytes that are written out already cost little the second time. */
    return rc != 0 && errno == EBUSY ? rp_file_ops_system()->sync_range(NULL, fd, address, offset, size) : rc;
}

/* The kernel reports where in the ring's memory head, tail and results are; the library's struct must point there. */
static int has_known_layout(const struct io_uring *queue, const struct io_uring_params *params) {
    const uint8_t *start = queue->start;
    return start != NULL && (const uint8_t *)queue->head == start + params->cq_off.head &&
           (const uint8_t *)queue->tail == start + params->cq_off.tail && (const uint8_t *)queue->results == start + params->cq_off.cqes;
}

static const char *remedy(int code) {
    switch (code) {
    case ENOMEM: /* kernels before 5.12 lock the rings' memory */
        return "raise the limit of locked memory: ulimit -l, LimitMEMLOCK=";
    case EMFILE:
    case ENFILE:
        return "raise the limit of open files: ulimit -n, LimitNOFILE=";
    case ENOSYS: /* Podman's profile answers the same */
        return "allow it in the container's seccomp profile; a kernel older than 5.1 has none";
    default:
        return "allow it: sysctl kernel.io_uring_disabled=0, or the container's seccomp profile";
    }
}

int rp_uring_open(const rp_liburing *library, rp_uring **out, rp_error *error) {
    struct io_uring_params params = {0};
    rp_uring *ring = calloc(1, sizeof *ring);
    if (ring == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for io_uring");
    }
    int rc = library->queue_init_params(ENTRIES, &ring->queue, &params);
    if (rc != 0) {
        free(ring);
        return rp_error_set(error, RP_E_UNSUPPORTED, -rc, NULL, -1, "the kernel refuses io_uring (%s); %s", strerror(-rc), remedy(-rc));
    }
    if (!has_known_layout(&ring->queue, &params)) {
        library->queue_exit(&ring->queue);
        free(ring);
        return rp_error_set(error, RP_E_UNSUPPORTED, 0, NULL, -1,
                            "this liburing lays its rings out in another way than 2.x; install pyuring 0.3.0, which bundles one that fits");
    }
    pthread_mutex_init(&ring->lock, NULL);
    ring->library = library;
    ring->ops = *rp_file_ops_system();
    ring->ops.context = ring;
    ring->ops.sync_data = uring_sync_data;
    ring->ops.sync_range = uring_sync_range;
    *out = ring;
    return RP_OK;
}

void rp_uring_close(rp_uring *ring) {
    if (ring == NULL) {
        return;
    }
    ring->library->queue_exit(&ring->queue);
    pthread_mutex_destroy(&ring->lock);
    free(ring);
}

const rp_file_ops *rp_uring_file_ops(rp_uring *ring) { return &ring->ops; }
