/* forbidden_topics.c: see forbidden_topics.h. */
#include "forbidden_topics.h"

#include "../base/slice_inl.h"

int rp_topic_is_forbidden(rp_slice name) {
    static const char *const names[] = {
        "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC",      "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",     "OFFSET_MOVED_EVENT",       "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
        "rmq_sys_wheel_timer"};
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (rp_slice_is(name, names[i]))
            return 1;
    }
    return 0;
}
