/* calls.h: what the files of the proxy share: what belongs to a reactor, and the ways of the methods. C only.
 *
 * Threads  everything of a lane is its reactor's; figures are read by any thread.
 */
#ifndef RP_PROXY_CALLS_H
#define RP_PROXY_CALLS_H

#include <stdatomic.h>

#include "answer_status.h"
#include "call_claim.h"
#include "call_times.h"
#include "proxy.h"
#include "upstreams.h"

typedef struct rp_lane {
    rp_upstreams *upstreams;                        /* fixed after open */
    struct rp_proxy *proxy;                         /* the same */
    _Atomic uint64_t passed[RP_PROXY_METHODS], answered, punted; /* figures, so relaxed */
    rp_call_times times[RP_PROXY_METHODS];
} rp_lane;

struct rp_proxy {
    rp_send_rules rules; /* fixed after open, as what follows */
    int32_t methods[RP_PROXY_METHODS]; /* their places in the port's table */
    uint32_t reactors;
    const rp_clock *clock;
    const rp_gate *gate;
    const rp_signer *signer;
    rp_route_table *routes;
    rp_broker_addresses *brokers;
    rp_held_handles *held;
    rp_handler handler;
    rp_grpc_handler grpc_handler;
    rp_lane lanes[];
};

/* send_call.c and ack_call.c, each the way of a method: */

/* To a broker: what waits for its answer; NULL: it is Python's. client_id is the caller's. */
rp_waiting_call *rp_send_call_pass_on(rp_proxy *proxy, rp_reactor *reactor, rp_grpc_call *call, rp_slice client_id);
rp_waiting_call *rp_ack_call_pass_on(rp_proxy *proxy, rp_reactor *reactor, rp_grpc_call *call, rp_slice client_id);
/* The answer to the client, of what a broker has said, and of a status that stands in the place of that. */
void rp_send_call_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response);
void rp_ack_call_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response);
void rp_send_call_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status);
void rp_ack_call_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status);
/* It is Python's after all: what was taken for it goes back. */
void rp_ack_call_undo(rp_lane *lane, rp_waiting_call *waiting);

/* proxy.c: */

/* Room for an answer of size bytes; NULL: the call has ended, as memory is out. rp_lane_end_answer is next. */
/* Signs the command where that is wanted, and asks. NULL: it is Python's. */
rp_waiting_call *rp_lane_ask(rp_lane *lane, rp_reactor *reactor, const rp_address *address, rp_command *command, int64_t deadline_ns);
uint8_t *rp_lane_begin_answer(rp_lane *lane, rp_waiting_call *waiting, int32_t code, uint32_t size);
void rp_lane_end_answer(rp_waiting_call *waiting, uint32_t size);

#endif
