/* server_stopped_test.c: a process that stood still closes nobody for what it has not read, or not sent, meanwhile. */
#include "held_clock.h"

static rp_server_options one_reactor(void) {
    rp_server_options options = small_options();
    use_held_clock(&options);
    return options;
}

static void send_echo(int fd, int opaque) { send_request(fd, RP_SERIALIZE_JSON, CODE_ECHO, opaque, "x", (rp_slice){NULL, 0}); }

/* The reactor wakes for the request of `other`, and stands still. */
static void stop(int other) {
    expect_echo(other, 1);
    hold();
    send_echo(other, 2);
    wait_held();
}

static void who_spoke_meanwhile_is_heard(void) {
    rp_server_options options = one_reactor();
    struct harness *harness = harness_start(&options);
    int other = dial(harness), fd = dial(harness), silent = dial(harness);
    expect_echo(fd, 1);
    expect_echo(silent, 1);
    stop(other);
    send_echo(fd, 3);
    go_on(180000);
    expect_response(other, 0, 2, NULL);
    expect_response(fd, 0, 3, NULL);
    CHECK(is_closed(silent));
    rp_server_stats stats;
    rp_server_read_stats(harness->server, &stats);
    CHECK(stats.connections_closed_idle == 1 && stats.connections_open == 2);
    turn_hand(harness->server, 121000);
    CHECK(is_closed(fd) && is_closed(other));
    close(fd);
    close(other);
    close(silent);
    harness_stop(harness);
}

/* Reads until nothing comes any more. Returns how many bytes that were. */
static uint64_t read_what_comes(int fd, uint64_t most) {
    static uint8_t bytes[1 << 16];
    uint64_t read = 0;
    struct pollfd readable = {fd, POLLIN, 0};
    while (read < most && poll(&readable, 1, 200) == 1) {
        ssize_t count = recv(fd, bytes, sizeof bytes, 0);
        CHECK(count > 0);
        read += (uint64_t)count;
    }
    return read;
}

static void who_read_meanwhile_has_not_stalled(void) {
    rp_server_options options = one_reactor();
    options.output_bytes_max = 64 * 1024;
    struct harness *harness = harness_start(&options);
    int other = dial(harness), fd = dial_port(rp_server_port(harness->server), 4096);
    uint64_t all = 0;
    for (int opaque = 0; opaque < 4; opaque++) {
        send_request(fd, RP_SERIALIZE_JSON, CODE_RANGE, opaque, "4194304", (rp_slice){NULL, 0});
        all += RANGE_FILE_BYTES;
    }
    stop(other);
    uint64_t read = read_what_comes(fd, all);
    CHECK(read < all);
    go_on(60000);
    expect_response(other, 0, 2, NULL);
    while (read < all) {
        uint64_t more = read_what_comes(fd, all - read);
        CHECK(more > 0);
        read += more;
    }
    rp_server_stats stats;
    rp_server_read_stats(harness->server, &stats);
    CHECK(stats.connections_closed_stalled == 0 && stats.connections_open == 2);
    close(fd);
    close(other);
    harness_stop(harness);
}

int main(void) {
    RUN(who_spoke_meanwhile_is_heard);
    RUN(who_read_meanwhile_has_not_stalled);
    return 0;
}
