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
#include "known_clients.h"
#include "proxy.h"
#include "received_request.h"
#include "upstreams.h"

/* What a waiting call is (rp_waiting_call.method): of one of rp_proxy_method, or an errand, for which nobody waits. */
enum rp_way { RP_WAY_ERRAND = RP_PROXY_METHODS, RP_WAY_BURIAL, RP_WAYS };

typedef struct rp_lane {
    rp_upstreams *upstreams;                        /* fixed after open */
    struct rp_proxy *proxy;                         /* the same */
    _Atomic uint64_t passed[RP_PROXY_METHODS], answered, punted, errands, failed_errands; /* figures, so relaxed */
    rp_call_times times[RP_PROXY_METHODS];
} rp_lane;

struct rp_proxy {
    rp_send_rules rules; /* fixed after open, as what follows */
    rp_receive_rules receive_rules;
    uint32_t receives_max; /* with so many calls waiting in a lane a receive is Python's: those that are left are for calls that end soon */
    int32_t methods[RP_PROXY_METHODS]; /* their places in the port's table */
    uint32_t reactors;
    const rp_clock *clock;
    const rp_gate *gate;
    const rp_signer *signer;
    rp_route_table *routes;
    rp_route_table *readings; /* by topic and group */
    rp_known_clients *clients;
    rp_broker_addresses *brokers;
    rp_held_handles *held;
    rp_handler handler;
    rp_grpc_handler grpc_handler;
    rp_lane lanes[];
};

/* send_call.c, ack_call.c, change_call.c and receive_call.c, each the way of a method: */

/* To a broker: what waits for its answer; NULL: it is Python's. client_id is the caller's. */
rp_waiting_call *rp_send_call_pass_on(rp_proxy *proxy, rp_reactor *reactor, rp_grpc_call *call, rp_slice client_id);
rp_waiting_call *rp_ack_call_pass_on(rp_proxy *proxy, rp_reactor *reactor, rp_grpc_call *call, rp_slice client_id);
rp_waiting_call *rp_change_call_pass_on(rp_proxy *proxy, rp_reactor *reactor, rp_grpc_call *call, rp_slice client_id);
rp_waiting_call *rp_receive_call_pass_on(rp_proxy *proxy, rp_reactor *reactor, rp_grpc_call *call, rp_slice client_id);
/* The answer to the client, of what a broker has said, and of a status that stands in the place of that. */
void rp_send_call_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response);
void rp_ack_call_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response);
void rp_change_call_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response);
void rp_receive_call_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response);
void rp_send_call_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status);
void rp_ack_call_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status);
void rp_change_call_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status);
void rp_receive_call_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status);
/* Its broker goes away and has not handled it: 1: it is asked again; 0: it is not, and ends. */
int rp_ack_call_again(rp_lane *lane, rp_waiting_call *waiting);
/* It is Python's after all: what was taken for it goes back. */
void rp_change_call_undo(rp_lane *lane, rp_waiting_call *waiting);
void rp_receive_call_undo(rp_lane *lane, rp_waiting_call *waiting);
/* Its client waits no more, and nobody hears of the broker's answer; but for a receive, whose messages are put back when they come. */
void rp_ack_call_drop(rp_lane *lane, rp_waiting_call *waiting);
void rp_change_call_drop(rp_lane *lane, rp_waiting_call *waiting);
void rp_receive_call_leave(rp_waiting_call *waiting);
/* It is answered at once: its client does not take what it has. */
void rp_receive_call_refuse(rp_lane *lane, rp_grpc_call *call);

/* errands.c: */

/* A message of which the proxy says something to its broker by itself. The texts are copied where they are needed for longer. */
typedef struct rp_errand {
    rp_slice group, topic, handle, message_id;
} rp_errand;

/* Whatever cannot be asked or fails is counted: the message comes again when its time is over. */
void rp_errand_put_back(rp_lane *lane, rp_reactor *reactor, const rp_errand *errand); /* it comes again soon */
void rp_errand_ack(rp_lane *lane, rp_reactor *reactor, const rp_errand *errand);
void rp_errand_bury(rp_lane *lane, rp_reactor *reactor, const rp_errand *errand); /* a dead letter, and acknowledged then */
void rp_errand_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response);
void rp_errand_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status);
void rp_burial_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response);
void rp_burial_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status);

/* proxy.c: */

/* Signs the command where that is wanted, and asks. NULL: it is Python's. */
rp_waiting_call *rp_lane_ask(rp_lane *lane, rp_reactor *reactor, const rp_address *address, rp_command *command, int64_t deadline_ns);
/* Room for an answer of size bytes; NULL: the call has ended, as memory is out. rp_lane_end_answer is next. */
uint8_t *rp_lane_begin_answer(rp_lane *lane, rp_waiting_call *waiting, int32_t code, uint32_t size);
void rp_lane_end_answer(rp_waiting_call *waiting, uint32_t size);
/* The call is answered with this code, which is counted. */
void rp_lane_count_answer(rp_lane *lane, const rp_grpc_call *call, int32_t method, int32_t code);
void rp_lane_count(_Atomic uint64_t *figure);

#endif
