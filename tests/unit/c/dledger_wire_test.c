/* dledger_wire_test.c: pushes and answers as text: written, read, mutated; and base64. */
#include <stdlib.h>
#include <string.h>

#include "../../../csrc/base/base64.h"
#include "../../../csrc/base/error.h"
#include "../../../csrc/ha/dledger_pusher.h"
#include "../../../csrc/ha/dledger_wire.h"
#include "check.h"

static rp_slice text_of(const char *text) { return (rp_slice){(const uint8_t *)text, (uint32_t)strlen(text)}; }

static void base64_goes_there_and_back(void) {
    uint8_t bytes[64], text[96], back[64];
    for (uint32_t size = 0; size < sizeof bytes; size++) {
        for (uint32_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)(i * 151 + size * 7);
        rp_base64_encode(bytes, size, text);
        uint32_t length = (uint32_t)RP_BASE64_SIZE(size);
        CHECK(rp_base64_decoded_size(text, length) == size);
        CHECK(rp_base64_decode(text, length, back) == RP_OK && memcmp(back, bytes, size) == 0);
    }
    rp_base64_encode((const uint8_t *)"any carnal pleas", 16, text);
    CHECK(memcmp(text, "YW55IGNhcm5hbCBwbGVhcw==", 24) == 0);
    static const char *const wrong[] = {"A", "AAA", "A===", "A=AA", "AA=A", "AAA*", "AB==", "AAB=", "\xC3\xA4==", "    ", NULL};
    for (int i = 0; wrong[i] != NULL; i++)
        CHECK(rp_base64_decode((const uint8_t *)wrong[i], (uint32_t)strlen(wrong[i]), back) != RP_OK);
}

static uint32_t write_push(const rp_push_envelope *envelope, const rp_ledger_entry *entries, uint32_t count, int is_batch,
                           uint8_t *target) {
    uint32_t size = rp_push_begin(envelope, is_batch, count, target);
    for (uint32_t i = 0; i < count; i++)
        size += rp_push_add(&entries[i], (const uint8_t *)"hello", i == 0, target + size);
    return size + rp_push_end(is_batch, target + size);
}

static const rp_push_envelope envelope = {"G", "n0", "n1", 7, 41, RP_PUSH_APPEND};
static const rp_ledger_entry entries[] = {
    {.index = 42, .term = 6, .position = 1000, .size = RP_LEDGER_HEAD_SIZE + 5},
    {.index = 43, .term = 7, .position = 1053, .size = RP_LEDGER_HEAD_SIZE + 5, .channel = -1, .chain_crc = 3, .body_crc = -2147483647},
};

static void what_is_written_is_read(void) {
    uint8_t text[4096], bytes[128];
    rp_push_request request;
    rp_arena *arena = rp_arena_create(4096, 1 << 20);
    for (int is_batch = 0; is_batch < 2; is_batch++) {
        uint32_t count = is_batch ? 2 : 1, size = write_push(&envelope, entries, count, is_batch, text);
        CHECK(rp_push_request_read((rp_slice){text, size}, arena, &request) == RP_OK);
        CHECK(request.term == 7 && request.commit_index == 41 && request.type == RP_PUSH_APPEND && request.entry_count == count);
        CHECK(request.leader_id.size == 2 && memcmp(request.leader_id.data, "n0", 2) == 0 && memcmp(request.remote_id.data, "n1", 2) == 0);
        for (uint32_t i = 0; i < count; i++) {
            rp_ledger_entry back;
            CHECK(rp_push_entry_decode(&request.entries[i], bytes) == RP_OK);
            CHECK(rp_ledger_entry_decode(bytes, sizeof bytes, &back) == RP_LEDGER_ENTRY && memcmp(&back, &entries[i], sizeof back) == 0);
            CHECK(memcmp(bytes + RP_LEDGER_HEAD_SIZE, "hello", 5) == 0);
        }
    }
    uint32_t size = write_push(&(rp_push_envelope){"G", "n0", "n1", 7, 41, RP_PUSH_COMMIT}, entries, 0, 0, text);
    CHECK(rp_push_request_read((rp_slice){text, size}, arena, &request) == RP_OK && request.type == RP_PUSH_COMMIT &&
          request.entry_count == 0);
    rp_push_response response = {.code = 406, .count = 1, .term = 9, .index = 5, .begin_index = 2, .end_index = 8}, back;
    size = rp_push_response_write(&response, "G", text, sizeof text);
    CHECK(rp_push_response_read((rp_slice){text, size}, arena, &back) == RP_OK && memcmp(&back, &response, sizeof back) == 0);
    rp_arena_destroy(arena);
}

/* As fastjson of DLedger 0.3.2 writes them. */
static void a_dledgers_words_are_read(void) {
    rp_push_request request;
    rp_push_response response;
    rp_arena *arena = rp_arena_create(4096, 1 << 20);
    rp_slice text =
        text_of("{\"batch\":false,\"batchEntry\":[],\"code\":200,\"commitIndex\":11,\"count\":1,\"entry\":{\"body\":\"aGVsbG8=\","
                "\"bodyCrc\":0,\"chainCrc\":0,\"channel\":0,\"index\":12,\"magic\":1,\"pos\":640,\"size\":53,\"term\":3},"
                "\"firstEntryIndex\":12,\"group\":\"G\",\"lastEntryIndex\":12,\"leaderId\":\"n0\",\"localId\":\"n0\","
                "\"remoteId\":\"n1\",\"term\":3,\"totalSize\":0,\"type\":\"COMPARE\"}");
    CHECK(rp_push_request_read(text, arena, &request) == RP_OK);
    CHECK(request.type == RP_PUSH_COMPARE && request.entry_count == 1 && request.entries[0].head.position == 640);
    text = text_of("{\"beginIndex\":0,\"code\":200,\"count\":1,\"endIndex\":12,\"group\":\"G\",\"index\":12,\"term\":3}");
    CHECK(rp_push_response_read(text, arena, &response) == RP_OK && response.end_index == 12);
    text =
        text_of("{\"beginIndex\":0,\"code\":200,\"count\":0,\"endIndex\":12,\"group\":\"G\",\"index\":null,\"term\":3}"); /* of a COMMIT */
    CHECK(rp_push_response_read(text, arena, &response) == RP_OK);
    rp_arena_destroy(arena);
}

static void strangers_words_are_refused(void) {
    static const char *const wrong[] = {
        "",
        "null",
        "[]",
        "{\"term\":\"x\"}",
        "{\"type\":\"NOTHING\"}",
        "{\"type\":7}",
        "{\"term\":99999999999999999999}",
        "{\"entry\":7}",
        "{\"entry\":{}}",
        "{\"entry\":{\"magic\":2,\"size\":53,\"index\":1,\"term\":1,\"pos\":0,\"body\":\"aGVsbG8=\"}}",
        "{\"entry\":{\"magic\":1,\"size\":52,\"index\":1,\"term\":1,\"pos\":0,\"body\":\"aGVsbG8=\"}}",
        "{\"entry\":{\"magic\":1,\"size\":53,\"index\":-1,\"term\":1,\"pos\":0,\"body\":\"aGVsbG8=\"}}",
        "{\"entry\":{\"magic\":1,\"size\":53,\"index\":1,\"term\":1,\"pos\":9223372036854775807,\"body\":\"aGVsbG8=\"}}",
        "{\"entry\":{\"magic\":1,\"size\":53,\"index\":1,\"term\":1,\"pos\":0,\"channel\":4294967296,\"body\":\"aGVsbG8=\"}}",
        "{\"entry\":{\"magic\":1,\"size\":48,\"index\":1,\"term\":1,\"pos\":0,\"body\":\"\"}}",
        "{\"batchEntry\":[1]}",
        "{\"batchEntry\":{}}",
        "{\"group\":\"G",
        NULL};
    rp_push_request request;
    rp_arena *arena = rp_arena_create(4096, 1 << 20);
    for (int i = 0; wrong[i] != NULL; i++)
        CHECK(rp_push_request_read(text_of(wrong[i]), arena, &request) != RP_OK);
    rp_arena_destroy(arena);
}

/* However the text is changed, it is read or refused; and a body that was read is decoded or refused. */
static void mutated_words_do_no_harm(void) {
    uint8_t text[1024], mutated[1024], bytes[1024];
    uint32_t size = write_push(&envelope, entries, 2, 1, text), seed = 12345;
    rp_arena *arena = rp_arena_create(4096, 1 << 20);
    for (int round = 0; round < 20000; round++) {
        uint32_t length = round % 3 == 0 ? seed % size : size;
        memcpy(mutated, text, length);
        for (int change = 0; change < 1 + round % 4 && length > 0; change++) {
            seed = seed * 1103515245 + 12345;
            mutated[(seed >> 8) % length] = (uint8_t)(seed >> 3);
        }
        uint8_t *exact = malloc(length + 1); /* exactly as large, so that a sanitizer sees a read behind it */
        memcpy(exact, mutated, length);
        rp_push_request request;
        rp_push_response response;
        rp_arena_reset(arena);
        if (rp_push_request_read((rp_slice){exact, length}, arena, &request) == RP_OK) {
            for (uint32_t i = 0; i < request.entry_count; i++)
                if (request.entries[i].head.size <= sizeof bytes)
                    (void)rp_push_entry_decode(&request.entries[i], bytes);
        }
        (void)rp_push_response_read((rp_slice){exact, length}, arena, &response);
        free(exact);
    }
    rp_arena_destroy(arena);
}

static rp_pusher_view view_at(int64_t now_ms) {
    return (rp_pusher_view){.begin_index = 0,
                            .end_index = 100,
                            .committed_index = 50,
                            .now_ms = now_ms,
                            .window = 10,
                            .window_bytes = 1000,
                            .retry_ms = 500,
                            .commit_interval_ms = 1000};
}

static void answer(rp_pusher *pusher, rp_push *push, int32_t code, int64_t begin_index, int64_t end_index, const rp_pusher_view *view) {
    push->last_index = push->index;
    push->bytes = 10;
    rp_pusher_sent(pusher, push, view);
    const rp_push_response response = {.code = code, .begin_index = begin_index, .end_index = end_index};
    rp_pusher_answered(pusher, push, &response, view);
}

static void a_follower_is_compared_cut_and_appended_to(void) {
    rp_pusher pusher = {0};
    rp_push push;
    rp_pusher_view view = view_at(1000);
    rp_pusher_begin(&pusher, 3);
    CHECK(rp_pusher_next(&pusher, &view, &push) && push.type == RP_PUSH_COMPARE && push.index == 100);
    CHECK(push.commit_index == -1); /* the follower is not known to have any entry */
    answer(&pusher, &push, RP_DLEDGER_INCONSISTENT_STATE, 0, 90, &view);
    CHECK(rp_pusher_next(&pusher, &view, &push) && push.type == RP_PUSH_COMPARE && push.index == 90);
    answer(&pusher, &push, RP_DLEDGER_INCONSISTENT_STATE, 0, 90, &view);
    CHECK(rp_pusher_next(&pusher, &view, &push) && push.index == 89);
    answer(&pusher, &push, RP_DLEDGER_SUCCESS, 0, 90, &view);
    CHECK(rp_pusher_next(&pusher, &view, &push) && push.type == RP_PUSH_TRUNCATE && push.index == 89 && push.commit_index == 50);
    answer(&pusher, &push, RP_DLEDGER_SUCCESS, 0, 89, &view);
    for (int64_t index = 90; index < 100; index++) { /* a window of ten */
        CHECK(rp_pusher_next(&pusher, &view, &push) && push.type == RP_PUSH_APPEND && push.index == index);
        push.last_index = index;
        push.bytes = 10;
        rp_pusher_sent(&pusher, &push, &view);
    }
    CHECK(!rp_pusher_next(&pusher, &view, &push));
    push = (rp_push){.type = RP_PUSH_APPEND, .index = 90, .last_index = 99, .bytes = 100, .generation = pusher.generation};
    const rp_push_response done = {.code = RP_DLEDGER_SUCCESS};
    rp_pusher_answered(&pusher, &push, &done, &view);
    CHECK(pusher.matched_index == 99 && rp_pusher_next(&pusher, &view, &push) && push.index == 100);
    answer(&pusher, &push, RP_DLEDGER_SUCCESS, 0, 100, &view);
    view.committed_index = 100;
    CHECK(rp_pusher_next(&pusher, &view, &push) && push.type == RP_PUSH_COMMIT && push.commit_index == 100);
    rp_pusher_sent(&pusher, &push, &view);
    CHECK(!rp_pusher_next(&pusher, &view, &push) && rp_pusher_due_ms(&pusher, &view) == 2000);
    view.now_ms = 2000;
    CHECK(rp_pusher_next(&pusher, &view, &push) && push.type == RP_PUSH_COMMIT);
}

static void a_follower_with_nothing_begins_with_the_log(void) {
    rp_pusher pusher = {0};
    rp_push push;
    rp_pusher_view view = view_at(1000);
    view.begin_index = 30;
    rp_pusher_begin(&pusher, 3);
    CHECK(rp_pusher_next(&pusher, &view, &push));
    answer(&pusher, &push, RP_DLEDGER_INCONSISTENT_STATE, -1, -1, &view);
    CHECK(rp_pusher_next(&pusher, &view, &push) && push.type == RP_PUSH_TRUNCATE && push.index == 30);
    answer(&pusher, &push, RP_DLEDGER_INCONSISTENT_STATE, 0, 20, &view); /* the follower has committed other entries there */
    CHECK(!rp_pusher_next(&pusher, &view, &push) && rp_pusher_due_ms(&pusher, &view) == 1500);
    view.now_ms = 1501; /* the pause ends between the two calls */
    CHECK(rp_pusher_due_ms(&pusher, &view) == 1500);
    view.now_ms = 1500;
    CHECK(rp_pusher_next(&pusher, &view, &push) && push.type == RP_PUSH_COMPARE);
    answer(&pusher, &push, RP_DLEDGER_TERM_NOT_READY, 0, 20, &view);
    CHECK(rp_pusher_due_ms(&pusher, &view) == 1550);
}

static void late_answers_count_only_when_they_are_good(void) {
    rp_pusher pusher = {0};
    rp_push push, old;
    rp_pusher_view view = view_at(1000);
    rp_pusher_begin(&pusher, 3);
    CHECK(rp_pusher_next(&pusher, &view, &push));
    view.end_index = 60;
    push.index = 40;
    answer(&pusher, &push, RP_DLEDGER_SUCCESS, 0, 40, &view);
    CHECK(rp_pusher_next(&pusher, &view, &old) && old.type == RP_PUSH_APPEND && old.index == 41);
    old.last_index = 41;
    rp_pusher_sent(&pusher, &old, &view);
    rp_pusher_lost(&pusher, &view);
    const rp_push_response bad = {.code = RP_DLEDGER_INCONSISTENT_STATE}, good = {.code = RP_DLEDGER_SUCCESS};
    view.now_ms = 1600;
    CHECK(rp_pusher_next(&pusher, &view, &push) && push.type == RP_PUSH_COMPARE && push.index == 60);
    rp_pusher_answered(&pusher, &old, &bad, &view);
    CHECK(pusher.matched_index == 40 && rp_pusher_next(&pusher, &view, &push));
    rp_pusher_answered(&pusher, &old, &good, &view);
    CHECK(pusher.matched_index == 41);
}

/* One that agrees about the last entry and refuses the next, as with data files of another size, is asked now and then. */
static void who_refuses_is_not_asked_without_a_pause(void) {
    rp_pusher pusher = {0};
    rp_push push;
    rp_pusher_view view = view_at(1000);
    int pushes = 0;
    rp_pusher_begin(&pusher, 3);
    while (rp_pusher_next(&pusher, &view, &push)) {
        CHECK(++pushes < 20);
        int is_refused = push.index != 40;
        answer(&pusher, &push, is_refused ? RP_DLEDGER_INCONSISTENT_STATE : RP_DLEDGER_SUCCESS, 0, 40, &view);
    }
    CHECK(rp_pusher_due_ms(&pusher, &view) == 1500);
    view.now_ms = 1500;
    while (rp_pusher_next(&pusher, &view, &push)) { /* the files fit now: pushes go on at once */
        CHECK(++pushes < 120);
        answer(&pusher, &push, push.type == RP_PUSH_COMPARE && push.index > 40 ? RP_DLEDGER_INCONSISTENT_STATE : RP_DLEDGER_SUCCESS, 0,
               push.type == RP_PUSH_APPEND ? push.index : 40, &view);
    }
    CHECK(pusher.matched_index == 100);
}

/* Entries that the follower has shown to be gone no longer count as held. */
static void who_has_lost_its_log_counts_anew(void) {
    rp_pusher pusher = {0};
    rp_push push;
    rp_pusher_view view = view_at(1000);
    rp_pusher_begin(&pusher, 3);
    CHECK(rp_pusher_next(&pusher, &view, &push));
    answer(&pusher, &push, RP_DLEDGER_SUCCESS, 0, 100, &view);
    CHECK(pusher.matched_index == 100);
    rp_pusher_lost(&pusher, &view);
    view.now_ms = 1500;
    CHECK(rp_pusher_next(&pusher, &view, &push) && push.type == RP_PUSH_COMPARE && push.index == 100);
    answer(&pusher, &push, RP_DLEDGER_INCONSISTENT_STATE, 0, 70, &view);
    CHECK(pusher.matched_index == -1 && rp_pusher_next(&pusher, &view, &push) && push.index == 70);
    answer(&pusher, &push, RP_DLEDGER_SUCCESS, 0, 70, &view);
    CHECK(pusher.matched_index == 70 && rp_pusher_next(&pusher, &view, &push) && push.type == RP_PUSH_APPEND && push.index == 71);
}

int main(void) {
    RUN(who_refuses_is_not_asked_without_a_pause);
    RUN(who_has_lost_its_log_counts_anew);
    RUN(base64_goes_there_and_back);
    RUN(what_is_written_is_read);
    RUN(a_dledgers_words_are_read);
    RUN(strangers_words_are_refused);
    RUN(mutated_words_do_no_harm);
    RUN(a_follower_is_compared_cut_and_appended_to);
    RUN(a_follower_with_nothing_begins_with_the_log);
    RUN(late_answers_count_only_when_they_are_good);
    return 0;
}
