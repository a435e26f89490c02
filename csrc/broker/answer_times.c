/* answer_times.c: see answer_times.h. There are few rows, and most answers are of the same kind as the one before, so rows are searched
 * linearly. */
#include "answer_times.h"

#include <stdbool.h>

#include "../base/clock.h"
#include "../base/clock_inl.h"

static const int32_t classes_ms[RP_ANSWER_CLASSES - 1] = {1, 3, 5, 7, 10, 100, 1000, 2000, 3000};

int32_t rp_answer_class_ms(uint32_t class) { return class < RP_ANSWER_CLASSES - 1 ? classes_ms[class] : INT32_MAX; }

static bool is_of(const rp_answer_row *row, int32_t request_code, int32_t response_code, int32_t has_waited) {
    return row->request_code == request_code && row->response_code == response_code && row->has_waited == has_waited;
}

/* Returns the row of this kind of answer; NULL: there are too many kinds. */
static rp_answer_row *row_of(rp_answer_times *times, int32_t request_code, int32_t response_code, int32_t has_waited) {
    if (times->last != NULL && is_of(times->last, request_code, response_code, has_waited))
        return times->last;
    uint32_t count = atomic_load_explicit(&times->count, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        if (is_of(&times->rows[i], request_code, response_code, has_waited))
            return times->last = &times->rows[i];
    }
    if (count == RP_ANSWER_ROWS)
        return NULL;
    rp_answer_row *row = &times->rows[count];
    row->request_code = request_code;
    row->response_code = response_code;
    row->has_waited = has_waited;
    atomic_store_explicit(&times->count, count + 1, memory_order_release);
    return times->last = row;
}

/* Only the reactor's thread writes, so no locked instruction is needed. */
static void add(_Atomic uint64_t *counter, uint64_t more) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more, memory_order_relaxed);
}

static void add_time(rp_answer_row *row, uint32_t answers, int64_t took_ns) {
    uint32_t class = 0;
    took_ns = took_ns > 0 ? took_ns : 0;
    while (class < RP_ANSWER_CLASSES - 1 && took_ns > classes_ms[class] * RP_NS_PER_MS)
        class++;
    add(&row->classes[class], answers);
    add(&row->total_ns, answers * (uint64_t)took_ns);
}

void rp_answer_times_note(rp_answer_times *times, int32_t request_code, int32_t response_code, int64_t arrived_ns) {
    int64_t waited_ns = rp_reactor_now_ns(times->reactor) - arrived_ns;
    rp_answer_row *row = row_of(times, request_code, response_code, waited_ns > 0);
    if (row == NULL)
        return;
    if (waited_ns > 0) {
        add_time(row, 1, waited_ns);
        return;
    }
    row->in_turn++;
    times->in_turn++;
}

void rp_answer_times_end_turn(rp_answer_times *times) {
    if (times->in_turn == 0)
        return;
    int64_t took_ns = rp_clock_monotonic_ns(rp_clock_system()) - rp_reactor_now_ns(times->reactor);
    uint32_t count = atomic_load_explicit(&times->count, memory_order_relaxed);
    for (uint32_t i = 0; i < count && times->in_turn > 0; i++) {
        rp_answer_row *row = &times->rows[i];
        if (row->in_turn == 0)
            continue;
        add_time(row, row->in_turn, took_ns);
        times->in_turn -= row->in_turn;
        row->in_turn = 0;
    }
}
