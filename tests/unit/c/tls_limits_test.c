/* tls_limits_test.c: bad, slow or many TLS clients harm only themselves. */
#include "../../../csrc/remoting/reactor.h"
#include "tls_client.h"

#include <malloc.h>
#include <pthread.h>

static rp_server_stats stats_of(struct harness *harness) {
    rp_server_stats stats;
    rp_server_read_stats(harness->server, &stats);
    return stats;
}

/* The first bytes of a client that is about to begin TLS. */
static uint32_t make_hello(uint8_t *target, uint32_t room) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    struct tls_client client = tls_prepare(ends[0], 0, NULL, NULL);
    CHECK(calls.connect(client.ssl) != 1);
    ssize_t size = recv(ends[1], target, room, 0);
    CHECK(size > 9 && target[0] == RP_TLS_FIRST_BYTE);
    tls_hang_up(client);
    close(ends[1]);
    return (uint32_t)size;
}

static void what_is_no_handshake_ends_its_connection(void) {
    static const struct {
        const char *bytes;
        uint32_t size;
        const char *line;
    } bad[] = {
        {"\26\2\1\0\5\1\0\0\1\0", 10, "it begins as a TLS handshake does"},           /* a version that never was */
        {"\26\3\1\0\5\2\0\0\1\0", 10, "it begins as a TLS handshake does"},           /* a ServerHello */
        {"\26\3\1\100\0\1\0\177\377\0", 10, "it begins as a TLS handshake does"},     /* a ClientHello of 32 KB */
        {"\26\3\1\0\5\1\0\0\1\0", 10, "TLS handshake failed: "},                      /* one that ends at once */
        {"\26\3\1\0\5\1\0\0\1\0GET / HTTP/1.1\r\n", 26, "TLS handshake failed: "},
    };
    rp_server_options options = small_options();
    struct harness *harness = tls_harness(RP_TLS_PERMISSIVE, &options);
    struct tls_client other = tls_dial(harness, 0);
    for (size_t index = 0; index < sizeof bad / sizeof bad[0]; index++) {
        int fd = dial(harness);
        write_all(fd, bad[index].bytes, bad[index].size);
        CHECK(is_closed(fd) && log_says(harness, bad[index].line));
        close(fd);
    }
    tls_expect_echo(other, 1);
    tls_hang_up(other);
    harness_stop(harness);
}

/* Every beginning of a handshake, and handshakes with a flipped bit. */
static void half_and_broken_handshakes_harm_nobody_else(void) {
    rp_server_options options = small_options();
    struct harness *harness = tls_harness(RP_TLS_PERMISSIVE, &options);
    struct tls_client other = tls_dial(harness, 0);
    uint8_t hello[4096];
    uint32_t size = make_hello(hello, sizeof hello), seed = 99;
    printf("seed %u\n", seed);
    for (uint32_t part = 1; part < size; part += 1 + part / 8) {
        int fd = dial(harness);
        write_all(fd, hello, part);
        tls_expect_echo(other, (int)part);
        close(fd);
    }
    for (int round = 0; round < 100; round++) {
        int fd = dial(harness);
        seed = seed * 1664525 + 1013904223;
        uint32_t at = (seed >> 8) % size;
        hello[at] ^= (uint8_t)(1 << (seed >> 29));
        write_all(fd, hello, size);
        hello[at] ^= (uint8_t)(1 << (seed >> 29));
        tls_expect_echo(other, round);
        close(fd);
    }
    tls_hang_up(other);
    harness_stop(harness);
}

static void broken_records_end_an_open_connection(void) {
    rp_server_options options = small_options();
    struct harness *harness = tls_harness(RP_TLS_PERMISSIVE, &options);
    static const struct {
        const char *bytes;
        uint32_t size;
    } bad[] = {{"\27\3\3\0\40................................", 37}, /* nothing that this key has sealed */
               {"\27\3\3\377\377", 5},                                /* larger than a record may be */
               {"\0\0\1\0plain", 9}};
    for (size_t index = 0; index < sizeof bad / sizeof bad[0]; index++) {
        for (int version = TLS1_2; version <= TLS1_3; version++) {
            struct tls_client client = tls_dial(harness, version);
            tls_expect_echo(client, 1);
            write_all(client.fd, bad[index].bytes, bad[index].size);
            CHECK(is_closed(client.fd) && log_says(harness, "TLS failed: "));
            tls_hang_up(client);
        }
    }
    harness_stop(harness);
}

static int has_closed_two_stalled(struct harness *harness) { return stats_of(harness).connections_closed_stalled == 2; }

static void a_handshake_that_does_not_go_on_is_closed(void) {
    rp_server_options options = small_options();
    options.stall_timeout_ms = 300;
    struct harness *harness = tls_harness(RP_TLS_PERMISSIVE, &options);
    uint8_t hello[4096];
    uint32_t size = make_hello(hello, sizeof hello);
    int silent = dial(harness), slow = dial(harness);
    write_all(silent, hello, size);
    write_all(slow, hello, 20); /* begun, and more of it comes before each limit */
    for (uint32_t sent = 20; sent < size && !has_closed_two_stalled(harness); sent++) {
        (void)!send(slow, hello + sent, 1, MSG_NOSIGNAL);
        poll(NULL, 0, 20);
    }
    CHECK(becomes_true(harness, has_closed_two_stalled) && log_says(harness, "its TLS handshake did not go on for 300 ms"));
    close(silent);
    close(slow);
    harness_stop(harness);
}

static void who_never_reads_is_closed_and_holds_little(void) {
    rp_server_options options = small_options();
    options.stall_timeout_ms = 500;
    options.output_bytes_max = 1 << 20;
    options.socket_send_buffer = 65536;
    options.clock = clock_by_hand();
    struct harness *harness = tls_harness(RP_TLS_PERMISSIVE, &options);
    struct tls_client lazy = tls_prepare(dial_port(rp_server_port(harness->server), 4096), 0, NULL, NULL);
    struct tls_client other = tls_dial(harness, 0);
    CHECK(calls.connect(lazy.ssl) == 1);
    for (int opaque = 0; opaque < 50; opaque++) {
        tls_send(lazy, 0, CODE_RANGE, opaque, "4194304", (rp_slice){NULL, 0});
    }
    uint64_t most = 0;
    while (stats_of(harness).connections_closed_stalled == 0) {
        tls_expect_echo(other, 1);
        uint64_t held = stats_of(harness).buffer_bytes;
        most = held > most ? held : most;
        turn_hand(harness->server, 20);
    }
    printf("one that does not read: %llu bytes held at most\n", (unsigned long long)most);
    CHECK(most < RANGE_FILE_BYTES + (1 << 20)); /* the first answer's buffer, and not the range sealed */
    CHECK(log_says(harness, "it did not read its responses"));
    tls_hang_up(lazy);
    tls_hang_up(other);
    harness_stop(harness);
}

/* Each word that asks for a new key is answered: whoever does not read the answers is not read either. */
static void who_asks_for_new_keys_for_ever_is_closed(void) {
    rp_server_options options = small_options();
    options.stall_timeout_ms = 500;
    options.output_bytes_max = 65536;
    options.socket_send_buffer = 4096;
    options.clock = clock_by_hand();
    struct harness *harness = tls_harness(RP_TLS_PERMISSIVE, &options);
    struct tls_client client = tls_prepare(dial_port(rp_server_port(harness->server), 4096), TLS1_3, NULL, NULL);
    CHECK(calls.connect(client.ssl) == 1);
    uint64_t most = 0;
    for (int64_t until = now_ms() + WAIT_MS; stats_of(harness).connections_closed_stalled == 0;) {
        struct pollfd socket = {client.fd, POLLOUT, 0};
        if (poll(&socket, 1, 10) == 1 && (socket.revents & POLLOUT) != 0) {
            calls.key_update(client.ssl, 1);
            if (openssl.ssl_do_handshake(client.ssl) != 1) {
                break; /* it is closed, or has read an end */
            }
        }
        uint64_t held = stats_of(harness).buffer_bytes;
        most = held > most ? held : most;
        CHECK(now_ms() < until);
        turn_hand(harness->server, 5);
    }
    printf("one that asks for new keys: %llu bytes held at most\n", (unsigned long long)most);
    CHECK(most < 1 << 20);
    openssl.err_clear();
    tls_hang_up(client);
    harness_stop(harness);
}

/* The figures that connections are counted with are more than they take. */
static void the_memory_of_a_connection_is_what_tls_h_says(void) {
    enum { CLIENTS = 64 };
    rp_server_options options = small_options();
    options.reactors = 1;
    struct harness *harness = tls_harness(RP_TLS_PERMISSIVE, &options);
    struct tls_client first = tls_dial(harness, 0);
    tls_expect_echo(first, 0);
    uint8_t hello[4096];
    uint32_t size = make_hello(hello, sizeof hello);
    int fds[CLIENTS];
    for (int index = 0; index < CLIENTS; index++) {
        fds[index] = dial(harness);
    }
    tls_expect_echo(first, 1);
    size_t before = mallinfo2().uordblks;
    uint64_t counted_before = stats_of(harness).buffer_bytes;
    for (int index = 0; index < CLIENTS; index++) {
        uint8_t byte;
        write_all(fds[index], hello, size);
        read_all(fds[index], &byte, 1); /* its answer */
    }
    size_t taken = (mallinfo2().uordblks - before) / CLIENTS;
    uint64_t counted = (stats_of(harness).buffer_bytes - counted_before) / CLIENTS;
    printf("a handshake under way: %zu bytes, counted as %llu\n", taken, (unsigned long long)counted);
    CHECK(taken < RP_TLS_HANDSHAKE_BYTES && counted == RP_TLS_HANDSHAKE_BYTES);
    for (int index = 0; index < CLIENTS; index++) {
        close(fds[index]);
    }
    tls_hang_up(first);
    harness_stop(harness);
}

static void handshakes_wait_for_no_memory(void) {
    rp_server_options options = small_options();
    options.memory_bytes_max = 1 << 20;
    struct harness *harness = tls_harness(RP_TLS_PERMISSIVE, &options);
    uint8_t hello[4096];
    uint32_t size = make_hello(hello, sizeof hello);
    int fds[12];
    for (int index = 0; index < 12; index++) {
        fds[index] = dial(harness);
        write_all(fds[index], hello, size);
    }
    CHECK(log_says(harness, "no memory for its TLS handshake: all connections together hold too much; raise --memory"));
    int plain = dial(harness);
    expect_echo(plain, 1);
    close(plain);
    for (int index = 0; index < 12; index++) {
        close(fds[index]);
    }
    harness_stop(harness);
}

#define HANDSHAKES 300 /* of each thread; rounds of all are set by ROCKETPY_TEST_ROUNDS */
static int rounds = 1;

static void *shake_hands_for_ever(void *context) {
    struct harness *harness = context;
    for (int count = 0; count < rounds * HANDSHAKES; count++) {
        struct tls_client client = tls_dial(harness, count & 1 ? TLS1_2 : TLS1_3);
        if (count % 8 == 0) {
            tls_expect_echo(client, count);
        }
        tls_hang_up(client);
    }
    return NULL;
}

static int has_forgotten_all_but_one(struct harness *harness) { return stats_of(harness).connections_open == 1; }

static void many_handshakes_leave_nothing(void) {
    rp_server_options options = small_options();
    options.idle_timeout_ms = 3600000; /* one connection waits for all of them */
    struct harness *harness = tls_harness(RP_TLS_PERMISSIVE, &options);
    int plain = dial(harness);
    rp_tls_options own = {0};
    rp_error error;
    pthread_t threads[2];
    for (int index = 0; index < 2; index++) {
        CHECK(pthread_create(&threads[index], NULL, shake_hands_for_ever, harness) == 0);
    }
    for (int round = 0; round < 50; round++) { /* beside them, one in the clear, and new certificates */
        expect_echo(plain, round);
        CHECK(rp_server_load_tls(harness->server, &own, &error) == RP_OK);
    }
    for (int index = 0; index < 2; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    CHECK(becomes_true(harness, has_forgotten_all_but_one));
    rp_server_stats stats = stats_of(harness);
    CHECK(stats.connections_accepted == 1 + 2u * (unsigned)rounds * HANDSHAKES);
    close(plain);
    harness_stop(harness);
}

int main(void) {
    const char *wanted = getenv("ROCKETPY_TEST_ROUNDS");
    rounds = wanted != NULL ? (int)strtol(wanted, NULL, 10) : 1;
    load_openssl();
    RUN(what_is_no_handshake_ends_its_connection);
    RUN(half_and_broken_handshakes_harm_nobody_else);
    RUN(broken_records_end_an_open_connection);
    RUN(a_handshake_that_does_not_go_on_is_closed);
    RUN(who_never_reads_is_closed_and_holds_little);
    RUN(who_asks_for_new_keys_for_ever_is_closed);
    RUN(the_memory_of_a_connection_is_what_tls_h_says);
    RUN(handshakes_wait_for_no_memory);
    RUN(many_handshakes_leave_nothing);
    return 0;
}
