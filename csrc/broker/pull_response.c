/* pull_response.c: see pull_response.h. */
#include "pull_response.h"

#include "../base/slice_inl.h"
#include "lane.h"
#include "response_writer_inl.h"

static int is_slave(const rp_broker *broker) { return atomic_load_explicit(&broker->settings.role, memory_order_relaxed) == RP_ROLE_SLAVE; }

/* A slave that is not overloaded sends consumers back to a living master. */
static int back_to_master(const rp_broker *broker, const rp_get_result *result) {
    return is_slave(broker) && !result->suggest_slave && atomic_load_explicit(&broker->settings.broker_id_min, memory_order_relaxed) == 0;
}

static int32_t code_of_status(const rp_pull *pull, const rp_get_result *result) {
    switch (result->status) {
    case RP_GET_FOUND:
        return RP_RESPONSE_SUCCESS;
    case RP_GET_MESSAGE_WAS_REMOVING:
    case RP_GET_NO_MATCHED_MESSAGE:
        return RP_RESPONSE_PULL_RETRY_IMMEDIATELY;
    case RP_GET_NO_MATCHED_LOGIC_QUEUE:
    case RP_GET_NO_MESSAGE_IN_QUEUE:
        return pull->offset != 0 ? RP_RESPONSE_PULL_OFFSET_MOVED : RP_RESPONSE_PULL_NOT_FOUND;
    case RP_GET_UNREADABLE:
        return RP_RESPONSE_SYSTEM_ERROR; /* on this code clients wait three seconds and ask for the same again */
    case RP_GET_OFFSET_FOUND_NULL:
    case RP_GET_OFFSET_OVERFLOW_ONE:
        return RP_RESPONSE_PULL_NOT_FOUND;
    default:
        return RP_RESPONSE_PULL_OFFSET_MOVED;
    }
}

int32_t rp_pull_response_code(const rp_broker *broker, const rp_pull *pull, const rp_get_result *result) {
    int32_t code = code_of_status(pull, result);
    if (code != RP_RESPONSE_SUCCESS && back_to_master(broker, result))
        return RP_RESPONSE_PULL_RETRY_IMMEDIATELY;
    int keeps_offsets = is_slave(broker) && !atomic_load_explicit(&broker->settings.offset_check_in_slave, memory_order_relaxed);
    return code == RP_RESPONSE_PULL_OFFSET_MOVED && keeps_offsets ? RP_RESPONSE_PULL_RETRY_IMMEDIATELY : code;
}

int32_t rp_pull_mapped_code(const rp_pull *pull, int32_t code, rp_get_result *result) {
    if (code == RP_RESPONSE_SUCCESS || result->status == RP_GET_OFFSET_RESET)
        return code;
    int64_t asked = pull->offset, min = result->min_offset, max = result->max_offset;
    if (asked < min) {
        result->next_offset = min;
        return pull->at.is_earliest ? RP_RESPONSE_PULL_OFFSET_MOVED : RP_RESPONSE_PULL_RETRY_IMMEDIATELY;
    }
    if (asked < max || code != RP_RESPONSE_PULL_OFFSET_MOVED)
        return code;
    result->next_offset = max;
    return pull->at.is_earliest ? RP_RESPONSE_PULL_NOT_FOUND : code;
}

static int64_t suggested_broker(const rp_broker *broker, const rp_pull *pull, const rp_get_result *result) {
    const rp_group *group = pull->group;
    int64_t broker_id = 0;
    if (atomic_load_explicit(&broker->settings.slave_read_enable, memory_order_relaxed))
        broker_id = atomic_load_explicit(result->suggest_slave ? &group->broker_when_slow : &group->broker_id, memory_order_relaxed);
    if (back_to_master(broker, result))
        broker_id = 0;
    int moved = code_of_status(pull, result) == RP_RESPONSE_PULL_OFFSET_MOVED;
    if (moved && is_slave(broker) && !back_to_master(broker, result) &&
        !atomic_load_explicit(&broker->settings.offset_check_in_slave, memory_order_relaxed))
        broker_id = atomic_load_explicit(&group->broker_id, memory_order_relaxed);
    return broker_id;
}

static void count_out(rp_lane *lane, const rp_pull *pull, const rp_get_result *result) {
    if (result->count == 0)
        return;
    rp_count(&lane->counters.messages_out, result->count);
    rp_count(&lane->counters.bytes_out, result->bytes);
    atomic_fetch_add_explicit(&pull->consumption->messages_out, result->count, memory_order_relaxed);
    atomic_fetch_add_explicit(&pull->consumption->bytes_out, result->bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&pull->topic->messages_out, result->count, memory_order_relaxed);
    atomic_fetch_add_explicit(&pull->topic->bytes_out, result->bytes, memory_order_relaxed);
}

static int64_t told_offset(const rp_pull *pull, int64_t offset) {
    return __builtin_expect(pull->global_id >= 0, 0) ? rp_mapped_offset(&pull->at, offset) : offset;
}

static uint32_t write_header(const rp_broker *broker, const rp_pull *pull, uint8_t *target, int32_t code, const rp_get_result *result) {
    const char *name = rp_get_status_name(result->status);
    rp_response_writer writer;
    rp_response_begin(&writer, target, pull->serialize_type, code, pull->opaque, rp_slice_of(name));
    RP_RESPONSE_NUMBER(&writer, "suggestWhichBrokerId", suggested_broker(broker, pull, result));
    RP_RESPONSE_NUMBER(&writer, "nextBeginOffset", told_offset(pull, result->next_offset));
    RP_RESPONSE_NUMBER(&writer, "minOffset", told_offset(pull, result->min_offset));
    RP_RESPONSE_NUMBER(&writer, "maxOffset", told_offset(pull, result->max_offset));
    if (__builtin_expect(pull->global_id >= 0, 0))
        RP_RESPONSE_NUMBER(&writer, "offsetDelta", pull->at.logic_offset - pull->at.start_offset);
    RP_RESPONSE_NUMBER(&writer, "topicSysFlag", atomic_load_explicit(&pull->topic->sys_flag, memory_order_relaxed));
    RP_RESPONSE_NUMBER(&writer, "groupSysFlag", atomic_load_explicit(&pull->group->sys_flag, memory_order_relaxed));
    return rp_response_end(&writer, (uint32_t)result->bytes);
}

int rp_pull_response_send(rp_lane *lane, const rp_pull *pull, rp_answer_to to, int32_t code, const rp_get_result *result) {
    if (to.oneway) {
        rp_get_release(&lane->scratch, result);
        return RP_HANDLED;
    }
    uint8_t *target = rp_connection_reserve(to.connection, RP_RESPONSE_SIZE_BASE);
    if (target == NULL) {
        rp_get_release(&lane->scratch, result);
        return RP_E_NO_MEMORY;
    }
    rp_connection_commit(to.connection, write_header(lane->broker, pull, target, code, result));
    rp_answered(&to, code);
    if (result->range_count > 0) {
        int status = rp_connection_send_ranges(to.connection, lane->scratch.ranges, result->range_count);
        if (status != RP_OK) {
            rp_get_release(&lane->scratch, result);
            return status;
        }
    }
    count_out(lane, pull, result);
    return RP_HANDLED;
}
