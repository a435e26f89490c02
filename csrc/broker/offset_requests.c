/* offset_requests.c: see offset_requests.h. */
#include "offset_requests.h"

#include <strings.h>

#include "answers.h"
#include "lane.h"
#include "request_header.h"
#include "response_writer_inl.h"

typedef struct offset_question {
    rp_lane *lane;
    rp_answer_to to;
    rp_offset_header header;
    rp_topic *topic;
    rp_group *group;
    rp_consume_queue *queue; /* NULL: the topic has no such queue */
} offset_question;

static int answer_offset(const offset_question *question, int64_t offset) {
    if (question->to.oneway)
        return RP_HANDLED;
    uint8_t *target = rp_connection_reserve(question->to.connection, RP_RESPONSE_SIZE_BASE);
    if (target == NULL)
        return RP_E_NO_MEMORY;
    rp_response_writer writer;
    rp_response_begin(&writer, target, question->to.serialize_type, RP_RESPONSE_SUCCESS, question->to.opaque, (rp_slice){NULL, 0});
    RP_RESPONSE_NUMBER(&writer, "offset", offset);
    rp_connection_commit(question->to.connection, rp_response_end(&writer, 0));
    rp_answered(&question->to, RP_RESPONSE_SUCCESS);
    return RP_HANDLED;
}

static int32_t queues_of(const rp_topic *topic) {
    int32_t read_queues = atomic_load_explicit(&topic->read_queues, memory_order_relaxed);
    int32_t write_queues = atomic_load_explicit(&topic->write_queues, memory_order_relaxed);
    return read_queues > write_queues ? read_queues : write_queues;
}

/* A query must not create queues: only ids that the topic has are looked up. */
static void find_queue(offset_question *question) {
    int32_t queue_id = question->header.queue_id;
    if (queue_id >= 0 && queue_id < queues_of(question->topic))
        rp_topic_open_queue(question->lane->broker->topics, question->topic, queue_id, &question->queue);
}

/* May its chunk of cells be created? That is up to 2.6 MB for a request of 100 bytes, which RocketMQ accepts for any queue. */
static int may_be_made(const offset_question *question) {
    return question->header.queue_id < RP_OFFSET_QUEUES_ANYWAY || question->header.queue_id < queues_of(question->topic);
}

/* A cell may also exist because a neighbour's chunk does. */
static int is_kept(const rp_offset_cell *cell) {
    return cell != NULL && atomic_load_explicit(&cell->committed, memory_order_relaxed) != RP_OFFSET_NONE;
}

static int update_offset(const offset_question *question) {
    rp_slice topic = question->topic->head.name;
    if (!question->header.has_queue_id)
        return rp_answer(question->to, RP_RESPONSE_INVALID_PARAMETER, NULL, 0, "QueueId is null, topic is %.*s", (int)topic.size,
                         (const char *)topic.data);
    if (!question->header.has_commit_offset)
        return rp_answer(question->to, RP_RESPONSE_INVALID_PARAMETER, NULL, 0, "Offset is null, topic is %.*s", (int)topic.size,
                         (const char *)topic.data);
    int32_t queue_id = question->header.queue_id;
    int64_t offset = question->header.commit_offset;
    if (queue_id < 0 || offset < 0)
        return rp_answer(question->to, RP_RESPONSE_INVALID_PARAMETER, NULL, 0, "queueId %d or offset %lld is negative, topic is %.*s",
                         queue_id, (long long)offset, (int)topic.size, (const char *)topic.data);
    rp_broker *broker = question->lane->broker;
    rp_consumption *consumption = rp_group_table_consumption(broker->groups, question->group, question->topic);
    rp_offset_cell *cell = consumption != NULL ? rp_offset_cells_find(&consumption->offsets, queue_id) : NULL;
    if (!is_kept(cell) && !may_be_made(question))
        return rp_answer(question->to, RP_RESPONSE_INVALID_PARAMETER, NULL, 0, "queueId %d is illegal, topic is %.*s", queue_id,
                         (int)topic.size, (const char *)topic.data);
    if (consumption == NULL)
        consumption = rp_group_table_consumption_entry(broker->groups, question->group, question->topic);
    if (cell == NULL && consumption != NULL)
        cell = rp_offset_cells_open(&consumption->offsets, queue_id);
    if (cell == NULL)
        return rp_answer(question->to, RP_RESPONSE_SYSTEM_ERROR, NULL, 0, "no room for the offset of queue %d", queue_id);
    if (atomic_load_explicit(&cell->reset, memory_order_relaxed) != RP_OFFSET_NONE)
        return rp_answer(question->to, RP_RESPONSE_SUCCESS, NULL, 0, "Offset has been previously reset");
    if (rp_offset_cell_commit(cell, offset))
        rp_note_change(&broker->offset_version);
    return rp_answer(question->to, RP_RESPONSE_SUCCESS, NULL, 0, NULL);
}

/* RocketMQ 5 answers QUERY_NOT_FOUND for a queue without messages; those sent before the client then asks for its end are never read. */
int rp_queue_begins_at_zero(const rp_broker *broker, rp_consume_queue *queue) {
    rp_queue_entry first;
    if (queue == NULL || rp_consume_queue_min_offset(queue) > 0)
        return 0;
    if (rp_consume_queue_max_offset(queue) == 0)
        return 1;
    if (rp_consume_queue_read(queue, 0, &first, 1) != 1)
        return 0;
    int64_t log_max = rp_commit_log_max_offset(broker->commit_log);
    if (first.size <= 0 || (uint64_t)first.commit_log_offset > (uint64_t)log_max) /* damaged: what lies behind it must not be missed */
        return 1;
    uint32_t ratio = atomic_load_explicit(&broker->settings.memory_ratio_max, memory_order_relaxed);
    return log_max - first.commit_log_offset <= (int64_t)(broker->options.memory_bytes / 100 * ratio);
}

static int query_offset(const offset_question *question) {
    rp_consumption *consumption = rp_group_table_consumption(question->lane->broker->groups, question->group, question->topic);
    rp_offset_cell *cell = consumption != NULL ? rp_offset_cells_find(&consumption->offsets, question->header.queue_id) : NULL;
    if (cell != NULL) {
        int64_t reset = atomic_load_explicit(&cell->reset, memory_order_relaxed);
        int64_t offset = reset != RP_OFFSET_NONE ? reset : atomic_load_explicit(&cell->committed, memory_order_relaxed);
        if (offset >= 0)
            return answer_offset(question, offset);
    }
    if (question->header.set_zero_if_not_found == 0)
        return rp_answer(question->to, RP_RESPONSE_QUERY_NOT_FOUND, NULL, 0, "Not found, do not set to zero, maybe this group boot first");
    if (rp_queue_begins_at_zero(question->lane->broker, question->queue))
        return answer_offset(question, 0);
    return rp_answer(question->to, RP_RESPONSE_QUERY_NOT_FOUND, NULL, 0, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first");
}

/* RocketMQ's batch queues begin at -1 until they have had a message (BatchConsumeQueue.minOffsetInQueue). */
static int64_t told_min(const rp_consume_queue *queue) {
    if (rp_consume_queue_is_batch(queue) && rp_consume_queue_max_offset(queue) == 0)
        return -1;
    return rp_message_store_first_offset(queue);
}

/* RP_OK if the request is answered here. */
static int find_topic(offset_question *question, rp_slice name, const rp_command *command) {
    question->topic = rp_topic_table_find(question->lane->broker->topics, name);
    uint32_t flags = question->topic != NULL ? atomic_load_explicit(&question->topic->flags, memory_order_relaxed) : 0;
    return (flags & RP_TOPIC_NATIVE_PULL) && (__builtin_expect(!(flags & RP_TOPIC_STATIC), 1) || rp_names_queue_here(command));
}

int rp_offset_request(rp_lane *lane, rp_connection *connection, const rp_command *command) {
    offset_question question = {.lane = lane, .to = rp_answer_to_command(lane, connection, command)};
    rp_broker *broker = lane->broker;
    rp_header_fault fault;
    if (rp_offset_header_read(command, &question.header, &fault) != RP_OK)
        return rp_answer_fault(question.to, &fault);
    if (!find_topic(&question, question.header.topic, command))
        return RP_PUNT;
    int about_group = command->code == RP_CODE_QUERY_CONSUMER_OFFSET || command->code == RP_CODE_UPDATE_CONSUMER_OFFSET;
    if (about_group && (question.group = rp_group_table_find(broker->groups, question.header.group)) == NULL)
        return RP_PUNT;
    if (command->code == RP_CODE_UPDATE_CONSUMER_OFFSET)
        return update_offset(&question);
    if (!question.header.has_queue_id)
        return rp_answer_fault(question.to, &(rp_header_fault){"queueId", {NULL, 0}});
    find_queue(&question);
    if (command->code == RP_CODE_QUERY_CONSUMER_OFFSET)
        return query_offset(&question);
    if (question.queue == NULL)
        return RP_PUNT; /* the topic may have had more queues: only the store knows those */
    return answer_offset(&question,
                         command->code == RP_CODE_GET_MAX_OFFSET ? rp_consume_queue_max_offset(question.queue) : told_min(question.queue));
}

/* Java's clients write the enum's name, UPPER. Anything else means LOWER, as in RocketMQ's BoundaryType. */
static int is_upper(rp_slice boundary) { return boundary.size == 5 && strncasecmp((const char *)boundary.data, "upper", 5) == 0; }

int rp_search_request(rp_lane *lane, rp_connection *connection, const rp_command *command) {
    offset_question question = {.lane = lane, .to = rp_answer_to_command(lane, connection, command)};
    rp_search_header header;
    rp_header_fault fault;
    if (rp_search_header_read(command, &header, &fault) != RP_OK || rp_names_lite_topic(header.lite_topic))
        return RP_PUNT;
    if (!find_topic(&question, header.topic, command))
        return RP_PUNT;
    question.header.queue_id = header.queue_id;
    find_queue(&question);
    if (question.queue == NULL)
        return RP_PUNT;
    int64_t offset = rp_consume_queue_offset_by_time_in_memory(question.queue, header.timestamp_ms, is_upper(header.boundary));
    return offset < 0 ? RP_PUNT : answer_offset(&question, offset);
}
