/* dispatch.c: decides who answers a frame: the gate, which refuses it; the handler, at once; or Python, to which a copy goes through the
 * ring.
 * RocketMQ: NettyRemotingAbstract.processMessageReceived, RequestPipeline.
 *
 * At the ring's bound the answer is SYSTEM_BUSY with RocketMQ's text; a request that expects no answer is dropped and counted.
 */
#include "reactor.h"

#include <string.h>

#include "../base/log_inl.h"
#include "../base/slice_inl.h"
#include "stats_inl.h"

#define CODE_SYSTEM_ERROR 1
#define CODE_SYSTEM_BUSY 2

static void answer(rp_connection *connection, const rp_command *request, int32_t code, rp_slice remark) {
    rp_command response;
    rp_command_clear_response(&response, request, code);
    response.remark = remark;
    if (rp_connection_write(connection, &response) != RP_OK) {
        rp_connection_close(connection, "memory is out"); /* so that the client learns it sooner than by a time-out */
    }
}

/* If the memory bound is small, an accepted frame and its copy may together exceed it. The frame is taken as long as everything held for
 * Python stays within the size of one frame. */
static bool has_memory_for(rp_server *server, uint64_t bytes, uint64_t *reserved) {
    *reserved = 0;
    if (!rp_server_memory_is_over(server, bytes))
        return true;
    if (!rp_request_queue_reserve(&server->requests, bytes, server->options.frame_size_max))
        return false;
    *reserved = bytes;
    return true;
}

/* Copies the command for Python. */
static void punt(rp_connection *connection, enum rp_request_kind kind, const rp_command *command) {
    rp_reactor *reactor = connection->reactor;
    rp_server *server = reactor->server;
    rp_held_request *held = NULL;
    uint64_t reserved;
    if (has_memory_for(server, rp_request_copy_size(command), &reserved) && rp_request_queue_admits(&server->requests)) {
        held = rp_request_hold(&server->requests, kind, rp_connection_id(connection), &connection->address, command);
        if (held == NULL) {
            atomic_fetch_sub_explicit(&server->requests.waiting, 1, memory_order_relaxed);
        }
    }
    if (reserved > 0)
        rp_request_queue_release(&server->requests, reserved);
    if (held != NULL) {
        rp_request_batch_add(&reactor->batch, held);
        rp_count(&reactor->stats.punted, 1);
    } else if (kind == RP_REQUEST_RESPONSE || (command->flag & RP_COMMAND_ONEWAY) != 0) {
        rp_count(&reactor->stats.oneway_dropped, 1);
    } else {
        rp_count(&reactor->stats.rejected_busy, 1);
        answer(connection, command, CODE_SYSTEM_BUSY, rp_slice_of("[OVERLOAD]system busy, start flow control for a while"));
    }
}

static void close_for_handler(rp_connection *connection, const rp_command *command, int status) {
    char address[RP_ADDRESS_TEXT_MAX];
    rp_address_text(&connection->address, address);
    rp_log_write(connection->reactor->server->options.log, RP_LOG_WARNING, "connection %s closed: request code %d, opaque %d: %s (%s)",
                 address, command->code, command->opaque, rp_status_text(status), rp_status_name(status));
    rp_connection_close(connection, "request refused");
}

/* Returns true if the server's gate refuses the request; it has been answered then. */
static bool is_refused(rp_connection *connection, const rp_gate *gate, const rp_command *command) {
    rp_reactor *reactor = connection->reactor;
    rp_slice remark = {NULL, 0};
    int32_t code = gate->admit(gate->context, reactor, &connection->address, command, &remark);
    if (code == 0) {
        return false;
    }
    rp_count(&reactor->stats.refused, 1);
    if ((command->flag & RP_COMMAND_ONEWAY) == 0) {
        answer(connection, command, code, remark);
    }
    return true;
}

int rp_connection_has_gate(const rp_connection *connection) { return connection->reactor->server->gate != NULL; }

int32_t rp_connection_admit_sender(rp_connection *connection, const rp_command *command, rp_slice topic, rp_slice *remark) {
    rp_reactor *reactor = connection->reactor;
    const rp_gate *gate = reactor->server->gate;
    *remark = (rp_slice){NULL, 0};
    int32_t code = gate != NULL ? gate->admit_sender(gate->context, reactor, &connection->address, command, topic, remark) : 0;
    if (code != 0) {
        rp_count(&reactor->stats.refused, 1);
    }
    return code;
}

static uint32_t one_more(uint32_t requests) { return requests + (requests < RP_LONE_REQUESTS); }

/* Counts how many requests in a row came singly, and how many in a row from one connection alone: for such clients the reactor waits and
 * syncs differently (reactor_wait.c, and leave in reactor.c). */
static void note_asker(rp_reactor *reactor, const rp_connection *connection) {
    uint64_t turn = atomic_load_explicit(&reactor->stats.turns, memory_order_relaxed);
    bool is_same = connection == reactor->asker, is_new_turn = turn != reactor->asked_in_turn;
    reactor->single_requests = is_same && !is_new_turn ? 0 : one_more(reactor->single_requests);
    reactor->lone_requests = is_same && is_new_turn ? one_more(reactor->lone_requests) : 0;
    reactor->asker = connection;
    reactor->asked_in_turn = turn;
}

void rp_dispatch_frame(rp_connection *connection, const uint8_t *frame, uint32_t size) {
    rp_reactor *reactor = connection->reactor;
    const rp_handler *handler = &reactor->server->handler;
    rp_command *command = &reactor->command;
    rp_error error;
    if (rp_command_decode_formed(reactor->forms, frame, size, reactor->arena, command, &error) != RP_OK) {
        char address[RP_ADDRESS_TEXT_MAX];
        rp_address_text(&connection->address, address);
        rp_count(&reactor->stats.frames_bad, 1);
        rp_log_write(reactor->server->options.log, RP_LOG_WARNING, "connection %s closed: frame of %u bytes, at byte %lld: %s", address,
                     size, (long long)error.offset, error.message);
        rp_connection_close(connection, "bad frame");
        return;
    }
    rp_count(&reactor->stats.frames_in, 1);
    note_asker(reactor, connection);
    if ((command->flag & RP_COMMAND_RESPONSE) != 0) {
        if (handler->on_response == NULL || handler->on_response(handler->context, reactor, connection, command) == RP_PUNT) {
            punt(connection, RP_REQUEST_RESPONSE, command);
        }
        return;
    }
    const rp_gate *gate = reactor->server->gate;
    if (gate != NULL && is_refused(connection, gate, command)) {
        return;
    }
    int handled = handler->on_request != NULL ? handler->on_request(handler->context, reactor, connection, command, 0) : RP_PUNT;
    if (handled == RP_PUNT) {
        punt(connection, RP_REQUEST_COMMAND, command);
    } else if (handled < 0) {
        close_for_handler(connection, command, handled);
    }
}

void rp_dispatch_resubmitted(rp_reactor *reactor, rp_held_request *held) {
    const rp_handler *handler = &reactor->server->handler;
    const rp_command *command = &held->request.command;
    rp_connection *connection = rp_reactor_connection(reactor, held->request.connection_id);
    held->next = reactor->turn_requests;
    reactor->turn_requests = held;
    if (connection == NULL) {
        return;
    }
    int handled = RP_PUNT;
    if (handler->on_request != NULL) {
        handled = handler->on_request(handler->context, reactor, connection, command, held->resubmitted);
    }
    if (handled == RP_PUNT && (command->flag & RP_COMMAND_ONEWAY) == 0) {
        answer(connection, command, CODE_SYSTEM_ERROR,
               rp_slice_of("the broker prepared this request and still could not handle it; try again"));
    } else if (handled < 0) {
        close_for_handler(connection, command, handled);
    }
}

int rp_dispatch_opened(rp_connection *connection) {
    rp_reactor *reactor = connection->reactor;
    rp_request_queue *queue = &reactor->server->requests;
    uint64_t id = rp_connection_id(connection);
    rp_held_request *opened = rp_request_hold(queue, RP_REQUEST_OPENED, id, &connection->address, NULL);
    connection->closed_event = rp_request_hold(queue, RP_REQUEST_CLOSED, id, &connection->address, NULL);
    if (opened == NULL || connection->closed_event == NULL) {
        if (opened != NULL) {
            rp_held_request_free(opened);
        }
        if (connection->closed_event != NULL) {
            rp_held_request_free(connection->closed_event);
            connection->closed_event = NULL;
        }
        return RP_E_NO_MEMORY;
    }
    rp_request_batch_add(&reactor->batch, opened);
    return RP_OK;
}

void rp_dispatch_closed(rp_connection *connection) {
    rp_reactor *reactor = connection->reactor;
    rp_held_request *closed = connection->closed_event;
    const char *reason = connection->close_reason;
    if (closed == NULL) {
        return;
    }
    connection->closed_event = NULL;
    closed->request.command.remark = rp_slice_of(reason);
    rp_request_batch_add(&reactor->batch, closed);
}
