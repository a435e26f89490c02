/* floor_log.c: see floor_log.h. */
#include "floor_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../base/crc32.h"
#include "../base/file_ops.h"

#define BATCH_FIRST (4u << 20)
#define CHUNK_BYTES (INT64_C(1) << 20)
#define PIECE_BYTES (256u << 10)
#define AHEAD_BYTES (INT64_C(16) << 20)
#define ALLOCATE_BYTES (INT64_C(64) << 20) /* large, for few extents */

struct rp_floor_log {
    rp_floor_kind kind;
    int fd;
    int64_t size_max;
    uint8_t *map; /* size_max of address space; MAP_FAILED for RP_FLOOR_SYNCED */
    int64_t end, zeroed_end, allocated_end;
    uint8_t *batch;
    uint32_t batch_size, batch_max;
    uint32_t crc; /* of all frames: keeps the compiler from removing the computation */
    void *zeros;  /* PIECE_BYTES of address space, all of it the kernel's one page of zeros */
};

/* Returns 0 if the disk is full, or fails. */
static int zero_chunk(rp_floor_log *log) {
    if (log->zeroed_end + CHUNK_BYTES > log->allocated_end) {
        if (fallocate(log->fd, 0, log->allocated_end, ALLOCATE_BYTES) != 0)
            return 0;
        log->allocated_end += ALLOCATE_BYTES;
    }
    for (int64_t at = 0; at < CHUNK_BYTES; at += PIECE_BYTES) {
        if (rp_file_write_all(rp_file_ops_system(), log->fd, log->zeros, PIECE_BYTES, log->zeroed_end + at) != 0)
            return 0;
    }
    if (log->map == MAP_FAILED)
        (void)sync_file_range(log->fd, log->zeroed_end, CHUNK_BYTES, SYNC_FILE_RANGE_WRITE);
    else
        (void)madvise(log->map + log->zeroed_end, CHUNK_BYTES, MADV_POPULATE_WRITE); /* if it fails, each page costs a fault */
    log->zeroed_end += CHUNK_BYTES;
    return 1;
}

void rp_floor_log_step_ahead(rp_floor_log *log) {
    if (log->kind == RP_FLOOR_REUSED || (log->map != MAP_FAILED && log->zeroed_end + CHUNK_BYTES > log->size_max))
        return;
    if (log->zeroed_end - log->end <= AHEAD_BYTES - CHUNK_BYTES)
        (void)zero_chunk(log); /* if it fails, the write finds no allocated blocks, and is slower */
}

static int begin_again(rp_floor_log *log) {
    log->end = log->zeroed_end = log->allocated_end = 0;
    if (ftruncate(log->fd, 0) != 0)
        return 0;
    while (log->zeroed_end < AHEAD_BYTES) {
        if (!zero_chunk(log))
            return 0;
    }
    return fdatasync(log->fd) == 0;
}

/* Writes every page once. */
static int make_ready(rp_floor_log *log) {
    int failed = posix_fallocate(log->fd, 0, log->size_max);
    errno = failed;
    if (failed == 0)
        memset(log->map, 0, (size_t)log->size_max);
    return failed == 0;
}

static int map_file(rp_floor_log *log) {
    if (log->kind != RP_FLOOR_SYNCED)
        log->map = mmap(NULL, (size_t)log->size_max, PROT_READ | PROT_WRITE, MAP_SHARED, log->fd, 0);
    return log->kind == RP_FLOOR_SYNCED || log->map != MAP_FAILED;
}

int rp_floor_log_open(const char *path, rp_floor_kind kind, int64_t size_max, rp_floor_log **opened, rp_error *error) {
    rp_floor_log *log = calloc(1, sizeof *log);
    if (log == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, path, -1, "no memory for the floor's file");
    log->kind = kind;
    log->size_max = size_max;
    log->map = MAP_FAILED;
    log->batch_max = BATCH_FIRST;
    log->batch = malloc(BATCH_FIRST);
    log->zeros = mmap(NULL, PIECE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    log->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (log->batch == NULL || log->zeros == MAP_FAILED || log->fd < 0 || !map_file(log) ||
        !(kind == RP_FLOOR_REUSED ? make_ready(log) : begin_again(log))) {
        int failed = errno;
        rp_floor_log_close(log);
        return rp_error_set(error, rp_status_from_errno(failed), failed, path, -1, "cannot be made ready: %s", strerror(failed));
    }
    *opened = log;
    return RP_OK;
}

void rp_floor_log_close(rp_floor_log *log) {
    if (log == NULL)
        return;
    if (log->fd >= 0)
        close(log->fd);
    if (log->map != MAP_FAILED)
        munmap(log->map, (size_t)log->size_max);
    if (log->zeros != MAP_FAILED)
        munmap(log->zeros, PIECE_BYTES);
    free(log->batch);
    free(log);
}

static int make_room(rp_floor_log *log, uint32_t size) {
    uint32_t max = log->batch_max;
    while (max - log->batch_size < size)
        max *= 2;
    uint8_t *larger = max == log->batch_max ? log->batch : realloc(log->batch, max);
    if (larger == NULL)
        return 0;
    log->batch = larger;
    log->batch_max = max;
    return 1;
}

static int put_mapped(rp_floor_log *log, const uint8_t *frame, uint32_t size) {
    if (log->end + size > log->size_max) {
        if (log->kind == RP_FLOOR_REUSED)
            log->end = 0;
        else if (!begin_again(log))
            return 0;
    }
    while (log->kind == RP_FLOOR_GROWING && log->end + size > log->zeroed_end) {
        if (!zero_chunk(log))
            return 0;
    }
    log->crc ^= rp_crc32_copy(0, log->map + log->end, frame, size);
    log->end += size;
    return 1;
}

int rp_floor_log_put(rp_floor_log *log, const uint8_t *frame, uint32_t size) {
    if (log->map != MAP_FAILED)
        return put_mapped(log, frame, size);
    if (!make_room(log, size))
        return 0;
    log->crc ^= rp_crc32_copy(0, log->batch + log->batch_size, frame, size);
    log->batch_size += size;
    return 1;
}

int rp_floor_log_sync(rp_floor_log *log) {
    uint32_t size = log->batch_size;
    log->batch_size = 0;
    if (log->end + size > log->size_max && !begin_again(log))
        return 0;
    if (rp_file_write_all(rp_file_ops_system(), log->fd, log->batch, size, log->end) != 0 || fdatasync(log->fd) != 0)
        return 0;
    log->end += size;
    log->zeroed_end = log->zeroed_end > log->end ? log->zeroed_end : log->end;
    return 1;
}
