/* send_timed.c: see send_timed.h. */
#include "send_timed.h"

#include <inttypes.h>
#include <string.h>

#include "../store/topic_prefix_inl.h"
#include "forbidden_topics.h"
#include "lane.h"
#include "response_writer_inl.h"
#include "timer_item.h"

#define FIELDS_OF(request) (request)->lane->broker->send_fields, RP_SEND_FIELD_COUNT

/* ---- refusals, in RocketMQ's words ---- */

static int answer_not_enabled(const rp_send_request *request) {
    return rp_answer(request->to, RP_RESPONSE_SYSTEM_ERROR, FIELDS_OF(request),
                     "accurate timer message is not enabled, timerWheelEnable is false");
}

static int answer_illegal_time(const rp_send_request *request) {
    int64_t delay_max_ms = atomic_load_explicit(&request->lane->broker->settings.timer_delay_max_ms, memory_order_relaxed);
    return rp_answer(request->to, RP_RESPONSE_MESSAGE_ILLEGAL, FIELDS_OF(request),
                     "timer message illegal, the delay time should not be bigger than the max delay %" PRId64
                     "ms; or if set del msg, the delay time should be bigger than the current time",
                     delay_max_ms);
}

static int answer_flow_control(const rp_send_request *request) {
    int64_t bound = atomic_load_explicit(&request->lane->broker->settings.timer_slot_messages_max, memory_order_relaxed);
    return rp_answer(request->to, RP_RESPONSE_SYSTEM_ERROR, FIELDS_OF(request),
                     "timer message is under flow control, max num limit is %" PRId64 " or the current value is greater than %" PRId64
                     " and less than %" PRId64 ", trigger random flow control",
                     bound * 2, bound, bound * 2);
}

static int answer_too_large(const rp_send_request *request) {
    return rp_answer(request->to, RP_RESPONSE_MESSAGE_ILLEGAL, FIELDS_OF(request),
                     "the message is illegal: its properties leave no room for those that a message with a timer gets");
}

static int answer_forbidden(const rp_send_request *request) {
    rp_slice topic = request->header.topic;
    return rp_answer(request->to, RP_RESPONSE_NO_PERMISSION, FIELDS_OF(request), "Sending message to topic[%.*s] is forbidden.",
                     (int)topic.size, (const char *)topic.data);
}

/* ---- into the timer queue ---- */

/* Writes the properties that the message has while it waits. RP_OK; RP_E_NO_MEMORY; RP_E_TOO_LARGE: they do not fit, or will not when
 * the message is put again because it waits for longer than the wheel reaches. */
static int write_properties(rp_send_request *request) {
    rp_slice sent = request->properties.text, topic = request->header.topic;
    uint8_t *start = rp_arena_take(rp_reactor_arena(request->lane->reactor), (size_t)sent.size + topic.size + RP_TIMER_TEXT_ROOM);
    if (start == NULL)
        return RP_E_NO_MEMORY;
    uint8_t *end = rp_timer_put_waiting(start, sent, request->out_ms, topic, request->queue_id);
    request->properties.text = (rp_slice){start, (uint32_t)(end - start)};
    return (end - start) + request->lane->broker->property_tail.size + RP_TIMER_ROLL_ROOM > RP_PROPERTIES_SIZE_MAX ? RP_E_TOO_LARGE : RP_OK;
}

static int put_into_timer_queue(rp_send_request *request) {
    rp_timer_service *timers = request->lane->broker->timers;
    if (rp_timer_open_queue(timers, &request->queue) != RP_OK)
        return rp_answer(request->to, RP_RESPONSE_SYSTEM_ERROR, FIELDS_OF(request), "create mapped file failed, server is busy or broken.");
    int status = write_properties(request);
    if (status != RP_OK)
        return status == RP_E_TOO_LARGE ? answer_too_large(request) : status;
    request->topic = rp_timer_topic(timers);
    return RP_OK;
}

int rp_send_wait_for_time(rp_send_request *request) {
    rp_timer_service *timers = request->lane->broker->timers;
    uint32_t permille = (uint32_t)(rp_lane_random(request->lane) % 1000);
    int when = rp_timer_when(timers, request->properties.text, permille, &request->out_ms);
    if (when == RP_TIMER_IS_LATER)
        return rp_topic_is_forbidden(request->header.topic) ? answer_forbidden(request) : put_into_timer_queue(request);
    request->out_ms = -1;
    if (when == RP_TIMER_IS_NOW)
        return RP_E_NOT_FOUND;
    return when == RP_E_UNSUPPORTED ? answer_not_enabled(request)
           : when == RP_E_BUSY      ? answer_flow_control(request)
                                    : answer_illegal_time(request);
}

/* ---- the handle ---- */

static uint8_t *put_text(uint8_t *at, const void *text, size_t size) {
    memcpy(at, text, size);
    return at + size;
}

/* Encodes base64 with RFC 4648's alphabet for URLs, padded: four bytes for each three. */
static uint8_t *put_base64(uint8_t *at, const uint8_t *bytes, size_t size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        uint32_t group = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) | (left > 2 ? bytes[i + 2] : 0);
        *at++ = (uint8_t)digits[group >> 18];
        *at++ = (uint8_t)digits[group >> 12 & 63];
        *at++ = left > 1 ? (uint8_t)digits[group >> 6 & 63] : '=';
        *at++ = left > 2 ? (uint8_t)digits[group & 63] : '=';
    }
    return at;
}

int rp_send_make_recall_handle(const rp_send_request *request, rp_slice *handle) {
    const char *broker_name = request->lane->broker->options.broker_name;
    rp_slice topic = request->header.topic, key = request->properties.unique_key;
    *handle = (rp_slice){NULL, 0};
    if (rp_is_retry_topic(topic))
        return RP_OK;
    size_t name_size = strlen(broker_name), room = topic.size + name_size + key.size + 32;
    uint8_t *start = rp_arena_take(rp_reactor_arena(request->lane->reactor), room + room / 3 * 4 + 8);
    if (start == NULL)
        return RP_E_NO_MEMORY;
    uint8_t *at = put_text(start, "v1 ", 3);
    at = put_text(put_text(at, topic.data, topic.size), " ", 1);
    at = put_text(put_text(at, broker_name, name_size), " ", 1);
    at = put_text(rp_decimal(at, request->out_ms + 1), " ", 1); /* the time that the sender named; its slot is the one before */
    at = put_text(at, key.data, key.size);
    uint8_t *text = at;
    *handle = (rp_slice){text, (uint32_t)(put_base64(text, start, (size_t)(at - start)) - text)};
    return RP_OK;
}
