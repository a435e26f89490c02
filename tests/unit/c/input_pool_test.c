/* input_pool_test.c: buffers of large frames are reused, and no more of them are kept, nor for longer, than promised. */
#include "../../../csrc/remoting/input_pool.h"

#include <stdlib.h>

#include "check.h"

enum { KB = 1024, MB = 1024 * 1024 };
static const int64_t SECOND_NS = INT64_C(1000000000);

static void give(rp_input_pool *pool, uint32_t capacity) {
    uint8_t *bytes = malloc(capacity);
    CHECK(bytes != NULL);
    rp_input_pool_give(pool, bytes, capacity, 0);
}

static void the_smallest_that_holds_a_frame_is_taken(void) {
    rp_input_pool pool = {0};
    uint32_t capacity = 7;
    CHECK(rp_input_pool_take(&pool, 200 * KB, &capacity, 0) == NULL && capacity == 7);
    give(&pool, 3 * MB);
    give(&pool, 1 * MB);
    give(&pool, 2 * MB);
    CHECK(rp_input_pool_take(&pool, 3 * MB + 1, &capacity, 0) == NULL);
    uint8_t *bytes = rp_input_pool_take(&pool, 1 * MB + 1, &capacity, 0);
    CHECK(bytes != NULL && capacity == 2 * MB && pool.count == 2 && pool.bytes == 4 * MB);
    bytes[capacity - 1] = 1; /* it is all there */
    rp_input_pool_give(&pool, bytes, capacity, 0);
    CHECK(rp_input_pool_take(&pool, 20 * KB, &capacity, 0) == NULL); /* malloc's own: a spare one would be wasted on it */
    rp_input_pool_trim(&pool, 0, true);
    CHECK(pool.count == 0 && pool.bytes == 0);
}

static void small_ones_and_those_past_the_bounds_are_freed(void) {
    rp_input_pool pool = {0};
    give(&pool, 100 * KB);
    rp_input_pool_give(&pool, NULL, 0, 0);
    CHECK(pool.count == 0);
    give(&pool, 9 * MB);
    CHECK(pool.count == 0);
    for (int i = 0; i < 20; i++) {
        give(&pool, 128 * KB);
    }
    CHECK(pool.count == RP_INPUT_SPARES_MAX && pool.bytes == RP_INPUT_SPARES_MAX * 128 * KB);
    rp_input_pool_trim(&pool, 0, true);
    give(&pool, 5 * MB);
    give(&pool, 4 * MB);
    CHECK(pool.count == 1 && pool.bytes == 5 * MB);
    rp_input_pool_trim(&pool, 0, true);
}

static void what_is_not_taken_goes_after_ten_seconds(void) {
    rp_input_pool pool = {0};
    uint32_t capacity;
    give(&pool, 1 * MB);
    give(&pool, 1 * MB);
    rp_input_pool_trim(&pool, 9 * SECOND_NS, false);
    uint8_t *bytes = rp_input_pool_take(&pool, 1 * MB, &capacity, 9 * SECOND_NS);
    rp_input_pool_give(&pool, bytes, capacity, 9 * SECOND_NS);
    rp_input_pool_trim(&pool, 18 * SECOND_NS, false);
    CHECK(pool.count == 2);
    rp_input_pool_trim(&pool, 19 * SECOND_NS, false);
    CHECK(pool.count == 0);
}

int main(void) {
    RUN(the_smallest_that_holds_a_frame_is_taken);
    RUN(small_ones_and_those_past_the_bounds_are_freed);
    RUN(what_is_not_taken_goes_after_ten_seconds);
    return 0;
}
