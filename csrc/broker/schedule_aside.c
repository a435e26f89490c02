/* schedule_aside.c: sets aside delayed messages that cannot be delivered, so that those behind them can be (set_aside.h). Also the
 * position of a level, as it is written to its file and reported to slaves and to a returning master.
 * RocketMQ: ScheduleMessageService.DeliverDelayedMessageTimerTask (5.3.3 broker/schedule/), where the first such message stops its
 * level.
 *
 * The position stays at the first message that is set aside. A reader that knows only the position loses nothing, but delivers again
 * what was delivered behind it; one that also knows `reached` and the offsets set aside delivers nothing twice.
 */
#include <inttypes.h>

#include "../base/log_inl.h"
#include "escape_bridge.h"
#include "schedule_service_inl.h"

/* ---- positions ---- */

/* Under position_lock. */
static void publish(rp_delay_level *level) {
    int64_t first = level->aside.count > 0 ? level->aside.entries[0].offset : level->reached;
    atomic_store_explicit(&level->position, rp_schedule_earlier(first, level->reached), memory_order_release);
}

static void go_to(rp_schedule_service *service, rp_delay_level *level, int64_t reached) {
    pthread_mutex_lock(&service->position_lock);
    level->reached = reached;
    rp_set_aside_end_at(&level->aside, reached);
    publish(level);
    pthread_mutex_unlock(&service->position_lock);
}

int64_t rp_schedule_position(rp_schedule_service *service, rp_delay_level *level) {
    const rp_consume_queue *queue = rp_schedule_queue_of(level);
    int64_t from = level->reached > 0 ? level->reached : 0;
    int64_t min = queue != NULL ? rp_consume_queue_min_offset(queue) : 0, max = queue != NULL ? rp_consume_queue_next_offset(queue) : 0;
    int64_t corrected = from < min ? min : from > max ? max : from;
    if (corrected != from) {
        rp_log_write(service->broker->options.log, RP_LOG_ERROR,
                     "delay level %d goes on at offset %" PRId64 " instead of %" PRId64 ": its queue has %" PRId64 " to %" PRId64,
                     rp_schedule_number_of(service, level), corrected, from, min, max);
        level->over = 0;
        go_to(service, level, corrected);
    }
    return corrected;
}

void rp_schedule_forget_window(rp_schedule_service *service, rp_delay_level *level) {
    level->over = 0; /* it counted from a position that may have been changed since */
    go_to(service, level, level->reached);
}

/* ---- set aside ---- */

static void tell_aside(rp_schedule_service *service, rp_delay_level *level, const rp_queue_entry *entry) {
    if (!level->is_told_aside)
        rp_log_write(service->broker->options.log, RP_LOG_ERROR,
                     "the delayed message at log offset %" PRId64 " of level %d cannot go where it is to go: it and others like it are set "
                     "aside and tried again, less and less often; %s",
                     entry->commit_log_offset, rp_schedule_number_of(service, level),
                     rp_escape_is_on(service->broker) ? "the other masters refuse it: look whether they have its topic"
                                                      : "look at the directory of its topic, and at those of the light queues it names");
    level->is_told_aside = true;
}

static void tell_all_gone(rp_schedule_service *service, rp_delay_level *level) {
    if (level->is_told_aside && level->aside.count == 0) {
        rp_log_write(service->broker->options.log, RP_LOG_WARNING, "delayed messages of level %d that were set aside have been delivered",
                     rp_schedule_number_of(service, level));
        level->is_told_aside = false;
    }
}

int rp_schedule_move_on(rp_schedule_service *service, rp_delay_level *level, const rp_schedule_window *window, int64_t now_ms) {
    int status = RP_OK;
    level->over |= window->over;
    pthread_mutex_lock(&service->position_lock);
    int64_t begin = level->reached > 0 ? level->reached : 0;
    for (uint32_t i = 0; i < RP_SCHEDULE_WINDOW && status == RP_OK; i++) {
        if (!(window->stuck >> i & 1))
            continue;
        status = rp_set_aside_add(&level->aside, begin + i, now_ms);
        if (status == RP_OK)
            level->over |= UINT32_C(1) << i;
    }
    for (level->reached = begin; level->over & 1; level->over >>= 1)
        level->reached++;
    publish(level);
    pthread_mutex_unlock(&service->position_lock);
    if (window->stuck != 0)
        tell_aside(service, level, &window->entries[__builtin_ctz(window->stuck)]);
    return status;
}

/* ---- tried again ---- */

/* Reads the entry at offset into the window. A message that retention has removed counts as over. */
static void read_entry(rp_delay_level *level, int64_t offset, rp_schedule_window *window, uint32_t index) {
    int64_t count = rp_consume_queue_read(rp_schedule_queue_of(level), offset, &window->entries[index], 1);
    if (count != 1)
        *(offset < rp_consume_queue_min_offset(rp_schedule_queue_of(level)) ? &window->over : &window->stuck) |= UINT32_C(1) << index;
}

static uint32_t take_aside(rp_schedule_service *service, rp_delay_level *level, const int64_t *offsets, uint32_t count,
                           rp_schedule_window *window) {
    int64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        read_entry(level, offsets[i], window, i);
        if ((window->over | window->stuck) >> i & 1)
            continue;
        bytes += window->entries[i].size;
        if (service->count > 0 && bytes > RP_SCHEDULE_BYTES_MAX)
            return i;
        rp_schedule_take(service, window, i);
    }
    return count;
}

static void settle(rp_schedule_service *service, rp_delay_level *level, const int64_t *offsets, uint32_t count,
                   const rp_schedule_window *window, int64_t now_ms) {
    pthread_mutex_lock(&service->position_lock);
    for (uint32_t i = 0; i < count; i++) {
        if (window->over >> i & 1)
            rp_set_aside_remove(&level->aside, offsets[i]);
        else
            rp_set_aside_postpone(&level->aside, offsets[i], now_ms);
    }
    publish(level);
    pthread_mutex_unlock(&service->position_lock);
}

int64_t rp_schedule_try_aside(rp_schedule_service *service, rp_delay_level *level) {
    int64_t offsets[RP_SCHEDULE_WINDOW], now_ms = rp_schedule_now_ms();
    rp_schedule_window window = {.over = 0};
    uint32_t count = rp_set_aside_due(&level->aside, now_ms, offsets, RP_SCHEDULE_WINDOW);
    if (count == 0)
        return level->aside.count > 0 ? rp_set_aside_next_ms(&level->aside) : RP_SCHEDULE_NEVER;
    if (!atomic_load_explicit(&service->broker->settings.store_writable, memory_order_relaxed))
        return now_ms + RP_SCHEDULE_NOT_WRITABLE_MS;
    count = take_aside(service, level, offsets, count, &window);
    if (service->count > 0)
        rp_schedule_append(service, &window);
    settle(service, level, offsets, count, &window, rp_schedule_now_ms());
    tell_all_gone(service, level);
    return level->aside.count > 0 ? rp_set_aside_next_ms(&level->aside) : RP_SCHEDULE_NEVER;
}

/* ---- for others ---- */

static rp_delay_level *level_of(const rp_broker *broker, int32_t level) {
    return level >= 1 && level <= broker->schedule->level_max ? &broker->schedule->levels[level] : NULL;
}

int rp_broker_put_delay_offset(rp_broker *broker, int32_t level, int64_t offset) {
    return rp_broker_put_delay_aside(broker, level, offset, NULL, 0);
}

int rp_broker_put_delay_aside(rp_broker *broker, int32_t level, int64_t reached, const int64_t *offsets, uint32_t count) {
    rp_delay_level *known = level_of(broker, level);
    int status = known == NULL || reached < 0 ? RP_E_INVALID : RP_OK;
    for (uint32_t i = 0; i < count && status == RP_OK; i++)
        status = offsets[i] < 0 || offsets[i] >= reached ? RP_E_INVALID : RP_OK;
    if (status != RP_OK)
        return status;
    pthread_mutex_lock(&broker->schedule->position_lock);
    rp_set_aside_clear(&known->aside);
    for (uint32_t i = 0; i < count && status == RP_OK; i++)
        status = rp_set_aside_add(&known->aside, offsets[i], 0); /* tried at once */
    known->reached = status == RP_OK || known->aside.count == 0 ? reached : known->aside.entries[0].offset;
    rp_set_aside_end_at(&known->aside, known->reached);
    publish(known);
    pthread_mutex_unlock(&broker->schedule->position_lock);
    return status;
}

int rp_broker_read_delay_offset(const rp_broker *broker, int32_t level, int64_t *offset, int64_t *max_offset) {
    const rp_delay_level *known = level_of(broker, level);
    if (known == NULL)
        return RP_E_NOT_FOUND;
    const rp_consume_queue *queue = rp_schedule_queue_of(known);
    *offset = atomic_load_explicit(&known->position, memory_order_acquire);
    *max_offset = queue != NULL ? rp_consume_queue_max_offset(queue) : 0;
    return RP_OK;
}

uint32_t rp_broker_read_delay_aside(const rp_broker *broker, int32_t level, int64_t *reached, int64_t *offsets) {
    rp_delay_level *known = level_of(broker, level);
    uint32_t count = 0;
    if (known == NULL)
        return 0;
    pthread_mutex_lock(&broker->schedule->position_lock);
    *reached = known->reached;
    for (; count < known->aside.count && known->aside.entries[count].offset < known->reached; count++) {
        if (offsets != NULL)
            offsets[count] = known->aside.entries[count].offset;
    }
    pthread_mutex_unlock(&broker->schedule->position_lock);
    return count;
}
