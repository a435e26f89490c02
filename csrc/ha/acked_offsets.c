/* acked_offsets.c: see acked_offsets.h. */
#include "acked_offsets.h"

#include "ha_master.h"

int64_t rp_acked_offset(const atomic_int_fast64_t *acked, uint32_t slots, uint32_t slaves) {
    int64_t sorted[RP_HA_SLAVES_MAX];
    uint32_t sorted_count = 0;
    for (uint32_t slot = 0; slot < slots; slot++) {
        int64_t offset = atomic_load_explicit(&acked[slot], memory_order_acquire);
        if (offset < 0)
            continue;
        uint32_t place = sorted_count++;
        for (; place > 0 && sorted[place - 1] < offset; place--)
            sorted[place] = sorted[place - 1];
        sorted[place] = offset;
    }
    return slaves >= 1 && slaves <= sorted_count ? sorted[slaves - 1] : -1;
}

uint32_t rp_acked_required(const atomic_int_fast64_t *acked, uint32_t slots, uint32_t required, uint32_t min, int64_t offset) {
    uint32_t found = 0;
    for (uint32_t slot = 0; slot < slots; slot++) {
        int64_t one = atomic_load_explicit(&acked[slot], memory_order_acquire);
        found += one >= 0 && one > offset;
    }
    found = found < required ? found : required;
    return found > min ? found : min;
}
