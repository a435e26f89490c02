/* timer_log_files.c: the files of the timer log: found, made, removed, synced. See timer_log.h. */
#include "timer_log_inl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store_path.h"

static void close_file(rp_timer_log *log, int *fd, int64_t *base) {
    if (*base >= 0) {
        log->ops->close(log->ops->context, *fd);
    }
    *base = -1;
}

void rp_timer_log_close_files(rp_timer_log *log) {
    close_file(log, &log->append_fd, &log->append_base);
    close_file(log, &log->read_fd, &log->read_base);
}

static int open_file(rp_timer_log *log, int64_t base, int flags, rp_error *error) {
    char path[RP_PATH_MAX];
    if (rp_path_of_offset(path, log->directory, base, error) != RP_OK) {
        return -1;
    }
    int fd = log->ops->open(log->ops->context, path, flags | O_RDWR | O_CLOEXEC, 0644);
    if (fd < 0) {
        rp_timer_log_failed(log, base, "open a file of", error);
    }
    return fd;
}

int rp_timer_log_file(rp_timer_log *log, int64_t base, int for_append, rp_error *error) {
    int *fd = for_append ? &log->append_fd : &log->read_fd;
    int64_t *open_base = for_append ? &log->append_base : &log->read_base;
    if (*open_base != base) {
        int opened = open_file(log, base, 0, error);
        if (opened < 0) {
            return -1;
        }
        close_file(log, fd, open_base);
        *fd = opened;
        *open_base = base;
    }
    return *fd;
}

int rp_timer_log_sync_names(rp_timer_log *log, rp_error *error) {
    char parent[RP_PATH_MAX];
    const char *slash = strrchr(log->directory, '/');
    snprintf(parent, sizeof parent, "%.*s", slash == NULL ? 1 : (int)(slash - log->directory), slash == NULL ? "." : log->directory);
    if ((log->names_changed > 1 && log->ops->sync_directory(log->ops->context, parent) != 0) ||
        (log->names_changed > 0 && log->ops->sync_directory(log->ops->context, log->directory) != 0)) {
        return rp_timer_log_failed(log, -1, "sync the directory of", error);
    }
    log->names_changed = 0;
    return RP_OK;
}

/* Makes room for what is noted about one more file. */
static int reserve(rp_timer_log *log, rp_error *error) {
    if (log->file_count < log->file_room) {
        return RP_OK;
    }
    uint32_t room = log->file_room == 0 ? 8 : log->file_room * 2;
    int64_t *larger = realloc(log->newest, room * sizeof *larger);
    if (larger == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, log->directory, -1, "no memory for a file of the timer log");
    }
    log->newest = larger;
    log->file_room = room;
    return RP_OK;
}

int rp_timer_log_add_file(rp_timer_log *log, rp_error *error) {
    int64_t base = rp_timer_log_files_end(log);
    int rc = reserve(log, error);
    if (rc == RP_OK && log->file_count == 0) {
        rc = rp_path_make_directories(log->directory, error);
    }
    if (rc != RP_OK) {
        return rc;
    }
    int fd = open_file(log, base, O_CREAT | O_TRUNC, error);
    if (fd < 0) {
        return error->status;
    }
    log->names_changed = log->file_count == 0 ? 2 : log->names_changed | 1;
    if (log->ops->truncate(log->ops->context, fd, log->file_size) != 0) {
        rc = rp_timer_log_failed(log, base, "give its length to a file of", error);
        log->ops->close(log->ops->context, fd); /* empty: the next attempt, or start, uses it */
        return rc;
    }
    close_file(log, &log->append_fd, &log->append_base);
    log->append_fd = fd;
    log->append_base = base;
    log->newest[log->file_count++] = -1;
    return RP_OK;
}

static int unlink_file(rp_timer_log *log, int64_t base, rp_error *error) {
    char path[RP_PATH_MAX];
    int rc = rp_path_of_offset(path, log->directory, base, error);
    if (rc != RP_OK) {
        return rc;
    }
    if (log->ops->unlink(log->ops->context, path) != 0 && errno != ENOENT) {
        return rp_timer_log_failed(log, base, "remove a file of", error);
    }
    log->names_changed |= 1;
    log->window_size = 0;
    if (log->append_base == base) {
        close_file(log, &log->append_fd, &log->append_base);
    }
    if (log->read_base == base) {
        close_file(log, &log->read_fd, &log->read_base);
    }
    return RP_OK;
}

int rp_timer_log_remove_files(rp_timer_log *log, int64_t base, rp_error *error) {
    int rc = RP_OK;
    while (rc == RP_OK && log->file_count > 0 && rp_timer_log_files_end(log) > base) {
        rc = unlink_file(log, rp_timer_log_files_end(log) - log->file_size, error);
        log->file_count -= rc == RP_OK;
    }
    return rc == RP_OK ? rp_timer_log_sync_names(log, error) : rc;
}

int rp_timer_log_remove_first(rp_timer_log *log, rp_error *error) {
    int rc = unlink_file(log, log->begin, error);
    if (rc == RP_OK) {
        log->begin += log->file_size;
        memmove(log->newest, log->newest + 1, --log->file_count * sizeof *log->newest);
    }
    return rc;
}

int rp_timer_log_clear_tail(rp_timer_log *log, int64_t position, rp_error *error) {
    int64_t base = rp_timer_log_base_of(log, position), at = position - base;
    if (position >= rp_timer_log_files_end(log)) {
        return RP_OK;
    }
    int fd = rp_timer_log_file(log, base, 1, error);
    if (fd < 0) {
        return error->status;
    }
    log->window_size = 0;
    if (rp_file_is_zero(log->ops, fd, at, log->file_size)) {
        return RP_OK;
    }
    if (log->ops->clear(log->ops->context, fd, at, log->file_size - at) != 0 || log->ops->sync_data(log->ops->context, fd) != 0) {
        return rp_timer_log_failed(log, position, "clear what lies behind the last record of", error);
    }
    return RP_OK;
}

int rp_timer_log_sync_from(rp_timer_log *log, int64_t position, rp_error *error) {
    int rc = rp_timer_log_sync_names(log, error);
    for (int64_t base = rp_timer_log_base_of(log, position); rc == RP_OK && base < rp_timer_log_files_end(log); base += log->file_size) {
        int fd = rp_timer_log_file(log, base, base == log->append_base, error);
        if (fd < 0) {
            return error->status;
        }
        if (log->ops->sync_data(log->ops->context, fd) != 0) {
            log->sync_errno = errno;
            rc = rp_timer_log_failed(log, base, "sync", error);
        }
    }
    return rc;
}

static int compare_bases(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static int add_base(int64_t **bases, uint32_t *count, uint32_t *room, int64_t base) {
    if (*count == *room) {
        uint32_t more = *room == 0 ? 16 : *room * 2;
        int64_t *larger = realloc(*bases, more * sizeof *larger);
        if (larger == NULL) {
            errno = ENOMEM;
            return -1;
        }
        *bases = larger;
        *room = more;
    }
    (*bases)[(*count)++] = base;
    return 0;
}

/* Lists the start positions that files are named by, sorted; to be freed by the caller. */
static int list_bases(const rp_timer_log *log, int64_t **bases, uint32_t *count, rp_error *error) {
    uint32_t room = 0;
    *bases = NULL;
    *count = 0;
    DIR *directory = opendir(log->directory);
    if (directory == NULL) {
        return errno == ENOENT ? RP_OK : rp_timer_log_failed(log, -1, "list the files of", error);
    }
    struct dirent *entry;
    int os_errno = 0;
    while (os_errno == 0 && (errno = 0, entry = readdir(directory)) != NULL) {
        int64_t base = rp_path_offset_of_name(entry->d_name);
        if (base >= 0 && add_base(bases, count, &room, base) != 0) {
            os_errno = errno;
        }
    }
    os_errno = os_errno != 0 ? os_errno : errno;
    closedir(directory);
    if (os_errno != 0) {
        free(*bases);
        *bases = NULL;
        errno = os_errno;
        return rp_timer_log_failed(log, -1, "list the files of", error);
    }
    if (*count > 1) {
        qsort(*bases, *count, sizeof **bases, compare_bases);
    }
    return RP_OK;
}

static int damaged(const rp_timer_log *log, int64_t base, int64_t size, rp_error *error) {
    return rp_error_set(error, RP_E_CORRUPT, 0, log->directory, base,
                        "the file of %lld bytes does not belong into a row of files of %lld (mappedFileSizeTimerLog)", (long long)size,
                        (long long)log->file_size);
}

/* Takes over the files, or an empty log if they do not form a valid row. */
static int take_files(rp_timer_log *log, const int64_t *bases, uint32_t count, rp_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        char path[RP_PATH_MAX];
        struct stat info;
        int rc = rp_path_of_offset(path, log->directory, bases[i], error);
        if (rc == RP_OK && stat(path, &info) != 0) {
            rc = rp_timer_log_failed(log, bases[i], "look at a file of", error);
        }
        if (rc == RP_OK && i == count - 1 && info.st_size == 0) {
            return unlink_file(log, bases[i], error);
        }
        if (rc == RP_OK && (info.st_size != log->file_size || bases[i] % log->file_size != 0 || bases[i] > INT64_MAX / 2 ||
                            (i > 0 && bases[i] != rp_timer_log_files_end(log)))) {
            log->file_count = 0;
            log->begin = 0;
            return damaged(log, bases[i], (int64_t)info.st_size, error);
        }
        rc = rc == RP_OK ? reserve(log, error) : rc;
        if (rc != RP_OK) {
            return rc;
        }
        log->begin = i == 0 ? bases[0] : log->begin;
        log->newest[log->file_count++] = TIMER_LOG_NOT_KNOWN;
    }
    return RP_OK;
}

int rp_timer_log_open(const rp_file_ops *ops, const char *directory, int64_t file_size, rp_timer_log **opened, rp_error *error) {
    *opened = NULL;
    if (file_size < RP_TIMER_LOG_FILE_SIZE_MIN || file_size > INT32_MAX) {
        return rp_error_set(error, RP_E_INVALID, 0, directory, -1, "mappedFileSizeTimerLog is %lld: set it to %d to %d bytes",
                            (long long)file_size, RP_TIMER_LOG_FILE_SIZE_MIN, INT32_MAX);
    }
    rp_timer_log *log = calloc(1, sizeof *log);
    if (log == NULL || (log->directory = strdup(directory)) == NULL) {
        free(log);
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, directory, -1, "no memory for the timer log");
    }
    log->ops = ops != NULL ? ops : rp_file_ops_system();
    log->file_size = file_size;
    log->append_base = log->read_base = -1;
    int64_t *bases;
    uint32_t count;
    rp_error refusal = {0};
    int rc = list_bases(log, &bases, &count, &refusal);
    rc = rc == RP_OK ? take_files(log, bases, count, &refusal) : rc;
    free(bases);
    log->end = log->written = log->flushed = log->begin;
    if (rc != RP_OK && error != NULL) {
        *error = refusal;
    }
    if (rc != RP_OK && rc != RP_E_CORRUPT) {
        rp_timer_log_close(log);
        return rc;
    }
    *opened = log;
    return rc;
}

void rp_timer_log_close(rp_timer_log *log) {
    if (log != NULL) {
        rp_timer_log_close_files(log);
        free(log->newest);
        free(log->directory);
        free(log);
    }
}

int rp_timer_log_remove_all(rp_timer_log *log, rp_error *error) {
    int64_t *bases;
    uint32_t count;
    rp_error refusal = {0};
    int rc = list_bases(log, &bases, &count, &refusal);
    while (rc == RP_OK && count > 0) {
        rc = unlink_file(log, bases[--count], &refusal);
    }
    free(bases);
    rc = rc == RP_OK ? rp_timer_log_sync_names(log, &refusal) : rc;
    if (rc != RP_OK) {
        if (error != NULL) {
            *error = refusal;
        }
        return rc;
    }
    log->begin = log->end = log->written = log->flushed = 0;
    log->file_count = 0;
    log->sync_errno = 0;
    return RP_OK;
}
