/* send_retry.h: sends to retry topics, which are plain sends once it is known that the message may have another try. Private to
 * csrc/broker.
 * RocketMQ: SendMessageProcessor.handleRetryAndDLQ (5.3.3 broker/processor/).
 *
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_SEND_RETRY_H
#define RP_BROKER_SEND_RETRY_H

#include "send_path.h"

/* For a send that rp_send_check_topic punts: 1 if Python could only find RP_SEND_CAN_BE_STORED. Batches, messages after their last try,
 * new groups, and groups whose queues somebody may read in order are left to Python. */
int rp_send_has_another_try(const rp_send_request *request);

#endif
