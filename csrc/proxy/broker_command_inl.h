/* broker_command_inl.h: a request of the proxy's own to a broker, field by field. C only. */
#ifndef RP_PROXY_BROKER_COMMAND_INL_H
#define RP_PROXY_BROKER_COMMAND_INL_H

#include <string.h>

#include "../base/decimal_inl.h"
#include "../remoting/command.h"

#define RP_LANGUAGE_PYTHON 3
#define RP_VERSION_5_3_3 479

static inline void rp_broker_command_begin(rp_command *command, int32_t code, uint8_t serialize_type) {
    rp_command_clear(command, code, serialize_type);
    command->language = RP_LANGUAGE_PYTHON;
    command->version = RP_VERSION_5_3_3;
}

/* Name and value have to live as long as the command. No request of the proxy has as many fields as a command may. */
static inline void rp_broker_command_add(rp_command *command, const char *name, rp_slice value) {
    rp_command_add_field(command, (rp_slice){(const uint8_t *)name, (uint32_t)strlen(name)}, value);
}

static inline void rp_broker_command_add_text(rp_command *command, const char *name, const char *value) {
    rp_broker_command_add(command, name, (rp_slice){(const uint8_t *)value, (uint32_t)strlen(value)});
}

/* digits: the number, as long as the command lives. */
static inline void rp_broker_command_add_number(rp_command *command, const char *name, int64_t value, uint8_t digits[RP_DECIMAL_SIZE_MAX]) {
    rp_broker_command_add(command, name, (rp_slice){digits, (uint32_t)(rp_decimal(digits, value) - digits)});
}

#endif
