/* lite_path.h: pops of lite topics, and their acks. Private to csrc/broker.
 * RocketMQ: PopLiteMessageProcessor, AckMessageProcessor.ackLite, ChangeInvisibleTimeProcessor.processChangeInvisibleTimeForLite,
 * MemoryConsumerOrderInfoManager (5.5.0 broker/). Design: docs/design-lite.md.
 *
 *   pop ─ reader of (group, client) ─ its lite queues that are ready, each in order: out of it until acked ─► answer, or it waits
 *
 * A lite topic is always popped in order; what is out is in memory alone (pop_order.h), and there are no checkpoints and no retry topics.
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
/* Tries again those that wait for what events have made ready; what is held is due by the first lane's deadline. */
void rp_lite_drain(struct rp_lane *lane);
/* When the lane has to look at what is held, INT64_MAX: it need not. */
int64_t rp_lite_deadline(const struct rp_lane *lane);
/* Something is held until an earlier time than all others: the lane that looks is told. */
void rp_lite_tell_due(struct rp_lane *lane);

/* An ack, or a change of the invisible time, that names a lite topic. */
int rp_lite_acked(struct rp_lane *lane, rp_answer_to to, const rp_topic *parent, const rp_pop_ack_header *header);

#endif
