/* delivery.h: delivers a broker's messages to the client of a ReceiveMessage. C only.
 * RocketMQ: ConsumerProcessor, ReceiveMessageResponseStreamWriter (5.3.3 proxy/).
 *
 *   popped ─┬─ for this client ─ sent, held if it is renewed ─ what was not taken: put back
 *           └─ not for it: removed by an errand
 *
 * A message is sent whole or not at all: messages that memory has no room for are put back.
 *
 * Threads  the reactor's.
 * Owns     what has been sent, until its client has taken it.
 */
#ifndef RP_PROXY_DELIVERY_H
#define RP_PROXY_DELIVERY_H

#include "calls.h"
#include "popped_message.h"

/* The receiver of a call and what it asked for; lives while a broker's answer is awaited. */
typedef struct rp_receive {
    rp_reactor *reactor;
    rp_slice client_id, group, topic, broker, filter; /* filter: a tag expression to compare here; data NULL: none */
    int32_t is_renewed, retries;
} rp_receive;

/* Answers the call with the messages, or with a status in place of them. */
void rp_delivery_begin(rp_lane *lane, const rp_receive *own, rp_grpc_call *call, rp_pop_answer *answer);
void rp_delivery_refuse(rp_lane *lane, rp_grpc_call *call, const rp_answer_status *status);
/* Puts all messages back because the client is gone. */
void rp_delivery_put_all_back(rp_lane *lane, const rp_receive *own, rp_pop_answer *answer);
/* After an answer: puts back what its client has not taken. */
void rp_delivery_end(rp_lane *lane, rp_reactor *reactor, void *watched, uint64_t untaken_bytes);

#endif
