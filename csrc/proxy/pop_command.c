/* pop_command.c: see pop_command.h. */
#include "pop_command.h"

#include "broker_command_inl.h"

#define FROM_END 1 /* a new group starts with messages that arrive after it */

void rp_pop_command_fill(rp_pop_command *pop, const rp_received_request *received, int64_t polling_ms, int64_t now_ms, int is_orderly) {
    rp_command *command = &pop->command;
    rp_broker_command_begin(command, RP_REQUEST_POP_MESSAGE, RP_SERIALIZE_JSON); /* the binary encoding has no numbers for these fields */
    rp_broker_command_add(command, "consumerGroup", received->group);
    rp_broker_command_add(command, "topic", received->topic);
    rp_broker_command_add_text(command, "queueId", "-1");
    rp_broker_command_add_number(command, "maxMsgNums", received->batch_size, pop->numbers[0]);
    rp_broker_command_add_number(command, "invisibleTime", received->invisible_ms, pop->numbers[1]);
    rp_broker_command_add_number(command, "pollTime", polling_ms, pop->numbers[2]);
    rp_broker_command_add_number(command, "bornTime", now_ms, pop->numbers[3]);
    rp_broker_command_add_number(command, "initMode", FROM_END, pop->numbers[4]);
    rp_broker_command_add_text(command, "expType", received->is_sql ? "SQL92" : "TAG");
    rp_broker_command_add(command, "exp", received->filter);
    rp_broker_command_add_text(command, "order", is_orderly ? "true" : "false");
    if (received->attempt_id.data != NULL)
        rp_broker_command_add(command, "attemptId", received->attempt_id);
}
