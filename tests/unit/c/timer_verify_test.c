/* timer_verify_test.c: what verifying a store reports about the files of timed messages.
 *
 * Claims   intact files, after a clean stop or a kill, have no damage; each damage is reported at its place.
 */
#include <fcntl.h>

#include "store/store_verify.h"
#include "store/timer_log.h"
#include "store/timing_wheel.h"
#include "timer_fixture.h"

#define SENDS 200
#define LOG_FILE 4096
#define LOG_RECORDS ((LOG_FILE - RP_TIMER_BLANK_SIZE) / RP_TIMER_RECORD_SIZE)
#define FIRST_LOG "timerlog/00000000000000000000"
#define MIDDLE_LOG "timerlog/00000000000000004096"
#define LAST_LOG "timerlog/00000000000000008192"
#define WHEEL "timerwheel"
#define CHECKPOINT "config/timercheck"

static int64_t due_ms; /* of every second message, a slot's begin; the others are due a slot later */

static int64_t slot_at(void) { return due_ms / PRECISION_MS % RP_TIMING_WHEEL_SLOTS * RP_TIMING_WHEEL_SLOT_SIZE; }
static int64_t record_at(int64_t record) { return record / LOG_RECORDS * LOG_FILE + record % LOG_RECORDS * RP_TIMER_RECORD_SIZE; }

/* ---- the check ---- */

typedef struct wanted_damage {
    const char *file, *cause;
    int64_t offset;
    int found, others;
} wanted_damage;

static int look(void *context, const rp_damage_row *row) {
    wanted_damage *wanted = context;
    size_t size = strlen(row->file), tail = wanted->file != NULL ? strlen(wanted->file) : 0;
    bool is_it = tail > 0 && row->kind == RP_DAMAGE_TIMER && size > tail && strcmp(row->file + size - tail, wanted->file) == 0 &&
                 strcmp(row->cause, wanted->cause) == 0 && row->offset == wanted->offset;
    wanted->found += is_it;
    wanted->others += !is_it;
    return 0;
}

static rp_verify_counts check(const fixture *fx, wanted_damage *wanted) {
    rp_error error = {.message = ""};
    rp_verify_options options;
    rp_verify_counts counts;
    rp_verify_options_default(&options);
    options.root_path = fx->path;
    options.visit = look;
    options.context = wanted;
    must(rp_store_verify(&options, &counts, &error), &error, "verify");
    return counts;
}

static void is_whole(const fixture *fx) {
    wanted_damage none = {0};
    rp_verify_counts counts = check(fx, &none);
    CHECK(none.others == 0 && counts.damages == 0);
}

/* others: what else is damaged by it. */
static void is_named(const fixture *fx, const char *file, int64_t offset, const char *cause, int others) {
    wanted_damage wanted = {.file = file, .cause = cause, .offset = offset};
    check(fx, &wanted);
    if (wanted.found != 1 || wanted.others != others)
        fprintf(stderr, "%s at %" PRId64 ": %d times and %d others: %s\n", file, offset, wanted.found, wanted.others, cause);
    CHECK(wanted.found == 1 && wanted.others == others);
}

/* ---- damage ---- */

static int open_file(const fixture *fx, const char *file, int flags) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", fx->path, file);
    int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0644);
    CHECK(fd >= 0);
    return fd;
}

/* Those bytes instead, while it is looked. */
static void spoiled(const fixture *fx, const char *file, int64_t at, const void *bytes, size_t size, int64_t offset, const char *cause,
                    int others) {
    uint8_t kept[64];
    int fd = open_file(fx, file, 0);
    CHECK(size <= sizeof kept && pread(fd, kept, size, at) == (ssize_t)size && pwrite(fd, bytes, size, at) == (ssize_t)size);
    is_named(fx, file, offset, cause, others);
    CHECK(pwrite(fd, kept, size, at) == (ssize_t)size);
    close(fd);
}

static void spoiled_long(const fixture *fx, const char *file, int64_t at, int64_t number, int64_t offset, const char *cause, int others) {
    uint8_t bytes[8];
    rp_put_u64(bytes, (uint64_t)number);
    spoiled(fx, file, at, bytes, 8, offset, cause, others);
}

/* Gone, or another of so many zeros in its place. */
static void replaced(const fixture *fx, const char *file, int64_t length, const char *named, const char *cause, int others) {
    char path[512], kept[512];
    snprintf(path, sizeof path, "%s/%s", fx->path, file);
    snprintf(kept, sizeof kept, "%s/kept", fx->path);
    CHECK(rename(path, kept) == 0);
    if (length >= 0) {
        int fd = open_file(fx, file, O_CREAT);
        CHECK(ftruncate(fd, (off_t)length) == 0);
        close(fd);
    }
    is_named(fx, named, -1, cause, others);
    CHECK(length < 0 || unlink(path) == 0);
    CHECK(rename(kept, path) == 0);
}

/* ---- the tests ---- */

static fixture fx;

static void fill(void) {
    char properties[64];
    timer_fixture_init(&fx);
    fixture_open(&fx);
    rp_timer_options options = timer_options(&fx);
    options.log_file_size = LOG_FILE;
    options.flush_interval_ms = 1 << 30;
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_later(&c, "T", 0, NULL, "the first of the log");
    timers_start(&fx, &options);
    due_ms = (turned_wall_ms(NULL) + 1800000) / PRECISION_MS * PRECISION_MS;
    for (int i = 0; i < SENDS; i++) {
        snprintf(properties, sizeof properties, "TIMER_DELIVER_MS\1%" PRId64 "\2", due_ms + 1 + i % 2 * PRECISION_MS);
        send_later(&c, "T", 0, properties, "waits");
    }
    wait_entered(&fx);
    client_close(&c);
}

static void what_a_kill_leaves_is_no_damage(void) {
    is_whole(&fx); /* full files of the log, and a flush of when the first was entered */
    timers_stop(&fx);
    wanted_damage none = {0};
    rp_verify_counts counts = check(&fx, &none);
    CHECK(counts.damages == 0 && counts.timer_records == SENDS && counts.timer_slots == 2);
}

/* The disk took as much of a write as it had room for, and the broker was killed before there was more. */
static void a_part_of_a_record_behind_what_was_flushed_is_damage_after_a_clean_stop_only(void) {
    int64_t at = record_at(SENDS) - record_at(2 * LOG_RECORDS), last = at - RP_TIMER_RECORD_SIZE;
    char mark[512], kept[512];
    snprintf(mark, sizeof mark, "%s/abort", fx.path);
    snprintf(kept, sizeof kept, "%s/kept", fx.path);
    CHECK(rename(mark, kept) == 0);
    spoiled(&fx, LAST_LOG, at, "\0\0\0\64", 4, at, "no record is here", 0);
    CHECK(rename(kept, mark) == 0);
    spoiled(&fx, LAST_LOG, last, "\0\0\0\11", 4, last, "no record is here", 2); /* and the slot, and the checkpoint, know it */
    int log = open_file(&fx, LAST_LOG, 0);
    CHECK(pwrite(log, "\0\0\0\64", 4, at) == 4);
    is_whole(&fx);
    CHECK(pwrite(log, "\0\0\0\0", 4, at) == 4 && close(log) == 0);
}

static void records_that_are_wrong_are_named(void) {
    int64_t tenth = record_at(10);
    uint8_t odd[RP_TIMER_RECORD_SIZE] = {9}, nothing[RP_TIMER_RECORD_SIZE] = {0};
    spoiled(&fx, FIRST_LOG, tenth, odd, sizeof odd, tenth, "no record is here", 1);
    spoiled(&fx, FIRST_LOG, tenth, nothing, sizeof nothing, record_at(12), "the chain goes on at no record", 1);
    spoiled_long(&fx, FIRST_LOG, tenth + 4, record_at(7), tenth, "the chain goes on at a record of another time", 0);
    spoiled_long(&fx, FIRST_LOG, tenth + 28, 0, tenth, "the record points at a message that is not a timed one", 0);
    spoiled_long(&fx, FIRST_LOG, tenth + 28, INT64_C(1) << 40, tenth, "the record points behind the commit log's end", 0);
    spoiled_long(&fx, FIRST_LOG, tenth + 28, 3, tenth, "the record points at no message", 0);
    spoiled(&fx, FIRST_LOG, tenth + 36, "\0\0\1\1", 4, tenth, "the record says another size than its message has", 0);
    spoiled(&fx, FIRST_LOG, record_at(LOG_RECORDS - 1) + RP_TIMER_RECORD_SIZE, nothing, RP_TIMER_BLANK_SIZE,
            record_at(LOG_RECORDS - 1) + RP_TIMER_RECORD_SIZE, "the file's end is not marked: what lies in later files is not found", 0);
    is_whole(&fx);
}

static void a_slot_that_is_wrong_is_named(void) {
    int64_t at = slot_at();
    const char *counts = "the slot counts another number of messages than its chain has";
    spoiled_long(&fx, WHEEL, at, due_ms / PRECISION_MS + 1, at, "no wheel has such a slot here", 0);
    spoiled_long(&fx, WHEEL, at + 16, INT64_C(1) << 40, at, "the slot points behind the timer log's last record", 0);
    spoiled_long(&fx, WHEEL, at + 16, record_at(7), at, "the slot points at a record of another time", 0);
    spoiled_long(&fx, WHEEL, at + 16, record_at(8) + 1, at, "the slot points at no record", 0);
    spoiled_long(&fx, WHEEL, at + 16, record_at(8), at, counts, 0);
    spoiled(&fx, WHEEL, at + 24, "\0\0\0\1", 4, at, counts, 0);
    spoiled(&fx, WHEEL, at + 28, "\0\0\0\1", 4, -1, "the timing wheel is not as the last stop left it", 0);
    is_whole(&fx);
}

static void a_checkpoint_that_is_ahead_is_named(void) {
    spoiled_long(&fx, CHECKPOINT, 0, -1, 0, "a time or position of the checkpoint is below 0", 0);
    spoiled_long(&fx, CHECKPOINT, 8, INT64_C(1) << 40, 8, "the checkpoint says more of the timer log is on disk than there is", 0);
    spoiled_long(&fx, CHECKPOINT, 16, SENDS + 1, 16, "the checkpoint says more of the timer queue was entered than there is", 0);
    uint8_t last[RP_TIMER_RECORD_SIZE];
    int fd = open_file(&fx, LAST_LOG, 0);
    int64_t at = record_at(SENDS - 1) - record_at(2 * LOG_RECORDS);
    CHECK(pread(fd, last, sizeof last, at) == (ssize_t)sizeof last);
    CHECK(pwrite(fd, last, sizeof last, at + RP_TIMER_RECORD_SIZE) == (ssize_t)sizeof last);
    is_named(&fx, CHECKPOINT, 0, "the timer log goes on behind where the last stop ended it", 0);
    memset(last, 0, sizeof last);
    CHECK(pwrite(fd, last, sizeof last, at + RP_TIMER_RECORD_SIZE) == (ssize_t)sizeof last);
    close(fd);
    is_whole(&fx);
}

static void files_of_another_length_and_those_that_are_gone_are_named(void) {
    replaced(&fx, WHEEL, 1234, WHEEL, "the timing wheel is not as long as a wheel is", 0);
    replaced(&fx, WHEEL, -1, WHEEL, "the timing wheel is missing", 0);
    replaced(&fx, CHECKPOINT, 100, CHECKPOINT, "the checkpoint of timed messages is not as long as it has to be", 0);
    replaced(&fx, "timerlog", -1, "timerlog", "the timer log is missing", 2); /* and what the slots point at */
    replaced(&fx, MIDDLE_LOG, -1, LAST_LOG, "timer log files are missing before this one", 3);
    replaced(&fx, LAST_LOG, LOG_FILE / 2, LAST_LOG, "this timer log file is not as long as the first one", 3);
    is_whole(&fx);
}

int main(void) {
    fill();
    RUN(what_a_kill_leaves_is_no_damage);
    RUN(a_part_of_a_record_behind_what_was_flushed_is_damage_after_a_clean_stop_only);
    RUN(records_that_are_wrong_are_named);
    RUN(a_slot_that_is_wrong_is_named);
    RUN(a_checkpoint_that_is_ahead_is_named);
    RUN(files_of_another_length_and_those_that_are_gone_are_named);
    fixture_close(&fx);
    return 0;
}
