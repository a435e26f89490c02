/* send_call.c: SendMessage, from the client to a broker and back. RocketMQ: SendMessageActivity, ProducerProcessor (5.3.3 proxy/). */
#include <stdbool.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "../remoting/protocol.h"
#include "calls.h"
#include "send_answer.h"
#include "send_command.h"

#define NO_DEADLINE_NS (30000 * RP_NS_PER_MS) /* of a client that sets none */

/* The address without its port, as rocketpy/proxy/context.py has it. */
static rp_slice host_of(const rp_address *address, char text[RP_ADDRESS_TEXT_MAX]) {
    rp_address_text(address, text);
    char *end = strrchr(text, ':');
    bool is_bracketed = text[0] == '[';
    return (rp_slice){(const uint8_t *)text + is_bracketed, (uint32_t)(end - text) - 2u * is_bracketed};
}

rp_waiting_call *rp_send_call_pass_on(rp_proxy *proxy, rp_reactor *reactor, rp_grpc_call *call, rp_slice client_id) {
    rp_sent_message message;
    rp_route_choice choice;
    rp_send_command sent;
    char peer[RP_ADDRESS_TEXT_MAX];
    int64_t now_ns = rp_reactor_now_ns(reactor), deadline_ns = rp_grpc_call_deadline_ns(call);
    (void)client_id;
    if (deadline_ns == INT64_MAX)
        deadline_ns = now_ns + NO_DEADLINE_NS;
    if (deadline_ns - now_ns < RP_NS_PER_MS ||
        !rp_sent_message_read(rp_grpc_call_message(call), &proxy->rules, rp_clock_wall_ms(proxy->clock), &message))
        return NULL;
    const rp_asked_right right = {RP_RESOURCE_TOPIC, RP_ACTION_PUB, message.topic};
    uint32_t type = rp_sent_message_type(&message);
    if (!rp_call_is_admitted(proxy->gate, reactor, call, &right, 1) ||
        !rp_route_table_choose(proxy->routes, message.topic, type, message.message_group, now_ns, &choice))
        return NULL;
    rp_slice host = host_of(rp_connection_address(rp_grpc_call_connection(call)), peer);
    uint8_t *properties = rp_arena_take(rp_reactor_arena(reactor), rp_sent_message_properties_size(&message, host.size));
    if (properties == NULL)
        return NULL;
    uint32_t size = rp_sent_message_write_properties(&message, host, properties);
    rp_arena_give_back(rp_reactor_arena(reactor), properties + size);
    rp_send_command_fill(&sent, &message, &choice, (rp_slice){properties, size});
    rp_lane *lane = &proxy->lanes[rp_reactor_index(reactor)];
    rp_waiting_call *waiting = rp_lane_ask(lane, reactor, &choice.address, &sent.command, deadline_ns);
    if (waiting != NULL)
        waiting->noted = message.message_id; /* of the call's message, which lives as long as the call waits */
    return waiting;
}

static void answer_with(rp_lane *lane, rp_waiting_call *waiting, const rp_send_answer *answer) {
    uint32_t size = rp_send_answer_size(answer);
    uint8_t *target = rp_lane_begin_answer(lane, waiting, answer->status.code, size);
    if (target == NULL)
        return;
    rp_send_answer_write(answer, target);
    rp_lane_end_answer(waiting, size);
}

void rp_send_call_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response) {
    rp_send_answer answer;
    rp_send_answer_of(&answer, response, waiting->noted);
    answer_with(lane, waiting, &answer);
}

void rp_send_call_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status) {
    rp_send_answer answer;
    answer.has_entry = 0;
    answer.status = *status;
    answer_with(lane, waiting, &answer);
}
