/* grpc_client.h: a server that speaks gRPC, and blocking clients for it; for the grpc_*_test.c programs. The client uses nghttp2 too, but
 * writes the bytes of its calls itself.
 *
 * Methods: 0 ECHO, which the handler answers at once; 1 KEEP, which it keeps until told to answer or to punt; 2 PYTHON, which it does
 * not take; 3 STREAM, whose client may send more than one message. */
#ifndef RP_TESTS_GRPC_CLIENT_H
#define RP_TESTS_GRPC_CLIENT_H

#include <dlfcn.h>
#include <netinet/tcp.h>

#include "../../../csrc/base/nghttp2.h"
#include "../../../csrc/grpc/grpc.h"
#include "server_harness.h"

#define STREAMS_MAX 4096
#define HEADERS_OF_A_CALL 12
#define ANSWER_MAX (4u << 20)

enum { METHOD_ECHO = 0, METHOD_KEEP, METHOD_PYTHON, METHOD_STREAM };

static const rp_grpc_method METHODS[] = {
    {"/test.Service/Echo", 0}, {"/test.Service/Keep", 0}, {"/test.Service/Python", 0}, {"/test.Service/Stream", 1}};

struct grpc_server {
    rp_server *server;
    rp_grpc *grpc;
    rp_log *log;
    _Atomic(rp_grpc_call *) kept;
    _Atomic uint64_t cancelled;
    _Atomic int verdict; /* what on_wake does with the kept call: 1 answers it, 2 punts it */
};

static inline void echo(rp_grpc_call *call) {
    rp_slice message = rp_grpc_call_message(call);
    uint8_t *target = rp_grpc_call_reserve(call, message.size + 8); /* more than needed */
    if (target == NULL) {
        rp_grpc_call_end(call, RP_GRPC_RESOURCE_EXHAUSTED, text_slice("memory is out"));
        return;
    }
    memcpy(target, message.data, message.size);
    rp_grpc_call_commit(call, message.size);
    rp_grpc_call_end(call, RP_GRPC_OK, (rp_slice){NULL, 0});
}

static inline int grpc_on_call(void *context, rp_reactor *reactor, rp_grpc_call *call) {
    struct grpc_server *server = context;
    CHECK(rp_reactor_connection(reactor, rp_connection_id(rp_grpc_call_connection(call))) == rp_grpc_call_connection(call));
    switch (rp_grpc_call_method(call)) {
    case METHOD_ECHO:
        echo(call);
        return RP_HANDLED;
    case METHOD_KEEP:
        rp_grpc_call_keep(call, server);
        atomic_store(&server->kept, call);
        return RP_HANDLED;
    default:
        return RP_PUNT;
    }
}

static inline void grpc_on_cancelled(void *context, rp_reactor *reactor, rp_grpc_call *call) {
    struct grpc_server *server = context;
    (void)reactor;
    CHECK(rp_grpc_call_kept(call) == server);
    atomic_store(&server->kept, NULL);
    atomic_fetch_add(&server->cancelled, 1);
}

static inline void grpc_on_wake(void *context, rp_reactor *reactor) {
    struct grpc_server *server = context;
    rp_grpc_call *call = atomic_load(&server->kept);
    (void)reactor;
    if (call != NULL && atomic_load(&server->verdict) != 0) {
        atomic_store(&server->kept, NULL);
        if (atomic_load(&server->verdict) == 1) {
            echo(call);
        } else {
            rp_grpc_call_punt(call);
        }
    }
}

static inline void grpc_server_open(struct grpc_server *server, rp_server_options *options, uint32_t message_bytes_max) {
    rp_error error = {0};
    rp_grpc_handler calls = {.context = server, .on_call = grpc_on_call, .on_cancelled = grpc_on_cancelled};
    rp_handler handler = {.context = server, .on_wake = grpc_on_wake};
    rp_grpc_options grpc_options;
    rp_grpc_options_default(&grpc_options);
    grpc_options.methods = METHODS;
    grpc_options.method_count = sizeof METHODS / sizeof *METHODS;
    grpc_options.handler = &calls;
    grpc_options.message_bytes_max = message_bytes_max;
    *server = (struct grpc_server){0};
    CHECK(rp_log_create(&server->log) == RP_OK);
    options->bind_address = "127.0.0.1";
    options->log = server->log;
    if (rp_grpc_create(&grpc_options, &server->grpc, &error) != RP_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(error.status == RP_E_UNSUPPORTED ? 77 : 1); /* 77: skipped; test_c_programs.py decides whether that is allowed */
    }
    CHECK(rp_server_open(options, &handler, &server->server, &error) == RP_OK);
    CHECK(rp_server_set_protocol(server->server, rp_grpc_protocol(server->grpc)) == RP_OK);
}

static inline void grpc_server_start(struct grpc_server *server, rp_server_options *options, uint32_t message_bytes_max) {
    rp_error error = {0};
    grpc_server_open(server, options, message_bytes_max);
    CHECK(rp_server_start(server->server, &error) == RP_OK);
    CHECK(rp_server_set_protocol(server->server, NULL) == RP_E_BUSY);
}

/* Returns the next event; NULL after WAIT_MS. */
static inline rp_request *next_event(struct grpc_server *server) {
    int64_t until = now_ms() + WAIT_MS;
    rp_request *request;
    while (now_ms() < until) {
        if (rp_server_take(server->server, &request, 1) == 1) {
            return request;
        }
        struct pollfd waiting = {rp_server_event_fd(server->server), POLLIN, 0};
        poll(&waiting, 1, 100);
    }
    return NULL;
}

/* Returns the next event that is not a connection's. */
static inline rp_request *next_call_event(struct grpc_server *server, int kind) {
    for (;;) {
        rp_request *request = next_event(server);
        CHECK(request != NULL);
        if (request->kind != RP_REQUEST_OPENED && request->kind != RP_REQUEST_CLOSED) {
            CHECK(request->kind == kind);
            return request;
        }
        rp_request_free(request);
    }
}

static inline void grpc_server_stop(struct grpc_server *server) {
    rp_request *requests[64];
    uint32_t count;
    rp_server_stats stats;
    rp_server_stop(server->server, 1000);
    while ((count = rp_server_take(server->server, requests, 64)) > 0) {
        for (uint32_t index = 0; index < count; index++) {
            rp_request_free(requests[index]);
        }
    }
    rp_server_read_stats(server->server, &stats);
    CHECK(stats.connections_open == 0 && stats.buffer_bytes == 0);
    rp_server_close(server->server);
    rp_grpc_destroy(server->grpc);
    rp_log_destroy(server->log);
}

/* ---- clients ---- */

struct client_library {
    rp_nghttp2 common;
    int (*session_client_new)(struct nghttp2_session **session, const struct nghttp2_session_callbacks *callbacks, void *context,
                              const struct nghttp2_option *option);
    int32_t (*submit_request)(struct nghttp2_session *session, const void *priority, const rp_http2_header *headers, size_t count,
                              const rp_http2_data_provider *provider, void *context);
    int (*submit_window_update)(struct nghttp2_session *session, uint8_t flags, int32_t stream, int32_t size);
};

/* The answer to a call. */
struct answer {
    int32_t http_status, status; /* -1: none */
    char text[256];
    uint8_t *data;
    uint32_t size;
    const uint8_t *sent; /* bytes to send */
    uint32_t sent_size, sent_at;
    int stays_open; /* the client's side stays open after `sent` */
    int is_closed;
    uint32_t error_code;
};

struct client {
    struct client_library library;
    struct nghttp2_session *session;
    struct nghttp2_session_callbacks *callbacks;
    struct nghttp2_option *option;
    int fd;
    int is_over;
    int32_t goaway; /* GOAWAY frames received */
    int32_t pings;  /* pings received */
    uint32_t goaway_code;
    struct answer *answers; /* indexed by stream id / 2 */
};

static inline struct answer *answer_of(struct client *client, int32_t stream) {
    CHECK(stream / 2 < STREAMS_MAX);
    return &client->answers[stream / 2];
}

static inline int client_on_header(struct nghttp2_session *session, const rp_http2_frame_head *frame, const uint8_t *name, size_t name_size,
                                   const uint8_t *value, size_t value_size, uint8_t flags, void *context) {
    struct answer *answer = answer_of(context, frame->stream);
    (void)session, (void)flags;
    char number[16] = "";
    memcpy(number, value, value_size < 15 ? value_size : 15);
    if (name_size == 7 && memcmp(name, ":status", 7) == 0) {
        answer->http_status = atoi(number);
    } else if (name_size == 11 && memcmp(name, "grpc-status", 11) == 0) {
        answer->status = atoi(number);
    } else if (name_size == 12 && memcmp(name, "grpc-message", 12) == 0) {
        CHECK(value_size < sizeof answer->text);
        memcpy(answer->text, value, value_size);
    }
    return 0;
}

static inline int client_on_data(struct nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data, size_t size,
                                 void *context) {
    struct answer *answer = answer_of(context, stream);
    (void)session, (void)flags;
    CHECK(answer->size + size <= ANSWER_MAX);
    if (answer->data == NULL) {
        answer->data = malloc(ANSWER_MAX);
        CHECK(answer->data != NULL);
    }
    memcpy(answer->data + answer->size, data, size);
    answer->size += (uint32_t)size;
    return 0;
}

static inline int client_on_close(struct nghttp2_session *session, int32_t stream, uint32_t error_code, void *context) {
    struct answer *answer = answer_of(context, stream);
    (void)session;
    answer->is_closed = 1;
    answer->error_code = error_code;
    return 0;
}

static inline int client_on_frame(struct nghttp2_session *session, const rp_http2_frame_head *frame, void *context) {
    struct client *client = context;
    (void)session;
    client->pings += frame->type == RP_HTTP2_PING;
    if (frame->type == RP_HTTP2_GOAWAY) {
        client->goaway++;
        memcpy(&client->goaway_code, (const uint8_t *)frame + sizeof *frame + sizeof(int32_t), sizeof client->goaway_code);
    }
    return 0;
}

static inline ssize_t client_read(struct nghttp2_session *session, int32_t stream, uint8_t *target, size_t room, uint32_t *flags,
                                  rp_http2_data_source *source, void *context) {
    struct answer *answer = answer_of(context, stream);
    uint32_t left = answer->sent_size - answer->sent_at, size = left < room ? left : (uint32_t)room;
    (void)session, (void)source;
    if (size == 0 && answer->stays_open) {
        return RP_HTTP2_E_DEFERRED;
    }
    if (size > 0) {
        memcpy(target, answer->sent + answer->sent_at, size);
    }
    answer->sent_at += size;
    if (answer->sent_at == answer->sent_size && !answer->stays_open) {
        *flags |= RP_HTTP2_SOURCE_END;
    }
    return (ssize_t)size;
}

static inline int client_connect(const struct grpc_server *server) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(rp_server_port(server->server)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
        at_once = 1; /* otherwise a byte waits until the kernel has acknowledged the one before */
    CHECK(fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once) == 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

static inline void client_open(struct client *client, const struct grpc_server *server, int takes_by_hand) {
    rp_error error;
    *client = (struct client){.fd = client_connect(server), .answers = calloc(STREAMS_MAX, sizeof *client->answers)};
    CHECK(client->answers != NULL && rp_nghttp2_load(&client->library.common, &error) == RP_OK);
    const rp_nghttp2 *common = &client->library.common;
    *(void **)&client->library.session_client_new = dlsym(common->handle, "nghttp2_session_client_new2");
    *(void **)&client->library.submit_request = dlsym(common->handle, "nghttp2_submit_request");
    *(void **)&client->library.submit_window_update = dlsym(common->handle, "nghttp2_submit_window_update");
    CHECK(common->callbacks_new(&client->callbacks) == 0 && common->option_new(&client->option) == 0);
    common->set_on_header(client->callbacks, client_on_header);
    common->set_on_data_chunk_recv(client->callbacks, client_on_data);
    common->set_on_stream_close(client->callbacks, client_on_close);
    common->set_on_frame_recv(client->callbacks, client_on_frame);
    common->option_no_auto_window_update(client->option, takes_by_hand);
    CHECK(client->library.session_client_new(&client->session, client->callbacks, client, client->option) == 0);
    CHECK(common->submit_settings(client->session, 0, NULL, 0) == 0);
}

static inline void client_close(struct client *client) {
    const rp_nghttp2 *common = &client->library.common;
    common->session_del(client->session);
    common->option_del(client->option);
    common->callbacks_del(client->callbacks);
    rp_nghttp2_unload(&client->library.common);
    for (int index = 0; index < STREAMS_MAX; index++) {
        free(client->answers[index].data);
    }
    free(client->answers);
    close(client->fd);
}

static inline void client_say(struct client *client) {
    const uint8_t *bytes;
    ssize_t size;
    while (!client->is_over && (size = client->library.common.mem_send(client->session, &bytes)) != 0) {
        CHECK(size > 0);
        for (ssize_t at = 0, sent; at < size; at += sent) {
            sent = send(client->fd, bytes + at, (size_t)(size - at), MSG_NOSIGNAL);
            if (sent <= 0) {
                client->is_over = 1;
                return;
            }
        }
    }
}

/* Sends what is to be sent and receives what has arrived, waiting for at most ms. Returns 0 if nothing arrived. */
static inline int client_turn(struct client *client, int ms) {
    static _Thread_local uint8_t bytes[65536];
    client_say(client);
    struct pollfd waiting = {client->fd, POLLIN, 0};
    if (client->is_over || poll(&waiting, 1, ms) <= 0) {
        return 0;
    }
    ssize_t size = recv(client->fd, bytes, sizeof bytes, 0);
    if (size <= 0) {
        client->is_over = 1;
        return 0;
    }
    CHECK(client->library.common.mem_recv(client->session, bytes, (size_t)size) == size);
    client_say(client);
    return 1;
}

static inline rp_http2_header header_of(const char *name, const char *value) {
    return (rp_http2_header){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value), 0};
}

/* further: name, value, …, NULL; each replaces a header of the same name. Returns the stream. */
static inline int32_t client_call_with(struct client *client, const char *path, const uint8_t *body, uint32_t size, int stays_open,
                                       const char *const *further) {
    rp_http2_header headers[HEADERS_OF_A_CALL] = {header_of(":method", "POST"),
                                                  header_of(":scheme", "http"),
                                                  header_of(":path", path),
                                                  header_of(":authority", "x"),
                                                  header_of("content-type", "application/grpc"),
                                                  header_of("te", "trailers")};
    size_t count = 6;
    for (; further != NULL && *further != NULL; further += 2) {
        size_t place = 0;
        while (place < count && !(headers[place].name_size == strlen(further[0]) &&
                                  memcmp(headers[place].name, further[0], headers[place].name_size) == 0)) {
            place++;
        }
        headers[place] = header_of(further[0], further[1]);
        count += place == count;
        CHECK(count < HEADERS_OF_A_CALL);
    }
    rp_http2_data_provider provider = {.read = client_read};
    int32_t stream = client->library.submit_request(client->session, NULL, headers, count, &provider, NULL);
    CHECK(stream > 0);
    struct answer *answer = answer_of(client, stream);
    answer->http_status = answer->status = -1;
    answer->sent = body;
    answer->sent_size = size;
    answer->stays_open = stays_open;
    return stream;
}

static inline int32_t client_call(struct client *client, int method, const uint8_t *body, uint32_t size) {
    return client_call_with(client, METHODS[method].path, body, size, 0, NULL);
}

/* Sends more on a stream that stays open; size 0: ends it. */
static inline void client_go_on(struct client *client, int32_t stream, const uint8_t *body, uint32_t size) {
    struct answer *answer = answer_of(client, stream);
    answer->sent = body;
    answer->sent_size = size;
    answer->sent_at = 0;
    answer->stays_open = size > 0;
    CHECK(client->library.common.resume_data(client->session, stream) == 0);
    client_say(client);
}

/* Waits for the whole answer, and returns it; its stream is closed. */
static inline struct answer *client_await(struct client *client, int32_t stream) {
    struct answer *answer = answer_of(client, stream);
    int64_t until = now_ms() + WAIT_MS;
    while (!answer->is_closed && !client->is_over) {
        CHECK(now_ms() < until);
        client_turn(client, 1000);
    }
    return answer;
}

/* Returns a message with its prefix; the caller frees it. */
static inline uint8_t *framed(const uint8_t *message, uint32_t size, uint32_t *framed_size) {
    uint8_t *bytes = malloc(size + 5);
    CHECK(bytes != NULL);
    bytes[0] = 0;
    for (int at = 0; at < 4; at++) {
        bytes[1 + at] = (uint8_t)(size >> (24 - 8 * at));
    }
    if (size > 0) {
        memcpy(bytes + 5, message, size);
    }
    *framed_size = size + 5;
    return bytes;
}

#endif
