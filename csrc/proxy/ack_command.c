/* ack_command.c: see ack_command.h. */
#include "ack_command.h"

#include "broker_command_inl.h"

void rp_ack_command_fill(rp_ack_command *ack, rp_slice topic, rp_slice group, rp_slice today, const rp_receipt_handle *handle) {
    rp_broker_command_begin_popped(&ack->command, RP_REQUEST_ACK_MESSAGE, topic, group, today, handle, ack->topic);
}
