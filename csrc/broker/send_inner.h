/* send_inner.h: batches on their way in: how many messages one has, and whether a batch queue takes it as it is. Private to csrc/broker.
 * RocketMQ: SendMessageProcessor.sendBatchMessage, MessageDecoder.countInnerMsgNum (5.5.0).
 *
 * Threads  the reactor's. The checks each RP_OK, or what the answer to a refusal returned.
 */
#ifndef RP_BROKER_SEND_INNER_H
#define RP_BROKER_SEND_INNER_H

#include <stdint.h>

#include "send_path.h"

/* 1: its properties leave no room for what a batch queue's record says besides. Of one that waits elsewhere first that must not be found
 * out when it is due. */
int rp_send_lacks_room(const rp_send_request *request);
/* Of any batch. */
int rp_send_count_batch(const rp_send_request *request, int64_t *count);
/* Of one to a batch queue. */
int rp_send_check_inner_batch(const rp_send_request *request, int64_t *count);

#endif
