/* grpc_test.c: gRPC calls: answered by the handler or by Python, refused, streamed, cancelled, and ended by their deadline. */
#include <pthread.h>

#include "grpc_client.h"

#define MESSAGE_BYTES (2u << 20)

static rp_server_options options_of(uint32_t stall_ms) {
    rp_server_options options;
    rp_server_options_default(&options);
    options.stall_timeout_ms = stall_ms;
    return options;
}

static struct grpc_server server;
static struct client client;

static void begin(void) {
    rp_server_options options = options_of(WAIT_MS);
    grpc_server_start(&server, &options, MESSAGE_BYTES);
    client_open(&client, &server, 0);
}

static void end(void) {
    client_close(&client);
    grpc_server_stop(&server);
}

static void expect_message(const struct answer *answer, const uint8_t *framed_message, uint32_t size) {
    CHECK(answer->is_closed && answer->error_code == RP_HTTP2_NO_ERROR && answer->http_status == 200);
    CHECK(answer->status == RP_GRPC_OK && answer->size == size && memcmp(answer->data, framed_message, size) == 0);
}

static void the_handler_answers_small_and_large_messages(void) {
    static uint8_t message[MESSAGE_BYTES];
    begin();
    for (uint32_t at = 0; at < sizeof message; at++) {
        message[at] = (uint8_t)(at * 2654435761u >> 24);
    }
    static const uint32_t sizes[] = {0, 1, 16379, 65536, 1000000, MESSAGE_BYTES};
    for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++) {
        uint32_t size;
        uint8_t *body = framed(message, sizes[at], &size);
        expect_message(client_await(&client, client_call(&client, METHOD_ECHO, body, size)), body, size);
        free(body);
    }
    end();
}

static void what_the_handler_does_not_take_is_pythons(void) {
    static const char *const further[] = {"x-mq-client-id", "c1", "grpc-timeout", "50S", "x-bin", "AAAA", NULL};
    uint32_t size;
    uint8_t *body = framed((const uint8_t *)"question", 8, &size);
    begin();
    int32_t answered = client_call_with(&client, METHODS[METHOD_PYTHON].path, body, size, 0, further);
    int32_t failed = client_call(&client, METHOD_PYTHON, body, size);
    client_say(&client);
    for (int at = 0; at < 2; at++) {
        rp_request *event = next_call_event(&server, RP_REQUEST_CALL);
        const rp_command *command = &event->command;
        CHECK(command->code == METHOD_PYTHON && command->flag == 0 && command->body.size == 8);
        if (command->opaque == answered) {
            CHECK(command->field_count == 1); /* :authority is HTTP's, grpc-timeout gRPC's, x-bin no text */
            rp_slice id = rp_command_field(command, "x-mq-client-id");
            CHECK(id.size == 2 && memcmp(id.data, "c1", 2) == 0);
            int64_t left_ms = event->deadline_ns / 1000000 - now_ms();
            CHECK(left_ms > 0 && left_ms <= 50000);
            CHECK(rp_grpc_send(server.server, event->connection_id, answered, text_slice("question"), 1) == RP_OK);
        } else {
            CHECK(command->opaque == failed && event->deadline_ns == INT64_MAX);
            CHECK(rp_grpc_end(server.server, event->connection_id, failed, 7, text_slice("no \x25 \xc3\xa4")) == RP_OK);
            CHECK(rp_grpc_send(server.server, event->connection_id, failed, text_slice("too late"), 1) == RP_OK);
        }
        rp_request_free(event);
    }
    expect_message(client_await(&client, answered), body, size);
    const struct answer *answer = client_await(&client, failed);
    CHECK(answer->status == 7 && answer->size == 0 && strcmp(answer->text, "no %25 %C3%A4") == 0);
    free(body);
    end();
}

static void a_kept_call_is_answered_punted_or_cancelled(void) {
    uint32_t size;
    uint8_t *body = framed((const uint8_t *)"kept", 4, &size);
    begin();
    for (int verdict = 1; verdict <= 3; verdict++) {
        int32_t stream = client_call(&client, METHOD_KEEP, body, size);
        int64_t until = now_ms() + WAIT_MS;
        while (atomic_load(&server.kept) == NULL && now_ms() < until) {
            client_turn(&client, 1);
        }
        if (verdict == 3) {
            CHECK(client.library.common.submit_rst_stream(client.session, 0, stream, RP_HTTP2_CANCEL) == 0);
            while (atomic_load(&server.cancelled) == 0 && now_ms() < until) {
                client_turn(&client, 1);
            }
            CHECK(atomic_load(&server.cancelled) == 1);
            continue;
        }
        atomic_store(&server.verdict, verdict);
        rp_reactor_wake(rp_server_reactor(server.server, 0));
        if (verdict == 2) {
            rp_request *event = next_call_event(&server, RP_REQUEST_CALL);
            CHECK(event->command.code == METHOD_KEEP);
            CHECK(rp_grpc_send(server.server, event->connection_id, event->command.opaque, event->command.body, 1) == RP_OK);
            rp_request_free(event);
        }
        expect_message(client_await(&client, stream), body, size);
        atomic_store(&server.verdict, 0);
    }
    /* And one that ends with its connection. */
    client_call(&client, METHOD_KEEP, body, size);
    client_say(&client);
    int64_t until = now_ms() + WAIT_MS;
    while (atomic_load(&server.kept) == NULL && now_ms() < until) {
        client_turn(&client, 1);
    }
    client_close(&client);
    while (atomic_load(&server.cancelled) < 2 && now_ms() < until) {
        poll(NULL, 0, 1);
    }
    CHECK(atomic_load(&server.cancelled) == 2);
    grpc_server_stop(&server);
    free(body);
}

static void what_is_wrong_is_refused_and_says_why(void) {
    static uint8_t huge[RP_GRPC_METADATA_BYTES];
    static const uint8_t two[] = {0, 0, 0, 0, 1, 'a', 0, 0, 0, 0, 1, 'b'}, cut[] = {0, 0, 0, 0, 9, 'a'},
                         compressed[] = {1, 0, 0, 0, 1, 'a'}, odd[] = {2, 0, 0, 0, 1, 'a'}, large[] = {0, 0x7f, 0xff, 0xff, 0xff},
                         whole[] = {0, 0, 0, 0, 1, 'a'};
    static const char *echo_path = "/test.Service/Echo";
    memset(huge, 'x', sizeof huge - 1);
    const struct {
        const char *path;
        const char *further[4];
        const uint8_t *body;
        uint32_t size;
        int32_t http_status, status;
    } wrong[] = {
        {"/test.Service/Nothing", {NULL}, whole, sizeof whole, 200, RP_GRPC_UNIMPLEMENTED},
        {echo_path, {"content-type", "application/json", NULL}, whole, sizeof whole, 415, RP_GRPC_UNIMPLEMENTED},
        {echo_path, {"content-type", "application/grpcx", NULL}, whole, sizeof whole, 415, RP_GRPC_UNIMPLEMENTED},
        {echo_path, {":method", "GET", NULL}, whole, sizeof whole, 405, RP_GRPC_UNIMPLEMENTED},
        {echo_path, {"grpc-encoding", "snappy", NULL}, whole, sizeof whole, 200, RP_GRPC_UNIMPLEMENTED},
        {echo_path, {NULL}, compressed, sizeof compressed, 200, RP_GRPC_INTERNAL},
        {echo_path, {"grpc-encoding", "identity", NULL}, compressed, sizeof compressed, 200, RP_GRPC_INTERNAL},
        {echo_path, {"grpc-encoding", "gzip", NULL}, odd, sizeof odd, 200, RP_GRPC_INTERNAL},
        {echo_path, {NULL}, two, sizeof two, 200, RP_GRPC_INTERNAL},
        {echo_path, {NULL}, cut, sizeof cut, 200, RP_GRPC_INTERNAL},
        {echo_path, {NULL}, NULL, 0, 200, RP_GRPC_INTERNAL},
        {echo_path, {NULL}, large, sizeof large, 200, RP_GRPC_RESOURCE_EXHAUSTED},
        {echo_path, {"x-large", (const char *)huge, NULL}, whole, sizeof whole, 200, RP_GRPC_RESOURCE_EXHAUSTED},
    };
    begin();
    for (size_t at = 0; at < sizeof wrong / sizeof *wrong; at++) {
        int32_t stream = client_call_with(&client, wrong[at].path, wrong[at].body, wrong[at].size, 0, wrong[at].further);
        const struct answer *answer = client_await(&client, stream);
        CHECK(answer->http_status == wrong[at].http_status && answer->status == wrong[at].status && answer->text[0] != '\0');
        CHECK(answer->is_closed && answer->size == 0);
    }
    uint32_t size;
    uint8_t *body = framed((const uint8_t *)"still here", 10, &size);
    expect_message(client_await(&client, client_call(&client, METHOD_ECHO, body, size)), body, size);
    free(body);
    end();
}

static void a_stream_goes_both_ways_and_waits_for_python(void) {
    enum { SENT = 3 * RP_GRPC_UNTAKEN };
    static uint8_t bodies[SENT * 6];
    begin();
    for (int at = 0; at < SENT; at++) {
        memcpy(&bodies[at * 6], (const uint8_t[]){0, 0, 0, 0, 1, (uint8_t)at}, 6);
    }
    int32_t stream = client_call_with(&client, METHODS[METHOD_STREAM].path, bodies, sizeof bodies, 1, NULL);
    client_say(&client);
    rp_request *event = next_call_event(&server, RP_REQUEST_CALL);
    uint64_t id = event->connection_id;
    CHECK(event->command.code == METHOD_STREAM && event->command.flag == RP_GRPC_EVENT_STREAM && event->command.body.size == 0);
    rp_request_free(event);
    for (int at = 0; at < SENT; at++) {
        event = next_call_event(&server, RP_REQUEST_MESSAGE);
        CHECK(event->command.opaque == stream && event->command.body.size == 1 && event->command.body.data[0] == (uint8_t)at);
        rp_request_free(event);
        if (at % RP_GRPC_UNTAKEN == RP_GRPC_UNTAKEN - 1) {
            for (uint32_t taken = 0; taken < RP_GRPC_UNTAKEN; taken++) {
                rp_request *early;
                CHECK(taken > 0 || rp_server_take(server.server, &early, 1) == 0);
                CHECK(rp_grpc_took(server.server, id, stream) == RP_OK);
            }
        }
        CHECK(rp_grpc_send(server.server, id, stream, (rp_slice){(const uint8_t[]){(uint8_t)at}, 1}, 0) == RP_OK);
    }
    client_go_on(&client, stream, NULL, 0);
    rp_request_free(next_call_event(&server, RP_REQUEST_HALF_CLOSED));
    CHECK(rp_grpc_end(server.server, id, stream, RP_GRPC_OK, (rp_slice){NULL, 0}) == RP_OK);
    expect_message(client_await(&client, stream), bodies, sizeof bodies);
    /* Python is told of a stream that its client cut, and of one that it left. */
    stream = client_call_with(&client, METHODS[METHOD_STREAM].path, bodies, 8, 0, NULL);
    CHECK(client_await(&client, stream)->status == RP_GRPC_INTERNAL);
    for (int kind = RP_REQUEST_CALL; kind != 0; kind = kind == RP_REQUEST_CALL      ? RP_REQUEST_MESSAGE
                                                       : kind == RP_REQUEST_MESSAGE ? RP_REQUEST_CANCELLED
                                                                                    : 0) {
        rp_request_free(next_call_event(&server, kind));
    }
    end();
}

static void an_early_answer_ends_what_the_client_still_sends(void) {
    begin();
    int32_t stream = client_call_with(&client, METHODS[METHOD_STREAM].path, NULL, 0, 1, NULL);
    client_say(&client);
    rp_request *event = next_call_event(&server, RP_REQUEST_CALL);
    CHECK(rp_grpc_send(server.server, event->connection_id, stream, text_slice("enough"), 1) == RP_OK);
    rp_request_free(event);
    const struct answer *answer = client_await(&client, stream);
    CHECK(answer->status == RP_GRPC_OK && answer->size == 11 && answer->error_code == RP_HTTP2_NO_ERROR);
    end();
}

static void a_call_that_is_cancelled_is_told_to_python(void) {
    uint32_t size;
    uint8_t *body = framed((const uint8_t *)"x", 1, &size);
    begin();
    int32_t stream = client_call(&client, METHOD_PYTHON, body, size);
    client_say(&client);
    rp_request_free(next_call_event(&server, RP_REQUEST_CALL));
    CHECK(client.library.common.submit_rst_stream(client.session, 0, stream, RP_HTTP2_CANCEL) == 0);
    client_say(&client);
    rp_request *event = next_call_event(&server, RP_REQUEST_CANCELLED);
    CHECK(event->command.opaque == stream);
    CHECK(rp_grpc_send(server.server, event->connection_id, stream, text_slice("for nobody"), 1) == RP_OK);
    rp_request_free(event);
    free(body);
    end();
}

/* By a clock that stands until all of it has come. */
static void a_call_whose_time_is_over_is_ended_here(void) {
    static const char *const soon[] = {"grpc-timeout", "20m", NULL};
    uint32_t size;
    uint8_t *body = framed((const uint8_t *)"x", 1, &size);
    rp_server_options options = options_of(WAIT_MS);
    options.clock = clock_by_hand();
    grpc_server_start(&server, &options, MESSAGE_BYTES);
    client_open(&client, &server, 0);
    int32_t python = client_call_with(&client, METHODS[METHOD_PYTHON].path, body, size, 0, soon);
    int32_t kept = client_call_with(&client, METHODS[METHOD_KEEP].path, body, size, 0, soon);
    int32_t unsaid = client_call_with(&client, METHODS[METHOD_ECHO].path, NULL, 0, 1, soon);
    expect_message(client_await(&client, client_call(&client, METHOD_ECHO, body, size)), body, size);
    CHECK(!answer_of(&client, python)->is_closed && !answer_of(&client, kept)->is_closed && !answer_of(&client, unsaid)->is_closed);
    turn_hand(server.server, 1000);
    CHECK(client_await(&client, python)->status == RP_GRPC_DEADLINE_EXCEEDED);
    CHECK(client_await(&client, kept)->status == RP_GRPC_DEADLINE_EXCEEDED);
    CHECK(client_await(&client, unsaid)->status == RP_GRPC_DEADLINE_EXCEEDED);
    rp_request_free(next_call_event(&server, RP_REQUEST_CALL));
    rp_request_free(next_call_event(&server, RP_REQUEST_CANCELLED));
    CHECK(atomic_load(&server.cancelled) == 1);
    free(body);
    end();
}

static void *stop_in_good_time(void *context) {
    rp_server_stop(context, WAIT_MS);
    return NULL;
}

static void a_server_that_stops_lets_calls_end(void) {
    uint32_t size;
    uint8_t *body = framed((const uint8_t *)"last", 4, &size);
    pthread_t stopper;
    begin();
    int32_t stream = client_call(&client, METHOD_KEEP, body, size);
    int64_t until = now_ms() + WAIT_MS;
    while (atomic_load(&server.kept) == NULL && now_ms() < until) {
        client_turn(&client, 1);
    }
    CHECK(pthread_create(&stopper, NULL, stop_in_good_time, server.server) == 0);
    while (client.goaway == 0 && now_ms() < until) {
        client_turn(&client, 10);
    }
    CHECK(client.goaway == 1 && client.goaway_code == RP_HTTP2_NO_ERROR && !answer_of(&client, stream)->is_closed);
    atomic_store(&server.verdict, 1);
    rp_reactor_wake(rp_server_reactor(server.server, 0));
    expect_message(client_await(&client, stream), body, size);
    pthread_join(stopper, NULL);
    free(body);
    end();
}

/* ---- many at once ---- */

enum { CLIENTS = 4, CALLS_EACH = 60 };

static _Atomic int clients_done;

static void *ask_many(void *context) {
    struct client own;
    int32_t streams[CALLS_EACH];
    uint32_t size;
    uint8_t *body = framed((const uint8_t *)"asked by many", 13, &size);
    client_open(&own, context, 0);
    for (int at = 0; at < CALLS_EACH; at++) {
        streams[at] = client_call(&own, at % 3 == 0 ? METHOD_ECHO : METHOD_PYTHON, body, size);
        if (at % 10 == 9) {
            CHECK(own.library.common.submit_rst_stream(own.session, 0, streams[at], RP_HTTP2_CANCEL) == 0);
        }
        client_turn(&own, 0);
    }
    for (int at = 0; at < CALLS_EACH; at++) {
        const struct answer *answer = client_await(&own, streams[at]);
        CHECK(answer->is_closed);
        if (at % 10 != 9) {
            expect_message(answer, body, size);
        }
    }
    client_close(&own);
    free(body);
    atomic_fetch_add(&clients_done, 1);
    return NULL;
}

static void many_ask_while_python_answers(void) {
    pthread_t threads[CLIENTS];
    rp_server_options options = options_of(30000);
    options.reactors = 2;
    grpc_server_start(&server, &options, MESSAGE_BYTES);
    for (int at = 0; at < CLIENTS; at++) {
        CHECK(pthread_create(&threads[at], NULL, ask_many, &server) == 0);
    }
    while (atomic_load(&clients_done) < CLIENTS) {
        rp_request *event;
        struct pollfd waiting = {rp_server_event_fd(server.server), POLLIN, 0};
        poll(&waiting, 1, 20);
        while (rp_server_take(server.server, &event, 1) == 1) {
            if (event->kind == RP_REQUEST_CALL) {
                int status = rp_grpc_send(server.server, event->connection_id, event->command.opaque, event->command.body, 1);
                CHECK(status == RP_OK || status == RP_E_CLOSED);
            }
            rp_request_free(event);
        }
    }
    for (int at = 0; at < CLIENTS; at++) {
        pthread_join(threads[at], NULL);
    }
    grpc_server_stop(&server);
}

int main(void) {
    RUN(the_handler_answers_small_and_large_messages);
    RUN(what_the_handler_does_not_take_is_pythons);
    RUN(a_kept_call_is_answered_punted_or_cancelled);
    RUN(what_is_wrong_is_refused_and_says_why);
    RUN(a_stream_goes_both_ways_and_waits_for_python);
    RUN(an_early_answer_ends_what_the_client_still_sends);
    RUN(a_call_that_is_cancelled_is_told_to_python);
    RUN(a_call_whose_time_is_over_is_ended_here);
    RUN(a_server_that_stops_lets_calls_end);
    RUN(many_ask_while_python_answers);
    return 0;
}
