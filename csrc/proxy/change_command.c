/* change_command.c: see change_command.h. */
#include "change_command.h"

#include "broker_command_inl.h"

void rp_change_command_fill(rp_change_command *change, rp_slice topic, rp_slice group, int64_t invisible_ms, rp_slice today,
                            const rp_receipt_handle *handle) {
    rp_command *command = &change->command;
    rp_broker_command_begin(command, RP_REQUEST_CHANGE_INVISIBLE_TIME, RP_SERIALIZE_JSON); /* the binary encoding has no such numbers */
    rp_broker_command_add(command, "consumerGroup", group);
    rp_broker_command_add(command, "topic", rp_receipt_handle_topic(handle, topic, group, change->topic));
    rp_broker_command_add(command, "queueId", handle->queue_id);
    rp_broker_command_add(command, "extraInfo", today);
    rp_broker_command_add(command, "offset", handle->offset);
    rp_broker_command_add_number(command, "invisibleTime", invisible_ms, change->invisible_ms);
    rp_broker_command_add_text(command, "suspend", "false");
}
