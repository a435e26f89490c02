/* error.c: the table of status codes and the one function that fills an rp_error.
 *
 * The table is indexed by -status, so a code added to the enum without a row here fails the _Static_assert.
 */
#include "error.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

struct status_row {
    const char *name;
    const char *text;
};

static const struct status_row status_rows[] = {
    {"RP_OK", "success"},
    {"RP_E_INVALID", "an argument or option is out of its range"},
    {"RP_E_NO_MEMORY", "memory is out"},
    {"RP_E_IO", "a read, write, sync or map of a file failed"},
    {"RP_E_DISK_FULL", "the disk is full"},
    {"RP_E_TIMEOUT", "the time limit passed; the operation may still complete"},
    {"RP_E_BUSY", "a bound on queues, memory or connections is reached"},
    {"RP_E_CLOSED", "the object or connection is closed"},
    {"RP_E_CORRUPT", "bytes on disk are not what the format promises"},
    {"RP_E_NOT_FOUND", "no such file, topic, queue, entry or connection"},
    {"RP_E_TOO_LARGE", "a size is past its limit"},
    {"RP_E_LOCKED", "another process holds the store"},
    {"RP_E_EXISTS", "it exists already"},
    {"RP_E_READ_ONLY", "the store takes no writes"},
    {"RP_E_RANGE", "an offset lies outside of what is kept"},
    {"RP_E_PROTOCOL", "bytes from the wire are not what the protocol promises"},
    {"RP_E_UNSUPPORTED", "the kernel or this build lacks it"},
    {"RP_E_NETWORK", "connecting, sending or receiving failed"},
    {"RP_E_FORK", "used in a child process after fork"},
};
_Static_assert(sizeof status_rows / sizeof status_rows[0] == RP_STATUS_COUNT, "one row per status");
_Static_assert(RP_E_FORK == 1 - RP_STATUS_COUNT, "statuses run from 0 down without gaps");

const char *rp_status_name(int status) { return status <= 0 && status > -RP_STATUS_COUNT ? status_rows[-status].name : "RP_E_UNKNOWN"; }

const char *rp_status_text(int status) { return status <= 0 && status > -RP_STATUS_COUNT ? status_rows[-status].text : "unknown status"; }

int rp_error_set(rp_error *error, int status, int os_errno, const char *file, int64_t offset, const char *format, ...) {
    if (error == NULL) {
        return status;
    }
    error->status = status;
    error->os_errno = os_errno;
    error->offset = offset;
    snprintf(error->file, sizeof error->file, "%s", file != NULL ? file : "");
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(error->message, sizeof error->message, format, arguments) < 0) {
        error->message[0] = '\0';
    }
    va_end(arguments);
    return status;
}

int rp_status_is_passing(int status) { return status == RP_E_IO || status == RP_E_NO_MEMORY; }

int rp_status_from_errno(int os_errno) {
    switch (os_errno) {
    case ENOSPC:
    case EDQUOT:
        return RP_E_DISK_FULL;
    case ENOMEM:
        return RP_E_NO_MEMORY;
    case EROFS:
        return RP_E_READ_ONLY;
    default:
        return RP_E_IO;
    }
}

/* Cuts off the last name. false: there was only "/" or "." */
static bool leave_name(char *path) {
    char *slash = strrchr(path, '/'), *rest = slash == path ? path + 1 : slash;
    bool has_left = rest == NULL ? strcmp(path, ".") != 0 : *rest != 0;
    if (rest == NULL) {
        memcpy(path, ".", sizeof ".");
    } else {
        *rest = 0;
    }
    return has_left;
}

int rp_inodes_are_used_up(const char *path) {
    char place[PATH_MAX];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof place) {
        return 0;
    }
    memcpy(place, path, length + 1);
    struct statvfs at;
    int status;
    while ((status = statvfs(place, &at)) != 0 && leave_name(place)) {
    }
    return status == 0 && at.f_files > 0 && at.f_favail == 0 && at.f_bavail > 0; /* btrfs reports no inodes, and has no limit */
}

const char *rp_making_remedy(int os_errno, const char *path) {
    bool has_inodes = os_errno != ENOSPC || !rp_inodes_are_used_up(path);
    switch (os_errno) {
    case ENOSPC:
    case EDQUOT:
        return has_inodes ? "; free space on its file system" : "; its file system has no inodes left (df -i): remove files";
    case EFBIG:
        return "; raise the limit of a file's size (ulimit -f, LimitFSIZE)";
    case EACCES:
    case EPERM:
        return "; let this user write there";
    default:
        return "";
    }
}

const char *rp_write_remedy(int os_errno, const char *path) {
    if (os_errno == ENOSPC && rp_inodes_are_used_up(path)) {
        return "its file system has no inodes left (df -i): remove files, writing resumes by itself";
    }
    switch (os_errno) {
    case ENOSPC:
    case EDQUOT:
        return "free disk space or add a disk, writing resumes by itself";
    case EFBIG:
        return "raise the limit of a file's size, writing resumes by itself";
    case EMFILE:
    case ENFILE:
        return "raise the limit of open files, writing resumes by itself";
    case ENOMEM:
        return "free memory, writing resumes by itself";
    case EROFS:
        return "see the kernel's log for why the file system is read-only and mount it for writing";
    default:
        return "check the disk";
    }
}
