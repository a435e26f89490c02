/* grpc_memory_test.c: the n-th allocation of a reactor fails, for n = 1, 2, … through a whole gRPC connection: at worst that connection, or
 * one of its calls, ends; the next is served, and nothing is leaked. */
#include "grpc_client.h"
#include "memory_out.h"

#define MESSAGE_BYTES (2u << 20)

static struct grpc_server server;

/* What Python does with all that has come up. */
static void answer_events(void) {
    rp_request *event;
    while (rp_server_take(server.server, &event, 1) == 1) {
        uint64_t id = event->connection_id;
        int32_t call = event->command.opaque;
        if (event->kind == RP_REQUEST_CALL && event->command.code == METHOD_PYTHON) {
            rp_grpc_send(server.server, id, call, event->command.body, 1);
        } else if (event->kind == RP_REQUEST_MESSAGE) {
            rp_grpc_send(server.server, id, call, event->command.body, 0);
            rp_grpc_took(server.server, id, call);
        } else if (event->kind == RP_REQUEST_HALF_CLOSED) {
            rp_grpc_end(server.server, id, call, 7, text_slice("enough"));
        }
        rp_request_free(event);
    }
}

/* 1: it was answered as it should be; 0: not, or the connection has ended. */
static int is_answered(struct client *client, int32_t stream, int32_t status, uint32_t size) {
    const struct answer *answer = answer_of(client, stream);
    for (int64_t until = now_ms() + WAIT_MS; !answer->is_closed && !client->is_over;) {
        CHECK(now_ms() < until);
        client_turn(client, 1);
        answer_events();
    }
    return answer->is_closed && answer->status == status && answer->size == size;
}

/* A call of each kind, as far as that goes. 1: to the end. */
static int live(void) {
    static uint8_t message[50000];
    static const char *const further[] = {"x-mq-client-id", "c1", "x-large", NULL, NULL};
    static char large[3000];
    const char *const with_head[] = {further[0], further[1], further[2], large, NULL};
    struct client client;
    uint32_t size;
    uint8_t *body = framed(message, sizeof message, &size);
    memset(large, 'x', sizeof large - 1);
    client_open(&client, &server, 0);
    int32_t streams[4] = {client_call(&client, METHOD_ECHO, body, size),
                          client_call_with(&client, METHODS[METHOD_PYTHON].path, body, size, 0, with_head),
                          client_call_with(&client, METHODS[METHOD_STREAM].path, body, size, 0, NULL),
                          client_call_with(&client, "/nothing", body, size, 0, NULL)};
    int whole = is_answered(&client, streams[0], RP_GRPC_OK, size) & is_answered(&client, streams[1], RP_GRPC_OK, size) &
                is_answered(&client, streams[2], 7, size) & is_answered(&client, streams[3], RP_GRPC_UNIMPLEMENTED, 0);
    client_close(&client);
    free(body);
    return whole;
}

static void await_none(void) {
    rp_server_stats stats;
    for (int64_t until = now_ms() + WAIT_MS;; poll(NULL, 0, 1)) {
        answer_events();
        rp_server_read_stats(server.server, &stats);
        if (stats.connections_open == 0) {
            return;
        }
        CHECK(now_ms() < until);
    }
}

static void memory_that_is_out_ends_one_connection_at_worst(void) {
    rp_server_options options;
    rp_server_options_default(&options);
    grpc_server_start(&server, &options, MESSAGE_BYTES);
    long failed = 0;
    CHECK(live());
    for (long number = 1;; number++) {
        await_none();
        fail_in_others(number);
        live();
        await_none();
        if (!end_failing()) {
            break;
        }
        failed++;
        CHECK(number % 16 != 0 || live());
    }
    CHECK(live());
    printf("%ld allocations failed\n", failed);
    CHECK(failed > 50);
    await_none();
    grpc_server_stop(&server);
}

int main(void) {
    if (HAS_OWN_MEMORY)
        RUN(memory_that_is_out_ends_one_connection_at_worst);
    return 0;
}
