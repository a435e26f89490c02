/* retention_test.c: which files may be deleted, what stays readable meanwhile, and what a reopened store says. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "check.h"
#include "power_cut.h"
#include "store_fixture.h"

static void fill(rp_message_store *store, rp_consume_queue *queue, int64_t from, int64_t count) {
    for (int64_t i = from; i < from + count; i++) {
        CHECK(fixture_append(store, queue, i) == RP_OK);
    }
}

/* Whether so many files are left at last: a thread of the store's that was kept from its core may still hold one. */
static int reclaims_to(rp_message_store *store, uint32_t left) {
    int64_t until_ns = rp_clock_monotonic_ns(rp_clock_system()) + INT64_C(60000000000);
    while (rp_message_store_reclaim(store) != left) {
        if (rp_clock_monotonic_ns(rp_clock_system()) > until_ns) {
            return 0;
        }
        poll(NULL, 0, 1);
    }
    return 1;
}

static void a_file_stays_with_its_readers_and_with_nobody_else(void) {
    char path[512], first[600];
    fixture_directory(path, sizeof path);
    snprintf(first, sizeof first, "%s/commitlog/%020d", path, 0);
    rp_message_store_options options;
    fixture_options(&options, path);
    options.flush_interval_ms = 60000; /* nothing is synced but on request */
    options.queue_flush_interval_ms = 60000;
    options.index_enable = 0; /* its thread would be one more reader for a while */
    rp_message_store *store = fixture_open(&options);
    rp_commit_log *log = rp_message_store_commit_log(store);
    rp_consume_queue *queue = fixture_queue(store, "Old", 0);
    fill(store, queue, 0, 800);
    int64_t end = rp_commit_log_max_offset(log), files = end / FIXTURE_LOG_FILE_SIZE;
    CHECK(files >= 2);
    CHECK(rp_message_store_expire_file(store, NULL) == RP_E_NOT_FOUND); /* not on disk yet */
    CHECK(rp_message_store_wait_flushed(store, end, 60000) == RP_OK);
    rp_log_range range, again;
    CHECK(rp_commit_log_read(log, 0, 100, &range) == RP_OK);
    uint8_t before[100];
    memcpy(before, range.address, sizeof before);
    for (int64_t i = 0; i < files; i++) {
        CHECK(rp_message_store_expire_file(store, NULL) == RP_OK);
    }
    rp_error error = {0};
    CHECK(rp_message_store_expire_file(store, &error) == RP_E_NOT_FOUND && error.message[0] != 0); /* the one being written */
    CHECK(rp_commit_log_min_offset(log) == files * FIXTURE_LOG_FILE_SIZE);
    CHECK(rp_commit_log_read(log, 0, 100, &again) == RP_E_RANGE);
    struct stat status;
    CHECK(stat(first, &status) != 0);
    CHECK(reclaims_to(store, 1));
    rp_message_store_stats stats;
    rp_message_store_read_stats(store, &stats);
    CHECK(stats.files_deleted == files && stats.files_leaving == 1);
    CHECK(memcmp(before, range.address, sizeof before) == 0);
    rp_log_range_release(range.pin);
    CHECK(reclaims_to(store, 0));
    int64_t min = rp_consume_queue_min_offset(queue);
    CHECK(min > 0);
    fill(store, queue, 800, 20);
    for (int64_t i = min; i < 820; i++) {
        CHECK(fixture_check(store, queue, i) == 0);
    }
    fixture_close(store);
    store = fixture_open(&options);
    queue = fixture_queue(store, "Old", 0);
    CHECK(rp_consume_queue_min_offset(queue) == min && rp_consume_queue_max_offset(queue) == 820);
    fixture_close(store);
    fixture_remove(path);
}

static _Atomic bool keeps_names;

static int unlink_or_refuse(void *context, const char *path) {
    if (atomic_load(&keeps_names) && strstr(path, "/commitlog/") != NULL) {
        errno = EPERM; /* as for a file that somebody made immutable */
        return -1;
    }
    return rp_file_ops_system()->unlink(context, path);
}

/* Were the next one deleted instead, the log would have a hole and the store would not open any more. */
static void a_file_that_cannot_be_deleted_keeps_its_place(void) {
    char path[512];
    fixture_directory(path, sizeof path);
    rp_file_ops ops = *rp_file_ops_system();
    ops.unlink = unlink_or_refuse;
    rp_message_store_options options;
    fixture_options(&options, path);
    options.file_ops = &ops;
    rp_message_store *store = fixture_open(&options);
    rp_commit_log *log = rp_message_store_commit_log(store);
    rp_consume_queue *queue = fixture_queue(store, "Old", 0);
    fill(store, queue, 0, 1200);
    CHECK(rp_message_store_wait_flushed(store, rp_commit_log_max_offset(log), 60000) == RP_OK);
    atomic_store(&keeps_names, true);
    CHECK(rp_message_store_expire_file(store, NULL) == RP_E_IO && rp_commit_log_min_offset(log) == 0);
    CHECK(fixture_check(store, queue, 0) == 0);
    atomic_store(&keeps_names, false);
    CHECK(rp_message_store_expire_file(store, NULL) == RP_OK && rp_commit_log_min_offset(log) == FIXTURE_LOG_FILE_SIZE);
    fixture_close(store);
    store = fixture_open(&options);
    CHECK(fixture_check(store, fixture_queue(store, "Old", 0), 1199) == 0);
    fixture_close(store);
    fixture_remove(path);
}

typedef struct reading {
    rp_message_store *store;
    rp_consume_queue *queue;
    _Atomic bool is_over;
} reading;

/* Whatever can be read is whole; what cannot has been deleted. */
static void *read_from_the_start(void *context) {
    reading *r = context;
    rp_commit_log *log = rp_message_store_commit_log(r->store);
    while (!atomic_load(&r->is_over)) {
        rp_queue_entry entry;
        rp_log_range range;
        rp_message message;
        int64_t offset = rp_consume_queue_min_offset(r->queue);
        if (rp_consume_queue_read(r->queue, offset, &entry, 1) == 1 &&
            rp_commit_log_read(log, entry.commit_log_offset, (uint32_t)entry.size, &range) == RP_OK) {
            CHECK(rp_message_decode(range.address, range.size, RP_CHECK_BODY_CRC, &message, NULL) == RP_RECORD_MESSAGE);
            CHECK(message.queue_offset >= offset);
            rp_log_range_release(range.pin);
        }
    }
    return NULL;
}

static void files_go_under_appends_and_reads(void) {
    char path[512];
    fixture_directory(path, sizeof path);
    rp_message_store_options options;
    fixture_options(&options, path);
    options.flush_interval_ms = 3;
    options.queue_flush_interval_ms = 3;
    options.flush_thorough_interval_ms = 7;
    reading r = {.store = fixture_open(&options)};
    r.queue = fixture_queue(r.store, "Size", 0);
    pthread_t reader;
    CHECK(pthread_create(&reader, NULL, read_from_the_start, &r) == 0);
    int64_t next = 0, deleted = 0;
    while (deleted < 12) {
        CHECK(next < 100000); /* twenty times as many as need be sent */
        fill(r.store, r.queue, next, 100);
        next += 100;
        CHECK(rp_message_store_wait_flushed(r.store, rp_commit_log_max_offset(rp_message_store_commit_log(r.store)), 60000) == RP_OK);
        deleted += rp_message_store_expire_file(r.store, NULL) == RP_OK;
    }
    atomic_store(&r.is_over, true);
    pthread_join(reader, NULL);
    fixture_close(r.store);
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "Size", 0);
    CHECK(rp_consume_queue_max_offset(queue) == next);
    for (int64_t i = rp_consume_queue_min_offset(queue); i < next; i++) {
        CHECK(fixture_check(store, queue, i) == 0);
    }
    fixture_close(store);
    fixture_remove(path);
}

static void the_idle_queue_goes_on_where_it_was(const rp_message_store_options *options, int64_t idle, int64_t busy) {
    rp_message_store *store = fixture_open(options);
    rp_consume_queue *queue = fixture_queue(store, "Idle", 0);
    CHECK(rp_consume_queue_min_offset(queue) == idle && rp_consume_queue_max_offset(queue) == idle);
    CHECK(rp_consume_queue_max_offset(fixture_queue(store, "Busy", 0)) == busy);
    fixture_close(store);
}

/* The log has no message of the queue any more. Consumers have reached its end. If it began at 0 again, they would miss its next
 * messages. */
static void a_queue_whose_messages_have_expired_keeps_its_offset_when_queues_are_built_again(void) {
    char path[512], damaged[600];
    enum { IDLE = 70, BUSY = 800 };
    fixture_directory(path, sizeof path);
    rp_message_store_options options;
    fixture_options(&options, path);
    rp_message_store *store = fixture_open(&options);
    fill(store, fixture_queue(store, "Idle", 0), 0, IDLE);
    fill(store, fixture_queue(store, "Busy", 0), 0, BUSY);
    CHECK(rp_message_store_wait_flushed(store, rp_commit_log_max_offset(rp_message_store_commit_log(store)), 60000) == RP_OK);
    CHECK(rp_message_store_expire_file(store, NULL) == RP_OK);
    fixture_close(store);
    the_idle_queue_goes_on_where_it_was(&options, IDLE, BUSY);
    snprintf(damaged, sizeof damaged, "%s/consumequeue/Busy/0/%020d", path, 15 * FIXTURE_QUEUE_FILE_ENTRIES * RP_CONSUME_QUEUE_ENTRY_SIZE);
    CHECK(truncate(damaged, 100) == 0); /* so that all queues are rebuilt */
    the_idle_queue_goes_on_where_it_was(&options, IDLE, BUSY);
    the_idle_queue_goes_on_where_it_was(&options, IDLE, BUSY);
    options.rebuild_queues = 1;
    the_idle_queue_goes_on_where_it_was(&options, IDLE, BUSY);
    options.rebuild_queues = 0;
    store = fixture_open(&options);
    CHECK(fixture_append(store, fixture_queue(store, "Idle", 0), IDLE) == RP_OK);
    CHECK(fixture_check(store, fixture_queue(store, "Idle", 0), IDLE) == 0);
    fixture_close(store);
    fixture_remove(path);
}

/* The queue's last message filled a file. Retention leaves only the next file, which has no entry yet. */
static void a_queue_that_ended_with_a_file_keeps_its_offset(int was_killed) {
    char path[512], next[600], mark[600];
    enum { IDLE = FIXTURE_QUEUE_FILE_ENTRIES, BUSY = 800 };
    fixture_directory(path, sizeof path);
    snprintf(next, sizeof next, "%s/consumequeue/Idle/0/%020d", path, IDLE * RP_CONSUME_QUEUE_ENTRY_SIZE);
    snprintf(mark, sizeof mark, "%s/abort", path);
    rp_message_store_options options;
    fixture_options(&options, path);
    rp_message_store *store = fixture_open(&options);
    fill(store, fixture_queue(store, "Idle", 0), 0, IDLE);
    CHECK_AT_LAST(access(next, F_OK) == 0); /* asked for when half of the first one was used */
    fill(store, fixture_queue(store, "Busy", 0), 0, BUSY);
    CHECK(rp_message_store_wait_flushed(store, rp_commit_log_max_offset(rp_message_store_commit_log(store)), 60000) == RP_OK);
    CHECK(rp_message_store_expire_file(store, NULL) == RP_OK);
    fixture_close(store);
    for (int i = 0; i < 3; i++) {
        CHECK(!was_killed || close(open(mark, O_RDWR | O_CREAT, 0644)) == 0);
        the_idle_queue_goes_on_where_it_was(&options, IDLE, BUSY);
    }
    fixture_remove(path);
}

#define GENTLE_STEP (64 * 1024 * 1024)
#define SENT_BYTES (64 * 1024)

/* A store whose first file is full, on disk, and so long that its blocks are given back in steps. */
static rp_message_store *open_with_long_file(const char *path, const rp_file_ops *ops) {
    rp_message_store_options options;
    fixture_options(&options, path);
    options.file_ops = ops;
    options.commit_log_file_size = GENTLE_STEP + 5000;
    options.index_enable = 0;
    rp_message_store *store = fixture_open(&options);
    rp_commit_log *log = rp_message_store_commit_log(store);
    char *body = malloc(options.message_size_max);
    memset(body, 'x', options.message_size_max);
    rp_append_item item = fixture_item(fixture_queue(store, "Sent", 0), body, options.message_size_max);
    while (rp_commit_log_max_offset(log) <= (int64_t)options.commit_log_file_size) {
        CHECK(rp_commit_log_append(log, &item, 1) == 1);
    }
    free(body);
    CHECK(rp_message_store_wait_flushed(store, rp_commit_log_max_offset(log), 60000) == RP_OK);
    return store;
}

/* A backup of hard links costs no space until the file expires here, and has to have it whole then. */
static void a_file_with_another_name_keeps_its_bytes(void) {
    char path[512], first[600], linked[600];
    struct stat before, after;
    fixture_directory(path, sizeof path);
    rp_message_store *store = open_with_long_file(path, NULL);
    snprintf(first, sizeof first, "%s/commitlog/%020d", path, 0);
    snprintf(linked, sizeof linked, "%s/linked", path);
    CHECK(link(first, linked) == 0 && stat(linked, &before) == 0);
    CHECK(rp_message_store_expire_file(store, NULL) == RP_OK && reclaims_to(store, 0));
    CHECK(access(first, F_OK) != 0 && stat(linked, &after) == 0);
    CHECK(after.st_size == before.st_size && after.st_blocks == before.st_blocks);
    fixture_close(store);
    fixture_remove(path);
}

static int cut_and_count(void *context, int fd, int64_t size) {
    atomic_fetch_add((atomic_int *)context, 1);
    return ftruncate(fd, size);
}

/* The file is also open elsewhere, as by a query or a copy. That is mostly another process; to the kernel another descriptor is the
 * same. */
static void a_file_that_another_process_reads_is_not_cut_below_it(void) {
    for (int is_read = 0; is_read < 2; is_read++) {
        char path[512], first[600];
        fixture_directory(path, sizeof path);
        snprintf(first, sizeof first, "%s/commitlog/%020d", path, 0);
        atomic_int cuts = 0;
        rp_file_ops ops = *rp_file_ops_system();
        ops.context = &cuts;
        ops.truncate = cut_and_count;
        rp_message_store *store = open_with_long_file(path, &ops);
        int fd = is_read ? open(first, O_RDONLY) : -1;
        int before = atomic_load(&cuts); /* that thread makes files too */
        CHECK(rp_message_store_expire_file(store, NULL) == RP_OK && reclaims_to(store, 0));
        struct stat status;
        CHECK(atomic_load(&cuts) - before == !is_read);
        CHECK(!is_read || (fstat(fd, &status) == 0 && status.st_size == GENTLE_STEP + 5000 && close(fd) == 0));
        fixture_close(store);
        fixture_remove(path);
    }
}

/* sendfile has returned, so nobody pins the file. But the bytes are still in the file's pages, waiting for the network. */
static void what_is_on_its_way_to_a_consumer_stays_as_it_is(void) {
    char path[512];
    static uint8_t before[SENT_BYTES], after[SENT_BYTES];
    fixture_directory(path, sizeof path);
    rp_message_store *store = open_with_long_file(path, NULL);
    rp_commit_log *log = rp_message_store_commit_log(store);
    rp_log_range range;
    CHECK(rp_commit_log_read(log, 0, SENT_BYTES, &range) == RP_OK);
    memcpy(before, range.address, SENT_BYTES);
    int sockets[2];
    off_t from = range.file_offset;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    CHECK(sendfile(sockets[0], range.fd, &from, SENT_BYTES) == SENT_BYTES);
    rp_log_range_release(range.pin);
    CHECK(rp_message_store_expire_file(store, NULL) == RP_OK && reclaims_to(store, 0));
    CHECK(recv(sockets[1], after, SENT_BYTES, MSG_WAITALL) == SENT_BYTES && memcmp(before, after, SENT_BYTES) == 0);
    close(sockets[0]);
    close(sockets[1]);
    fixture_close(store);
    fixture_remove(path);
}

/* Of names that have gone since the directory was synced any may be back: not an older one than one that is missing. */
static void a_power_cut_between_two_files_leaves_no_hole(void) {
    char base[400], live[512], image[512];
    fixture_directory(base, sizeof base);
    snprintf(live, sizeof live, "%s/live", base);
    power_cut *cut = power_cut_create(live);
    rp_message_store_options options;
    fixture_options(&options, live);
    fixture_never_flush(&options);
    options.file_ops = &cut->ops;
    rp_message_store *store = fixture_open(&options);
    fill(store, fixture_queue(store, "Old", 0), 0, 1600);
    int64_t end = rp_commit_log_max_offset(rp_message_store_commit_log(store));
    CHECK(end > 5 * FIXTURE_LOG_FILE_SIZE && rp_message_store_wait_flushed(store, end, 60000) == RP_OK);
    for (int i = 0; i < 4; i++) {
        CHECK(rp_message_store_expire_file(store, NULL) == RP_OK);
    }
    power_cut_now(cut);
    for (uint64_t round = 1; round <= 8; round++) {
        uint64_t seed = round;
        snprintf(image, sizeof image, "%s/image-%d", base, (int)round);
        power_cut_image(cut, "", image, &seed);
        fixture_options(&options, image);
        rp_message_store *found = fixture_open(&options);
        CHECK(rp_commit_log_max_offset(rp_message_store_commit_log(found)) == end);
        fixture_close(found);
    }
    rp_error error = {0};
    (void)rp_message_store_close(store, &error); /* without power it cannot say that it ended well */
    power_cut_destroy(cut);
    fixture_remove(base);
}

int main(void) {
    RUN(a_file_stays_with_its_readers_and_with_nobody_else);
    RUN(a_file_that_cannot_be_deleted_keeps_its_place);
    RUN(files_go_under_appends_and_reads);
    RUN(a_queue_whose_messages_have_expired_keeps_its_offset_when_queues_are_built_again);
    a_queue_that_ended_with_a_file_keeps_its_offset(0);
    a_queue_that_ended_with_a_file_keeps_its_offset(1);
    RUN(what_is_on_its_way_to_a_consumer_stays_as_it_is);
    RUN(a_file_with_another_name_keeps_its_bytes);
    RUN(a_file_that_another_process_reads_is_not_cut_below_it);
    RUN(a_power_cut_between_two_files_leaves_no_hole);
    return 0;
}
