/* ack_command.c: see ack_command.h. */
#include "ack_command.h"

#include "broker_command_inl.h"

void rp_ack_command_fill(rp_ack_command *ack, rp_slice topic, rp_slice group, rp_slice today, const rp_receipt_handle *handle) {
    rp_command *command = &ack->command;
    rp_broker_command_begin(command, RP_REQUEST_ACK_MESSAGE, RP_SERIALIZE_JSON); /* the binary encoding has no such numbers */
    rp_broker_command_add(command, "consumerGroup", group);
    rp_broker_command_add(command, "topic", rp_receipt_handle_topic(handle, topic, group, ack->topic));
    rp_broker_command_add(command, "queueId", handle->queue_id);
    rp_broker_command_add(command, "extraInfo", today);
    rp_broker_command_add(command, "offset", handle->offset);
}
