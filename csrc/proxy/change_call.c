/* change_call.c: ChangeInvisibleDuration, from the client to a broker and back. RocketMQ: ChangeInvisibleDurationActivity (5.3.3
 * proxy/).
 *
 * If the proxy was renewing the message's invisible time, it stops for good, whatever becomes of this call: from now on the client says
 * how long it needs. */
#include "../base/clock_inl.h"
#include "calls.h"
#include "change_answer.h"
#include "change_command.h"
#include "changed_message.h"

rp_waiting_call *rp_change_call_pass_on(rp_proxy *proxy, rp_reactor *reactor, rp_grpc_call *call, rp_slice client_id) {
    rp_changed_message changed;
    rp_receipt_handle handle;
    rp_address address;
    rp_change_command change;
    rp_held_handle *taken = NULL;
    if (!rp_changed_message_read(rp_grpc_call_message(call), proxy->receive_rules.invisible_max, &changed))
        return NULL;
    const rp_asked_right rights[] = {{RP_RESOURCE_GROUP, RP_ACTION_SUB, changed.group}, {RP_RESOURCE_TOPIC, RP_ACTION_SUB, changed.topic}};
    if (!rp_call_is_admitted(proxy->gate, reactor, call, rights, 2))
        return NULL;
    const rp_held_key key = {client_id, changed.group, changed.handle};
    if (rp_held_handles_take(proxy->held, &key, &taken) == RP_HELD_RENEWED)
        return NULL;
    rp_slice today = taken != NULL ? rp_held_handle_today(taken) : changed.handle;
    rp_waiting_call *waiting = NULL;
    if (rp_receipt_handle_read(today, &handle) && handle.visible_ms > rp_clock_wall_ms(proxy->clock) &&
        rp_broker_addresses_find(proxy->brokers, handle.broker, &address)) {
        rp_change_command_fill(&change, changed.topic, changed.group, changed.invisible_ms, today, &handle);
        rp_lane *lane = &proxy->lanes[rp_reactor_index(reactor)];
        waiting = rp_lane_ask(lane, reactor, &address, &change.command, rp_reactor_now_ns(reactor) + RP_PATIENCE_NS);
    }
    if (waiting != NULL) {
        waiting->taken = taken;
        waiting->noted = today; /* points into the call's message or into `taken`: both live as long as the call waits */
    } else if (taken != NULL) {
        rp_held_handles_give_back(proxy->held, taken);
    }
    return waiting;
}

static void answer_with(rp_lane *lane, rp_waiting_call *waiting, const rp_change_answer *answer) {
    rp_held_handle_free(waiting->taken);
    uint32_t size = rp_change_answer_size(answer);
    uint8_t *target = rp_lane_begin_answer(lane, waiting, answer->status.code, size);
    if (target == NULL)
        return;
    rp_change_answer_write(answer, target);
    rp_lane_end_answer(waiting, size);
}

void rp_change_call_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status) {
    rp_change_answer answer;
    answer.status = *status;
    answer.handle_size = 0;
    answer_with(lane, waiting, &answer);
}

void rp_change_call_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response) {
    rp_receipt_handle handle;
    rp_change_answer answer;
    rp_receipt_handle_read(waiting->noted, &handle); /* cannot fail: it was read before */
    rp_change_answer_of(&answer, &handle, response);
    answer_with(lane, waiting, &answer);
}

void rp_change_call_undo(rp_lane *lane, rp_waiting_call *waiting) {
    if (waiting->taken != NULL)
        rp_held_handles_give_back(lane->proxy->held, waiting->taken);
}

void rp_change_call_drop(rp_lane *lane, rp_waiting_call *waiting) {
    (void)lane;
    rp_held_handle_free(waiting->taken);
}
