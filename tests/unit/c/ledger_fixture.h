/* ledger_fixture.h: a store with a DLedger commit log, in a directory of its own. */
#ifndef RP_TESTS_LEDGER_FIXTURE_H
#define RP_TESTS_LEDGER_FIXTURE_H

#include "../../../csrc/store/commit_log_ledger.h"
#include "check.h"
#include "store_fixture.h"

#define LEDGER_QUEUES 3

typedef struct ledger {
    char path[128], data[160], index[160];
    int flush_mode;
    int64_t committed_index;
    rp_message_store *store;
    int64_t appended;
} ledger;

static inline rp_commit_log *ledger_log(const ledger *one) { return rp_message_store_commit_log(one->store); }

static inline void ledger_options(ledger *one, rp_message_store_options *options) {
    fixture_options(options, one->path);
    options->commit_log_path = one->data;
    options->ledger_index_path = one->index;
    options->ledger_index_file_size = 100 * 32;
    options->ledger_committed_index = one->committed_index;
    options->flush_mode = one->flush_mode;
}

static inline void ledger_reopen(ledger *one) {
    rp_message_store_options options;
    ledger_options(one, &options);
    one->store = fixture_open(&options);
}

/* Sets its directory, without opening a store. */
static inline void ledger_name(ledger *one, int flush_mode) {
    memset(one, 0, sizeof *one);
    fixture_directory(one->path, sizeof one->path);
    snprintf(one->data, sizeof one->data, "%s/dledger-n0/data", one->path);
    snprintf(one->index, sizeof one->index, "%s/dledger-n0/index", one->path);
    one->flush_mode = flush_mode;
    one->committed_index = -1;
}

static inline void ledger_open(ledger *one, int flush_mode) {
    ledger_name(one, flush_mode);
    ledger_reopen(one);
}

static inline void ledger_close(ledger *one) {
    fixture_close(one->store);
    fixture_remove(one->path);
}

static inline rp_ledger_ends ledger_ends(const ledger *one) {
    rp_ledger_ends ends;
    rp_commit_log_read_ends(ledger_log(one), &ends);
    return ends;
}

static inline void ledger_commit_all(ledger *one) { rp_commit_log_commit_entries(ledger_log(one), ledger_ends(one).end_offset); }

static inline rp_consume_queue *ledger_queue(const ledger *one, int64_t number) {
    return fixture_queue(one->store, "T", (int32_t)(number % LEDGER_QUEUES));
}

/* Appends the next message: `number`, counted over all queues, goes to queue number % LEDGER_QUEUES; fixture_check knows it by its
 * number in that queue. */
static inline int ledger_try_append(ledger *one) {
    char body[512];
    int64_t number = one->appended;
    rp_consume_queue *queue = ledger_queue(one, number);
    rp_append_item item = fixture_item(queue, body, fixture_body(body, sizeof body, rp_consume_queue_id(queue), number / LEDGER_QUEUES));
    item.tags_code = rp_message_tags_code(item.properties[0]);
    rp_commit_log_append(ledger_log(one), &item, 1);
    CHECK(item.status != RP_OK || item.queue_offset == number / LEDGER_QUEUES);
    one->appended += item.status == RP_OK;
    return item.status;
}

static inline void ledger_append(ledger *one, int count) {
    for (int i = 0; i < count; i++)
        CHECK(ledger_try_append(one) == RP_OK);
}

/* Checks that the queues have the first `count` of all messages, and no others. */
static inline void ledger_check_queues(ledger *one, int64_t count) {
    for (int64_t id = 0; id < LEDGER_QUEUES; id++) {
        int64_t expected = (count + LEDGER_QUEUES - 1 - id) / LEDGER_QUEUES;
        rp_consume_queue *queue = ledger_queue(one, id);
        if (rp_consume_queue_max_offset(queue) != expected)
            fprintf(stderr, "queue %lld: %lld, not %lld\n", (long long)id, (long long)rp_consume_queue_max_offset(queue),
                    (long long)expected);
        CHECK(rp_consume_queue_max_offset(queue) == expected);
        for (int64_t number = 0; number < expected; number++)
            CHECK(fixture_check(one->store, queue, number) == 0);
    }
}

/* Copies entries first..last from one log to another, as their leader would push them. */
static inline void ledger_copy(const ledger *from, ledger *to, int64_t first, int64_t last) {
    for (int64_t index = first; index <= last; index++) {
        rp_log_range range;
        rp_ledger_entry entry;
        rp_error error = {0};
        CHECK(rp_commit_log_read_entry(ledger_log(from), index, &range, &entry) == RP_OK);
        CHECK(entry.index == index && entry.size == range.size);
        int rc = rp_commit_log_append_entry(ledger_log(to), range.address, range.size, &error);
        if (rc != RP_OK)
            fprintf(stderr, "entry %lld: %s\n", (long long)index, error.message);
        CHECK(rc == RP_OK);
        rp_log_range_release(range.pin);
    }
}

/* Checks that both logs are the same, entry by entry. */
static inline void ledger_check_same(const ledger *a, const ledger *b) {
    rp_ledger_ends left = ledger_ends(a), right = ledger_ends(b);
    CHECK(left.end_index == right.end_index && left.end_term == right.end_term && left.end_offset == right.end_offset);
    for (int64_t index = right.begin_index; index >= 0 && index <= right.end_index; index++) {
        rp_log_range ours, theirs;
        rp_ledger_entry entry;
        CHECK(rp_commit_log_read_entry(ledger_log(a), index, &ours, &entry) == RP_OK);
        CHECK(rp_commit_log_read_entry(ledger_log(b), index, &theirs, &entry) == RP_OK);
        CHECK(ours.size == theirs.size && memcmp(ours.address, theirs.address, ours.size) == 0);
        rp_log_range_release(ours.pin);
        rp_log_range_release(theirs.pin);
    }
}

#endif
