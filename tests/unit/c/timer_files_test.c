/* timer_files_test.c: wheel, timer log and checkpoint after any kind of stop.
 *
 * Claims   an entered message waits, once, in its slot and its order: after a clean stop, after a kill between any two writes of a
 *          flush, with a wheel that is missing, damaged, older or RocketMQ's, whichever call of a run fails, and after a power cut. A
 *          log that is missing, or has another file size or precision, is reported, and what had been delivered is still known. A slot
 *          that was cut stays cut, and keeps its recalls.
 */
#include "../../../csrc/base/bytes_inl.h"
#include "power_cut.h"
#include "timer_files_fixture.h"

enum { SPREAD = 7 };

static rp_log *lines;

static void begin(char *directory, rp_timer_files_options *options) {
    fixture_directory(directory, 256);
    timer_options(options, directory, lines);
}

/* Makes files with that many messages: entered, flushed, closed. */
static void make(const rp_timer_files_options *options, int64_t messages, int is_clean) {
    rp_timer_files *files = timer_open(options);
    timer_enter(files, 0, messages, SPREAD);
    CHECK(timer_flush(files, TIMER_NOW, messages, is_clean) == RP_OK);
    rp_timer_files_close(files);
}

/* Opens the files, checks their state and messages, enters 100 more, and checks again after another start. */
static void goes_on(const rp_timer_files_options *options, int state, int64_t messages) {
    rp_timer_record last;
    rp_timer_files *files = timer_open(options);
    CHECK(rp_timer_files_state_of(files) == state);
    CHECK(rp_timer_files_last(files, &last, NULL) == (messages > 0) && (messages == 0 || last.commit_log_offset == 1000 * (messages - 1)));
    timer_all_wait(files, messages, SPREAD);
    timer_enter(files, messages, messages + 100, SPREAD);
    timer_all_wait(files, messages + 100, SPREAD);
    CHECK(timer_flush(files, TIMER_NOW, messages + 100, 1) == RP_OK);
    rp_timer_files_close(files);
    rp_timer_files_options later = *options;
    later.commit_log_max_offset = INT64_MAX;
    files = timer_open(&later);
    CHECK(rp_timer_files_state_of(files) == RP_TIMER_FILES_GOOD);
    timer_all_wait(files, messages + 100, SPREAD);
    rp_timer_files_close(files);
}

static void remove_file(const char *directory, const char *name) {
    char path[512];
    timer_path(path, directory, name);
    CHECK(unlink(path) == 0);
}

static void copy_file(const char *directory, const char *from, const char *to) {
    char source[512], target[512], command[1100];
    timer_path(source, directory, from);
    timer_path(target, directory, to);
    snprintf(command, sizeof command, "cp --sparse=always '%s' '%s'", source, target);
    CHECK(system(command) == 0);
}

static void test_what_was_entered_waits_after_a_stop(void) {
    char directory[256];
    rp_timer_files_options options;
    for (int is_clean = 0; is_clean < 2; is_clean++) {
        begin(directory, &options);
        goes_on(&options, RP_TIMER_FILES_FRESH, 0);
        fixture_remove(directory);
        begin(directory, &options);
        make(&options, 500, is_clean);
        goes_on(&options, RP_TIMER_FILES_GOOD, 500);
        fixture_remove(directory);
    }
}

static void test_a_wheel_of_short_slots_is_read_as_it_was_written(void) {
    char directory[256], path[512];
    rp_timer_files_options options;
    rp_timing_wheel *wheel;
    begin(directory, &options);
    options.precision_ms = 20;
    make(&options, 10, 1);
    timer_path(path, directory, "timerwheel");
    CHECK(rp_timing_wheel_open(NULL, path, 20, &wheel, NULL) == RP_OK && rp_timing_wheel_count(wheel) == 10);
    rp_timing_wheel_close(wheel);
    fixture_remove(directory);
}

static void test_killed_between_the_parts_of_a_flush(void) {
    for (int parts = 0; parts < 3; parts++) {
        char directory[256];
        rp_timer_files_options options;
        begin(directory, &options);
        make(&options, 300, 1);
        rp_timer_files *files = timer_open(&options);
        timer_enter(files, 300, 450, SPREAD);
        CHECK(parts < 1 || rp_timer_log_flush(rp_timer_files_log(files), NULL) == RP_OK);
        CHECK(parts < 2 || rp_timing_wheel_flush(rp_timer_files_wheel(files), NULL) == RP_OK);
        rp_timer_files_close(files);
        files = timer_open(&options);
        rp_timer_record last;
        CHECK(rp_timer_files_state_of(files) == RP_TIMER_FILES_GOOD && rp_timer_files_last(files, &last, NULL) == 1);
        int64_t there = last.commit_log_offset / 1000 + 1; /* full files were written, the rest was in the buffer */
        CHECK(parts == 0 ? there >= 300 && there < 450 : there == 450);
        rp_timer_files_close(files);
        goes_on(&options, RP_TIMER_FILES_GOOD, there);
        fixture_remove(directory);
    }
}

enum { GONE, CUT_SHORT, ODD_SLOT, EMPTY, BEHIND_THE_LOG, EARLIER_RECORD, OLDER, WAYS_TO_SPOIL };

static void spoil_wheel(const char *directory, int how) {
    static const uint8_t odd[RP_TIMING_WHEEL_SLOT_SIZE] = {0x7f, 1, 2, 3};
    int64_t slot = TIMER_NOW / 1000 % RP_TIMING_WHEEL_SLOTS * RP_TIMING_WHEEL_SLOT_SIZE;
    uint8_t position[8];
    switch (how) {
    case GONE:
        remove_file(directory, "timerwheel");
        break;
    case CUT_SHORT:
        timer_spoil(directory, "timerwheel", NULL, 1234, 0);
        break;
    case ODD_SLOT:
        timer_spoil(directory, "timerwheel", odd, sizeof odd, slot + RP_TIMING_WHEEL_SLOT_SIZE);
        break;
    case EMPTY: /* all zeros, in its right length */
        timer_spoil(directory, "timerwheel", NULL, 0, 0);
        timer_spoil(directory, "timerwheel", NULL, (size_t)RP_TIMING_WHEEL_SLOTS * RP_TIMING_WHEEL_SLOT_SIZE, 0);
        break;
    case BEHIND_THE_LOG:
    case EARLIER_RECORD: /* of the same slot */
        rp_put_u64(position, how == BEHIND_THE_LOG ? (uint64_t)1 << 40 : RP_TIMER_RECORD_SIZE * SPREAD);
        timer_spoil(directory, "timerwheel", position, sizeof position, slot + 16);
        break;
    default:
        copy_file(directory, "older", "timerwheel");
    }
}

static void test_a_wheel_is_made_again_from_the_log(void) {
    for (int how = 0; how < WAYS_TO_SPOIL; how++) {
        for (int is_clean = 0; is_clean < 2; is_clean++) {
            char directory[256];
            rp_timer_files_options options;
            begin(directory, &options);
            make(&options, 300, 0);
            copy_file(directory, "timerwheel", "older");
            rp_timer_files *files = timer_open(&options);
            timer_enter(files, 300, 400, SPREAD);
            CHECK(timer_flush(files, TIMER_NOW, 400, is_clean) == RP_OK);
            rp_timer_files_close(files);
            spoil_wheel(directory, how);
            goes_on(&options, RP_TIMER_FILES_GOOD, 400);
            fixture_remove(directory);
        }
    }
}

/* The checkpoint as RocketMQ leaves it: its fields, and nothing of ours. */
static void make_foreign(const char *directory) {
    static const uint8_t nothing[256];
    timer_spoil(directory, "config/timercheck", nothing, sizeof nothing, 256);
}

static void test_rocketmqs_files_are_taken_over(void) {
    for (int how = 0; how < 3; how++) {
        char directory[256];
        rp_timer_files_options options;
        begin(directory, &options);
        make(&options, 300, 1);
        make_foreign(directory);
        if (how > 0) {
            remove_file(directory, how == 1 ? "timerwheel" : "config/timercheck");
        }
        goes_on(&options, RP_TIMER_FILES_GOOD, 300);
        fixture_remove(directory);
    }
}

/* The log is lost: everything is entered again, except for what is known to be delivered. */
static void is_lost(const rp_timer_files_options *options, int64_t entered, int64_t read_time_ms) {
    rp_timer_files *files = timer_open(options);
    CHECK(rp_timer_files_state_of(files) == RP_TIMER_FILES_LOST);
    CHECK(rp_timing_wheel_count(rp_timer_files_wheel(files)) == 0 && !rp_timer_log_has_files(rp_timer_files_log(files)));
    CHECK(rp_timer_files_was_delivered(files, entered - 1, read_time_ms - 1) == (entered > 0));
    CHECK(!rp_timer_files_was_delivered(files, entered, read_time_ms - 1));
    CHECK(!rp_timer_files_was_delivered(files, entered - 1, read_time_ms));
    timer_enter(files, 0, 50, SPREAD);
    CHECK(timer_flush(files, read_time_ms + 5000, 50, 0) == RP_OK);
    rp_timer_files_close(files);
    files = timer_open(options); /* after a kill while messages are entered again, it is still known */
    CHECK(rp_timer_files_state_of(files) == RP_TIMER_FILES_GOOD);
    CHECK(rp_timer_files_was_delivered(files, entered - 1, read_time_ms - 1) == (entered > 0));
    CHECK(!rp_timer_files_was_delivered(files, entered - 1, read_time_ms));
    CHECK(timer_flush(files, read_time_ms + 5000, entered, 0) == RP_OK);
    CHECK(!rp_timer_files_was_delivered(files, entered - 1, read_time_ms - 1)); /* everything is entered again: the question is over */
    rp_timer_files_close(files);
}

static void test_a_log_that_is_lost_is_told(void) {
    enum { NO_FILES, OTHER_FILE_SIZE, COARSER, FINER, FOREIGN_COARSER, FOREIGN_FINER, FOREIGN_NO_FILES, WAYS };
    for (int way = 0; way < WAYS; way++) {
        char directory[256], path[512];
        rp_timer_files_options options;
        begin(directory, &options);
        make(&options, 300, 1);
        timer_path(path, directory, "timerlog");
        if (way >= FOREIGN_COARSER) {
            make_foreign(directory);
        }
        if (way == NO_FILES || way == FOREIGN_NO_FILES) {
            fixture_remove(path);
        }
        options.log_file_size = way == OTHER_FILE_SIZE ? 8192 : TIMER_LOG_FILE;
        options.precision_ms = way == COARSER || way == FOREIGN_COARSER ? 2000 : way == FINER || way == FOREIGN_FINER ? 500 : 1000;
        is_lost(&options, 300, TIMER_NOW);
        fixture_remove(directory);
    }
}

/* The queue was cut, too: offsets behind its end are other messages'. */
static void test_nothing_is_known_of_offsets_that_are_given_again(void) {
    char directory[256];
    rp_timer_files_options options;
    begin(directory, &options);
    make(&options, 300, 1);
    options.queue_max_offset = 200;
    rp_timer_files *files = timer_open(&options);
    CHECK(rp_timer_files_was_delivered(files, 199, TIMER_NOW - 1) && !rp_timer_files_was_delivered(files, 200, TIMER_NOW - 1));
    rp_timer_files_close(files);
    fixture_remove(directory);
}

static void test_a_log_that_lost_its_end_says_so(void) {
    for (int way = 0; way < 4; way++) {
        char directory[256];
        rp_timer_files_options options;
        begin(directory, &options);
        make(&options, 300, way % 2);
        if (way < 2) {
            timer_spoil(directory, "timerlog/00000000000000008192", "\xff\xff\xff\xff", 4, 4 * RP_TIMER_RECORD_SIZE);
            remove_file(directory, "timerlog/00000000000000012288");
        } else {
            options.commit_log_max_offset = 1000 * (2 * TIMER_RECORDS_A_FILE + 4) + 199; /* its last byte is missing */
        }
        if (way == 1) { /* the file is missing altogether */
            remove_file(directory, "timerlog/00000000000000008192");
            goes_on(&options, RP_TIMER_FILES_SHORT, 2 * TIMER_RECORDS_A_FILE);
        } else {
            goes_on(&options, RP_TIMER_FILES_SHORT, 2 * TIMER_RECORDS_A_FILE + 4);
        }
        fixture_remove(directory);
    }
}

static void test_any_bytes_in_a_checkpoint_are_borne(void) {
    for (int field = 0; field < 7; field++) {
        for (int value = 0; value < 3; value++) {
            char directory[256];
            rp_timer_files_options options;
            uint8_t bytes[8];
            begin(directory, &options);
            make(&options, 100, 1);
            rp_put_u64(bytes, value == 0 ? (uint64_t)INT64_MAX : value == 1 ? (uint64_t)INT64_MIN : 1);
            timer_spoil(directory, "config/timercheck", bytes, sizeof bytes, 8 * field);
            rp_timer_files *files = timer_open(&options);
            timer_all_wait(files, 100, SPREAD);
            rp_timer_files_close(files);
            timer_spoil(directory, "config/timercheck", NULL, 100, 0); /* cut short */
            files = timer_open(&options);
            timer_all_wait(files, 100, SPREAD);
            rp_timer_files_close(files);
            fixture_remove(directory);
        }
    }
}

static void test_what_was_delivered_leaves_the_wheel(void) {
    char directory[256];
    rp_timer_files_options options;
    begin(directory, &options);
    make(&options, 70, 0);
    rp_timer_files *files = timer_open(&options);
    rp_timing_wheel *wheel = rp_timer_files_wheel(files);
    CHECK(rp_timing_wheel_next(wheel, 0) == TIMER_NOW && rp_timing_wheel_next(wheel, TIMER_NOW + 1) == TIMER_NOW);
    rp_timing_wheel_clear(wheel, TIMER_NOW);
    rp_timing_wheel_clear(wheel, TIMER_NOW + 1000);
    CHECK(rp_timing_wheel_count(wheel) == 50 && rp_timing_wheel_next(wheel, TIMER_NOW) == TIMER_NOW + 2000);
    CHECK(rp_timing_wheel_slot_count(wheel, TIMER_NOW) == 0 && rp_timing_wheel_slot_count(wheel, TIMER_NOW + 2999) == 10);
    CHECK(timer_flush(files, TIMER_NOW + 2000, 70, 0) == RP_OK);
    rp_timer_files_close(files);
    options.now_ms = TIMER_NOW + 5000;
    files = timer_open(&options);
    timer_slot_holds(files, 2, 70, SPREAD);
    CHECK(rp_timing_wheel_count(rp_timer_files_wheel(files)) == 50);
    rp_timer_files_close(files);
    for (int is_behind = 0; is_behind < 2; is_behind++) { /* a read time in the clock's future is not believed */
        options.now_ms = is_behind ? TIMER_NOW : TIMER_NOW + 5000;
        remove_file(directory, "timerwheel");
        files = timer_open(&options);
        CHECK(rp_timing_wheel_count(rp_timer_files_wheel(files)) == (is_behind ? 70 : 50));
        CHECK(timer_flush(files, TIMER_NOW + 2000, 70, 0) == RP_OK);
        CHECK(rp_timing_wheel_count(rp_timer_files_wheel(files)) == 50); /* from now on the owner's read time counts */
        rp_timer_files_close(files);
    }
    fixture_remove(directory);
}

static void test_a_slot_that_was_cut_stays_cut(void) {
    for (int is_gone = 0; is_gone < 2; is_gone++) {
        char directory[256];
        int64_t seen[16];
        rp_timer_files_options options;
        begin(directory, &options);
        rp_timer_files *files = timer_open(&options);
        for (int64_t i = 0; i < 10; i++) { /* all in one slot; 2 and 8 are recalls */
            rp_timer_entry entry = timer_entry(i, 1);
            entry.magic |= i == 2 || i == 8 ? RP_TIMER_DELETE : 0;
            CHECK(rp_timer_files_enter(files, &entry, NULL) == RP_OK);
        }
        CHECK(rp_timing_wheel_count(rp_timer_files_wheel(files)) == 6);
        CHECK(rp_timer_files_cut_slot(files, TIMER_NOW, 5, NULL) == RP_E_NOT_FOUND);
        CHECK(rp_timer_files_cut_slot(files, TIMER_NOW + 1000, 0, NULL) == RP_E_NOT_FOUND);
        CHECK(rp_timer_files_cut_slot(files, TIMER_NOW, 6 * RP_TIMER_RECORD_SIZE, NULL) == RP_OK);
        CHECK(timer_flush(files, TIMER_NOW, 10, !is_gone) == RP_OK);
        for (int round = 0; round < 2; round++) {
            CHECK(timer_read_slot(files, TIMER_NOW, RP_TIMER_CHAIN_OTHERS, seen, 16) == 3 && seen[0] == 6 && seen[1] == 7 && seen[2] == 9);
            CHECK(timer_read_slot(files, TIMER_NOW, RP_TIMER_CHAIN_RECALLS, seen, 16) == 2 && seen[0] == 8 && seen[1] == 2);
            CHECK(rp_timing_wheel_count(rp_timer_files_wheel(files)) >= 1);
            rp_timer_files_close(files);
            if (is_gone && round == 0) {
                remove_file(directory, "timerwheel");
            }
            files = timer_open(&options);
            CHECK(rp_timer_files_state_of(files) == RP_TIMER_FILES_GOOD);
        }
        rp_timer_files_close(files);
        fixture_remove(directory);
    }
}

static void test_times_out_of_reach_are_refused(void) {
    char directory[256];
    rp_timer_files_options options;
    begin(directory, &options);
    rp_timer_files *files = timer_open(&options);
    static const int64_t times[][2] = {{INT64_MAX, TIMER_NOW}, {INT64_MIN, TIMER_NOW}, {TIMER_NOW - 1, TIMER_NOW}, {INT64_MAX, 0},
                                       {INT64_MIN, INT64_MAX}, {INT64_MAX, INT64_MIN}, {INT64_MAX, INT64_MAX},     {(int64_t)1 << 31, 0}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        rp_timer_entry entry = {.due_ms = times[i][0], .write_time_ms = times[i][1], .size = 1};
        rp_error error = {0};
        CHECK(rp_timer_files_enter(files, &entry, &error) == RP_E_RANGE && error.message[0] != 0);
    }
    rp_timer_entry entry = timer_entry(0, 1);
    CHECK(rp_timer_files_enter(files, &entry, NULL) == RP_OK);
    entry.due_ms += (int64_t)RP_TIMING_WHEEL_SLOTS * 1000;
    entry.write_time_ms = entry.due_ms;
    CHECK(rp_timer_files_enter(files, &entry, NULL) == RP_E_RANGE); /* a round later, the place is taken */
    rp_timing_wheel_clear(rp_timer_files_wheel(files), TIMER_NOW);
    CHECK(rp_timer_files_enter(files, &entry, NULL) == RP_OK);
    rp_timer_files_close(files);
    options.precision_ms = 0;
    CHECK(rp_timer_files_open(&options, &files, NULL) == RP_E_INVALID && files == NULL);
    fixture_remove(directory);
}

/* One run in which a call fails. Returns how many messages were flushed. */
static int64_t run_failing(rp_timer_files_options *options, failing_ops *failing, int64_t from, int64_t end) {
    rp_timer_files *files;
    rp_error error = {0};
    options->file_ops = &failing->ops;
    int rc = rp_timer_files_open(options, &files, &error);
    CHECK(rc == RP_OK || (files == NULL && error.message[0] != 0));
    int64_t flushed = from;
    if (rc == RP_OK) {
        rp_timer_record last;
        int has_last = rp_timer_files_last(files, &last, &error);
        int64_t i = has_last == 1 ? last.commit_log_offset / 1000 + 1 : has_last == 0 ? 0 : end;
        while (i < end) {
            rp_timer_entry entry = timer_entry(i, SPREAD);
            rc = rp_timer_files_enter(files, &entry, &error);
            if (rc == RP_OK && ++i % 50 == 0) {
                flushed = timer_flush(files, TIMER_NOW, i, 0) == RP_OK ? i : flushed;
            }
            if (rc != RP_OK && (failing->fail_forever || rc == RP_E_IO)) {
                break;
            }
        }
        flushed = i == end && has_last >= 0 && timer_flush(files, TIMER_NOW, end, 1) == RP_OK ? end : flushed;
        rp_timer_files_close(files);
    }
    options->file_ops = NULL;
    return flushed;
}

static void test_whichever_call_fails_nothing_is_lost(void) {
    for (int fail_forever = 0; fail_forever < 2; fail_forever++) {
        for (int64_t fail_at = 1;; fail_at++) {
            char directory[256];
            rp_timer_files_options options;
            failing_ops failing;
            begin(directory, &options);
            make(&options, 120, 0);
            if (fail_at % 3 == 0) {
                remove_file(directory, "timerwheel");
            }
            if (fail_at % 5 == 0) {
                timer_spoil(directory, "timerlog/00000000000000004096", "\xff", 1, (119 - TIMER_RECORDS_A_FILE) * RP_TIMER_RECORD_SIZE);
            }
            failing_init(&failing, fail_at, fail_at % 2 == 0 ? ENOSPC : EIO, fail_forever);
            failing.writes_are_short = fail_at % 4 == 0;
            int64_t flushed = run_failing(&options, &failing, 0, 260);
            rp_timer_files *files = timer_open(&options);
            rp_timer_record last = {0};
            int has_last = rp_timer_files_last(files, &last, NULL);
            int64_t there = has_last ? last.commit_log_offset / 1000 + 1 : 0;
            CHECK(there >= flushed);
            timer_enter(files, there, 260, SPREAD);
            timer_all_wait(files, 260, SPREAD);
            rp_timer_files_close(files);
            fixture_remove(directory);
            if (failing.calls < fail_at) {
                CHECK(fail_at > 20);
                break;
            }
        }
    }
}

/* Making the files anew fails, or is killed, at every call. The next start must go on from what is left. */
static void test_making_anew_may_be_killed_anywhere(void) {
    for (int64_t fail_at = 1;; fail_at++) {
        char directory[256];
        rp_timer_files_options options;
        failing_ops failing;
        begin(directory, &options);
        make(&options, 300, 1);
        options.precision_ms = 2000;
        failing_init(&failing, fail_at, EIO, 1);
        options.file_ops = &failing.ops;
        rp_timer_files *files;
        rp_error error = {0};
        int rc = rp_timer_files_open(&options, &files, &error);
        CHECK(rc == RP_OK || files == NULL);
        rp_timer_files_close(files);
        options.file_ops = NULL;
        files = timer_open(&options);
        CHECK(rp_timing_wheel_count(rp_timer_files_wheel(files)) == 0);
        CHECK(!rp_timer_log_has_files(rp_timer_files_log(files)) && rp_timer_files_checkpoint(files)->queue_offset == 0);
        CHECK(rp_timer_files_was_delivered(files, 299, TIMER_NOW - 1) && !rp_timer_files_was_delivered(files, 299, TIMER_NOW));
        rp_timer_files_close(files);
        fixture_remove(directory);
        if (failing.calls < fail_at) {
            CHECK(rc == RP_OK && fail_at > 8);
            return;
        }
    }
}

static void test_a_power_cut_takes_only_what_was_not_flushed(void) {
    for (uint64_t seed = 1; seed <= 4; seed++) {
        char directory[256], live[300], image[300];
        rp_timer_files_options options;
        fixture_directory(directory, sizeof directory);
        snprintf(live, sizeof live, "%s/live", directory);
        snprintf(image, sizeof image, "%s/image", directory);
        power_cut *cut = power_cut_create(live);
        timer_options(&options, live, lines);
        options.file_ops = &cut->ops;
        rp_timer_files *files = timer_open(&options);
        int64_t flushed = 90 + 31 * (int64_t)seed, end = 400;
        timer_enter(files, 0, flushed, SPREAD);
        CHECK(timer_flush(files, TIMER_NOW, flushed, 0) == RP_OK);
        timer_enter(files, flushed, end, SPREAD);
        power_cut_now(cut);
        CHECK(timer_flush(files, TIMER_NOW, end, 1) != RP_OK);
        rp_timer_files_close(files);
        uint64_t random = seed;
        power_cut_image(cut, "", image, &random);
        power_cut_destroy(cut);
        timer_options(&options, image, lines);
        files = timer_open(&options);
        CHECK(rp_timer_files_state_of(files) == RP_TIMER_FILES_GOOD);
        rp_timer_record last;
        CHECK(rp_timer_files_last(files, &last, NULL) == 1 && last.commit_log_offset >= 1000 * (flushed - 1));
        int64_t there = last.commit_log_offset / 1000 + 1;
        timer_all_wait(files, there, SPREAD);
        rp_timer_files_close(files);
        goes_on(&options, RP_TIMER_FILES_GOOD, there);
        fixture_remove(directory);
    }
}

/* Bytes of all files change at random. The files must still open, every slot must end, and what is entered then must wait. */
static void damage_is_borne(uint64_t seed, int is_clean) {
    static const char *names[] = {"timerwheel", "timerlog/00000000000000000000", "timerlog/00000000000000004096", "config/timercheck"};
    static const int64_t sizes[] = {SPREAD * RP_TIMING_WHEEL_SLOT_SIZE, TIMER_LOG_FILE, TIMER_LOG_FILE, 512};
    int64_t wheel_at = TIMER_NOW / 1000 % RP_TIMING_WHEEL_SLOTS * RP_TIMING_WHEEL_SLOT_SIZE;
    char directory[256];
    rp_timer_files_options options;
    begin(directory, &options);
    make(&options, 150, is_clean);
    for (uint32_t i = 1 + cut_random(&seed) % 6; i > 0; i--) {
        uint32_t file = cut_random(&seed) % 4;
        uint8_t byte = (uint8_t)cut_random(&seed);
        timer_spoil(directory, names[file], &byte, 1, cut_random(&seed) % sizes[file] + (file == 0 ? wheel_at : 0));
    }
    rp_timer_files *files = timer_open(&options);
    for (int64_t at = rp_timing_wheel_next(rp_timer_files_wheel(files), 0); at >= 0;
         at = rp_timing_wheel_next(rp_timer_files_wheel(files), at + 1000)) {
        int64_t seen[4096];
        int64_t count = timer_read_slot(files, at, RP_TIMER_CHAIN_OTHERS, seen, 4096);
        if (count == RP_E_CORRUPT) {
            CHECK(rp_timer_files_make_anew(files, NULL) == RP_OK);
        } else {
            CHECK(count >= 0);
        }
    }
    rp_timer_entry entry = timer_entry(0, 1);
    entry.due_ms += 3600000;
    CHECK(rp_timer_files_enter(files, &entry, NULL) == RP_OK);
    CHECK(timer_flush(files, TIMER_NOW, 151, 1) == RP_OK);
    rp_timer_files_close(files);
    int64_t seen[4];
    files = timer_open(&options);
    CHECK(timer_read_slot(files, entry.due_ms, RP_TIMER_CHAIN_OTHERS, seen, 4) == 1);
    rp_timer_files_close(files);
    fixture_remove(directory);
}

static void test_damage_anywhere_is_borne(void) {
    const char *seeds = getenv("ROCKETPY_TEST_SEEDS");
    for (uint64_t seed = 1; seed <= (seeds != NULL ? strtoull(seeds, NULL, 10) : 60); seed++) {
        damage_is_borne(seed * 7919, seed % 2 == 0);
    }
}

typedef struct looker {
    const rp_timing_wheel *wheel;
    _Atomic int is_over;
} looker;

static void *look(void *context) {
    looker *looker = context;
    while (!atomic_load(&looker->is_over)) {
        for (int64_t second = 0; second < SPREAD; second++) {
            CHECK(rp_timing_wheel_slot_count(looker->wheel, TIMER_NOW + 1000 * second) <= 500);
        }
        CHECK(rp_timing_wheel_count(looker->wheel) <= 3500);
        sched_yield();
    }
    return NULL;
}

static void test_counts_are_read_by_others_meanwhile(void) {
    char directory[256];
    rp_timer_files_options options;
    begin(directory, &options);
    rp_timer_files *files = timer_open(&options);
    looker looker = {.wheel = rp_timer_files_wheel(files)};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, look, &looker) == 0);
    for (int64_t i = 0; i < 3500; i += 350) {
        timer_enter(files, i, i + 350, SPREAD);
        CHECK(timer_flush(files, TIMER_NOW, i + 350, 0) == RP_OK);
    }
    for (int64_t second = 0; second < SPREAD; second++) {
        rp_timing_wheel_clear(rp_timer_files_wheel(files), TIMER_NOW + 1000 * second);
    }
    CHECK(timer_flush(files, TIMER_NOW + 1000 * SPREAD, 3500, 1) == RP_OK && rp_timing_wheel_count(looker.wheel) == 0);
    atomic_store(&looker.is_over, 1);
    pthread_join(thread, NULL);
    rp_timer_files_close(files);
    fixture_remove(directory);
}

int main(void) {
    CHECK(rp_log_create(&lines) == RP_OK);
    RUN(test_what_was_entered_waits_after_a_stop);
    RUN(test_a_wheel_of_short_slots_is_read_as_it_was_written);
    RUN(test_killed_between_the_parts_of_a_flush);
    RUN(test_a_wheel_is_made_again_from_the_log);
    RUN(test_rocketmqs_files_are_taken_over);
    RUN(test_a_log_that_is_lost_is_told);
    RUN(test_nothing_is_known_of_offsets_that_are_given_again);
    RUN(test_a_log_that_lost_its_end_says_so);
    RUN(test_any_bytes_in_a_checkpoint_are_borne);
    RUN(test_what_was_delivered_leaves_the_wheel);
    RUN(test_a_slot_that_was_cut_stays_cut);
    RUN(test_times_out_of_reach_are_refused);
    RUN(test_whichever_call_fails_nothing_is_lost);
    RUN(test_making_anew_may_be_killed_anywhere);
    RUN(test_a_power_cut_takes_only_what_was_not_flushed);
    RUN(test_damage_anywhere_is_borne);
    RUN(test_counts_are_read_by_others_meanwhile);
    rp_log_destroy(lines);
    return 0;
}
