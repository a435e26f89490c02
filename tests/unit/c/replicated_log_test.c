/* replicated_log_test.c: a master's bytes come in pieces of any size, through the map and in bulk in turn; the slave's log is the master's,
 * queues included, also where its disk fails, and goes on as a master's. */
#include <errno.h>

#include "check.h"
#include "store_fixture.h"

enum { QUEUES = 3, MESSAGES = 900 }; /* 300 KB of log: five files */

static uint64_t random_state;

static uint32_t random_below(uint32_t bound) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % bound;
}

static void open_master(rp_message_store **store, const char *path) {
    rp_message_store_options options;
    fixture_options(&options, path);
    *store = fixture_open(&options);
    for (int64_t i = 0; i < MESSAGES; i++) {
        CHECK(fixture_append(*store, fixture_queue(*store, "R", (int32_t)(i % QUEUES)), i / QUEUES) == RP_OK);
    }
}

/* One piece of what the slave has not yet, at most size_max bytes. 0, or the status of what failed. */
static int replicate_some(rp_commit_log *master, rp_commit_log *slave, int in_bulk, uint32_t size_max) {
    int64_t offset = rp_commit_log_max_offset(slave), left = rp_commit_log_max_offset(master) - offset;
    uint8_t *room = NULL;
    uint32_t size = 0;
    rp_error error;
    int rc = rp_commit_log_reserve_replicated(slave, offset, in_bulk, &room, &size, &error);
    if (rc != RP_OK) {
        return rc;
    }
    CHECK(size > 0 && offset / FIXTURE_LOG_FILE_SIZE == (offset + size - 1) / FIXTURE_LOG_FILE_SIZE);
    size = size < left ? size : (uint32_t)left;
    size = size < size_max ? size : size_max;
    rp_log_range range;
    CHECK(rp_commit_log_read(master, offset, size, &range) == RP_OK);
    memcpy(room, range.address, size);
    rp_log_range_release(range.pin);
    rc = rp_commit_log_commit_replicated(slave, offset, size, &error);
    CHECK(rp_commit_log_max_offset(slave) == (rc == RP_OK ? offset + size : offset));
    return rc;
}

static int is_behind(rp_commit_log *master, rp_commit_log *slave) {
    return rp_commit_log_max_offset(slave) < rp_commit_log_max_offset(master);
}

static void check_same(rp_message_store *master, rp_message_store *slave) {
    rp_commit_log *a = rp_message_store_commit_log(master), *b = rp_message_store_commit_log(slave);
    int64_t max = rp_commit_log_max_offset(a);
    CHECK(rp_commit_log_max_offset(b) == max);
    for (int64_t at = 0, size; at < max; at += size) {
        size = max - at < FIXTURE_LOG_FILE_SIZE ? max - at : FIXTURE_LOG_FILE_SIZE;
        rp_log_range one, other;
        CHECK(rp_commit_log_read(a, at, (uint32_t)size, &one) == RP_OK && rp_commit_log_read(b, at, (uint32_t)size, &other) == RP_OK);
        CHECK(memcmp(one.address, other.address, (size_t)size) == 0);
        for (int64_t i = size; i < FIXTURE_LOG_FILE_SIZE; i++) {
            CHECK(other.address[i] == 0); /* whoever reads the file finds its end there */
        }
        rp_log_range_release(one.pin);
        rp_log_range_release(other.pin);
    }
    for (int32_t id = 0; id < QUEUES; id++) {
        rp_consume_queue *queue = fixture_queue(slave, "R", id);
        CHECK(rp_consume_queue_max_offset(queue) == MESSAGES / QUEUES);
        for (int64_t i = 0; i < MESSAGES / QUEUES; i++) {
            CHECK(fixture_check(slave, queue, i) == 0);
        }
    }
}

/* `way` 0: through the map, 1: in bulk, 2: as it comes. Afterwards the slave is a master, now and after a start. */
static void replicate_all(int way, int32_t flush_mode, uint32_t size_max) {
    char master_path[400], slave_path[400];
    fixture_directory(master_path, sizeof master_path);
    fixture_directory(slave_path, sizeof slave_path);
    rp_message_store *master, *slave;
    open_master(&master, master_path);
    rp_message_store_options options;
    fixture_options(&options, slave_path);
    options.flush_mode = flush_mode;
    slave = fixture_open(&options);
    while (is_behind(rp_message_store_commit_log(master), rp_message_store_commit_log(slave))) {
        int in_bulk = way == 2 ? (int)random_below(2) : way;
        CHECK(replicate_some(rp_message_store_commit_log(master), rp_message_store_commit_log(slave), in_bulk,
                             1 + random_below(size_max)) == RP_OK);
    }
    check_same(master, slave);
    for (int64_t run = 0; run < 2; run++) {
        rp_consume_queue *queue = fixture_queue(slave, "R", 0);
        for (int64_t i = 0; i < 100; i++) {
            int64_t number = MESSAGES / QUEUES + 100 * run + i;
            CHECK(fixture_append(slave, queue, number) == RP_OK && fixture_check(slave, queue, number) == 0);
        }
        fixture_close(slave);
        slave = fixture_open(&options);
    }
    fixture_close(slave);
    fixture_close(master);
    fixture_remove(master_path);
    fixture_remove(slave_path);
}

/* A disk for the replicating thread: it says EIO for every third write, done or not, and is full now and then. */
typedef struct bad_disk {
    uint32_t writes, allocations;
} bad_disk;

static _Thread_local int is_replicating;

static int64_t bad_write_at(void *context, int fd, const void *source, size_t size, int64_t offset) {
    bad_disk *disk = context;
    int64_t count = rp_file_ops_system()->write_at(NULL, fd, source, size, offset);
    if (is_replicating && disk->writes++ % 3 == 0) {
        errno = EIO;
        return -1;
    }
    return count;
}

static int bad_allocate(void *context, int fd, int64_t offset, int64_t size) {
    bad_disk *disk = context;
    if (is_replicating && size >= 4096 && disk->allocations++ % 5 < 3) { /* the log, not a queue */
        errno = ENOSPC;
        return -1;
    }
    return rp_file_ops_system()->allocate(NULL, fd, offset, size);
}

static void a_disk_that_fails_and_fills_up_costs_repetitions(void) {
    char master_path[400], slave_path[400];
    fixture_directory(master_path, sizeof master_path);
    fixture_directory(slave_path, sizeof slave_path);
    rp_message_store *master, *slave;
    open_master(&master, master_path);
    bad_disk disk = {0};
    rp_file_ops ops = *rp_file_ops_system();
    ops.context = &disk;
    ops.write_at = bad_write_at;
    ops.allocate = bad_allocate;
    rp_message_store_options options;
    fixture_options(&options, slave_path);
    options.file_ops = &ops;
    slave = fixture_open(&options);
    int failures = 0, full = 0;
    is_replicating = 1;
    for (int turn = 0; is_behind(rp_message_store_commit_log(master), rp_message_store_commit_log(slave)); turn++) {
        CHECK(turn < 10000);
        int rc = replicate_some(rp_message_store_commit_log(master), rp_message_store_commit_log(slave), 1, 1 + random_below(3000));
        CHECK(rc == RP_OK || rc == RP_E_IO || rc == RP_E_DISK_FULL);
        failures += rc == RP_E_IO;
        full += rc == RP_E_DISK_FULL;
    }
    is_replicating = 0;
    CHECK(failures > 10 && full > 0);
    check_same(master, slave);
    fixture_close(slave);
    fixture_close(master);
    fixture_remove(master_path);
    fixture_remove(slave_path);
}

int main(void) {
    const char *seed = getenv("ROCKETPY_SEED");
    random_state = seed != NULL ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
    printf("ROCKETPY_SEED=%llu\n", (unsigned long long)random_state);
    for (int way = 0; way < 3; way++) {
        replicate_all(way, RP_FLUSH_ASYNC, 700);
        replicate_all(way, RP_FLUSH_ASYNC, 100000);
        replicate_all(way, RP_FLUSH_SYNC, 20000);
    }
    a_disk_that_fails_and_fills_up_costs_repetitions();
    return 0;
}
