/* message_store_threads_test.c: appenders, readers, waiters for durability and long-poll bits at once. Also for TSan. */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "check.h"
#include "ledger_fixture.h"
#include "store_fixture.h"

enum { APPENDERS = 3, READERS = 2, QUEUES = 4, BATCH = 5, BATCHES = 120 };

typedef struct shared {
    rp_message_store *store;
    rp_consume_queue *queues[QUEUES];
    _Atomic int appenders_left;
    _Atomic int64_t flushed; /* highest offset the callback told */
    _Atomic int arrivals;
} shared;

static void on_flushed(void *context, int64_t offset) {
    shared *s = context;
    int64_t before = atomic_load(&s->flushed);
    while (before < offset && !atomic_compare_exchange_weak(&s->flushed, &before, offset)) {
    }
}

static void on_arrival(void *context, rp_consume_queue *queue, uint64_t waiting) {
    shared *s = context;
    CHECK(waiting != 0);
    rp_consume_queue_clear_waiting(queue, 3);
    atomic_fetch_add(&s->arrivals, 1);
}

static void *append_batches(void *context) {
    shared *s = context;
    rp_append_item items[BATCH];
    char bodies[BATCH][300];
    for (int batch = 0; batch < BATCHES; batch++) {
        for (int i = 0; i < BATCH; i++) {
            int size = snprintf(bodies[i], sizeof bodies[i], "%p %d %d ", (void *)&items, batch, i);
            memset(bodies[i] + size, 'x', 200);
            items[i] = fixture_item(s->queues[(batch + i) % QUEUES], bodies[i], (uint32_t)size + 200);
        }
        CHECK(rp_commit_log_append(rp_message_store_commit_log(s->store), items, BATCH) == BATCH);
        int64_t end = items[BATCH - 1].commit_log_offset + items[BATCH - 1].size;
        if (batch % 8 == 0) {
            CHECK(rp_message_store_wait_flushed(s->store, end, 60000) == RP_OK);
            CHECK(rp_commit_log_flushed_offset(rp_message_store_commit_log(s->store)) >= end);
        } else if (batch % 8 == 4) {
            rp_message_store_request_flush(s->store, end);
        }
    }
    atomic_fetch_sub(&s->appenders_left, 1);
    return NULL;
}

/* Every entry that is visible leads to a whole record of its queue and offset. */
static void read_one(shared *s, rp_consume_queue *queue, int64_t offset) {
    rp_queue_entry entry;
    rp_log_range range;
    rp_message message;
    CHECK(rp_consume_queue_read(queue, offset, &entry, 1) == 1);
    CHECK(rp_commit_log_read(rp_message_store_commit_log(s->store), entry.commit_log_offset, (uint32_t)entry.size, &range) == RP_OK);
    CHECK(rp_message_decode(range.address, range.size, RP_CHECK_BODY_CRC, &message, NULL) == RP_RECORD_MESSAGE);
    CHECK(message.queue_offset == offset && message.queue_id == rp_consume_queue_id(queue));
    rp_log_range_release(range.pin);
}

static void *read_all(void *context) {
    shared *s = context;
    int64_t next[QUEUES] = {0};
    bool last_round = false;
    while (!last_round) {
        last_round = atomic_load(&s->appenders_left) == 0;
        for (int i = 0; i < QUEUES; i++) {
            rp_consume_queue_set_waiting(s->queues[i], 3);
            for (int64_t max = rp_consume_queue_max_offset(s->queues[i]); next[i] < max; next[i]++) {
                read_one(s, s->queues[i], next[i]);
            }
        }
        sched_yield();
    }
    for (int i = 0; i < QUEUES; i++) {
        CHECK(next[i] == APPENDERS * BATCHES * BATCH / QUEUES);
    }
    return NULL;
}

static void threads_see_whole_messages_in_order(int flush_mode) {
    char path[512];
    fixture_directory(path, sizeof path);
    rp_message_store_options options;
    fixture_options(&options, path);
    options.flush_mode = flush_mode;
    options.flush_interval_ms = 5;
    options.queue_flush_interval_ms = 7;
    options.flush_thorough_interval_ms = 20;
    shared s = {.store = fixture_open(&options), .appenders_left = APPENDERS};
    for (int i = 0; i < QUEUES; i++) {
        s.queues[i] = fixture_queue(s.store, "Threads", i);
    }
    rp_message_store_on_flushed(s.store, on_flushed, &s);
    rp_message_store_on_arrival(s.store, on_arrival, &s);
    pthread_t threads[APPENDERS + READERS];
    for (int i = 0; i < APPENDERS + READERS; i++) {
        CHECK(pthread_create(&threads[i], NULL, i < APPENDERS ? append_batches : read_all, &s) == 0);
    }
    for (int i = 0; i < APPENDERS + READERS; i++) {
        pthread_join(threads[i], NULL);
    }
    int64_t max = rp_commit_log_max_offset(rp_message_store_commit_log(s.store));
    CHECK(rp_message_store_wait_flushed(s.store, max, 60000) == RP_OK);
    CHECK(atomic_load(&s.flushed) <= max);
    rp_message_store_stats stats;
    rp_message_store_read_stats(s.store, &stats);
    CHECK(stats.messages_appended == APPENDERS * BATCHES * BATCH && stats.append_failures == 0);
    CHECK(stats.appended_not_synced_bytes == 0 && stats.flushes > 0);
    int before = atomic_load(&s.arrivals);
    rp_consume_queue_set_waiting(s.queues[1], 3);
    CHECK(fixture_append(s.store, s.queues[1], 0) == RP_OK);
    CHECK(atomic_load(&s.arrivals) == before + 1);
    fixture_close(s.store);
    rp_message_store *store = fixture_open(&options);
    for (int i = 0; i < QUEUES; i++) {
        CHECK(rp_consume_queue_max_offset(fixture_queue(store, "Threads", i)) == APPENDERS * BATCHES * BATCH / QUEUES + (i == 1));
    }
    fixture_close(store);
    fixture_remove(path);
}

static void async_flush(void) { threads_see_whole_messages_in_order(RP_FLUSH_ASYNC); }
static void sync_flush(void) { threads_see_whole_messages_in_order(RP_FLUSH_SYNC); }

static void post(void *context, int64_t flushed_offset) {
    (void)flushed_offset;
    sem_post(context);
}

static bool in_time(sem_t *semaphore) {
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 60;
    return sem_timedwait(semaphore, &deadline) == 0;
}

static void a_shorter_pause_between_flushes_holds_at_once(void) {
    char path[512];
    fixture_directory(path, sizeof path);
    rp_message_store_options options;
    fixture_options(&options, path);
    fixture_never_flush(&options);
    rp_message_store *store = fixture_open(&options);
    sem_t flushed;
    CHECK(sem_init(&flushed, 0, 0) == 0);
    rp_message_store_on_flushed(store, post, &flushed);
    CHECK(fixture_append(store, fixture_queue(store, "Threads", 0), 0) == RP_OK);
    rp_error error;
    rp_flush_timing timing = {.interval_ms = 1, .least_pages = 1000, .thorough_interval_ms = 1, .queue_interval_ms = 0};
    CHECK(rp_message_store_set_flush_timing(store, &timing, &error) == RP_E_INVALID);
    timing.queue_interval_ms = 3600000;
    CHECK(rp_message_store_set_flush_timing(store, &timing, &error) == RP_OK);
    CHECK(in_time(&flushed));
    rp_message_store_stats stats;
    rp_message_store_read_stats(store, &stats);
    CHECK(stats.appended_not_synced_bytes == 0);
    fixture_close(store); /* says "flushed" once more */
    sem_destroy(&flushed);
    fixture_remove(path);
}

/* Nobody requests a sync for one-way sends, for sends with WAIT=false and for delayed deliveries. */
static void what_nobody_waits_for_is_synced_soon_all_the_same(void) {
    char path[512];
    fixture_directory(path, sizeof path);
    rp_message_store_options options;
    fixture_options(&options, path);
    fixture_never_flush(&options);
    options.flush_mode = RP_FLUSH_SYNC;
    options.flush_interval_ms = 1;
    options.flush_least_pages = 1000;
    rp_message_store *store = fixture_open(&options);
    sem_t flushed;
    CHECK(sem_init(&flushed, 0, 0) == 0);
    rp_message_store_on_flushed(store, post, &flushed);
    CHECK(fixture_append(store, fixture_queue(store, "Threads", 0), 0) == RP_OK);
    CHECK(in_time(&flushed));
    fixture_close(store);
    sem_destroy(&flushed);
    fixture_remove(path);
}

typedef struct slow_queue {
    sem_t begun, may_end, flushed;
    _Atomic bool is_due;
} slow_queue;

static slow_queue slow;

/* The first sync of a queue, which is mapped without a descriptor, takes until it may end. */
static int sync_range(void *context, int fd, void *address, int64_t offset, size_t size) {
    if (fd < 0 && atomic_exchange(&slow.is_due, false)) {
        CHECK(sem_post(&slow.begun) == 0 && in_time(&slow.may_end));
    }
    return rp_file_ops_system()->sync_range(context, fd, address, offset, size);
}

static void who_waits_for_the_log_does_not_wait_for_queues(void) {
    char path[512];
    fixture_directory(path, sizeof path);
    rp_file_ops ops = *rp_file_ops_system();
    ops.sync_range = sync_range;
    CHECK(sem_init(&slow.begun, 0, 0) == 0 && sem_init(&slow.may_end, 0, 0) == 0 && sem_init(&slow.flushed, 0, 0) == 0);
    atomic_store(&slow.is_due, true);
    rp_message_store_options options;
    fixture_options(&options, path);
    options.file_ops = &ops;
    options.flush_mode = RP_FLUSH_SYNC;
    options.index_enable = 0;
    options.flush_interval_ms = 3600000;
    options.queue_flush_interval_ms = options.flush_thorough_interval_ms = 1;
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "Threads", 0);
    CHECK(fixture_append(store, queue, 0) == RP_OK);
    CHECK(in_time(&slow.begun));
    rp_message_store_on_flushed(store, post, &slow.flushed);
    CHECK(fixture_append(store, queue, 1) == RP_OK);
    rp_message_store_request_flush(store, rp_commit_log_max_offset(rp_message_store_commit_log(store)));
    CHECK(in_time(&slow.flushed));
    rp_message_store_stats stats;
    rp_message_store_read_stats(store, &stats);
    CHECK(stats.appended_not_synced_bytes == 0);
    CHECK(sem_post(&slow.may_end) == 0);
    fixture_close(store); /* says "flushed" once more */
    fixture_remove(path);
}

static void wait_for_idle_flush(const ledger *one) {
    struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; !rp_message_store_flush_is_idle(one->store); i++) {
        CHECK(i < 60000);
        nanosleep(&pause, NULL);
    }
}

static void request_flush_of_all(const ledger *one) {
    rp_message_store_request_flush(one->store, ledger_ends(one).end_offset);
    wait_for_idle_flush(one);
    CHECK(rp_commit_log_flushed_offset(ledger_log(one)) == ledger_ends(one).end_offset);
}

/* A former leader requested a sync of bytes that were then cut. They never reach the disk, but what comes in their place is synced on
 * request. */
static void a_cut_leaves_no_request_that_is_never_met(void) {
    ledger one;
    rp_error error;
    rp_message_store_options options;
    ledger_open(&one, RP_FLUSH_SYNC);
    fixture_close(one.store);
    ledger_options(&one, &options);
    fixture_never_flush(&options);
    one.store = fixture_open(&options);
    for (int64_t term = 1; term < 4; term++) {
        int64_t kept = ledger_ends(&one).end_index;
        CHECK(rp_commit_log_lead_entries(ledger_log(&one), term, &error) == RP_OK);
        for (int i = 0; i < 20; i++)
            CHECK(fixture_append(one.store, ledger_queue(&one, 0), i) == RP_OK);
        request_flush_of_all(&one);
        CHECK(rp_commit_log_follow_entries(ledger_log(&one), 60000) == RP_OK);
        CHECK(rp_commit_log_cut_entries(ledger_log(&one), kept + 2, &error) == RP_OK);
        wait_for_idle_flush(&one);
        CHECK(rp_commit_log_flushed_offset(ledger_log(&one)) == ledger_ends(&one).end_offset);
    }
    ledger_close(&one);
}

int main(void) {
    RUN(async_flush);
    RUN(sync_flush);
    RUN(a_shorter_pause_between_flushes_holds_at_once);
    RUN(what_nobody_waits_for_is_synced_soon_all_the_same);
    RUN(who_waits_for_the_log_does_not_wait_for_queues);
    RUN(a_cut_leaves_no_request_that_is_never_met);
    return 0;
}
