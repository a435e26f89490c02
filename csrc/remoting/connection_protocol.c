/* connection_protocol.c: connections that speak another protocol than RocketMQ's frames: the calls that a reactor's turn makes for them,
 * and those that a protocol may make. See protocol.h.
 */
#include "reactor.h"

#include <string.h>

#include "../base/clock_inl.h"

void rp_connection_speak(rp_connection *connection, const uint8_t *data, uint32_t size) {
    const rp_protocol *protocol = connection->protocol;
    if (connection->spoken == NULL && protocol->begin(protocol->context, connection) != RP_OK) {
        rp_connection_close(connection, "refused");
        return;
    }
    if (protocol->take(protocol->context, connection, data, size) != RP_OK) {
        rp_connection_close(connection, "refused");
    } else if (!protocol->may_read(protocol->context, connection)) {
        rp_connection_pause(connection, RP_PAUSE_OUTPUT);
    }
}

void rp_connection_fill(rp_connection *connection) {
    const rp_protocol *protocol = connection->protocol;
    if (connection->spoken != NULL) {
        connection->has_more = protocol->fill(protocol->context, connection) == RP_FILL_MORE;
    }
}

bool rp_connection_may_read(const rp_connection *connection) {
    return connection->spoken == NULL || connection->protocol->may_read(connection->protocol->context, connection);
}

bool rp_connection_is_busy(const rp_connection *connection) {
    return connection->spoken != NULL && connection->protocol->is_busy(connection->protocol->context, connection);
}

/* A connection that has sent nothing yet is closed after the same time as one whose handshake makes no progress. */
int64_t rp_connection_next_look(const rp_connection *connection) {
    uint32_t patience_ms = connection->reactor->server->options.stall_timeout_ms;
    if (connection->spoken != NULL) {
        return connection->look_ns;
    }
    return patience_ms > 0 ? connection->last_active_ns + (int64_t)patience_ms * RP_NS_PER_MS : INT64_MAX;
}

void rp_connection_look(rp_connection *connection) {
    const rp_protocol *protocol = connection->protocol;
    connection->look_ns = INT64_MAX;
    int64_t next_ns = protocol->look(protocol->context, connection, connection->reactor->now_ns);
    if (!connection->is_closing) {
        rp_connection_look_at(connection, next_ns);
        rp_connection_look_again(connection);
    }
}

void rp_connection_drain(rp_connection *connection) {
    const rp_protocol *protocol = connection->protocol;
    if (connection->spoken != NULL) {
        protocol->drain(protocol->context, connection);
    } else {
        rp_connection_close(connection, "the server stops");
    }
}

void rp_connection_end_spoken(rp_connection *connection) {
    const rp_protocol *protocol = connection->protocol;
    if (connection->spoken != NULL) {
        protocol->end(protocol->context, connection);
        connection->spoken = NULL;
    }
}

void rp_connection_take_posted(rp_reactor *reactor, rp_posted *item) {
    const rp_protocol *protocol = reactor->server->protocol;
    uint64_t id = item->inbox.connection_id;
    uint32_t bytes = item->bytes;
    rp_connection *connection = rp_reactor_connection(reactor, id);
    protocol->on_item(protocol->context, reactor, connection, item);
    if (connection != NULL) {
        rp_connection_show_unsent(connection);
    }
    if (bytes > 0) {
        rp_connection_settle_inbox(reactor, id, bytes);
    }
}

/* ---- for protocols ---- */

void *rp_connection_spoken(const rp_connection *connection) { return connection->spoken; }

void rp_connection_set_spoken(rp_connection *connection, void *spoken) { connection->spoken = spoken; }

rp_reactor *rp_connection_reactor(const rp_connection *connection) { return connection->reactor; }

const rp_server_options *rp_connection_options(const rp_connection *connection) { return &connection->reactor->server->options; }

const rp_address *rp_connection_address(const rp_connection *connection) { return &connection->address; }

void rp_connection_want_fill(rp_connection *connection) { rp_connection_mark_dirty(connection); }

uint32_t rp_connection_room(const rp_connection *connection) {
    uint64_t unsent = connection->output.unsent_bytes;
    return unsent < RP_PROTOCOL_AHEAD_BYTES ? RP_PROTOCOL_AHEAD_BYTES - (uint32_t)unsent : 0;
}

int rp_connection_put(rp_connection *connection, const uint8_t *bytes, uint32_t size) {
    uint8_t *target = rp_connection_reserve(connection, size);
    if (target == NULL) {
        return RP_E_NO_MEMORY;
    }
    memcpy(target, bytes, size);
    rp_output_commit(&connection->output, size);
    return RP_OK;
}

void rp_connection_set_queued(rp_connection *connection, uint64_t bytes) { connection->queued_bytes = bytes; }

void rp_connection_look_at(rp_connection *connection, int64_t due_ns) {
    if (due_ns < connection->look_ns) {
        connection->look_ns = due_ns;
        rp_timer_wheel_hasten(&connection->reactor->wheel, &connection->timer, due_ns);
    }
}

void rp_connection_account(rp_connection *connection, uint64_t taken, uint64_t given_back) {
    rp_reactor *reactor = connection->reactor;
    reactor->input_bytes += taken;
    reactor->input_bytes -= given_back;
    atomic_store_explicit(&reactor->stats.buffer_bytes, reactor->input_bytes + reactor->pool.buffer_bytes, memory_order_relaxed);
}

bool rp_connection_may_hold(const rp_connection *connection, uint64_t more_bytes) {
    return !rp_server_memory_is_over(connection->reactor->server, more_bytes);
}

int rp_connection_tell(rp_connection *connection, enum rp_request_kind kind, const rp_command *command, int64_t deadline_ns) {
    rp_reactor *reactor = connection->reactor;
    rp_request_queue *queue = &reactor->server->requests;
    bool is_admitted = rp_request_is_admitted((int32_t)kind);
    if (is_admitted && (rp_server_memory_is_over(reactor->server, command->body.size) || !rp_request_queue_admits(queue))) {
        return RP_E_BUSY;
    }
    rp_held_request *held = rp_request_hold(queue, kind, rp_connection_id(connection), &connection->address, command);
    if (held == NULL) {
        if (is_admitted) {
            atomic_fetch_sub_explicit(&queue->waiting, 1, memory_order_relaxed);
        }
        return RP_E_NO_MEMORY;
    }
    held->request.deadline_ns = deadline_ns;
    rp_request_batch_add(&reactor->batch, held);
    return RP_OK;
}

bool rp_connection_is_ending(const rp_connection *connection) { return connection->is_closing; }

void rp_connection_end(rp_connection *connection, const char *reason) { rp_connection_close(connection, reason); }
