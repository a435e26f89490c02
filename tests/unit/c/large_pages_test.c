/* large_pages_test.c: a store on a kernel with pages of 64 KiB, as aarch64 may have: calls start at page boundaries, and nothing is lost
 * that shares a page with what they act on. */
#include "large_pages.h"

#include "../../../csrc/base/bytes_inl.h"
#include "../../../csrc/base/file_ops.h"
#include "../../../csrc/base/page_inl.h"
#include "../../../csrc/store/commit_log.h"
#include "../../../csrc/store/log_scan.h"
#include "../../../csrc/store/mapped_file_queue.h"
#include "../../../csrc/store/message.h"
#include "../../../csrc/store/store_path.h"
#include "../../../csrc/store/timing_wheel.h"
#include "store_fixture.h"

#define MAP_BYTES (8 * LARGE_PAGE)
#define NOW_MS INT64_C(1700000000000)

static char directory[512];

static void what_is_asked_for_within_a_page_is_done(void) {
    const rp_file_ops *ops = rp_file_ops_system();
    char path[600];
    snprintf(path, sizeof path, "%s/mapped", directory);
    int fd = ops->open(ops->context, path, O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && ops->allocate(ops->context, fd, 0, MAP_BYTES) >= 0);
    uint8_t *map = ops->map(ops->context, fd, MAP_BYTES, 1);
    CHECK(map != NULL && (uintptr_t)map % LARGE_PAGE == 0);
    CHECK(ops->populate(ops->context, map + 4096, MAP_BYTES - 4096) == 0);
    memset(map, 7, MAP_BYTES); /* qemu-aarch64 does not populate */
    CHECK(ops->in_memory(ops->context, map + 4096, MAP_BYTES - 8192) == 1);
    CHECK(ops->in_memory(ops->context, map + 3 * LARGE_PAGE - 1, 2) == 1);
    for (int wait = RP_READ_ASK; wait <= RP_READ_WAIT_MAPPED; wait++) {
        CHECK(ops->read_ahead(ops->context, map + 5 * 4096, 2 * LARGE_PAGE, wait) == 0);
    }
    CHECK(ops->sync_range(ops->context, fd, map + LARGE_PAGE, (int64_t)LARGE_PAGE, 3 * LARGE_PAGE + 100) == 0);
    CHECK(ops->unmap(ops->context, map, MAP_BYTES) == 0);
    ops->close(ops->context, fd);
}

static void a_page_is_where_its_bytes_are(void) {
    CHECK(rp_page_begin(0) == 0 && rp_page_begin((int64_t)LARGE_PAGE - 1) == 0 &&
          rp_page_begin((int64_t)LARGE_PAGE) == (int64_t)LARGE_PAGE);
    CHECK(rp_page_end(0) == 0 && rp_page_end(1) == (int64_t)LARGE_PAGE && rp_page_end((int64_t)LARGE_PAGE) == (int64_t)LARGE_PAGE);
}

/* Each time the log ends within a page; its files do, too, and its queue's have less than one. */
static void messages_are_synced_and_found_again(void) {
    rp_message_store_options options;
    fixture_options(&options, directory);
    fixture_never_flush(&options);
    options.commit_log_file_size = LARGE_PAGE + 3 * 4096;
    rp_message_store *store = fixture_open(&options);
    rp_commit_log *log = rp_message_store_commit_log(store);
    rp_consume_queue *queue = fixture_queue(store, "topic", 0);
    for (int64_t number = 0; number < 300; number++) {
        CHECK(fixture_append(store, queue, number) == RP_OK);
        CHECK(rp_message_store_wait_flushed(store, rp_commit_log_max_offset(log), 30000) == RP_OK);
    }
    CHECK(rp_message_store_writable(store, NULL) == RP_OK);
    CHECK(rp_commit_log_in_memory(log, 5000, rp_commit_log_max_offset(log)) == 1);
    fixture_close(store);
    fixture_forget_synced(directory);
    store = fixture_open(&options);
    queue = fixture_queue(store, "topic", 0);
    CHECK(rp_consume_queue_max_offset(queue) == 300);
    CHECK(fixture_append(store, queue, 300) == RP_OK);
    for (int64_t number = 0; number <= 300; number++) {
        CHECK(fixture_check(store, queue, number) == 0);
    }
    fixture_close(store);
}

/* Space for a part of a page could be taken for space for the whole page by the next request. */
static int allocate_whole_pages(void *context, int fd, int64_t offset, int64_t size) {
    struct stat status;
    CHECK(fstat(fd, &status) == 0);
    CHECK(offset % (int64_t)LARGE_PAGE == 0 && ((offset + size) % (int64_t)LARGE_PAGE == 0 || offset + size == status.st_size));
    return rp_file_ops_system()->allocate(context, fd, offset, size);
}

static void space_is_asked_for_by_whole_pages(void) {
    char root[600];
    snprintf(root, sizeof root, "%s/space", directory);
    rp_file_ops ops = *rp_file_ops_system();
    ops.allocate = allocate_whole_pages;
    rp_message_store_options options;
    fixture_options(&options, root);
    options.file_ops = &ops;
    options.commit_log_file_size = 4 * LARGE_PAGE + 3 * 4096;
    options.consume_queue_file_size = 10000 * RP_CONSUME_QUEUE_ENTRY_SIZE;
    for (int64_t number = 0; number < 600;) { /* the log ends within a page when it is opened again */
        rp_message_store *store = fixture_open(&options);
        rp_consume_queue *queue = fixture_queue(store, "topic", 0);
        for (int64_t end = number + 200; number < end; number++) {
            CHECK(fixture_append(store, queue, number) == RP_OK);
        }
        fixture_close(store);
    }
}

static _Atomic int64_t written_end;

static int64_t note_write(void *context, int fd, const void *source, size_t size, int64_t offset) {
    atomic_store(&written_end, offset + (int64_t)size);
    return rp_file_ops_system()->write_at(context, fd, source, size, offset);
}

static void the_page_in_which_a_log_ends_has_space(void) {
    char path[600];
    snprintf(path, sizeof path, "%s/row", directory);
    rp_file_ops ops = *rp_file_ops_system();
    ops.write_at = note_write;
    rp_mapped_file_queue *row = NULL;
    rp_error error = {0};
    rp_mapped_file_queue_options options = {.ops = &ops, .directory = path, .file_size = 4 * LARGE_PAGE, .mode = RP_MAP_WRITE};
    CHECK(rp_path_make_directories(path, &error) == RP_OK && rp_mapped_file_queue_create(&options, &row) == RP_OK);
    rp_mapped_file *file = rp_mapped_file_queue_append(row, 0, &error);
    CHECK(file != NULL);
    rp_mapped_file_release(file);
    CHECK(rp_mapped_file_queue_clear_tail(row, 5000, &error) == RP_OK && atomic_load(&written_end) == (int64_t)LARGE_PAGE);
    rp_mapped_file_queue_destroy(row);
}

static void a_sync_takes_no_page_from_its_table_that_it_does_not_write_whole(void) {
    const rp_file_ops *ops = rp_file_ops_system();
    char path[600];
    snprintf(path, sizeof path, "%s/synced", directory);
    int fd = ops->open(ops->context, path, O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && ops->truncate(ops->context, fd, MAP_BYTES) == 0);
    uint8_t *map = ops->map(ops->context, fd, MAP_BYTES, 1);
    memset(map, 7, MAP_BYTES);
    CHECK(ops->sync_range(ops->context, fd, map, 0, 3 * LARGE_PAGE + 2 * 4096) == 0);
    CHECK(atomic_load(&bytes_dropped) == 3 * LARGE_PAGE && map[3 * LARGE_PAGE] == 7);
    CHECK(ops->unmap(ops->context, map, MAP_BYTES) == 0);
    ops->close(ops->context, fd);
}

/* A scan gives back what is 64 MiB behind it. The bodies are holes. */
static void what_a_scan_has_read_is_given_back(void) {
    enum { BODY = (70 << 20) + 20000, HEAD = 88 /* IPv4 */, RECORD = HEAD + BODY + 1 + 1 + 2, RECORDS = 4 };
    char path[600];
    snprintf(path, sizeof path, "%s/%020d", directory, 0);
    int fd = open(path, O_RDWR | O_CREAT, 0644), scanned = 0;
    CHECK(fd >= 0 && ftruncate(fd, (off_t)RECORDS * RECORD) == 0);
    for (int64_t at = 0; at < (int64_t)RECORDS * RECORD; at += RECORD) {
        uint8_t head[HEAD] = {0};
        rp_put_u32(head, RECORD);
        rp_put_u32(head + 4, RP_MESSAGE_MAGIC_V1);
        rp_put_u64(head + 28, (uint64_t)at);
        rp_put_u32(head + HEAD - 4, BODY);
        CHECK(pwrite(fd, head, HEAD, at) == HEAD && pwrite(fd, "\1T\0\0", 4, at + HEAD + BODY) == 4);
    }
    int refused = atomic_load(&advice_refused), dropped = atomic_load(&times_dropped);
    rp_log_scan *scan;
    rp_error error;
    rp_message message;
    rp_scan_damage damage;
    CHECK(rp_log_scan_open(path, INT64_MIN, INT64_MAX, 0, &scan, &error) == RP_OK);
    while (rp_log_scan_next(scan, &message, &damage) == RP_SCAN_MESSAGE) {
        scanned++;
    }
    CHECK(scanned == RECORDS && atomic_load(&times_dropped) == dropped + 2 && atomic_load(&advice_refused) == refused);
    rp_log_scan_close(scan);
    CHECK(close(fd) == 0 && unlink(path) == 0);
}

static rp_timer_slot slot_at(int64_t time_ms) {
    return (rp_timer_slot){.time_ms = time_ms, .first_position = 52, .last_position = 104, .count = 2};
}

/* 128 slots lie in 4 KiB, one for each second: of a page of the kernel's that holds some still, none is given back. */
static void what_waits_beside_an_emptied_slot_stays(void) {
    char path[600];
    rp_error error = {0};
    rp_timing_wheel *wheel;
    snprintf(path, sizeof path, "%s/timerwheel", directory);
    CHECK(rp_timing_wheel_open(NULL, path, 1000, &wheel, &error) == RP_OK);
    for (int64_t i = 0; i < 100; i++) {
        rp_timer_slot slot = slot_at(NOW_MS + i * 128000);
        rp_timing_wheel_put(wheel, &slot);
    }
    CHECK(rp_timing_wheel_flush(wheel, &error) == RP_OK);
    for (int64_t i = 0; i < 100; i++) { /* whichever of them begins a page of the kernel's is among those that become empty */
        if (i % 16 != 7) {
            rp_timing_wheel_clear(wheel, NOW_MS + i * 128000);
        }
    }
    CHECK(rp_timing_wheel_flush(wheel, &error) == RP_OK);
    for (int64_t i = 0; i < 100; i++) {
        rp_timer_slot found;
        CHECK(rp_timing_wheel_slot(wheel, NOW_MS + i * 128000, &found) == (i % 16 == 7));
    }
    rp_timing_wheel_close(wheel);
}

int main(void) {
    if (!HAS_LARGE_PAGES) { /* under __SANITIZE_THREAD__ */
        return 0;
    }
    fixture_directory(directory, sizeof directory);
    RUN(a_page_is_where_its_bytes_are);
    RUN(what_is_asked_for_within_a_page_is_done);
    RUN(messages_are_synced_and_found_again);
    RUN(space_is_asked_for_by_whole_pages);
    RUN(the_page_in_which_a_log_ends_has_space);
    RUN(a_sync_takes_no_page_from_its_table_that_it_does_not_write_whole);
    RUN(what_a_scan_has_read_is_given_back);
    RUN(what_waits_beside_an_emptied_slot_stays);
    fixture_remove(directory);
    return 0;
}
