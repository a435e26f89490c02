/* key_index.c: see key_index.h. */
#include "key_index.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "index_key.h"
#include "store_path.h"

#define NAME_SIZE 17 /* yyyyMMddHHmmssSSS */
#define FILES_MAX 4096

struct rp_key_index {
    /* fixed after open */
    rp_key_index_options options;
    char directory[PATH_MAX - 64];
    /* guarded by row_lock: the builder writes, queries read */
    pthread_rwlock_t row_lock;
    rp_index_file *files[FILES_MAX];
    uint32_t file_count;
    /* Owned by the builder thread. */
    int is_dirty;
    int has_new_name;      /* a file was created since the directory was synced */
    uint32_t synced_files; /* files before this one are full and synced */
    rp_error sync_failure; /* the first sync that failed; status 0: none has */
};

void rp_key_index_options_default(rp_key_index_options *options) {
    *options = (rp_key_index_options){.shape = {RP_INDEX_SLOT_COUNT, RP_INDEX_ENTRY_COUNT_MAX}, .last_exit_clean = 1, .synced_offset = -1};
}

/* ---- open ---- */

static int is_index_name(const struct dirent *entry) {
    if (strlen(entry->d_name) != NAME_SIZE)
        return 0;
    return strspn(entry->d_name, "0123456789") == NAME_SIZE;
}

static int is_empty(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && status.st_size == 0;
}

/* Removes a file that a kill left without length, since there is nothing in it to inspect; renames any other. */
static void set_aside(const rp_key_index *index, const char *path, const rp_error *error) {
    char target[PATH_MAX + 16];
    snprintf(target, sizeof target, "%s.damaged", path);
    const rp_file_ops *ops = index->options.file_ops;
    if (!index->options.read_only && is_empty(path) && ops->unlink(ops->context, path) == 0)
        return;
    int failed = index->options.read_only ? 0 : ops->rename(ops->context, path, target);
    rp_log_write(index->options.log, RP_LOG_WARNING, "index: %s: %s; %s", path, error->message,
                 index->options.read_only ? "skipped"
                 : failed < 0             ? "could not be set aside"
                                          : "set aside and built again from the commit log");
}

/* After an unclean stop, files that may hold unsynced entries are not trusted. Nor is one without entries: what its header says of the
 * file before it may have been lost. */
static int is_beyond_sync(const rp_key_index *index, const rp_index_file *file) {
    const rp_key_index_options *options = &index->options;
    if (options->last_exit_clean || options->read_only)
        return 0;
    int is_later = options->synced_offset >= 0 ? rp_index_file_end_offset(file) > options->synced_offset
                                               : rp_index_file_end_time(file) > options->synced_time_ms;
    return is_later || rp_index_file_entry_count(file) == 0 || !rp_index_file_has_true_slots(file);
}

static void unlink_file(const rp_key_index *index, rp_index_file *file, const char *why) {
    const rp_file_ops *ops = index->options.file_ops;
    rp_log_write(index->options.log, RP_LOG_INFO, "index: %s removed: %s", rp_index_file_path(file), why);
    if (ops->unlink(ops->context, rp_index_file_path(file)) < 0)
        rp_log_write(index->options.log, RP_LOG_WARNING, "index: %s could not be removed: %s", rp_index_file_path(file), strerror(errno));
    rp_index_file_close(file);
}

/* RP_OK, or a status that must stop the open. */
static int load_file(rp_key_index *index, const char *name, int *is_row_broken, rp_error *error) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", index->directory, name);
    rp_index_file *file = NULL;
    int status = rp_index_file_open(index->options.file_ops, path, index->options.shape, !index->options.read_only, &file, error);
    if (status == RP_E_CORRUPT) {
        set_aside(index, path, error);
        *is_row_broken = 1; /* files behind it would leave a gap that nothing fills */
        return RP_OK;
    }
    if (status < 0)
        return status;
    if (*is_row_broken && !index->options.read_only) {
        unlink_file(index, file, "one before it is missing now, both are built again from the commit log");
        return RP_OK;
    }
    if (is_beyond_sync(index, file)) {
        unlink_file(index, file, "written to after the last checkpoint before an unclean stop, built again from the commit log");
        *is_row_broken = 1;
        return RP_OK;
    }
    if (index->file_count == FILES_MAX) {
        rp_index_file_close(file);
        return rp_error_set(error, RP_E_TOO_LARGE, 0, path, -1, "more than %d index files", FILES_MAX);
    }
    index->files[index->file_count++] = file;
    return RP_OK;
}

static int load_files(rp_key_index *index, rp_error *error) {
    struct dirent **names = NULL;
    int count = scandir(index->directory, &names, is_index_name, alphasort);
    if (count < 0 && index->options.read_only && errno == ENOENT)
        return RP_OK;
    if (count < 0)
        return rp_error_set(error, rp_status_from_errno(errno), errno, index->directory, -1, "cannot list the index directory: %s",
                            strerror(errno));
    int status = RP_OK, is_row_broken = 0;
    for (int i = 0; i < count; i++) {
        if (status == RP_OK)
            status = load_file(index, names[i]->d_name, &is_row_broken, error);
        free(names[i]);
    }
    free(names);
    index->synced_files = index->file_count > 0 ? index->file_count - 1 : 0;
    return status;
}

static void free_index(rp_key_index *index) {
    for (uint32_t i = 0; i < index->file_count; i++)
        rp_index_file_close(index->files[i]);
    pthread_rwlock_destroy(&index->row_lock);
    free(index);
}

int rp_key_index_open(const rp_key_index_options *options, rp_key_index **opened, rp_error *error) {
    rp_key_index *index = calloc(1, sizeof *index);
    if (index == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, options->directory, -1, "no memory for the key index");
    index->options = *options;
    if (index->options.file_ops == NULL)
        index->options.file_ops = rp_file_ops_system();
    pthread_rwlock_init(&index->row_lock, NULL);
    int status = RP_OK;
    if (strlen(options->directory) >= sizeof index->directory)
        status = rp_error_set(error, RP_E_INVALID, 0, options->directory, -1, "the index path is too long");
    else
        memcpy(index->directory, options->directory, strlen(options->directory) + 1); /* fits: checked above */
    if (status == RP_OK && !options->read_only)
        status = rp_path_make_directories(index->directory, error);
    if (status == RP_OK)
        status = load_files(index, error);
    if (status < 0) {
        free_index(index);
        return status;
    }
    *opened = index;
    return RP_OK;
}

void rp_key_index_close(rp_key_index *index) {
    if (index == NULL)
        return;
    rp_error error;
    if (!index->options.read_only && rp_key_index_sync(index, &error) < 0)
        rp_log_write(index->options.log, RP_LOG_WARNING, "index: not synced at close: %s", error.message);
    free_index(index);
}

/* ---- put, builder thread ---- */

/* Under row_lock. */
static rp_index_file *last_file(const rp_key_index *index) { return index->file_count == 0 ? NULL : index->files[index->file_count - 1]; }

/* The file that is being filled. Retention moves the row but never removes its last file, so the builder may use it without the lock. */
static rp_index_file *growing_file(rp_key_index *index) {
    pthread_rwlock_rdlock(&index->row_lock);
    rp_index_file *file = last_file(index);
    pthread_rwlock_unlock(&index->row_lock);
    return file;
}

static void name_by_time(int64_t wall_ms, char name[static NAME_SIZE + 1]) {
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm parts;
    localtime_r(&seconds, &parts);
    size_t size = strftime(name, NAME_SIZE + 1, "%Y%m%d%H%M%S", &parts);
    snprintf(name + size, NAME_SIZE + 1 - size, "%03d", (int)(wall_ms % 1000));
}

/* Adds a file behind the last one. Names must ascend, so if the clock stood still or went back, the name is counted up. */
static int add_file(rp_key_index *index, rp_error *error) {
    if (rp_key_index_file_count(index) == FILES_MAX)
        return rp_error_set(error, RP_E_TOO_LARGE, 0, index->directory, -1, "more than %d index files", FILES_MAX);
    rp_index_file *previous = growing_file(index), *file = NULL;
    const char *previous_name = previous == NULL ? "" : strrchr(rp_index_file_path(previous), '/') + 1;
    int64_t wall_ms = rp_clock_wall_ms(index->options.clock);
    int status = RP_E_EXISTS;
    for (int tries = 0; tries < 1000 && status == RP_E_EXISTS; tries++, wall_ms++) {
        char name[24], path[PATH_MAX]; /* digits of any 64-bit number fit */
        name_by_time(wall_ms, name);
        if (strcmp(name, previous_name) <= 0) {
            snprintf(name, sizeof name, "%017lld", strtoll(previous_name, NULL, 10) + 1 + tries);
        }
        snprintf(path, sizeof path, "%s/%s", index->directory, name);
        status = rp_index_file_create(index->options.file_ops, path, index->options.shape,
                                      previous == NULL ? 0 : rp_index_file_end_offset(previous),
                                      previous == NULL ? 0 : rp_index_file_end_time(previous), &file, error);
    }
    if (status < 0)
        return status;
    index->has_new_name = 1;
    pthread_rwlock_wrlock(&index->row_lock);
    index->files[index->file_count++] = file;
    pthread_rwlock_unlock(&index->row_lock);
    return RP_OK;
}

int rp_key_index_put(rp_key_index *index, int32_t key_hash, int64_t log_offset, int64_t store_time_ms, rp_error *error) {
    rp_index_file *file = growing_file(index);
    if (file == NULL || rp_index_file_is_full(file)) {
        int status = add_file(index, error);
        if (status < 0)
            return status;
        file = growing_file(index);
    }
    index->is_dirty = 1;
    return rp_index_file_put(file, key_hash, log_offset, store_time_ms, error);
}

int rp_key_index_put_message(rp_key_index *index, const rp_message *message, rp_error *error) {
    rp_index_keys keys = rp_index_keys_of(message);
    int32_t hash;
    while (rp_index_keys_next(&keys, &hash)) {
        int status = hash < 0 ? RP_OK : rp_key_index_put(index, hash, message->physical_offset, message->store_timestamp_ms, error);
        if (status < 0)
            return status;
    }
    return RP_OK;
}

int64_t rp_key_index_next_offset(rp_key_index *index) {
    const rp_index_file *last = growing_file(index);
    return last == NULL ? -1 : rp_index_file_end_offset(last);
}

int64_t rp_key_index_last_time(const rp_key_index *index) {
    const rp_index_file *last = last_file(index);
    return last == NULL ? 0 : rp_index_file_end_time(last);
}

/* If a file's name were lost, the row would have a gap that nothing fills. */
static int sync_names(rp_key_index *index, rp_error *error) {
    const rp_file_ops *ops = index->options.file_ops;
    if (!index->has_new_name || ops->sync_directory(ops->context, index->directory) == 0) {
        index->has_new_name = 0;
        return RP_OK;
    }
    int cause = errno, is_passing = cause == EMFILE || cause == ENFILE;
    return rp_error_set(error, is_passing ? RP_E_BUSY : rp_status_from_errno(cause), cause, index->directory, -1,
                        "syncing the index directory failed: %s", strerror(cause));
}

/* Under row_lock for reading, so that retention cannot move the row; queries continue. The first failure is final: what the kernel
 * dropped then is not in the pages that a later sync would write. */
static int64_t sync_files(rp_key_index *index, rp_error *error) {
    if (index->file_count == 0)
        return 0;
    if (index->sync_failure.status == RP_OK && sync_names(index, error) != RP_OK) {
        index->sync_failure = error->status == RP_E_BUSY ? index->sync_failure : *error;
        return error->status;
    }
    while (index->sync_failure.status == RP_OK && index->is_dirty && index->synced_files < index->file_count) {
        if (rp_index_file_sync(index->files[index->synced_files], &index->sync_failure) == RP_OK)
            index->synced_files++;
    }
    if (index->sync_failure.status != RP_OK) {
        *error = index->sync_failure;
        return error->status;
    }
    index->is_dirty = 0;
    index->synced_files = index->file_count - 1; /* the last one is still growing */
    return rp_index_file_end_time(last_file(index));
}

/* Under row_lock for reading, by the builder. No failure: a disk that is still full lets queries go on by calls. */
static void fill_holes(rp_key_index *index) {
    for (uint32_t i = 0; i < index->file_count && rp_index_file_fill_holes(index->files[i], NULL) != RP_E_DISK_FULL; i++) {
    }
}

int64_t rp_key_index_sync(rp_key_index *index, rp_error *error) {
    pthread_rwlock_rdlock(&index->row_lock);
    fill_holes(index);
    int64_t time_ms = sync_files(index, error);
    pthread_rwlock_unlock(&index->row_lock);
    return time_ms;
}

/* ---- row changes and queries, any thread ---- */

int32_t rp_key_index_delete_before(rp_key_index *index, int64_t log_offset) {
    int32_t deleted = 0;
    pthread_rwlock_wrlock(&index->row_lock);
    while (index->file_count > 1 && rp_index_file_end_offset(index->files[0]) < log_offset) {
        unlink_file(index, index->files[0], "its messages have expired");
        memmove(index->files, index->files + 1, (index->file_count - 1) * sizeof index->files[0]);
        index->file_count--;
        if (index->synced_files > 0)
            index->synced_files--;
        deleted++;
    }
    pthread_rwlock_unlock(&index->row_lock);
    return deleted;
}

int32_t rp_key_index_truncate(rp_key_index *index, int64_t log_offset) {
    int32_t dropped = 0;
    pthread_rwlock_wrlock(&index->row_lock);
    while (index->file_count > 0 && rp_index_file_end_offset(last_file(index)) >= log_offset) {
        unlink_file(index, last_file(index), "the commit log was cut below its end, built again");
        index->file_count--;
        dropped++;
    }
    index->synced_files = index->file_count > 0 ? index->file_count - 1 : 0;
    pthread_rwlock_unlock(&index->row_lock);
    return dropped;
}

static int overlaps(const rp_index_file *file, int64_t begin_ms, int64_t end_ms) {
    return begin_ms <= rp_index_file_end_time(file) && end_ms >= rp_index_file_begin_time(file);
}

static uint32_t drop_repeats(int64_t *offsets, uint32_t count) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) { /* duplicates are adjacent: entries are in log order */
        if (kept == 0 || offsets[kept - 1] != offsets[i])
            offsets[kept++] = offsets[i];
    }
    return kept;
}

rp_key_query rp_key_index_query(rp_key_index *index, rp_slice topic, rp_slice key, int64_t begin_ms, int64_t end_ms, int64_t *offsets,
                                uint32_t offsets_max) {
    rp_key_query query = {0};
    int32_t hash = rp_index_key_hash(topic, key);
    pthread_rwlock_rdlock(&index->row_lock);
    for (uint32_t i = index->file_count; i > 0 && hash >= 0; i--) {
        const rp_index_file *file = index->files[i - 1];
        if (i == index->file_count) {
            query.last_update_time_ms = rp_index_file_end_time(file);
            query.last_update_offset = rp_index_file_end_offset(file);
        }
        if (overlaps(file, begin_ms, end_ms))
            query.found += rp_index_file_select(file, hash, begin_ms, end_ms, offsets + query.found, offsets_max - query.found);
        if (query.found >= offsets_max || rp_index_file_begin_time(file) < begin_ms)
            break;
    }
    pthread_rwlock_unlock(&index->row_lock);
    query.found = drop_repeats(offsets, query.found);
    return query;
}

uint32_t rp_key_index_file_count(rp_key_index *index) {
    pthread_rwlock_rdlock(&index->row_lock);
    uint32_t count = index->file_count;
    pthread_rwlock_unlock(&index->row_lock);
    return count;
}
