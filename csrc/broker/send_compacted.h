/* send_compacted.h: sends to topics with cleanup.policy=COMPACTION (store/compaction.h). Private to csrc/broker.
 * RocketMQ: SendMessageProcessor.sendMessage, "Required message key is missing" (5.5.0 broker/processor/).
 *
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_SEND_COMPACTED_H
#define RP_BROKER_SEND_COMPACTED_H

#include "send_path.h"

/* Such a topic's message needs a key (KEYS), and one without a body deletes what its key had. Each of a batch needs one: RocketMQ takes
 * those without, and no consumer ever sees them. RP_OK, or what the answer to a refusal returned. */
int rp_send_check_key(const rp_send_request *request);

#endif
