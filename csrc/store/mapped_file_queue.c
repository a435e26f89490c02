/* mapped_file_queue.c: slots, lookups and the directory of a row of files. See mapped_file_queue.h. */
#include "mapped_file_queue_inl.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "store_path.h"

#define SLOTS_MIN 4
#define OFFSET_MAX (INT64_MAX / 2) /* no log or queue reaches it, and sums with an offset do not overflow */

struct rp_file_slots {
    rp_file_slots *replaced; /* the array before this one */
    int64_t first_index;    /* fixed: file index of slot 0 */
    uint32_t capacity;      /* fixed */
    _Atomic(rp_mapped_file *) files[];
};

int rp_mapped_file_queue_create(const rp_mapped_file_queue_options *options, rp_mapped_file_queue **row_out) {
    rp_mapped_file_queue *row = calloc(1, sizeof *row);
    if (row == NULL || (row->directory = strdup(options->directory)) == NULL ||
        (options->aside_directory != NULL && (row->aside_directory = strdup(options->aside_directory)) == NULL)) {
        if (row != NULL) {
            free(row->directory);
        }
        free(row);
        return RP_E_NO_MEMORY;
    }
    row->ops = options->ops;
    row->file_size = options->file_size;
    row->mode = options->mode;
    row->files = options->files;
    pthread_mutex_init(&row->lock, NULL);
    pthread_mutex_init(&row->name_lock, NULL);
    *row_out = row;
    return RP_OK;
}

void rp_mapped_file_queue_destroy(rp_mapped_file_queue *row) {
    if (row == NULL) {
        return;
    }
    rp_file_slots *now = atomic_load(&row->slots);
    for (uint32_t i = 0; now != NULL && i < now->capacity; i++) {
        rp_mapped_file *file = atomic_load(&now->files[i]);
        if (file != NULL) {
            rp_mapped_file_release(file);
            rp_mapped_file_free(file);
        }
    }
    while (now != NULL) {
        rp_file_slots *before = now->replaced;
        free(now);
        now = before;
    }
    while (row->removed != NULL) {
        rp_mapped_file *next = row->removed->next_removed;
        rp_mapped_file_free(row->removed);
        row->removed = next;
    }
    pthread_mutex_destroy(&row->lock);
    pthread_mutex_destroy(&row->name_lock);
    free(row->directory);
    free(row->aside_directory);
    free(row);
}

/* Under lock: makes room for file_index behind the existing files, in a new array if the old one is full. */
static int reserve_slot(rp_mapped_file_queue *row, int64_t file_index) {
    rp_file_slots *now = atomic_load_explicit(&row->slots, memory_order_relaxed);
    if (now != NULL && file_index >= now->first_index && file_index - now->first_index < now->capacity) {
        return RP_OK;
    }
    int64_t size = (int64_t)row->file_size, begin = atomic_load(&row->begin), end = atomic_load(&row->end);
    int64_t first = end > begin ? begin / size : file_index;
    uint64_t live = (uint64_t)(file_index - first) + 1, capacity = SLOTS_MIN;
    while (capacity < live + live / 2) {
        capacity *= 2;
    }
    if (capacity > UINT32_MAX / 2) {
        return RP_E_TOO_LARGE;
    }
    rp_file_slots *larger = calloc(1, sizeof *larger + capacity * sizeof larger->files[0]);
    if (larger == NULL) {
        return RP_E_NO_MEMORY;
    }
    larger->replaced = now;
    larger->first_index = first;
    larger->capacity = (uint32_t)capacity;
    for (int64_t index = first; now != NULL && end > begin && index < end / size;
         index++) { /* an emptied row may start below its old end */
        atomic_init(&larger->files[index - first], atomic_load_explicit(&now->files[index - now->first_index], memory_order_relaxed));
    }
    atomic_store_explicit(&row->slots, larger, memory_order_release);
    return RP_OK;
}

static void count_files(const rp_mapped_file_queue *row, int64_t more) {
    if (row->files != NULL) {
        atomic_fetch_add_explicit(row->files, more, memory_order_relaxed);
    }
}

/* Under lock: publishes the file as the row's last one. */
static int publish_file(rp_mapped_file_queue *row, rp_mapped_file *file) {
    int64_t size = (int64_t)row->file_size, index = file->base_offset / size;
    int rc = reserve_slot(row, index);
    if (rc != RP_OK) {
        return rc;
    }
    rp_file_slots *now = atomic_load_explicit(&row->slots, memory_order_relaxed);
    atomic_store_explicit(&now->files[index - now->first_index], file, memory_order_release);
    if (atomic_load(&row->end) == atomic_load(&row->begin)) {
        atomic_store_explicit(&row->begin, file->base_offset, memory_order_release);
    }
    atomic_store_explicit(&row->end, file->base_offset + size, memory_order_release);
    count_files(row, 1);
    return RP_OK;
}

static int compare_offsets(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* Returns the start offsets of the files in the directory, sorted: *count of them, to be freed by the caller. */
static int list_offsets(const rp_mapped_file_queue *row, int64_t **offsets, size_t *count, rp_error *error) {
    *offsets = NULL;
    *count = 0;
    DIR *directory = opendir(row->directory);
    if (directory == NULL) {
        return errno == ENOENT ? RP_OK
                               : rp_error_set(error, rp_status_from_errno(errno), errno, row->directory, -1,
                                              "cannot read the directory: %s", strerror(errno));
    }
    size_t capacity = 0;
    struct dirent *entry;
    for (errno = 0; (entry = readdir(directory)) != NULL; errno = 0) {
        int64_t offset = rp_path_offset_of_name(entry->d_name);
        if (offset < 0) {
            continue; /* not a store file: editors, file managers and lost+found leave things everywhere */
        }
        if (*count == capacity) {
            capacity = capacity == 0 ? 16 : capacity * 2;
            int64_t *larger = realloc(*offsets, capacity * sizeof **offsets);
            if (larger == NULL) {
                closedir(directory);
                free(*offsets);
                return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, row->directory, -1, "no memory for the list of files");
            }
            *offsets = larger;
        }
        (*offsets)[(*count)++] = offset;
    }
    int os_errno = errno; /* of the readdir that ended the loop: a file that is not listed would count as lost */
    closedir(directory);
    if (os_errno != 0) {
        free(*offsets);
        return rp_error_set(error, rp_status_from_errno(os_errno), os_errno, row->directory, -1, "cannot read the directory: %s",
                            strerror(os_errno));
    }
    if (*count != 0) {
        qsort(*offsets, *count, sizeof **offsets, compare_offsets);
    }
    return RP_OK;
}

/* What was set aside at that offset before stays: it is another history, and perhaps all that is left of it. */
static int free_name(char *path, const char *directory, int64_t offset, rp_error *error) {
    char name[32];
    int rc = rp_path_of_offset(path, directory, offset, error);
    for (int number = 1; rc == RP_OK && access(path, F_OK) == 0; number++) {
        snprintf(name, sizeof name, "%020lld.%d", (long long)offset, number);
        rc = rp_path_join(path, directory, name, error);
    }
    return rc;
}

static int move_to(rp_mapped_file_queue *row, const char *path, const char *directory, int64_t offset, rp_error *error) {
    char aside[RP_PATH_MAX];
    int rc = rp_path_make_directories(directory, error);
    rc = rc == RP_OK ? free_name(aside, directory, offset, error) : rc;
    return rc != RP_OK || row->ops->rename(row->ops->context, path, aside) == 0
               ? rc
               : rp_error_set(error, rp_status_from_errno(errno), errno, path, -1, "cannot move the file aside: %s", strerror(errno));
}

/* If the log has a disk of its own, files cannot be moved to a directory elsewhere: they go into a directory beside them, which every
 * start ignores, RocketMQ's too. */
static int set_aside(rp_mapped_file_queue *row, const char *path, int64_t offset, rp_error *error) {
    char beside[RP_PATH_MAX];
    rp_error failure = {0};
    int rc = move_to(row, path, row->aside_directory, offset, &failure);
    if (rc != RP_OK && failure.os_errno == EXDEV) {
        rc = rp_path_join(beside, row->directory, "aside", &failure);
        rc = rc == RP_OK ? move_to(row, path, beside, offset, &failure) : rc;
    }
    return rc == RP_OK ? RP_OK : rp_error_set(error, rc, failure.os_errno, failure.file, -1, "%s", failure.message);
}

/* Takes the file out of its directory: moved aside if it may hold data, else deleted. */
static int drop_file(rp_mapped_file_queue *row, const char *path, int64_t offset, bool keep, rp_error *error) {
    const rp_file_ops *ops = row->ops;
    int rc = RP_OK;
    if (keep && row->aside_directory != NULL) {
        rc = set_aside(row, path, offset, error);
    } else if (ops->unlink(ops->context, path) != 0 && errno != ENOENT) {
        rc = rp_error_set(error, rp_status_from_errno(errno), errno, path, -1, "cannot remove the file: %s", strerror(errno));
    }
    if (rc == RP_OK) {
        atomic_fetch_add(&row->name_changes, 1);
    }
    return rc;
}

static int load_file(rp_mapped_file_queue *row, int64_t offset, bool is_behind, rp_error *error) {
    char path[RP_PATH_MAX];
    int rc = rp_path_of_offset(path, row->directory, offset, error);
    if (rc != RP_OK) {
        return rc;
    }
    int64_t size = (int64_t)row->file_size, found = rp_path_file_size(path), end = atomic_load(&row->end);
    if (is_behind) {
        return row->mode == RP_MAP_READ ? RP_OK : drop_file(row, path, offset, found > 0, error);
    }
    if (found != size) {
        return rp_error_set(
            error, RP_E_CORRUPT, 0, path, found,
            "the file has %lld bytes where %lld are configured; set the mapped file size it was written with, or restore it",
            (long long)found, (long long)size);
    }
    if (offset % size != 0) {
        return rp_error_set(error, RP_E_CORRUPT, 0, path, -1, "the file's name is not a multiple of the file size %lld", (long long)size);
    }
    if (offset > OFFSET_MAX) {
        return rp_error_set(error, RP_E_CORRUPT, 0, path, -1, "no store reaches the offset in the file's name: move it away");
    }
    if (end != atomic_load(&row->begin) && offset != end) {
        return rp_error_set(error, RP_E_CORRUPT, 0, path, end,
                            "the file before it is missing: bytes %lld to %lld are lost; restore it, or move the older files away",
                            (long long)end, (long long)offset);
    }
    rp_mapped_file *file = rp_mapped_file_new(row->ops, offset, row->file_size);
    rc = file == NULL ? RP_E_NO_MEMORY : publish_file(row, file);
    if (rc != RP_OK) {
        if (file != NULL) {
            rp_mapped_file_release(file);
            rp_mapped_file_free(file);
        }
        return rp_error_set(error, rc, 0, path, -1, "no memory for the list of files");
    }
    return RP_OK;
}

static bool file_is_empty(const rp_mapped_file_queue *row, int64_t offset) {
    char path[RP_PATH_MAX];
    return rp_path_of_offset(path, row->directory, offset, NULL) == RP_OK && rp_path_file_size(path) == 0;
}

/* Is something missing between what is loaded and the file at offset that was never synced? */
static bool is_gap(const rp_mapped_file_queue *row, int64_t offset, int64_t unsynced_from, int holds_unsynced) {
    int64_t begin = atomic_load(&row->begin), end = atomic_load(&row->end);
    if (begin == end) {
        return holds_unsynced && offset > unsynced_from;
    }
    return offset > end && end >= unsynced_from;
}

int rp_mapped_file_queue_load(rp_mapped_file_queue *row, int64_t unsynced_from, int holds_unsynced, rp_error *error) {
    int64_t *offsets;
    size_t count;
    int rc = list_offsets(row, &offsets, &count, error);
    if (rc != RP_OK) {
        return rc;
    }
    pthread_mutex_lock(&row->lock);
    bool is_behind = false;
    for (size_t i = 0; i < count && rc == RP_OK; i++) {
        bool is_empty = (i + 1 == count || offsets[i] >= unsynced_from) && file_is_empty(row, offsets[i]);
        is_behind = is_behind || is_empty || is_gap(row, offsets[i], unsynced_from, holds_unsynced);
        rc = load_file(row, offsets[i], is_behind, error);
    }
    pthread_mutex_unlock(&row->lock);
    free(offsets);
    return rc;
}

int rp_mapped_file_queue_map(rp_mapped_file_queue *row, rp_mapped_file *file, int create, rp_error *error) {
    char path[RP_PATH_MAX];
    int rc = rp_path_of_offset(path, row->directory, file->base_offset, error);
    return rc == RP_OK ? rp_mapped_file_map(file, path, row->mode, create, error) : rc;
}

rp_mapped_file *rp_mapped_file_queue_find(rp_mapped_file_queue *row, int64_t offset, rp_error *error) {
    const rp_file_slots *now = atomic_load_explicit(&row->slots, memory_order_acquire);
    int64_t index = offset / (int64_t)row->file_size;
    if (now == NULL || offset < 0 || index < now->first_index || index - now->first_index >= now->capacity) {
        return NULL;
    }
    rp_mapped_file *file = atomic_load_explicit(&now->files[index - now->first_index], memory_order_acquire);
    if (file == NULL || !rp_mapped_file_pin(file)) {
        return NULL;
    }
    if (__builtin_expect(rp_mapped_file_address(file) == NULL, 0)) {
        pthread_mutex_lock(&row->lock);
        int rc = rp_mapped_file_address(file) == NULL ? rp_mapped_file_queue_map(row, file, 0, error) : RP_OK;
        pthread_mutex_unlock(&row->lock);
        if (rc != RP_OK) {
            rp_mapped_file_release(file);
            return NULL;
        }
    }
    return file;
}

static rp_mapped_file *append_file(rp_mapped_file_queue *row, int64_t offset, bool may_be_first, rp_error *error) {
    int64_t base = offset - offset % (int64_t)row->file_size;
    rp_mapped_file *file = rp_mapped_file_new(row->ops, base, row->file_size);
    if (file == NULL) {
        rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, row->directory, base, "no memory for a mapped file");
        return NULL;
    }
    pthread_mutex_lock(&row->lock);
    if (base >= atomic_load(&row->begin) && base < atomic_load(&row->end)) {
        pthread_mutex_unlock(&row->lock);
        rp_mapped_file_release(file);
        rp_mapped_file_free(file);
        return rp_mapped_file_queue_find(row, offset, error);
    }
    bool fits = atomic_load(&row->end) == atomic_load(&row->begin) ? may_be_first : base == atomic_load(&row->end);
    int rc = fits ? rp_mapped_file_queue_map(row, file, 1, error)
                  : rp_error_set(error, RP_E_INVALID, 0, row->directory, base, "a file can only be added behind the last one");
    if (rc == RP_OK) {
        atomic_fetch_add(&row->name_changes, 1); /* before the file can be found: a thread that syncs its data then syncs its name too */
        rc = publish_file(row, file);
        if (rc != RP_OK) {
            rp_error_set(error, rc, 0, row->directory, base, "no memory for the list of files");
        }
    }
    bool pinned = rc == RP_OK && rp_mapped_file_pin(file);
    pthread_mutex_unlock(&row->lock);
    if (!pinned) {
        rp_mapped_file_release(file);
        rp_mapped_file_free(file);
        return NULL;
    }
    return file;
}

rp_mapped_file *rp_mapped_file_queue_append(rp_mapped_file_queue *row, int64_t offset, rp_error *error) {
    return append_file(row, offset, true, error);
}

rp_mapped_file *rp_mapped_file_queue_append_next(rp_mapped_file_queue *row, int64_t offset, rp_error *error) {
    return append_file(row, offset, false, error);
}

/* Under lock: takes the file at byte `base` out of the row and the directory; with `stay` it remains in the row if its name cannot be
 * removed. */
static int remove_file(rp_mapped_file_queue *row, int64_t base, bool keep, bool stay, rp_error *error) {
    rp_file_slots *now = atomic_load_explicit(&row->slots, memory_order_relaxed);
    _Atomic(rp_mapped_file *) *slot = &now->files[base / (int64_t)row->file_size - now->first_index];
    rp_mapped_file *file = atomic_exchange(slot, NULL);
    char path[RP_PATH_MAX];
    int rc = rp_path_of_offset(path, row->directory, base, error);
    rc = rc == RP_OK ? drop_file(row, path, base, keep, error) : rc;
    if (rc != RP_OK && stay) {
        atomic_store_explicit(slot, file, memory_order_release);
        return rc;
    }
    file->next_removed = row->removed;
    row->removed = file;
    count_files(row, -1);
    rp_mapped_file_release(file);
    return rc;
}

int rp_mapped_file_queue_remove_first(rp_mapped_file_queue *row, rp_mapped_file **removed, rp_error *error) {
    pthread_mutex_lock(&row->lock);
    int64_t begin = atomic_load(&row->begin);
    int rc = RP_E_NOT_FOUND;
    rp_mapped_file *first = NULL;
    if (begin != atomic_load(&row->end)) {
        atomic_store_explicit(&row->begin, begin + (int64_t)row->file_size, memory_order_release);
        rc = remove_file(row, begin, false, true, error);
        if (rc == RP_OK) {
            first = row->removed;
        } else { /* the next file must not be removed before it: a row with a hole does not load */
            atomic_store_explicit(&row->begin, begin, memory_order_release);
        }
    }
    pthread_mutex_unlock(&row->lock);
    if (removed != NULL) {
        *removed = first;
    }
    return rc;
}

/* Under lock. RP_E_NOT_FOUND when the row is empty. */
static int remove_last(rp_mapped_file_queue *row, bool keep, rp_error *error) {
    int64_t end = atomic_load(&row->end);
    if (end == atomic_load(&row->begin)) {
        return RP_E_NOT_FOUND;
    }
    atomic_store_explicit(&row->end, end - (int64_t)row->file_size, memory_order_release);
    return remove_file(row, end - (int64_t)row->file_size, keep, false, error);
}

static int lock_and_remove_last(rp_mapped_file_queue *row, bool keep, rp_error *error) {
    pthread_mutex_lock(&row->lock);
    int rc = remove_last(row, keep, error);
    pthread_mutex_unlock(&row->lock);
    return rc;
}

int rp_mapped_file_queue_remove_last(rp_mapped_file_queue *row, rp_error *error) { return lock_and_remove_last(row, false, error); }

int rp_mapped_file_queue_set_last_aside(rp_mapped_file_queue *row, rp_error *error) {
    static const uint8_t untouched[16];
    uint8_t first[sizeof untouched] = {0};
    rp_mapped_file *last = rp_mapped_file_queue_find(row, atomic_load(&row->end) - 1, NULL);
    /* Uses a read, not the map: on a full tmpfs a mapped hole is a SIGBUS. A file that cannot be read or opened may hold data. */
    bool keep = last == NULL || row->ops->read_at(row->ops->context, last->fd, first, sizeof first, 0) < 0 ||
                memcmp(first, untouched, sizeof untouched) != 0;
    if (last != NULL) {
        rp_mapped_file_release(last);
    }
    return lock_and_remove_last(row, keep, error);
}

/* Under lock, for an empty row: deletes the files in its directory that could not be loaded. */
static int delete_strays(rp_mapped_file_queue *row, rp_error *error) {
    int64_t *offsets;
    size_t count;
    int rc = list_offsets(row, &offsets, &count, error);
    if (rc != RP_OK) {
        return rc;
    }
    for (size_t i = 0; i < count; i++) {
        char path[RP_PATH_MAX];
        if (rp_path_of_offset(path, row->directory, offsets[i], error) == RP_OK && row->ops->unlink(row->ops->context, path) != 0) {
            rc = rp_error_set(error, rp_status_from_errno(errno), errno, path, -1, "cannot delete the file: %s", strerror(errno));
        }
    }
    free(offsets);
    return rc;
}

int rp_mapped_file_queue_remove_all(rp_mapped_file_queue *row, rp_error *error) {
    int rc = RP_OK, removed;
    pthread_mutex_lock(&row->lock); /* held over both: a file added meanwhile is not a stray */
    while ((removed = remove_last(row, false, error)) != RP_E_NOT_FOUND) {
        rc = removed != RP_OK ? removed : rc;
    }
    removed = delete_strays(row, error);
    pthread_mutex_unlock(&row->lock);
    return removed != RP_OK ? removed : rc;
}

int64_t rp_mapped_file_queue_begin(const rp_mapped_file_queue *row) { return atomic_load_explicit(&row->begin, memory_order_acquire); }
int64_t rp_mapped_file_queue_end(const rp_mapped_file_queue *row) { return atomic_load_explicit(&row->end, memory_order_acquire); }
uint64_t rp_mapped_file_queue_file_size(const rp_mapped_file_queue *row) { return row->file_size; }
const char *rp_mapped_file_queue_directory(const rp_mapped_file_queue *row) { return row->directory; }
