/* pop_peek.c: answers peeks, which show messages without popping them, and tells how many pops wait (pop_path.h). */
#include "../base/slice_inl.h"
#include "lane.h"
#include "pop_choice.h"
#include "pop_log.h"
#include "pop_path.h"
#include "pull_path.h"
#include "response_writer_inl.h"

static void peek_topic(rp_lane *lane, rp_pop *pop, rp_topic *topic, rp_pop_catch *caught) {
    int32_t queues = topic != NULL && rp_topic_is_live(topic) ? atomic_load_explicit(&topic->read_queues, memory_order_relaxed) : 0;
    for (int32_t i = 0; i < queues && i < RP_POP_QUEUES_MAX; i++)
        rp_pop_choose(lane, pop, topic, i, caught);
}

int rp_pop_peek_request(rp_lane *lane, rp_connection *connection, const rp_command *command) {
    rp_answer_to to = rp_answer_to_command(lane, connection, command);
    rp_pop_header header;
    rp_pop_catch caught;
    rp_pop pop;
    int outcome = rp_pop_read(lane, connection, command, &pop, &header);
    if (outcome == RP_PULL_PUNTED)
        return RP_PUNT;
    if (outcome == RP_OK && pop.max_messages < 0)
        outcome = rp_answer(to, RP_RESPONSE_INVALID_PARAMETER, NULL, 0, "maxMsgNums[%d] is less than 0", pop.max_messages);
    if (outcome == RP_OK) {
        pop.order = 0;
        pop.cold_over = 1; /* peeks do not wait: what is only on disk is read by the reactor */
        if (pop.max_messages > RP_POP_MESSAGES_MAX)
            pop.max_messages = RP_POP_MESSAGES_MAX;
        outcome = rp_pop_check(lane->broker, &pop, to);
    }
    if (outcome != RP_OK)
        return outcome < 0 ? outcome : RP_HANDLED;
    rp_pop_find_retry_topics(lane->broker, &pop);
    rp_pop_catch_begin(lane, &pop, &caught);
    caught.is_peek = 1;
    caught.revive_queue_id = 0;
    if (pop.queue_id >= 0)
        rp_pop_choose(lane, &pop, pop.topic, pop.queue_id, &caught);
    else
        peek_topic(lane, &pop, pop.topic, &caught);
    int is_v2 = atomic_load_explicit(&lane->broker->settings.retry_topic_version, memory_order_relaxed) == 2;
    peek_topic(lane, &pop, pop.retry_topics[is_v2], &caught);
    return rp_pop_answer(lane, &pop, to, caught.count > 0 ? RP_RESPONSE_SUCCESS : RP_RESPONSE_PULL_NOT_FOUND, &caught);
}

int rp_pop_polling_info_request(rp_lane *lane, rp_connection *connection, const rp_command *command) {
    rp_answer_to to = rp_answer_to_command(lane, connection, command);
    rp_pop_header header;
    rp_pop pop;
    int outcome = rp_pop_read(lane, connection, command, &pop, &header);
    if (outcome == RP_PULL_PUNTED)
        return RP_PUNT;
    if (outcome == RP_OK)
        outcome = rp_pop_check(lane->broker, &pop, to);
    if (outcome != RP_OK)
        return outcome < 0 ? outcome : RP_HANDLED;
    uint8_t digits[24];
    uint32_t count = rp_pop_waits_count(lane, pop.topic, pop.group, pop.queue_id);
    rp_field field = {{(const uint8_t *)"pollingNum", 10}, {digits, (uint32_t)(rp_decimal(digits, count) - digits)}};
    return rp_answer(to, RP_RESPONSE_SUCCESS, &field, 1, NULL);
}
