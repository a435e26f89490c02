/* large_pages_test.c: a store on a kernel with pages of 64 KiB, as aarch64 may have: calls start at page boundaries, and nothing is lost
 * that shares a page with what they act on. */
#include "large_pages.h"

#include "../../../csrc/base/file_ops.h"
#include "../../../csrc/base/page_inl.h"
#include "../../../csrc/store/commit_log.h"
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
    RUN(what_waits_beside_an_emptied_slot_stays);
    fixture_remove(directory);
    return 0;
}
