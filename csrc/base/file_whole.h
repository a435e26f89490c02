/* file_whole.h: replaces small files atomically: a file has either its old content or its new one, whatever happens in between.
 *
 * Threads  one writer of a path at a time.
 */
#ifndef RP_BASE_FILE_WHOLE_H
#define RP_BASE_FILE_WHOLE_H

#include <stddef.h>

#include "error.h"
#include "file_ops.h"

/* Writes PATH.tmp, syncs it, renames it to PATH and syncs the directory. what: the file's noun, for errors. RP_OK; a status of
 * rp_status_from_errno; RP_E_TOO_LARGE (the path). */
int rp_file_write_whole(const rp_file_ops *ops, const char *path, const void *bytes, size_t size, const char *what, rp_error *error);
/* Reads at most `room` bytes. *size: the file's size; room + 1 if it is larger than `room`; -1: there is no such file. RP_OK; a status
 * of rp_status_from_errno. */
int rp_file_read_whole(const rp_file_ops *ops, const char *path, void *bytes, size_t room, int64_t *size, const char *what,
                       rp_error *error);

#endif
