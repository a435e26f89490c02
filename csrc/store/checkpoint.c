/* checkpoint.c: see checkpoint.h. */
#include "checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "../base/crc32.h"

#define OURS 256
#define OURS_COUNT 7
#define OURS_SIZE (8 + 24 + 8 * OURS_COUNT)
#define SECTOR_SIZE 512 /* the smallest unit that a disk writes atomically */
#define OURS_MAGIC 0x726F636B65747079u /* "rocketpy" */

_Static_assert(OURS + OURS_SIZE + 4 <= SECTOR_SIZE, "a checkpoint is one sector");

static int failed(rp_error *error, const char *path, const char *what) {
    int os_errno = errno;
    return rp_error_set(error, rp_status_from_errno(os_errno), os_errno, path, -1, "cannot %s the checkpoint: %s%s", what,
                        strerror(os_errno), rp_making_remedy(os_errno, path));
}

static int64_t get(const rp_checkpoint *checkpoint, uint32_t at) { return (int64_t)rp_get_u64(checkpoint->foreign + at); }

static void decode(rp_checkpoint *checkpoint) {
    const uint8_t *ours = checkpoint->foreign + OURS;
    checkpoint->log_time_ms = get(checkpoint, 0);
    checkpoint->queues_time_ms = get(checkpoint, 8);
    checkpoint->index_time_ms = get(checkpoint, 16);
    checkpoint->master_flushed_offset = get(checkpoint, 24);
    checkpoint->confirm_offset = get(checkpoint, 32);
    checkpoint->queues_offset = get(checkpoint, 40);
    if (rp_get_u64(ours) == OURS_MAGIC && rp_crc32(0, ours, OURS_SIZE) == rp_get_u32(ours + OURS_SIZE) &&
        memcmp(ours + 8, checkpoint->foreign, 24) == 0) {
        checkpoint->is_exact = 1;
        checkpoint->flushed_offset = get(checkpoint, OURS + 32);
        checkpoint->queues_offset = get(checkpoint, OURS + 40);
        checkpoint->index_offset = get(checkpoint, OURS + 48);
        checkpoint->queue_count = get(checkpoint, OURS + 56);
        checkpoint->entry_count = get(checkpoint, OURS + 64);
        checkpoint->begin_bytes = get(checkpoint, OURS + 72);
        checkpoint->index_count = get(checkpoint, OURS + 80);
    }
}

void rp_checkpoint_forget_counts(rp_checkpoint *checkpoint) {
    checkpoint->queue_count = checkpoint->entry_count = checkpoint->begin_bytes = checkpoint->index_count = -1;
}

int rp_checkpoint_read(const rp_file_ops *ops, const char *path, rp_checkpoint *checkpoint, rp_error *error) {
    memset(checkpoint, 0, sizeof *checkpoint);
    checkpoint->flushed_offset = checkpoint->queues_offset = checkpoint->index_offset = -1;
    rp_checkpoint_forget_counts(checkpoint);
    int fd = ops->open(ops->context, path, O_RDONLY, 0);
    if (fd < 0) {
        return errno == ENOENT ? RP_OK : failed(error, path, "open");
    }
    int64_t size = ops->read_at(ops->context, fd, checkpoint->foreign, RP_CHECKPOINT_SIZE, 0);
    int rc = size < 0 ? failed(error, path, "read") : RP_OK;
    ops->close(ops->context, fd);
    if (size == RP_CHECKPOINT_SIZE) {
        decode(checkpoint);
    } else {
        memset(checkpoint->foreign, 0, sizeof checkpoint->foreign);
    }
    return rc;
}

static void encode(const rp_checkpoint *checkpoint, uint8_t *page) {
    const int64_t theirs[6] = {checkpoint->log_time_ms,           checkpoint->queues_time_ms, checkpoint->index_time_ms,
                               checkpoint->master_flushed_offset, checkpoint->confirm_offset, checkpoint->queues_offset};
    const int64_t ours[OURS_COUNT] = {checkpoint->flushed_offset, checkpoint->queues_offset, checkpoint->index_offset,
                                      checkpoint->queue_count,    checkpoint->entry_count,   checkpoint->begin_bytes,
                                      checkpoint->index_count};
    memcpy(page, checkpoint->foreign, RP_CHECKPOINT_SIZE);
    for (int i = 0; i < 6; i++) {
        rp_put_u64(page + 8 * i, (uint64_t)theirs[i]);
    }
    rp_put_u64(page + OURS, checkpoint->is_exact ? OURS_MAGIC : 0);
    memcpy(page + OURS + 8, page, 24);
    for (int i = 0; i < OURS_COUNT; i++) {
        rp_put_u64(page + OURS + 32 + 8 * i, (uint64_t)ours[i]);
    }
    rp_put_u32(page + OURS + OURS_SIZE, rp_crc32(0, page + OURS, OURS_SIZE));
}

int rp_checkpoint_write(const rp_file_ops *ops, const char *path, const rp_checkpoint *checkpoint, rp_error *error) {
    uint8_t page[RP_CHECKPOINT_SIZE];
    encode(checkpoint, page);
    int fd = ops->open(ops->context, path, O_RDWR | O_CREAT, 0644);
    if (fd < 0) {
        return failed(error, path, "open");
    }
    int rc = RP_OK;
    if (rp_file_write_all(ops, fd, page, sizeof page, 0) != 0) {
        rc = failed(error, path, "write");
    } else if (ops->sync_data(ops->context, fd) != 0) {
        rc = failed(error, path, "sync");
    }
    ops->close(ops->context, fd);
    return rc;
}
