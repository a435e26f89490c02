/* compaction_stats.h: counters and sizes of a store's compacted queues. A plain struct, owned by the caller. */
#ifndef RP_STORE_COMPACTION_STATS_H
#define RP_STORE_COMPACTION_STATS_H

#include <stdint.h>

typedef struct rp_compaction_stats {
    int64_t queues;   /* queues that are compacted */
    int64_t bytes;    /* total size of their files */
    int64_t copied, without_key, passed_over; /* messages since the start */
    int64_t passes, failures, kept, dropped;  /* passes and failures: compactions; kept and dropped: messages */
    int64_t behind;   /* messages not yet copied */
} rp_compaction_stats;
#endif
