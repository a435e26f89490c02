/* call_times.c: see call_times.h. */
#include "call_times.h"

#include "../base/clock_inl.h"
#include "answer_status.h"

static const int32_t classes_ms[RP_PROXY_CLASSES - 1] = {1, 3, 5, 7, 10, 100, 1000, 2000, 3000};

static void add(_Atomic uint64_t *figure, uint64_t more) {
    atomic_store_explicit(figure, atomic_load_explicit(figure, memory_order_relaxed) + more, memory_order_relaxed);
}

void rp_call_times_add(rp_call_times *times, int32_t code, int64_t took_ns) {
    uint32_t place = rp_answer_code_place(code), class = 0;
    took_ns = took_ns > 0 ? took_ns : 0;
    while (class < RP_PROXY_CLASSES - 1 && took_ns > classes_ms[class] * RP_NS_PER_MS)
        class++;
    add(&times->total_ns[place], (uint64_t)took_ns);
    add(&times->classes[place][class], 1);
}

void rp_call_times_sum(const rp_call_times *times, uint32_t place, rp_proxy_times *sum) {
    sum->code = rp_answer_code_at(place);
    sum->total_ns += atomic_load_explicit(&times->total_ns[place], memory_order_relaxed);
    for (uint32_t class = 0; class < RP_PROXY_CLASSES; class++)
        sum->classes[class] += atomic_load_explicit(&times->classes[place][class], memory_order_relaxed);
}
