/* timer_enter.c: enters messages of the timer queue into timer log and wheel (timer_service.h).
 * RocketMQ: TimerMessageStore.enqueue, doEnqueue (5.3.3 store/timer/).
 *
 * Messages are entered one after the other, and the queue offset moves with each: the log holds exactly what lies before it. A message
 * that cannot be entered, for want of disk or memory, holds up those behind it until it can.
 */
#include "../base/hash.h"
#include "../base/slice_inl.h"
#include "timer_item.h"
#include "timer_metrics.h"
#include "timer_service_inl.h"

#define WINDOWS_IN_TIME 64 /* in one turn, while messages stored before this slot are not entered yet */
#define WINDOWS_AHEAD 4    /* once they are */

/* A slave rolls nothing that fits the wheel: if its clock were behind, it would roll messages that its master did not, and would miss
 * them when reading. */
static int32_t window_slots(const rp_timer_service *service) {
    return rp_timer_is_on(&service->delivers) ? service->window_slots : RP_TIMING_WHEEL_ROLL_WINDOW_MAX;
}

/* Returns when a message that is due beyond the used part of the wheel is to be rolled: at the end of that part, or half as far ahead if
 * it would have little left to wait at the end. */
static int64_t roll_time(const rp_timer_service *service, int64_t slot_ms) {
    int32_t slots = window_slots(service);
    int64_t window_ms = (int64_t)slots * service->precision_ms, left_ms = slot_ms - service->write_ms - window_ms;
    bool is_near = left_ms < (int64_t)(slots / 3) * service->precision_ms;
    return service->write_ms + (is_near ? (int64_t)(slots / 2) * service->precision_ms : window_ms);
}

static int put_into_wheel(rp_timer_service *service, const rp_queue_entry *queued, rp_slice topic, int64_t slot_ms, bool is_recall,
                          int64_t now_ms) {
    bool is_rolled = slot_ms - service->write_ms >= (int64_t)window_slots(service) * service->precision_ms;
    rp_timer_entry entry = {
        .due_ms = is_rolled ? roll_time(service, slot_ms) : slot_ms,
        .commit_log_offset = queued->commit_log_offset,
        .size = queued->size,
        .magic = RP_TIMER_DEFAULT | (is_rolled ? RP_TIMER_ROLL : 0) | (is_recall ? RP_TIMER_DELETE : 0),
        .topic_hash = rp_hash_java(topic.data, topic.size),
    };
    entry.write_time_ms = entry.due_ms < service->write_ms ? entry.due_ms : service->write_ms;
    int status = rp_timer_files_enter(rp_timer_files_of(service), &entry, NULL);
    if (status != RP_OK)
        return status;
    if (!is_recall)
        rp_timer_metrics_add(service->broker, topic, now_ms);
    rp_count(&service->entered, 1);
    return RP_OK;
}

/* For a message whose slot has been read already. *is_taken: the batch has the pin. */
static int deliver_late(rp_timer_service *service, const rp_message *message, void *pin, bool is_recall, int64_t now_ms, bool *is_taken) {
    uint32_t over = 0;
    if (is_recall || !rp_timer_is_on(&service->delivers)) /* what it would recall is gone; or the master has delivered it */
        return RP_OK;
    if (!rp_timer_is_on(&service->broker->settings.store_writable))
        return RP_E_CLOSED;
    int status = rp_timer_take(service, message, pin, RP_TIMER_DEFAULT, RP_TIMER_NEVER_ENTERED, now_ms);
    if (status != RP_OK)
        return status == RP_E_NOT_FOUND ? RP_OK : status;
    *is_taken = true;
    return rp_timer_append(service, &over);
}

static int place(rp_timer_service *service, int64_t queue_offset, const rp_queue_entry *queued, const rp_message *message, void *pin,
                 int64_t now_ms, bool *is_taken) {
    int64_t out_ms;
    if (rp_timer_out_ms(message->properties, &out_ms) != RP_OK) {
        rp_timer_pass_over(service, queued->commit_log_offset, "its property TIMER_OUT_MS is not a time", (rp_slice){NULL, 0});
        return RP_OK;
    }
    int64_t slot_ms = rp_timer_floor(service, out_ms), read_ms = rp_timer_get(&service->read_ms);
    /* Judged by the time, not by the slot, which was different while the files had another precision. */
    if (rp_timer_files_was_delivered(rp_timer_files_of(service), queue_offset, out_ms) || rp_timer_has_copy(service, message) ||
        rp_timer_was_passed_on(service, queue_offset, slot_ms))
        return RP_OK;
    bool is_recall = rp_message_property(message->properties, "TIMER_DEL_UNIQKEY").data != NULL;
    bool is_read = service->delivery.chain != NULL && slot_ms == read_ms; /* its chain is fixed by now */
    rp_slice name = rp_message_property(message->properties, "REAL_TOPIC");
    /* Looked up first: a message delivered at once has released its properties. */
    rp_topic *topic = is_recall || rp_timer_roll_times(message->properties) > 0 ? NULL : rp_topic_table_find(service->broker->topics, name);
    int status = slot_ms < read_ms || is_read ? deliver_late(service, message, pin, is_recall, now_ms, is_taken)
                                              : put_into_wheel(service, queued, name, slot_ms, is_recall, now_ms);
    if (status == RP_OK && topic != NULL)
        rp_durations_add(&topic->delays, rp_delay_seconds_max, message->born_timestamp_ms, out_ms);
    return status;
}

/* RP_OK: it is over; any other status: try again. */
static int enter_one(rp_timer_service *service, int64_t queue_offset, const rp_queue_entry *queued, int64_t now_ms) {
    rp_message message;
    void *pin;
    bool is_taken = false;
    int status = rp_timer_read_message(service, queued->commit_log_offset, queued->size, &message, &pin);
    if (status != RP_OK)
        return status == RP_E_NOT_FOUND ? RP_OK : status;
    status = place(service, queue_offset, queued, &message, pin, now_ms, &is_taken);
    if (!is_taken)
        rp_log_range_release(pin);
    return status;
}

/* Bounds the offset by what the queue has, or will have; what it had below is gone with its commit log. */
static int64_t position_of(rp_timer_service *service, rp_consume_queue *queue) {
    int64_t position = rp_timer_get(&service->queue_offset);
    int64_t min = rp_consume_queue_min_offset(queue), max = rp_consume_queue_next_offset(queue);
    int64_t corrected = position < min ? min : position > max ? max : position;
    if (corrected != position) {
        rp_log_write(service->broker->options.log, RP_LOG_WARNING,
                     "timed messages are entered from offset %" PRId64 " on instead of %" PRId64 ": their queue has %" PRId64
                     " to %" PRId64,
                     corrected, position, min, max);
        rp_timer_set(&service->queue_offset, corrected);
    }
    return corrected;
}

/* RP_OK, and 0: there was nothing. */
static int enter_window(rp_timer_service *service, rp_consume_queue *queue, int64_t end, int64_t now_ms, bool *is_over) {
    rp_queue_entry entries[RP_TIMER_WINDOW];
    int64_t position = position_of(service, queue);
    *is_over = position >= end;
    if (*is_over)
        return RP_OK;
    int64_t count = rp_consume_queue_read(queue, position, entries, RP_TIMER_WINDOW);
    if (count <= 0)
        return count < 0 ? (int)count : RP_E_NOT_FOUND;
    for (int64_t i = 0; i < count && position + i < end; i++) {
        int status = enter_one(service, position + i, &entries[i], now_ms);
        if (status != RP_OK)
            return status;
        rp_timer_set(&service->queue_offset, position + i + 1);
        service->is_changed = true;
    }
    return RP_OK;
}

static int64_t end_of(rp_timer_service *service, const rp_consume_queue *queue) {
    int64_t max = rp_consume_queue_max_offset(queue), master = rp_timer_get(&service->master_queue_offset);
    return rp_timer_is_on(&service->delivers) || max < master ? max : master;
}

/* RP_OK; any other status: try again. */
static int enter_some(rp_timer_service *service, rp_consume_queue *queue, int64_t end, int64_t now_ms, bool *is_over) {
    bool is_found = false;
    int status = rp_timer_find_copies(service, queue, &is_found);
    return status == RP_OK && is_found ? enter_window(service, queue, end, now_ms, is_over) : status;
}

int64_t rp_timer_enter(rp_timer_service *service, int64_t now_ms) {
    rp_consume_queue *queue = rp_timer_known_queue(service);
    if (queue == NULL || rp_timer_is_on(&service->broker->settings.timer_stop_enqueue))
        return RP_TIMER_NEXT_NEVER;
    int64_t end = end_of(service, queue), goal = service->entering_goal < end ? service->entering_goal : end;
    uint32_t windows = rp_timer_get(&service->queue_offset) < goal ? WINDOWS_IN_TIME : WINDOWS_AHEAD;
    bool is_over = false;
    for (uint32_t i = 0; i < windows && !is_over && !rp_timer_is_stopping(service); i++) {
        int status = enter_some(service, queue, end, now_ms, &is_over);
        rp_timer_tell(service, &service->enter_refused, "timed messages cannot be entered", status);
        if (status != RP_OK)
            return now_ms + (status == RP_E_CLOSED ? RP_TIMER_NOT_WRITABLE_MS : RP_TIMER_REFUSED_MS);
    }
    return is_over ? RP_TIMER_NEXT_NEVER : RP_TIMER_NEXT_AWAKE;
}

void rp_timer_enter_at_stop(rp_timer_service *service, int64_t now_ms) {
    rp_consume_queue *queue = rp_timer_known_queue(service);
    if (queue == NULL || rp_timer_is_on(&service->broker->settings.timer_stop_enqueue))
        return;
    int64_t until_ns = rp_clock_monotonic_ns(service->clock) + RP_TIMER_STOP_WAIT_MS * INT64_C(1000000), end = end_of(service, queue);
    bool is_over = false;
    int status = RP_OK;
    while (!is_over && status == RP_OK && rp_clock_monotonic_ns(service->clock) < until_ns)
        status = enter_some(service, queue, end, now_ms, &is_over);
    if (!is_over)
        rp_log_write(service->broker->options.log, RP_LOG_WARNING,
                     "%" PRId64 " timed messages are not in the wheel at this stop (%s): the next start enters them",
                     end - rp_timer_get(&service->queue_offset), status == RP_OK ? "they are too many" : rp_status_text(status));
}
