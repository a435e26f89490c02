/* ha_master_by_hand_test.c: a slave whose master sends what no master sends. */
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

#define LARGE_BYTES 30000
#define PART_BYTES 20000

/* The record of a message of so many zeros at offset 0 of a log. */
static void large_record(uint8_t *record, uint32_t record_size, uint32_t body_size) {
    static const uint8_t zeros[LARGE_BYTES];
    side other = {.ops = NULL};
    rp_log_range range;
    fixture_directory(other.path, sizeof other.path);
    open_store(&other);
    rp_append_item item = {.queue = fixture_queue(other.store, "T", 0), .body = {zeros, body_size}, .born_timestamp_ms = 1};
    rp_commit_log *log = rp_message_store_commit_log(other.store);
    CHECK(rp_commit_log_append(log, &item, 1) == 1 && item.size >= record_size);
    CHECK(rp_commit_log_read(log, 0, record_size, &range) == RP_OK);
    memcpy(record, range.address, record_size);
    rp_log_range_release(range.pin);
    fixture_close(other.store);
    fixture_remove(other.path);
}

static void wait_report(by_hand *one, int64_t offset) {
    uint8_t report[8];
    do {
        CHECK(recv(one->fd, report, sizeof report, MSG_WAITALL) == (ssize_t)sizeof report);
    } while ((int64_t)rp_get_u64(report) != offset);
}

/* Its master lost power, with it a message of which the slave has a part, and has taken another since. Both are zeros there. */
static void a_message_that_is_not_whole_is_compared_from_its_beginning(void) {
    by_hand one;
    uint8_t lost[PART_BYTES], instead[PART_BYTES];
    large_record(lost, sizeof lost, LARGE_BYTES);
    large_record(instead, sizeof instead, LARGE_BYTES - 1000);
    CHECK(memcmp(lost + 4096, instead + 4096, sizeof lost - 4096) == 0);
    open_by_hand(&one);
    CHECK(accept_slave(&one) == 0);
    send_header(&one, 0, sizeof lost);
    CHECK(send(one.fd, lost, sizeof lost, MSG_NOSIGNAL) == (ssize_t)sizeof lost);
    wait_report(&one, sizeof lost);
    close(one.fd);
    int64_t from = accept_slave(&one);
    send_header(&one, from, (uint32_t)(sizeof instead - (size_t)from));
    CHECK(send(one.fd, instead + from, sizeof instead - (size_t)from, MSG_NOSIGNAL) == (ssize_t)(sizeof instead - (size_t)from));
    wait_left(&one);
    (void)accept_slave(&one);
    rp_ha_slave_stats stats;
    rp_ha_slave_read_stats(one.ha_slave, &stats);
    CHECK(strstr(stats.last_error, "differs from ours") != NULL);
    close_by_hand(&one);
}

int main(void) {
    RUN(a_message_that_is_not_whole_is_compared_from_its_beginning);
    RUN(an_empty_slave_begins_nowhere_near_the_end_of_all_numbers);
    return 0;
}
