/* broker_command_inl.h: builds requests that the proxy sends to brokers, field by field. C only. */
#ifndef RP_PROXY_BROKER_COMMAND_INL_H
#define RP_PROXY_BROKER_COMMAND_INL_H

#include "../base/decimal_inl.h"
#include "../base/slice_inl.h"
#include "../remoting/command.h"
#include "receipt_handle.h"

#define RP_LANGUAGE_PYTHON 3
#define RP_VERSION_5_3_3 479

static inline void rp_broker_command_begin(rp_command *command, int32_t code, uint8_t serialize_type) {
    rp_command_clear(command, code, serialize_type);
    command->language = RP_LANGUAGE_PYTHON;
    command->version = RP_VERSION_5_3_3;
}

/* Name and value must live as long as the command. The proxy's requests have fewer fields than a command can hold, so adding never
 * fails. */
static inline void rp_broker_command_add(rp_command *command, const char *name, rp_slice value) {
    rp_command_add_field(command, rp_slice_of(name), value);
}

static inline void rp_broker_command_add_text(rp_command *command, const char *name, const char *value) {
    rp_broker_command_add(command, name, rp_slice_of(value));
}

/* digits: receives the number's text; must live as long as the command. */
static inline void rp_broker_command_add_number(rp_command *command, const char *name, int64_t value, uint8_t digits[RP_DECIMAL_SIZE_MAX]) {
    rp_broker_command_add(command, name, (rp_slice){digits, (uint32_t)(rp_decimal(digits, value) - digits)});
}

/* Begins a request about one popped message. today: its current handle; room: for its topic's name, must live as long as the command. */
static inline void rp_broker_command_begin_popped(rp_command *command, int32_t code, rp_slice topic, rp_slice group, rp_slice today,
                                                  const rp_receipt_handle *handle, uint8_t room[RP_RETRY_TOPIC_MAX]) {
    rp_broker_command_begin(command, code, RP_SERIALIZE_JSON); /* the binary encoding has no numbers for these fields */
    rp_broker_command_add(command, "consumerGroup", group);
    rp_broker_command_add(command, "topic", rp_receipt_handle_topic(handle, topic, group, room));
    rp_broker_command_add(command, "queueId", handle->queue_id);
    rp_broker_command_add(command, "extraInfo", today);
    rp_broker_command_add(command, "offset", handle->offset);
}

#endif
