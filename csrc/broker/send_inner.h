/* send_inner.h: batches on their way in: how many messages one has, and whether a batch queue takes it as it is. Private to csrc/broker.
 * RocketMQ: SendMessageProcessor.sendBatchMessage, MessageDecoder.countInnerMsgNum (5.5.0).
 *
 * Threads  the reactor's. Each RP_OK, or what the answer to a refusal returned.
 */
#ifndef RP_BROKER_SEND_INNER_H
#define RP_BROKER_SEND_INNER_H

#include <stdint.h>

#include "send_path.h"

/* Of any batch. */
int rp_send_count_batch(const rp_send_request *request, int64_t *count);
/* Of one to a batch queue. */
int rp_send_check_inner_batch(const rp_send_request *request, int64_t *count);

#endif
