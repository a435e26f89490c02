/* send_retry.h: sends to retry topics. Once it is known that the message may have another try, they are plain sends. Private to
 * csrc/broker.
 * RocketMQ: SendMessageProcessor.handleRetryAndDLQ (5.3.3 broker/processor/).
 *
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_SEND_RETRY_H
#define RP_BROKER_SEND_RETRY_H

#include "send_path.h"

/* Of a send that rp_send_check_topic punts: 1 when Python would find nothing but RP_SEND_CAN_BE_STORED. Batches, tries that are used up,
 * groups that are new, and those whose queues somebody may read in order, are its to look at. */
int rp_send_has_another_try(const rp_send_request *request);

#endif
