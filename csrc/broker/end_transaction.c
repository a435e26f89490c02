/* end_transaction.c: commits or rolls back prepared messages (half_messages.h, broker.h).
 * RocketMQ: EndTransactionProcessor (5.3.3 broker/processor/). The checks are in its order.
 *
 * Runs on a reactor if the prepared message is in memory and small, as nearly all are, and the log is fast; otherwise Python's threads
 * call rp_broker_end_transaction.
 */
#include <stdlib.h>
#include <string.h>

#include "../base/clock.h"
#include "../base/slice_inl.h"
#include "../store/light_queue.h"
#include "half_messages.h"
#include "lane.h"
#include "light_copies.h"
#include "property_text.h"
#include "response_writer_inl.h"
#include "stored_message.h"
#include "timer_item.h"
#include "transactions.h"

#define TAG_REMOVED 100 /* Java's hash of "d", TransactionalMessageUtil.REMOVE_TAG */
#define DIGITS_MAX 24
#define NOT_FOUND "Find prepared transaction message failed"
#define NO_REMARK "not set any response code" /* RocketMQ's default remark, which it does not replace here */

/* One decision about one prepared message. */
typedef struct ending {
    rp_broker *broker;
    const rp_end_transaction *request;
    rp_stored_message stored;
    rp_topic *topic; /* where a commit is counted */
    int64_t delay_ms; /* below 0: no delay */
    int64_t out_ms;   /* below 0: no timer */
    uint64_t cuts;    /* rp_commit_log_cuts before anything was appended */
    rp_append_item item;
    uint8_t *text; /* owned: the message's properties */
    void *light;   /* owned: its light queues */
} ending;

static int32_t refuse(const char **remark, int32_t code, const char *why) {
    *remark = why;
    return code;
}

/* ---- checks ---- */

/* A producer that set the time of its first check is not heard after that time, until it is asked. */
static int is_too_late(const ending *end) {
    rp_slice text = rp_message_property(end->stored.message.properties, "CHECK_IMMUNITY_TIME_IN_SECONDS");
    if (end->request->is_from_check || text.data == NULL)
        return 0;
    int64_t timeout_ms = atomic_load_explicit(&end->broker->settings.transaction_timeout_ms, memory_order_relaxed), seconds = 0;
    if (rp_slice_to_i64(text, &seconds) != RP_OK || seconds < 0 || seconds > INT32_MAX)
        seconds = 0;
    int64_t immune_ms = seconds * 1000 > timeout_ms ? seconds * 1000 : timeout_ms;
    return end->stored.message.born_timestamp_ms < rp_clock_wall_ms(rp_clock_system()) - immune_ms; /* producers may send any time */
}

static int is_half(const rp_message *message) {
    return rp_slice_equals(message->topic, (rp_slice){(const uint8_t *)RP_HALF_TOPIC, sizeof RP_HALF_TOPIC - 1});
}

/* A body may look like a prepared message, of any queue offset: the end of it would be the end of the one that is there. Entries that are
 * held back cannot be looked at yet. */
static int is_in_its_queue(const ending *end) {
    rp_queue_entry entry;
    int64_t offset = end->stored.message.queue_offset;
    rp_consume_queue *queue = rp_half_queue(end->broker);
    if (queue == NULL)
        return 0;
    if (offset >= rp_consume_queue_max_offset(queue))
        return offset < rp_consume_queue_next_offset(queue);
    return rp_consume_queue_read(queue, offset, &entry, 1) == 1 && entry.commit_log_offset == end->request->log_offset;
}

static int32_t check(const ending *end, const char **remark) {
    const rp_message *message = &end->stored.message;
    rp_slice group = rp_message_property(message->properties, "PGROUP");
    if (!is_half(message))
        return refuse(remark, RP_RESPONSE_SYSTEM_ERROR, NOT_FOUND);
    if (is_too_late(end))
        return refuse(remark, RP_RESPONSE_ILLEGAL_OPERATION, NO_REMARK);
    if (group.data == NULL || !rp_slice_equals(group, end->request->producer_group))
        return refuse(remark, RP_RESPONSE_SYSTEM_ERROR, "The producer group wrong");
    if (message->queue_offset != end->request->queue_offset)
        return refuse(remark, RP_RESPONSE_SYSTEM_ERROR, "The transaction state table offset wrong");
    if (!is_in_its_queue(end))
        return refuse(remark, RP_RESPONSE_SYSTEM_ERROR, NOT_FOUND);
    return RP_RESPONSE_SUCCESS;
}

/* ---- appending ---- */

static int32_t code_of(int status, const char **remark) {
    switch (status) {
    case RP_OK:
        return RP_RESPONSE_SUCCESS;
    case RP_E_TOO_LARGE:
        return refuse(remark, RP_RESPONSE_MESSAGE_ILLEGAL, "The message is illegal, maybe msg body or properties length not matched.");
    case RP_E_DISK_FULL:
    case RP_E_CLOSED:
    case RP_E_READ_ONLY:
        return refuse(remark, RP_RESPONSE_SERVICE_NOT_AVAILABLE, "Service not available now.");
    case RP_E_BUSY:
        return refuse(remark, RP_RESPONSE_SYSTEM_ERROR, "OS page cache busy, please try another machine");
    case RP_E_RANGE:
        return refuse(remark, RP_RESPONSE_MESSAGE_ILLEGAL, "timer message illegal, the delay time should not be bigger than the max delay");
    case RP_E_UNSUPPORTED:
        return refuse(remark, RP_RESPONSE_SYSTEM_ERROR, "accurate timer message is not enabled, timerWheelEnable is false");
    case RP_E_TIMEOUT:
        return refuse(remark, RP_RESPONSE_SYSTEM_ERROR, "timer message is under flow control");
    default:
        return refuse(remark, RP_RESPONSE_SYSTEM_ERROR, "Create mapped file failed.");
    }
}

/* Appends nothing if the log was cut since this decision was begun: the committed message may have been cut. */
static int append(ending *end, rp_append_item *item) {
    rp_commit_log_append_behind(end->broker->commit_log, item, 1, end->cuts);
    if (item->status == RP_OK)
        rp_broker_request_flush(end->broker, item->commit_log_offset + item->size);
    return item->status;
}

/* Writes the properties without those of its way to here; a delayed message gets its level's. RP_OK, RP_E_NO_MEMORY. */
static int write_properties(ending *end, int32_t level, rp_slice topic, int32_t queue_id) {
    static const char *const way[] = {"REAL_TOPIC", "REAL_QID", RP_LIGHT_OFFSETS, "__CRC32#", NULL};
    static const char *const delayed[] = {
        "DELAY", "REAL_TOPIC", "REAL_QID", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", RP_LIGHT_OFFSETS, "__CRC32#", NULL};
    rp_slice sent = end->stored.message.properties;
    end->text = malloc((size_t)sent.size + topic.size + RP_TIMER_TEXT_ROOM);
    if (end->text == NULL)
        return RP_E_NO_MEMORY;
    uint8_t *at = end->out_ms >= 0 ? rp_timer_put_waiting(end->text, sent, end->out_ms, topic, queue_id)
                                   : rp_copy_pairs_without(end->text, sent, level > 0 ? delayed : way);
    if (level > 0)
        at = rp_put_real_place(rp_put_number_pair(at, "DELAY", level), topic, queue_id);
    end->item.properties[0] = (rp_slice){end->text, (uint32_t)(at - end->text)};
    return RP_OK;
}

/* RP_OK: the message has a timer and waits for its time, or the time is over; RP_E_RANGE: its timer is not acceptable; RP_E_UNSUPPORTED:
 * timers are off; RP_E_TIMEOUT: flow control; RP_E_IO. */
static int wait_for_time(ending *end, rp_slice properties) {
    rp_timer_service *timers = end->broker->timers;
    if (!rp_timer_is_timed(properties))
        return RP_OK;
    int64_t out_ms;
    int when = rp_timer_when(timers, properties, (uint32_t)(end->stored.message.queue_offset % 1000), &out_ms);
    if (when == RP_TIMER_IS_NOW)
        return RP_OK;
    if (when != RP_TIMER_IS_LATER)
        return when == RP_E_INVALID ? RP_E_RANGE : when == RP_E_BUSY ? RP_E_TIMEOUT : when;
    end->out_ms = out_ms;
    end->topic = rp_timer_topic(timers);
    return rp_timer_open_queue(timers, &end->item.queue);
}

/* Chooses the queue that the message was sent to, or that of its delay level. RP_OK, RP_E_NOT_FOUND, RP_E_IO, RP_E_NO_MEMORY; errors of
 * wait_for_time. */
static int choose_queue(ending *end) {
    rp_slice properties = end->stored.message.properties, topic = rp_message_property(properties, "REAL_TOPIC");
    int32_t queue_id, level = 0;
    if (topic.data == NULL || rp_slice_to_i32(rp_message_property(properties, "REAL_QID"), &queue_id) != RP_OK || queue_id < 0 ||
        queue_id >= RP_TOPIC_QUEUES_MAX)
        return RP_E_NOT_FOUND;
    end->topic = rp_topic_table_find(end->broker->topics, topic);
    if (end->topic == NULL)
        return RP_E_NOT_FOUND;
    end->delay_ms = end->out_ms = -1;
    int status = wait_for_time(end, properties);
    if (status != RP_OK)
        return status;
    if (rp_slice_to_i32(rp_message_property(properties, "DELAY"), &level) != RP_OK || level <= 0) {
        level = 0;
        if (end->out_ms < 0 && rp_topic_open_queue_to_send(end->broker->topics, end->topic, queue_id, &end->item.queue) == NULL)
            return RP_E_IO;
    } else {
        rp_delay_queue queue;
        level = rp_schedule_level(end->broker->schedule, level);
        if (rp_schedule_open_queue(end->broker->schedule, level, &queue) != RP_OK)
            return RP_E_IO;
        end->topic = rp_schedule_topic(end->broker->schedule);
        end->item.queue = queue.queue;
        end->delay_ms = queue.delay_ms;
    }
    return write_properties(end, level, topic, queue_id);
}

static int32_t commit(ending *end, const char **remark) {
    end->item = rp_item_of_message(&end->stored.message);
    end->item.sys_flag = (end->item.sys_flag & ~RP_SYSFLAG_TRANSACTION_MASK) | RP_SYSFLAG_TRANSACTION_COMMIT;
    end->item.prepared_transaction_offset = end->request->log_offset;
    int status = choose_queue(end);
    if (status == RP_E_NOT_FOUND)
        return refuse(remark, RP_RESPONSE_SYSTEM_ERROR, "the topic that the prepared message was sent to does not exist");
    if (status == RP_OK)
        status = rp_copy_to_light_queues(end->broker, &end->item, &end->light);
    if (status == RP_OK)
        status = append(end, &end->item);
    if (status != RP_OK)
        return code_of(status, remark);
    rp_count_put_inside(end->broker, end->topic, RP_MESSAGE_TRANSACTION, end->item.size);
    if (end->delay_ms >= 0)
        rp_schedule_stored(end->broker->schedule, end->item.store_timestamp_ms + end->delay_ms);
    return RP_RESPONSE_SUCCESS;
}

/* Records that the prepared message is decided. After a failure its producer is asked about it later. */
static int append_operation(ending *end) {
    static const char removed[] = "TAGS\1d\2";
    const rp_broker_options *options = &end->broker->options;
    uint8_t digits[DIGITS_MAX];
    rp_append_item item = {
        .sys_flag = options->store_host_is_v6 ? RP_SYSFLAG_BORN_V6 : 0,
        .born_timestamp_ms = rp_clock_wall_ms(rp_clock_system()),
        .tags_code = TAG_REMOVED,
        .body = {digits, (uint32_t)(rp_decimal(digits, end->stored.message.queue_offset) - digits)},
        .properties = {{(const uint8_t *)removed, sizeof removed - 1}},
    };
    memcpy(item.born_host, options->store_host, sizeof item.born_host);
    rp_topic *topic;
    int status = rp_op_open_queue(end->broker, &topic, &item.queue);
    return status == RP_OK ? append(end, &item) : status;
}

static int32_t decide(ending *end, const char **remark) {
    int32_t code = check(end, remark);
    int is_commit = end->request->decision == RP_SYSFLAG_TRANSACTION_COMMIT;
    if (code == RP_RESPONSE_SUCCESS && is_commit)
        code = commit(end, remark);
    if (code != RP_RESPONSE_SUCCESS)
        return code;
    int status = append_operation(end);
    *remark = is_commit ? NULL : NO_REMARK;
    return is_commit ? RP_RESPONSE_SUCCESS : code_of(status, remark);
}

/* Counts the decision for the topic it was about. */
static void count_end(const ending *end) {
    rp_topic *topic = rp_topic_table_find(end->broker->topics, rp_message_property(end->stored.message.properties, "REAL_TOPIC"));
    if (topic == NULL)
        return;
    if (end->request->decision != RP_SYSFLAG_TRANSACTION_COMMIT) {
        atomic_fetch_add_explicit(&topic->rollbacks, 1, memory_order_relaxed);
        return;
    }
    atomic_fetch_add_explicit(&topic->commits, 1, memory_order_relaxed);
    rp_durations_add(&topic->commit_times, rp_end_seconds_max, end->stored.message.born_timestamp_ms, rp_clock_wall_ms(rp_clock_system()));
}

int32_t rp_broker_end_transaction(rp_broker *broker, const rp_end_transaction *request, const char **remark) {
    ending end = {.broker = broker, .request = request, .cuts = rp_commit_log_cuts(broker->commit_log)};
    *remark = NULL;
    if (!atomic_load_explicit(&broker->settings.store_writable, memory_order_relaxed))
        return code_of(RP_E_CLOSED, remark);
    int status = rp_stored_message_open(broker->commit_log, request->log_offset, &end.stored);
    if (status != RP_OK)
        return refuse(remark, RP_RESPONSE_SYSTEM_ERROR, NOT_FOUND);
    int32_t code = decide(&end, remark);
    if (code == RP_RESPONSE_SUCCESS)
        count_end(&end);
    rp_stored_message_close(&end.stored);
    free(end.text);
    free(end.light);
    return code;
}

/* ---- the request ---- */

/* Which topic it is for says the message alone: the request names what it likes, or nothing. 0: it may be ended, or is none that can be. */
static int32_t admit(rp_lane *lane, rp_connection *connection, const rp_command *command, int64_t log_offset, rp_slice *remark) {
    rp_stored_message stored;
    if (!rp_connection_has_gate(connection))
        return 0;
    if (rp_stored_message_open(lane->broker->commit_log, log_offset, &stored) != RP_OK) {
        *remark = rp_slice_of(NOT_FOUND);
        return RP_RESPONSE_SYSTEM_ERROR;
    }
    int32_t code = 0;
    if (is_half(&stored.message))
        code = rp_connection_admit_sender(connection, command, rp_message_property(stored.message.properties, "REAL_TOPIC"), remark);
    rp_stored_message_close(&stored);
    return code;
}

int rp_end_transaction_request(rp_lane *lane, rp_connection *connection, const rp_command *command) {
    rp_answer_to to = rp_answer_to_command(lane, connection, command);
    rp_end_transaction request;
    rp_header_fault fault;
    if (atomic_load_explicit(&lane->broker->settings.role, memory_order_relaxed) == RP_ROLE_SLAVE)
        return rp_answer(to, RP_RESPONSE_SLAVE_NOT_AVAILABLE, NULL, 0, NULL);
    if (rp_end_transaction_header_read(command, &request, &fault) != RP_OK)
        return rp_answer_fault(to, &fault);
    if (request.decision == 0) /* the producer does not know: it will be asked. RocketMQ sends no answer to this */
        return rp_answer(to, RP_RESPONSE_SUCCESS, NULL, 0, NULL);
    if (request.decision != RP_SYSFLAG_TRANSACTION_COMMIT && request.decision != RP_SYSFLAG_TRANSACTION_ROLLBACK)
        return rp_answer(to, RP_RESPONSE_SYSTEM_ERROR, NULL, 0, "commitOrRollback field wrong");
    if (!rp_stored_message_in_memory(lane->broker->commit_log, request.log_offset))
        return RP_PUNT;
    const char *remark;
    rp_slice refusal;
    int32_t code;
    if (rp_commit_log_stuck_ms(lane->broker->commit_log, rp_reactor_now_ns(lane->reactor)) > 0)
        code = code_of(RP_E_BUSY, &remark); /* as for sends: otherwise all other requests of this reactor would wait with it */
    else if (rp_lane_log_is_slow(lane))
        return RP_PUNT; /* the appends may take long: a thread of Python's may wait for them */
    else if ((code = admit(lane, connection, command, request.log_offset, &refusal)) != 0)
        return rp_answer(to, code, NULL, 0, "%.*s", (int)refusal.size, (const char *)refusal.data);
    else {
        int64_t begun_ns = rp_clock_monotonic_ns(rp_clock_system());
        code = rp_broker_end_transaction(lane->broker, &request, &remark);
        rp_lane_spent(lane, begun_ns);
    }
    return remark != NULL ? rp_answer(to, code, NULL, 0, "%s", remark) : rp_answer(to, code, NULL, 0, NULL);
}
