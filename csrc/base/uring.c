/* uring.c: see uring.h. */
#include "uring.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENTRIES 4 /* one is used */

struct rp_uring {
    rp_file_ops ops;      /* fixed */
    pthread_mutex_t lock; /* held while a sync is under way; leaf */
    int fd;               /* fixed */
    uint8_t *rings;       /* fixed: both rings in one mapping (IORING_FEAT_SINGLE_MMAP) */
    size_t rings_size, entries_size; /* fixed */
    struct io_uring_sqe *entries;    /* guarded by lock */
    uint32_t *submit_tail, *submit_array, *complete_head, *complete_tail; /* guarded by lock; the kernel writes complete_tail */
    uint32_t submit_mask, complete_mask;                                  /* fixed */
    struct io_uring_cqe *results;                                         /* guarded by lock */
};

/* Under lock: one request, and its result: 0 or a negative errno. */
static int submit_and_wait(rp_uring *ring, const struct io_uring_sqe *request) {
    uint32_t tail = *ring->submit_tail, slot = tail & ring->submit_mask;
    ring->entries[slot] = *request;
    ring->submit_array[slot] = slot;
    __atomic_store_n(ring->submit_tail, tail + 1, __ATOMIC_RELEASE);
    uint32_t head = *ring->complete_head, to_submit = 1;
    while (__atomic_load_n(ring->complete_tail, __ATOMIC_ACQUIRE) == head) {
        long done = syscall(SYS_io_uring_enter, ring->fd, to_submit, 1, IORING_ENTER_GETEVENTS, NULL, 0);
        if (done < 0 && errno != EINTR && errno != EAGAIN && errno != EBUSY) {
            return -errno;
        }
        to_submit = done > 0 ? 0 : to_submit; /* interrupted while it waited: it is submitted already */
    }
    int result = ring->results[head & ring->complete_mask].res;
    __atomic_store_n(ring->complete_head, head + 1, __ATOMIC_RELEASE);
    return result;
}

/* The bytes [offset, offset + size) of a file, all of it with size 0; 0, or -1 with errno. EBUSY: the ring is in use. */
static int sync_by_ring(rp_uring *ring, int fd, int64_t offset, size_t size) {
    if (size > UINT32_MAX || pthread_mutex_trylock(&ring->lock) != 0) {
        errno = EBUSY;
        return -1;
    }
    struct io_uring_sqe request = {
        .opcode = IORING_OP_FSYNC, .fd = fd, .fsync_flags = IORING_FSYNC_DATASYNC, .off = (uint64_t)offset, .len = (uint32_t)size};
    int result = submit_and_wait(ring, &request);
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
        rc = sync_by_ring(context, fd, offset, size);
    }
    return rc != 0 && errno == EBUSY ? rp_file_ops_system()->sync_range(NULL, fd, address, offset, size) : rc;
}

static int map_rings(rp_uring *ring, const struct io_uring_params *params) {
    size_t submit = params->sq_off.array + params->sq_entries * sizeof(uint32_t);
    size_t complete = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
    ring->rings_size = submit > complete ? submit : complete;
    ring->entries_size = params->sq_entries * sizeof(struct io_uring_sqe);
    void *rings = mmap(NULL, ring->rings_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQ_RING);
    void *entries = mmap(NULL, ring->entries_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQES);
    ring->rings = rings == MAP_FAILED ? NULL : rings;
    ring->entries = entries == MAP_FAILED ? NULL : entries;
    if (ring->rings == NULL || ring->entries == NULL) {
        return -1;
    }
    ring->submit_tail = (uint32_t *)(ring->rings + params->sq_off.tail);
    ring->submit_array = (uint32_t *)(ring->rings + params->sq_off.array);
    ring->submit_mask = *(uint32_t *)(ring->rings + params->sq_off.ring_mask);
    ring->complete_head = (uint32_t *)(ring->rings + params->cq_off.head);
    ring->complete_tail = (uint32_t *)(ring->rings + params->cq_off.tail);
    ring->complete_mask = *(uint32_t *)(ring->rings + params->cq_off.ring_mask);
    ring->results = (struct io_uring_cqe *)(ring->rings + params->cq_off.cqes);
    return 0;
}

int rp_uring_open(rp_uring **out, rp_error *error) {
    struct io_uring_params params = {0};
    rp_uring *ring = calloc(1, sizeof *ring);
    if (ring == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for io_uring");
    }
    pthread_mutex_init(&ring->lock, NULL);
    ring->fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &params);
    if (ring->fd < 0 || !(params.features & IORING_FEAT_SINGLE_MMAP) || map_rings(ring, &params) != 0) {
        int os_errno = ring->fd >= 0 && errno == 0 ? ENOSYS : errno;
        rp_uring_close(ring);
        return rp_error_set(error, RP_E_UNSUPPORTED, os_errno, NULL, -1, "io_uring: %s", strerror(os_errno));
    }
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
    if (ring->entries != NULL) {
        munmap(ring->entries, ring->entries_size);
    }
    if (ring->rings != NULL) {
        munmap(ring->rings, ring->rings_size);
    }
    if (ring->fd >= 0) {
        close(ring->fd);
    }
    pthread_mutex_destroy(&ring->lock);
    free(ring);
}

const rp_file_ops *rp_uring_file_ops(rp_uring *ring) { return &ring->ops; }
