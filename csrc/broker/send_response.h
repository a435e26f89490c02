/* send_response.h: what a send is told: success with its ids, or why not. Private to csrc/broker.
 * RocketMQ: SendMessageProcessor.handlePutMessageResult, SendMessageResponseHeader, MessageDecoder.createMessageId (5.3.3).
 *
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_SEND_RESPONSE_H
#define RP_BROKER_SEND_RESPONSE_H

#include "send_path.h"

/* SERVICE_NOT_AVAILABLE with the reason Python gave. */
int rp_send_answer_not_writable(struct rp_lane *lane, rp_answer_to to);
/* Answers one send whose items carry their results, or parks its response. */
void rp_send_respond(struct rp_lane *lane, const rp_pending_send *send);

#endif
