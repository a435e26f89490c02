/* queue_check.c: see queue_check.h. Queues are found by a hash of topic and queue id, with linear probing. */
#include "queue_check.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "../base/hash.h"
#include "batch_queue.h"
#include "consume_queue.h"
#include "inner_batch.h"
#include "light_queue.h"
#include "message_layout_inl.h"

#define QUEUES_MAX 1000000u
#define SCHEDULE_TOPIC "SCHEDULE_TOPIC_XXXX" /* the tags codes of its entries are due times */

typedef struct checked_queue {
    char *path;
    char *topic;
    uint32_t topic_size;
    int32_t queue_id;
    uint32_t entry_size; /* RP_BATCH_ENTRY_SIZE for a batch queue */
    rp_file_row *files;
    int64_t end; /* queue offset behind the last entry, known once the entries were walked */
} checked_queue;

struct rp_queue_check {
    checked_queue *queues;
    uint32_t count, capacity;
    uint32_t *slots; /* queue number + 1, 0: free */
    uint32_t slot_count;
};

static uint64_t hash_of(const uint8_t *topic, uint32_t size, int32_t queue_id) {
    return rp_hash_bytes(topic, size, (uint64_t)(uint32_t)queue_id + 1);
}

static int is_batch(const checked_queue *queue) { return queue->entry_size == RP_BATCH_ENTRY_SIZE; }

static int is_visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static int add_queue(rp_queue_check *check, const char *directory, const char *topic, int32_t queue_id, uint32_t entry_size,
                     rp_error *error) {
    if (check->count == QUEUES_MAX)
        return rp_error_set(error, RP_E_TOO_LARGE, 0, directory, -1, "more than %u queues", QUEUES_MAX);
    if (check->count == check->capacity) {
        uint32_t capacity = check->capacity == 0 ? 64 : check->capacity * 2;
        checked_queue *grown = realloc(check->queues, capacity * sizeof *grown);
        if (grown == NULL)
            return rp_error_set(error, RP_E_NO_MEMORY, 0, directory, -1, "no memory for %u queues", capacity);
        check->queues = grown;
        check->capacity = capacity;
    }
    checked_queue queue = {.path = strdup(directory),
                           .topic = strdup(topic),
                           .topic_size = (uint32_t)strlen(topic),
                           .queue_id = queue_id,
                           .entry_size = entry_size};
    int status = queue.path == NULL || queue.topic == NULL ? rp_error_set(error, RP_E_NO_MEMORY, 0, directory, -1, "no memory for a queue")
                                                           : rp_file_row_open(directory, &queue.files, error);
    if (status < 0) {
        free(queue.path);
        free(queue.topic);
        return status;
    }
    check->queues[check->count++] = queue;
    return RP_OK;
}

static int add_topic(rp_queue_check *check, const char *path, const char *topic, uint32_t entry_size, rp_error *error) {
    char directory[PATH_MAX + NAME_MAX + 2], queue_path[PATH_MAX + 2 * NAME_MAX + 3];
    snprintf(directory, sizeof directory, "%s/%s", path, topic);
    struct dirent **names = NULL;
    int count = scandir(directory, &names, is_visible, versionsort);
    if (count < 0 && errno != ENOTDIR && errno != ENOENT)
        return rp_error_set(error, rp_status_from_errno(errno), errno, directory, -1, "cannot list the directory: %s", strerror(errno));
    if (count < 0)
        return RP_OK; /* a plain file among the topics' directories belongs to no queue */
    int status = RP_OK;
    for (int i = 0; i < count; i++) {
        char *end = NULL;
        long queue_id = strtol(names[i]->d_name, &end, 10);
        snprintf(queue_path, sizeof queue_path, "%s/%s", directory, names[i]->d_name);
        if (status == RP_OK && *end == '\0' && queue_id >= 0 && queue_id <= INT32_MAX)
            status = add_queue(check, queue_path, topic, (int32_t)queue_id, entry_size, error);
        free(names[i]);
    }
    free(names);
    return status;
}

static int build_slots(rp_queue_check *check, rp_error *error) {
    check->slot_count = 16;
    while (check->slot_count < check->count * 2)
        check->slot_count *= 2;
    check->slots = calloc(check->slot_count, sizeof *check->slots);
    if (check->slots == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for %u queues", check->count);
    for (uint32_t i = 0; i < check->count; i++) {
        const checked_queue *queue = &check->queues[i];
        uint32_t slot = (uint32_t)hash_of((const uint8_t *)queue->topic, queue->topic_size, queue->queue_id) & (check->slot_count - 1);
        while (check->slots[slot] != 0)
            slot = (slot + 1) & (check->slot_count - 1);
        check->slots[slot] = i + 1;
    }
    return RP_OK;
}

static int add_kind(rp_queue_check *check, const char *root_path, const char *name, uint32_t entry_size, rp_error *error) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", root_path, name);
    struct dirent **names = NULL;
    int count = scandir(path, &names, is_visible, alphasort);
    int status = RP_OK;
    if (count < 0 && errno != ENOENT)
        status = rp_error_set(error, rp_status_from_errno(errno), errno, path, -1, "cannot list the consume queues: %s", strerror(errno));
    for (int i = 0; i < count; i++) {
        if (status == RP_OK)
            status = add_topic(check, path, names[i]->d_name, entry_size, error);
        free(names[i]);
    }
    free(names);
    return status;
}

int rp_queue_check_open(const char *root_path, rp_queue_check **opened, rp_error *error) {
    rp_queue_check *check = calloc(1, sizeof *check);
    if (check == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, root_path, -1, "no memory for the queue check");
    int status = add_kind(check, root_path, "consumequeue", RP_CONSUME_QUEUE_ENTRY_SIZE, error);
    if (status == RP_OK)
        status = add_kind(check, root_path, "batchconsumequeue", RP_BATCH_ENTRY_SIZE, error);
    if (status == RP_OK)
        status = build_slots(check, error);
    if (status < 0) {
        rp_queue_check_close(check);
        return status;
    }
    *opened = check;
    return RP_OK;
}

void rp_queue_check_close(rp_queue_check *check) {
    if (check == NULL)
        return;
    for (uint32_t i = 0; i < check->count; i++) {
        rp_file_row_close(check->queues[i].files);
        free(check->queues[i].path);
        free(check->queues[i].topic);
    }
    free(check->queues);
    free(check->slots);
    free(check);
}

uint32_t rp_queue_check_count(const rp_queue_check *check) { return check->count; }
const char *rp_queue_check_path(const rp_queue_check *check, uint32_t queue) { return check->queues[queue].path; }
int rp_queue_check_failure(const rp_queue_check *check, uint32_t queue, rp_error *error) {
    return queue < check->count ? rp_file_row_failure(check->queues[queue].files, error) : RP_OK;
}

/* If a topic has left-over queues of both kinds, each record says which kind it belongs to. */
static uint32_t find_queue(const rp_queue_check *check, rp_slice topic, int32_t queue_id, int of_batches) {
    uint32_t slot = (uint32_t)hash_of(topic.data, topic.size, queue_id) & (check->slot_count - 1);
    for (; check->slots[slot] != 0; slot = (slot + 1) & (check->slot_count - 1)) {
        const checked_queue *queue = &check->queues[check->slots[slot] - 1];
        if (queue->queue_id == queue_id && is_batch(queue) == of_batches && queue->topic_size == topic.size &&
            memcmp(queue->topic, topic.data, topic.size) == 0)
            return check->slots[slot] - 1;
    }
    return check->count;
}

static int is_schedule_topic(rp_slice topic) {
    return topic.size == sizeof SCHEDULE_TOPIC - 1 && memcmp(topic.data, SCHEDULE_TOPIC, topic.size) == 0;
}

/* Entries of this size are fillers, and read as gone: RocketMQ fills the front of a queue's first file with them when it starts at an
 * offset above 0, and the dispatcher the place of a message that the log has lost. */
static int is_filler(const uint8_t *entry) { return rp_get_u32(entry + 8) == INT32_MAX; }

/* True if the topic was deleted and created again after the message was stored: the queue's first entry points behind it. */
static int began_later(rp_file_row *files, const rp_message *message, uint32_t entry_size) {
    const uint8_t *first = rp_file_row_at(files, 0, entry_size);
    return first != NULL && rp_get_u32(first + 8) != 0 && !is_filler(first) && (int64_t)rp_get_u64(first) > message->physical_offset;
}

/* Returns where the batch entry that begins at that offset lies, or would lie. Entries of expired messages come before it, whatever they
 * say. */
static int64_t place_of_batch(rp_file_row *files, int64_t log_min, int64_t queue_offset) {
    int64_t low = rp_file_row_min(files) / RP_BATCH_ENTRY_SIZE, high = rp_file_row_max(files) / RP_BATCH_ENTRY_SIZE;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        const uint8_t *at = rp_file_row_at(files, middle * RP_BATCH_ENTRY_SIZE, RP_BATCH_ENTRY_SIZE);
        rp_queue_entry entry;
        if (at != NULL && rp_batch_entry_read(at, &entry) && (entry.commit_log_offset < log_min || entry.queue_offset < queue_offset)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low * RP_BATCH_ENTRY_SIZE;
}

/* Compares an entry's batch with its record; NULL if they agree. */
static const char *batch_fault(const uint8_t *at, const rp_message *message) {
    rp_queue_entry entry, told;
    if (!rp_inner_batch_read(message, &told))
        return "the queue entry points at a message that says nothing of its place";
    return rp_batch_entry_read(at, &entry) && entry.messages == told.messages && entry.queue_offset == told.queue_offset &&
                   entry.store_timestamp_ms == message->store_timestamp_ms
               ? NULL
               : "the queue entry has other offsets, or another time, than its message";
}

/* For a queue that exists: is the entry at `offset` the message's? */
static int check_entry_of(const checked_queue *queue, const rp_message *message, int64_t offset, const char **cause) {
    const uint8_t *entry = rp_file_row_at(queue->files, offset, queue->entry_size);
    *cause = "a message is in the log but its queue entry is missing";
    if (entry == NULL || rp_get_u32(entry + 8) == 0)
        return began_later(queue->files, message, queue->entry_size) ? RP_QUEUE_CHECK_ORPHAN : RP_QUEUE_CHECK_MISSING;
    *cause = "the queue entry points at another log offset or size than its message has";
    if ((int64_t)rp_get_u64(entry) != message->physical_offset || rp_get_u32(entry + 8) != message->size)
        return began_later(queue->files, message, queue->entry_size) ? RP_QUEUE_CHECK_ORPHAN : 0;
    if (is_batch(queue) && (*cause = batch_fault(entry, message)) != NULL)
        return 0;
    int64_t tags_code = (int64_t)rp_get_u64(entry + 12);
    *cause = "the queue entry has another tag code than its message";
    /* Values below INT32_MIN are addresses in RocketMQ's consume queue extension. */
    return is_schedule_topic(message->topic) || tags_code < INT32_MIN || tags_code == rp_message_tags_code(message->properties);
}

int rp_queue_check_message(rp_queue_check *check, int64_t log_min, const rp_message *message, uint32_t *queue, int64_t *offset,
                           const char **cause) {
    int of_batches = (message->sys_flag & RP_SYSFLAG_INNER_BATCH) != 0;
    rp_queue_entry unused;
    if (!rp_message_is_queued(message->sys_flag) || (of_batches && !rp_inner_batch_read(message, &unused)))
        return 1; /* messages of this kind have no entry */
    *queue = find_queue(check, message->topic, message->queue_id, of_batches);
    *offset = -1;
    if (*queue == check->count)
        return RP_QUEUE_CHECK_ORPHAN;
    const checked_queue *found = &check->queues[*queue];
    *cause = "a message has a queue offset that no queue can have";
    if (message->queue_offset < 0 || message->queue_offset > INT64_MAX / RP_CONSUME_QUEUE_ENTRY_SIZE)
        return 0;
    *offset =
        of_batches ? place_of_batch(found->files, log_min, message->queue_offset) : message->queue_offset * RP_CONSUME_QUEUE_ENTRY_SIZE;
    return check_entry_of(found, message, *offset, cause);
}

/* Returns what is wrong with an entry, NULL if nothing is. */
static const char *entry_fault(const checked_queue *queue, rp_file_row *log, int64_t log_min, int64_t index, const uint8_t *entry) {
    int64_t log_offset = (int64_t)rp_get_u64(entry);
    uint32_t size = rp_get_u32(entry + 8);
    if (log_offset < log_min)
        return NULL; /* its message has expired */
    rp_message message;
    const uint8_t *record = rp_file_row_at(log, log_offset, size);
    if (record == NULL)
        return "the queue entry points behind the log's end";
    if (rp_message_decode(record, size, 0, &message, NULL) != RP_RECORD_MESSAGE || message.size != size)
        return "the queue entry points at no record";
    rp_slice topic = {(const uint8_t *)queue->topic, queue->topic_size};
    int is_queued = rp_message_is_queued(message.sys_flag);
    if (is_queued && rp_is_light_queue(topic) && rp_light_queue_holds(topic, message.properties, index)) /* of a topic of either kind */
        return NULL;
    if (!is_queued || is_batch(queue) != ((message.sys_flag & RP_SYSFLAG_INNER_BATCH) != 0))
        return "the queue entry points at a message that by its sys flag is in no queue, or in one of another kind";
    if (message.queue_id != queue->queue_id || (message.queue_offset != index && !is_batch(queue)) ||
        message.topic.size != queue->topic_size || memcmp(message.topic.data, queue->topic, queue->topic_size) != 0)
        return "the queue entry points at a message of another place";
    return is_batch(queue) ? batch_fault(entry, &message) : NULL;
}

/* For a batch queue, where an entry's place does not give its offsets: checks that they lie behind those of the previous entry, which
 * end at *behind. A file that is a copy of a later one describes its messages correctly. */
static const char *order_fault(const checked_queue *queue, int64_t log_min, const uint8_t *at, int64_t *behind) {
    rp_queue_entry entry;
    if (!is_batch(queue) || !rp_batch_entry_read(at, &entry) || entry.commit_log_offset < log_min) /* of an expired message: not checked */
        return NULL;
    if (entry.queue_offset < *behind)
        return "the queue entry's offsets do not lie behind those of the entry before it";
    *behind = entry.queue_offset + entry.messages;
    return NULL;
}

int rp_queue_check_entries(rp_queue_check *check, uint32_t queue_number, rp_file_row *log, int64_t log_min, uint64_t *entries,
                           int (*bad)(void *context, int64_t offset, const char *cause), void *context) {
    checked_queue *queue = &check->queues[queue_number];
    int64_t end = rp_file_row_max(queue->files), size = queue->entry_size, behind = 0;
    for (int64_t offset = rp_file_row_min(queue->files); offset < end; offset += size) {
        const uint8_t *entry = rp_file_row_at(queue->files, offset, (uint64_t)size);
        const char *fault = "the queue has a gap here";
        if (entry != NULL && rp_get_u32(entry + 8) == 0)
            return 0; /* unwritten: the queue ends here */
        queue->end = offset / size + 1;
        if (entry != NULL && is_filler(entry))
            continue;
        if (entry != NULL)
            fault = entry_fault(queue, log, log_min, offset / size, entry);
        if (fault == NULL)
            fault = order_fault(queue, log_min, entry, &behind);
        (*entries)++;
        if (fault == NULL)
            continue;
        int stop = bad(context, offset, fault);
        if (stop != 0)
            return stop;
        if (entry == NULL)
            return 0;
    }
    return 0;
}

int64_t rp_queue_check_end(const rp_queue_check *check, rp_slice topic, int32_t queue_id) {
    uint32_t queue = find_queue(check, topic, queue_id, 0);
    return queue < check->count ? check->queues[queue].end : -1;
}
