/* store_fault_test.c: the n-th system call fails, n = 1, 2, … until a run has no failure; once, and from then on for ever. In every second
 * run writes are short as well.
 *
 * Claims   open, append, wait and close return a fitting status and a message that names a file; what was acknowledged is there
 *          when the store is reopened without faults, queues and log agree, and nothing crashes.
 * Argument "all": every n; otherwise every 23rd, starting at a number that changes with each second of the clock; it is printed, and
 * taken as the argument to repeat a run.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "check.h"
#include "power_cut.h"
#include "store_fixture.h"

enum { MESSAGES = 260, STEP = 23 };

typedef struct outcome {
    int64_t acknowledged; /* messages below it were flushed */
    int64_t appended; /* messages below it were answered with success */
} outcome;

static void answer_fits(int status, const rp_error *error) {
    CHECK(status == RP_E_DISK_FULL || status == RP_E_IO || status == RP_E_READ_ONLY || status == RP_E_NO_MEMORY ||
          status == RP_E_NOT_FOUND || status == RP_E_CORRUPT);
    CHECK(error == NULL || error->message[0] != 0);
}

static void run_once(const rp_message_store_options *options, outcome *seen) {
    rp_message_store *store = NULL;
    rp_error error = {0};
    int rc = rp_message_store_open(options, &store, &error);
    if (rc != RP_OK) {
        answer_fits(rc, &error);
        return;
    }
    rp_consume_queue *queue = rp_message_store_queue(store, fixture_slice("Fault"), 0, 1, &error);
    if (queue == NULL) {
        CHECK(error.message[0] != 0);
    }
    for (int64_t i = 0; queue != NULL && i < MESSAGES; i++) {
        rc = fixture_append(store, queue, seen->appended);
        if (rc != RP_OK) {
            answer_fits(rc, NULL);
            continue; /* goes on once the fault has passed */
        }
        seen->appended++;
        int64_t end = rp_commit_log_max_offset(rp_message_store_commit_log(store));
        if (i % 16 == 15) {
            rc = rp_message_store_wait_flushed(store, end, 60000);
            seen->acknowledged = rc == RP_OK ? seen->appended : seen->acknowledged;
            CHECK(rc == RP_OK || rc == RP_E_IO);
        }
    }
    memset(&error, 0, sizeof error);
    rc = rp_message_store_close(store, &error);
    if (rc == RP_OK) {
        seen->acknowledged = seen->appended;
    } else {
        answer_fits(rc, &error);
    }
}

static void nothing_is_lost(const char *path, const outcome *seen, bool has_short_writes) {
    rp_message_store_options options;
    fixture_options(&options, path);
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "Fault", 0);
    int64_t max = rp_consume_queue_max_offset(queue);
    /* A record whose write broke off near its end may be there, because the body's CRC does not cover the properties. Its producer was
     * told that something failed, not that nothing was stored. */
    CHECK(max >= seen->acknowledged && max <= seen->appended + has_short_writes);
    for (int64_t i = 0; i < max; i++) {
        CHECK(fixture_check(store, queue, i) == 0);
    }
    CHECK(fixture_append(store, queue, max) == RP_OK && fixture_check(store, queue, max) == 0);
    /* Index files may have been lost, but the index is rebuilt. A record that broke off has lost its key together with its properties. */
    int64_t found = fixture_found_by_key(store, "Fault");
    CHECK(found == max + 1 || (has_short_writes && found == max));
    fixture_close(store);
}

static int64_t a_failing_call_loses_nothing(int fail_errno, bool forever, int flush_mode, int64_t first, int64_t step) {
    for (int64_t n = first;; n += step) {
        char base[400], live[512];
        fixture_directory(base, sizeof base);
        snprintf(live, sizeof live, "%s/live", base);
        power_cut *cut = power_cut_create(live);
        cut->fail_at = n;
        cut->fail_errno = fail_errno;
        cut->fail_forever = forever;
        cut->short_writes = n % 2 == 0;
        rp_message_store_options options;
        fixture_options(&options, live);
        options.flush_mode = flush_mode;
        options.file_ops = &cut->ops;
        outcome seen = {0};
        run_once(&options, &seen);
        nothing_is_lost(live, &seen, cut->short_writes);
        bool has_failed = atomic_load(&cut->has_failed);
        power_cut_destroy(cut);
        fixture_remove(base);
        if (!has_failed) {
            return n;
        }
    }
}

static _Atomic int syncs_fail;

static int sync_range_or_not(void *context, int fd, void *address, int64_t offset, size_t size) {
    errno = EIO;
    return atomic_load(&syncs_fail) ? -1 : rp_file_ops_system()->sync_range(context, fd, address, offset, size);
}

/* By the close itself, or before: then the log takes no more writes, and the close does not try again. */
static void a_close_says_what_did_not_reach_the_disk(bool is_known_before) {
    char path[400];
    fixture_directory(path, sizeof path);
    rp_file_ops ops = *rp_file_ops_system();
    ops.sync_range = sync_range_or_not;
    rp_message_store_options options;
    fixture_options(&options, path);
    options.file_ops = &ops;
    options.flush_interval_ms = options.queue_flush_interval_ms = 60000;
    rp_message_store *store = fixture_open(&options);
    CHECK(fixture_append(store, fixture_queue(store, "Fault", 0), 0) == RP_OK);
    atomic_store(&syncs_fail, 1);
    if (is_known_before) {
        CHECK(rp_message_store_wait_flushed(store, rp_commit_log_max_offset(rp_message_store_commit_log(store)), 60000) == RP_E_IO);
    }
    rp_error error = {0};
    CHECK(rp_message_store_close(store, &error) == RP_E_IO && error.status == RP_E_IO);
    CHECK(strstr(error.message, "sync failed") != NULL && error.os_errno == EIO);
    atomic_store(&syncs_fail, 0);
    fixture_remove(path);
}

/* The kernel could not write a page, and tells each descriptor of the file once. The thread that makes zeros hears of it while the sync
 * of the records is under way, before that has its answer. */
static struct lost_page {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t records_thread;
    bool is_lost, is_zeros_sync_begun, is_records_sync_begun, is_told_to_zeros;
    bool told[1024]; /* by descriptor */
} lost_page = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Under the lock, which others have meanwhile; for AT_LAST_S from the call on at most. */
static void wait_for_page(struct lost_page *page, const bool *what) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += AT_LAST_S;
    while (page->is_lost && !*what) {
        CHECK(pthread_cond_timedwait(&page->changed, &page->lock, &end) == 0);
    }
}

static int sync_range_of_lost_page(void *context, int fd, void *address, int64_t offset, size_t size) {
    struct lost_page *page = &lost_page;
    bool is_of_records = pthread_equal(pthread_self(), page->records_thread);
    CHECK(fd >= 0 && fd < 1024);
    pthread_mutex_lock(&page->lock);
    bool *begun = is_of_records ? &page->is_records_sync_begun : &page->is_zeros_sync_begun;
    *begun = *begun || page->is_lost;
    pthread_cond_broadcast(&page->changed);
    wait_for_page(page, is_of_records ? &page->is_told_to_zeros : &page->is_records_sync_begun);
    bool is_news = page->is_lost && !page->told[fd];
    page->told[fd] = page->is_lost;
    page->is_told_to_zeros = page->is_told_to_zeros || (page->is_lost && !is_of_records);
    pthread_cond_broadcast(&page->changed);
    pthread_mutex_unlock(&page->lock);
    errno = EIO;
    return is_news ? -1 : rp_file_ops_system()->sync_range(context, fd, address, offset, size);
}

static void a_lost_page_is_told_to_the_records_sync_though_another_heard_of_it_first(void) {
    enum { FILE_BYTES = 8 << 20, LEAD_BYTES = 64 << 10 };
    char path[400];
    fixture_directory(path, sizeof path);
    rp_file_ops ops = *rp_file_ops_system();
    ops.sync_range = sync_range_of_lost_page;
    lost_page.records_thread = pthread_self();
    rp_message_store_options options;
    fixture_options(&options, path);
    options.file_ops = &ops;
    options.flush_mode = RP_FLUSH_SYNC;
    options.commit_log_file_size = FILE_BYTES;
    options.populate_ahead_bytes = LEAD_BYTES;
    options.flush_interval_ms = options.queue_flush_interval_ms = 60000;
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "Fault", 0);
    rp_commit_log *log = rp_message_store_commit_log(store);
    pthread_mutex_lock(&lost_page.lock);
    lost_page.is_lost = true;
    pthread_mutex_unlock(&lost_page.lock);
    /* Nearly through the first megabyte of zeros: the next one is on its way then, or the first still is. */
    for (int64_t i = 0; rp_commit_log_max_offset(log) < (1 << 20) - LEAD_BYTES / 4; i++) {
        CHECK(fixture_append(store, queue, i) == RP_OK);
    }
    pthread_mutex_lock(&lost_page.lock);
    wait_for_page(&lost_page, &lost_page.is_zeros_sync_begun);
    pthread_mutex_unlock(&lost_page.lock);
    CHECK(rp_message_store_wait_flushed(store, rp_commit_log_max_offset(log), 60000) == RP_E_IO);
    CHECK(rp_commit_log_flushed_offset(log) == 0);
    rp_error error = {0};
    CHECK(rp_message_store_close(store, &error) == RP_E_IO);
    fixture_remove(path);
}

int main(int argc, char **argv) {
    a_lost_page_is_told_to_the_records_sync_though_another_heard_of_it_first();
    a_close_says_what_did_not_reach_the_disk(false);
    a_close_says_what_did_not_reach_the_disk(true);
    bool all = argc > 1 && strcmp(argv[1], "all") == 0;
    int64_t step = all ? 1 : STEP, first = all ? 1 : argc > 1 ? strtoll(argv[1], NULL, 10) : 1 + (int64_t)(time(NULL) % STEP);
    CHECK(first >= 1);
    const int errnos[] = {ENOSPC, EIO};
    for (int i = 0; i < 4; i++) {
        for (int mode = RP_FLUSH_ASYNC; mode <= RP_FLUSH_SYNC; mode++) {
            int64_t calls = a_failing_call_loses_nothing(errnos[i % 2], i / 2, mode, first, step);
            printf("%s %s %s: calls %lld, %lld, … to %lld failed\n", strerror(errnos[i % 2]), i / 2 ? "for ever" : "once",
                   mode == RP_FLUSH_SYNC ? "sync" : "async", (long long)first, (long long)(first + step), (long long)calls);
            fflush(stdout);
        }
    }
    return 0;
}
