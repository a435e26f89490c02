/* ha_switch_wire_test.c: what strangers may send to master and slave with a controller: random bytes, truncated and mutated messages,
 * impossible offsets. Neither side crashes, stores or believes them. */
#include "../../../csrc/ha/switch_wire.h"
#include "ha_switch_fixture.h"

static uint64_t dice_state = 88172645463325252u;

static uint32_t dice(uint32_t sides) {
    dice_state ^= dice_state << 13;
    dice_state ^= dice_state >> 7;
    dice_state ^= dice_state << 17;
    return (uint32_t)(dice_state >> 11) % sides;
}

static int connect_to_node(const node *one) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(rp_ha_master_port(one->master))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct timeval limit = {.tv_sec = WAIT_S};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

static void say(int fd, const void *bytes, size_t size) { CHECK(send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size || errno == EPIPE); }

static void hear(int fd, uint8_t *bytes, size_t size) { CHECK(recv(fd, bytes, size, MSG_WAITALL) == (ssize_t)size); }

static void hear_end(int fd) {
    uint8_t bytes[4096];
    ssize_t got;
    while ((got = recv(fd, bytes, sizeof bytes, 0)) > 0) {
    }
    CHECK(got == 0 || errno == ECONNRESET);
    close(fd);
}

static void say_hello(int fd, int64_t id) {
    uint8_t hello[RP_SWITCH_HELLO_SIZE];
    rp_switch_put_hello(hello, &(rp_switch_hello){.broker_id = id});
    say(fd, hello, sizeof hello);
}

static void say_ack(int fd, int64_t offset) {
    uint8_t ack[RP_SWITCH_ACK_SIZE];
    rp_switch_put_ack(ack, offset);
    say(fd, ack, sizeof ack);
}

/* The words are RocketMQ's, byte by byte. */
static void the_words_are_rocketmqs(void) {
    uint8_t bytes[RP_SWITCH_HANDSHAKE_MAX];
    rp_switch_put_hello(bytes, &(rp_switch_hello){.from_last_file = 1, .is_learner = 0, .broker_id = 5});
    CHECK(memcmp(bytes, "\0\0\0\1\0\1\0\0\0\0\0\0\0\0\0\5", 16) == 0);
    rp_switch_put_ack(bytes, 258);
    CHECK(memcmp(bytes, "\0\0\0\2\0\0\0\0\0\0\1\2", 12) == 0);
    rp_epoch_entry entries[] = {{1, 0, 9}, {3, 9, INT64_MAX}};
    CHECK(rp_switch_put_handshake(bytes, 16, entries, 2) == 44);
    CHECK(memcmp(bytes, "\0\0\0\1\0\0\0\x18\0\0\0\0\0\0\0\x10\0\0\0\3", 20) == 0);
    CHECK(memcmp(bytes + 20, "\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\x9", 24) == 0);
    rp_switch_put_frame(bytes, &(rp_switch_frame){.size = 4, .offset = 9, .epoch = 3, .epoch_start = 9, .confirm_offset = 8});
    CHECK(memcmp(bytes, "\0\0\0\2\0\0\0\4\0\0\0\0\0\0\0\x9\0\0\0\3\0\0\0\0\0\0\0\x9\0\0\0\0\0\0\0\x8", 36) == 0);
}

static void a_frame_lies_in_one_epoch(void) {
    node a;
    open_node(&a, 1, 0);
    lead(&a, 1);
    append_to(&a, 3);
    int64_t first_end = end_of(&a);
    lead(&a, 2);
    append_to(&a, 3);
    int fd = connect_to_node(&a);
    say_hello(fd, 7);
    uint8_t bytes[RP_SWITCH_TRANSFER_SIZE + 4096];
    hear(fd, bytes, RP_SWITCH_HANDSHAKE_SIZE + 2 * RP_SWITCH_ENTRY_SIZE);
    say_ack(fd, 0);
    for (int64_t offset = 0, epoch = 1; epoch <= 2; epoch++) {
        rp_switch_frame frame;
        hear(fd, bytes, RP_SWITCH_TRANSFER_SIZE);
        CHECK(rp_switch_take_frame(bytes, RP_SWITCH_TRANSFER_SIZE, &frame) == RP_SWITCH_TRANSFER_SIZE);
        if (frame.size == 0) { /* a heartbeat */
            epoch--;
            continue;
        }
        CHECK(frame.offset == offset && frame.epoch == epoch && frame.epoch_start == (epoch == 1 ? 0 : first_end));
        CHECK(offset + frame.size == (epoch == 1 ? first_end : end_of(&a)) && frame.confirm_offset == end_of(&a));
        hear(fd, bytes, frame.size);
        offset += frame.size;
    }
    close(fd);
    close_node(&a);
}

static atomic_int_fast64_t ahead_ns; /* of the master's clock */

static int64_t jumping_ns(void *context) {
    (void)context;
    return rp_clock_monotonic_ns(rp_clock_system()) + atomic_load(&ahead_ns);
}

static int64_t usual_wall_ms(void *context) {
    (void)context;
    return rp_clock_wall_ms(rp_clock_system());
}

static void hear_bytes_up_to(int fd, int64_t end) {
    static uint8_t bytes[65536];
    for (int64_t at = -1; at < end;) {
        rp_switch_frame frame;
        hear(fd, bytes, RP_SWITCH_TRANSFER_SIZE);
        CHECK(rp_switch_take_frame(bytes, RP_SWITCH_TRANSFER_SIZE, &frame) == RP_SWITCH_TRANSFER_SIZE && frame.size <= sizeof bytes);
        if (frame.size > 0) {
            hear(fd, bytes, frame.size);
            at = frame.offset + frame.size;
        }
    }
}

/* The clock jumps while the master waits, as for a process that was stopped. An ack that lay in the socket may come from a slave that
 * follows another master by now. Now and then the jump comes before the wait, and the ack is new. */
static void what_waited_for_a_master_that_stood_still_was_said_before(void) {
    static const rp_clock jumping = {jumping_ns, usual_wall_ms, NULL};
    enum { TRIES = 50, JUMP_MS = 3600000 };
    node a;
    master_clock = &jumping;
    master_heartbeat_ms = 15000;
    open_node(&a, 1, 0);
    lead(&a, 1);
    append_to(&a, 3);
    int fd = connect_to_node(&a);
    say_hello(fd, 7);
    uint8_t bytes[RP_SWITCH_HANDSHAKE_SIZE + RP_SWITCH_ENTRY_SIZE];
    hear(fd, bytes, sizeof bytes);
    say_ack(fd, 0);
    rp_ha_slave_row row = {0};
    int is_old = 0;
    for (int i = 0; i < TRIES && !is_old; i++) {
        hear_bytes_up_to(fd, end_of(&a));
        int64_t last_ms = row.caught_up_ms, before_ms = jumping_ns(NULL) / RP_NS_PER_MS;
        atomic_fetch_add(&ahead_ns, JUMP_MS * RP_NS_PER_MS);
        say_ack(fd, end_of(&a));
        WAIT_FOR(row_of(&a, 7, &row) && row.acked_offset == end_of(&a) && row.caught_up_ms > last_ms);
        is_old = row.caught_up_ms <= before_ms;
        WAIT_FOR(jumping_ns(NULL) / RP_NS_PER_MS > row.caught_up_ms + 1);
        append_to(&a, 1);
    }
    CHECK(is_old);
    close(fd);
    close_node(&a);
    master_clock = NULL;
    master_heartbeat_ms = 20;
}

static void a_master_believes_no_stranger(void) {
    node a;
    open_node(&a, 1, 1);
    lead(&a, 1);
    append_to(&a, 20);
    CHECK(rp_ha_master_agree(a.master, (int64_t[]){1, 2}, 2) == RP_OK);
    int64_t confirmed = rp_ha_master_confirm_offset(a.master);
    append_to(&a, 20);
    int fd = connect_to_node(&a);
    say_ack(fd, end_of(&a)); /* before it has said who it is */
    hear_end(fd);
    static const int64_t offsets[] = {-1, INT64_MIN, INT64_MAX, 1 << 30};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        fd = connect_to_node(&a);
        say_hello(fd, 2);
        say_ack(fd, offsets[i]);
        hear_end(fd);
    }
    fd = connect_to_node(&a);
    say_hello(fd, 2);
    say_hello(fd, 2);
    hear_end(fd);
    for (int i = 0; i < 200; i++) {
        uint8_t bytes[64];
        uint32_t size = 1 + dice(sizeof bytes);
        for (uint32_t at = 0; at < size; at++)
            bytes[at] = (uint8_t)(dice(3) == 0 ? dice(256) : dice(3));
        fd = connect_to_node(&a);
        if (dice(2))
            say_hello(fd, 9 + dice(3));
        say(fd, bytes, size);
        shutdown(fd, SHUT_WR);
        hear_end(fd);
    }
    CHECK(rp_ha_master_confirm_offset(a.master) == confirmed);
    fd = connect_to_node(&a); /* the one it waits for */
    say_hello(fd, 2);
    say_ack(fd, end_of(&a));
    WAIT_FOR(rp_ha_master_confirm_offset(a.master) == end_of(&a));
    int again = connect_to_node(&a); /* it connects again: one replica */
    say_hello(again, 2);
    hear_end(fd);
    close(again);
    close_node(&a);
}

static int listen_somewhere(char address[32]) {
    struct sockaddr_in own = {.sin_family = AF_INET};
    socklen_t size = sizeof own;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&own, sizeof own) == 0 && listen(fd, 8) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&own, &size) == 0);
    snprintf(address, 32, "127.0.0.1:%u", ntohs(own.sin_port));
    return fd;
}

/* A false master's words are right up to some byte, and wrong after it. The slave must lose nothing that it had, and follow the next
 * true master. */
static void a_slave_survives_any_master(void) {
    node a, b;
    char address[32];
    open_node(&a, 1, 0);
    open_node(&b, 2, 0);
    lead(&a, 1);
    append_to(&a, 20);
    follow_node(&b, &a);
    wait_same(&a, &b);
    int64_t held = end_of(&b);
    int listener = listen_somewhere(address);
    CHECK(rp_ha_slave_set_master(b.slave, address) == RP_OK);
    for (int i = 0; i < 120; i++) {
        uint8_t bytes[256], hello[RP_SWITCH_HELLO_SIZE];
        rp_epoch_entry entries[] = {{1, 0, INT64_MAX}};
        uint32_t size = rp_switch_put_handshake(bytes, held, entries, 1), whole = size + RP_SWITCH_TRANSFER_SIZE;
        rp_switch_put_frame(bytes + size, &(rp_switch_frame){.size = 0, .offset = held, .epoch = 1, .confirm_offset = held});
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        hear(fd, hello, sizeof hello);
        /* In the handshake only bytes that make it invalid are changed. A valid one that says the log ends earlier would have to be
         * obeyed. */
        static const uint32_t places[] = {0, 4, 5, 8, 20, 24};
        uint32_t at = dice(2) ? places[dice(6)] : size + dice(RP_SWITCH_TRANSFER_SIZE - 8);
        bytes[at] ^= 0x80;
        say(fd, bytes, dice(4) ? whole : at + 1 + dice(whole - at));
        shutdown(fd, SHUT_WR);
        hear_end(fd);
        CHECK(end_of(&b) == held);
    }
    close(listener);
    rp_epoch_entry entry;
    CHECK(rp_epoch_cache_read(b.epochs, &entry, 1) == 1 && entry.epoch == 1 && entry.start_offset == 0);
    append_to(&a, 20);
    follow_node(&b, &a);
    wait_same(&a, &b);
    close_node(&b);
    close_node(&a);
}

/* Its epoch in our list would keep us from following the true master, whose epoch is a lower one. */
static void a_frame_that_does_not_continue_our_log_leaves_no_epoch(void) {
    node a, b;
    char address[32];
    open_node(&a, 1, 0);
    open_node(&b, 2, 0);
    lead(&a, 1);
    append_to(&a, 20);
    follow_node(&b, &a);
    wait_same(&a, &b);
    int64_t held = end_of(&b);
    int listener = listen_somewhere(address);
    CHECK(rp_ha_slave_set_master(b.slave, address) == RP_OK);
    int fd = accept(listener, NULL, NULL);
    uint8_t bytes[256], hello[RP_SWITCH_HELLO_SIZE];
    hear(fd, hello, sizeof hello);
    uint32_t size = rp_switch_put_handshake(bytes, held, (rp_epoch_entry[]){{1, 0, INT64_MAX}}, 1);
    rp_switch_put_frame(bytes + size, &(rp_switch_frame){.size = 8, .offset = held + 8, .epoch = 7, .epoch_start = held});
    say(fd, bytes, size + RP_SWITCH_TRANSFER_SIZE);
    hear_end(fd);
    close(listener);
    CHECK(end_of(&b) == held && rp_epoch_cache_last(b.epochs) == 1);
    append_to(&a, 20);
    follow_node(&b, &a);
    wait_same(&a, &b);
    close_node(&b);
    close_node(&a);
}

/* A master of an older epoch must not have bytes of the newer one cut. */
static void an_older_master_is_not_followed(void) {
    node a, b;
    char address[32];
    open_node(&a, 1, 0);
    open_node(&b, 2, 0);
    lead(&a, 5);
    append_to(&a, 20);
    follow_node(&b, &a);
    wait_same(&a, &b);
    int listener = listen_somewhere(address);
    CHECK(rp_ha_slave_set_master(b.slave, address) == RP_OK);
    int fd = accept(listener, NULL, NULL);
    uint8_t bytes[256], hello[RP_SWITCH_HELLO_SIZE];
    hear(fd, hello, sizeof hello);
    say(fd, bytes, rp_switch_put_handshake(bytes, 0, (rp_epoch_entry[]){{4, 0, INT64_MAX}}, 1));
    hear_end(fd);
    close(listener);
    CHECK(end_of(&b) == end_of(&a) && rp_epoch_cache_last(b.epochs) == 5);
    close_node(&b);
    close_node(&a);
}

int main(void) {
    the_words_are_rocketmqs();
    a_frame_lies_in_one_epoch();
    what_waited_for_a_master_that_stood_still_was_said_before();
    a_master_believes_no_stranger();
    a_slave_survives_any_master();
    a_frame_that_does_not_continue_our_log_leaves_no_epoch();
    an_older_master_is_not_followed();
    return 0;
}
