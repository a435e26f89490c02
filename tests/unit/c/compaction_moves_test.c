/* compaction_moves_test.c: a compaction whose files cannot be moved into place is finished later, and blocks neither copies nor
 * retention; a copy whose files cannot be removed is rebuilt later. */
#include <errno.h>
#include <stdatomic.h>

#include "../../../csrc/store/commit_log_inl.h"
#include "../../../csrc/store/consume_queue_writer.h"
#include "compaction_fixture.h"

static kept_messages kept;
static rp_file_ops failing_ops;
static _Atomic int fails_move, moves, moves_failed; /* the first that fails, with all after it (0: none); counts so far */

static int move_or_fail(void *context, const char *source, const char *target) {
    int from = fails_move;
    if (from > 0 && strstr(source, "/compacting/0") != NULL && ++moves >= from) {
        moves_failed++;
        errno = EIO;
        return -1;
    }
    return rp_file_ops_system()->rename(context, source, target);
}

static _Atomic int fails_removal, removals_failed;

static int remove_or_fail(void *context, const char *path) {
    if (fails_removal && strstr(path, "/compactionLog/") != NULL && --fails_removal == 0) {
        removals_failed++;
        errno = EIO;
        return -1;
    }
    return rp_file_ops_system()->unlink(context, path);
}

/* Waits until retention removes no more files. */
static void expire_all(rp_message_store *store, rp_consume_queue *queue, int64_t offset) {
    int64_t begun_ns = rp_clock_monotonic_ns(rp_clock_system());
    while (rp_consume_queue_min_offset(queue) < offset) {
        (void)rp_message_store_expire_file(store, NULL);
        CHECK(!is_late(begun_ns));
        poll(NULL, 0, 1);
    }
}

static void await_failed_moves(int count) {
    int64_t begun_ns = rp_clock_monotonic_ns(rp_clock_system());
    while (moves_failed < count) {
        CHECK(!is_late(begun_ns));
        poll(NULL, 0, 1);
    }
}

/* From the move-th on all moves fail: of the first segments, or when some have been moved. Then moves work again, or the store is
 * reopened. */
static void what_cannot_be_moved_is_moved_later_and_holds_up_nothing(int move, int is_opened_again) {
    char path[512];
    fixture_directory(path, sizeof path);
    failing_ops = *rp_file_ops_system();
    failing_ops.rename = move_or_fail;
    rp_message_store_options options;
    compacting_options(&options, path, OFTEN_MS);
    options.clock = &fast_clock;
    options.file_ops = &failing_ops;
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = compacted_queue(store, "T");
    moves = moves_failed = 0;
    fails_move = move;
    append_numbers(store, queue, 0, 100, 60);
    await_failed_moves(3);
    append_numbers(store, queue, 100, 700, 60);
    await_copied(store, queue);
    CHECK(rp_message_store_wait_flushed(store, rp_commit_log_max_offset(rp_message_store_commit_log(store)), 60000) == RP_OK);
    expire_all(store, queue, 200);
    read_kept(queue, &kept);
    CHECK(kept.count > 600 && has_last_of_each(&kept, 700, 60) && kept.offsets[0] < 100);
    if (is_opened_again) {
        fixture_close(store);
        fails_move = 0;
        store = fixture_open(&options);
        queue = compacted_queue(store, "T");
    }
    fails_move = 0;
    await_kept(queue, 60 + 20, &kept);
    CHECK(has_last_of_each(&kept, 700, 60));
    fixture_close(store);
    fixture_remove(path);
}

static void the_first_move_may_fail(void) { what_cannot_be_moved_is_moved_later_and_holds_up_nothing(1, 0); }
static void a_later_move_may_fail(void) { what_cannot_be_moved_is_moved_later_and_holds_up_nothing(4, 0); }
static void the_next_start_moves_what_could_not_be(void) { what_cannot_be_moved_is_moved_later_and_holds_up_nothing(4, 1); }

/* Messages of another leader are compared with the copy only when its files are in their place. Otherwise those files would bring back
 * what is cut. */
static void what_is_cut_while_files_cannot_be_moved_does_not_come_back(void) {
    char path[512];
    fixture_directory(path, sizeof path);
    failing_ops = *rp_file_ops_system();
    failing_ops.rename = move_or_fail;
    rp_message_store_options options;
    compacting_options(&options, path, OFTEN_MS);
    options.clock = &fast_clock;
    options.file_ops = &failing_ops;
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = compacted_queue(store, "T");
    moves = moves_failed = 0;
    fails_move = 2;
    append_numbers(store, queue, 0, 100, 100);
    await_failed_moves(2);
    rp_commit_log *log = rp_message_store_commit_log(store);
    pthread_mutex_lock(&log->append_lock);
    CHECK(rp_consume_queue_truncate(queue, 10, NULL) == RP_OK);
    pthread_mutex_unlock(&log->append_lock);
    await_failed_moves(moves_failed + 2);
    fails_move = 0;
    append_numbers(store, queue, 500, 505, 100);
    int64_t begun_ns = rp_clock_monotonic_ns(rp_clock_system());
    for (read_kept(queue, &kept); kept.count != 15 || kept.numbers[14] != 504; read_kept(queue, &kept)) {
        CHECK(!is_late(begun_ns));
        poll(NULL, 0, 1);
    }
    fixture_close(store);
    store = fixture_open(&options);
    read_kept(compacted_queue(store, "T"), &kept);
    CHECK(kept.count == 15 && kept.numbers[14] == 504);
    fixture_close(store);
    fixture_remove(path);
}

/* The copy is to be made anew, and its removal-th file cannot be removed for now. A half-removed copy must not be taken for a whole one. */
static void what_cannot_be_removed_is_made_anew_later(int removal) {
    char path[512];
    fixture_directory(path, sizeof path);
    failing_ops = *rp_file_ops_system();
    failing_ops.unlink = remove_or_fail;
    rp_message_store_options options;
    compacting_options(&options, path, OFTEN_MS);
    options.clock = &fast_clock;
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = compacted_queue(store, "T");
    append_numbers(store, queue, 0, 60, 4);
    await_copied(store, queue);
    await_kept(queue, 4 + 20, &kept);
    rp_queue_entry entry;
    CHECK(rp_consume_queue_read(queue, 8, &entry, 1) == 1);
    CHECK(rp_message_store_cut_at_open(store, entry.commit_log_offset, NULL) == RP_OK);
    fixture_close(store);
    options.file_ops = &failing_ops;
    options.compaction_interval_ms = NEVER_MS;
    removals_failed = 0;
    fails_removal = removal;
    store = fixture_open(&options);
    queue = compacted_queue(store, "T");
    await_copied(store, queue);
    read_kept(queue, &kept);
    CHECK(removals_failed == 1 && kept.count == 8);
    for (int i = 0; i < 8; i++)
        CHECK(kept.offsets[i] == i && kept.numbers[i] == i);
    fixture_close(store);
    fixture_remove(path);
}

static void the_first_removal_may_fail(void) { what_cannot_be_removed_is_made_anew_later(1); }
static void the_next_removal_may_fail(void) { what_cannot_be_removed_is_made_anew_later(2); }

int main(void) {
    RUN(the_first_move_may_fail);
    RUN(a_later_move_may_fail);
    RUN(the_next_start_moves_what_could_not_be);
    RUN(what_is_cut_while_files_cannot_be_moved_does_not_come_back);
    RUN(the_first_removal_may_fail);
    RUN(the_next_removal_may_fail);
    return 0;
}
