/* index_damage_test.c: the index that is built again from a log with damage in it has every message but the damaged one. */
#include "../../../csrc/store/message_store.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

int main(void) {
    index_is_built_past("zero bytes", (const uint8_t[8]){0}, 8);
    index_is_built_past("another magic", (const uint8_t[8]){0, 0, 1, 0, 1, 2, 3, 4}, 8);
    index_is_built_past("a size past the log's end", (const uint8_t[8]){0, 15, 0, 0}, 4);
    index_is_built_past("a size past every end", (const uint8_t[8]){127, 0, 0, 0}, 4);
    index_is_built_past("padding that does not end with its file", (const uint8_t[8]){0, 0, 1, 0, 0xCB, 0xD4, 0x31, 0x94}, 8);
    return 0;
}
