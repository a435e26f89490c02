/* file_whole.c: see file_whole.h. */
#include "file_whole.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define PATH_SIZE 4096

static int failed(rp_error *error, const char *path, const char *verb, const char *what) {
    int os_errno = errno;
    return rp_error_set(error, rp_status_from_errno(os_errno), os_errno, path, -1, "cannot %s %s: %s%s", verb, what, strerror(os_errno),
                        rp_making_remedy(os_errno, path));
}

int rp_file_write_whole(const rp_file_ops *ops, const char *path, const void *bytes, size_t size, const char *what, rp_error *error) {
    char fresh[PATH_SIZE], directory[PATH_SIZE];
    const char *slash = strrchr(path, '/');
    if (snprintf(fresh, sizeof fresh, "%s.tmp", path) >= (int)sizeof fresh)
        return rp_error_set(error, RP_E_TOO_LARGE, ENAMETOOLONG, path, -1, "the path of %s is too long", what);
    size_t length = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    memcpy(directory, slash == NULL ? "." : path, length);
    directory[length] = 0;
    int fd = ops->open(ops->context, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return failed(error, fresh, "open", what);
    int rc = rp_file_write_all(ops, fd, bytes, size, 0) != 0 ? failed(error, fresh, "write", what) : RP_OK;
    if (rc == RP_OK && ops->sync_data(ops->context, fd) != 0)
        rc = failed(error, fresh, "sync", what);
    ops->close(ops->context, fd);
    if (rc == RP_OK && ops->rename(ops->context, fresh, path) != 0)
        rc = failed(error, path, "rename", what);
    if (rc == RP_OK)
        return ops->sync_directory(ops->context, directory) != 0 ? failed(error, directory, "sync the directory of", what) : RP_OK;
    ops->unlink(ops->context, fresh); /* else it would only lie there */
    return rc;
}

int rp_file_read_whole(const rp_file_ops *ops, const char *path, void *bytes, size_t room, int64_t *size, const char *what,
                       rp_error *error) {
    uint8_t beyond;
    *size = -1;
    int fd = ops->open(ops->context, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return errno == ENOENT ? RP_OK : failed(error, path, "open", what);
    int64_t got = ops->read_at(ops->context, fd, bytes, room, 0);
    int64_t more = got == (int64_t)room ? ops->read_at(ops->context, fd, &beyond, 1, got) : 0;
    int rc = got < 0 || more < 0 ? failed(error, path, "read", what) : RP_OK;
    ops->close(ops->context, fd);
    *size = rc == RP_OK ? got + more : -1;
    return rc;
}
