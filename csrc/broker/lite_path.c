/* lite_path.c: see lite_path.h. The checks are in RocketMQ's order. */
#include "lite_path.h"

#include <string.h>

#include "../base/clock.h"
#include "../base/clock_inl.h"
#include "lane.h"
#include "lite.h"
#include "lite_readers.h"
#include "pop_choice.h"
#include "pop_log.h"
#include "pop_order.h"
#include "response_writer_inl.h"

#define LOOKS_MAX 256      /* queues that one pop looks at in one turn */
#define LATER_MAX 32       /* of these, how many that cannot be read now */
#define UNREADABLE_MS 100  /* after which they are looked at again */
#define DUE_ON_LANE 0      /* the lane that handles the deadlines of held queues */

static int64_t wall_ms(void) { return rp_clock_wall_ms(rp_clock_system()); }

/* ---- what is held ---- */

int64_t rp_lite_deadline(const rp_lane *lane) { return lane->index == DUE_ON_LANE ? rp_lite_due_ns(lane->broker->lite) : INT64_MAX; }

void rp_lite_tell_due(rp_lane *lane) {
    if (lane->index == DUE_ON_LANE)
        rp_lane_schedule(lane);
    else
        rp_reactor_wake(lane->broker->lanes[DUE_ON_LANE]->reactor);
}

void rp_lite_drain(rp_lane *lane) {
    rp_lite_waits *waits;
    int64_t earliest_ns = rp_lane_deadline(lane);
    while ((waits = rp_lite_next_woken(lane->broker->lite, lane->index)) != NULL)
        rp_pop_waits_woken(lane, waits->list);
    if (rp_lane_deadline(lane) < earliest_ns || rp_lite_deadline(lane) < lane->lite_due_ns)
        rp_lane_schedule(lane);
}

/* ---- one lite queue ---- */

/* Puts back what was looked at, in the state it was found in. */
static void put_back(rp_lane *lane, rp_lite_look *look, enum rp_lite_found found, int64_t free_ms) {
    int64_t due_ns = 0;
    if (found == RP_LITE_HELD) {
        int64_t wait_ms = free_ms - wall_ms();
        due_ns = rp_reactor_now_ns(lane->reactor) + (wait_ms > 0 ? wait_ms : 0) * RP_NS_PER_MS;
    }
    if (rp_lite_put_back(lane->broker->lite, look, found, due_ns))
        rp_lite_tell_due(lane);
}

/* 1: it cannot be read now. */
static int look_at(rp_lane *lane, rp_pop *pop, rp_lite_look *look, rp_pop_catch *caught) {
    int64_t free_ms = 0;
    if (look->topic == NULL)
        look->topic = rp_topic_table_entry(lane->broker->topics, look->name);
    if (look->topic == NULL)
        return 1;
    switch (rp_pop_choose_light(lane, pop, look->topic, look->queue, caught, &free_ms)) {
    case RP_LIGHT_TAKEN:
    case RP_LIGHT_BLOCKED:
        put_back(lane, look, RP_LITE_HELD, free_ms);
        return 0;
    case RP_LIGHT_NOTHING:
        put_back(lane, look, RP_LITE_NOTHING, 0);
        return 0;
    default:
        return 1;
    }
}

static int is_full(const rp_pop *pop, const rp_pop_catch *caught) {
    return caught->count >= (uint32_t)pop->max_messages || (caught->count > 0 && caught->bytes >= caught->limits.transfer_bytes_memory);
}

static void look_everywhere(rp_lane *lane, rp_pop *pop, rp_pop_catch *caught) {
    rp_lite_readers *readers = lane->broker->lite;
    rp_lite_look later[LATER_MAX];
    uint32_t later_count = 0, looks = 0;
    while (!is_full(pop, caught) && looks < LOOKS_MAX && later_count < LATER_MAX && caught->status == RP_OK &&
           rp_lite_take(readers, pop->lite, &later[later_count])) {
        looks++;
        later_count += (uint32_t)look_at(lane, pop, &later[later_count], caught);
    }
    for (uint32_t i = 0; i < later_count; i++)
        put_back(lane, &later[i], RP_LITE_AGAIN, 0);
    if (later_count > 0 && pop->look_ms == 0)
        pop->look_ms = wall_ms() + UNREADABLE_MS;
    pop->more = looks == LOOKS_MAX;
}

/* ---- answers ---- */

static int answer(rp_lane *lane, const rp_pop *pop, rp_answer_to to, int32_t code, rp_pop_catch *caught) {
    static const char found[] = "FOUND", nothing[] = "NO_MESSAGE_IN_QUEUE";
    rp_slice remark = code == RP_RESPONSE_SUCCESS ? (rp_slice){(const uint8_t *)found, sizeof found - 1}
                                                  : (rp_slice){(const uint8_t *)nothing, sizeof nothing - 1};
    uint8_t *target = to.oneway ? NULL : rp_connection_reserve(to.connection, RP_RESPONSE_SIZE_BASE + caught->order_size);
    if (target == NULL) { /* messages that were popped come again when their invisible time is over */
        rp_pop_catch_release(caught);
        return to.oneway ? RP_HANDLED : RP_E_NO_MEMORY;
    }
    rp_response_writer writer;
    rp_response_begin(&writer, target, to.serialize_type, code, to.opaque, remark);
    RP_RESPONSE_NUMBER(&writer, "popTime", caught->pop_time_ms);
    RP_RESPONSE_NUMBER(&writer, "invisibleTime", pop->invisible_ms);
    RP_RESPONSE_NUMBER(&writer, "reviveQid", RP_POP_ORDER_QUEUE);
    RP_RESPONSE_TEXT(&writer, "orderCountInfo", ((rp_slice){caught->order_text, caught->order_size}));
    rp_connection_commit(to.connection, rp_response_end(&writer, (uint32_t)caught->bytes));
    rp_answered(&to, code);
    lane->pulled |= caught->count > 0;
    if (caught->range_count == 0)
        return RP_HANDLED;
    int status = rp_connection_send_ranges(to.connection, caught->ranges, caught->range_count);
    if (status != RP_OK)
        rp_pop_catch_release(caught);
    return status == RP_OK ? RP_HANDLED : status;
}

/* ---- the pop ---- */

static int check(const rp_broker *broker, const rp_pop *pop, rp_answer_to to) {
    int outcome = rp_pop_check(broker, pop, to);
    if (outcome != RP_OK)
        return outcome;
    rp_slice topic = pop->topic->head.name, group = pop->group->head.name;
    if (!(atomic_load_explicit(&pop->topic->flags, memory_order_relaxed) & RP_TOPIC_LITE))
        return rp_answer(to, RP_RESPONSE_INVALID_PARAMETER, NULL, 0, "the topic [%.*s] message type not match", (int)topic.size,
                         (const char *)topic.data);
    if (atomic_load_explicit(&pop->group->lite_topic, memory_order_acquire) != pop->topic)
        return rp_answer(to, RP_RESPONSE_INVALID_PARAMETER, NULL, 0, "subscription bind topic not match, %.*s", (int)group.size,
                         (const char *)group.data);
    return RP_OK;
}

/* RP_OK: there is nothing for it yet. */
static int try_pop(rp_lane *lane, rp_pop *pop, rp_answer_to to, int last, rp_pop_catch *caught) {
    int outcome = check(lane->broker, pop, to);
    if (outcome != RP_OK)
        return outcome;
    rp_pop_begin_look(lane, pop, last);
    rp_pop_catch_begin(lane, pop, caught);
    look_everywhere(lane, pop, caught);
    if (caught->count == 0)
        return RP_OK;
    rp_lite_pass_on(lane->broker->lite, pop->lite);
    rp_count(&lane->counters.pops_found, 1);
    return answer(lane, pop, to, RP_RESPONSE_SUCCESS, caught);
}

static int read_pop(rp_lane *lane, rp_connection *connection, const rp_lite_pop_header *header, rp_answer_to to, rp_pop *pop) {
    rp_broker *broker = lane->broker;
    rp_slice topic = header->topic, group = header->group;
    *pop = (rp_pop){
        .topic = rp_topic_table_find(broker->topics, topic),
        .group = rp_group_table_find(broker->groups, group),
        .invisible_ms = rp_pop_invisible_ms(header->invisible_ms),
        .poll_ms = header->poll_ms > RP_POP_POLL_MS_MAX ? RP_POP_POLL_MS_MAX : header->poll_ms,
        .connection_id = rp_connection_id(connection),
        .attempt_id = header->attempt_id,
        .queue_id = -1,
        .max_messages = header->max_messages,
        .order = 1,
        .arrived_ns = to.arrived_ns,
        .request_code = to.request_code,
        .opaque = to.opaque,
        .serialize_type = to.serialize_type,
        .oneway = to.oneway,
    };
    if (header->attempt_id.size > RP_POP_ATTEMPT_ID_MAX || header->client.size > RP_LITE_CLIENT_MAX || header->client.size == 0)
        return rp_answer(to, RP_RESPONSE_INVALID_PARAMETER, NULL, 0, "attemptId is longer than %d bytes, or clientId has not 1 to %u",
                         RP_POP_ATTEMPT_ID_MAX, RP_LITE_CLIENT_MAX);
    if (pop->max_messages < 1)
        return rp_answer(to, RP_RESPONSE_INVALID_PARAMETER, NULL, 0, "maxMsgNum[%d] is less than 1", pop->max_messages);
    if (pop->topic == NULL)
        return rp_answer(to, RP_RESPONSE_TOPIC_NOT_EXIST, NULL, 0, "topic [%.*s] not exist, apply first please! " RP_FAQ_TIP,
                         (int)topic.size, (const char *)topic.data);
    if (pop->group == NULL)
        return rp_answer(to, RP_RESPONSE_SUBSCRIPTION_GROUP_NOT_EXIST, NULL, 0, "subscription group [%.*s] not exist, " RP_FAQ_TIP,
                         (int)group.size, (const char *)group.data);
    return RP_OK;
}

/* Begins the pop, whose reader is open. */
static int begin(rp_lane *lane, rp_pop *pop, rp_answer_to to) {
    rp_pop_catch caught;
    int outcome = try_pop(lane, pop, to, 0, &caught);
    if (outcome != RP_OK)
        return outcome;
    if (rp_pop_waits_begin(lane, pop))
        return RP_HANDLED;
    return answer(lane, pop, to, pop->poll_ms > 0 ? RP_RESPONSE_POLLING_FULL : RP_RESPONSE_POLLING_TIMEOUT, &caught);
}

int rp_lite_pop_request(rp_lane *lane, rp_connection *connection, const rp_command *command) {
    rp_answer_to to = rp_answer_to_command(lane, connection, command);
    rp_lite_readers *readers = lane->broker->lite;
    rp_lite_pop_header header;
    rp_header_fault fault;
    rp_pop pop;
    rp_count(&lane->counters.pops, 1);
    if (rp_lite_pop_header_read(command, &header, &fault) != RP_OK)
        return rp_answer_fault(to, &fault);
    int outcome = read_pop(lane, connection, &header, to, &pop);
    if (outcome != RP_OK)
        return outcome < 0 ? outcome : RP_HANDLED;
    int is_wildcard = atomic_load_explicit(&pop.group->lite_wildcard, memory_order_relaxed);
    pop.lite = rp_lite_reader_open(readers, pop.group, header.client, is_wildcard, rp_reactor_now_ns(lane->reactor));
    if (pop.lite == NULL)
        return rp_answer(to, RP_RESPONSE_SYSTEM_BUSY, NULL, 0, RP_OVERLOADED);
    outcome = begin(lane, &pop, to);
    rp_lite_reader_close(readers, pop.lite);
    return outcome < 0 ? outcome : RP_HANDLED;
}

int rp_lite_pop_retry(rp_lane *lane, rp_pop *pop, int last) {
    rp_connection *connection = rp_reactor_connection(lane->reactor, pop->connection_id);
    if (connection == NULL) {
        rp_lite_pass_on(lane->broker->lite, pop->lite);
        return 1;
    }
    rp_answer_to to = rp_pop_answer_to(lane, pop, connection);
    rp_pop_catch caught;
    int outcome = RP_OK, is_choked = rp_pop_is_choked(connection);
    if (is_choked)
        rp_pop_catch_begin(lane, pop, &caught);
    else
        outcome = try_pop(lane, pop, to, last, &caught);
    if (outcome == RP_OK && (is_choked || last)) {
        outcome = answer(lane, pop, to, RP_RESPONSE_POLLING_TIMEOUT, &caught);
        rp_lite_pass_on(lane->broker->lite, pop->lite);
    }
    if (outcome < 0)
        rp_server_close_connection(lane->server, pop->connection_id);
    return outcome != RP_OK;
}
