/* acked_message.c: see acked_message.h. Numbers of fields are those of rocketpy/proxy/schema.py. */
#include "acked_message.h"

#include <stdbool.h>
#include <string.h>

#include "protobuf.h"
#include "resource.h"

#define LANGUAGE_PYTHON 3
#define VERSION_5_3_3 479

enum request_field { REQUEST_GROUP = 1, REQUEST_TOPIC = 2, REQUEST_ENTRIES = 3 };
enum entry_field { ENTRY_MESSAGE_ID = 1, ENTRY_HANDLE = 2, ENTRY_LITE_TOPIC = 3 };
enum response_field { RESPONSE_STATUS = 1, RESPONSE_ENTRIES = 2 };
enum result_field { RESULT_MESSAGE_ID = 1, RESULT_HANDLE = 2, RESULT_STATUS = 3 };

static bool read_entry(rp_slice entry, rp_acked_message *acked) {
    rp_protobuf_field field;
    int status;
    while ((status = rp_protobuf_next(&entry, &field)) == 1) {
        if (field.number > ENTRY_LITE_TOPIC)
            continue;
        if (field.number == ENTRY_LITE_TOPIC || field.wire_type != RP_WIRE_BYTES || !rp_protobuf_is_text(field.bytes))
            return false;
        *(field.number == ENTRY_MESSAGE_ID ? &acked->message_id : &acked->handle) = field.bytes;
    }
    return status == 0;
}

int rp_acked_message_read(rp_slice request, rp_acked_message *acked) {
    rp_protobuf_field field;
    uint32_t groups = 0, topics = 0, entries = 0;
    int status;
    *acked = (rp_acked_message){0};
    while ((status = rp_protobuf_next(&request, &field)) == 1) {
        if (field.number > REQUEST_ENTRIES)
            continue;
        if (field.wire_type != RP_WIRE_BYTES)
            return 0;
        bool is_read = false;
        switch (field.number) {
        case REQUEST_GROUP:
            is_read = ++groups == 1 && rp_resource_read(field.bytes, &acked->group);
            break;
        case REQUEST_TOPIC:
            is_read = ++topics == 1 && rp_resource_read(field.bytes, &acked->topic);
            break;
        default:
            is_read = ++entries == 1 && read_entry(field.bytes, acked);
            break;
        }
        if (!is_read)
            return 0;
    }
    return status == 0 && entries == 1 && acked->message_id.size <= RP_ACKED_ID_MAX && rp_resource_is_topic(acked->topic) &&
           rp_resource_is_group(acked->group);
}

static void add(rp_command *command, const char *name, rp_slice value) {
    rp_command_add_field(command, (rp_slice){(const uint8_t *)name, (uint32_t)strlen(name)}, value); /* never full: there are five */
}

void rp_ack_command_fill(rp_ack_command *ack, const rp_acked_message *acked, rp_slice today, const rp_receipt_handle *handle) {
    rp_command *command = &ack->command;
    rp_command_clear(command, RP_REQUEST_ACK_MESSAGE, RP_SERIALIZE_JSON); /* the binary encoding has no such numbers */
    command->language = LANGUAGE_PYTHON;
    command->version = VERSION_5_3_3;
    add(command, "consumerGroup", acked->group);
    add(command, "topic", rp_receipt_handle_topic(handle, acked->topic, acked->group, ack->topic));
    add(command, "queueId", handle->queue_id);
    add(command, "extraInfo", today);
    add(command, "offset", handle->offset);
}

void rp_ack_status_of(rp_answer_status *status, const rp_command *response) {
    static const char abnormal[] = "status is abnormal";
    rp_slice why = response->remark.size > 0 ? response->remark : (rp_slice){(const uint8_t *)abnormal, sizeof abnormal - 1};
    if (response->code == 0)
        rp_answer_status_name(status, RP_CODE_OK);
    else
        rp_answer_status_set(status, RP_CODE_INTERNAL_SERVER_ERROR, "ack failed: %.*s", (int)why.size, (const char *)why.data);
}

static uint32_t entry_size(const rp_acked_message *acked, const rp_answer_status *status) {
    uint32_t size = rp_answer_status_size(status);
    return rp_protobuf_bytes_size(RESULT_MESSAGE_ID, acked->message_id.size) + rp_protobuf_bytes_size(RESULT_HANDLE, acked->handle.size) +
           rp_protobuf_head_size(RESULT_STATUS, size) + size;
}

uint32_t rp_ack_answer_size(const rp_acked_message *acked, const rp_answer_status *status) {
    rp_answer_status joined;
    rp_answer_status_name(&joined, status->code); /* of all of the answer */
    uint32_t size = rp_answer_status_size(&joined), entry = entry_size(acked, status);
    return rp_protobuf_head_size(RESPONSE_STATUS, size) + size + rp_protobuf_head_size(RESPONSE_ENTRIES, entry) + entry;
}

void rp_ack_answer_write(const rp_acked_message *acked, const rp_answer_status *status, uint8_t *target) {
    rp_answer_status joined;
    rp_answer_status_name(&joined, status->code); /* of all of the answer */
    target = rp_protobuf_put_head(target, RESPONSE_STATUS, rp_answer_status_size(&joined));
    target = rp_answer_status_write(&joined, target);
    target = rp_protobuf_put_head(target, RESPONSE_ENTRIES, entry_size(acked, status));
    target = rp_protobuf_put_bytes(target, RESULT_MESSAGE_ID, acked->message_id);
    target = rp_protobuf_put_bytes(target, RESULT_HANDLE, acked->handle);
    target = rp_protobuf_put_head(target, RESULT_STATUS, rp_answer_status_size(status));
    rp_answer_status_write(status, target);
}
