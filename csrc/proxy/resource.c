/* resource.c: see resource.h. */
#include "resource.h"

#include <stdbool.h>
#include <string.h>

#include "../base/slice_inl.h"
#include "protobuf.h"

enum resource_field { RESOURCE_NAMESPACE = 1, RESOURCE_NAME = 2 };

/* SYSTEM_TOPICS of rocketpy/broker/names.py. */
static const char *const system_topics[] = {"TBW102",
                                            "SCHEDULE_TOPIC_XXXX",
                                            "BenchmarkTest",
                                            "RMQ_SYS_TRANS_HALF_TOPIC",
                                            "RMQ_SYS_TRACE_TOPIC",
                                            "RMQ_SYS_TRANS_OP_HALF_TOPIC",
                                            "TRANS_CHECK_MAX_TIME_TOPIC",
                                            "SELF_TEST_TOPIC",
                                            "OFFSET_MOVED_EVENT",
                                            "CHECKPOINT_TOPIC",
                                            "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
                                            "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"};

int rp_resource_read(rp_slice resource, rp_slice *name) {
    rp_protobuf_field field;
    int status;
    while ((status = rp_protobuf_next(&resource, &field)) == 1) {
        if (field.number > RESOURCE_NAME)
            continue;
        if (field.wire_type != RP_WIRE_BYTES || !rp_protobuf_is_text(field.bytes))
            return 0;
        if (field.number == RESOURCE_NAME)
            *name = field.bytes;
    }
    return status == 0;
}

static bool is_of_letters(rp_slice name) {
    for (uint32_t at = 0; at < name.size; at++) {
        uint8_t c = name.data[at];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_letter && c != '%' && c != '|' && c != '_' && c != '-')
            return false;
    }
    return name.size > 0;
}

static bool begins_with(rp_slice name, const char *prefix) {
    size_t size = strlen(prefix);
    return name.size >= size && memcmp(name.data, prefix, size) == 0;
}

int rp_resource_is_topic(rp_slice name) {
    if (!is_of_letters(name) || name.size > RP_TOPIC_CHARACTERS_MAX || begins_with(name, "rmq_sys_"))
        return 0;
    for (size_t i = 0; i < sizeof system_topics / sizeof *system_topics; i++) {
        if (rp_slice_is(name, system_topics[i]))
            return 0;
    }
    return 1;
}

int rp_resource_is_group(rp_slice name) {
    return is_of_letters(name) && name.size <= RP_GROUP_CHARACTERS_MAX && !begins_with(name, "CID_RMQ_SYS_");
}
