/* index_builder.c: see index_builder.h. */
#include "index_builder.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../base/bytes_inl.h"
#include "../base/clock_inl.h"
#include "../base/thread.h"
#include "commit_log_writer.h"
#include "index_feed.h"
#include "ledger_entry.h"
#include "log_cursor.h"
#include "message.h"

#define PASS_BYTES (1u << 20) /* pinned and decoded at a time */
#define FEED_CAPACITY 131072u   /* 4 MB: a quarter of a second at 500,000 messages a second */
#define FEED_PASS 4096          /* entries between two checks of the clock */
#define RETRY_MS 1000

struct rp_index_builder {
    /* fixed after open */
    rp_index_builder_options options;
    rp_thread *thread;
    int wake_fd;
    rp_index_feed *feed;
    /* Owned by the index thread. */
    rp_index_feed_entry held; /* taken from the feed and not entered, because the disk was full */
    int has_held;
    int64_t last_sync_ns;
    int is_dirty;
    int has_complained;
    int has_failed_sync;
    /* atomics */
    atomic_int_fast64_t offset;      /* release: the entries below it are in the index */
    atomic_int sleeping;             /* sequentially consistent against the log's dispatched offset, as in ha_master.c */
    atomic_int_fast64_t stop_at_ns;  /* INT64_MAX while running; then when to give up draining */
    atomic_int waiting; /* threads in await; incremented before they write to wake_fd, so that a pass that follows sees them */
    pthread_mutex_t passed_lock; /* guards only the condition `passed` */
    pthread_cond_t passed; /* signalled when a pass has ended, if somebody waits */
};

void rp_index_builder_options_default(rp_index_builder_options *options) {
    *options = (rp_index_builder_options){.commit_log_file_size = 1ull << 30, .linger_ms = 5, .sync_interval_ms = 5000};
}

static int64_t offset_of(const rp_index_builder *builder) { return atomic_load_explicit(&builder->offset, memory_order_relaxed); }
static int64_t backlog(const rp_index_builder *builder) {
    return rp_commit_log_dispatched_offset(builder->options.commit_log) - offset_of(builder);
}

static void advance_to(rp_index_builder *builder, int64_t offset) { atomic_store_explicit(&builder->offset, offset, memory_order_release); }

static int64_t next_file(const rp_index_builder *builder, int64_t offset) {
    int64_t size = (int64_t)builder->options.commit_log_file_size;
    return offset - offset % size + size;
}

static void complain(rp_index_builder *builder, const char *what, const rp_error *error) {
    if (builder->has_complained)
        return;
    builder->has_complained = 1;
    rp_log_write(builder->options.log, RP_LOG_ERROR, "index: %s at log offset %lld: %s", what, (long long)offset_of(builder),
                 error->message);
}

/* Where a record should lie there is none: continues with the next whole one, as recovery and the queues do. RP_OK; RP_E_IO: the log
 * cannot be read now. */
static int pass_over(rp_index_builder *builder, const rp_error *cause, rp_error *error) {
    rp_commit_log *log = builder->options.commit_log;
    int64_t offset = offset_of(builder), end = rp_commit_log_dispatched_offset(log);
    rp_log_cursor cursor = {.row = rp_commit_log_files(log)};
    rp_message message;
    complain(builder, "passing over what is not a record", cause);
    int status = rp_log_cursor_find(&cursor, offset + 1, RP_CHECK_BODY_CRC, &message, error);
    int64_t next = status == RP_OK && message.physical_offset < end ? message.physical_offset : end;
    rp_log_cursor_leave(&cursor);
    if (status == RP_E_IO)
        return status;
    advance_to(builder, next);
    return RP_OK;
}

/* A record or padding, with the head before it, as found in the bytes. */
typedef struct place {
    uint32_t head_size; /* 0 except in a log with entries */
    uint32_t size; /* including the head */
    int is_padding; /* padding in a log with entries */
} place;

/* `at` has at least RP_MESSAGE_BLANK_SIZE_MIN bytes. Where the index continues after an open, it may be a record without its head. */
static place look_at(const rp_index_builder *builder, const uint8_t *at) {
    uint32_t first = rp_get_u32(at), second = rp_get_u32(at + 4);
    if (!builder->options.has_entries || (first != RP_LEDGER_MAGIC && first != RP_LEDGER_MAGIC_BLANK)) {
        return (place){0, first, 0};
    }
    return (place){first == RP_LEDGER_MAGIC ? RP_LEDGER_HEAD_SIZE : 0, second, first == RP_LEDGER_MAGIC_BLANK};
}

/* Enters the whole records of a pinned range. Returns the bytes consumed, or a negative status of the index (what was entered before it
 * counts). */
static int64_t enter_range(rp_index_builder *builder, const rp_log_range *range, rp_error *error) {
    uint64_t done = 0;
    int64_t start = offset_of(builder);
    while (range->size - done >= RP_MESSAGE_BLANK_SIZE_MIN) {
        rp_message message = {0};
        place here = look_at(builder, range->address + done);
        if (here.size > range->size - done || here.size < here.head_size)
            break;
        int64_t offset = start + (int64_t)done, at = (int64_t)done + here.head_size;
        int kind =
            here.is_padding ? RP_RECORD_BLANK : rp_message_decode(range->address + at, range->size - (uint64_t)at, 0, &message, error);
        message.size = here.is_padding ? here.size : message.size;
        if (kind == RP_RECORD_MESSAGE && message.physical_offset == start + at) {
            int status = rp_key_index_put_message(builder->options.index, &message, error);
            if (status < 0)
                return status;
            builder->is_dirty = 1;
            done = (uint64_t)at + message.size;
            advance_to(builder, start + (int64_t)done);
            continue;
        }
        if (kind == RP_RECORD_BLANK && offset + message.size == next_file(builder, offset)) {
            advance_to(builder, next_file(builder, offset));
            return (int64_t)range->size;
        }
        rp_error cause;
        rp_error_set(&cause, RP_E_CORRUPT, 0, NULL, offset, "%s", kind < 0 ? error->message : "zero bytes, or a record of another place");
        int status = pass_over(builder, &cause, error);
        return status < 0 ? status : (int64_t)range->size;
    }
    return (int64_t)done;
}

/* Enters one record whose keys the appender could not hash, reading them from the log. */
static int enter_record(rp_index_builder *builder, const rp_index_feed_entry *entry, rp_error *error) {
    rp_log_range range;
    rp_commit_log *log = builder->options.commit_log;
    int status = rp_commit_log_read(log, entry->log_offset, entry->size, &range);
    if (status < 0)
        return !rp_status_is_passing(status)
                   ? RP_OK /* deleted meanwhile */
                   : rp_error_set(error, status, 0, NULL, entry->log_offset, "the record cannot be read: %s", rp_status_text(status));
    rp_message message;
    int kind = rp_message_decode(range.address, range.size, RP_CHECK_NO_CRC, &message, error);
    status = kind == RP_RECORD_MESSAGE ? rp_key_index_put_message(builder->options.index, &message, error) : RP_OK;
    rp_log_range_release(range.pin);
    return status;
}

/* Enters the hashes from the appender: of the unique key, and of the tags if there are any. */
static int enter_hashes(rp_index_builder *builder, const rp_index_feed_entry *entry, rp_error *error) {
    rp_key_index *index = builder->options.index;
    int status = rp_key_index_put(index, entry->key_hash, entry->log_offset, entry->store_time_ms, error);
    if (status < 0 || entry->tags_hash == 0)
        return status;
    builder->held.key_hash = entry->tags_hash; /* if this fails, only the tags are left to be entered */
    builder->held.tags_hash = 0;
    return rp_key_index_put(index, entry->key_hash, entry->log_offset, entry->store_time_ms, error);
}

static int enter_held(rp_index_builder *builder, rp_error *error) {
    const rp_index_feed_entry *entry = &builder->held;
    int status = entry->key_hash == RP_INDEX_HASH_UNKNOWN ? enter_record(builder, entry, error) : enter_hashes(builder, entry, error);
    if (status == RP_OK) {
        builder->is_dirty = 1;
        builder->has_held = 0;
        advance_to(builder, entry->log_offset + entry->size);
    }
    return status;
}

/* While the feed runs: enters those of its records that lie below `dispatched`. Returns as enter_some. */
static int enter_fed(rp_index_builder *builder, int64_t dispatched, rp_error *error) {
    int64_t start = offset_of(builder), end = rp_index_feed_end(builder->feed), limit = dispatched < end ? dispatched : end;
    for (int count = 0; count < FEED_PASS; count++) {
        if (!builder->has_held && !(builder->has_held = rp_index_feed_take(builder->feed, limit, &builder->held))) {
            advance_to(builder, limit); /* over the padding, which has no entry */
            break;
        }
        int status = enter_held(builder, error);
        if (status < 0)
            return status;
    }
    if (offset_of(builder) == end)
        rp_index_feed_request(builder->feed); /* all of it is entered; continues by reading the log until the next feed begins */
    return offset_of(builder) > start;
}

/* Enters one pinned piece. 1: made progress; 0: no whole record is there; negative: try again later. */
static int enter_some(rp_index_builder *builder, rp_error *error) {
    rp_commit_log *log = builder->options.commit_log;
    int64_t offset = offset_of(builder), end = rp_commit_log_dispatched_offset(log), min = rp_commit_log_min_offset(log);
    if (offset < min)
        advance_to(builder, offset = min);
    int64_t from = rp_index_feed_from(builder->feed); /* read after end: what is dispatched beyond it is in the feed */
    from -= builder->options.has_entries ? RP_LEDGER_HEAD_SIZE : 0;
    if (offset >= from)
        return enter_fed(builder, end, error);
    end = end < from ? end : from;
    int64_t limit = next_file(builder, offset) < end ? next_file(builder, offset) : end;
    int64_t available = limit - offset;
    if (available <= 0)
        return 0;
    rp_log_range range;
    uint32_t size = available < PASS_BYTES ? (uint32_t)available : PASS_BYTES;
    for (int tries = 0; tries < 2; tries++) {
        int status = rp_commit_log_read(log, offset, size, &range);
        if (rp_status_is_passing(status))
            return rp_error_set(error, status, 0, NULL, offset, "the log cannot be read: %s", rp_status_text(status));
        if (status == RP_E_NOT_FOUND)
            advance_to(builder, next_file(builder, offset)); /* removed from outside */
        if (status < 0)
            return status == RP_E_NOT_FOUND; /* or deleted meanwhile: the next round starts at the new minimum */
        uint32_t first = size >= RP_MESSAGE_BLANK_SIZE_MIN ? look_at(builder, range.address).size : 0;
        if (first <= size || first > available)
            break; /* a whole record, or none */
        rp_log_range_release(range.pin);
        size = first; /* a record larger than a piece */
    }
    int64_t used = enter_range(builder, &range, error);
    rp_log_range_release(range.pin);
    if (used == 0) {
        rp_error cause;
        rp_error_set(&cause, RP_E_CORRUPT, 0, NULL, offset, "a size past the log's end");
        used = pass_over(builder, &cause, error);
        return used < 0 ? (int)used : 1;
    }
    return used < 0 ? (int)used : used > 0;
}

static void sync_index(rp_index_builder *builder) {
    rp_error error;
    int64_t time_ms = rp_key_index_sync(builder->options.index, &error);
    builder->last_sync_ns = rp_clock_monotonic_ns(builder->options.clock);
    if (time_ms == RP_E_BUSY) {
        complain(builder, "not synced yet", &error);
        return;
    }
    if (time_ms < 0) {
        if (!builder->has_failed_sync)
            rp_log_write(builder->options.log, RP_LOG_ERROR,
                         "index: %s [%s]; what was entered since the last sync is built again at the next start", error.message,
                         error.file);
        builder->has_failed_sync = 1;
        return;
    }
    builder->is_dirty = 0;
    if (builder->options.on_synced != NULL && time_ms > 0)
        builder->options.on_synced(builder->options.context, time_ms, rp_key_index_next_offset(builder->options.index));
}

/* Waits for a notify, at most timeout_ms (-1: no limit). */
static void wait_for_notify(rp_index_builder *builder, int timeout_ms) {
    struct pollfd polled = {.fd = builder->wake_fd, .events = POLLIN};
    if (poll(&polled, 1, timeout_ms) > 0) {
        uint64_t drained;
        (void)!read(builder->wake_fd, &drained, sizeof drained);
    }
}

static int is_stopping(const rp_index_builder *builder) {
    return atomic_load_explicit(&builder->stop_at_ns, memory_order_acquire) != INT64_MAX;
}

static int sync_due_ms(const rp_index_builder *builder) {
    if (!builder->is_dirty || builder->has_failed_sync)
        return -1;
    int64_t due_ns =
        builder->last_sync_ns + (int64_t)builder->options.sync_interval_ms * RP_NS_PER_MS - rp_clock_monotonic_ns(builder->options.clock);
    return due_ns <= 0 ? 0 : (int)(due_ns / RP_NS_PER_MS) + 1;
}

static void sleep_until_appended(rp_index_builder *builder) {
    atomic_store(&builder->sleeping, 1);
    atomic_thread_fence(memory_order_seq_cst);
    if (backlog(builder) <= 0 && !is_stopping(builder))
        wait_for_notify(builder, sync_due_ms(builder));
    atomic_store(&builder->sleeping, 0);
}

static void tell_waiting(rp_index_builder *builder) {
    pthread_mutex_lock(&builder->passed_lock);
    pthread_cond_broadcast(&builder->passed);
    pthread_mutex_unlock(&builder->passed_lock);
}

static void index_builder_run(void *context) {
    rp_index_builder *builder = context;
    for (;;) {
        rp_error error = {0};
        int moved = enter_some(builder, &error), is_awaited = atomic_load(&builder->waiting) > 0;
        if (is_awaited)
            tell_waiting(builder);
        int64_t now_ns = rp_clock_monotonic_ns(builder->options.clock);
        if (is_stopping(builder) && (moved <= 0 || now_ns >= atomic_load(&builder->stop_at_ns)))
            break;
        if (sync_due_ms(builder) == 0)
            sync_index(builder);
        if (moved > 0) {
            builder->has_complained = 0;
            if (backlog(builder) < PASS_BYTES && !is_awaited)
                wait_for_notify(builder, (int)builder->options.linger_ms);
        } else if (moved < 0) {
            complain(builder, "cannot grow", &error);
            wait_for_notify(builder, RETRY_MS);
        } else {
            sleep_until_appended(builder);
        }
    }
    sync_index(builder);
}

int rp_index_builder_open(const rp_index_builder_options *options, rp_index_builder **opened, rp_error *error) {
    if (options->commit_log == NULL || options->index == NULL || options->commit_log_file_size == 0 || options->sync_interval_ms < 1)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "the index builder needs a log, an index, a file size and a sync interval");
    rp_index_builder *builder = calloc(1, sizeof *builder);
    if (builder == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for the index builder");
    builder->options = *options;
    int64_t start = rp_key_index_next_offset(options->index), min = rp_commit_log_min_offset(options->commit_log);
    atomic_init(&builder->offset, start > min ? start : min);
    atomic_init(&builder->stop_at_ns, INT64_MAX);
    pthread_mutex_init(&builder->passed_lock, NULL);
    rp_monotonic_cond_init(&builder->passed);
    builder->last_sync_ns = rp_clock_monotonic_ns(options->clock);
    builder->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    int status = builder->wake_fd < 0
                     ? rp_error_set(error, RP_E_IO, errno, NULL, -1, "no eventfd for the index builder: %s", strerror(errno))
                     : RP_OK;
    builder->feed = rp_index_feed_create(FEED_CAPACITY);
    if (status == RP_OK && builder->feed == NULL)
        status = rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for %u keys on their way to the index", FEED_CAPACITY);
    if (status == RP_OK) {
        rp_index_feed_request(builder->feed);
        rp_commit_log_feed_index(options->commit_log, builder->feed);
    }
    if (status == RP_OK) {
        status = rp_thread_start(&builder->thread, "index", index_builder_run, builder);
        if (status < 0)
            rp_error_set(error, status, 0, NULL, -1, "cannot start the index thread: %s", rp_thread_refusal(status));
    }
    if (status < 0) {
        rp_commit_log_feed_index(options->commit_log, NULL);
        rp_index_feed_destroy(builder->feed);
        if (builder->wake_fd >= 0)
            close(builder->wake_fd);
        pthread_cond_destroy(&builder->passed);
        pthread_mutex_destroy(&builder->passed_lock);
        free(builder);
        return status;
    }
    *opened = builder;
    return RP_OK;
}

static void wake(rp_index_builder *builder) {
    uint64_t one = 1;
    (void)!write(builder->wake_fd, &one, sizeof one); /* fails only if the eventfd is readable already */
}

void rp_index_builder_close(rp_index_builder *builder, uint32_t drain_ms) {
    if (builder == NULL)
        return;
    atomic_store_explicit(&builder->stop_at_ns, rp_clock_monotonic_ns(builder->options.clock) + (int64_t)drain_ms * RP_NS_PER_MS,
                          memory_order_release);
    wake(builder);
    rp_thread_join(builder->thread);
    rp_commit_log_feed_index(builder->options.commit_log, NULL);
    rp_index_feed_destroy(builder->feed);
    close(builder->wake_fd);
    pthread_cond_destroy(&builder->passed);
    pthread_mutex_destroy(&builder->passed_lock);
    free(builder);
}

void rp_index_builder_notify(rp_index_builder *builder) {
    atomic_thread_fence(memory_order_seq_cst); /* orders the log's dispatched offset before the read of `sleeping` */
    if (atomic_load_explicit(&builder->sleeping, memory_order_relaxed) == 0 || atomic_exchange(&builder->sleeping, 0) == 0)
        return;
    wake(builder);
}

int rp_index_builder_await(rp_index_builder *builder, int64_t offset, uint32_t timeout_ms) {
    if (rp_index_builder_offset(builder) >= offset)
        return RP_OK;
    struct timespec until = rp_deadline_after(CLOCK_MONOTONIC, timeout_ms);
    pthread_mutex_lock(&builder->passed_lock);
    atomic_fetch_add(&builder->waiting, 1);
    wake(builder);
    int waited = 0;
    while (rp_index_builder_offset(builder) < offset && waited == 0)
        waited = pthread_cond_timedwait(&builder->passed, &builder->passed_lock, &until);
    atomic_fetch_sub(&builder->waiting, 1);
    pthread_mutex_unlock(&builder->passed_lock);
    return rp_index_builder_offset(builder) >= offset ? RP_OK : RP_E_TIMEOUT;
}

int64_t rp_index_builder_offset(const rp_index_builder *builder) { return atomic_load_explicit(&builder->offset, memory_order_acquire); }
