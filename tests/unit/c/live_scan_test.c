/* live_scan_test.c: scanning a commit log file in memory (tmpfs) while its broker writes to it. What was a hole when the scan began is read
 * as it is by then, also where reading holes would take more space than is left. */
#include <linux/magic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "../../../csrc/base/bytes_inl.h"
#include "../../../csrc/store/file_row.h"
#include "../../../csrc/store/log_scan.h"
#include "check.h"
#include "store_fixture.h"

enum { SENDS = 150, BEFORE = 20, LATER = 120, PAGE = 4096 };

/* In place of libc's: whether the file system has space is said here. */
static bool is_full;

int fstatfs(int fd, struct statfs *system) {
    long rc = syscall(SYS_fstatfs, fd, system);
    system->f_type = TMPFS_MAGIC;
    system->f_bfree = is_full ? 0 : system->f_bfree;
    return (int)rc;
}

static int looks; /* calls that look for holes */

off_t lseek(int fd, off_t offset, int whence) {
    looks += whence == SEEK_DATA || whence == SEEK_HOLE;
    return (off_t)syscall(SYS_lseek, fd, offset, whence);
}

static uint8_t records[FIXTURE_LOG_FILE_SIZE];
static int64_t ends[SENDS];

/* The first record that comes while the file is scanned: a page ends within its properties, the last bytes of it. */
static void append_across_a_page(rp_message_store *store, rp_consume_queue *queue) {
    char first[512], body[PAGE] = {0};
    int64_t begin = ends[BEFORE - 1], rest = ends[0] - fixture_body(first, sizeof first, 0, 0);
    int64_t size = begin - begin % PAGE + PAGE + 10 - begin - rest;
    CHECK(size > 0 && size <= PAGE);
    rp_append_item item = fixture_item(queue, body, (uint32_t)size);
    rp_commit_log_append(rp_message_store_commit_log(store), &item, 1);
    CHECK(item.status == RP_OK && item.commit_log_offset == begin);
}

static void write_records(void) {
    char path[300], name[600];
    rp_message_store_options options;
    fixture_directory(path, sizeof path);
    fixture_options(&options, path);
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "T", 0);
    for (int i = 0; i < SENDS; i++) {
        if (i == BEFORE)
            append_across_a_page(store, queue);
        else
            CHECK(fixture_append(store, queue, i) == RP_OK);
        ends[i] = rp_commit_log_max_offset(rp_message_store_commit_log(store));
    }
    fixture_close(store);
    snprintf(name, sizeof name, "%s/commitlog/00000000000000000000", path);
    int fd = open(name, O_RDONLY);
    CHECK(ends[LATER - 1] < FIXTURE_LOG_FILE_SIZE && pread(fd, records, sizeof records, 0) == sizeof records && close(fd) == 0);
    fixture_remove(path);
}

static void scan_while_it_grows(void) {
    char directory[300], name[600];
    rp_log_scan *scan;
    rp_error error;
    rp_message message;
    rp_scan_damage damage;
    int kind, messages = 0;
    fixture_memory_directory(directory, sizeof directory);
    snprintf(name, sizeof name, "%s/00000000000000000000", directory);
    int fd = open(name, O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && ftruncate(fd, sizeof records) == 0 && pwrite(fd, records, (size_t)ends[BEFORE - 1], 0) == ends[BEFORE - 1]);
    CHECK(rp_log_scan_open(name, INT64_MIN, INT64_MAX, 1, &scan, &error) == RP_OK);
    size_t more = (size_t)(ends[LATER - 1] - ends[BEFORE - 1]);
    CHECK(pwrite(fd, records + ends[BEFORE - 1], more, ends[BEFORE - 1]) == (int64_t)more);
    while ((kind = rp_log_scan_next(scan, &message, &damage)) != RP_SCAN_END) {
        CHECK(kind == RP_SCAN_MESSAGE);
        /* They end the record, and no check covers them. */
        CHECK(memcmp(message.properties.data, records + ends[messages] - message.properties.size, message.properties.size) == 0);
        messages++;
    }
    CHECK(messages == LATER && rp_log_scan_ended_unwritten(scan) == 1);
    rp_log_scan_close(scan);
    CHECK(close(fd) == 0);
    fixture_remove(directory);
}

static void records_that_come_while_it_is_scanned_are_no_damage(void) { scan_while_it_grows(); }

static void nor_are_they_where_there_is_no_space_for_holes(void) {
    is_full = true;
    scan_while_it_grows();
    is_full = false;
}

/* Even if the file has grown since, only what it had when the scan began is mapped. */
static void what_was_appended_since_is_not_mapped(void) {
    char directory[300], name[600];
    rp_log_scan *scan;
    rp_error error;
    rp_message message;
    rp_scan_damage damage;
    fixture_memory_directory(directory, sizeof directory);
    snprintf(name, sizeof name, "%s/00000000000000000000", directory);
    int fd = open(name, O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    is_full = true;
    CHECK(rp_log_scan_open(name, INT64_MIN, INT64_MAX, 1, &scan, &error) == RP_OK);
    is_full = false;
    CHECK(pwrite(fd, "\1\2\3", 3, 100) == 3 && pwrite(fd, records, sizeof records, 4096) == sizeof records);
    rp_log_scan_set_tail(scan, RP_TAIL_FOLLOWED);
    CHECK(rp_log_scan_next(scan, &message, &damage) == RP_SCAN_DAMAGE && damage.size == 4096);
    CHECK(rp_log_scan_next(scan, &message, &damage) == RP_SCAN_END);
    rp_log_scan_close(scan);
    CHECK(close(fd) == 0);
    fixture_remove(directory);
}

/* For a checker that makes one pass after the other: it looks for a record's entry in a queue that it has looked at before. */
static void look_at_a_row_while_it_grows(void) {
    char directory[300], name[600];
    rp_file_row *row;
    rp_error error;
    fixture_memory_directory(directory, sizeof directory);
    snprintf(name, sizeof name, "%s/00000000000000000000", directory);
    int fd = open(name, O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && ftruncate(fd, 4 * PAGE) == 0 && pwrite(fd, "\1", 1, 0) == 1);
    CHECK(rp_file_row_open(directory, &row, &error) == RP_OK);
    const uint8_t *bytes = rp_file_row_at(row, 0, 1);
    CHECK(bytes != NULL && bytes[0] == 1 && rp_file_row_at(row, PAGE, 1)[0] == 0);
    CHECK(pwrite(fd, "\2\3", 2, PAGE - 1) == 2);
    CHECK(rp_file_row_at(row, PAGE, 1)[0] == 3 && rp_file_row_at(row, PAGE - 1, 2) == bytes + PAGE - 1);
    CHECK(rp_file_row_at(row, 2 * PAGE, PAGE)[0] == 0);
    CHECK(pwrite(fd, "\4", 1, 3 * PAGE) == 1 && rp_file_row_at(row, 3 * PAGE, 1)[0] == 4 && bytes[PAGE - 1] == 2);
    rp_file_row_close(row);
    CHECK(close(fd) == 0);
    fixture_remove(directory);
}

/* The file that a broker has made ready, and writes to next. */
static void look_at_a_row_that_was_empty(void) {
    char directory[300], name[600];
    rp_file_row *row;
    rp_error error;
    fixture_memory_directory(directory, sizeof directory);
    snprintf(name, sizeof name, "%s/00000000000000000000", directory);
    int fd = open(name, O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && ftruncate(fd, 4 * PAGE) == 0);
    CHECK(rp_file_row_open(directory, &row, &error) == RP_OK && rp_file_row_at(row, 0, 1)[0] == 0);
    CHECK(pwrite(fd, "\5", 1, 0) == 1 && rp_file_row_at(row, 0, 1)[0] == 5);
    rp_file_row_close(row);
    CHECK(close(fd) == 0);
    fixture_remove(directory);
}

static void what_comes_while_a_row_is_looked_at_is_seen(void) {
    look_at_a_row_while_it_grows();
    look_at_a_row_that_was_empty();
    is_full = true;
    look_at_a_row_while_it_grows();
    look_at_a_row_that_was_empty();
    is_full = false;
}

/* Of each index entry and timed message. */
static void what_a_row_has_seen_is_not_looked_for_again(void) {
    enum { RECORDS = 10, RECORD = 200, PAGES = 64, QUESTIONS = 1000 };
    char directory[300], name[600];
    rp_file_row *row;
    rp_error error;
    uint64_t size;
    uint8_t head[4];
    fixture_memory_directory(directory, sizeof directory);
    snprintf(name, sizeof name, "%s/00000000000000000000", directory);
    int fd = open(name, O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && ftruncate(fd, PAGES * PAGE) == 0);
    rp_put_u32(head, RECORD);
    for (int i = 0; i < RECORDS; i++)
        CHECK(pwrite(fd, head, sizeof head, i * RECORD) == sizeof head);
    for (int page = 2; page < PAGES; page += 2)
        CHECK(pwrite(fd, "\7", 1, page * PAGE) == 1);
    CHECK(rp_file_row_open(directory, &row, &error) == RP_OK && rp_file_row_record(row, 0, &size) != NULL);
    looks = 0;
    for (int i = 0; i < QUESTIONS; i++)
        CHECK(rp_file_row_record(row, i % RECORDS * RECORD, &size) != NULL && size == RECORD);
    CHECK(looks == 0);
    for (int i = 0; i < QUESTIONS; i++)
        CHECK(rp_file_row_at(row, i % PAGES / 2 * 2 * PAGE, 1)[0] == (i % PAGES < 2 ? 0 : 7));
    CHECK(looks <= 4 * QUESTIONS);
    CHECK(rp_file_row_record(row, PAGES * PAGE - 3, &size) != NULL && size == 3);
    CHECK(rp_file_row_record(row, PAGES * PAGE - 4, &size) != NULL && size == 4);
    CHECK(rp_file_row_record(row, PAGES * PAGE, &size) == NULL);
    rp_file_row_close(row);
    CHECK(close(fd) == 0);
    fixture_remove(directory);
}

static void nor_where_there_is_no_space_for_holes(void) {
    is_full = true;
    what_a_row_has_seen_is_not_looked_for_again();
    is_full = false;
}

int main(void) {
    write_records();
    RUN(records_that_come_while_it_is_scanned_are_no_damage);
    RUN(nor_are_they_where_there_is_no_space_for_holes);
    RUN(what_was_appended_since_is_not_mapped);
    RUN(what_comes_while_a_row_is_looked_at_is_seen);
    RUN(what_a_row_has_seen_is_not_looked_for_again);
    RUN(nor_where_there_is_no_space_for_holes);
    return 0;
}
