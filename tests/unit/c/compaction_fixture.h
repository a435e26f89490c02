/* compaction_fixture.h: a store with small compacted queues, for the C tests of compaction. */
#ifndef RP_TESTS_COMPACTION_FIXTURE_H
#define RP_TESTS_COMPACTION_FIXTURE_H

#include <poll.h>

#include "../../../csrc/base/clock.h"
#include "../../../csrc/store/compaction_log.h"
#include "check.h"
#include "store_fixture.h"

#define KEYED_MAX 4096
#define NEVER_MS 3600000u
#define OFTEN_MS 20u
#define WAIT_NS (INT64_C(120) * 1000000000)

/* Segments of 20 entries. */
static inline void compacting_options(rp_message_store_options *options, const char *path, uint32_t interval_ms) {
    fixture_options(options, path);
    options->index_enable = 0;
    options->compaction_queue_file_size = 21 * RP_COMPACTION_ENTRY_SIZE;
    options->compaction_file_size = 8 * 1024;
    options->compaction_interval_ms = interval_ms;
}

static inline rp_consume_queue *compacted_queue(rp_message_store *store, const char *topic) {
    rp_error error = {0};
    int rc = rp_message_store_compact(store, fixture_slice(topic), 1, &error);
    if (rc != RP_OK) {
        fprintf(stderr, "compact: %s %s [%s]\n", rp_status_name(rc), error.message, error.file);
        exit(1);
    }
    return fixture_queue(store, topic, 0);
}

/* key NULL: none; body "": deletes the key. */
static inline int append_keyed(rp_message_store *store, rp_consume_queue *queue, const char *key, const char *body) {
    char properties[128];
    snprintf(properties, sizeof properties, key != NULL ? "KEYS\1%s\2" : "A\1b\2", key);
    rp_append_item item = fixture_item(queue, body, (uint32_t)strlen(body));
    item.properties[0] = fixture_slice(properties);
    item.tags_code = rp_message_tags_code(item.properties[0]);
    rp_commit_log_append(rp_message_store_commit_log(store), &item, 1);
    return item.status;
}

/* Appends messages [from, to), with key `number % keys` and the number as body. */
static inline void append_numbers(rp_message_store *store, rp_consume_queue *queue, int from, int to, int keys) {
    for (int i = from; i < to; i++) {
        char key[16], body[64];
        snprintf(key, sizeof key, "k%d", i % keys);
        snprintf(body, sizeof body, "%d %.*s", i, i % 40, "........................................");
        CHECK(append_keyed(store, queue, key, body) == RP_OK);
    }
}

typedef struct kept_messages {
    int64_t offsets[KEYED_MAX];
    int numbers[KEYED_MAX]; /* the numbers in their bodies; -1: no body */
    int count;
} kept_messages;

/* Reads the queue's compacted log; count -1: it is out of order, or has something that is not a record. */
static inline void read_kept(rp_consume_queue *queue, kept_messages *kept) {
    rp_compaction_log *log = rp_consume_queue_compacted(queue);
    int64_t at = 0;
    kept->count = 0;
    for (rp_compaction_segment *segment; (segment = rp_compaction_log_find(log, at)) != NULL && kept->count < KEYED_MAX;) {
        rp_compaction_entry entry;
        rp_message message;
        char body[64] = "";
        rp_compaction_segment_entry(segment, rp_compaction_segment_find(segment, at), &entry);
        rp_slice record = rp_compaction_segment_record(segment, &entry);
        int kind = rp_message_decode(record.data, record.size, RP_CHECK_BODY_CRC, &message, NULL);
        CHECK(kind == RP_RECORD_MESSAGE && message.queue_offset == entry.queue_offset && entry.queue_offset >= at);
        memcpy(body, message.body.data, message.body.size < sizeof body ? message.body.size : sizeof body - 1);
        kept->offsets[kept->count] = entry.queue_offset;
        kept->numbers[kept->count++] = message.body.size > 0 ? atoi(body) : -1;
        at = entry.queue_offset + 1;
        rp_compaction_segment_release(segment);
    }
}

static inline int is_late(int64_t begun_ns) { return rp_clock_monotonic_ns(rp_clock_system()) - begun_ns > WAIT_NS; }

static inline void await_copied(rp_message_store *store, rp_consume_queue *queue) {
    int64_t begun_ns = rp_clock_monotonic_ns(rp_clock_system());
    (void)store;
    while (rp_compaction_log_end(rp_consume_queue_compacted(queue)) < rp_consume_queue_max_offset(queue)) {
        CHECK(!is_late(begun_ns));
        poll(NULL, 0, 1);
    }
}

/* Whether it has the last of `to` numbers for each of `keys` keys, in order. */
static inline int has_last_of_each(const kept_messages *kept, int to, int keys) {
    for (int number = to - keys; number < to; number++) {
        int found = 0;
        for (int i = 0; i < kept->count; i++)
            found += kept->numbers[i] == number;
        if (found != 1) {
            fprintf(stderr, "number %d is there %d times\n", number, found);
            return 0;
        }
    }
    return 1;
}

/* Waits until at most so many are kept: the sealed segments are compacted, the written one is whole. A single look may begin in files
 * that are replaced before it ends; two in a row with the same result have not. */
static inline void await_kept(rp_consume_queue *queue, int most, kept_messages *kept) {
    int64_t begun_ns = rp_clock_monotonic_ns(rp_clock_system()), first = -1;
    int count = -1;
    for (read_kept(queue, kept); kept->count > most || kept->count != count || kept->offsets[0] != first; read_kept(queue, kept)) {
        if (is_late(begun_ns))
            fprintf(stderr, "%d are kept\n", kept->count);
        CHECK(!is_late(begun_ns));
        count = kept->count;
        first = kept->offsets[0];
        poll(NULL, 0, 1);
    }
}

/* A clock that runs twenty times as fast: syncs, and retries, are a second apart. */
static inline int64_t fast_ns(void *context) {
    (void)context;
    return rp_clock_monotonic_ns(rp_clock_system()) * 20;
}

static inline int64_t wall_ms(void *context) {
    (void)context;
    return rp_clock_wall_ms(rp_clock_system());
}

static const rp_clock fast_clock __attribute__((unused)) = {fast_ns, wall_ms, NULL};

#endif
