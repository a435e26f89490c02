/* send_path.c: see send_path.h. The checks are in RocketMQ's order. */
#include "send_path.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../base/bytes_inl.h"
#include "../base/clock.h"
#include "../store/message.h"
#include "half_messages.h"
#include "lane.h"
#include "message_properties.h"
#include "property_text.h"
#include "request_header.h"
#include "send_batch.h"
#include "send_compacted.h"
#include "send_dead_letter.h"
#include "send_inner.h"
#include "send_light.h"
#include "send_priority.h"
#include "send_response.h"
#include "send_retry.h"
#include "send_timed.h"

#define SYSFLAG_PLAIN (RP_SYSFLAG_COMPRESSED | RP_SYSFLAG_MULTI_TAGS | 0x700) /* and the bits of the compression type */
#define ILLEGAL_MESSAGE                                                                                                                    \
    "the message is illegal, maybe msg body or properties length not matched. msg body length limit %" PRIu32                              \
    "B, msg properties length limit 32KB."

#define FIELDS_OF(request) (request)->lane->broker->send_fields

typedef rp_send_request send_request;

int rp_send_batch_init(rp_send_batch *batch) {
    batch->items = malloc(RP_SEND_ITEMS * sizeof *batch->items);
    batch->sends = malloc(RP_SEND_ITEMS * sizeof *batch->sends);
    batch->item_capacity = batch->send_capacity = RP_SEND_ITEMS;
    batch->delay_ms_min = INT64_MAX;
    return batch->items != NULL && batch->sends != NULL ? RP_OK : RP_E_NO_MEMORY;
}

void rp_send_batch_free(rp_send_batch *batch) {
    free(batch->items);
    free(batch->sends);
}

static uint32_t size_max(const rp_broker *broker) { return atomic_load_explicit(&broker->settings.message_size_max, memory_order_relaxed); }

static int answer_illegal(const send_request *request) {
    return rp_answer(request->to, RP_RESPONSE_MESSAGE_ILLEGAL, FIELDS_OF(request), RP_SEND_FIELD_COUNT, ILLEGAL_MESSAGE,
                     size_max(request->lane->broker));
}

static int answer_not_yet(const send_request *request, int64_t accept_after_ms) {
    time_t seconds = (time_t)(accept_after_ms / 1000);
    struct tm local;
    char text[32];
    localtime_r(&seconds, &local);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
    return rp_answer(request->to, RP_RESPONSE_SYSTEM_ERROR, FIELDS_OF(request), RP_SEND_FIELD_COUNT,
                     "broker unable to service, until %s,%03d", text, (int)(accept_after_ms % 1000));
}

/* minInSyncReplicas: with fewer slaves close behind, nothing is stored. */
static int are_slaves_enough(const rp_broker *broker) {
    const rp_live_settings *settings = &broker->settings;
    if (atomic_load_explicit(&settings->slaves_min, memory_order_relaxed) <= 0)
        return 1;
    int64_t in_sync = atomic_load_explicit(&broker->in_sync_offset, memory_order_relaxed);
    int64_t gap_max = atomic_load_explicit(&settings->slave_gap_bytes_max, memory_order_relaxed);
    return in_sync >= 0 && rp_commit_log_max_offset(broker->commit_log) - in_sync <= gap_max;
}

static int has_lease(const rp_lane *lane) {
    int64_t until_ns = rp_commit_log_lease(lane->broker->commit_log);
    return until_ns == INT64_MAX || rp_reactor_now_ns(lane->reactor) < until_ns;
}

int rp_send_check_time(const send_request *request) {
    int64_t accept_after_ms = atomic_load_explicit(&request->lane->broker->settings.accept_after_ms, memory_order_relaxed);
    if (accept_after_ms > 0 && rp_clock_wall_ms(rp_clock_system()) < accept_after_ms)
        return answer_not_yet(request, accept_after_ms);
    return RP_OK;
}

/* Checks that concern only the broker. RP_OK: go on. */
static int check_broker(const send_request *request) {
    const rp_live_settings *settings = &request->lane->broker->settings;
    if (atomic_load_explicit(&settings->role, memory_order_relaxed) == RP_ROLE_SLAVE)
        return rp_answer(request->to, RP_RESPONSE_SYSTEM_BUSY, NULL, 0, RP_REJECTED);
    if (!has_lease(request->lane))
        return rp_answer(request->to, RP_RESPONSE_SERVICE_NOT_AVAILABLE, FIELDS_OF(request), RP_SEND_FIELD_COUNT, RP_NO_LEASE);
    int outcome = rp_send_check_time(request);
    if (outcome != RP_OK)
        return outcome;
    int64_t stuck_ms = rp_commit_log_stuck_ms(request->lane->broker->commit_log, rp_reactor_now_ns(request->lane->reactor));
    if (stuck_ms > 0)
        return rp_answer(request->to, RP_RESPONSE_SYSTEM_BUSY, NULL, 0, RP_REJECTED RP_SLOW_APPEND, stuck_ms);
    if (rp_parked_responses_are_full(&request->lane->parked, request->lane->sends.send_count))
        return rp_answer(request->to, RP_RESPONSE_SYSTEM_BUSY, NULL, 0, RP_OVERLOADED);
    return RP_OK;
}

/* A producer that does not wait for slaves (WAIT=false) does not need them. */
static int check_slaves(send_request *request) {
    if (are_slaves_enough(request->lane->broker))
        return RP_OK;
    if (rp_sent_properties_scan(request->header.properties, rp_reactor_arena(request->lane->reactor), &request->properties) != RP_OK)
        return rp_answer(request->to, RP_RESPONSE_SYSTEM_BUSY, NULL, 0, RP_OVERLOADED);
    if (request->properties.wait == 0)
        return RP_OK;
    return rp_answer(request->to, RP_RESPONSE_SYSTEM_ERROR, FIELDS_OF(request), RP_SEND_FIELD_COUNT, "in-sync replicas not enough");
}

static int answer_bad_queue(const send_request *request, int32_t read_queues, int32_t write_queues) {
    int32_t permission = atomic_load_explicit(&request->topic->permission, memory_order_relaxed);
    uint32_t flags = atomic_load_explicit(&request->topic->flags, memory_order_relaxed);
    char peer[RP_ADDRESS_TEXT_MAX];
    rp_peer_text(request->to.connection, peer);
    return rp_answer(request->to, RP_RESPONSE_INVALID_PARAMETER, FIELDS_OF(request), RP_SEND_FIELD_COUNT,
                     "request queueId[%d] is illegal, TopicConfig [topicName=%.*s, readQueueNums=%d, writeQueueNums=%d, perm=%c%c%c, "
                     "topicFilterType=%s, topicSysFlag=%d, order=%s, attributes={}] Producer: %s",
                     request->header.queue_id, (int)request->topic->head.name.size, (const char *)request->topic->head.name.data,
                     read_queues, write_queues, permission & RP_PERMISSION_READ ? 'R' : '-', permission & RP_PERMISSION_WRITE ? 'W' : '-',
                     permission & 1 ? 'X' : '-', flags & RP_TOPIC_MULTI_TAG ? "MULTI_TAG" : "SINGLE_TAG",
                     atomic_load_explicit(&request->topic->sys_flag, memory_order_relaxed), flags & RP_TOPIC_ORDER ? "true" : "false",
                     peer);
}

static rp_topic *find_topic(rp_lane *lane, rp_slice name) {
    rp_topic *last = lane->last_topic;
    if (last != NULL && last->head.name.size == name.size && memcmp(last->head.name.data, name.data, name.size) == 0 &&
        rp_topic_is_live(last))
        return last;
    return lane->last_topic = rp_topic_table_find(lane->broker->topics, name);
}

/* Finds the requested global queue; below 0: any that is led here. As rp_queue_mapping_find. */
static int find_global_queue(send_request *request, int32_t *global_id) {
    _Atomic uint64_t *begun = &request->lane->mapped_begun;
    atomic_store_explicit(begun, atomic_load_explicit(begun, memory_order_relaxed) + 1, memory_order_relaxed);
    /* Comes first: a thread that changes the mapping then knows that this send may have seen the old one. */
    atomic_thread_fence(memory_order_seq_cst);
    const rp_queue_mapping *mapping = atomic_load_explicit(&request->topic->mapping, memory_order_acquire);
    if (*global_id >= 0)
        return rp_queue_mapping_find(mapping, *global_id, &request->at);
    *global_id = rp_queue_mapping_any(mapping, rp_lane_random(request->lane), &request->at);
    return *global_id >= 0;
}

/* Translates a global queue of a static topic to the local one. RP_OK, RP_PUNT, or the result of answering that it is led elsewhere:
 * many producers may send here until they learn of the move. Replies go to the queue that they name. */
static int map_queue(send_request *request) {
    int32_t code = request->command->code, global_id = request->header.queue_id;
    if (code == RP_CODE_SEND_REPLY_MESSAGE || code == RP_CODE_SEND_REPLY_MESSAGE_V2 || rp_names_queue_here(request->command))
        return RP_OK;
    int is_led = find_global_queue(request, &global_id);
    if (is_led == RP_E_BUSY)
        return RP_PUNT; /* Python will resubmit it */
    if (!is_led)
        return rp_answer_not_led(request->lane, request->to, "does not exit", request->topic->head.name, request->header.queue_id);
    request->global_id = global_id;
    request->header.queue_id = request->at.queue_id;
    return RP_OK;
}

int rp_send_check_topic(send_request *request) {
    rp_broker *broker = request->lane->broker;
    rp_slice name = request->header.topic;
    rp_topic *topic = request->topic = find_topic(request->lane, name);
    if (topic == NULL)
        return RP_PUNT;
    uint32_t flags = atomic_load_explicit(&topic->flags, memory_order_relaxed);
    if (!(flags & RP_TOPIC_NATIVE_SEND) && !(request->found != RP_SEND_IS_NEW && (flags & RP_TOPIC_CHECKED_SEND)))
        return RP_PUNT;
    int outcome = __builtin_expect(flags & RP_TOPIC_STATIC, 0) ? map_queue(request) : RP_OK;
    if (outcome != RP_OK)
        return outcome;
    int writable = atomic_load_explicit(&broker->settings.permission, memory_order_relaxed) & RP_PERMISSION_WRITE;
    if (!writable && (flags & RP_TOPIC_ORDER))
        return rp_answer(request->to, RP_RESPONSE_NO_PERMISSION, FIELDS_OF(request), RP_SEND_FIELD_COUNT,
                         "the broker[%s] sending message is forbidden", broker->options.broker_ip);
    int32_t read_queues = atomic_load_explicit(&topic->read_queues, memory_order_relaxed);
    int32_t write_queues = atomic_load_explicit(&topic->write_queues, memory_order_relaxed);
    int32_t queue_id = request->header.queue_id;
    if (queue_id >= (read_queues > write_queues ? read_queues : write_queues) || (queue_id < 0 && write_queues == 0))
        return answer_bad_queue(request, read_queues, write_queues);
    request->queue_id = queue_id >= 0 ? queue_id : (int32_t)(rp_lane_random(request->lane) % (uint64_t)write_queues);
    return RP_OK;
}

static int answer_no_queue(const send_request *request) {
    return rp_answer(request->to, RP_RESPONSE_SYSTEM_ERROR, FIELDS_OF(request), RP_SEND_FIELD_COUNT,
                     "create mapped file failed, server is busy or broken.");
}

static int open_queue(send_request *request) {
    if (rp_topic_open_queue_to_send(request->lane->broker->topics, request->topic, request->queue_id, &request->queue) == NULL)
        return answer_no_queue(request);
    return RP_OK;
}

int rp_send_check_properties(send_request *request) {
    rp_send_header *header = &request->header;
    if (rp_sent_properties_scan(header->properties, rp_reactor_arena(request->lane->reactor), &request->properties) != RP_OK)
        return rp_answer(request->to, RP_RESPONSE_SYSTEM_BUSY, NULL, 0, RP_OVERLOADED);
    /* A producer that passes on a stored message may pass on its flags, but the new record has other hosts. */
    header->sys_flag &= ~RP_SYSFLAG_HOSTS_MASK;
    if (request->properties.prepared)
        header->sys_flag &= ~RP_SYSFLAG_TRANSACTION_MASK;
    if (request->properties.special || (header->sys_flag & ~SYSFLAG_PLAIN) != 0)
        return RP_PUNT;
    if (atomic_load_explicit(&request->topic->flags, memory_order_relaxed) & RP_TOPIC_MULTI_TAG)
        header->sys_flag |= RP_SYSFLAG_MULTI_TAGS;
    return __builtin_expect(request->properties.lite_topic.size > 0, 0) ? rp_send_name_lite_queue(request) : RP_OK;
}

/* In a compacted topic an empty message deletes its key. */
static int may_be_empty(const send_request *request) {
    return (atomic_load_explicit(&request->topic->flags, memory_order_relaxed) & RP_TOPIC_COMPACTED) && !request->header.batch;
}

int rp_send_check_body(const send_request *request) {
    uint32_t size = request->command->body.size;
    int fits = size <= size_max(request->lane->broker) && !rp_send_lacks_room(request);
    return (size == 0 && !may_be_empty(request)) || !fits ? answer_illegal(request) : RP_OK;
}

/* False for a retry by a consumer of 4.6.0 or older, which sends all properties of the message it had. */
static int is_prepared(const send_request *request) {
    const rp_send_header *header = &request->header;
    return !header->batch && request->found != RP_SEND_IS_DEAD_LETTER &&
           !(header->reconsume_times > 0 && request->properties.delay_level > 0);
}

static int check_message(send_request *request) {
    rp_broker *broker = request->lane->broker;
    int outcome = rp_send_check_properties(request);
    if (outcome != RP_OK)
        return outcome;
    request->is_prepared = __builtin_expect(request->properties.prepared, 0) && is_prepared(request);
    if (request->is_prepared && !atomic_load_explicit(&broker->settings.transaction_enable, memory_order_relaxed))
        return RP_PUNT;
    if (!atomic_load_explicit(&broker->settings.store_writable, memory_order_relaxed))
        return rp_send_answer_not_writable(request->lane, request->to);
    if (__builtin_expect(request->properties.light_lists > 0, 0) && (outcome = rp_send_check_light_queues(request)) != RP_OK)
        return outcome;
    if (request->header.batch && (request->properties.delay_level > 0 || request->properties.timed))
        return answer_illegal(request);
    if (__builtin_expect(atomic_load_explicit(&request->topic->flags, memory_order_relaxed) & RP_TOPIC_COMPACTED, 0) &&
        (outcome = rp_send_check_key(request)) != RP_OK)
        return outcome;
    return rp_send_check_body(request);
}

/* ---- what goes elsewhere ---- */

/* Redirects the message to the queue of its delay level; its properties say where it goes from there. Its producer is told of the queue
 * it sent to. RP_OK, RP_E_NO_MEMORY, or the result of answering a refusal. */
static int delay(send_request *request) {
    rp_schedule_service *schedule = request->lane->broker->schedule;
    int32_t level = rp_schedule_level(schedule, request->properties.delay_level);
    rp_slice sent = request->properties.text, topic = request->header.topic;
    rp_delay_queue queue;
    if (rp_schedule_open_queue(schedule, level, &queue) != RP_OK)
        return answer_no_queue(request);
    uint8_t *start = rp_arena_take(rp_reactor_arena(request->lane->reactor), (size_t)sent.size + topic.size + RP_PROPERTY_TEXT_ROOM);
    if (start == NULL)
        return RP_E_NO_MEMORY;
    uint8_t *end = rp_copy_pairs_without(start, sent, rp_pairs_before_delay);
    end = rp_put_real_place(rp_put_number_pair(end, "DELAY", level), topic, request->queue_id);
    request->properties.text = (rp_slice){start, (uint32_t)(end - start)};
    request->topic = rp_schedule_topic(schedule);
    request->queue = queue.queue;
    request->delay_ms = queue.delay_ms;
    return RP_OK;
}

/* Redirects the message to the prepared ones; its properties say where it goes from there. RP_OK, RP_E_NO_MEMORY, or the result of
 * answering a refusal. */
static int prepare(send_request *request) {
    static const char *const replaced[] = {"REAL_TOPIC", "REAL_QID", "__transactionId__", NULL};
    rp_slice sent = request->properties.text, key = request->properties.unique_key, topic = request->header.topic;
    if (rp_half_open_queue(request->lane->broker, &request->topic, &request->queue) != RP_OK)
        return answer_no_queue(request);
    uint8_t *start =
        rp_arena_take(rp_reactor_arena(request->lane->reactor), (size_t)sent.size + topic.size + key.size + RP_PROPERTY_TEXT_ROOM);
    if (start == NULL)
        return RP_E_NO_MEMORY;
    uint8_t *end = rp_copy_pairs_without(start, sent, replaced);
    if (key.size > 0)
        end = rp_put_pair(end, "__transactionId__", key);
    end = rp_put_real_place(end, topic, request->queue_id);
    request->properties.text = (rp_slice){start, (uint32_t)(end - start)};
    return RP_OK;
}

/* RP_OK: the message has its queue. */
static int choose_queue(send_request *request) {
    int outcome = request->found == RP_SEND_IS_DEAD_LETTER ? rp_send_mark_dead_letter(request) : RP_OK;
    if (outcome != RP_OK)
        return outcome;
    if (__builtin_expect(request->properties.priority != RP_PRIORITY_NONE, 0) && !request->header.batch &&
        (outcome = rp_send_rank(request)) != RP_OK)
        return outcome;
    if (__builtin_expect(request->is_prepared, 0))
        return prepare(request);
    if (__builtin_expect(request->properties.delay_level > 0, 0))
        return delay(request);
    if (__builtin_expect(request->properties.timed, 0) && (outcome = rp_send_wait_for_time(request)) != RP_E_NOT_FOUND)
        return outcome;
    return open_queue(request);
}

/* ---- items ---- */

/* Makes room for item_count more items and one send; appends what is there first if they do not fit. */
static int make_room(rp_lane *lane, uint32_t item_count) {
    rp_send_batch *batch = &lane->sends;
    if (batch->item_count + item_count > batch->item_capacity || batch->send_count == batch->send_capacity)
        rp_send_path_flush(lane);
    if (item_count <= batch->item_capacity)
        return RP_OK;
    rp_append_item *items = realloc(batch->items, item_count * sizeof *items);
    if (items == NULL)
        return RP_E_NO_MEMORY;
    batch->items = items;
    batch->item_capacity = item_count;
    return RP_OK;
}

static void set_born_host(rp_append_item *item, const rp_connection *connection) {
    uint16_t port = 0;
    int size = rp_connection_peer(connection, item->born_host, &port);
    if (size == 16)
        item->sys_flag |= RP_SYSFLAG_BORN_V6;
    rp_put_u32(item->born_host + size, port);
}

static rp_append_item *add_item(send_request *request, int32_t flag, rp_slice body) {
    rp_send_batch *batch = &request->lane->sends;
    rp_append_item *item = &batch->items[batch->item_count++];
    item->queue = request->queue; /* field by field: clearing the struct first costs more than all of them */
    item->flag = flag;
    item->sys_flag = request->header.sys_flag;
    item->born_timestamp_ms = request->header.born_timestamp_ms;
    item->reconsume_times = request->header.reconsume_times;
    item->prepared_transaction_offset = 0;
    item->is_copy = 0;
    item->inner_messages = 0;
    item->body = body;
    item->properties[2] = (rp_slice){NULL, 0};
    item->index_key = item->index_tags = (rp_slice){NULL, 0};
    item->light = NULL;
    set_born_host(item, request->to.connection);
    return item;
}

static rp_pending_send *add_send(send_request *request, uint32_t item_count, int batch_request) {
    rp_send_batch *batch = &request->lane->sends;
    rp_pending_send *send = &batch->sends[batch->send_count++];
    *send = (rp_pending_send){
        .to = request->to,
        .topic = request->topic,
        .unique_key = request->properties.unique_key,
        .recall_handle = {NULL, 0},
        .item_first = batch->item_count - item_count,
        .item_count = item_count,
        .queue_id = request->queue_id,
        .is_mapped = 0,
        .reply = NULL,
        .wait = request->properties.wait != 0,
        .batch = batch_request != 0,
        .inner = 0,
        .type = (uint8_t)rp_message_type_of(&request->properties),
    };
    if (__builtin_expect(request->delay_ms >= 0, 0) && request->delay_ms < batch->delay_ms_min)
        batch->delay_ms_min = request->delay_ms;
    if (__builtin_expect(request->global_id >= 0, 0)) {
        send->is_mapped = !request->is_prepared; /* the offset is that of the prepared message: its producer ends the transaction by it */
        send->queue_id = request->global_id;
        send->at = request->at;
    }
    return send;
}

static int ends_with_separator(rp_slice properties) {
    return properties.size == 0 || properties.data[properties.size - 1] == RP_PROPERTY_VALUE_END;
}

/* The broker's properties; their first byte is a separator, skipped if what stands before needs none. */
static rp_slice tail_behind(rp_slice before, rp_slice tail) {
    return ends_with_separator(before) ? (rp_slice){tail.data + 1, tail.size - 1} : tail;
}

/* Makes a UNIQ_KEY for a message that came without one. */
static int make_unique_key(send_request *request, rp_append_item *item) {
    static const char name[] = "UNIQ_KEY\1";
    uint8_t *pair = rp_arena_take(rp_reactor_arena(request->lane->reactor), sizeof name + RP_UNIQUE_ID_SIZE);
    if (pair == NULL)
        return RP_E_NO_MEMORY;
    uint8_t *key = pair + sizeof name - 1;
    memcpy(pair, name, sizeof name - 1);
    rp_unique_id_next(&request->lane->unique_id, rp_clock_wall_ms(rp_clock_system()), key);
    key[RP_UNIQUE_ID_SIZE] = RP_PROPERTY_VALUE_END;
    item->properties[2] = (rp_slice){pair, sizeof name + RP_UNIQUE_ID_SIZE};
    request->properties.unique_key = (rp_slice){key, RP_UNIQUE_ID_SIZE};
    return RP_OK;
}

/* Sets the index key if the unique key is the only one: otherwise the index thread reads the record. */
static void set_index_key(rp_append_item *item, const rp_sent_properties *properties) {
    item->index_key = properties->has_keys ? (rp_slice){NULL, 0} : properties->unique_key;
    item->index_tags = properties->tags;
}

/* Adds an item with the request's body and properties; NULL: no memory. */
static rp_append_item *add_whole(send_request *request) {
    if (make_room(request->lane, 1) != RP_OK)
        return NULL;
    rp_append_item *item = add_item(request, request->header.flag, request->command->body);
    item->tags_code = request->properties.tags_code;
    item->properties[0] = request->properties.text;
    item->properties[1] = tail_behind(request->properties.text, request->lane->broker->property_tail);
    if (request->properties.unique_key.size == 0 && make_unique_key(request, item) != RP_OK) {
        request->lane->sends.item_count--;
        return NULL;
    }
    return item;
}

/* RP_OK; RP_E_NO_MEMORY, or the result of answering a refusal. */
static int add_single(send_request *request) {
    rp_send_batch *batch = &request->lane->sends;
    rp_append_item *item = add_whole(request);
    if (item == NULL)
        return RP_E_NO_MEMORY;
    rp_slice handle = {NULL, 0};
    if (__builtin_expect(request->out_ms >= 0, 0) && rp_send_make_recall_handle(request, &handle) != RP_OK) {
        batch->item_count--;
        return RP_E_NO_MEMORY;
    }
    int outcome = __builtin_expect(request->properties.light_lists > 0, 0) ? rp_send_add_light_queues(request, item) : RP_OK;
    if (outcome != RP_OK) {
        batch->item_count--;
        return outcome == RP_E_IO || outcome == RP_E_DISK_FULL ? answer_no_queue(request) : outcome;
    }
    set_index_key(item, &request->properties);
    add_send(request, 1, 0)->recall_handle = handle;
    return RP_OK;
}

/* For a batch queue: the batch stays one record, with the request's properties. */
static int add_inner_batch(send_request *request) {
    int64_t count;
    int outcome = rp_send_check_inner_batch(request, &count);
    rp_append_item *item = outcome == RP_OK ? add_whole(request) : NULL;
    if (item == NULL)
        return outcome == RP_OK ? RP_E_NO_MEMORY : outcome;
    item->inner_messages = (int32_t)count;
    set_index_key(item, &request->properties);
    add_send(request, 1, 0)->inner = 1;
    return RP_OK;
}

/* Each message gets the broker's properties behind its own. The request's properties are the batch's, not theirs: 5.x clients give a
 * batch a UNIQ_KEY too, which would hide those of its messages. */
static int add_batch(send_request *request) {
    if (rp_consume_queue_is_batch(request->queue))
        return add_inner_batch(request);
    rp_slice body = request->command->body;
    int64_t count;
    int outcome = rp_send_count_batch(request, &count);
    if (outcome != RP_OK)
        return outcome;
    if (make_room(request->lane, (uint32_t)count) != RP_OK)
        return RP_E_NO_MEMORY;
    rp_batch_message message;
    uint32_t added = 0, position = 0;
    while (rp_batch_next(body, &position, &message) == 1) {
        rp_append_item *item = add_item(request, message.flag, message.body);
        rp_sent_properties properties;
        int is_whole = rp_batch_properties_scan(message.properties, &properties);
        if (!is_whole && rp_send_drop_light_offsets(request, &message.properties) != RP_OK) {
            request->lane->sends.item_count -= added + 1;
            return RP_E_NO_MEMORY;
        }
        added++;
        item->tags_code = is_whole ? properties.tags_code : rp_message_tags_code(message.properties);
        item->properties[0] = message.properties;
        item->properties[1] = tail_behind(message.properties, request->lane->broker->property_tail);
        if (is_whole)
            set_index_key(item, &properties);
    }
    add_send(request, (uint32_t)count, 1);
    return RP_OK;
}

/* False for what RocketMQ's store refuses without telling the replier. */
static int can_be_stored(const send_request *request) {
    const rp_lane *lane = request->lane;
    const rp_live_settings *settings = &lane->broker->settings;
    return atomic_load_explicit(&settings->store_reply_enable, memory_order_relaxed) &&
           atomic_load_explicit(&settings->role, memory_order_relaxed) != RP_ROLE_SLAVE && has_lease(lane) &&
           atomic_load_explicit(&settings->store_writable, memory_order_relaxed) &&
           rp_commit_log_stuck_ms(lane->broker->commit_log, rp_reactor_now_ns(lane->reactor)) == 0 &&
           !rp_parked_responses_are_full(&lane->parked, lane->sends.send_count) &&
           (are_slaves_enough(lane->broker) || request->properties.wait == 0);
}

int rp_send_add_reply(send_request *request, rp_reply *reply) {
    rp_broker *broker = request->lane->broker;
    if (!can_be_stored(request) ||
        rp_topic_open_queue_to_send(broker->topics, request->topic, request->queue_id, &request->queue) == NULL ||
        make_room(request->lane, 1) != RP_OK)
        return 0;
    rp_append_item *item = add_item(request, request->header.flag, request->command->body);
    item->tags_code = request->properties.tags_code;
    item->properties[0] = request->properties.text;
    item->properties[1] = tail_behind(request->properties.text, broker->reply_tail);
    set_index_key(item, &request->properties);
    add_send(request, 1, 0)->reply = reply;
    return 1;
}

/* As rp_send_check_topic, and also accepts messages to retry topics that may have another try. */
static int check_any_topic(send_request *request) {
    int outcome = rp_send_check_topic(request);
    if (__builtin_expect(outcome != RP_PUNT, 1) || !rp_send_has_another_try(request))
        return outcome;
    request->found = RP_SEND_CAN_BE_STORED;
    return rp_send_check_topic(request);
}

/* RP_OK: the message can be added. */
static int check_all(send_request *request) {
    rp_header_fault fault;
    int outcome = check_broker(request);
    if (outcome == RP_OK && rp_send_header_read(request->command, &request->lane->send_layout, &request->header, &fault) != RP_OK)
        outcome = rp_answer_fault(request->to, &fault);
    if (outcome == RP_OK && request->found == RP_SEND_IS_DEAD_LETTER)
        outcome = rp_send_redirect_to_dead_letters(request);
    if (outcome == RP_OK)
        outcome = check_slaves(request);
    if (outcome == RP_OK)
        outcome = check_any_topic(request);
    if (outcome == RP_OK)
        outcome = check_message(request);
    if (outcome == RP_OK)
        outcome = choose_queue(request);
    return outcome;
}

int rp_send_path_request(rp_lane *lane, rp_connection *connection, const rp_command *command, enum rp_send_found found) {
    send_request request; /* the checks fill in the rest */
    request.lane = lane;
    request.command = command;
    request.to = rp_answer_to_command(lane, connection, command);
    request.found = found;
    request.delay_ms = -1;
    request.out_ms = -1;
    request.global_id = -1;
    int outcome = check_all(&request);
    if (outcome == RP_OK)
        outcome = request.header.batch ? add_batch(&request) : add_single(&request);
    if (outcome == RP_OK)
        return RP_HANDLED;
    if (outcome == RP_E_NO_MEMORY)
        outcome = rp_answer(request.to, RP_RESPONSE_SYSTEM_BUSY, NULL, 0, RP_OVERLOADED);
    rp_count(outcome == RP_PUNT ? &lane->counters.sends_punted : &lane->counters.sends_failed, 1);
    return outcome;
}

void rp_send_path_settle(rp_lane *lane) {
    uint64_t begun = atomic_load_explicit(&lane->mapped_begun, memory_order_relaxed);
    if (__builtin_expect(begun != atomic_load_explicit(&lane->mapped_over, memory_order_relaxed), 0))
        atomic_store_explicit(&lane->mapped_over, begun, memory_order_release);
}

void rp_send_path_connection_closed(rp_lane *lane, const rp_connection *connection) {
    rp_send_batch *batch = &lane->sends;
    for (uint32_t i = 0; i < batch->send_count; i++) {
        if (batch->sends[i].to.connection == connection)
            batch->sends[i].to.connection = NULL;
    }
}
