/* schedule_service.c: see schedule_service.h. */
#include "schedule_service.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../base/log_inl.h"
#include "../store/light_queue.h"
#include "../store/light_targets.h"
#include "../store/message.h"
#include "escape_bridge.h"
#include "light_copies.h"
#include "property_text.h"
#include "schedule_service_inl.h"
#include "stored_message.h"
#include "target_queue.h"

#define REFUSED_MS 100     /* until the next try of what could not be appended */
#define CLOCK_STEP_MS 1000 /* a wall clock set forward is noticed within this time; one set back by less is ignored */

/* ---- decisions ---- */

/* When an entry is due. One that lies further away than its level's delay was stored before the clock was set back, and is due now, unless
 * the clock was only corrected by less than CLOCK_STEP_MS. */
static int64_t due_ms(const rp_delay_level *level, int64_t tags_code, int64_t now_ms) {
    return tags_code > now_ms + level->delay_ms + CLOCK_STEP_MS ? now_ms : tags_code;
}

static int64_t end_of(const rp_delay_level *level) {
    const rp_consume_queue *queue = rp_schedule_queue_of(level);
    return queue != NULL ? rp_consume_queue_max_offset(queue) : 0;
}

/* ---- one message ---- */

static void pass_over(rp_schedule_service *service, const rp_queue_entry *entry, const char *why, rp_slice name) {
    rp_log_write(service->broker->options.log, RP_LOG_ERROR,
                 "the delayed message at log offset %" PRId64 " (%d bytes) is not delivered: %s%.*s", entry->commit_log_offset, entry->size,
                 why, (int)(name.size < 255 ? name.size : 255), (const char *)name.data);
}

static const rp_slice nothing = {(const uint8_t *)"", 0};

/* Sets the properties, without the CRC that ended the old record and without RocketMQ's offsets in light queues; the record's own if
 * neither is present. RP_OK, RP_E_NO_MEMORY. */
static int set_properties(rp_append_item *item, rp_due_message *due, rp_slice properties) {
    static const char *const replaced[] = {"__CRC32#", RP_LIGHT_OFFSETS, NULL};
    item->properties[0] = properties;
    if (rp_message_property(properties, replaced[0]).data == NULL && rp_message_property(properties, replaced[1]).data == NULL)
        return RP_OK;
    due->text = malloc((size_t)properties.size + 1);
    if (due->text == NULL)
        return RP_E_NO_MEMORY;
    item->properties[0] = (rp_slice){due->text, (uint32_t)(rp_copy_pairs_without(due->text, properties, replaced) - due->text)};
    return RP_OK;
}

/* Makes the message as it was sent, for the queue it was sent to. RP_OK; RP_E_NOT_FOUND: there is no such queue, which is logged; any
 * other status, RP_E_NO_MEMORY included: try again. */
static int make_item(rp_schedule_service *service, const rp_queue_entry *entry, const rp_message *message, rp_due_message *due,
                     rp_append_item *item) {
    rp_target_queue target;
    int status = rp_target_queue_open(service->broker, message->properties, &target);
    if (rp_target_is_none(status)) {
        pass_over(service, entry, rp_target_refusal(status), target.name);
        return RP_E_NOT_FOUND;
    }
    if (status != RP_OK)
        return status;
    *item = rp_item_of_message(message);
    item->queue = target.queue;
    due->topic = target.topic;
    status = set_properties(item, due, message->properties);
    if (status == RP_OK)
        status = rp_copy_to_light_queues(service->broker, item, &due->light);
    if (status != RP_OK)
        free(due->text);
    return status;
}

/* Takes one entry into the batch. RP_OK; RP_E_NOT_FOUND: it is over; any other status: try again. */
static int take(rp_schedule_service *service, const rp_queue_entry *entry, uint32_t index) {
    rp_log_range range;
    rp_message message;
    rp_error error = {.message = "the log has no such record"};
    rp_due_message *due = &service->due[service->count];
    *due = (rp_due_message){.index = index};
    int status = rp_commit_log_read(service->broker->commit_log, entry->commit_log_offset, (uint32_t)entry->size, &range);
    if (rp_status_is_passing(status))
        return status;
    if (status != RP_OK || rp_message_decode(range.address, range.size, RP_CHECK_BODY_CRC, &message, &error) != RP_RECORD_MESSAGE) {
        pass_over(service, entry, error.message, nothing);
        if (status == RP_OK)
            rp_log_range_release(range.pin);
        return RP_E_NOT_FOUND;
    }
    status = make_item(service, entry, &message, due, &service->items[service->count]);
    if (status != RP_OK) {
        rp_log_range_release(range.pin);
        return status;
    }
    due->pin = range.pin;
    service->count++;
    return RP_OK;
}

void rp_schedule_take(rp_schedule_service *service, rp_schedule_window *window, uint32_t index) {
    int status = take(service, &window->entries[index], index);
    if (status == RP_E_NOT_FOUND)
        window->over |= UINT32_C(1) << index;
    else if (status == RP_E_IO) /* its record cannot be read, or a queue cannot be created */
        window->stuck |= UINT32_C(1) << index;
    else if (window->refused == RP_OK)
        window->refused = status;
}

/* ---- the append ---- */

static void count_delivered(rp_broker *broker, rp_topic *topic, const rp_append_item *item) {
    if (topic == NULL || item->size == 0) /* another broker stored it */
        return;
    rp_count_put_inside(broker, topic, RP_MESSAGE_DELAY, item->size);
}

/* An append's status does not say whether the message's queues or the commit log failed. */
static bool is_queue_broken(rp_schedule_service *service, const rp_append_item *item) {
    rp_commit_log *log = service->broker->commit_log;
    int status = rp_commit_log_try_queue(log, item->queue);
    for (uint32_t i = 0; item->light != NULL && i < item->light->count && status == RP_OK; i++)
        status = rp_commit_log_try_queue(log, item->light->targets[i].queue);
    return status == RP_E_IO;
}

/* Is it this message that cannot be stored? RP_E_INVALID: other masters refuse it (escaping_messages.h). */
static bool is_stuck(rp_schedule_service *service, const rp_append_item *item) {
    return item->status == RP_E_INVALID || (item->status == RP_E_IO && is_queue_broken(service, item));
}

static void settle(rp_schedule_service *service, rp_schedule_window *window, const rp_due_message *due, const rp_append_item *item) {
    uint32_t bit = UINT32_C(1) << due->index;
    if (item->status == RP_OK) {
        count_delivered(service->broker, due->topic, item);
        window->over |= bit;
    } else if (item->status == RP_E_TOO_LARGE) {
        pass_over(service, &window->entries[due->index], "its record does not fit into the log any more", nothing);
        window->over |= bit;
    } else if (is_stuck(service, item)) {
        window->stuck |= bit;
    } else {
        window->refused = window->refused == RP_OK ? item->status : window->refused;
    }
}

void rp_schedule_append(rp_schedule_service *service, rp_schedule_window *window) {
    rp_escape_append(service->broker, service->items, service->count);
    for (uint32_t i = 0; i < service->count; i++) {
        rp_due_message *due = &service->due[i];
        settle(service, window, due, &service->items[i]);
        rp_log_range_release(due->pin);
        free(due->text);
        free(due->light);
    }
    service->count = 0;
}

/* ---- a level ---- */

static void tell_refused(rp_schedule_service *service, rp_delay_level *level, int status) {
    if (!level->is_refused)
        rp_log_write(service->broker->options.log, RP_LOG_WARNING,
                     "delayed messages of level %d cannot be delivered: %s; it is tried again", rp_schedule_number_of(service, level),
                     rp_status_text(status));
    level->is_refused = true;
}

static void tell_goes_on(rp_schedule_service *service, rp_delay_level *level) {
    if (level->is_refused)
        rp_log_write(service->broker->options.log, RP_LOG_WARNING, "delayed messages of level %d are delivered again",
                     rp_schedule_number_of(service, level));
    level->is_refused = false;
}

/* Takes the due entries of the window. Returns when to look again; RP_SCHEDULE_AWAKE: at once, although there may be no more. */
static int64_t take_due(rp_schedule_service *service, const rp_delay_level *level, rp_schedule_window *window, uint32_t count,
                        int64_t now_ms) {
    int64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t due = due_ms(level, window->entries[i].tags_code, now_ms);
        if (due > now_ms)
            return due;
        if (level->over >> i & 1)
            continue;
        if (service->count > 0 && bytes + window->entries[i].size > RP_SCHEDULE_BYTES_MAX)
            return RP_SCHEDULE_AWAKE;
        bytes += window->entries[i].size;
        rp_schedule_take(service, window, i);
    }
    return RP_SCHEDULE_AWAKE;
}

/* Delivers due messages of a level, one window from `position` on. Returns when to look again; RP_SCHEDULE_AWAKE: at once. */
static int64_t deliver_due(rp_schedule_service *service, rp_delay_level *level, int64_t position) {
    rp_schedule_window window = {.refused = RP_OK};
    int64_t count = rp_consume_queue_read(rp_schedule_queue_of(level), position, window.entries, RP_SCHEDULE_WINDOW);
    /* Read after the entries: compared with an earlier time, an entry that has just arrived would look as if the clock had been set
     * back. */
    int64_t now_ms = rp_schedule_now_ms();
    if (count <= 0) {
        tell_refused(service, level, count < 0 ? (int)count : RP_E_NOT_FOUND);
        return now_ms + RP_SCHEDULE_NOT_WRITABLE_MS;
    }
    if (due_ms(level, window.entries[0].tags_code, now_ms) > now_ms)
        return window.entries[0].tags_code;
    if (!atomic_load_explicit(&service->broker->settings.store_writable, memory_order_relaxed))
        return now_ms + RP_SCHEDULE_NOT_WRITABLE_MS;
    int64_t next = take_due(service, level, &window, (uint32_t)count, now_ms);
    if (service->count > 0)
        rp_schedule_append(service, &window);
    int kept = rp_schedule_move_on(service, level, &window, now_ms), status = window.refused != RP_OK ? window.refused : kept;
    if (status == RP_OK) {
        tell_goes_on(service, level);
        return next;
    }
    tell_refused(service, level, status);
    /* Each try of a stuck message costs another master a request. */
    return now_ms + (kept == RP_OK ? REFUSED_MS : RP_SCHEDULE_NOT_WRITABLE_MS);
}

/* As deliver_due, including what is set aside. *is_empty: nothing in the level waits for its time. */
static int64_t deliver(rp_schedule_service *service, rp_delay_level *level, bool *is_empty) {
    int64_t position = rp_schedule_position(service, level);
    *is_empty = position >= end_of(level);
    int64_t next = *is_empty ? RP_SCHEDULE_NEVER : deliver_due(service, level, position);
    return level->aside.count > 0 ? rp_schedule_earlier(next, rp_schedule_try_aside(service, level)) : next;
}

/* ---- the thread ---- */

/* Checks levels that were empty: seen is where they ended; RP_SCHEDULE_NO_POSITION for the others, whose arrivals are due later than
 * what they have. */
static bool has_arrivals(const rp_schedule_service *service, const int64_t *seen) {
    for (int32_t i = 1; i <= service->level_max; i++) {
        if (seen[i] != RP_SCHEDULE_NO_POSITION && end_of(&service->levels[i]) != seen[i])
            return true;
    }
    return false;
}

/* Sleeps until `next`, or until something is stored that is due earlier. An append either sees looks_again_ms, or its entry is seen
 * here. */
static bool rest(rp_schedule_service *service, int64_t next, const int64_t *seen) {
    pthread_mutex_lock(&service->lock);
    atomic_store(&service->looks_again_ms, next);
    atomic_thread_fence(memory_order_seq_cst);
    bool is_roused = has_arrivals(service, seen);
    int64_t wait_ms = next - rp_schedule_now_ms();
    struct timespec until = rp_deadline_after(CLOCK_MONOTONIC, wait_ms < 0 ? 0 : (uint64_t)rp_schedule_earlier(wait_ms, CLOCK_STEP_MS));
    while (!is_roused && !service->roused && !service->stopping) {
        if (next == RP_SCHEDULE_NEVER)
            pthread_cond_wait(&service->woken, &service->lock);
        else if (pthread_cond_timedwait(&service->woken, &service->lock, &until) != 0)
            break;
    }
    service->roused = false;
    atomic_store(&service->looks_again_ms, RP_SCHEDULE_AWAKE);
    bool goes_on = !service->stopping;
    pthread_mutex_unlock(&service->lock);
    return goes_on;
}

static bool is_stopping(rp_schedule_service *service) {
    pthread_mutex_lock(&service->lock);
    bool stopping = service->stopping;
    pthread_mutex_unlock(&service->lock);
    return stopping;
}

static void run(void *context) {
    rp_schedule_service *service = context;
    int64_t seen[RP_DELAY_LEVELS_MAX + 1];
    for (bool goes_on = true; goes_on;) {
        int64_t next = RP_SCHEDULE_NEVER;
        for (int32_t i = 1; i <= service->level_max; i++) {
            seen[i] = end_of(&service->levels[i]);
            bool is_empty;
            next = rp_schedule_earlier(next, deliver(service, &service->levels[i], &is_empty));
            seen[i] = is_empty ? seen[i] : RP_SCHEDULE_NO_POSITION;
        }
        goes_on = next == RP_SCHEDULE_AWAKE ? !is_stopping(service) : rest(service, next, seen);
    }
}

void rp_schedule_stored(rp_schedule_service *service, int64_t due_at_ms) {
    atomic_thread_fence(memory_order_seq_cst); /* the entry was published before this */
    if (due_at_ms >= atomic_load(&service->looks_again_ms))
        return;
    pthread_mutex_lock(&service->lock);
    service->roused = true;
    pthread_cond_signal(&service->woken);
    pthread_mutex_unlock(&service->lock);
}

void rp_schedule_arrived(rp_schedule_service *service) { rp_schedule_stored(service, RP_SCHEDULE_AWAKE + 1); }

/* ---- open and close ---- */

static rp_slice schedule_topic_name(void) { return (rp_slice){(const uint8_t *)RP_DELAY_TOPIC, sizeof RP_DELAY_TOPIC - 1}; }

rp_schedule_service *rp_schedule_service_create(rp_broker *broker) {
    rp_schedule_service *service = calloc(1, sizeof *service);
    if (service == NULL)
        return NULL;
    service->broker = broker;
    pthread_mutex_init(&service->lock, NULL);
    pthread_mutex_init(&service->position_lock, NULL);
    rp_monotonic_cond_init(&service->woken);
    atomic_store(&service->looks_again_ms, RP_SCHEDULE_AWAKE);
    service->topic = rp_topic_table_entry(broker->topics, schedule_topic_name());
    service->level_max = rp_message_store_delay_level_max(broker->store);
    for (int32_t i = 1; i <= service->level_max; i++) {
        rp_delay_level *level = &service->levels[i];
        level->delay_ms = rp_message_store_delay_ms(broker->store, i);
        level->reached = RP_SCHEDULE_NO_POSITION;
        atomic_store_explicit(&level->position, RP_SCHEDULE_NO_POSITION, memory_order_relaxed);
        atomic_store_explicit(&level->queue, rp_message_store_delay_queue(broker->store, i, 0, NULL), memory_order_release);
    }
    if (service->topic == NULL) {
        rp_schedule_service_destroy(service);
        return NULL;
    }
    return service;
}

void rp_schedule_service_destroy(rp_schedule_service *service) {
    if (service == NULL)
        return;
    rp_broker_stop_delivery(service->broker);
    pthread_cond_destroy(&service->woken);
    pthread_mutex_destroy(&service->position_lock);
    pthread_mutex_destroy(&service->lock);
    for (int32_t i = 1; i <= service->level_max; i++)
        rp_set_aside_clear(&service->levels[i].aside);
    free(service);
}

/* Looks again at what arrived with a master's log, and what another master has delivered meanwhile. */
static void look_anew(rp_schedule_service *service, int32_t number) {
    rp_delay_level *level = &service->levels[number];
    pthread_mutex_lock(&service->lock);
    if (rp_schedule_queue_of(level) == NULL)
        atomic_store_explicit(&level->queue, rp_message_store_delay_queue(service->broker->store, number, 0, NULL), memory_order_release);
    pthread_mutex_unlock(&service->lock);
    rp_schedule_forget_window(service, level);
    rp_schedule_position(service, level); /* before the first message arrives: a position one past the end would skip it */
}

int rp_broker_start_delivery(rp_broker *broker, rp_error *error) {
    rp_schedule_service *service = broker->schedule;
    if (service->thread != NULL)
        return RP_OK;
    for (int32_t i = 1; i <= service->level_max; i++)
        look_anew(service, i);
    service->stopping = false;
    int status = rp_thread_start(&service->thread, "schedule", run, service);
    return status == RP_OK
               ? RP_OK
               : rp_error_set(error, status, 0, NULL, -1, "no thread to deliver delayed messages: %s", rp_thread_refusal(status));
}

void rp_broker_stop_delivery(rp_broker *broker) {
    rp_schedule_service *service = broker->schedule;
    if (service == NULL || service->thread == NULL)
        return;
    pthread_mutex_lock(&service->lock);
    service->stopping = true;
    pthread_cond_signal(&service->woken);
    pthread_mutex_unlock(&service->lock);
    rp_thread_join(service->thread);
    service->thread = NULL;
}

/* ---- for others ---- */

int32_t rp_schedule_level(const rp_schedule_service *service, int64_t level) {
    return level < 1 ? 1 : (int32_t)rp_schedule_earlier(level, service->level_max);
}

/* NULL: a bound is reached, or no memory. */
static rp_consume_queue *make_queue(rp_schedule_service *service, int32_t level) {
    rp_delay_level *known = &service->levels[level];
    pthread_mutex_lock(&service->lock);
    rp_consume_queue *queue = rp_schedule_queue_of(known);
    if (queue == NULL) {
        queue = rp_message_store_delay_queue(service->broker->store, level, 1, NULL);
        atomic_store_explicit(&known->queue, queue, memory_order_release);
    }
    pthread_mutex_unlock(&service->lock);
    return queue;
}

int rp_schedule_open_queue(rp_schedule_service *service, int32_t level, rp_delay_queue *queue) {
    rp_consume_queue *known = rp_schedule_queue_of(&service->levels[level]);
    if (known == NULL && (known = make_queue(service, level)) == NULL)
        return RP_E_IO;
    *queue = (rp_delay_queue){known, service->levels[level].delay_ms};
    if (rp_consume_queue_max_offset(known) == 0 && rp_message_store_prepare_queue(service->broker->store, known, NULL) != RP_OK)
        return RP_E_IO;
    return RP_OK;
}

rp_topic *rp_schedule_topic(rp_schedule_service *service) { return service->topic; }
