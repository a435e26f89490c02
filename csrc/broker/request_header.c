/* request_header.c: see request_header.h. A table for each header says where each field goes, and one loop over the command's fields
 * reads them; the short spelling of sends is read separately. Fields are compared by size and last byte first, so a hit costs one
 * memcmp. */
#include "request_header.h"

#include <stddef.h>
#include <string.h>

#include "../base/slice_inl.h"

enum field_kind { TEXT, NUMBER_32, NUMBER_64, BOOLEAN };

typedef struct field_rule {
    const char *name;
    uint8_t size;
    uint8_t kind;
    uint8_t required;
    uint16_t place; /* offset in the header struct */
} field_rule;

#define RULE(name, kind, required, type, member) {name, sizeof(name) - 1, kind, required, offsetof(type, member)}

static const field_rule send_v1[] = {
    RULE("topic", TEXT, 0, rp_send_header, topic),
    RULE("queueId", NUMBER_32, 1, rp_send_header, queue_id),
    RULE("sysFlag", NUMBER_32, 1, rp_send_header, sys_flag),
    RULE("bornTimestamp", NUMBER_64, 1, rp_send_header, born_timestamp_ms),
    RULE("flag", NUMBER_32, 1, rp_send_header, flag),
    RULE("properties", TEXT, 0, rp_send_header, properties),
    RULE("reconsumeTimes", NUMBER_32, 0, rp_send_header, reconsume_times),
    RULE("batch", BOOLEAN, 0, rp_send_header, batch),
};

static const field_rule reply_v1[] = {
    RULE("producerGroup", TEXT, 1, rp_reply_header, producer_group),
    RULE("defaultTopic", TEXT, 1, rp_reply_header, default_topic),
    RULE("defaultTopicQueueNums", NUMBER_32, 1, rp_reply_header, default_topic_queues),
    RULE("unitMode", BOOLEAN, 0, rp_reply_header, unit_mode),
};

static const field_rule reply_v2[] = {
    RULE("a", TEXT, 1, rp_reply_header, producer_group),
    RULE("c", TEXT, 1, rp_reply_header, default_topic),
    RULE("d", NUMBER_32, 1, rp_reply_header, default_topic_queues),
    RULE("k", BOOLEAN, 0, rp_reply_header, unit_mode),
};

static const field_rule tries_v1[] = {
    RULE("producerGroup", TEXT, 1, rp_tries_header, producer_group),
    RULE("defaultTopic", TEXT, 1, rp_tries_header, default_topic),
    RULE("defaultTopicQueueNums", NUMBER_32, 1, rp_tries_header, default_topic_queues),
    RULE("maxReconsumeTimes", NUMBER_32, 0, rp_tries_header, reconsume_times_max),
};

static const field_rule tries_v2[] = {
    RULE("a", TEXT, 1, rp_tries_header, producer_group),
    RULE("c", TEXT, 1, rp_tries_header, default_topic),
    RULE("d", NUMBER_32, 1, rp_tries_header, default_topic_queues),
    RULE("l", NUMBER_32, 0, rp_tries_header, reconsume_times_max),
};

static const field_rule send_back[] = {
    RULE("offset", NUMBER_64, 1, rp_send_back_header, log_offset),
    RULE("group", TEXT, 1, rp_send_back_header, group),
    RULE("delayLevel", NUMBER_32, 1, rp_send_back_header, delay_level),
    RULE("originMsgId", TEXT, 0, rp_send_back_header, origin_message_id),
    RULE("maxReconsumeTimes", NUMBER_32, 0, rp_send_back_header, reconsume_times_max),
};

static const field_rule pull[] = {
    RULE("consumerGroup", TEXT, 1, rp_pull_header, group),
    RULE("topic", TEXT, 1, rp_pull_header, topic),
    RULE("queueId", NUMBER_32, 1, rp_pull_header, queue_id),
    RULE("queueOffset", NUMBER_64, 1, rp_pull_header, queue_offset),
    RULE("maxMsgNums", NUMBER_32, 1, rp_pull_header, max_messages),
    RULE("sysFlag", NUMBER_32, 1, rp_pull_header, sys_flag),
    RULE("commitOffset", NUMBER_64, 0, rp_pull_header, commit_offset),
    RULE("suspendTimeoutMillis", NUMBER_64, 0, rp_pull_header, suspend_timeout_ms),
    RULE("subscription", TEXT, 0, rp_pull_header, subscription),
    RULE("subVersion", NUMBER_64, 0, rp_pull_header, sub_version),
    RULE("expressionType", TEXT, 0, rp_pull_header, expression_type),
    RULE("maxMsgBytes", NUMBER_32, 0, rp_pull_header, max_bytes),
    RULE("liteTopic", TEXT, 0, rp_pull_header, lite_topic),
};

static const field_rule offset[] = {
    RULE("consumerGroup", TEXT, 0, rp_offset_header, group),
    RULE("topic", TEXT, 0, rp_offset_header, topic),
    RULE("queueId", NUMBER_32, 0, rp_offset_header, queue_id),
    RULE("commitOffset", NUMBER_64, 0, rp_offset_header, commit_offset),
    RULE("setZeroIfNotFound", BOOLEAN, 0, rp_offset_header, set_zero_if_not_found),
};

static const field_rule search[] = {
    RULE("topic", TEXT, 1, rp_search_header, topic),           RULE("liteTopic", TEXT, 0, rp_search_header, lite_topic),
    RULE("queueId", NUMBER_32, 1, rp_search_header, queue_id), RULE("timestamp", NUMBER_64, 1, rp_search_header, timestamp_ms),
    RULE("boundaryType", TEXT, 0, rp_search_header, boundary),
};

static const field_rule end_transaction[] = {
    RULE("producerGroup", TEXT, 0, rp_end_transaction, producer_group),
    RULE("tranStateTableOffset", NUMBER_64, 1, rp_end_transaction, queue_offset),
    RULE("commitLogOffset", NUMBER_64, 1, rp_end_transaction, log_offset),
    RULE("commitOrRollback", NUMBER_32, 1, rp_end_transaction, decision),
    RULE("fromTransactionCheck", BOOLEAN, 0, rp_end_transaction, is_from_check),
};

static const field_rule pop[] = {
    RULE("consumerGroup", TEXT, 1, rp_pop_header, group),
    RULE("topic", TEXT, 1, rp_pop_header, topic),
    RULE("queueId", NUMBER_32, 1, rp_pop_header, queue_id),
    RULE("maxMsgNums", NUMBER_32, 1, rp_pop_header, max_messages),
    RULE("invisibleTime", NUMBER_64, 1, rp_pop_header, invisible_ms),
    RULE("pollTime", NUMBER_64, 1, rp_pop_header, poll_ms),
    RULE("initMode", NUMBER_32, 1, rp_pop_header, init_mode),
    RULE("expType", TEXT, 0, rp_pop_header, expression_type),
    RULE("exp", TEXT, 0, rp_pop_header, expression),
    RULE("order", BOOLEAN, 0, rp_pop_header, order),
    RULE("attemptId", TEXT, 0, rp_pop_header, attempt_id),
};

static const field_rule notification[] = {
    RULE("consumerGroup", TEXT, 1, rp_pop_header, group),   RULE("topic", TEXT, 1, rp_pop_header, topic),
    RULE("queueId", NUMBER_32, 1, rp_pop_header, queue_id), RULE("pollTime", NUMBER_64, 1, rp_pop_header, poll_ms),
    RULE("order", BOOLEAN, 0, rp_pop_header, order),        RULE("attemptId", TEXT, 0, rp_pop_header, attempt_id),
};

static const field_rule peek[] = {
    RULE("consumerGroup", TEXT, 1, rp_pop_header, group),
    RULE("topic", TEXT, 1, rp_pop_header, topic),
    RULE("queueId", NUMBER_32, 1, rp_pop_header, queue_id),
    RULE("maxMsgNums", NUMBER_32, 1, rp_pop_header, max_messages),
};

static const field_rule polling_info[] = {
    RULE("consumerGroup", TEXT, 1, rp_pop_header, group),
    RULE("topic", TEXT, 1, rp_pop_header, topic),
    RULE("queueId", NUMBER_32, 1, rp_pop_header, queue_id),
};

static const field_rule lite_pop[] = {
    RULE("clientId", TEXT, 1, rp_lite_pop_header, client),
    RULE("consumerGroup", TEXT, 1, rp_lite_pop_header, group),
    RULE("topic", TEXT, 1, rp_lite_pop_header, topic),
    RULE("maxMsgNum", NUMBER_32, 1, rp_lite_pop_header, max_messages),
    RULE("invisibleTime", NUMBER_64, 1, rp_lite_pop_header, invisible_ms),
    RULE("pollTime", NUMBER_64, 1, rp_lite_pop_header, poll_ms),
    RULE("bornTime", NUMBER_64, 1, rp_lite_pop_header, born_ms),
    RULE("attemptId", TEXT, 0, rp_lite_pop_header, attempt_id),
};

static const field_rule pop_ack[] = {
    RULE("consumerGroup", TEXT, 1, rp_pop_ack_header, group),   RULE("topic", TEXT, 1, rp_pop_ack_header, topic),
    RULE("queueId", NUMBER_32, 1, rp_pop_ack_header, queue_id), RULE("extraInfo", TEXT, 1, rp_pop_ack_header, extra_info),
    RULE("offset", NUMBER_64, 1, rp_pop_ack_header, offset),    RULE("liteTopic", TEXT, 0, rp_pop_ack_header, lite_topic),
    RULE("suspend", BOOLEAN, 0, rp_pop_ack_header, suspend),    RULE("invisibleTime", NUMBER_64, 1, rp_pop_ack_header, invisible_ms),
};

#define COUNT(rules) (sizeof(rules) / sizeof((rules)[0]))

/* Most numbers are a few digits without a sign; others take the general way. */
static inline int parse_i64(rp_slice text, int64_t *value) {
    if (text.size - 1u > 17u)
        return rp_slice_to_i64(text, value);
    int64_t sum = 0;
    for (uint32_t i = 0; i < text.size; i++) {
        uint32_t digit = (uint32_t)text.data[i] - '0';
        if (digit > 9)
            return rp_slice_to_i64(text, value);
        sum = sum * 10 + digit;
    }
    *value = sum;
    return RP_OK;
}

static int read_field(const field_rule *rule, rp_slice value, void *header, rp_header_fault *fault) {
    uint8_t *place = (uint8_t *)header + rule->place;
    int64_t number = 0;
    switch (rule->kind) {
    case TEXT:
        memcpy(place, &value, sizeof value);
        return RP_OK;
    case BOOLEAN: {
        int32_t truth = rp_slice_to_bool(value);
        memcpy(place, &truth, sizeof truth);
        return RP_OK;
    }
    default:
        if (parse_i64(value, &number) != RP_OK || (rule->kind == NUMBER_32 && number != (int32_t)number)) {
            *fault = (rp_header_fault){rule->name, value};
            return RP_E_PROTOCOL;
        }
        if (rule->kind == NUMBER_64) {
            memcpy(place, &number, sizeof number);
        } else {
            int32_t narrow = (int32_t)number;
            memcpy(place, &narrow, sizeof narrow);
        }
        return RP_OK;
    }
}

static const field_rule *find_rule(const field_rule *rules, size_t count, rp_slice key) {
    for (size_t i = 0; i < count; i++) {
        const field_rule *rule = &rules[i];
        if (rule->size == key.size && rule->name[key.size - 1] == (char)key.data[key.size - 1] &&
            memcmp(rule->name, key.data, key.size) == 0)
            return rule;
    }
    return NULL;
}

/* Reads every known field; *seen gets one bit per rule. Like RocketMQ, the binary encoding cannot tell an empty value from an absent
 * one. */
static int read_fields(const rp_command *command, const field_rule *rules, size_t count, void *header, uint32_t *seen,
                       rp_header_fault *fault) {
    *seen = 0;
    for (uint16_t i = 0; i < command->field_count; i++) {
        rp_slice key = command->fields[i].key, value = command->fields[i].value;
        if (key.size == 0 || value.data == NULL)
            continue;
        const field_rule *rule = find_rule(rules, count, key);
        if (rule == NULL)
            continue;
        int status = read_field(rule, value, header, fault);
        if (status != RP_OK)
            return status;
        *seen |= 1u << (rule - rules);
    }
    return RP_OK;
}

static int check_required(const field_rule *rules, size_t count, uint32_t seen, rp_header_fault *fault) {
    for (size_t i = 0; i < count; i++) {
        if (!rules[i].required || (seen & (1u << i)) != 0)
            continue;
        *fault = (rp_header_fault){rules[i].name, {NULL, 0}};
        return RP_E_PROTOCOL;
    }
    return RP_OK;
}

/* ---- the short spelling of sends ----
 *
 * Nearly every request has this header, and a client writes its fields in the same order each time: the places of the last request are
 * tried first, and only fields that are elsewhere are searched for. */

enum short_field { TOPIC, QUEUE_ID, SYS_FLAG, BORN, FLAG, PROPERTIES, RECONSUME, BATCH, SHORT_FIELDS };
static const char short_names[SHORT_FIELDS][2] = {"b", "e", "f", "g", "h", "i", "j", "m"};
_Static_assert(SHORT_FIELDS == RP_SEND_SHORT_FIELDS, "a place for each short field");

static inline int has_name(const rp_field *field, uint8_t letter) { return field->key.size == 1 && field->key.data[0] == letter; }

/* Returns the value of a field, data NULL: absent. */
static inline rp_slice find_short(const rp_command *command, rp_send_layout *layout, enum short_field which) {
    uint8_t letter = (uint8_t)short_names[which][0];
    uint32_t place = layout->places[which];
    if (place < command->field_count && has_name(&command->fields[place], letter))
        return command->fields[place].value;
    for (uint16_t i = 0; i < command->field_count; i++) {
        if (has_name(&command->fields[i], letter)) {
            layout->places[which] = (uint8_t)i;
            return command->fields[i].value;
        }
    }
    return (rp_slice){NULL, 0};
}

static inline int short_number(const rp_command *command, rp_send_layout *layout, enum short_field which, int64_t *number,
                               rp_header_fault *fault) {
    rp_slice value = find_short(command, layout, which);
    if (value.data == NULL && which == RECONSUME) {
        *number = 0;
        return RP_OK;
    }
    if (value.data != NULL && parse_i64(value, number) == RP_OK && (which == BORN || *number == (int32_t)*number))
        return RP_OK;
    *fault = (rp_header_fault){short_names[which], value};
    return RP_E_PROTOCOL;
}

static int read_v2(const rp_command *command, rp_send_layout *layout, rp_send_header *header, rp_header_fault *fault) {
    int64_t queue_id, sys_flag, flag, reconsume_times;
    int status = short_number(command, layout, QUEUE_ID, &queue_id, fault);
    status = status == RP_OK ? short_number(command, layout, SYS_FLAG, &sys_flag, fault) : status;
    status = status == RP_OK ? short_number(command, layout, BORN, &header->born_timestamp_ms, fault) : status;
    status = status == RP_OK ? short_number(command, layout, FLAG, &flag, fault) : status;
    status = status == RP_OK ? short_number(command, layout, RECONSUME, &reconsume_times, fault) : status;
    if (status != RP_OK)
        return status;
    header->topic = find_short(command, layout, TOPIC);
    header->properties = find_short(command, layout, PROPERTIES);
    header->queue_id = (int32_t)queue_id;
    header->sys_flag = (int32_t)sys_flag;
    header->flag = (int32_t)flag;
    header->reconsume_times = (int32_t)reconsume_times;
    rp_slice batch = find_short(command, layout, BATCH);
    header->batch = batch.data != NULL && batch.size == 4 && rp_slice_to_bool(batch);
    return RP_OK;
}

int rp_send_header_read(const rp_command *command, rp_send_layout *layout, rp_send_header *header, rp_header_fault *fault) {
    if (command->code != RP_CODE_SEND_MESSAGE && command->code != RP_CODE_SEND_REPLY_MESSAGE)
        return read_v2(command, layout, header, fault);
    *header = (rp_send_header){0};
    uint32_t seen;
    int status = read_fields(command, send_v1, COUNT(send_v1), header, &seen, fault);
    return status != RP_OK ? status : check_required(send_v1, COUNT(send_v1), seen, fault);
}

int rp_reply_header_read(const rp_command *command, rp_reply_header *header, rp_header_fault *fault) {
    const field_rule *rules = command->code == RP_CODE_SEND_REPLY_MESSAGE ? reply_v1 : reply_v2;
    _Static_assert(COUNT(reply_v1) == COUNT(reply_v2), "one spelling has what the other has");
    *header = (rp_reply_header){0};
    uint32_t seen;
    int status = read_fields(command, rules, COUNT(reply_v1), header, &seen, fault);
    return status != RP_OK ? status : check_required(rules, COUNT(reply_v1), seen, fault);
}

int rp_tries_header_read(const rp_command *command, rp_tries_header *header, rp_header_fault *fault) {
    const field_rule *rules = command->code == RP_CODE_SEND_MESSAGE ? tries_v1 : tries_v2;
    _Static_assert(COUNT(tries_v1) == COUNT(tries_v2), "one spelling has what the other has");
    *header = (rp_tries_header){0};
    uint32_t seen;
    int status = read_fields(command, rules, COUNT(tries_v1), header, &seen, fault);
    header->has_reconsume_times_max = (seen & (1u << 3)) != 0;
    return status != RP_OK ? status : check_required(rules, COUNT(tries_v1), seen, fault);
}

int rp_send_back_header_read(const rp_command *command, rp_send_back_header *header, rp_header_fault *fault) {
    *header = (rp_send_back_header){0};
    uint32_t seen;
    int status = read_fields(command, send_back, COUNT(send_back), header, &seen, fault);
    header->has_reconsume_times_max = (seen & (1u << 4)) != 0;
    return status != RP_OK ? status : check_required(send_back, COUNT(send_back), seen, fault);
}

int rp_pull_header_read(const rp_command *command, rp_pull_header *header, rp_header_fault *fault) {
    *header = (rp_pull_header){0};
    uint32_t seen;
    int status = read_fields(command, pull, COUNT(pull), header, &seen, fault);
    return status != RP_OK ? status : check_required(pull, COUNT(pull), seen, fault);
}

int rp_offset_header_read(const rp_command *command, rp_offset_header *header, rp_header_fault *fault) {
    *header = (rp_offset_header){.set_zero_if_not_found = -1};
    uint32_t seen;
    int status = read_fields(command, offset, COUNT(offset), header, &seen, fault);
    header->has_queue_id = (seen & (1u << 2)) != 0;
    header->has_commit_offset = (seen & (1u << 3)) != 0;
    return status;
}

int rp_search_header_read(const rp_command *command, rp_search_header *header, rp_header_fault *fault) {
    *header = (rp_search_header){0};
    uint32_t seen;
    int status = read_fields(command, search, COUNT(search), header, &seen, fault);
    return status != RP_OK ? status : check_required(search, COUNT(search), seen, fault);
}

int rp_names_queue_here(const rp_command *command) {
    for (uint16_t i = 0; i < command->field_count; i++) {
        if (rp_slice_is(command->fields[i].key, "lo"))
            return command->fields[i].value.data != NULL && !rp_slice_to_bool(command->fields[i].value);
    }
    return 0;
}

int rp_names_lite_topic(rp_slice lite_topic) {
    for (uint32_t i = 0; i < lite_topic.size; i++) {
        if (lite_topic.data[i] > ' ')
            return 1;
    }
    return 0;
}

int rp_end_transaction_header_read(const rp_command *command, rp_end_transaction *request, rp_header_fault *fault) {
    *request = (rp_end_transaction){0};
    uint32_t seen;
    int status = read_fields(command, end_transaction, COUNT(end_transaction), request, &seen, fault);
    return status != RP_OK ? status : check_required(end_transaction, COUNT(end_transaction), seen, fault);
}

int rp_pop_header_read(const rp_command *command, rp_pop_header *header, rp_header_fault *fault) {
    const field_rule *rules = pop;
    size_t count = COUNT(pop);
    if (command->code == RP_CODE_NOTIFICATION) {
        rules = notification;
        count = COUNT(notification);
    } else if (command->code == RP_CODE_PEEK_MESSAGE) {
        rules = peek;
        count = COUNT(peek);
    } else if (command->code == RP_CODE_POLLING_INFO) {
        rules = polling_info;
        count = COUNT(polling_info);
    }
    *header = (rp_pop_header){.order = 0};
    uint32_t seen;
    int status = read_fields(command, rules, count, header, &seen, fault);
    return status != RP_OK ? status : check_required(rules, count, seen, fault);
}

int rp_lite_pop_header_read(const rp_command *command, rp_lite_pop_header *header, rp_header_fault *fault) {
    *header = (rp_lite_pop_header){.max_messages = 0};
    uint32_t seen;
    int status = read_fields(command, lite_pop, COUNT(lite_pop), header, &seen, fault);
    return status != RP_OK ? status : check_required(lite_pop, COUNT(lite_pop), seen, fault);
}

int rp_pop_ack_header_read(const rp_command *command, rp_pop_ack_header *header, rp_header_fault *fault) {
    size_t count = COUNT(pop_ack) - (command->code == RP_CODE_ACK_MESSAGE); /* ACK_MESSAGE has no invisibleTime */
    *header = (rp_pop_ack_header){.request_code = command->code};
    uint32_t seen;
    int status = read_fields(command, pop_ack, count, header, &seen, fault);
    return status != RP_OK ? status : check_required(pop_ack, count, seen, fault);
}
