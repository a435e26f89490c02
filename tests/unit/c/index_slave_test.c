/* index_slave_test.c: a slave's index has every message, in however small pieces they come. */
#include "../../../csrc/store/message_store.h"

#include <string.h>

#include "check.h"
#include "store_fixture.h"

enum { TOPICS = 10, EACH = 4000, BODY_BYTES = 300, PIECE_BYTES = 150, FILE_BYTES = 1 << 20, ROUNDS = 6 };

static const char *topic_of(int i) {
    return (const char *[TOPICS]){"T0", "T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8", "T9"}[i % TOPICS];
}

static rp_message_store *open_store(char path[128]) {
    rp_message_store_options options;
    fixture_directory(path, 128);
    fixture_options(&options, path);
    fixture_never_flush(&options);
    options.commit_log_file_size = FILE_BYTES;
    options.index_enable = 1;
    options.index_slot_count = 1000;
    options.index_entry_count_max = 100000;
    return fixture_open(&options);
}

static void fill(rp_message_store *store) {
    static char body[BODY_BYTES];
    memset(body, 'b', sizeof body);
    for (int i = 0; i < TOPICS * EACH; i++) {
        rp_append_item item = fixture_item(fixture_queue(store, topic_of(i), 0), body, sizeof body);
        rp_commit_log_append(rp_message_store_commit_log(store), &item, 1);
        CHECK(item.status == RP_OK);
    }
}

static uint32_t smallest(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* As a slave gets them; the index thread reads along, and finds the beginning of a message whose end comes while it looks. */
static void take_in_pieces(rp_commit_log *log, rp_commit_log *from) {
    for (int64_t done = 0, end = rp_commit_log_max_offset(from); done < end;) {
        uint8_t *address;
        uint32_t room, size = smallest(PIECE_BYTES, (uint32_t)(end - done));
        rp_log_range piece;
        rp_error error;
        CHECK(rp_commit_log_reserve_replicated(log, done, &address, &room, &error) == RP_OK);
        size = smallest(size, room);
        CHECK(rp_commit_log_read(from, done, size, &piece) == RP_OK);
        memcpy(address, piece.address, size);
        rp_log_range_release(piece.pin);
        CHECK(rp_commit_log_commit_replicated(log, done, size, &error) == RP_OK);
        done += size;
    }
}

static void index_is_whole_on_a_slave_of(rp_message_store *master) {
    char path[128];
    rp_message_store *slave = open_store(path);
    take_in_pieces(rp_message_store_commit_log(slave), rp_message_store_commit_log(master));
    for (int i = 0; i < TOPICS; i++) {
        int64_t found = fixture_found_by_key(slave, topic_of(i));
        if (found != EACH) {
            fprintf(stderr, "%lld of %d messages of %s are found\n", (long long)found, EACH, topic_of(i));
        }
        CHECK(found == EACH);
    }
    fixture_close(slave);
    fixture_remove(path);
}

int main(void) {
    char path[128];
    rp_message_store *master = open_store(path);
    fill(master);
    for (int round = 0; round < ROUNDS; round++) {
        index_is_whole_on_a_slave_of(master);
    }
    fixture_close(master);
    fixture_remove(path);
    return 0;
}
