/* pull_path.c: see pull_path.h. The checks are in RocketMQ's order, so that a request with two faults gets the same answer. */
#include "pull_path.h"

#include <string.h>

#include "../base/clock_inl.h"
#include "../base/slice_inl.h"
#include "../store/light_queue.h"
#include "lane.h"
#include "pop_escape.h"
#include "pop_log.h"
#include "pull_response.h"
#include "sql_filter.h"
#include "tag_filter.h"

#define PUNTED RP_PULL_PUNTED
#define COLD 101   /* its messages or entries are on disk only, and it may wait for them */
#define LATER 102  /* its filter has to wait for another turn */
#define LAST_DISK_LOOKS 32u /* messages that the last try of a pull reads from disk for its filter */
#define LATER_MS 500 /* how long a pull's filter waits for a turn with time; then the consumer is told to come again */
#define HELD_TEXT "This consumer group is reading cold data. It has been flow control"
#define UNSENT_BYTES_MAX (16u << 20) /* 64 full answers on one connection */

/* forbiddenType of an answer: ForbiddenType (5.3.3 remoting/protocol/). */
#define BROKER_FORBIDDEN "1"
#define GROUP_FORBIDDEN "2"
#define TOPIC_FORBIDDEN "3"
#define BROADCASTING_FORBIDDEN "4"

static rp_answer_to answer_to(rp_lane *lane, const rp_pull *pull, rp_connection *connection) {
    return (rp_answer_to){connection,   &lane->answer_times,  pull->arrived_ns, pull->request_code,
                          pull->opaque, pull->serialize_type, pull->oneway};
}

static int forbid(rp_answer_to to, const char *type, const char *format, rp_slice name) {
    rp_field field = {{(const uint8_t *)"forbiddenType", 13}, {(const uint8_t *)type, 1}};
    return rp_answer(to, RP_RESPONSE_NO_PERMISSION, &field, 1, format, (int)name.size, (const char *)name.data);
}

static int64_t now_ns(void) { return rp_clock_monotonic_ns(rp_clock_system()); }
static uint32_t bound(const _Atomic uint32_t *value) { return atomic_load_explicit(value, memory_order_relaxed); }
static int32_t setting(const _Atomic int32_t *value) { return atomic_load_explicit(value, memory_order_relaxed); }

/* True if the pull comes from another master that has the checkpoint of messages this slave gave out: it needs the message, whoever else
 * may read here. One message at a time. */
static int is_of_revive(const rp_broker *broker, const rp_pull *pull) {
    return pull->max_messages == 1 && rp_slice_is(pull->group->head.name, RP_POP_REVIVE_GROUP) && rp_pop_escapes(broker);
}

/* Checks broker and group. RP_OK: go on. */
static int check_group(const rp_broker *broker, const rp_pull *pull, rp_answer_to to) {
    const rp_live_settings *settings = &broker->settings;
    rp_slice ip = {(const uint8_t *)broker->options.broker_ip, (uint32_t)strlen(broker->options.broker_ip)};
    if (atomic_load_explicit(&broker->pulls_dismissed, memory_order_acquire))
        return rp_answer(to, RP_RESPONSE_SYSTEM_BUSY, NULL, 0, RP_STOPPING);
    if (setting(&settings->role) == RP_ROLE_SLAVE && !setting(&settings->slave_read_enable) && !is_of_revive(broker, pull))
        return rp_answer(to, RP_RESPONSE_SYSTEM_BUSY, NULL, 0, RP_REJECTED);
    if (!(setting(&settings->permission) & RP_PERMISSION_READ))
        return forbid(to, BROKER_FORBIDDEN, "the broker[%.*s] pulling message is forbidden", ip);
    if (pull->lite && !setting(&settings->lite_pull_enable))
        return forbid(to, BROKER_FORBIDDEN, "the broker[%.*s] for lite pull consumer is forbidden", ip);
    if (!rp_group_is_live(pull->group))
        return rp_answer(to, RP_RESPONSE_SUBSCRIPTION_GROUP_NOT_EXIST, NULL, 0, "subscription group [%.*s] does not exist, " RP_FAQ_TIP,
                         (int)pull->group->head.name.size, (const char *)pull->group->head.name.data);
    if (!setting(&pull->group->consume_enable))
        return forbid(to, GROUP_FORBIDDEN, "subscription group no permission, %.*s", pull->group->head.name);
    return RP_OK;
}

static int check_topic(const rp_pull *pull, rp_answer_to to) {
    const rp_topic *topic = pull->topic;
    rp_slice name = topic->head.name;
    if (!rp_topic_is_live(topic))
        return rp_answer(to, RP_RESPONSE_TOPIC_NOT_EXIST, NULL, 0, "topic[%.*s] not exist, apply first please! " RP_FAQ_TIP, (int)name.size,
                         (const char *)name.data);
    if (!(setting(&topic->permission) & RP_PERMISSION_READ))
        return forbid(to, TOPIC_FORBIDDEN, "the topic[%.*s] pulling message is forbidden", name);
    int32_t read_queues = pull->light == NULL ? setting(&topic->read_queues) : RP_LIGHT_QUEUE_ID + 1;
    if (pull->queue_id < 0 || pull->queue_id >= read_queues) {
        char peer[RP_ADDRESS_TEXT_MAX];
        rp_peer_text(to.connection, peer);
        return rp_answer(to, RP_RESPONSE_INVALID_PARAMETER, NULL, 0,
                         "queueId[%d] is illegal, topic:[%.*s] topicConfig.readQueueNums:[%d] consumer:[/%s]", pull->queue_id,
                         (int)name.size, (const char *)name.data, read_queues, peer);
    }
    return RP_OK;
}

/* Takes the filter of the group's heartbeat. RP_OK: *filter is set. */
static int check_subscription(rp_lane *lane, rp_pull *pull, rp_answer_to to, rp_message_filter *filter) {
    int allows_sql = setting(&lane->broker->settings.property_filter_enable);
    if (pull->sys_flag & RP_PULL_SUBSCRIPTION) {
        *filter = pull->filter;
        return filter->kind == RP_FILTER_SQL && !allows_sql ? PUNTED : RP_OK;
    }
    rp_subscription_view view;
    int status = rp_consumption_read_subscription(pull->consumption, &lane->subscription, &view);
    if (status != RP_OK)
        return rp_answer(to, RP_RESPONSE_SYSTEM_BUSY, NULL, 0, RP_OVERLOADED);
    rp_slice group = pull->group->head.name;
    if (setting(&pull->group->subscriptions) <= 0)
        return rp_answer(to, RP_RESPONSE_SUBSCRIPTION_NOT_EXIST, NULL, 0, "the consumer's group info not exist" RP_FAQ_TIP);
    if (view.present && view.broadcast && !setting(&pull->group->broadcast_enable))
        return forbid(to, BROADCASTING_FORBIDDEN, "the consumer group[%.*s] can not consume by broadcast way", group);
    if (!view.present)
        return rp_answer(to, RP_RESPONSE_SUBSCRIPTION_NOT_EXIST, NULL, 0, "the consumer's subscription not exist" RP_FAQ_TIP);
    if (view.version < pull->sub_version)
        return rp_answer(to, RP_RESPONSE_SUBSCRIPTION_NOT_LATEST, NULL, 0, "the consumer's subscription not latest");
    if (!view.native || (view.filter.kind == RP_FILTER_SQL && !allows_sql))
        return PUNTED;
    *filter = view.filter;
    if (pull->judged_by != view.sequence)
        pull->from = pull->offset; /* messages that did not match the old subscription may match this one */
    pull->judged_by = view.sequence;
    return RP_OK;
}

void rp_pull_read_limits(const rp_broker *broker, rp_get_limits *limits) {
    const rp_live_settings *settings = &broker->settings;
    *limits = (rp_get_limits){
        .transfer_bytes_memory = bound(&settings->transfer_bytes_max_memory),
        .transfer_count_memory = bound(&settings->transfer_count_max_memory),
        .transfer_bytes_disk = bound(&settings->transfer_bytes_max_disk),
        .transfer_count_disk = bound(&settings->transfer_count_max_disk),
        .filter_bytes_max = bound(&settings->filter_bytes_max),
        .memory_bytes = (int64_t)(broker->options.memory_bytes / 100 * bound(&settings->memory_ratio_max)),
        .keep_bad_offset = setting(&settings->role) == RP_ROLE_SLAVE && !setting(&settings->offset_check_in_slave),
    };
}

/* Reads the messages, or goes where a server-side reset sends the consumer. */
static void get(rp_lane *lane, const rp_pull *pull, const rp_get_limits *limits, const rp_message_filter *filter, int attempt,
                rp_offset_cell *cell, rp_get_result *result) {
    int64_t reset = RP_OFFSET_NONE;
    if (cell != NULL && atomic_load_explicit(&cell->reset, memory_order_relaxed) != RP_OFFSET_NONE)
        reset = atomic_exchange_explicit(&cell->reset, RP_OFFSET_NONE, memory_order_relaxed);
    if (reset != RP_OFFSET_NONE) {
        *result = (rp_get_result){.status = RP_GET_OFFSET_RESET, .next_offset = reset};
        result->min_offset = rp_consume_queue_min_offset(pull->queue);
        result->max_offset = rp_consume_queue_max_offset(pull->queue);
        return;
    }
    rp_get_scratch_reserve(&lane->scratch, limits);
    rp_get_request request = {
        .commit_log = lane->broker->commit_log,
        .queue = pull->queue,
        .offset = pull->from,
        .max_messages = pull->max_messages,
        .max_bytes = pull->max_bytes,
        .filter = filter,
        .is_in_memory = rp_cold_reads_saw,
        .is_on_disk = rp_cold_reads_look_at_message,
        .context = lane,
        .disk_looks = attempt == RP_PULL_LAST ? LAST_DISK_LOOKS : 0,
    };
    int64_t begun_ns = filter->kind == RP_FILTER_SQL ? now_ns() : 0;
    rp_get_message(&request, limits, &lane->scratch, result);
    lane->filter_ns += filter->kind == RP_FILTER_SQL ? now_ns() - begun_ns : 0;
}

/* Must the filter wait, for those that wait already or because the turn's time is spent? */
static int is_for_later(rp_lane *lane, const rp_message_filter *filter, int attempt) {
    int64_t turn_ns = rp_reactor_now_ns(lane->reactor);
    if (filter->kind != RP_FILTER_SQL)
        return 0;
    if (lane->filter_turn_ns != turn_ns) {
        lane->filter_turn_ns = turn_ns;
        lane->filter_ns = 0;
    }
    return lane->filter_ns >= RP_FILTER_TURN_NS || (attempt == RP_PULL_FIRST && lane->filters_waiting > 0);
}

/* Notes the consumer's position: the end of each pull, and with its first try the offset it commits. */
static void note_offsets(rp_lane *lane, const rp_pull *pull, rp_offset_cell *cell, int attempt, int64_t next_offset) {
    if (cell == NULL)
        return;
    rp_offset_cell_pull(cell, next_offset);
    int commits = attempt == RP_PULL_FIRST && (pull->sys_flag & RP_PULL_COMMIT_OFFSET) && pull->commit_offset >= 0;
    if (commits && rp_offset_cell_commit(cell, pull->commit_offset))
        rp_note_change(&lane->broker->offset_version);
}

static int entries_are_cold(rp_lane *lane, const rp_pull *pull, const rp_get_limits *limits) {
    int64_t count = rp_get_entries_max(limits, pull->max_messages);
    return rp_cold_reads_look_at_entries(lane, pull->queue, pull->from, count, pull->disk_asked & RP_COLD_ENTRIES);
}

/* Tries once. RP_HANDLED: answered; PUNTED; COLD; LATER; RP_OK: there is nothing for it yet, and it may wait (pull->from has moved past
 * what did not match). */
static int try_pull(rp_lane *lane, rp_pull *pull, rp_connection *connection, int attempt) {
    rp_answer_to to = answer_to(lane, pull, connection);
    rp_message_filter filter;
    int outcome = check_group(lane->broker, pull, to);
    if (outcome == RP_OK)
        outcome = check_topic(pull, to);
    if (outcome == RP_OK)
        outcome = check_subscription(lane, pull, to, &filter);
    if (outcome != RP_OK)
        return outcome;
    if (pull->light != NULL && !rp_topic_is_live(pull->light))
        return PUNTED;
    pull->slot = rp_topic_open_queue(lane->broker->topics, pull->light != NULL ? pull->light : pull->topic, pull->queue_id, &pull->queue);
    if (pull->slot == NULL)
        return rp_answer(to, RP_RESPONSE_SYSTEM_ERROR, NULL, 0, "store getMessage return null");
    rp_offset_cell *cell = pull->light == NULL ? rp_offset_cells_open(&pull->consumption->offsets, pull->queue_id) : NULL;
    if (is_for_later(lane, &filter, attempt)) {
        note_offsets(lane, pull, cell, attempt, pull->from);
        return LATER;
    }
    rp_get_limits limits;
    rp_pull_read_limits(lane->broker, &limits);
    if (attempt != RP_PULL_LAST && entries_are_cold(lane, pull, &limits)) {
        note_offsets(lane, pull, cell, attempt, pull->from);
        return COLD;
    }
    rp_get_result result;
    get(lane, pull, &limits, &filter, attempt, cell, &result);
    if (result.status == RP_GET_ON_DISK && attempt == RP_PULL_LAST)
        result.status = RP_GET_NO_MATCHED_MESSAGE; /* so far */
    if (result.status == RP_GET_ON_DISK) {
        if (result.next_offset > pull->from)
            pull->disk_asked = 0; /* applies to the next ones */
        pull->from = result.next_offset;
        note_offsets(lane, pull, cell, attempt, pull->from);
        return COLD;
    }
    int found = result.status == RP_GET_FOUND;
    if (found && attempt != RP_PULL_LAST && rp_cold_reads_look(lane, &result, pull->disk_asked & RP_COLD_MESSAGES)) {
        rp_get_release(&lane->scratch, &result);
        note_offsets(lane, pull, cell, attempt, pull->from);
        return COLD;
    }
    lane->pulled |= found;
    rp_count(found ? &lane->counters.pulls_found : &lane->counters.pulls_missed, 1);
    if (attempt == RP_PULL_WOKEN && result.status == RP_GET_NO_MATCHED_MESSAGE && result.next_offset >= result.max_offset) {
        pull->from = result.next_offset;
        return RP_OK;
    }
    note_offsets(lane, pull, cell, attempt, result.next_offset);
    int32_t code = rp_pull_response_code(lane->broker, pull, &result);
    if (__builtin_expect(pull->global_id >= 0, 0))
        code = rp_pull_mapped_code(pull, code, &result);
    int may_wait = attempt == RP_PULL_WOKEN || (attempt == RP_PULL_FIRST && (pull->sys_flag & RP_PULL_SUSPEND));
    if (code == RP_RESPONSE_PULL_NOT_FOUND && may_wait && pull->offset <= result.max_offset)
        return RP_OK;
    return rp_pull_response_send(lane, pull, to, code, &result);
}

int rp_pull_read_filter(rp_lane *lane, rp_slice expression, rp_slice type, rp_answer_to to, rp_message_filter *filter) {
    rp_arena *arena = rp_reactor_arena(lane->reactor);
    rp_sql_fault fault;
    int status;
    if (type.size == 0 || rp_slice_is(type, "TAG")) {
        status = rp_tag_filter_parse(expression, arena, filter);
    } else if (rp_slice_is(type, "SQL92") && setting(&lane->broker->settings.property_filter_enable)) {
        status = rp_sql_filter_compile(expression, arena, filter, NULL, &fault);
        if (status == RP_E_INVALID)
            return rp_answer(to, RP_RESPONSE_SUBSCRIPTION_PARSE_FAILED, NULL, 0, "parse the consumer's subscription failed: at byte %u: %s",
                             fault.at, fault.what);
    } else {
        return PUNTED;
    }
    if (status == RP_OK)
        return RP_OK;
    return rp_answer(to, RP_RESPONSE_SUBSCRIPTION_PARSE_FAILED, NULL, 0, "parse the consumer's subscription failed");
}

static int is_static(const rp_topic *topic) { return (atomic_load_explicit(&topic->flags, memory_order_relaxed) & RP_TOPIC_STATIC) != 0; }

/* Translates a global queue of a static topic, and its offsets, to the queue here. RP_OK; PUNTED: an earlier queue is meant; or the
 * result of answering that it is led elsewhere. The committed offset may still lie in an earlier queue while the consumer reads its
 * first messages here: the consumer also reports it to Python. */
static int map_queue(const rp_lane *lane, rp_pull *pull, rp_answer_to to) {
    rp_mapped_queue *at = &pull->at;
    int64_t begin = 0;
    int is_led = rp_topic_mapped_queue(pull->topic, pull->queue_id, at);
    if (is_led == RP_E_BUSY)
        return PUNTED;
    if (!is_led)
        return rp_answer_not_led(lane, to, "cannot find mapping item", pull->topic->head.name, pull->queue_id);
    if (at->logic_offset < 0 || (!at->is_earliest && pull->offset < at->logic_offset))
        return PUNTED;
    if (__builtin_sub_overflow(pull->offset, at->logic_offset - at->start_offset, &begin))
        return PUNTED;
    if (pull->commit_offset < at->logic_offset ||
        __builtin_add_overflow(pull->commit_offset - at->logic_offset, at->start_offset, &pull->commit_offset))
        pull->commit_offset = -1;
    pull->offset = pull->from = begin;
    pull->global_id = pull->queue_id;
    pull->queue_id = at->queue_id;
    return RP_OK;
}

/* For a pull that waited: is its queue still the same? */
static int is_mapped_as_before(const rp_pull *pull) {
    rp_mapped_queue now;
    return pull->global_id < 0 || (is_static(pull->topic) && rp_topic_mapped_queue(pull->topic, pull->global_id, &now) == 1 &&
                                   rp_mapped_queue_is(&now, &pull->at));
}

/* RP_OK; PUNTED: nobody asked for that lite topic yet, or its name is impossible. */
static int find_lite_topic(const rp_lane *lane, rp_pull *pull, rp_slice lite_topic) {
    uint8_t bytes[RP_LITE_NAME_MAX];
    rp_slice name = {bytes, rp_lite_queue_name(pull->topic->head.name, lite_topic, bytes)};
    pull->light = name.size > 0 ? rp_topic_table_find(lane->broker->topics, name) : NULL;
    return pull->light != NULL ? RP_OK : PUNTED;
}

/* Finds the queue of this broker that is meant. RP_OK; PUNTED; or the result of an answer. */
static int find_queue(const rp_lane *lane, rp_pull *pull, const rp_command *command, rp_slice lite_topic, rp_answer_to to) {
    if (__builtin_expect(rp_names_lite_topic(lite_topic), 0))
        return find_lite_topic(lane, pull, lite_topic);
    return __builtin_expect(is_static(pull->topic), 0) && !rp_names_queue_here(command) ? map_queue(lane, pull, to) : RP_OK;
}

/* Decodes the request. RP_OK, RP_HANDLED (answered), RP_PUNT as PUNTED. */
static int read_pull(rp_lane *lane, rp_connection *connection, const rp_command *command, rp_pull *pull) {
    rp_broker *broker = lane->broker;
    const rp_live_settings *settings = &broker->settings;
    rp_answer_to to = rp_answer_to_command(lane, connection, command);
    rp_pull_header header;
    rp_header_fault fault;
    if (rp_pull_header_read(command, &header, &fault) != RP_OK)
        return rp_answer_fault(to, &fault);
    rp_group *group = rp_group_table_find(broker->groups, header.group);
    rp_topic *topic = rp_topic_table_find(broker->topics, header.topic);
    if (group == NULL || topic == NULL || !(atomic_load_explicit(&topic->flags, memory_order_relaxed) & RP_TOPIC_NATIVE_PULL) ||
        (header.sys_flag & RP_PULL_CLASS_FILTER))
        return PUNTED;
    *pull = (rp_pull){
        .topic = topic,
        .group = group,
        .consumption = rp_group_table_consumption_entry(broker->groups, group, topic),
        .offset = header.queue_offset,
        .from = header.queue_offset,
        .max_bytes = header.max_bytes > 0 ? header.max_bytes : INT32_MAX,
        .sub_version = header.sub_version,
        .suspend_ms = setting(&settings->long_polling_enable) ? header.suspend_timeout_ms : (int64_t)bound(&settings->short_polling_ms),
        .commit_offset = header.commit_offset,
        .connection_id = rp_connection_id(connection),
        .arrived_ns = to.arrived_ns,
        .request_code = to.request_code,
        .queue_id = header.queue_id,
        .global_id = -1,
        .max_messages = header.max_messages,
        .sys_flag = header.sys_flag,
        .opaque = to.opaque,
        .serialize_type = to.serialize_type,
        .oneway = to.oneway,
        .lite = command->code == RP_CODE_LITE_PULL_MESSAGE,
    };
    if (pull->consumption == NULL)
        return rp_answer(to, RP_RESPONSE_SYSTEM_BUSY, NULL, 0, RP_OVERLOADED);
    int outcome = find_queue(lane, pull, command, header.lite_topic, to);
    if (outcome != RP_OK)
        return outcome;
    if (!(header.sys_flag & RP_PULL_SUBSCRIPTION))
        return RP_OK;
    return rp_pull_read_filter(lane, header.subscription, header.expression_type, to, &pull->filter);
}

/* RP_OK: the pull is to be held until the window is over. */
static int hold(rp_lane *lane, rp_pull *pull, rp_answer_to to) {
    if (!(pull->sys_flag & RP_PULL_SUSPEND))
        return rp_answer(to, RP_RESPONSE_SYSTEM_BUSY, NULL, 0, HELD_TEXT);
    pull->held = 1;
    pull->suspend_ms = rp_cold_flow_rest_ms(lane->broker, rp_reactor_now_ns(lane->reactor));
    return RP_OK;
}

/* Tells the consumer to come again from its present position. */
static int answer_come_again(rp_lane *lane, const rp_pull *pull, rp_connection *connection) {
    rp_get_result result = {.status = RP_GET_NO_MATCHED_MESSAGE, .next_offset = pull->from};
    result.min_offset = rp_consume_queue_min_offset(pull->queue);
    result.max_offset = rp_consume_queue_max_offset(pull->queue);
    return rp_pull_response_send(lane, pull, answer_to(lane, pull, connection), RP_RESPONSE_PULL_RETRY_IMMEDIATELY, &result);
}

int rp_pull_path_request(rp_lane *lane, rp_connection *connection, const rp_command *command) {
    rp_pull pull;
    int outcome = read_pull(lane, connection, command, &pull);
    if (outcome == RP_OK)
        outcome = try_pull(lane, &pull, connection, RP_PULL_FIRST);
    if (outcome == COLD && !rp_cold_flow_admits(lane->broker, pull.group, rp_reactor_now_ns(lane->reactor)))
        outcome = hold(lane, &pull, answer_to(lane, &pull, connection));
    if (outcome == COLD) {
        /* Once suspended it is tried again at once, and that try asks the disk: so whatever the read wakes includes this pull. */
        pull.cold = 1;
        pull.suspend_ms = lane->broker->options.cold_wait_ms;
        outcome = RP_OK;
    }
    if (outcome == LATER) {
        pull.later = 1;
        pull.suspend_ms = LATER_MS;
        outcome = RP_OK;
    }
    if (outcome == RP_OK && !rp_long_polling_suspend(lane, &pull))
        outcome = pull.held ? rp_answer(answer_to(lane, &pull, connection), RP_RESPONSE_SYSTEM_BUSY, NULL, 0, HELD_TEXT)
                            : try_pull(lane, &pull, connection, RP_PULL_LAST);
    if (outcome == LATER)
        outcome = answer_come_again(lane, &pull, connection);
    if (outcome == PUNTED) {
        rp_count(&lane->counters.pulls_punted, 1);
        return RP_PUNT;
    }
    rp_count(&lane->counters.pulls, 1);
    return outcome < 0 ? outcome : RP_HANDLED;
}

/* Requests what the last look missed, once for each pull and kind; when it is read in, the queue's pulls are tried again. A pull whose
 * filter walks over the disk may be held on its way. 0: the reader is too busy. */
static int ask_disk(rp_lane *lane, rp_pull *pull) {
    enum rp_cold_kind kind = lane->looks.kind;
    if (pull->held || (pull->disk_asked & kind))
        return 1;
    if (!rp_cold_flow_admits(lane->broker, pull->group, rp_reactor_now_ns(lane->reactor))) {
        pull->held = 1;
        return 1;
    }
    if (!rp_cold_reads_ask(lane->broker->cold_reads, &lane->looks, pull->queue, lane->index, pull->group))
        return 0;
    pull->disk_asked |= (uint8_t)kind;
    return 1;
}

int rp_pull_path_retry(rp_lane *lane, rp_pull *pull, int attempt) {
    rp_connection *connection = rp_reactor_connection(lane->reactor, pull->connection_id);
    if (connection == NULL)
        return RP_PULL_DONE;
    /* A consumer that does not read its answers gets no more messages: its requests are no longer read, but its waiting pulls, which may
     * be many, would each pin a file and a piece of output. */
    int is_choked = rp_connection_unsent_bytes(connection) >= UNSENT_BYTES_MAX;
    if (is_choked && attempt == RP_PULL_WOKEN)
        return RP_PULL_CHOKED;
    int is_over = pull->held && attempt == RP_PULL_LAST; /* the messages may be in memory now, but are not read from the disk */
    int outcome = is_choked || !is_mapped_as_before(pull) ? PUNTED : try_pull(lane, pull, connection, is_over ? RP_PULL_WOKEN : attempt);
    if (is_over && (outcome == COLD || outcome == RP_OK))
        outcome = answer_come_again(lane, pull, connection);
    if (outcome == COLD && !ask_disk(lane, pull))
        outcome = try_pull(lane, pull, connection, RP_PULL_LAST);
    if (outcome == COLD)
        return RP_PULL_WAITS;
    if (outcome == LATER && attempt != RP_PULL_LAST)
        return RP_PULL_LATER;
    if (outcome == PUNTED || outcome == LATER) /* the request itself is gone: when the consumer asks again, Python gets it */
        outcome = answer_come_again(lane, pull, connection);
    if (outcome < 0)
        rp_server_close_connection(lane->server, pull->connection_id);
    return outcome != RP_OK ? RP_PULL_DONE : RP_PULL_WAITS;
}
