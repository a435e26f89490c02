/* send_priority.h: to which queue a message goes by its priority. Private to csrc/broker.
 * RocketMQ: SendMessageProcessor.sendMessage, TopicMessageType (5.5.0 broker/, common/). Pops take those queues in order (pop_path.c).
 *
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_SEND_PRIORITY_H
#define RP_BROKER_SEND_PRIORITY_H

#include "send_path.h"

/* Of a single message that says something of a priority: another queue for it, the last one for whatever is higher; or the property goes,
 * where the message is of another kind. A topic need not be a priority topic for that. In a static one the queue stays that was named: its
 * sender counts in queues of all brokers. RP_OK, RP_E_NO_MEMORY. */
int rp_send_rank(rp_send_request *request);

#endif
