/* proxy_memory_test.c: the n-th allocation of a reactor fails, for n = 1, 2, … from a proxy's first call to its last: each call ends, or
 * its connection does; later ones are answered; no call is left waiting. */
#include "memory_out.h"
#include "proxy_server.h"

static int on_request(void *context, rp_reactor *reactor, rp_connection *connection, const rp_command *command, int resubmitted) {
    static uint8_t room[POPPED_ROOM]; /* of the broker's only reactor */
    rp_command response;
    (void)context, (void)reactor, (void)resubmitted;
    fill_answer(&response, command, 10, room);
    return rp_connection_write(connection, &response) == RP_OK ? RP_HANDLED : RP_E_NO_MEMORY;
}

static void put_route(rp_proxy *proxy, const rp_address *address) {
    const rp_route_broker broker = {text_slice("b"), *address};
    const rp_route_queue queue = {0, 0};
    const rp_route route = {RP_SENT_NORMAL, &broker, 1, &queue, 1, INT64_MAX, INT64_MAX, 0, 0};
    CHECK(rp_proxy_put_broker(proxy, text_slice("b"), address) == RP_OK);
    CHECK(rp_proxy_put_route(proxy, text_slice("t"), &route) == RP_OK);
    put_reading(proxy, address);
}

/* A call of each kind, at once. 1: all are answered; 0: not, or the connection has ended. */
static int live(struct grpc_server *server) {
    struct client client;
    const struct answer *answers[CALL_KINDS];
    uint8_t *calls[CALL_KINDS];
    int closed = 0, whole = 1;
    client_open(&client, server, 0);
    for (int kind = 0; kind < CALL_KINDS; kind++) {
        uint32_t size;
        calls[kind] = call_of(kind, &size);
        answers[kind] = answer_of(&client, client_call_with(&client, path_of(kind), calls[kind], size, 0, named));
    }
    for (int64_t until = now_ms() + WAIT_MS; closed < CALL_KINDS && !client.is_over;) {
        CHECK(now_ms() < until);
        client_turn(&client, 1);
        answer_punted(server);
        closed = 0;
        for (int kind = 0; kind < CALL_KINDS; kind++)
            closed += answers[kind]->is_closed;
    }
    for (int kind = 0; kind < CALL_KINDS; kind++)
        whole = whole && answers[kind]->is_closed && answers[kind]->status == 0;
    client_close(&client);
    for (int kind = 0; kind < CALL_KINDS; kind++)
        free(calls[kind]);
    return whole;
}

static void memory_that_is_out_leaves_no_call_without_an_end(void) {
    rp_address address;
    rp_server *broker = start_broker(on_request, &address);
    long failed = 0;
    for (long number = 1;; number++) {
        struct grpc_server server = {0};
        rp_proxy_stats stats;
        rp_proxy *proxy;
        start_proxy(&server, &proxy, 1);
        put_route(proxy, &address);
        fail_in_others(number);
        live(&server);
        bool has_failed = end_failing();
        CHECK(live(&server));
        grpc_server_stop(&server);
        rp_proxy_read_stats(proxy, &stats);
        CHECK(stats.waiting == 0 && stats.upstreams == 0);
        rp_proxy_close(proxy);
        if (!has_failed)
            break;
        failed++;
    }
    printf("%ld allocations failed\n", failed);
    CHECK(failed > 30);
    rp_server_stop(broker, 0);
    rp_server_close(broker);
}

int main(void) {
    if (HAS_OWN_MEMORY)
        RUN(memory_that_is_out_leaves_no_call_without_an_end);
    return 0;
}
