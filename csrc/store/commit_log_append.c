/* commit_log_append.c: the one append: a batch of messages under one hold of the lock, straight into the mapped file.
 * RocketMQ: CommitLog.asyncPutMessage, DefaultAppendMessageCallback (5.3.3 store/).
 *
 * Order of the stores for one message, each released before the next becomes readable:
 *   record bytes ─► size and magic ─► log's max offset ─► queue entry ─► queue's max offset
 * So a reader that finds the entry can read the record, and a process killed in between leaves a whole record or none. Where the queue's
 * file is on a file system that copies on write, the entry comes before the log's max offset: storing it may fail for want of space, and
 * then the record is not published either.
 * Under SYNC_FLUSH the records of a batch are staged and written together (log_staging.h); publication follows the write.
 * Everything that may fail (space for the record, space for the entry, the next file) is secured before the first byte is written.
 */
#include "commit_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../base/clock_inl.h"
#include "commit_log_inl.h"
#include "consume_queue_inl.h"
#include "consume_queue_space.h"
#include "consume_queue_writer.h"
#include "index_key.h"
#include "light_targets.h"
#include "message_encode.h"
#include "message_layout_inl.h"
#include "store_path.h"

#define LOCK_SPINS 100 /* about 2 µs: two or three appends of another thread */

_Static_assert(RP_APPEND_PROPERTY_PARTS == RP_ENCODE_PROPERTY_PARTS, "parts are handed through as they are");

static void source_of(const rp_commit_log *log, const rp_append_item *item, rp_encode_source *source) {
    source->queue_id = rp_consume_queue_id(item->queue);
    source->flag = item->flag;
    source->sys_flag = (item->sys_flag & ~(RP_SYSFLAG_STORE_V6 | RP_SYSFLAG_BATCH_MASK)) | log->store_sys_flag;
    source->reconsume_times = item->reconsume_times;
    source->born_timestamp_ms = item->born_timestamp_ms;
    source->prepared_transaction_offset = item->prepared_transaction_offset;
    source->born_host = item->born_host;
    source->store_host = log->setup.store_host;
    source->topic = rp_consume_queue_topic(item->queue);
    source->body = item->body;
    memcpy(source->properties, item->properties, sizeof source->properties);
    source->append_crc = log->setup.append_property_crc;
}

void rp_commit_log_set_message_size_max(rp_commit_log *log, uint32_t bytes) {
    atomic_store_explicit(&log->message_size_max, bytes, memory_order_relaxed);
}

void rp_commit_log_set_append_timing(rp_commit_log *log, uint32_t busy_timeout_ms, uint32_t wait_timeout_ms) {
    atomic_store_explicit(&log->busy_timeout_ms, busy_timeout_ms, memory_order_relaxed);
    atomic_store_explicit(&log->wait_timeout_ms, wait_timeout_ms, memory_order_relaxed);
}

/* Hashes what the index thread needs, while the record is in the cache. In the feed a tags hash of 0 means "no tags", so tags that hash
 * to 0 are left to be read from the record. */
static void hash_keys(const rp_commit_log *log, rp_slice topic, rp_append_item *item) {
    item->index_hash = RP_INDEX_HASH_UNKNOWN;
    item->index_tags_hash = 0;
    if (item->index_key.data == NULL || log->index_feed == NULL)
        return;
    if (item->index_tags.size > 0 && (item->index_tags_hash = rp_index_tags_hash(topic, item->index_tags)) <= 0)
        return;
    item->index_hash = rp_index_key_hash(topic, item->index_key);
}

/* Sets item->size to the size of its record. RP_OK; RP_E_TOO_LARGE. */
static int measure(const rp_commit_log *log, rp_append_item *item, const rp_encode_source *source) {
    int64_t size = rp_message_encoded_size(source);
    if (size < 0 || size + log->head_size + RP_MESSAGE_BLANK_SIZE_MIN > log->file_size) {
        return RP_E_TOO_LARGE;
    }
    if (log->head_size != 0 && size + log->head_size > RP_LEDGER_ENTRY_SIZE_MAX) {
        return RP_E_TOO_LARGE;
    }
    item->size = (uint32_t)size;
    return RP_OK;
}

static int check_item(const rp_commit_log *log, rp_append_item *item) {
    rp_encode_source source;
    if (item->body.size > atomic_load_explicit(&log->message_size_max, memory_order_relaxed) && !item->is_copy) {
        return RP_E_TOO_LARGE;
    }
    source_of(log, item, &source);
    hash_keys(log, source.topic, item);
    return measure(log, item, &source);
}

/* Under the lock: makes sure that bytes up to `end` can be written. */
static int require_space(rp_commit_log *log, int64_t end) {
    if (__builtin_expect(end <= log->ready_end, 1)) {
        return RP_OK;
    }
    log->ready_end = rp_preallocation_ready_end(log->preallocation);
    if (end <= log->ready_end) {
        return RP_OK;
    }
    int rc = rp_preallocation_require(log->preallocation, end, NULL);
    log->ready_end = rp_preallocation_ready_end(log->preallocation);
    return rc;
}

int rp_commit_log_enter_file(rp_commit_log *log, int64_t offset, rp_error *error) {
    rp_error local = {0};
    error = error == NULL ? &local : error;
    error->status = 0;
    rp_mapped_file *file = rp_mapped_file_queue_find(log->row, offset, error);
    if (file == NULL) {
        return error->status < 0 ? error->status : RP_E_IO;
    }
    if (log->active != NULL) {
        rp_mapped_file_release(log->active);
    }
    log->active = file;
    log->active_address = rp_mapped_file_address(file);
    log->active_end = file->base_offset + log->file_size;
    return RP_OK;
}

/* How many queue offsets the item takes in a batch queue; not used for other queues. */
static int32_t messages_of(const rp_append_item *item) { return item->inner_messages > 0 ? item->inner_messages : 1; }

/* Under the lock: publishes the record to readers; its queue entry follows when it is confirmed. */
static int publish_held(rp_commit_log *log, rp_append_item *item) {
    int rc = RP_OK;
    if (log->head_size == 0) {
        atomic_store_explicit(&log->max_offset, item->commit_log_offset + item->size, memory_order_release);
    } else {
        rp_ledger_entry entry = {.index = atomic_load_explicit(&log->end_index, memory_order_relaxed) + 1,
                                 .term = log->term,
                                 .position = item->commit_log_offset - log->head_size,
                                 .size = log->head_size + item->size};
        rc = rp_commit_log_publish_entry(log, &entry);
    }
    if (rc == RP_OK && rp_message_is_queued(item->sys_flag)) {
        rp_consume_queue_place(item->queue, item->queue_offset + (item->queue->is_batch ? messages_of(item) : 1));
        if (item->light != NULL) {
            rp_light_targets_place(item->light);
        }
    }
    return rc;
}

static inline rp_queue_entry entry_of(const rp_append_item *item) {
    int64_t tags_code = item->queue->is_delay_level ? item->store_timestamp_ms + item->queue->delay_ms : item->tags_code;
    return (rp_queue_entry){.commit_log_offset = item->commit_log_offset,
                            .size = (int32_t)item->size,
                            .messages = messages_of(item),
                            .queue_offset = item->queue_offset,
                            .store_timestamp_ms = item->store_timestamp_ms,
                            .tags_code = tags_code};
}

/* Under the lock: publishes the record to readers. */
static inline void show_record(rp_commit_log *log, const rp_append_item *item) {
    if (log->index_feed != NULL) {
        rp_index_feed_entry fed = {item->commit_log_offset, item->store_timestamp_ms, item->size, item->index_hash, item->index_tags_hash};
        rp_index_feed_put(log->index_feed, &fed);
    }
    atomic_store_explicit(&log->max_offset, item->commit_log_offset + item->size, memory_order_release);
}

/* As publish_item where entries may find no space: they are written first. */
static __attribute__((noinline)) int publish_or_refuse(rp_commit_log *log, rp_append_item *item) {
    rp_queue_entry entry = entry_of(item);
    int rc = rp_commit_log_write_entries(log, item, &entry);
    if (rc == RP_OK) {
        show_record(log, item);
        rp_consume_queue_show(item->queue, &entry);
        if (item->light != NULL) {
            rp_light_targets_show(item->light, &entry);
        }
    }
    return rc;
}

/* Under the lock: publishes the record and its queue entries. RP_OK; RP_E_DISK_FULL, RP_E_IO: the space reserved for an entry is no
 * longer there, and neither record nor entries are published. */
static int publish_item(rp_commit_log *log, rp_append_item *item) {
    if (__builtin_expect(log->holds_back, 0)) {
        return publish_held(log, item);
    }
    bool is_queued = rp_message_is_queued(item->sys_flag);
    if (__builtin_expect(is_queued && item->queue->active->copies_on_write, 0)) {
        return publish_or_refuse(log, item);
    }
    show_record(log, item);
    if (is_queued) {
        rp_queue_entry entry = entry_of(item);
        rp_consume_queue_put(item->queue, &entry);
        if (__builtin_expect(item->light != NULL, 0)) {
            rp_light_targets_put(item->light, &entry);
        }
    }
    return RP_OK;
}

/* Under the lock. Clients are told only that the append failed; the system's error goes to the log. */
int rp_commit_log_write_out(rp_commit_log *log) {
    rp_preallocation_pause(log->preallocation);
    int rc = rp_log_staging_write(&log->staging, log->active->fd, log->active->base_offset, (int64_t)log->active->size);
    rp_preallocation_resume(log->preallocation);
    if (rc != RP_OK) {
        int os_errno = errno;
        char path[RP_PATH_MAX];
        rp_error error;
        (void)rp_path_of_offset(path, rp_mapped_file_queue_directory(log->row), log->active->base_offset, NULL);
        rp_error_set(&error, rc, os_errno, path, log->staging.begin - log->active->base_offset, "cannot write to the commit log: %s",
                     strerror(os_errno));
        rp_commit_log_tell_refused(log, &error);
    }
    return rc;
}

/* Under the lock: counts `change` more entries of the item that wait for their record to be written. */
static void stage(rp_append_item *item, int64_t change) {
    if (rp_message_is_queued(item->sys_flag)) {
        item->queue->staged += change;
        item->queue->staged_messages += change * messages_of(item);
        if (item->light != NULL) {
            rp_light_targets_stage(item->light, change);
        }
    }
}

/* Under the lock: writes the staged records and publishes them. Records that cannot be written were not appended. If an entry finds no
 * space, neither its record nor any later one was appended, although their bytes are written. */
static int write_staged(rp_commit_log *log, rp_append_item *items) {
    rp_log_staging *staging = &log->staging;
    if (staging->size == 0) {
        return RP_OK;
    }
    int64_t begin = staging->begin, end = log->position;
    int written = rp_commit_log_write_out(log), rc = written;
    for (uint32_t i = staging->item_first; i < staging->item_end; i++) {
        if (items[i].status != RP_OK) {
            continue;
        }
        stage(&items[i], -1);
        rc = rc == RP_OK ? publish_item(log, &items[i]) : rc;
        if (rc == RP_OK) {
            begin = items[i].commit_log_offset + items[i].size;
        } else {
            items[i].status = rc;
        }
    }
    if (rc != RP_OK) {
        log->position = begin;
        if (written == RP_OK) {
            rp_commit_log_tear(log, end);
        }
        log->next_index = atomic_load_explicit(&log->end_index, memory_order_relaxed) + 1;
    }
    return rc;
}

/* Under the lock: writes the padding record over the rest of the active file. */
static int end_file(rp_commit_log *log, rp_append_item *items, uint32_t left) {
    int rc = write_staged(log, items);
    if (rc != RP_OK) {
        return rc;
    }
    if (!rp_commit_log_is_staging(log)) {
        return rp_commit_log_store_blank(log, left);
    }
    uint8_t *target = rp_log_staging_take(&log->staging, log->position, RP_MESSAGE_BLANK_SIZE_MIN);
    rp_commit_log_encode_blank(log, target, left);
    return rp_commit_log_write_out(log);
}

/* Under the lock: makes sure that a record of `size` bytes fits at log->position of the active file and still leaves room for the end
 * marker. */
int rp_commit_log_make_room(rp_commit_log *log, rp_append_item *items, uint32_t size) {
    int64_t file_end = log->position - log->position % log->file_size + log->file_size;
    int64_t left = file_end - log->position;
    int rc;
    if (__builtin_expect((int64_t)size + RP_MESSAGE_BLANK_SIZE_MIN > left, 0)) {
        /* The end marker is written only once the next file can take the record: a failed append changes nothing. */
        rc = require_space(log, file_end + size + RP_MESSAGE_BLANK_SIZE_MIN);
        if (rc == RP_OK && log->active == NULL) {
            rc = rp_commit_log_enter_file(log, log->position, NULL);
        }
        rc = rc == RP_OK ? end_file(log, items, (uint32_t)left) : rc;
        if (rc != RP_OK) {
            return rc;
        }
        log->position = file_end;
        return rp_commit_log_enter_file(log, file_end, NULL);
    }
    rc = require_space(log, log->position + size + RP_MESSAGE_BLANK_SIZE_MIN);
    if (rc == RP_OK && __builtin_expect(log->active == NULL || log->position >= log->active_end, 0)) {
        rc = rp_commit_log_enter_file(log, log->position, NULL);
    }
    return rc;
}

/* Under the lock: reserves space for the index unit of the entry. */
static int reserve_unit(rp_commit_log *log) {
    rp_error error;
    int rc = rp_ledger_index_reserve(log->setup.ledger_index, log->next_index, &error);
    if (rc != RP_OK) {
        rp_commit_log_tell_refused(log, &error);
    }
    return rc;
}

/* Under the lock: reserves space for the entries in all queues of the item. */
static int reserve_entries(rp_commit_log *log, const rp_append_item *item) {
    rp_error error;
    error.status = RP_OK;
    int rc = rp_consume_queue_reserve(item->queue, &error);
    if (rc == RP_OK && __builtin_expect(item->light != NULL, 0)) {
        rc = rp_light_targets_reserve(item->light, &error);
    }
    if (rc != RP_OK) {
        rp_commit_log_tell_refused(log, &error);
    }
    return rc;
}

/* Under the lock: reserves space for the record and its queue entries. */
static int reserve(rp_commit_log *log, rp_append_item *items, const rp_append_item *item, bool consumed) {
    rp_consume_queue *queue = item->queue;
    int rc = RP_OK;
    /* Entries are written to the queue's active file, so none may be pending when that file changes. */
    if (!rp_log_staging_fits(&log->staging, log->head_size + item->size) ||
        (queue->staged != 0 && rp_consume_queue_end_entry(queue) + queue->staged >= queue->allocated_end) ||
        (item->light != NULL && rp_light_targets_need_write(item->light))) {
        rc = write_staged(log, items);
    }
    rc = rc == RP_OK && consumed ? reserve_entries(log, item) : rc;
    rc = rc == RP_OK && log->head_size != 0 ? reserve_unit(log) : rc;
    rc = rc == RP_OK ? rp_commit_log_make_room(log, items, log->head_size + item->size) : rc;
    return rc == RP_OK && !rp_commit_log_is_staging(log) ? rp_commit_log_hold(log, log->head_size + item->size) : rc;
}

static int64_t next_of(const rp_commit_log *log, const rp_consume_queue *queue, bool is_batch) {
    const _Atomic int64_t *max = is_batch ? &queue->batch_max : &queue->end_entry;
    int64_t next =
        __builtin_expect(log->holds_back, 0) ? rp_consume_queue_next_offset(queue) : atomic_load_explicit(max, memory_order_relaxed);
    return next + (is_batch ? queue->staged_messages : queue->staged);
}

/* Under the lock: writes the properties that give a batch record its place, behind the item's last properties. RP_OK, RP_E_TOO_LARGE,
 * RP_E_NO_MEMORY. */
static int place_batch(rp_commit_log *log, const rp_append_item *item, int64_t queue_offset, rp_encode_source *source) {
    const rp_slice *last = &source->properties[RP_APPEND_PROPERTY_PARTS - 1];
    if (item->inner_messages > RP_INNER_MESSAGES_MAX || last->size > RP_PROPERTIES_SIZE_MAX) {
        return RP_E_TOO_LARGE;
    }
    if (log->inner_text == NULL && (log->inner_text = malloc(RP_PROPERTIES_SIZE_MAX + RP_INNER_PAIRS_MAX + 1)) == NULL) {
        return RP_E_NO_MEMORY;
    }
    uint8_t *at = log->inner_text;
    if (last->size != 0) {
        memcpy(at, last->data, last->size);
        at += last->size;
    }
    if (!rp_encode_properties_are_closed(source)) {
        *at++ = RP_PROPERTY_SEPARATOR;
    }
    at += rp_inner_pairs_write(at, messages_of(item), queue_offset);
    source->properties[RP_APPEND_PROPERTY_PARTS - 1] = (rp_slice){log->inner_text, (uint32_t)(at - log->inner_text)};
    source->sys_flag |= RP_SYSFLAG_INNER_BATCH | (item->inner_messages > 0 ? RP_SYSFLAG_NEED_UNWRAP : 0);
    return RP_OK;
}

/* Under the lock: writes the queue offsets that the item will have in light queues, or in a batch queue, into the record. */
static int number(rp_commit_log *log, rp_append_item *item) {
    rp_encode_source source;
    if (item->light != NULL) {
        rp_light_targets_number(item, log->holds_back);
    }
    source_of(log, item, &source);
    int rc = item->queue->is_batch ? place_batch(log, item, 0, &source) : RP_OK;
    return rc == RP_OK ? measure(log, item, &source) : rc;
}

static inline void encode(const rp_commit_log *log, const rp_encode_source *source, uint8_t *target, uint32_t size) {
    rp_message_encode(source, target + log->head_size, size);
    if (log->head_size != 0) {
        rp_ledger_entry entry = rp_commit_log_next_entry(log, size);
        rp_ledger_entry_encode(&entry, target);
    }
}

typedef struct new_record {
    const rp_commit_log *log;
    const rp_encode_source *source;
    uint8_t *target;
    uint32_t size;
} new_record;

static void encode_record(void *context) {
    const new_record *record = context;
    encode(record->log, record->source, record->target, record->size);
}

static __attribute__((noinline)) int store_record(rp_commit_log *log, const rp_encode_source *source, uint8_t *target, uint32_t size) {
    new_record record = {log, source, target, size};
    return rp_commit_log_store(log, log->head_size + size, encode_record, &record);
}

static int append_item(rp_commit_log *log, rp_append_item *items, uint32_t index, int64_t now_ms) {
    rp_append_item *item = &items[index];
    bool consumed = rp_message_is_queued(item->sys_flag), is_batch = item->queue->is_batch;
    int rc = __builtin_expect(item->light != NULL || is_batch, 0) ? number(log, item) : RP_OK;
    rc = rc == RP_OK ? reserve(log, items, item, consumed) : rc;
    if (rc != RP_OK) {
        return rc;
    }
    rp_log_staging *staging = &log->staging;
    uint8_t *target = rp_commit_log_is_staging(log) ? rp_log_staging_take(staging, log->position, log->head_size + item->size)
                                                    : log->active_address + (log->position - log->active->base_offset);
    if (target == NULL) {
        return RP_E_NO_MEMORY;
    }
    rp_encode_source source;
    source_of(log, item, &source);
    source.store_timestamp_ms = item->store_timestamp_ms = now_ms;
    source.physical_offset = item->commit_log_offset = log->position + log->head_size;
    source.queue_offset = item->queue_offset = consumed ? next_of(log, item->queue, is_batch) : 0;
    if (__builtin_expect(is_batch, 0)) {
        (void)place_batch(log, item, item->queue_offset, &source); /* cannot fail: it succeeded when the record was measured */
    }
    bool is_staging = rp_commit_log_is_staging(log);
    if (__builtin_expect(!is_staging && log->active->copies_on_write, 0)) {
        rc = store_record(log, &source, target, item->size);
    } else {
        encode(log, &source, target, item->size);
    }
    if (is_staging) {
        staging->item_first = target == staging->bytes ? index : staging->item_first;
        staging->item_end = index + 1;
        stage(item, 1);
    } else if (__builtin_expect(rc != RP_OK || (rc = publish_item(log, item)) != RP_OK, 0)) {
        rp_commit_log_tear(log, log->position + log->head_size + item->size);
        return rc;
    }
    log->next_index += log->head_size != 0;
    log->position += log->head_size + item->size;
    return RP_OK;
}

static uint64_t relaxed(const _Atomic uint64_t *counter) { return atomic_load_explicit(counter, memory_order_relaxed); }

static void count(rp_commit_log *log, uint64_t messages, uint64_t bytes, uint64_t failures, uint64_t held_ns) {
    atomic_store_explicit(&log->messages, relaxed(&log->messages) + messages, memory_order_relaxed);
    atomic_store_explicit(&log->bytes, relaxed(&log->bytes) + bytes, memory_order_relaxed);
    if (failures != 0) {
        atomic_store_explicit(&log->failures, relaxed(&log->failures) + failures, memory_order_relaxed);
    }
    if (held_ns > relaxed(&log->lock_ns_max)) {
        atomic_store_explicit(&log->lock_ns_max, held_ns, memory_order_relaxed);
    }
}

static void wake_queue(rp_commit_log *log, rp_consume_queue *queue) {
    uint64_t waiting = rp_consume_queue_waiting_after_put(queue);
    if ((waiting != 0 || queue->is_lite) && log->arrived != NULL) {
        log->arrived(log->arrived_context, queue, waiting);
    }
}

/* Outside the lock. A queue that occurs in the batch several times, with others between, is reported more than once. */
static void wake_readers(rp_commit_log *log, rp_append_item *items, uint32_t item_count) {
    const rp_consume_queue *last = NULL;
    for (uint32_t i = 0; i < item_count; i++) {
        if (items[i].status == RP_OK && items[i].queue != last) {
            last = items[i].queue;
            wake_queue(log, items[i].queue);
        }
        for (uint32_t k = 0; items[i].light != NULL && items[i].status == RP_OK && k < items[i].light->count; k++) {
            wake_queue(log, items[i].light->targets[k].queue);
        }
    }
}

/* Spins briefly first, because the lock is usually held for microseconds, then sleeps with a timeout: another append may be stuck in the
 * page cache or on the disk, and waiting without limit would only hide that from clients. */
static bool lock_in_time(rp_commit_log *log) {
    for (int spins = 0; spins < LOCK_SPINS; spins++) {
        if (pthread_mutex_trylock(&log->append_lock) == 0) {
            return true;
        }
        for (volatile int rest = 0; rest < 16; rest++) {
        }
    }
    return rp_lock_within(&log->append_lock, atomic_load_explicit(&log->wait_timeout_ms, memory_order_relaxed));
}

static int64_t refuse_all(rp_commit_log *log, rp_append_item *items, uint32_t item_count) {
    for (uint32_t i = 0; i < item_count; i++) {
        items[i].status = items[i].status == RP_OK ? RP_E_BUSY : items[i].status;
    }
    atomic_fetch_add_explicit(&log->refused_busy, item_count, memory_order_relaxed);
    return 0;
}

int rp_commit_log_try_queue(rp_commit_log *log, rp_consume_queue *queue) {
    if (!lock_in_time(log)) {
        return RP_E_BUSY;
    }
    atomic_store_explicit(&log->locked_ns, rp_clock_monotonic_ns(log->setup.clock), memory_order_relaxed);
    int rc = rp_consume_queue_reserve(queue, NULL);
    atomic_store_explicit(&log->locked_ns, 0, memory_order_relaxed);
    pthread_mutex_unlock(&log->append_lock);
    return rc;
}

int64_t rp_commit_log_stuck_ms(const rp_commit_log *log, int64_t now_ns) {
    int64_t locked_ns = atomic_load_explicit(&log->locked_ns, memory_order_relaxed);
    int64_t held_ms = locked_ns != 0 ? (now_ns - locked_ns) / RP_NS_PER_MS : 0;
    return held_ms > (int64_t)atomic_load_explicit(&log->busy_timeout_ms, memory_order_relaxed) ? held_ms : 0;
}

int64_t rp_commit_log_held_ms(const rp_commit_log *log) {
    int64_t locked_ns = atomic_load_explicit(&log->locked_ns, memory_order_relaxed);
    return locked_ns != 0 ? (rp_clock_monotonic_ns(log->setup.clock) - locked_ns) / RP_NS_PER_MS : 0;
}

/* Under the lock. cuts NULL: the append does not depend on earlier ones. */
static bool may_append(const rp_commit_log *log, int64_t now_ns, const uint64_t *cuts) {
    return !log->is_following && !log->is_paused && now_ns < atomic_load_explicit(&log->lease_until_ns, memory_order_relaxed) &&
           (cuts == NULL || *cuts == rp_commit_log_cuts(log));
}

static int64_t append(rp_commit_log *log, rp_append_item *items, uint32_t item_count, const uint64_t *cuts) {
    int64_t appended = 0;
    uint64_t bytes = 0;
    int32_t failure = atomic_load_explicit(&log->failure, memory_order_acquire);
    for (uint32_t i = 0; i < item_count; i++) {
        items[i].status = failure != 0 ? failure : check_item(log, &items[i]);
    }
    int64_t now_ms = rp_clock_wall_ms(log->setup.clock);
    if (!lock_in_time(log)) {
        return refuse_all(log, items, item_count);
    }
    int64_t locked_ns = rp_clock_monotonic_ns(log->setup.clock);
    atomic_store_explicit(&log->locked_ns, locked_ns, memory_order_relaxed);
    failure = atomic_load_explicit(&log->failure, memory_order_acquire);
    failure = failure == 0 && !may_append(log, locked_ns, cuts) ? RP_E_READ_ONLY : failure;
    int64_t last_ms = atomic_load_explicit(&log->store_timestamp_ms, memory_order_relaxed);
    now_ms = last_ms > now_ms && last_ms - now_ms < 1000
                 ? last_ms
                 : now_ms; /* never older than the batch before, although this one waited for the lock */
    bool holds_back = rp_commit_log_dispatched_offset(log) != log->position || log->dispatch_limit != INT64_MAX;
    log->holds_back = holds_back;
    for (uint32_t i = 0; i < item_count; i++) {
        if (items[i].status == RP_OK) {
            items[i].status = failure != 0 ? failure : append_item(log, items, i, now_ms);
            if (__builtin_expect(items[i].status != RP_OK && failure == 0, 0)) {
                rp_commit_log_take_back_padding(log);
            }
        }
    }
    if (write_staged(log, items) != RP_OK) {
        rp_commit_log_take_back_padding(log);
    }
    for (uint32_t i = 0; i < item_count; i++) {
        appended += items[i].status == RP_OK;
        bytes += items[i].status == RP_OK ? items[i].size : 0;
    }
    if (appended != 0) {
        atomic_store_explicit(&log->store_timestamp_ms, now_ms, memory_order_release);
    }
    int64_t position = log->position;
    log->appended_end = appended != 0 ? position : log->appended_end;
    if (!holds_back) {
        atomic_store_explicit(&log->dispatched, position, memory_order_release);
    }
    count(log, (uint64_t)appended, bytes, item_count - (uint64_t)appended, (uint64_t)(rp_clock_monotonic_ns(log->setup.clock) - locked_ns));
    atomic_store_explicit(&log->locked_ns, 0, memory_order_relaxed);
    pthread_mutex_unlock(&log->append_lock);
    if (appended != 0) {
        rp_preallocation_advise(log->preallocation, position);
        if (!holds_back) {
            wake_readers(log, items, item_count);
        }
        rp_commit_log_tell_followers(log);
    }
    return appended;
}

int64_t rp_commit_log_append(rp_commit_log *log, rp_append_item *items, uint32_t item_count) {
    return append(log, items, item_count, NULL);
}

int64_t rp_commit_log_append_behind(rp_commit_log *log, rp_append_item *items, uint32_t item_count, uint64_t cuts) {
    return append(log, items, item_count, &cuts);
}
