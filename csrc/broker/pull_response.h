/* pull_response.h: writes the responses to pulls. Private to csrc/broker.
 * RocketMQ: PullMessageProcessor.composeResponseHeader, DefaultPullMessageResultHandler, PullMessageResponseHeader (5.3.3).
 *
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_PULL_RESPONSE_H
#define RP_BROKER_PULL_RESPONSE_H

#include "broker.h"
#include "get_message.h"
#include "pull_path.h"

/* Returns the response code for a result; it depends on the broker's role. */
int32_t rp_pull_response_code(const rp_broker *broker, const rp_pull *pull, const rp_get_result *result);

/* For a global queue: adapts code and next offset as RocketMQ does (PullMessageProcessor.rewriteResponseForStaticTopic): a consumer
 * whose position lies before or behind the local queue is told where to continue. */
int32_t rp_pull_mapped_code(const rp_pull *pull, int32_t code, rp_get_result *result);

/* Writes the response; the ranges of its messages, with their pins, are sent behind it. RP_HANDLED, or a negative status: the connection
 * must be closed (the ranges are released in any case). */
int rp_pull_response_send(struct rp_lane *lane, const rp_pull *pull, rp_answer_to to, int32_t code, const rp_get_result *result);

#endif
