/* compaction_disk_test.c: a compacted queue on a full disk, and on one that fails a sync. */
#include <errno.h>
#include <stdatomic.h>

#include "../../../csrc/store/commit_log_inl.h"
#include "compaction_fixture.h"

static kept_messages kept;
static rp_file_ops failing_ops;

/* ---- a full disk ---- */

static _Atomic int is_full;

static int64_t write_unless_full(void *context, int fd, const void *source, size_t size, int64_t offset) {
    char link[64], name[512] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length > 0 && strstr(name, "/compaction/") != NULL && atomic_load(&is_full)) {
        errno = ENOSPC;
        return -1;
    }
    return rp_file_ops_system()->write_at(context, fd, source, size, offset);
}

static void a_full_disk_keeps_the_commit_log_until_there_is_space(void) {
    char path[512];
    fixture_directory(path, sizeof path);
    failing_ops = *rp_file_ops_system();
    failing_ops.write_at = write_unless_full;
    rp_message_store_options options;
    compacting_options(&options, path, OFTEN_MS);
    options.file_ops = &failing_ops;
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = compacted_queue(store, "T");
    append_numbers(store, queue, 0, 50, 10);
    await_copied(store, queue);
    atomic_store(&is_full, 1);
    append_numbers(store, queue, 50, 1000, 10);
    rp_commit_log *log = rp_message_store_commit_log(store);
    CHECK(rp_message_store_wait_flushed(store, rp_commit_log_max_offset(log), 60000) == RP_OK);
    CHECK(rp_message_store_expire_file(store, NULL) == RP_E_NOT_FOUND);
    rp_compaction_stats stats;
    rp_message_store_read_compaction(store, &stats);
    CHECK(stats.behind >= 900);
    atomic_store(&is_full, 0);
    await_copied(store, queue);
    await_kept(queue, 10 + 20, &kept);
    CHECK(has_last_of_each(&kept, 1000, 10));
    fixture_close(store);
    fixture_remove(path);
}

/* ---- a sync that fails ---- */

static _Atomic int fails_sync, syncs_failed;
static _Atomic int records_written;

static int is_of_copies(int fd) {
    char link[64], name[512] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, name, sizeof name - 1) > 0 && strstr(name, "/compactionLog/") != NULL;
}

static int64_t write_counted(void *context, int fd, const void *source, size_t size, int64_t offset) {
    records_written += is_of_copies(fd);
    return rp_file_ops_system()->write_at(context, fd, source, size, offset);
}

static int sync_or_fail(void *context, int fd) {
    if (is_of_copies(fd) && fails_sync) {
        syncs_failed++;
        errno = EIO;
        return -1;
    }
    return rp_file_ops_system()->sync_data(context, fd);
}

static void await_synced(rp_consume_queue *queue, int64_t end) {
    int64_t begun_ns = rp_clock_monotonic_ns(rp_clock_system());
    while (rp_compaction_log_synced_end(rp_consume_queue_compacted(queue)) < end) {
        CHECK(!is_late(begun_ns));
        poll(NULL, 0, 1);
    }
}

static void what_could_not_be_synced_is_written_once_more(void) {
    char path[512];
    fixture_directory(path, sizeof path);
    failing_ops = *rp_file_ops_system();
    failing_ops.write_at = write_counted;
    failing_ops.sync_data = sync_or_fail;
    rp_message_store_options options;
    compacting_options(&options, path, NEVER_MS);
    options.clock = &fast_clock;
    options.file_ops = &failing_ops;
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = compacted_queue(store, "T");
    append_numbers(store, queue, 0, 5, 5);
    await_synced(queue, 5);
    fails_sync = 1;
    append_numbers(store, queue, 5, 12, 12);
    int64_t begun_ns = rp_clock_monotonic_ns(rp_clock_system());
    for (int before = syncs_failed; syncs_failed < before + 2;) { /* the first may be of some of them only */
        CHECK(!is_late(begun_ns));
        poll(NULL, 0, 1);
    }
    fails_sync = 0;
    await_synced(queue, 12);
    CHECK(records_written >= 5 + 2 * 7);
    read_kept(queue, &kept);
    CHECK(kept.count == 12 && has_last_of_each(&kept, 12, 12));
    fixture_close(store);
    fixture_remove(path);
}

static _Atomic int fails_directory_sync, directory_syncs_failed, directory_syncs;

static int sync_directory_or_fail(void *context, const char *path) {
    int is_of_entries = strstr(path, "/compactionCq/") != NULL;
    if (is_of_entries && fails_directory_sync) {
        directory_syncs_failed++;
        errno = ENOSPC;
        return -1;
    }
    directory_syncs += is_of_entries;
    return rp_file_ops_system()->sync_directory(context, path);
}

/* Otherwise retention could remove from the log what a power cut takes from the copy. */
static void a_segment_whose_name_could_not_be_synced_is_made_once_more(void) {
    char path[512];
    fixture_directory(path, sizeof path);
    failing_ops = *rp_file_ops_system();
    failing_ops.sync_directory = sync_directory_or_fail;
    rp_message_store_options options;
    compacting_options(&options, path, NEVER_MS);
    options.clock = &fast_clock;
    options.file_ops = &failing_ops;
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = compacted_queue(store, "T");
    append_numbers(store, queue, 0, 20, 20);
    await_synced(queue, 20);
    fails_directory_sync = 1;
    append_numbers(store, queue, 20, 30, 30);
    int64_t begun_ns = rp_clock_monotonic_ns(rp_clock_system());
    while (directory_syncs_failed == 0) {
        CHECK(!is_late(begun_ns));
        poll(NULL, 0, 1);
    }
    fails_directory_sync = 0;
    await_synced(queue, 30);
    CHECK(directory_syncs == 2); /* one for each segment */
    read_kept(queue, &kept);
    CHECK(kept.count == 30 && has_last_of_each(&kept, 30, 30));
    fixture_close(store);
    fixture_remove(path);
}

int main(void) {
    RUN(a_full_disk_keeps_the_commit_log_until_there_is_space);
    RUN(what_could_not_be_synced_is_written_once_more);
    RUN(a_segment_whose_name_could_not_be_synced_is_made_once_more);
    return 0;
}
