/* proxy_server.h: what the programs about csrc/proxy share: a send and an acknowledgement as clients make them, and a server for both. */
#ifndef RP_TESTS_PROXY_SERVER_H
#define RP_TESTS_PROXY_SERVER_H

#include "../../../csrc/proxy/proxy.h"
#include "grpc_client.h"

#define HANDLE "5 9000000000000 60000 0 0 b 1 7"

static const rp_grpc_method methods[] = {{"/test.Service/Send", 0}, {"/test.Service/Ack", 0}};
static const char *const named[] = {"x-mq-client-id", "c", NULL};
static const uint8_t sent[] = {0x0A, 14, 0x0A, 3, 0x12, 1, 't', 0x1A, 4, 0x1A, 2, 'M', '1', 0x22, 1, 'x'};
static const uint8_t acked[] = "\x0A\x03\x12\x01g\x12\x03\x12\x01t\x1A\x21\x12\x1F" HANDLE;
_Static_assert(sizeof HANDLE - 1 == 0x1F, "its size stands in acked");

/* Without brokers and routes. The program ends with 77 where there is no libnghttp2. */
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
    grpc_options.method_count = 2;
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
