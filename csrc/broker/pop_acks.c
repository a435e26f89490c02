/* pop_acks.c: acks of popped messages, one or many at once, and changes of their invisible time (pop_path.h).
 * RocketMQ: AckMessageProcessor, ChangeInvisibleTimeProcessor (5.3.3 broker/processor/). The checks stand in its order.
 *
 * An ack is in the log when it is answered. One that was never popped costs a record that no checkpoint asks for.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "../base/clock.h"
#include "../base/log_inl.h"
#include "../base/slice_inl.h"
#include "lane.h"
#include "lite_path.h"
#include "long_polling.h"
#include "pop_choice.h"
#include "pop_escape.h"
#include "pop_extra_info.h"
#include "pop_log.h"
#include "pop_order.h"
#include "pop_path.h"
#include "pop_revive.h"
#include "response_writer_inl.h"

#define CHANGES_AHEAD_MS 1000 /* one a millisecond; a pop time further ahead is a stranger's, or of a clock that was set back */

/* One acked queue of a group. */
typedef struct acking {
    rp_lane *lane;
    rp_answer_to to;
    rp_topic *topic;
    rp_slice group;
    rp_queue_slot *slot;
    rp_consume_queue *queue;
    int32_t queue_id;
} acking;

static int64_t wall_ms(void) { return rp_clock_wall_ms(rp_clock_system()); }

/* ---- checks ---- */

/* One that stands in for its master passes them on. */
static int refuse_slave(const rp_lane *lane, rp_answer_to to) {
    const rp_broker *broker = lane->broker;
    if (atomic_load_explicit(&broker->settings.role, memory_order_relaxed) != RP_ROLE_SLAVE || rp_pop_escapes(broker))
        return RP_OK;
    return rp_answer(to, RP_RESPONSE_SYSTEM_ERROR, NULL, 0, "the broker[%s] is a slave: its master answers this",
                     broker->options.broker_ip);
}

/* The queue that is acked. RP_OK, or answered. */
static int open_acking(acking *acking, rp_slice topic) {
    rp_broker *broker = acking->lane->broker;
    acking->topic = rp_topic_table_find(broker->topics, topic);
    if (acking->topic == NULL)
        return rp_answer(acking->to, RP_RESPONSE_TOPIC_NOT_EXIST, NULL, 0, "topic[%.*s] not exist, apply first please! " RP_FAQ_TIP,
                         (int)topic.size, (const char *)topic.data);
    int32_t queues = atomic_load_explicit(&acking->topic->read_queues, memory_order_relaxed);
    if (acking->queue_id < 0 || acking->queue_id >= queues)
        return rp_answer(acking->to, RP_RESPONSE_MESSAGE_ILLEGAL, NULL, 0,
                         "queueId[%d] is illegal, topic:[%.*s] topicConfig.readQueueNums:[%d]", acking->queue_id, (int)topic.size,
                         (const char *)topic.data, queues);
    acking->slot = rp_topic_open_queue(broker->topics, acking->topic, acking->queue_id, &acking->queue);
    return acking->slot != NULL ? RP_OK : rp_answer(acking->to, RP_RESPONSE_SYSTEM_ERROR, NULL, 0, "the queue cannot be opened");
}

static int refuse_info(rp_answer_to to, rp_slice text) {
    int size = text.size > 64 ? 64 : (int)text.size;
    return rp_answer(to, RP_RESPONSE_SYSTEM_ERROR, NULL, 0, "extraInfo[%.*s] is not the handle of a popped message", size,
                     (const char *)text.data);
}

static int answer_failure(rp_lane *lane, rp_answer_to to, int status) {
    rp_count(&lane->counters.acks_failed, 1);
    if (status == RP_E_NOT_FOUND)
        return rp_answer(to, RP_RESPONSE_MESSAGE_ILLEGAL, NULL, 0, "the handle names no revive queue of this broker");
    if (status == RP_E_BUSY)
        return rp_answer(to, RP_RESPONSE_SYSTEM_BUSY, NULL, 0, RP_OVERLOADED);
    return rp_answer(to, RP_RESPONSE_SYSTEM_ERROR, NULL, 0, "the ack cannot be stored: %s", rp_status_text(status));
}

/* ---- order consumers ---- */

/* NULL: the group never had anything of the queue. */
static rp_offset_cell *cell_of(const acking *acking) {
    rp_broker *broker = acking->lane->broker;
    rp_group *group = rp_group_table_find(broker->groups, acking->group);
    rp_consumption *consumption = group != NULL ? rp_group_table_consumption(broker->groups, group, acking->topic) : NULL;
    return consumption != NULL ? rp_offset_cells_find(&consumption->offsets, acking->queue_id) : NULL;
}

static void order_changed(const acking *acking) { rp_note_change(&acking->lane->broker->pop_order_version); }

/* Under the cell's lock. The offset moves to the first that is not acked; whoever waits for the queue is told when nothing blocks it. */
static int ack_in_order(const acking *acking, rp_offset_cell *cell, int64_t offset, int64_t pop_time_ms) {
    rp_broker *broker = acking->lane->broker;
    int64_t committed = atomic_load_explicit(&cell->committed, memory_order_relaxed);
    if (offset < committed)
        return RP_OK;
    if ((cell->order == NULL || cell->order->count == 0) && (offset != committed || offset >= rp_consume_queue_max_offset(acking->queue)))
        return RP_OK; /* popped at another broker, which led before: those in front of it may not be acked. Or it is not there yet */
    rp_pop_order_pass(cell->order, committed);
    int64_t next = rp_pop_order_ack(cell->order, offset, pop_time_ms);
    if (next == RP_POP_ORDER_ILLEGAL)
        return RP_E_RANGE;
    if (next == RP_POP_ORDER_STALE)
        return RP_OK;
    order_changed(acking);
    if (atomic_load_explicit(&cell->reset, memory_order_relaxed) == RP_OFFSET_NONE && rp_offset_cell_commit(cell, next))
        rp_note_change(&broker->offset_version);
    if (rp_pop_order_blocked_until(cell->order, (rp_slice){NULL, 0}, RP_POP_ORDER_NO_POP, wall_ms()) == 0)
        rp_long_polling_wake(acking->slot);
    return RP_OK;
}

static int ack_order(const acking *acking, int64_t offset, int64_t pop_time_ms) {
    rp_offset_cell *cell = cell_of(acking);
    if (cell == NULL)
        return RP_E_RANGE;
    pthread_mutex_t *lock = rp_pop_lock_of(acking->lane->broker, cell);
    pthread_mutex_lock(lock);
    int status = rp_topic_is_live(acking->topic) ? ack_in_order(acking, cell, offset, pop_time_ms) : RP_OK;
    pthread_mutex_unlock(lock);
    return status;
}

static int answer_out_of_order(const acking *acking, int64_t offset) {
    rp_slice topic = acking->topic->head.name;
    rp_count(&acking->lane->counters.acks_failed, 1);
    return rp_answer(acking->to, RP_RESPONSE_MESSAGE_ILLEGAL, NULL, 0, "offset is illegal, key:%.*s@%.*s@%d, commit:%" PRId64,
                     (int)topic.size, (const char *)topic.data, (int)acking->group.size, (const char *)acking->group.data, acking->queue_id,
                     offset);
}

/* ---- of an acting slave ---- */

static void finish_acks(rp_pop_escape *escape, int status) {
    rp_answer_to to = rp_pop_escape_answer_to(escape);
    if (to.connection == NULL)
        return;
    int outcome = status == RP_OK ? rp_answer(to, RP_RESPONSE_SUCCESS, NULL, 0, NULL) : answer_failure(escape->lane, to, status);
    if (outcome < 0)
        rp_server_close_connection(escape->lane->server, escape->connection_id);
}

/* Frees what does not go. */
static int send_acks(rp_lane *lane, rp_answer_to to, rp_pop_escape *escape, int status) {
    if (status == RP_OK)
        status = rp_pop_escape_send(escape, to, finish_acks);
    if (status == RP_OK)
        return RP_HANDLED;
    rp_pop_escape_free(escape);
    return answer_failure(lane, to, status);
}

/* Of what the master gave before it went, this slave looks after the checkpoint; of what the slave gave, another master. */
static int add_ack(rp_pop_escape *escape, int32_t revive_queue_id, const rp_pop_ack *ack) {
    int status = rp_pop_escape_add_ack(escape, revive_queue_id, ack);
    if (status == RP_OK)
        rp_pop_revive_note(escape->lane->broker->revive, rp_noted_ack_copy(ack));
    return status;
}

static int escape_ack(const acking *acking, int32_t revive_queue_id, const rp_pop_ack *ack) {
    rp_pop_escape *escape = rp_pop_escape_create(acking->lane, 1, NULL);
    int status = escape != NULL ? add_ack(escape, revive_queue_id, ack) : RP_E_NO_MEMORY;
    return send_acks(acking->lane, acking->to, escape, status);
}

/* ---- one ack ---- */

static rp_pop_ack ack_of(const acking *acking, const rp_pop_extra_info *info, const int64_t *offset) {
    return (rp_pop_ack){
        .topic = acking->topic->head.name,
        .group = acking->group,
        .broker_name = info->broker_name,
        .start_offset = info->start_offset,
        .pop_time_ms = info->pop_time_ms,
        .queue_id = acking->queue_id,
        .offset_count = 1,
        .offsets = offset,
    };
}

static int ack_one(const acking *acking, const rp_pop_ack_header *header) {
    rp_pop_extra_info info;
    int64_t min = rp_message_store_first_offset(acking->queue), max = rp_consume_queue_max_offset(acking->queue);
    rp_slice topic = acking->topic->head.name;
    if (header->offset < min || header->offset > max)
        return rp_answer(acking->to, RP_RESPONSE_NO_MESSAGE, NULL, 0,
                         "offset is illegal, key:%.*s@%d, commit:%" PRId64 ", store:%" PRId64 "~%" PRId64, (int)topic.size,
                         (const char *)topic.data, acking->queue_id, header->offset, min, max);
    if (rp_pop_extra_info_read(header->extra_info, &info) != RP_OK)
        return refuse_info(acking->to, header->extra_info);
    if (info.revive_queue_id == RP_POP_ORDER_QUEUE) {
        if (ack_order(acking, header->offset, info.pop_time_ms) != RP_OK)
            return answer_out_of_order(acking, header->offset);
        return rp_answer(acking->to, RP_RESPONSE_SUCCESS, NULL, 0, NULL);
    }
    rp_pop_ack ack = ack_of(acking, &info, &header->offset);
    if (rp_pop_escapes(acking->lane->broker))
        return escape_ack(acking, info.revive_queue_id, &ack);
    int status = rp_pop_log_put_ack(acking->lane->broker, info.revive_queue_id, &ack);
    return status == RP_OK ? rp_answer(acking->to, RP_RESPONSE_SUCCESS, NULL, 0, NULL) : answer_failure(acking->lane, acking->to, status);
}

/* Of an ack, or of a change. */
static int answer_one(rp_lane *lane, rp_connection *connection, const rp_command *command,
                      int (*answer)(const acking *acking, const rp_pop_ack_header *header)) {
    acking acking = {.lane = lane, .to = rp_answer_to_command(lane, connection, command)};
    rp_pop_ack_header header;
    rp_header_fault fault;
    int outcome = refuse_slave(lane, acking.to);
    if (outcome == RP_OK && rp_pop_ack_header_read(command, &header, &fault) != RP_OK)
        outcome = rp_answer_fault(acking.to, &fault);
    if (outcome == RP_OK) {
        acking.group = header.group;
        acking.queue_id = header.queue_id;
        outcome = open_acking(&acking, header.topic);
    }
    rp_count(&lane->counters.acks, 1);
    int is_lite = outcome == RP_OK && rp_names_lite_topic(header.lite_topic);
    if (is_lite && rp_pop_escapes(lane->broker))
        outcome = rp_answer(acking.to, RP_RESPONSE_SYSTEM_ERROR, NULL, 0, RP_POP_NOT_OF_LITE);
    else if (is_lite)
        outcome = rp_lite_acked(lane, acking.to, acking.topic, &header);
    else if (outcome == RP_OK)
        outcome = answer(&acking, &header);
    return outcome < 0 ? outcome : RP_HANDLED;
}

int rp_pop_ack_request(rp_lane *lane, rp_connection *connection, const rp_command *command) {
    return answer_one(lane, connection, command, ack_one);
}

/* ---- many acks ---- */

/* The topic that was popped: the one asked for, or a retry topic. data NULL: there is no such kind, or no such name. */
static rp_slice real_topic(const rp_batch_ack *batch, uint8_t *name) {
    if (rp_slice_is(batch->retry, "0"))
        return batch->topic;
    int version = rp_slice_is(batch->retry, "1") ? 1 : rp_slice_is(batch->retry, "2") ? 2 : 0;
    uint32_t size = version != 0 ? rp_pop_retry_topic_name(batch->topic, batch->group, version, name) : 0;
    return size > 0 ? (rp_slice){name, size} : (rp_slice){NULL, 0};
}

/* Only the offsets that the queue has. */
static uint32_t keep_possible(const acking *acking, rp_batch_ack *batch) {
    int64_t min = rp_message_store_first_offset(acking->queue), max = rp_consume_queue_max_offset(acking->queue);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < batch->offset_count; i++) {
        if (batch->offsets[i] >= min && batch->offsets[i] <= max)
            batch->offsets[kept++] = batch->offsets[i];
    }
    return kept;
}

static int ack_batch_in_order(const acking *acking, const rp_batch_ack *batch, uint32_t count) {
    int status = RP_OK;
    for (uint32_t i = 0; i < count; i++) {
        if (ack_order(acking, batch->offsets[i], batch->pop_time_ms) != RP_OK)
            status = RP_E_RANGE;
    }
    return status;
}

/* What is not there is passed over, as by RocketMQ. escape: what gets the record of an acting slave, else NULL. */
static int ack_batch(rp_lane *lane, rp_slice broker_name, rp_batch_ack *batch, rp_pop_escape *escape) {
    uint8_t name[RP_POP_RETRY_NAME_MAX];
    rp_slice topic = real_topic(batch, name);
    rp_broker *broker = lane->broker;
    acking acking = {.lane = lane, .group = batch->group, .queue_id = batch->queue_id};
    acking.topic = topic.data != NULL ? rp_topic_table_find(broker->topics, topic) : NULL;
    if (acking.topic == NULL || batch->queue_id < 0 ||
        batch->queue_id >= atomic_load_explicit(&acking.topic->read_queues, memory_order_relaxed))
        return RP_OK;
    acking.slot = rp_topic_open_queue(broker->topics, acking.topic, batch->queue_id, &acking.queue);
    uint32_t count = acking.slot != NULL ? keep_possible(&acking, batch) : 0;
    if (count == 0)
        return acking.slot != NULL ? RP_OK : RP_E_IO;
    if (batch->revive_queue_id == RP_POP_ORDER_QUEUE)
        return ack_batch_in_order(&acking, batch, count);
    rp_pop_ack ack = {
        .topic = topic,
        .group = batch->group,
        .broker_name = broker_name,
        .start_offset = batch->start_offset,
        .pop_time_ms = batch->pop_time_ms,
        .queue_id = batch->queue_id,
        .is_batch = 1,
        .offset_count = count,
        .offsets = batch->offsets,
    };
    return escape != NULL ? add_ack(escape, batch->revive_queue_id, &ack) : rp_pop_log_put_ack(broker, batch->revive_queue_id, &ack);
}

int rp_pop_batch_ack_request(rp_lane *lane, rp_connection *connection, const rp_command *command) {
    rp_answer_to to = rp_answer_to_command(lane, connection, command);
    rp_batch_acks acks;
    int outcome = refuse_slave(lane, to);
    if (outcome != RP_OK)
        return outcome;
    if (command->body.size == 0)
        return rp_answer(to, RP_RESPONSE_NO_MESSAGE, NULL, 0, "there is nothing to ack");
    int status = rp_batch_acks_read(command->body, rp_reactor_arena(lane->reactor), &acks);
    if (status != RP_OK)
        return rp_answer(to, RP_RESPONSE_MESSAGE_ILLEGAL, NULL, 0, "the body is not a list of acks: %s", rp_status_text(status));
    if (acks.count == 0)
        return rp_answer(to, RP_RESPONSE_NO_MESSAGE, NULL, 0, "there is nothing to ack");
    rp_pop_escape *escape = NULL;
    if (rp_pop_escapes(lane->broker) && (escape = rp_pop_escape_create(lane, acks.count, NULL)) == NULL)
        return answer_failure(lane, to, RP_E_NO_MEMORY);
    for (uint32_t i = 0; i < acks.count; i++) {
        int one = ack_batch(lane, acks.broker_name, &acks.acks[i], escape);
        status = status == RP_OK ? one : status;
    }
    rp_count(&lane->counters.acks, acks.count);
    if (escape != NULL && escape->batch.count > 0 && status != RP_E_RANGE)
        return send_acks(lane, to, escape, status);
    rp_pop_escape_free(escape);
    if (status == RP_E_RANGE)
        return rp_answer(to, RP_RESPONSE_MESSAGE_ILLEGAL, NULL, 0, "offset is illegal");
    return status == RP_OK ? rp_answer(to, RP_RESPONSE_SUCCESS, NULL, 0, NULL) : answer_failure(lane, to, status);
}

/* ---- invisible time ---- */

int rp_pop_answer_change(rp_answer_to to, int64_t pop_time_ms, int64_t invisible_ms, int32_t revive_queue_id) {
    if (to.oneway)
        return RP_HANDLED;
    uint8_t *target = rp_connection_reserve(to.connection, RP_RESPONSE_SIZE_BASE);
    if (target == NULL)
        return RP_E_NO_MEMORY;
    rp_response_writer writer;
    rp_response_begin(&writer, target, to.serialize_type, RP_RESPONSE_SUCCESS, to.opaque, (rp_slice){NULL, 0});
    RP_RESPONSE_NUMBER(&writer, "popTime", pop_time_ms);
    RP_RESPONSE_NUMBER(&writer, "invisibleTime", invisible_ms);
    RP_RESPONSE_NUMBER(&writer, "reviveQid", revive_queue_id);
    rp_connection_commit(to.connection, rp_response_end(&writer, 0));
    rp_answered(&to, RP_RESPONSE_SUCCESS);
    return RP_HANDLED;
}

static int change_in_order(const acking *acking, const rp_pop_ack_header *header, const rp_pop_extra_info *info, int64_t invisible_ms) {
    rp_offset_cell *cell = cell_of(acking);
    int64_t told_ms = 0, pop_time_ms = 0;
    int32_t revive_queue_id = 0;
    if (cell == NULL)
        return rp_pop_answer_change(acking->to, 0, 0, 0);
    pthread_mutex_t *lock = rp_pop_lock_of(acking->lane->broker, cell);
    pthread_mutex_lock(lock);
    int64_t now_ms = wall_ms(); /* an earlier time than another's before it would count as a clock that was set back */
    if (header->offset >= atomic_load_explicit(&cell->committed, memory_order_relaxed)) {
        if (rp_pop_order_change(cell->order, header->offset, info->pop_time_ms, invisible_ms, now_ms)) {
            order_changed(acking);
            rp_long_polling_wake(acking->slot); /* whoever waits for it looks when it is free now */
        }
        pop_time_ms = info->pop_time_ms;
        told_ms = (int64_t)((uint64_t)(now_ms + invisible_ms) - (uint64_t)info->pop_time_ms); /* a stranger's pop time */
        revive_queue_id = info->revive_queue_id;
    }
    pthread_mutex_unlock(lock);
    return rp_pop_answer_change(acking->to, pop_time_ms, told_ms, revive_queue_id);
}

/* Checkpoints are told apart by their start and their pop time: an ack of the old one, which may begin with the same message, in the same
 * millisecond, must not be taken for one of the new. */
static int64_t changed_at(int64_t now_ms, int64_t before_ms) {
    return before_ms >= now_ms && before_ms - now_ms < CHANGES_AHEAD_MS ? before_ms + 1 : now_ms;
}

/* What a change at an acting slave has left to do. */
typedef struct escaping_change {
    rp_pop_escape *ack;  /* of the old checkpoint; NULL: it is on its way, or freed */
    rp_noted_ack *noted; /* the same; only where the new one is safe */
    int64_t pop_time_ms, invisible_ms;
    int32_t revive_queue_id;
} escaping_change;

static void drop_change(rp_pop_escape *escape) {
    escaping_change *change = escape->context;
    rp_pop_escape_free(change->ack);
    free(change->noted);
    change->ack = NULL;
    change->noted = NULL;
}

/* The new checkpoint counts, whatever became of the ack: else the message comes twice. */
static void finish_change(rp_pop_escape *escape, int status) {
    const escaping_change *change = escape->context;
    rp_answer_to to = rp_pop_escape_answer_to(escape);
    (void)status;
    if (to.connection != NULL &&
        rp_pop_answer_change(to, change->pop_time_ms, change->invisible_ms, change->revive_queue_id) == RP_E_NO_MEMORY)
        rp_server_close_connection(escape->lane->server, escape->connection_id);
}

/* Another master has the new checkpoint, or has not. */
static void ack_old(rp_pop_escape *escape, int status) {
    escaping_change *change = escape->context;
    rp_pop_escape *ack = change->ack;
    if (status != RP_OK) {
        drop_change(escape);
        finish_acks(escape, status);
        return;
    }
    rp_pop_revive_note(escape->lane->broker->revive, change->noted);
    change->ack = NULL;
    change->noted = NULL;
    escape->context = NULL;
    ack->context = change;
    ack->connection_id = escape->connection_id;
    if (rp_pop_escape_send(ack, escape->to, finish_change) != RP_OK) {
        finish_change(ack, RP_E_CLOSED);
        rp_pop_escape_free(ack);
    }
}

static int escape_change(const acking *acking, int32_t revive_queue_id, const rp_pop_checkpoint *checkpoint, const rp_pop_ack *ack) {
    rp_lane *lane = acking->lane;
    escaping_change *change = malloc(sizeof *change);
    rp_pop_escape *escape = change != NULL ? rp_pop_escape_create(lane, 1, change) : NULL;
    if (escape == NULL)
        return answer_failure(lane, acking->to, RP_E_NO_MEMORY);
    *change = (escaping_change){
        .ack = rp_pop_escape_create(lane, 1, NULL),
        .noted = rp_noted_ack_copy(ack),
        .pop_time_ms = checkpoint->pop_time_ms,
        .invisible_ms = checkpoint->invisible_ms,
        .revive_queue_id = revive_queue_id,
    };
    escape->drop = drop_change;
    int status = change->ack != NULL ? rp_pop_escape_add_checkpoint(escape, revive_queue_id, checkpoint) : RP_E_NO_MEMORY;
    if (status == RP_OK)
        status = rp_pop_escape_add_ack(change->ack, revive_queue_id, ack);
    if (status == RP_OK)
        status = rp_pop_escape_send(escape, acking->to, ack_old);
    if (status == RP_OK)
        return RP_HANDLED;
    drop_change(escape);
    rp_pop_escape_free(escape);
    return answer_failure(lane, acking->to, status);
}

/* A new checkpoint for the one message, then the ack of the old one's. */
static int change(const acking *acking, const rp_pop_ack_header *header) {
    rp_pop_extra_info info;
    int64_t invisible_ms = rp_pop_invisible_ms(header->invisible_ms);
    if (header->offset < rp_message_store_first_offset(acking->queue) || header->offset >= rp_consume_queue_max_offset(acking->queue))
        return rp_answer(acking->to, RP_RESPONSE_NO_MESSAGE, NULL, 0, "there is no message at offset %" PRId64, header->offset);
    if (rp_pop_extra_info_read(header->extra_info, &info) != RP_OK)
        return refuse_info(acking->to, header->extra_info);
    if (info.revive_queue_id == RP_POP_ORDER_QUEUE)
        return change_in_order(acking, header, &info, invisible_ms);
    rp_pop_checkpoint checkpoint = {
        .topic = acking->topic->head.name,
        .group = acking->group,
        .broker_name = rp_slice_of(acking->lane->broker->options.broker_name), /* it is a queue of ours, whatever the handle says */
        .start_offset = header->offset,
        .pop_time_ms = changed_at(wall_ms(), info.pop_time_ms),
        .invisible_ms = invisible_ms,
        .queue_id = acking->queue_id,
        .count = 1,
        .diff_count = 1,
    };
    rp_pop_ack ack = ack_of(acking, &info, &header->offset);
    if (rp_pop_escapes(acking->lane->broker))
        return escape_change(acking, info.revive_queue_id, &checkpoint, &ack);
    int status = rp_pop_log_replace(acking->lane->broker, info.revive_queue_id, &checkpoint, &ack);
    if (status != RP_OK)
        return answer_failure(acking->lane, acking->to, status);
    return rp_pop_answer_change(acking->to, checkpoint.pop_time_ms, invisible_ms, info.revive_queue_id);
}

int rp_pop_change_request(rp_lane *lane, rp_connection *connection, const rp_command *command) {
    return answer_one(lane, connection, command, change);
}
