/* flush_timing.h: when the log and the queues are synced although nobody waits for it. Each may change while the store is open. */
#ifndef RP_STORE_FLUSH_TIMING_H
#define RP_STORE_FLUSH_TIMING_H

#include <stdint.h>

typedef struct rp_flush_timing {
    uint32_t interval_ms;          /* flushIntervalCommitLog; at least 1 */
    uint32_t least_pages;          /* flushCommitLogLeastPages: do not sync fewer pages … */
    uint32_t thorough_interval_ms; /* flushCommitLogThoroughInterval: … unless this has passed */
    uint32_t queue_interval_ms;    /* flushIntervalConsumeQueue; at least 1 */
} rp_flush_timing;

#endif
