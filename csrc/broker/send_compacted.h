/* send_compacted.h: sends to topics with cleanup.policy=COMPACTION (store/compaction.h). Private to csrc/broker.
 * RocketMQ: SendMessageProcessor.sendMessage, "Required message key is missing" (5.5.0 broker/processor/).
 *
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_SEND_COMPACTED_H
#define RP_BROKER_SEND_COMPACTED_H

#include "send_path.h"

/* A message to such a topic needs a key (KEYS); one without a body deletes its key. In a batch each message needs one: RocketMQ accepts
 * messages without, and no consumer ever sees them. RP_OK, or the result of answering a refusal. */
int rp_send_check_key(const rp_send_request *request);

#endif
