/* timing_wheel_file.c: the wheel's file: read whole at open; a flush writes changed pages. See timing_wheel.h. */
#include "timing_wheel_inl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../base/bytes_inl.h"
#include "../base/crc32.h"
#include "../base/page.h"
#include "store_path.h"

#define PIECE_PAGES 16
#define PIECE_SIZE (PIECE_PAGES * PAGE_SIZE)

static int failed(const rp_timing_wheel *wheel, const char *what, rp_error *error) {
    int os_errno = errno, status = os_errno == EMFILE || os_errno == ENFILE ? RP_E_BUSY : rp_status_from_errno(os_errno);
    return rp_error_set(error, status, os_errno, wheel->path, -1, "cannot %s the timing wheel: %s%s", what, strerror(os_errno),
                        rp_making_remedy(os_errno, wheel->path));
}

/* After a recovery RocketMQ may write a count below 0; it is read as 0. */
int rp_timing_wheel_decode_slot(const uint8_t *bytes, uint32_t index, int32_t precision_ms, wheel_slot *slot) {
    int64_t units = (int64_t)rp_get_u64(bytes);
    int32_t count = (int32_t)rp_get_u32(bytes + 24);
    slot->first = (int64_t)rp_get_u64(bytes + 8);
    slot->last = (int64_t)rp_get_u64(bytes + 16);
    slot->magic = (int32_t)rp_get_u32(bytes + 28);
    atomic_init(&slot->units, units);
    atomic_init(&slot->count, count < 0 ? 0 : count);
    return units >= 0 && units <= INT64_MAX / precision_ms && (units == 0 || units % RP_TIMING_WHEEL_SLOTS == index) && slot->first >= 0 &&
           slot->last >= slot->first;
}

static void encode_slot(const wheel_slot *slot, uint8_t *bytes) {
    rp_put_u64(bytes, (uint64_t)atomic_load_explicit(&slot->units, memory_order_relaxed));
    rp_put_u64(bytes + 8, (uint64_t)slot->first);
    rp_put_u64(bytes + 16, (uint64_t)slot->last);
    rp_put_u32(bytes + 24, (uint32_t)atomic_load_explicit(&slot->count, memory_order_relaxed));
    rp_put_u32(bytes + 28, (uint32_t)slot->magic);
}

static int is_zero(const uint8_t *bytes, size_t size) { return bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0; }

/* 1; 0: some slot cannot be valid. */
static int decode_piece(rp_timing_wheel *wheel, const uint8_t *bytes, int64_t offset, int64_t size) {
    for (int64_t at = 0; at < size; at += PAGE_SIZE) {
        if (is_zero(bytes + at, PAGE_SIZE)) {
            continue;
        }
        for (uint32_t i = 0; i < PAGE_SLOTS; i++) {
            uint32_t index = (uint32_t)((offset + at) / RP_TIMING_WHEEL_SLOT_SIZE) + i;
            wheel_slot slot;
            if (!rp_timing_wheel_decode_slot(bytes + at + (int64_t)i * RP_TIMING_WHEEL_SLOT_SIZE, index, wheel->precision_ms, &slot)) {
                return 0;
            }
            if (atomic_load_explicit(&slot.units, memory_order_relaxed) != 0) {
                rp_timing_wheel_store(wheel, index, &slot);
            }
        }
    }
    return 1;
}

/* 1; 0: the file is no wheel; -1 with errno. */
static int read_slots(rp_timing_wheel *wheel, int fd, uint8_t *piece) {
    for (int64_t offset = 0; (offset = rp_file_next_data(fd, offset, WHEEL_SIZE)) < WHEEL_SIZE;) {
        offset -= offset % PAGE_SIZE;
        int64_t wanted = WHEEL_SIZE - offset < PIECE_SIZE ? WHEEL_SIZE - offset : PIECE_SIZE;
        int64_t got = wheel->ops->read_at(wheel->ops->context, fd, piece, (size_t)wanted, offset);
        if (got < 0) {
            return -1;
        }
        if (got != wanted || !decode_piece(wheel, piece, offset, wanted)) {
            return 0;
        }
        offset += wanted;
    }
    return 1;
}

static int read_file(rp_timing_wheel *wheel, rp_error *error) {
    const rp_file_ops *ops = wheel->ops;
    uint8_t *piece = malloc(PIECE_SIZE);
    if (piece == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, 0, wheel->path, -1, "no memory to read the timing wheel");
    }
    int fd = ops->open(ops->context, wheel->path, O_RDONLY | O_CLOEXEC, 0), rc = RP_OK, is_whole = 0;
    if (fd < 0) {
        rc = errno == ENOENT ? RP_OK : failed(wheel, "open", error);
    } else {
        off_t size = lseek(fd, 0, SEEK_END);
        is_whole = size == WHEEL_SIZE ? read_slots(wheel, fd, piece) : size < 0 ? -1 : 0;
        is_whole = is_whole < 0 && errno == EIO ? 0 : is_whole; /* a lost block: the timer log can rebuild it */
        rc = is_whole < 0 ? failed(wheel, "read", error) : RP_OK;
        ops->close(ops->context, fd);
    }
    free(piece);
    memset(wheel->changed, 0, sizeof wheel->changed);
    if (rc == RP_OK && is_whole == 0) {
        rp_timing_wheel_clear_all(wheel);
    }
    return rc;
}

int rp_timing_wheel_open(const rp_file_ops *ops, const char *path, int32_t precision_ms, rp_timing_wheel **opened, rp_error *error) {
    *opened = NULL;
    if (precision_ms < 1) {
        return rp_error_set(error, RP_E_INVALID, 0, path, -1, "timerPrecisionMs is %d: set it to 1 or more", precision_ms);
    }
    rp_timing_wheel *wheel = rp_timing_wheel_create(ops, path, precision_ms);
    if (wheel == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, path, -1, "no memory for the timing wheel");
    }
    int rc = read_file(wheel, error);
    if (rc != RP_OK) {
        rp_timing_wheel_close(wheel);
        return rc;
    }
    *opened = wheel;
    return RP_OK;
}

static void encode_page(const rp_timing_wheel *wheel, uint32_t page, uint8_t *bytes) {
    for (uint32_t i = 0; i < PAGE_SLOTS; i++) {
        encode_slot(&wheel->slots[page * PAGE_SLOTS + i], bytes + (size_t)i * RP_TIMING_WHEEL_SLOT_SIZE);
    }
}

uint32_t rp_timing_wheel_crc(const rp_timing_wheel *wheel) {
    uint8_t bytes[4 + PAGE_SIZE];
    uint32_t crc = 0;
    for (uint32_t page = 0; page < WHEEL_PAGES; page++) {
        if (wheel->used[page] != 0) {
            rp_put_u32(bytes, page);
            encode_page(wheel, page, bytes + 4);
            crc = rp_crc32(crc, bytes, sizeof bytes);
        }
    }
    return crc;
}

static int is_changed(const rp_timing_wheel *wheel, uint32_t page) { return (wheel->changed[page / 64] >> page % 64 & 1) != 0; }

/* Must the page be written? In the wheel's own file if it has changed; in a new file, which is all zeros, if it holds a slot. */
static int is_wanted(const rp_timing_wheel *wheel, uint32_t page) {
    return wheel->is_new ? wheel->used[page] != 0 : is_changed(wheel, page);
}

static int write_pages(const rp_timing_wheel *wheel, int fd, uint8_t *piece) {
    for (uint32_t page = 0; page < WHEEL_PAGES; page++) {
        uint32_t count = 0;
        for (; count < PIECE_PAGES && page + count < WHEEL_PAGES && is_wanted(wheel, page + count); count++) {
            encode_page(wheel, page + count, piece + (size_t)count * PAGE_SIZE);
        }
        if (count > 0 && rp_file_write_all(wheel->ops, fd, piece, (size_t)count * PAGE_SIZE, (int64_t)page * PAGE_SIZE) != 0) {
            return -1;
        }
        page += count > 0 ? count - 1 : 0;
    }
    return wheel->ops->sync_data(wheel->ops->context, fd);
}

/* Writes a new wheel under another name and renames it over the old one, so that a kill in between leaves no half of a wheel. */
static int write_anew(const rp_timing_wheel *wheel, uint8_t *piece) {
    const rp_file_ops *ops = wheel->ops;
    char fresh[RP_PATH_MAX], directory[RP_PATH_MAX];
    const char *slash = strrchr(wheel->path, '/');
    if (snprintf(fresh, sizeof fresh, "%s.new", wheel->path) >= (int)sizeof fresh) {
        errno = ENAMETOOLONG;
        return -1;
    }
    snprintf(directory, sizeof directory, "%.*s", slash == NULL ? 1 : (int)(slash - wheel->path), slash == NULL ? "." : wheel->path);
    int fd = ops->open(ops->context, fresh, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        return -1;
    }
    int rc = ops->truncate(ops->context, fd, WHEEL_SIZE) != 0 ? -1 : write_pages(wheel, fd, piece), os_errno = errno;
    ops->close(ops->context, fd);
    if (rc != 0) {
        ops->unlink(ops->context, fresh);
        errno = os_errno;
        return -1;
    }
    return ops->rename(ops->context, fresh, wheel->path) != 0 ? -1 : ops->sync_directory(ops->context, directory);
}

static int write_changed(const rp_timing_wheel *wheel, uint8_t *piece) {
    const rp_file_ops *ops = wheel->ops;
    int fd = ops->open(ops->context, wheel->path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    int rc = write_pages(wheel, fd, piece), os_errno = errno;
    ops->close(ops->context, fd);
    errno = os_errno;
    return rc;
}

/* True if these pages held slots and now hold none. */
static int are_emptied(const rp_timing_wheel *wheel, uint32_t first, uint32_t count) {
    int any = 0;
    for (uint32_t page = first; page < first + count; page++) {
        if (wheel->used[page] != 0) {
            return 0;
        }
        any |= is_changed(wheel, page);
    }
    return any;
}

/* Gives back the memory of pages without slots. The kernel takes whole pages of its own size, each of which may be many of the wheel's. */
static void give_back(rp_timing_wheel *wheel) {
    const uint32_t at_once = (uint32_t)(rp_page_size() / PAGE_SIZE);
    for (uint32_t page = 0; page < WHEEL_PAGES; page += at_once) {
        uint32_t count = WHEEL_PAGES - page < at_once ? WHEEL_PAGES - page : at_once;
        if (are_emptied(wheel, page, count)) {
            madvise(wheel->slots + (size_t)page * PAGE_SLOTS, (size_t)count * PAGE_SIZE, MADV_DONTNEED);
        }
    }
}

static int has_changed(const rp_timing_wheel *wheel) {
    uint64_t any = 0;
    for (uint32_t i = 0; i < sizeof wheel->changed / sizeof wheel->changed[0]; i++) {
        any |= wheel->changed[i];
    }
    return wheel->is_new || any != 0;
}

int rp_timing_wheel_flush(rp_timing_wheel *wheel, rp_error *error) {
    if (!has_changed(wheel)) {
        return RP_OK;
    }
    uint8_t *piece = malloc(PIECE_SIZE);
    if (piece == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, wheel->path, -1, "no memory to write the timing wheel");
    }
    int rc = wheel->is_new ? write_anew(wheel, piece) : write_changed(wheel, piece);
    int os_errno = errno;
    free(piece);
    if (rc != 0) {
        wheel->is_new |= os_errno == ENOENT; /* somebody removed the file: the whole is written again */
        errno = os_errno;
        return failed(wheel, "write", error);
    }
    give_back(wheel);
    memset(wheel->changed, 0, sizeof wheel->changed);
    wheel->is_new = 0;
    return RP_OK;
}
