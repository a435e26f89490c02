/* consume_queue_writer.c: see consume_queue_writer.h.
 *
 * End      the number of entries is not stored on disk: the first entry with size <= 0 ends the queue. Within a file it is found by
 *          binary search, because entries are written in order; recovery finds what a power cut has left out of order.
 */
#include "consume_queue_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "../base/hash.h"
#include "batch_queue.h"
#include "commit_log_inl.h"
#include "consume_queue_inl.h"
#include "consume_queue_space.h"
#include "light_queue.h"
#include "store_path.h"

int rp_consume_queue_open(const rp_consume_queue_setup *setup, rp_slice topic, int32_t queue_id, rp_consume_queue **queue_out,
                          rp_error *error) {
    char path[RP_PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%.*s/%d", setup->directory, (int)topic.size, (const char *)topic.data, queue_id);
    if (length < 0 || length >= (int)sizeof path) {
        return rp_error_set(error, RP_E_TOO_LARGE, 0, setup->directory, -1, "the queue's path is longer than %d bytes", RP_PATH_MAX - 1);
    }
    rp_consume_queue *queue = calloc(1, sizeof *queue + topic.size + 1);
    rp_mapped_file_queue_options options = {.ops = setup->ops,
                                            .directory = path,
                                            .file_size = setup->file_size,
                                            .mode = setup->read_only ? RP_MAP_READ : RP_MAP_WRITE_ONLY_MAP,
                                            .files = setup->files};
    if (queue == NULL || rp_mapped_file_queue_create(&options, &queue->row) != RP_OK) {
        free(queue);
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, path, -1, "no memory for the queue");
    }
    uint8_t *name = (uint8_t *)(queue + 1);
    if (topic.size != 0) {
        memcpy(name, topic.data, topic.size);
    }
    queue->setup = setup;
    queue->entry_size = setup->entry_size;
    queue->is_batch = setup->entry_size == RP_BATCH_ENTRY_SIZE;
    queue->topic = (rp_slice){name, topic.size};
    queue->id = queue_id;
    queue->hash = rp_hash_bytes(name, topic.size, (uint64_t)(uint32_t)queue_id);
    queue->is_lite = queue_id == RP_LIGHT_QUEUE_ID && rp_is_lite_queue(queue->topic);
    *queue_out = queue;
    return RP_OK;
}

void rp_consume_queue_close(rp_consume_queue *queue) {
    if (queue != NULL) {
        rp_consume_queue_leave_file(queue);
        rp_mapped_file_queue_destroy(queue->row);
        free(queue);
    }
}

#define AT_SIZE 8 /* in both kinds of entries */

static bool entry_is_written(const rp_consume_queue *queue, const uint8_t *at) {
    return (int64_t)rp_get_u64(at) >= 0 && (int32_t)rp_get_u32(at + AT_SIZE) > 0 && (!queue->is_batch || rp_batch_entry_is_written(at));
}

/* Returns how many entries of the file at base are written, up to the first that is not; negative: status. Uses reads, not the map: the
 * search looks into holes, and on a full tmpfs a mapped hole is a SIGBUS. */
static int64_t written_entries(const rp_consume_queue *queue, int64_t base, rp_error *error) {
    const rp_file_ops *ops = queue->setup->ops;
    char path[RP_PATH_MAX];
    int rc = rp_path_of_offset(path, rp_mapped_file_queue_directory(queue->row), base, error);
    if (rc != RP_OK) {
        return rc;
    }
    int fd = ops->open(ops->context, path, O_RDONLY, 0);
    if (fd >= 0) {
        rp_file_read_random(fd);
    }
    int64_t low = 0, high = queue->setup->file_size / queue->entry_size, got = fd < 0 ? -1 : 0;
    while (low < high && got >= 0) {
        int64_t middle = low + (high - low) / 2;
        uint8_t entry[RP_BATCH_ENTRY_SIZE] = {0}; /* the size of the larger kind */
        got = ops->read_at(ops->context, fd, entry, queue->entry_size, middle * queue->entry_size);
        if (entry_is_written(queue, entry)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    int os_errno = errno;
    if (fd >= 0) {
        ops->close(ops->context, fd);
    }
    return got >= 0 ? low : rp_error_set(error, rp_status_from_errno(os_errno), os_errno, path, -1, "cannot read: %s", strerror(os_errno));
}

/* Sets which entries the queue holds. The offsets of a batch queue are set separately. */
static void set_entries(rp_consume_queue *queue, int64_t first, int64_t end) {
    atomic_store(&queue->end_entry, end);
    atomic_store(&queue->first_entry, first);
}

/* Sets the offsets of a batch queue. In other queues an entry's number is its offset. */
static void set_batch_offsets(rp_consume_queue *queue, int64_t min, int64_t max) {
    atomic_store(&queue->batch_max, max);
    atomic_store(&queue->batch_min, min);
}

int rp_consume_queue_load(rp_consume_queue *queue, rp_error *error) {
    int rc = rp_mapped_file_queue_load(queue->row, 0, 0, error);
    int64_t begin = rp_mapped_file_queue_begin(queue->row), end = rp_mapped_file_queue_end(queue->row);
    int64_t first = begin / queue->entry_size, behind = first;
    /* From the last file backwards: files made ahead, or truncated, may be empty. */
    while (rc == RP_OK && end > begin) {
        int64_t base = end - queue->setup->file_size;
        int64_t written = written_entries(queue, base, error);
        if (written < 0) {
            rc = (int)written;
            break;
        }
        behind = base / queue->entry_size + written;
        if (written != 0) {
            break;
        }
        end = base;
    }
    set_entries(queue, first, behind);
    rc = rc == RP_OK && queue->is_batch ? rp_batch_queue_load(queue, error) : rc;
    if (rc != RP_OK) { /* nothing is known of the queue, not even where it ended */
        first = behind = 0;
        set_entries(queue, 0, 0);
    }
    atomic_store(&queue->synced_bytes, behind * queue->entry_size);
    return rc;
}

/* Offset and tags first, size last, in program order: if the process ends in between, the entry has no size and does not count. After a
 * power cut entries are rebuilt from the log. */
static void write_entry(uint8_t *at, const rp_queue_entry *entry) {
    rp_put_u64(at, (uint64_t)entry->commit_log_offset);
    rp_put_u64(at + 12, (uint64_t)entry->tags_code);
    atomic_signal_fence(memory_order_release);
    rp_put_u32(at + AT_SIZE, (uint32_t)entry->size);
}

typedef struct new_entry {
    const rp_queue_entry *entry;
    uint8_t *at;
    bool is_batch;
} new_entry;

static void store_entry(void *context) {
    const new_entry *new = context;
    if (new->is_batch) {
        rp_batch_entry_write(new->at, new->entry);
    } else {
        write_entry(new->at, new->entry);
    }
}

/* Stores it to the active file, as entry `number`. */
static int store_at(const rp_consume_queue *queue, int64_t number, const rp_queue_entry *entry, rp_error *error) {
    int64_t at = number * queue->entry_size - queue->active->base_offset;
    new_entry new = {entry, queue->active_address + at, queue->is_batch};
    return rp_mapped_file_store(queue->active, rp_consume_queue_directory(queue), at, queue->entry_size, store_entry, &new, error);
}

typedef struct old_entries {
    uint8_t *address; /* of the first entry */
    size_t entry_size;
    int64_t count; /* entries left to clear */
} old_entries;

/* Clears the last entry first, and in each the size first: wherever it stops, the valid entries have no hole. */
static void clear_entries(void *context) {
    old_entries *old = context;
    while (old->count > 0) {
        uint8_t *at = old->address + (size_t)(old->count - 1) * old->entry_size;
        rp_put_u32(at + AT_SIZE, 0);
        atomic_signal_fence(memory_order_release);
        memset(at, 0, old->entry_size);
        atomic_signal_fence(memory_order_release);
        old->count--;
    }
}

/* Clears the entries [*from, end) in one file; *from becomes the first that was cleared. */
static int clear_in(const rp_consume_queue *queue, const rp_mapped_file *file, int64_t *from, int64_t end, rp_error *error) {
    int64_t at = *from * queue->entry_size - file->base_offset;
    old_entries old = {rp_mapped_file_address(file) + at, queue->entry_size, end - *from};
    int rc = rp_mapped_file_store(file, rp_consume_queue_directory(queue), at, (size_t)(end - *from) * queue->entry_size, clear_entries,
                                  &old, error);
    *from += old.count;
    return rc;
}

int rp_consume_queue_clean(rp_consume_queue *queue, rp_error *error) {
    int64_t end = rp_consume_queue_end_entry(queue), from = end;
    rp_error local;
    error = error == NULL ? &local : error;
    error->status = RP_OK;
    if (!queue->is_unclean) {
        return RP_OK;
    }
    rp_mapped_file *file = rp_mapped_file_queue_find(queue->row, end * queue->entry_size, error);
    int rc = error->status;
    if (file != NULL) {
        rc = clear_in(queue, file, &from, end + 1, error);
        rp_mapped_file_release(file);
    }
    queue->is_unclean = rc != RP_OK;
    return rc;
}

int rp_consume_queue_write(rp_consume_queue *queue, const rp_queue_entry *entry, rp_error *error) {
    int rc = rp_consume_queue_clean(queue, error);
    return rc == RP_OK ? store_at(queue, atomic_load_explicit(&queue->end_entry, memory_order_relaxed), entry, error) : rc;
}

void rp_consume_queue_unwrite(rp_consume_queue *queue) {
    queue->is_unclean = true;
    (void)rp_consume_queue_clean(queue, NULL); /* otherwise before the next entry is written, or when the store closes */
}

void rp_consume_queue_show(rp_consume_queue *queue, const rp_queue_entry *entry) {
    int64_t at = atomic_load_explicit(&queue->end_entry, memory_order_relaxed);
    if (__builtin_expect(atomic_load_explicit(&queue->deleted, memory_order_relaxed), 0)) {
        atomic_store_explicit(&queue->deleted, false, memory_order_relaxed);
    }
    if (__builtin_expect(queue->is_batch, 0)) {
        rp_batch_queue_show(queue, entry);
        return;
    }
    atomic_store_explicit(&queue->end_entry, at + 1, memory_order_release);
}

void rp_consume_queue_put(rp_consume_queue *queue, const rp_queue_entry *entry) {
    int64_t at = atomic_load_explicit(&queue->end_entry, memory_order_relaxed);
    if (__builtin_expect(atomic_load_explicit(&queue->deleted, memory_order_relaxed), 0)) {
        atomic_store_explicit(&queue->deleted, false, memory_order_relaxed);
    }
    if (__builtin_expect(queue->is_batch, 0)) {
        rp_batch_queue_put(queue, entry);
        return;
    }
    write_entry(queue->active_address + (at * RP_CONSUME_QUEUE_ENTRY_SIZE - queue->active->base_offset), entry);
    atomic_store_explicit(&queue->end_entry, at + 1, memory_order_release);
}

/* Adds 0, yet, unlike a load, takes part in the modification order of `waiting`: a reactor's fetch_or comes either before it, and then
 * its bit is in the result, or after it, and then what was put before is visible to the reactor. */
uint64_t rp_consume_queue_waiting_after_put(rp_consume_queue *queue) {
    return atomic_fetch_add_explicit(&queue->waiting, 0, memory_order_seq_cst);
}

int rp_consume_queue_start_at(rp_consume_queue *queue, int64_t offset, rp_error *error) {
    static const rp_queue_entry gone = {.commit_log_offset = 0, .size = INT32_MAX, .tags_code = 0};
    if (queue->is_batch) {
        set_batch_offsets(queue, offset, offset);
        return RP_OK;
    }
    int64_t begin = offset - offset % (queue->setup->file_size / queue->entry_size), end = rp_consume_queue_end_entry(queue);
    int rc = RP_OK;
    for (int64_t at = begin; at < offset && rc == RP_OK; at++) {
        queue->staged = at - end; /* published together: whoever compares a copy with the queue would cut the copy at a partial end */
        rc = rp_consume_queue_reserve(queue, error);
        if (rc == RP_OK) {
            rc = store_at(queue, at, &gone, error);
        }
    }
    queue->staged = 0;
    if (rc == RP_OK) { /* the min first: the queue stays empty until the max is set */
        atomic_store(&queue->deleted, false);
        atomic_store(&queue->synced_bytes, begin * queue->entry_size);
        atomic_store(&queue->first_entry, offset);
        atomic_store(&queue->end_entry, offset);
    }
    return rc;
}

/* A first file without entries gives the queue's offset by its name: it stays. Returns where what stays ends at least. */
static int64_t keep_end_of(const rp_consume_queue *queue, int64_t cut) {
    int64_t begin = rp_mapped_file_queue_begin(queue->row);
    return cut > 0 && cut * queue->entry_size == begin && !queue->is_batch ? begin + queue->setup->file_size : begin;
}

/* Removes the files that lie wholly behind the entries below number `cut`. */
static int remove_files(rp_consume_queue *queue, int64_t cut, rp_error *error) {
    int64_t keep_end = keep_end_of(queue, cut);
    int rc = RP_OK;
    while (rc == RP_OK && rp_mapped_file_queue_end(queue->row) - queue->setup->file_size >= cut * queue->entry_size &&
           rp_mapped_file_queue_end(queue->row) > keep_end) {
        rc = rp_mapped_file_queue_remove_last(queue->row, error);
    }
    return rc;
}

/* Recovery would take an empty directory for a queue that has lost its files. */
static void remove_empty_directory(rp_consume_queue *queue) {
    if (rp_mapped_file_queue_end(queue->row) == rp_mapped_file_queue_begin(queue->row)) {
        rp_path_remove_empty(rp_consume_queue_directory(queue), 1);
    }
}

/* The queue ends with the entries below number `cut` now, whatever its files hold. */
static void end_at(rp_consume_queue *queue, int64_t cut) {
    atomic_store_explicit(&queue->end_entry, cut, memory_order_release);
    queue->cuts++;
    if (atomic_load(&queue->first_entry) > cut) {
        atomic_store(&queue->first_entry, cut);
    }
    if (atomic_load(&queue->synced_bytes) > cut * queue->entry_size) {
        atomic_store(&queue->synced_bytes, cut * queue->entry_size);
    }
}

/* Drops the entries from number `cut` on. */
static int cut_entries(rp_consume_queue *queue, int64_t cut, rp_error *error) {
    int64_t end = rp_consume_queue_end_entry(queue), size = queue->entry_size, per_file = queue->setup->file_size / size;
    int rc = rp_consume_queue_clean(queue, error);
    if (rc != RP_OK) {
        return rc;
    }
    rp_consume_queue_leave_file(queue);
    error->status = RP_OK;
    /* Otherwise the file is removed together with those behind it. */
    bool cuts_file = cut % per_file != 0 || keep_end_of(queue, cut) > rp_mapped_file_queue_begin(queue->row);
    rp_mapped_file *file = cuts_file ? rp_mapped_file_queue_find(queue->row, cut * size, error) : NULL;
    if (file == NULL && error->status != RP_OK) {
        return error->status; /* what lies behind the cut would count as entries at the next start */
    }
    int64_t file_end = (cut / per_file + 1) * per_file, stop = end < file_end ? end : file_end;
    if (file != NULL && stop > cut) {
        rc = rp_mapped_file_hold(file, rp_mapped_file_queue_directory(queue->row), cut * size - file->base_offset,
                                 (size_t)((stop - cut) * size), error);
    }
    if (rc != RP_OK) {
        rp_mapped_file_release(file);
        return rc;
    }
    rc = remove_files(queue, cut, error);
    if (file != NULL) {
        if (stop > cut) { /* where its space was taken back: as far as possible */
            int clear_rc = clear_in(queue, file, &cut, stop, error);
            rc = rc == RP_OK ? clear_rc : rc;
        }
        rp_mapped_file_release(file);
    }
    end_at(queue, cut);
    remove_empty_directory(queue);
    return rc;
}

/* Drops the entries from that offset on. The queue then ends where the first dropped entry began, so a gap before it is kept. is_kept:
 * the files stay as they are. */
static int cut_batches(rp_consume_queue *queue, int64_t offset, bool is_kept, rp_error *error) {
    int64_t cut = rp_batch_queue_find(queue, offset, 0, error);
    int64_t max = cut < 0 ? cut : rp_batch_queue_offset_of(queue, cut, error);
    if (max < 0) {
        return (int)max;
    }
    int rc = is_kept ? RP_OK : cut_entries(queue, cut, error);
    if (is_kept) {
        end_at(queue, cut);
    }
    if (rp_consume_queue_end_entry(queue) == cut) {
        atomic_store_explicit(&queue->batch_max, max, memory_order_release);
        if (atomic_load(&queue->batch_min) > max) {
            atomic_store(&queue->batch_min, max);
        }
    }
    return rc;
}

int rp_consume_queue_truncate(rp_consume_queue *queue, int64_t offset, rp_error *error) {
    rp_error local;
    error = error == NULL ? &local : error;
    return queue->is_batch ? cut_batches(queue, offset, false, error) : cut_entries(queue, offset, error);
}

int rp_consume_queue_go_back(rp_consume_queue *queue, int64_t offset, rp_error *error) {
    rp_error local;
    error = error == NULL ? &local : error;
    rp_consume_queue_leave_file(queue);
    queue->went_back = true;
    if (queue->is_batch) {
        return cut_batches(queue, offset, true, error);
    }
    end_at(queue, offset);
    return RP_OK;
}

int rp_consume_queue_clear_behind(rp_consume_queue *queue, rp_error *error) {
    int64_t end = rp_consume_queue_end_entry(queue);
    rp_consume_queue_leave_file(queue);
    int rc = remove_files(queue, end, error);
    remove_empty_directory(queue);
    if (rc == RP_OK && queue->went_back) {
        rc = rp_mapped_file_queue_clear_tail(queue->row, end * queue->entry_size, error);
        queue->went_back = rc != RP_OK;
    }
    return rc;
}

/* Under the append lock. Lets the queue begin with that entry, which was just read, so its page is in memory. */
static int begin_with(rp_consume_queue *queue, int64_t first, rp_error *error) {
    if (first <= atomic_load(&queue->first_entry)) {
        return RP_OK;
    }
    int64_t min = queue->is_batch ? rp_batch_queue_offset_of(queue, first, error) : 0;
    if (min < 0) {
        return (int)min;
    }
    if (queue->is_batch) {
        atomic_store_explicit(&queue->batch_min, min, memory_order_release);
    }
    atomic_store_explicit(&queue->first_entry, first, memory_order_release);
    return RP_OK;
}

/* Lets the queue begin with the first entry whose record is at log_offset or behind; *first is its number. False: the queue was cut
 * meanwhile or cannot be read now, and is unchanged. */
static bool raise_min_offset(rp_consume_queue *queue, int64_t log_offset, int64_t *first) {
    pthread_mutex_t *append_lock = &queue->setup->log->append_lock;
    pthread_mutex_lock(append_lock);
    uint64_t cuts = queue->cuts;
    pthread_mutex_unlock(append_lock);
    rp_error error;
    *first = rp_consume_queue_entry_by_log_offset(queue, log_offset, &error);
    if (*first < 0) {
        rp_commit_log_tell_unreadable(queue->setup->log, &error);
        return false;
    }
    pthread_mutex_lock(append_lock);
    bool is_whole = queue->cuts == cuts && begin_with(queue, *first, &error) == RP_OK;
    pthread_mutex_unlock(append_lock);
    return is_whole;
}

int rp_consume_queue_trim(rp_consume_queue *queue, int64_t log_offset, rp_error *error) {
    int64_t first;
    int rc = RP_OK;
    if (!raise_min_offset(queue, log_offset, &first)) {
        return RP_OK; /* the next round handles what is there then */
    }
    for (;;) {
        int64_t begin = rp_mapped_file_queue_begin(queue->row), file_end = begin + queue->setup->file_size;
        if (rc != RP_OK || file_end > first * queue->entry_size || file_end >= rp_mapped_file_queue_end(queue->row)) {
            return rc;
        }
        rc = rp_mapped_file_queue_remove_first(queue->row, NULL, error);
    }
}

int rp_consume_queue_clear(rp_consume_queue *queue, rp_error *error) {
    rp_consume_queue_leave_file(queue);
    set_entries(queue, 0, 0);
    queue->cuts++;
    queue->is_unclean = queue->went_back = false;
    set_batch_offsets(queue, 0, 0);
    atomic_store(&queue->synced_bytes, 0);
    atomic_store(&queue->deleted, true);
    return rp_mapped_file_queue_remove_all(queue->row, error);
}

int64_t rp_consume_queue_dirty_bytes(const rp_consume_queue *queue) {
    int64_t dirty = rp_consume_queue_end_entry(queue) * queue->entry_size - atomic_load(&queue->synced_bytes);
    return dirty > 0 ? dirty : 0;
}

int64_t rp_consume_queue_begin_bytes(const rp_consume_queue *queue) {
    bool has_files = rp_mapped_file_queue_end(queue->row) > rp_mapped_file_queue_begin(queue->row);
    return has_files ? rp_mapped_file_queue_begin(queue->row) : 0;
}

rp_queue_mark rp_consume_queue_mark(rp_consume_queue *queue) {
    pthread_mutex_t *append_lock = &queue->setup->log->append_lock;
    pthread_mutex_lock(append_lock);
    rp_queue_mark mark = {.queue = queue,
                          .begin = atomic_load(&queue->synced_bytes),
                          .end = rp_consume_queue_end_entry(queue) * queue->entry_size,
                          .cuts = queue->cuts,
                          .name_changes = rp_mapped_file_queue_name_changes(queue->row)};
    pthread_mutex_unlock(append_lock);
    return mark;
}

/* False: entries were cut since the mark was made, so what lies there now may have been put after the sync. */
static bool set_synced(const rp_queue_mark *mark, bool is_synced) {
    pthread_mutex_t *append_lock = &mark->queue->setup->log->append_lock;
    pthread_mutex_lock(append_lock);
    bool was_cut = mark->queue->cuts != mark->cuts;
    if (is_synced && !was_cut) {
        atomic_store(&mark->queue->synced_bytes, mark->end);
    }
    pthread_mutex_unlock(append_lock);
    return !was_cut;
}

void rp_consume_queue_is_synced(const rp_queue_mark *mark) {
    rp_mapped_file_queue_names_are_synced(mark->queue->row, mark->name_changes);
    set_synced(mark, true);
}

const char *rp_consume_queue_directory(const rp_consume_queue *queue) { return rp_mapped_file_queue_directory(queue->row); }

int rp_consume_queue_sync(rp_consume_queue *queue, rp_error *error) {
    if (rp_consume_queue_dirty_bytes(queue) == 0) {
        return RP_OK;
    }
    rp_queue_mark mark = rp_consume_queue_mark(queue);
    int rc = rp_mapped_file_queue_sync(queue->row, mark.begin, mark.end, error);
    bool is_whole = set_synced(&mark, rc == RP_OK);
    return rc == RP_E_NOT_FOUND && !is_whole ? RP_OK : rc; /* deleted meanwhile: nothing is left to sync */
}
