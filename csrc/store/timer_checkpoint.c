/* timer_checkpoint.c: see timer_checkpoint.h. */
#include "timer_checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "../base/crc32.h"
#include "store_path.h"

#define THEIRS_COUNT 7
#define COPIED_SIZE 32 /* of RocketMQ's fields: times and offsets */
#define OURS 256
#define OURS_COUNT 5
#define OURS_SIZE (8 + COPIED_SIZE + 8 * OURS_COUNT)
#define SECTOR_SIZE 512 /* the smallest unit that a disk writes atomically */
#define OURS_MAGIC 0x726F636B74696D65u /* "rocktime" */

_Static_assert(8 * THEIRS_COUNT == RP_TIMER_CHECKPOINT_WIRE_SIZE, "what goes to a slave is what RocketMQ's file holds");
_Static_assert(OURS + OURS_SIZE + 4 <= SECTOR_SIZE, "a checkpoint is one sector");

static int failed(rp_error *error, const char *path, const char *what) {
    int os_errno = errno, status = os_errno == EMFILE || os_errno == ENFILE ? RP_E_BUSY : rp_status_from_errno(os_errno);
    return rp_error_set(error, status, os_errno, path, -1, "cannot %s the checkpoint of timed messages: %s%s", what, strerror(os_errno),
                        rp_making_remedy(os_errno, path));
}

static int64_t get(const uint8_t *bytes, uint32_t at) { return (int64_t)rp_get_u64(bytes + at); }

static int64_t get_position(const uint8_t *bytes, uint32_t at) {
    int64_t value = get(bytes, at);
    return value < 0 ? 0 : value;
}

static void decode_theirs(const uint8_t *bytes, rp_timer_checkpoint *checkpoint) {
    checkpoint->read_time_ms = get_position(bytes, 0);
    checkpoint->log_flushed_position = get_position(bytes, 8);
    checkpoint->queue_offset = get_position(bytes, 16);
    checkpoint->master_queue_offset = get_position(bytes, 24);
}

static void decode_version(const uint8_t *bytes, rp_timer_checkpoint *checkpoint) {
    checkpoint->state_version = get(bytes, 32);
    checkpoint->version_timestamp_ms = get(bytes, 40);
    checkpoint->version_counter = get(bytes, 48);
}

static void decode_ours(rp_timer_checkpoint *checkpoint) {
    const uint8_t *ours = checkpoint->foreign + OURS, *values = ours + 8 + COPIED_SIZE;
    if (rp_get_u64(ours) != OURS_MAGIC || rp_crc32(0, ours, OURS_SIZE) != rp_get_u32(ours + OURS_SIZE) ||
        memcmp(ours + 8, checkpoint->foreign, COPIED_SIZE) != 0) {
        return;
    }
    checkpoint->precision_ms = (int32_t)get(values, 0);
    checkpoint->log_end = get(values, 8);
    checkpoint->wheel_crc = get(values, 16);
    checkpoint->anew_queue_offset = get(values, 24);
    checkpoint->anew_read_time_ms = get(values, 32);
}

static void forget(rp_timer_checkpoint *checkpoint) {
    memset(checkpoint, 0, sizeof *checkpoint);
    checkpoint->log_end = -1;
}

int rp_timer_checkpoint_read(const rp_file_ops *ops, const char *path, rp_timer_checkpoint *checkpoint, rp_error *error) {
    forget(checkpoint);
    int fd = ops->open(ops->context, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) {
        return errno == ENOENT ? RP_OK : failed(error, path, "open");
    }
    int64_t size = ops->read_at(ops->context, fd, checkpoint->foreign, RP_TIMER_CHECKPOINT_SIZE, 0);
    int rc = size < 0 ? failed(error, path, "read") : RP_OK;
    ops->close(ops->context, fd);
    if (size != RP_TIMER_CHECKPOINT_SIZE) {
        forget(checkpoint);
        return rc;
    }
    checkpoint->is_there = 1;
    decode_theirs(checkpoint->foreign, checkpoint);
    decode_version(checkpoint->foreign, checkpoint);
    decode_ours(checkpoint);
    return RP_OK;
}

static void encode_page(const rp_timer_checkpoint *checkpoint, uint8_t *page) {
    const int64_t values[OURS_COUNT] = {checkpoint->precision_ms, checkpoint->log_end, checkpoint->wheel_crc, checkpoint->anew_queue_offset,
                                        checkpoint->anew_read_time_ms};
    memcpy(page, checkpoint->foreign, RP_TIMER_CHECKPOINT_SIZE);
    rp_timer_checkpoint_encode(checkpoint, page);
    uint8_t *ours = page + OURS;
    rp_put_u64(ours, OURS_MAGIC);
    memcpy(ours + 8, page, COPIED_SIZE);
    for (int i = 0; i < OURS_COUNT; i++) {
        rp_put_u64(ours + 8 + COPIED_SIZE + 8 * i, (uint64_t)values[i]);
    }
    rp_put_u32(ours + OURS_SIZE, rp_crc32(0, ours, OURS_SIZE));
}

static int sync_parent(const rp_file_ops *ops, const char *path, rp_error *error) {
    char parent[RP_PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return RP_OK; /* a name in the working directory, which no store uses */
    }
    snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
    return ops->sync_directory(ops->context, parent) != 0 ? failed(error, path, "sync the directory of") : RP_OK;
}

int rp_timer_checkpoint_write(const rp_file_ops *ops, const char *path, rp_timer_checkpoint *checkpoint, rp_error *error) {
    uint8_t page[RP_TIMER_CHECKPOINT_SIZE];
    encode_page(checkpoint, page);
    int fd = ops->open(ops->context, path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
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
    if (rc == RP_OK && !checkpoint->is_there) {
        rc = sync_parent(ops, path, error);
    }
    if (rc == RP_OK) {
        checkpoint->is_there = 1;
    }
    return rc;
}

void rp_timer_checkpoint_encode(const rp_timer_checkpoint *checkpoint, uint8_t *bytes) {
    const int64_t theirs[THEIRS_COUNT] = {
        checkpoint->read_time_ms,  checkpoint->log_flushed_position, checkpoint->queue_offset,   checkpoint->master_queue_offset,
        checkpoint->state_version, checkpoint->version_timestamp_ms, checkpoint->version_counter};
    for (int i = 0; i < THEIRS_COUNT; i++) {
        rp_put_u64(bytes + 8 * i, (uint64_t)theirs[i]);
    }
}

int rp_timer_checkpoint_decode(const uint8_t *bytes, uint32_t size, rp_timer_checkpoint *checkpoint) {
    forget(checkpoint);
    if (size < COPIED_SIZE) {
        return RP_E_PROTOCOL;
    }
    decode_theirs(bytes, checkpoint);
    if (size >= RP_TIMER_CHECKPOINT_WIRE_SIZE) {
        decode_version(bytes, checkpoint);
    }
    return RP_OK;
}
