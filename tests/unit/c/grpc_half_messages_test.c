/* grpc_half_messages_test.c: incomplete messages whose rest does not come: they are given up in time, and make room for others. The test
 * drives the server's clock. */
#include "grpc_client.h"

#define STALL_MS 30000
#define LARGE (3u << 20)

static struct grpc_server server;

static void start(void) {
    rp_server_options options;
    rp_server_options_default(&options);
    options.reactors = 1;
    options.stall_timeout_ms = STALL_MS;
    options.memory_bytes_max = 8u << 20;
    options.clock = clock_by_hand();
    grpc_server_start(&server, &options, 4u << 20);
}

/* Another client makes a call. When it is answered, the server has read what came before, and has looked at the clock. */
static void let_it_turn(void) {
    struct client other;
    uint32_t size;
    uint8_t *body = framed((const uint8_t *)"turn", 4, &size);
    client_open(&other, &server, 0);
    CHECK(client_await(&other, client_call(&other, METHOD_ECHO, body, size))->status == RP_GRPC_OK);
    client_close(&other);
    free(body);
}

static void pass(int64_t ms) {
    turn_hand(server.server, ms);
    let_it_turn();
}

/* A call of which `size` of the bytes come now. */
static int32_t begin(struct client *client, int method, const uint8_t *bytes, uint32_t size) {
    int32_t stream = client_call_with(client, METHODS[method].path, bytes, size, 1, NULL);
    int64_t until = now_ms() + WAIT_MS;
    while (answer_of(client, stream)->sent_at < size) {
        CHECK(now_ms() < until);
        client_turn(client, 10);
    }
    return stream;
}

static void what_does_not_come_is_given_up(void) {
    struct client client;
    uint32_t size;
    uint8_t message[100] = {0}, *bytes = framed(message, sizeof message, &size);
    start();
    client_open(&client, &server, 0);
    int32_t silent = begin(&client, METHOD_ECHO, bytes, 50), head_alone = begin(&client, METHOD_ECHO, bytes, 0);
    int32_t stream = begin(&client, METHOD_STREAM, bytes, 50);
    rp_request_free(next_call_event(&server, RP_REQUEST_CALL));
    pass(STALL_MS - 1000);
    client_turn(&client, 0);
    CHECK(!answer_of(&client, silent)->is_closed);
    pass(2000);
    CHECK(client_await(&client, silent)->status == RP_GRPC_DEADLINE_EXCEEDED);
    CHECK(client_await(&client, head_alone)->status == RP_GRPC_DEADLINE_EXCEEDED);
    CHECK(!answer_of(&client, stream)->is_closed); /* a stream may be silent, with little of a message */
    client_close(&client);
    free(bytes);
    grpc_server_stop(&server);
}

static void what_comes_byte_by_byte_is_given_up_too(void) {
    struct client client;
    uint32_t size;
    uint8_t message[100] = {0}, *bytes = framed(message, sizeof message, &size);
    start();
    client_open(&client, &server, 0);
    int32_t drip = begin(&client, METHOD_ECHO, bytes, 50);
    int rounds = 0;
    for (; rounds < 20 && !answer_of(&client, drip)->is_closed; rounds++) {
        client_go_on(&client, drip, bytes, 1);
        let_it_turn(); /* the byte is there before the clock goes on */
        pass(STALL_MS - 10000);
        client_turn(&client, 20);
    }
    const struct answer *answer = client_await(&client, drip);
    CHECK(answer->status == RP_GRPC_DEADLINE_EXCEEDED);
    CHECK(rounds >= 10);
    client_close(&client);
    free(bytes);
    grpc_server_stop(&server);
}

static void the_oldest_make_room_for_others(void) {
    static uint8_t message[LARGE];
    struct client slow, quick;
    uint32_t size;
    uint8_t *bytes = framed(message, LARGE, &size);
    start();
    client_open(&slow, &server, 0);
    client_open(&quick, &server, 0);
    int32_t oldest = begin(&slow, METHOD_ECHO, bytes, size - 1), streamed = begin(&slow, METHOD_STREAM, bytes, 100000);
    CHECK(client_await(&quick, client_call(&quick, METHOD_ECHO, bytes, size))->status == RP_GRPC_RESOURCE_EXHAUSTED); /* it is new */
    pass(1100);
    CHECK(client_await(&quick, client_call(&quick, METHOD_ECHO, bytes, size))->status == RP_GRPC_OK);
    const struct answer *gone = client_await(&slow, oldest);
    CHECK(gone->status == RP_GRPC_RESOURCE_EXHAUSTED && strstr(gone->text, "slowly") != NULL);
    client_turn(&slow, 0);
    CHECK(!answer_of(&slow, streamed)->is_closed); /* there was room without it */
    client_close(&slow);
    client_close(&quick);
    free(bytes);
    grpc_server_stop(&server);
}

/* Each takes 16 KB, and a client says it in a few bytes. On a slow machine the first ones make room for the last. */
static void heads_alone_are_bounded(void) {
    enum { CALLS = 600, LARGE_HEAD = 15000 };
    static char text[LARGE_HEAD + 1];
    const char *const large[] = {"large", text, NULL};
    struct client client;
    rp_server_stats stats;
    memset(text, 'y', LARGE_HEAD);
    start();
    client_open(&client, &server, 0);
    int32_t first = 0, last = 0;
    for (int count = 0; count < CALLS; count++) {
        last = client_call_with(&client, METHODS[METHOD_ECHO].path, NULL, 0, 1, large);
        first = first != 0 ? first : last;
    }
    int64_t until = now_ms() + WAIT_MS;
    while (!answer_of(&client, first)->is_closed && !answer_of(&client, last)->is_closed) {
        CHECK(now_ms() < until);
        client_turn(&client, 100);
    }
    int32_t refused = answer_of(&client, first)->is_closed ? first : last;
    CHECK(answer_of(&client, refused)->status == RP_GRPC_RESOURCE_EXHAUSTED);
    rp_server_read_stats(server.server, &stats);
    CHECK(stats.buffer_bytes < 5u << 20);
    pass(1100); /* whoever comes now is let in: others go */
    client_close(&client);
    grpc_server_stop(&server);
}

int main(void) {
    RUN(what_does_not_come_is_given_up);
    RUN(what_comes_byte_by_byte_is_given_up_too);
    RUN(the_oldest_make_room_for_others);
    RUN(heads_alone_are_bounded);
    return 0;
}
