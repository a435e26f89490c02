/* changed_message.c: see changed_message.h. Field numbers are those of rocketpy/proxy/schema.py. */
#include "changed_message.h"

#include <stdbool.h>

#include "protobuf.h"
#include "resource.h"

enum request_field { REQUEST_GROUP = 1, REQUEST_TOPIC = 2, REQUEST_HANDLE = 3, REQUEST_INVISIBLE = 4, REQUEST_MESSAGE_ID = 5 };

int rp_changed_message_read(rp_slice request, int64_t invisible_max_ms, rp_changed_message *changed) {
    rp_protobuf_field field;
    uint32_t groups = 0, topics = 0, times = 0;
    int status;
    *changed = (rp_changed_message){0};
    while ((status = rp_protobuf_next(&request, &field)) == 1) {
        bool is_read = false;
        if (field.wire_type != RP_WIRE_BYTES)
            return 0;
        if (field.number == REQUEST_GROUP)
            is_read = ++groups == 1 && rp_resource_read(field.bytes, &changed->group);
        else if (field.number == REQUEST_TOPIC)
            is_read = ++topics == 1 && rp_resource_read(field.bytes, &changed->topic);
        else if (field.number == REQUEST_INVISIBLE)
            is_read = ++times == 1 && rp_protobuf_read_duration(field.bytes, &changed->invisible_ms);
        else if (field.number == REQUEST_HANDLE || field.number == REQUEST_MESSAGE_ID)
            is_read = rp_protobuf_is_text(field.bytes);
        if (!is_read)
            return 0;
        if (field.number == REQUEST_HANDLE)
            changed->handle = field.bytes;
    }
    return status == 0 && (invisible_max_ms <= 0 || changed->invisible_ms <= invisible_max_ms) && rp_resource_is_topic(changed->topic) &&
           rp_resource_is_group(changed->group);
}
