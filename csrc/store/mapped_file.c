/* mapped_file.c: open, map, pin, unmap. See mapped_file.h. */
#include "mapped_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../base/map_hold.h"
#include "mapped_file_inl.h"
#include "store_path.h"

rp_mapped_file *rp_mapped_file_new(const rp_file_ops *ops, int64_t base_offset, uint64_t size) {
    rp_mapped_file *file = calloc(1, sizeof *file);
    if (file != NULL) {
        file->ops = ops;
        file->base_offset = base_offset;
        file->size = size;
        file->fd = -1;
        atomic_init(&file->address, NULL);
        atomic_init(&file->pins, 1);
    }
    return file;
}

void rp_mapped_file_free(rp_mapped_file *file) {
    assert(file == NULL || atomic_load(&file->pins) == 0);
    free(file);
}

static int open_failed(rp_error *error, const char *path, const char *what) {
    int os_errno = errno, status = os_errno == ENOENT ? RP_E_NOT_FOUND : rp_status_from_errno(os_errno);
    const char *remedy = os_errno == ENOMEM ? "; raise vm.max_map_count, each file of the store is a map (sysctl), or free memory"
                                            : rp_making_remedy(os_errno, path);
    return rp_error_set(error, status, os_errno, path, -1, "cannot %s: %s%s", what, strerror(os_errno), remedy);
}

int rp_mapped_file_map(rp_mapped_file *file, const char *path, int mode, int create, rp_error *error) {
    const rp_file_ops *ops = file->ops;
    int flags = mode == RP_MAP_READ ? O_RDONLY : O_RDWR | (create ? O_CREAT | O_TRUNC : 0);
    int fd = ops->open(ops->context, path, flags, 0644);
    bool is_writable = mode != RP_MAP_READ;
    if (fd < 0 && errno == EROFS && is_writable && !create) { /* a file system that has failed and become read-only: readers continue */
        is_writable = false;
        fd = ops->open(ops->context, path, O_RDONLY, 0);
    }
    if (fd < 0) {
        return open_failed(error, path, create ? "create the file" : "open the file");
    }
    if (create && ops->truncate(ops->context, fd, (int64_t)file->size) != 0) {
        int rc = open_failed(error, path, "give the file its length");
        ops->close(ops->context, fd);
        ops->unlink(ops->context, path); /* a file of another length would not load */
        return rc;
    }
    uint8_t *address = ops->map(ops->context, fd, file->size, is_writable);
    if (address == NULL) {
        int rc = open_failed(error, path, "map the file");
        ops->close(ops->context, fd);
        if (create) {
            ops->unlink(ops->context, path);
        }
        return rc;
    }
    file->is_writable = is_writable;
    file->copies_on_write = is_writable && rp_map_hold_is_needed(fd);
    if (mode == RP_MAP_WRITE_ONLY_MAP) {
        ops->close(ops->context, fd);
        fd = -1;
    }
    file->fd = fd;
    atomic_store_explicit(&file->address, address, memory_order_release);
    return RP_OK;
}

/* Rewrites a byte unchanged, to learn the error that a store cannot report. Returns 0 also if there is none. */
static int write_same(const rp_file_ops *ops, const char *path, int64_t at) {
    int fd = ops->open(ops->context, path, O_RDWR, 0);
    if (fd < 0) {
        return errno;
    }
    uint8_t byte;
    int64_t done = ops->read_at(ops->context, fd, &byte, 1, at);
    done = done == 1 ? ops->write_at(ops->context, fd, &byte, 1, at) : done; /* 0: the file ends before it */
    int os_errno = done < 0 ? errno : 0;
    ops->close(ops->context, fd);
    return os_errno;
}

static int is_cut_short(rp_error *error, const char *path, int64_t size) {
    return rp_error_set(error, RP_E_IO, EIO, path, size,
                        "the file was cut short from outside, to %lld bytes: stop the broker and put it back", (long long)size);
}

int rp_mapped_file_check_length(const rp_mapped_file *file, const char *directory, int fd, rp_error *error) {
    struct stat info;
    if (fstat(fd, &info) != 0 || info.st_size >= (int64_t)file->size) {
        return RP_OK;
    }
    char path[RP_PATH_MAX];
    int rc = rp_path_of_offset(path, directory, file->base_offset, error);
    return rc == RP_OK ? is_cut_short(error, path, (int64_t)info.st_size) : rc;
}

/* Fills in why bytes [at, end) cannot be stored to: the file may have been cut short of them. */
static int no_space(rp_error *error, const char *path, int64_t at, int64_t end, int os_errno) {
    struct stat info;
    if (stat(path, &info) == 0 && info.st_size < end) {
        return is_cut_short(error, path, (int64_t)info.st_size);
    }
    return rp_error_set(error, rp_status_from_errno(os_errno), os_errno, path, at, "no space for bytes of the mapped file: %s; %s",
                        strerror(os_errno), rp_write_remedy(os_errno, path));
}

static __attribute__((noinline)) int hold(const rp_mapped_file *file, const char *directory, int64_t at, size_t size, rp_error *error) {
    uint8_t *address = rp_mapped_file_address(file) + at;
    size_t held = file->is_writable ? rp_map_hold(address, size) : 0;
    if (held == size) {
        return RP_OK;
    }
    char path[RP_PATH_MAX];
    int rc = rp_path_of_offset(path, directory, file->base_offset, error);
    if (rc != RP_OK) {
        return rc;
    }
    if (!file->is_writable) { /* permanent: a store through its present map would end the process */
        return rp_error_set(error, RP_E_READ_ONLY, EROFS, path, at,
                            "the file was opened on a read-only file system: mend that and mount it for writing, then restart the broker");
    }
    int os_errno = write_same(file->ops, path, at + (int64_t)held);
    if (os_errno == 0 && rp_map_hold(address, size) == size) {
        return RP_OK; /* there is space again */
    }
    os_errno = os_errno == 0 ? ENOSPC : os_errno; /* a write found space, perhaps in a reservation, but a store does not */
    return no_space(error, path, at + (int64_t)held, at + (int64_t)size, os_errno);
}

int rp_mapped_file_hold(const rp_mapped_file *file, const char *directory, int64_t at, size_t size, rp_error *error) {
    return __builtin_expect(file->is_writable && !file->copies_on_write, 1) ? RP_OK : hold(file, directory, at, size, error);
}

int rp_mapped_file_store(const rp_mapped_file *file, const char *directory, int64_t at, size_t size, void (*store)(void *context),
                         void *context, rp_error *error) {
    if (!file->copies_on_write) {
        store(context);
        return RP_OK;
    }
    if (rp_map_store(rp_mapped_file_address(file) + at, size, store, context)) {
        return RP_OK;
    }
    char path[RP_PATH_MAX];
    int rc = rp_path_of_offset(path, directory, file->base_offset, error);
    return rc == RP_OK ? no_space(error, path, at, at + (int64_t)size, ENOSPC) : rc;
}

typedef struct zeros {
    uint8_t *at;
    size_t size;
} zeros;

static void store_zeros(void *context) {
    const zeros *bytes = context;
    memset(bytes->at, 0, bytes->size);
}

int rp_mapped_file_clear(const rp_mapped_file *file, const char *directory, int64_t at, size_t size, rp_error *error) {
    zeros bytes = {rp_mapped_file_address(file) + at, size};
    return rp_mapped_file_store(file, directory, at, size, store_zeros, &bytes, error);
}

int rp_mapped_file_pin(rp_mapped_file *file) {
    int32_t pins = atomic_load_explicit(&file->pins, memory_order_relaxed);
    while (pins > 0) {
        /* Acquire: nothing that the last unmapper did is needed, but the fields set before the row published the file are. */
        if (atomic_compare_exchange_weak_explicit(&file->pins, &pins, pins + 1, memory_order_acquire, memory_order_relaxed)) {
            return 1;
        }
    }
    return 0;
}

void rp_mapped_file_release(rp_mapped_file *file) {
    int32_t pins = atomic_fetch_sub_explicit(&file->pins, 1, memory_order_acq_rel);
    assert(pins > 0);
    if (pins != 1) {
        return;
    }
    uint8_t *address = rp_mapped_file_address(file);
    if (address != NULL) {
        atomic_store_explicit(&file->address, NULL, memory_order_relaxed);
        file->ops->unmap(file->ops->context, address, file->size);
        if (file->fd >= 0) {
            file->ops->close(file->ops->context, file->fd);
            file->fd = -1;
        }
    }
}
