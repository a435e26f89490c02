/* send_priority.h: chooses a message's queue by its priority. Private to csrc/broker.
 * RocketMQ: SendMessageProcessor.sendMessage, TopicMessageType (5.5.0 broker/, common/). Pops take those queues in order (pop_path.c).
 *
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_SEND_PRIORITY_H
#define RP_BROKER_SEND_PRIORITY_H

#include "send_path.h"

/* For a single message that names a priority: chooses its queue, the last one for higher priorities; or removes the property if the
 * message is of another kind. The topic need not be a priority topic. In a static topic the named queue is kept, since its producer
 * counts queues of all brokers. RP_OK, RP_E_NO_MEMORY. */
int rp_send_rank(rp_send_request *request);

#endif
