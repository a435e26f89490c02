/* send_call.c: SendMessage, from the client to a broker and back. RocketMQ: SendMessageActivity, ProducerProcessor (5.3.3 proxy/). */
#include <stdbool.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "../remoting/protocol.h"
#include "calls.h"
#include "send_answer.h"
#include "send_command.h"
#include "sent_batch.h"

#define NO_DEADLINE_NS (30000 * RP_NS_PER_MS) /* of a client that sets none */

/* The address without its port, in the form of rocketpy/proxy/context.py. */
static rp_slice host_of(const rp_address *address, char text[RP_ADDRESS_TEXT_MAX]) {
    rp_address_text(address, text);
    char *end = strrchr(text, ':');
    bool is_bracketed = text[0] == '[';
    return (rp_slice){(const uint8_t *)text + is_bracketed, (uint32_t)(end - text) - 2u * is_bracketed};
}

/* What one call sends; its texts lie in the reactor's arena. */
typedef struct outgoing {
    rp_sent_message first;
    rp_slice group; /* the message group, which determines the queue */
    rp_slice properties, batch;
} outgoing;

static bool write_properties(rp_arena *arena, outgoing *own, rp_slice host) {
    uint8_t *target = rp_arena_take(arena, rp_sent_message_properties_size(&own->first, host.size));
    if (target == NULL)
        return false;
    uint32_t size = rp_sent_message_write_properties(&own->first, host, target);
    rp_arena_give_back(arena, target + size);
    own->properties = (rp_slice){target, size};
    return true;
}

static bool write_batch(rp_arena *arena, outgoing *own, rp_slice request, const rp_send_rules *rules, int64_t now_ms, rp_slice host,
                        uint64_t size_max) {
    uint8_t *target = rp_arena_take(arena, size_max);
    if (target == NULL)
        return false;
    uint64_t size = rp_sent_batch_write(request, rules, now_ms, host, target);
    rp_arena_give_back(arena, target + size);
    own->batch = (rp_slice){target, (uint32_t)size};
    return true;
}

static bool read_one(rp_slice request, const rp_send_rules *rules, int64_t now_ms, outgoing *own) {
    rp_slice bytes, none;
    if (rp_sent_next(&request, &bytes) != 1 || !rp_sent_message_read(bytes, rules, now_ms, &own->first))
        return false;
    own->group = rp_sent_message_group(&own->first);
    return rp_sent_next(&request, &none) == 0;
}

rp_waiting_call *rp_send_call_pass_on(rp_proxy *proxy, rp_reactor *reactor, rp_grpc_call *call, rp_slice client_id) {
    outgoing own;
    rp_sent_batch batch;
    rp_route_choice choice;
    rp_send_command sent;
    char peer[RP_ADDRESS_TEXT_MAX];
    rp_arena *arena = rp_reactor_arena(reactor);
    const rp_send_rules *rules = &proxy->rules;
    const rp_slice request = rp_grpc_call_message(call), host = host_of(rp_connection_address(rp_grpc_call_connection(call)), peer);
    int64_t now_ns = rp_reactor_now_ns(reactor), now_ms = rp_clock_wall_ms(proxy->clock), deadline_ns = rp_grpc_call_deadline_ns(call);
    (void)client_id;
    own.group = own.batch = (rp_slice){NULL, 0};
    if (deadline_ns == INT64_MAX)
        deadline_ns = now_ns + NO_DEADLINE_NS;
    if (deadline_ns - now_ns < RP_NS_PER_MS)
        return NULL;
    bool is_batch = rp_sent_has_several(request);
    if (is_batch ? !rp_sent_batch_read(request, rules, now_ms, host.size, &own.first, &batch) : !read_one(request, rules, now_ms, &own))
        return NULL;
    const rp_asked_right right = {RP_RESOURCE_TOPIC, RP_ACTION_PUB, own.first.topic};
    if (!rp_call_is_admitted(proxy->gate, reactor, call, &right, 1) ||
        !rp_route_table_choose(proxy->routes, own.first.topic, rp_sent_message_type(&own.first), own.group, now_ns, &choice) ||
        !write_properties(arena, &own, host) || (is_batch && !write_batch(arena, &own, request, rules, now_ms, host, batch.size_max)))
        return NULL;
    rp_send_command_fill(&sent, &own.first, &choice, own.properties, own.batch);
    return rp_lane_ask(&proxy->lanes[rp_reactor_index(reactor)], reactor, &choice.address, &sent.command, deadline_ns);
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
    rp_send_answer_of(&answer, response, rp_grpc_call_message(waiting->asker));
    answer_with(lane, waiting, &answer);
}

void rp_send_call_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status) {
    rp_send_answer answer;
    answer.has_entry = 0;
    answer.status = *status;
    answer_with(lane, waiting, &answer);
}
