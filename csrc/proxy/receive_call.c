/* receive_call.c: ReceiveMessage, from the client to a broker and back. RocketMQ: ReceiveMessageActivity, ConsumerProcessor (5.3.3
 * proxy/).
 *
 *   asked ─┬─ answered: delivery.h
 *          └─ its client is gone, or takes nothing: the answer is still awaited, and all its messages are put back */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "../base/slice_inl.h"
#include "calls.h"
#include "delivery.h"
#include "pop_command.h"

#define NO_DEADLINE_MS 30000 /* of a client that sets none */
#define POLL_MARGIN_MS 2000  /* how much longer than the poll a broker may take to answer, however soon the client gives up */
#define PATIENCE_MAX_MS 60000
#define TOO_MUCH "too much waits for this client to take it"

enum { PULL_NOT_FOUND = 19, POLLING_FULL = 209, POLLING_TIMEOUT = 210 };

/* ---- to the broker ---- */

static rp_receive *make_receive(rp_reactor *reactor, rp_slice client_id, const rp_received_request *received,
                                const rp_route_choice *choice) {
    const rp_slice broker = {choice->broker_name, choice->broker_name_size};
    rp_receive *made =
        malloc(sizeof *made + client_id.size + received->group.size + received->topic.size + broker.size + received->filter.size);
    if (made == NULL)
        return NULL;
    uint8_t *at = (uint8_t *)(made + 1);
    *made = (rp_receive){.reactor = reactor, .is_renewed = received->is_renewed, .retries = choice->retries};
    made->client_id = rp_slice_copy(&at, client_id);
    made->group = rp_slice_copy(&at, received->group);
    made->topic = rp_slice_copy(&at, received->topic);
    made->broker = rp_slice_copy(&at, broker);
    if (!received->is_sql && !rp_slice_is(received->filter, "*"))
        made->filter = rp_slice_copy(&at, received->filter);
    return made;
}

static int64_t remaining_ms_of(const rp_grpc_call *call, int64_t now_ns) {
    int64_t deadline_ns = rp_grpc_call_deadline_ns(call);
    return deadline_ns == INT64_MAX ? NO_DEADLINE_MS : (deadline_ns - now_ns) / RP_NS_PER_MS;
}

static int64_t patience_ms(int64_t polling_ms, int64_t remaining_ms) {
    int64_t least_ms = polling_ms + POLL_MARGIN_MS, most_ms = remaining_ms < PATIENCE_MAX_MS ? remaining_ms : PATIENCE_MAX_MS;
    return least_ms > most_ms ? least_ms : most_ms;
}

rp_waiting_call *rp_receive_call_pass_on(rp_proxy *proxy, rp_reactor *reactor, rp_grpc_call *call, rp_slice client_id) {
    const rp_receive_rules *rules = &proxy->receive_rules;
    rp_lane *lane = &proxy->lanes[rp_reactor_index(reactor)];
    uint8_t key[RP_ROUTE_KEY_MAX];
    rp_received_request received;
    rp_route_choice choice;
    rp_pop_command pop;
    int64_t reserve_ms, now_ns = rp_reactor_now_ns(reactor), now_ms = rp_clock_wall_ms(proxy->clock),
                        left_ms = remaining_ms_of(call, now_ns);
    if (rp_upstreams_waiting(lane->upstreams) >= proxy->receives_max ||
        !rp_received_request_read(rp_grpc_call_message(call), rules, &received) ||
        !rp_known_clients_find(proxy->clients, client_id, &reserve_ms))
        return NULL;
    const rp_asked_right rights[] = {{RP_RESOURCE_GROUP, RP_ACTION_SUB, received.group},
                                     {RP_RESOURCE_TOPIC, RP_ACTION_SUB, received.topic}};
    int64_t polling_ms = rp_receive_polling_ms(&received, rules, left_ms, reserve_ms);
    if (polling_ms < 0 || !rp_call_is_admitted(proxy->gate, reactor, call, rights, 2) ||
        !rp_route_table_choose_broker(proxy->readings, rp_reading_key(received.topic, received.group, key), received.broker,
                                      (uint64_t)now_ms, now_ns, &choice))
        return NULL;
    rp_receive *own = make_receive(reactor, client_id, &received, &choice);
    if (own == NULL)
        return NULL;
    rp_pop_command_fill(&pop, &received, polling_ms, now_ms, choice.is_orderly);
    int64_t deadline_ns = now_ns + patience_ms(polling_ms, left_ms) * RP_NS_PER_MS;
    rp_waiting_call *waiting = rp_lane_ask(lane, reactor, &choice.address, &pop.command, deadline_ns);
    if (waiting != NULL)
        waiting->taken = own;
    else
        free(own);
    return waiting;
}

/* ---- outcomes ---- */

static void fill_status(rp_answer_status *status, const rp_command *response) {
    if (response->code == POLLING_FULL)
        rp_answer_status_set(status, RP_CODE_TOO_MANY_REQUESTS, "polling full");
    else if (response->code == POLLING_TIMEOUT || response->code == PULL_NOT_FOUND)
        rp_answer_status_set(status, RP_CODE_MESSAGE_NOT_FOUND, "no new message");
    else
        rp_answer_status_of(status, response);
}

void rp_receive_call_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response) {
    rp_receive *own = waiting->taken;
    rp_grpc_call *call = waiting->asker;
    rp_pop_answer answer;
    rp_answer_status status;
    bool is_read = response->code == 0 && rp_pop_answer_read(&answer, response, own->broker);
    if (is_read && call != NULL && rp_grpc_call_may_hold(call, response->body.size)) {
        rp_delivery_begin(lane, own, call, &answer);
        free(own);
        return;
    }
    if (is_read) {
        rp_delivery_put_all_back(lane, own, &answer);
        rp_answer_status_set(&status, RP_CODE_TOO_MANY_REQUESTS, TOO_MUCH);
    } else if (response->code == 0) {
        rp_answer_status_set(&status, RP_CODE_INTERNAL_SERVER_ERROR, "%.*s answered a pop that cannot be read", (int)own->broker.size,
                             (const char *)own->broker.data);
    } else {
        fill_status(&status, response);
    }
    if (call != NULL)
        rp_delivery_refuse(lane, call, &status);
    free(own);
}

void rp_receive_call_refuse(rp_lane *lane, rp_grpc_call *call) {
    rp_answer_status status;
    rp_answer_status_set(&status, RP_CODE_TOO_MANY_REQUESTS, TOO_MUCH);
    rp_delivery_refuse(lane, call, &status);
}

void rp_receive_call_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status) {
    if (waiting->asker != NULL)
        rp_delivery_refuse(lane, waiting->asker, status);
    free(waiting->taken);
}

void rp_receive_call_undo(rp_lane *lane, rp_waiting_call *waiting) {
    (void)lane;
    free(waiting->taken);
}

void rp_receive_call_leave(rp_waiting_call *waiting) { waiting->asker = NULL; }
