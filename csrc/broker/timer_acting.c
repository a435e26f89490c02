/* timer_acting.c: on a slave that acts for its master, sets aside timed messages that the other masters refuse (timer_service.h), so
 * that the slots behind them are delivered.
 * RocketMQ: TimerMessageStore.doPut with EscapeBridge (5.3.3 store/timer/, broker/failover/), which tries the first of them without end.
 *
 *   done_ms: the slot of the first that is set aside … read_ms: slots before it are read
 *
 * A slave cannot append them to the timer queue again, as a master does (timer_aside.c), and what must not be lost cannot be kept in
 * memory only. So its checkpoint says done_ms, and the slots from there on stay in the wheel: a restarted slave delivers them once more,
 * and so does a master that knows only the checkpoint. A master that asks is told read_ms and which messages are set aside. A message
 * that was late when it was entered is in no slot, and waits in the queue: senders cannot cause that, but clocks that jump can.
 */
#include "escape_bridge.h"
#include "timer_item.h"
#include "timer_service_inl.h"

void rp_timer_begin(rp_timer_service *service) {
    pthread_mutex_lock(&service->lock);
    rp_set_aside_clear(&service->aside);
    pthread_mutex_unlock(&service->lock);
    rp_timer_set_read(service, service->done_ms);
    service->keeps_slots = false;
    service->rolled_from_ms = RP_TIMER_NEXT_NEVER;
    service->rolled_end = 0;
}

/* Slot of the first message set aside. There are few of them, unless the topic of many is gone. */
static int64_t first_slot_ms(const rp_timer_service *service) {
    int64_t first_ms = rp_timer_get(&service->read_ms);
    for (uint32_t i = 0; i < service->aside.count; i++)
        first_ms = service->aside.entries[i].slot_ms < first_ms ? service->aside.entries[i].slot_ms : first_ms;
    return first_ms;
}

int64_t rp_timer_move_done(rp_timer_service *service) {
    rp_timing_wheel *wheel = rp_timer_files_wheel(rp_timer_files_of(service));
    int64_t done_ms = first_slot_ms(service), at = service->keeps_slots ? service->done_ms : INT64_MAX;
    while (at < done_ms && (at = rp_timing_wheel_next(wheel, at)) >= 0 && at < done_ms)
        rp_timing_wheel_clear(wheel, at);
    service->keeps_slots = service->keeps_slots && service->aside.count > 0;
    service->done_ms = done_ms;
    return done_ms;
}

/* ---- set aside ---- */

static rp_set_aside_entry *find(const rp_timer_service *service, int64_t queue_offset) {
    for (uint32_t i = 0; i < service->aside.count; i++) {
        if (service->aside.entries[i].offset == queue_offset)
            return &service->aside.entries[i];
    }
    return NULL;
}

int rp_timer_keep_aside(rp_timer_service *service, const rp_timer_outgoing *out, uint32_t *over) {
    int64_t now_ms = rp_clock_wall_ms(service->clock);
    uint32_t before = service->aside.count;
    pthread_mutex_lock(&service->lock);
    int status = rp_set_aside_add(&service->aside, out->queue_offset, now_ms);
    if (service->aside.count > before) {
        rp_set_aside_entry *entry = find(service, out->queue_offset);
        entry->slot_ms = out->slot_ms;
        entry->magic = out->magic;
        *over |= UINT32_C(1) << out->index; /* over for its slot; a message that was tried again stays set aside */
    }
    pthread_mutex_unlock(&service->lock);
    if (status == RP_OK && before == 0)
        rp_log_write(service->broker->options.log, RP_LOG_ERROR,
                     "the other masters refuse the timed message at log offset %" PRId64
                     " of topic %.*s: it and others like it are set aside "
                     "and tried again, less and less often; look whether they have its topic",
                     out->log_offset, (int)(out->name.size < 255 ? out->name.size : 255), (const char *)out->name.data);
    return status;
}

/* ---- tried again ---- */

/* RP_OK: it is in the batch; RP_E_NOT_FOUND: it is over; any other status: try again. */
static int take(rp_timer_service *service, int64_t queue_offset, uint32_t index, int64_t now_ms) {
    rp_queue_entry entry;
    rp_message message;
    void *pin;
    rp_consume_queue *queue = rp_timer_known_queue(service);
    if (queue == NULL || queue_offset < rp_consume_queue_min_offset(queue))
        return RP_E_NOT_FOUND;
    if (rp_consume_queue_read(queue, queue_offset, &entry, 1) != 1)
        return RP_E_IO;
    int status = rp_timer_read_message(service, entry.commit_log_offset, entry.size, &message, &pin);
    if (status != RP_OK)
        return status;
    const rp_set_aside_entry *known = find(service, queue_offset);
    status = rp_timer_take(service, &message, pin, known->magic, known->slot_ms, now_ms);
    if (status != RP_OK)
        rp_log_range_release(pin);
    else
        service->outgoing[service->outgoing_count - 1].index = index;
    return status;
}

int64_t rp_timer_try_aside(rp_timer_service *service, int64_t now_ms) {
    int64_t offsets[RP_TIMER_WINDOW];
    uint32_t count = rp_set_aside_due(&service->aside, now_ms, offsets, RP_TIMER_WINDOW), over = 0;
    for (uint32_t i = 0; i < count; i++)
        over |= (uint32_t)(take(service, offsets[i], i, now_ms) == RP_E_NOT_FOUND) << i;
    if (service->outgoing_count > 0)
        (void)rp_timer_append(service, &over);
    pthread_mutex_lock(&service->lock);
    for (uint32_t i = 0; i < count; i++) {
        if (over >> i & 1)
            rp_set_aside_remove(&service->aside, offsets[i]);
        else
            rp_set_aside_postpone(&service->aside, offsets[i], now_ms);
    }
    pthread_mutex_unlock(&service->lock);
    service->is_changed = service->is_changed || over != 0;
    return service->aside.count > 0 ? rp_set_aside_next_ms(&service->aside) : RP_TIMER_NEXT_NEVER;
}

/* ---- for the master that returns ---- */

uint32_t rp_broker_read_timers_aside(const rp_broker *broker, int64_t *read_ms, int64_t *offsets) {
    rp_timer_service *service = broker->timers;
    uint32_t count = 0;
    *read_ms = 0;
    if (rp_timer_files_of(service) == NULL)
        return 0;
    *read_ms = atomic_load_explicit(&service->read_ms, memory_order_acquire); /* read first: what is set aside later lies behind it */
    pthread_mutex_lock(&service->lock);
    for (; count < service->aside.count; count++)
        offsets[count] = service->aside.entries[count].offset;
    pthread_mutex_unlock(&service->lock);
    return count;
}
