/* index_replicated_test.c: a slave's index has the entries of its master's, whatever the keys and however the bytes arrived: in pieces that
 * end anywhere, as at the end of the log, or through a pipe, as with a backlog. */
#include <stdio.h>
#include <unistd.h>

#include "../../../csrc/store/commit_log.h"
#include "check.h"
#include "store_fixture.h"

enum { MESSAGES = 3000, OFFSETS_MAX = 5000, TURNS = 7 };

/* By number of the message; what each adds to the keys below. */
static const struct {
    const char *properties;
    int32_t sys_flag;
} FORMS[] = {
    {"UNIQ_KEY\1U\2", 0},
    {"UNIQ_KEY\1U\2TAGS\1t\2", 0},
    {"KEYS\1one two  one\2UNIQ_KEY\1U\2TAGS\1t\2", 0},
    {"TAGS\1t\2", 0},
    {"OTHER\1U\2", 0},
    {"UNIQ_KEY\1U\2KEYS\1one\2", RP_SYSFLAG_TRANSACTION_ROLLBACK},
};
enum { FORM_COUNT = sizeof FORMS / sizeof FORMS[0] };

static const struct {
    const char *key;
    uint32_t forms; /* have it */
} KEYS[] = {{"U", 3}, {"one", 1}, {"two", 1}, {"T#t", 3}, {"t", 0}};

static void append(rp_message_store *store, int64_t number) {
    char body[512];
    rp_consume_queue *queue = fixture_queue(store, "T", (int32_t)(number % 3));
    rp_append_item item = fixture_item(queue, body, fixture_body(body, sizeof body, rp_consume_queue_id(queue), number));
    item.properties[0] = fixture_slice(FORMS[number % FORM_COUNT].properties);
    item.properties[1] = (rp_slice){NULL, 0};
    item.sys_flag = FORMS[number % FORM_COUNT].sys_flag;
    rp_commit_log_append(rp_message_store_commit_log(store), &item, 1);
    CHECK(item.status == RP_OK);
}

/* `size` bytes from `at` on, which lie in one file, as the slave's thread takes what comes at the log's end. */
static void store_piece(rp_commit_log *log, int64_t at, const uint8_t *bytes, uint32_t size) {
    while (size > 0) {
        uint8_t *address;
        uint32_t room;
        CHECK(rp_commit_log_reserve_replicated(log, at, size, &address, &room, NULL) == RP_OK);
        uint32_t part = size < room ? size : room;
        memcpy(address, bytes, part);
        CHECK(rp_commit_log_commit_replicated(log, at, part, NULL) == RP_OK);
        at += part;
        bytes += part;
        size -= part;
    }
}

static void splice_piece(rp_commit_log *log, int64_t at, const uint8_t *bytes, uint32_t size, const int pipes[2]) {
    CHECK(write(pipes[1], bytes, size) == (ssize_t)size);
    CHECK(rp_commit_log_splice_replicated(log, at, pipes[0], size, NULL) == RP_OK);
}

/* The master's log from where the slave's ends; every third turn of pieces is a backlog. */
static void replicate(rp_commit_log *from, rp_commit_log *to, int64_t end, uint32_t *seed) {
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    for (int64_t at = rp_commit_log_max_offset(to); at < end;) {
        rp_log_range range;
        *seed = *seed * 1664525u + 1013904223u;
        int64_t file_left = FIXTURE_LOG_FILE_SIZE - at % FIXTURE_LOG_FILE_SIZE, left = end - at < file_left ? end - at : file_left;
        uint32_t size = 1 + (*seed >> 16) % 4000;
        size = size < left ? size : (uint32_t)left;
        CHECK(rp_commit_log_read(from, at, size, &range) == RP_OK);
        if ((*seed >> 8) % 20 < 3) {
            splice_piece(to, at, range.address, size, pipes);
        } else {
            store_piece(to, at, range.address, size);
        }
        rp_log_range_release(range.pin);
        at += size;
    }
    close(pipes[0]);
    close(pipes[1]);
}

static uint32_t find(rp_message_store *store, const char *key, int64_t *offsets) {
    fixture_wait_indexed(store, rp_commit_log_dispatched_offset(rp_message_store_commit_log(store)));
    int64_t end_ms = (int64_t)time(NULL) * 1000 + 1000000;
    return (uint32_t)rp_message_store_query(store, fixture_slice("T"), fixture_slice(key), 0, end_ms, offsets, OFFSETS_MAX).found;
}

int main(void) {
    char paths[2][128];
    rp_message_store *stores[2];
    uint32_t seed = 1;
    for (int i = 0; i < 2; i++) {
        rp_message_store_options options;
        fixture_directory(paths[i], sizeof paths[i]);
        fixture_options(&options, paths[i]);
        options.index_enable = 1;
        stores[i] = fixture_open(&options);
    }
    rp_commit_log *from = rp_message_store_commit_log(stores[0]), *to = rp_message_store_commit_log(stores[1]);
    for (int64_t number = 0; number < MESSAGES; number++) {
        append(stores[0], number);
        if (number % (MESSAGES / TURNS) == 0) { /* the end of what comes now is in the middle of a record */
            replicate(from, to, rp_commit_log_max_offset(from) - 1, &seed);
        }
    }
    replicate(from, to, rp_commit_log_max_offset(from), &seed);
    CHECK(rp_commit_log_dispatched_offset(to) == rp_commit_log_max_offset(from));
    for (size_t key = 0; key < sizeof KEYS / sizeof KEYS[0]; key++) {
        static int64_t offsets[2][OFFSETS_MAX];
        uint32_t found[2] = {find(stores[0], KEYS[key].key, offsets[0]), find(stores[1], KEYS[key].key, offsets[1])};
        int differ = found[0] != found[1] || memcmp(offsets[0], offsets[1], found[0] * sizeof offsets[0][0]) != 0;
        if (differ) {
            fprintf(stderr, "%s: %u of the master's %u messages are found on the slave\n", KEYS[key].key, found[1], found[0]);
        }
        CHECK(!differ);
        CHECK(found[0] == KEYS[key].forms * (MESSAGES / FORM_COUNT));
    }
    for (int i = 0; i < 2; i++) {
        fixture_close(stores[i]);
        fixture_remove(paths[i]);
    }
    return 0;
}
