/* file_ops.c: the system's file operations: one function for each system call; calls interrupted by a signal are repeated. */
#include "file_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "page_inl.h"

#define PIPE_COPY_BYTES (16 * 1024)
#define ZEROS_BYTES (64 * 1024)
#define LOOK_BYTES (64 * 1024)
#define AROUND_BYTES ((size_t)64 * 1024) /* pages in memory this close to a touched one are mapped together with it (fault_around_bytes) */
#define AT_ONCE_BYTES ((size_t)1024 * 1024)
#define WRITE_OUT_BYTES ((size_t)16 * 1024 * 1024)
#define WRITE_AND_WAIT (SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER)
#define UNMAP_BYTES_MIN ((size_t)64 * 1024) /* below this the call costs what it saves */
#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342 /* first defined in the headers of Linux 5.15 */
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; glibc headers of that age lack it */
#endif

static const rp_file_ops system_ops;

/* True for a FIFO, whose open would wait for the other end for ever; a store has none. Opened for both directions it does not wait. */
static bool would_wait(const char *path, int flags) {
    struct stat status;
    return (flags & O_ACCMODE) != O_RDWR && stat(path, &status) == 0 && S_ISFIFO(status.st_mode);
}

static int system_open(void *context, const char *path, int flags, uint32_t mode) {
    (void)context;
    int fd;
    if (would_wait(path, flags)) {
        errno = ENXIO; /* the same error as for a socket */
        return -1;
    }
    do {
        fd = open(path, flags | O_CLOEXEC, (mode_t)mode);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

/* Not repeated after an interruption: on Linux the descriptor is closed either way. */
static int system_close(void *context, int fd) {
    (void)context;
    int rc = close(fd);
    return rc != 0 && errno == EINTR ? 0 : rc;
}

static int system_allocate(void *context, int fd, int64_t offset, int64_t size) {
    (void)context;
    int rc;
    do {
        rc = fallocate(fd, 0, offset, size);
    } while (rc != 0 && errno == EINTR);
    if (rc == 0 || (errno != EOPNOTSUPP && errno != ENOSYS)) {
        return rc;
    }
    struct stat status;
    if (fstat(fd, &status) != 0 || (status.st_size < offset + size && ftruncate(fd, offset + size) != 0)) {
        return -1;
    }
    return 1;
}

static int system_truncate(void *context, int fd, int64_t size) {
    (void)context;
    int rc;
    do {
        rc = ftruncate(fd, size);
    } while (rc != 0 && errno == EINTR);
    return rc;
}

/* For a file system that cannot punch holes. */
static int clear_data(int fd, int64_t offset, int64_t end) {
    while ((offset = rp_file_next_data(fd, offset, end)) < end) {
        int64_t size = end - offset < ZEROS_BYTES ? end - offset : ZEROS_BYTES;
        if (rp_file_write_zeros(&system_ops, fd, size, offset) != 0) {
            return -1;
        }
        offset += size;
    }
    return 0;
}

static int system_clear(void *context, int fd, int64_t offset, int64_t size) {
    (void)context;
    int rc;
    do {
        rc = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, size);
    } while (rc != 0 && errno == EINTR);
    return rc != 0 && (errno == EOPNOTSUPP || errno == ENOSYS) ? clear_data(fd, offset, offset + size) : rc;
}

static int64_t system_read_at(void *context, int fd, void *target, size_t size, int64_t offset) {
    (void)context;
    ssize_t count;
    do {
        count = pread(fd, target, size, offset);
    } while (count < 0 && errno == EINTR);
    return count;
}

static int64_t system_write_at(void *context, int fd, const void *source, size_t size, int64_t offset) {
    (void)context;
    ssize_t count;
    do {
        count = pwrite(fd, source, size, offset);
    } while (count < 0 && errno == EINTR);
    return count;
}

/* For a file system that cannot splice. Bytes that were read and not written are lost; the pipe's reader ends the connection. */
static int64_t copy_from_pipe(int pipe_fd, int fd, size_t size, int64_t offset) {
    uint8_t bytes[PIPE_COPY_BYTES];
    ssize_t count;
    do {
        count = read(pipe_fd, bytes, size < sizeof bytes ? size : sizeof bytes);
    } while (count < 0 && errno == EINTR);
    if (count <= 0) {
        return count;
    }
    return rp_file_write_all(&system_ops, fd, bytes, (size_t)count, offset) == 0 ? count : -1;
}

static int64_t system_splice_at(void *context, int pipe_fd, int fd, size_t size, int64_t offset) {
    (void)context;
    off_t at = (off_t)offset;
    ssize_t count;
    do {
        count = splice(pipe_fd, NULL, fd, &at, size, SPLICE_F_MOVE);
    } while (count < 0 && errno == EINTR);
    return count < 0 && errno == EINVAL ? copy_from_pipe(pipe_fd, fd, size, offset) : count;
}

/* Never repeated after a failure: the kernel has cleared the error and perhaps dropped the pages, so a second call would report success
 * wrongly. */
static int system_sync_data(void *context, int fd) {
    (void)context;
    int rc;
    do {
        rc = fdatasync(fd);
    } while (rc != 0 && errno == EINTR);
    return rc;
}

static void *system_map(void *context, int fd, size_t size, int writable) {
    (void)context;
    void *address = mmap(NULL, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    return address == MAP_FAILED ? NULL : address;
}

static int system_unmap(void *context, void *address, size_t size) {
    (void)context;
    return munmap(address, size);
}

static int advise(uint8_t *address, size_t size, int advice) {
    int rc;
    do {
        rc = madvise(address, size, advice);
    } while (rc != 0 && errno == EINTR);
    return rc;
}

/* For at most AT_ONCE_BYTES, from a page's start. */
static bool is_in_memory(const uint8_t *address, size_t size) {
    unsigned char pages[AT_ONCE_BYTES / RP_PAGE_SIZE_MIN], all = 1;
    size_t page_size = rp_page_size();
    if (mincore((void *)(uintptr_t)address, size, pages) != 0) {
        return false;
    }
    for (size_t i = 0; i < (size + page_size - 1) / page_size; i++) {
        all &= pages[i];
    }
    return all & 1;
}

/* For at most AT_ONCE_BYTES. Populating visits every page, even those that came with the one before. */
static int wait_for_pages(uint8_t *address, size_t size) {
    size_t at = 0;
    int rc = 0;
    while (at < size && rc == 0) {
        rc = advise(address + at, 1, MADV_POPULATE_READ);
        at += AROUND_BYTES - (uintptr_t)(address + at) % AROUND_BYTES;
    }
    return rc != 0 || is_in_memory(address, size) ? rc : advise(address, size, MADV_POPULATE_READ);
}

typedef struct page_range {
    uint8_t *start; /* a page's */
    size_t size;
} page_range;

static page_range pages_of(const void *address, size_t size) {
    uintptr_t before = (uintptr_t)address % rp_page_size();
    return (page_range){(uint8_t *)((uintptr_t)address - before), size + before};
}

static int system_populate(void *context, void *address, size_t size) {
    (void)context;
    page_range pages = pages_of(address, size);
    return advise(pages.start, pages.size, MADV_POPULATE_WRITE);
}

/* Cuts AT_ONCE_BYTES, or what is left, off the front. */
static page_range take_piece(page_range *pages) {
    page_range piece = {pages->start, pages->size < AT_ONCE_BYTES ? pages->size : AT_ONCE_BYTES};
    pages->start += piece.size;
    pages->size -= piece.size;
    return piece;
}

static int system_read_ahead(void *context, void *address, size_t size, int wait) {
    (void)context;
    page_range pages = pages_of(address, size);
    if (wait == RP_READ_WAIT_MAPPED) {
        return advise(pages.start, pages.size, MADV_POPULATE_READ);
    }
    int rc = 0;
    while (pages.size > 0 && rc == 0) {
        page_range piece = take_piece(&pages);
        rc = wait == RP_READ_ASK ? advise(piece.start, piece.size, MADV_WILLNEED) : wait_for_pages(piece.start, piece.size);
    }
    return rc;
}

static int system_in_memory(void *context, const void *address, size_t size) {
    (void)context;
    page_range pages = pages_of(address, size);
    bool all = true;
    while (pages.size > 0 && all) {
        page_range piece = take_piece(&pages);
        all = is_in_memory(piece.start, piece.size);
    }
    return all;
}

static void leave_page_tables(void *address, size_t size) {
    size_t whole_pages = (size_t)rp_page_begin((int64_t)size);
    if (whole_pages >= UNMAP_BYTES_MIN) {
        (void)madvise(address, whole_pages, MADV_DONTNEED); /* of a shared mapping; without it the sync is slower, nothing else */
    }
}

/* True if the call is not possible here, rather than a write having failed: an old kernel, a sandbox, no regular file. */
static bool is_refused(int os_errno) { return os_errno == ENOSYS || os_errno == EPERM || os_errno == EINVAL || os_errno == ESPIPE; }

int rp_file_write_out(int fd, void *address, int64_t offset, size_t size) {
    uint8_t *start = address;
    for (size_t at = 0; at < size; at += WRITE_OUT_BYTES) {
        size_t piece = size - at < WRITE_OUT_BYTES ? size - at : WRITE_OUT_BYTES;
        leave_page_tables(start + at, piece);
        bool is_last = at + piece == size; /* the sync that follows writes it */
        if (fd >= 0 && !is_last && sync_file_range(fd, offset + (int64_t)at, (off_t)piece, WRITE_AND_WAIT) != 0 && !is_refused(errno)) {
            return -1;
        }
    }
    return 0;
}

void rp_file_begin_write_out(int fd, int64_t offset, size_t size) { (void)sync_file_range(fd, offset, (off_t)size, SYNC_FILE_RANGE_WRITE); }

static int system_sync_range(void *context, int fd, void *address, int64_t offset, size_t size) {
    (void)context;
    return rp_file_write_out(fd, address, offset, size) != 0 ? -1 : msync(address, size, MS_SYNC);
}

static int system_rename(void *context, const char *source, const char *target) {
    (void)context;
    return rename(source, target);
}

static int system_unlink(void *context, const char *path) {
    (void)context;
    return unlink(path);
}

static int system_sync_directory(void *context, const char *path) {
    int fd = system_open(context, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) {
        return -1;
    }
    int rc;
    do {
        rc = fsync(fd);
    } while (rc != 0 && errno == EINTR);
    int saved = errno;
    close(fd);
    errno = saved;
    return rc;
}

/* Linux 5.8 is the first whose syncfs fails if a write-back has failed. A stacked file system (overlayfs) does not learn of failures of
 * its lower one, and for others it is unknown: so only those known to report failures are accepted, by name. */
static bool tells_of_failed_writes(int fd) {
    struct utsname kernel;
    struct statfs status;
    int major = 0, minor = 0;
    if (uname(&kernel) != 0 || sscanf(kernel.release, "%d.%d", &major, &minor) != 2 || major < 5 || (major == 5 && minor < 8) ||
        fstatfs(fd, &status) != 0)
        return false;
    return status.f_type == EXT4_SUPER_MAGIC || status.f_type == XFS_SUPER_MAGIC || status.f_type == BTRFS_SUPER_MAGIC;
}

static int system_sync_filesystem(void *context, int fd) {
    (void)context;
    if (tells_of_failed_writes(fd))
        return syncfs(fd);
    errno = ENOTSUP;
    return -1;
}

static const rp_file_ops system_ops = {
    .context = NULL,
    .open = system_open,
    .close = system_close,
    .allocate = system_allocate,
    .truncate = system_truncate,
    .clear = system_clear,
    .read_at = system_read_at,
    .write_at = system_write_at,
    .splice_at = system_splice_at,
    .sync_data = system_sync_data,
    .map = system_map,
    .unmap = system_unmap,
    .populate = system_populate,
    .read_ahead = system_read_ahead,
    .in_memory = system_in_memory,
    .sync_range = system_sync_range,
    .rename = system_rename,
    .unlink = system_unlink,
    .sync_directory = system_sync_directory,
    .sync_filesystem = system_sync_filesystem,
};

int rp_file_write_all(const rp_file_ops *ops, int fd, const void *source, size_t size, int64_t offset) {
    const uint8_t *bytes = source;
    for (size_t done = 0; done < size;) {
        int64_t count = ops->write_at(ops->context, fd, bytes + done, size - done, offset + (int64_t)done);
        if (count <= 0) {
            errno = count < 0 ? errno : ENOSPC;
            return -1;
        }
        done += (size_t)count;
    }
    return 0;
}

int rp_file_write_zeros(const rp_file_ops *ops, int fd, int64_t size, int64_t offset) {
    static const uint8_t zeros[ZEROS_BYTES];
    for (int64_t done = 0; done < size; done += ZEROS_BYTES) {
        int64_t left = size - done;
        if (rp_file_write_all(ops, fd, zeros, left < ZEROS_BYTES ? (size_t)left : ZEROS_BYTES, offset + done) != 0) {
            return -1;
        }
    }
    return 0;
}

void rp_file_read_random(int fd) { (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); } /* only affects speed */

void rp_file_map_random(void *address, size_t size) { (void)advise(address, size, MADV_RANDOM); } /* only affects speed */

int64_t rp_file_next_data(int fd, int64_t offset, int64_t size) {
    off_t found = lseek(fd, (off_t)offset, SEEK_DATA);
    if (found < 0) {
        return errno == ENXIO ? size : offset; /* ENXIO: a hole to the end */
    }
    return (int64_t)found < size ? (int64_t)found : size;
}

int64_t rp_file_next_hole(int fd, int64_t offset, int64_t size) {
    off_t found = lseek(fd, (off_t)offset, SEEK_HOLE);
    return found >= 0 && (int64_t)found < size ? (int64_t)found : size;
}

int rp_file_is_zero(const rp_file_ops *ops, int fd, int64_t offset, int64_t size) {
    uint8_t bytes[LOOK_BYTES];
    while ((offset = rp_file_next_data(fd, offset, size)) < size) {
        int64_t wanted = size - offset < LOOK_BYTES ? size - offset : LOOK_BYTES;
        int64_t got = ops->read_at(ops->context, fd, bytes, (size_t)wanted, offset);
        if (got <= 0 || bytes[0] != 0 || memcmp(bytes, bytes + 1, (size_t)got - 1) != 0) {
            return 0;
        }
        offset += got;
    }
    return 1;
}

const rp_file_ops *rp_file_ops_system(void) { return &system_ops; }
