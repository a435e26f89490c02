/* grpc_limits_test.c: gRPC's bounds; bad, slow and absent clients harm only themselves. */
#include "grpc_client.h"

#define MESSAGE_BYTES (2u << 20)
#define RESETS 2100 /* more than one connection may make at once: the server's clock stands meanwhile */

static struct grpc_server server;
static struct client client;

static rp_server_options options_of(uint32_t stall_ms) {
    rp_server_options options;
    rp_server_options_default(&options);
    options.stall_timeout_ms = stall_ms;
    return options;
}

static rp_server_options options_by_hand(uint32_t stall_ms) {
    rp_server_options options = options_of(stall_ms);
    options.clock = clock_by_hand();
    return options;
}

static void pass_time(int64_t milliseconds) { turn_hand(server.server, milliseconds); }

/* Whether the other side closes it as time goes on. */
static int is_closed_in_time(int fd) {
    uint8_t bytes[4096];
    for (int64_t until = now_ms() + WAIT_MS; now_ms() < until; pass_time(10)) {
        struct pollfd waiting = {fd, POLLIN, 0};
        if (poll(&waiting, 1, 10) == 1 && recv(fd, bytes, sizeof bytes, 0) <= 0) {
            return 1;
        }
    }
    return 0;
}

static void expect_echo_of(struct client *of) {
    uint32_t size;
    uint8_t *body = framed((const uint8_t *)"still here", 10, &size);
    const struct answer *answer = client_await(of, client_call(of, METHOD_ECHO, body, size));
    CHECK(answer->status == RP_GRPC_OK && answer->size == size);
    free(body);
}

static void is_over(struct client *of) {
    int64_t until = now_ms() + WAIT_MS;
    while (!of->is_over && now_ms() < until) {
        client_turn(of, 100);
    }
    CHECK(of->is_over);
}

static int log_has(const char *text) {
    int64_t until = now_ms() + WAIT_MS;
    rp_log_line line;
    while (now_ms() < until) {
        while (rp_log_take(server.log, &line, 1) == 1) {
            if (strstr(line.text, text) != NULL) {
                return 1;
            }
        }
        poll(NULL, 0, 1);
    }
    return 0;
}

static void who_does_not_speak_http2_is_closed_with_a_log_line(void) {
    static const char *const said[] = {"GET / HTTP/1.1\r\n\r\n", "\0\0\0\10\0\0\0\4abcd and some more",
                                       "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\1\0\0\0\0\0", "PROXY UNKNOWN\r\nPROXY UNKNOWN\r\n"};
    rp_server_options options = options_of(30000);
    grpc_server_start(&server, &options, MESSAGE_BYTES);
    client_open(&client, &server, 0);
    for (size_t at = 0; at < sizeof said / sizeof *said; at++) {
        int fd = client_connect(&server);
        size_t size = at == 1 ? 21 : at == 2 ? 33 : strlen(said[at]);
        CHECK(send(fd, said[at], size, MSG_NOSIGNAL) == (ssize_t)size);
        CHECK(is_closed(fd));
        close(fd);
    }
    CHECK(log_has("does not begin as HTTP/2 does"));
    expect_echo_of(&client);
    client_close(&client);
    grpc_server_stop(&server);
}

static void who_says_nothing_and_who_asks_nothing_is_closed_in_time(void) {
    rp_server_options options = options_by_hand(100);
    options.idle_timeout_ms = 100;
    grpc_server_start(&server, &options, MESSAGE_BYTES);
    int silent = client_connect(&server);
    CHECK(is_closed_in_time(silent));
    close(silent);
    client_open(&client, &server, 0);
    expect_echo_of(&client);
    for (int64_t until = now_ms() + WAIT_MS; !client.is_over; pass_time(10)) {
        CHECK(now_ms() < until);
        client_turn(&client, 10);
    }
    CHECK(client.goaway == 1 && client.goaway_code == RP_HTTP2_NO_ERROR);
    client_close(&client);
    /* A silent client with a call under way is pinged. One that answers stays connected. */
    client_open(&client, &server, 0);
    int32_t stream = client_call_with(&client, METHODS[METHOD_STREAM].path, NULL, 0, 1, NULL);
    client_say(&client);
    rp_request_free(next_call_event(&server, RP_REQUEST_CALL));
    expect_echo_of(&client);
    expect_echo_of(&client); /* after this the client has acknowledged the server's settings, and sends nothing unasked */
    for (int32_t asked = 1; asked <= 4; asked++) {
        pass_time(120); /* with a tick of the server's timers */
        for (int64_t until = now_ms() + WAIT_MS; client.pings < asked; client_turn(&client, 100)) {
            CHECK(now_ms() < until && !client.is_over);
        }
        expect_echo_of(&client); /* so the server has read what came before */
    }
    CHECK(!client.is_over && !answer_of(&client, stream)->is_closed);
    CHECK(is_closed_in_time(client.fd)); /* one that does not answer is closed */
    client_close(&client);
    grpc_server_stop(&server);
}

static uint64_t queue_until_busy(uint64_t id, int32_t stream, const uint8_t *bytes, uint32_t size) {
    uint64_t queued = 0;
    int status;
    int64_t until = now_ms() + WAIT_MS;
    while ((status = rp_grpc_send(server.server, id, stream, (rp_slice){bytes, size}, 0)) == RP_OK) {
        CHECK(now_ms() < until);
        queued += size;
    }
    CHECK(status == RP_E_BUSY);
    return queued;
}

/* Reads the answer by hand, and opens the windows only as far as the test says. */
static void an_answer_that_is_not_taken_waits_within_its_bound(void) {
    static uint8_t bytes[65536];
    rp_server_options options = options_of(30000);
    options.output_bytes_max = 1u << 20;
    grpc_server_start(&server, &options, MESSAGE_BYTES);
    client_open(&client, &server, 1);
    int32_t stream = client_call_with(&client, METHODS[METHOD_STREAM].path, NULL, 0, 1, NULL);
    client_say(&client);
    rp_request *event = next_call_event(&server, RP_REQUEST_CALL);
    uint64_t id = event->connection_id;
    rp_request_free(event);
    uint64_t queued = queue_until_busy(id, stream, bytes, sizeof bytes);
    CHECK(queued <= (2u << 20));
    rp_server_stats stats;
    rp_server_read_stats(server.server, &stats);
    CHECK(stats.buffer_bytes < (3u << 20));
    CHECK(rp_grpc_ask_room(server.server, id, 0) == RP_OK);
    const rp_nghttp2 *common = &client.library.common;
    uint32_t consumed = 0;
    const struct answer *answer = answer_of(&client, stream);
    rp_request *room = NULL;
    for (int64_t until = now_ms() + WAIT_MS; room == NULL && now_ms() < until;) {
        client_turn(&client, 10);
        CHECK(common->consume_connection(client.session, answer->size - consumed) == 0);
        CHECK(common->consume_stream(client.session, stream, answer->size - consumed) == 0);
        consumed = answer->size;
        if (rp_server_take(server.server, &room, 1) == 1) {
            CHECK(room->kind == RP_REQUEST_ROOM && room->connection_id == id);
        }
    }
    CHECK(room != NULL && room->command.opaque == 0 && consumed >= queued / 4);
    rp_request_free(room);
    CHECK(rp_grpc_send(server.server, id, stream, (rp_slice){bytes, 100}, 0) == RP_OK);
    CHECK(rp_grpc_ask_room(server.server, id, stream) == RP_OK); /* of the call: when everything is out */
    for (int64_t until = now_ms() + WAIT_MS; rp_server_take(server.server, &room, 1) == 0;) {
        CHECK(now_ms() < until);
        client_turn(&client, 10);
        CHECK(common->consume_connection(client.session, answer->size - consumed) == 0);
        CHECK(common->consume_stream(client.session, stream, answer->size - consumed) == 0);
        consumed = answer->size;
    }
    CHECK(room->kind == RP_REQUEST_ROOM && room->command.opaque == stream && consumed >= queued - 65536 * 2);
    rp_request_free(room);
    client_close(&client);
    grpc_server_stop(&server);
}

static void an_answer_that_is_never_taken_is_given_up(void) {
    static uint8_t bytes[65536];
    rp_server_options options = options_by_hand(100);
    options.output_bytes_max = 1u << 20;
    grpc_server_start(&server, &options, MESSAGE_BYTES);
    client_open(&client, &server, 1);
    int32_t stream = client_call_with(&client, METHODS[METHOD_STREAM].path, NULL, 0, 1, NULL);
    client_say(&client);
    rp_request *event = next_call_event(&server, RP_REQUEST_CALL);
    queue_until_busy(event->connection_id, stream, bytes, sizeof bytes);
    rp_request_free(event);
    for (int64_t until = now_ms() + WAIT_MS; rp_server_take(server.server, &event, 1) == 0; pass_time(10)) {
        CHECK(now_ms() < until);
        poll(NULL, 0, 10);
    }
    CHECK(event->kind == RP_REQUEST_CANCELLED);
    rp_request_free(event);
    const struct answer *answer = client_await(&client, stream);
    CHECK(answer->error_code == RP_HTTP2_CANCEL && answer->status == -1);
    client_close(&client);
    grpc_server_stop(&server);
}

static void who_begins_calls_to_reset_them_is_sent_away(void) {
    rp_server_options options = options_by_hand(30000);
    grpc_server_start(&server, &options, MESSAGE_BYTES);
    client_open(&client, &server, 0);
    for (int at = 0; at < RESETS && !client.is_over; at++) {
        int32_t stream = client_call_with(&client, METHODS[METHOD_ECHO].path, NULL, 0, 1, NULL);
        client_say(&client);
        CHECK(client.library.common.submit_rst_stream(client.session, 0, stream, RP_HTTP2_CANCEL) == 0);
        client_say(&client);
        client_turn(&client, 0);
    }
    is_over(&client); /* a GOAWAY may be lost with what was not read */
    client_close(&client);
    grpc_server_stop(&server);
}

/* A client that has PINGs answered and does not read: nothing grows. */
static void who_does_not_read_is_not_read(void) {
    static const uint8_t ping[17] = {0, 0, 8, RP_HTTP2_PING};
    uint8_t pings[17 * 1000];
    rp_server_options options = options_of(300);
    options.socket_send_buffer = 4096;
    grpc_server_start(&server, &options, MESSAGE_BYTES);
    int fd = client_connect(&server);
    static const char opening[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    CHECK(send(fd, opening, sizeof opening, MSG_NOSIGNAL) == sizeof opening);
    for (int at = 0; at < 1000; at++) {
        memcpy(&pings[17 * at], ping, 17);
    }
    int64_t until = now_ms() + WAIT_MS;
    ssize_t sent = 1;
    while (sent > 0 && now_ms() < until) {
        struct pollfd waiting = {fd, POLLOUT, 0};
        poll(&waiting, 1, 1000);
        sent = send(fd, pings, sizeof pings, MSG_NOSIGNAL | MSG_DONTWAIT);
        sent = sent < 0 && errno == EAGAIN ? 1 : sent;
        rp_server_stats stats;
        rp_server_read_stats(server.server, &stats);
        CHECK(stats.buffer_bytes < (1u << 20));
    }
    CHECK(sent < 0);
    close(fd);
    grpc_server_stop(&server);
}

static void calls_wait_for_python_within_the_rings_bound(void) {
    uint32_t size;
    uint8_t *body = framed((const uint8_t *)"x", 1, &size);
    rp_server_options options = options_of(30000);
    options.ring_capacity = 4;
    grpc_server_start(&server, &options, MESSAGE_BYTES);
    client_open(&client, &server, 0);
    int32_t streams[8];
    for (int at = 0; at < 8; at++) {
        streams[at] = client_call(&client, METHOD_PYTHON, body, size);
    }
    client_say(&client);
    for (int at = 4; at < 8; at++) {
        CHECK(client_await(&client, streams[at])->status == RP_GRPC_RESOURCE_EXHAUSTED);
    }
    for (int at = 0; at < 4; at++) {
        rp_request *event = next_call_event(&server, RP_REQUEST_CALL);
        CHECK(rp_grpc_end(server.server, event->connection_id, event->command.opaque, RP_GRPC_OK, (rp_slice){NULL, 0}) == RP_OK);
        rp_request_free(event);
        CHECK(client_await(&client, streams[at])->status == RP_GRPC_OK);
    }
    client_close(&client);
    free(body);
    grpc_server_stop(&server);
}

static void memory_that_is_short_refuses_what_is_large(void) {
    static uint8_t message[MESSAGE_BYTES];
    uint32_t size;
    uint8_t *body = framed(message, sizeof message, &size);
    rp_server_options options = options_of(30000);
    options.memory_bytes_max = 1u << 20;
    grpc_server_start(&server, &options, MESSAGE_BYTES);
    client_open(&client, &server, 0);
    CHECK(client_await(&client, client_call(&client, METHOD_ECHO, body, size))->status == RP_GRPC_RESOURCE_EXHAUSTED);
    expect_echo_of(&client);
    client_close(&client);
    free(body);
    grpc_server_stop(&server);
}

int main(void) {
    RUN(who_does_not_speak_http2_is_closed_with_a_log_line);
    RUN(who_says_nothing_and_who_asks_nothing_is_closed_in_time);
    RUN(an_answer_that_is_not_taken_waits_within_its_bound);
    RUN(an_answer_that_is_never_taken_is_given_up);
    RUN(who_begins_calls_to_reset_them_is_sent_away);
    RUN(who_does_not_read_is_not_read);
    RUN(calls_wait_for_python_within_the_rings_bound);
    RUN(memory_that_is_short_refuses_what_is_large);
    return 0;
}
