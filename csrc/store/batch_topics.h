/* batch_topics.h: the set of topics whose queues are batch queues (queue.type=BatchCQ), as the broker declares them. Private to
 * queue_table.
 *
 * Threads  one at a time: under the queue table's lock.
 * Bounds   none of its own; a topic takes its name and about 16 bytes.
 */
#ifndef RP_STORE_BATCH_TOPICS_H
#define RP_STORE_BATCH_TOPICS_H

#include <stdint.h>

#include "../base/slice.h"

typedef struct rp_batch_topics {
    rp_slice *names; /* owned, bytes included; open addressing, data NULL: free slot */
    uint32_t slot_count, count;
} rp_batch_topics;

/* RP_OK; RP_E_NO_MEMORY: the set is unchanged. */
int rp_batch_topics_add(rp_batch_topics *topics, rp_slice name);
void rp_batch_topics_remove(rp_batch_topics *topics, rp_slice name);
int rp_batch_topics_has(const rp_batch_topics *topics, rp_slice name);
void rp_batch_topics_free(rp_batch_topics *topics);

#endif
