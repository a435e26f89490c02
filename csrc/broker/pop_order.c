/* pop_order.c: see pop_order.h. */
#include "pop_order.h"

#include <string.h>

#include "../base/slice_inl.h"

/* Threads that come one after the other had the time before they waited for each other. */
#define UNORDERED_MS 1000

static int is_acked(const rp_pop_order *order, uint32_t index) { return (order->acked >> index & 1) != 0; }

static int is_same_attempt(const rp_pop_order *order, rp_slice attempt_id) {
    return order->has_attempt_id && attempt_id.data != NULL &&
           rp_slice_equals((rp_slice){order->attempt_id, order->attempt_size}, attempt_id);
}

void rp_pop_order_pass(rp_pop_order *order, int64_t committed) {
    for (uint32_t i = 0; order != NULL && i < order->count; i++) {
        if (order->offsets[i] < committed)
            order->acked |= UINT64_C(1) << i;
    }
}

/* After the clock was set back, what was to be visible in a while still is. */
static void follow_clock(rp_pop_order *order, int64_t now_ms) {
    int64_t loaded_ms = order->last_consume_ms != 0 ? order->last_consume_ms : order->pop_time_ms;
    int64_t seen_ms = order->seen_ms != 0 ? order->seen_ms : loaded_ms;
    if (now_ms >= seen_ms - UNORDERED_MS) {
        order->seen_ms = now_ms > seen_ms ? now_ms : seen_ms;
        return;
    }
    for (uint32_t i = 0; i < order->count; i++) {
        if (order->visible_ms[i] != 0)
            order->visible_ms[i] = order->visible_ms[i] > seen_ms ? order->visible_ms[i] - (seen_ms - now_ms) : now_ms;
    }
    order->seen_ms = order->last_consume_ms = now_ms; /* the latter is in the file: a load must not set the times back again */
}

int64_t rp_pop_order_blocked_until(rp_pop_order *order, rp_slice attempt_id, int64_t invisible_ms, int64_t now_ms) {
    if (order == NULL || order->count == 0 || is_same_attempt(order, attempt_id))
        return 0;
    if (order->invisible_ms <= 0)
        order->invisible_ms = invisible_ms;
    follow_clock(order, now_ms);
    int64_t free_ms = 0;
    for (uint32_t i = 0; i < order->count; i++) {
        if (order->visible_ms[i] == 0 && order->pop_time_ms > now_ms) /* the clock was set back since: the invisible time counts from now */
            order->visible_ms[i] = now_ms + order->invisible_ms;
        int64_t visible_ms = order->visible_ms[i] != 0 ? order->visible_ms[i] : order->pop_time_ms + order->invisible_ms;
        if (!is_acked(order, i) && visible_ms > now_ms && visible_ms > free_ms)
            free_ms = visible_ms;
    }
    return free_ms;
}

static int32_t find(const rp_pop_order *order, int64_t offset) {
    for (uint32_t i = 0; i < order->count; i++) {
        if (order->offsets[i] == offset)
            return (int32_t)i;
    }
    return -1;
}

static void set_attempt(rp_pop_order *order, rp_slice attempt_id) {
    order->has_attempt_id = attempt_id.data != NULL && attempt_id.size <= RP_POP_ATTEMPT_ID_MAX;
    order->attempt_size = order->has_attempt_id ? attempt_id.size : 0;
    if (order->attempt_size > 0)
        memcpy(order->attempt_id, attempt_id.data, attempt_id.size);
}

void rp_pop_order_update(rp_pop_order *order, rp_slice attempt_id, int64_t pop_time_ms, int64_t invisible_ms, const int64_t *offsets,
                         uint32_t count) {
    int32_t times[RP_POP_MESSAGES_MAX];
    int again = !is_same_attempt(order, attempt_id); /* a repeated attempt is told the same numbers */
    for (uint32_t i = 0; i < count; i++) {
        int32_t before = find(order, offsets[i]);
        times[i] = before < 0 ? 0 : order->times[before] + (again && order->times[before] < INT32_MAX);
    }
    order->pop_time_ms = order->last_consume_ms = order->seen_ms = pop_time_ms;
    order->invisible_ms = invisible_ms;
    order->acked = 0;
    order->count = count;
    memcpy(order->offsets, offsets, count * sizeof *offsets);
    memcpy(order->times, times, count * sizeof *times);
    memset(order->visible_ms, 0, sizeof order->visible_ms);
    set_attempt(order, attempt_id);
}

int64_t rp_pop_order_ack(rp_pop_order *order, int64_t offset, int64_t pop_time_ms) {
    if (order == NULL || order->count == 0)
        return offset < INT64_MAX ? offset + 1 : RP_POP_ORDER_ILLEGAL;
    if (order->pop_time_ms != pop_time_ms)
        return RP_POP_ORDER_STALE;
    int32_t index = find(order, offset);
    if (index < 0)
        return RP_POP_ORDER_ILLEGAL;
    order->acked |= UINT64_C(1) << index;
    for (uint32_t i = 0; i < order->count; i++) {
        if (!is_acked(order, i))
            return order->offsets[i];
    }
    return order->offsets[order->count - 1] + 1;
}

int rp_pop_order_change(rp_pop_order *order, int64_t offset, int64_t pop_time_ms, int64_t invisible_ms, int64_t now_ms) {
    int32_t index = order != NULL && order->pop_time_ms == pop_time_ms ? find(order, offset) : -1;
    if (index < 0)
        return 0;
    follow_clock(order, now_ms);
    order->visible_ms[index] = now_ms + invisible_ms;
    return 1;
}

int rp_pop_order_suspend(rp_pop_order *order, int64_t pop_time_ms, int64_t invisible_ms, int64_t now_ms) {
    if (order == NULL || order->count == 0 || order->pop_time_ms != pop_time_ms)
        return 0;
    follow_clock(order, now_ms);
    for (uint32_t i = 0; i < order->count; i++) {
        order->times[i] -= order->times[i] > 0;
        order->visible_ms[i] = now_ms + invisible_ms;
    }
    return 1;
}

int rp_pop_order_is_over(const rp_pop_order *order) {
    for (uint32_t i = 0; order != NULL && i < order->count; i++) {
        if (!is_acked(order, i))
            return 0;
    }
    return 1;
}
