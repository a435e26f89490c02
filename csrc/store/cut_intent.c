/* cut_intent.c: see cut_intent.h. */
#include "cut_intent.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../base/crc32.h"
#include "../base/file_whole.h"
#include "store_path.h"

#define NAME "truncate.to"
#define LINE_MAX 64
#define WHAT "the intent to cut the commit log"

static int path_of(char path[RP_PATH_MAX], const char *root, rp_error *error) { return rp_path_join(path, root, NAME, error); }

static int line_of(char line[LINE_MAX], int64_t offset) {
    char digits[32];
    int size = snprintf(digits, sizeof digits, "%" PRId64, offset);
    return snprintf(line, LINE_MAX, "%s %" PRIu32 "\n", digits, rp_crc32(0, digits, (size_t)size));
}

int rp_cut_intent_write(const rp_file_ops *ops, const char *root, int64_t offset, rp_error *error) {
    char path[RP_PATH_MAX], line[LINE_MAX];
    int rc = path_of(path, root, error);
    return rc == RP_OK ? rp_file_write_whole(ops, path, line, (size_t)line_of(line, offset), WHAT, error) : rc;
}

int rp_cut_intent_read(const rp_file_ops *ops, const char *root, int64_t *offset, rp_error *error) {
    char path[RP_PATH_MAX], line[LINE_MAX + 1], same[LINE_MAX];
    int64_t size = -1;
    *offset = -1;
    int rc = path_of(path, root, error);
    rc = rc == RP_OK ? rp_file_read_whole(ops, path, line, LINE_MAX, &size, WHAT, error) : rc;
    if (rc != RP_OK || size < 0 || size > LINE_MAX)
        return rc;
    line[size] = 0;
    int64_t told;
    if (sscanf(line, "%" SCNd64, &told) == 1 && told >= 0 && line_of(same, told) == size && memcmp(line, same, (size_t)size) == 0)
        *offset = told;
    return RP_OK;
}

int rp_cut_intent_remove(const rp_file_ops *ops, const char *root, rp_error *error) {
    char path[RP_PATH_MAX];
    int rc = path_of(path, root, error);
    if (rc != RP_OK)
        return rc;
    if ((ops->unlink(ops->context, path) != 0 && errno != ENOENT) || ops->sync_directory(ops->context, root) != 0)
        return rp_error_set(error, rp_status_from_errno(errno), errno, path, -1, "cannot remove " WHAT ": %s", strerror(errno));
    return RP_OK;
}
