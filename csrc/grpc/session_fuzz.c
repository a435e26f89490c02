/* session_fuzz.c: libFuzzer target for the bytes of a gRPC connection. Built by clang -fsanitize=fuzzer,address,undefined; not in the
 * library.
 *
 * Input   after one byte that chooses: what a client's socket says, as it is; behind HTTP/2's opening; behind that and the head of a
 *         call of a method with one message, or with a stream; or the payload of that call's DATA frames. It comes in pieces, whose sizes
 *         the first byte chooses too.
 * Claims  nothing is read or written past its bytes; every event that comes up is a known one; when the connection has ended, nothing is
 *         held any more. Events are answered as Python would: messages taken, calls answered, ended, or left alone.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../base/fuzz_inl.h"
#include "../remoting/reactor.h"
#include "grpc_inl.h"

#define PIECES_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const rp_grpc_method METHODS[] = {{"/a/One", 0}, {"/a/Many", 1}, {"/a/Kept", 0}};
static const uint8_t OPENING[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0"; /* with the last byte that the compiler adds */
static const uint8_t HEAD[] = {0x83, 0x86, 0x04, 7}; /* POST, http, :path of 7 bytes */
static const uint8_t TYPE[] = "\x0f\x10\x10"
                              "application/grpc"; /* content-type, not indexed */

static int on_call(void *context, rp_reactor *reactor, rp_grpc_call *call) {
    (void)context, (void)reactor;
    rp_slice message = rp_grpc_call_message(call);
    if (rp_grpc_call_method(call) != 2) {
        return message.size % 3 == 0 ? RP_PUNT : message.size % 3 == 1 ? RP_E_INVALID : (rp_grpc_call_end(call, 5, message), RP_HANDLED);
    }
    return RP_HANDLED; /* and is never answered */
}

static rp_server *open_server(void) {
    rp_server_options options;
    rp_grpc_options grpc_options;
    rp_server *server;
    rp_grpc *grpc;
    rp_grpc_handler handler = {.on_call = on_call};
    rp_server_options_default(&options);
    options.bind_address = "127.0.0.1";
    options.output_bytes_max = 65536;
    rp_grpc_options_default(&grpc_options);
    grpc_options.methods = METHODS;
    grpc_options.method_count = sizeof METHODS / sizeof *METHODS;
    grpc_options.message_bytes_max = 1000;
    grpc_options.calls_max = 8;
    grpc_options.handler = &handler;
    demand(rp_grpc_create(&grpc_options, &grpc, NULL) == RP_OK);
    demand(rp_server_open(&options, NULL, &server, NULL) == RP_OK);
    demand(rp_server_set_protocol(server, rp_grpc_protocol(grpc)) == RP_OK);
    return server;
}

static rp_connection *adopt(rp_server *server, int fd) {
    rp_reactor *reactor = server->reactors[0];
    rp_address address = {.size = 4};
    atomic_fetch_add(&server->connections, 1);
    atomic_fetch_add(&reactor->connection_count, 1);
    rp_connection_adopt(reactor, fd, &address);
    for (uint32_t slot = 0; slot < reactor->slots_made; slot++) {
        rp_connection *connection = atomic_load(&reactor->blocks[slot / RP_CONNECTION_BLOCK]) + slot % RP_CONNECTION_BLOCK;
        if (rp_connection_id(connection) != 0) {
            return connection;
        }
    }
    return NULL;
}

static void answer(rp_server *server, const rp_request *event) {
    const rp_command *command = &event->command;
    rp_slice body = command->body;
    switch (event->kind) {
    case RP_REQUEST_CALL:
        demand(command->code >= 0 && command->code < 3);
        if (body.size % 4 != 3) {
            rp_grpc_send(server, event->connection_id, command->opaque, body, body.size % 2 == 0);
        }
        break;
    case RP_REQUEST_MESSAGE:
        demand(command->code == 1);
        rp_grpc_send(server, event->connection_id, command->opaque, body, 0);
        if (body.size % 4 != 3) {
            rp_grpc_took(server, event->connection_id, command->opaque);
        }
        break;
    case RP_REQUEST_HALF_CLOSED:
        rp_grpc_end(server, event->connection_id, command->opaque, 3, (rp_slice){(const uint8_t *)"%\xff", 2});
        rp_grpc_ask_room(server, event->connection_id, command->opaque % 3 == 0 ? 0 : command->opaque);
        break;
    default:
        demand(event->kind == RP_REQUEST_OPENED || event->kind == RP_REQUEST_CLOSED || event->kind == RP_REQUEST_CANCELLED ||
               event->kind == RP_REQUEST_ROOM);
    }
}

/* What a turn does after the reading, and what Python does then. */
static void turn(rp_server *server, rp_connection *connection, int other) {
    rp_reactor *reactor = server->reactors[0];
    rp_request *event;
    void *item;
    uint8_t bytes[65536];
    if (connection->is_dirty) {
        reactor->dirty = NULL;
        rp_connection_fill(connection);
        rp_connection_flush(connection, UINT64_MAX);
    }
    while (recv(other, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
    }
    rp_request_queue_put(&server->requests, &reactor->batch);
    while (rp_server_take(server, &event, 1) == 1) {
        answer(server, event);
        rp_request_free(event);
    }
    while (rp_ring_take(reactor->inbox, &item, 1) == 1) {
        rp_connection_take_posted(reactor, item);
    }
    rp_arena_reset(reactor->arena);
    reactor->read_cursor = 0;
}

static void say(rp_server *server, rp_connection *connection, int other, const uint8_t *bytes, size_t size, size_t piece) {
    for (size_t at = 0; at < size && !connection->is_closing; at += piece) {
        size_t taken = size - at < piece ? size - at : piece;
        demand(send(other, bytes + at, taken, MSG_NOSIGNAL) == (ssize_t)taken);
        rp_connection_read(connection);
        turn(server, connection, other);
    }
}

static void put_frame_head(uint8_t target[9], size_t size, uint8_t type, uint8_t flags) {
    const uint8_t head[9] = {(uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size, type, flags, 0, 0, 0, 1};
    memcpy(target, head, sizeof head);
}

static void say_head(rp_server *server, rp_connection *connection, int other, const char *path) {
    uint8_t frame[9 + sizeof HEAD + 7 + sizeof TYPE - 1];
    size_t path_size = strlen(path), size = sizeof HEAD + path_size + sizeof TYPE - 1;
    put_frame_head(frame, size, RP_HTTP2_HEADERS, 4);
    memcpy(frame + 9, HEAD, sizeof HEAD);
    frame[9 + sizeof HEAD - 1] = (uint8_t)path_size;
    memcpy(frame + 9 + sizeof HEAD, path, path_size);
    memcpy(frame + 9 + sizeof HEAD + path_size, TYPE, sizeof TYPE - 1);
    say(server, connection, other, frame, 9 + size, sizeof frame);
}

static void say_data(rp_server *server, rp_connection *connection, int other, const uint8_t *data, size_t size, size_t piece) {
    uint8_t frame[9 + 65536];
    for (size_t at = 0; at <= size && !connection->is_closing; at += piece) {
        size_t taken = size - at < piece ? size - at : piece;
        put_frame_head(frame, taken, RP_HTTP2_DATA, at + taken == size);
        memcpy(frame + 9, data + at, taken);
        say(server, connection, other, frame, 9 + taken, sizeof frame);
        if (taken < piece) {
            break;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static rp_server *server;
    int pair[2];
    if (size == 0 || size > 16384) {
        return 0;
    }
    if (server == NULL) {
        server = open_server();
    }
    demand(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    rp_reactor *reactor = server->reactors[0];
    rp_connection *connection = adopt(server, pair[0]);
    uint8_t kind = data[0];
    size_t piece = kind & 8 ? 16384 : 1 + (size - 1) / PIECES_MAX;
    if ((kind & 3) != 0) {
        say(server, connection, pair[1], OPENING, sizeof OPENING, sizeof OPENING);
    }
    if ((kind & 3) > 1) {
        say_head(server, connection, pair[1], METHODS[(kind >> 4) % 3].path);
    }
    if ((kind & 3) == 3) {
        say_data(server, connection, pair[1], data + 1, size - 1, piece);
    } else {
        say(server, connection, pair[1], data + 1, size - 1, piece);
    }
    rp_connection_close(connection, "fuzzed");
    reactor->closing = NULL;
    rp_connection_reap(connection);
    reactor->dirty = reactor->large = NULL;
    reactor->large_end = &reactor->large;
    rp_request *event;
    rp_request_queue_put(&server->requests, &reactor->batch);
    while (rp_server_take(server, &event, 1) == 1) {
        rp_request_free(event);
    }
    close(pair[1]);
    demand(reactor->input_bytes == 0 && reactor->pool.buffer_bytes == 0);
    return 0;
}
