/* command.c: the parts of a command that both encodings share: its members and fields, numbers in slices, language names.
 * RocketMQ: RemotingCommand, LanguageCode.
 */
#include "command.h"

#include <string.h>

#include "../base/java_number.h"

/* LanguageCode's names at LanguageCode's numbers. */
static const char *const language_names[] = {"JAVA",  "CPP",  "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY",
                                             "OTHER", "HTTP", "GO",     "PHP",    "OMS",    "RUST",   "NODE_JS"};
#define LANGUAGE_COUNT (sizeof language_names / sizeof language_names[0])
#define LANGUAGE_OTHER 7
#define LANGUAGE_UNKNOWN 255

const char *rp_language_name(uint8_t language) { return language_names[language < LANGUAGE_COUNT ? language : LANGUAGE_OTHER]; }

uint8_t rp_language_number(rp_slice name) {
    for (uint8_t number = 0; number < LANGUAGE_COUNT; number++) {
        const char *known = language_names[number];
        if (name.size > 0 && known[0] == name.data[0] && strlen(known) == name.size && memcmp(known, name.data, name.size) == 0) {
            return number;
        }
    }
    return LANGUAGE_UNKNOWN;
}

void rp_command_clear(rp_command *command, int32_t code, uint8_t serialize_type) {
    command->code = code;
    command->version = 0;
    command->opaque = 0;
    command->flag = 0;
    command->language = 0;
    command->serialize_type = serialize_type;
    command->field_count = 0;
    command->remark = (rp_slice){NULL, 0};
    command->body = (rp_slice){NULL, 0};
}

void rp_command_clear_response(rp_command *response, const rp_command *request, int32_t code) {
    int32_t opaque = request->opaque;
    rp_command_clear(response, code, request->serialize_type);
    response->opaque = opaque;
    response->flag = RP_COMMAND_RESPONSE;
}

int rp_command_add_field(rp_command *command, rp_slice key, rp_slice value) {
    if (command->field_count >= RP_COMMAND_FIELDS_MAX) {
        return RP_E_TOO_LARGE;
    }
    command->fields[command->field_count++] = (rp_field){key, value};
    return RP_OK;
}

rp_slice rp_command_field(const rp_command *command, const char *name) {
    size_t size = strlen(name);
    for (uint32_t index = command->field_count; index-- > 0;) {
        const rp_field *field = &command->fields[index];
        if (field->key.size == size && memcmp(field->key.data, name, size) == 0) {
            return field->value;
        }
    }
    return (rp_slice){NULL, 0};
}

int rp_slice_to_i64(rp_slice slice, int64_t *value) { return rp_java_integer(slice, INT64_MIN, INT64_MAX, value) ? RP_OK : RP_E_PROTOCOL; }

int rp_slice_to_i32(rp_slice slice, int32_t *value) {
    int64_t wide;
    if (rp_slice_to_i64(slice, &wide) != RP_OK || wide < INT32_MIN || wide > INT32_MAX) {
        return RP_E_PROTOCOL;
    }
    *value = (int32_t)wide;
    return RP_OK;
}

int rp_slice_to_bool(rp_slice slice) {
    static const char lower[4] = {'t', 'r', 'u', 'e'};
    if (slice.data == NULL || slice.size != sizeof lower) {
        return 0;
    }
    for (uint32_t index = 0; index < sizeof lower; index++) {
        if ((slice.data[index] | 0x20) != lower[index]) {
            return 0;
        }
    }
    return 1;
}
