/* store_fixture.h: a store in a temporary directory, for the C tests of the store. Small files, so that rolling over takes few messages. */
#ifndef RP_TESTS_STORE_FIXTURE_H
#define RP_TESTS_STORE_FIXTURE_H

#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../../csrc/base/error.h"
#include "../../../csrc/store/message.h"
#include "../../../csrc/store/message_store.h"
#include "check.h"

#define FIXTURE_LOG_FILE_SIZE (64 * 1024)
#define FIXTURE_QUEUE_FILE_ENTRIES 50

static inline void fixture_directory_below(const char *base, char *path, size_t size) {
    snprintf(path, size, "%s/rp-store-XXXXXX", base);
    if (mkdtemp(path) == NULL) {
        perror(path);
        exit(1);
    }
}

static inline void fixture_directory(char *path, size_t size) {
    const char *base = getenv("TMPDIR");
    fixture_directory_below(base != NULL ? base : "/tmp", path, size);
}

/* In memory if there is room: for tests that open and close stores often, so that syncs need not wait for a disk. */
static inline void fixture_memory_directory(char *path, size_t size) {
    if (access("/dev/shm", W_OK) == 0) {
        fixture_directory_below("/dev/shm", path, size);
    } else {
        fixture_directory(path, size);
    }
}

static inline int fixture_remove_one(const char *path, const struct stat *status, int kind, struct FTW *where) {
    (void)status, (void)kind, (void)where;
    return remove(path);
}

static inline void fixture_remove(const char *path) { nftw(path, fixture_remove_one, 16, FTW_DEPTH | FTW_PHYS); }

static inline void fixture_options(rp_message_store_options *options, const char *path) {
    rp_message_store_options_default(options);
    options->root_path = path;
    options->commit_log_file_size = FIXTURE_LOG_FILE_SIZE;
    /* On a busy machine a slow append is no sign of a stuck disk. */
    options->append_wait_timeout_ms = options->append_busy_timeout_ms = 30000;
    options->index_slot_count = 64; /* 500 entries: 10 KB a file instead of 420 MB */
    options->index_entry_count_max = 500;
    options->consume_queue_file_size = FIXTURE_QUEUE_FILE_ENTRIES * RP_CONSUME_QUEUE_ENTRY_SIZE;
}

/* Turns off timed syncs: only what a test requests is synced. */
static inline void fixture_never_flush(rp_message_store_options *options) {
    options->flush_interval_ms = options->queue_flush_interval_ms = options->flush_thorough_interval_ms = 3600000;
}

static inline rp_message_store *fixture_open(const rp_message_store_options *options) {
    rp_message_store *store = NULL;
    rp_error error = {0};
    int rc = rp_message_store_open(options, &store, &error);
    if (rc != RP_OK) {
        fprintf(stderr, "open: %s: %s [%s]\n", rp_status_name(rc), error.message, error.file);
        exit(1);
    }
    return store;
}

static inline void fixture_close(rp_message_store *store) {
    rp_error error = {0};
    int rc = rp_message_store_close(store, &error);
    if (rc != RP_OK) {
        fprintf(stderr, "close: %s: %s [%s]\n", rp_status_name(rc), error.message, error.file);
        exit(1);
    }
}

/* Makes a closed store look as if it had been killed before its first checkpoint: recovery reads the whole log. */
static inline void fixture_forget_synced(const char *path) {
    char file[600];
    snprintf(file, sizeof file, "%s/checkpoint", path);
    CHECK(unlink(file) == 0);
    snprintf(file, sizeof file, "%s/abort", path);
    close(open(file, O_RDWR | O_CREAT, 0644));
}

static inline rp_slice fixture_slice(const char *text) { return (rp_slice){(const uint8_t *)text, (uint32_t)strlen(text)}; }

static inline rp_consume_queue *fixture_queue(rp_message_store *store, const char *topic, int32_t queue_id) {
    rp_error error = {0};
    rp_consume_queue *queue = rp_message_store_queue(store, fixture_slice(topic), queue_id, 1, &error);
    if (queue == NULL) {
        fprintf(stderr, "queue: %s\n", error.message);
        exit(1);
    }
    return queue;
}

/* Writes the body of message `number` of a queue: readable, of varying length. */
static inline uint32_t fixture_body(char *body, size_t size, int32_t queue_id, int64_t number) {
    int length = snprintf(body, size, "queue %d message %lld ", queue_id, (long long)number);
    uint32_t end = (uint32_t)length + (uint32_t)(number * 37 % 300);
    memset(body + length, 'a' + (int)(number % 26), end - (uint32_t)length);
    return end;
}

static inline rp_append_item fixture_item(rp_consume_queue *queue, const char *body, uint32_t size) {
    return (rp_append_item){.queue = queue,
                            .born_timestamp_ms = 1700000000000,
                            .born_host = {10, 0, 0, 1, 0, 0, 0x1F, 0x90},
                            .tags_code = 99,
                            .body = {(const uint8_t *)body, size},
                            .properties = {fixture_slice("TAGS\1TagA\2KEYS\1k\2"), fixture_slice("UNIQ_KEY\1ABC\2"), {NULL, 0}}};
}

/* Appends message `number` to the queue; returns the status. */
static inline int fixture_append(rp_message_store *store, rp_consume_queue *queue, int64_t number) {
    char body[512];
    uint32_t size = fixture_body(body, sizeof body, rp_consume_queue_id(queue), number);
    rp_append_item item = fixture_item(queue, body, size);
    rp_commit_log_append(rp_message_store_commit_log(store), &item, 1);
    return item.status;
}

/* Waits until the index has the messages below the offset; it enters them on its own thread, after they are in their queues. */
static inline void fixture_wait_indexed(rp_message_store *store, int64_t offset) {
    const struct timespec pause = {.tv_nsec = 200000};
    rp_message_store_stats stats = {0};
    rp_message_store_read_stats(store, &stats);
    for (int left = 5 * 60000; stats.indexed_offset < offset; left--) {
        if (left == 0) {
            fprintf(stderr, "%s:%d: the index stands at %lld of %lld\n", __FILE__, __LINE__, (long long)stats.indexed_offset,
                    (long long)offset);
            exit(1);
        }
        nanosleep(&pause, NULL);
        rp_message_store_read_stats(store, &stats);
    }
}

/* Counts the topic's messages that the index finds by their common key, once it has caught up with the log. */
static inline int64_t fixture_found_by_key(rp_message_store *store, const char *topic) {
    static int64_t offsets[5000];
    rp_message_store_stats stats;
    rp_message_store_read_stats(store, &stats);
    fixture_wait_indexed(store, stats.commit_log_max_offset);
    int64_t end_ms = (int64_t)time(NULL) * 1000 + 1000000;
    return rp_message_store_query(store, fixture_slice(topic), fixture_slice("k"), 0, end_ms, offsets, 5000).found;
}

/* Returns 0 if entry `number` of the queue leads to the record that fixture_append wrote. */
static inline int fixture_check(rp_message_store *store, rp_consume_queue *queue, int64_t number) {
    rp_queue_entry entry;
    rp_log_range range;
    rp_message message;
    rp_error error = {0};
    char body[512];
    uint32_t size = fixture_body(body, sizeof body, rp_consume_queue_id(queue), number);
    if (rp_consume_queue_read(queue, number, &entry, 1) != 1) {
        fprintf(stderr, "no entry %lld\n", (long long)number);
        return 1;
    }
    int rc = rp_commit_log_read(rp_message_store_commit_log(store), entry.commit_log_offset, (uint32_t)entry.size, &range);
    if (rc != RP_OK) {
        fprintf(stderr, "entry %lld: read %s\n", (long long)number, rp_status_name(rc));
        return 1;
    }
    int kind = rp_message_decode(range.address, range.size, RP_CHECK_RECORD_CRC, &message, &error);
    int wrong = kind != RP_RECORD_MESSAGE || message.queue_offset != number || message.queue_id != rp_consume_queue_id(queue) ||
                message.physical_offset != entry.commit_log_offset || message.body.size != size ||
                memcmp(message.body.data, body, size) != 0;
    if (wrong) {
        fprintf(stderr, "entry %lld: kind %d offset %lld %s\n", (long long)number, kind, (long long)message.queue_offset, error.message);
    }
    rp_log_range_release(range.pin);
    return wrong;
}

#endif
