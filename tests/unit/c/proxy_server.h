/* proxy_server.h: shared by the programs about csrc/proxy: calls as clients make them, a server for them, a broker's answer to a pop. */
#ifndef RP_TESTS_PROXY_SERVER_H
#define RP_TESTS_PROXY_SERVER_H

#include "../../../csrc/base/bytes_inl.h"
#include "../../../csrc/proxy/proxy.h"
#include "grpc_client.h"

#define HANDLE "5 9000000000000 60000 0 0 b 1 7"

enum { CALL_SEND = 0, CALL_ACK, CALL_CHANGE, CALL_RECEIVE, CALL_BATCH, CALL_KINDS };

static const rp_grpc_method methods[] = {
    {"/test.Service/Send", 0}, {"/test.Service/Ack", 0}, {"/test.Service/Change", 0}, {"/test.Service/Receive", 0}};
static const char *const named[] = {"x-mq-client-id", "c", NULL};
static const uint8_t sent[] = {0x0A, 14, 0x0A, 3, 0x12, 1, 't', 0x1A, 4, 0x1A, 2, 'M', '1', 0x22, 1, 'x'};
static const uint8_t batch[] = {0x0A, 14, 0x0A, 3, 0x12, 1, 't', 0x1A, 4, 0x1A, 2, 'M', '1', 0x22, 1, 'x',
                                0x0A, 14, 0x0A, 3, 0x12, 1, 't', 0x1A, 4, 0x1A, 2, 'M', '2', 0x22, 1, 'y'};
static const uint8_t acked[] = "\x0A\x03\x12\x01g\x12\x03\x12\x01t\x1A\x21\x12\x1F" HANDLE "\x1A\x21\x12\x1F" HANDLE; /* two */
static const uint8_t changed[] = "\x0A\x03\x12\x01g\x12\x03\x12\x01t\x1A\x1F" HANDLE "\x22\x02\x08\x05";
static const uint8_t received[] = "\x0A\x03\x12\x01g\x12\x05\x0A\x03\x12\x01t\x2A\x02\x08\x3C\x30\x01"; /* renewed */
_Static_assert(sizeof HANDLE - 1 == 0x1F, "its size stands in acked and changed");

static const char *path_of(int kind) { return methods[kind == CALL_BATCH ? CALL_SEND : kind].path; }

/* Returns a framed call of one of the kinds; the caller frees it. */
static uint8_t *call_of(int kind, uint32_t *size) {
    const uint8_t *const messages[] = {sent, acked, changed, received, batch};
    const uint32_t sizes[] = {sizeof sent, sizeof acked - 1, sizeof changed - 1, sizeof received - 1, sizeof batch};
    return framed(messages[kind], sizes[kind], size);
}

/* Writes a record of topic t, queue 0, with a body of body_size bytes, tag T and the id M; returns its size. */
static uint32_t write_popped(uint8_t *target, int64_t offset, uint32_t body_size) {
    static const char properties[] = "TAGS\1T\2UNIQ_KEY\1M\2";
    uint32_t size = 88 + body_size + 1 + 1 + 2 + (uint32_t)sizeof properties - 1;
    uint8_t *at = target + 88 + body_size;
    memset(target, 0, size);
    rp_put_u32(target, size);
    rp_put_u32(target + 4, 0xDAA320A7u);
    rp_put_u64(target + 20, (uint64_t)offset);
    rp_put_u32(target + 84, body_size);
    *at++ = 1;
    *at++ = 't';
    rp_put_u16(at, sizeof properties - 1);
    memcpy(at + 2, properties, sizeof properties - 1);
    return size;
}

#define POPPED_EACH 2
#define POPPED_ROOM (POPPED_EACH * (256u + 70000u))

/* Fills in a broker's answer to a pop, a renewal, or anything else; its body, with messages of body_size bytes, is in room. */
static void fill_answer(rp_command *response, const rp_command *request, uint32_t body_size, uint8_t room[POPPED_ROOM]) {
    rp_command_clear_response(response, request, 0);
    rp_command_add_field(response, text_slice("queueOffset"), text_slice("7"));
    rp_command_add_field(response, text_slice("popTime"), text_slice("9000000000000"));
    rp_command_add_field(response, text_slice("invisibleTime"), text_slice("60000"));
    rp_command_add_field(response, text_slice("reviveQid"), text_slice("0"));
    uint32_t size = 0;
    for (int64_t number = 0; request->code == 200050 && number < POPPED_EACH; number++)
        size += write_popped(room + size, number, body_size);
    response->body = (rp_slice){room, size};
}

/* Puts how group g reads topic t from broker b, and client c. */
static void put_reading(rp_proxy *proxy, const rp_address *address) {
    const rp_route_broker broker = {text_slice("b"), *address};
    const rp_route_queue queue = {0, 0};
    const rp_route route = {1, &broker, 1, &queue, 1, INT64_MAX, INT64_MAX, 0, 16};
    CHECK(rp_proxy_put_reading(proxy, text_slice("t"), text_slice("g"), &route) == RP_OK);
    CHECK(rp_proxy_put_client(proxy, text_slice("c"), 1000) == RP_OK);
}

typedef int (*broker_ask)(void *context, rp_reactor *reactor, rp_connection *connection, const rp_command *command, int resubmitted);

/* Starts a broker with one reactor, for which on_request answers. */
static rp_server *start_broker(broker_ask on_request, rp_address *address) {
    const rp_handler handler = {.on_request = on_request};
    rp_server_options options;
    rp_error error = {0};
    rp_server *broker;
    rp_server_options_default(&options);
    options.bind_address = "127.0.0.1";
    options.reactors = 1;
    CHECK(rp_server_open(&options, &handler, &broker, &error) == RP_OK && rp_server_start(broker, &error) == RP_OK);
    *address = (rp_address){{127, 0, 0, 1}, 4, rp_server_port(broker)};
    return broker;
}

/* Answers the calls that were left to Python; returns their number. */
static uint32_t answer_punted(struct grpc_server *server) {
    rp_request *requests[64];
    uint32_t count = rp_server_take(server->server, requests, 64);
    for (uint32_t index = 0; index < count; index++) {
        if (requests[index]->kind == RP_REQUEST_CALL)
            rp_grpc_send(server->server, requests[index]->connection_id, requests[index]->command.opaque, text_slice(""), 1);
        rp_request_free(requests[index]);
    }
    return count;
}

/* Starts a proxy without brokers and routes. Exits with 77 if libnghttp2 is missing. */
static void start_proxy(struct grpc_server *server, rp_proxy **proxy, uint32_t reactors) {
    rp_proxy_options proxy_options;
    rp_grpc_options grpc_options;
    rp_server_options options;
    rp_error error = {0};
    rp_proxy_options_default(&proxy_options);
    proxy_options.reactors = reactors;
    CHECK(rp_proxy_open(&proxy_options, proxy, &error) == RP_OK);
    rp_grpc_options_default(&grpc_options);
    grpc_options.methods = methods;
    grpc_options.method_count = sizeof methods / sizeof *methods;
    grpc_options.handler = rp_proxy_grpc_handler(*proxy);
    if (rp_grpc_create(&grpc_options, &server->grpc, &error) != RP_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(error.status == RP_E_UNSUPPORTED ? 77 : 1);
    }
    CHECK(rp_log_create(&server->log) == RP_OK);
    rp_server_options_default(&options);
    options.bind_address = "127.0.0.1";
    options.reactors = reactors;
    options.log = server->log;
    CHECK(rp_server_open(&options, rp_proxy_handler(*proxy), &server->server, &error) == RP_OK);
    CHECK(rp_server_set_protocol(server->server, rp_grpc_protocol(server->grpc)) == RP_OK);
    CHECK(rp_server_start(server->server, &error) == RP_OK);
}

#endif
