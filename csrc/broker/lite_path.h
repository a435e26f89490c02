/* lite_path.h: pops of lite topics, and their acks. Private to csrc/broker.
 * RocketMQ: PopLiteMessageProcessor, AckMessageProcessor.ackLite, ChangeInvisibleTimeProcessor.processChangeInvisibleTimeForLite,
 * MemoryConsumerOrderInfoManager (5.5.0 broker/). Design: docs/design-lite.md.
 *
 *   pop ─ reader of (group, client) ─ its lite queues that are ready, each in order: out of it until acked ─► answer, or it waits
 *
 * A lite topic is always popped in order. Which messages are out is kept in memory only (pop_order.h); there are no checkpoints and no
 * retry topics.
 *
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_LITE_PATH_H
#define RP_BROKER_LITE_PATH_H

#include "pop_path.h"
#include "request_header.h"

int rp_lite_pop_request(struct rp_lane *lane, rp_connection *connection, const rp_command *command);
/* As rp_pop_retry. */
int rp_lite_pop_retry(struct rp_lane *lane, rp_pop *pop, int last);
/* Tries waiting pops again for which events have made something ready. The first lane also handles held queues that are due. */
void rp_lite_drain(struct rp_lane *lane);
/* Returns when the lane has to look at held queues; INT64_MAX: never. */
int64_t rp_lite_deadline(const struct rp_lane *lane);
/* Tells the lane that handles held queues of a new earliest deadline. */
void rp_lite_tell_due(struct rp_lane *lane);

/* Answers an ack, or a change of the invisible time, that names a lite topic. */
int rp_lite_acked(struct rp_lane *lane, rp_answer_to to, const rp_topic *parent, const rp_pop_ack_header *header);

#endif
