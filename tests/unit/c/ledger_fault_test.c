/* ledger_fault_test.c: a DLedger log where one call fails at the worst moment, and entries that no honest leader makes. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "../../../csrc/store/ledger_index.h"
#include "ledger_fixture.h"

static atomic_int fails_at_border; /* the first entry of a file cannot be written */

static int64_t write_or_fail(void *context, int fd, const void *source, size_t size, int64_t offset) {
    char link[64], path[256] = {0};
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (fails_at_border && offset == 0 && ((const uint8_t *)source)[3] == RP_LEDGER_MAGIC && readlink(link, path, sizeof path - 1) > 0 &&
        strstr(path, "/data/") != NULL) {
        errno = ENOSPC;
        return -1;
    }
    return rp_file_ops_system()->write_at(context, fd, source, size, offset);
}

static int append_small(ledger *one) {
    rp_append_item item = fixture_item(ledger_queue(one, one->appended), "s", 1);
    item.queue = fixture_queue(one->store, "S", 0);
    rp_commit_log_append(ledger_log(one), &item, 1);
    return item.status;
}

/* A file's padding is written, but the record behind it is not. The log then ends before the padding: a smaller record goes there,
 * followers hold the same, and any of them can lead. */
static void a_failure_at_the_end_of_a_file(void) {
    ledger one, follower;
    rp_error error;
    rp_message_store_options options;
    rp_file_ops ops = *rp_file_ops_system();
    ops.write_at = write_or_fail;
    ledger_open(&one, RP_FLUSH_SYNC);
    fixture_close(one.store);
    ledger_options(&one, &options);
    options.file_ops = &ops;
    one.store = fixture_open(&options);
    CHECK(rp_commit_log_lead_entries(ledger_log(&one), 1, &error) == RP_OK);
    fails_at_border = 1;
    int status;
    while ((status = ledger_try_append(&one)) == RP_OK)
        ;
    CHECK(status == RP_E_DISK_FULL);
    CHECK(rp_commit_log_follow_entries(ledger_log(&one), 60000) == RP_OK);
    fails_at_border = 0;
    int rc = rp_commit_log_lead_entries(ledger_log(&one), 2, &error);
    if (rc != RP_OK)
        fprintf(stderr, "%s\n", error.message);
    CHECK(rc == RP_OK);
    int fitted = 0;
    for (int file = 0; file < 4; file++) {
        fails_at_border = 1;
        while ((status = ledger_try_append(&one)) == RP_OK)
            ;
        CHECK(status == RP_E_DISK_FULL);
        fitted += append_small(&one) == RP_OK;
        fails_at_border = 0;
        ledger_append(&one, 1);
    }
    CHECK(fitted > 0);
    ledger_commit_all(&one);
    ledger_check_queues(&one, one.appended);
    ledger_open(&follower, RP_FLUSH_ASYNC);
    ledger_copy(&one, &follower, 0, ledger_ends(&one).end_index);
    ledger_check_same(&one, &follower);
    fixture_close(one.store);
    ledger_reopen(&one);
    ledger_check_same(&one, &follower);
    ledger_close(&follower);
    ledger_close(&one);
}

static _Thread_local int syncs_fail; /* of this thread: the flusher's do not */

static int sync_range_or_fail(void *context, int fd, void *address, int64_t offset, size_t size) {
    errno = EIO;
    return syncs_fail ? -1 : rp_file_ops_system()->sync_range(context, fd, address, offset, size);
}

/* What a cut has turned into zeros is no longer in the log, even if the disk did not take the zeros. Otherwise a later leader would
 * count the entries behind the zeros as its own. Old bytes are cleared before anything is written there. */
static void a_cut_that_fails(int flush_mode) {
    ledger one, leader;
    rp_error error;
    rp_message_store_options options;
    rp_file_ops ops = *rp_file_ops_system();
    ops.sync_range = sync_range_or_fail;
    ledger_open(&one, flush_mode);
    fixture_close(one.store);
    ledger_options(&one, &options);
    options.file_ops = &ops;
    one.store = fixture_open(&options);
    ledger_open(&leader, RP_FLUSH_ASYNC);
    CHECK(rp_commit_log_lead_entries(ledger_log(&leader), 1, &error) == RP_OK);
    ledger_append(&leader, 400);
    ledger_copy(&leader, &one, 0, 400);
    syncs_fail = 1;
    CHECK(rp_commit_log_cut_entries(ledger_log(&one), 100, &error) == RP_E_IO);
    rp_log_range range;
    rp_ledger_entry entry;
    CHECK(rp_commit_log_read_entry(ledger_log(&one), 101, &range, &entry) == RP_E_RANGE);
    CHECK(ledger_ends(&one).end_index == 100);
    CHECK(rp_commit_log_lead_entries(ledger_log(&one), 2, &error) == RP_E_IO); /* not before the rest is zeros, and on disk */
    syncs_fail = 0;
    ledger_copy(&leader, &one, 101, 101);
    CHECK(rp_commit_log_lead_entries(ledger_log(&one), 2, &error) == RP_OK);
    one.appended = 101;
    ledger_append(&one, 5);
    ledger_commit_all(&one);
    ledger_check_queues(&one, 106);
    fixture_close(one.store);
    ledger_reopen(&one);
    CHECK(ledger_ends(&one).end_index == 107);
    ledger_check_queues(&one, 106);
    ledger_close(&one);
    ledger_close(&leader);
}

/* If the log begins elsewhere, the files of the cut entries are gone, and nothing has to be cleared. */
static void a_cut_that_fails_and_another_begin(void) {
    ledger one, leader, later;
    rp_error error;
    rp_message_store_options options;
    rp_file_ops ops = *rp_file_ops_system();
    ops.sync_range = sync_range_or_fail;
    ledger_open(&leader, RP_FLUSH_ASYNC);
    CHECK(rp_commit_log_lead_entries(ledger_log(&leader), 1, &error) == RP_OK);
    ledger_append(&leader, 400);
    ledger_open(&later, RP_FLUSH_ASYNC);
    ledger_copy(&leader, &later, 0, 400);
    ledger_commit_all(&later);
    CHECK(rp_message_store_wait_flushed(later.store, ledger_ends(&later).end_offset, 60000) == RP_OK);
    CHECK(rp_message_store_expire_file(later.store, &error) == RP_OK);
    ledger_open(&one, RP_FLUSH_ASYNC);
    fixture_close(one.store);
    ledger_options(&one, &options);
    options.file_ops = &ops;
    one.store = fixture_open(&options);
    for (int round = 0; round < 2; round++) { /* to a later begin, and back */
        const ledger *from[] = {round == 0 ? &leader : &later, round == 0 ? &later : &leader};
        ledger_copy(from[0], &one, ledger_ends(from[0]).begin_index, 400);
        syncs_fail = 1;
        CHECK(rp_commit_log_cut_entries(ledger_log(&one), -1, &error) == RP_E_IO && ledger_ends(&one).end_index == -1);
        syncs_fail = 0;
        ledger_copy(from[1], &one, ledger_ends(from[1]).begin_index, 400);
        ledger_check_same(from[1], &one);
        CHECK(rp_commit_log_cut_entries(ledger_log(&one), -1, &error) == RP_OK);
    }
    ledger_close(&one);
    ledger_close(&later);
    ledger_close(&leader);
}

static void a_cut_that_the_disk_does_not_take(void) {
    a_cut_that_fails(RP_FLUSH_ASYNC);
    a_cut_that_fails(RP_FLUSH_SYNC);
    a_cut_that_fails_and_another_begin();
}

static _Thread_local int waits_to_sync;
static atomic_int has_begun, may_go_on;

static int sync_range_when_let(void *context, int fd, void *address, int64_t offset, size_t size) {
    atomic_store(&has_begun, atomic_load(&has_begun) || waits_to_sync);
    CHECK_AT_LAST(!waits_to_sync || atomic_load(&may_go_on));
    return rp_file_ops_system()->sync_range(context, fd, address, offset, size);
}

static void *sync_all(void *context) {
    const ledger *one = context;
    waits_to_sync = 1;
    CHECK(rp_message_store_wait_flushed(one->store, ledger_ends(one).end_offset, 60000) != RP_E_IO);
    return NULL;
}

/* Between two files of a sync all of the log is cut, and it begins further in front: the second file is gone, and no disk has failed. */
static void a_sync_during_which_its_files_go(void) {
    ledger one, leader;
    rp_error error;
    rp_message_store_options options;
    rp_file_ops ops = *rp_file_ops_system();
    ops.sync_range = sync_range_when_let;
    ledger_open(&leader, RP_FLUSH_ASYNC);
    CHECK(rp_commit_log_lead_entries(ledger_log(&leader), 1, &error) == RP_OK);
    ledger_append(&leader, 1000);
    ledger_open(&one, RP_FLUSH_ASYNC);
    fixture_close(one.store);
    ledger_options(&one, &options);
    options.file_ops = &ops;
    options.flush_interval_ms = options.queue_flush_interval_ms = options.flush_thorough_interval_ms = 3600 * 1000;
    one.store = fixture_open(&options);
    rp_log_range range;
    rp_ledger_entry entry = {.index = 0, .position = 1};
    while (entry.position % (int64_t)options.commit_log_file_size != 0) { /* it begins with the second file */
        CHECK(rp_commit_log_read_entry(ledger_log(&leader), entry.index + 1, &range, &entry) == RP_OK);
        rp_log_range_release(range.pin);
    }
    ledger_copy(&leader, &one, entry.index, 1000);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, sync_all, &one) == 0);
    CHECK_AT_LAST(atomic_load(&has_begun));
    CHECK(rp_commit_log_cut_entries(ledger_log(&one), -1, &error) == RP_OK);
    ledger_copy(&leader, &one, 0, 10);
    atomic_store(&may_go_on, 1);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(rp_message_store_writable(one.store, NULL) == RP_OK);
    CHECK(rp_message_store_wait_flushed(one.store, ledger_ends(&one).end_offset, 60000) == RP_OK);
    ledger_close(&one);
    ledger_close(&leader);
}

/* An empty log may begin with any entry, except one whose place is beyond all index files. */
static void an_index_past_all_files_is_refused(void) {
    static const int64_t numbers[] = {INT64_MAX, INT64_MAX / 32, INT64_MAX / 32 - 1, RP_LEDGER_NUMBER_MAX + 1, RP_LEDGER_NUMBER_MAX};
    ledger leader, one;
    rp_error error;
    uint8_t bytes[512];
    rp_log_range range;
    rp_ledger_entry entry;
    ledger_open(&leader, RP_FLUSH_ASYNC);
    ledger_open(&one, RP_FLUSH_ASYNC);
    CHECK(rp_commit_log_lead_entries(ledger_log(&leader), 1, &error) == RP_OK);
    CHECK(rp_commit_log_read_entry(ledger_log(&leader), 0, &range, &entry) == RP_OK);
    memcpy(bytes, range.address, range.size);
    rp_log_range_release(range.pin);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        entry.index = numbers[i];
        rp_ledger_entry_encode(&entry, bytes);
        int rc = rp_commit_log_append_entry(ledger_log(&one), bytes, entry.size, &error);
        CHECK(rc == (numbers[i] > RP_LEDGER_NUMBER_MAX ? RP_E_RANGE : RP_OK));
    }
    fixture_close(one.store);
    ledger_reopen(&one);
    CHECK(ledger_ends(&one).end_index == RP_LEDGER_NUMBER_MAX);
    CHECK(rp_commit_log_lead_entries(ledger_log(&one), 2, &error) == RP_E_RANGE); /* it is full */
    CHECK(rp_commit_log_cut_entries(ledger_log(&one), -1, &error) == RP_OK);
    ledger_close(&one);
    ledger_close(&leader);
}

/* One entry that no push can carry would stop the group for good. */
static void what_no_push_carries_is_refused(void) {
    ledger one;
    rp_error error;
    rp_message_store_options options;
    char *body = calloc(1, RP_LEDGER_ENTRY_SIZE_MAX);
    ledger_open(&one, RP_FLUSH_ASYNC);
    fixture_close(one.store);
    fixture_remove(one.path);
    ledger_options(&one, &options);
    options.commit_log_file_size = 16 << 20;
    options.message_size_max = 16 << 20;
    options.populate_ahead_bytes = 0;
    one.store = fixture_open(&options);
    CHECK(rp_commit_log_lead_entries(ledger_log(&one), 1, &error) == RP_OK);
    rp_append_item item = fixture_item(ledger_queue(&one, 0), body, RP_LEDGER_ENTRY_SIZE_MAX - 100);
    rp_commit_log_append(ledger_log(&one), &item, 1);
    CHECK(item.status == RP_E_TOO_LARGE && ledger_ends(&one).end_index == 0);
    item = fixture_item(ledger_queue(&one, 0), body, RP_LEDGER_ENTRY_SIZE_MAX - 1000);
    rp_commit_log_append(ledger_log(&one), &item, 1);
    CHECK(item.status == RP_OK);
    free(body);
    ledger_close(&one);
}

/* One flipped bit makes such a unit. */
static void a_unit_whose_entry_ends_past_all_offsets_is_none(void) {
    char path[512];
    fixture_directory(path, sizeof path);
    rp_ledger_index *index = NULL;
    rp_error error;
    rp_ledger_entry entry = {.index = 0, .term = 1, .position = INT64_MAX - 99, .size = 100}, read;
    CHECK(rp_ledger_index_open(rp_file_ops_system(), path, 100 * RP_LEDGER_UNIT_SIZE, 0, &index, &error) == RP_OK);
    CHECK(rp_ledger_index_reserve(index, 0, &error) == RP_OK);
    CHECK(rp_ledger_index_put(index, &entry, &error) == RP_OK);
    CHECK(rp_ledger_index_read(index, 0, &read) == RP_E_NOT_FOUND && rp_ledger_index_below(index, 0, 0, 5) == -1);
    entry.position--;
    CHECK(rp_ledger_index_put(index, &entry, &error) == RP_OK);
    CHECK(rp_ledger_index_read(index, 0, &read) == RP_OK && rp_ledger_index_below(index, 0, 0, INT64_MAX) == 0);
    rp_ledger_index_close(index);
    fixture_remove(path);
}

int main(void) {
    RUN(a_unit_whose_entry_ends_past_all_offsets_is_none);
    RUN(a_cut_that_the_disk_does_not_take);
    RUN(a_sync_during_which_its_files_go);
    RUN(what_no_push_carries_is_refused);
    RUN(an_index_past_all_files_is_refused);
    RUN(a_failure_at_the_end_of_a_file);
    return 0;
}
