/* no_descriptors_test.c: while the process has no descriptor left, or the log's directory has been moved away, the log cannot be opened
 * to be synced. Nothing is lost by that: waiters are told to wait longer, the store stays writable, and what was appended is synced once
 * descriptors, or the directory, are back. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "check.h"
#include "store_fixture.h"

static _Atomic int refusal; /* errno of an open of a directory; 0: none */

static int sync_directory(void *context, const char *path) {
    int refused = atomic_load(&refusal);
    if (refused == EMFILE || (refused == ENOENT && strstr(path, "commitlog") != NULL)) {
        errno = refused;
        return -1;
    }
    return rp_file_ops_system()->sync_directory(context, path);
}

static int64_t flushed(rp_message_store *store) {
    rp_message_store_stats stats;
    rp_message_store_read_stats(store, &stats);
    return stats.flushed_offset;
}

static void the_sync_is_made_up_for(int32_t flush_mode, int refused) {
    char path[400];
    fixture_directory(path, sizeof path);
    rp_file_ops ops = *rp_file_ops_system();
    ops.sync_directory = sync_directory;
    rp_message_store_options options;
    fixture_options(&options, path);
    options.file_ops = &ops;
    options.flush_mode = flush_mode;
    options.flush_interval_ms = options.queue_flush_interval_ms = 10;
    options.flush_thorough_interval_ms = 60000;
    rp_message_store *store = fixture_open(&options);
    rp_commit_log *log = rp_message_store_commit_log(store);
    rp_consume_queue *queue = fixture_queue(store, "Descriptors", 0);
    atomic_store(&refusal, refused);
    int64_t count = 0; /* into the third file: the first two may have been made and synced before, ahead of the writer */
    while (rp_commit_log_max_offset(log) <= 2 * FIXTURE_LOG_FILE_SIZE) {
        CHECK(fixture_append(store, queue, count++) == RP_OK);
    }
    int64_t end = rp_commit_log_max_offset(log);
    int rc = rp_message_store_wait_flushed(store, end, 100);
    CHECK((rc == RP_E_BUSY || rc == RP_E_TIMEOUT) && rp_message_store_writable(store, NULL) == RP_OK);
    CHECK(fixture_append(store, queue, count) == RP_OK);
    atomic_store(&refusal, 0);
    CHECK_AT_LAST(flushed(store) >= end); /* the flusher syncs unasked, even if less than its least pages are left */
    CHECK(rp_message_store_wait_flushed(store, rp_commit_log_max_offset(log), 60000) == RP_OK);
    fixture_close(store); /* the queues too */
    store = fixture_open(&options);
    CHECK(rp_consume_queue_max_offset(fixture_queue(store, "Descriptors", 0)) == count + 1);
    fixture_close(store);
    fixture_remove(path);
}

int main(void) {
    the_sync_is_made_up_for(RP_FLUSH_SYNC, EMFILE);
    the_sync_is_made_up_for(RP_FLUSH_ASYNC, EMFILE);
    the_sync_is_made_up_for(RP_FLUSH_SYNC, ENOENT);
    the_sync_is_made_up_for(RP_FLUSH_ASYNC, ENOENT);
    return 0;
}
