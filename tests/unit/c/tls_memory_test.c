/* tls_memory_test.c: the n-th allocation of a reactor fails, for n = 1, 2, … through a whole TLS connection: at worst that connection
 * ends, and the next is served. */
#include "tls_client.h"

#include <signal.h>

#include "memory_out.h"

static uint8_t message[100000];

static int answer(void *context, rp_reactor *reactor, rp_connection *connection, const rp_command *command, int resubmitted) {
    (void)context, (void)reactor, (void)resubmitted;
    rp_command response;
    rp_command_clear_response(&response, command, 0);
    response.body = (rp_slice){NULL, sizeof message};
    rp_file_range range = {message, sizeof message, -1, 0, NULL, NULL};
    int status = rp_connection_write(connection, &response);
    status = status == RP_OK ? rp_connection_send_ranges(connection, &range, 1) : status;
    return status == RP_OK ? RP_HANDLED : status;
}

/* A handshake, a request, an answer of several records, as far as that goes. 1: to the end. */
static int live(struct harness *harness, int version) {
    uint8_t frame[4096];
    struct tls_client client = tls_prepare(dial(harness), version, NULL, NULL);
    int left = 1;
    if (calls.connect(client.ssl) == 1) {
        int size = (int)make_request(frame, sizeof frame, 0, CODE_RANGE, 1, "x", (rp_slice){NULL, 0});
        int count = calls.write(client.ssl, frame, size) == size;
        left = sizeof message;
        while (count > 0 && left > 0 && (count = calls.read(client.ssl, frame, sizeof frame)) > 0) {
            left -= count;
        }
        if (left <= 0) {
            openssl.ssl_shutdown(client.ssl);
        }
    }
    openssl.err_clear();
    tls_hang_up(client);
    return left <= 0;
}

static rp_server *open_server(void) {
    rp_server_options options;
    rp_tls_options own = {0};
    rp_handler handler = {.on_request = answer};
    rp_server *server;
    rp_error error;
    rp_server_options_default(&options);
    options.bind_address = "127.0.0.1";
    options.tls_mode = RP_TLS_PERMISSIVE;
    CHECK(rp_server_open(&options, &handler, &server, &error) == RP_OK && rp_server_load_tls(server, &own, &error) == RP_OK);
    CHECK(rp_server_start(server, &error) == RP_OK);
    return server;
}

static void await_none(rp_server *server) {
    rp_server_stats stats;
    for (int64_t until = now_ms() + WAIT_MS;; poll(NULL, 0, 1)) {
        rp_server_read_stats(server, &stats);
        if (stats.connections_open == 0) {
            return;
        }
        CHECK(now_ms() < until);
    }
}

static void forget_events(rp_server *server) {
    rp_request *requests[64];
    for (uint32_t count; (count = rp_server_take(server, requests, 64)) > 0;) {
        for (uint32_t index = 0; index < count; index++) {
            rp_request_free(requests[index]);
        }
    }
}

static void memory_that_is_out_ends_one_connection_at_worst(void) {
    struct harness harness = {.server = open_server()};
    long failed = 0;
    for (int version = TLS1_2; version <= TLS1_3; version++) {
        CHECK(live(&harness, version));
        for (long number = 1;; number++) {
            await_none(harness.server);
            forget_events(harness.server);
            fail_in_others(number);
            live(&harness, version);
            await_none(harness.server);
            if (!end_failing()) {
                break;
            }
            failed++;
            CHECK(number % 16 != 0 || live(&harness, version));
        }
    }
    printf("%ld allocations failed\n", failed);
    CHECK(failed > 100);
    forget_events(harness.server);
    rp_server_stats stats;
    rp_server_stop(harness.server, 100);
    rp_server_read_stats(harness.server, &stats);
    CHECK(stats.connections_open == 0 && stats.buffer_bytes == 0);
    forget_events(harness.server);
    rp_server_close(harness.server);
}

int main(void) {
    if (!HAS_OWN_MEMORY)
        return 0;
    signal(SIGPIPE, SIG_IGN); /* OpenSSL's clients write so */
    load_openssl();
    RUN(memory_that_is_out_ends_one_connection_at_worst);
    return 0;
}
