/* errands.c: requests that the proxy sends to brokers of its own accord, about messages that it popped: to make them visible again soon,
 * to acknowledge them, or to make them dead letters. RocketMQ: ReceiveMessageResponseStreamWriter, ConsumerProcessor (5.3.3 proxy/).
 *
 * No client waits for the answers: failures are counted, and the message comes again when its invisible time is over. */
#include <stdlib.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "../base/slice_inl.h"
#include "ack_command.h"
#include "broker_command_inl.h"
#include "calls.h"
#include "change_command.h"

#define PUT_BACK_MS 1000 /* as NACK_MS of receiving.py */
#define REQUEST_SEND_BACK 36

/* Sends the command to the broker of the message with this handle. */
static rp_waiting_call *ask(rp_lane *lane, rp_reactor *reactor, const rp_receipt_handle *handle, rp_command *command, int32_t way) {
    rp_address address;
    rp_waiting_call *waiting = NULL;
    if (rp_broker_addresses_find(lane->proxy->brokers, handle->broker, &address))
        waiting = rp_lane_ask(lane, reactor, &address, command, rp_reactor_now_ns(reactor) + RP_PATIENCE_NS);
    rp_lane_count(waiting != NULL ? &lane->errands : &lane->failed_errands);
    if (waiting != NULL) {
        waiting->asker = waiting->taken = NULL;
        waiting->method = way;
    }
    return waiting;
}

void rp_errand_put_back(rp_lane *lane, rp_reactor *reactor, const rp_errand *errand) {
    rp_receipt_handle handle;
    rp_change_command change;
    if (!rp_receipt_handle_read(errand->handle, &handle)) {
        rp_lane_count(&lane->failed_errands);
        return;
    }
    rp_change_command_fill(&change, errand->topic, errand->group, PUT_BACK_MS, errand->handle, &handle);
    ask(lane, reactor, &handle, &change.command, RP_WAY_ERRAND);
}

void rp_errand_ack(rp_lane *lane, rp_reactor *reactor, const rp_errand *errand) {
    rp_receipt_handle handle;
    rp_ack_command ack;
    if (!rp_receipt_handle_read(errand->handle, &handle)) {
        rp_lane_count(&lane->failed_errands);
        return;
    }
    rp_ack_command_fill(&ack, errand->topic, errand->group, errand->handle, &handle);
    ask(lane, reactor, &handle, &ack.command, RP_WAY_ERRAND);
}

/* ---- dead letters: the broker moves the message to the dead-letter topic, then it is acknowledged ---- */

typedef struct burial {
    rp_reactor *reactor;
    rp_errand errand; /* its texts are stored behind it */
} burial;

static burial *copy_of(const rp_errand *errand, rp_reactor *reactor) {
    burial *made = malloc(sizeof *made + errand->group.size + errand->topic.size + errand->handle.size + errand->message_id.size);
    if (made == NULL)
        return NULL;
    uint8_t *at = (uint8_t *)(made + 1);
    made->reactor = reactor;
    made->errand.group = rp_slice_copy(&at, errand->group);
    made->errand.topic = rp_slice_copy(&at, errand->topic);
    made->errand.handle = rp_slice_copy(&at, errand->handle);
    made->errand.message_id = rp_slice_copy(&at, errand->message_id);
    return made;
}

static void fill_send_back(rp_command *command, const rp_errand *errand, const rp_receipt_handle *handle, rp_slice topic) {
    rp_broker_command_begin(command, REQUEST_SEND_BACK, RP_SERIALIZE_JSON);
    rp_broker_command_add(command, "offset", handle->log_offset);
    rp_broker_command_add(command, "group", errand->group);
    rp_broker_command_add_text(command, "delayLevel", "-1"); /* straight to the dead-letter topic */
    rp_broker_command_add(command, "originMsgId", errand->message_id);
    rp_broker_command_add(command, "originTopic", topic);
    rp_broker_command_add_text(command, "unitMode", "false");
    rp_broker_command_add_text(command, "maxReconsumeTimes", "0");
}

void rp_errand_bury(rp_lane *lane, rp_reactor *reactor, const rp_errand *errand) {
    uint8_t room[RP_RETRY_TOPIC_MAX];
    rp_receipt_handle handle;
    rp_command command;
    burial *kept = NULL;
    if (!rp_receipt_handle_read(errand->handle, &handle) || handle.log_offset.data == NULL || (kept = copy_of(errand, reactor)) == NULL) {
        rp_lane_count(&lane->failed_errands);
        return;
    }
    fill_send_back(&command, errand, &handle, rp_receipt_handle_topic(&handle, errand->topic, errand->group, room));
    rp_waiting_call *waiting = ask(lane, reactor, &handle, &command, RP_WAY_BURIAL);
    if (waiting != NULL)
        waiting->taken = kept;
    else
        free(kept);
}

/* ---- outcomes ---- */

void rp_errand_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response) {
    (void)waiting;
    if (response->code != 0)
        rp_lane_count(&lane->failed_errands);
}

void rp_errand_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status) {
    (void)waiting, (void)status;
    rp_lane_count(&lane->failed_errands);
}

void rp_burial_answer(rp_lane *lane, rp_waiting_call *waiting, const rp_command *response) {
    burial *kept = waiting->taken;
    if (response->code == 0)
        rp_errand_ack(lane, kept->reactor, &kept->errand);
    else
        rp_lane_count(&lane->failed_errands);
    free(kept);
}

void rp_burial_end(rp_lane *lane, rp_waiting_call *waiting, const rp_answer_status *status) {
    (void)status;
    rp_lane_count(&lane->failed_errands);
    free(waiting->taken);
}
