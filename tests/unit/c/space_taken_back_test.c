/* space_taken_back_test.c: copy-on-write files whose space a full disk takes back between the check and the store. What was refused is not
 * there, neither now nor after a restart, and what follows is appended as if it had never been tried.
 *
 * This file simulates the disk by replacing base/map_hold.c. */
#include <errno.h>
#include <glob.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>

#include "../../../csrc/base/bytes_inl.h"
#include "../../../csrc/base/log.h"
#include "../../../csrc/base/map_hold.h"
#include "../../../csrc/store/commit_log_inl.h"
#include "../../../csrc/store/consume_queue_inl.h"
#include "../../../csrc/store/ledger_entry.h"
#include "check.h"
#include "store_fixture.h"

/* Stores from that one on find no space; 0: all do. */
static _Thread_local int fail_from, stores;

/* Of the index thread: that one finds no space. */
static _Atomic int index_fails_at;
static pthread_t appender;

bool rp_map_hold_is_needed(int fd) { return fd >= 0; }
size_t rp_map_hold(void *address, size_t size) { return address != NULL ? size : 0; }
void rp_map_hold_faulted(const void *address) { (void)address; }
bool rp_map_store(void *address, size_t size, void (*store)(void *context), void *context) {
    CHECK(address != NULL && size > 0);
    if (!pthread_equal(pthread_self(), appender) && index_fails_at != 0 && --index_fails_at == 0) {
        return false;
    }
    if (fail_from != 0 && ++stores >= fail_from) {
        return false;
    }
    store(context);
    return true;
}

static void take_space_from(int store) {
    fail_from = store;
    stores = 0;
}

/* A disk that refuses what this thread writes. */
static _Thread_local int is_full;

static int64_t write_at(void *context, int fd, const void *source, size_t size, int64_t offset) {
    (void)context;
    if (is_full) {
        errno = ENOSPC;
        return -1;
    }
    return rp_file_ops_system()->write_at(NULL, fd, source, size, offset);
}

typedef struct fixture {
    char path[300];
    rp_file_ops ops;
    rp_message_store_options options;
    rp_message_store *store;
    rp_log *lines;
    rp_commit_log *log;
    rp_consume_queue *first, *second;
} fixture;

static void open_store(fixture *fx) {
    fx->store = fixture_open(&fx->options);
    fx->log = rp_message_store_commit_log(fx->store);
    fx->first = fixture_queue(fx->store, "T", 0);
    fx->second = fixture_queue(fx->store, "U", 0);
}

static fixture start(int flush_mode) {
    static fixture fx;
    fixture_directory(fx.path, sizeof fx.path);
    fixture_options(&fx.options, fx.path);
    fixture_never_flush(&fx.options);
    fx.ops = *rp_file_ops_system();
    fx.ops.write_at = write_at;
    fx.options.file_ops = &fx.ops;
    fx.options.flush_mode = flush_mode;
    fx.options.light_queues_max = 100;
    CHECK(rp_log_create(&fx.lines) == RP_OK);
    fx.options.log = fx.lines;
    open_store(&fx);
    for (int i = 0; i < 5; i++) {
        CHECK(fixture_append(fx.store, fx.first, i) == RP_OK && fixture_append(fx.store, fx.second, i) == RP_OK);
    }
    return fx;
}

/* How many of its new lines have the words. */
static int said(const fixture *fx, const char *words) {
    rp_log_line lines[32];
    uint32_t count = rp_log_take(fx->lines, lines, 32);
    int found = 0;
    for (uint32_t i = 0; i < count; i++) {
        found += strstr(lines[i].text, words) != NULL;
    }
    return found;
}

/* Stops and starts, and checks that the start finds what the stop has left. */
static void stop_and_start(fixture *fx) {
    (void)said(fx, "");
    fixture_close(fx->store);
    open_store(fx);
    CHECK(said(fx, "rebuilding") == 0);
}

static void end(fixture *fx) {
    fixture_close(fx->store);
    rp_log_destroy(fx->lines);
    fixture_remove(fx->path);
}

static void is_as_before(const fixture *fx, int64_t log_end) {
    CHECK(rp_consume_queue_max_offset(fx->first) == 5 && rp_consume_queue_max_offset(fx->second) == 5);
    CHECK(rp_commit_log_max_offset(fx->log) == log_end);
}

static void a_message_whose_entry_finds_no_space_is_not_there_after_a_stop(void) {
    fixture fx = start(RP_FLUSH_ASYNC);
    int64_t log_end = rp_commit_log_max_offset(fx.log);
    take_space_from(2); /* the record is stored, its entry is not */
    CHECK(fixture_append(fx.store, fx.first, 5) == RP_E_DISK_FULL);
    take_space_from(0);
    is_as_before(&fx, log_end);
    stop_and_start(&fx);
    is_as_before(&fx, log_end);
    CHECK(fixture_append(fx.store, fx.first, 5) == RP_OK && fixture_check(fx.store, fx.first, 5) == 0);
    end(&fx);
}

static void a_batch_ends_where_the_first_entry_finds_no_space(void) {
    fixture fx = start(RP_FLUSH_SYNC);
    rp_append_item items[3];
    for (int i = 0; i < 3; i++) {
        items[i] = fixture_item(fx.first, "bodybody", 8);
    }
    take_space_from(2);
    CHECK(rp_commit_log_append(fx.log, items, 3) == 1);
    take_space_from(0);
    CHECK(items[0].status == RP_OK && items[1].status == RP_E_DISK_FULL && items[2].status == RP_E_DISK_FULL);
    int64_t log_end = rp_commit_log_max_offset(fx.log);
    CHECK(rp_consume_queue_max_offset(fx.first) == 6 && log_end == items[0].commit_log_offset + items[0].size);
    stop_and_start(&fx);
    CHECK(rp_consume_queue_max_offset(fx.first) == 6 && rp_commit_log_max_offset(fx.log) == log_end);
    end(&fx);
}

/* The zeros over it find no space either: a stop tries again, and is none that was clean when that fails. */
static void what_cannot_be_cleared_is_cleared_when_the_log_stops(bool is_full_then) {
    fixture fx = start(RP_FLUSH_ASYNC);
    int64_t log_end = rp_commit_log_max_offset(fx.log);
    rp_error error = {0};
    is_full = 1;
    take_space_from(2);
    CHECK(fixture_append(fx.store, fx.first, 5) == RP_E_DISK_FULL);
    CHECK(fx.log->staging.torn_end > log_end);
    is_full = 0;
    take_space_from(is_full_then ? 1 : 0);
    CHECK(rp_commit_log_stop(fx.log, &error) == (is_full_then ? RP_E_DISK_FULL : RP_OK));
    take_space_from(0);
    stop_and_start(&fx);
    is_as_before(&fx, log_end);
    end(&fx);
}

static void what_cannot_be_cleared_at_once_is_when_the_log_stops(void) {
    what_cannot_be_cleared_is_cleared_when_the_log_stops(false);
    what_cannot_be_cleared_is_cleared_when_the_log_stops(true);
}

/* As a slave it gets its master's record there, which is shorter than the one that was refused. */
static void a_refused_record_is_gone_when_another_is_master(void) {
    fixture fx = start(RP_FLUSH_ASYNC);
    int64_t log_end = rp_commit_log_max_offset(fx.log);
    uint8_t *at;
    uint32_t room;
    rp_error error = {0};
    is_full = 1;
    take_space_from(2);
    CHECK(fixture_append(fx.store, fx.first, 5) == RP_E_DISK_FULL);
    is_full = 0;
    take_space_from(0);
    rp_commit_log_set_following(fx.log, 1);
    CHECK(rp_commit_log_reserve_replicated(fx.log, log_end, 100, &at, &room, &error) == RP_OK);
    for (int i = 0; i < 400; i++) {
        CHECK(at[i] == 0);
    }
    end(&fx);
}

/* The entry in the first of two queues is written. The second finds no space, and neither does undoing the first. Neither entry counts. */
static void an_entry_that_cannot_be_taken_back_is_none(bool is_cleared_by_the_next) {
    fixture fx = start(RP_FLUSH_ASYNC);
    char room[4096];
    rp_append_item first = fixture_item(fx.first, "light", 5), item;
    first.properties[0] = fixture_slice("INNER_MULTI_DISPATCH\1%LMQ%a\2");
    item = first;
    rp_slice names = fixture_slice("%LMQ%a");
    CHECK(rp_light_targets_open(fx.store, names, room, &first) == RP_OK && rp_commit_log_append(fx.log, &first, 1) == 1);
    CHECK(rp_light_targets_open(fx.store, names, room, &item) == RP_OK);
    int64_t log_end = rp_commit_log_max_offset(fx.log);
    take_space_from(3);
    CHECK(rp_commit_log_append(fx.log, &item, 1) == 0 && item.status == RP_E_DISK_FULL);
    take_space_from(0);
    CHECK(fx.first->is_unclean && rp_consume_queue_max_offset(fx.first) == 6 && rp_commit_log_max_offset(fx.log) == log_end);
    const uint8_t *at = fx.first->active_address + 6 * RP_CONSUME_QUEUE_ENTRY_SIZE;
    CHECK(rp_get_u32(at + 8) != 0);
    if (is_cleared_by_the_next) {
        CHECK(fixture_append(fx.store, fx.first, 6) == RP_OK && !fx.first->is_unclean);
    } else {
        CHECK(fixture_append(fx.store, fx.second, 5) == RP_OK); /* another queue's record is where its was */
    }
    stop_and_start(&fx);
    CHECK(rp_consume_queue_max_offset(fx.first) == (is_cleared_by_the_next ? 7 : 6));
    end(&fx);
}

static void entries_that_cannot_be_taken_back_are_none(void) {
    an_entry_that_cannot_be_taken_back_is_none(true);
    an_entry_that_cannot_be_taken_back_is_none(false);
}

/* Zeros as far as the disk goes, from the end on: there is no hole before it. */
static void a_cut_that_finds_no_space_changes_nothing(void) {
    fixture fx = start(RP_FLUSH_ASYNC);
    rp_error error = {0};
    take_space_from(1);
    CHECK(rp_consume_queue_truncate(fx.first, 2, &error) == RP_E_DISK_FULL);
    take_space_from(0);
    CHECK(rp_consume_queue_max_offset(fx.first) == 5 && fixture_check(fx.store, fx.first, 2) == 0);
    CHECK(rp_consume_queue_truncate(fx.first, 2, &error) == RP_OK && rp_consume_queue_max_offset(fx.first) == 2);
    take_space_from(1);
    CHECK(rp_consume_queue_start_at(fixture_queue(fx.store, "V", 0), 3, &error) == RP_E_DISK_FULL);
    take_space_from(0);
    end(&fx);
}

/* A record that would begin the next file was refused. What is cleared of it once is not cleared again. */
static void the_rest_of_a_file_is_cleared_once(void) {
    fixture fx = start(RP_FLUSH_ASYNC);
    static char body[40 * 1024];
    rp_append_item large = fixture_item(fx.first, body, sizeof body), again = large;
    CHECK(rp_commit_log_append(fx.log, &large, 1) == 1);
    int64_t log_end = rp_commit_log_max_offset(fx.log);
    CHECK(rp_preallocation_require(fx.log->preallocation, 2 * FIXTURE_LOG_FILE_SIZE, NULL) == RP_OK);
    take_space_from(2); /* the padding is stored, the record is not */
    is_full = 1;
    CHECK(rp_commit_log_append(fx.log, &again, 1) == 0 && again.status == RP_E_DISK_FULL);
    CHECK(fx.log->position == log_end && fx.log->staging.torn_begin == FIXTURE_LOG_FILE_SIZE);
    take_space_from(0); /* writes still find no space, but smaller records before it need none */
    for (int i = 5; i < 8; i++) {
        CHECK(fixture_append(fx.store, fx.first, i) == RP_OK);
    }
    is_full = 0;
    CHECK(rp_commit_log_append(fx.log, &again, 1) == 1 && fx.log->staging.torn_end == 0);
    end(&fx);
}

static void a_file_that_is_cut_short_is_called_that(void) {
    fixture fx = start(RP_FLUSH_ASYNC);
    char file[600];
    rp_error error = {0};
    snprintf(file, sizeof file, "%s/consumequeue/T/0/00000000000000000000", fx.path);
    CHECK(truncate(file, 0) == 0);
    take_space_from(1);
    CHECK(rp_consume_queue_write(fx.first, &(rp_queue_entry){.size = 1}, &error) == RP_E_IO);
    CHECK(strstr(error.message, "cut short from outside") != NULL && strcmp(error.file, file) == 0);
    CHECK(truncate(file, FIXTURE_QUEUE_FILE_ENTRIES * RP_CONSUME_QUEUE_ENTRY_SIZE) == 0);
    CHECK(rp_consume_queue_write(fx.first, &(rp_queue_entry){.size = 1}, &error) == RP_E_DISK_FULL);
    take_space_from(0);
    (void)rp_message_store_close(fx.store, &error);
    rp_log_destroy(fx.lines);
    fixture_remove(fx.path);
}

static void append_with_keys(const fixture *fx) {
    rp_append_item item = fixture_item(fx->first, "body", 4);
    item.index_key = fixture_slice("ABC");
    item.index_tags = fixture_slice("TagA");
    CHECK(rp_commit_log_append(fx->log, &item, 1) == 1);
    fixture_wait_indexed(fx->store, rp_commit_log_max_offset(fx->log));
}

/* By the head of the one file there is. */
static uint32_t index_entries(const fixture *fx) {
    char pattern[600];
    uint8_t next[4];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/index/*", fx->path);
    CHECK(glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1);
    int fd = open(found.gl_pathv[0], O_RDONLY);
    CHECK(pread(fd, next, sizeof next, 36) == sizeof next && close(fd) == 0);
    globfree(&found);
    return rp_get_u32(next) - 1;
}

/* The index thread tries again, with what was refused alone. */
static void a_key_is_entered_once_when_the_tags_find_no_space(void) {
    fixture fx = start(RP_FLUSH_ASYNC);
    fixture_wait_indexed(fx.store, rp_commit_log_max_offset(fx.log));
    append_with_keys(&fx);
    uint32_t before = index_entries(&fx);
    index_fails_at = 2;
    append_with_keys(&fx);
    CHECK(index_fails_at == 0 && index_entries(&fx) == before + 2);
    end(&fx);
}

int main(void) {
    appender = pthread_self();
    RUN(a_message_whose_entry_finds_no_space_is_not_there_after_a_stop);
    RUN(a_batch_ends_where_the_first_entry_finds_no_space);
    RUN(what_cannot_be_cleared_at_once_is_when_the_log_stops);
    RUN(a_refused_record_is_gone_when_another_is_master);
    RUN(entries_that_cannot_be_taken_back_are_none);
    RUN(a_cut_that_finds_no_space_changes_nothing);
    RUN(the_rest_of_a_file_is_cleared_once);
    RUN(a_key_is_entered_once_when_the_tags_find_no_space);
    RUN(a_file_that_is_cut_short_is_called_that);
    return 0;
}
