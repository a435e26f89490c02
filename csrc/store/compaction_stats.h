/* compaction_stats.h: what the compacted queues of a store have and have done. Threads: a plain struct, the reader's. */
#ifndef RP_STORE_COMPACTION_STATS_H
#define RP_STORE_COMPACTION_STATS_H

#include <stdint.h>

typedef struct rp_compaction_stats {
    int64_t queues;   /* followed */
    int64_t bytes;    /* of their files */
    int64_t copied, without_key, passed_over; /* messages since the start */
    int64_t passes, failures, kept, dropped;  /* compactions, and their messages */
    int64_t behind;   /* messages that are not copied yet */
} rp_compaction_stats;
#endif
