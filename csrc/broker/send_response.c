/* send_response.c: see send_response.h. */
#include "send_response.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "../base/clock.h"
#include "lane.h"
#include "response_writer_inl.h"

#define UNAVAILABLE                                                                                                                        \
    "service not available now. It may be caused by one of the following reasons: the broker's disk is full [%s], messages are put to "    \
    "the slave, message store has been shut down, etc."

int rp_send_answer_not_writable(rp_lane *lane, rp_answer_to to) {
    rp_live_settings *settings = &lane->broker->settings;
    char reason[sizeof settings->store_reason];
    pthread_mutex_lock(&settings->reason_mutex);
    memcpy(reason, settings->store_reason, sizeof reason);
    pthread_mutex_unlock(&settings->reason_mutex);
    return rp_answer(to, RP_RESPONSE_SERVICE_NOT_AVAILABLE, NULL, 0, UNAVAILABLE, reason);
}

static int answer_failure(rp_lane *lane, rp_answer_to to, int status) {
    switch (status) {
    case RP_E_TOO_LARGE:
        return rp_answer(to, RP_RESPONSE_MESSAGE_ILLEGAL, NULL, 0,
                         "the message is illegal, maybe msg body or properties length not matched. msg body length limit %" PRIu32
                         "B, msg properties length limit 32KB.",
                         lane->broker->options.message_size_max);
    case RP_E_DISK_FULL:
        return rp_answer(to, RP_RESPONSE_SERVICE_NOT_AVAILABLE, NULL, 0, UNAVAILABLE, "no space left on device");
    case RP_E_READ_ONLY:
    case RP_E_CLOSED:
        return rp_send_answer_not_writable(lane, to);
    case RP_E_BUSY:
        return rp_answer(to, RP_RESPONSE_SYSTEM_BUSY, NULL, 0, "[PC_SYNCHRONIZED]broker busy, start flow control for a while");
    case RP_E_IO:
    case RP_E_NO_MEMORY:
        return rp_answer(to, RP_RESPONSE_SYSTEM_ERROR, NULL, 0, "create mapped file failed, server is busy or broken.");
    default:
        return rp_answer(to, RP_RESPONSE_SYSTEM_ERROR, NULL, 0, "UNKNOWN_ERROR");
    }
}

/* The first failure of a send's items, RP_OK when all are stored. */
static int status_of(const rp_append_item *items, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].status != RP_OK)
            return items[i].status;
    }
    return RP_OK;
}

/* Store host and log offset in hex, one for each message, with commas between. */
static void write_ids(const rp_broker *broker, rp_response_writer *writer, const rp_append_item *items, uint32_t count) {
    rp_response_name(writer, "msgId", 5);
    uint8_t *value = writer->at;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t offset[8];
        if (i > 0)
            *writer->at++ = ',';
        rp_response_put(writer, broker->store_host_hex, broker->store_host_hex_size);
        rp_put_u64(offset, (uint64_t)items[i].commit_log_offset);
        writer->at = rp_hex_upper(writer->at, offset, sizeof offset);
    }
    rp_response_value_end(writer, value);
}

static uint32_t write_success(const rp_broker *broker, const rp_pending_send *send, const rp_append_item *items, uint8_t *target) {
    rp_response_writer writer;
    rp_response_begin(&writer, target, send->to.serialize_type, RP_RESPONSE_SUCCESS, send->to.opaque, (rp_slice){NULL, 0});
    write_ids(broker, &writer, items, send->item_count);
    RP_RESPONSE_NUMBER(&writer, "queueId", send->queue_id);
    RP_RESPONSE_NUMBER(&writer, "queueOffset", items[0].queue_offset);
    if (send->unique_key.size > 0)
        RP_RESPONSE_TEXT(&writer, "transactionId", send->unique_key);
    rp_slice region = {(const uint8_t *)broker->options.region_id, (uint32_t)strlen(broker->options.region_id)};
    RP_RESPONSE_TEXT(&writer, "MSG_REGION", region);
    if (broker->options.trace_on)
        RP_RESPONSE_TEXT(&writer, "TRACE_ON", ((rp_slice){(const uint8_t *)"true", 4}));
    else
        RP_RESPONSE_TEXT(&writer, "TRACE_ON", ((rp_slice){(const uint8_t *)"false", 5}));
    return rp_response_end(&writer, 0);
}

static size_t success_size_max(const rp_broker *broker, const rp_pending_send *send) {
    size_t texts = (size_t)send->unique_key.size + strlen(broker->options.region_id);
    return RP_RESPONSE_SIZE_BASE + RP_RESPONSE_TEXT_FACTOR * texts + (size_t)send->item_count * (broker->store_host_hex_size + 17);
}

static void count_success(rp_lane *lane, const rp_pending_send *send, const rp_append_item *items) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < send->item_count; i++)
        bytes += items[i].size;
    rp_count(&lane->counters.sends, 1);
    rp_count(&lane->counters.messages_in, send->item_count);
    rp_count(&lane->counters.bytes_in, bytes);
    atomic_fetch_add_explicit(&send->topic->messages_in, send->item_count, memory_order_relaxed);
    atomic_fetch_add_explicit(&send->topic->bytes_in, bytes, memory_order_relaxed);
}

/* Parks the response when disk or slaves are waited for. RP_OK: parked; 1: nothing to wait for, *code is what to say. */
static int park(rp_lane *lane, const rp_pending_send *send, const rp_append_item *items, size_t size_max, int32_t *code) {
    const rp_append_item *last = &items[send->item_count - 1];
    int64_t end = last->commit_log_offset + last->size;
    uint32_t needs = send->wait ? rp_parked_needs(lane->broker, end, code) : 0;
    if (*code == RP_RESPONSE_SLAVE_NOT_AVAILABLE)
        rp_count(&lane->counters.slaves_missing, 1);
    if (needs == 0)
        return 1;
    uint8_t *frame = rp_arena_take(rp_reactor_arena(lane->reactor), size_max);
    if (frame == NULL)
        return RP_E_NO_MEMORY;
    uint32_t size = write_success(lane->broker, send, items, frame);
    return rp_parked_responses_push(lane, rp_connection_id(send->to.connection), end, needs, *code, frame, size);
}

void rp_send_respond(rp_lane *lane, const rp_pending_send *send) {
    const rp_append_item *items = &lane->sends.items[send->item_first];
    int status = status_of(items, send->item_count);
    if (status != RP_OK)
        rp_count(&lane->counters.sends_failed, 1);
    else
        count_success(lane, send, items);
    if (send->to.connection == NULL || send->to.oneway)
        return;
    int32_t code = RP_RESPONSE_SUCCESS;
    size_t size_max = success_size_max(lane->broker, send);
    int outcome = RP_E_TOO_LARGE;
    if (status != RP_OK)
        outcome = answer_failure(lane, send->to, status);
    else if (size_max <= RP_FRAME_SIZE_MAX)
        outcome = park(lane, send, items, size_max, &code);
    if (status == RP_OK && outcome == 1) {
        uint8_t *target = rp_connection_reserve(send->to.connection, (uint32_t)size_max);
        outcome = target != NULL ? RP_OK : RP_E_NO_MEMORY;
        if (target != NULL) {
            uint32_t size = write_success(lane->broker, send, items, target);
            if (code != RP_RESPONSE_SUCCESS)
                rp_response_set_code(target, code);
            rp_connection_commit(send->to.connection, size);
        }
    }
    if (outcome < 0) /* without an answer the producer would wait for its time-out */
        rp_server_close_connection(lane->server, rp_connection_id(send->to.connection));
}

/* Sends by the time from their arrival to here, in RocketMQ's classes. */
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
    rp_commit_log_append(lane->broker->commit_log, batch->items, batch->item_count);
    for (uint32_t i = 0; i < sends; i++)
        rp_send_respond(lane, &batch->sends[i]);
    int64_t took_ns = rp_clock_monotonic_ns(rp_clock_system()) - rp_reactor_now_ns(lane->reactor);
    took_ns = took_ns > 0 ? took_ns : 0;
    rp_histogram_record_count(lane->broker->put_ns, (uint64_t)took_ns, sends);
    rp_count(&lane->counters.put_ms[class_of_ms(took_ns / 1000000)], sends);
    batch->send_count = batch->item_count = 0;
    if (batch->item_capacity > RP_SEND_ITEMS) { /* a huge batch went through: give its room back */
        rp_append_item *items = realloc(batch->items, RP_SEND_ITEMS * sizeof *items);
        if (items != NULL)
            batch->items = items;
        batch->item_capacity = RP_SEND_ITEMS;
    }
}
