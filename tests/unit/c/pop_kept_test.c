/* pop_kept_test.c: checkpoints in memory: found by acks, in the order of due time and of offset, bounds. */
#include <string.h>

#include "base/error.h"
#include "broker/pop_kept.h"
#include "check.h"

#define HOUR_MS (INT64_C(3600) * 1000)

static const rp_slice broker = {(const uint8_t *)"b", 1};

static rp_slice text(const char *chars) { return (rp_slice){(const uint8_t *)chars, (uint32_t)strlen(chars)}; }

static rp_pop_checkpoint of_pop(int64_t start, int64_t pop_time_ms, uint32_t count) {
    return (rp_pop_checkpoint){
        .topic = text("T"), .group = text("G"), .broker_name = broker, .start_offset = start, .pop_time_ms = pop_time_ms, .count = count};
}

static uint32_t ack(rp_kept_table *table, int64_t start, int64_t pop_time_ms, int64_t offset) {
    rp_pop_ack ack = {
        .topic = text("T"), .group = text("G"), .start_offset = start, .pop_time_ms = pop_time_ms, .offset_count = 1, .offsets = &offset};
    return rp_kept_ack(table, &ack, broker);
}

static void acks_find_their_checkpoint(void) {
    rp_kept_table table;
    rp_kept_queue queue = {0};
    CHECK(rp_kept_table_init(&table, 1000) == RP_OK);
    rp_pop_checkpoint side_by_side = of_pop(100, 5, 3), apart = of_pop(200, 5, 2), all = of_pop(300, 5, 32);
    apart.diff_count = 2;
    apart.diffs[0] = 4;
    apart.diffs[1] = 9;
    apart.bits = 1;
    all.start_offset = INT64_MAX - 40;
    all.broker_name = (rp_slice){NULL, 0}; /* of an old version: it is this broker's */
    CHECK(rp_kept_add(&table, &queue, &side_by_side, broker, 0, 0, 10) == RP_OK);
    CHECK(rp_kept_add(&table, &queue, &apart, broker, 1, 0, 20) == RP_OK);
    CHECK(rp_kept_add(&table, &queue, &all, broker, 2, 0, 30) == RP_OK);
    rp_kept_checkpoint *kept = rp_kept_next(&queue);
    CHECK(kept->start_offset == 100 && !rp_kept_is_over(kept));
    CHECK(ack(&table, 100, 6, 100) == 0 && ack(&table, 101, 5, 101) == 0 && kept->over == 0);
    CHECK(ack(&table, 100, 5, 99) == 1 && ack(&table, 100, 5, 103) == 1 && ack(&table, 100, 5, INT64_MIN) == 1 && kept->over == 0);
    CHECK(ack(&table, 100, 5, 100) == 1 && ack(&table, 100, 5, 102) == 1 && kept->over == 5);
    CHECK(ack(&table, 100, 5, 101) == 1 && rp_kept_is_over(kept));
    rp_kept_remove(&table, &queue, kept);
    CHECK(ack(&table, 100, 5, 100) == 0);
    kept = rp_kept_next(&queue);
    CHECK(kept->start_offset == 200 && kept->over == 1);
    CHECK(ack(&table, 200, 5, 200) == 1 && ack(&table, 200, 5, 205) == 1 && !rp_kept_is_over(kept));
    CHECK(ack(&table, 200, 5, 209) == 1 && rp_kept_is_over(kept));
    rp_kept_remove(&table, &queue, kept);
    kept = rp_kept_next(&queue);
    for (int64_t offset = INT64_MAX - 40; offset < INT64_MAX - 8; offset++)
        CHECK(!rp_kept_is_over(kept) && ack(&table, INT64_MAX - 40, 5, offset) == 1);
    CHECK(rp_kept_is_over(kept));
    rp_kept_queue_free(&table, &queue);
    rp_kept_table_free(&table);
}

static void they_are_due_in_order_and_the_oldest_is_known(void) {
    enum { COUNT = 5000 };
    rp_kept_table table;
    rp_kept_queue queue = {0};
    CHECK(rp_kept_table_init(&table, 4 * COUNT) == RP_OK);
    uint32_t random = 12345;
    for (int64_t i = 0; i < COUNT; i++) {
        random = random * 1664525 + 1013904223;
        rp_pop_checkpoint checkpoint = of_pop(i, 1, 1);
        checkpoint.invisible_ms = random & 0x10000 ? 2 * HOUR_MS : 1;
        CHECK(rp_kept_add(&table, &queue, &checkpoint, broker, i, 0, random >> 8 & 0x3FF) == RP_OK);
    }
    CHECK(rp_kept_oldest(&queue) == 0 && table.count[RP_KEPT_SHORT] > 0 && table.count[RP_KEPT_LONG] > 0);
    CHECK(table.count[RP_KEPT_SHORT] + table.count[RP_KEPT_LONG] == COUNT && table.bucket_count >= COUNT / 2);
    for (int64_t i = 0; i < COUNT; i++) /* more buckets have come since */
        CHECK(ack(&table, i, 1, i) == 1);
    rp_kept_put_off(&queue, rp_kept_next(&queue), 0x1000);
    int64_t last = -1, oldest = 0;
    for (int i = 0; i < COUNT; i++) {
        rp_kept_checkpoint *kept = rp_kept_next(&queue);
        CHECK(kept != NULL && kept->look_ms >= last && rp_kept_oldest(&queue) >= oldest && rp_kept_oldest(&queue) <= kept->revive_offset);
        last = kept->look_ms;
        oldest = rp_kept_oldest(&queue);
        rp_kept_remove(&table, &queue, kept);
    }
    CHECK(last == 0x1000 && rp_kept_next(&queue) == NULL && rp_kept_oldest(&queue) == INT64_MAX);
    CHECK(table.count[RP_KEPT_SHORT] == 0 && table.count[RP_KEPT_LONG] == 0);
    rp_kept_queue_free(&table, &queue);
    rp_kept_table_free(&table);
}

static void those_that_wait_for_years_leave_room_for_others(void) {
    rp_kept_table table;
    rp_kept_queue queue = {0};
    CHECK(rp_kept_table_init(&table, 40) == RP_OK);
    rp_pop_checkpoint years = of_pop(0, 0, 1), minutes = of_pop(0, 0, 1);
    years.invisible_ms = 10 * 365 * 24 * HOUR_MS;
    for (years.start_offset = 0; years.start_offset < 10; years.start_offset++)
        CHECK(rp_kept_add(&table, &queue, &years, broker, years.start_offset, 0, 1) == RP_OK);
    CHECK(rp_kept_add(&table, &queue, &years, broker, 10, 0, 1) == RP_E_BUSY);
    for (minutes.start_offset = 100; minutes.start_offset < 130; minutes.start_offset++)
        CHECK(rp_kept_add(&table, &queue, &minutes, broker, minutes.start_offset, 0, 1) == RP_OK);
    CHECK(rp_kept_add(&table, &queue, &minutes, broker, 130, 0, 1) == RP_E_BUSY);
    rp_kept_queue_free(&table, &queue);
    rp_kept_table_free(&table);
}

static void one_pop_is_not_everybodys(void) {
    rp_kept_table table;
    rp_kept_queue queue = {0};
    CHECK(rp_kept_table_init(&table, 1000) == RP_OK);
    int status = RP_OK;
    uint32_t kept = 0;
    for (int32_t i = 0; i < 100 && status == RP_OK; i++) {
        rp_pop_checkpoint checkpoint = of_pop(7, 8, 1);
        checkpoint.diff_count = 1;
        checkpoint.diffs[0] = i;
        status = rp_kept_add(&table, &queue, &checkpoint, broker, i, 0, 1);
        kept += status == RP_OK;
    }
    CHECK(status == RP_E_EXISTS && ack(&table, 7, 8, 7) == kept);
    rp_kept_queue_free(&table, &queue);
    rp_kept_table_free(&table);
}

int main(void) {
    RUN(acks_find_their_checkpoint);
    RUN(they_are_due_in_order_and_the_oldest_is_known);
    RUN(those_that_wait_for_years_leave_room_for_others);
    RUN(one_pop_is_not_everybodys);
    return 0;
}
