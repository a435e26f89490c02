/* pull_response.h: what a pull is told. Private to csrc/broker.
 * RocketMQ: PullMessageProcessor.composeResponseHeader, DefaultPullMessageResultHandler, PullMessageResponseHeader (5.3.3).
 *
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_PULL_RESPONSE_H
#define RP_BROKER_PULL_RESPONSE_H

#include "broker.h"
#include "get_message.h"
#include "pull_path.h"

/* The response code for a result, roles considered. */
int32_t rp_pull_response_code(const rp_broker *broker, const rp_pull *pull, const rp_get_result *result);

/* Of a global queue: what RocketMQ makes of that code, and of the next offset (PullMessageProcessor.rewriteResponseForStaticTopic): a
 * consumer whose position lies before what is here, or behind it, is told where to go on. */
int32_t rp_pull_mapped_code(const rp_pull *pull, int32_t code, rp_get_result *result);

/* Writes the response; with messages their ranges go behind it and their pins with them. RP_HANDLED, or a negative status: the
 * connection must be closed (the ranges are released all the same). */
int rp_pull_response_send(struct rp_lane *lane, const rp_pull *pull, rp_answer_to to, int32_t code, const rp_get_result *result);

#endif
