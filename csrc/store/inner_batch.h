/* inner_batch.h: the record of a batch queue. Its sys flag marks it as one; two properties give the number of messages it stands for and
 * the queue offset of the first of them. RocketMQ enters no record into a batch queue that lacks these properties.
 * RocketMQ: MessageSysFlag.INNER_BATCH_FLAG, CommitLog.setBatchSizeIfNeeded, BatchConsumeQueue.assignQueueOffset (5.5.0 store/).
 *
 *   …\2INNER_NUM\0013\2INNER_BASE\0010000000000000000017\2    the offset always has 19 digits: the record is measured before it is known
 *
 * Threads  pure functions.
 */
#ifndef RP_STORE_INNER_BATCH_H
#define RP_STORE_INNER_BATCH_H

#include <stdint.h>

#include "consume_queue.h"
#include "message.h"

#define RP_INNER_MESSAGES_MAX 32767 /* limited by a short in the entry */
#define RP_INNER_PAIRS_MAX 48

/* Writes the two pairs, for that many messages from queue offset `base` on, to `at`. Returns their size, which does not depend on the
 * offset. */
uint32_t rp_inner_pairs_write(uint8_t *at, int32_t messages, int64_t base);
/* Reads the record's place: sets queue_offset and messages. 1; 0: the record gives no place that a batch queue could hold. If a property
 * occurs twice the last one counts, as in RocketMQ: that is the one the broker wrote. */
int rp_inner_batch_read(const rp_message *message, rp_queue_entry *entry);

#endif
