/* histogram.c: counts of values in buckets whose width grows with the value (HdrHistogram's log-linear scheme).
 *
 * Values below 32 have a bucket each. Above, a value whose highest bit is e falls into one of 32 equal steps of [2^e, 2^(e+1)):
 *
 *     bucket = (e - 4) * 32 + (value >> (e - 5)) % 32        width 2^(e-5), so at most 1/32 of the value
 *
 * Recording is two relaxed atomic additions; the total count is not kept but summed when asked, because readers are rare.
 * Sum and extremes are exact; percentiles answer with the upper end of their bucket, never past the exact maximum.
 */
#include "histogram.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#define STEP_BITS 5
#define STEPS 32u
#define BUCKETS 2048u /* the highest index in use is (63 - 4) * 32 + 31 = 1919 */

/* All atomic and relaxed: each counter stands for itself, no reader infers one from another. */
struct rp_histogram {
    _Atomic uint64_t sum;
    _Atomic uint64_t max;
    _Atomic uint64_t min_complement; /* ~min, so that 0 means empty and a larger number wins, as for max */
    _Atomic uint64_t counts[BUCKETS];
};

static uint32_t bucket_of(uint64_t value) {
    if (value < STEPS)
        return (uint32_t)value;
    uint32_t exponent = 63u - (uint32_t)__builtin_clzll(value);
    return (exponent - STEP_BITS + 1) * STEPS + (uint32_t)((value >> (exponent - STEP_BITS)) & (STEPS - 1));
}

/* The largest value that falls into a bucket. */
static uint64_t bucket_top(uint32_t bucket) {
    if (bucket < STEPS)
        return bucket;
    uint32_t shift = bucket / STEPS - 1; /* exponent - STEP_BITS */
    uint64_t step = STEPS + bucket % STEPS;
    return (step << shift) + ((UINT64_C(1) << shift) - 1);
}

static void raise_to(_Atomic uint64_t *slot, uint64_t value) {
    uint64_t seen = atomic_load_explicit(slot, memory_order_relaxed);
    while (seen < value && !atomic_compare_exchange_weak_explicit(slot, &seen, value, memory_order_relaxed, memory_order_relaxed)) {
    }
}

rp_histogram *rp_histogram_create(void) { return calloc(1, sizeof(rp_histogram)); }

void rp_histogram_destroy(rp_histogram *histogram) { free(histogram); }

void rp_histogram_record(rp_histogram *histogram, uint64_t value) { rp_histogram_record_count(histogram, value, 1); }

void rp_histogram_record_count(rp_histogram *histogram, uint64_t value, uint64_t count) {
    if (count == 0)
        return;
    atomic_fetch_add_explicit(&histogram->counts[bucket_of(value)], count, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum, value * count, memory_order_relaxed);
    raise_to(&histogram->max, value);
    raise_to(&histogram->min_complement, ~value);
}

void rp_histogram_add(rp_histogram *target, const rp_histogram *source) {
    for (uint32_t bucket = 0; bucket < BUCKETS; bucket++) {
        uint64_t count = atomic_load_explicit(&source->counts[bucket], memory_order_relaxed);
        if (count != 0)
            atomic_fetch_add_explicit(&target->counts[bucket], count, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&target->sum, atomic_load_explicit(&source->sum, memory_order_relaxed), memory_order_relaxed);
    raise_to(&target->max, atomic_load_explicit(&source->max, memory_order_relaxed));
    raise_to(&target->min_complement, atomic_load_explicit(&source->min_complement, memory_order_relaxed));
}

uint64_t rp_histogram_count(const rp_histogram *histogram) {
    uint64_t count = 0;
    for (uint32_t bucket = 0; bucket < BUCKETS; bucket++)
        count += atomic_load_explicit(&histogram->counts[bucket], memory_order_relaxed);
    return count;
}

uint64_t rp_histogram_max(const rp_histogram *histogram) { return atomic_load_explicit(&histogram->max, memory_order_relaxed); }

uint64_t rp_histogram_min(const rp_histogram *histogram) {
    uint64_t complement = atomic_load_explicit(&histogram->min_complement, memory_order_relaxed);
    if (complement != 0)
        return ~complement;
    return rp_histogram_max(histogram); /* empty, or nothing but UINT64_MAX was recorded, whose complement is 0 too */
}

double rp_histogram_mean(const rp_histogram *histogram) {
    uint64_t count = rp_histogram_count(histogram);
    if (count == 0)
        return 0.0;
    return (double)atomic_load_explicit(&histogram->sum, memory_order_relaxed) / (double)count;
}

uint64_t rp_histogram_percentile(const rp_histogram *histogram, double percent) {
    uint64_t count = rp_histogram_count(histogram);
    if (count == 0)
        return 0;
    /* NaN counts as 0. The next smaller number, so that no rounding lifts the rank over a whole one. */
    double below_percent = percent > 0.0 ? nextafter(fmin(percent, 100.0), 0.0) : 0.0;
    uint64_t rank = (uint64_t)ceil(below_percent / 100.0 * (double)count);
    if (rank == 0)
        rank = 1;
    uint64_t max = rp_histogram_max(histogram);
    uint64_t below = 0;
    for (uint32_t bucket = 0; bucket < BUCKETS; bucket++) {
        below += atomic_load_explicit(&histogram->counts[bucket], memory_order_relaxed);
        if (below >= rank)
            return bucket_top(bucket) < max ? bucket_top(bucket) : max;
    }
    return max; /* recordings that came between the two passes */
}
