/* worker.c: one thread of a load run: an epoll loop over its connections, and everything that happens by time.
 *
 * The loop sleeps until the next event, or the next of: a due request (open loop), the start or end of measuring, a retry, a scan for
 * time-outs (every 100 ms). The last worker whose senders finish wakes all others, whose readers may then be done.
 */
#include "worker.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_MAX 256

int64_t rp_load_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * RP_NS_PER_S + now.tv_nsec;
}

void rp_load_worker_wake_all(rp_load *load) {
    const uint64_t one = 1;
    for (uint32_t i = 0; i < load->options.threads; i++) {
        if (write(load->workers[i].wake_fd, &one, sizeof one) < 0)
            continue; /* full: it is awake already */
    }
}

void rp_load_worker_error(rp_load_worker *worker, int32_t code, rp_slice remark) {
    rp_load_bump(&worker->counters.errors, 1);
    if (worker->measuring)
        worker->measured_errors++;
    rp_load_error_count *entry = NULL;
    for (uint32_t i = 0; i < worker->error_code_count && entry == NULL; i++) {
        if (worker->error_codes[i].code == code)
            entry = &worker->error_codes[i];
    }
    if (entry == NULL && worker->error_code_count < RP_LOAD_ERROR_CODES_MAX) {
        entry = &worker->error_codes[worker->error_code_count++];
        uint32_t size = remark.size < RP_LOAD_REMARK_MAX - 1 ? remark.size : RP_LOAD_REMARK_MAX - 1;
        *entry = (rp_load_error_count){.code = code};
        if (size > 0)
            memcpy(entry->remark, remark.data, size);
    }
    if (entry != NULL)
        entry->count++;
}

void rp_load_worker_fail(rp_load_worker *worker, uint64_t *kind, uint64_t count, const char *format, ...) {
    rp_load *load = worker->load;
    *kind += count;
    rp_load_bump(&worker->counters.failures, count);
    pthread_mutex_lock(&load->lock);
    if (load->first_offender[0] == '\0') {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(load->first_offender, sizeof load->first_offender, format, arguments);
        va_end(arguments);
    }
    pthread_mutex_unlock(&load->lock);
}

void rp_load_worker_retry_at(rp_load_worker *worker, int64_t at_ns) {
    if (at_ns < worker->next_retry_ns)
        worker->next_retry_ns = at_ns;
}

static uint32_t connection_count(const rp_load_worker *worker) { return worker->sender_count + worker->reader_count; }

static void begin_measuring(rp_load_worker *worker) {
    const rp_load *load = worker->load;
    if (worker->measuring || worker->now_ns < load->measure_ns)
        return;
    worker->measuring = 1;
    if (load->options.warm_up_ms == 0 || load->options.count == 0)
        return;
    uint64_t share = load->options.count / load->options.batch_size / load->options.threads;
    uint64_t rest = load->options.count / load->options.batch_size % load->options.threads;
    worker->budget = (share + (worker->index < rest)) * load->options.batch_size;
}

static void scan_timeouts(rp_load_worker *worker) {
    static const char text[] = "no response within the time limit";
    const rp_load_options *options = &worker->load->options;
    if (worker->now_ns < worker->next_scan_ns)
        return;
    worker->next_scan_ns = worker->now_ns + RP_LOAD_SCAN_NS;
    for (uint32_t i = 0; i < connection_count(worker); i++) {
        rp_load_connection *connection = &worker->connections[i];
        int64_t limit_ns = (options->request_timeout_ms + (connection->is_reader ? options->suspend_ms : 0)) * RP_NS_PER_MS;
        for (uint32_t j = 0; j < connection->slot_count; j++) {
            rp_load_slot *slot = &connection->slots[j];
            if (slot->opaque == 0 || worker->now_ns - slot->sent_ns <= limit_ns)
                continue;
            rp_load_worker_error(worker, RP_E_TIMEOUT, (rp_slice){(const uint8_t *)text, sizeof text - 1});
            rp_load_connection_end_request(connection, slot);
        }
        rp_load_connection_event(connection, 0); /* frees slots, which are filled again */
    }
}

/* Reconnects broken connections whose pause is over, and sends parked pulls. */
static void run_retries(rp_load_worker *worker) {
    if (worker->now_ns < worker->next_retry_ns)
        return;
    worker->next_retry_ns = INT64_MAX;
    for (uint32_t i = 0; i < connection_count(worker); i++) {
        rp_load_connection *connection = &worker->connections[i];
        if (connection->state == RP_LOAD_BROKEN) {
            if (worker->now_ns < connection->retry_ns) {
                rp_load_worker_retry_at(worker, connection->retry_ns);
            } else if (rp_load_connection_begin(connection) != RP_OK || rp_load_connection_register(connection) != RP_OK) {
                rp_load_connection_break(connection, RP_E_NETWORK, "cannot connect");
            }
        } else if (connection->state == RP_LOAD_OPEN && connection->is_reader) {
            rp_load_connection_event(connection, 0);
            for (uint32_t j = 0; j < connection->slot_count; j++) {
                if (connection->slots[j].not_before_ns > worker->now_ns)
                    rp_load_worker_retry_at(worker, connection->slots[j].not_before_ns);
            }
        }
    }
}

/* Returns 0 when this worker has nothing left to do. */
static int step(rp_load_worker *worker) {
    rp_load *load = worker->load;
    worker->now_ns = rp_load_now_ns();
    begin_measuring(worker);
    if (load->options.rate > 0)
        rp_load_sender_pump(worker);
    scan_timeouts(worker);
    run_retries(worker);
    if (!worker->senders_finished && rp_load_sender_done(worker)) {
        worker->senders_finished = 1;
        if (atomic_fetch_sub_explicit(&load->senders_active, 1, memory_order_acq_rel) == 1) {
            atomic_store_explicit(&load->drain_ns, worker->now_ns + load->options.drain_timeout_ms * RP_NS_PER_MS, memory_order_relaxed);
            rp_load_worker_wake_all(load);
        }
    }
    if (!worker->readers_finished && rp_load_reader_done(worker))
        worker->readers_finished = 1;
    return !(worker->senders_finished && worker->readers_finished);
}

static int64_t sleep_ns(const rp_load_worker *worker) {
    const rp_load *load = worker->load;
    int64_t until_ns = worker->next_scan_ns;
    int64_t due_ns = load->options.rate > 0 ? rp_load_sender_next_due_ns(worker) : INT64_MAX;
    if (due_ns <= worker->now_ns)
        due_ns = INT64_MAX; /* overdue: it waits for a slot, and the response that frees one is an event */
    if (due_ns < until_ns)
        until_ns = due_ns;
    if (worker->next_retry_ns < until_ns)
        until_ns = worker->next_retry_ns;
    if (load->end_ns > worker->now_ns && load->end_ns < until_ns)
        until_ns = load->end_ns;
    if (!worker->measuring && load->measure_ns < until_ns)
        until_ns = load->measure_ns;
    int64_t spin_ns = load->options.spin_us * INT64_C(1000);
    if (spin_ns > 0 && worker->now_ns - worker->last_event_ns < spin_ns)
        return 0;
    return until_ns > worker->now_ns ? until_ns - worker->now_ns : 0;
}

/* Waits with nanoseconds if the kernel has epoll_pwait2 (5.11) and the container allows it, else rounds up to milliseconds. */
static int wait_for_events(const rp_load_worker *worker, struct epoll_event *events) {
    int64_t wait_ns = sleep_ns(worker);
    const struct timespec timeout = {wait_ns / RP_NS_PER_S, wait_ns % RP_NS_PER_S};
    int count = epoll_pwait2(worker->epoll_fd, events, EVENTS_MAX, &timeout, NULL);
    if (count >= 0 || (errno != ENOSYS && errno != EPERM))
        return count;
    return epoll_wait(worker->epoll_fd, events, EVENTS_MAX, (int)((wait_ns + RP_NS_PER_MS - 1) / RP_NS_PER_MS));
}

static void handle_events(rp_load_worker *worker, const struct epoll_event *events, int count) {
    worker->now_ns = rp_load_now_ns();
    if (count > 0)
        worker->last_event_ns = worker->now_ns;
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr == NULL) {
            uint64_t ignored;
            while (read(worker->wake_fd, &ignored, sizeof ignored) > 0) {
            }
        } else {
            rp_load_connection_event(events[i].data.ptr, events[i].events);
        }
    }
}

static void end(rp_load_worker *worker) {
    rp_load *load = worker->load;
    struct timespec cpu;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    worker->cpu_ns = (uint64_t)(cpu.tv_sec * RP_NS_PER_S + cpu.tv_nsec);
    for (uint32_t i = 0; i < connection_count(worker); i++)
        rp_load_connection_close(&worker->connections[i]);
    if (worker->status == RP_OK && atomic_load_explicit(&load->stop, memory_order_relaxed))
        worker->status = RP_E_CLOSED;
    pthread_mutex_lock(&load->lock);
    load->running--;
    pthread_cond_broadcast(&load->ended);
    pthread_mutex_unlock(&load->lock);
}

void rp_load_worker_run(void *context) {
    rp_load_worker *worker = context;
    struct epoll_event events[EVENTS_MAX];
    worker->now_ns = rp_load_now_ns();
    worker->next_scan_ns = worker->now_ns + RP_LOAD_SCAN_NS;
    worker->next_retry_ns = INT64_MAX;
    begin_measuring(worker);
    for (uint32_t i = 0; i < connection_count(worker); i++)
        rp_load_connection_event(&worker->connections[i], 0);
    while (step(worker)) {
        int count = wait_for_events(worker, events);
        if (count < 0 && errno != EINTR) {
            worker->status = RP_E_NETWORK;
            break;
        }
        handle_events(worker, events, count);
    }
    if (!worker->senders_finished)
        atomic_fetch_sub_explicit(&worker->load->senders_active, 1, memory_order_acq_rel);
    end(worker);
}
