/* recovery_test.c: a recovery of several MiB, with a second thread that reads ahead: it finds everything, stops where the log is
 * damaged, and refuses a log that the disk fails to give. */
#include <errno.h>
#include <fcntl.h>

#include "../../../csrc/store/checkpoint.h"
#include "../../../csrc/store/store_path.h"
#include "check.h"
#include "store_fixture.h"

enum { MESSAGES = 14000 }; /* about 4 MiB: 65 files */

static void path_of(char *path, size_t size, const char *store, const char *name) { snprintf(path, size, "%s/%s", store, name); }

/* As a kill -9 leaves it, but for the checkpoint, which is missing: the pass begins at the log's first byte. */
static void make_unclean(const char *store) {
    char path[600];
    path_of(path, sizeof path, store, "checkpoint");
    CHECK(unlink(path) == 0);
    path_of(path, sizeof path, store, "abort");
    close(open(path, O_RDWR | O_CREAT, 0644));
}

/* Two queues in turn. The log's end. */
static int64_t fill(const rp_message_store_options *options) {
    rp_message_store *store = fixture_open(options);
    rp_consume_queue *queues[2] = {fixture_queue(store, "Recovery", 0), fixture_queue(store, "Recovery", 1)};
    for (int64_t i = 0; i < MESSAGES; i++) {
        CHECK(fixture_append(store, queues[i % 2], i / 2) == RP_OK);
    }
    int64_t end = rp_commit_log_max_offset(rp_message_store_commit_log(store));
    fixture_close(store);
    return end;
}

static int64_t count_of(rp_message_store *store, int32_t queue_id) {
    return rp_consume_queue_max_offset(fixture_queue(store, "Recovery", queue_id));
}

static void everything_is_found_again(const rp_message_store_options *options, int64_t end) {
    make_unclean(options->root_path);
    rp_message_store *store = fixture_open(options);
    rp_message_store_stats stats;
    rp_message_store_read_stats(store, &stats);
    CHECK(stats.recovered_from == 0 && stats.recovered_records == MESSAGES && stats.commit_log_max_offset == end);
    for (int32_t id = 0; id < 2; id++) {
        CHECK(count_of(store, id) == MESSAGES / 2);
        for (int64_t i = 0; i < MESSAGES / 2; i++) {
            CHECK(fixture_check(store, fixture_queue(store, "Recovery", id), i) == 0);
        }
    }
    fixture_close(store);
}

/* As a damaged one of RocketMQ's may say it: no file of the log is known to be that old. */
static void a_checkpoint_of_the_lowest_time_allows_no_start_but_the_first(const rp_message_store_options *options) {
    const rp_checkpoint damaged = {.log_time_ms = INT64_MIN, .queues_time_ms = INT64_MIN + 2999};
    char path[600];
    make_unclean(options->root_path);
    path_of(path, sizeof path, options->root_path, "checkpoint");
    CHECK(rp_checkpoint_write(rp_file_ops_system(), path, &damaged, NULL) == RP_OK);
    rp_message_store *store = fixture_open(options);
    rp_message_store_stats stats;
    rp_message_store_read_stats(store, &stats);
    CHECK(stats.recovered_from == 0 && stats.recovered_records == MESSAGES);
    fixture_close(store);
}

static int failing_read_ahead(void *context, void *address, size_t size, int wait) {
    (void)context, (void)address, (void)size;
    errno = EFAULT; /* as the kernel says it for a page the disk cannot give */
    return wait ? -1 : 0;
}

static int64_t failing_read_at(void *context, int fd, void *target, size_t size, int64_t offset) {
    if (size > 100) { /* not the entries of queues */
        errno = EIO;
        return -1;
    }
    return rp_file_ops_system()->read_at(context, fd, target, size, offset);
}

static void a_disk_that_cannot_read_refuses_the_start(const rp_message_store_options *options) {
    rp_file_ops failing = *rp_file_ops_system();
    failing.read_ahead = failing_read_ahead;
    rp_message_store_options unreadable = *options;
    unreadable.file_ops = &failing;
    rp_message_store *store = NULL;
    rp_error error = {0};
    make_unclean(options->root_path);
    store = fixture_open(&unreadable); /* pages that cannot be mapped ahead, bytes that can be read: a full tmpfs */
    CHECK(count_of(store, 0) == MESSAGES / 2 && count_of(store, 1) == MESSAGES / 2);
    fixture_close(store);
    make_unclean(options->root_path);
    failing.read_at = failing_read_at;
    CHECK(rp_message_store_open(&unreadable, &store, &error) == RP_E_IO);
    CHECK(strstr(error.message, "cannot read the commit log") != NULL && strstr(error.file, "/commitlog/0") != NULL);
    store = fixture_open(options); /* nothing was lost by the attempt */
    CHECK(count_of(store, 0) == MESSAGES / 2 && count_of(store, 1) == MESSAGES / 2);
    fixture_close(store);
}

static _Thread_local int allocations_left = INT32_MAX; /* of the thread that tests: the log allocates by itself */

static int allocate_until_the_disk_is_full(void *context, int fd, int64_t offset, int64_t size) {
    if (allocations_left-- <= 0) {
        errno = ENOSPC;
        return -1;
    }
    return rp_file_ops_system()->allocate(context, fd, offset, size);
}

static int64_t write_no_checkpoint(void *context, int fd, const void *bytes, size_t size, int64_t offset) {
    char link[64], path[600];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    if (strstr(path, "/checkpoint") != NULL) {
        errno = ENOSPC;
        return -1;
    }
    return rp_file_ops_system()->write_at(context, fd, bytes, size, offset);
}

/* A queue's file is too short, so all are built again, and half-way the disk is full, or already for the note that they are. The next
 * start must not take half for the whole. */
static void a_rebuild_that_was_interrupted_begins_anew(const rp_message_store_options *options, int is_clean, int is_noted) {
    char path[600];
    rp_file_ops failing = *rp_file_ops_system();
    failing.allocate = allocate_until_the_disk_is_full;
    if (!is_noted) {
        failing.write_at = write_no_checkpoint;
    }
    rp_message_store_options full = *options;
    full.file_ops = &failing;
    rp_message_store *store = NULL;
    rp_error error = {0};
    path_of(path, sizeof path, options->root_path, "consumequeue/Recovery/0/00000000000000040000");
    CHECK(truncate(path, 100) == 0);
    path_of(path, sizeof path, options->root_path, "abort");
    if (!is_clean) {
        close(open(path, O_RDWR | O_CREAT, 0644));
    }
    allocations_left = 4; /* of the eight files that the queues have */
    CHECK(rp_message_store_open(&full, &store, &error) == RP_E_DISK_FULL);
    store = fixture_open(options);
    for (int32_t id = 0; id < 2; id++) {
        CHECK(count_of(store, id) == MESSAGES / 2);
        for (int64_t i = 0; i < MESSAGES / 2; i++) {
            CHECK(fixture_check(store, fixture_queue(store, "Recovery", id), i) == 0);
        }
    }
    fixture_close(store);
}

/* The checkpoint calls all their entries synced. The first start finds a full disk, and the next one an empty directory. */
static void queues_that_are_gone_after_a_kill_are_built_again(const rp_message_store_options *options) {
    char path[600];
    rp_file_ops failing = *rp_file_ops_system();
    failing.allocate = allocate_until_the_disk_is_full;
    rp_message_store_options full = *options;
    full.file_ops = &failing;
    rp_message_store *store = NULL;
    rp_error error = {0};
    path_of(path, sizeof path, options->root_path, "consumequeue");
    fixture_remove(path);
    path_of(path, sizeof path, options->root_path, "abort");
    close(open(path, O_RDWR | O_CREAT, 0644));
    allocations_left = 0;
    CHECK(rp_message_store_open(&full, &store, &error) == RP_E_DISK_FULL);
    store = fixture_open(options);
    for (int32_t id = 0; id < 2; id++) {
        CHECK(count_of(store, id) == MESSAGES / 2 && rp_consume_queue_min_offset(fixture_queue(store, "Recovery", id)) == 0);
        CHECK(fixture_check(store, fixture_queue(store, "Recovery", id), 0) == 0);
    }
    fixture_close(store);
}

/* One bit of the first body of a file in the middle. Its log offset. */
static int64_t flip_a_bit(const rp_message_store_options *options, int64_t end) {
    char path[600];
    int64_t damaged = end / 2 / FIXTURE_LOG_FILE_SIZE * FIXTURE_LOG_FILE_SIZE;
    snprintf(path, sizeof path, "%s/commitlog/%020lld", options->root_path, (long long)damaged);
    uint8_t byte;
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pread(fd, &byte, 1, 100) == 1);
    byte ^= 1;
    CHECK(pwrite(fd, &byte, 1, 100) == 1);
    close(fd);
    return damaged;
}

static void write_zeros(const char *path, int64_t offset, size_t size) {
    uint8_t zeros[4096] = {0};
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && size <= sizeof zeros && pwrite(fd, zeros, size, offset) == (ssize_t)size);
    close(fd);
}

/* Everything is there but one message, whose place reads as gone. */
static void all_but_one_is_there(const rp_message_store_options *options, int64_t end, uint64_t recovered_records) {
    rp_message_store *store = fixture_open(options);
    rp_message_store_stats stats;
    rp_message_store_read_stats(store, &stats);
    CHECK(stats.commit_log_max_offset == end && (uint64_t)stats.recovered_records == recovered_records);
    int gone = 0;
    for (int32_t id = 0; id < 2; id++) {
        CHECK(count_of(store, id) == MESSAGES / 2);
        for (int64_t i = 0; i < MESSAGES / 2; i++) {
            rp_queue_entry entry;
            CHECK(rp_consume_queue_read(fixture_queue(store, "Recovery", id), i, &entry, 1) == 1);
            gone += entry.size == INT32_MAX;
            CHECK(entry.size == INT32_MAX || fixture_check(store, fixture_queue(store, "Recovery", id), i) == 0);
        }
    }
    CHECK(gone == 1);
    fixture_close(store);
}

/* Damage in synced bytes cannot be a torn end. So a recovery goes on behind it. */
static void damage_below_what_was_synced_costs_one_message(rp_message_store_options *options, int64_t end) {
    char checkpoint[600], path[600];
    flip_a_bit(options, end);
    options->rebuild_queues = 1;
    all_but_one_is_there(options, end, MESSAGES - 1); /* by our checkpoint */
    path_of(checkpoint, sizeof checkpoint, options->root_path, "checkpoint");
    write_zeros(checkpoint, 256, 3840);
    all_but_one_is_there(options, end, MESSAGES - 1); /* by RocketMQ's part of it, after a clean stop */
    write_zeros(checkpoint, 256, 3840);
    path_of(path, sizeof path, options->root_path, "abort");
    close(open(path, O_RDWR | O_CREAT, 0644));
    all_but_one_is_there(options, end, MESSAGES - 1); /* and after a crash */
    options->rebuild_queues = 0;
    flip_a_bit(options, end); /* back */
}

static int allocate_but_once_not(void *context, int fd, int64_t offset, int64_t size) {
    if (allocations_left-- == 0) {
        errno = ENOSPC;
        return -1;
    }
    return rp_file_ops_system()->allocate(context, fd, offset, size);
}

/* The disk is full for a moment, so the pass begins again. The time of the last record it came to says nothing of the first, which is
 * damaged: that would be the log's end. */
static void a_pass_that_begins_again_goes_on_behind_damage_as_well(const rp_message_store_options *options, int64_t end) {
    char path[600];
    rp_file_ops failing = *rp_file_ops_system();
    failing.allocate = allocate_but_once_not;
    rp_message_store_options full = *options;
    full.file_ops = &failing;
    full.rebuild_queues = 1;
    flip_a_bit(options, 0);
    path_of(path, sizeof path, options->root_path, "checkpoint");
    write_zeros(path, 256, 3840); /* RocketMQ's part of it is left */
    path_of(path, sizeof path, options->root_path, "abort");
    close(open(path, O_RDWR | O_CREAT, 0644));
    allocations_left = 3;
    rp_message_store *store = fixture_open(&full);
    rp_message_store_stats stats;
    rp_message_store_read_stats(store, &stats);
    CHECK(allocations_left < 0 && stats.commit_log_max_offset == end && stats.recovered_records == MESSAGES - 1);
    fixture_close(store);
    flip_a_bit(options, 0); /* back */
}

/* A page of zeros, as a bad disk gives it, is not the log's end either. */
static void zeros_below_what_was_synced_are_not_the_end(rp_message_store_options *options, int64_t end) {
    char path[600];
    uint8_t page[4096];
    int64_t damaged = end / 2 / FIXTURE_LOG_FILE_SIZE * FIXTURE_LOG_FILE_SIZE;
    snprintf(path, sizeof path, "%s/commitlog/%020lld", options->root_path, (long long)damaged);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pread(fd, page, sizeof page, 0) == (ssize_t)sizeof page);
    write_zeros(path, 0, sizeof page);
    options->rebuild_queues = 1;
    rp_message_store *store = fixture_open(options);
    rp_message_store_stats stats;
    rp_message_store_read_stats(store, &stats);
    CHECK(stats.commit_log_max_offset == end && stats.recovered_records > MESSAGES - 40 && stats.recovered_records < MESSAGES);
    fixture_close(store);
    CHECK(pwrite(fd, page, sizeof page, 0) == (ssize_t)sizeof page);
    close(fd);
    store = fixture_open(options);
    rp_message_store_read_stats(store, &stats);
    CHECK(stats.recovered_records == MESSAGES);
    fixture_close(store);
    options->rebuild_queues = 0;
}

static int errors_of_an_open(const rp_message_store_options *options) {
    rp_message_store_options told = *options;
    CHECK(rp_log_create(&told.log) == RP_OK);
    fixture_close(fixture_open(&told));
    rp_log_line line;
    int errors = 0;
    while (rp_log_take(told.log, &line, 1) == 1) {
        CHECK(line.level != RP_LOG_ERROR || strstr(line.text, "had been synced") != NULL);
        errors += line.level == RP_LOG_ERROR;
    }
    rp_log_destroy(told.log);
    return errors;
}

/* Somebody restored an older copy, or lost the last file. The store opens without the missing part, and says so once. */
static void a_log_that_ends_before_what_was_synced_is_told(const rp_message_store_options *options, int64_t end) {
    char path[600], kept[600];
    CHECK(errors_of_an_open(options) == 0);
    int64_t next = end - end % FIXTURE_LOG_FILE_SIZE + FIXTURE_LOG_FILE_SIZE;
    snprintf(path, sizeof path, "%s/commitlog/%020lld", options->root_path, (long long)next);
    unlink(path); /* perhaps made ahead of the writer */
    snprintf(path, sizeof path, "%s/commitlog/%020lld", options->root_path, (long long)(end - end % FIXTURE_LOG_FILE_SIZE));
    path_of(kept, sizeof kept, options->root_path, "kept");
    CHECK(rename(path, kept) == 0);
    CHECK(errors_of_an_open(options) == 1 && errors_of_an_open(options) == 0);
    unlink(path); /* made ahead of the writer */
    CHECK(rename(kept, path) == 0);
}

/* Without a checkpoint nothing says what was synced. So the log ends before the damaged record. */
static void without_a_checkpoint_the_pass_ends_at_the_first_damage(const rp_message_store_options *options, int64_t end) {
    int64_t damaged = flip_a_bit(options, end);
    make_unclean(options->root_path);
    rp_message_store *store = fixture_open(options);
    rp_message_store_stats stats;
    rp_message_store_read_stats(store, &stats);
    CHECK(stats.commit_log_max_offset <= damaged && stats.commit_log_max_offset > damaged - 600);
    CHECK(count_of(store, 0) + count_of(store, 1) == stats.recovered_records);
    for (int32_t id = 0; id < 2; id++) {
        int64_t count = count_of(store, id);
        for (int64_t i = 0; i < count; i++) {
            CHECK(fixture_check(store, fixture_queue(store, "Recovery", id), i) == 0);
        }
    }
    fixture_close(store);
}

/* A slave's log is cut at the first bytes that are not a record, even if later ones are on its disk. The master sends them again. */
static void a_slave_is_cut_where_its_master_sent_no_record(void) {
    char master_path[400], slave_path[400];
    rp_message_store_options options;
    fixture_directory(master_path, sizeof master_path);
    fixture_options(&options, master_path);
    rp_message_store *master = fixture_open(&options);
    for (int64_t i = 0; i < 30; i++) {
        CHECK(fixture_append(master, fixture_queue(master, "Recovery", 0), i) == RP_OK);
    }
    rp_queue_entry damaged;
    CHECK(rp_consume_queue_read(fixture_queue(master, "Recovery", 0), 20, &damaged, 1) == 1);
    rp_log_range sent;
    uint32_t size = (uint32_t)rp_commit_log_max_offset(rp_message_store_commit_log(master)), room;
    CHECK(rp_commit_log_read(rp_message_store_commit_log(master), 0, size, &sent) == RP_OK);
    fixture_directory(slave_path, sizeof slave_path);
    fixture_options(&options, slave_path);
    rp_message_store *slave = fixture_open(&options);
    rp_commit_log *log = rp_message_store_commit_log(slave);
    uint8_t *place;
    CHECK(rp_commit_log_reserve_replicated(log, 0, size, &place, &room, NULL) == RP_OK && room >= size);
    memcpy(place, sent.address, size);
    place[damaged.commit_log_offset + 28 + 7] ^= 1; /* where it says that it lies */
    (void)rp_commit_log_commit_replicated(log, 0, size, NULL);
    rp_log_range_release(sent.pin);
    rp_error damage;
    int64_t vouched = rp_commit_log_damaged_at(log, &damage);
    CHECK(strstr(damage.message, "another place") != NULL && strstr(damage.message, "made while it is stopped") != NULL);
    CHECK(vouched == damaged.commit_log_offset && rp_commit_log_max_offset(log) > vouched);
    CHECK(rp_message_store_wait_flushed(slave, rp_commit_log_max_offset(log), 60000) == RP_OK);
    fixture_close(slave);
    slave = fixture_open(&options);
    CHECK(rp_commit_log_max_offset(rp_message_store_commit_log(slave)) == vouched);
    fixture_close(slave);
    fixture_close(master);
    fixture_remove(master_path);
    fixture_remove(slave_path);
}

static int64_t blocks_of(const char *path) {
    struct stat status;
    CHECK(stat(path, &status) == 0);
    return (int64_t)status.st_blocks;
}

/* On a tmpfs a hole that is read through a map takes a page, and is a SIGBUS when there is none left. */
static void a_hole_behind_the_last_record_stays_a_hole(void) {
    char root[400], path[600], body[2 * 4096] = {0};
    if (access("/dev/shm", W_OK) != 0) {
        printf("skipped: /dev/shm cannot be written to\n");
        return;
    }
    fixture_directory_below("/dev/shm", root, sizeof root);
    rp_message_store_options options;
    fixture_options(&options, root);
    rp_message_store *store = fixture_open(&options);
    rp_commit_log *log = rp_message_store_commit_log(store);
    rp_append_item item = fixture_item(fixture_queue(store, "Recovery", 0), body, 0);
    rp_commit_log_append(log, &item, 1);
    uint32_t left = 2 * 4096 - (uint32_t)(2 * rp_commit_log_max_offset(log) % 4096);
    item = fixture_item(item.queue, body, left);
    rp_commit_log_append(log, &item, 1);
    int64_t end = rp_commit_log_max_offset(log);
    CHECK(item.status == RP_OK && end % 4096 == 0);
    fixture_close(store);
    path_of(path, sizeof path, root, "commitlog/00000000000000000000");
    CHECK(truncate(path, end) == 0 && truncate(path, FIXTURE_LOG_FILE_SIZE) == 0);
    int64_t blocks = blocks_of(path);
    options.read_only = 1;
    store = fixture_open(&options);
    CHECK(rp_commit_log_max_offset(rp_message_store_commit_log(store)) == end && blocks_of(path) == blocks);
    fixture_close(store);
    fixture_remove(root);
}

static int64_t a_second_later(void *context) { return __atomic_add_fetch((int64_t *)context, INT64_C(1000000000), __ATOMIC_RELAXED); }

static int64_t at_once(void *context) { return *(int64_t *)context; }

static int64_t wall_of_system(void *context) { return (void)context, rp_clock_wall_ms(NULL); }

/* Lines for the terminal: how far it is while it takes seconds, and the end. A pass that is over at once says so in the log alone. */
static void a_pass_that_takes_seconds_says_how_far_it_is(const rp_message_store_options *options) {
    for (int is_slow = 0; is_slow <= 1; is_slow++) {
        int64_t now_ns = 0;
        rp_clock clock = {is_slow ? a_second_later : at_once, wall_of_system, &now_ns};
        rp_message_store_options told = *options;
        CHECK(rp_log_create(&told.log) == RP_OK);
        told.clock = &clock;
        make_unclean(options->root_path);
        rp_message_store *store = fixture_open(&told);
        rp_log_line line;
        int steps = 0, ends = 0;
        while (rp_log_take(told.log, &line, 1) == 1) {
            if (strstr(line.text, "recovery: ") != NULL) {
                int is_step = strstr(line.text, "to go") != NULL;
                CHECK(line.level == (is_slow ? RP_LOG_NOTICE : RP_LOG_INFO));
                steps += is_step;
                ends += !is_step;
            }
        }
        CHECK(ends == 1 && (is_slow ? steps > 0 : steps == 0));
        fixture_close(store);
        rp_log_destroy(told.log);
    }
}

#define THIRD_FILE "commitlog/00000000000000131072"

static int open_but_third(void *context, const char *path, int flags, uint32_t mode) {
    if (strstr(path, THIRD_FILE) != NULL) {
        errno = EMFILE;
        return -1;
    }
    return rp_file_ops_system()->open(context, path, flags, mode);
}

static int rename_on_one_disk(void *context, const char *source, const char *target) {
    if (strstr(target, "/commitlog/") == NULL) {
        errno = EXDEV; /* the log has a disk of its own, mounted there */
        return -1;
    }
    return rp_file_ops_system()->rename(context, source, target);
}

static void write_to(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* The log ends at damage in its second file. The third file is set aside for somebody to look at, and must not replace what was set
 * aside before. */
static void a_file_that_cannot_be_looked_at_is_set_aside(int has_own_disk) {
    char root[512], path[700], aside[700];
    fixture_directory(root, sizeof root);
    path_of(path, sizeof path, root, "commitlog/00000000000000065536");
    path_of(aside, sizeof aside, root, has_own_disk ? "commitlog/aside/00000000000000131072" : "commitlog.aside/00000000000000131072");
    rp_message_store_options options;
    fixture_options(&options, root);
    rp_message_store *store = fixture_open(&options);
    for (int64_t i = 0; i < 600; i++) {
        CHECK(fixture_append(store, fixture_queue(store, "Recovery", 0), i) == RP_OK);
    }
    CHECK(rp_commit_log_max_offset(rp_message_store_commit_log(store)) > 2 * FIXTURE_LOG_FILE_SIZE);
    fixture_close(store);
    make_unclean(root);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pwrite(fd, "damage", 6, 0) == 6 && close(fd) == 0);
    rp_file_ops ops = *rp_file_ops_system();
    ops.open = open_but_third;
    ops.rename = has_own_disk ? rename_on_one_disk : ops.rename;
    options.file_ops = &ops;
    char again[sizeof aside + 4], *name = strrchr(aside, '/');
    *name = 0;
    CHECK(rp_path_make_directories(aside, NULL) == RP_OK);
    *name = '/';
    write_to(aside, "older");
    store = fixture_open(&options);
    int64_t end = rp_commit_log_max_offset(rp_message_store_commit_log(store));
    CHECK(end <= FIXTURE_LOG_FILE_SIZE);
    snprintf(again, sizeof again, "%s.1", aside);
    CHECK(rp_path_file_size(aside) == 5 && rp_path_file_size(again) == FIXTURE_LOG_FILE_SIZE);
    fixture_close(store);
    store = fixture_open(&options); /* what is aside is in nobody's way */
    CHECK(rp_commit_log_max_offset(rp_message_store_commit_log(store)) == end);
    fixture_close(store);
    fixture_remove(root);
}

int main(void) {
    a_file_that_cannot_be_looked_at_is_set_aside(0);
    a_file_that_cannot_be_looked_at_is_set_aside(1);
    char path[400];
    rp_message_store_options options;
    fixture_directory(path, sizeof path);
    fixture_options(&options, path);
    options.consume_queue_file_size = 2000 * RP_CONSUME_QUEUE_ENTRY_SIZE;
    options.index_enable = 0;
    int64_t end = fill(&options);
    everything_is_found_again(&options, end);
    a_checkpoint_of_the_lowest_time_allows_no_start_but_the_first(&options);
    a_disk_that_cannot_read_refuses_the_start(&options);
    a_pass_that_takes_seconds_says_how_far_it_is(&options);
    a_rebuild_that_was_interrupted_begins_anew(&options, 1, 1);
    a_rebuild_that_was_interrupted_begins_anew(&options, 0, 1);
    a_rebuild_that_was_interrupted_begins_anew(&options, 0, 0);
    queues_that_are_gone_after_a_kill_are_built_again(&options);
    damage_below_what_was_synced_costs_one_message(&options, end);
    a_pass_that_begins_again_goes_on_behind_damage_as_well(&options, end);
    zeros_below_what_was_synced_are_not_the_end(&options, end);
    a_log_that_ends_before_what_was_synced_is_told(&options, end);
    without_a_checkpoint_the_pass_ends_at_the_first_damage(&options, end);
    fixture_remove(path);
    a_slave_is_cut_where_its_master_sent_no_record();
    a_hole_behind_the_last_record_stays_a_hole();
    return 0;
}
