/* append_busy_test.c: an append that another one blocks for too long is refused as busy, and succeeds once the other is done. */
#include <pthread.h>

#include "../../../csrc/base/clock_inl.h"
#include "../../../csrc/store/commit_log_inl.h"
#include "check.h"
#include "store_fixture.h"

int main(void) {
    char path[128];
    fixture_directory(path, sizeof path);
    rp_message_store_options options;
    fixture_options(&options, path);
    options.append_wait_timeout_ms = 200;
    rp_message_store *store = fixture_open(&options);
    rp_commit_log *log = rp_message_store_commit_log(store);
    rp_append_item item = {.queue = fixture_queue(store, "T", 0), .body = fixture_slice("body")};

    pthread_mutex_lock(&log->append_lock); /* as an append does that waits for the disk */
    CHECK(rp_commit_log_append(log, &item, 1) == 0 && item.status == RP_E_BUSY);
    pthread_mutex_unlock(&log->append_lock);
    rp_message_store_stats stats;
    rp_message_store_read_stats(store, &stats);
    CHECK(stats.append_refused_busy == 1 && stats.messages_appended == 0);
    rp_message_store_set_append_timing(store, 30000, 30000); /* a thread of the store's may lose its core while it holds the log */
    CHECK(rp_commit_log_append(log, &item, 1) == 1 && item.status == RP_OK);
    rp_message_store_set_append_timing(store, 1, 201);
    pthread_mutex_lock(&log->append_lock);
    int64_t begun_ns = rp_clock_monotonic_ns(rp_clock_system());
    CHECK(rp_commit_log_append(log, &item, 1) == 0 && item.status == RP_E_BUSY);
    CHECK(rp_clock_monotonic_ns(rp_clock_system()) - begun_ns < 29 * RP_NS_PER_S); /* the last setting counts, not the 30 s of before */
    pthread_mutex_unlock(&log->append_lock);
    atomic_store(&log->locked_ns, 1);
    CHECK(rp_commit_log_stuck_ms(log, 5000001) == 5);
    rp_message_store_set_append_timing(store, 30000, 30000);
    CHECK(rp_commit_log_stuck_ms(log, 5000001) == 0);
    atomic_store(&log->locked_ns, 0);

    fixture_close(store);
    fixture_remove(path);
    return 0;
}
