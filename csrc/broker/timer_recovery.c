/* timer_recovery.c: decides where entering and delivering continue after a start (timer_service.h).
 * RocketMQ: TimerMessageStore.recover, reviseQueueOffset (5.3.3 store/timer/).
 *
 * The files mend themselves (timer_files.h); this file decides what that means for messages.
 */
#include "stored_message.h"
#include "timer_metrics.h"
#include "timer_service_inl.h"

/* Finds the queue offset behind the message of the log's last record. RP_OK, and *offset 0 if there is none, or the commit log no longer
 * has it. */
static int offset_behind_log(rp_timer_service *service, int64_t *offset, rp_error *error) {
    rp_timer_record record;
    rp_stored_message stored;
    *offset = 0;
    int found = rp_timer_files_last(rp_timer_files_of(service), &record, error);
    if (found <= 0)
        return found;
    int status = rp_stored_message_open(service->broker->commit_log, record.commit_log_offset, &stored);
    if (rp_status_is_passing(status))
        return rp_error_set(error, status, 0, NULL, record.commit_log_offset, "the last timed message that was entered cannot be read");
    if (status != RP_OK)
        return RP_OK;
    *offset = stored.message.queue_offset + 1;
    rp_stored_message_close(&stored);
    return RP_OK;
}

/* No checkpoint says more than the log had on disk, so this one belongs to another store, or to a log that is gone. */
static bool is_beyond_queue(rp_timer_service *service, int64_t offset) {
    const rp_consume_queue *queue = rp_timer_known_queue(service);
    int64_t end = queue != NULL ? rp_consume_queue_next_offset(queue) : 0;
    if (offset <= end)
        return false;
    rp_log_write(service->broker->options.log, RP_LOG_ERROR,
                 "the checkpoint of timed messages (config/timercheck) says that those below offset %" PRId64
                 " are in the timer log, and their queue ends at %" PRId64 ": what lies behind the log's last one is entered again",
                 offset, end);
    return true;
}

/* The checkpoint's offset may lie behind the log's, for messages that needed no record; but it must not be used if the log lost some. */
static int find_queue_offset(rp_timer_service *service, const rp_timer_checkpoint *checkpoint, int64_t *offset, rp_error *error) {
    *offset = 0;
    int state = rp_timer_files_state_of(rp_timer_files_of(service));
    int status = state == RP_TIMER_FILES_GOOD || state == RP_TIMER_FILES_SHORT ? offset_behind_log(service, offset, error) : RP_OK;
    if (state == RP_TIMER_FILES_GOOD && *offset < checkpoint->queue_offset && !is_beyond_queue(service, checkpoint->queue_offset))
        *offset = checkpoint->queue_offset;
    return status;
}

/* Without a checkpoint nobody knows what was delivered: then everything that a wheel can hold is, in its slots, so that recalls still
 * apply. */
static int64_t find_read_time(rp_timer_service *service, const rp_timer_checkpoint *checkpoint, int64_t now_ms) {
    int64_t now_slot_ms = rp_timer_floor(service, now_ms);
    rp_consume_queue *queue = rp_timer_known_queue(service);
    if (checkpoint->is_there && checkpoint->read_time_ms > 0)
        return rp_timer_floor(service, checkpoint->read_time_ms);
    if (queue == NULL || rp_consume_queue_max_offset(queue) == rp_consume_queue_min_offset(queue))
        return now_slot_ms;
    rp_log_write(service->broker->options.log, RP_LOG_WARNING,
                 "there is no checkpoint of timed messages: those whose time is over are delivered, perhaps once more");
    return rp_timer_floor(service, now_ms - (int64_t)RP_TIMING_WHEEL_ROLL_WINDOW_MAX * service->precision_ms);
}

int rp_timer_recover(rp_timer_service *service, int64_t now_ms, rp_error *error) {
    const rp_timer_checkpoint *checkpoint = rp_timer_files_checkpoint(rp_timer_files_of(service));
    int64_t queue_offset, read_ms = find_read_time(service, checkpoint, now_ms);
    int status = find_queue_offset(service, checkpoint, &queue_offset, error);
    if (status != RP_OK)
        return status;
    rp_timer_set(&service->queue_offset, queue_offset);
    rp_timer_set_read(service, read_ms);
    service->done_ms = read_ms;
    rp_timer_set(&service->master_queue_offset, checkpoint->master_queue_offset);
    service->version_counter = checkpoint->version_counter;
    service->version_ms = checkpoint->version_timestamp_ms;
    service->write_ms = 0;
    service->keeps_slots = false;
    service->rolled_from_ms = RP_TIMER_NEXT_NEVER;
    service->rolled_end = 0;
    service->copies.is_begun = false;
    rp_key_set_clear(&service->copies.originals);
    pthread_mutex_lock(&service->lock);
    rp_set_aside_clear(&service->aside); /* they are met again in their slots */
    rp_timer_checkpoint_encode(checkpoint, service->checkpoint);
    pthread_mutex_unlock(&service->lock);
    rp_timer_count_anew(service, now_ms);
    return RP_OK;
}

void rp_timer_count_anew(rp_timer_service *service, int64_t now_ms) {
    rp_error error = {.message = ""};
    if (rp_timer_metrics_recount(service->broker, rp_timer_files_of(service), rp_timer_get(&service->read_ms), now_ms, &error) != RP_OK)
        rp_log_write(service->broker->options.log, RP_LOG_WARNING, "timed messages are not all counted: %s", error.message);
}

int rp_timer_make_anew(rp_timer_service *service, const rp_error *why, int64_t now_ms) {
    rp_error error = {.message = ""};
    if (!service->anew_refused)
        rp_log_write(service->broker->options.log, RP_LOG_ERROR,
                     "wheel and timer log are made again from the messages that wait, of which none is lost: %s", why->message);
    (void)rp_timer_flush_at_stop(service, now_ms, false,
                                 NULL); /* what was delivered by now is not delivered again, as far as that is known */
    int status = rp_timer_files_make_anew(rp_timer_files_of(service), &error);
    if (status == RP_OK)
        status = rp_timer_recover(service, now_ms, &error);
    rp_timer_tell(service, &service->anew_refused, "wheel and timer log cannot be made again", status);
    return status;
}
