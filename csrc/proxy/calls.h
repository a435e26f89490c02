/* calls.h: what the files of the proxy share: one lane per reactor, and how the calls of each method go to a broker and back. C only.
 *
 * Threads  a lane belongs to its reactor; statistics are read by any thread.
 */
#ifndef RP_PROXY_CALLS_H
#define RP_PROXY_CALLS_H

#include <stdatomic.h>

#include "../base/clock_inl.h"
#include "answer_status.h"
#include "call_claim.h"
#include "call_times.h"
#include "known_clients.h"
#include "proxy.h"
#include "received_request.h"
#include "upstreams.h"

#define RP_PATIENCE_NS (3000 * RP_NS_PER_MS) /* as for brokers.py's calls, however long a client waits; a send has its client's deadline */

/* What a waiting call is for (rp_waiting_call.method): a client's call, one of rp_proxy_method; or one of these, for which no client
 * waits. */
enum rp_way { RP_WAY_ERRAND = RP_PROXY_METHODS, RP_WAY_BURIAL, RP_WAYS };

typedef struct rp_lane {
    rp_upstreams *upstreams; /* fixed after open */
    struct rp_proxy *proxy; /* likewise */
    _Atomic uint64_t passed[RP_PROXY_METHODS], answered, punted, errands, failed_errands; /* statistics, so relaxed */
    rp_call_times times[RP_PROXY_METHODS];
} rp_lane;

struct rp_proxy {
    rp_send_rules rules; /* fixed after open, like all below */
    rp_receive_rules receive_rules;
    /* When this many calls wait in a lane, receives are left to Python: the other places are kept for calls that end soon. */
    uint32_t receives_max;
    int32_t methods[RP_PROXY_METHODS]; /* their places in the port's method table */
    uint32_t reactors;
    const rp_clock *clock;
    const rp_gate *gate;
    const rp_signer *signer;
    rp_route_table *routes;
    rp_route_table *readings; /* routes by topic and group */
    rp_known_clients *clients;
    rp_broker_addresses *brokers;
    rp_held_handles *held;
    rp_handler handler;
    rp_grpc_handler grpc_handler;
    rp_lane lanes[];
};

/* send_call.c, ack_call.c, change_call.c and receive_call.c, one function per method: */

/* Sends the call to a broker. Returns the call that waits for the answer; NULL: the call is left to Python. client_id names the caller. */
rp_waiting_call *rp_send_call_pass_on(rp_proxy *proxy, rp_reactor *reactor, rp_grpc_call *call, rp_slice client_id);
rp_waiting_call *rp_ack_call_pass_on(rp_proxy *proxy, rp_reactor *reactor, rp_grpc_call *call, rp_slice client_id);
rp_waiting_call *rp_change_call_pass_on(rp_proxy *proxy, rp_reactor *reactor, rp_grpc_call *call, rp_slice client_id);
rp_waiting_call *rp_receive_call_pass_on(rp_proxy *proxy, rp_reactor *reactor, rp_grpc_call *call, rp_slice client_id);
/* Answers the client: with the broker's answer, or with a status in place of one. */
void rp_send_call_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response);
void rp_ack_call_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response);
void rp_change_call_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response);
void rp_receive_call_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response);
void rp_send_call_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status);
void rp_ack_call_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status);
void rp_change_call_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status);
void rp_receive_call_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status);
/* The broker is going away and has not handled the request. Returns 1 if another request was sent, 0 if the call ends. */
int rp_ack_call_again(rp_lane *lane, rp_waiting_call *waiting);
/* Gives back what the call took out of rp_held_handles or allocated, because Python answers it after all. */
void rp_change_call_undo(rp_lane *lane, rp_waiting_call *waiting);
void rp_receive_call_undo(rp_lane *lane, rp_waiting_call *waiting);
/* The client no longer waits. The broker's answer is dropped; only the messages of a receive are put back when they arrive. */
void rp_ack_call_drop(rp_lane *lane, rp_waiting_call *waiting);
void rp_change_call_drop(rp_lane *lane, rp_waiting_call *waiting);
void rp_receive_call_leave(rp_waiting_call *waiting);
/* Refuses a receive without asking a broker, because its client does not take what it has already been sent. */
void rp_receive_call_refuse(rp_lane *lane, rp_grpc_call *call);

/* errands.c: */

/* A message about which the proxy sends its broker a request of its own accord. Texts that are needed for longer are copied. */
typedef struct rp_errand {
    rp_slice group, topic, handle, message_id;
} rp_errand;

/* A request that cannot be sent, or fails, is counted: the message then comes again when its invisible time is over. */
void rp_errand_put_back(rp_lane *lane, rp_reactor *reactor, const rp_errand *errand); /* makes it visible again soon */
void rp_errand_ack(rp_lane *lane, rp_reactor *reactor, const rp_errand *errand);
void rp_errand_bury(rp_lane *lane, rp_reactor *reactor, const rp_errand *errand); /* makes it a dead letter, then acknowledges it */
void rp_errand_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response);
void rp_errand_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status);
void rp_burial_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response);
void rp_burial_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status);

/* proxy.c: */

/* Signs the command if the proxy signs, and sends it to the broker. Returns NULL if it could not be sent. */
rp_waiting_call *rp_lane_ask(rp_lane *lane, rp_reactor *reactor, const rp_address *address, rp_command *command, int64_t deadline_ns);
/* Returns room for an answer of `size` bytes, to be finished by rp_lane_end_answer; NULL: out of memory, and the call has been ended. */
uint8_t *rp_lane_begin_answer(rp_lane *lane, rp_waiting_call *waiting, int32_t code, uint32_t size);
void rp_lane_end_answer(rp_waiting_call *waiting, uint32_t size);
/* Counts the code with which the call is answered, and the time that it took. */
void rp_lane_count_answer(rp_lane *lane, const rp_grpc_call *call, int32_t method, int32_t code);
void rp_lane_count(_Atomic uint64_t *figure);

#endif
