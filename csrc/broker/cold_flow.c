/* cold_flow.c: see cold_flow.h. */
#include "cold_flow.h"

#include <string.h>

#include "../base/clock_inl.h"
#include "../base/slice_inl.h"
#include "lane.h"

#define BYTES_BITS 40 /* 1 TiB a window; the count stops there */
#define BYTES_MAX ((UINT64_C(1) << BYTES_BITS) - 1)
#define FORGOTTEN_MS INT64_C(60000)
#define SYSTEM_PREFIX "CID_RMQ_SYS_"

/* RocketMQ: MixAll.isSysConsumerGroupPullMessage (5.3.3 common/). */
static const char *const system_groups[] = {"DEFAULT_CONSUMER",   "TOOLS_CONSUMER",    "SCHEDULE_CONSUMER",  "FILTERSRV_CONSUMER",
                                            "__MONITOR_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PERMISSION",
                                            "CID_ONSAPI_OWNER",   "CID_ONSAPI_PULL"};

static uint64_t window_of(const rp_broker *broker, int64_t now_ns) {
    return (uint64_t)(now_ns / RP_NS_PER_MS / broker->options.cold_window_ms) << BYTES_BITS;
}

static int64_t bytes_of(const rp_cold_use *use, uint64_t window) {
    uint64_t word = atomic_load_explicit(&use->window_bytes, memory_order_relaxed);
    return (word & ~BYTES_MAX) == window ? (int64_t)(word & BYTES_MAX) : 0;
}

static int is_system(rp_slice name) {
    static const rp_slice prefix = {(const uint8_t *)SYSTEM_PREFIX, sizeof SYSTEM_PREFIX - 1};
    for (size_t i = 0; i < sizeof system_groups / sizeof system_groups[0]; i++) {
        if (rp_slice_is(name, system_groups[i]))
            return 1;
    }
    return name.size >= prefix.size && memcmp(name.data, prefix.data, prefix.size) == 0;
}

int rp_cold_flow_admits(const rp_broker *broker, const rp_group *group, int64_t now_ns) {
    const rp_live_settings *settings = &broker->settings;
    if (!atomic_load_explicit(&settings->cold_flow_enable, memory_order_relaxed))
        return 1;
    uint64_t window = window_of(broker, now_ns);
    int64_t limit = atomic_load_explicit(&group->cold_limit, memory_order_relaxed) - 1, bytes = bytes_of(&group->cold_use, window);
    if (limit < 0)
        limit = atomic_load_explicit(&settings->cold_group_bytes, memory_order_relaxed);
    if (bytes < limit && bytes_of(&broker->cold_use, window) < atomic_load_explicit(&settings->cold_all_bytes, memory_order_relaxed))
        return 1;
    return is_system(group->head.name);
}

int64_t rp_cold_flow_rest_ms(const rp_broker *broker, int64_t now_ns) {
    return broker->options.cold_window_ms - now_ns / RP_NS_PER_MS % broker->options.cold_window_ms;
}

static void note(rp_cold_use *use, uint64_t window, uint64_t bytes, int64_t now_ms) {
    uint64_t word = atomic_load_explicit(&use->window_bytes, memory_order_relaxed), next;
    do {
        uint64_t sum = ((word & ~BYTES_MAX) == window ? word & BYTES_MAX : 0) + bytes;
        next = window | (sum < BYTES_MAX ? sum : BYTES_MAX);
    } while (!atomic_compare_exchange_weak_explicit(&use->window_bytes, &word, next, memory_order_relaxed, memory_order_relaxed));
    int64_t last_ms = atomic_load_explicit(&use->last_ms, memory_order_relaxed);
    if (last_ms == 0 || now_ms - last_ms >= FORGOTTEN_MS)
        atomic_store_explicit(&use->first_ms, now_ms, memory_order_relaxed);
    atomic_store_explicit(&use->last_ms, now_ms, memory_order_relaxed);
}

void rp_cold_flow_note(rp_broker *broker, rp_group *group, int64_t bytes) {
    const rp_clock *clock = rp_clock_system();
    uint64_t window = window_of(broker, rp_clock_monotonic_ns(clock));
    int64_t now_ms = rp_clock_wall_ms(clock);
    note(&group->cold_use, window, (uint64_t)bytes, now_ms);
    note(&broker->cold_use, window, (uint64_t)bytes, now_ms);
}

int rp_broker_set_cold_limit(rp_broker *broker, rp_slice name, int64_t bytes) {
    if (name.size == 0 || name.size > RP_TOPIC_NAME_MAX)
        return RP_E_INVALID;
    rp_group *group = bytes < 0 ? rp_group_table_known(broker->groups, name) : rp_group_table_entry(broker->groups, name);
    if (group == NULL)
        return bytes < 0 ? RP_OK : RP_E_NO_MEMORY;
    atomic_store_explicit(&group->cold_limit, bytes < 0 ? 0 : bytes < INT64_MAX ? bytes + 1 : bytes, memory_order_relaxed);
    return RP_OK;
}

int rp_broker_read_cold_use(const rp_broker *broker, rp_slice name, int64_t *bytes, int64_t *first_ms, int64_t *last_ms) {
    const rp_group *group = name.size > 0 ? rp_group_table_known(broker->groups, name) : NULL;
    const rp_cold_use *use = name.size == 0 ? &broker->cold_use : group != NULL ? &group->cold_use : NULL;
    const rp_clock *clock = rp_clock_system();
    *last_ms = use != NULL ? atomic_load_explicit(&use->last_ms, memory_order_relaxed) : 0;
    if (*last_ms == 0 || rp_clock_wall_ms(clock) - *last_ms >= FORGOTTEN_MS)
        return RP_E_NOT_FOUND;
    *first_ms = atomic_load_explicit(&use->first_ms, memory_order_relaxed);
    *bytes = bytes_of(use, window_of(broker, rp_clock_monotonic_ns(clock)));
    return RP_OK;
}
