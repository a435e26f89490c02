/* power_cut_test.c: opens what a power cut leaves, over and over. Seeds as arguments, else a few fixed ones.
 *
 * Claims   a message whose sync was awaited is there, once, in its place; queues and log agree entry by entry; nothing is there
 *          that was not sent; the store can continue from there.
 */
#include "../../../csrc/store/commit_log_inl.h"
#include "../../../csrc/store/preallocation.h"
#include "check.h"
#include "power_cut.h"
#include "store_fixture.h"

enum { APPENDERS = 3, ROUNDS = 3 };

typedef struct workload {
    rp_message_store *store;
    rp_consume_queue *queue;
    int64_t next;         /* number of the next message of this queue */
    int64_t acknowledged; /* messages below it were flushed before the cut */
    int waits_every;      /* 0: never waits */
} workload;

/* Until the store takes no more: the first sync after the cut fails. */
static void *append_until_cut(void *context) {
    workload *work = context;
    for (;;) {
        char body[512];
        uint32_t size = fixture_body(body, sizeof body, rp_consume_queue_id(work->queue), work->next);
        rp_append_item item = fixture_item(work->queue, body, size);
        if (rp_commit_log_append(rp_message_store_commit_log(work->store), &item, 1) != 1) {
            CHECK(item.status == RP_E_READ_ONLY);
            return NULL;
        }
        CHECK(item.queue_offset == work->next);
        work->next++;
        if (work->waits_every != 0 && work->next % work->waits_every == 0) {
            int rc = rp_message_store_wait_flushed(work->store, item.commit_log_offset + item.size, 60000);
            CHECK(rc == RP_OK || rc == RP_E_IO);
            work->acknowledged = rc == RP_OK ? work->next : work->acknowledged;
        }
    }
}

/* Every record of the log is the next of its queue: entries and records match one to one. */
static void log_and_queues_agree(rp_message_store *store, workload *work) {
    rp_commit_log *log = rp_message_store_commit_log(store);
    int64_t next[APPENDERS] = {0}; /* offset of the next record, by queue */
    int64_t offset = rp_commit_log_min_offset(log), max = rp_commit_log_max_offset(log);
    while (offset < max) {
        rp_log_range range;
        rp_message message;
        int64_t left = FIXTURE_LOG_FILE_SIZE - offset % FIXTURE_LOG_FILE_SIZE;
        CHECK(rp_commit_log_read(log, offset, (uint32_t)(left < max - offset ? left : max - offset), &range) == RP_OK);
        int kind = rp_message_decode(range.address, range.size, RP_CHECK_BODY_CRC, &message, NULL);
        CHECK(kind == RP_RECORD_MESSAGE || (kind == RP_RECORD_BLANK && (int64_t)message.size == left));
        if (kind == RP_RECORD_MESSAGE) {
            CHECK(message.queue_id >= 0 && message.queue_id < APPENDERS);
            if (message.queue_offset != next[message.queue_id]) {
                fprintf(stderr, "record at %lld of %lld is message %lld of queue %d, %lld was expected\n", (long long)offset,
                        (long long)max, (long long)message.queue_offset, message.queue_id, (long long)next[message.queue_id]);
                exit(1);
            }
            CHECK(fixture_check(store, work[message.queue_id].queue, next[message.queue_id]++) == 0);
        }
        rp_log_range_release(range.pin);
        offset += message.size;
    }
    for (int i = 0; i < APPENDERS; i++) {
        if (rp_consume_queue_max_offset(work[i].queue) != next[i]) {
            rp_queue_entry entry = {0};
            rp_consume_queue_read(work[i].queue, next[i], &entry, 1);
            fprintf(stderr, "queue %d has %lld entries, the log %lld records up to %lld; first without a record at %lld\n", i,
                    (long long)rp_consume_queue_max_offset(work[i].queue), (long long)next[i], (long long)max,
                    (long long)entry.commit_log_offset);
            exit(1);
        }
    }
}

static rp_message_store *open_with_quick_flushes(power_cut *cut, const char *path, int flush_mode) {
    rp_message_store_options options;
    fixture_options(&options, path);
    options.flush_mode = flush_mode;
    options.file_ops = &cut->ops;
    options.flush_interval_ms = 3;
    options.flush_least_pages = 1;
    options.queue_flush_interval_ms = 4;
    options.flush_thorough_interval_ms = 10;
    return fixture_open(&options);
}

/* Finds all that was acknowledged before the last cut, and lets the work go on behind what is there. */
static void everything_acknowledged_is_there(rp_message_store *store, workload *work, int flush_mode, int round) {
    for (int i = 0; i < APPENDERS; i++) {
        rp_consume_queue *queue = fixture_queue(store, "Power", i);
        if (rp_consume_queue_max_offset(queue) < work[i].acknowledged) {
            rp_message_store_stats stats;
            rp_message_store_read_stats(store, &stats);
            fprintf(stderr, "round %d queue %d: %lld messages, %lld were acknowledged; log to %lld, %lld records from %lld\n", round, i,
                    (long long)rp_consume_queue_max_offset(queue), (long long)work[i].acknowledged, (long long)stats.commit_log_max_offset,
                    (long long)stats.recovered_records, (long long)stats.recovered_from);
            exit(1);
        }
        work[i].store = store;
        work[i].queue = queue;
        work[i].next = rp_consume_queue_max_offset(queue);
        work[i].waits_every = flush_mode == RP_FLUSH_SYNC ? i + 1 : 0;
    }
}

/* with_zeros 0: lets the log go on over space that is only allocated, as behind large syncs. */
static int has_appended(rp_message_store *store, uint64_t messages, int with_zeros) {
    rp_message_store_stats stats;
    for (int syncs = 0; !with_zeros && syncs < 16; syncs++) {
        rp_preallocation_count_sync(rp_message_store_commit_log(store)->preallocation, 1 << 30);
    }
    rp_message_store_read_stats(store, &stats);
    return stats.messages_appended >= messages;
}

/* Appends from all threads, and cuts the power when so many messages are in the log. */
static void work_until_cut(rp_message_store *store, power_cut *cut, workload *work, uint64_t messages, int with_zeros) {
    pthread_t threads[APPENDERS];
    for (int i = 0; i < APPENDERS; i++) {
        CHECK(pthread_create(&threads[i], NULL, append_until_cut, &work[i]) == 0);
    }
    CHECK_AT_LAST(has_appended(store, messages, with_zeros));
    power_cut_now(cut);
    for (int i = 0; i < APPENDERS; i++) {
        pthread_join(threads[i], NULL);
    }
}

/* Under ASYNC_FLUSH what was flushed counts as acknowledged. */
static void note_what_was_flushed(rp_message_store *store, workload *work) {
    int64_t flushed = rp_commit_log_flushed_offset(rp_message_store_commit_log(store));
    for (int i = 0; i < APPENDERS; i++) {
        rp_queue_entry entry;
        while (work[i].acknowledged < work[i].next && rp_consume_queue_read(work[i].queue, work[i].acknowledged, &entry, 1) == 1 &&
               entry.commit_log_offset + entry.size <= flushed) {
            work[i].acknowledged++;
        }
    }
}

static void acknowledged_messages_survive_power_cuts(uint64_t seed, int flush_mode) {
    char base[400], live[512], image[512];
    workload work[APPENDERS] = {{0}};
    fixture_directory(base, sizeof base);
    printf("seed %llu %s %s\n", (unsigned long long)seed, flush_mode == RP_FLUSH_SYNC ? "sync" : "async", base);
    for (int round = 0; round < ROUNDS; round++) {
        snprintf(live, sizeof live, "%s/%d", base, round);
        snprintf(image, sizeof image, "%s/%d", base, round + 1);
        power_cut *cut = power_cut_create(live);
        power_cut_settle(cut, "."); /* what was found after the last cut was on disk */
        rp_message_store *store = open_with_quick_flushes(cut, live, flush_mode);
        everything_acknowledged_is_there(store, work, flush_mode, round);
        log_and_queues_agree(store, work);
        work_until_cut(store, cut, work, 50 + cut_random(&seed) % 400, round % 2 == 0);
        if (flush_mode == RP_FLUSH_ASYNC) {
            note_what_was_flushed(store, work);
        }
        power_cut_image(cut, "", image, &seed);
        CHECK(rp_message_store_close(store, NULL) == RP_E_IO); /* and says so */
        power_cut_destroy(cut);
    }
    fixture_remove(base);
}

int main(int argc, char **argv) {
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 2;
    for (uint64_t seed = first; seed < first + count; seed++) {
        acknowledged_messages_survive_power_cuts(seed, RP_FLUSH_SYNC);
        acknowledged_messages_survive_power_cuts(seed, RP_FLUSH_ASYNC);
    }
    return 0;
}
