/* index_damage_test.c: an index rebuilt from a damaged log has every message except the damaged one; a record that a slave has received
 * only in part is not damage. */
#include "../../../csrc/store/message_store.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../../csrc/base/clock.h"
#include "../../../csrc/store/commit_log_inl.h"
#include "check.h"
#include "store_fixture.h"

enum { MESSAGES = 40, DAMAGED = 7 };

static void write_at(const char *root, int64_t offset, const void *bytes, size_t size) {
    char path[256];
    snprintf(path, sizeof path, "%s/commitlog/%020d", root, 0);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pwrite(fd, bytes, size, offset) == (ssize_t)size && close(fd) == 0);
}

static void index_is_built_past(const char *what, const uint8_t head[8], size_t size) {
    char path[128], command[160];
    rp_message_store_options options;
    rp_queue_entry entry;
    fixture_directory(path, sizeof path);
    fixture_options(&options, path);
    options.commit_log_file_size = 1 << 20;
    options.index_enable = 1;
    rp_message_store *store = fixture_open(&options);
    for (int64_t i = 0; i < MESSAGES; i++) {
        CHECK(fixture_append(store, fixture_queue(store, "T", 0), i) == RP_OK);
    }
    CHECK(rp_consume_queue_read(fixture_queue(store, "T", 0), DAMAGED, &entry, 1) == 1);
    fixture_close(store);
    write_at(path, entry.commit_log_offset, head, size);
    snprintf(command, sizeof command, "rm -r '%s/index'", path);
    CHECK(system(command) == 0);
    store = fixture_open(&options);
    int64_t found = fixture_found_by_key(store, "T");
    if (found != MESSAGES - 1) {
        fprintf(stderr, "%s: %lld of %d messages are found\n", what, (long long)found, MESSAGES - 1);
    }
    CHECK(found == MESSAGES - 1);
    fixture_close(store);
    fixture_remove(path);
}

static atomic_bool is_over;

enum { REPLICATED = 400, HELD_NS = 6000000 };

static const struct timespec GAP = {.tv_nsec = 100000}; /* the lock goes to the next one that asks; without a gap that would be us again */

/* Holds the append lock most of the time, so that the index and the slave's thread wait for it, and pass each other. */
static void *hold_append_lock(void *context) {
    rp_commit_log *log = context;
    for (bool goes_on = true; goes_on;) {
        pthread_mutex_lock(&log->append_lock);
        int64_t until_ns = rp_clock_monotonic_ns(NULL) + HELD_NS;
        while (rp_clock_monotonic_ns(NULL) < until_ns) {
        }
        goes_on = !atomic_load(&is_over);
        pthread_mutex_unlock(&log->append_lock);
        nanosleep(&GAP, NULL);
    }
    return NULL;
}

/* The rest of a record comes between two looks of the index: at the log's end, and at the end of its last whole record. */
static void a_record_that_comes_in_pieces_is_in_the_index(void) {
    char paths[2][128];
    rp_message_store *stores[2];
    for (int i = 0; i < 2; i++) {
        rp_message_store_options options;
        fixture_directory(paths[i], sizeof paths[i]);
        fixture_options(&options, paths[i]);
        options.commit_log_file_size = 8 << 20;
        options.index_enable = i;
        stores[i] = fixture_open(&options);
    }
    for (int64_t i = 0; i < REPLICATED; i++) {
        CHECK(fixture_append(stores[0], fixture_queue(stores[0], "T", 0), i) == RP_OK);
    }
    rp_commit_log *from = rp_message_store_commit_log(stores[0]), *to = rp_message_store_commit_log(stores[1]);
    pthread_t holder;
    CHECK(pthread_create(&holder, NULL, hold_append_lock, to) == 0);
    for (int64_t i = 0; i < REPLICATED; i++) {
        rp_queue_entry entry;
        CHECK(rp_consume_queue_read(fixture_queue(stores[0], "T", 0), i, &entry, 1) == 1);
        fixture_wait_indexed(stores[1],
                             entry.commit_log_offset); /* nothing else is left to enter: it looks at this record, again and again */
        rp_log_range range;
        uint8_t *address;
        int64_t at = entry.commit_log_offset;
        uint32_t room, size = (uint32_t)entry.size, half = size / 2;
        CHECK(rp_commit_log_read(from, at, size, &range) == RP_OK);
        CHECK(rp_commit_log_reserve_replicated(to, at, size, &address, &room, NULL) == RP_OK && room >= size);
        memcpy(address, range.address, size);
        rp_log_range_release(range.pin);
        CHECK(rp_commit_log_commit_replicated(to, at, half, NULL) == RP_OK);
        CHECK(rp_commit_log_commit_replicated(to, at + half, size - half, NULL) == RP_OK);
    }
    atomic_store(&is_over, true);
    CHECK(pthread_join(holder, NULL) == 0);
    int64_t found = fixture_found_by_key(stores[1], "T");
    if (found != REPLICATED) {
        fprintf(stderr, "%lld of %d replicated messages are found\n", (long long)found, REPLICATED);
    }
    CHECK(found == REPLICATED);
    for (int i = 0; i < 2; i++) {
        fixture_close(stores[i]);
        fixture_remove(paths[i]);
    }
}

int main(void) {
    a_record_that_comes_in_pieces_is_in_the_index();
    index_is_built_past("zero bytes", (const uint8_t[8]){0}, 8);
    index_is_built_past("another magic", (const uint8_t[8]){0, 0, 1, 0, 1, 2, 3, 4}, 8);
    index_is_built_past("a size past the log's end", (const uint8_t[8]){0, 15, 0, 0}, 4);
    index_is_built_past("a size past every end", (const uint8_t[8]){127, 0, 0, 0}, 4);
    index_is_built_past("padding that does not end with its file", (const uint8_t[8]){0, 0, 1, 0, 0xCB, 0xD4, 0x31, 0x94}, 8);
    return 0;
}
