/* ledger_index.c: see ledger_index.h. */
#include "ledger_index.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "mapped_file_inl.h"
#include "mapped_file_queue.h"
#include "store_path.h"

#define UNIT RP_LEDGER_UNIT_SIZE
#define SPACE_STEP (256 * 1024) /* allocated at once: 8,192 units */

struct rp_ledger_index {
    const rp_file_ops *ops;    /* fixed */
    rp_mapped_file_queue *row; /* fixed */
    int64_t file_size;         /* fixed */
    int read_only;             /* fixed */
    rp_mapped_file *active;    /* append lock: pinned file of the last reservation */
    int64_t space_end;         /* append lock: bytes of the row below it have space in the active file */
    pthread_mutex_t dirty_lock; /* leaf: guards the three below */
    int64_t dirty_begin, dirty_end; /* bytes of the row not yet synced */
    uint64_t begins; /* how often all files were removed because the log begins elsewhere */
};

int rp_ledger_index_open(const rp_file_ops *ops, const char *directory, uint32_t file_size, int read_only, rp_ledger_index **opened,
                         rp_error *error) {
    if (file_size == 0 || file_size % UNIT != 0) {
        return rp_error_set(error, RP_E_INVALID, 0, directory, -1, "index files of %u bytes are not a multiple of %d", file_size, UNIT);
    }
    rp_ledger_index *index = calloc(1, sizeof *index);
    rp_mapped_file_queue_options row = {
        .ops = ops, .directory = directory, .file_size = file_size, .mode = read_only ? RP_MAP_READ : RP_MAP_WRITE};
    if (index == NULL || rp_mapped_file_queue_create(&row, &index->row) != RP_OK) {
        free(index);
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, directory, -1, "no memory for the entries' index");
    }
    index->ops = ops;
    index->file_size = file_size;
    index->read_only = read_only;
    pthread_mutex_init(&index->dirty_lock, NULL);
    int rc = read_only ? RP_OK : rp_path_make_directories(directory, error);
    rc = rc == RP_OK ? rp_mapped_file_queue_load(index->row, 0, 0, error) : rc; /* what a crash has left is rebuilt from the log */
    if (rc != RP_OK) {
        rp_ledger_index_close(index);
        return rc;
    }
    *opened = index;
    return RP_OK;
}

static void leave_file(rp_ledger_index *index) {
    if (index->active != NULL) {
        rp_mapped_file_release(index->active);
        index->active = NULL;
    }
    index->space_end = 0;
}

void rp_ledger_index_close(rp_ledger_index *index) {
    if (index == NULL) {
        return;
    }
    leave_file(index);
    rp_mapped_file_queue_destroy(index->row);
    pthread_mutex_destroy(&index->dirty_lock);
    free(index);
}

/* Allocates blocks and pages for the step that holds `at` of the active file. */
static int make_space(rp_ledger_index *index, int64_t at, rp_error *error) {
    const rp_mapped_file *file = index->active;
    int64_t from = at / SPACE_STEP * SPACE_STEP, end = from + SPACE_STEP < index->file_size ? from + SPACE_STEP : index->file_size;
    if (!file->is_writable) { /* its descriptor is not writable either */
        return rp_mapped_file_hold(file, rp_mapped_file_queue_directory(index->row), at, 1, error);
    }
    int failed = index->ops->allocate(index->ops->context, file->fd, from, end - from) < 0, os_errno = errno;
    if (!failed && index->ops->populate(index->ops->context, rp_mapped_file_address(file) + from, (size_t)(end - from)) != 0 &&
        errno == EFAULT) {
        failed = 1; /* the fault would have been a SIGBUS */
        os_errno = ENOSPC;
    }
    if (failed) {
        return rp_error_set(error, rp_status_from_errno(os_errno), os_errno, rp_mapped_file_queue_directory(index->row), from,
                            "no space for the entries' index: %s; %s", strerror(os_errno),
                            rp_write_remedy(os_errno, rp_mapped_file_queue_directory(index->row)));
    }
    index->space_end = file->base_offset + end;
    return RP_OK;
}

/* Removes all files. Nothing of them is to be synced any more, even by a sync that is about to begin. */
static int remove_all(rp_ledger_index *index, rp_error *error) {
    pthread_mutex_lock(&index->dirty_lock);
    index->dirty_begin = index->dirty_end = 0;
    index->begins++;
    pthread_mutex_unlock(&index->dirty_lock);
    return rp_mapped_file_queue_remove_all(index->row, error);
}

/* Returns the file that holds the byte; creates it if it is the next one. */
static rp_mapped_file *enter_file(rp_ledger_index *index, int64_t byte, rp_error *error) {
    int64_t begin = rp_mapped_file_queue_begin(index->row), end = rp_mapped_file_queue_end(index->row);
    if (byte >= begin && byte < end) {
        return rp_mapped_file_queue_find(index->row, byte, error);
    }
    if (begin != end && (byte < begin || byte >= end + index->file_size) && remove_all(index, error) != RP_OK) {
        return NULL;
    }
    return rp_mapped_file_queue_append(index->row, byte, error);
}

int rp_ledger_index_reserve(rp_ledger_index *index, int64_t number, rp_error *error) {
    rp_error local = {0};
    error = error == NULL ? &local : error;
    error->status = RP_OK;
    if (number < 0 || number > RP_LEDGER_NUMBER_MAX) {
        return rp_error_set(error, RP_E_RANGE, 0, rp_mapped_file_queue_directory(index->row), -1, "no log has an entry %lld",
                            (long long)number);
    }
    int64_t byte = number * UNIT;
    if (index->active == NULL || byte < index->active->base_offset || byte >= index->active->base_offset + index->file_size) {
        leave_file(index);
        index->active = enter_file(index, byte, error);
        if (index->active == NULL) {
            return error->status < 0 ? error->status : RP_E_IO;
        }
    }
    int64_t at = byte - index->active->base_offset;
    if (byte >= index->space_end || byte < index->space_end - SPACE_STEP) {
        int rc = make_space(index, at, error);
        if (rc != RP_OK) {
            return rc;
        }
    }
    return rp_mapped_file_hold(index->active, rp_mapped_file_queue_directory(index->row), at, UNIT, error);
}

static void mark_dirty(rp_ledger_index *index, int64_t begin, int64_t end) {
    pthread_mutex_lock(&index->dirty_lock);
    if (index->dirty_begin == index->dirty_end) {
        index->dirty_begin = begin;
        index->dirty_end = end;
    }
    index->dirty_begin = begin < index->dirty_begin ? begin : index->dirty_begin;
    index->dirty_end = end > index->dirty_end ? end : index->dirty_end;
    pthread_mutex_unlock(&index->dirty_lock);
}

static void write_unit(uint8_t *unit, const rp_ledger_entry *entry) {
    rp_put_u32(unit, RP_LEDGER_MAGIC);
    rp_put_u64(unit + 4, (uint64_t)entry->position);
    rp_put_u32(unit + 12, entry->size);
    rp_put_u64(unit + 16, (uint64_t)entry->index);
    rp_put_u64(unit + 24, (uint64_t)entry->term);
}

typedef struct new_unit {
    uint8_t *at;
    const rp_ledger_entry *entry;
} new_unit;

static void store_unit(void *context) {
    const new_unit *unit = context;
    write_unit(unit->at, unit->entry);
}

static int put_unit(const rp_ledger_index *index, rp_mapped_file *file, int64_t byte, const rp_ledger_entry *entry, rp_error *error) {
    int64_t at = byte - file->base_offset;
    new_unit unit = {rp_mapped_file_address(file) + at, entry};
    return rp_mapped_file_store(file, rp_mapped_file_queue_directory(index->row), at, UNIT, store_unit, &unit, error);
}

int rp_ledger_index_put(rp_ledger_index *index, const rp_ledger_entry *entry, rp_error *error) {
    int64_t byte = entry->index * UNIT, base = index->active->base_offset;
    int rc;
    if (byte >= base && byte < base + index->file_size) {
        rc = put_unit(index, index->active, byte, entry, error);
    } else { /* the last unit of the batch went into the next file */
        rp_mapped_file *file = rp_mapped_file_queue_find(index->row, byte, error);
        if (file == NULL) {
            return RP_OK; /* its file was removed meanwhile: the unit is missing until the log is opened again */
        }
        rc = put_unit(index, file, byte, entry, error);
        rp_mapped_file_release(file);
    }
    if (rc == RP_OK) {
        mark_dirty(index, byte, byte + UNIT);
    }
    return rc;
}

int rp_ledger_index_read(rp_ledger_index *index, int64_t number, rp_ledger_entry *entry) {
    int64_t byte = number >= 0 && number <= RP_LEDGER_NUMBER_MAX ? number * UNIT : -1;
    rp_error error = {.status = RP_OK};
    if (byte < 0 || byte < rp_mapped_file_queue_begin(index->row) || byte >= rp_mapped_file_queue_end(index->row)) {
        return RP_E_NOT_FOUND;
    }
    rp_mapped_file *file = rp_mapped_file_queue_find(index->row, byte, &error);
    if (file == NULL) {
        return rp_status_is_passing(error.status) ? error.status : RP_E_NOT_FOUND;
    }
    uint8_t unit[UNIT];
    memcpy(unit, rp_mapped_file_address(file) + (byte - file->base_offset), sizeof unit);
    rp_mapped_file_release(file);
    *entry = (rp_ledger_entry){.position = (int64_t)rp_get_u64(unit + 4),
                               .size = rp_get_u32(unit + 12),
                               .index = (int64_t)rp_get_u64(unit + 16),
                               .term = (int64_t)rp_get_u64(unit + 24)};
    bool is_unit = rp_get_u32(unit) == RP_LEDGER_MAGIC && entry->index == number;
    bool is_place = entry->position >= 0 && entry->position <= INT64_MAX - (int64_t)entry->size; /* the end must be a valid offset too */
    return is_unit && is_place ? RP_OK : RP_E_NOT_FOUND;
}

/* Positions grow with the index; what is no unit counts as behind all. */
int64_t rp_ledger_index_below(rp_ledger_index *index, int64_t first, int64_t last, int64_t offset) {
    int64_t found = -1;
    rp_ledger_entry entry;
    while (first <= last) {
        int64_t middle = first + (last - first) / 2;
        if (rp_ledger_index_read(index, middle, &entry) == RP_OK && entry.position + entry.size <= offset) {
            found = middle;
            first = middle + 1;
        } else {
            last = middle - 1;
        }
    }
    return found;
}

int64_t rp_ledger_index_last_below(rp_ledger_index *index, int64_t offset) {
    int64_t first = rp_mapped_file_queue_begin(index->row) / UNIT, last = rp_mapped_file_queue_end(index->row) / UNIT - 1;
    rp_ledger_entry entry;
    while (first <= last && rp_ledger_index_read(index, first, &entry) != RP_OK && first % (index->file_size / UNIT) != 0) {
        first++;
    }
    return rp_ledger_index_below(index, first, last, offset);
}

void rp_ledger_index_cut(rp_ledger_index *index, int64_t number, int64_t last) {
    while (number <= last) {
        rp_error error;
        int64_t byte = number * UNIT, end = (last + 1) * UNIT;
        rp_mapped_file *file = byte >= rp_mapped_file_queue_begin(index->row) && byte < rp_mapped_file_queue_end(index->row)
                                   ? rp_mapped_file_queue_find(index->row, byte, &error)
                                   : NULL;
        if (file == NULL) {
            return;
        }
        int64_t stop = file->base_offset + index->file_size < end ? file->base_offset + index->file_size : end;
        if (rp_mapped_file_hold(file, rp_mapped_file_queue_directory(index->row), byte - file->base_offset, (size_t)(stop - byte),
                                &error) == RP_OK) {
            memset(rp_mapped_file_address(file) + (byte - file->base_offset), 0, (size_t)(stop - byte));
            mark_dirty(index, byte, stop);
        }
        rp_mapped_file_release(file);
        number = stop / UNIT;
    }
}

int rp_ledger_index_trim(rp_ledger_index *index, int64_t number, rp_error *error) {
    int rc = RP_OK;
    while (rc == RP_OK && rp_mapped_file_queue_end(index->row) - rp_mapped_file_queue_begin(index->row) > index->file_size &&
           rp_mapped_file_queue_begin(index->row) + index->file_size <= number * UNIT) {
        rc = rp_mapped_file_queue_remove_first(index->row, NULL, error);
    }
    return rc;
}

static bool has_begun_anew(rp_ledger_index *index, uint64_t begins) {
    pthread_mutex_lock(&index->dirty_lock);
    bool is_new = index->begins != begins;
    pthread_mutex_unlock(&index->dirty_lock);
    return is_new;
}

int rp_ledger_index_sync(rp_ledger_index *index, rp_error *error) {
    pthread_mutex_lock(&index->dirty_lock);
    int64_t begin = index->dirty_begin, end = index->dirty_end;
    uint64_t begins = index->begins;
    index->dirty_begin = index->dirty_end = 0;
    pthread_mutex_unlock(&index->dirty_lock);
    int64_t from = rp_mapped_file_queue_begin(index->row);
    begin = begin < from ? from : begin;
    int rc = begin < end ? rp_mapped_file_queue_sync(index->row, begin, end, error) : RP_OK;
    if (rc != RP_OK && has_begun_anew(index, begins)) { /* its files were removed meanwhile */
        rc = rc == RP_E_NOT_FOUND ? RP_OK : rc;
    } else if (rc != RP_OK) {
        mark_dirty(index, begin, end);
    }
    return rc;
}
