/* pop_path.c: see pop_path.h. Pops and notifications; the checks are in RocketMQ's order. */
#include "pop_path.h"

#include <stdlib.h>
#include <string.h>

#include "../base/clock.h"
#include "../base/clock_inl.h"
#include "lane.h"
#include "lite_path.h"
#include "pop_choice.h"
#include "pop_escape.h"
#include "pop_log.h"
#include "pop_order.h"
#include "pull_path.h"
#include "response_writer_inl.h"

#define UNSENT_BYTES_MAX (16u << 20) /* as for pulls */
#define BUSY_MS_MAX 5 /* an append takes microseconds */
#define BUSY_LOOK_MS 10

static int32_t setting(const _Atomic int32_t *value) { return atomic_load_explicit(value, memory_order_relaxed); }
static int64_t wall_ms(void) { return rp_clock_wall_ms(rp_clock_system()); }

rp_answer_to rp_pop_answer_to(rp_lane *lane, const rp_pop *pop, rp_connection *connection) {
    return (rp_answer_to){connection,  &lane->answer_times, pop->arrived_ns, pop->request_code,
                          pop->opaque, pop->serialize_type, pop->oneway};
}

/* ---- checks ---- */

static int check_broker(const rp_broker *broker, const rp_pop *pop, rp_answer_to to) {
    int is_pop = pop->request_code == RP_CODE_POP_MESSAGE || pop->request_code == RP_CODE_POP_LITE_MESSAGE;
    const char *what = is_pop ? "pop" : "peeking";
    if (atomic_load_explicit(&broker->pulls_dismissed, memory_order_acquire))
        return rp_answer(to, RP_RESPONSE_SYSTEM_BUSY, NULL, 0, RP_STOPPING);
    if (setting(&broker->settings.role) == RP_ROLE_SLAVE && (pop->lite != NULL || !rp_pop_escapes(broker)))
        return rp_answer(to, RP_RESPONSE_SYSTEM_ERROR, NULL, 0, "the broker[%s] is a slave: its master answers this",
                         broker->options.broker_ip);
    if (!(setting(&broker->settings.permission) & RP_PERMISSION_READ))
        return rp_answer(to, RP_RESPONSE_NO_PERMISSION, NULL, 0, "the broker[%s] %s message is forbidden", broker->options.broker_ip, what);
    if (pop->max_messages > RP_POP_MESSAGES_MAX)
        return rp_answer(to, RP_RESPONSE_INVALID_PARAMETER, NULL, 0, "the broker[%s] %s message's num is greater than 32",
                         broker->options.broker_ip, what);
    return RP_OK;
}

static int check_topic(const rp_pop *pop, rp_answer_to to) {
    rp_slice name = pop->topic->head.name;
    int32_t read_queues = setting(&pop->topic->read_queues);
    if (!rp_topic_is_live(pop->topic))
        return rp_answer(to, RP_RESPONSE_TOPIC_NOT_EXIST, NULL, 0, "topic[%.*s] not exist, apply first please! " RP_FAQ_TIP, (int)name.size,
                         (const char *)name.data);
    if (!(setting(&pop->topic->permission) & RP_PERMISSION_READ))
        return rp_answer(to, RP_RESPONSE_NO_PERMISSION, NULL, 0, "the topic[%.*s] peeking message is forbidden", (int)name.size,
                         (const char *)name.data);
    if (pop->queue_id >= read_queues) {
        char peer[RP_ADDRESS_TEXT_MAX];
        rp_peer_text(to.connection, peer);
        return rp_answer(to, RP_RESPONSE_INVALID_PARAMETER, NULL, 0,
                         "queueId[%d] is illegal, topic:[%.*s] topicConfig.readQueueNums:[%d] consumer:[/%s]", pop->queue_id,
                         (int)name.size, (const char *)name.data, read_queues, peer);
    }
    return RP_OK;
}

int rp_pop_check(const rp_broker *broker, const rp_pop *pop, rp_answer_to to) {
    int outcome = check_broker(broker, pop, to);
    if (outcome == RP_OK)
        outcome = check_topic(pop, to);
    if (outcome != RP_OK)
        return outcome;
    rp_slice name = pop->group->head.name;
    if (!rp_group_is_live(pop->group))
        return rp_answer(to, RP_RESPONSE_SUBSCRIPTION_GROUP_NOT_EXIST, NULL, 0, "subscription group [%.*s] does not exist, " RP_FAQ_TIP,
                         (int)name.size, (const char *)name.data);
    if (!setting(&pop->group->consume_enable))
        return rp_answer(to, RP_RESPONSE_NO_PERMISSION, NULL, 0, "subscription group no permission, %.*s", (int)name.size,
                         (const char *)name.data);
    return RP_OK;
}

/* ---- reading the request ---- */

int rp_pop_find_retry_topics(const rp_broker *broker, rp_pop *pop) {
    int wanted = setting(&broker->settings.retry_topic_version) == 2 ? 2 : 1;
    for (int version = 1; version <= 2; version++) {
        uint8_t name[RP_POP_RETRY_NAME_MAX];
        uint32_t size = rp_pop_retry_topic_name(pop->topic->head.name, pop->group->head.name, version, name);
        pop->retry_topics[version - 1] = size > 0 ? rp_topic_table_find(broker->topics, (rp_slice){name, size}) : NULL;
    }
    const rp_topic *retry = pop->retry_topics[wanted - 1];
    return retry != NULL &&
           (!setting(&broker->settings.separate_retry_queues) || rp_pop_retry_width(retry) >= rp_pop_retry_queues(broker, pop->topic));
}

int rp_pop_read(rp_lane *lane, rp_connection *connection, const rp_command *command, rp_pop *pop, rp_pop_header *header) {
    rp_broker *broker = lane->broker;
    rp_answer_to to = rp_answer_to_command(lane, connection, command);
    rp_header_fault fault;
    if (rp_pop_header_read(command, header, &fault) != RP_OK)
        return rp_answer_fault(to, &fault);
    *pop = (rp_pop){
        .topic = rp_topic_table_find(broker->topics, header->topic),
        .group = rp_group_table_find(broker->groups, header->group),
        .invisible_ms = rp_pop_invisible_ms(header->invisible_ms),
        .poll_ms = header->poll_ms > RP_POP_POLL_MS_MAX ? RP_POP_POLL_MS_MAX : header->poll_ms,
        .connection_id = rp_connection_id(connection),
        .attempt_id = header->attempt_id,
        .queue_id = header->queue_id,
        .max_messages = header->max_messages,
        .order = header->order != 0,
        .from_min = header->init_mode == 0,
        .arrived_ns = to.arrived_ns,
        .request_code = to.request_code,
        .opaque = to.opaque,
        .serialize_type = to.serialize_type,
        .oneway = to.oneway,
    };
    if (header->attempt_id.size > RP_POP_ATTEMPT_ID_MAX)
        return rp_answer(to, RP_RESPONSE_INVALID_PARAMETER, NULL, 0, "attemptId is longer than %d bytes", RP_POP_ATTEMPT_ID_MAX);
    if (pop->topic == NULL || pop->group == NULL ||
        !(atomic_load_explicit(&pop->topic->flags, memory_order_relaxed) & RP_TOPIC_NATIVE_PULL))
        return RP_PULL_PUNTED;
    return RP_OK;
}

/* ---- looking ---- */

typedef int look_at_queue(rp_lane *lane, rp_pop *pop, rp_topic *topic, int32_t queue_id, rp_pop_catch *caught);

static int take_messages(rp_lane *lane, rp_pop *pop, rp_topic *topic, int32_t queue_id, rp_pop_catch *caught) {
    rp_pop_choose(lane, pop, topic, queue_id, caught);
    return 0;
}

static int has_messages(rp_lane *lane, rp_pop *pop, rp_topic *topic, int32_t queue_id, rp_pop_catch *caught) {
    (void)caught;
    return rp_pop_rest(lane, pop, topic, queue_id) > 0;
}

/* The order in which a pop visits the queues of a topic. */
enum queue_order { FROM_ANY, FROM_FIRST, FROM_LAST };

/* By priority (each queue of a priority topic has one) if the group wants that for this pop, with a probability of `chance` percent. */
static enum queue_order order_of(const rp_lane *lane, const rp_pop *pop, int32_t chance) {
    int is_ranked = atomic_load_explicit(&pop->topic->flags, memory_order_relaxed) & RP_TOPIC_PRIORITY;
    if (__builtin_expect(!is_ranked, 1) || pop->order || chance >= 100 - setting(&pop->group->fair_percent))
        return FROM_ANY;
    return setting(&lane->broker->settings.priority_ascends) ? FROM_LAST : FROM_FIRST;
}

/* Visits every queue. 1: look said that it is enough. */
static int each_queue(rp_lane *lane, rp_pop *pop, rp_topic *topic, enum queue_order order, rp_pop_catch *caught, look_at_queue *look) {
    if (topic == NULL || !rp_topic_is_live(topic))
        return 0;
    int32_t queues = setting(&topic->read_queues), first = 0;
    if (queues > RP_POP_QUEUES_MAX) /* otherwise it would never reach the others */
        order = FROM_ANY;
    if (order == FROM_ANY && queues > 0)
        first = (int32_t)(rp_lane_random(lane) % (uint32_t)queues);
    for (int32_t i = 0; i < queues && i < RP_POP_QUEUES_MAX; i++) {
        int32_t at = (first + i) % queues;
        if (look(lane, pop, topic, order == FROM_LAST ? queues - 1 - at : at, caught))
            return 1;
    }
    return 0;
}

/* Visits new messages and retries in RocketMQ's order; of the two kinds of retry topics one, and the other only if nothing else was
 * found: a pop must not wait without having looked there. */
static int look_everywhere(rp_lane *lane, rp_pop *pop, rp_pop_catch *caught, look_at_queue *look) {
    const rp_live_settings *settings = &lane->broker->settings;
    int is_v2 = setting(&settings->retry_topic_version) == 2;
    int old_one = is_v2 && setting(&settings->retry_topic_v1_too) && (rp_lane_random(lane) & 1);
    int is_order = pop->order && pop->kind == RP_POP_MESSAGES;
    rp_topic *retry = is_order ? NULL : pop->retry_topics[is_v2 && !old_one];
    int32_t chance = (int32_t)(rp_lane_random(lane) % 100);
    enum queue_order order = order_of(lane, pop, chance);
    const _Atomic int32_t *percent = order == FROM_ANY ? &settings->pop_from_retry_percent : &settings->pop_from_retry_percent_by_priority;
    int retry_first = chance < setting(percent);
    if (retry_first && each_queue(lane, pop, retry, order, caught, look))
        return 1;
    if (pop->queue_id >= 0 ? look(lane, pop, pop->topic, pop->queue_id, caught) : each_queue(lane, pop, pop->topic, order, caught, look))
        return 1;
    if (!retry_first && each_queue(lane, pop, retry, order, caught, look))
        return 1;
    if (is_order || !is_v2 || caught->count > 0 || (!old_one && !setting(&settings->retry_topic_v1_too)))
        return 0;
    return each_queue(lane, pop, pop->retry_topics[old_one], order, caught, look);
}

/* ---- answers ---- */

int rp_pop_answer(rp_lane *lane, const rp_pop *pop, rp_answer_to to, int32_t code, rp_pop_catch *caught) {
    static const char found[] = "FOUND", nothing[] = "NO_MESSAGE_IN_QUEUE";
    rp_slice remark = code == RP_RESPONSE_SUCCESS ? (rp_slice){(const uint8_t *)found, sizeof found - 1}
                                                  : (rp_slice){(const uint8_t *)nothing, sizeof nothing - 1};
    uint32_t texts = caught->start_size + caught->offset_size + caught->order_size;
    uint8_t *target = to.oneway ? NULL : rp_connection_reserve(to.connection, RP_RESPONSE_SIZE_BASE + texts);
    if (target == NULL) { /* messages that were popped come again when their invisible time is over */
        rp_pop_catch_release(caught);
        return to.oneway ? RP_HANDLED : RP_E_NO_MEMORY;
    }
    rp_response_writer writer;
    rp_response_begin(&writer, target, to.serialize_type, code, to.opaque, remark);
    RP_RESPONSE_NUMBER(&writer, "popTime", caught->is_peek ? 0 : caught->pop_time_ms);
    RP_RESPONSE_NUMBER(&writer, "invisibleTime", pop->invisible_ms);
    RP_RESPONSE_NUMBER(&writer, "reviveQid", caught->revive_queue_id);
    RP_RESPONSE_NUMBER(&writer, "restNum", caught->rest);
    if (!caught->is_peek) {
        RP_RESPONSE_TEXT(&writer, "startOffsetInfo", ((rp_slice){caught->start_text, caught->start_size}));
        RP_RESPONSE_TEXT(&writer, "msgOffsetInfo", ((rp_slice){caught->offset_text, caught->offset_size}));
        if (pop->order)
            RP_RESPONSE_TEXT(&writer, "orderCountInfo", ((rp_slice){caught->order_text, caught->order_size}));
    }
    rp_connection_commit(to.connection, rp_response_end(&writer, (uint32_t)caught->bytes));
    rp_answered(&to, code);
    if (caught->range_count > 0) {
        int status = rp_connection_send_ranges(to.connection, caught->ranges, caught->range_count);
        if (status != RP_OK) {
            rp_pop_catch_release(caught);
            return status;
        }
    }
    lane->pulled |= caught->count > 0;
    return RP_HANDLED;
}

static int answer_notification(rp_answer_to to, int has_message, int is_full) {
    rp_field fields[] = {{{(const uint8_t *)"hasMsg", 6}, {(const uint8_t *)(has_message ? "true" : "false"), has_message ? 4 : 5}},
                         {{(const uint8_t *)"pollingFull", 11}, {(const uint8_t *)(is_full ? "true" : "false"), is_full ? 4 : 5}}};
    return rp_answer(to, RP_RESPONSE_SUCCESS, fields, 2, NULL);
}

void rp_pop_catch_begin(rp_lane *lane, const rp_pop *pop, rp_pop_catch *caught) {
    const rp_topic *log = rp_pop_log_topic(lane->broker);
    int32_t queues = log != NULL ? setting(&log->write_queues) : 0;
    if (queues > RP_POP_ORDER_QUEUE)
        queues = RP_POP_ORDER_QUEUE; /* that number means order in a handle: an ack would not be taken for one of a checkpoint */
    caught->rest = 0;
    caught->bytes = 0;
    caught->count = caught->range_count = caught->start_size = caught->offset_size = caught->order_size = 0;
    caught->is_peek = 0;
    caught->status = RP_OK;
    caught->escape = NULL;
    caught->escape_cell = NULL;
    caught->pop_time_ms = wall_ms();
    caught->revive_queue_id = RP_POP_ORDER_QUEUE;
    if (!pop->order)
        caught->revive_queue_id =
            queues > 0 ? (int32_t)(atomic_fetch_add_explicit(&lane->broker->pop_serial, 1, memory_order_relaxed) % (uint32_t)queues) : 0;
    rp_pull_read_limits(lane->broker, &caught->limits);
}

/* ---- of an acting slave ---- */

typedef struct escaping_pop {
    rp_pop pop; /* without its filter and attempt id, which are gone */
    rp_pop_catch caught;
} escaping_pop;

static int answer_untaken(rp_answer_to to, int status) {
    if (status == RP_E_BUSY)
        return rp_answer(to, RP_RESPONSE_SYSTEM_BUSY, NULL, 0, RP_OVERLOADED);
    return rp_answer(to, RP_RESPONSE_SYSTEM_ERROR, NULL, 0, "no other master took the checkpoint of what was popped of this slave: %s",
                     rp_status_text(status));
}

static void drop_escaping(rp_pop_escape *escape) {
    escaping_pop *escaping = escape->context;
    rp_pop_escaped(escape->lane->broker, &escaping->pop, &escaping->caught, RP_E_CLOSED);
}

/* If the consumer no longer reads the answer, the messages come again when they are due. */
static void finish_escaping(rp_pop_escape *escape, int status) {
    rp_lane *lane = escape->lane;
    escaping_pop *escaping = escape->context;
    rp_answer_to to = rp_pop_escape_answer_to(escape);
    int outcome = RP_OK;
    rp_pop_escaped(lane->broker, &escaping->pop, &escaping->caught, status);
    if (to.connection == NULL)
        rp_pop_catch_release(&escaping->caught);
    else if (status != RP_OK)
        outcome = answer_untaken(to, status);
    else
        outcome = rp_pop_answer(lane, &escaping->pop, to, RP_RESPONSE_SUCCESS, &escaping->caught);
    if (outcome < 0)
        rp_server_close_connection(lane->server, escape->connection_id);
}

/* Answers with what was caught, once another master has its checkpoint. */
static int escape(rp_lane *lane, const rp_pop *pop, rp_answer_to to, rp_pop_catch *caught) {
    escaping_pop *escaping = malloc(sizeof *escaping);
    rp_pop_escape *records = caught->escape;
    int status = RP_E_NO_MEMORY;
    if (escaping != NULL) {
        escaping->pop = *pop;
        escaping->caught = *caught;
        records->context = escaping;
        records->drop = drop_escaping;
        status = rp_pop_escape_send(records, to, finish_escaping);
    }
    if (status == RP_OK)
        return RP_HANDLED;
    rp_pop_escaped(lane->broker, pop, caught, status);
    rp_pop_escape_free(records);
    return answer_untaken(to, status);
}

/* RP_OK: there is nothing for it yet. */
static int try_messages(rp_lane *lane, rp_pop *pop, rp_answer_to to, rp_pop_catch *caught) {
    if (rp_commit_log_held_ms(lane->broker->commit_log) > BUSY_MS_MAX) { /* the checkpoint would wait, and all other requests with it */
        pop->look_ms = wall_ms() + BUSY_LOOK_MS;
        return RP_OK;
    }
    look_everywhere(lane, pop, caught, take_messages);
    if (caught->count == 0 && caught->status != RP_OK)
        return rp_answer(to, RP_RESPONSE_SYSTEM_ERROR, NULL, 0, "the checkpoint of what was popped cannot be stored: %s",
                         rp_status_text(caught->status));
    if (caught->count == 0)
        return RP_OK;
    rp_count(&lane->counters.pops_found, 1);
    if (caught->escape != NULL)
        return escape(lane, pop, to, caught);
    return rp_pop_answer(lane, pop, to, RP_RESPONSE_SUCCESS, caught);
}

void rp_pop_begin_look(const rp_lane *lane, rp_pop *pop, int last) {
    pop->more = 0;
    pop->look_ms = 0;
    int64_t wait_ns = lane->broker->options.cold_wait_ms * RP_NS_PER_MS;
    pop->cold_over = pop->cold_ns != 0 && (last || rp_reactor_now_ns(lane->reactor) - pop->cold_ns >= wait_ns);
    if (pop->cold_over)
        rp_pop_forget_disk(pop);
    pop->cold_asked = pop->cold_kinds;
}

static int try_pop(rp_lane *lane, rp_pop *pop, rp_answer_to to, int last, rp_pop_catch *caught) {
    int outcome = rp_pop_check(lane->broker, pop, to);
    if (outcome != RP_OK)
        return outcome;
    rp_pop_begin_look(lane, pop, last);
    rp_pop_catch_begin(lane, pop, caught);
    if (pop->kind == RP_POP_MESSAGES)
        return try_messages(lane, pop, to, caught);
    return look_everywhere(lane, pop, caught, has_messages) ? answer_notification(to, 1, 0) : RP_OK;
}

/* Answers without messages. */
static int answer_nothing(rp_lane *lane, const rp_pop *pop, rp_answer_to to, int is_full, rp_pop_catch *caught) {
    if (pop->kind == RP_POP_NOTIFICATION)
        return answer_notification(to, 0, is_full);
    return rp_pop_answer(lane, pop, to, is_full ? RP_RESPONSE_POLLING_FULL : RP_RESPONSE_POLLING_TIMEOUT, caught);
}

/* ---- requests ---- */

/* Looks for what the request wants, or lets it wait. */
static int begin(rp_lane *lane, rp_connection *connection, rp_pop *pop) {
    rp_answer_to to = rp_pop_answer_to(lane, pop, connection);
    rp_pop_catch caught;
    int outcome = try_pop(lane, pop, to, 0, &caught);
    if (outcome != RP_OK)
        return outcome;
    if (rp_pop_waits_begin(lane, pop))
        return RP_HANDLED;
    return answer_nothing(lane, pop, to, pop->poll_ms > 0, &caught);
}

int rp_pop_request(rp_lane *lane, rp_connection *connection, const rp_command *command, int resubmitted) {
    rp_answer_to to = rp_answer_to_command(lane, connection, command);
    rp_pop_header header;
    rp_pop pop;
    int outcome = rp_pop_read(lane, connection, command, &pop, &header);
    if (outcome == RP_OK && pop.max_messages < 1)
        outcome = rp_answer(to, RP_RESPONSE_INVALID_PARAMETER, NULL, 0, "maxMsgNums[%d] is less than 1", pop.max_messages);
    if (outcome == RP_OK && header.expression.size > 0)
        outcome = rp_pull_read_filter(lane, header.expression, header.expression_type, to, &pop.filter);
    if (outcome == RP_OK && !rp_pop_find_retry_topics(lane->broker, &pop) && !resubmitted && !pop.order && !rp_pop_escapes(lane->broker)) {
        outcome = rp_pop_check(lane->broker, &pop, to); /* a refused pop must not create it */
        if (outcome == RP_OK)
            outcome = RP_PULL_PUNTED;
    }
    if (outcome == RP_OK)
        outcome = begin(lane, connection, &pop);
    rp_count(&lane->counters.pops, 1);
    if (outcome != RP_PULL_PUNTED)
        return outcome < 0 ? outcome : RP_HANDLED;
    rp_count(&lane->counters.pops_punted, 1);
    return RP_PUNT;
}

int rp_pop_notification_request(rp_lane *lane, rp_connection *connection, const rp_command *command) {
    rp_pop_header header;
    rp_pop pop;
    int outcome = rp_pop_read(lane, connection, command, &pop, &header);
    if (outcome == RP_PULL_PUNTED)
        return RP_PUNT;
    if (outcome == RP_OK) {
        pop.kind = RP_POP_NOTIFICATION;
        rp_pop_find_retry_topics(lane->broker, &pop);
        outcome = begin(lane, connection, &pop);
    }
    return outcome < 0 ? outcome : RP_HANDLED;
}

int rp_pop_is_choked(const rp_connection *connection) { return rp_connection_unsent_bytes(connection) >= UNSENT_BYTES_MAX; }

int rp_pop_retry(rp_lane *lane, rp_pop *pop, int last) {
    if (pop->lite != NULL)
        return rp_lite_pop_retry(lane, pop, last);
    rp_connection *connection = rp_reactor_connection(lane->reactor, pop->connection_id);
    if (connection == NULL)
        return 1;
    rp_answer_to to = rp_pop_answer_to(lane, pop, connection);
    rp_pop_catch caught;
    int outcome = RP_OK;
    int is_choked = rp_pop_is_choked(connection);
    if (is_choked)
        rp_pop_catch_begin(lane, pop, &caught);
    else
        outcome = try_pop(lane, pop, to, last, &caught);
    if (outcome == RP_OK && (is_choked || last)) /* a pop that cannot be given anything must not precede those that can */
        outcome = answer_nothing(lane, pop, to, 0, &caught);
    if (outcome < 0)
        rp_server_close_connection(lane->server, pop->connection_id);
    return outcome != RP_OK;
}
