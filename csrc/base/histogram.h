/* histogram.h: latency histogram, log-linear (HdrHistogram's scheme): 64 powers of two x 32 steps, error < 3.2 %.
 *
 * Threads  record from any thread (relaxed atomics); read while others record gives a slightly stale picture.
 * Owns     one block of 2,048 counters (16 KB), no allocation after create.
 */
#ifndef RP_BASE_HISTOGRAM_H
#define RP_BASE_HISTOGRAM_H

#include <stdint.h>

typedef struct rp_histogram rp_histogram;

rp_histogram *rp_histogram_create(void); /* NULL when memory is out */
void rp_histogram_destroy(rp_histogram *histogram);
void rp_histogram_record(rp_histogram *histogram, uint64_t value);
void rp_histogram_record_count(rp_histogram *histogram, uint64_t value, uint64_t count);
void rp_histogram_add(rp_histogram *target, const rp_histogram *source); /* target += source */
uint64_t rp_histogram_count(const rp_histogram *histogram);
uint64_t rp_histogram_max(const rp_histogram *histogram);  /* 0 when empty */
uint64_t rp_histogram_min(const rp_histogram *histogram);  /* 0 when empty */
double rp_histogram_mean(const rp_histogram *histogram);   /* 0 when empty */
/* Returns the value at or below which `percent` (0..100) of the recorded values lie; 0 if it is empty. */
uint64_t rp_histogram_percentile(const rp_histogram *histogram, double percent);

#endif
