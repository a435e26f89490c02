/* compaction_log.c: see compaction_log.h. */
#include "compaction_log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compaction_files.h"
#include "store_path.h"

struct rp_compaction_log {
    rp_log *log;                   /* fixed, like the next */
    uint64_t log_size;
    int32_t queue_id;
    rp_slice topic;                /* owns its bytes */
    char *log_directory, *queue_directory;
    rp_compaction_place place;
    pthread_mutex_t writer_lock;   /* held over appends, cuts and replacements; taken before row_lock */
    bool has_directories;          /* guarded by writer_lock, as the next */
    bool is_dirty;
    pthread_mutex_t row_lock;      /* leaf */
    /* Guarded by row_lock, and changed only under writer_lock as well; the last segment is the one written. */
    rp_compaction_segment **row;
    uint32_t count, room;
    _Atomic int64_t end, synced_end;
    _Atomic int64_t min_offset, max_offset; /* those of the row; written under writer_lock */
};

rp_slice rp_compaction_log_topic(const rp_compaction_log *log) { return log->topic; }
int32_t rp_compaction_log_queue_id(const rp_compaction_log *log) { return log->queue_id; }
const rp_compaction_place *rp_compaction_log_place(const rp_compaction_log *log) { return &log->place; }

void rp_compaction_log_lock_writer(rp_compaction_log *log) { pthread_mutex_lock(&log->writer_lock); }
void rp_compaction_log_unlock_writer(rp_compaction_log *log) { pthread_mutex_unlock(&log->writer_lock); }

int64_t rp_compaction_log_end(const rp_compaction_log *log) { return atomic_load_explicit(&log->end, memory_order_acquire); }
int64_t rp_compaction_log_synced_end(const rp_compaction_log *log) { return atomic_load_explicit(&log->synced_end, memory_order_acquire); }
int64_t rp_compaction_log_min_offset(const rp_compaction_log *log) { return atomic_load_explicit(&log->min_offset, memory_order_acquire); }
int64_t rp_compaction_log_max_offset(const rp_compaction_log *log) { return atomic_load_explicit(&log->max_offset, memory_order_acquire); }

void rp_compaction_log_set_end(rp_compaction_log *log, int64_t end) {
    log->is_dirty = true;
    atomic_store_explicit(&log->end, end, memory_order_release);
}

/* ---- the row ---- */

static rp_compaction_segment *last_of(const rp_compaction_log *log) { return log->count > 0 ? log->row[log->count - 1] : NULL; }

/* Reads the first or the last entry of the row; 0 if it has none. */
static int read_bound(const rp_compaction_log *log, bool is_last, rp_compaction_entry *entry) {
    for (uint32_t i = 0; i < log->count; i++) {
        const rp_compaction_segment *segment = log->row[is_last ? log->count - 1 - i : i];
        uint32_t count = rp_compaction_segment_count(segment);
        if (count == 0)
            continue;
        rp_compaction_segment_entry(segment, is_last ? count - 1 : 0, entry);
        return 1;
    }
    return 0;
}

static void note_bounds(rp_compaction_log *log) {
    rp_compaction_entry first, last;
    int has_any = read_bound(log, false, &first) && read_bound(log, true, &last);
    atomic_store_explicit(&log->max_offset, has_any ? last.queue_offset + 1 : 0, memory_order_release);
    atomic_store_explicit(&log->min_offset, has_any ? first.queue_offset : 0, memory_order_release);
}

/* Under row_lock, or while opening. RP_OK, RP_E_NO_MEMORY. */
static int make_room(rp_compaction_log *log, uint32_t count, rp_error *error) {
    if (count <= log->room)
        return RP_OK;
    uint32_t room = count < 8 ? 8 : count * 2;
    rp_compaction_segment **larger = realloc(log->row, room * sizeof(rp_compaction_segment *));
    if (larger == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for the segments of a compacted queue");
    log->row = larger;
    log->room = room;
    return RP_OK;
}

static int push(rp_compaction_log *log, rp_compaction_segment *segment, rp_error *error) {
    pthread_mutex_lock(&log->row_lock);
    int rc = make_room(log, log->count + 1, error);
    if (rc == RP_OK)
        log->row[log->count++] = segment;
    pthread_mutex_unlock(&log->row_lock);
    if (rc != RP_OK)
        rp_compaction_segment_release(segment);
    return rc;
}

/* Takes the last segment out of the row. */
static int drop_last(rp_compaction_log *log, rp_error *error) {
    pthread_mutex_lock(&log->row_lock);
    rp_compaction_segment *last = log->row[--log->count];
    pthread_mutex_unlock(&log->row_lock);
    int rc = rp_compaction_files_unlink(&log->place, rp_compaction_segment_base(last), error);
    rp_compaction_segment_release(last);
    return rc;
}

/* Under row_lock: returns the index of the first segment whose last entry is at `offset` or behind; the count if there is none. */
static uint32_t place_of(const rp_compaction_log *log, int64_t offset) {
    uint32_t low = 0, high = log->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int64_t last = rp_compaction_segment_last_offset(log->row[middle]);
        if (last >= 0 && last < offset) /* only the last segment may be empty */
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

rp_compaction_segment *rp_compaction_log_find(rp_compaction_log *log, int64_t offset) {
    pthread_mutex_lock(&log->row_lock);
    uint32_t place = place_of(log, offset);
    rp_compaction_segment *segment = place < log->count ? log->row[place] : NULL;
    if (segment != NULL && rp_compaction_segment_count(segment) == 0)
        segment = NULL;
    if (segment != NULL)
        rp_compaction_segment_pin(segment);
    pthread_mutex_unlock(&log->row_lock);
    return segment;
}

rp_compaction_segment *rp_compaction_log_find_before(rp_compaction_log *log, int64_t offset, rp_compaction_entry *entry) {
    rp_compaction_segment *segment = NULL;
    pthread_mutex_lock(&log->row_lock);
    uint32_t place = place_of(log, offset);
    for (uint32_t i = place < log->count ? place + 1 : log->count; i-- > 0 && segment == NULL;) {
        uint32_t index = rp_compaction_segment_find(log->row[i], offset);
        if (index == 0)
            continue;
        rp_compaction_segment_entry(log->row[i], index - 1, entry);
        segment = log->row[i];
        rp_compaction_segment_pin(segment);
    }
    pthread_mutex_unlock(&log->row_lock);
    return segment;
}

void rp_compaction_log_read_size(rp_compaction_log *log, uint32_t *segments, uint64_t *bytes) {
    pthread_mutex_lock(&log->row_lock);
    *segments = log->count;
    *bytes = 0;
    for (uint32_t i = 0; i < log->count; i++)
        *bytes += rp_compaction_segment_log_size(log->row[i]) + rp_compaction_segment_queue_size(log->row[i]);
    pthread_mutex_unlock(&log->row_lock);
}

/* ---- open ---- */

static int keep_directory(char **to, const char *root, rp_slice topic, int32_t queue_id, rp_error *error) {
    char path[RP_PATH_MAX], name[RP_PATH_MAX];
    int length = snprintf(name, sizeof name, "%.*s/%d", (int)topic.size, (const char *)topic.data, queue_id);
    int rc = length < (int)sizeof name ? rp_path_join(path, root, name, error) : RP_E_TOO_LARGE;
    if (rc == RP_OK && (*to = strdup(path)) == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for a compacted queue");
    return rc;
}

static int set_up(rp_compaction_log *log, const rp_compaction_log_setup *setup, rp_slice topic, rp_error *error) {
    uint8_t *name = malloc(topic.size + 1);
    if (name == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for a compacted queue");
    memcpy(name, topic.data, topic.size);
    log->topic = (rp_slice){name, topic.size};
    int rc = keep_directory(&log->log_directory, setup->log_directory, topic, log->queue_id, error);
    rc = rc == RP_OK ? keep_directory(&log->queue_directory, setup->queue_directory, topic, log->queue_id, error) : rc;
    log->place = (rp_compaction_place){setup->ops, log->log_directory, log->queue_directory, setup->queue_size};
    return rc;
}

/* Counts the entries that were in the segment's file at open, its first ones. */
static uint32_t entries_found(const rp_compaction_segment *segment) {
    uint32_t count = rp_compaction_segment_count(segment), made = rp_compaction_segment_made(segment);
    return made < count ? count - made : 0;
}

/* Does its name lie within an earlier file? No segment's does, so it is a copy. Copies do not count as earlier files. */
static bool is_copy(const rp_compaction_log *log, const rp_compaction_segment *segment) {
    int64_t end = 0, base = rp_compaction_segment_base(segment);
    for (uint32_t i = 0; i < log->count && rp_compaction_segment_base(log->row[i]) < base; i++) {
        if (rp_compaction_segment_base(log->row[i]) >= end && entries_found(log->row[i]) > 0)
            end = rp_compaction_segment_base(log->row[i]) + (int64_t)rp_compaction_segment_log_size(log->row[i]);
    }
    return base < end;
}

static uint32_t own_entries(const rp_compaction_log *log, const rp_compaction_segment *segment) {
    return is_copy(log, segment) ? 0 : entries_found(segment);
}

/* Entries made anew at the end of the row give way where the segment has entries of its own for the same or later offsets: they came
 * from a copy under another name, or from records that were cut. */
static int make_way(rp_compaction_log *log, const rp_compaction_segment *segment, rp_error *error) {
    rp_compaction_entry first;
    rp_compaction_segment_entry(segment, 0, &first);
    for (rp_compaction_segment *last; (last = last_of(log)) != NULL && rp_compaction_segment_last_offset(last) >= first.queue_offset;) {
        uint32_t keeps = rp_compaction_segment_find(last, first.queue_offset);
        int64_t more = rp_compaction_segment_last_offset(segment) - rp_compaction_segment_last_offset(last);
        bool is_rather_it = own_entries(log, segment) > 0 || more > 0 || (more == 0 && is_copy(log, last));
        if (keeps < own_entries(log, last) || !is_rather_it)
            break;
        rp_log_write(log->log, RP_LOG_WARNING,
                     "compacted queue %s: what the segment %020lld has from offset %lld on is in the next one, too, here it goes",
                     log->log_directory, (long long)rp_compaction_segment_base(last), (long long)first.queue_offset);
        if (keeps > 0)
            return rp_compaction_segment_end(last, keeps, error);
        int rc = drop_last(log, error);
        if (rc != RP_OK)
            return rc;
    }
    return RP_OK;
}

/* Offsets in the row must ascend; a segment whose offsets go back was never meant to stay beside those before it. */
static int load_segment(rp_compaction_log *log, int64_t base, bool checks_records, rp_error *error) {
    rp_compaction_segment *segment;
    rp_compaction_entry before, first;
    int rc = rp_compaction_segment_open(&log->place, base, checks_records, &segment, error);
    if (rc != RP_OK && rc != RP_E_CORRUPT)
        return rc;
    bool is_usable = rc == RP_OK && rp_compaction_segment_count(segment) > 0;
    if (is_usable && rp_compaction_segment_made(segment) > 0)
        rp_log_write(log->log, RP_LOG_WARNING, "compacted queue %s: %u entries of the segment %020lld were missing, they are made anew",
                     log->log_directory, rp_compaction_segment_made(segment), (long long)base);
    rc = is_usable ? make_way(log, segment, error) : rc;
    if (rc != RP_OK && rc != RP_E_CORRUPT) {
        rp_compaction_segment_release(segment);
        return rc;
    }
    if (is_usable && read_bound(log, true, &before)) {
        rp_compaction_segment_entry(segment, 0, &first);
        is_usable = first.queue_offset > before.queue_offset;
    }
    if (is_usable)
        return push(log, segment, error);
    if (rc == RP_OK)
        rp_compaction_segment_release(segment);
    rp_log_write(log->log, RP_LOG_WARNING, "compacted queue %s: the segment %020lld has nothing that can be read, it goes",
                 log->log_directory, (long long)base);
    return rp_compaction_files_unlink(&log->place, base, error);
}

static int load(rp_compaction_log *log, bool checks_records, rp_error *error) {
    rp_compaction_bases bases = {NULL, 0, 0};
    int rc = rp_compaction_files_settle(&log->place, log->log, error);
    rc = rc == RP_OK ? rp_compaction_files_list(&log->place, &bases, log->log, error) : rc;
    for (uint32_t i = 0; i < bases.count && rc == RP_OK; i++)
        rc = load_segment(log, bases.bases[i], checks_records && i + 1 == bases.count, error);
    rp_compaction_bases_free(&bases);
    note_bounds(log);
    int64_t end = rp_compaction_log_max_offset(log);
    atomic_store(&log->end, end);
    atomic_store(&log->synced_end, 0); /* how much of the last segment is synced is not known */
    log->is_dirty = end > 0;
    return rc;
}

int rp_compaction_log_open(const rp_compaction_log_setup *setup, rp_slice topic, int32_t queue_id, rp_compaction_log **out,
                           rp_error *error) {
    rp_compaction_log *log = calloc(1, sizeof *log);
    if (log == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for a compacted queue");
    log->log = setup->log;
    log->log_size = setup->log_size;
    log->queue_id = queue_id;
    pthread_mutex_init(&log->writer_lock, NULL);
    pthread_mutex_init(&log->row_lock, NULL);
    int rc = set_up(log, setup, topic, error);
    rc = rc == RP_OK ? load(log, setup->checks_records, error) : rc;
    if (rc != RP_OK) {
        rp_compaction_log_close(log);
        return rc;
    }
    *out = log;
    return RP_OK;
}

static void release_row(rp_compaction_log *log) {
    pthread_mutex_lock(&log->row_lock);
    uint32_t count = log->count;
    log->count = 0;
    for (uint32_t i = 0; i < count; i++)
        rp_compaction_segment_release(log->row[i]);
    pthread_mutex_unlock(&log->row_lock);
}

void rp_compaction_log_close(rp_compaction_log *log) {
    if (log == NULL)
        return;
    release_row(log);
    free(log->row);
    free((void *)(uintptr_t)log->topic.data);
    free(log->log_directory);
    free(log->queue_directory);
    pthread_mutex_destroy(&log->writer_lock);
    pthread_mutex_destroy(&log->row_lock);
    free(log);
}

/* ---- the writer ---- */

static int sync_directories(const rp_compaction_log *log, rp_error *error) {
    const rp_file_ops *ops = log->place.ops;
    const char *const directories[] = {log->log_directory, log->queue_directory};
    for (int i = 0; i < 2; i++) {
        if (ops->sync_directory(ops->context, directories[i]) != 0)
            return rp_error_set(error, rp_status_from_errno(errno), errno, directories[i], -1, "cannot sync the directory: %s",
                                strerror(errno));
    }
    return RP_OK;
}

/* Starts a new last segment and syncs its name; the one before it is full, and synced. */
static int roll(rp_compaction_log *log, rp_error *error) {
    rp_compaction_segment *last = last_of(log), *segment;
    int64_t size = (int64_t)log->log_size, base = 0;
    int rc = RP_OK;
    if (last != NULL) {
        int64_t end = rp_compaction_segment_base(last) + (int64_t)rp_compaction_segment_log_size(last);
        base = (end + size - 1) / size * size;
        rc = rp_compaction_segment_seal(last, error);
        rc = rc == RP_OK ? rp_compaction_segment_sync(last, error) : rc;
    }
    if (rc == RP_OK && !log->has_directories) {
        rc = rp_compaction_files_make_directories(&log->place, error);
        log->has_directories = rc == RP_OK;
    }
    rc = rc == RP_OK ? rp_compaction_segment_create(&log->place, base, log->log_size, log->place.queue_size, &segment, error) : rc;
    if (rc != RP_OK)
        return rc;
    rc = sync_directories(log, error);
    if (rc == RP_OK)
        return push(log, segment, error);
    rp_compaction_segment_release(segment); /* the next try makes it again, and syncs its name again */
    return rc;
}

static int put(rp_compaction_log *log, rp_slice record, rp_compaction_entry *entry, rp_error *error) {
    rp_compaction_segment *last = last_of(log);
    int rc = last != NULL ? rp_compaction_segment_append(last, record, entry, error) : RP_E_TOO_LARGE;
    bool is_new_empty = rc == RP_E_INVALID && rp_compaction_segment_log_size(last) < log->log_size; /* an older, shorter file */
    if (rc != RP_E_TOO_LARGE && !is_new_empty)
        return rc;
    rc = roll(log, error);
    return rc == RP_OK ? rp_compaction_segment_append(last_of(log), record, entry, error) : rc;
}

int rp_compaction_log_append(rp_compaction_log *log, const rp_message *message, rp_slice record, int64_t tags_code, rp_error *error) {
    if (message->queue_offset < rp_compaction_log_max_offset(log))
        return RP_OK;
    rp_compaction_entry entry = {
        .tags_code = tags_code, .store_timestamp_ms = message->store_timestamp_ms, .queue_offset = message->queue_offset};
    int rc = put(log, record, &entry, error);
    if (rc != RP_OK)
        return rc == RP_E_TOO_LARGE ? RP_E_INVALID : rc;
    if (rp_compaction_log_max_offset(log) == 0)
        atomic_store_explicit(&log->min_offset, message->queue_offset, memory_order_release);
    atomic_store_explicit(&log->max_offset, message->queue_offset + 1, memory_order_release);
    log->is_dirty = true;
    return RP_OK;
}

int rp_compaction_log_sync(rp_compaction_log *log, rp_error *error) {
    int64_t end = rp_compaction_log_end(log);
    if (!log->is_dirty)
        return RP_OK;
    int rc = log->count > 0 ? rp_compaction_segment_sync(last_of(log), error) : RP_OK;
    if (rc == RP_OK) {
        log->is_dirty = false;
        atomic_store_explicit(&log->synced_end, end, memory_order_release);
    }
    return rc;
}

static void lower_ends(rp_compaction_log *log, int64_t offset) {
    if (rp_compaction_log_end(log) > offset)
        atomic_store_explicit(&log->end, offset, memory_order_release);
    if (rp_compaction_log_synced_end(log) > offset)
        atomic_store_explicit(&log->synced_end, offset, memory_order_release);
}

int rp_compaction_log_cut(rp_compaction_log *log, int64_t offset, rp_error *error) {
    lower_ends(log, offset);
    int rc = RP_OK;
    while (log->count > 0 && rc == RP_OK) {
        uint32_t keeps = rp_compaction_segment_find(last_of(log), offset);
        if (keeps > 0) {
            rc = rp_compaction_segment_cut(last_of(log), keeps, error);
            break;
        }
        rc = drop_last(log, error);
    }
    log->is_dirty = true;
    note_bounds(log);
    return rc;
}

/* Removes the segment's files first, and then the segment from the row: if that fails, the row still has what is left. */
static int drop_at(rp_compaction_log *log, uint32_t index, rp_error *error) {
    rp_compaction_segment *segment = log->row[index];
    int rc = rp_compaction_files_unlink(&log->place, rp_compaction_segment_base(segment), error);
    if (rc != RP_OK)
        return rc;
    pthread_mutex_lock(&log->row_lock);
    log->count--;
    memmove(log->row + index, log->row + index + 1, (log->count - index) * sizeof(rp_compaction_segment *));
    pthread_mutex_unlock(&log->row_lock);
    rp_compaction_segment_release(segment);
    return RP_OK;
}

/* First cuts the segment that stays in part, then removes the others; the last one goes last, when no power cut can bring another back:
 * its messages show the next open that the copy has to be made anew. */
int rp_compaction_log_cut_anew(rp_compaction_log *log, int64_t offset, rp_error *error) {
    int rc = RP_OK;
    lower_ends(log, offset);
    uint32_t stays = place_of(log, offset);
    uint32_t keeps = stays < log->count ? rp_compaction_segment_find(log->row[stays], offset) : 0;
    stays += keeps > 0;
    if (stays > 0) { /* also if an earlier call hid its entries but could not write that to disk */
        rp_compaction_segment *last = log->row[stays - 1];
        rc = rp_compaction_segment_end(last, rp_compaction_segment_find(last, offset), error);
        rc = rc == RP_OK ? rp_compaction_segment_sync(last, error) : rc;
    }
    while (rc == RP_OK && log->count > stays) {
        rc = log->count == stays + 1 ? sync_directories(log, error) : RP_OK;
        rc = rc == RP_OK ? drop_at(log, stays, error) : rc;
    }
    log->is_dirty = true;
    note_bounds(log);
    return rc;
}

int rp_compaction_log_clear(rp_compaction_log *log, rp_error *error) {
    release_row(log);
    note_bounds(log);
    atomic_store_explicit(&log->end, 0, memory_order_release);
    atomic_store_explicit(&log->synced_end, 0, memory_order_release);
    log->is_dirty = log->has_directories = false;
    return rp_compaction_files_remove(&log->place, error);
}

int rp_compaction_log_sealed(rp_compaction_log *log, rp_compaction_segment ***out, uint32_t *count, int64_t *base, rp_error *error) {
    *out = NULL;
    *count = log->count > 0 ? log->count - 1 : 0;
    if (*count == 0)
        return RP_OK;
    rp_compaction_segment **segments = malloc(*count * sizeof(rp_compaction_segment *));
    if (segments == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for the segments of a compacted queue");
    for (uint32_t i = 0; i < *count; i++) {
        segments[i] = log->row[i];
        rp_compaction_segment_pin(segments[i]);
    }
    *base = rp_compaction_segment_base(last_of(log));
    *out = segments;
    return RP_OK;
}

int rp_compaction_log_replace(rp_compaction_log *log, uint32_t old_count, rp_compaction_segment *const *fresh, uint32_t fresh_count,
                              rp_error *error) {
    pthread_mutex_lock(&log->row_lock);
    uint32_t kept = log->count - old_count;
    int rc = make_room(log, fresh_count + kept, error);
    if (rc == RP_OK) {
        for (uint32_t i = 0; i < old_count; i++)
            rp_compaction_segment_release(log->row[i]);
        memmove(log->row + fresh_count, log->row + old_count, kept * sizeof(rp_compaction_segment *));
        if (fresh_count > 0)
            memcpy(log->row, fresh, fresh_count * sizeof(rp_compaction_segment *));
        log->count = fresh_count + kept;
    }
    pthread_mutex_unlock(&log->row_lock);
    note_bounds(log);
    return rc;
}
