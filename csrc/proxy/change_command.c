/* change_command.c: see change_command.h. */
#include "change_command.h"

#include "broker_command_inl.h"

void rp_change_command_fill(rp_change_command *change, rp_slice topic, rp_slice group, int64_t invisible_ms, rp_slice today,
                            const rp_receipt_handle *handle) {
    rp_broker_command_begin_popped(&change->command, RP_REQUEST_CHANGE_INVISIBLE_TIME, topic, group, today, handle, change->topic);
    rp_broker_command_add_number(&change->command, "invisibleTime", invisible_ms, change->invisible_ms);
    rp_broker_command_add_text(&change->command, "suspend", "false");
}
