/* server.c: opens, starts and stops the reactors, and is the entry for all other threads. RocketMQ: NettyRemotingServer.
 *
 * Work from other threads travels through a reactor's inbox; the atomics of a connection's slot tell whether it can take more, so that a
 * refusal is immediate.
 */
#include "reactor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/clock_inl.h"
#include "../base/log_inl.h"

#define CONNECTIONS_MAX_MAX (1u << 22)

void rp_server_options_default(rp_server_options *options) {
    *options = (rp_server_options){
        .bind_address = "0.0.0.0",
        .reactors = 1,
        .frame_size_max = RP_FRAME_SIZE_MAX,
        .connections_max = 65536,
        .idle_timeout_ms = 120000,
        .stall_timeout_ms = 30000,
        .output_bytes_max = 8u << 20,
        .memory_bytes_max = (uint64_t)1 << 30,
        .ring_capacity = 10000,
        .stand_in_after_us = 500,
        .thread_name = "reactor",
    };
}

static int check_options(const rp_server_options *options, rp_error *error) {
    if (options->reactors < 1 || options->reactors > RP_REACTORS_MAX) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "%u reactors: choose 1 to %d", options->reactors, RP_REACTORS_MAX);
    }
    if (options->frame_size_max < 1024 || options->frame_size_max > INT32_MAX) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "frame limit of %u bytes: choose 1,024 to 2,147,483,647",
                            options->frame_size_max);
    }
    if (options->connections_max < 1 || options->connections_max > CONNECTIONS_MAX_MAX) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "%u connections: choose 1 to %u", options->connections_max,
                            CONNECTIONS_MAX_MAX);
    }
    if (options->output_bytes_max < 1024 || options->memory_bytes_max < (1u << 20) || options->ring_capacity < 1) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1,
                            "output bound %u (1,024 or more), memory bound %llu (1 MiB or more) or ring of %u (1 or more) is too small",
                            options->output_bytes_max, (unsigned long long)options->memory_bytes_max, options->ring_capacity);
    }
    if (options->tls_mode > RP_TLS_ENFORCING) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "tls_mode %u: choose 0 to %d", options->tls_mode, RP_TLS_ENFORCING);
    }
    return RP_OK;
}

static void copy_options(rp_server *server, const rp_server_options *options) {
    server->options = *options;
    const char *address = options->bind_address != NULL ? options->bind_address : "0.0.0.0";
    const char *name = options->thread_name != NULL ? options->thread_name : "reactor";
    memcpy(server->bind_address, address, strnlen(address, sizeof server->bind_address - 1));
    memcpy(server->thread_name, name, strnlen(name, sizeof server->thread_name - 1));
    server->options.bind_address = server->bind_address;
    server->options.thread_name = server->thread_name;
    if (options->clock == NULL) {
        server->options.clock = rp_clock_system();
    }
}

int rp_server_open(const rp_server_options *options, const rp_handler *handler, rp_server **server_out, rp_error *error) {
    int status = check_options(options, error);
    if (status != RP_OK) {
        return status;
    }
    rp_server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "memory is out");
    }
    copy_options(server, options);
    if (handler != NULL) {
        server->handler = *handler;
    }
    server->listener_fd = server->reserve_fd = -1;
    server->refusal_logged_ns = INT64_MIN / 2;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    server->spinners_max = cores > 2 ? (uint32_t)cores / 2 : 1;
    atomic_init(&server->stop_at_ns, INT64_MAX);
    if (rp_request_queue_init(&server->requests, options->ring_capacity) != RP_OK) {
        free(server);
        return rp_error_set(error, RP_E_NETWORK, 0, NULL, -1, "no file descriptor is left for the request ring");
    }
    pthread_mutex_init(&server->lock, NULL);
    pthread_mutex_init(&server->tls_lock, NULL);
    status = rp_listener_open(server, error);
    for (uint16_t index = 0; status == RP_OK && index < options->reactors; index++) {
        errno = 0;
        status = rp_reactor_create(server, index, &server->reactors[index]);
        if (status != RP_OK) {
            int os_errno = errno;
            rp_error_set(error, status, os_errno, NULL, -1, "reactor %u cannot be set up: %s%s", index,
                         os_errno != 0 ? strerror(os_errno) : rp_status_text(status),
                         os_errno == EMFILE ? "; raise the limit of open files (ulimit -n, LimitNOFILE)" : "");
        }
    }
    if (status != RP_OK) {
        rp_server_close(server);
        return status;
    }
    *server_out = server;
    return RP_OK;
}

/* Under the lock. */
static void stop_threads(rp_server *server, uint32_t drain_ms) {
    int64_t stop_at_ns = rp_clock_monotonic_ns(server->options.clock) + drain_ms * RP_NS_PER_MS;
    atomic_store_explicit(&server->stop_at_ns, stop_at_ns, memory_order_release);
    for (uint16_t index = 0; index < server->options.reactors; index++) {
        rp_reactor_nudge(server->reactors[index]);
    }
    for (uint16_t index = 0; index < server->options.reactors; index++) {
        for (int turner = 0; turner < 2; turner++) { /* in this order: the first starts the second */
            rp_thread_join(server->reactors[index]->turners[turner].thread);
            server->reactors[index]->turners[turner].thread = NULL;
        }
    }
}

int rp_server_set_gate(rp_server *server, const rp_gate *gate) {
    pthread_mutex_lock(&server->lock);
    int status = server->state == RP_SERVER_OPEN ? RP_OK : RP_E_BUSY;
    if (status == RP_OK) {
        server->gate = gate;
    }
    pthread_mutex_unlock(&server->lock);
    return status;
}

int rp_server_set_protocol(rp_server *server, const rp_protocol *protocol) {
    pthread_mutex_lock(&server->lock);
    int status = server->state == RP_SERVER_OPEN ? RP_OK : RP_E_BUSY;
    if (status == RP_OK) {
        server->protocol = protocol;
    }
    pthread_mutex_unlock(&server->lock);
    return status;
}

int rp_server_pass_http2_on(rp_server *server, const rp_address *target) {
    pthread_mutex_lock(&server->lock);
    int status = server->state == RP_SERVER_OPEN && server->protocol == NULL ? RP_OK : RP_E_BUSY;
    if (status == RP_OK) {
        rp_passage_open(&server->passage, target);
        server->has_passage = true;
    }
    pthread_mutex_unlock(&server->lock);
    return status;
}

int rp_server_start(rp_server *server, rp_error *error) {
    int status = RP_OK;
    pthread_mutex_lock(&server->lock);
    if (server->state != RP_SERVER_OPEN) {
        status = rp_error_set(error, RP_E_CLOSED, 0, NULL, -1, "the server was started already, or is stopped");
    }
    for (uint16_t index = 0; status == RP_OK && index < server->options.reactors; index++) {
        status = rp_reactor_start_turner(&server->reactors[index]->turners[0]);
        if (status != RP_OK) {
            rp_error_set(error, status, 0, NULL, -1, "thread %s-%u cannot be started: %s", server->thread_name, index,
                         rp_thread_refusal(status));
            stop_threads(server, 0);
            server->state = RP_SERVER_STOPPED;
        }
    }
    if (status == RP_OK) {
        server->state = RP_SERVER_RUNNING;
    }
    pthread_mutex_unlock(&server->lock);
    return status;
}

void rp_server_stop(rp_server *server, uint32_t drain_ms) {
    pthread_mutex_lock(&server->lock);
    if (server->state == RP_SERVER_RUNNING) {
        stop_threads(server, drain_ms);
    }
    server->state = RP_SERVER_STOPPED;
    rp_listener_close(server);
    pthread_mutex_unlock(&server->lock);
}

void rp_server_close(rp_server *server) {
    if (server == NULL) {
        return;
    }
    rp_server_stop(server, 0);
    for (uint16_t index = 0; index < RP_REACTORS_MAX; index++) {
        rp_reactor_destroy(server->reactors[index]);
    }
    rp_request_queue_close(&server->requests);
    rp_tls_context_release(server->tls_context);
    pthread_mutex_destroy(&server->tls_lock);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

int rp_server_load_tls(rp_server *server, const rp_tls_options *options, rp_error *error) {
    rp_tls_context *loaded;
    const rp_protocol *protocol = server->has_passage ? &server->passage.protocol : server->protocol;
    int status = rp_tls_context_create(options, protocol != NULL ? protocol->alpn : NULL, server->has_passage, &loaded, error);
    if (status == RP_OK) {
        pthread_mutex_lock(&server->tls_lock);
        rp_tls_context *before = server->tls_context;
        server->tls_context = loaded;
        pthread_mutex_unlock(&server->tls_lock);
        rp_tls_context_release(before);
    }
    return status;
}

rp_tls_context *rp_server_share_tls(rp_server *server) {
    pthread_mutex_lock(&server->tls_lock);
    rp_tls_context *context = server->tls_context != NULL ? rp_tls_context_share(server->tls_context) : NULL;
    pthread_mutex_unlock(&server->tls_lock);
    return context;
}

uint16_t rp_server_port(const rp_server *server) { return server->port; }

uint16_t rp_server_reactor_count(const rp_server *server) { return server->options.reactors; }

rp_reactor *rp_server_reactor(rp_server *server, uint16_t index) {
    return index < server->options.reactors ? server->reactors[index] : NULL;
}

/* ---- requests for Python ---- */

int rp_server_event_fd(const rp_server *server) { return server->requests.event_fd; }

uint32_t rp_server_take(rp_server *server, rp_request **requests, uint32_t requests_max) {
    return rp_request_queue_take(&server->requests, requests, requests_max);
}

void rp_request_free(rp_request *request) {
    if (request != NULL) {
        rp_held_request *held = rp_held_request_of(request);
        rp_server *server = (rp_server *)(void *)((uint8_t *)held->queue - offsetof(rp_server, requests));
        rp_held_request_free(held);
        rp_server_feed_starved(server);
    }
}

/* Returns the open connection with this id; NULL if there is none. */
static rp_connection *find_connection(rp_server *server, uint64_t id) {
    uint64_t index = id >> RP_CONNECTION_REACTOR_SHIFT;
    return index < server->options.reactors ? rp_connection_find(server->reactors[index], id) : NULL;
}

/* Encodes into a piece of its own; NULL with *status set on failure. */
static rp_output_piece *encode_piece(const rp_command *command, int *status) {
    size_t size_max = rp_command_size_max(command);
    rp_output_piece *piece = size_max > 0 ? rp_output_piece_create(size_max) : NULL;
    if (piece == NULL) {
        *status = size_max > 0 ? RP_E_NO_MEMORY : RP_E_TOO_LARGE;
        return NULL;
    }
    int64_t size = rp_command_encode(command, piece->bytes, size_max);
    if (size < 0) {
        *status = (int)size;
        free(piece);
        return NULL;
    }
    rp_output_piece *fitted = realloc(piece, sizeof *piece + (size_t)size);
    piece = fitted != NULL ? fitted : piece;
    piece->capacity = fitted != NULL ? (uint32_t)size : piece->capacity;
    piece->unsent = piece->bytes;
    piece->unsent_size = (uint32_t)size;
    return piece;
}

int rp_server_send(rp_server *server, uint64_t connection_id, const rp_command *command) {
    rp_connection *connection = find_connection(server, connection_id);
    if (connection == NULL) {
        return RP_E_CLOSED;
    }
    int status = RP_OK;
    rp_output_piece *piece = encode_piece(command, &status);
    if (piece == NULL) {
        return status;
    }
    uint32_t capacity = piece->capacity;
    piece->inbox = (rp_inbox_item){RP_INBOX_OUTPUT, connection_id};
    if (!rp_connection_admit_inbox(connection, capacity)) {
        free(piece);
        return RP_E_BUSY;
    }
    status = rp_ring_put(connection->reactor->inbox, piece);
    if (status != RP_OK) {
        rp_connection_settle_inbox(connection->reactor, connection_id, capacity);
        free(piece);
    }
    return status;
}

int rp_server_post(rp_server *server, uint64_t connection_id, rp_posted *item) {
    rp_connection *connection = find_connection(server, connection_id);
    if (connection == NULL) {
        return RP_E_CLOSED;
    }
    uint32_t bytes = item->bytes;
    if (bytes > 0 && !rp_connection_admit_inbox(connection, bytes)) {
        return RP_E_BUSY;
    }
    item->inbox = (rp_inbox_item){RP_INBOX_POSTED, connection_id};
    int status = rp_ring_put(connection->reactor->inbox, item);
    if (status != RP_OK && bytes > 0) {
        rp_connection_settle_inbox(connection->reactor, connection_id, bytes);
    }
    return status;
}

int rp_server_resubmit(rp_server *server, rp_request *request, int resubmitted) {
    rp_held_request *held = rp_held_request_of(request);
    rp_connection *connection = find_connection(server, request->connection_id);
    int status = RP_E_CLOSED;
    if (connection != NULL) {
        held->inbox = (rp_inbox_item){RP_INBOX_RESUBMIT, request->connection_id};
        held->resubmitted = resubmitted;
        status = rp_ring_put(connection->reactor->inbox, held);
    }
    if (status != RP_OK) {
        rp_request_free(request);
    }
    return status;
}

int rp_server_close_connection(rp_server *server, uint64_t connection_id) {
    rp_connection *connection = find_connection(server, connection_id);
    if (connection == NULL) {
        return RP_E_CLOSED;
    }
    rp_inbox_item *item = malloc(sizeof *item);
    if (item == NULL) {
        return RP_E_NO_MEMORY;
    }
    *item = (rp_inbox_item){RP_INBOX_CLOSE, connection_id};
    int status = rp_ring_put(connection->reactor->inbox, item);
    if (status != RP_OK) {
        free(item);
    }
    return status;
}

/* ---- memory and figures ---- */

static uint64_t buffer_bytes(const rp_server *server) {
    uint64_t bytes = atomic_load_explicit(&server->requests.bytes, memory_order_relaxed);
    for (uint16_t index = 0; index < server->options.reactors; index++) {
        bytes += atomic_load_explicit(&server->reactors[index]->stats.buffer_bytes, memory_order_relaxed);
    }
    return bytes;
}

bool rp_server_memory_is_over(const rp_server *server, uint64_t more_bytes) {
    return buffer_bytes(server) + more_bytes > server->options.memory_bytes_max;
}

/* Memory is freed before the starved connections are read here; a connection announces that it is starved before it reads, at the end of
 * its turn, how much is held. */
void rp_server_feed_starved(rp_server *server) {
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&server->starved, memory_order_relaxed) > 0 && !rp_server_memory_is_over(server, 0)) {
        for (uint16_t index = 0; index < server->options.reactors; index++) {
            rp_reactor_nudge(server->reactors[index]);
        }
    }
}

static uint64_t read_figure(const _Atomic uint64_t *figure) { return atomic_load_explicit(figure, memory_order_relaxed); }

void rp_server_read_stats(const rp_server *server, rp_server_stats *stats) {
    *stats = (rp_server_stats){
        .connections_open = atomic_load_explicit(&server->connections, memory_order_relaxed),
        .connections_accepted = read_figure(&server->accepted),
        .connections_refused = read_figure(&server->refused),
        .buffer_bytes = buffer_bytes(server),
    };
    for (uint16_t index = 0; index < server->options.reactors; index++) {
        const rp_reactor_stats *part = &server->reactors[index]->stats;
        stats->connections_closed_idle += read_figure(&part->closed_idle);
        stats->connections_closed_stalled += read_figure(&part->closed_stalled);
        stats->frames_in += read_figure(&part->frames_in);
        stats->frames_out += read_figure(&part->frames_out);
        stats->bytes_in += read_figure(&part->bytes_in);
        stats->bytes_out += read_figure(&part->bytes_out);
        stats->frames_bad += read_figure(&part->frames_bad);
        stats->requests_punted += read_figure(&part->punted);
        stats->requests_rejected_busy += read_figure(&part->rejected_busy);
        stats->requests_refused += read_figure(&part->refused);
        stats->oneway_dropped += read_figure(&part->oneway_dropped);
        stats->turns += read_figure(&part->turns);
    }
}
