/* ha_master_by_hand_test.c: a slave in front of a master that says what no master says. */
#include <stdbool.h>

#include "ha_pair.h"

typedef struct by_hand {
    side slave;
    rp_ha_slave *ha_slave;
    int listener, fd;
    char address[32];
} by_hand;

static void listen_by_hand(by_hand *one) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    struct timeval limit = {.tv_sec = WAIT_S};
    one->listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(one->listener >= 0 && bind(one->listener, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(setsockopt(one->listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0); /* of accept, and of what it makes */
    CHECK(listen(one->listener, 8) == 0 && getsockname(one->listener, (struct sockaddr *)&address, &size) == 0);
    snprintf(one->address, sizeof one->address, "127.0.0.1:%u", ntohs(address.sin_port));
}

/* The slave's next connection. What it reports first. */
static int64_t accept_slave(by_hand *one) {
    uint8_t report[8];
    struct timeval limit = {.tv_sec = WAIT_S};
    one->fd = accept(one->listener, NULL, NULL);
    CHECK(one->fd >= 0 && setsockopt(one->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    CHECK(recv(one->fd, report, sizeof report, MSG_WAITALL) == (ssize_t)sizeof report);
    return (int64_t)rp_get_u64(report);
}

static void open_by_hand(by_hand *one) {
    memset(one, 0, sizeof *one);
    fixture_directory(one->slave.path, sizeof one->slave.path);
    open_store(&one->slave);
    listen_by_hand(one);
    rp_ha_slave_options options;
    rp_ha_slave_options_default(&options);
    options.commit_log = rp_message_store_commit_log(one->slave.store);
    options.reconnect_ms = 10;
    rp_error error;
    CHECK(rp_ha_slave_open(&options, &one->ha_slave, &error) == RP_OK);
    CHECK(rp_ha_slave_set_master(one->ha_slave, one->address) == RP_OK);
}

static void close_by_hand(by_hand *one) {
    rp_ha_slave_close(one->ha_slave);
    close(one->fd);
    close(one->listener);
    fixture_close(one->slave.store);
    fixture_remove(one->slave.path);
}

static void send_header(by_hand *one, int64_t offset, uint32_t size) {
    uint8_t header[RP_HA_HEADER_SIZE];
    rp_put_u64(header, (uint64_t)offset);
    rp_put_u32(header + 8, size);
    CHECK(send(one->fd, header, sizeof header, MSG_NOSIGNAL) == (ssize_t)sizeof header);
}

/* What the slave says until it leaves is thrown away. */
static void wait_left(by_hand *one) {
    uint8_t acks[64];
    ssize_t got;
    do {
        got = recv(one->fd, acks, sizeof acks, 0);
    } while (got > 0);
    CHECK(got == 0 || errno == ECONNRESET);
    close(one->fd);
}

static void an_empty_slave_begins_nowhere_near_the_end_of_all_numbers(void) {
    by_hand one;
    uint8_t body[100] = {0};
    const int64_t last_file = INT64_MAX - INT64_MAX % FIXTURE_LOG_FILE_SIZE;
    open_by_hand(&one);
    CHECK(accept_slave(&one) == 0);
    send_header(&one, last_file, sizeof body);
    CHECK(send(one.fd, body, sizeof body, MSG_NOSIGNAL) == (ssize_t)sizeof body);
    wait_left(&one);
    CHECK(accept_slave(&one) == 0); /* it holds nothing still */
    rp_ha_slave_stats stats;
    rp_ha_slave_read_stats(one.ha_slave, &stats);
    CHECK(strstr(stats.last_error, "is not the ha protocol") != NULL);
    close_by_hand(&one);
}

int main(void) {
    RUN(an_empty_slave_begins_nowhere_near_the_end_of_all_numbers);
    return 0;
}
