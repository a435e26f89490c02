/* send_inner.h: batches being sent: how many messages one has, and whether a batch queue accepts it as it is. Private to csrc/broker.
 * RocketMQ: SendMessageProcessor.sendBatchMessage, MessageDecoder.countInnerMsgNum (5.5.0).
 *
 * Threads  the reactor's.
 * Errors   each check returns RP_OK, or the result of answering a refusal.
 */
#ifndef RP_BROKER_SEND_INNER_H
#define RP_BROKER_SEND_INNER_H

#include <stdint.h>

#include "send_path.h"

/* 1 if the message's properties leave no room for those that a record in a batch queue gets in addition. Checked on arrival, since a
 * message that first waits elsewhere could no longer be refused when it is due. */
int rp_send_lacks_room(const rp_send_request *request);
/* Counts the messages of any batch. */
int rp_send_count_batch(const rp_send_request *request, int64_t *count);
/* Checks a batch that goes to a batch queue as it is, and counts its messages. */
int rp_send_check_inner_batch(const rp_send_request *request, int64_t *count);

#endif
