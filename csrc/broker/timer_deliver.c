/* timer_deliver.c: delivers messages from due slots to their topics (timer_service.h).
 * RocketMQ: TimerMessageStore.dequeue, doPut, convert (5.3.3 store/timer/).
 *
 * A slot is read twice: first its recalls, whose keys are kept, then its other messages in batches. A message that cannot be appended is
 * tried again, and the slots behind wait with it, until it is set aside (timer_aside.c); the others of its batch are not appended twice.
 */
#include <stdlib.h>
#include <string.h>

#include "../base/slice_inl.h"
#include "../store/light_targets.h"
#include "escape_bridge.h"
#include "light_copies.h"
#include "parked_responses.h"
#include "stored_message.h"
#include "target_queue.h"
#include "timer_item.h"
#include "timer_metrics.h"
#include "timer_service_inl.h"

#define BATCHES_IN_TURN 16
#define COMMIT_WAIT_MS 100 /* a stop waits this long for it */
#define ENTER_WAIT_MS 10   /* for the queue entries of rolled messages */

static const rp_slice nothing = {(const uint8_t *)"", 0};

/* ---- one message ---- */

void rp_timer_pass_over(rp_timer_service *service, int64_t log_offset, const char *why, rp_slice name) {
    rp_count(&service->passed_over, 1);
    rp_log_write(service->broker->options.log, RP_LOG_ERROR, "the timed message at log offset %" PRId64 " is not delivered: %s%.*s",
                 log_offset, why, (int)(name.size < 255 ? name.size : 255), name.size > 0 ? (const char *)name.data : "");
}

int rp_timer_read_message(rp_timer_service *service, int64_t log_offset, int32_t size, rp_message *message, void **pin) {
    rp_log_range range;
    rp_error error = {.message = "the log has no such record"};
    int status = size > 0 ? rp_commit_log_read(service->broker->commit_log, log_offset, (uint32_t)size, &range) : RP_E_RANGE;
    if (rp_status_is_passing(status))
        return status;
    if (status == RP_OK && rp_message_decode(range.address, range.size, RP_CHECK_BODY_CRC, message, &error) == RP_RECORD_MESSAGE &&
        message->physical_offset == log_offset && rp_slice_is(message->topic, RP_TIMER_TOPIC)) {
        *pin = range.pin;
        return RP_OK;
    }
    if (status == RP_OK)
        rp_log_range_release(range.pin);
    rp_timer_pass_over(service, log_offset, error.message, nothing);
    return RP_E_NOT_FOUND;
}

static int open_timer_queue(rp_timer_service *service, rp_timer_outgoing *out, rp_append_item *item) {
    out->topic = service->topic;
    return rp_timer_open_queue(service, &item->queue);
}

static int open_target_queue(rp_timer_service *service, const rp_message *message, int64_t now_ms, rp_timer_outgoing *out,
                             rp_append_item *item) {
    rp_target_queue target;
    int status = rp_target_queue_open(service->broker, message->properties, &target);
    if (rp_target_is_none(status)) {
        rp_timer_pass_over(service, message->physical_offset, rp_target_refusal(status), target.name);
        return RP_E_NOT_FOUND;
    }
    out->topic = target.topic;
    item->queue = target.queue;
    return status == RP_OK ? rp_timer_try_queue(service, target.queue, now_ms) : status;
}

/* Tries its light queues as well as its own: an append's status does not say which one failed. */
static int try_light_queues(rp_timer_service *service, const rp_append_item *item, int64_t now_ms) {
    int status = RP_OK;
    for (uint32_t i = 0; item->light != NULL && i < item->light->count && status == RP_OK; i++)
        status = rp_timer_try_queue(service, item->light->targets[i].queue, now_ms);
    return status;
}

/* A message on its way out of a slot, or of the timer queue. */
typedef struct leaving {
    const rp_message *message;
    void *pin;
    int64_t enqueue_ms, now_ms;
    int64_t aside_ms; /* until when it is set aside; 0: it is not */
    bool is_rolled;
} leaving;

static uint8_t *put_properties(uint8_t *text, const leaving *one) {
    rp_slice waited = one->message->properties;
    if (one->aside_ms > 0)
        return rp_timer_put_set_aside(text, waited, one->aside_ms, one->enqueue_ms, one->now_ms);
    return one->is_rolled ? rp_timer_put_rolled(text, waited, one->enqueue_ms, one->now_ms)
                          : rp_timer_put_delivered(text, waited, one->enqueue_ms, one->now_ms);
}

static int take(rp_timer_service *service, const leaving *one) {
    rp_timer_outgoing *out = &service->outgoing[service->outgoing_count];
    rp_append_item *item = &service->items[service->outgoing_count];
    const rp_message *message = one->message;
    *item = rp_item_of_message(message);
    int64_t own_slot_ms = rp_timer_get(&service->read_ms), due_ms = RP_TIMER_NEXT_NEVER, out_ms;
    if (rp_timer_out_ms(message->properties, &out_ms) == RP_OK)
        due_ms = rp_timer_floor(service, out_ms);
    *out = (rp_timer_outgoing){
        .name = rp_message_property(message->properties, "REAL_TOPIC"),
        .log_offset = message->physical_offset,
        .queue_offset = message->queue_offset,
        .slot_ms = due_ms < own_slot_ms ? due_ms : own_slot_ms,
        .magic = one->is_rolled ? RP_TIMER_ROLL : RP_TIMER_DEFAULT,
        .is_late = one->enqueue_ms == RP_TIMER_NEVER_ENTERED,
    };
    int status = one->is_rolled || one->aside_ms > 0 ? open_timer_queue(service, out, item)
                                                     : open_target_queue(service, message, one->now_ms, out, item);
    if (status != RP_OK)
        return status;
    out->text = malloc((size_t)message->properties.size + RP_TIMER_TEXT_ROOM);
    if (out->text == NULL)
        return RP_E_NO_MEMORY;
    item->properties[0] = (rp_slice){out->text, (uint32_t)(put_properties(out->text, one) - out->text)};
    status = rp_copy_to_light_queues(service->broker, item, &out->light);
    if (status == RP_OK)
        status = try_light_queues(service, item, one->now_ms);
    if (status != RP_OK) {
        free(out->text);
        free(out->light);
        return status;
    }
    out->pin = one->pin;
    service->outgoing_count++;
    if (one->is_rolled && due_ms < service->rolled_from_ms)
        service->rolled_from_ms = due_ms;
    return RP_OK;
}

int rp_timer_take(rp_timer_service *service, const rp_message *message, void *pin, int32_t magic, int64_t enqueue_ms, int64_t now_ms) {
    leaving one = {message, pin, enqueue_ms, now_ms, 0, (magic & RP_TIMER_ROLL) != 0};
    int status = take(service, &one);
    if (status != RP_E_IO || one.is_rolled)
        return status;
    one.aside_ms = rp_timer_set_aside(service, message, now_ms);
    return one.aside_ms > 0 ? take(service, &one) : status;
}

/* Topics that do not exist have no counters. */
static void count_stored(rp_timer_service *service, rp_topic *topic, const rp_append_item *item) {
    rp_count(topic == service->topic ? &service->rolled : &service->delivered, 1);
    if (topic == NULL || item->size == 0) /* another broker stored it */
        return;
    rp_count_put_inside(service->broker, topic, RP_MESSAGE_DELAY, item->size);
    if (topic != service->topic)
        rp_count(&topic->timers_out, 1);
}

int rp_timer_append(rp_timer_service *service, uint32_t *over) {
    int refused = RP_OK;
    rp_escape_append(service->broker, service->items, service->outgoing_count);
    for (uint32_t i = 0; i < service->outgoing_count; i++) {
        const rp_append_item *item = &service->items[i];
        rp_timer_outgoing *out = &service->outgoing[i];
        if (item->status == RP_OK) {
            count_stored(service, out->topic, item);
            if (out->topic == service->topic && item->size > 0)
                service->rolled_end = item->queue_offset + 1;
        } else if (item->status == RP_E_TOO_LARGE) {
            rp_timer_pass_over(service, out->log_offset, "its record does not fit into the log any more; it was sent to topic ", out->name);
        } else if (item->status == RP_E_INVALID && !out->is_late && rp_escape_is_on(service->broker)) {
            int status = rp_timer_keep_aside(service, out, over);
            refused = refused == RP_OK ? status : refused;
        } else {
            refused = refused == RP_OK ? item->status : refused;
            service->refusals.asks_queues = service->refusals.asks_queues || item->status == RP_E_IO;
        }
        if (item->status == RP_OK || item->status == RP_E_TOO_LARGE)
            *over |= UINT32_C(1) << out->index;
        rp_log_range_release(out->pin);
        free(out->text);
        free(out->light);
    }
    service->outgoing_count = 0;
    return refused;
}

/* ---- a slot's records ---- */

static bool is_over(const rp_timer_delivery *delivery) {
    return delivery->count == 0 || delivery->over == UINT32_MAX >> (RP_TIMER_WINDOW - delivery->count);
}

/* Makes sure that there are records that are not over. RP_OK: there are, or *is_at_end; RP_E_TIMEOUT: one step of the walk was made;
 * RP_E_CORRUPT; any other status: try again. */
static int fill(rp_timer_delivery *delivery, bool *is_at_end, rp_error *error) {
    *is_at_end = false;
    if (!is_over(delivery))
        return RP_OK;
    delivery->count = delivery->over = 0;
    int64_t count = rp_timer_chain_read(delivery->chain, delivery->kind, delivery->records, RP_TIMER_WINDOW, error);
    if (count < 0)
        return (int)count;
    delivery->count = (uint32_t)count;
    if (count > 0)
        return RP_OK;
    *is_at_end = rp_timer_chain_is_at_end(delivery->chain);
    return *is_at_end ? RP_OK : RP_E_TIMEOUT;
}

static void close_slot(rp_timer_delivery *delivery) {
    rp_timer_chain_close(delivery->chain);
    rp_key_set_clear(&delivery->recalled);
    rp_key_set_clear(&delivery->taken);
    delivery->chain = NULL;
    delivery->count = delivery->over = 0;
    delivery->has_begun = false;
}

static void finish_slot(rp_timer_service *service) {
    int64_t read_ms = rp_timer_get(&service->read_ms);
    close_slot(&service->delivery);
    service->keeps_slots = service->keeps_slots || service->aside.count > 0;
    if (service->aside.count == 0)
        rp_timing_wheel_clear(rp_timer_files_wheel(rp_timer_files_of(service)), read_ms);
    rp_timer_set_read(service, read_ms + service->precision_ms);
    service->is_changed = true;
}

/* ---- recalls ---- */

static int take_recall(rp_timer_service *service, const rp_timer_record *record) {
    rp_message message;
    void *pin;
    int status = rp_timer_read_message(service, record->commit_log_offset, record->size, &message, &pin);
    if (status != RP_OK)
        return status == RP_E_NOT_FOUND ? RP_OK : status;
    rp_slice key = rp_message_property(message.properties, "TIMER_DEL_UNIQKEY");
    rp_slice topic = rp_message_property(message.properties, "REAL_TOPIC");
    status = topic.size > 0 ? rp_key_set_add_recalled(&service->delivery.recalled, topic, key) : RP_OK;
    rp_log_range_release(pin);
    return status;
}

static int take_recalls(rp_timer_service *service) {
    rp_timer_delivery *delivery = &service->delivery;
    for (uint32_t i = 0; i < delivery->count; i++) {
        int status = delivery->over >> i & 1 ? RP_OK : take_recall(service, &delivery->records[i].record);
        if (status != RP_OK)
            return status;
        delivery->over |= UINT32_C(1) << i;
    }
    return RP_OK;
}

static bool is_recalled(const rp_timer_service *service, rp_slice properties) {
    return rp_key_set_has_recalled(&service->delivery.recalled, rp_message_property(properties, "REAL_TOPIC"),
                                   rp_message_property(properties, "UNIQ_KEY"));
}

/* ---- the others ---- */

/* Takes one record into the batch. RP_OK; RP_E_NOT_FOUND: it is over; any other status: try again. */
static int take_due(rp_timer_service *service, uint32_t index, int64_t now_ms) {
    const rp_timer_record *record = &service->delivery.records[index].record;
    rp_message message;
    void *pin;
    int status = rp_timer_read_message(service, record->commit_log_offset, record->size, &message, &pin);
    if (status != RP_OK)
        return status;
    bool is_rolled = (record->magic & RP_TIMER_ROLL) != 0, is_recall = !is_rolled && is_recalled(service, message.properties);
    bool may_be_gone = !is_rolled || rp_escape_is_on(service->broker); /* in the latter case it is rolled at the other master */
    bool is_gone = is_recall || (may_be_gone && rp_timer_was_passed_on(service, message.queue_offset, rp_timer_get(&service->read_ms)));
    if (is_recall)
        rp_count(&service->recalled, 1);
    int comes_second = is_gone || is_rolled ? 0 : rp_timer_comes_second(service, &message);
    status = is_gone || comes_second > 0 ? RP_E_NOT_FOUND
             : comes_second < 0          ? comes_second
                                         : rp_timer_take(service, &message, pin, record->magic, record->write_time_ms, now_ms);
    if (status == RP_OK)
        service->outgoing[service->outgoing_count - 1].index = index;
    if (status == RP_E_NOT_FOUND)
        rp_timer_metrics_remove(service->broker, rp_message_property(message.properties, "REAL_TOPIC"), now_ms);
    if (status != RP_OK)
        rp_log_range_release(pin);
    return status;
}

/* Updates the counters for bits set since `before`, while the texts still exist. */
static int append_batch(rp_timer_service *service, int64_t now_ms) {
    rp_timer_delivery *delivery = &service->delivery;
    rp_topic *topics[RP_TIMER_WINDOW];
    uint32_t count = service->outgoing_count, before = delivery->over, indexes[RP_TIMER_WINDOW];
    for (uint32_t i = 0; i < count; i++) {
        bool is_recall = (delivery->records[service->outgoing[i].index].record.magic & RP_TIMER_DELETE) != 0;
        topics[i] = is_recall ? NULL : rp_topic_table_find(service->broker->topics, service->outgoing[i].name);
        indexes[i] = service->outgoing[i].index;
    }
    int status = rp_timer_append(service, &delivery->over);
    for (uint32_t i = 0; i < count; i++) {
        if (topics[i] != NULL && ((delivery->over & ~before) >> indexes[i] & 1))
            rp_timer_metrics_remove(service->broker, topics[i]->head.name, now_ms);
    }
    delivery->has_begun = delivery->has_begun || delivery->over != 0;
    delivery->end_offset = rp_commit_log_max_offset(service->broker->commit_log);
    return status;
}

/* Delivers records that are not over, as many as fit a batch. RP_OK; any other status: try again. */
static int deliver_batch(rp_timer_service *service, int64_t now_ms) {
    rp_timer_delivery *delivery = &service->delivery;
    int64_t bytes = 0;
    int refused = RP_OK;
    for (uint32_t i = 0; i < delivery->count; i++) {
        if (delivery->over >> i & 1)
            continue;
        bytes += delivery->records[i].record.size;
        if (service->outgoing_count > 0 && bytes > RP_TIMER_BYTES_MAX)
            break;
        int status = take_due(service, i, now_ms);
        if (status == RP_E_NOT_FOUND)
            delivery->over |= UINT32_C(1) << i;
        else if (status != RP_OK)
            refused = refused == RP_OK ? status : refused;
    }
    int status = service->outgoing_count > 0 ? append_batch(service, now_ms) : RP_OK;
    service->is_changed = true;
    return refused != RP_OK ? refused : status;
}

/* ---- slots ---- */

/* Returns up to where slots are read. Rolled messages must be entered before their slot is read, or its recalls would not apply to them. */
static int64_t end_of_reading(rp_timer_service *service, int64_t now_slot_ms) {
    bool enters = !rp_timer_is_on(&service->broker->settings.timer_stop_enqueue);
    if (!enters || rp_timer_get(&service->queue_offset) >= service->rolled_end)
        service->rolled_from_ms = RP_TIMER_NEXT_NEVER;
    return service->rolled_from_ms < now_slot_ms ? service->rolled_from_ms : now_slot_ms;
}

/* Opens the first slot that is due. RP_OK, and *is_none: there is none, because all that are due have been read; RP_E_NO_MEMORY. */
static int open_slot(rp_timer_service *service, int64_t now_ms, bool *is_none) {
    rp_timer_files *files = rp_timer_files_of(service);
    int64_t read_ms = rp_timer_get(&service->read_ms), end_ms = end_of_reading(service, rp_timer_floor(service, now_ms));
    int64_t next_ms = read_ms < end_ms ? rp_timing_wheel_next(rp_timer_files_wheel(files), read_ms) : -1;
    rp_timer_slot slot;
    *is_none = next_ms < 0 || next_ms >= end_ms || !rp_timing_wheel_slot(rp_timer_files_wheel(files), next_ms, &slot);
    if (*is_none) {
        if (read_ms < end_ms)
            rp_timer_set_read(service, end_ms);
        return RP_OK;
    }
    rp_timer_set_read(service, next_ms);
    rp_key_set_init(&service->delivery.recalled, (uint64_t)rp_clock_monotonic_ns(rp_clock_system()));
    rp_key_set_init(&service->delivery.taken, (uint64_t)rp_clock_monotonic_ns(rp_clock_system()));
    service->delivery.kind = RP_TIMER_CHAIN_RECALLS;
    service->delivery.leadership = rp_leadership(service->broker);
    return rp_timer_chain_open(rp_timer_files_log(files), &slot, service->precision_ms, &service->delivery.chain, NULL);
}

/* Waits until what a slot has delivered is committed, so that the slot may be emptied. Otherwise the next leader might take it back, and
 * this one, elected again, would have nothing to deliver. */
static int wait_committed(rp_timer_service *service, int64_t wait_ms) {
    const rp_timer_delivery *delivery = &service->delivery;
    return delivery->has_begun ? rp_broker_wait_committed(service->broker, delivery->leadership, delivery->end_offset, wait_ms) : RP_OK;
}

/* Makes one step within the open slot. RP_OK, RP_E_TIMEOUT: there may be more; otherwise as fill. */
static int step(rp_timer_service *service, int64_t now_ms, rp_error *error) {
    rp_timer_delivery *delivery = &service->delivery;
    bool is_at_end;
    int status = fill(delivery, &is_at_end, error);
    if (status != RP_OK)
        return status;
    if (!is_at_end)
        return delivery->kind == RP_TIMER_CHAIN_RECALLS ? take_recalls(service) : deliver_batch(service, now_ms);
    if (delivery->kind == RP_TIMER_CHAIN_OTHERS) {
        status = wait_committed(service, COMMIT_WAIT_MS);
        if (status == RP_OK)
            finish_slot(service);
        return status == RP_E_TIMEOUT ? RP_E_BUSY : status;
    }
    delivery->kind = RP_TIMER_CHAIN_OTHERS;
    rp_timer_chain_rewind(delivery->chain);
    return RP_OK;
}

/* RP_OK, RP_E_TIMEOUT: there may be more; RP_E_NOT_FOUND: there is nothing; any other status: try again. */
static int deliver_some(rp_timer_service *service, int64_t now_ms) {
    rp_error error = {.message = ""};
    bool is_none = false;
    int status = service->delivery.chain == NULL ? open_slot(service, now_ms, &is_none) : RP_OK;
    if (status != RP_OK || is_none)
        return is_none ? RP_E_NOT_FOUND : status;
    status = step(service, now_ms, &error);
    if (status != RP_E_CORRUPT)
        return status;
    close_slot(&service->delivery);
    return rp_timer_make_anew(service, &error, now_ms);
}

/* If entering is refused, it reports that itself on its next try. */
static bool waits_for_entering(const rp_timer_service *service, int64_t now_ms) {
    return service->rolled_from_ms < rp_timer_floor(service, now_ms) && !service->enter_refused;
}

int64_t rp_timer_deliver(rp_timer_service *service, int64_t now_ms) {
    if (rp_timer_is_on(&service->broker->settings.timer_stop_dequeue))
        return RP_TIMER_NEXT_NEVER;
    if (!rp_timer_is_on(&service->broker->settings.store_writable))
        return now_ms + RP_TIMER_NOT_WRITABLE_MS;
    for (uint32_t i = 0; i < BATCHES_IN_TURN && !rp_timer_is_stopping(service); i++) {
        int status = deliver_some(service, now_ms);
        bool is_well = status == RP_OK || status == RP_E_TIMEOUT || status == RP_E_NOT_FOUND;
        rp_timer_tell(service, &service->deliver_refused, "timed messages cannot be delivered", is_well ? RP_OK : status);
        if (status == RP_E_NOT_FOUND)
            return waits_for_entering(service, now_ms) ? now_ms + ENTER_WAIT_MS : RP_TIMER_NEXT_NEVER;
        if (!is_well) /* over the bridge each try is a request to another master */
            return now_ms + (rp_escape_is_on(service->broker) ? RP_TIMER_NOT_WRITABLE_MS : RP_TIMER_REFUSED_MS);
    }
    return RP_TIMER_NEXT_AWAKE;
}

/* ---- a stop within a slot ---- */

/* Puts messages that could not be delivered, while others behind them were, at the end of their slot, where its recalls still apply and
 * nobody takes them for delivered. *first: where the first of them is now; RP_TIMER_NO_POSITION: there are none. */
static int put_behind_refused(rp_timer_service *service, int64_t *first, rp_error *error) {
    rp_timer_delivery *delivery = &service->delivery;
    rp_timer_files *files = rp_timer_files_of(service);
    *first = RP_TIMER_NO_POSITION;
    for (uint32_t i = 0; i < delivery->count && delivery->over >> i != 0; i++) {
        const rp_timer_record *record = &delivery->records[i].record;
        if (delivery->over >> i & 1)
            continue;
        rp_timer_entry entry = {
            .due_ms = rp_timer_get(&service->read_ms),
            .write_time_ms = rp_timer_get(&service->read_ms),
            .commit_log_offset = record->commit_log_offset,
            .size = record->size,
            .magic = record->magic,
            .topic_hash = record->topic_hash,
        };
        int status = rp_timer_files_enter(files, &entry, error);
        if (status != RP_OK)
            return status;
        *first = *first == RP_TIMER_NO_POSITION ? rp_timer_log_last(rp_timer_files_log(files)) : *first;
        delivery->over |= UINT32_C(1) << i;
    }
    return RP_OK;
}

int rp_timer_leave_slot(rp_timer_service *service, rp_error *error) {
    rp_timer_delivery *delivery = &service->delivery;
    bool is_at_end = false;
    int status = RP_OK;
    if (delivery->chain != NULL && delivery->has_begun) {
        int64_t position = RP_TIMER_NO_POSITION;
        if (wait_committed(service, RP_TIMER_STOP_WAIT_MS) != RP_OK) { /* the slot stays whole, and is delivered once more */
            close_slot(delivery);
            return RP_OK;
        }
        status = rp_timer_wait_durable(service, RP_TIMER_STOP_WAIT_MS, error); /* nobody will read what is cut off */
        if (status == RP_OK)
            status = put_behind_refused(service, &position, error);
        while (status == RP_OK && (status = fill(delivery, &is_at_end, error)) == RP_E_TIMEOUT)
            status = RP_OK; /* the chain ends here */
        if (status == RP_OK && !is_at_end)
            position = delivery->records[__builtin_ctz(~delivery->over)].position;
        if (status == RP_OK && position == RP_TIMER_NO_POSITION)
            finish_slot(service);
        else if (status == RP_OK)
            status = rp_timer_files_cut_slot(rp_timer_files_of(service), rp_timer_get(&service->read_ms), position, error);
    }
    if (delivery->chain != NULL)
        close_slot(delivery);
    return status;
}
