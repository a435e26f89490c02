/* grpc_stopped_test.c: a process that stood still ends no gRPC connection, and no call, for what it has not read or sent meanwhile. */
#include "grpc_client.h"
#include "held_clock.h"

#define MESSAGE_BYTES 60000
#define MESSAGES_MAX 64

static struct grpc_server server;
static struct client client, other;

static int32_t call_echo(struct client *of) {
    static uint8_t body[] = {0, 0, 0, 0, 5, 'h', 'e', 'l', 'l', 'o'};
    int32_t stream = client_call(of, METHOD_ECHO, body, sizeof body);
    client_say(of);
    return stream;
}

static void expect_echo_at(struct client *of, int32_t stream) { CHECK(client_await(of, stream)->status == RP_GRPC_OK); }

static void start(int takes_by_hand) {
    rp_server_options options;
    rp_server_options_default(&options);
    options.output_bytes_max = 1u << 20;
    options.socket_send_buffer = 4096;
    use_held_clock(&options);
    grpc_server_start(&server, &options, 2u << 20);
    client_open(&client, &server, takes_by_hand);
    client_open(&other, &server, 0);
    expect_echo_at(&client, call_echo(&client)); /* with the next call it acknowledges the server's settings, and owes nothing then */
    expect_echo_at(&other, call_echo(&other));
}

static void stop(void) {
    rp_server_stats stats;
    rp_server_read_stats(server.server, &stats);
    CHECK(stats.connections_closed_idle == 0 && stats.connections_closed_stalled == 0 && stats.connections_open == 2);
    client_close(&client);
    client_close(&other);
    grpc_server_stop(&server);
}

/* The reactor wakes for a call of `other`, and stands still. */
static void stand_still(void) {
    hold();
    call_echo(&other);
    wait_held();
}

static void who_called_meanwhile_is_answered(void) {
    start(0);
    stand_still();
    int32_t stream = call_echo(&client);
    go_on(180000);
    expect_echo_at(&client, stream);
    stop();
}

static void take_up_to(int32_t stream, uint32_t size) {
    for (int64_t until = now_ms() + WAIT_MS; answer_of(&client, stream)->size < size && now_ms() < until;)
        client_turn(&client, 20);
}

/* What holds the answer up is the window that the client gives, or else (has_window) its socket. */
static void who_took_its_answer_meanwhile_has_not_stalled(int has_window) {
    static uint8_t message[MESSAGE_BYTES];
    start(has_window); /* then it says nothing as it takes the answer */
    int32_t stream = client_call_with(&client, METHODS[METHOD_STREAM].path, NULL, 0, 1, NULL);
    client_say(&client);
    if (has_window) {
        client.library.submit_window_update(client.session, 0, 0, 1 << 30);
        client.library.submit_window_update(client.session, 0, stream, 1 << 30);
    }
    client_say(&client);
    rp_request *call = next_call_event(&server, RP_REQUEST_CALL);
    uint32_t sent = 0;
    while (sent < MESSAGES_MAX * (5 + MESSAGE_BYTES) &&
           rp_grpc_send(server.server, call->connection_id, stream, (rp_slice){message, MESSAGE_BYTES}, 0) == RP_OK)
        sent += 5 + MESSAGE_BYTES;
    expect_echo_at(&other, call_echo(&other));
    stand_still();
    const struct answer *answer = answer_of(&client, stream);
    while (client_turn(&client, 200))
        ;
    CHECK(answer->size > 0 && answer->size < sent);
    go_on(60000);
    take_up_to(stream, sent);
    CHECK(answer->size == sent && !answer->is_closed);
    rp_request_free(call);
    stop();
}

int main(void) {
    RUN(who_called_meanwhile_is_answered);
    for (int has_window = 0; has_window < 2; has_window++)
        who_took_its_answer_meanwhile_has_not_stalled(has_window);
    return 0;
}
