/* proxy_memory_test.c: the n-th allocation of a reactor fails, for n = 1, 2, … from a proxy's first call to its last: each call ends, or
 * its connection does; the next are answered; nothing waits at the end. */
#include "../../../csrc/proxy/proxy.h"
#include "grpc_client.h"

static _Atomic long countdown; /* allocations of other threads than the first until one fails; 0: none does */
static _Atomic long failures;

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ /* theirs is the allocator */

static int is_due(void) {
    if (atomic_load(&countdown) == 0 || gettid() == getpid())
        return 0;
    int fails = atomic_fetch_sub(&countdown, 1) == 1;
    atomic_fetch_add(&failures, fails);
    return fails;
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);

void *malloc(size_t size) { return is_due() ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return is_due() ? NULL : __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { return is_due() ? NULL : __libc_realloc(block, size); }

#endif

#define HANDLE "5 9000000000000 60000 0 0 b 1 7"

static const rp_grpc_method methods[] = {{"/test.Service/Send", 0}, {"/test.Service/Ack", 0}};
static const char *const named[] = {"x-mq-client-id", "c", NULL};
static const uint8_t sent[] = {0x0A, 14, 0x0A, 3, 0x12, 1, 't', 0x1A, 4, 0x1A, 2, 'M', '1', 0x22, 1, 'x'};
static const uint8_t acked[] = "\x0A\x03\x12\x01g\x12\x03\x12\x01t\x1A\x21\x12\x1F" HANDLE;
_Static_assert(sizeof HANDLE - 1 == 0x1F, "its size stands in acked");

static int on_request(void *context, rp_reactor *reactor, rp_connection *connection, const rp_command *command, int resubmitted) {
    rp_command response;
    (void)context, (void)reactor, (void)resubmitted;
    rp_command_clear_response(&response, command, 0);
    return rp_connection_write(connection, &response) == RP_OK ? RP_HANDLED : RP_E_NO_MEMORY;
}

static rp_server *start_broker(rp_address *address) {
    const rp_handler handler = {.on_request = on_request};
    rp_server_options options;
    rp_error error = {0};
    rp_server *broker;
    rp_server_options_default(&options);
    options.bind_address = "127.0.0.1";
    CHECK(rp_server_open(&options, &handler, &broker, &error) == RP_OK && rp_server_start(broker, &error) == RP_OK);
    *address = (rp_address){{127, 0, 0, 1}, 4, rp_server_port(broker)};
    return broker;
}

static void start_proxy(struct grpc_server *server, rp_proxy **proxy, const rp_address *address) {
    const rp_route_broker broker = {text_slice("b"), *address};
    const rp_route_queue queue = {0, 0};
    const rp_route route = {RP_SENT_NORMAL, &broker, 1, &queue, 1, INT64_MAX, INT64_MAX};
    rp_proxy_options proxy_options;
    rp_grpc_options grpc_options;
    rp_server_options options;
    rp_error error = {0};
    rp_proxy_options_default(&proxy_options);
    CHECK(rp_proxy_open(&proxy_options, proxy, &error) == RP_OK);
    CHECK(rp_proxy_put_broker(*proxy, text_slice("b"), address) == RP_OK);
    CHECK(rp_proxy_put_route(*proxy, text_slice("t"), &route) == RP_OK);
    rp_grpc_options_default(&grpc_options);
    grpc_options.methods = methods;
    grpc_options.method_count = 2;
    grpc_options.handler = rp_proxy_grpc_handler(*proxy);
    if (rp_grpc_create(&grpc_options, &server->grpc, &error) != RP_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(error.status == RP_E_UNSUPPORTED ? 77 : 1);
    }
    CHECK(rp_log_create(&server->log) == RP_OK);
    rp_server_options_default(&options);
    options.bind_address = "127.0.0.1";
    options.log = server->log;
    CHECK(rp_server_open(&options, rp_proxy_handler(*proxy), &server->server, &error) == RP_OK);
    CHECK(rp_server_set_protocol(server->server, rp_grpc_protocol(server->grpc)) == RP_OK);
    CHECK(rp_server_start(server->server, &error) == RP_OK);
}

/* Answers what was left to Python. */
static void answer_punted(struct grpc_server *server) {
    rp_request *event;
    while (rp_server_take(server->server, &event, 1) == 1) {
        if (event->kind == RP_REQUEST_CALL)
            rp_grpc_send(server->server, event->connection_id, event->command.opaque, text_slice(""), 1);
        rp_request_free(event);
    }
}

/* A call of each kind, at once. 1: both are answered; 0: not, or the connection has ended. */
static int live(struct grpc_server *server) {
    struct client client;
    uint32_t send_size, ack_size;
    uint8_t *send_bytes = framed(sent, sizeof sent, &send_size), *ack_bytes = framed(acked, sizeof acked - 1, &ack_size);
    client_open(&client, server, 0);
    const struct answer *answers[] = {
        answer_of(&client, client_call_with(&client, methods[0].path, send_bytes, send_size, 0, named)),
        answer_of(&client, client_call_with(&client, methods[1].path, ack_bytes, ack_size, 0, named)),
    };
    for (int64_t until = now_ms() + WAIT_MS; !(answers[0]->is_closed && answers[1]->is_closed) && !client.is_over;) {
        CHECK(now_ms() < until);
        client_turn(&client, 1);
        answer_punted(server);
    }
    int whole = answers[0]->is_closed && answers[1]->is_closed && answers[0]->status == 0 && answers[1]->status == 0;
    client_close(&client);
    free(send_bytes);
    free(ack_bytes);
    return whole;
}

static void memory_that_is_out_leaves_no_call_without_an_end(void) {
    rp_address address;
    rp_server *broker = start_broker(&address);
    long failed = 0;
    for (long number = 1;; number++) {
        struct grpc_server server = {0};
        rp_proxy_stats stats;
        rp_proxy *proxy;
        start_proxy(&server, &proxy, &address);
        atomic_store(&countdown, number);
        live(&server);
        atomic_store(&countdown, 0);
        CHECK(live(&server));
        grpc_server_stop(&server);
        rp_proxy_read_stats(proxy, &stats);
        CHECK(stats.waiting == 0 && stats.upstreams == 0);
        rp_proxy_close(proxy);
        if (atomic_exchange(&failures, 0) == 0)
            break;
        failed++;
    }
    printf("%ld allocations failed\n", failed);
    CHECK(failed > 30);
    rp_server_stop(broker, 0);
    rp_server_close(broker);
}

int main(void) {
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    (void)memory_that_is_out_leaves_no_call_without_an_end;
#else
    RUN(memory_that_is_out_leaves_no_call_without_an_end);
#endif
    return 0;
}
