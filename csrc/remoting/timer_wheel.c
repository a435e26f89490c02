/* timer_wheel.c: an array of lists, one per tick. */
#include "timer_wheel.h"

#include <stddef.h>

void rp_timer_wheel_init(rp_timer_wheel *wheel, int64_t tick_ns, int64_t now_ns) {
    for (uint32_t slot = 0; slot < RP_TIMER_WHEEL_SLOTS; slot++) {
        wheel->slots[slot].previous = wheel->slots[slot].next = &wheel->slots[slot];
    }
    wheel->tick_ns = tick_ns;
    wheel->current = (uint64_t)(now_ns / tick_ns);
    wheel->next = UINT64_MAX;
    wheel->count = 0;
}

void rp_timer_wheel_cancel(rp_timer_wheel *wheel, rp_timer_node *node) {
    if (node->next != NULL) {
        node->previous->next = node->next;
        node->next->previous = node->previous;
        node->previous = node->next = NULL;
        wheel->count--;
    }
}

static uint64_t tick_of(const rp_timer_wheel *wheel, int64_t due_ns) {
    uint64_t tick = due_ns <= 0 ? 0 : (uint64_t)(due_ns / wheel->tick_ns) + 1;
    if (tick <= wheel->current) {
        return wheel->current + 1;
    }
    return tick - wheel->current >= RP_TIMER_WHEEL_SLOTS ? wheel->current + RP_TIMER_WHEEL_SLOTS - 1 : tick;
}

void rp_timer_wheel_schedule(rp_timer_wheel *wheel, rp_timer_node *node, int64_t due_ns) {
    rp_timer_wheel_cancel(wheel, node);
    node->tick = tick_of(wheel, due_ns);
    rp_timer_node *head = &wheel->slots[node->tick % RP_TIMER_WHEEL_SLOTS];
    node->previous = head->previous;
    node->next = head;
    node->previous->next = node;
    head->previous = node;
    wheel->count++;
    if (node->tick < wheel->next) {
        wheel->next = node->tick;
    }
}

void rp_timer_wheel_hasten(rp_timer_wheel *wheel, rp_timer_node *node, int64_t due_ns) {
    if (node->next == NULL || tick_of(wheel, due_ns) < node->tick) {
        rp_timer_wheel_schedule(wheel, node, due_ns);
    }
}

rp_timer_node *rp_timer_wheel_take(rp_timer_wheel *wheel, int64_t now_ns) {
    uint64_t now_tick = (uint64_t)(now_ns / wheel->tick_ns);
    while (wheel->current < now_tick) {
        if (wheel->count == 0) {
            wheel->current = now_tick;
            wheel->next = UINT64_MAX;
            return NULL;
        }
        rp_timer_node *head = &wheel->slots[(wheel->current + 1) % RP_TIMER_WHEEL_SLOTS];
        if (head->next != head) {
            rp_timer_node *node = head->next;
            rp_timer_wheel_cancel(wheel, node);
            return node;
        }
        wheel->current++;
    }
    /* Everything up to now has fired: find where the next node waits. */
    if (wheel->next <= wheel->current) {
        wheel->next = UINT64_MAX;
        for (uint64_t tick = wheel->current + 1; wheel->count > 0 && tick < wheel->current + RP_TIMER_WHEEL_SLOTS; tick++) {
            const rp_timer_node *head = &wheel->slots[tick % RP_TIMER_WHEEL_SLOTS];
            if (head->next != head) {
                wheel->next = tick;
                break;
            }
        }
    }
    return NULL;
}

int64_t rp_timer_wheel_next_ns(const rp_timer_wheel *wheel) {
    if (wheel->count == 0 || wheel->next > (uint64_t)(INT64_MAX / wheel->tick_ns)) {
        return INT64_MAX;
    }
    return (int64_t)wheel->next * wheel->tick_ns;
}
