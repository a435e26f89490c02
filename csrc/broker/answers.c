/* answers.c: see answers.h. */
#include "answers.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../base/slice_inl.h"
#include "lane.h"
#include "response_writer_inl.h"

rp_answer_to rp_answer_to_command(rp_lane *lane, rp_connection *connection, const rp_command *command) {
    return (rp_answer_to){
        .connection = connection,
        .times = &lane->answer_times,
        .arrived_ns = rp_reactor_now_ns(lane->reactor),
        .request_code = command->code,
        .opaque = command->opaque,
        .serialize_type = command->serialize_type,
        .oneway = (command->flag & RP_COMMAND_ONEWAY) != 0,
    };
}

int rp_answer(rp_answer_to to, int32_t code, const rp_field *fields, uint16_t field_count, const char *format, ...) {
    if (to.oneway)
        return RP_HANDLED;
    char remark[RP_REMARK_MAX];
    rp_command answer;
    answer.code = code;
    answer.version = RP_RESPONSE_VERSION;
    answer.opaque = to.opaque;
    answer.flag = RP_COMMAND_RESPONSE;
    answer.language = 0;
    answer.serialize_type = to.serialize_type;
    answer.remark = (rp_slice){NULL, 0};
    answer.body = (rp_slice){NULL, 0};
    answer.field_count = field_count;
    for (uint16_t i = 0; i < field_count; i++)
        answer.fields[i] = fields[i];
    if (format != NULL) {
        va_list arguments;
        va_start(arguments, format);
        int size = vsnprintf(remark, sizeof remark, format, arguments);
        va_end(arguments);
        size = size < 0 ? 0 : size >= (int)sizeof remark ? (int)sizeof remark - 1 : size;
        answer.remark = (rp_slice){(const uint8_t *)remark, (uint32_t)size};
    }
    int status = rp_connection_write(to.connection, &answer);
    rp_answered(&to, code);
    return status == RP_OK ? RP_HANDLED : status;
}

void rp_send_fields_init(rp_field fields[RP_SEND_FIELD_COUNT], const rp_broker_options *options) {
    fields[0] = (rp_field){rp_slice_of("MSG_REGION"), rp_slice_of(options->region_id)};
    fields[1] = (rp_field){rp_slice_of("TRACE_ON"), rp_slice_of(options->trace_on ? "true" : "false")};
}

int rp_answer_fault(rp_answer_to to, const rp_header_fault *fault) {
    if (fault->value.data == NULL)
        return rp_answer(to, RP_RESPONSE_SYSTEM_ERROR, NULL, 0, "the custom field <%s> is null", fault->field);
    int size = fault->value.size > 64 ? 64 : (int)fault->value.size;
    return rp_answer(to, RP_RESPONSE_SYSTEM_ERROR, NULL, 0, "java.lang.NumberFormatException: For input string: \"%.*s\" (field <%s>)",
                     size, (const char *)fault->value.data, fault->field);
}

int rp_answer_not_led(const rp_lane *lane, rp_answer_to to, const char *what, rp_slice topic, int32_t global_id) {
    return rp_answer(to, RP_RESPONSE_NOT_LEADER_FOR_QUEUE, NULL, 0, "%.*s-%d %s in request process of current broker %s", (int)topic.size,
                     (const char *)topic.data, global_id, what, lane->broker->options.broker_name);
}

void rp_peer_text(const rp_connection *connection, char text[RP_ADDRESS_TEXT_MAX]) {
    rp_address address = {0};
    address.size = (uint8_t)rp_connection_peer(connection, address.bytes, &address.port);
    rp_address_text(&address, text);
}
