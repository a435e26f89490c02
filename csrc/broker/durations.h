/* durations.h: sums durations in seconds, and counts them by class. Private to csrc/broker.
 * RocketMQ: its histograms of commits and of delays (5.3.3 broker/metrics/BrokerMetricsManager,
 * store/metrics/DefaultStoreMetricsManager).
 *
 * Threads  add from any thread (relaxed); a concurrent read gives a slightly stale picture.
 */
#ifndef RP_BROKER_DURATIONS_H
#define RP_BROKER_DURATIONS_H

#include <stdatomic.h>
#include <stdint.h>

#include "broker_stats.h"

typedef struct rp_durations {
    _Atomic uint64_t seconds;
    _Atomic uint64_t classes[RP_DURATION_CLASSES];
} rp_durations;

/* Adds the time from begin_ms to end_ms, clipped to 0..INT32_MAX seconds because clients may have invented them. seconds_max: the bound
 * of each class, as rp_end_seconds_max. */
void rp_durations_add(rp_durations *durations, int32_t (*seconds_max)(uint32_t class), int64_t begin_ms, int64_t end_ms);
void rp_durations_read(const rp_durations *durations, rp_duration_counts *counts);
void rp_durations_reset(rp_durations *durations);

#endif
