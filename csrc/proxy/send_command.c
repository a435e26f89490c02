/* send_command.c: see send_command.h. */
#include "send_command.h"

#include <string.h>

#include "../base/decimal_inl.h"

#define LANGUAGE_PYTHON 3
#define VERSION_5_3_3 479

static void add(rp_command *command, const char *name, rp_slice value) {
    rp_command_add_field(command, (rp_slice){(const uint8_t *)name, 1}, value); /* never full: there are thirteen */
}

static void add_text(rp_command *command, const char *name, const char *value) {
    add(command, name, (rp_slice){(const uint8_t *)value, (uint32_t)strlen(value)});
}

static void add_number(rp_command *command, const char *name, int64_t value, uint8_t digits[RP_DECIMAL_SIZE_MAX]) {
    add(command, name, (rp_slice){digits, (uint32_t)(rp_decimal(digits, value) - digits)});
}

void rp_send_command_fill(rp_send_command *request, const rp_sent_message *message, const rp_route_choice *choice, rp_slice properties) {
    rp_command *command = &request->command;
    rp_command_clear(command, RP_REQUEST_SEND_MESSAGE_V2, RP_SERIALIZE_ROCKETMQ);
    command->language = LANGUAGE_PYTHON;
    command->version = VERSION_5_3_3;
    command->body = message->body;
    add(command, "a", message->topic); /* the producer group */
    add(command, "b", message->topic);
    add_text(command, "c", "TBW102"); /* what a topic is made after, and with how many queues: a broker asks for both */
    add_text(command, "d", "4");
    add_number(command, "e", choice->queue_id, request->queue_id);
    add_text(command, "f", message->is_compressed ? "1" : "0");
    add_number(command, "g", message->born_ms, request->born_ms);
    add_text(command, "h", "0");
    add(command, "i", properties);
    add_text(command, "j", "0");
    add_text(command, "k", "false");
    add_text(command, "m", "false"); /* no batch */
    add(command, "n", (rp_slice){choice->broker_name, choice->broker_name_size});
}
