/* proxy_calls_test.c: gRPC clients, a proxy with two reactors, and a broker that closes connections and goes away now and then, while
 * routes, brokers and renewals change: each call ends once, natively or by "Python", which is the main thread here. */
#include <pthread.h>

#include "proxy_server.h"

#define CLIENTS 3
#define ROUNDS 150
#define CALLS CALL_KINDS /* of a round at once */

enum { GO_AWAY = 1500 };

static int on_request(void *context, rp_reactor *reactor, rp_connection *connection, const rp_command *command, int resubmitted) {
    static _Atomic uint32_t asked;
    uint32_t number = atomic_fetch_add(&asked, 1);
    (void)context, (void)reactor, (void)resubmitted;
    if (number % 97 == 96)
        return RP_E_PROTOCOL; /* its connection is closed */
    static uint8_t room[POPPED_ROOM]; /* of the broker's only reactor */
    rp_command response;
    fill_answer(&response, command, number % 7 == 0 ? 70000 : 10, room);
    if (number % 31 == 30)
        response.code = GO_AWAY;
    CHECK(rp_connection_write(connection, &response) == RP_OK);
    return RP_HANDLED;
}

typedef struct client_thread {
    struct grpc_server *server;
    pthread_t thread;
    _Atomic uint32_t *running;
} client_thread;

static void *ask_many(void *context) {
    client_thread *own = context;
    struct client client;
    uint32_t sizes[CALL_KINDS];
    uint8_t *calls[CALL_KINDS];
    for (int kind = 0; kind < CALL_KINDS; kind++)
        calls[kind] = call_of(kind, &sizes[kind]);
    client_open(&client, own->server, 0);
    CHECK(setsockopt(client.fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        int32_t streams[CALLS];
        for (int at = 0; at < CALLS; at++)
            streams[at] = client_call_with(&client, path_of(at), calls[at], sizes[at], 0, named);
        for (int at = 0; at < CALLS; at++) {
            struct answer *answer = client_await(&client, streams[at]);
            CHECK(answer->is_closed && answer->http_status == 200 && answer->status == 0 && answer->size >= 5);
        }
    }
    client_close(&client);
    for (int kind = 0; kind < CALL_KINDS; kind++)
        free(calls[kind]);
    atomic_fetch_sub(own->running, 1);
    return NULL;
}

#define RUDE_ROUNDS 100

/* Asks, and is gone: its calls end with its connection, now and then in the turn in which the broker hangs up. */
static void *ask_and_go(void *context) {
    client_thread *own = context;
    uint32_t sizes[2];
    uint8_t *calls[2] = {call_of(CALL_SEND, &sizes[0]), call_of(CALL_RECEIVE, &sizes[1])};
    for (int round = 0; round < RUDE_ROUNDS; round++) {
        struct client client;
        client_open(&client, own->server, 0);
        for (int at = 0; at < CALLS; at++)
            client_call_with(&client, methods[at % 2 ? CALL_RECEIVE : CALL_SEND].path, calls[at % 2], sizes[at % 2], 0, named);
        client_say(&client);
        if (round % 2 == 0)
            client_turn(&client, 1);
        client_close(&client);
    }
    free(calls[0]);
    free(calls[1]);
    atomic_fetch_sub(own->running, 1);
    return NULL;
}

static void change_tables(rp_proxy *proxy, const rp_address *address, uint32_t round) {
    const rp_route_broker broker = {text_slice("b"), *address};
    const rp_route_queue queues[2] = {{0, 0}, {0, 1}};
    const rp_route route = {RP_SENT_NORMAL, &broker, 1, queues, 2, INT64_MAX, INT64_MAX, 0, 0};
    const rp_held_key key = {text_slice("c"), text_slice("g"), text_slice(HANDLE)};
    rp_held_handles *held = rp_proxy_held(proxy);
    CHECK(rp_proxy_put_broker(proxy, text_slice("b"), address) == RP_OK);
    CHECK(rp_proxy_put_route(proxy, text_slice("t"), &route) == RP_OK);
    CHECK(rp_held_handles_hold(held, &key) == RP_OK);
    free(rp_held_handles_tell(held, INT64_MAX));
    put_reading(proxy, address);
    if (round % 3 == 0 && rp_held_handles_begin_renewal(held, &key))
        rp_held_handles_end_renewal(held, &key, text_slice("6 9000000000000 60000 0 0 b 1 7"));
    if (round % 16 == 0)
        rp_proxy_forget_route(proxy, text_slice("t"));
    if (round % 16 == 4)
        rp_proxy_forget_reading(proxy, text_slice("t"), text_slice("g"));
    if (round % 16 == 12)
        rp_proxy_forget_client(proxy, text_slice("c"));
    if (round % 16 == 8)
        rp_proxy_forget_broker(proxy, text_slice("b"));
}

int main(void) {
    static _Atomic uint32_t running = CLIENTS;
    struct grpc_server server = {0};
    rp_address address;
    rp_proxy *proxy;
    client_thread clients[CLIENTS];
    rp_server *broker = start_broker(on_request, &address);
    start_proxy(&server, &proxy, 2);
    for (int at = 0; at < CLIENTS; at++) {
        clients[at] = (client_thread){.server = &server, .running = &running};
        CHECK(pthread_create(&clients[at].thread, NULL, at == CLIENTS - 1 ? ask_and_go : ask_many, &clients[at]) == 0);
    }
    for (uint32_t round = 0; atomic_load(&running) > 0; round++) {
        change_tables(proxy, &address, round);
        if (answer_punted(&server) == 0) {
            struct pollfd waiting = {rp_server_event_fd(server.server), POLLIN, 0};
            poll(&waiting, 1, 1);
        }
    }
    for (int at = 0; at < CLIENTS; at++)
        pthread_join(clients[at].thread, NULL);
    rp_proxy_stats stats;
    rp_proxy_read_stats(proxy, &stats);
    uint64_t passed = stats.sent + stats.acknowledged + stats.changed + stats.received;
    printf("sent %llu, acknowledged %llu, changed %llu, received %llu, answered %llu, punted %llu, errands %llu\n",
           (unsigned long long)stats.sent, (unsigned long long)stats.acknowledged, (unsigned long long)stats.changed,
           (unsigned long long)stats.received, (unsigned long long)stats.answered, (unsigned long long)stats.punted,
           (unsigned long long)stats.errands);
    CHECK(stats.sent > 0 && stats.acknowledged > 0 && stats.changed > 0 && stats.received > 0 && stats.answered <= passed);
    CHECK(passed + stats.punted >= (CLIENTS - 1) * ROUNDS * CALLS);
    grpc_server_stop(&server);
    rp_proxy_read_stats(proxy, &stats);
    CHECK(stats.waiting == 0 && stats.upstreams == 0);
    rp_proxy_close(proxy);
    rp_server_stop(broker, 0);
    rp_server_close(broker);
    return 0;
}
