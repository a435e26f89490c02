/* ha_trust_test.c: what a master and a slave do not believe: strangers, acks of what was never sent, logs that have diverged. */
#include <sys/socket.h>

#include "../../../csrc/base/bound_socket.h"
#include "../../../csrc/base/clock_inl.h"
#include "../../../csrc/ha/ha_connection_inl.h"
#include "ha_pair.h"

static void a_stranger_that_claims_too_much_is_dropped_and_completes_nothing(void) {
    pair both;
    open_pair(&both);
    close_slave(&both);
    append(&both, 10);
    static const int64_t claims[] = {INT64_MAX, -1, 1000000000};
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        uint8_t byte;
        int fd = connect_to(&both);
        report(fd, claims[i]);
        ssize_t got = recv(fd, &byte, 1, 0);
        CHECK(got == 0 || (got < 0 && errno == ECONNRESET));
        close(fd);
    }
    rp_ha_master_stats stats;
    rp_ha_master_read_stats(both.ha_master, &stats);
    CHECK(stats.dropped_bad_ack == 3);
    CHECK(rp_ha_master_acked_offset(both.ha_master, 1) == -1);
    open_slave(&both);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    close_pair(&both);
}

static uint64_t bad_acks(const pair *both) {
    rp_ha_master_stats stats;
    rp_ha_master_read_stats(both->ha_master, &stats);
    return stats.dropped_bad_ack;
}

static void an_offset_that_was_never_sent_is_not_acknowledged(void) {
    pair both;
    open_pair(&both);
    append(&both, 5);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    close_slave(&both);
    close_master(&both);
    both.flow_bytes_per_second = 100; /* so slow that the master sends only a little of its log */
    open_master(&both);
    int64_t held = max_of(&both.master);
    append(&both, 100);
    int fd = connect_to(&both);
    report(fd, held);
    uint8_t frame[RP_HA_HEADER_SIZE];
    CHECK(recv(fd, frame, sizeof frame, MSG_WAITALL) == (ssize_t)sizeof frame && rp_get_u32(frame + 8) == 100);
    report(fd, max_of(&both.master));
    CHECK_AT_LAST(bad_acks(&both) == 1);
    CHECK(wait_acked(&both.acked, -1));
    close(fd);
    both.flow_bytes_per_second = 0;
    open_slave(&both);
    close_pair(&both);
}

/* A broker whose log has diverged asks for bytes like any slave. Only the bytes that it reports give it away. */
static void who_has_just_come_vouches_for_nothing_that_others_wait_for(void) {
    pair both;
    uint8_t heartbeat[RP_HA_HEADER_SIZE];
    open_pair_with(&both, 200, 3600 * 1000); /* a heartbeat is waited for, and whoever has spoken once stays */
    append(&both, 5);
    int64_t settled = max_of(&both.master);
    CHECK(wait_acked(&both.acked, settled));
    int stalled = connect_from(&both, 2);
    report(stalled, settled);
    wait_connected(&both, 2);
    close_slave(&both);
    wait_connected(&both, 1);
    append(&both, 5);
    int newcomer = connect_from(&both, 3);
    report(newcomer, max_of(&both.master));
    CHECK(recv(newcomer, heartbeat, sizeof heartbeat, MSG_WAITALL) == (ssize_t)sizeof heartbeat && rp_get_u32(heartbeat + 8) == 0);
    CHECK(wait_acked(&both.acked, settled));
    report(newcomer, max_of(&both.master));
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    close(newcomer);
    close(stalled);
    open_slave(&both);
    close_pair(&both);
}

static void wait_last_error(pair *both, const char *text) {
    struct timespec pause = {.tv_nsec = 200000};
    rp_ha_slave_stats stats;
    for (int i = 0;; i++) {
        rp_ha_slave_read_stats(both->ha_slave, &stats);
        if (strstr(stats.last_error, text) != NULL)
            return;
        CHECK(i < WAIT_S * 5000);
        nanosleep(&pause, NULL);
    }
}

static void a_master_that_has_grown_anew_past_its_slave_is_not_followed(void) {
    pair both;
    open_pair_without_slave(&both);
    close_master(&both);
    fixture_remove(both.master.path);
    fixture_directory(both.master.path, sizeof both.master.path);
    open_master(&both);
    append(&both, 50);
    open_slave(&both);
    int64_t held = max_of(&both.slave);
    CHECK(max_of(&both.master) > held);
    wait_last_error(&both, "differs from ours");
    wait_connects(&both, 4);
    CHECK(lines_with(both.slave_log, "differs from ours") == 1); /* one line, although it tries again and again */
    CHECK(max_of(&both.slave) == held);
    CHECK(told_offset(&both.acked) < max_of(&both.master));
    close_pair(&both);
    rp_log_destroy(both.slave_log);
}

/* The question whether the logs are the same now concerns the new master, which has sent nothing yet. */
static void a_master_that_is_wanted_no_more_vouches_for_nothing(void) {
    pair both;
    char address[32];
    rp_ha_slave_stats stats;
    open_pair(&both);
    append(&both, 10);
    snprintf(address, sizeof address, "127.0.0.1:%u", rp_ha_master_port(both.ha_master));
    for (uint64_t round = 1; round <= 50; round++) {
        append(&both, 1);
        CHECK(wait_acked(&both.acked, max_of(&both.master)));
        CHECK(rp_ha_slave_set_master(both.ha_slave, "127.0.0.1:1") == RP_OK);
        rp_ha_slave_read_stats(both.ha_slave, &stats);
        CHECK(stats.state == RP_HA_SLAVE_READY);
        CHECK(rp_ha_slave_set_master(both.ha_slave, address) == RP_OK); /* perhaps before it has looked */
        wait_connects(&both, round + 1);
    }
    close_pair(&both);
}

static void append_to_slave(pair *both) {
    open_store(&both->slave);
    CHECK(fixture_append(both->slave.store, fixture_queue(both->slave.store, "T", 0), 77) == RP_OK);
    fixture_close(both->slave.store);
}

/* A power cut took what the master had not synced: the logs are the same up to there. */
static void nor_is_one_that_lost_the_end_of_its_log(void) {
    pair both;
    open_pair(&both);
    append(&both, 10);
    int64_t same = max_of(&both.master);
    CHECK(wait_acked(&both.acked, same));
    close_slave(&both);
    append_to_slave(&both);
    open_slave(&both);
    CHECK(wait_acked(&both.acked, same));
    int64_t held = max_of(&both.slave);
    append(&both, 20);
    CHECK(held > same && max_of(&both.master) > held);
    wait_last_error(&both, "differs from ours");
    CHECK(max_of(&both.slave) == held);
    close_pair(&both);
}

/* A slave was made master. The old master comes back with bytes that it had not sent. It waits to hear about these, and that must not
 * look like being in sync. */
static void a_slave_that_has_more_than_its_master_says_so_and_leaves(void) {
    pair both;
    open_pair_without_slave(&both);
    int64_t same = max_of(&both.master);
    close_master(&both);
    append_to_slave(&both);
    both.heartbeat_ms = 20;
    open_master(&both);
    open_slave(&both);
    wait_last_error(&both, "its log ends at");
    wait_connects(&both, 3);
    CHECK(max_of(&both.slave) > same && max_of(&both.master) == same);
    CHECK(lines_with(both.slave_log, "its log ends at") == 1);
    append(&both, 20);
    wait_last_error(&both, "differs from ours");
    close_pair(&both);
    rp_log_destroy(both.slave_log);
}

static void append_body(rp_message_store *store, int32_t queue_id, char fill, uint32_t size) {
    static char body[9000];
    CHECK(size <= sizeof body);
    memset(body, fill, size);
    rp_append_item item = fixture_item(fixture_queue(store, "T", queue_id), body, size);
    CHECK(rp_commit_log_append(rp_message_store_commit_log(store), &item, 1) == 1);
}

/* A producer without an answer sends its message again, behind those of others. So the log's last message is the same, but its place is
 * not. */
static void nor_one_whose_last_message_is_ours_behind_another_one(void) {
    pair both;
    open_pair_without_slave(&both);
    open_store(&both.slave);
    append_body(both.slave.store, 1, 'a', 100);
    append_body(both.slave.store, 1, 'x', 9000);
    fixture_close(both.slave.store);
    append_body(both.master.store, 2, 'b', 100);
    append_body(both.master.store, 1, 'x', 9000);
    append(&both, 10);
    open_slave(&both);
    wait_last_error(&both, "differs from ours");
    CHECK(max_of(&both.slave) < max_of(&both.master));
    close_pair(&both);
    rp_log_destroy(both.slave_log);
}

/* As a master's bytes come, which end with a file sooner or later. */
static void take_first_file(side *to, const side *from) {
    rp_commit_log *log = rp_message_store_commit_log(to->store);
    rp_log_range all;
    CHECK(rp_commit_log_read(rp_message_store_commit_log(from->store), 0, FIXTURE_LOG_FILE_SIZE, &all) == RP_OK);
    for (uint32_t done = 0; done < all.size;) {
        uint8_t *address;
        uint32_t room;
        rp_error error;
        CHECK(rp_commit_log_reserve_replicated(log, done, all.size - done, &address, &room, &error) == RP_OK);
        room = room < all.size - done ? room : all.size - done;
        memcpy(address, all.address + done, room);
        CHECK(rp_commit_log_commit_replicated(log, done, room, &error) == RP_OK);
        done += room;
    }
    rp_log_range_release(all.pin);
}

/* Padding, nothing but zeros, is the same in every log. */
static void nor_one_whose_file_ends_with_as_much_padding(void) {
    pair both = {.acked.offset = -1};
    side other = {0};
    pthread_mutex_init(&both.acked.lock, NULL);
    pthread_cond_init(&both.acked.moved, NULL);
    fixture_directory(other.path, sizeof other.path);
    fixture_directory(both.master.path, sizeof both.master.path);
    fixture_directory(both.slave.path, sizeof both.slave.path);
    open_store(&other);
    open_master(&both);
    for (int i = 0; i < 9; i++) { /* the ninth does not fit into what is left of the first file, 4,500 bytes */
        append_body(other.store, 0, 'a', 7500);
        append_body(both.master.store, 0, 'b', 7500);
    }
    CHECK(max_of(&other) > FIXTURE_LOG_FILE_SIZE && max_of(&both.master) == max_of(&other));
    open_store(&both.slave);
    take_first_file(&both.slave, &other);
    fixture_close(both.slave.store);
    fixture_close(other.store);
    open_slave(&both);
    CHECK(max_of(&both.slave) == FIXTURE_LOG_FILE_SIZE);
    wait_last_error(&both, "differs from ours");
    CHECK(max_of(&both.slave) == FIXTURE_LOG_FILE_SIZE);
    close_pair(&both);
    fixture_remove(other.path);
}

/* A record that crosses the end of its smaller file is cut off at its next start, with all that follows. */
static void a_slave_of_smaller_files_vouches_for_nothing_that_crosses_one(void) {
    pair both;
    open_pair(&both);
    close_slave(&both);
    fixture_remove(both.slave.path);
    fixture_directory(both.slave.path, sizeof both.slave.path);
    both.slave.file_size = FIXTURE_LOG_FILE_SIZE / 4;
    open_slave(&both);
    while (max_of(&both.master) < FIXTURE_LOG_FILE_SIZE / 2)
        append(&both, 10);
    wait_last_error(&both, "mappedFileSizeCommitLog");
    CHECK(told_offset(&both.acked) < FIXTURE_LOG_FILE_SIZE / 4);
    rp_commit_log *log = rp_message_store_commit_log(both.slave.store);
    int64_t vouched = rp_commit_log_damaged_at(log, NULL);
    CHECK(vouched > 0 && vouched < FIXTURE_LOG_FILE_SIZE / 4);
    close_slave(&both);
    open_store(&both.slave);
    CHECK(max_of(&both.slave) == vouched);
    fixture_close(both.slave.store);
    close_master(&both);
    fixture_remove(both.master.path);
    fixture_remove(both.slave.path);
}

static int slaves_told_of(const pair *both) {
    rp_log_line line;
    int count = 0;
    while (rp_log_take(both->log, &line, 1) == 1)
        count += line.level > RP_LOG_DEBUG && strstr(line.text, "ha: slave") != NULL;
    return count;
}

static int has_counted(const pair *both, uint64_t acks, uint64_t dropped) {
    rp_ha_master_stats stats;
    rp_ha_master_read_stats(both->ha_master, &stats);
    return stats.acks >= acks && stats.dropped_other >= dropped;
}

/* A health check, the broker's own look at its port when it starts. A slave says at once what it holds. */
static void who_leaves_without_a_word_is_not_told_of_as_a_slave(void) {
    pair both = {.acked.offset = -1};
    CHECK(rp_log_create(&both.log) == RP_OK);
    pthread_mutex_init(&both.acked.lock, NULL);
    pthread_cond_init(&both.acked.moved, NULL);
    fixture_directory(both.master.path, sizeof both.master.path);
    open_master(&both);
    close(connect_to(&both));
    CHECK_AT_LAST(has_counted(&both, 0, 1));
    CHECK(slaves_told_of(&both) == 0);
    int slave = connect_to(&both);
    report(slave, 0);
    CHECK_AT_LAST(has_counted(&both, 1, 1));
    close(slave);
    CHECK_AT_LAST(has_counted(&both, 1, 2));
    close_master(&both);
    CHECK(slaves_told_of(&both) == 2); /* once that it came, once that it left */
    fixture_remove(both.master.path);
    rp_log_destroy(both.log);
}

static void the_limit_of_the_flow_changes_for_slaves_that_are_connected(void) {
    pair both = {.flow_bytes_per_second = 10};
    pthread_mutex_init(&both.acked.lock, NULL);
    pthread_cond_init(&both.acked.moved, NULL);
    both.acked.offset = -1;
    fixture_directory(both.master.path, sizeof both.master.path);
    fixture_directory(both.slave.path, sizeof both.slave.path);
    open_master(&both);
    append(&both, 500);
    open_slave(&both);
    wait_connected(&both, 1);
    CHECK(max_of(&both.slave) < max_of(&both.master) - 1000); /* minutes of work at this pace */
    rp_ha_master_limit_flow(both.ha_master, 0);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    rp_ha_master_limit_flow(both.ha_master, 10);
    int64_t held = max_of(&both.slave);
    append(&both, 100);
    struct timespec pause = {.tv_nsec = 200000};
    for (int i = 0; max_of(&both.slave) == held; i++) {
        CHECK(i < WAIT_S * 5000);
        nanosleep(&pause, NULL);
    }
    CHECK(max_of(&both.slave) < held + 100);
    close_pair(&both);
}

/* Whoever sets the highest limit wants none. */
static void the_highest_limit_of_the_flow_holds_nothing_back(void) {
    const rp_address nobody = {.size = 4};
    pair both;
    rp_ha_master_options options;
    rp_error error;
    int ends[2];
    open_pair(&both);
    append(&both, 5);
    rp_ha_master_options_default(&options);
    options.commit_log = rp_message_store_commit_log(both.master.store);
    options.commit_log_file_size = FIXTURE_LOG_FILE_SIZE;
    options.flow_bytes_per_second = INT64_MAX;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
    rp_ha_connection *connection = rp_ha_connection_create(&options, ends[0], &nobody, 0, 0);
    CHECK(connection != NULL && rp_ha_connection_take_ack(connection, 1, &error) == 1);
    for (int64_t now_ns = RP_NS_PER_MS; now_ns <= 4 * RP_NS_PER_S; now_ns += RP_NS_PER_S) {
        append(&both, 1);
        CHECK(rp_ha_connection_pump(connection, now_ns, UINT64_MAX, &error) == RP_OK);
        CHECK(rp_ha_connection_next_offset(connection) == max_of(&both.master) && rp_ha_connection_deadline(connection) > now_ns);
    }
    rp_ha_connection_destroy(connection);
    close(ends[1]);
    close_pair(&both);
}

/* A listener on a port of its own by IPv6 alone. */
static int listen_by_ipv6(uint16_t *port) {
    int one = 1, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 any = {.sin6_family = AF_INET6};
    socklen_t size = sizeof any;
    CHECK(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one) == 0 && bind(fd, (struct sockaddr *)&any, size) == 0);
    CHECK(listen(fd, 1) == 0 && getsockname(fd, (struct sockaddr *)&any, &size) == 0);
    *port = ntohs(any.sin6_port);
    return fd;
}

static void a_port_that_another_has_by_ipv6_is_told(void) {
    pair both;
    int probe, without_ipv6, other, status;
    if (rp_bound_socket("::1", 0, &probe, &without_ipv6) != RP_OK)
        return; /* there is nothing to tell */
    close(probe);
    open_pair(&both);
    rp_ha_master_options options;
    rp_ha_master *second;
    rp_log_line line;
    rp_error error;
    rp_ha_master_options_default(&options);
    options.commit_log = rp_message_store_commit_log(both.master.store);
    options.commit_log_file_size = FIXTURE_LOG_FILE_SIZE;
    options.bind_address = "0.0.0.0";
    CHECK(rp_log_create(&options.log) == RP_OK);
    other = listen_by_ipv6(&options.port);
    for (int i = 0; (status = rp_ha_master_open(&options, &second, &error)) != RP_OK && i < 20; i++) { /* somebody has it by IPv4 */
        int before = other;
        other = listen_by_ipv6(&options.port);
        close(before);
    }
    CHECK(status == RP_OK);
    CHECK(rp_log_take(options.log, &line, 1) == 1 && line.level == RP_LOG_WARNING);
    CHECK(strstr(line.text, "slaves that use IPv6 cannot connect") != NULL && strstr(line.text, "another process has it there") != NULL);
    rp_ha_master_close(second);
    rp_log_destroy(options.log);
    close_pair(&both);
    close(other);
}

static void the_size_of_frames_changes_for_slaves_that_connect(void) {
    pair both;
    uint8_t header[RP_HA_HEADER_SIZE];
    rp_error error = {0};
    open_pair(&both);
    close_slave(&both);
    append(&both, 500);
    CHECK(max_of(&both.master) > 4096);
    for (uint32_t size = 1024; size <= 2048; size *= 2) {
        CHECK(rp_ha_master_set_pace(both.ha_master, size, 5000, 20000, &error) == RP_OK);
        int fd = connect_to(&both);
        report(fd, 1);
        CHECK(recv(fd, header, sizeof header, MSG_WAITALL) == (ssize_t)sizeof header && rp_get_u32(header + 8) == size);
        close(fd);
    }
    CHECK(rp_ha_master_set_pace(both.ha_master, 1 << 30, 5000, 20000, &error) == RP_E_INVALID &&
          strstr(error.message, "haTransferBatchSize"));
    CHECK(rp_ha_master_set_pace(both.ha_master, 1024, 0, 20000, &error) == RP_E_INVALID);
    open_slave(&both);
    close_pair(&both);
}

static atomic_uint looks; /* at the clock below */

static int64_t counted_ns(void *context) {
    (void)context;
    atomic_fetch_add(&looks, 1);
    return rp_clock_monotonic_ns(rp_clock_system());
}

static int64_t wall_ms(void *context) {
    (void)context;
    return rp_clock_wall_ms(rp_clock_system());
}

/* Between two heartbeats there is nothing to do, and each turn of the ha thread looks at the clock. */
static void a_limit_of_the_flow_costs_nothing_while_nothing_flows(void) {
    const rp_clock clock = {.monotonic_ns = counted_ns, .wall_ms = wall_ms};
    pair both;
    uint8_t heartbeat[RP_HA_HEADER_SIZE];
    open_pair(&both);
    close_slave(&both);
    close_master(&both);
    both.clock = &clock;
    both.heartbeat_ms = 300;
    open_master(&both);
    append(&both, 5);
    int fd = connect_to(&both);
    report(fd, max_of(&both.master));
    rp_ha_master_limit_flow(both.ha_master, 1000000);
    CHECK(recv(fd, heartbeat, sizeof heartbeat, MSG_WAITALL) == (ssize_t)sizeof heartbeat && rp_get_u32(heartbeat + 8) == 0);
    unsigned before = atomic_load(&looks);
    CHECK(recv(fd, heartbeat, sizeof heartbeat, MSG_WAITALL) == (ssize_t)sizeof heartbeat && rp_get_u32(heartbeat + 8) == 0);
    CHECK(atomic_load(&looks) - before < 50);
    close(fd);
    open_slave(&both);
    close_pair(&both);
}

static void strangers_that_say_nothing_take_no_slaves_place(void) {
    pair both;
    int strangers[40];
    open_pair(&both);
    append(&both, 5);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    close_slave(&both);
    for (int i = 0; i < 40; i++)
        strangers[i] = connect_to(&both);
    open_slave(&both);
    append(&both, 5);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    for (int i = 0; i < 40; i++)
        close(strangers[i]);
    rp_ha_master_stats stats;
    rp_ha_master_read_stats(both.ha_master, &stats);
    CHECK(stats.refused == 0 && stats.dropped_silent >= 25);
    close_pair(&both);
}

int main(void) {
    for (appenders_send = 0; appenders_send <= 1; appenders_send++) {
        RUN(a_stranger_that_claims_too_much_is_dropped_and_completes_nothing);
        RUN(an_offset_that_was_never_sent_is_not_acknowledged);
        RUN(who_has_just_come_vouches_for_nothing_that_others_wait_for);
        RUN(a_master_that_has_grown_anew_past_its_slave_is_not_followed);
        RUN(a_master_that_is_wanted_no_more_vouches_for_nothing);
        RUN(nor_is_one_that_lost_the_end_of_its_log);
        RUN(a_slave_that_has_more_than_its_master_says_so_and_leaves);
        RUN(nor_one_whose_last_message_is_ours_behind_another_one);
        RUN(nor_one_whose_file_ends_with_as_much_padding);
        RUN(a_slave_of_smaller_files_vouches_for_nothing_that_crosses_one);
        RUN(who_leaves_without_a_word_is_not_told_of_as_a_slave);
        RUN(the_limit_of_the_flow_changes_for_slaves_that_are_connected);
        RUN(the_highest_limit_of_the_flow_holds_nothing_back);
        RUN(a_port_that_another_has_by_ipv6_is_told);
        RUN(the_size_of_frames_changes_for_slaves_that_connect);
        RUN(a_limit_of_the_flow_costs_nothing_while_nothing_flows);
        RUN(strangers_that_say_nothing_take_no_slaves_place);
    }
    return 0;
}
