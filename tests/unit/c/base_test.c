/* base_test.c: error, clock, arena, ring, log and thread of csrc/base. */
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>

#include "../../../csrc/base/arena.h"
#include "../../../csrc/base/clock.h"
#include "../../../csrc/base/error.h"
#include "../../../csrc/base/hash.h"
#include "../../../csrc/base/log_inl.h"
#include "../../../csrc/base/ring.h"
#include "../../../csrc/base/thread.h"
#include "check.h"

static int is_readable(int fd, int timeout_ms) {
    struct pollfd waiting = {fd, POLLIN, 0};
    return poll(&waiting, 1, timeout_ms) == 1;
}

static void every_status_has_a_name_and_a_text(void) {
    for (int status = 0; status > -RP_STATUS_COUNT; status--) {
        CHECK(strcmp(rp_status_name(status), "RP_E_UNKNOWN") != 0);
        CHECK(strlen(rp_status_text(status)) > 3);
    }
    CHECK(strcmp(rp_status_name(1), "RP_E_UNKNOWN") == 0);
    CHECK(strcmp(rp_status_name(-RP_STATUS_COUNT), "RP_E_UNKNOWN") == 0);
    CHECK(strcmp(rp_status_name(RP_E_FORK), "RP_E_FORK") == 0);
}

static void the_remedy_is_the_causes(void) {
    CHECK(strstr(rp_write_remedy(ENOSPC, "/"), "free disk space") != NULL &&
          strstr(rp_write_remedy(EDQUOT, "/"), "free disk space") != NULL);
    CHECK(strstr(rp_write_remedy(EMFILE, "/"), "open files") != NULL && strstr(rp_write_remedy(EROFS, "/"), "read-only") != NULL);
    CHECK(strcmp(rp_write_remedy(EIO, "/"), "check the disk") == 0);
}

static void an_error_keeps_its_cause_and_cuts_what_is_too_long(void) {
    rp_error error;
    char path[1000];
    memset(path, 'p', sizeof path);
    path[sizeof path - 1] = '\0';
    CHECK(rp_error_set(&error, RP_E_IO, 5, path, 77, "%s at %d", path, 3) == RP_E_IO);
    CHECK(error.status == RP_E_IO && error.os_errno == 5 && error.offset == 77);
    CHECK(strlen(error.file) == RP_ERROR_FILE_MAX - 1 && strlen(error.message) == RP_ERROR_MESSAGE_MAX - 1);
    CHECK(rp_error_set(NULL, RP_E_BUSY, 0, NULL, -1, "nobody asked") == RP_E_BUSY);
}

static void arena_memory_is_aligned_disjoint_and_bounded(void) {
    rp_arena *arena = rp_arena_create(100000, 1000000);
    for (int turn = 0; turn < 3; turn++) {
        uint8_t *taken[400];
        size_t total = 0, count = 0;
        while (count < 400) {
            size_t size = 1 + (count * 7919) % 30000;
            uint8_t *bytes = rp_arena_take(arena, size);
            if (bytes == NULL) {
                break;
            }
            CHECK(((uintptr_t)bytes & 15) == 0);
            memset(bytes, (int)count, size);
            taken[count++] = bytes;
            total += size;
        }
        CHECK(total <= 1000000 && total > 500000);
        for (size_t index = 0; index < count; index++) {
            size_t size = 1 + (index * 7919) % 30000;
            CHECK(taken[index][0] == (uint8_t)index && taken[index][size - 1] == (uint8_t)index);
        }
        CHECK(rp_arena_take(arena, 1000001) == NULL);
        CHECK(rp_arena_take(arena, SIZE_MAX) == NULL);
        rp_arena_reset(arena);
    }
    rp_arena_destroy(arena);
}

/* The arena has 40 MB, which no malloc keeps for later. So mallinfo shows whether they are mapped (under sanitizers it says 0). */
static void an_arena_keeps_no_large_block_even_when_it_is_the_first(void) {
    rp_arena *arena = rp_arena_create(100000, 50000000);
    size_t before = mallinfo2().hblkhd;
    for (int turn = 0; turn < 2; turn++) {
        CHECK(rp_arena_take(arena, 40000000) != NULL);
        rp_arena_reset(arena);
        CHECK(mallinfo2().hblkhd == before);
        CHECK(rp_arena_take(arena, 100) != NULL);
        rp_arena_reset(arena);
    }
    rp_arena_destroy(arena);
}

static void what_is_given_back_to_an_arena_is_taken_again(void) {
    rp_arena *arena = rp_arena_create(4096, 4096);
    for (int round = 0; round < 1000; round++) {
        uint8_t *bytes = rp_arena_take(arena, 4000 - 16 * (size_t)(round % 10));
        CHECK(bytes != NULL);
        rp_arena_give_back(arena, bytes + 1);
        uint8_t *next = rp_arena_take(arena, 8);
        CHECK(next == bytes + 16);
        rp_arena_give_back(arena, next);
        if (round % 10 == 9) {
            rp_arena_reset(arena);
        }
    }
    rp_arena_destroy(arena);
}

#define PRODUCERS 4
#define ITEMS_EACH 20000

struct producer {
    rp_ring *ring;
    uintptr_t number;
    rp_thread *thread;
};

static void produce(void *context) {
    struct producer *producer = context;
    for (uintptr_t index = 0; index < ITEMS_EACH; index++) {
        while (rp_ring_put(producer->ring, (void *)(producer->number << 32 | (index + 1))) == RP_E_BUSY) {
            poll(NULL, 0, 0);
        }
    }
}

static void a_ring_keeps_each_producers_order_and_wakes_the_consumer(void) {
    rp_ring *ring;
    CHECK(rp_ring_create(60, &ring) == RP_OK);
    struct producer producers[PRODUCERS];
    for (uintptr_t number = 0; number < PRODUCERS; number++) {
        producers[number] = (struct producer){ring, number, NULL};
        CHECK(rp_thread_start(&producers[number].thread, "producer", produce, &producers[number]) == RP_OK);
    }
    uintptr_t last[PRODUCERS] = {0};
    uint32_t total = 0;
    while (total < PRODUCERS * ITEMS_EACH) {
        void *items[16];
        uint32_t taken = rp_ring_take(ring, items, 16);
        if (taken == 0 && rp_ring_prepare_sleep(ring)) {
            CHECK(is_readable(rp_ring_event_fd(ring), 60000));
        }
        for (uint32_t index = 0; index < taken; index++) {
            uintptr_t value = (uintptr_t)items[index], number = value >> 32, order = value & 0xFFFFFFFF;
            CHECK(number < PRODUCERS && order == last[number] + 1);
            last[number] = order;
        }
        total += taken;
    }
    for (int number = 0; number < PRODUCERS; number++) {
        rp_thread_join(producers[number].thread);
    }
    CHECK(rp_ring_count(ring) == 0);
    rp_ring_destroy(ring);
}

static void a_full_ring_says_busy_and_changes_nothing(void) {
    rp_ring *ring;
    int values[5];
    void *items[8];
    CHECK(rp_ring_create(0, &ring) == RP_E_INVALID);
    CHECK(rp_ring_create(3, &ring) == RP_OK);
    for (int index = 0; index < 4; index++) {
        CHECK(rp_ring_put(ring, &values[index]) == RP_OK);
    }
    CHECK(rp_ring_put(ring, &values[4]) == RP_E_BUSY);
    CHECK(rp_ring_count(ring) == 4);
    CHECK(rp_ring_prepare_sleep(ring) == 0);
    CHECK(rp_ring_take(ring, items, 8) == 4 && items[0] == &values[0] && items[3] == &values[3]);
    CHECK(rp_ring_prepare_sleep(ring) == 1 && !is_readable(rp_ring_event_fd(ring), 0));
    rp_ring_wake(ring);
    CHECK(is_readable(rp_ring_event_fd(ring), 0));
    rp_ring_destroy(ring);
}

static void a_busy_consumer_costs_no_event(void) {
    rp_ring *ring;
    int value;
    void *item;
    CHECK(rp_ring_create(8, &ring) == RP_OK);
    CHECK(rp_ring_put(ring, &value) == RP_OK && is_readable(rp_ring_event_fd(ring), 0));
    CHECK(rp_ring_prepare_sleep(ring) == 0 && !is_readable(rp_ring_event_fd(ring), 0));
    CHECK(rp_ring_put(ring, &value) == RP_OK && !is_readable(rp_ring_event_fd(ring), 0));
    CHECK(rp_ring_take(ring, &item, 1) == 1 && rp_ring_take(ring, &item, 1) == 1);
    CHECK(rp_ring_prepare_sleep(ring) == 1);
    CHECK(rp_ring_put(ring, &value) == RP_OK && is_readable(rp_ring_event_fd(ring), 0));
    rp_ring_destroy(ring);
}

static void a_log_keeps_a_thousand_lines_and_counts_the_rest(void) {
    rp_log *log;
    static rp_log_line lines[2000];
    CHECK(rp_log_create(&log) == RP_OK);
    CHECK(!is_readable(rp_log_event_fd(log), 0));
    for (int index = 0; index < 1030; index++) {
        rp_log_write(log, RP_LOG_WARNING, "line %d", index);
    }
    CHECK(is_readable(rp_log_event_fd(log), 0));
    CHECK(rp_log_dropped(log) == 6);
    CHECK(rp_log_take(log, lines, 24) == 24 && is_readable(rp_log_event_fd(log), 0));
    CHECK(rp_log_take(log, lines, 2000) == 1000 && !is_readable(rp_log_event_fd(log), 0));
    CHECK(lines[999].level == RP_LOG_WARNING && strcmp(lines[999].text, "line 1023") == 0 && lines[999].wall_ms > 0);
    rp_log_write(NULL, RP_LOG_INFO, "not shown");
    rp_log_destroy(log);
}

static int64_t fixed_time(void *context) { return *(int64_t *)context; }

static void a_clock_can_be_turned_by_hand(void) {
    int64_t now = 42;
    rp_clock clock = {fixed_time, fixed_time, &now};
    CHECK(rp_clock_monotonic_ns(&clock) == 42 && rp_clock_wall_ms(&clock) == 42);
    int64_t before = rp_clock_monotonic_ns(NULL);
    CHECK(rp_clock_monotonic_ns(NULL) >= before && rp_clock_wall_ms(NULL) > 1600000000000);
}

/* Found in an earlier version of the hash: a certain word made everything before it, and the word after it, count for nothing. */
static void no_word_hides_others(void) {
    static const uint8_t word[] = {0x93, 0xFD, 0x59, 0x66, 0xB8, 0xFE, 0xE8, 0xD6};
    uint8_t text[40] = {0};
    memcpy(text + 16, word, sizeof word);
    uint64_t hash = rp_hash_bytes(text, sizeof text, 7);
    CHECK(rp_hash_bytes(text, sizeof text, 8) != hash);
    text[0] = 1;
    CHECK(rp_hash_bytes(text, sizeof text, 7) != hash);
}

/* What a JDK 17 says of `new String(bytes, UTF_8).hashCode()`. */
static void text_hashes_as_in_java_whatever_its_bytes(void) {
    static const struct {
        const char *bytes;
        size_t size;
        int32_t hash;
    } cases[] = {
        {"TagA", 4, 2598919},
        {"\xE6\xA0\x87\xE7\xAD\xBE", 6, 857175},
        {"\xF0\x9F\x98\x80", 4, 1772899},    /* a pair of surrogates */
        {"\xE4\xB8(", 3, 2031563},           /* broken off: one U+FFFD */
        {"\xE4\xB8", 2, 65533},
        {"\xF0\x9F\x98(", 4, 2031563},
        {"\xC3(", 2, 2031563},
        {"\xC3", 1, 65533},
        {"\xED\xA0\x80", 3, 65533},          /* half a pair: one */
        {"\xED\xA0", 2, 65533},
        {"\xF0\x80\x80\x80", 4, 2017367872}, /* overlong: one a byte */
        {"\xE0\x80\x80", 3, 65074269},
        {"\xC0\x80", 2, 2097056},
        {"\xF4\x90\x80\x80", 4, 2017367872}, /* past U+10FFFF */
        {"\xFF\xFE", 2, 2097056},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t *exact = malloc(cases[i].size); /* so that a read past the end is seen */
        CHECK(exact != NULL);
        memcpy(exact, cases[i].bytes, cases[i].size);
        CHECK(rp_hash_java(exact, cases[i].size) == cases[i].hash);
        free(exact);
    }
}

int main(void) {
    RUN(every_status_has_a_name_and_a_text);
    RUN(the_remedy_is_the_causes);
    RUN(an_error_keeps_its_cause_and_cuts_what_is_too_long);
    RUN(text_hashes_as_in_java_whatever_its_bytes);
    RUN(no_word_hides_others);
    RUN(arena_memory_is_aligned_disjoint_and_bounded);
    RUN(an_arena_keeps_no_large_block_even_when_it_is_the_first);
    RUN(what_is_given_back_to_an_arena_is_taken_again);
    RUN(a_ring_keeps_each_producers_order_and_wakes_the_consumer);
    RUN(a_full_ring_says_busy_and_changes_nothing);
    RUN(a_busy_consumer_costs_no_event);
    RUN(a_log_keeps_a_thousand_lines_and_counts_the_rest);
    RUN(a_clock_can_be_turned_by_hand);
    return 0;
}
