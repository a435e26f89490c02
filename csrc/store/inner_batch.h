/* inner_batch.h: the record of a batch queue: it says by its sys flag that it is one, and by two properties for how many messages it stands
 * and at which queue offset the first of them lies. RocketMQ enters no record into a batch queue that lacks the properties.
 * RocketMQ: MessageSysFlag.INNER_BATCH_FLAG, CommitLog.setBatchSizeIfNeeded, BatchConsumeQueue.assignQueueOffset (5.5.0 store/).
 *
 *   …\2INNER_NUM\0013\2INNER_BASE\0010000000000000000017\2    the offset in 19 digits always: the record is measured before it is known
 *
 * Threads  pure functions.
 */
#ifndef RP_STORE_INNER_BATCH_H
#define RP_STORE_INNER_BATCH_H

#include <stdint.h>

#include "consume_queue.h"
#include "message.h"

#define RP_INNER_MESSAGES_MAX 32767 /* a short in the entry */
#define RP_INNER_PAIRS_MAX 48

/* The two pairs for so many messages from queue offset `base` on, written to `at`; how many bytes that are, whatever the offset. */
uint32_t rp_inner_pairs_write(uint8_t *at, int32_t messages, int64_t base);
/* Fills in what the record says of its place: queue_offset and messages. 1; 0: it says nothing that a batch queue could hold. Of a pair
 * that comes twice the last one counts, as in RocketMQ: that is the broker's. */
int rp_inner_batch_read(const rp_message *message, rp_queue_entry *entry);

#endif
