/* durations.c: see durations.h. */
#include "durations.h"

static const int32_t ends_max[RP_DURATION_CLASSES - 1] = {5, 60, 600, 3600, 43200, 86400};
static const int32_t delays_max[RP_DURATION_CLASSES - 1] = {60, 600, 3600, 43200, 86400, 259200};

int32_t rp_end_seconds_max(uint32_t class) { return class < RP_DURATION_CLASSES - 1 ? ends_max[class] : INT32_MAX; }

int32_t rp_delay_seconds_max(uint32_t class) { return class < RP_DURATION_CLASSES - 1 ? delays_max[class] : INT32_MAX; }

static int64_t seconds_between(int64_t begin_ms, int64_t end_ms) {
    int64_t ms;
    if (end_ms <= begin_ms)
        return 0;
    return __builtin_sub_overflow(end_ms, begin_ms, &ms) || ms / 1000 > INT32_MAX ? INT32_MAX : ms / 1000;
}

void rp_durations_add(rp_durations *durations, int32_t (*seconds_max)(uint32_t class), int64_t begin_ms, int64_t end_ms) {
    int64_t seconds = seconds_between(begin_ms, end_ms);
    uint32_t class = 0;
    while (class < RP_DURATION_CLASSES - 1 && seconds > seconds_max(class))
        class++;
    atomic_fetch_add_explicit(&durations->seconds, (uint64_t)seconds, memory_order_relaxed);
    atomic_fetch_add_explicit(&durations->classes[class], 1, memory_order_relaxed);
}

void rp_durations_read(const rp_durations *durations, rp_duration_counts *counts) {
    counts->seconds = atomic_load_explicit(&durations->seconds, memory_order_relaxed);
    for (uint32_t i = 0; i < RP_DURATION_CLASSES; i++)
        counts->classes[i] = atomic_load_explicit(&durations->classes[i], memory_order_relaxed);
}

void rp_durations_reset(rp_durations *durations) {
    atomic_store_explicit(&durations->seconds, 0, memory_order_relaxed);
    for (uint32_t i = 0; i < RP_DURATION_CLASSES; i++)
        atomic_store_explicit(&durations->classes[i], 0, memory_order_relaxed);
}
