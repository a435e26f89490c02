/* compaction_check.c: see compaction_check.h. */
#include "compaction_check.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/bytes_inl.h"
#include "compaction_files.h"
#include "compaction_positions.h"
#include "file_row.h"
#include "message.h"
#include "store_path.h"

#define ENTRY_SIZE RP_COMPACTION_ENTRY_SIZE

typedef struct compaction_check {
    const rp_compaction_check_options *options;
    rp_compaction_check_counts *counts;
    rp_error *error;
    char log_directory[RP_PATH_MAX], queue_directory[RP_PATH_MAX]; /* the directories of all topics */
    rp_compaction_positions *positions;
} compaction_check;

/* One queue. */
typedef struct queue_walk {
    const compaction_check *check;
    rp_slice topic;
    int32_t queue_id;
    rp_file_row *log, *entries;
    int64_t position;    /* compacted up to this queue offset; -1: never, or unknown */
    int64_t last_offset; /* of the entries seen so far */
    int64_t end;         /* end of the files of records seen so far, as an offset in terms of their names */
    bool has_gap;        /* a gap was found between files */
    const char *behind_lost; /* NULL: no file is missing; else the name of the first file behind the missing ones */
} queue_walk;

/* One segment of the queue. */
typedef struct segment_walk {
    queue_walk *queue;
    uint32_t log_file, entries_file;
    int64_t base, log_size;
    const char *log_path, *entries_path; /* entries_path NULL: there is no file of entries */
    int64_t end;                         /* end of the last record seen so far, within the file */
    uint32_t found;
    bool is_sealed, has_room; /* has_room: its file of entries does not end with an entry */
} segment_walk;

static int report(const compaction_check *check, const char *file, int64_t offset, int64_t size, const char *cause) {
    return check->options->report(check->options->context, file, offset, size, cause);
}

/* A file that could not be read is not damage. */
static int find_unreadable(const queue_walk *queue) {
    int status = rp_file_row_failure(queue->log, queue->check->error);
    return status != RP_OK ? status : rp_file_row_failure(queue->entries, queue->check->error);
}

static int report_entry(const segment_walk *segment, int64_t at, int64_t size, const char *cause) {
    int status = find_unreadable(segment->queue);
    return status != RP_OK ? status : report(segment->queue->check, segment->entries_path, at, size, cause);
}

/* ---- entries ---- */

static const uint8_t *entry_at(const segment_walk *segment, int64_t at) {
    return rp_file_row_in(segment->queue->entries, segment->entries_file, at, ENTRY_SIZE);
}

static bool is_empty(const uint8_t *entry) {
    static const uint8_t zeros[ENTRY_SIZE];
    return memcmp(entry, zeros, ENTRY_SIZE) == 0;
}

/* Decodes the record that starts at a place within the segment's file. As rp_message_decode. */
static int decode(const segment_walk *segment, int64_t place, int64_t size, rp_message *message, rp_error *cause) {
    const uint8_t *record = rp_file_row_in(segment->queue->log, segment->log_file, place, (uint64_t)size);
    int crc = segment->queue->check->options->check_crc ? RP_CHECK_BODY_CRC : RP_CHECK_NO_CRC;
    return record != NULL ? rp_message_decode(record, (uint64_t)size, crc, message, cause) : RP_E_IO;
}

static bool is_of_queue(const queue_walk *queue, const rp_message *message) {
    return message->queue_id == queue->queue_id && message->topic.size == queue->topic.size &&
           memcmp(message->topic.data, queue->topic.data, queue->topic.size) == 0;
}

static const char *entry_fault(const segment_walk *segment, const rp_compaction_entry *entry, const rp_message *message) {
    if (message->size != (uint32_t)entry->size || message->queue_offset != entry->queue_offset || !is_of_queue(segment->queue, message))
        return "the entry points at a message of another size, offset or queue";
    if (message->store_timestamp_ms != entry->store_timestamp_ms || rp_message_tags_code(message->properties) != entry->tags_code)
        return "the entry's time or tags code is not its message's";
    return NULL;
}

static int check_entry(segment_walk *segment, int64_t at, const uint8_t *bytes) {
    queue_walk *queue = segment->queue;
    rp_compaction_entry entry;
    rp_message message;
    rp_error cause = {0};
    rp_compaction_entry_read(bytes, &entry);
    int64_t place = rp_compaction_entry_place(&entry, segment->base, (uint64_t)segment->log_size);
    if (place < 0 || place < segment->end)
        return report_entry(segment, at, ENTRY_SIZE,
                            "the entry does not point behind the record before it, or not into the file of records");
    int kind = decode(segment, place, entry.size, &message, &cause);
    bool is_known = kind == RP_RECORD_MESSAGE && is_of_queue(queue, &message);
    int64_t offset = is_known ? message.queue_offset : entry.queue_offset; /* one wrong entry must not make those behind it wrong */
    if (offset <= queue->last_offset)
        return report_entry(segment, at, ENTRY_SIZE, "the entry's queue offset is not behind the one before it");
    queue->last_offset = offset;
    segment->end = place + entry.size;
    segment->found++;
    queue->check->counts->messages++;
    int status = kind == RP_RECORD_MESSAGE ? RP_OK : find_unreadable(queue);
    if (status == RP_OK && kind != RP_RECORD_MESSAGE)
        return report(queue->check, segment->log_path, place, entry.size, kind < 0 ? cause.message : "there is no record");
    const char *fault = status == RP_OK ? entry_fault(segment, &entry, &message) : NULL;
    return fault != NULL ? report_entry(segment, at, ENTRY_SIZE, fault) : status;
}

/* Skips empty entries from `at` on; returns the end of the file if nothing follows. */
static int64_t skip_empty(const segment_walk *segment, int64_t at, int64_t end) {
    const uint8_t *entry;
    while (at + ENTRY_SIZE <= end && (entry = entry_at(segment, at)) != NULL && is_empty(entry))
        at += ENTRY_SIZE;
    return at;
}

static int check_entries(segment_walk *segment) {
    int64_t end = segment->entries_path != NULL ? rp_file_row_size(segment->queue->entries, segment->entries_file) : 0;
    int64_t at = 0;
    int status = RP_OK;
    for (; at + ENTRY_SIZE <= end && status == RP_OK; at += ENTRY_SIZE) {
        const uint8_t *bytes = entry_at(segment, at);
        if (bytes == NULL)
            return find_unreadable(segment->queue);
        int64_t next = skip_empty(segment, at, end);
        if (next + ENTRY_SIZE > end)
            break;
        if (next != at) {
            status = report_entry(segment, at, next - at, "entries are missing");
            at = next - ENTRY_SIZE;
        } else if (rp_get_u64(bytes) == UINT64_MAX) {
            segment->is_sealed = true;
            break;
        } else {
            status = check_entry(segment, at, bytes);
        }
    }
    segment->has_room = at + ENTRY_SIZE <= end;
    return status;
}

/* ---- segments ---- */

/* Counts whole messages of the queue behind the last entry's, up to two. */
static int count_behind(const segment_walk *segment) {
    int64_t at = segment->end, offset = segment->queue->last_offset;
    int count = 0;
    rp_message message;
    for (rp_error cause; count < 2 && segment->log_size - at >= RP_MESSAGE_BLANK_SIZE_MIN; count++) {
        if (decode(segment, at, segment->log_size - at, &message, &cause) != RP_RECORD_MESSAGE)
            break;
        if (message.queue_offset <= offset || !is_of_queue(segment->queue, &message))
            break;
        offset = message.queue_offset;
        at += message.size;
    }
    return count;
}

/* Decodes the first message of a file of records. */
static bool read_first(const segment_walk *segment, rp_message *first) {
    rp_error cause;
    return decode(segment, 0, segment->log_size, first, &cause) == RP_RECORD_MESSAGE && is_of_queue(segment->queue, first);
}

/* Checks what lies behind the last entry, as described in compaction_check.h. */
static int check_behind(const segment_walk *segment, bool is_last) {
    rp_message first;
    if (segment->found == 0 && read_first(segment, &first) && first.queue_offset <= segment->queue->last_offset)
        return report(segment->queue->check, segment->log_path, -1, segment->log_size,
                      "the file's messages are in those before it: it is a copy under another name, a start drops it");
    int behind = segment->is_sealed ? 0 : count_behind(segment);
    bool is_excused = is_last && segment->has_room && (segment->found > 0 || behind < 2);
    if (behind == 0 || is_excused)
        return find_unreadable(segment->queue);
    return report(segment->queue->check, segment->entries_path != NULL ? segment->entries_path : segment->log_path,
                  segment->entries_path != NULL ? (int64_t)segment->found * ENTRY_SIZE : segment->end, 0,
                  "records have no entries; a start makes them again, unless a later file has the same messages");
}

/* Returns the index of the file with this base; the count if there is none. */
static uint32_t file_of(const rp_file_row *row, int64_t base) {
    uint32_t file = 0;
    while (file < rp_file_row_count(row) && rp_file_row_start(row, file) != base)
        file++;
    return file;
}

/* A compaction writes all files anew and may need fewer, which leaves one gap, between what it wrote and what it did not touch. Gaps
 * shorter than a file come from changed file lengths, or from a file that was cut short. */
static void look_for_gap(const segment_walk *segment) {
    queue_walk *queue = segment->queue;
    rp_message first;
    bool is_gap = segment->base - queue->end >= segment->log_size;
    queue->end = segment->base + segment->log_size;
    if (!is_gap)
        return;
    bool is_compacted = read_first(segment, &first) && first.queue_offset <= queue->position;
    if ((queue->has_gap || is_compacted) && queue->behind_lost == NULL)
        queue->behind_lost = segment->log_path;
    queue->has_gap = true;
}

/* A kill left the last file of records without length, before it had entries: the next start drops it. */
static bool is_new(const queue_walk *queue, uint32_t file) {
    uint32_t entries = file_of(queue->entries, rp_file_row_start(queue->log, file));
    return !queue->check->options->is_stopped && file + 1 == rp_file_row_count(queue->log) && rp_file_row_size(queue->log, file) == 0 &&
           (entries == rp_file_row_count(queue->entries) || rp_file_row_size(queue->entries, entries) == 0);
}

static int check_segment(queue_walk *queue, uint32_t file) {
    segment_walk segment = {.queue = queue,
                            .log_file = file,
                            .base = rp_file_row_start(queue->log, file),
                            .log_size = rp_file_row_size(queue->log, file),
                            .log_path = rp_file_row_path(queue->log, file)};
    if (segment.base < queue->end)
        return report(queue->check, segment.log_path, -1, segment.log_size,
                      "the file begins within the one before it: one of them is a copy under another name");
    if (segment.log_size < ENTRY_SIZE) {
        queue->end = segment.base + (segment.log_size > 0 ? segment.log_size : 1);
        return report(queue->check, segment.log_path, -1, segment.log_size,
                      "the file is too short for a file of records, a start drops it");
    }
    segment.entries_file = file_of(queue->entries, segment.base);
    if (segment.entries_file < rp_file_row_count(queue->entries))
        segment.entries_path = rp_file_row_path(queue->entries, segment.entries_file);
    look_for_gap(&segment);
    if (queue->check->options->is_stopped && segment.entries_path != NULL && rp_file_row_size(queue->entries, segment.entries_file) == 0)
        return report(queue->check, segment.entries_path, -1, 0, "the file of entries has no length; a start makes them again");
    int status = check_entries(&segment);
    return status == RP_OK ? check_behind(&segment, file + 1 == rp_file_row_count(queue->log)) : status;
}

/* Reports entries whose records are missing. */
static int check_orphans(const queue_walk *queue) {
    int status = RP_OK;
    for (uint32_t i = 0; i < rp_file_row_count(queue->entries) && status == RP_OK; i++) {
        int64_t base = rp_file_row_start(queue->entries, i);
        if (file_of(queue->log, base) < rp_file_row_count(queue->log))
            continue;
        const uint8_t *first = rp_file_row_in(queue->entries, i, 0, ENTRY_SIZE);
        if (first != NULL && !is_empty(first) && rp_get_u64(first) != UINT64_MAX)
            status = report(queue->check, rp_file_row_path(queue->entries, i), -1, rp_file_row_size(queue->entries, i),
                            "the file of records that these entries are of is gone");
    }
    return status;
}

/* A copy with more messages than its queue is about to be made anew from its beginning, and a kill left its last files. */
static int check_lost(const queue_walk *queue) {
    int64_t end = rp_queue_check_end(queue->check->options->queues, queue->topic, queue->queue_id);
    int status = find_unreadable(queue);
    if (status != RP_OK || queue->behind_lost == NULL || (end > 0 && end <= queue->last_offset))
        return status;
    return report(queue->check, queue->behind_lost, -1, 0, "files of records are missing before this one");
}

/* ---- queues ---- */

static int walk_queue(queue_walk *queue, const rp_compaction_place *place) {
    int status = rp_file_row_open(place->log_directory, &queue->log, queue->check->error);
    status = status == RP_OK ? rp_file_row_open(place->queue_directory, &queue->entries, queue->check->error) : status;
    for (uint32_t i = 0; status == RP_OK && i < rp_file_row_count(queue->log); i++)
        status = is_new(queue, i) ? RP_OK : check_segment(queue, i);
    status = status == RP_OK ? check_lost(queue) : status;
    status = status == RP_OK ? check_orphans(queue) : status;
    rp_file_row_close(queue->log);
    rp_file_row_close(queue->entries);
    return status;
}

static int check_queue(compaction_check *check, const char *topic, const char *id) {
    char name[RP_PATH_MAX], log_path[RP_PATH_MAX], queue_path[RP_PATH_MAX];
    if (snprintf(name, sizeof name, "%s/%s", topic, id) >= (int)sizeof name)
        return rp_error_set(check->error, RP_E_TOO_LARGE, 0, check->log_directory, -1, "a name of a compacted queue is too long");
    int status = rp_path_join(log_path, check->log_directory, name, check->error);
    status = status == RP_OK ? rp_path_join(queue_path, check->queue_directory, name, check->error) : status;
    if (status != RP_OK)
        return status;
    rp_compaction_place place = {.ops = rp_file_ops_system(), .log_directory = log_path, .queue_directory = queue_path};
    queue_walk queue = {.check = check,
                        .topic = {(const uint8_t *)topic, (uint32_t)strlen(topic)},
                        .queue_id = (int32_t)strtol(id, NULL, 10),
                        .last_offset = -1};
    queue.position = rp_compaction_positions_get(check->positions, queue.topic, queue.queue_id);
    check->counts->queues++;
    if (rp_compaction_files_are_moving(&place)) {
        check->counts->unfinished++;
        return RP_OK;
    }
    return walk_queue(&queue, &place);
}

static int is_name(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static int is_number(const struct dirent *entry) {
    size_t digits = strspn(entry->d_name, "0123456789");
    return digits > 0 && digits < 10 && entry->d_name[digits] == 0;
}

static int list(const compaction_check *check, const char *directory, int (*is_wanted)(const struct dirent *entry),
                struct dirent ***names) {
    int count = scandir(directory, names, is_wanted, alphasort);
    if (count < 0 && errno != ENOENT && errno != ENOTDIR)
        return rp_error_set(check->error, rp_status_from_errno(errno), errno, directory, -1, "cannot list the directory: %s",
                            strerror(errno));
    return count < 0 ? 0 : count;
}

static bool is_there(const char *directory, const char *topic, const char *id) {
    char path[RP_PATH_MAX];
    return snprintf(path, sizeof path, "%s/%s/%s", directory, topic, id) < (int)sizeof path && access(path, F_OK) == 0;
}

/* Checks the queues of a topic in one of the two directories; in the second one only those that the first does not have. */
static int check_topic(compaction_check *check, const char *directory, const char *topic) {
    char path[RP_PATH_MAX];
    struct dirent **ids = NULL;
    int status = rp_path_join(path, directory, topic, check->error);
    int count = status == RP_OK ? list(check, path, is_number, &ids) : status;
    status = count < 0 ? count : RP_OK;
    for (int i = 0; i < count; i++) {
        bool is_seen = directory == check->queue_directory && is_there(check->log_directory, topic, ids[i]->d_name);
        if (status == RP_OK && !is_seen)
            status = check_queue(check, topic, ids[i]->d_name);
        free(ids[i]);
    }
    free(ids);
    return status;
}

static int check_directory(compaction_check *check, const char *directory) {
    struct dirent **topics = NULL;
    int count = list(check, directory, is_name, &topics), status = count < 0 ? count : RP_OK;
    for (int i = 0; i < count; i++) {
        if (status == RP_OK)
            status = check_topic(check, directory, topics[i]->d_name);
        free(topics[i]);
    }
    free(topics);
    return status;
}

static int check_positions(compaction_check *check, const char *directory) {
    rp_error cause = {0};
    int status = rp_compaction_positions_check(rp_file_ops_system(), directory, &check->positions, &cause);
    if (status == RP_E_CORRUPT)
        return report(check, cause.file, -1, 0, cause.message);
    if (status != RP_OK && check->error != NULL)
        *check->error = cause;
    return status;
}

int rp_compaction_check(const rp_compaction_check_options *options, rp_compaction_check_counts *counts, rp_error *error) {
    char directory[RP_PATH_MAX];
    compaction_check check = {.options = options, .counts = counts, .error = error};
    *counts = (rp_compaction_check_counts){0};
    int status = rp_path_join(directory, options->root_path, "compaction", error);
    status = status == RP_OK ? rp_path_join(check.log_directory, directory, "compactionLog", error) : status;
    status = status == RP_OK ? rp_path_join(check.queue_directory, directory, "compactionCq", error) : status;
    status = status == RP_OK ? check_positions(&check, directory) : status;
    status = status == RP_OK ? check_directory(&check, check.log_directory) : status;
    status = status == RP_OK ? check_directory(&check, check.queue_directory) : status;
    rp_compaction_positions_close(check.positions);
    return status;
}
