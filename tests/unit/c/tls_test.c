/* tls_test.c: TLS connections get the same as others, on the same port, encrypted. */
#include "tls_client.h"

#include <pthread.h>

static rp_server_options default_options(void) {
    rp_server_options options;
    rp_server_options_default(&options);
    options.reactors = 2;
    return options;
}

static void both_speak_in_one_port(void) {
    rp_server_options options = default_options();
    struct harness *harness = tls_harness(RP_TLS_PERMISSIVE, &options);
    int plain = dial(harness);
    struct tls_client old = tls_dial(harness, TLS1_2), new = tls_dial(harness, TLS1_3);
    CHECK(calls.version(old.ssl) == TLS1_2 && calls.version(new.ssl) == TLS1_3);
    for (int opaque = 0; opaque < 4; opaque++) {
        expect_echo(plain, opaque);
        tls_expect_echo(old, opaque);
        tls_expect_echo(new, opaque);
    }
    tls_hang_up(old);
    tls_hang_up(new);
    close(plain);
    harness_stop(harness);
}

static void ranges_of_files_and_large_bodies_pass(void) {
    static const char *const sizes[] = {"2", "5000", "40000", "300000", "4194304"};
    rp_server_options options = default_options();
    struct harness *harness = tls_harness(RP_TLS_ENFORCING, &options);
    struct tls_client client = tls_dial(harness, 0);
    for (int index = 0; index < 5; index++) {
        tls_send(client, index & 1, CODE_RANGE, index, sizes[index], (rp_slice){NULL, 0});
        tls_expect(client, index, harness->file, (uint32_t)atoi(sizes[index]));
    }
    for (uint32_t size = 1; size <= RANGE_FILE_BYTES / 2; size = size * 7 + 3) {
        tls_send(client, 1, CODE_ECHO, (int)size, "x", (rp_slice){harness->file, size});
        tls_expect(client, (int)size, harness->file, size);
    }
    tls_hang_up(client);
    harness_stop(harness);
}

/* Many requests as one stream of bytes, cut into records at random. */
static void requests_may_be_cut_in_any_way(void) {
    enum { REQUESTS = 300 };
    rp_server_options options = default_options();
    struct harness *harness = tls_harness(RP_TLS_PERMISSIVE, &options);
    struct tls_client client = tls_dial(harness, 0);
    uint8_t *stream = malloc(REQUESTS * 2000);
    CHECK(stream != NULL);
    uint32_t size = 0, seed = 4711;
    printf("seed %u\n", seed);
    for (int opaque = 0; opaque < REQUESTS; opaque++) {
        size += make_request(stream + size, 2000, opaque & 1, CODE_ECHO, opaque, "x", (rp_slice){harness->file, (uint32_t)opaque * 3});
    }
    for (uint32_t sent = 0; sent < size;) {
        seed = seed * 1664525 + 1013904223;
        uint32_t part = 1 + (seed >> 8) % ((seed >> 4) % 8 == 0 ? 30000 : 700);
        part = part < size - sent ? part : size - sent;
        CHECK(calls.write(client.ssl, stream + sent, (int)part) == (int)part);
        sent += part;
    }
    for (int opaque = 0; opaque < REQUESTS; opaque++) {
        tls_expect(client, opaque, harness->file, (uint32_t)opaque * 3);
    }
    free(stream);
    tls_hang_up(client);
    harness_stop(harness);
}

static void the_mode_says_who_is_refused(void) {
    rp_server_options options = default_options();
    struct harness *harness = tls_harness(RP_TLS_ENFORCING, &options);
    int plain = dial(harness);
    send_request(plain, RP_SERIALIZE_JSON, CODE_ECHO, 1, "x", (rp_slice){NULL, 0});
    CHECK(is_closed(plain) && log_says(harness, "an insecure connection while this server is running in SSL enforcing mode"));
    close(plain);
    harness_stop(harness);

    harness = tls_harness(RP_TLS_DISABLED, &options);
    struct tls_client client = tls_prepare(dial(harness), 0, NULL, NULL);
    CHECK(calls.connect(client.ssl) != 1 && log_says(harness, "while this server is running in SSL disabled mode"));
    tls_hang_up(client);
    harness_stop(harness);

    options.tls_mode = RP_TLS_PERMISSIVE;
    harness = harness_start(&options);
    client = tls_prepare(dial(harness), 0, NULL, NULL);
    CHECK(calls.connect(client.ssl) != 1 && log_says(harness, "sslContext is null: no certificate was loaded"));
    tls_hang_up(client);
    harness_stop(harness);
}

static void a_balancer_speaks_before_the_handshake(void) {
    static const char said[] = "PROXY TCP4 192.0.2.7 192.0.2.8 4711 10911\r\n";
    rp_server_options options = default_options();
    struct harness *harness = tls_harness(RP_TLS_ENFORCING, &options);
    int fd = dial(harness);
    write_all(fd, said, sizeof said - 1);
    struct tls_client client = tls_prepare(fd, 0, NULL, NULL);
    CHECK(calls.connect(client.ssl) == 1);
    tls_send(client, 0, CODE_PYTHON, 1, "x", (rp_slice){NULL, 0});
    rp_request *request = take_kind(harness, RP_REQUEST_COMMAND);
    CHECK(strcmp(request->remote_address, "192.0.2.7:4711") == 0);
    rp_request_free(request);
    tls_expect_echo(client, 2);
    tls_hang_up(client);
    harness_stop(harness);
}

/* What Python sends, and what other threads write while the reactor sleeps, is sealed by one thread at a time. */
static void other_threads_answer_too(void) {
    rp_server_options options = default_options();
    options.reactors = 1;
    struct harness *harness = tls_harness(RP_TLS_PERMISSIVE, &options);
    struct tls_client waiting = tls_dial(harness, 0), busy = tls_dial(harness, 0);
    for (int opaque = 0; opaque < 200; opaque++) {
        tls_send(waiting, 0, CODE_LATER, opaque, "x", (rp_slice){NULL, 0});
        tls_expect_echo(busy, opaque); /* behind the other in one turn, or in one that follows */
        tls_expect_echo(waiting, 1000 + opaque);
        tls_send(busy, 0, CODE_RANGE, opaque, "100000", (rp_slice){NULL, 0});
        rp_reactor_serve(rp_server_reactor(harness->server, 0));
        tls_expect(busy, opaque, harness->file, 100000);
        tls_expect(waiting, opaque, NULL, 0);
    }
    tls_hang_up(waiting);
    tls_hang_up(busy);
    harness_stop(harness);
}

static void an_end_is_told_on_both_sides(void) {
    rp_server_options options = default_options();
    struct harness *harness = tls_harness(RP_TLS_PERMISSIVE, &options);
    struct tls_client client = tls_dial(harness, 0);
    int has_said_so = 0;
    tls_send(client, 0, CODE_REFUSE, 1, "x", (rp_slice){NULL, 0});
    CHECK(tls_is_closed(client, &has_said_so) && has_said_so);
    tls_hang_up(client);
    client = tls_dial(harness, 0);
    tls_send(client, 0, CODE_ECHO, 1, "x", (rp_slice){NULL, 0});
    openssl.ssl_shutdown(client.ssl);
    CHECK(is_closed(client.fd));
    tls_hang_up(client);
    harness_stop(harness);
}

static void keys_are_changed_and_nothing_is_negotiated_again(void) {
    rp_server_options options = default_options();
    struct harness *harness = tls_harness(RP_TLS_PERMISSIVE, &options);
    struct tls_client client = tls_dial(harness, TLS1_3);
    for (int opaque = 0; opaque < 50; opaque++) {
        CHECK(calls.key_update(client.ssl, 1) == 1); /* and the server is to change its own */
        tls_expect_echo(client, opaque);
    }
    tls_hang_up(client);
    client = tls_dial(harness, TLS1_2);
    CHECK(calls.renegotiate(client.ssl) == 1);
    CHECK(openssl.ssl_do_handshake(client.ssl) != 1 || calls.read(client.ssl, &options, 1) <= 0);
    tls_hang_up(client);
    harness_stop(harness);
}

static void a_new_certificate_is_for_new_connections(void) {
    rp_server_options options = default_options();
    struct harness *harness = tls_harness(RP_TLS_PERMISSIVE, &options);
    rp_error error = {0};
    unsigned char first[32], second[32], third[32];
    struct tls_client early = tls_dial(harness, 0);
    tls_fingerprint(early, first);
    write_certificate("renewed", "cert.pem", "key.pem", "secret");
    rp_tls_options files = {.certificate_path = "cert.pem", .key_path = "key.pem", .key_password = "secret"};
    CHECK(rp_server_load_tls(harness->server, &files, &error) == RP_OK);
    struct tls_client late = tls_dial(harness, 0);
    tls_fingerprint(late, second);
    CHECK(memcmp(first, second, sizeof first) != 0);
    /* What cannot be loaded changes nothing. */
    rp_tls_options locked = files;
    locked.key_password = "guessed";
    CHECK(rp_server_load_tls(harness->server, &locked, &error) == RP_E_INVALID && strstr(error.message, "keyPassword") != NULL);
    locked.key_password = NULL;
    CHECK(rp_server_load_tls(harness->server, &locked, &error) == RP_E_INVALID);
    locked.key_path = NULL;
    CHECK(rp_server_load_tls(harness->server, &locked, &error) == RP_E_INVALID && strstr(error.message, "name both") != NULL);
    write_certificate("other", "other.pem", "other.key", NULL);
    files.key_path = "other.key";
    CHECK(rp_server_load_tls(harness->server, &files, &error) == RP_E_INVALID && strcmp(error.file, "other.key") == 0);
    files.certificate_path = "other.key";
    CHECK(rp_server_load_tls(harness->server, &files, &error) == RP_E_INVALID && strstr(error.message, "PEM") != NULL);
    files.certificate_path = "gone.pem";
    CHECK(rp_server_load_tls(harness->server, &files, &error) == RP_E_NOT_FOUND);
    struct tls_client last = tls_dial(harness, 0);
    tls_fingerprint(last, third);
    CHECK(memcmp(second, third, sizeof second) == 0);
    tls_expect_echo(early, 1);
    tls_expect_echo(late, 2);
    tls_hang_up(early);
    tls_hang_up(late);
    tls_hang_up(last);
    harness_stop(harness);
}

/* Whether a client that shows this certificate gets an answer. TLS 1.3's clients hear of a refusal behind their handshake. */
static int is_let_in(struct harness *harness, int version, const char *certificate, const char *key) {
    struct tls_client client = tls_prepare(dial(harness), version, certificate, key);
    int is_in = calls.connect(client.ssl) == 1;
    if (is_in) {
        uint8_t frame[4096];
        int size = (int)make_request(frame, sizeof frame, 0, CODE_ECHO, 1, "x", (rp_slice){NULL, 0});
        is_in = calls.write(client.ssl, frame, size) == size && calls.read(client.ssl, frame, sizeof frame) > 0;
    }
    openssl.err_clear();
    tls_hang_up(client);
    return is_in;
}

static void clients_show_what_the_server_asks_for(void) {
    rp_server_options options = default_options();
    struct harness *harness = tls_harness(RP_TLS_PERMISSIVE, &options);
    rp_error error = {0};
    write_certificate("trusted", "trusted.pem", "trusted.key", NULL);
    write_certificate("stranger", "stranger.pem", "stranger.key", NULL);
    static const struct {
        uint32_t client_auth, verifies;
        int nobody, stranger, trusted; /* whether whoever shows nothing, or that, is let in */
    } rules[] = {
        {RP_TLS_CLIENT_NONE, 1, 1, 1, 1},    {RP_TLS_CLIENT_OPTIONAL, 0, 1, 1, 1}, {RP_TLS_CLIENT_OPTIONAL, 1, 1, 0, 1},
        {RP_TLS_CLIENT_REQUIRE, 0, 0, 1, 1}, {RP_TLS_CLIENT_REQUIRE, 1, 0, 0, 1},
    };
    for (size_t index = 0; index < sizeof rules / sizeof rules[0]; index++) {
        rp_tls_options own = {
            .trust_path = "trusted.pem", .client_auth = rules[index].client_auth, .verifies_clients = rules[index].verifies};
        CHECK(rp_server_load_tls(harness->server, &own, &error) == RP_OK);
        for (int version = TLS1_2; version <= TLS1_3; version++) {
            CHECK(is_let_in(harness, version, NULL, NULL) == rules[index].nobody);
            CHECK(is_let_in(harness, version, "stranger.pem", "stranger.key") == rules[index].stranger);
            CHECK(is_let_in(harness, version, "trusted.pem", "trusted.key") == rules[index].trusted);
        }
    }
    CHECK(log_says(harness, "TLS handshake failed: certificate verify failed"));
    rp_tls_options own = {.trust_path = "gone.pem", .client_auth = RP_TLS_CLIENT_REQUIRE, .verifies_clients = 1};
    CHECK(rp_server_load_tls(harness->server, &own, &error) == RP_E_NOT_FOUND);
    own.trust_path = "trusted.key";
    CHECK(rp_server_load_tls(harness->server, &own, &error) == RP_E_INVALID);
    own.client_auth = 3;
    CHECK(rp_server_load_tls(harness->server, &own, &error) == RP_E_INVALID);
    harness_stop(harness);
}

int main(void) {
    char directory[] = "/tmp/tls_test.XXXXXX";
    CHECK(mkdtemp(directory) != NULL && chdir(directory) == 0);
    load_openssl();
    RUN(both_speak_in_one_port);
    RUN(ranges_of_files_and_large_bodies_pass);
    RUN(requests_may_be_cut_in_any_way);
    RUN(the_mode_says_who_is_refused);
    RUN(a_balancer_speaks_before_the_handshake);
    RUN(other_threads_answer_too);
    RUN(an_end_is_told_on_both_sides);
    RUN(keys_are_changed_and_nothing_is_negotiated_again);
    RUN(a_new_certificate_is_for_new_connections);
    RUN(clients_show_what_the_server_asks_for);
    static const char *const files[] = {"cert.pem",    "key.pem",     "other.pem",    "other.key",
                                        "trusted.pem", "trusted.key", "stranger.pem", "stranger.key"};
    for (size_t index = 0; index < sizeof files / sizeof files[0]; index++) {
        unlink(files[index]);
    }
    CHECK(chdir("/") == 0 && rmdir(directory) == 0);
    return 0;
}
