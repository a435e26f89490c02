/* error.h: the status codes that every rp_ function returns, and the detail that a caller may ask for.
 *
 * Functions return RP_OK (0) or a count on success, otherwise one negative RP_E_ code. The detail goes into an rp_error of the caller
 * (may be NULL); nobody reads errno later.
 *
 * Threads  any: all functions are pure or write only to the caller's struct, except rp_inodes_are_used_up, rp_making_remedy and
 *          rp_write_remedy, which query the file system.
 */
#ifndef RP_BASE_ERROR_H
#define RP_BASE_ERROR_H

#include <stdint.h>

enum rp_status {
    RP_OK = 0,
    RP_E_INVALID = -1,       /* an argument or option is out of its range */
    RP_E_NO_MEMORY = -2,     /* allocation failed */
    RP_E_IO = -3,            /* a read, write, sync or map failed; os_errno says how */
    RP_E_DISK_FULL = -4,     /* ENOSPC or EDQUOT; goes away when space returns */
    RP_E_TIMEOUT = -5,       /* the time limit passed; the operation may still complete */
    RP_E_BUSY = -6,          /* a bound (queue, memory, connections) is reached */
    RP_E_CLOSED = -7,        /* the object or connection is closed */
    RP_E_CORRUPT = -8,       /* bytes on disk are not what the format promises */
    RP_E_NOT_FOUND = -9,     /* no such file, topic, queue, entry or connection */
    RP_E_TOO_LARGE = -10,    /* a size is past its limit */
    RP_E_LOCKED = -11,       /* another process holds the store */
    RP_E_EXISTS = -12,       /* it exists already */
    RP_E_READ_ONLY = -13,    /* the store takes no writes (failed sync, role, permission) */
    RP_E_RANGE = -14,        /* an offset is outside min..max */
    RP_E_PROTOCOL = -15,     /* bytes from the wire are not what the protocol promises */
    RP_E_UNSUPPORTED = -16,  /* the kernel or build lacks it */
    RP_E_NETWORK = -17,      /* connect, send or receive failed */
    RP_E_FORK = -18          /* used after fork in the child */
};
#define RP_STATUS_COUNT 19

#define RP_ERROR_FILE_MAX 256
#define RP_ERROR_MESSAGE_MAX 384

/* What went wrong, where, and what to do: message holds cause and remedy in one sentence. */
typedef struct rp_error {
    int32_t status;
    int32_t os_errno;
    int64_t offset; /* byte offset in file, -1 when it has none */
    char file[RP_ERROR_FILE_MAX];
    char message[RP_ERROR_MESSAGE_MAX];
} rp_error;

/* Returns the name of a status, for example "RP_E_DISK_FULL"; static storage; "RP_E_UNKNOWN" for other numbers. */
const char *rp_status_name(int status);

/* Returns one sentence for a status, static storage. */
const char *rp_status_text(int status);

/* Fills error (if not NULL) and returns status, so that `return rp_error_set(…)` is possible. file may be NULL; format is printf's.
 * Texts are truncated silently at the field sizes. */
int rp_error_set(rp_error *error, int status, int os_errno, const char *file, int64_t offset, const char *format, ...);

/* 1 if a file exists but could not be opened, mapped or read now: another try may succeed, and nothing may be concluded from the
 * failure. */
int rp_status_is_passing(int status);

/* RP_E_DISK_FULL for ENOSPC and EDQUOT, RP_E_NO_MEMORY for ENOMEM, RP_E_READ_ONLY for EROFS, else RP_E_IO. */
int rp_status_from_errno(int os_errno);

/* 1 if the file system of path, or of the nearest directory above it that exists, now has free space but no free inodes. */
int rp_inodes_are_used_up(const char *path);

/* Returns what to append to the error of a file or directory that could not be created at path because of os_errno: "", or, after a
 * semicolon, what helps: that space or inodes are used up, a limit or a right is in the way. Static storage. */
const char *rp_making_remedy(int os_errno, const char *path);

/* Returns the remedy for a write or an allocation of disk space at path that failed with os_errno; queries the file system whether space
 * or inodes are used up. Static storage. */
const char *rp_write_remedy(int os_errno, const char *path);

#endif
