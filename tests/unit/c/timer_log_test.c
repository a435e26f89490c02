/* timer_log_test.c: the timer log and walking a slot.
 *
 * Claims   files are byte for byte those of RocketMQ 5.5.0's TimerLog, TimerWheel and TimerCheckpoint, given the same messages; a torn log
 *          ends before the first torn record wherever that is, and continues from there; a full disk is reported and loses nothing;
 *          a failed sync is not forgotten; files expire by their content; a slot of any length is read oldest first, its recalls
 *          separately.
 */
#include <sys/mman.h>

#include "../../../csrc/base/bytes_inl.h"
#include "../../../csrc/base/crc32.h"
#include "timer_files_fixture.h"

static rp_timer_log *open_log(const rp_file_ops *ops, const char *directory) {
    char path[512];
    rp_timer_log *log = NULL;
    rp_error error = {0};
    timer_path(path, directory, "timerlog");
    CHECK(rp_timer_log_open(ops, path, TIMER_LOG_FILE, &log, &error) == RP_OK);
    return log;
}

static rp_timer_record numbered(int64_t i, int64_t previous) {
    return (rp_timer_record){.previous = previous,
                             .write_time_ms = TIMER_NOW,
                             .delay_ms = 500,
                             .commit_log_offset = 1000 * i,
                             .size = 200,
                             .magic = RP_TIMER_DEFAULT,
                             .topic_hash = 5};
}

/* One chain of records [0, count). */
static int64_t append_chain(rp_timer_log *log, int64_t begin, int64_t end, int64_t previous) {
    rp_error error = {0};
    for (int64_t i = begin; i < end; i++) {
        rp_timer_record record = numbered(i, previous);
        CHECK(rp_timer_log_append(log, &record, &previous, &error) == RP_OK);
    }
    return previous;
}

static uint32_t crc_of(const char *directory, const char *name, size_t size) {
    char path[512];
    timer_path(path, directory, name);
    int fd = open(path, O_RDONLY);
    struct stat info;
    CHECK(fd >= 0 && fstat(fd, &info) == 0 && (size_t)info.st_size == size);
    void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(map != MAP_FAILED);
    uint32_t crc = rp_crc32(0, map, size);
    munmap(map, size);
    close(fd);
    return crc;
}

/* The numbers are of files that RocketMQ 5.5.0's classes wrote, for the 100 messages below. */
static void test_files_are_byte_for_byte_rocketmqs(void) {
    char directory[256];
    fixture_directory(directory, sizeof directory);
    rp_timer_files_options options;
    timer_options(&options, directory, NULL);
    rp_timer_files *files = timer_open(&options);
    CHECK(rp_timer_files_state_of(files) == RP_TIMER_FILES_FRESH);
    for (int64_t i = 0; i < 100; i++) {
        rp_timer_entry entry = timer_entry(i, 3);
        entry.size = 200 + (int32_t)i;
        entry.topic_hash = -1924903163; /* "Orders".hashCode() */
        entry.magic = i == 7 ? RP_TIMER_DEFAULT | RP_TIMER_DELETE : RP_TIMER_DEFAULT;
        CHECK(rp_timer_files_enter(files, &entry, NULL) == RP_OK);
    }
    rp_timer_progress progress = {.read_time_ms = TIMER_NOW,
                                  .queue_offset = 100,
                                  .master_queue_offset = 101,
                                  .state_version = 3,
                                  .version_timestamp_ms = 0x01a21337f13b,
                                  .version_counter = 1};
    CHECK(rp_timer_files_flush(files, &progress, 1, NULL) == RP_OK);
    CHECK(crc_of(directory, "timerlog/00000000000000000000", TIMER_LOG_FILE) == 0x54bbe0a2);
    CHECK(crc_of(directory, "timerlog/00000000000000004096", TIMER_LOG_FILE) == 0x8e8e73f7);
    CHECK(crc_of(directory, "timerwheel", (size_t)RP_TIMING_WHEEL_SLOTS * RP_TIMING_WHEEL_SLOT_SIZE) == 0xdfcd2dae);
    static const uint8_t theirs[RP_TIMER_CHECKPOINT_WIRE_SIZE] = {
        0, 0, 1, 0x8b, 0xcf, 0xe5, 0x68, 0, 0, 0, 0, 0, 0, 0, 0x14, 0x78, 0,    0,    0,    0,    0, 0, 0, 100, 0, 0, 0, 0,
        0, 0, 0, 101,  0,    0,    0,    0, 0, 0, 0, 3, 0, 0, 1,    0xa2, 0x13, 0x37, 0xf1, 0x3b, 0, 0, 0, 0,   0, 0, 0, 1};
    uint8_t bytes[RP_TIMER_CHECKPOINT_SIZE];
    char path[512];
    timer_path(path, directory, "config/timercheck");
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && read(fd, bytes, sizeof bytes) == (ssize_t)sizeof bytes && memcmp(bytes, theirs, sizeof theirs) == 0);
    close(fd);
    rp_timer_checkpoint decoded;
    CHECK(rp_timer_checkpoint_decode(bytes, RP_TIMER_CHECKPOINT_WIRE_SIZE, &decoded) == RP_OK && decoded.log_flushed_position == 5240 &&
          decoded.version_counter == 1 && decoded.log_end == -1);
    CHECK(rp_timer_checkpoint_decode(bytes, 32, &decoded) == RP_OK && decoded.queue_offset == 100 && decoded.version_counter == 0);
    CHECK(rp_timer_checkpoint_decode(bytes, 31, &decoded) == RP_E_PROTOCOL);
    rp_timer_files_close(files);
    fixture_remove(directory);
}

static void test_a_torn_log_ends_before_the_first_torn_record(void) {
    enum { RECORDS = 2 * TIMER_RECORDS_A_FILE + 20 };
    static const int64_t torn[] = {0, 1, TIMER_RECORDS_A_FILE - 1, TIMER_RECORDS_A_FILE, TIMER_RECORDS_A_FILE + 1, RECORDS - 1, RECORDS};
    for (size_t t = 0; t < sizeof torn / sizeof torn[0]; t++) {
        char directory[256], name[64];
        fixture_directory(directory, sizeof directory);
        rp_timer_log *log = open_log(NULL, directory);
        append_chain(log, 0, RECORDS, RP_TIMER_NO_POSITION);
        CHECK(rp_timer_log_flush(log, NULL) == RP_OK);
        rp_timer_log_close(log);
        int64_t file = torn[t] / TIMER_RECORDS_A_FILE, at = torn[t] % TIMER_RECORDS_A_FILE * RP_TIMER_RECORD_SIZE;
        snprintf(name, sizeof name, "timerlog/%020lld", (long long)file * TIMER_LOG_FILE);
        timer_spoil(directory, name, "\0\0\0\x35", 4, at); /* a size of 53 */

        log = open_log(NULL, directory);
        CHECK(rp_timer_log_recover(log, 0, NULL, NULL, NULL) == RP_OK);
        CHECK(rp_timer_log_end(log) == file * TIMER_LOG_FILE + at && rp_timer_log_flushed(log) == rp_timer_log_end(log));
        int64_t last = rp_timer_log_last(log);
        rp_timer_record record = {.previous = RP_TIMER_NO_POSITION};
        CHECK(torn[t] == 0 ? last == RP_TIMER_NO_POSITION
                           : rp_timer_log_read(log, last, &record, NULL) == RP_OK && record.commit_log_offset == 1000 * (torn[t] - 1));
        append_chain(log, torn[t], torn[t] + 1, last);
        CHECK(rp_timer_log_flush(log, NULL) == RP_OK);
        rp_timer_log_close(log);

        log = open_log(NULL, directory); /* nothing of what lay behind comes back */
        CHECK(rp_timer_log_recover(log, 0, NULL, NULL, NULL) == RP_OK);
        CHECK(rp_timer_log_read(log, rp_timer_log_last(log), &record, NULL) == RP_OK && record.commit_log_offset == 1000 * torn[t]);
        rp_timer_log_close(log);
        fixture_remove(directory);
    }
}

static void test_bytes_that_are_no_record_are_told(void) {
    uint8_t bytes[RP_TIMER_RECORD_SIZE];
    rp_timer_record record = numbered(3, 52), decoded;
    rp_timer_record_encode(&record, bytes);
    CHECK(rp_timer_record_decode(bytes, 104, &decoded) && decoded.previous == 52 && rp_timer_record_due_ms(&decoded) == TIMER_NOW + 500);
    CHECK(!rp_timer_record_decode(bytes, 52, &decoded)); /* a chain that would go round */
    static const struct {
        int at;
        uint64_t value;
    } hostile[] = {{4, (uint64_t)INT64_MIN},  {16, (uint64_t)INT64_MAX}, {16, (uint64_t)-1},
                   {28, (uint64_t)INT64_MAX}, {28, (uint64_t)-5},        {36, 0}};
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        rp_timer_record_encode(&record, bytes);
        rp_put_u64(bytes + hostile[i].at, hostile[i].value);
        CHECK(!rp_timer_record_decode(bytes, 104, &decoded));
    }
    rp_timer_record_encode(&record, bytes);
    rp_put_u32(bytes + 12, 16);
    CHECK(!rp_timer_record_decode(bytes, 104, &decoded));
}

static void test_a_full_disk_is_an_answer_and_loses_nothing(void) {
    enum { RECORDS = 3 * TIMER_RECORDS_A_FILE };
    for (int64_t fail_at = 1;; fail_at++) {
        char directory[256];
        fixture_directory(directory, sizeof directory);
        failing_ops failing;
        failing_init(&failing, 0, ENOSPC, 0);
        failing.writes_are_short = fail_at % 2 == 0;
        rp_timer_log *log = open_log(&failing.ops, directory);
        failing.fail_at = failing.calls + fail_at;
        int64_t previous = RP_TIMER_NO_POSITION, refused = 0;
        for (int64_t i = 0; i < RECORDS;) {
            rp_error error = {0};
            rp_timer_record record = numbered(i, previous);
            int rc = rp_timer_log_append(log, &record, &previous, &error);
            CHECK(rc == RP_OK || (rc == RP_E_DISK_FULL && error.message[0] != 0) || rc == RP_E_IO);
            i += rc == RP_OK;
            refused += rc != RP_OK;
            if (rc == RP_E_IO) { /* it was a sync that failed: for good */
                CHECK(rp_timer_log_flush(log, &error) == RP_E_IO);
                break;
            }
        }
        rp_error error = {0};
        int rc = rp_timer_log_flush(log, &error);
        rc = rc == RP_E_DISK_FULL ? rp_timer_log_flush(log, &error) : rc;
        int has_failed = failing.calls >= failing.fail_at;
        CHECK(refused <= 2);
        rp_timer_log_close(log);
        if (rc == RP_OK) {
            log = open_log(NULL, directory);
            CHECK(rp_timer_log_recover(log, 0, NULL, NULL, NULL) == RP_OK);
            rp_timer_record record;
            int64_t at = rp_timer_log_last(log), i = RECORDS;
            for (; at != RP_TIMER_NO_POSITION; at = record.previous) {
                CHECK(rp_timer_log_read(log, at, &record, NULL) == RP_OK && record.commit_log_offset == 1000 * --i);
            }
            CHECK(i == 0);
            rp_timer_log_close(log);
        }
        fixture_remove(directory);
        if (!has_failed) {
            CHECK(fail_at > 8);
            return;
        }
    }
}

static void test_a_sync_that_failed_is_not_forgotten(void) {
    char directory[256];
    fixture_directory(directory, sizeof directory);
    failing_ops failing;
    failing_init(&failing, 0, EIO, 0);
    rp_timer_log *log = open_log(&failing.ops, directory);
    append_chain(log, 0, 10, RP_TIMER_NO_POSITION);
    CHECK(rp_timer_log_flush(log, NULL) == RP_OK);
    append_chain(log, 10, 11, 9 * RP_TIMER_RECORD_SIZE);
    failing.fail_at = failing.calls + 2; /* the write, then the sync */
    CHECK(rp_timer_log_flush(log, NULL) == RP_E_IO);
    CHECK(rp_timer_log_flush(log, NULL) == RP_E_IO && rp_timer_log_flushed(log) == 10 * RP_TIMER_RECORD_SIZE);
    CHECK(rp_timer_log_remove_all(log, NULL) == RP_OK);
    append_chain(log, 0, 1, RP_TIMER_NO_POSITION);
    CHECK(rp_timer_log_flush(log, NULL) == RP_OK);
    rp_timer_log_close(log);
    fixture_remove(directory);
}

static void test_files_expire_by_what_is_in_them(void) {
    char directory[256];
    fixture_directory(directory, sizeof directory);
    rp_timer_log *log = open_log(NULL, directory);
    append_chain(log, 0, 3 * TIMER_RECORDS_A_FILE + 1, RP_TIMER_NO_POSITION);
    CHECK(rp_timer_log_flush(log, NULL) == RP_OK);
    CHECK(rp_timer_log_expire(log, 1000 * (TIMER_RECORDS_A_FILE - 1), NULL) == 0); /* its last message is still there */
    CHECK(rp_timer_log_expire(log, 1000 * TIMER_RECORDS_A_FILE, NULL) == 1 && rp_timer_log_begin(log) == TIMER_LOG_FILE);
    rp_timer_log_close(log);

    /* Read again, with garbage in place of the last record, and one in the middle that points further than all others. */
    rp_timer_record record = numbered(2 * TIMER_RECORDS_A_FILE + 5, RP_TIMER_NO_POSITION);
    uint8_t bytes[RP_TIMER_RECORD_SIZE] = {0};
    timer_spoil(directory, "timerlog/00000000000000004096", bytes, sizeof bytes, (TIMER_RECORDS_A_FILE - 1) * RP_TIMER_RECORD_SIZE);
    rp_timer_record_encode(&record, bytes);
    timer_spoil(directory, "timerlog/00000000000000004096", bytes, sizeof bytes, 10 * RP_TIMER_RECORD_SIZE);
    log = open_log(NULL, directory);
    CHECK(rp_timer_log_set_end(log, 3 * TIMER_LOG_FILE + RP_TIMER_RECORD_SIZE));
    CHECK(rp_timer_log_expire(log, 1000 * 2 * TIMER_RECORDS_A_FILE, NULL) == 0);
    CHECK(rp_timer_log_expire(log, record.commit_log_offset + 1, NULL) == 1);
    CHECK(rp_timer_log_expire(log, INT64_MAX, NULL) == 1 && rp_timer_log_expire(log, INT64_MAX, NULL) == 0); /* the last stays */
    CHECK(rp_timer_log_begin(log) == 3 * TIMER_LOG_FILE);
    CHECK(rp_timer_log_read(log, TIMER_LOG_FILE, &record, NULL) == RP_E_NOT_FOUND);
    rp_timer_log_close(log);
    fixture_remove(directory);
}

static void test_a_file_that_cannot_be_read_goes_with_the_one_behind(void) {
    char directory[256];
    fixture_directory(directory, sizeof directory);
    rp_timer_log *log = open_log(NULL, directory);
    append_chain(log, 0, 2 * TIMER_RECORDS_A_FILE + 1, RP_TIMER_NO_POSITION);
    CHECK(rp_timer_log_flush(log, NULL) == RP_OK);
    rp_timer_log_close(log);
    failing_ops failing;
    failing_init(&failing, 0, EIO, 0);
    log = open_log(&failing.ops, directory);
    CHECK(rp_timer_log_set_end(log, 2 * TIMER_LOG_FILE + RP_TIMER_RECORD_SIZE));
    failing.fail_at = failing.calls + 2; /* the read, behind the open */
    CHECK(rp_timer_log_expire(log, 0, NULL) == 0);
    CHECK(rp_timer_log_expire(log, 1000 * TIMER_RECORDS_A_FILE, NULL) == 0);
    CHECK(rp_timer_log_expire(log, 1000 * 2 * TIMER_RECORDS_A_FILE, NULL) == 2);
    rp_timer_log_close(log);
    fixture_remove(directory);
}

static void test_a_row_that_is_none_is_refused(void) {
    static const struct {
        const char *name;
        int64_t size;
    } odd[] = {{"timerlog/00000000000000008192", 4096}, {"timerlog/00000000000000004096", 100}, {"timerlog/00000000000000000001", 4096}};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        char directory[256], path[512];
        fixture_directory(directory, sizeof directory);
        rp_timer_log *log = open_log(NULL, directory);
        append_chain(log, 0, 1, RP_TIMER_NO_POSITION);
        CHECK(rp_timer_log_flush(log, NULL) == RP_OK);
        rp_timer_log_close(log);
        timer_path(path, directory, odd[i].name);
        int fd = open(path, O_RDWR | O_CREAT, 0644);
        CHECK(fd >= 0 && ftruncate(fd, odd[i].size) == 0);
        close(fd);
        timer_path(path, directory, "timerlog");
        rp_error error = {0};
        CHECK(rp_timer_log_open(NULL, path, TIMER_LOG_FILE, &log, &error) == RP_E_CORRUPT && log != NULL && error.message[0] != 0);
        CHECK(rp_timer_log_remove_all(log, NULL) == RP_OK);
        append_chain(log, 0, 1, RP_TIMER_NO_POSITION);
        CHECK(rp_timer_log_flush(log, NULL) == RP_OK);
        rp_timer_log_close(log);
        rp_timer_log_close(open_log(NULL, directory));
        fixture_remove(directory);
    }
    rp_timer_log *log;
    CHECK(rp_timer_log_open(NULL, "/proc/self/status", TIMER_LOG_FILE, &log, NULL) == RP_E_IO && log == NULL); /* ENOTDIR */
    CHECK(rp_timer_log_open(NULL, "x", 4095, &log, NULL) == RP_E_INVALID);
}

/* Longer than all marks at their first distance would be: this takes the file size of the broker. */
static void test_a_long_slot_is_read_oldest_first(void) {
    enum { RECORDS = 40000, RECALL_EVERY = 1000 };
    char directory[256], path[512];
    fixture_directory(directory, sizeof directory);
    timer_path(path, directory, "timerlog");
    rp_timer_log *log;
    CHECK(rp_timer_log_open(NULL, path, RP_TIMER_LOG_FILE_SIZE, &log, NULL) == RP_OK);
    int64_t previous = RP_TIMER_NO_POSITION;
    for (int64_t i = 0; i < RECORDS; i++) {
        rp_timer_record record = numbered(i, previous);
        record.magic |= i % RECALL_EVERY == 0 ? RP_TIMER_DELETE : 0;
        CHECK(rp_timer_log_append(log, &record, &previous, NULL) == RP_OK);
    }
    rp_timer_slot slot = {.time_ms = TIMER_NOW, .last_position = previous};
    rp_timer_chain *chain;
    CHECK(rp_timer_chain_open(log, &slot, 1000, &chain, NULL) == RP_OK);
    for (int kind = RP_TIMER_CHAIN_RECALLS; kind <= RP_TIMER_CHAIN_OTHERS; kind++) {
        rp_timer_chain_record records[100];
        int64_t next = kind == RP_TIMER_CHAIN_RECALLS ? 0 : 1, count = 0;
        while (!rp_timer_chain_is_at_end(chain)) {
            int64_t got = rp_timer_chain_read(chain, kind, records, 100, NULL);
            CHECK(got >= 0);
            for (int64_t i = 0; i < got; i++, count++) {
                CHECK(records[i].record.commit_log_offset == 1000 * next);
                next += kind == RP_TIMER_CHAIN_RECALLS ? RECALL_EVERY : next % RECALL_EVERY == RECALL_EVERY - 1 ? 2 : 1;
            }
        }
        CHECK(count == (kind == RP_TIMER_CHAIN_RECALLS ? RECORDS / RECALL_EVERY : RECORDS - RECORDS / RECALL_EVERY));
        rp_timer_chain_rewind(chain);
    }
    CHECK(rp_timer_chain_length(chain) == RECORDS && rp_timer_chain_recalls(chain) == RECORDS / RECALL_EVERY);
    rp_timer_chain_close(chain);
    slot.time_ms += 1000; /* of another second */
    CHECK(rp_timer_chain_open(log, &slot, 1000, &chain, NULL) == RP_OK);
    CHECK(rp_timer_chain_read(chain, RP_TIMER_CHAIN_OTHERS, NULL, 0, NULL) == RP_E_CORRUPT);
    rp_timer_chain_close(chain);
    rp_timer_log_close(log);
    fixture_remove(directory);
}

/* The clock was a wheel ahead for a while: the slot's record lies behind one of a later time at the same place, which was delivered. */
static void test_a_place_that_was_taken_again_by_an_earlier_time_is_its_own(void) {
    char directory[256], wheel[512];
    rp_timer_files_options options;
    fixture_directory(directory, sizeof directory);
    timer_options(&options, directory, NULL);
    rp_timer_files *files = timer_open(&options);
    const int64_t later = (int64_t)RP_TIMING_WHEEL_SLOTS * 1000;
    rp_timer_entry entry = timer_entry(0, 1);
    entry.due_ms += later;
    entry.write_time_ms += later;
    CHECK(rp_timer_files_enter(files, &entry, NULL) == RP_OK);
    rp_timing_wheel_clear(rp_timer_files_wheel(files), TIMER_NOW + later);
    timer_enter(files, 1, 2, 1);
    CHECK(timer_flush(files, TIMER_NOW, 2, 0) == RP_OK);
    rp_timer_files_close(files);
    timer_path(wheel, directory, "timerwheel");
    CHECK(unlink(wheel) == 0);
    files = timer_open(&options);
    timer_slot_holds(files, 1, 2, 1);
    rp_timer_files_close(files);
    fixture_remove(directory);
}

int main(void) {
    RUN(test_files_are_byte_for_byte_rocketmqs);
    RUN(test_a_torn_log_ends_before_the_first_torn_record);
    RUN(test_bytes_that_are_no_record_are_told);
    RUN(test_a_full_disk_is_an_answer_and_loses_nothing);
    RUN(test_a_sync_that_failed_is_not_forgotten);
    RUN(test_files_expire_by_what_is_in_them);
    RUN(test_a_file_that_cannot_be_read_goes_with_the_one_behind);
    RUN(test_a_row_that_is_none_is_refused);
    RUN(test_a_place_that_was_taken_again_by_an_earlier_time_is_its_own);
    RUN(test_a_long_slot_is_read_oldest_first);
    return 0;
}
