/* delivery.h: a broker's messages for a ReceiveMessage, on their way to the client. C only.
 * RocketMQ: ConsumerProcessor, ReceiveMessageResponseStreamWriter (5.3.3 proxy/).
 *
 *   popped ─┬─ for this client ─ said, held where it is renewed ─ what was not taken: put back
 *           └─ not for it: away by an errand
 *
 * An answer is said whole or not at all: what memory has no room for is put back.
 *
 * Threads  the reactor's.
 * Owns     what has been said, until its client has taken it.
 */
#ifndef RP_PROXY_DELIVERY_H
#define RP_PROXY_DELIVERY_H

#include "calls.h"
#include "popped_message.h"

/* Who receives, and what: as long as a broker is waited for. */
typedef struct rp_receive {
    rp_reactor *reactor;
    rp_slice client_id, group, topic, broker, filter; /* filter: of tags, which are compared here; data NULL: none */
    int32_t is_renewed, retries;
} rp_receive;

/* The call is answered by the messages, or by a status in their place. */
void rp_delivery_begin(rp_lane *lane, const rp_receive *own, rp_grpc_call *call, rp_pop_answer *answer);
void rp_delivery_refuse(rp_lane *lane, rp_grpc_call *call, const rp_answer_status *status);
/* Nobody is there to take them. */
void rp_delivery_put_all_back(rp_lane *lane, const rp_receive *own, rp_pop_answer *answer);
/* Behind an answer: what its client has not taken is put back. */
void rp_delivery_end(rp_lane *lane, rp_reactor *reactor, void *watched, uint64_t untaken_bytes);

#endif
