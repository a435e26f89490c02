/* pop_order_test.c: the state of order consumers: how often each message was consumed, acks, invisible times, attempts; old files. */
#include <string.h>

#include "broker/pop_order.h"
#include "check.h"

#define POPPED_MS 1000000
#define LONG_MS 3000

static const rp_slice nobody = {NULL, 0};

static rp_slice text(const char *chars) { return (rp_slice){(const uint8_t *)chars, (uint32_t)strlen(chars)}; }

/* `count` messages from `first` on; before[i]: how often each was consumed until now. */
static void pop(rp_pop_order *order, rp_slice attempt_id, int64_t first, uint32_t count, const int32_t *before) {
    int64_t offsets[RP_POP_MESSAGES_MAX];
    for (uint32_t i = 0; i < count; i++)
        offsets[i] = first + i;
    rp_pop_order_update(order, attempt_id, POPPED_MS, LONG_MS, offsets, count);
    CHECK(order->count == count && order->acked == 0);
    for (uint32_t i = 0; i < count; i++)
        CHECK(order->offsets[i] == first + i && order->times[i] == before[i]);
}

static int64_t blocked_until(rp_pop_order *order, int64_t now_ms) { return rp_pop_order_blocked_until(order, nobody, LONG_MS, now_ms); }

static void each_message_is_counted_for_as_long_as_it_comes(void) {
    rp_pop_order order = {0};
    pop(&order, nobody, 1, 3, (const int32_t[]){0, 0, 0});
    pop(&order, nobody, 1, 3, (const int32_t[]){1, 1, 1});
    pop(&order, nobody, 2, 2, (const int32_t[]){2, 2});
    pop(&order, nobody, 3, 2, (const int32_t[]){3, 0});
    pop(&order, nobody, 5, 2, (const int32_t[]){0, 0});
    order.times[1] = INT32_MAX;
    pop(&order, nobody, 6, 1, (const int32_t[]){INT32_MAX});
}

static void the_same_attempt_is_not_blocked_and_not_counted(void) {
    rp_pop_order order = {0};
    pop(&order, text("one"), 1, 2, (const int32_t[]){0, 0});
    CHECK(rp_pop_order_blocked_until(&order, text("one"), LONG_MS, POPPED_MS) == 0);
    CHECK(rp_pop_order_blocked_until(&order, text("on"), LONG_MS, POPPED_MS) == POPPED_MS + LONG_MS);
    CHECK(blocked_until(&order, POPPED_MS) == POPPED_MS + LONG_MS);
    pop(&order, text("one"), 1, 2, (const int32_t[]){0, 0});
    pop(&order, text("two"), 1, 2, (const int32_t[]){1, 1});
    pop(&order, nobody, 1, 2, (const int32_t[]){2, 2});
    CHECK(rp_pop_order_blocked_until(&order, text(""), LONG_MS, POPPED_MS) != 0); /* the pop before had no attempt id */
}

static void a_suspended_pop_was_none(void) {
    rp_pop_order order = {0};
    pop(&order, nobody, 1, 3, (const int32_t[]){0, 0, 0});
    pop(&order, nobody, 1, 3, (const int32_t[]){1, 1, 1});
    CHECK(rp_pop_order_ack(&order, 1, POPPED_MS) == 2 && !rp_pop_order_is_over(&order));
    CHECK(rp_pop_order_suspend(&order, POPPED_MS + 1, 0, POPPED_MS) == 0 && rp_pop_order_suspend(NULL, POPPED_MS, 0, POPPED_MS) == 0);
    CHECK(rp_pop_order_suspend(&order, POPPED_MS, 9, POPPED_MS) == 1);
    CHECK(blocked_until(&order, POPPED_MS) == POPPED_MS + 9 && blocked_until(&order, POPPED_MS + 9) == 0);
    pop(&order, nobody, 2, 2, (const int32_t[]){1, 1});
    CHECK(rp_pop_order_ack(&order, 2, POPPED_MS) == 3 && rp_pop_order_ack(&order, 3, POPPED_MS) == 4 && rp_pop_order_is_over(&order));
    CHECK(rp_pop_order_is_over(NULL));
}

static void a_clock_set_back_does_not_block_for_as_long(void) {
    rp_pop_order order = {0};
    pop(&order, nobody, 1, 2, (const int32_t[]){0, 0});
    CHECK(rp_pop_order_change(&order, 2, POPPED_MS, 1, POPPED_MS) == 1);
    const int64_t back_ms = POPPED_MS / 2;
    CHECK(rp_pop_order_ack(&order, 2, POPPED_MS) == 1);
    CHECK(blocked_until(&order, back_ms) == back_ms + LONG_MS && blocked_until(&order, back_ms + 1) == back_ms + LONG_MS);
    CHECK(blocked_until(&order, back_ms + LONG_MS) == 0);
    CHECK(rp_pop_order_ack(&order, 1, POPPED_MS) == 3); /* the handle is the same */
}

/* Changed before the clock was set back, or after it; set back again; and set back for so little that it may be two threads. */
static void nor_does_it_what_the_consumer_changed(void) {
    rp_pop_order order = {0};
    const int64_t back_ms = POPPED_MS / 2, again_ms = back_ms / 2;
    pop(&order, nobody, 1, 3, (const int32_t[]){0, 0, 0});
    CHECK(rp_pop_order_change(&order, 1, POPPED_MS, 4 * LONG_MS, POPPED_MS) == 1);
    CHECK(blocked_until(&order, POPPED_MS + 1) == POPPED_MS + 4 * LONG_MS && blocked_until(&order, POPPED_MS) == POPPED_MS + 4 * LONG_MS);
    CHECK(blocked_until(&order, back_ms + 1) == back_ms + 4 * LONG_MS);
    CHECK(rp_pop_order_change(&order, 2, POPPED_MS, 5 * LONG_MS, back_ms + 2) == 1);
    CHECK(blocked_until(&order, back_ms + 2) == back_ms + 2 + 5 * LONG_MS);
    CHECK(rp_pop_order_change(&order, 3, POPPED_MS, 6 * LONG_MS, again_ms) == 1);
    CHECK(blocked_until(&order, again_ms) == again_ms + 6 * LONG_MS);
    CHECK(rp_pop_order_ack(&order, 3, POPPED_MS) == 1);
    CHECK(blocked_until(&order, again_ms) == again_ms + 5 * LONG_MS && rp_pop_order_ack(&order, 2, POPPED_MS) == 1);
    CHECK(blocked_until(&order, again_ms + 4 * LONG_MS) == 0);
    CHECK(blocked_until(&order, 10) == 0); /* what was free stays so */
}

/* What the file has of a clock that was set back before it was written is believed: the times that were changed since are of that clock. */
static void a_clock_set_back_is_noticed_once_although_the_broker_starts_again(void) {
    rp_pop_order order = {0};
    const int64_t back_ms = POPPED_MS / 2;
    pop(&order, nobody, 1, 1, (const int32_t[]){0});
    CHECK(rp_pop_order_change(&order, 1, POPPED_MS, 3 * LONG_MS, back_ms) == 1);
    order.seen_ms = 0; /* as after a load */
    CHECK(blocked_until(&order, back_ms + 10) == back_ms + 3 * LONG_MS);
}

/* The file has no time at which it was written, but the last at which messages were popped or the clock was set back. */
static void a_clock_set_back_while_the_broker_was_away_is_noticed(void) {
    rp_pop_order order = {.pop_time_ms = POPPED_MS, .invisible_ms = LONG_MS, .count = 1, .offsets = {1}, .visible_ms = {POPPED_MS + 9}};
    CHECK(blocked_until(&order, POPPED_MS / 2) == POPPED_MS / 2 + 9);
    CHECK(rp_pop_order_suspend(&order, POPPED_MS, 7, POPPED_MS / 4) == 1 && blocked_until(&order, POPPED_MS / 4) == POPPED_MS / 4 + 7);
}

static void an_ack_of_another_pop_says_nothing(void) {
    rp_pop_order order = {0};
    CHECK(rp_pop_order_ack(&order, 7, POPPED_MS) == 8 && rp_pop_order_ack(NULL, 7, POPPED_MS) == 8);
    CHECK(rp_pop_order_ack(NULL, INT64_MAX, POPPED_MS) == RP_POP_ORDER_ILLEGAL);
    pop(&order, nobody, 1, 1, (const int32_t[]){0});
    CHECK(rp_pop_order_ack(&order, 1, POPPED_MS - 10) == RP_POP_ORDER_STALE && blocked_until(&order, POPPED_MS) != 0);
    CHECK(rp_pop_order_ack(&order, 2, POPPED_MS) == RP_POP_ORDER_ILLEGAL);
    CHECK(rp_pop_order_change(&order, 1, POPPED_MS - 10, 0, POPPED_MS) == 0 &&
          rp_pop_order_change(&order, 2, POPPED_MS, 0, POPPED_MS) == 0);
    CHECK(rp_pop_order_ack(&order, 1, POPPED_MS) == 2 && blocked_until(&order, POPPED_MS) == 0);
}

static void the_offset_waits_for_the_first_that_is_not_acked(void) {
    rp_pop_order order = {0};
    pop(&order, nobody, 1, 3, (const int32_t[]){0, 0, 0});
    CHECK(rp_pop_order_change(&order, 2, POPPED_MS, 2 * LONG_MS, POPPED_MS) == 1);
    CHECK(rp_pop_order_ack(&order, 1, POPPED_MS) == 2 && rp_pop_order_ack(&order, 3, POPPED_MS) == 2);
    CHECK(blocked_until(&order, POPPED_MS + LONG_MS) == POPPED_MS + 2 * LONG_MS); /* longer */
    CHECK(rp_pop_order_change(&order, 2, POPPED_MS, 1, POPPED_MS) == 1);
    CHECK(blocked_until(&order, POPPED_MS) == POPPED_MS + 1 && blocked_until(&order, POPPED_MS + 1) == 0); /* shorter */
    pop(&order, nobody, 2, 3, (const int32_t[]){1, 1, 0});
    CHECK(blocked_until(&order, POPPED_MS + 1) == POPPED_MS + LONG_MS); /* the change applied only to the pop before */
    CHECK(rp_pop_order_ack(&order, 4, POPPED_MS) == 2 && rp_pop_order_ack(&order, 3, POPPED_MS) == 2);
    CHECK(rp_pop_order_ack(&order, 2, POPPED_MS) == 5 && blocked_until(&order, POPPED_MS) == 0);
}

static void what_was_acked_elsewhere_is_out_no_more(void) {
    rp_pop_order order = {0};
    pop(&order, nobody, 1, 3, (const int32_t[]){0, 0, 0});
    rp_pop_order_pass(&order, 3);
    CHECK(blocked_until(&order, POPPED_MS) == POPPED_MS + LONG_MS && rp_pop_order_ack(&order, 3, POPPED_MS) == 4);
    pop(&order, nobody, 3, 2, (const int32_t[]){1, 0});
    rp_pop_order_pass(&order, 9);
    CHECK(blocked_until(&order, POPPED_MS) == 0 && rp_pop_order_is_over(&order));
    rp_pop_order_pass(NULL, 9);
}

/* Before there were invisible times and counts in the file. */
static void what_an_old_version_left_blocks_for_as_long_as_the_next_pop_says(void) {
    rp_pop_order order = {.pop_time_ms = POPPED_MS, .count = 3, .offsets = {2, 3, 4}};
    CHECK(blocked_until(&order, POPPED_MS + 1) == POPPED_MS + LONG_MS);
    pop(&order, nobody, 3, 3, (const int32_t[]){1, 1, 0});
}

int main(void) {
    each_message_is_counted_for_as_long_as_it_comes();
    the_same_attempt_is_not_blocked_and_not_counted();
    a_suspended_pop_was_none();
    a_clock_set_back_does_not_block_for_as_long();
    nor_does_it_what_the_consumer_changed();
    a_clock_set_back_is_noticed_once_although_the_broker_starts_again();
    a_clock_set_back_while_the_broker_was_away_is_noticed();
    an_ack_of_another_pop_says_nothing();
    the_offset_waits_for_the_first_that_is_not_acked();
    what_was_acked_elsewhere_is_out_no_more();
    what_an_old_version_left_blocks_for_as_long_as_the_next_pop_says();
    return 0;
}
