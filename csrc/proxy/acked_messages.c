/* acked_messages.c: see acked_messages.h. Field numbers are those of rocketpy/proxy/schema.py. */
#include "acked_messages.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "protobuf.h"
#include "resource.h"

enum request_field { REQUEST_GROUP = 1, REQUEST_TOPIC = 2, REQUEST_ENTRIES = 3 };
enum entry_field { ENTRY_MESSAGE_ID = 1, ENTRY_HANDLE = 2, ENTRY_LITE_TOPIC = 3 };

static bool read_entry(rp_slice entry, rp_acked_message *message) {
    rp_protobuf_field field;
    int status;
    *message = (rp_acked_message){0};
    while ((status = rp_protobuf_next(&entry, &field)) == 1) {
        if (field.number > ENTRY_LITE_TOPIC)
            continue;
        if (field.number == ENTRY_LITE_TOPIC || field.wire_type != RP_WIRE_BYTES || !rp_protobuf_is_text(field.bytes))
            return false;
        *(field.number == ENTRY_MESSAGE_ID ? &message->message_id : &message->handle) = field.bytes;
    }
    return status == 0 && message->message_id.size <= RP_ACKED_ID_MAX;
}

static bool add_entry(rp_acked_messages *acked, rp_slice entry) {
    return acked->count < RP_ACKED_MAX && read_entry(entry, &acked->messages[acked->count++]);
}

int rp_acked_messages_read(rp_slice request, rp_acked_messages *acked) {
    rp_protobuf_field field;
    uint32_t groups = 0, topics = 0;
    int status;
    memset(acked, 0, offsetof(rp_acked_messages, messages));
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
            is_read = add_entry(acked, field.bytes);
            break;
        }
        if (!is_read)
            return 0;
    }
    return status == 0 && acked->count > 0 && rp_resource_is_topic(acked->topic) && rp_resource_is_group(acked->group);
}
