/* ha_test.c: a master's log reaches its slave byte for byte, queues included; acks, silence, strangers and divergence are handled. */
#include <poll.h>
#include <stdbool.h>
#include <sys/resource.h>

#include "ha_pair.h"

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

/* Nobody but the appenders and acks wakes the ha thread: a lost wake-up would stand until the heartbeat, an hour later. */
static void many_appenders_at_once_lose_no_wake_up(void) {
    pair both;
    open_pair_with(&both, 3600 * 1000, 3600 * 1000);
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
        CHECK(wait_acked(&both.acked, max_of(&both.master)));
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

/* Every third call finds the disk full; the others move only a part. */
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

static _Atomic bool log_is_full;

static int allocate_or_full(void *context, int fd, int64_t offset, int64_t size) {
    if (atomic_load(&log_is_full)) {
        errno = ENOSPC;
        return -1;
    }
    return rp_file_ops_system()->allocate(context, fd, offset, size);
}

/* Its log may lie on the disk that is full. */
static void a_slave_whose_disk_is_full_says_so_now_and_then(void) {
    rp_file_ops full = *rp_file_ops_system();
    full.allocate = allocate_or_full;
    pair both;
    open_pair_without_slave(&both);
    both.slave.ops = &full;
    atomic_store(&log_is_full, true);
    append(&both, 1000);
    open_slave(&both);
    wait_connects(&both, 5);
    CHECK(lines_with(both.slave_log, "]; our log ends at") == 1);
    atomic_store(&log_is_full, false);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    check_equal(&both);
    close_pair(&both);
    rp_log_destroy(both.slave_log);
}

static _Atomic bool queues_are_full;

static int open_or_full(void *context, const char *path, int flags, uint32_t mode) {
    if (atomic_load(&queues_are_full) && strstr(path, "/consumequeue/") != NULL) {
        errno = ENOSPC;
        return -1;
    }
    return rp_file_ops_system()->open(context, path, flags, mode);
}

static void wait_queued(const pair *both, int64_t count) {
    struct timespec pause = {.tv_nsec = 1000000};
    for (int i = 0; rp_consume_queue_max_offset(fixture_queue(both->slave.store, "T", 2)) != count; i++) {
        CHECK(i < WAIT_S * 1000);
        nanosleep(&pause, NULL);
    }
}

/* Some messages found no room in their queues. No others come after them, nobody reads them, and the master goes away. */
static void a_quiet_slave_queues_what_its_disk_refused(void) {
    rp_file_ops full = *rp_file_ops_system();
    full.open = open_or_full;
    pair both;
    open_pair_with(&both, 20, 20000);
    close_slave(&both);
    both.slave.ops = &full;
    open_slave(&both);
    atomic_store(&queues_are_full, true);
    append(&both, 9);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    CHECK(rp_consume_queue_max_offset(fixture_queue(both.slave.store, "T", 2)) == 0);
    atomic_store(&queues_are_full, false);
    wait_queued(&both, 3);
    check_equal(&both);
    atomic_store(&queues_are_full, true);
    append(&both, 3 * FIXTURE_QUEUE_FILE_ENTRIES); /* each needs another file */
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    close_master(&both);
    wait_queued(&both, FIXTURE_QUEUE_FILE_ENTRIES);
    atomic_store(&queues_are_full, false);
    wait_queued(&both, FIXTURE_QUEUE_FILE_ENTRIES + 3);
    close_slave(&both);
    fixture_remove(both.master.path);
    fixture_remove(both.slave.path);
}

static void an_empty_slave_starts_with_the_masters_last_file(void) {
    pair both;
    open_pair(&both);
    close_slave(&both);
    fixture_remove(both.slave.path);
    append(&both, 1000);
    fixture_directory(both.slave.path, sizeof both.slave.path - 1);
    close_master(&both);
    CHECK(rp_log_create(&both.log) == RP_OK);
    open_master(&both);
    open_slave(&both);
    append(&both, 10);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    int64_t begin = rp_commit_log_min_offset(rp_message_store_commit_log(both.slave.store));
    CHECK(begin > 0);
    char told[64];
    snprintf(told, sizeof told, "from offset %lld on, where the last file begins", (long long)begin);
    CHECK(lines_with(both.log, told) == 1); /* this line alone says that the slave is no whole copy */
    check_equal(&both);
    close_pair(&both);
    rp_log_destroy(both.log);
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

static int refused_accepts(const pair *both) { return lines_with(both->log, "accept failed"); }

static int64_t monotonic_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void a_master_without_descriptors_rests_and_accepts_later(void) {
    pair both = {.acked.offset = -1, .housekeeping_ms = 3600 * 1000}; /* or it leaves who says nothing while a busy machine is slow */
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
    int64_t began_s = monotonic_s();
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0); /* the listener that accepted the first one tries to accept another */
    CHECK(connect((int)none.rlim_cur - 1, (struct sockaddr *)&address, sizeof address) == 0);
    int refused = 0;
    for (int i = 0; (refused = refused_accepts(&both)) == 0; i++) {
        CHECK(i < WAIT_S * 1000000);
        sched_yield();
    }
    poll(NULL, 0, 20); /* one that does not rest tries again and again */
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    wait_connected(&both, 2);
    refused += refused_accepts(&both);
    CHECK(refused <= 1 + monotonic_s() - began_s); /* one a second: on a busy machine all this takes longer */
    close(first);
    close((int)none.rlim_cur - 1);
    close_master(&both);
    fixture_remove(both.master.path);
    rp_log_destroy(both.log);
}

/* Until so many slaves count, which is later than the master has heard them. */
static void wait_counted(const pair *both, uint32_t slaves) {
    struct timespec pause = {.tv_nsec = 200000};
    for (int i = 0; rp_ha_master_acked_offset(both->ha_master, slaves) < 0; i++) {
        CHECK(i < WAIT_S * 5000);
        nanosleep(&pause, NULL);
    }
}

static void wait_held(const pair *both, uint32_t slaves, int64_t offset) {
    struct timespec pause = {.tv_nsec = 200000};
    for (int i = 0; rp_ha_master_acked_offset(both->ha_master, slaves) != offset; i++) {
        CHECK(i < WAIT_S * 5000);
        nanosleep(&pause, NULL);
    }
}

static void answer_heartbeat(int fd, int64_t offset) {
    uint8_t header[RP_HA_HEADER_SIZE];
    CHECK(recv(fd, header, sizeof header, MSG_WAITALL) == (ssize_t)sizeof header);
    CHECK(rp_get_u64(header) == (uint64_t)offset && rp_get_u32(header + 8) == 0);
    report(fd, offset);
}

static void reconnect_half_open(uint32_t slaves_required, uint32_t slaves_min) {
    pair both;
    open_pair_with(&both, 200, 3600 * 1000); /* heartbeats are waited for */
    close_slave(&both);
    CHECK(rp_ha_master_require(both.ha_master, slaves_required, slaves_min, 0) == RP_OK);
    append(&both, 5);
    int64_t settled = max_of(&both.master);
    int other = connect_from(&both, 2);
    report(other, settled);
    answer_heartbeat(other, settled);
    wait_held(&both, 1, settled);
    append(&both, 5);
    int64_t end = max_of(&both.master);
    int half_open = connect_from(&both, 1);
    report(half_open, end);
    answer_heartbeat(half_open, end);
    wait_held(&both, 1, end);
    wait_held(&both, 2, settled);

    int again = connect_from(&both, 1); /* the same slave: with its old connection it is still one replica */
    report(again, end);
    wait_counted(&both, 3);
    if (slaves_required == 2)
        answer_heartbeat(again, end);
    wait_held(&both, 1, end);
    CHECK(rp_ha_master_acked_offset(both.ha_master, 2) == settled);
    CHECK(rp_ha_master_acked_offset(both.ha_master, 3) == settled);

    answer_heartbeat(half_open, end); /* asked whether it lives, it does: two slaves on one host */
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

static void with_fewer_in_sync_fewer_will_do(void) {
    pair both;
    open_pair(&both);
    append(&both, 5);
    int64_t end = max_of(&both.master);
    CHECK(wait_acked(&both.acked, end));
    CHECK(rp_ha_master_require(both.ha_master, 2, 0, -1) == RP_E_INVALID);
    CHECK(rp_ha_master_require(both.ha_master, 2, 0, 0) == RP_OK && told_offset(&both.acked) == -1);
    CHECK(rp_ha_master_require(both.ha_master, 2, 2, 1 << 20) == RP_OK && told_offset(&both.acked) == -1);
    CHECK(rp_ha_master_require(both.ha_master, 2, 0, 1 << 20) == RP_OK && told_offset(&both.acked) == end);
    close_slave(&both);
    CHECK(wait_acked(&both.acked, INT64_MAX));
    append(&both, 5);

    int behind = connect_from(&both, 2);
    report(behind, end);
    CHECK(wait_acked(&both.acked, end));
    CHECK(rp_ha_master_require(both.ha_master, 2, 0, max_of(&both.master) - end) == RP_OK && told_offset(&both.acked) == INT64_MAX);
    CHECK(rp_ha_master_require(both.ha_master, 2, 0, max_of(&both.master) - end + 1) == RP_OK && told_offset(&both.acked) == end);
    append(&both, 1); /* how far it is behind is checked only when it reports, every few seconds */
    report(behind, end);
    CHECK(wait_acked(&both.acked, INT64_MAX));
    close(behind);
    open_slave(&both);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    check_equal(&both);
    close_pair(&both);
}

static void *require_one(void *ha_master) {
    CHECK(rp_ha_master_require(ha_master, 1, 0, 0) == RP_OK);
    return NULL;
}

static void of_two_words_on_acks_the_last_is_the_newer(void) {
    pair both;
    pthread_t thread;
    open_pair(&both);
    append(&both, 5);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    pthread_mutex_lock(&both.acked.lock);
    both.acked.hold = 1; /* no other callback is under way */
    pthread_mutex_unlock(&both.acked.lock);
    CHECK(pthread_create(&thread, NULL, require_one, both.ha_master) == 0);
    wait_holding(&both.acked);
    append(&both, 5);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(wait_acked(&both.acked, max_of(&both.master)));
    close_pair(&both);
}

int main(void) {
    RUN(a_master_without_descriptors_rests_and_accepts_later);
    for (appenders_send = 0; appenders_send <= 1; appenders_send++) {
        RUN(a_slave_holds_what_its_master_appends);
        RUN(many_appenders_at_once_lose_no_wake_up);
        RUN(a_slave_goes_on_after_either_side_was_away);
        RUN(a_backlog_goes_on_where_the_disk_refused_it);
        RUN(a_slave_whose_disk_is_full_says_so_now_and_then);
        RUN(a_quiet_slave_queues_what_its_disk_refused);
        RUN(an_empty_slave_starts_with_the_masters_last_file);
        RUN(a_report_may_come_in_pieces);
        RUN(a_half_open_connection_is_no_second_replica);
        RUN(nor_is_it_one_for_min_in_sync_replicas);
        RUN(with_fewer_in_sync_fewer_will_do);
        RUN(of_two_words_on_acks_the_last_is_the_newer);
    }
    return 0;
}
