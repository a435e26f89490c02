/* ha_test.c: a master's log reaches its slave byte for byte, queues included; acks, silence, strangers and divergence are handled. */
#include "../../../csrc/ha/ha_master.h"
#include "../../../csrc/ha/ha_slave.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "../../../csrc/base/bytes_inl.h"
#include "check.h"
#include "store_fixture.h"

#define WAIT_S 20

typedef struct acks {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int64_t offset;
    uint32_t calls;
} acks;

static void on_acked(void *context, int64_t offset) {
    acks *all = context;
    pthread_mutex_lock(&all->lock);
    all->offset = offset;
    all->calls++;
    pthread_cond_broadcast(&all->moved);
    pthread_mutex_unlock(&all->lock);
}

static int wait_acked(acks *all, int64_t offset) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += WAIT_S;
    int rc = 0;
    pthread_mutex_lock(&all->lock);
    while (all->offset != offset && rc == 0) {
        rc = pthread_cond_timedwait(&all->moved, &all->lock, &end);
    }
    pthread_mutex_unlock(&all->lock);
    return rc == 0;
}

typedef struct side {
    char path[128];
    const rp_file_ops *ops; /* NULL: the kernel's */
    rp_message_store *store;
} side;

typedef struct pair {
    side master, slave;
    rp_ha_master *ha_master;
    rp_ha_slave *ha_slave;
    acks acked;
    int64_t appended;
    int64_t flow_bytes_per_second;
    rp_log *log; /* the master's */
} pair;

static int appenders_send; /* every test runs with both */

static void open_store(side *one) {
    rp_message_store_options options;
    fixture_options(&options, one->path);
    options.file_ops = one->ops;
    one->store = fixture_open(&options);
}

static void notify(void *context) { rp_ha_master_notify(context); }

static void open_master(pair *both) {
    open_store(&both->master);
    rp_ha_master_options options;
    rp_ha_master_options_default(&options);
    options.commit_log = rp_message_store_commit_log(both->master.store);
    options.commit_log_file_size = FIXTURE_LOG_FILE_SIZE;
    options.bind_address = "127.0.0.1";
    options.flow_bytes_per_second = both->flow_bytes_per_second;
    options.appenders_send = appenders_send;
    options.on_acked = on_acked;
    options.context = &both->acked;
    options.log = both->log;
    rp_error error;
    CHECK(rp_ha_master_open(&options, &both->ha_master, &error) == RP_OK);
    CHECK(rp_message_store_on_appended(both->master.store, notify, both->ha_master) == RP_OK);
}

static void close_master(pair *both) {
    rp_message_store_forget_appended(both->master.store, both->ha_master);
    rp_ha_master_close(both->ha_master);
    fixture_close(both->master.store);
}

static void follow(pair *both) {
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", rp_ha_master_port(both->ha_master));
    CHECK(rp_ha_slave_set_master(both->ha_slave, address) == RP_OK);
}

static void open_slave(pair *both) {
    open_store(&both->slave);
    rp_ha_slave_options options;
    rp_ha_slave_options_default(&options);
    options.commit_log = rp_message_store_commit_log(both->slave.store);
    options.reconnect_ms = 10;
    rp_error error;
    CHECK(rp_ha_slave_open(&options, &both->ha_slave, &error) == RP_OK);
    follow(both);
}

static void close_slave(pair *both) {
    rp_ha_slave_close(both->ha_slave);
    fixture_close(both->slave.store);
}

static void open_pair(pair *both) {
    memset(both, 0, sizeof *both);
    pthread_mutex_init(&both->acked.lock, NULL);
    pthread_cond_init(&both->acked.moved, NULL);
    both->acked.offset = -1;
    fixture_directory(both->master.path, sizeof both->master.path);
    fixture_directory(both->slave.path, sizeof both->slave.path);
    open_master(both);
    open_slave(both);
}

static void close_pair(pair *both) {
    close_slave(both);
    close_master(both);
    fixture_remove(both->master.path);
    fixture_remove(both->slave.path);
}

static int64_t max_of(const side *one) { return rp_commit_log_max_offset(rp_message_store_commit_log(one->store)); }

static void append(pair *both, int count) {
    for (int i = 0; i < count; i++, both->appended++) {
        char body[512];
        rp_append_item item = {.queue = fixture_queue(both->master.store, "T", (int32_t)(both->appended % 3)), .born_timestamp_ms = 1};
        item.body = (rp_slice){(const uint8_t *)body, fixture_body(body, sizeof body, (int32_t)(both->appended % 3), both->appended)};
        item.properties[0] = fixture_slice("TAGS\1a\2");
        item.tags_code = rp_message_tags_code(item.properties[0]);
        CHECK(rp_commit_log_append(rp_message_store_commit_log(both->master.store), &item, 1) == 1);
    }
}

static void check_equal(pair *both) {
    rp_commit_log *ours = rp_message_store_commit_log(both->master.store), *theirs = rp_message_store_commit_log(both->slave.store);
    int64_t min = rp_commit_log_min_offset(theirs), max = max_of(&both->master);
    CHECK(max_of(&both->slave) == max && min <= max);
    for (int64_t offset = min; offset < max;) {
        int64_t left = max - offset, file_left = FIXTURE_LOG_FILE_SIZE - offset % FIXTURE_LOG_FILE_SIZE;
        uint32_t size = (uint32_t)(left < file_left ? left : file_left);
        rp_log_range a, b;
        CHECK(rp_commit_log_read(ours, offset, size, &a) == RP_OK && rp_commit_log_read(theirs, offset, size, &b) == RP_OK);
        CHECK(memcmp(a.address, b.address, size) == 0);
        rp_log_range_release(a.pin);
        rp_log_range_release(b.pin);
        offset += size;
    }
    for (int32_t queue_id = 0; queue_id < 3 && min == 0; queue_id++) {
        rp_consume_queue *a = fixture_queue(both->master.store, "T", queue_id), *b = fixture_queue(both->slave.store, "T", queue_id);
        CHECK(rp_consume_queue_max_offset(a) == rp_consume_queue_max_offset(b));
        for (int64_t i = 0; i < rp_consume_queue_max_offset(a); i++) {
            rp_queue_entry one, other;
            CHECK(rp_consume_queue_read(a, i, &one, 1) == 1 && rp_consume_queue_read(b, i, &other, 1) == 1);
            CHECK(one.commit_log_offset == other.commit_log_offset && one.size == other.size && one.tags_code == other.tags_code);
        }
    }
}

static void a_slave_holds_what_its_master_appends(void) {
    pair both;
    open_pair(&both);
    for (int round = 0; round < 20; round++) {
        append(&both, 50);
        CHECK(wait_acked(&both.acked, max_of(&both.master)));
        CHECK(rp_ha_master_acked_offset(both.ha_master, 1) == max_of(&both.master));
        CHECK(rp_ha_master_acked_offset(both.ha_master, 2) == -1);
    }
    check_equal(&both);
    close_pair(&both);
}

#define APPENDERS 4

typedef struct appender {
    pthread_t thread;
    rp_message_store *store;
    rp_consume_queue *queue;
} appender;

static void *append_many(void *context) {
    appender *one = context;
    rp_append_item item = {.queue = one->queue, .body = fixture_slice("a body"), .born_timestamp_ms = 1};
    for (int i = 0; i < 2000; i++) {
        CHECK(rp_commit_log_append(rp_message_store_commit_log(one->store), &item, 1) == 1);
    }
    return NULL;
}

/* Nobody but the appenders and acks wakes the ha thread: a lost wake-up would stand until the heartbeat, five seconds later. */
static void many_appenders_at_once_lose_no_wake_up(void) {
    pair both;
    open_pair(&both);
    append(&both, 1);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    for (int round = 0; round < 5; round++) {
        appender appenders[APPENDERS];
        for (int i = 0; i < APPENDERS; i++) {
            appenders[i] = (appender){.store = both.master.store, .queue = fixture_queue(both.master.store, "T", i % 3)};
            CHECK(pthread_create(&appenders[i].thread, NULL, append_many, &appenders[i]) == 0);
        }
        for (int i = 0; i < APPENDERS; i++) {
            CHECK(pthread_join(appenders[i].thread, NULL) == 0);
        }
        struct timespec before, after;
        clock_gettime(CLOCK_MONOTONIC, &before);
        CHECK(wait_acked(&both.acked, max_of(&both.master)));
        clock_gettime(CLOCK_MONOTONIC, &after);
        CHECK(after.tv_sec - before.tv_sec < 4);
    }
    check_equal(&both);
    close_pair(&both);
}

static void a_slave_goes_on_after_either_side_was_away(void) {
    pair both;
    open_pair(&both);
    append(&both, 300);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    close_slave(&both);
    CHECK(wait_acked(&both.acked, -1));
    append(&both, 500); /* several files further */
    open_slave(&both);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    close_master(&both);
    open_master(&both);
    follow(&both);
    append(&both, 100);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    check_equal(&both);
    close_pair(&both);
}

typedef struct splices {
    _Atomic int calls, refused;
} splices;

/* Every third finds the disk full, the others move a part of what there is. */
static int64_t moody_splice_at(void *context, int pipe_fd, int fd, size_t size, int64_t offset) {
    splices *counts = context;
    if (atomic_fetch_add(&counts->calls, 1) % 3 == 1) {
        atomic_fetch_add(&counts->refused, 1);
        errno = ENOSPC;
        return -1;
    }
    return rp_file_ops_system()->splice_at(NULL, pipe_fd, fd, size > 5000 ? 5000 : size, offset);
}

static void a_backlog_goes_on_where_the_disk_refused_it(void) {
    splices counts = {0};
    rp_file_ops moody = *rp_file_ops_system(); /* whose other calls need no context */
    moody.context = &counts;
    moody.splice_at = moody_splice_at;
    pair both;
    open_pair(&both);
    append(&both, 10);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    close_slave(&both);
    CHECK(wait_acked(&both.acked, -1));
    append(&both, 1000);
    both.slave.ops = &moody;
    open_slave(&both);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    CHECK(atomic_load(&counts.refused) > 0);
    append(&both, 100); /* small frames again, behind pages that were only claimed */
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    check_equal(&both);
    close_pair(&both);
}

static void an_empty_slave_starts_with_the_masters_last_file(void) {
    pair both;
    open_pair(&both);
    close_slave(&both);
    fixture_remove(both.slave.path);
    append(&both, 1000);
    fixture_directory(both.slave.path, sizeof both.slave.path - 1);
    open_slave(&both);
    append(&both, 10);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    CHECK(rp_commit_log_min_offset(rp_message_store_commit_log(both.slave.store)) > 0);
    check_equal(&both);
    close_pair(&both);
}

/* A connection to the master from 127.0.0.`host`. */
static int connect_from(pair *both, uint32_t host) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(rp_ha_master_port(both->ha_master))}, own = address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    own.sin_port = 0;
    own.sin_addr.s_addr = htonl(0x7F000000u | host);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval limit = {.tv_sec = WAIT_S};
    CHECK(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    CHECK(bind(fd, (struct sockaddr *)&own, sizeof own) == 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

static int connect_to(pair *both) { return connect_from(both, 1); }

static void report(int fd, int64_t offset) {
    uint8_t ack[8];
    rp_put_u64(ack, (uint64_t)offset);
    CHECK(send(fd, ack, sizeof ack, MSG_NOSIGNAL) == (ssize_t)sizeof ack);
}

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

/* Reports offset 0 byte by byte and reads the first frame's header. */
static void a_report_may_come_in_pieces(void) {
    pair both;
    open_pair(&both);
    append(&both, 5);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    int fd = connect_to(&both);
    static const uint8_t ack[8];
    for (size_t i = 0; i < sizeof ack; i++) {
        CHECK(send(fd, ack + i, 1, MSG_NOSIGNAL) == 1);
    }
    uint8_t header[RP_HA_HEADER_SIZE];
    CHECK(recv(fd, header, sizeof header, MSG_WAITALL) == (ssize_t)sizeof header);
    CHECK(rp_get_u64(header) == 0 && rp_get_u32(header + 8) == (uint32_t)max_of(&both.master));
    rp_ha_slave_row rows[4];
    CHECK(rp_ha_master_read_slaves(both.ha_master, rows, 4) == 2);
    close(fd);
    close_pair(&both);
}

static void wait_connected(const pair *both, uint32_t connections) {
    rp_ha_slave_row rows[RP_HA_SLAVES_MAX];
    struct timespec pause = {.tv_nsec = 200000};
    for (int i = 0; rp_ha_master_read_slaves(both->ha_master, rows, RP_HA_SLAVES_MAX) != connections; i++) {
        CHECK(i < WAIT_S * 5000);
        nanosleep(&pause, NULL);
    }
}

static int refused_accepts(const pair *both) {
    int count = 0;
    rp_log_line line;
    while (rp_log_take(both->log, &line, 1) == 1)
        count += strstr(line.text, "accept failed") != NULL;
    return count;
}

static void a_master_without_descriptors_rests_and_accepts_later(void) {
    pair both = {.acked.offset = -1};
    struct rlimit limit, none;
    CHECK(rp_log_create(&both.log) == RP_OK && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    pthread_mutex_init(&both.acked.lock, NULL);
    pthread_cond_init(&both.acked.moved, NULL);
    fixture_directory(both.master.path, sizeof both.master.path);
    open_master(&both);
    int first = connect_to(&both);
    wait_connected(&both, 1);
    none = limit;
    none.rlim_cur = (rlim_t)socket(AF_INET, SOCK_STREAM, 0) + 1; /* the client's is the last one */
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(rp_ha_master_port(both.ha_master))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK(connect((int)none.rlim_cur - 1, (struct sockaddr *)&address, sizeof address) == 0);
    int refused = 0;
    for (int i = 0; (refused = refused_accepts(&both)) == 0; i++) {
        CHECK(i < WAIT_S * 1000000);
        sched_yield();
    }
    for (int i = 0; i < 1000; i++)
        sched_yield(); /* one that does not rest tries again and again */
    refused += refused_accepts(&both);
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(refused == 1);
    wait_connected(&both, 2);
    CHECK(refused_accepts(&both) == 0);
    close(first);
    close((int)none.rlim_cur - 1);
    close_master(&both);
    fixture_remove(both.master.path);
    rp_log_destroy(both.log);
}

static uint32_t heard_slaves(rp_ha_master *master) {
    rp_ha_slave_row rows[RP_HA_SLAVES_MAX];
    uint32_t count = rp_ha_master_read_slaves(master, rows, RP_HA_SLAVES_MAX), heard = 0;
    for (uint32_t i = 0; i < count; i++)
        heard += rows[i].acked_offset >= 0;
    return heard;
}

/* Until the master has heard `connections` slaves. */
static void wait_heard(const pair *both, uint32_t connections) {
    struct timespec pause = {.tv_nsec = 200000};
    for (int i = 0; heard_slaves(both->ha_master) != connections; i++) {
        CHECK(i < WAIT_S * 5000);
        nanosleep(&pause, NULL);
    }
}

static void reconnect_half_open(uint32_t slaves_required, uint32_t slaves_min) {
    pair both;
    open_pair(&both);
    close_slave(&both);
    CHECK(rp_ha_master_require(both.ha_master, slaves_required, slaves_min) == RP_OK);
    append(&both, 5);
    int64_t settled = max_of(&both.master);
    int other = connect_from(&both, 2);
    report(other, settled);
    append(&both, 5);
    int64_t end = max_of(&both.master);
    int half_open = connect_from(&both, 1);
    report(half_open, end);
    CHECK(wait_acked(&both.acked, slaves_required == 2 ? settled : end));

    int again = connect_from(&both, 1); /* the same slave: with its old connection it is still one replica */
    report(again, end);
    wait_heard(&both, 3);
    CHECK(rp_ha_master_acked_offset(both.ha_master, 1) == end);
    CHECK(rp_ha_master_acked_offset(both.ha_master, 2) == settled);
    CHECK(rp_ha_master_acked_offset(both.ha_master, 3) == settled);
    uint8_t header[RP_HA_HEADER_SIZE];
    CHECK(recv(half_open, header, sizeof header, MSG_WAITALL) == (ssize_t)sizeof header);
    CHECK(rp_get_u64(header) == (uint64_t)end && rp_get_u32(header + 8) == 0); /* asked whether it lives */

    report(half_open, end); /* it does: two slaves on one host */
    CHECK(wait_acked(&both.acked, end));
    int fds[] = {other, half_open, again};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        close(fds[i]);
    }
    open_slave(&both);
    close_pair(&both);
}

static void a_half_open_connection_is_no_second_replica(void) { reconnect_half_open(2, 0); }
static void nor_is_it_one_for_min_in_sync_replicas(void) { reconnect_half_open(1, 2); }

static void an_offset_that_was_never_sent_is_not_acknowledged(void) {
    pair both;
    open_pair(&both);
    append(&both, 5);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    close_slave(&both);
    close_master(&both);
    both.flow_bytes_per_second = 100; /* so that the master sends little of what it has */
    open_master(&both);
    int64_t held = max_of(&both.master);
    append(&both, 100);
    int fd = connect_to(&both);
    report(fd, held);
    uint8_t frame[RP_HA_HEADER_SIZE];
    CHECK(recv(fd, frame, sizeof frame, MSG_WAITALL) == (ssize_t)sizeof frame && rp_get_u32(frame + 8) == 100);
    report(fd, max_of(&both.master));
    CHECK(wait_acked(&both.acked, -1));
    close(fd);
    rp_ha_master_stats stats;
    rp_ha_master_read_stats(both.ha_master, &stats);
    CHECK(stats.dropped_bad_ack == 1);
    both.flow_bytes_per_second = 0;
    open_slave(&both);
    close_pair(&both);
}

int main(void) {
    RUN(a_master_without_descriptors_rests_and_accepts_later);
    for (appenders_send = 0; appenders_send <= 1; appenders_send++) {
        RUN(a_slave_holds_what_its_master_appends);
        RUN(many_appenders_at_once_lose_no_wake_up);
        RUN(a_slave_goes_on_after_either_side_was_away);
        RUN(a_backlog_goes_on_where_the_disk_refused_it);
        RUN(an_empty_slave_starts_with_the_masters_last_file);
        RUN(a_stranger_that_claims_too_much_is_dropped_and_completes_nothing);
        RUN(a_report_may_come_in_pieces);
        RUN(a_half_open_connection_is_no_second_replica);
        RUN(nor_is_it_one_for_min_in_sync_replicas);
        RUN(an_offset_that_was_never_sent_is_not_acknowledged);
    }
    return 0;
}
