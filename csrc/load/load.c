/* load.c: see load.h. Opens a run (builds templates, distributes connections), starts its workers and waits for them.
 *
 * Producers and queues are assigned to workers round-robin: sending connection i and reading connection i belong to worker i % threads,
 * queue q to reading connection q % pull_connections.
 */
#include "load.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "../base/address.h"
#include "load_options.h"
#include "worker.h"

#define OUTPUT_BYTES 524288u
#define SEND_INPUT_BYTES 65536u
#define PULL_INPUT_BYTES 524288u
#define PULL_REQUEST_BYTES 2048u /* two names, and less than 1 KB of other fields */

/* Copies all strings into one block that the run owns. */
static int copy_strings(rp_load *load) {
    const char **fields[] = {&load->options.address,        &load->options.topic, &load->options.producer_group,
                             &load->options.consumer_group, &load->options.tags,  &load->options.ledger_path};
    size_t size = 0;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        size += *fields[i] == NULL ? 0 : strlen(*fields[i]) + 1;
    char *at = load->text = malloc(size);
    if (at == NULL)
        return RP_E_NO_MEMORY;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (*fields[i] == NULL)
            continue;
        size_t length = strlen(*fields[i]) + 1;
        memcpy(at, *fields[i], length);
        *fields[i] = at;
        at += length;
    }
    return RP_OK;
}

static int resolve_address(rp_load *load, rp_error *error) {
    char host[RP_ENDPOINT_TEXT_MAX];
    const char *port;
    if (rp_endpoint_split(load->options.address, host, &port) != RP_OK)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "address must be host:port, with a port of 1 to 65535");
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int failed = getaddrinfo(host, port, &hints, &found);
    if (failed != 0)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "address %s cannot be resolved: %s", load->options.address,
                            gai_strerror(failed));
    /* Prefer the first IPv4 address, as Java does: brokers that listen on one family only mostly listen on this one. */
    const struct addrinfo *chosen = found;
    while (chosen->ai_family != AF_INET && chosen->ai_next != NULL)
        chosen = chosen->ai_next;
    chosen = chosen->ai_family == AF_INET ? chosen : found;
    memcpy(&load->address, chosen->ai_addr, chosen->ai_addrlen);
    load->address_size = chosen->ai_addrlen;
    freeaddrinfo(found);
    return RP_OK;
}

static int open_templates(rp_load *load, rp_error *error) {
    const rp_load_options *options = &load->options;
    load->payload = rp_payload_open(options->message_size);
    load->templates = calloc(options->queue_count, sizeof *load->templates);
    if (load->payload == NULL || load->templates == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for the request templates");
    for (uint32_t queue = 0; options->mode != RP_LOAD_PULL && queue < options->queue_count; queue++) {
        const rp_load_template_options wanted = {.topic = options->topic,
                                                 .producer_group = options->producer_group,
                                                 .tags = options->tags,
                                                 .serialize_type = options->serialize_type,
                                                 .send_code = options->send_code,
                                                 .queue_id = queue,
                                                 .batch_size = options->batch_size,
                                                 .message_size = options->message_size,
                                                 .run = load->run,
                                                 .unique_key = !options->no_unique_key};
        int status = rp_load_template_open(&wanted, load->payload, &load->templates[queue]);
        if (status != RP_OK)
            return rp_error_set(error, status, 0, NULL, -1, "the request for queue %u cannot be built: %s", queue, rp_status_text(status));
    }
    return RP_OK;
}

static int open_connection(rp_load_worker *worker, rp_load_connection *connection, uint32_t index, int is_reader) {
    const rp_load_options *options = &worker->load->options;
    *connection = (rp_load_connection){.worker = worker, .index = index, .is_reader = is_reader, .fd = -1};
    uint32_t readers = options->pull_connections;
    connection->slot_count = is_reader ? (options->queue_count + readers - 1 - index) / readers : options->in_flight;
    connection->queue_cursor = index % options->queue_count;
    while ((UINT32_C(1) << connection->slot_bits) < connection->slot_count)
        connection->slot_bits++;
    uint64_t request_size = is_reader ? PULL_REQUEST_BYTES : rp_load_template_size(worker->load->templates[options->queue_count - 1]);
    uint64_t output = request_size * connection->slot_count;
    if (output > OUTPUT_BYTES)
        output = request_size > OUTPUT_BYTES ? request_size : OUTPUT_BYTES;
    connection->output_capacity = (uint32_t)output;
    connection->input_capacity = is_reader ? PULL_INPUT_BYTES : SEND_INPUT_BYTES;
    connection->input = malloc(connection->input_capacity);
    connection->output = malloc(connection->output_capacity + 1); /* a reader without queues has no output */
    connection->slots = calloc(connection->slot_count + 1, sizeof *connection->slots);
    connection->free_slots = calloc(connection->slot_count + 1, sizeof *connection->free_slots);
    if (connection->input == NULL || connection->output == NULL || connection->slots == NULL || connection->free_slots == NULL)
        return RP_E_NO_MEMORY;
    for (uint32_t i = 0; i < connection->slot_count; i++) {
        if (is_reader) {
            connection->slots[i].queue = index + i * readers;
        } else {
            connection->free_slots[connection->free_count++] = connection->slot_count - 1 - i;
        }
    }
    return RP_OK;
}

/* Returns how many of `total` the worker gets in a round-robin distribution. */
static uint32_t share_of(uint32_t total, uint32_t worker, uint32_t workers) { return (total + workers - 1 - worker) / workers; }

/* Sets how many messages the worker may send, and the time between them. */
static void set_budget(rp_load_worker *worker) {
    const rp_load_options *options = &worker->load->options;
    uint64_t batches = options->count / options->batch_size;
    uint64_t share = batches / options->threads + (worker->index < batches % options->threads);
    worker->budget = options->count == 0 || options->warm_up_ms != 0 ? UINT64_MAX : share * options->batch_size;
    if (worker->sender_count == 0)
        worker->budget = 0;
    if (options->rate > 0)
        worker->due_step_ns = 1e9 * options->batch_size * options->threads / options->rate;
}

static int open_worker(rp_load *load, rp_load_worker *worker, uint32_t index) {
    const rp_load_options *options = &load->options;
    worker->load = load;
    worker->index = index;
    worker->epoll_fd = worker->wake_fd = -1;
    worker->sender_count = share_of(options->connections, index, options->threads);
    worker->reader_count = share_of(options->pull_connections, index, options->threads);
    worker->connections = calloc(worker->sender_count + worker->reader_count + 1, sizeof *worker->connections);
    if (worker->connections == NULL)
        return RP_E_NO_MEMORY;
    for (uint32_t i = 0; i < worker->sender_count + worker->reader_count; i++)
        worker->connections[i].fd = -1;
    for (uint32_t kind = 0; kind < RP_LOAD_LATENCY_KINDS; kind++) {
        worker->latency[kind] = rp_histogram_create();
        if (worker->latency[kind] == NULL)
            return RP_E_NO_MEMORY;
    }
    for (uint32_t i = 0; i < worker->sender_count; i++) {
        if (open_connection(worker, &worker->connections[i], index + i * options->threads, 0) != RP_OK)
            return RP_E_NO_MEMORY;
    }
    for (uint32_t i = 0; i < worker->reader_count; i++) {
        if (open_connection(worker, &worker->connections[worker->sender_count + i], index + i * options->threads, 1) != RP_OK)
            return RP_E_NO_MEMORY;
    }
    set_budget(worker);
    worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    worker->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct epoll_event wake = {.events = EPOLLIN, .data.ptr = NULL};
    if (worker->epoll_fd < 0 || worker->wake_fd < 0 || epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, worker->wake_fd, &wake) != 0)
        return RP_E_IO;
    return RP_OK;
}

static int open_ledger(rp_load *load, rp_error *error) {
    rp_load_options *options = &load->options;
    if (options->ledger_path != NULL && options->mode == RP_LOAD_PULL) {
        int status = rp_ledger_load(options->ledger_path, &load->ledger, error);
        if (status != RP_OK)
            return status;
        if (rp_ledger_queue_count(load->ledger) != options->queue_count)
            return rp_error_set(error, RP_E_INVALID, 0, options->ledger_path, -1, "queue_count must be that of the ledger, %u",
                                rp_ledger_queue_count(load->ledger));
        options->run_id = rp_ledger_run_id(load->ledger);
        load->run = (uint32_t)options->run_id;
        load->accept_any_run = 0;
        return RP_OK;
    }
    if (options->mode != RP_LOAD_BOTH && !(options->keep_ledger && options->mode == RP_LOAD_SEND))
        return RP_OK;
    load->ledger = rp_ledger_open(options->queue_count, options->run_id);
    return load->ledger != NULL ? RP_OK : rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for the ledger");
}

/* Chooses the mark of the run's bodies, and notes the difference between wall clock and monotonic clock. */
static void mark_run(rp_load *load) {
    rp_load_options *options = &load->options;
    load->accept_any_run = options->run_id == 0 && options->mode == RP_LOAD_PULL;
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    if (options->run_id == 0)
        options->run_id = (uint64_t)(wall.tv_sec * RP_NS_PER_S + wall.tv_nsec);
    load->run = (uint32_t)options->run_id;
    load->wall_offset_ms = wall.tv_sec * INT64_C(1000) + wall.tv_nsec / RP_NS_PER_MS - rp_load_now_ns() / RP_NS_PER_MS;
}

static int open_workers(rp_load *load, rp_error *error) {
    const rp_load_options *options = &load->options;
    for (uint32_t i = 0; i < options->threads; i++)
        load->workers[i].epoll_fd = load->workers[i].wake_fd = -1;
    for (uint32_t i = 0; i < options->threads; i++) {
        int status = open_worker(load, &load->workers[i], i);
        if (status != RP_OK)
            return rp_error_set(error, status, errno, NULL, -1, "worker %u cannot be made: %s", i, rp_status_text(status));
    }
    return RP_OK;
}

static int open_parts(rp_load *load, rp_error *error) {
    rp_load_options *options = &load->options;
    mark_run(load);
    int status = copy_strings(load);
    if (status != RP_OK)
        return rp_error_set(error, status, 0, NULL, -1, "no memory for the options");
    if ((status = resolve_address(load, error)) != RP_OK || (status = open_ledger(load, error)) != RP_OK)
        return status;
    if ((status = open_templates(load, error)) != RP_OK)
        return status;
    load->readings = calloc(options->queue_count, sizeof *load->readings);
    load->workers = calloc(options->threads, sizeof *load->workers);
    if (load->readings == NULL || load->workers == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for the workers");
    if ((status = open_workers(load, error)) != RP_OK)
        return status;
    if (options->mode != RP_LOAD_SEND || options->keep_ledger)
        status = rp_load_query_offsets(load, error);
    for (uint32_t queue = 0; queue < options->queue_count; queue++) {
        rp_load_reading *reading = &load->readings[queue];
        atomic_store_explicit(&reading->next_offset, reading->start_offset, memory_order_relaxed);
        if (load->ledger != NULL && options->mode != RP_LOAD_PULL)
            rp_ledger_set_base(load->ledger, queue, reading->start_offset);
    }
    load->options.start_offsets = NULL; /* the caller's; not needed any more */
    return status;
}

int rp_load_open(const rp_load_options *options, rp_load **result, rp_error *error) {
    rp_load *load = calloc(1, sizeof *load);
    if (load == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for a load run");
    load->options = *options;
    rp_load_options_complete(&load->options);
    pthread_mutex_init(&load->lock, NULL);
    rp_monotonic_cond_init(&load->ended);
    int status = rp_load_options_check(&load->options, error);
    if (status != RP_OK)
        load->options.threads = 0; /* nothing to close */
    if (status == RP_OK)
        status = open_parts(load, error);
    if (status != RP_OK) {
        rp_load_close(load);
        return status;
    }
    *result = load;
    return RP_OK;
}

static int connect_all(rp_load *load, rp_error *error) {
    for (uint32_t i = 0; i < load->options.threads; i++) {
        rp_load_worker *worker = &load->workers[i];
        for (uint32_t j = 0; j < worker->sender_count + worker->reader_count; j++) {
            rp_load_connection *connection = &worker->connections[j];
            int status = rp_load_connection_begin(connection);
            if (status == RP_OK)
                status = rp_load_connection_finish(connection, (int)load->options.connect_timeout_ms);
            if (status == RP_OK)
                status = rp_load_connection_register(connection);
            if (status != RP_OK)
                return rp_error_set(error, RP_E_NETWORK, errno, load->options.address, -1,
                                    "connection %u of worker %u cannot be made; is the broker running?", j, i);
        }
    }
    return RP_OK;
}

int rp_load_start(rp_load *load, rp_error *error) {
    if (load->start_ns != 0)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "a load run starts once");
    int status = connect_all(load, error);
    if (status != RP_OK)
        return status;
    load->start_ns = rp_load_now_ns();
    load->measure_ns = load->start_ns + (int64_t)load->options.warm_up_ms * RP_NS_PER_MS;
    if (load->options.duration_ms != 0)
        load->end_ns = load->measure_ns + (int64_t)load->options.duration_ms * RP_NS_PER_MS;
    atomic_store_explicit(&load->senders_active, load->options.threads, memory_order_relaxed);
    load->running = load->options.threads; /* before any thread exists, so no lock is needed */
    for (uint32_t i = 0; i < load->options.threads; i++) {
        rp_load_worker *worker = &load->workers[i];
        worker->due_start_ns = load->start_ns + (int64_t)(worker->due_step_ns / load->options.threads * i);
        status = rp_thread_start(&worker->thread, "rp-load", rp_load_worker_run, worker);
        if (status != RP_OK)
            break;
        load->started_workers++;
    }
    if (status == RP_OK)
        return RP_OK;
    pthread_mutex_lock(&load->lock);
    load->running -= load->options.threads - load->started_workers;
    pthread_mutex_unlock(&load->lock);
    rp_load_stop(load);
    return rp_error_set(error, status, 0, NULL, -1, "a worker thread cannot be started");
}

int rp_load_wait(rp_load *load, uint32_t timeout_ms) {
    struct timespec until = rp_deadline_after(CLOCK_MONOTONIC, timeout_ms);
    pthread_mutex_lock(&load->lock);
    int waited = 0;
    while (load->running > 0 && waited == 0)
        waited = pthread_cond_timedwait(&load->ended, &load->lock, &until);
    int status = load->running == 0 ? RP_OK : RP_E_TIMEOUT;
    pthread_mutex_unlock(&load->lock);
    return status;
}

void rp_load_stop(rp_load *load) {
    atomic_store_explicit(&load->stop, 1, memory_order_relaxed);
    rp_load_worker_wake_all(load);
}

static void close_worker(rp_load_worker *worker) {
    for (uint32_t i = 0; worker->connections != NULL && i < worker->sender_count + worker->reader_count; i++) {
        rp_load_connection *connection = &worker->connections[i];
        rp_load_connection_close(connection);
        free(connection->input);
        free(connection->output);
        free(connection->slots);
        free(connection->free_slots);
    }
    free(worker->connections);
    for (uint32_t kind = 0; kind < RP_LOAD_LATENCY_KINDS; kind++)
        rp_histogram_destroy(worker->latency[kind]);
    if (worker->epoll_fd >= 0)
        close(worker->epoll_fd);
    if (worker->wake_fd >= 0)
        close(worker->wake_fd);
}

void rp_load_close(rp_load *load) {
    if (load == NULL)
        return;
    if (load->started_workers > 0)
        rp_load_stop(load);
    for (uint32_t i = 0; i < load->started_workers; i++)
        rp_thread_join(load->workers[i].thread);
    for (uint32_t i = 0; load->workers != NULL && i < load->options.threads; i++)
        close_worker(&load->workers[i]);
    for (uint32_t queue = 0; load->readings != NULL && queue < load->options.queue_count; queue++)
        free(load->readings[queue].last_sequences);
    for (uint32_t queue = 0; load->templates != NULL && queue < load->options.queue_count; queue++)
        rp_load_template_close(load->templates[queue]);
    free(load->readings);
    free(load->workers);
    free(load->templates);
    rp_payload_close(load->payload);
    rp_ledger_close(load->ledger);
    free(load->text);
    pthread_cond_destroy(&load->ended);
    pthread_mutex_destroy(&load->lock);
    free(load);
}
