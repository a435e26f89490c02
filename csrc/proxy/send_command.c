/* send_command.c: see send_command.h. */
#include "send_command.h"

#include <stdbool.h>

#include "../store/topic_prefix_inl.h"
#include "broker_command_inl.h"

void rp_send_command_fill(rp_send_command *request, const rp_sent_message *message, const rp_route_choice *choice, rp_slice properties,
                          rp_slice batch) {
    rp_command *command = &request->command;
    bool is_batch = batch.data != NULL;
    rp_broker_command_begin(command, is_batch ? RP_REQUEST_SEND_BATCH_MESSAGE : RP_REQUEST_SEND_MESSAGE_V2, RP_SERIALIZE_ROCKETMQ);
    command->body = is_batch ? batch : message->body;
    rp_broker_command_add(command, "a", message->topic); /* the producer group */
    rp_broker_command_add(command, "b", message->topic);
    rp_broker_command_add_text(command, "c", "TBW102"); /* the template of a topic that the broker creates; brokers require the field */
    rp_broker_command_add_text(command, "d", "4");      /* likewise the number of its queues */
    rp_broker_command_add_number(command, "e", choice->queue_id, request->queue_id);
    rp_broker_command_add_text(command, "f", message->is_compressed ? "1" : "0");
    rp_broker_command_add_number(command, "g", message->born_ms, request->born_ms);
    rp_broker_command_add_text(command, "h", "0");
    rp_broker_command_add(command, "i", properties);
    /* For a message to a retry topic, brokers count the attempts by this field; after one too many it becomes a dead letter. */
    rp_broker_command_add_number(command, "j", rp_is_retry_topic(message->topic) ? message->attempt : 0, request->attempt);
    rp_broker_command_add_text(command, "k", "false");
    rp_broker_command_add_text(command, "m", is_batch ? "true" : "false");
    rp_broker_command_add(command, "n", (rp_slice){choice->broker_name, choice->broker_name_size});
}
