/* intake.c: see intake.h. */
#include "intake.h"

static const uint32_t sizes_max[RP_INTAKE_SIZES - 1] = {1024, 4096, 512 * 1024, 1024 * 1024, 2 * 1024 * 1024, 4 * 1024 * 1024};

uint32_t rp_intake_size_max(uint32_t class) { return class < RP_INTAKE_SIZES - 1 ? sizes_max[class] : UINT32_MAX; }

void rp_intake_count(rp_intake_counts *counts, uint32_t size) {
    uint32_t class = 0;
    while (class < RP_INTAKE_SIZES - 1 && size > sizes_max[class])
        class++;
    counts->bytes += size;
    counts->sizes[class]++;
}

void rp_intake_add(rp_intake *intake, const rp_intake_counts *counts) {
    atomic_fetch_add_explicit(&intake->bytes, counts->bytes, memory_order_relaxed);
    for (uint32_t i = 0; i < RP_INTAKE_SIZES; i++) {
        if (counts->sizes[i] > 0)
            atomic_fetch_add_explicit(&intake->sizes[i], counts->sizes[i], memory_order_relaxed);
    }
}

void rp_intake_add_one(rp_intake *intake, uint32_t size) {
    rp_intake_counts counts = {0};
    rp_intake_count(&counts, size);
    rp_intake_add(intake, &counts);
}

void rp_intake_read(const rp_intake *intake, rp_intake_counts *counts) {
    *counts = (rp_intake_counts){.bytes = atomic_load_explicit(&intake->bytes, memory_order_relaxed)};
    for (uint32_t i = 0; i < RP_INTAKE_SIZES; i++)
        counts->sizes[i] = atomic_load_explicit(&intake->sizes[i], memory_order_relaxed);
}

void rp_intake_reset(rp_intake *intake) {
    atomic_store_explicit(&intake->bytes, 0, memory_order_relaxed);
    for (uint32_t i = 0; i < RP_INTAKE_SIZES; i++)
        atomic_store_explicit(&intake->sizes[i], 0, memory_order_relaxed);
}
