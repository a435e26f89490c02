/* send_response.c: see send_response.h. */
#include "send_response.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "../base/clock.h"
#include "../base/clock_inl.h"
#include "lane.h"
#include "response_writer_inl.h"

#define UNAVAILABLE                                                                                                                        \
    "service not available now. It may be caused by one of the following reasons: the broker's disk is full [%s], messages are put to "    \
    "the slave, message store has been shut down, etc."

#define BUSY "broker busy, start flow control for a while, period in queue: %" PRId64 "ms, size of queue: %" PRIu32

int rp_send_answer_not_writable(rp_lane *lane, rp_answer_to to) {
    rp_live_settings *settings = &lane->broker->settings;
    char reason[sizeof settings->store_reason];
    pthread_mutex_lock(&settings->reason_mutex);
    memcpy(reason, settings->store_reason, sizeof reason);
    pthread_mutex_unlock(&settings->reason_mutex);
    return rp_answer(to, RP_RESPONSE_SERVICE_NOT_AVAILABLE, lane->broker->send_fields, RP_SEND_FIELD_COUNT, UNAVAILABLE, reason);
}

/* A sync has failed: nothing is written any more, and the producer is told why. */
static int answer_failed_log(rp_lane *lane, rp_answer_to to) {
    rp_error error = {.message = "the store is read-only"};
    rp_message_store_writable(lane->broker->store, &error);
    return rp_answer(to, RP_RESPONSE_SERVICE_NOT_AVAILABLE, lane->broker->send_fields, RP_SEND_FIELD_COUNT, UNAVAILABLE, error.message);
}

/* The batch waited for another append for as long as it may. */
static int answer_busy(rp_lane *lane, rp_answer_to to) {
    int64_t now_ns = rp_clock_monotonic_ns(rp_clock_system());
    int64_t waited_ms = (now_ns - rp_reactor_now_ns(lane->reactor)) / RP_NS_PER_MS;
    int64_t stuck_ms = rp_commit_log_stuck_ms(lane->broker->commit_log, now_ns);
    if (stuck_ms > 0)
        return rp_answer(to, RP_RESPONSE_SYSTEM_BUSY, lane->broker->send_fields, RP_SEND_FIELD_COUNT,
                         "[PCBUSY_CLEAN_QUEUE]" BUSY RP_SLOW_APPEND, waited_ms, lane->sends.send_count, stuck_ms);
    return rp_answer(to, RP_RESPONSE_SYSTEM_BUSY, lane->broker->send_fields, RP_SEND_FIELD_COUNT,
                     "[TIMEOUT_CLEAN_QUEUE]" BUSY "; slow stage: another append holds the commit log (page cache or disk)", waited_ms,
                     lane->sends.send_count);
}

static int answer_failure(rp_lane *lane, rp_answer_to to, int status) {
    switch (status) {
    case RP_E_TOO_LARGE:
        return rp_answer(to, RP_RESPONSE_MESSAGE_ILLEGAL, lane->broker->send_fields, RP_SEND_FIELD_COUNT,
                         "the message is illegal, maybe msg body or properties length not matched. msg body length limit %" PRIu32
                         "B, msg properties length limit 32KB.",
                         atomic_load_explicit(&lane->broker->settings.message_size_max, memory_order_relaxed));
    case RP_E_DISK_FULL:
        return rp_answer(to, RP_RESPONSE_SERVICE_NOT_AVAILABLE, lane->broker->send_fields, RP_SEND_FIELD_COUNT, UNAVAILABLE,
                         "no space left on device");
    case RP_E_READ_ONLY:
        return answer_failed_log(lane, to);
    case RP_E_CLOSED:
        return rp_send_answer_not_writable(lane, to);
    case RP_E_BUSY:
        return answer_busy(lane, to);
    case RP_E_IO:
    case RP_E_NO_MEMORY:
        return rp_answer(to, RP_RESPONSE_SYSTEM_ERROR, lane->broker->send_fields, RP_SEND_FIELD_COUNT,
                         "create mapped file failed, server is busy or broken.");
    default:
        return rp_answer(to, RP_RESPONSE_SYSTEM_ERROR, lane->broker->send_fields, RP_SEND_FIELD_COUNT, "UNKNOWN_ERROR");
    }
}

/* ---- failure ---- */

/* Returns the first failure of a send's items, RP_OK if all are stored. */
static int status_of(const rp_append_item *items, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].status != RP_OK)
            return items[i].status;
    }
    return RP_OK;
}

/* ---- success ---- */

#define BINARY_FIELDS 25u      /* where the size of all fields is written */
#define BINARY_ID_SIZE 36u     /* where the size of msgId is written */

static void init_json(rp_send_template *template, const rp_broker_options *options) {
    rp_slice region = {(const uint8_t *)options->region_id, (uint32_t)strlen(options->region_id)};
    rp_response_writer head = {.start = template->head[0], .at = template->head[0], .json = 1};
    RP_RESPONSE_PUT(&head, "\0\0\0\0\0\0\0\0{\"code\":0,\"flag\":1,\"language\":\"JAVA\",\"version\":479,"
                           "\"serializeTypeCurrentRPC\":\"JSON\",\"extFields\":{\"msgId\":\"");
    rp_response_put(&head, template->store_host_hex, template->store_host_hex_size);
    template->head_size[0] = (uint32_t)(head.at - head.start);
    rp_response_writer tail = {.start = template->tail[0], .at = template->tail[0], .json = 1};
    RP_RESPONSE_TEXT(&tail, "MSG_REGION", region);
    rp_response_put(&tail, options->trace_on ? ",\"TRACE_ON\":\"true\"" : ",\"TRACE_ON\":\"false\"", options->trace_on ? 18 : 19);
    RP_RESPONSE_PUT(&tail, "},\"opaque\":");
    template->tail_size[0] = (uint32_t)(tail.at - tail.start);
}

static void init_binary(rp_send_template *template, const rp_broker_options *options) {
    rp_slice region = {(const uint8_t *)options->region_id, (uint32_t)strlen(options->region_id)};
    rp_slice trace = {(const uint8_t *)(options->trace_on ? "true" : "false"), options->trace_on ? 4 : 5};
    rp_response_writer head;
    rp_response_begin(&head, template->head[1], RP_SERIALIZE_ROCKETMQ, RP_RESPONSE_SUCCESS, 0, (rp_slice){NULL, 0});
    rp_response_name(&head, "msgId", 5);
    rp_response_put(&head, template->store_host_hex, template->store_host_hex_size);
    rp_put_u32(head.start + BINARY_ID_SIZE, template->store_host_hex_size + 16);
    template->head_size[1] = (uint32_t)(head.at - head.start);
    rp_response_writer tail = {.start = template->tail[1], .at = template->tail[1]};
    RP_RESPONSE_TEXT(&tail, "MSG_REGION", region);
    RP_RESPONSE_TEXT(&tail, "TRACE_ON", trace);
    template->tail_size[1] = (uint32_t)(tail.at - tail.start);
}

void rp_send_template_init(rp_send_template *template, const rp_broker_options *options) {
    uint8_t *hex = (uint8_t *)template->store_host_hex;
    template->store_host_hex_size = (uint32_t)(rp_put_hex_bytes(hex, options->store_host, options->store_host_is_v6 ? 20 : 8) - hex);
    init_json(template, options);
    init_binary(template, options);
}

/* Writes the ids of a batch's other messages, each behind a comma. */
static void write_more_ids(const rp_send_template *template, rp_response_writer *writer, const rp_append_item *items, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        *writer->at++ = ',';
        rp_response_put(writer, template->store_host_hex, template->store_host_hex_size);
        writer->at = rp_put_hex_u64(writer->at, (uint64_t)items[i].commit_log_offset);
    }
    if (!writer->json)
        rp_put_u32(writer->start + BINARY_ID_SIZE, count * (template->store_host_hex_size + 17) - 1);
}

static uint32_t write_success(const rp_send_template *template, const rp_pending_send *send, const rp_append_item *items, uint8_t *target) {
    int binary = send->to.serialize_type != RP_SERIALIZE_JSON;
    rp_response_writer writer = {.start = target, .json = !binary};
    memcpy(target, template->head[binary], template->head_size[binary]);
    writer.at = rp_put_hex_u64(target + template->head_size[binary], (uint64_t)items[0].commit_log_offset);
    if (send->item_count > 1)
        write_more_ids(template, &writer, items, send->item_count);
    if (!binary)
        *writer.at++ = '"';
    RP_RESPONSE_NUMBER(&writer, "queueId", send->queue_id);
    RP_RESPONSE_NUMBER(&writer, "queueOffset",
                       __builtin_expect(send->is_mapped, 0) ? rp_mapped_offset(&send->at, items[0].queue_offset) : items[0].queue_offset);
    if (send->unique_key.size > 0)
        RP_RESPONSE_TEXT(&writer, "transactionId", send->unique_key);
    if (__builtin_expect(send->inner, 0)) /* tells the producer that it gets only one id */
        RP_RESPONSE_TEXT(&writer, "batchUniqId", send->unique_key);
    if (__builtin_expect(send->recall_handle.size > 0, 0))
        RP_RESPONSE_TEXT(&writer, "recallHandle", send->recall_handle);
    rp_response_put(&writer, template->tail[binary], template->tail_size[binary]);
    if (binary) {
        rp_put_u32(target + 13, (uint32_t)send->to.opaque);
        rp_put_u32(target + BINARY_FIELDS, (uint32_t)(writer.at - target) - BINARY_FIELDS - 4);
    } else {
        writer.at = rp_decimal(writer.at, send->to.opaque);
        *writer.at++ = '}';
    }
    uint32_t size = (uint32_t)(writer.at - target);
    rp_put_u32(target, size - 4);
    rp_put_u32(target + 4, (uint32_t)send->to.serialize_type << 24 | (size - 8));
    return size;
}

static size_t success_size_max(const rp_send_template *template, const rp_pending_send *send) {
    return RP_SEND_HEAD_MAX + 256 + RP_RESPONSE_TEXT_FACTOR * (size_t)send->unique_key.size * (1 + send->inner) + send->recall_handle.size +
           template->tail_size[0] + template->tail_size[1] + (size_t)send->item_count * (template->store_host_hex_size + 17);
}

/* Parks the response if it waits for disk or slaves. RP_OK: parked; 1: there is nothing to wait for, and *outcome is the result. */
static int park(rp_lane *lane, const rp_pending_send *send, const rp_append_item *items, size_t size_max, int32_t *outcome) {
    const rp_append_item *last = &items[send->item_count - 1];
    int64_t end = last->commit_log_offset + last->size;
    uint32_t needs = send->wait || lane->broker->waits_for_commit ? rp_parked_needs(lane->broker, end, outcome) : 0;
    if (RP_OUTCOME_CODE(*outcome) == RP_RESPONSE_SLAVE_NOT_AVAILABLE)
        rp_count(&lane->counters.slaves_missing, 1);
    if (needs == 0)
        return 1;
    uint8_t *frame = rp_arena_take(rp_reactor_arena(lane->reactor), size_max);
    if (frame == NULL)
        return RP_E_NO_MEMORY;
    uint32_t size = write_success(&lane->broker->send_template, send, items, frame);
    return rp_parked_responses_push(lane, &send->to, end, needs, *outcome, frame, size);
}

static int answer_success(rp_lane *lane, const rp_pending_send *send, const rp_append_item *items) {
    int32_t outcome = 0;
    size_t size_max = success_size_max(&lane->broker->send_template, send);
    if (size_max > RP_FRAME_SIZE_MAX)
        return RP_E_TOO_LARGE;
    int parked = park(lane, send, items, size_max, &outcome);
    if (parked != 1)
        return parked;
    uint8_t *target = rp_connection_reserve(send->to.connection, (uint32_t)size_max + RP_OUTCOME_SIZE_MAX);
    if (target == NULL)
        return RP_E_NO_MEMORY;
    uint32_t size = write_success(&lane->broker->send_template, send, items, target);
    rp_connection_commit(send->to.connection, rp_outcome_write(outcome, target, size));
    rp_answered(&send->to, RP_OUTCOME_CODE(outcome));
    return RP_OK;
}

/* Tells a reply the result of its append, or parks it. */
static int tell_reply(rp_lane *lane, const rp_pending_send *send, const rp_append_item *item) {
    rp_reply *reply = send->reply;
    int32_t unused;
    int64_t end = item->commit_log_offset + item->size;
    if (item->status == RP_OK) {
        reply->commit_log_offset = item->commit_log_offset;
        reply->queue_offset = item->queue_offset;
    }
    int waits = send->wait || lane->broker->waits_for_commit;
    uint32_t needs = item->status == RP_OK && waits ? rp_parked_needs(lane->broker, end, &unused) : 0;
    if (needs == 0 || rp_parked_responses_push_reply(lane, reply, end, needs) != RP_OK)
        rp_reply_stored(reply, item->status == RP_OK && (needs & RP_NEEDS_COMMIT) == 0);
    return RP_OK;
}

/* Answers one send whose items carry their results, or parks its response. Returns the bytes it stored, -1 if it failed. */
static int64_t respond(rp_lane *lane, const rp_pending_send *send) {
    const rp_append_item *items = &lane->sends.items[send->item_first];
    int status = status_of(items, send->item_count);
    int outcome = RP_OK;
    if (send->reply != NULL)
        outcome = tell_reply(lane, send, items);
    else if (send->to.connection != NULL && !send->to.oneway)
        outcome = status == RP_OK ? answer_success(lane, send, items) : answer_failure(lane, send->to, status);
    if (outcome < 0) /* without an answer the producer would wait for its time-out */
        rp_server_close_connection(lane->server, rp_connection_id(send->to.connection));
    if (status != RP_OK)
        return -1;
    int64_t bytes = 0;
    for (uint32_t i = 0; i < send->item_count; i++)
        bytes += items[i].size;
    return bytes;
}

/* Sums of a run of sends of one type to one topic. */
typedef struct intake_run {
    rp_intake *intake;
    rp_intake_counts counts;
} intake_run;

static void end_run(intake_run *run, rp_intake *next) {
    if (run->counts.bytes > 0)
        rp_intake_add(run->intake, &run->counts);
    *run = (intake_run){.intake = next};
}

/* Counts a batch in one record as its messages are counted elsewhere. Returns how many there are. */
static uint64_t count_inner(rp_intake_counts *counts, const rp_append_item *item) {
    uint32_t messages = (uint32_t)item->inner_messages;
    for (uint32_t i = 0; i < messages; i++)
        rp_intake_count(counts, item->size / messages + (i < item->size % messages));
    return messages;
}

/* Answers and counts every send; shared counters are updated once per run of the same topic. */
static void respond_all(rp_lane *lane) {
    const rp_send_batch *batch = &lane->sends;
    intake_run run = {0};
    uint64_t messages = 0, bytes = 0, failed = 0;
    for (uint32_t i = 0; i < batch->send_count; i++) {
        const rp_pending_send *send = &batch->sends[i];
        int64_t stored = respond(lane, send);
        if (&send->topic->in[send->type] != run.intake)
            end_run(&run, &send->topic->in[send->type]);
        if (stored < 0) {
            failed++;
            continue;
        }
        if (__builtin_expect(send->inner, 0))
            messages += count_inner(&run.counts, &batch->items[send->item_first]);
        for (uint32_t item = 0; item < send->item_count && !send->inner; item++)
            rp_intake_count(&run.counts, batch->items[send->item_first + item].size);
        messages += send->inner ? 0 : send->item_count;
        bytes += (uint64_t)stored;
    }
    end_run(&run, NULL);
    rp_count(&lane->counters.sends, batch->send_count - failed);
    rp_count(&lane->counters.sends_failed, failed);
    rp_count(&lane->counters.messages_in, messages);
    rp_count(&lane->counters.bytes_in, bytes);
}

/* Returns RocketMQ's class for the time from a send's arrival to now. */
static uint32_t class_of_ms(int64_t ms) {
    static const int64_t tops[] = {0, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10000};
    uint32_t class = 0;
    while (class < RP_PUT_MS_BUCKETS - 1 && (class == 0 ? ms > 0 : ms >= tops[class]))
        class++;
    return class;
}

void rp_send_path_flush(rp_lane *lane) {
    rp_send_batch *batch = &lane->sends;
    if (batch->send_count == 0)
        return;
    uint32_t sends = batch->send_count;
    lane->leadership = rp_leadership(lane->broker);
    rp_commit_log_append(lane->broker->commit_log, batch->items, batch->item_count);
    if (__builtin_expect(batch->delay_ms_min != INT64_MAX, 0)) {
        rp_schedule_stored(lane->broker->schedule, rp_clock_wall_ms(rp_clock_system()) + batch->delay_ms_min);
        batch->delay_ms_min = INT64_MAX;
    }
    respond_all(lane);
    int64_t took_ns = rp_clock_monotonic_ns(rp_clock_system()) - rp_reactor_now_ns(lane->reactor);
    took_ns = took_ns > 0 ? took_ns : 0;
    rp_histogram_record_count(lane->broker->put_ns, (uint64_t)took_ns, sends);
    rp_count(&lane->counters.put_ms[class_of_ms(took_ns / RP_NS_PER_MS)], sends);
    batch->send_count = batch->item_count = 0;
    if (batch->item_capacity > RP_SEND_ITEMS) { /* a huge batch went through: shrink again */
        rp_append_item *items = realloc(batch->items, RP_SEND_ITEMS * sizeof *items);
        if (items != NULL)
            batch->items = items;
        batch->item_capacity = RP_SEND_ITEMS;
    }
}
