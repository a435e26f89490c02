/* compaction_segment.c: see compaction_segment.h. */
#include "compaction_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../base/bytes_inl.h"
#include "consume_queue.h"
#include "message.h"
#include "read_in.h"
#include "store_path.h"

#define ENTRY_SIZE RP_COMPACTION_ENTRY_SIZE
#define AT_SIZE 8
#define AT_TAGS 12
#define AT_TIME 20
#define AT_OFFSET 28
#define AT_COUNT 36
#define AT_COMPACTED 38
#define NO_POSITION UINT64_MAX
#define READ_IN_MAX (4 << 20) /* or one record; a reader that wants more calls again */

struct rp_compaction_segment {
    const rp_file_ops *ops;                /* fixed, like the next */
    int64_t base;
    uint64_t log_size, queue_size;         /* sizes of the files */
    const uint8_t *log_address, *queue_address; /* read-only maps */
    int log_fd, queue_fd;
    char log_path[RP_PATH_MAX], queue_path[RP_PATH_MAX];
    uint64_t log_end;                      /* the writer's: where the next record is written */
    /* The writer's, and only after an open: how many of the last entries were missing and have been made. */
    uint32_t made;
    _Atomic uint32_t count;                /* entries; released after their bytes */
    _Atomic int64_t last_offset;           /* queue offset of the last entry; -1: there is none */
    _Atomic int32_t pins;
};

static int failed(rp_error *error, const char *path, const char *what) {
    int os_errno = errno;
    return rp_error_set(error, rp_status_from_errno(os_errno), os_errno, path, -1, "cannot %s: %s; %s", what, strerror(os_errno),
                        rp_write_remedy(os_errno, path));
}

static void close_file(const rp_file_ops *ops, int fd, const uint8_t *address, uint64_t size) {
    if (address != NULL)
        ops->unmap(ops->context, (void *)(uintptr_t)address, size);
    if (fd >= 0)
        ops->close(ops->context, fd);
}

void rp_compaction_segment_pin(rp_compaction_segment *segment) { atomic_fetch_add_explicit(&segment->pins, 1, memory_order_relaxed); }

void rp_compaction_segment_release(void *owner) {
    rp_compaction_segment *segment = owner;
    if (segment == NULL || atomic_fetch_sub_explicit(&segment->pins, 1, memory_order_acq_rel) != 1)
        return;
    close_file(segment->ops, segment->log_fd, segment->log_address, segment->log_size);
    close_file(segment->ops, segment->queue_fd, segment->queue_address, segment->queue_size);
    free(segment);
}

static int64_t length_of(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 ? (int64_t)status.st_size : -1;
}

/* Opens and maps one file. size: for a file that is created; for one that exists, its length is returned. RP_OK, or the error. */
static int open_file(const rp_file_ops *ops, const char *path, bool create, uint64_t *size, int *fd, const uint8_t **address,
                     rp_error *error) {
    *fd = ops->open(ops->context, path, O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_TRUNC : 0), 0644);
    if (*fd < 0)
        return failed(error, path, create ? "create the file" : "open the file");
    if (create && ops->truncate(ops->context, *fd, (int64_t)*size) != 0)
        return failed(error, path, "give the file its length");
    if (!create) {
        int64_t length = length_of(*fd);
        if (length < ENTRY_SIZE || length > INT32_MAX)
            return rp_error_set(error, RP_E_CORRUPT, 0, path, -1, "a file of %lld bytes is none of a compacted queue", (long long)length);
        *size = (uint64_t)length;
    }
    *address = ops->map(ops->context, *fd, *size, 0);
    return *address != NULL ? RP_OK : failed(error, path, "map the file");
}

static rp_compaction_segment *new_segment(const rp_compaction_place *place, int64_t base, rp_error *error) {
    rp_compaction_segment *segment = calloc(1, sizeof *segment);
    if (segment == NULL) {
        rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for a segment of a compacted queue");
        return NULL;
    }
    *segment = (rp_compaction_segment){.ops = place->ops, .base = base, .log_fd = -1, .queue_fd = -1};
    atomic_init(&segment->pins, 1);
    atomic_init(&segment->last_offset, -1);
    int rc = rp_path_of_offset(segment->log_path, place->log_directory, base, error);
    rc = rc == RP_OK ? rp_path_of_offset(segment->queue_path, place->queue_directory, base, error) : rc;
    if (rc != RP_OK) {
        free(segment);
        return NULL;
    }
    return segment;
}

int rp_compaction_segment_create(const rp_compaction_place *place, int64_t base, uint64_t log_size, uint64_t queue_size,
                                 rp_compaction_segment **out, rp_error *error) {
    rp_compaction_segment *segment = new_segment(place, base, error);
    if (segment == NULL)
        return RP_E_NO_MEMORY;
    segment->log_size = log_size;
    segment->queue_size = queue_size;
    const rp_file_ops *ops = place->ops;
    int rc = open_file(ops, segment->log_path, true, &segment->log_size, &segment->log_fd, &segment->log_address, error);
    rc = rc == RP_OK ? open_file(ops, segment->queue_path, true, &segment->queue_size, &segment->queue_fd, &segment->queue_address, error)
                     : rc;
    if (rc != RP_OK) { /* a segment needs both files */
        ops->unlink(ops->context, segment->log_path);
        ops->unlink(ops->context, segment->queue_path);
        rp_compaction_segment_release(segment);
        return rc;
    }
    *out = segment;
    return RP_OK;
}

/* ---- entries ---- */

uint32_t rp_compaction_segment_count(const rp_compaction_segment *segment) {
    return atomic_load_explicit(&segment->count, memory_order_acquire);
}
int64_t rp_compaction_segment_base(const rp_compaction_segment *segment) { return segment->base; }
uint64_t rp_compaction_segment_log_size(const rp_compaction_segment *segment) { return segment->log_size; }
uint64_t rp_compaction_segment_queue_size(const rp_compaction_segment *segment) { return segment->queue_size; }
int64_t rp_compaction_segment_last_offset(const rp_compaction_segment *segment) {
    return atomic_load_explicit(&segment->last_offset, memory_order_acquire);
}
uint32_t rp_compaction_segment_made(const rp_compaction_segment *segment) { return segment->made; }
int rp_compaction_segment_fd(const rp_compaction_segment *segment) { return segment->log_fd; }

void rp_compaction_entry_read(const uint8_t *at, rp_compaction_entry *entry) {
    entry->position = (int64_t)rp_get_u64(at);
    entry->size = (int32_t)rp_get_u32(at + AT_SIZE);
    entry->tags_code = (int64_t)rp_get_u64(at + AT_TAGS);
    entry->store_timestamp_ms = (int64_t)rp_get_u64(at + AT_TIME);
    entry->queue_offset = (int64_t)rp_get_u64(at + AT_OFFSET);
}

int64_t rp_compaction_entry_place(const rp_compaction_entry *entry, int64_t base, uint64_t log_size) {
    int64_t place;
    bool is_possible = entry->size >= RP_MESSAGE_BLANK_SIZE_MIN && entry->queue_offset >= 0 &&
                       entry->queue_offset <= RP_QUEUE_OFFSETS_MAX && !__builtin_sub_overflow(entry->position, base, &place) &&
                       place >= 0 && (uint64_t)place <= log_size && (uint64_t)entry->size <= log_size - (uint64_t)place;
    return is_possible ? place : -1;
}

void rp_compaction_segment_entry(const rp_compaction_segment *segment, uint32_t index, rp_compaction_entry *entry) {
    rp_compaction_entry_read(segment->queue_address + (uint64_t)index * ENTRY_SIZE, entry);
}

uint32_t rp_compaction_segment_find(const rp_compaction_segment *segment, int64_t offset) {
    uint32_t low = 0, high = rp_compaction_segment_count(segment);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        rp_compaction_entry entry;
        rp_compaction_segment_entry(segment, middle, &entry);
        if (entry.queue_offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

rp_slice rp_compaction_segment_record(const rp_compaction_segment *segment, const rp_compaction_entry *entry) {
    int64_t place = rp_compaction_entry_place(entry, segment->base, segment->log_size);
    return place < 0 ? (rp_slice){NULL, 0} : (rp_slice){segment->log_address + place, (uint32_t)entry->size};
}

static void encode(uint8_t *to, const rp_compaction_entry *entry) {
    rp_put_u64(to, (uint64_t)entry->position);
    rp_put_u32(to + AT_SIZE, (uint32_t)entry->size);
    rp_put_u64(to + AT_TAGS, (uint64_t)entry->tags_code);
    rp_put_u64(to + AT_TIME, (uint64_t)entry->store_timestamp_ms);
    rp_put_u64(to + AT_OFFSET, (uint64_t)entry->queue_offset);
    rp_put_u16(to + AT_COUNT, 1);
    rp_put_u32(to + AT_COMPACTED, UINT32_MAX);
    rp_put_u32(to + AT_COMPACTED + 4, 0);
}

static void publish(rp_compaction_segment *segment, uint32_t count, int64_t last_offset) {
    atomic_store_explicit(&segment->count, count, memory_order_release);
    atomic_store_explicit(&segment->last_offset, last_offset, memory_order_release);
}

static uint32_t room_for_entries(const rp_compaction_segment *segment) { return (uint32_t)(segment->queue_size / ENTRY_SIZE) - 1; }

int rp_compaction_segment_append(rp_compaction_segment *segment, rp_slice record, rp_compaction_entry *entry, rp_error *error) {
    const rp_file_ops *ops = segment->ops;
    uint32_t count = rp_compaction_segment_count(segment);
    if ((uint64_t)record.size + RP_MESSAGE_BLANK_SIZE_MIN > segment->log_size)
        return rp_error_set(error, RP_E_INVALID, 0, segment->log_path, -1, "a record of %u bytes is larger than compactionMappedFileSize",
                            record.size);
    if ((uint64_t)record.size + RP_MESSAGE_BLANK_SIZE_MIN > segment->log_size - segment->log_end || count >= room_for_entries(segment))
        return RP_E_TOO_LARGE;
    uint8_t bytes[ENTRY_SIZE];
    entry->position = segment->base + (int64_t)segment->log_end;
    entry->size = (int32_t)record.size;
    encode(bytes, entry);
    if (rp_file_write_all(ops, segment->log_fd, record.data, record.size, (int64_t)segment->log_end) != 0)
        return failed(error, segment->log_path, "write a record");
    if (rp_file_write_all(ops, segment->queue_fd, bytes, sizeof bytes, (int64_t)count * ENTRY_SIZE) != 0)
        return failed(error, segment->queue_path, "write an entry");
    segment->log_end += record.size;
    publish(segment, count + 1, entry->queue_offset);
    return RP_OK;
}

/* Encodes the entry that stands behind the last one of a full segment. */
static void put_end(uint8_t entry[ENTRY_SIZE]) {
    memset(entry, 0, ENTRY_SIZE);
    rp_put_u64(entry, NO_POSITION);
    rp_put_u32(entry + AT_COMPACTED, UINT32_MAX);
}

int rp_compaction_segment_seal(rp_compaction_segment *segment, rp_error *error) {
    const rp_file_ops *ops = segment->ops;
    uint32_t count = rp_compaction_segment_count(segment);
    uint64_t left = segment->log_size - segment->log_end;
    uint8_t blank[RP_MESSAGE_BLANK_SIZE_MIN], end[ENTRY_SIZE];
    if (left >= sizeof blank) {
        rp_put_u32(blank, (uint32_t)left);
        rp_put_u32(blank + 4, RP_MESSAGE_MAGIC_BLANK);
        if (rp_file_write_all(ops, segment->log_fd, blank, sizeof blank, (int64_t)segment->log_end) != 0)
            return failed(error, segment->log_path, "end the file");
    }
    put_end(end);
    if ((uint64_t)(count + 1) * ENTRY_SIZE <= segment->queue_size &&
        rp_file_write_all(ops, segment->queue_fd, end, sizeof end, (int64_t)count * ENTRY_SIZE) != 0)
        return failed(error, segment->queue_path, "end the file");
    return RP_OK;
}

/* Readers see at most `count` entries from now on. Returns how many there were. */
static uint32_t hide_entries(rp_compaction_segment *segment, uint32_t count) {
    uint32_t had = rp_compaction_segment_count(segment);
    rp_compaction_entry last = {.queue_offset = -1};
    if (count >= had)
        return had;
    if (count > 0)
        rp_compaction_segment_entry(segment, count - 1, &last);
    uint32_t found = had > segment->made ? had - segment->made : 0;
    segment->made = count > found ? count - found : 0;
    publish(segment, count, last.queue_offset);
    return had;
}

/* Clears the entries from `first` on, of the `had` there were, and the end entry. */
static int clear_entries(const rp_compaction_segment *segment, uint32_t first, uint32_t had, rp_error *error) {
    int64_t from = (int64_t)first * ENTRY_SIZE, end = (int64_t)(had + 1) * ENTRY_SIZE;
    end = end < (int64_t)segment->queue_size ? end : (int64_t)segment->queue_size;
    return from >= end || rp_file_write_zeros(segment->ops, segment->queue_fd, end - from, from) == 0
               ? RP_OK
               : failed(error, segment->queue_path, "take entries away");
}

int rp_compaction_segment_cut(rp_compaction_segment *segment, uint32_t count, rp_error *error) {
    uint32_t had = hide_entries(segment, count);
    return count >= had ? RP_OK : clear_entries(segment, count, had, error);
}

int rp_compaction_segment_end(rp_compaction_segment *segment, uint32_t count, rp_error *error) {
    uint32_t had = hide_entries(segment, count);
    int rc = rp_compaction_segment_seal(segment, error);
    if (rc != RP_OK)
        return rc;
    segment->log_end = segment->log_size;
    return clear_entries(segment, count + 1, had, error);
}

int rp_compaction_segment_sync(rp_compaction_segment *segment, rp_error *error) {
    const rp_file_ops *ops = segment->ops;
    if (ops->sync_data(ops->context, segment->log_fd) != 0)
        return failed(error, segment->log_path, "sync the file");
    return ops->sync_data(ops->context, segment->queue_fd) == 0 ? RP_OK : failed(error, segment->queue_path, "sync the file");
}

/* ---- open ---- */

/* Does the entry follow those before it? */
static bool can_follow(const rp_compaction_segment *segment, const rp_compaction_entry *entry, uint64_t end, int64_t last_offset) {
    return rp_compaction_segment_record(segment, entry).size != 0 && (uint64_t)(entry->position - segment->base) >= end &&
           entry->queue_offset > last_offset;
}

static bool is_whole(const rp_compaction_segment *segment, const rp_compaction_entry *entry) {
    rp_message message;
    rp_slice record = rp_compaction_segment_record(segment, entry);
    return rp_message_decode(record.data, record.size, RP_CHECK_BODY_CRC, &message, NULL) == RP_RECORD_MESSAGE &&
           message.size == record.size && message.queue_offset == entry->queue_offset;
}

/* The first record of a segment lies at its base; entries from a file of another name say otherwise. */
static bool is_of_other_file(const rp_compaction_segment *segment, const rp_compaction_entry *first) {
    return first->position != segment->base;
}

/* Is the entry's record whole, and different from what the entry says? A damaged record proves nothing. */
static bool is_wrong(const rp_compaction_segment *segment, const rp_compaction_entry *entry) {
    rp_message message;
    rp_slice record = rp_compaction_segment_record(segment, entry);
    return rp_message_decode(record.data, record.size, RP_CHECK_BODY_CRC, &message, NULL) == RP_RECORD_MESSAGE &&
           message.queue_offset != entry->queue_offset;
}

/* Returns the bytes before the first hole. Holes must not be read through the map: on a full tmpfs that is a SIGBUS. */
static uint64_t written(int fd, uint64_t size) { return (uint64_t)rp_file_next_hole(fd, 0, (int64_t)size); }

/* Counts the entries that can be valid, without a wrong first or last one: the segment is compared with its neighbours by these two, and
 * one flipped bit must not make it, or them, look like one that was never meant to stay. Returns the queue offset of the last. */
static int64_t count_entries(rp_compaction_segment *segment, bool checks_records) {
    uint32_t count = 0, room = (uint32_t)(written(segment->queue_fd, segment->queue_size) / ENTRY_SIZE);
    rp_compaction_entry entry, last = {.position = segment->base, .queue_offset = -1}, before_last = last;
    for (; count < room; count++) {
        rp_compaction_segment_entry(segment, count, &entry);
        uint64_t end = (uint64_t)(last.position - segment->base) + (uint64_t)last.size;
        if (!can_follow(segment, &entry, end, last.queue_offset) || (checks_records && !is_whole(segment, &entry)) ||
            (count == 0 && (is_of_other_file(segment, &entry) || is_wrong(segment, &entry))))
            break;
        before_last = last;
        last = entry;
    }
    if (count > 0 && is_wrong(segment, &last)) {
        last = before_last;
        count--;
    }
    segment->log_end = (uint64_t)(last.position - segment->base) + (uint64_t)last.size;
    publish(segment, count, last.queue_offset);
    return last.queue_offset;
}

/* Does the file of entries have an end entry behind the first `count`? */
static bool says_end(const rp_compaction_segment *segment, uint32_t count) {
    uint64_t at = (uint64_t)count * ENTRY_SIZE;
    uint8_t end[ENTRY_SIZE];
    put_end(end); /* the whole entry: a disk may return ones for a lost block */
    return at + ENTRY_SIZE <= written(segment->queue_fd, segment->queue_size) && memcmp(segment->queue_address + at, end, sizeof end) == 0;
}

/* Called while nobody has the map yet. */
static int lengthen_entries(rp_compaction_segment *segment, uint64_t size, rp_error *error) {
    const rp_file_ops *ops = segment->ops;
    if (ops->truncate(ops->context, segment->queue_fd, (int64_t)size) != 0)
        return failed(error, segment->queue_path, "give the file its length");
    const uint8_t *address = ops->map(ops->context, segment->queue_fd, size, 0);
    if (address == NULL)
        return failed(error, segment->queue_path, "map the file");
    ops->unmap(ops->context, (void *)(uintptr_t)segment->queue_address, segment->queue_size);
    segment->queue_address = address;
    segment->queue_size = size;
    return RP_OK;
}

/* Has the file of entries lost bytes of its empty end? By the settings, the length of a file of records is a multiple of that of a file
 * of entries. A length for which that holds was made so, and stays under another setting too: RocketMQ insists on its own. */
static bool was_cut(const rp_compaction_segment *segment, uint64_t whole_size) {
    return segment->queue_size < whole_size && segment->log_size % segment->queue_size != 0 && segment->log_size % whole_size == 0;
}

/* Makes entries for the records in the log's file that lie behind those of all entries: the file of entries was lost or damaged. Not if
 * an end entry is there: then the records were cut. */
static int make_entries(rp_compaction_segment *segment, int64_t last_offset, uint64_t whole_size, rp_error *error) {
    uint32_t count = rp_compaction_segment_count(segment);
    uint64_t log_written = written(segment->log_fd, segment->log_size);
    if (says_end(segment, count)) {
        segment->log_end = segment->log_size;
        return RP_OK;
    }
    for (; segment->log_end < log_written; count++) {
        rp_message message;
        if (rp_message_decode(segment->log_address + segment->log_end, log_written - segment->log_end, RP_CHECK_BODY_CRC, &message, NULL) !=
                RP_RECORD_MESSAGE ||
            message.queue_offset <= last_offset)
            break;
        /* Full, with more records in the log's file: it was cut short. */
        if (count >= room_for_entries(segment) && segment->queue_size < whole_size) {
            int rc = lengthen_entries(segment, whole_size, error);
            if (rc != RP_OK)
                return rc;
        }
        if (count >= room_for_entries(segment))
            break;
        rp_compaction_entry entry = {.position = segment->base + (int64_t)segment->log_end,
                                     .size = (int32_t)message.size,
                                     .tags_code = rp_message_tags_code(message.properties),
                                     .store_timestamp_ms = message.store_timestamp_ms,
                                     .queue_offset = message.queue_offset};
        uint8_t bytes[ENTRY_SIZE];
        encode(bytes, &entry);
        if (rp_file_write_all(segment->ops, segment->queue_fd, bytes, sizeof bytes, (int64_t)count * ENTRY_SIZE) != 0)
            return failed(error, segment->queue_path, "write an entry");
        last_offset = message.queue_offset;
        segment->log_end += message.size;
    }
    segment->made = count - rp_compaction_segment_count(segment);
    publish(segment, count, last_offset);
    return RP_OK;
}

static int open_queue_file(rp_compaction_segment *segment, uint64_t size, rp_error *error) {
    bool is_new = rp_path_file_size(segment->queue_path) < (int64_t)2 * ENTRY_SIZE;
    segment->queue_size = size;
    return open_file(segment->ops, segment->queue_path, is_new, &segment->queue_size, &segment->queue_fd, &segment->queue_address, error);
}

int rp_compaction_segment_open(const rp_compaction_place *place, int64_t base, int checks_records, rp_compaction_segment **out,
                               rp_error *error) {
    rp_compaction_segment *segment = new_segment(place, base, error);
    if (segment == NULL)
        return RP_E_NO_MEMORY;
    int rc = open_file(place->ops, segment->log_path, false, &segment->log_size, &segment->log_fd, &segment->log_address, error);
    rc = rc == RP_OK ? open_queue_file(segment, place->queue_size, error) : rc;
    rc = rc == RP_OK && was_cut(segment, place->queue_size) ? lengthen_entries(segment, place->queue_size, error) : rc;
    rc = rc == RP_OK ? make_entries(segment, count_entries(segment, checks_records != 0), place->queue_size, error) : rc;
    if (rc != RP_OK) {
        rp_compaction_segment_release(segment);
        return rc;
    }
    *out = segment;
    return RP_OK;
}

/* ---- memory ---- */

/* Returns the bytes of the log's file that the entries [first, end) cover. */
static rp_slice covered(const rp_compaction_segment *segment, uint32_t first, uint32_t end) {
    uint32_t count = rp_compaction_segment_count(segment);
    end = end < count ? end : count;
    if (first >= end)
        return (rp_slice){NULL, 0};
    rp_compaction_entry from, to;
    rp_compaction_segment_entry(segment, first, &from);
    rp_compaction_segment_entry(segment, end - 1, &to);
    rp_slice begin = rp_compaction_segment_record(segment, &from), last = rp_compaction_segment_record(segment, &to);
    if (begin.size == 0 || last.size == 0 || last.data < begin.data)
        return (rp_slice){NULL, 0};
    return (rp_slice){begin.data, (uint32_t)(last.data - begin.data) + last.size};
}

int rp_compaction_segment_entries_in_memory(const rp_compaction_segment *segment) {
    size_t size = (size_t)rp_compaction_segment_count(segment) * ENTRY_SIZE;
    return size == 0 || segment->ops->in_memory(segment->ops->context, segment->queue_address, size);
}

int rp_compaction_segment_bytes_in_memory(const rp_compaction_segment *segment, const uint8_t *bytes, size_t size) {
    return segment->ops->in_memory(segment->ops->context, bytes, size);
}

int rp_compaction_segment_in_memory(const rp_compaction_segment *segment, uint32_t first, uint32_t end) {
    if (!rp_compaction_segment_entries_in_memory(segment))
        return 0;
    rp_slice bytes = covered(segment, first, end);
    return bytes.size == 0 || segment->ops->in_memory(segment->ops->context, bytes.data, bytes.size);
}

uint64_t rp_compaction_segment_read_in(const rp_compaction_segment *segment, uint32_t first, uint32_t end) {
    rp_read_in(segment->ops, segment->queue_address, (size_t)rp_compaction_segment_count(segment) * ENTRY_SIZE, segment->queue_fd, 0);
    rp_slice bytes = covered(segment, first, end);
    rp_compaction_entry entry;
    if (bytes.size > READ_IN_MAX) {
        rp_compaction_segment_entry(segment, first, &entry);
        bytes.size = entry.size > READ_IN_MAX ? (uint32_t)entry.size : READ_IN_MAX;
    }
    if (bytes.size > 0)
        rp_read_in(segment->ops, bytes.data, bytes.size, segment->log_fd, bytes.data - segment->log_address);
    return bytes.size;
}
