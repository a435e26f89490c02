/* timer_progress.c: the timer service's checkpoint, how a slave follows its master, and figures (timer_service.h).
 * RocketMQ: TimerMessageStore.prepareTimerCheckPoint, TimerFlushService, SlaveSynchronize.syncTimerCheckPoint (5.3.3).
 *
 * A checkpoint says that messages were delivered, so it is written only when the log has them on disk. The longer it cannot be written,
 * the more messages are delivered a second time after a kill; usually those of one second.
 */
#include "timer_service_inl.h"

#define FLUSH_WAIT_MS 1000
#define EXPIRE_INTERVAL_MS 30000

/* ---- the checkpoint ---- */

int rp_timer_wait_durable(rp_timer_service *service, uint32_t wait_ms, rp_error *error) {
    int64_t end = rp_commit_log_max_offset(service->broker->commit_log);
    int status = rp_message_store_wait_flushed(service->broker->store, end, wait_ms);
    if (status != RP_OK)
        return rp_error_set(error, status, 0, NULL, end, "the commit log is not on disk: %s", rp_status_text(status));
    return RP_OK;
}

static int flush(rp_timer_service *service, int64_t now_ms, bool is_clean, uint32_t wait_ms, rp_error *error) {
    rp_timer_files *files = rp_timer_files_of(service);
    int64_t queue_offset = rp_timer_get(&service->queue_offset);
    bool delivers = rp_timer_is_on(&service->delivers);
    int status = rp_timer_wait_durable(service, wait_ms, error);
    if (status != RP_OK)
        return status;
    rp_timer_progress progress = {
        .read_time_ms = rp_timer_move_done(service),
        .queue_offset = queue_offset,
        .master_queue_offset = delivers ? queue_offset : rp_timer_get(&service->master_queue_offset),
        .version_timestamp_ms = delivers ? now_ms : service->version_ms,
        .version_counter = service->version_counter + (delivers && service->is_changed),
    };
    status = rp_timer_files_flush(files, &progress, is_clean, error);
    if (status != RP_OK)
        return status;
    service->version_counter = progress.version_counter;
    service->version_ms = progress.version_timestamp_ms;
    service->is_changed = false;
    pthread_mutex_lock(&service->lock);
    rp_timer_checkpoint_encode(rp_timer_files_checkpoint(files), service->checkpoint);
    pthread_mutex_unlock(&service->lock);
    return RP_OK;
}

int rp_timer_flush_at_stop(rp_timer_service *service, int64_t now_ms, bool is_clean, rp_error *error) {
    return flush(service, now_ms, is_clean, RP_TIMER_STOP_WAIT_MS, error);
}

static void tell_progress(rp_timer_service *service) {
    uint64_t count =
        atomic_load_explicit(&service->entered, memory_order_relaxed) + atomic_load_explicit(&service->delivered, memory_order_relaxed);
    if (count == service->progress_count)
        return;
    service->progress_count = count;
    rp_log_write(service->broker->options.log, RP_LOG_INFO,
                 "timed messages: %" PRIu64 " entered, %" PRIu64 " delivered so far, %" PRId64 " wait", service->entered,
                 service->delivered, rp_timing_wheel_count(rp_timer_files_wheel(rp_timer_files_of(service))));
}

/* Is something due that is done every interval_ms? It is also due if the clock was set back, or it would not be done for long. */
static bool is_time(int64_t *again_ms, int64_t interval_ms, int64_t now_ms) {
    if (now_ms < *again_ms && *again_ms <= now_ms + interval_ms)
        return false;
    *again_ms = now_ms + interval_ms;
    return true;
}

void rp_timer_flush_sometimes(rp_timer_service *service, int64_t now_ms) {
    if (service->is_changed && is_time(&service->flush_again_ms, service->flush_interval_ms, now_ms))
        rp_timer_tell(service, &service->flush_refused, "the checkpoint of timed messages cannot be written",
                      flush(service, now_ms, false, FLUSH_WAIT_MS, NULL));
    if (service->delivery.chain == NULL && is_time(&service->expire_again_ms, EXPIRE_INTERVAL_MS, now_ms))
        (void)rp_timer_log_expire(rp_timer_files_log(rp_timer_files_of(service)), rp_commit_log_min_offset(service->broker->commit_log),
                                  NULL);
    if (service->progress_interval_ms > 0 && is_time(&service->progress_again_ms, service->progress_interval_ms, now_ms))
        tell_progress(service);
}

/* ---- a slave ---- */

void rp_timer_follow(rp_timer_service *service) {
    pthread_mutex_lock(&service->lock);
    bool has_followed = service->has_followed;
    rp_timer_checkpoint master = service->followed;
    service->has_followed = false;
    pthread_mutex_unlock(&service->lock);
    if (!has_followed || rp_timer_is_on(&service->delivers))
        return;
    rp_timing_wheel *wheel = rp_timer_files_wheel(rp_timer_files_of(service));
    int64_t read_ms = rp_timer_get(&service->read_ms), master_ms = rp_timer_floor(service, master.read_time_ms);
    for (int64_t at = rp_timing_wheel_next(wheel, read_ms); at >= 0 && at < master_ms; at = rp_timing_wheel_next(wheel, at))
        rp_timing_wheel_clear(wheel, at);
    service->is_changed = service->is_changed || master_ms != read_ms;
    rp_timer_set_read(service, master_ms);
    service->done_ms = master_ms;
    rp_timer_set(&service->master_queue_offset, master.master_queue_offset);
    service->version_counter = master.version_counter;
    service->version_ms = master.version_timestamp_ms;
}

int rp_broker_follow_timer_checkpoint(rp_broker *broker, const uint8_t *bytes, uint32_t size) {
    rp_timer_service *service = broker->timers;
    rp_timer_checkpoint master = {0};
    if (rp_timer_files_of(service) == NULL || rp_timer_is_on(&service->delivers))
        return RP_E_CLOSED;
    if (rp_timer_checkpoint_decode(bytes, size, &master) != RP_OK || master.read_time_ms < 0 || master.master_queue_offset < 0 ||
        master.read_time_ms > INT64_MAX / 2)
        return RP_E_PROTOCOL;
    pthread_mutex_lock(&service->lock);
    service->followed = master;
    service->has_followed = true;
    pthread_mutex_unlock(&service->lock);
    return RP_OK;
}

int rp_broker_read_timer_checkpoint(const rp_broker *broker, uint8_t bytes[RP_TIMER_CHECKPOINT_BYTES]) {
    rp_timer_service *service = broker->timers;
    if (rp_timer_files_of(service) == NULL)
        return 0;
    pthread_mutex_lock(&service->lock);
    memcpy(bytes, service->checkpoint, RP_TIMER_CHECKPOINT_BYTES);
    pthread_mutex_unlock(&service->lock);
    return 1;
}

/* ---- figures ---- */

static int64_t enqueue_behind_ms(rp_consume_queue *queue, int64_t offset, int64_t now_ms) {
    int64_t stored_ms = offset < rp_consume_queue_max_offset(queue) ? rp_consume_queue_time_at(queue, offset) : -1;
    return stored_ms >= 0 && stored_ms < now_ms ? now_ms - stored_ms : 0;
}

void rp_broker_read_timer_stats(const rp_broker *broker, rp_timer_stats *stats) {
    rp_timer_service *service = broker->timers;
    rp_timer_files *files = rp_timer_files_of(service);
    rp_consume_queue *queue = rp_timer_known_queue(service);
    *stats = (rp_timer_stats){
        .read_time_ms = rp_timer_get(&service->read_ms),
        .queue_offset = rp_timer_get(&service->queue_offset),
        .queue_max_offset = queue != NULL ? rp_consume_queue_max_offset(queue) : 0,
        .master_queue_offset = rp_timer_get(&service->master_queue_offset),
        .messages_waiting = files != NULL ? rp_timing_wheel_count(rp_timer_files_wheel(files)) : 0,
        .entered = atomic_load_explicit(&service->entered, memory_order_relaxed),
        .delivered = atomic_load_explicit(&service->delivered, memory_order_relaxed),
        .rolled = atomic_load_explicit(&service->rolled, memory_order_relaxed),
        .recalled = atomic_load_explicit(&service->recalled, memory_order_relaxed),
        .passed_over = atomic_load_explicit(&service->passed_over, memory_order_relaxed),
        .is_running = atomic_load_explicit(&service->is_running, memory_order_relaxed),
    };
    int64_t now_ms = files != NULL ? rp_clock_wall_ms(service->clock) : 0;
    if (files != NULL && queue != NULL)
        stats->enqueue_behind_ms = enqueue_behind_ms(queue, stats->queue_offset, now_ms);
    if (files != NULL && stats->read_time_ms < rp_timer_floor(service, now_ms))
        stats->dequeue_behind_ms = rp_timer_floor(service, now_ms) - stats->read_time_ms;
}

int64_t rp_broker_timers_between(const rp_broker *broker, int64_t begin_s, int64_t end_s) {
    rp_timer_service *service = broker->timers;
    rp_timer_files *files = rp_timer_files_of(service);
    int64_t count = 0, slots = files != NULL ? (end_s - begin_s) * 1000 / service->precision_ms : 0;
    int64_t begin_ms = files != NULL ? rp_timer_floor(service, rp_clock_wall_ms(service->clock)) + begin_s * 1000 : 0;
    for (int64_t i = 0; i < slots && i < RP_TIMING_WHEEL_SLOTS; i++)
        count += rp_timing_wheel_slot_count(rp_timer_files_wheel(files), begin_ms + i * service->precision_ms);
    return count;
}
