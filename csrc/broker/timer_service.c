/* timer_service.c: see timer_service.h. The thread, its turn and its sleep; start and stop. */
#include <stdlib.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "timer_item.h"
#include "timer_service_inl.h"

#define SLEEP_MS_MAX 1000 /* a wall clock that is set forward is noticed within this time */
#define SET_BACK_SLOTS 2  /* a clock that goes back by no more is only being corrected, and is waited for */
#define PRECISION_MS_MAX 1000
#define PERMILLE 1000

static rp_slice timer_topic_name(void) { return (rp_slice){(const uint8_t *)RP_TIMER_TOPIC, sizeof RP_TIMER_TOPIC - 1}; }

static int64_t earlier(int64_t left, int64_t right) { return left < right ? left : right; }

/* ---- the turn ---- */

bool rp_timer_is_stopping(rp_timer_service *service) {
    pthread_mutex_lock(&service->lock);
    bool stopping = service->stopping;
    pthread_mutex_unlock(&service->lock);
    return stopping;
}

void rp_timer_tell(rp_timer_service *service, bool *is_refused, const char *what, int status) {
    if (status != RP_OK && !*is_refused)
        rp_log_write(service->broker->options.log, RP_LOG_WARNING, "%s: %s; it is tried again", what, rp_status_text(status));
    if (status == RP_OK && *is_refused)
        rp_log_write(service->broker->options.log, RP_LOG_WARNING, "%s: that is over", what);
    *is_refused = status != RP_OK;
}

/* Messages sent while the clock was far ahead hold the places of earlier slots: everything that waits is placed again. */
static int free_places(rp_timer_service *service, int64_t now_slot_ms, int64_t now_ms) {
    int64_t reach_ms = now_slot_ms + (int64_t)RP_TIMING_WHEEL_SLOTS * service->precision_ms;
    rp_error why = {.message = "the clock was set back, and what waits is due later than the wheel reaches"};
    bool is_free = rp_timing_wheel_next(rp_timer_files_wheel(rp_timer_files_of(service)), reach_ms) < 0;
    return is_free ? RP_OK : rp_timer_make_anew(service, &why, now_ms);
}

/* Slots that were delivered are empty, so their times may come again. */
static void follow_clock_back(rp_timer_service *service, int64_t now_slot_ms, int64_t now_ms) {
    int64_t read_ms = rp_timer_get(&service->read_ms);
    if (!rp_timer_is_on(&service->delivers) || service->delivery.chain != NULL ||
        read_ms <= now_slot_ms + (int64_t)SET_BACK_SLOTS * service->precision_ms || free_places(service, now_slot_ms, now_ms) != RP_OK)
        return;
    rp_log_write(service->broker->options.log, RP_LOG_WARNING,
                 "the clock was set back by %" PRId64
                 " ms: timed messages wait for it, and after a restart before it is there again those of "
                 "that time may be delivered twice",
                 read_ms - now_slot_ms);
    rp_timer_set_read(service, now_slot_ms);
    service->is_changed = true;
}

/* The wheel has one place for times that lie its size apart: while reading is far behind, nothing is entered further ahead than fits. */
static void move_times(rp_timer_service *service, int64_t now_ms) {
    int64_t now_slot_ms = rp_timer_floor(service, now_ms);
    follow_clock_back(service, now_slot_ms, now_ms);
    int64_t read_ms = rp_timer_get(&service->read_ms);
    int64_t last_ms = read_ms + (int64_t)RP_TIMING_WHEEL_ROLL_WINDOW_MAX * service->precision_ms;
    int64_t write_ms = now_slot_ms < read_ms ? read_ms : earlier(now_slot_ms, last_ms);
    if (write_ms == service->write_ms)
        return;
    rp_consume_queue *queue = rp_timer_known_queue(service);
    service->write_ms = write_ms;
    service->entering_goal = queue != NULL ? rp_consume_queue_max_offset(queue) : 0;
}

/* Returns when to look again. */
static int64_t turn(rp_timer_service *service, int64_t now_ms) {
    rp_timer_follow(service);
    move_times(service, now_ms);
    int64_t enter_next = rp_timer_enter(service, now_ms), deliver_next = RP_TIMER_NEXT_NEVER;
    bool is_entered = enter_next != RP_TIMER_NEXT_AWAKE || rp_timer_get(&service->queue_offset) >= service->entering_goal;
    if (is_entered && rp_timer_is_on(&service->delivers))
        deliver_next = rp_timer_deliver(service, now_ms);
    if (service->aside.count > 0)
        deliver_next = earlier(deliver_next, rp_timer_try_aside(service, now_ms));
    rp_timer_flush_sometimes(service, now_ms);
    return earlier(earlier(enter_next, deliver_next), rp_timer_floor(service, now_ms) + service->precision_ms);
}

/* Sleeps until `next`, or a stop. Messages sent meanwhile are entered in time: their slots are not over before the next turn. */
static bool rest(rp_timer_service *service, int64_t next, int64_t now_ms) {
    int64_t wait_ms = next > now_ms ? earlier(next - now_ms, SLEEP_MS_MAX) : 0;
    struct timespec until = rp_deadline_after(CLOCK_MONOTONIC, (uint64_t)wait_ms);
    pthread_mutex_lock(&service->lock);
    while (!service->stopping && pthread_cond_timedwait(&service->woken, &service->lock, &until) == 0)
        ;
    bool goes_on = !service->stopping;
    pthread_mutex_unlock(&service->lock);
    return goes_on;
}

static void run(void *context) {
    rp_timer_service *service = context;
    for (bool goes_on = true; goes_on;) {
        int64_t now_ms = rp_clock_wall_ms(service->clock), next = turn(service, now_ms);
        goes_on = next == RP_TIMER_NEXT_AWAKE ? !rp_timer_is_stopping(service) : rest(service, next, now_ms);
    }
}

/* ---- open and close ---- */

rp_timer_service *rp_timer_service_create(rp_broker *broker) {
    rp_timer_service *service = calloc(1, sizeof *service);
    if (service == NULL)
        return NULL;
    service->broker = broker;
    service->clock = rp_clock_system();
    pthread_mutex_init(&service->lock, NULL);
    rp_monotonic_cond_init(&service->woken);
    service->topic = rp_topic_table_entry(broker->topics, timer_topic_name());
    if (service->topic == NULL) {
        rp_timer_service_destroy(service);
        return NULL;
    }
    return service;
}

void rp_timer_service_destroy(rp_timer_service *service) {
    if (service == NULL)
        return;
    rp_error error = {.message = ""};
    if (service->thread != NULL && rp_broker_stop_timers(service->broker, &error) != RP_OK)
        rp_log_write(service->broker->options.log, RP_LOG_ERROR, "timed messages at the stop: %s", error.message);
    rp_timer_files_close(rp_timer_files_of(service));
    rp_key_set_clear(&service->copies.originals);
    rp_set_aside_clear(&service->aside);
    free(service->not_passed_on);
    pthread_cond_destroy(&service->woken);
    pthread_mutex_destroy(&service->lock);
    free(service);
}

void rp_timer_options_default(rp_timer_options *options) {
    *options = (rp_timer_options){
        .log_file_size = RP_TIMER_LOG_FILE_SIZE,
        .precision_ms = 1000,
        .roll_window_slots = 2 * 86400,
        .flush_interval_ms = 1000,
        .progress_interval_ms = 10000,
        .delivers = 1,
    };
}

static int check_options(const rp_timer_options *options, rp_error *error) {
    if (options->root_path == NULL)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "timed messages need the directory of the store");
    if (options->precision_ms < 1 || options->precision_ms > PRECISION_MS_MAX)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "timerPrecisionMs is %d, it has to be 1 to %d", options->precision_ms,
                            PRECISION_MS_MAX);
    if (options->roll_window_slots < 2 || options->roll_window_slots > RP_TIMING_WHEEL_ROLL_WINDOW_MAX)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "timerRollWindowSlot is %d, it has to be 2 to %d", options->roll_window_slots,
                            RP_TIMING_WHEEL_ROLL_WINDOW_MAX);
    return RP_OK;
}

/* At the first start: on success the service has its files from now on; otherwise it has none, and nothing has changed. */
static int open_files(rp_timer_service *service, const rp_timer_options *options, rp_error *error) {
    const rp_clock *clock = options->clock != NULL ? options->clock : rp_clock_system();
    rp_consume_queue *queue = rp_timer_known_queue(service);
    rp_timer_files_options wanted = {
        .root_path = options->root_path,
        .log_file_size = options->log_file_size,
        .precision_ms = options->precision_ms,
        .commit_log_max_offset = rp_commit_log_max_offset(service->broker->commit_log),
        .queue_max_offset = queue != NULL ? rp_consume_queue_max_offset(queue) : 0,
        .now_ms = rp_clock_wall_ms(clock),
        .file_ops = options->file_ops,
        .log = service->broker->options.log,
    };
    rp_timer_files *files;
    int status = check_options(options, error);
    if (status == RP_OK)
        status = rp_timer_files_open(&wanted, &files, error);
    if (status != RP_OK)
        return status;
    service->clock = clock;
    service->precision_ms = options->precision_ms;
    service->window_slots = options->roll_window_slots;
    service->flush_interval_ms = options->flush_interval_ms;
    service->progress_interval_ms = options->progress_interval_ms;
    atomic_store_explicit(&service->files, files, memory_order_release);
    status = rp_timer_recover(service, rp_clock_wall_ms(service->clock), error);
    if (status == RP_OK)
        return RP_OK;
    atomic_store_explicit(&service->files, NULL, memory_order_release);
    rp_timer_files_close(files);
    return status;
}

int rp_broker_start_timers(rp_broker *broker, const rp_timer_options *options, rp_error *error) {
    rp_timer_service *service = broker->timers;
    if (service->thread != NULL)
        return RP_OK;
    bool is_open = rp_timer_files_of(service) != NULL;
    int status = is_open ? RP_OK : open_files(service, options, error);
    if (status != RP_OK)
        return status;
    if (is_open)
        rp_timer_count_anew(service, rp_clock_wall_ms(service->clock));
    atomic_store_explicit(&service->delivers, options->delivers != 0, memory_order_relaxed);
    rp_timer_begin(service);
    service->write_ms = 0;
    service->stopping = false;
    atomic_store_explicit(&service->is_running, 1, memory_order_relaxed);
    status = rp_thread_start(&service->thread, "timer", run, service);
    if (status == RP_OK)
        return RP_OK;
    atomic_store_explicit(&service->is_running, 0, memory_order_relaxed);
    return rp_error_set(error, status, 0, NULL, -1, "no thread for timed messages: %s", rp_thread_refusal(status));
}

int rp_broker_set_timers_passed_on(rp_broker *broker, int64_t until_ms, int64_t queue_offset, const int64_t *but, uint32_t count) {
    rp_timer_service *service = broker->timers;
    if (service->thread != NULL)
        return RP_OK;
    int64_t *kept = count > 0 ? malloc(count * sizeof *kept) : NULL;
    if (count > 0 && kept == NULL)
        return RP_E_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        kept[i] = but[i];
    free(service->not_passed_on);
    service->not_passed_on = kept;
    service->not_passed_on_count = count;
    service->passed_on_until_ms = until_ms;
    service->passed_on_below = queue_offset;
    return RP_OK;
}

int rp_broker_stop_timers(rp_broker *broker, rp_error *error) {
    rp_timer_service *service = broker->timers;
    if (service == NULL || service->thread == NULL)
        return RP_OK;
    pthread_mutex_lock(&service->lock);
    service->stopping = true;
    pthread_cond_signal(&service->woken);
    pthread_mutex_unlock(&service->lock);
    rp_thread_join(service->thread);
    service->thread = NULL;
    atomic_store_explicit(&service->is_running, 0, memory_order_relaxed);
    int left = rp_timer_leave_slot(service, error);
    if (left == RP_OK)
        rp_timer_enter_at_stop(service, rp_clock_wall_ms(service->clock));
    int status = rp_timer_flush_at_stop(service, rp_clock_wall_ms(service->clock), left == RP_OK, left == RP_OK ? error : NULL);
    return left != RP_OK ? left : status;
}

/* ---- for senders ---- */

rp_consume_queue *rp_timer_known_queue(rp_timer_service *service) {
    rp_consume_queue *queue = atomic_load_explicit(&service->queue, memory_order_acquire);
    return queue != NULL ? queue : rp_message_store_queue(service->broker->store, timer_topic_name(), 0, 0, NULL);
}

static rp_consume_queue *make_queue(rp_timer_service *service) {
    pthread_mutex_lock(&service->lock);
    rp_consume_queue *queue = atomic_load_explicit(&service->queue, memory_order_relaxed);
    if (queue == NULL) {
        queue = rp_message_store_queue(service->broker->store, timer_topic_name(), 0, 1, NULL);
        atomic_store_explicit(&service->queue, queue, memory_order_release);
    }
    pthread_mutex_unlock(&service->lock);
    return queue;
}

int rp_timer_open_queue(rp_timer_service *service, rp_consume_queue **queue) {
    *queue = atomic_load_explicit(&service->queue, memory_order_acquire);
    if (*queue == NULL && (*queue = make_queue(service)) == NULL)
        return RP_E_IO;
    if (rp_consume_queue_max_offset(*queue) == 0 && rp_message_store_prepare_queue(service->broker->store, *queue, NULL) != RP_OK)
        return RP_E_IO;
    return RP_OK;
}

rp_topic *rp_timer_topic(rp_timer_service *service) { return service->topic; }

int64_t rp_timer_delivered_until(const rp_timer_service *service) {
    bool delivers = rp_timer_is_on(&service->is_running) && rp_timer_is_on(&service->delivers) &&
                    !rp_timer_is_on(&service->broker->settings.timer_stop_dequeue);
    return delivers ? atomic_load_explicit(&service->read_ms, memory_order_acquire) : INT64_MAX;
}

static bool is_congested(const rp_timer_service *service, int64_t out_ms, uint32_t permille) {
    rp_timer_files *files = rp_timer_files_of(service);
    int64_t bound = atomic_load_explicit(&service->broker->settings.timer_slot_messages_max, memory_order_relaxed);
    int64_t count = files != NULL ? rp_timing_wheel_slot_count(rp_timer_files_wheel(files), out_ms) : 0;
    if (count <= bound)
        return false;
    return count - bound >= bound || (double)permille > (double)(PERMILLE * (count - bound)) / ((double)bound + 0.1);
}

int rp_timer_when(rp_timer_service *service, rp_slice properties, uint32_t permille, int64_t *out_ms) {
    const rp_live_settings *settings = &service->broker->settings;
    rp_timer_rules rules = {
        .now_ms = rp_clock_wall_ms(rp_clock_system()),
        .delay_max_ms = atomic_load_explicit(&settings->timer_delay_max_ms, memory_order_relaxed),
        .precision_ms = atomic_load_explicit(&settings->timer_precision_ms, memory_order_relaxed),
    };
    *out_ms = 0;
    if (!rp_timer_is_on(&settings->timer_enable))
        return RP_E_UNSUPPORTED;
    int when = rp_timer_decide(properties, &rules, out_ms);
    return when == RP_TIMER_IS_LATER && is_congested(service, *out_ms, permille) ? RP_E_BUSY : when;
}
