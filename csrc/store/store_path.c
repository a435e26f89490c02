/* store_path.c: see store_path.h. */
#include "store_path.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int rp_path_join(char *path, const char *directory, const char *name, rp_error *error) {
    int length = snprintf(path, RP_PATH_MAX, "%s/%s", directory, name);
    if (length < 0 || length >= RP_PATH_MAX) {
        return rp_error_set(error, RP_E_TOO_LARGE, 0, directory, -1, "path is longer than %d bytes; use a shorter store directory",
                            RP_PATH_MAX - 1);
    }
    return RP_OK;
}

int rp_path_of_offset(char *path, const char *directory, int64_t base_offset, rp_error *error) {
    char name[32];
    snprintf(name, sizeof name, "%020" PRId64, base_offset);
    return rp_path_join(path, directory, name, error);
}

int64_t rp_path_offset_of_name(const char *name) {
    int64_t offset = 0;
    size_t digits = 0;
    for (; name[digits] != 0; digits++) {
        if (name[digits] < '0' || name[digits] > '9' || digits == RP_FILE_NAME_DIGITS || __builtin_mul_overflow(offset, 10, &offset) ||
            __builtin_add_overflow(offset, name[digits] - '0', &offset)) {
            return -1;
        }
    }
    return digits == RP_FILE_NAME_DIGITS ? offset : -1;
}

static int make_directory(const char *path, rp_error *error) {
    if (mkdir(path, 0755) == 0 || errno == EEXIST) {
        return RP_OK;
    }
    int os_errno = errno;
    const char *remedy =
        os_errno == ENOTDIR ? "; move away the file that stands where a directory has to be" : rp_making_remedy(os_errno, path);
    return rp_error_set(error, rp_status_from_errno(os_errno), os_errno, path, -1, "cannot make the directory: %s%s", strerror(os_errno),
                        remedy);
}

int rp_path_make_directories(const char *path, rp_error *error) {
    char partial[RP_PATH_MAX];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof partial) {
        return rp_error_set(error, RP_E_INVALID, 0, path, -1, "directory path is empty or too long");
    }
    memcpy(partial, path, length + 1);
    for (size_t i = 1; i < length; i++) {
        if (partial[i] == '/') {
            partial[i] = 0;
            int rc = make_directory(partial, error);
            if (rc != RP_OK) {
                return rc;
            }
            partial[i] = '/';
        }
    }
    return make_directory(partial, error);
}

void rp_path_remove_empty(const char *path, int levels) {
    char directory[RP_PATH_MAX];
    int length = snprintf(directory, sizeof directory, "%s", path);
    for (int i = 0; i < levels && length > 0 && length < (int)sizeof directory; i++) {
        char *name = strrchr(directory, '/');
        if ((rmdir(directory) != 0 && errno != ENOENT) || name == NULL) {
            return;
        }
        *name = 0;
    }
}

int64_t rp_path_file_size(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) ? (int64_t)status.st_size : -1;
}
