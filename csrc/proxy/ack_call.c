/* ack_call.c: AckMessage, from the client to a broker and back. RocketMQ: AckMessageActivity, ConsumerProcessor (5.3.3 proxy/).
 *
 * A message whose invisible time is renewed is acknowledged by its handle of today, and is not renewed any more. */
#include "../base/clock_inl.h"
#include "acked_message.h"
#include "calls.h"

#define PATIENCE_NS (3000 * RP_NS_PER_MS) /* as of brokers.py's calls, however long the client waits */

rp_waiting_call *rp_ack_call_pass_on(rp_proxy *proxy, rp_reactor *reactor, rp_grpc_call *call, rp_slice client_id) {
    rp_acked_message acked;
    rp_receipt_handle handle;
    rp_address address;
    rp_ack_command ack;
    rp_held_handle *taken = NULL;
    if (!rp_acked_message_read(rp_grpc_call_message(call), &acked))
        return NULL;
    const rp_asked_right rights[] = {{RP_RESOURCE_GROUP, RP_ACTION_SUB, acked.group}, {RP_RESOURCE_TOPIC, RP_ACTION_SUB, acked.topic}};
    if (!rp_call_is_admitted(proxy->gate, reactor, call, rights, 2))
        return NULL;
    const rp_held_key key = {client_id, acked.group, acked.handle};
    if (rp_held_handles_take(proxy->held, &key, &taken) == RP_HELD_RENEWED)
        return NULL;
    rp_slice today = taken != NULL ? rp_held_handle_today(taken) : acked.handle;
    rp_waiting_call *waiting = NULL;
    if (rp_receipt_handle_read(today, &handle) && handle.visible_ms > rp_clock_wall_ms(proxy->clock) &&
        rp_broker_addresses_find(proxy->brokers, handle.broker, &address)) {
        rp_ack_command_fill(&ack, &acked, today, &handle);
        rp_lane *lane = &proxy->lanes[rp_reactor_index(reactor)];
        waiting = rp_lane_ask(lane, reactor, &address, &ack.command, rp_reactor_now_ns(reactor) + PATIENCE_NS);
    }
    if (waiting != NULL)
        waiting->taken = taken;
    else if (taken != NULL)
        rp_held_handles_give_back(proxy->held, taken);
    return waiting;
}

void rp_ack_call_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status) {
    rp_acked_message acked;
    rp_held_handle_free(waiting->taken);
    rp_acked_message_read(rp_grpc_call_message(waiting->asker), &acked); /* it could be read before */
    uint32_t size = rp_ack_answer_size(&acked, status);
    uint8_t *target = rp_lane_begin_answer(lane, waiting, status->code, size);
    if (target == NULL)
        return;
    rp_ack_answer_write(&acked, status, target);
    rp_lane_end_answer(waiting, size);
}

void rp_ack_call_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response) {
    rp_answer_status status;
    rp_ack_status_of(&status, response);
    rp_ack_call_end(lane, waiting, &status);
}

void rp_ack_call_undo(rp_lane *lane, rp_waiting_call *waiting) {
    if (waiting->taken != NULL)
        rp_held_handles_give_back(lane->proxy->held, waiting->taken);
}
