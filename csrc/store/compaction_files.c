/* compaction_files.c: see compaction_files.h. */
#include "compaction_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/file_whole.h"
#include "store_path.h"

#define ASIDE "compacting"
#define REPLACE "replace"
#define DELETED ".delete" /* RocketMQ's */
#define LINE_SIZE (1 + RP_FILE_NAME_DIGITS + 1)

static int failed(rp_error *error, const char *path, const char *what) {
    int os_errno = errno;
    return rp_error_set(error, rp_status_from_errno(os_errno), os_errno, path, -1, "cannot %s: %s", what, strerror(os_errno));
}

int rp_compaction_bases_add(rp_compaction_bases *list, int64_t base, rp_error *error) {
    if (list->count == RP_COMPACTION_FILES_MAX)
        return rp_error_set(error, RP_E_TOO_LARGE, 0, NULL, -1, "a compacted queue has more than %d files", RP_COMPACTION_FILES_MAX);
    if (list->count == list->room) {
        uint32_t room = list->room == 0 ? 16 : list->room * 2;
        int64_t *larger = realloc(list->bases, room * sizeof *larger);
        if (larger == NULL)
            return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for the names of a compacted queue's files");
        list->bases = larger;
        list->room = room;
    }
    list->bases[list->count++] = base;
    return RP_OK;
}

void rp_compaction_bases_free(rp_compaction_bases *list) {
    free(list->bases);
    *list = (rp_compaction_bases){NULL, 0, 0};
}

static bool has(const rp_compaction_bases *list, int64_t base) {
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->bases[i] == base)
            return true;
    }
    return false;
}

static int compare(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* Returns the base in a file's name, or in a name that ends in suffix; -1: another name. */
static int64_t base_of(const char *name, const char *suffix) {
    char digits[RP_FILE_NAME_DIGITS + 1];
    if (strlen(name) != RP_FILE_NAME_DIGITS + strlen(suffix) || strcmp(name + RP_FILE_NAME_DIGITS, suffix) != 0)
        return -1;
    memcpy(digits, name, RP_FILE_NAME_DIGITS);
    digits[RP_FILE_NAME_DIGITS] = 0;
    return rp_path_offset_of_name(digits);
}

/* Lists the files of a directory whose names are a base and the suffix, ascending. A missing directory has none. */
static int read_directory(const char *directory, const char *suffix, rp_compaction_bases *list, rp_error *error) {
    DIR *stream = opendir(directory);
    if (stream == NULL)
        return errno == ENOENT ? RP_OK : failed(error, directory, "read the directory");
    const struct dirent *each;
    int rc = RP_OK;
    for (errno = 0; rc == RP_OK && (each = readdir(stream)) != NULL; errno = 0) {
        int64_t base = base_of(each->d_name, suffix);
        rc = base >= 0 ? rp_compaction_bases_add(list, base, error) : RP_OK;
    }
    if (rc == RP_OK && errno != 0)
        rc = failed(error, directory, "read the directory"); /* an incomplete list would make the missing files count as gone */
    closedir(stream);
    if (list->count > 0)
        qsort(list->bases, list->count, sizeof *list->bases, compare);
    return rc;
}

static int unlink_one(const rp_file_ops *ops, const char *directory, int64_t base, const char *suffix, rp_error *error) {
    char path[RP_PATH_MAX], name[RP_FILE_NAME_DIGITS + 16];
    snprintf(name, sizeof name, "%020lld%s", (long long)base, suffix);
    int rc = rp_path_join(path, directory, name, error);
    if (rc == RP_OK && ops->unlink(ops->context, path) != 0 && errno != ENOENT)
        return failed(error, path, "unlink the file");
    return rc;
}

static int unlink_all(const rp_file_ops *ops, const char *directory, const char *suffix, rp_error *error) {
    rp_compaction_bases list = {NULL, 0, 0};
    int rc = read_directory(directory, suffix, &list, error);
    for (uint32_t i = 0; i < list.count && rc == RP_OK; i++)
        rc = unlink_one(ops, directory, list.bases[i], suffix, error);
    rp_compaction_bases_free(&list);
    return rc;
}

int rp_compaction_files_unlink(const rp_compaction_place *place, int64_t base, rp_error *error) {
    int rc = unlink_one(place->ops, place->log_directory, base, "", error);
    int queue_rc = unlink_one(place->ops, place->queue_directory, base, "", error);
    return rc != RP_OK ? rc : queue_rc;
}

int rp_compaction_files_aside(const rp_compaction_place *place, char *log_path, char *queue_path, rp_compaction_place *aside,
                              rp_error *error) {
    *aside = *place;
    aside->log_directory = log_path;
    aside->queue_directory = queue_path;
    int rc = rp_path_join(log_path, place->log_directory, ASIDE, error);
    return rc == RP_OK ? rp_path_join(queue_path, place->queue_directory, ASIDE, error) : rc;
}

int rp_compaction_files_make_directories(const rp_compaction_place *place, rp_error *error) {
    char log_path[RP_PATH_MAX], queue_path[RP_PATH_MAX];
    rp_compaction_place aside;
    int rc = rp_compaction_files_aside(place, log_path, queue_path, &aside, error);
    rc = rc == RP_OK ? rp_path_make_directories(log_path, error) : rc;
    return rc == RP_OK ? rp_path_make_directories(queue_path, error) : rc;
}

void rp_compaction_files_drop_aside(const rp_compaction_place *place) {
    char log_path[RP_PATH_MAX], queue_path[RP_PATH_MAX];
    rp_compaction_place aside;
    if (rp_compaction_files_aside(place, log_path, queue_path, &aside, NULL) != RP_OK)
        return;
    (void)unlink_all(place->ops, log_path, "", NULL); /* a file that stays is dropped by the next open, or emptied by the next compaction */
    (void)unlink_all(place->ops, queue_path, "", NULL);
    (void)rmdir(log_path);
    (void)rmdir(queue_path);
}

/* ---- replacing ---- */

static int sync_directory(const rp_file_ops *ops, const char *directory, rp_error *error) {
    return ops->sync_directory(ops->context, directory) == 0 ? RP_OK : failed(error, directory, "sync the directory");
}

/* Moves a file up. One that was moved before no longer exists there, which is no error. */
static int move_up(const rp_file_ops *ops, const char *from, const char *to, int64_t base, rp_error *error) {
    char source[RP_PATH_MAX], target[RP_PATH_MAX];
    int rc = rp_path_of_offset(source, from, base, error);
    rc = rc == RP_OK ? rp_path_of_offset(target, to, base, error) : rc;
    if (rc == RP_OK && ops->rename(ops->context, source, target) != 0 && errno != ENOENT)
        return failed(error, source, "move the file to where it belongs");
    return rc;
}

int rp_compaction_files_is_marked(const rp_compaction_place *place) {
    char path[RP_PATH_MAX];
    return rp_path_join(path, place->log_directory, ASIDE "/" REPLACE, NULL) == RP_OK && access(path, F_OK) == 0;
}

/* The file of entries is moved first: if only the file of records were in place, its entries would be made anew. */
int rp_compaction_files_finish(const rp_compaction_place *place, const rp_compaction_bases *old, const rp_compaction_bases *fresh,
                               rp_error *error) {
    char log_path[RP_PATH_MAX], queue_path[RP_PATH_MAX], mark[RP_PATH_MAX];
    rp_compaction_place aside;
    const rp_file_ops *ops = place->ops;
    int rc = rp_compaction_files_aside(place, log_path, queue_path, &aside, error);
    /* A kill, or a failed call, may have come before the mark's name was on disk. */
    if (rc == RP_OK && rp_compaction_files_is_marked(place))
        rc = sync_directory(ops, log_path, error);
    for (uint32_t i = 0; i < fresh->count && rc == RP_OK; i++) {
        rc = move_up(ops, queue_path, place->queue_directory, fresh->bases[i], error);
        rc = rc == RP_OK ? move_up(ops, log_path, place->log_directory, fresh->bases[i], error) : rc;
    }
    for (uint32_t i = 0; i < old->count && rc == RP_OK; i++) {
        if (!has(fresh, old->bases[i]))
            rc = rp_compaction_files_unlink(place, old->bases[i], error);
    }
    rc = rc == RP_OK ? sync_directory(ops, place->log_directory, error) : rc;
    rc = rc == RP_OK ? sync_directory(ops, place->queue_directory, error) : rc;
    rc = rc == RP_OK ? rp_path_join(mark, log_path, REPLACE, error) : rc;
    if (rc == RP_OK && ops->unlink(ops->context, mark) != 0 && errno != ENOENT)
        return failed(error, mark, "unlink the mark of a finished compaction");
    if (rc == RP_OK)
        rp_compaction_files_drop_aside(place);
    return rc;
}

static char *write_lines(char *to, char sign, const rp_compaction_bases *list) {
    for (uint32_t i = 0; i < list->count; i++, to += LINE_SIZE)
        snprintf(to, LINE_SIZE + 1, "%c%020lld\n", sign, (long long)list->bases[i]);
    return to;
}

int rp_compaction_files_mark(const rp_compaction_place *place, const rp_compaction_bases *old, const rp_compaction_bases *fresh,
                             rp_error *error) {
    char log_path[RP_PATH_MAX], queue_path[RP_PATH_MAX], mark[RP_PATH_MAX];
    rp_compaction_place aside;
    size_t size = ((size_t)old->count + fresh->count) * LINE_SIZE;
    char *text = malloc(size + 1);
    if (text == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for the list of a compaction's files");
    write_lines(write_lines(text, '-', old), '+', fresh);
    int rc = rp_compaction_files_aside(place, log_path, queue_path, &aside, error);
    rc = rc == RP_OK ? sync_directory(place->ops, queue_path, error) : rc;
    rc = rc == RP_OK ? rp_path_join(mark, log_path, REPLACE, error) : rc;
    rc = rc == RP_OK ? rp_file_write_whole(place->ops, mark, text, size, "the list of a compaction's files", error) : rc;
    free(text);
    return rc;
}

/* RP_OK, RP_E_CORRUPT. */
static int read_lines(const char *text, size_t size, const char *path, rp_compaction_bases *old, rp_compaction_bases *fresh,
                      rp_error *error) {
    int rc = RP_OK;
    for (size_t at = 0; at < size && rc == RP_OK; at += LINE_SIZE) {
        char name[RP_FILE_NAME_DIGITS + 1] = "";
        if (size - at >= LINE_SIZE)
            memcpy(name, text + at + 1, RP_FILE_NAME_DIGITS);
        int64_t base = rp_path_offset_of_name(name);
        if (base < 0 || (text[at] != '-' && text[at] != '+'))
            return rp_error_set(error, RP_E_CORRUPT, 0, path, (int64_t)at, "no line of a compaction's list of files");
        rc = rp_compaction_bases_add(text[at] == '-' ? old : fresh, base, error);
    }
    return rc;
}

int rp_compaction_files_are_moving(const rp_compaction_place *place) {
    rp_compaction_bases renamed = {NULL, 0, 0};
    /* A directory that cannot be read is reported by the callers that read more of it. */
    (void)read_directory(place->log_directory, DELETED, &renamed, NULL);
    (void)read_directory(place->queue_directory, DELETED, &renamed, NULL);
    bool has_renamed = renamed.count > 0;
    rp_compaction_bases_free(&renamed);
    return has_renamed || rp_compaction_files_is_marked(place);
}

static int read_mark(const rp_compaction_place *place, rp_compaction_bases *old, rp_compaction_bases *fresh, rp_error *error) {
    char mark[RP_PATH_MAX];
    size_t room = (size_t)2 * RP_COMPACTION_FILES_MAX * LINE_SIZE;
    int64_t size = -1;
    int rc = rp_path_join(mark, place->log_directory, ASIDE "/" REPLACE, error);
    if (rc != RP_OK)
        return rc;
    char *text = malloc(room);
    if (text == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, mark, -1, "no memory to read a compaction's list of files");
    rc = rp_file_read_whole(place->ops, mark, text, room, &size, "a compaction's list of files", error);
    if (rc == RP_OK && size > 0 && (size_t)size <= room)
        rc = read_lines(text, (size_t)size, mark, old, fresh, error);
    else if (rc == RP_OK)
        rc = rp_error_set(error, RP_E_CORRUPT, 0, mark, -1, "a compaction's list of files has %lld bytes", (long long)size);
    free(text);
    return rc;
}

/* RocketMQ was killed during its renames: what it had written is whole, and the old files are those with the suffix. */
static int read_renamed(const rp_compaction_place *place, const rp_compaction_place *aside, rp_compaction_bases *old,
                        rp_compaction_bases *fresh, rp_error *error) {
    int rc = read_directory(place->log_directory, DELETED, old, error);
    rc = rc == RP_OK ? read_directory(place->queue_directory, DELETED, old, error) : rc;
    if (rc != RP_OK || old->count == 0)
        return rc;
    rc = read_directory(aside->log_directory, "", fresh, error);
    rc = rc == RP_OK ? read_directory(aside->queue_directory, "", fresh, error) : rc;
    rp_compaction_bases there = {NULL, 0, 0};
    rc = rc == RP_OK ? read_directory(place->log_directory, "", &there, error) : rc;
    for (uint32_t i = 0; i < there.count && rc == RP_OK; i++)
        rc = rp_compaction_bases_add(fresh, there.bases[i], error); /* moved already, or never to be removed */
    rp_compaction_bases_free(&there);
    return rc;
}

int rp_compaction_files_settle(const rp_compaction_place *place, rp_log *log, rp_error *error) {
    char log_path[RP_PATH_MAX], queue_path[RP_PATH_MAX];
    rp_compaction_place aside;
    rp_compaction_bases old = {NULL, 0, 0}, fresh = {NULL, 0, 0};
    int rc = rp_compaction_files_aside(place, log_path, queue_path, &aside, error);
    if (rc == RP_OK)
        rc =
            rp_compaction_files_is_marked(place) ? read_mark(place, &old, &fresh, error) : read_renamed(place, &aside, &old, &fresh, error);
    if (rc == RP_OK && old.count > 0) {
        rp_log_write(log, RP_LOG_WARNING, "compacted queue %s: a compaction that was cut off is finished", place->log_directory);
        rc = rp_compaction_files_finish(place, &old, &fresh, error);
        rc = rc == RP_OK ? unlink_all(place->ops, place->log_directory, DELETED, error) : rc;
        rc = rc == RP_OK ? unlink_all(place->ops, place->queue_directory, DELETED, error) : rc;
    } else if (rc == RP_OK) {
        rp_compaction_files_drop_aside(place);
    }
    rp_compaction_bases_free(&old);
    rp_compaction_bases_free(&fresh);
    return rc;
}

int rp_compaction_files_list(const rp_compaction_place *place, rp_compaction_bases *list, rp_log *log, rp_error *error) {
    rp_compaction_bases entries = {NULL, 0, 0};
    int rc = read_directory(place->log_directory, "", list, error);
    rc = rc == RP_OK ? read_directory(place->queue_directory, "", &entries, error) : rc;
    for (uint32_t i = 0; i < entries.count && rc == RP_OK; i++) {
        if (!has(list, entries.bases[i])) {
            rp_log_write(log, RP_LOG_ERROR, "compacted queue %s: the file of records %020lld is gone, its entries go, too",
                         place->log_directory, (long long)entries.bases[i]);
            rc = unlink_one(place->ops, place->queue_directory, entries.bases[i], "", error);
        }
    }
    rp_compaction_bases_free(&entries);
    return rc;
}

int rp_compaction_files_remove(const rp_compaction_place *place, rp_error *error) {
    char log_path[RP_PATH_MAX], queue_path[RP_PATH_MAX], mark[RP_PATH_MAX];
    rp_compaction_place aside;
    const rp_file_ops *ops = place->ops;
    int rc = rp_compaction_files_aside(place, log_path, queue_path, &aside, error);
    rc = rc == RP_OK ? rp_path_join(mark, log_path, REPLACE, error) : rc;
    if (rc == RP_OK)
        ops->unlink(ops->context, mark); /* before the files that it would bring back */
    rp_compaction_files_drop_aside(place);
    rc = rc == RP_OK ? unlink_all(ops, place->queue_directory, "", error) : rc;
    rc = rc == RP_OK ? unlink_all(ops, place->log_directory, "", error) : rc;
    rp_path_remove_empty(place->log_directory, 2); /* and the topic's, with the last of its queues */
    rp_path_remove_empty(place->queue_directory, 2);
    return rc;
}
