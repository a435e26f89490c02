/* ha_switch_fixture.h: brokers with a controller that is played by the test: each has a store, epochs, a HaMaster and a HaSlave. */
#ifndef RP_TESTS_HA_SWITCH_FIXTURE_H
#define RP_TESTS_HA_SWITCH_FIXTURE_H

#include <errno.h>
#include <poll.h>

#include "../../../csrc/base/clock_inl.h"
#include "../../../csrc/ha/ha_switch.h"
#include "ha_pair.h"

static int flush_mode; /* for stores that are opened next; RP_FLUSH_ASYNC at first */
static const rp_clock *master_clock, *slave_clock; /* for brokers that are opened next; NULL: the system's */
static uint32_t master_heartbeat_ms = 20;

typedef struct node {
    int64_t id;
    char path[128], epochs_path[160];
    int all_in_set; /* all_in_sync_state_set */
    acks acked;
    rp_message_store *store;
    rp_epoch_cache *epochs;
    rp_ha_master *master;
    rp_ha_slave *slave;
    int64_t appended;
} node;

static inline rp_commit_log *log_of(const node *one) { return rp_message_store_commit_log(one->store); }
static inline int64_t end_of(const node *one) { return rp_commit_log_max_offset(log_of(one)); }

static inline void open_node_with(node *one, const rp_file_ops *ops) {
    rp_error error;
    rp_message_store_options options;
    fixture_options(&options, one->path);
    options.file_ops = ops;
    options.holds_back = 1;
    options.flush_mode = flush_mode;
    one->store = fixture_open(&options);
    rp_epoch_cache_options epochs = {.path = one->epochs_path};
    CHECK(rp_epoch_cache_open(&epochs, &one->epochs, &error) == RP_OK);
    CHECK(rp_epoch_cache_fit(one->epochs, rp_commit_log_min_offset(log_of(one)), end_of(one), &error) == RP_OK);
    rp_ha_master_options master;
    rp_ha_master_options_default(&master);
    master.commit_log = log_of(one);
    master.commit_log_file_size = FIXTURE_LOG_FILE_SIZE;
    master.bind_address = "127.0.0.1";
    master.heartbeat_interval_ms = master_heartbeat_ms;
    master.clock = master_clock;
    master.appenders_send = appenders_send;
    master.on_acked = on_acked;
    master.context = &one->acked;
    master.epochs = one->epochs;
    master.broker_id = one->id;
    master.all_in_sync_state_set = one->all_in_set;
    CHECK(rp_ha_master_open(&master, &one->master, &error) == RP_OK);
    CHECK(rp_message_store_on_appended(one->store, notify, one->master) == RP_OK);
    rp_ha_slave_options slave;
    rp_ha_slave_options_default(&slave);
    slave.commit_log = log_of(one);
    slave.reconnect_ms = 1;
    slave.report_interval_ms = 20;
    slave.clock = slave_clock;
    slave.epochs = one->epochs;
    slave.broker_id = one->id;
    CHECK(rp_ha_slave_open(&slave, &one->slave, &error) == RP_OK);
}

static inline void open_node(node *one, int64_t id, int all_in_set) {
    memset(one, 0, sizeof *one);
    one->id = id;
    one->all_in_set = all_in_set;
    pthread_mutex_init(&one->acked.lock, NULL);
    pthread_cond_init(&one->acked.moved, NULL);
    one->acked.offset = -1;
    fixture_directory(one->path, sizeof one->path);
    snprintf(one->epochs_path, sizeof one->epochs_path, "%s/epochFileCheckpoint", one->path);
    open_node_with(one, NULL);
}

static inline void stop_node(node *one) {
    rp_ha_slave_close(one->slave);
    rp_message_store_forget_appended(one->store, one->master);
    rp_ha_master_close(one->master);
    rp_epoch_cache_close(one->epochs);
    fixture_close(one->store);
}

static inline void close_node(node *one) {
    stop_node(one);
    fixture_remove(one->path);
}

static inline void lead_with(node *one, int64_t epoch, const int64_t *ids, uint32_t count) {
    rp_error error;
    rp_ha_slave_let_go(one->slave);
    CHECK(rp_ha_master_lead(one->master, epoch, ids, count, &error) == RP_OK);
}

static inline void lead(node *one, int64_t epoch) { lead_with(one, epoch, &one->id, 1); }

static inline void follow_node(node *one, const node *leader) {
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", rp_ha_master_port(leader->master));
    rp_ha_master_step_down(one->master);
    CHECK(rp_ha_slave_set_master(one->slave, address) == RP_OK);
}

/* Returns RP_OK, or why the append was refused. */
static inline int try_append(node *one) {
    char body[512];
    int32_t queue_id = (int32_t)(one->appended % 3);
    rp_append_item item = {.queue = fixture_queue(one->store, "T", queue_id), .born_timestamp_ms = 1};
    item.body = (rp_slice){(const uint8_t *)body, fixture_body(body, sizeof body, queue_id, one->appended + one->id * 1000000)};
    item.properties[0] = fixture_slice("TAGS\1a\2");
    item.tags_code = rp_message_tags_code(item.properties[0]);
    rp_commit_log_append(log_of(one), &item, 1);
    one->appended += item.status == RP_OK;
    return item.status;
}

static inline void append_to(node *one, int count) {
    for (int i = 0; i < count; i++)
        CHECK(try_append(one) == RP_OK);
}

/* Yields until the condition holds, but not for ever. */
#define WAIT_FOR(condition)                                                                                                                \
    do {                                                                                                                                   \
        struct timespec wait_pause = {.tv_nsec = 200000};                                                                                  \
        for (int wait_turn = 0; !(condition); wait_turn++) {                                                                               \
            CHECK(wait_turn < WAIT_S * 5000);                                                                                              \
            nanosleep(&wait_pause, NULL);                                                                                                  \
        }                                                                                                                                  \
    } while (0)

static inline rp_ha_slave_stats stats_of(const node *one) {
    rp_ha_slave_stats stats;
    rp_ha_slave_read_stats(one->slave, &stats);
    return stats;
}

/* Checks that both have the same log, to the last byte, and the same queues. */
static inline void check_same(node *a, node *b) {
    pair both = {.master.store = a->store, .slave.store = b->store};
    check_equal(&both);
}

static inline int has_same_dispatched(const node *one) { return rp_commit_log_dispatched_offset(log_of(one)) == end_of(one); }

static inline void wait_same(node *leader, node *one) {
    WAIT_FOR(end_of(one) == end_of(leader) && stats_of(one).state == RP_HA_SLAVE_TRANSFER && has_same_dispatched(one));
    check_same(leader, one);
}

/* Fills in the row of a connected broker. Returns 0 if it is not connected. */
static inline int row_of(const node *leader, int64_t id, rp_ha_slave_row *row) {
    rp_ha_slave_row rows[RP_HA_SLAVES_MAX];
    uint32_t count = rp_ha_master_read_slaves(leader->master, rows, RP_HA_SLAVES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].broker_id == id) {
            *row = rows[i];
            return 1;
        }
    }
    return 0;
}

static inline int is_signalled(const node *leader) {
    struct pollfd fd = {.fd = rp_ha_master_set_fd(leader->master), .events = POLLIN};
    uint64_t drained;
    return poll(&fd, 1, 0) == 1 && read(fd.fd, &drained, sizeof drained) == (ssize_t)sizeof drained;
}

#endif
