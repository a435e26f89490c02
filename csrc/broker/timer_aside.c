/* timer_aside.c: sets aside timed messages whose queue or light queue, or the next file of one, cannot be created, so that the slots
 * behind them are delivered (timer_service.h).
 * RocketMQ: TimerMessageStore.doPut (5.3.3 store/timer/), which tries again without end, and holds up everything that is due later.
 *
 * A message that is set aside is appended to the timer queue again, with a later TIMER_OUT_MS. So it is a waiting message like any
 * other, for RocketMQ too. It comes back after a minute, then each time after twice as long, up to an hour: a queue that stays broken
 * costs the log a bounded rate.
 *
 * Only a fault of the queue itself is a reason to set a message aside. Without memory, or with a full disk, nothing could be appended
 * anyway, and the slot waits.
 */
#include "timer_item.h"
#include "timer_service_inl.h"

#define TRIED_MS INT64_C(10000) /* how long a refused message is tried before it is set aside */
#define FORGOTTEN_MS INT64_C(60000) /* without a refusal for this long, the next refused message is tried for TRIED_MS again */
#define ASIDE_MS_MIN INT64_C(60000)
#define ASIDE_DOUBLED_MAX 6 /* up to about an hour */

/* True if there was no refusal for a while, or the clock was set back. */
static bool is_forgotten(const rp_timer_refusals *refusals, int64_t now_ms) {
    return now_ms < refusals->last_ms || now_ms - refusals->last_ms > FORGOTTEN_MS;
}

/* Checks whether the queue itself can be written: the status of an append does not tell a fault of the queue from one of the commit log. */
int rp_timer_try_queue(rp_timer_service *service, rp_consume_queue *queue, int64_t now_ms) {
    rp_timer_refusals *refusals = &service->refusals;
    if (!refusals->asks_queues)
        return RP_OK;
    int status = rp_commit_log_try_queue(service->broker->commit_log, queue);
    if (status == RP_OK && is_forgotten(refusals, now_ms))
        refusals->asks_queues = false;
    return status;
}

int64_t rp_timer_set_aside(rp_timer_service *service, const rp_message *message, int64_t now_ms) {
    rp_timer_refusals *refusals = &service->refusals;
    if (is_forgotten(refusals, now_ms)) {
        refusals->first_ms = now_ms;
        refusals->is_told = false;
    }
    refusals->last_ms = now_ms;
    if (now_ms - refusals->first_ms < TRIED_MS)
        return 0;
    int32_t times = rp_timer_roll_times(message->properties);
    int64_t wait_ms = ASIDE_MS_MIN << (times < ASIDE_DOUBLED_MAX ? times : ASIDE_DOUBLED_MAX);
    if (!refusals->is_told) {
        rp_slice name = rp_message_property(message->properties, "REAL_TOPIC");
        rp_log_write(service->broker->options.log, RP_LOG_ERROR,
                     "a queue that the timed message at log offset %" PRId64 " goes to cannot be made: it and others like it are set "
                     "aside and tried again from time to time, this one in %" PRId64 " s; look at the directory of topic %.*s, and at "
                     "those of the light queues it names",
                     message->physical_offset, wait_ms / 1000, (int)(name.size < 255 ? name.size : 255), (const char *)name.data);
    }
    refusals->is_told = true;
    return rp_timer_floor(service, now_ms + wait_ms);
}
