/* ha_pair.h: a master and its slave in one program, and strangers that connect to the master. */
#ifndef RP_TEST_HA_PAIR_H
#define RP_TEST_HA_PAIR_H

#include "../../../csrc/ha/ha_master.h"
#include "../../../csrc/ha/ha_slave.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>

#include "../../../csrc/base/bytes_inl.h"
#include "check.h"
#include "store_fixture.h"

#define WAIT_S 60 /* for what must happen: a busy machine may pause */

typedef struct acks {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int64_t offset;
    uint32_t calls;
    int hold, is_holding; /* hold: the next call does not return until another has begun, or HOLD_MS is over */
} acks;

#define HOLD_MS 200

/* Called with the lock held. */
static inline void hold_call(acks *all) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += HOLD_MS * 1000000L;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    all->hold = 0;
    all->is_holding = 1;
    pthread_cond_broadcast(&all->moved);
    uint32_t calls = all->calls;
    int rc = 0;
    while (all->calls == calls && rc == 0) {
        rc = pthread_cond_timedwait(&all->moved, &all->lock, &end);
    }
}

static inline void on_acked(void *context, int64_t offset) {
    acks *all = context;
    pthread_mutex_lock(&all->lock);
    if (all->hold) {
        hold_call(all);
    }
    all->offset = offset;
    all->calls++;
    pthread_cond_broadcast(&all->moved);
    pthread_mutex_unlock(&all->lock);
}

static inline struct timespec wait_end(void) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += WAIT_S;
    return end;
}

static inline void wait_holding(acks *all) {
    struct timespec end = wait_end();
    pthread_mutex_lock(&all->lock);
    while (!all->is_holding) {
        CHECK(pthread_cond_timedwait(&all->moved, &all->lock, &end) == 0);
    }
    pthread_mutex_unlock(&all->lock);
}

static inline int wait_acked(acks *all, int64_t offset) {
    struct timespec end = wait_end();
    int rc = 0;
    pthread_mutex_lock(&all->lock);
    while (all->offset != offset && rc == 0) {
        rc = pthread_cond_timedwait(&all->moved, &all->lock, &end);
    }
    pthread_mutex_unlock(&all->lock);
    return rc == 0;
}

static inline int64_t told_offset(acks *all) {
    pthread_mutex_lock(&all->lock);
    int64_t offset = all->offset;
    pthread_mutex_unlock(&all->lock);
    return offset;
}

typedef struct side {
    char path[128];
    const rp_file_ops *ops; /* NULL: the kernel's */
    uint64_t file_size; /* 0: FIXTURE_LOG_FILE_SIZE */
    rp_message_store *store;
} side;

typedef struct pair {
    side master, slave;
    rp_ha_master *ha_master;
    rp_ha_slave *ha_slave;
    acks acked;
    int64_t appended;
    int64_t flow_bytes_per_second;
    uint32_t heartbeat_ms, housekeeping_ms; /* how long until a side speaks unasked, and until it leaves a silent one; 0: the defaults */
    uint32_t connect_timeout_ms; /* the slave's; 0: the default */
    rp_log *log, *slave_log; /* NULL: stderr */
    const rp_clock *clock; /* the master's; NULL: the system's */
} pair;

static int appenders_send; /* every test runs with both */

static inline void open_store(side *one) {
    rp_message_store_options options;
    fixture_options(&options, one->path);
    options.file_ops = one->ops;
    if (one->file_size > 0)
        options.commit_log_file_size = one->file_size;
    one->store = fixture_open(&options);
}

static inline void notify(void *context) { rp_ha_master_notify(context); }

static inline void open_master(pair *both) {
    open_store(&both->master);
    rp_ha_master_options options;
    rp_ha_master_options_default(&options);
    options.commit_log = rp_message_store_commit_log(both->master.store);
    options.commit_log_file_size = FIXTURE_LOG_FILE_SIZE;
    options.bind_address = "127.0.0.1";
    options.flow_bytes_per_second = both->flow_bytes_per_second;
    if (both->heartbeat_ms > 0)
        options.heartbeat_interval_ms = both->heartbeat_ms;
    if (both->housekeeping_ms > 0)
        options.housekeeping_interval_ms = both->housekeeping_ms;
    options.appenders_send = appenders_send;
    options.on_acked = on_acked;
    options.context = &both->acked;
    options.log = both->log;
    options.clock = both->clock;
    rp_error error;
    CHECK(rp_ha_master_open(&options, &both->ha_master, &error) == RP_OK);
    CHECK(rp_message_store_on_appended(both->master.store, notify, both->ha_master) == RP_OK);
}

static inline void close_master(pair *both) {
    rp_message_store_forget_appended(both->master.store, both->ha_master);
    rp_ha_master_close(both->ha_master);
    fixture_close(both->master.store);
}

static inline void follow(pair *both) {
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", rp_ha_master_port(both->ha_master));
    CHECK(rp_ha_slave_set_master(both->ha_slave, address) == RP_OK);
}

static inline void open_slave(pair *both) {
    open_store(&both->slave);
    rp_ha_slave_options options;
    rp_ha_slave_options_default(&options);
    options.commit_log = rp_message_store_commit_log(both->slave.store);
    options.reconnect_ms = 10;
    if (both->heartbeat_ms > 0)
        options.report_interval_ms = both->heartbeat_ms;
    if (both->housekeeping_ms > 0)
        options.housekeeping_interval_ms = both->housekeeping_ms;
    if (both->connect_timeout_ms > 0)
        options.connect_timeout_ms = both->connect_timeout_ms;
    options.log = both->slave_log;
    rp_error error;
    CHECK(rp_ha_slave_open(&options, &both->ha_slave, &error) == RP_OK);
    follow(both);
}

static inline void close_slave(pair *both) {
    rp_ha_slave_close(both->ha_slave);
    fixture_close(both->slave.store);
}

static inline void open_pair_with(pair *both, uint32_t heartbeat_ms, uint32_t housekeeping_ms) {
    memset(both, 0, sizeof *both);
    both->heartbeat_ms = heartbeat_ms;
    both->housekeeping_ms = housekeeping_ms;
    pthread_mutex_init(&both->acked.lock, NULL);
    pthread_cond_init(&both->acked.moved, NULL);
    both->acked.offset = -1;
    fixture_directory(both->master.path, sizeof both->master.path);
    fixture_directory(both->slave.path, sizeof both->slave.path);
    open_master(both);
    open_slave(both);
}

static inline void open_pair(pair *both) { open_pair_with(both, 0, 0); }

static inline void close_pair(pair *both) {
    close_slave(both);
    close_master(both);
    fixture_remove(both->master.path);
    fixture_remove(both->slave.path);
}

static inline void wait_connects(pair *both, uint64_t connects) {
    struct timespec pause = {.tv_nsec = 200000};
    rp_ha_slave_stats stats = {0};
    for (int i = 0; stats.connects < connects; i++) {
        rp_ha_slave_read_stats(both->ha_slave, &stats);
        CHECK(i < WAIT_S * 5000);
        nanosleep(&pause, NULL);
    }
}

static inline int64_t max_of(const side *one) { return rp_commit_log_max_offset(rp_message_store_commit_log(one->store)); }

static inline void append(pair *both, int count) {
    for (int i = 0; i < count; i++, both->appended++) {
        char body[512];
        rp_append_item item = {.queue = fixture_queue(both->master.store, "T", (int32_t)(both->appended % 3)), .born_timestamp_ms = 1};
        item.body = (rp_slice){(const uint8_t *)body, fixture_body(body, sizeof body, (int32_t)(both->appended % 3), both->appended)};
        item.properties[0] = fixture_slice("TAGS\1a\2");
        item.tags_code = rp_message_tags_code(item.properties[0]);
        CHECK(rp_commit_log_append(rp_message_store_commit_log(both->master.store), &item, 1) == 1);
    }
}

static inline void check_equal(pair *both) {
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

/* Connects to the master from 127.0.0.`host`. */
static inline int connect_from(pair *both, uint32_t host) {
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

static inline int connect_to(pair *both) { return connect_from(both, 1); }

static inline void report(int fd, int64_t offset) {
    uint8_t ack[8];
    rp_put_u64(ack, (uint64_t)offset);
    CHECK(send(fd, ack, sizeof ack, MSG_NOSIGNAL) == (ssize_t)sizeof ack);
}

static inline void wait_connected(const pair *both, uint32_t connections) {
    rp_ha_slave_row rows[RP_HA_SLAVES_MAX];
    struct timespec pause = {.tv_nsec = 200000};
    for (int i = 0; rp_ha_master_read_slaves(both->ha_master, rows, RP_HA_SLAVES_MAX) != connections; i++) {
        CHECK(i < WAIT_S * 5000);
        nanosleep(&pause, NULL);
    }
}

/* Counts the lines that contain the text, of those not taken yet. */
static inline int lines_with(rp_log *log, const char *text) {
    int count = 0;
    rp_log_line line;
    while (rp_log_take(log, &line, 1) == 1)
        count += strstr(line.text, text) != NULL;
    return count;
}

/* Both have ten messages, and the slave is closed. Its log lines after it is reopened are in slave_log. */
static inline void open_pair_without_slave(pair *both) {
    open_pair(both);
    CHECK(rp_log_create(&both->slave_log) == RP_OK);
    append(both, 10);
    CHECK(wait_acked(&both->acked, max_of(&both->master)));
    close_slave(both);
}

#endif
