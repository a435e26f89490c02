/* failing_calls.c: preloaded into a server. Numbers the calls that open, change, sync or map files below FAILING_CALLS_ROOT; at a chosen
 * one it kills the process, or makes that call fail, and if wanted those that follow.
 *
 * Control  the mapped file FAILING_CALLS_CONTROL: the test sets and reads it while the server runs (failing_calls.py).
 * Unseen   what bypasses libc: io_uring, and writes through a mapping.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PATH_SIZE = 1024 };
enum kind { KIND_OPEN = 1, KIND_CHANGE = 2, KIND_SYNC = 4, KIND_MAP = 8 };

static struct control {
    _Atomic int64_t counted; /* calls of these kinds so far */
    _Atomic int64_t first, last; /* the calls with these numbers are hit */
    _Atomic int64_t os_errno; /* 0: SIGKILL instead */
    _Atomic int64_t kinds;
    _Atomic int64_t hits;
    char name[PATH_SIZE]; /* of the first call that was hit */
} *control;
static char root[PATH_SIZE];

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAILING_CALLS_CONTROL"), *directory = getenv("FAILING_CALLS_ROOT");
    int fd = path != NULL && directory != NULL ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;
    if (fd >= 0) {
        snprintf(root, sizeof root, "%s", directory);
        void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        control = mapped == MAP_FAILED ? NULL : mapped;
        close(fd);
    }
}

/* Whether this call is to fail; sets errno. */
static bool fails(enum kind kind, const char *call, const char *path) {
    if (control == NULL || (atomic_load(&control->kinds) & kind) == 0 || strncmp(path, root, strlen(root)) != 0) {
        return false;
    }
    int64_t number = atomic_fetch_add(&control->counted, 1) + 1;
    if (number < atomic_load(&control->first) || number > atomic_load(&control->last)) {
        return false;
    }
    if (atomic_fetch_add(&control->hits, 1) == 0) {
        snprintf(control->name, sizeof control->name, "%s %s", call, path);
    }
    if (atomic_load(&control->os_errno) == 0) {
        raise(SIGKILL);
    }
    errno = (int)atomic_load(&control->os_errno);
    return true;
}

static bool fails_of(enum kind kind, const char *call, int fd) {
    char link[64], path[PATH_SIZE];
    if (control == NULL || fd < 0) {
        return false;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = 0;
    return size > 0 && fails(kind, call, path);
}

static int opened(const char *path, int flags, va_list arguments) {
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
    return fails(KIND_OPEN, "open", path) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    int fd = opened(path, flags, arguments);
    va_end(arguments);
    return fd;
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

ssize_t write(int fd, const void *bytes, size_t size) {
    return fails_of(KIND_CHANGE, "write", fd) ? -1 : syscall(SYS_write, fd, bytes, size);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset) {
    return fails_of(KIND_CHANGE, "pwrite", fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, size, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t offset) __attribute__((alias("pwrite")));

int fallocate(int fd, int mode, off_t offset, off_t size) {
    return fails_of(KIND_CHANGE, "fallocate", fd) ? -1 : (int)syscall(SYS_fallocate, fd, mode, offset, size);
}

int fallocate64(int fd, int mode, off_t offset, off_t size) __attribute__((alias("fallocate")));

int ftruncate(int fd, off_t size) { return fails_of(KIND_CHANGE, "ftruncate", fd) ? -1 : (int)syscall(SYS_ftruncate, fd, size); }

int ftruncate64(int fd, off_t size) __attribute__((alias("ftruncate")));

int rename(const char *from, const char *to) { return fails(KIND_CHANGE, "rename", from) ? -1 : (int)syscall(SYS_rename, from, to); }

int link(const char *from, const char *to) { return fails(KIND_CHANGE, "link", from) ? -1 : (int)syscall(SYS_link, from, to); }

int unlink(const char *path) { return fails(KIND_CHANGE, "unlink", path) ? -1 : (int)syscall(SYS_unlink, path); }

int mkdir(const char *path, mode_t mode) { return fails(KIND_CHANGE, "mkdir", path) ? -1 : (int)syscall(SYS_mkdir, path, mode); }

int fsync(int fd) { return fails_of(KIND_SYNC, "fsync", fd) ? -1 : (int)syscall(SYS_fsync, fd); }

int fdatasync(int fd) { return fails_of(KIND_SYNC, "fdatasync", fd) ? -1 : (int)syscall(SYS_fdatasync, fd); }

/* Counted for any file: the server maps nothing else for writing. */
int msync(void *address, size_t size, int flags) {
    return fails(KIND_SYNC, "msync", root) ? -1 : (int)syscall(SYS_msync, address, size, flags);
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
    return fails_of(KIND_MAP, "mmap", fd) ? MAP_FAILED : (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t size, int protection, int flags, int fd, off_t offset) __attribute__((alias("mmap")));
