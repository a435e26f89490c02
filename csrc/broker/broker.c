/* broker.c: opens, wires and closes the data plane: the handler, its lanes, the store's callbacks, the settings (broker.h). */
#include "broker.h"

#include <stdlib.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "../store/commit_log_ledger.h"
#include "escape_bridge.h"
#include "escaping_messages.h"
#include "foreign_messages.h"
#include "half_messages.h"
#include "lane.h"
#include "lite_path.h"
#include "lite_readers.h"
#include "offset_requests.h"
#include "pop_escape.h"
#include "pop_log.h"
#include "pop_path.h"
#include "pop_revive.h"
#include "pull_path.h"
#include "reply_path.h"
#include "response_writer_inl.h"
#include "send_back.h"

/* ---- the handler ---- */

/* Reactors of the first server come first, so one comparison usually finds the lane. */
static rp_lane *lane_of(const rp_broker *broker, const rp_reactor *reactor) {
    uint32_t lanes = atomic_load_explicit(&broker->lane_count, memory_order_acquire);
    uint32_t index = rp_reactor_index(reactor);
    if (index < lanes && broker->lanes[index]->reactor == reactor)
        return broker->lanes[index];
    for (uint32_t i = 0; i < lanes; i++) {
        if (broker->lanes[i]->reactor == reactor)
            return broker->lanes[i];
    }
    return NULL;
}

static int on_request(void *context, rp_reactor *reactor, rp_connection *connection, const rp_command *command, int resubmitted) {
    rp_lane *lane = lane_of(context, reactor);
    if (lane == NULL)
        return RP_PUNT;
    switch (command->code) {
    case RP_CODE_SEND_MESSAGE:
    case RP_CODE_SEND_MESSAGE_V2:
    case RP_CODE_SEND_BATCH_MESSAGE:
        return rp_send_path_request(lane, connection, command, (enum rp_send_found)resubmitted);
    case RP_CODE_SEND_REPLY_MESSAGE:
    case RP_CODE_SEND_REPLY_MESSAGE_V2:
        return rp_reply_path_request(lane, connection, command);
    case RP_CODE_PULL_MESSAGE:
    case RP_CODE_LITE_PULL_MESSAGE:
        return rp_pull_path_request(lane, connection, command);
    case RP_CODE_QUERY_CONSUMER_OFFSET:
    case RP_CODE_UPDATE_CONSUMER_OFFSET:
    case RP_CODE_GET_MAX_OFFSET:
    case RP_CODE_GET_MIN_OFFSET:
        return rp_offset_request(lane, connection, command);
    case RP_CODE_SEARCH_OFFSET_BY_TIMESTAMP:
        return rp_search_request(lane, connection, command);
    case RP_CODE_CONSUMER_SEND_MSG_BACK:
        return rp_send_back_request(lane, connection, command);
    case RP_CODE_END_TRANSACTION:
        return rp_end_transaction_request(lane, connection, command);
    case RP_CODE_POP_MESSAGE:
        return rp_pop_request(lane, connection, command, resubmitted);
    case RP_CODE_ACK_MESSAGE:
        return rp_pop_ack_request(lane, connection, command);
    case RP_CODE_POP_LITE_MESSAGE:
        return rp_lite_pop_request(lane, connection, command);
    case RP_CODE_BATCH_ACK_MESSAGE:
        return rp_pop_batch_ack_request(lane, connection, command);
    case RP_CODE_CHANGE_INVISIBLE_TIME:
        return rp_pop_change_request(lane, connection, command);
    case RP_CODE_PEEK_MESSAGE:
        return rp_pop_peek_request(lane, connection, command);
    case RP_CODE_NOTIFICATION:
        return rp_pop_notification_request(lane, connection, command);
    case RP_CODE_POLLING_INFO:
        return rp_pop_polling_info_request(lane, connection, command);
    default:
        return RP_PUNT;
    }
}

/* Our own appends wake our own pulls without a system call: the arrivals are drained here, after the append. */
static void on_turn_end(void *context, rp_reactor *reactor) {
    rp_lane *lane = lane_of(context, reactor);
    if (lane == NULL)
        return;
    rp_send_path_flush(lane);
    rp_send_path_settle(lane);
    rp_replies_drain(lane);
    rp_long_polling_drain(lane);
    rp_lite_drain(lane);
    if (lane->parked.count > 0) {
        rp_parked_responses_request_flush(lane);
        rp_lane_complete(lane);
    }
    if (lane->pulled) {
        lane->pulled = 0;
        rp_count_max(&lane->counters.get_ns_max, (uint64_t)(rp_clock_monotonic_ns(rp_clock_system()) - rp_reactor_now_ns(reactor)));
    }
    rp_answer_times_end_turn(&lane->answer_times);
}

static void on_wake(void *context, rp_reactor *reactor) {
    rp_lane *lane = lane_of(context, reactor);
    if (lane == NULL)
        return;
    rp_long_polling_drain(lane);
    rp_lite_drain(lane);
    rp_pushes_drain(lane);
    rp_replies_drain(lane);
    rp_pop_escape_drain(lane);
    rp_lane_complete(lane);
}

static int on_response(void *context, rp_reactor *reactor, rp_connection *connection, const rp_command *command) {
    rp_lane *lane = lane_of(context, reactor);
    return lane != NULL ? rp_pushes_response(lane, connection, command) : RP_PUNT;
}

static int64_t on_deadline(void *context, rp_reactor *reactor, int64_t now_ns) {
    rp_lane *lane = lane_of(context, reactor);
    if (lane == NULL)
        return INT64_MAX;
    rp_long_polling_expire(lane, now_ns);
    rp_lite_expire(lane->broker->lite, now_ns);
    rp_lite_drain(lane);
    rp_pop_waits_expire(lane, now_ns);
    rp_pushes_expire(lane, now_ns);
    rp_lane_complete(lane);
    rp_lane_schedule(lane); /* otherwise a later hold of a lite queue in another lane would look reported already */
    return rp_lane_deadline(lane);
}

static void on_close(void *context, rp_reactor *reactor, rp_connection *connection) {
    rp_lane *lane = lane_of(context, reactor);
    if (lane == NULL)
        return;
    rp_send_path_connection_closed(lane, connection);
    rp_long_polling_connection_closed(lane, rp_connection_id(connection));
    rp_pop_waits_connection_closed(lane, rp_connection_id(connection));
    rp_pushes_connection_closed(lane, rp_connection_id(connection));
}

/* Leads the sync that the turn's messages wait for. If it fails or takes too long, the flusher's callback and the responses' deadlines
 * tell the waiting clients. */
static void on_leave(void *context, int64_t offset) {
    const rp_broker *broker = context;
    uint32_t timeout_ms = atomic_load_explicit(&broker->settings.sync_flush_timeout_ms, memory_order_relaxed);
    (void)rp_message_store_wait_flushed(broker->store, offset, timeout_ms);
}

/* ---- waking those who wait for disk or slaves ---- */

/* The counters are read by a read-modify-write, like the one that parks a response: either this thread sees the response and wakes its
 * lane, or the lane sees the new offset when it checks again after parking. A lane whose first response ends behind `reached` is left
 * alone. */
static void wake_parked(rp_broker *broker, int64_t reached) {
    uint32_t lanes = atomic_load_explicit(&broker->lane_count, memory_order_acquire);
    for (uint32_t i = 0; i < lanes; i++) {
        rp_lane *lane = broker->lanes[i];
        uint64_t parked = atomic_fetch_add_explicit(&lane->counters.parked, 0, memory_order_acq_rel);
        if (parked == 0 || atomic_load_explicit(&lane->parked.head_end, memory_order_acquire) > reached)
            continue;
        if (parked <= RP_PARKED_FEW)
            rp_reactor_serve(lane->reactor);
        else
            rp_reactor_wake(lane->reactor);
    }
}

static void on_flushed(void *context, int64_t flushed_offset) {
    (void)flushed_offset; /* the lanes read it from the commit log */
    wake_parked(context, INT64_MAX);
}

/* With waiting 0 and a queue that is not a lite topic's: a delay level's queue has got messages that had been held back. */
static void on_arrival(void *context, rp_consume_queue *queue, uint64_t waiting) {
    const rp_broker *broker = context;
    if (waiting != 0)
        rp_long_polling_arrived(NULL, queue, waiting);
    if (rp_consume_queue_is_lite(queue))
        rp_lite_arrived(broker->lite, queue);
    else if (waiting == 0)
        rp_schedule_arrived(broker->schedule);
}

void rp_broker_set_in_sync(rp_broker *broker, int64_t offset) {
    atomic_store_explicit(&broker->in_sync_offset, offset, memory_order_relaxed);
}

void rp_broker_set_replicated(rp_broker *broker, int64_t offset) {
    atomic_store_explicit(&broker->replicated_offset, offset, memory_order_release);
    wake_parked(broker, offset);
}

/* The number of leaderships is stored first, so that a reader of the offset does not take a new leadership for the old one. */
void rp_broker_set_committed(rp_broker *broker, int64_t offset) {
    if (offset < 0)
        atomic_fetch_add_explicit(&broker->leaderships, 1, memory_order_release);
    atomic_store_explicit(&broker->replicated_offset, offset, memory_order_release);
    wake_parked(broker, offset < 0 ? INT64_MAX : offset);
}

void rp_broker_renew_lease(rp_broker *broker, int64_t until_ms) {
    int64_t until_ns = until_ms < 0 || until_ms > INT64_MAX / RP_NS_PER_MS ? INT64_MAX : until_ms * RP_NS_PER_MS;
    int is_shorter = until_ns < rp_commit_log_lease(broker->commit_log);
    rp_commit_log_set_lease(broker->commit_log, until_ns);
    if (is_shorter)
        wake_parked(broker, INT64_MAX);
}

/* ---- options and settings ---- */

void rp_broker_options_default(rp_broker_options *options) {
    *options = (rp_broker_options){
        .cluster_name = "DefaultCluster",
        .broker_name = "broker",
        .broker_ip = "127.0.0.1",
        .region_id = "DefaultRegion",
        .trace_on = 1,
        .store_host = {127, 0, 0, 1, 0, 0, 0x2A, 0x9F},
        .memory_bytes = UINT64_C(8) << 30,
        .suspended_pulls_max = 1000000,
        .cold_after_bytes = 64 << 20,
        .cold_after_entries = 8192,
        .push_timeout_ms = 10000,
        .cold_wait_ms = 500,
        .cold_window_ms = RP_COLD_WINDOW_MS,
    };
}

void rp_broker_settings_default(rp_broker_settings *settings) {
    *settings = (rp_broker_settings){
        .permission = RP_PERMISSION_READ | RP_PERMISSION_WRITE,
        .lite_pull_enable = 1,
        .slave_gap_bytes_max = 268435456,
        .message_size_max = 4 * 1024 * 1024,
        .transfer_bytes_max_memory = 262144,
        .transfer_count_max_memory = 32,
        .transfer_bytes_max_disk = 65536,
        .transfer_count_max_disk = 8,
        .filter_bytes_max = 16000,
        .memory_ratio_max = 40,
        .long_polling_enable = 1,
        .short_polling_ms = 1000,
        .sync_flush_timeout_ms = 5000,
        .slave_timeout_ms = 3000,
        .store_reply_enable = 1,
        .transaction_enable = 1,
        .transaction_timeout_ms = 6000,
        .timer_precision_ms = 1000,
        .timer_delay_max_ms = INT64_C(3) * 86400 * 1000,
        .timer_slot_messages_max = INT32_MAX,
        .retry_topic_version = 1,
        .retry_topic_v1_too = 1,
        .pop_from_retry_percent = 20,
        .priority_ascends = 1,
        .pop_begins_in_memory = 1,
        .cold_group_bytes = INT64_C(3) << 20,
        .cold_all_bytes = INT64_C(100) << 20,
        .store_writable = 1,
    };
}

static uint32_t count_bound(uint32_t count) { return count < RP_TRANSFER_COUNT_MAX ? count : RP_TRANSFER_COUNT_MAX; }

void rp_broker_set_settings(rp_broker *broker, const rp_broker_settings *from) {
    rp_live_settings *live = &broker->settings;
    atomic_store_explicit(&live->permission, from->permission, memory_order_relaxed);
    int had_role = atomic_exchange_explicit(&live->role, from->role, memory_order_relaxed);
    atomic_store_explicit(&live->accept_after_ms, from->accept_after_ms, memory_order_relaxed);
    atomic_store_explicit(&live->slave_read_enable, from->slave_read_enable, memory_order_relaxed);
    atomic_store_explicit(&live->offset_check_in_slave, from->offset_check_in_slave, memory_order_relaxed);
    atomic_store_explicit(&live->lite_pull_enable, from->lite_pull_enable, memory_order_relaxed);
    atomic_store_explicit(&live->property_filter_enable, from->property_filter_enable, memory_order_relaxed);
    atomic_store_explicit(&live->broker_id_min, from->broker_id_min, memory_order_relaxed);
    atomic_store_explicit(&live->flush_mode, from->flush_mode, memory_order_relaxed);
    atomic_store_explicit(&live->slaves_min, from->slaves_min, memory_order_relaxed);
    atomic_store_explicit(&live->slave_acks, from->slave_acks, memory_order_relaxed);
    atomic_store_explicit(&live->slave_gap_bytes_max, from->slave_gap_bytes_max, memory_order_relaxed);
    atomic_store_explicit(&live->message_size_max, from->message_size_max, memory_order_relaxed);
    atomic_store_explicit(&live->transfer_bytes_max_memory, from->transfer_bytes_max_memory, memory_order_relaxed);
    atomic_store_explicit(&live->transfer_count_max_memory, count_bound(from->transfer_count_max_memory), memory_order_relaxed);
    atomic_store_explicit(&live->transfer_bytes_max_disk, from->transfer_bytes_max_disk, memory_order_relaxed);
    atomic_store_explicit(&live->transfer_count_max_disk, count_bound(from->transfer_count_max_disk), memory_order_relaxed);
    atomic_store_explicit(&live->filter_bytes_max, from->filter_bytes_max, memory_order_relaxed);
    atomic_store_explicit(&live->memory_ratio_max, from->memory_ratio_max, memory_order_relaxed);
    atomic_store_explicit(&live->long_polling_enable, from->long_polling_enable, memory_order_relaxed);
    atomic_store_explicit(&live->short_polling_ms, from->short_polling_ms, memory_order_relaxed);
    atomic_store_explicit(&live->sync_flush_timeout_ms, from->sync_flush_timeout_ms, memory_order_relaxed);
    atomic_store_explicit(&live->slave_timeout_ms, from->slave_timeout_ms, memory_order_relaxed);
    atomic_store_explicit(&live->store_reply_enable, from->store_reply_enable, memory_order_relaxed);
    atomic_store_explicit(&live->transaction_enable, from->transaction_enable, memory_order_relaxed);
    atomic_store_explicit(&live->transaction_timeout_ms, from->transaction_timeout_ms, memory_order_relaxed);
    atomic_store_explicit(&live->timer_enable, from->timer_enable, memory_order_relaxed);
    atomic_store_explicit(&live->timer_precision_ms, from->timer_precision_ms > 0 ? from->timer_precision_ms : 1, memory_order_relaxed);
    atomic_store_explicit(&live->timer_delay_max_ms, from->timer_delay_max_ms, memory_order_relaxed);
    atomic_store_explicit(&live->timer_slot_messages_max, from->timer_slot_messages_max, memory_order_relaxed);
    atomic_store_explicit(&live->timer_stop_enqueue, from->timer_stop_enqueue, memory_order_relaxed);
    atomic_store_explicit(&live->timer_stop_dequeue, from->timer_stop_dequeue, memory_order_relaxed);
    atomic_store_explicit(&live->retry_topic_version, from->retry_topic_version, memory_order_relaxed);
    atomic_store_explicit(&live->retry_topic_v1_too, from->retry_topic_v1_too, memory_order_relaxed);
    atomic_store_explicit(&live->separate_retry_queues, from->separate_retry_queues, memory_order_relaxed);
    atomic_store_explicit(&live->pop_from_retry_percent, from->pop_from_retry_percent, memory_order_relaxed);
    atomic_store_explicit(&live->pop_from_retry_percent_by_priority, from->pop_from_retry_percent_by_priority, memory_order_relaxed);
    atomic_store_explicit(&live->priority_ascends, from->priority_ascends, memory_order_relaxed);
    atomic_store_explicit(&live->pop_begins_in_memory, from->pop_begins_in_memory, memory_order_relaxed);
    atomic_store_explicit(&live->cold_flow_enable, from->cold_flow_enable, memory_order_relaxed);
    atomic_store_explicit(&live->cold_group_bytes, from->cold_group_bytes, memory_order_relaxed);
    atomic_store_explicit(&live->cold_all_bytes, from->cold_all_bytes, memory_order_relaxed);
    pthread_mutex_lock(&live->reason_mutex);
    memcpy(live->store_reason, from->store_reason, sizeof live->store_reason);
    live->store_reason[sizeof live->store_reason - 1] = 0;
    pthread_mutex_unlock(&live->reason_mutex);
    atomic_store_explicit(&live->store_writable, from->store_writable, memory_order_release);
    if (had_role != from->role && from->role == RP_ROLE_SLAVE)
        wake_parked(broker, INT64_MAX); /* responses that wait for slaves' acks learn that none will come */
    if (had_role == RP_ROLE_SLAVE && from->role != RP_ROLE_SLAVE)
        rp_lite_look_at_held(broker->lite);
}

void rp_broker_dismiss_pulls(rp_broker *broker) {
    atomic_store_explicit(&broker->pulls_dismissed, 1, memory_order_release);
    uint32_t lanes = atomic_load_explicit(&broker->lane_count, memory_order_acquire);
    for (uint32_t i = 0; i < lanes; i++)
        rp_reactor_wake(broker->lanes[i]->reactor);
}

/* ---- open and close ---- */

static char *copy_text(char **at, const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = memcpy(*at, text, size);
    *at += size;
    return copy;
}

static void append_text(uint8_t **at, const char *text) {
    size_t size = strlen(text);
    memcpy(*at, text, size);
    *at += size;
}

/* Copies the options' strings and encodes the properties that every stored message gets. */
static int keep_strings(rp_broker *broker, const rp_broker_options *options) {
    size_t size =
        strlen(options->cluster_name) + strlen(options->broker_name) + strlen(options->broker_ip) + strlen(options->region_id) + 4;
    size_t revive_max = sizeof RP_POP_REVIVE_TOPIC + strlen(options->cluster_name);
    size_t tail_max = strlen(options->cluster_name) + strlen(options->region_id) + 64;
    char *at = broker->strings = malloc(size + revive_max + tail_max);
    if (at == NULL)
        return RP_E_NO_MEMORY;
    broker->options = *options;
    broker->options.cluster_name = copy_text(&at, options->cluster_name);
    broker->options.broker_name = copy_text(&at, options->broker_name);
    broker->options.broker_ip = copy_text(&at, options->broker_ip);
    broker->options.region_id = copy_text(&at, options->region_id);
    uint8_t *revive = (uint8_t *)at, *tail = revive;
    append_text(&tail, RP_POP_REVIVE_TOPIC);
    append_text(&tail, options->cluster_name);
    broker->revive_topic = (rp_slice){revive, (uint32_t)(tail - revive)};
    uint8_t *end = tail;
    append_text(&end, "\2MSG_REGION\1");
    append_text(&end, options->region_id);
    append_text(&end, options->trace_on ? "\2TRACE_ON\1true\2CLUSTER\1" : "\2TRACE_ON\1false\2CLUSTER\1");
    append_text(&end, options->cluster_name);
    append_text(&end, "\2");
    broker->property_tail = (rp_slice){tail, (uint32_t)(end - tail)};
    broker->reply_tail = (rp_slice){tail, (uint32_t)((size_t)(end - tail) - strlen("CLUSTER\1") - strlen(options->cluster_name) - 1)};
    rp_send_template_init(&broker->send_template, options);
    rp_send_fields_init(broker->send_fields, &broker->options);
    return RP_OK;
}

static int check_options(const rp_broker_options *options, rp_error *error) {
    if (options->store == NULL || options->cluster_name == NULL || options->broker_name == NULL || options->broker_ip == NULL ||
        options->region_id == NULL)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "the broker needs a store and its four names");
    if (strlen(options->cluster_name) > 255 || strlen(options->region_id) > 255)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1,
                            "brokerClusterName and regionId go into every message: at most 255 bytes each");
    return RP_OK;
}

int rp_broker_open(const rp_broker_options *options, rp_broker **out, rp_error *error) {
    *out = NULL;
    int status = check_options(options, error);
    if (status != RP_OK)
        return status;
    rp_broker *broker = calloc(1, sizeof *broker);
    if (broker == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for the broker");
    pthread_mutex_init(&broker->settings.reason_mutex, NULL);
    for (uint32_t i = 0; i < RP_POP_LOCKS; i++)
        pthread_mutex_init(&broker->pop_locks[i], NULL);
    broker->store = options->store;
    broker->commit_log = rp_message_store_commit_log(options->store);
    broker->topics = rp_topic_table_create(options->store);
    broker->groups = rp_group_table_create();
    broker->producers = rp_producer_table_create();
    broker->schedule = broker->topics != NULL ? rp_schedule_service_create(broker) : NULL;
    broker->timers = broker->topics != NULL ? rp_timer_service_create(broker) : NULL;
    broker->revive = broker->topics != NULL ? rp_pop_revive_create(broker) : NULL;
    broker->lite = rp_lite_readers_create();
    broker->escape = rp_escape_bridge_create();
    broker->foreign = rp_foreign_messages_create();
    broker->put_ns = rp_histogram_create();
    broker->cold_reads = rp_cold_reads_open(broker);
    if (keep_strings(broker, options) != RP_OK || broker->topics == NULL || broker->groups == NULL || broker->producers == NULL ||
        broker->schedule == NULL || broker->timers == NULL || broker->revive == NULL || broker->escape == NULL || broker->foreign == NULL ||
        broker->put_ns == NULL || broker->cold_reads == NULL || broker->lite == NULL) {
        rp_broker_close(broker);
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for the broker's tables");
    }
    rp_broker_settings settings;
    rp_broker_settings_default(&settings);
    rp_broker_set_settings(broker, &settings);
    atomic_store(&broker->replicated_offset, -1);
    broker->waits_for_commit = rp_commit_log_has_entries(broker->commit_log);
    atomic_store(&broker->in_sync_offset, -1);
    broker->handler = (rp_handler){broker, on_request, on_turn_end, on_wake, on_deadline, on_close, on_leave, on_response};
    rp_message_store_on_flushed(broker->store, on_flushed, broker);
    rp_message_store_on_arrival(broker->store, on_arrival, broker);
    *out = broker;
    return RP_OK;
}

const rp_handler *rp_broker_handler(rp_broker *broker) { return &broker->handler; }

int rp_broker_attach(rp_broker *broker, rp_server *server) {
    uint32_t count = atomic_load_explicit(&broker->lane_count, memory_order_relaxed);
    uint16_t reactors = rp_server_reactor_count(server);
    if (broker->server_count == RP_SERVERS_MAX || count + reactors > RP_LANES_MAX)
        return RP_E_BUSY;
    for (uint16_t i = 0; i < reactors; i++) {
        rp_lane *lane = rp_lane_create(broker, server, rp_server_reactor(server, i), (uint16_t)(count + i));
        if (lane == NULL)
            return RP_E_NO_MEMORY;
        broker->lanes[count + i] = lane;
        atomic_store_explicit(&broker->lane_count, count + i + 1, memory_order_release);
    }
    broker->server_lanes[broker->server_count] = count;
    broker->server_reactors[broker->server_count] = reactors;
    broker->server_count++;
    return RP_OK;
}

void rp_broker_close(rp_broker *broker) {
    if (broker == NULL)
        return;
    if (broker->escape != NULL)
        rp_broker_refuse_escape(broker); /* lets threads that wait for it go */
    rp_schedule_service_destroy(broker->schedule); /* before everything that its thread uses */
    rp_timer_service_destroy(broker->timers);
    rp_pop_revive_destroy(broker->revive);
    rp_foreign_messages_destroy(broker->foreign);
    rp_message_store_on_flushed(broker->store, NULL, NULL);
    rp_message_store_on_arrival(broker->store, NULL, NULL);
    rp_cold_reads_close(broker->cold_reads); /* before the lanes that it wakes */
    rp_topic_table_destroy(broker->topics, rp_queue_waiters_free);
    uint32_t lanes = atomic_load(&broker->lane_count);
    for (uint32_t i = 0; i < lanes; i++)
        rp_lane_destroy(broker->lanes[i]);
    rp_escape_bridge_destroy(broker->escape); /* after the lanes, whose pops release their queues */
    rp_lite_readers_destroy(broker->lite);
    rp_group_table_destroy(broker->groups);
    rp_producer_table_destroy(broker->producers);
    rp_histogram_destroy(broker->put_ns);
    for (uint32_t i = 0; i < RP_POP_LOCKS; i++)
        pthread_mutex_destroy(&broker->pop_locks[i]);
    pthread_mutex_destroy(&broker->settings.reason_mutex);
    free(broker->strings);
    free(broker);
}
