/* store_lock.c: see store_lock.h.
 *
 *   byte 0       a lock of the open file description (F_OFD_SETLK): conflicts with RocketMQ's tryLock(0, 1)
 *   from byte 1  a lock of the process (F_SETLK): a process that is refused reads the holder's pid from it. The holder loses it when it
 *                closes any descriptor of the file, as by a second open or a copy of the directory; so it only serves to name the holder
 *   flock        for versions that know no other lock of an open file description, and for the kernel's table of locks
 */
#include "store_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define OF_AN_OPEN_FILE (-1) /* the pid that F_GETLK gives for a lock of an open file description */

static struct flock lock_from(off_t start, off_t size, int shared) {
    return (struct flock){.l_type = (short)(shared ? F_RDLCK : F_WRLCK), .l_whence = SEEK_SET, .l_start = start, .l_len = size};
}

/* Returns the pid of the process whose lock is in the way; -1: it has no pid in this namespace; 0: there is only the lock of an open
 * file description. */
static int holder_of(int fd, int shared) {
    struct flock named = lock_from(1, 0, shared), first = lock_from(0, 1, shared);
    if (fcntl(fd, F_GETLK, &named) == 0 && named.l_type != F_UNLCK) {
        return named.l_pid > 0 ? (int)named.l_pid : -1;
    }
    if (fcntl(fd, F_GETLK, &first) != 0 || first.l_type == F_UNLCK || first.l_pid == OF_AN_OPEN_FILE) {
        return 0;
    }
    return first.l_pid > 0 ? (int)first.l_pid : -1;
}

/* Takes all locks. 0, or -1 with errno. */
static int take_all(int fd, int shared) {
    struct flock first = lock_from(0, 1, shared), named = lock_from(1, 0, shared);
    int rc = flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB);
    rc = rc == 0 ? fcntl(fd, F_OFD_SETLK, &first) : rc;
    if (rc != 0 && errno == EINVAL) { /* a kernel, or a substitute for one, without such locks */
        rc = fcntl(fd, F_SETLK, &first);
    }
    return rc == 0 ? fcntl(fd, F_SETLK, &named) : rc;
}

int rp_store_lock_take(const char *path, int shared, rp_error *error) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 && shared && (errno == EROFS || errno == EACCES)) {
        fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    if (fd < 0) {
        return rp_error_set(error, rp_status_from_errno(errno), errno, path, -1, "cannot open the lock file: %s", strerror(errno));
    }
    if (take_all(fd, shared) == 0) {
        char is_there[4] = {0};
        bool is_written = shared || (pread(fd, is_there, 4, 0) == 4 && memcmp(is_there, "lock", 4) == 0);
        /* The content that RocketMQ writes; nobody reads it, but on a disk that is too full for it a store cannot work. */
        if (!is_written && pwrite(fd, "lock", 4, 0) != 4) {
            int os_errno = errno;
            close(fd);
            return rp_error_set(error, rp_status_from_errno(os_errno), os_errno, path, -1, "cannot write the lock file: %s",
                                strerror(os_errno));
        }
        return fd;
    }
    int os_errno = errno, holder = holder_of(fd, shared);
    close(fd);
    if (os_errno != EWOULDBLOCK && os_errno != EAGAIN && os_errno != EACCES) {
        return rp_error_set(error, RP_E_IO, os_errno, path, -1, "cannot lock the store: %s", strerror(os_errno));
    }
    if (holder > 0) {
        return rp_error_set(error, RP_E_LOCKED, os_errno, path, -1,
                            "the store is in use by process %d; stop it or choose another directory", holder);
    }
    if (holder < 0) {
        return rp_error_set(error, RP_E_LOCKED, os_errno, path, -1,
                            "the store is in use by a process that cannot be seen from here, in another container or on another machine; "
                            "stop it or choose another directory");
    }
    return rp_error_set(error, RP_E_LOCKED, os_errno, path, -1,
                        "the store is open already: in this process (%d), or in one that tried to open it twice", (int)getpid());
}

void rp_store_lock_release(int fd) {
    if (fd >= 0) {
        close(fd);
    }
}

int rp_abort_mark_exists(const char *path) { return access(path, F_OK) == 0; }

static int mark_failed(rp_error *error, const char *path, const char *what) {
    int os_errno = errno;
    return rp_error_set(error, rp_status_from_errno(os_errno), os_errno, path, -1, "cannot %s the abort file: %s%s", what,
                        strerror(os_errno), rp_making_remedy(os_errno, path));
}

int rp_abort_mark_set(const rp_file_ops *ops, const char *path, const char *directory, rp_error *error) {
    char pid[16];
    int length = snprintf(pid, sizeof pid, "%d", (int)getpid());
    int fd = ops->open(ops->context, path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) {
        return mark_failed(error, path, "create");
    }
    int failed = rp_file_write_all(ops, fd, pid, (size_t)length, 0), os_errno = errno;
    ops->close(ops->context, fd);
    bool is_full = os_errno == ENOSPC || os_errno == EDQUOT; /* the file's name is the mark, so a full disk still lets readers be served */
    if (failed && !is_full) {
        errno = os_errno;
        return mark_failed(error, path, "write");
    }
    return ops->sync_directory(ops->context, directory) == 0 ? RP_OK : mark_failed(error, directory, "sync the directory of");
}

int rp_abort_mark_clear(const rp_file_ops *ops, const char *path, const char *directory, rp_error *error) {
    if (ops->unlink(ops->context, path) != 0 && errno != ENOENT) {
        return mark_failed(error, path, "remove");
    }
    return ops->sync_directory(ops->context, directory) == 0 ? RP_OK : mark_failed(error, directory, "sync the directory of");
}
