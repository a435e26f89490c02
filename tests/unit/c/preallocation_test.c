/* preallocation_test.c: the thread that prepares log files, while the log moves away from under it. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "../../../csrc/base/file_ops.h"
#include "../../../csrc/base/page.h"
#include "../../../csrc/store/preallocation.h"
#include "../../../csrc/store/store_path.h"
#include "check.h"
#include "store_fixture.h"

/* A disk on which the first sync of the log's directory lasts until a file is removed, and that removal until the sync's caller has gone
 * on: as with large files on a busy disk. */
typedef struct slow_disk {
    rp_file_ops ops;
    _Atomic int is_armed, is_syncing, is_removing;
} slow_disk;

static void pause_ms(long ms) {
    const struct timespec pause = {.tv_nsec = ms * 1000000};
    nanosleep(&pause, NULL);
}

static void wait_for(const _Atomic int *flag) {
    for (int rounds = 0; !atomic_load(flag); rounds++) {
        CHECK(rounds < 60000);
        pause_ms(1);
    }
}

static int slow_sync_directory(void *context, const char *path) {
    slow_disk *disk = context;
    if (strstr(path, "commitlog") != NULL && atomic_exchange(&disk->is_armed, 0)) {
        atomic_store(&disk->is_syncing, 1);
        wait_for(&disk->is_removing);
    }
    return rp_file_ops_system()->sync_directory(NULL, path);
}

static int slow_unlink(void *context, const char *path) {
    slow_disk *disk = context;
    atomic_store(&disk->is_removing, 1);
    pause_ms(50);
    return rp_file_ops_system()->unlink(NULL, path);
}

static void an_empty_slave_of_a_master_whose_first_files_are_gone_goes_on_there(void) {
    char path[512];
    fixture_directory(path, sizeof path);
    slow_disk disk = {.ops = *rp_file_ops_system(), .is_armed = 1};
    disk.ops.context = &disk;
    disk.ops.sync_directory = slow_sync_directory;
    disk.ops.unlink = slow_unlink;
    rp_message_store_options options;
    fixture_options(&options, path);
    options.flush_mode = RP_FLUSH_SYNC; /* from then on the zeros are synced */
    options.file_ops = &disk.ops;
    rp_message_store *store = fixture_open(&options);
    rp_commit_log *log = rp_message_store_commit_log(store);
    wait_for(&disk.is_syncing);
    uint8_t *address = NULL;
    uint32_t room = 0;
    rp_error error = {0};
    CHECK(rp_commit_log_reserve_replicated(log, 5 * FIXTURE_LOG_FILE_SIZE, 0, &address, &room, &error) == RP_OK);
    CHECK(atomic_load(&disk.is_removing));
    int again = rp_commit_log_reserve_replicated(log, 5 * FIXTURE_LOG_FILE_SIZE, 0, &address, &room, &error);
    if (again != RP_OK)
        fprintf(stderr, "%s\n", error.message);
    CHECK(again == RP_OK && room > 0);
    CHECK(rp_message_store_close(store, &error) == RP_OK);
    fixture_remove(path);
}

static _Atomic int is_full;

static int allocate_or_not(void *context, int fd, int64_t offset, int64_t size) {
    errno = ENOSPC;
    return atomic_load(&is_full) ? -1 : rp_file_ops_system()->allocate(context, fd, offset, size);
}

static int lines_with(rp_log *log, const char *text) {
    rp_log_line line;
    int found = 0;
    while (rp_log_take(log, &line, 1) == 1) {
        found += strstr(line.text, text) != NULL;
    }
    return found;
}

/* A slave on a full disk goes on writing what its master sends into the space that it has. */
static void a_full_disk_is_told_once_though_what_is_left_is_used_up(void) {
    char path[512];
    fixture_directory(path, sizeof path);
    rp_file_ops ops = *rp_file_ops_system();
    ops.allocate = allocate_or_not;
    rp_log *log = NULL;
    rp_mapped_file_queue *row = NULL;
    rp_mapped_file_queue_options row_options = {.ops = &ops, .directory = path, .file_size = 1 << 20, .mode = RP_MAP_WRITE};
    CHECK(rp_log_create(&log) == RP_OK && rp_mapped_file_queue_create(&row_options, &row) == RP_OK);
    rp_preallocation_options options = {.ops = &ops, .row = row, .log = log, .ahead_bytes = 1 << 20};
    rp_preallocation *ahead = NULL;
    rp_error error = {0};
    CHECK(rp_preallocation_open(&options, &ahead, &error) == RP_OK);
    CHECK(rp_preallocation_claim(ahead, 3 << 16, &error) == RP_OK);
    atomic_store(&is_full, 1);
    for (int i = 0; i < 100; i++) {
        CHECK(rp_preallocation_require(ahead, (1 << 20) + 1, &error) == RP_E_DISK_FULL);
        CHECK(rp_preallocation_claim(ahead, i, &error) == RP_OK);
    }
    CHECK(lines_with(log, "No space left") == 1);
    atomic_store(&is_full, 0);
    CHECK(rp_preallocation_require(ahead, (1 << 20) + 1, &error) == RP_OK && lines_with(log, "space is there again") == 1);
    rp_preallocation_close(ahead);
    rp_mapped_file_queue_destroy(row);
    rp_log_destroy(log);
    fixture_remove(path);
}

/* A file that was cut short stays short when space in it is requested. Made longer, it would look whole, with zeros in place of the lost
 * bytes. */
static void a_file_that_was_cut_short_is_not_made_longer_again(void) {
    for (int32_t mode = RP_READY_FOR_ASYNC; mode <= RP_READY_FOR_SYNC; mode++) {
        char path[512], file[600];
        fixture_directory(path, sizeof path);
        snprintf(file, sizeof file, "%s/%020d", path, 0);
        rp_mapped_file_queue *row = NULL;
        rp_mapped_file_queue_options row_options = {
            .ops = rp_file_ops_system(), .directory = path, .file_size = 4 << 20, .mode = RP_MAP_WRITE};
        CHECK(rp_mapped_file_queue_create(&row_options, &row) == RP_OK);
        rp_log *log = NULL;
        CHECK(rp_log_create(&log) == RP_OK);
        rp_preallocation_options options = {.ops = rp_file_ops_system(), .row = row, .log = log, .ahead_bytes = 1 << 20, .mode = mode};
        rp_preallocation *ahead = NULL;
        rp_error error = {0};
        CHECK(rp_preallocation_open(&options, &ahead, &error) == RP_OK);
        CHECK(rp_preallocation_claim(ahead, 4096, &error) == RP_OK);
        CHECK(truncate(file, 100) == 0);
        CHECK(rp_preallocation_require(ahead, 1 << 20, &error) == RP_E_IO); /* has its space: the zeros */
        CHECK(error.offset == 100 && strcmp(error.file, file) == 0 && strstr(error.message, "cut short from outside") != NULL);
        CHECK(rp_path_file_size(file) == 100);
        CHECK(truncate(file, 4 << 20) == 0);
        CHECK(rp_preallocation_require(ahead, 1 << 20, &error) == RP_OK);
        CHECK(lines_with(log, "commit log: writing resumes") == 1); /* no word of space */
        rp_preallocation_close(ahead);
        CHECK(rp_preallocation_open(&options, &ahead, &error) == RP_OK);
        CHECK(truncate(file, 100) == 0);
        CHECK(rp_preallocation_claim(ahead, 1 << 20, &error) == RP_E_IO && rp_path_file_size(file) == 100);
        rp_preallocation_close(ahead);
        rp_mapped_file_queue_destroy(row);
        rp_log_destroy(log);
        fixture_remove(path);
    }
}

static void a_queues_file_that_was_cut_short_is_not_either(void) {
    char path[512], file[600];
    fixture_directory(path, sizeof path);
    snprintf(file, sizeof file, "%s/consumequeue/topic/0/%020d", path, 0);
    rp_message_store_options options;
    fixture_options(&options, path);
    options.consume_queue_file_size = 10000 * RP_CONSUME_QUEUE_ENTRY_SIZE; /* several pages */
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "topic", 0);
    CHECK(fixture_append(store, queue, 0) == RP_OK);
    CHECK(truncate(file, 100) == 0);
    int64_t taken = 1, page_entries = (int64_t)rp_page_size() / RP_CONSUME_QUEUE_ENTRY_SIZE;
    while (taken <= page_entries + 1 && fixture_append(store, queue, taken) == RP_OK) {
        taken++;
    }
    CHECK(taken <= page_entries && rp_path_file_size(file) == 100);
    CHECK(truncate(file, (off_t)options.consume_queue_file_size) == 0);
    rp_message_store_close(store, NULL);
    fixture_remove(path);
}

/* A sync for many waiters makes zeros as well. It is left to the appender to report a full disk to clients. */
static void who_syncs_makes_a_chunk_at_a_time_until_the_lead_is_full(void) {
    enum { MEGABYTE = 1 << 20 };
    for (int32_t mode = RP_READY_FOR_ASYNC; mode <= RP_READY_FOR_SYNC; mode++) {
        char path[512];
        fixture_directory(path, sizeof path);
        rp_file_ops ops = *rp_file_ops_system();
        ops.allocate = allocate_or_not;
        rp_log *log = NULL;
        rp_mapped_file_queue *row = NULL;
        rp_mapped_file_queue_options row_options = {.ops = &ops, .directory = path, .file_size = 2 * MEGABYTE, .mode = RP_MAP_WRITE};
        CHECK(rp_log_create(&log) == RP_OK && rp_mapped_file_queue_create(&row_options, &row) == RP_OK);
        rp_preallocation_options options = {.ops = &ops, .row = row, .log = log, .ahead_bytes = 3 * MEGABYTE, .mode = mode};
        rp_preallocation *ahead = NULL;
        rp_error error = {0};
        CHECK(rp_preallocation_open(&options, &ahead, &error) == RP_OK);
        for (int64_t step = 1; step <= 5; step++) {
            rp_preallocation_step(ahead);
            int64_t made = step < 3 ? step * MEGABYTE : 3 * MEGABYTE;
            CHECK(rp_preallocation_ready_end(ahead) == (mode == RP_READY_FOR_SYNC ? made : 0));
        }
        rp_preallocation_advise(ahead, MEGABYTE - 1);
        rp_preallocation_step(ahead);
        CHECK(rp_preallocation_ready_end(ahead) == (mode == RP_READY_FOR_SYNC ? 3 * MEGABYTE : 0));
        rp_preallocation_advise(ahead, MEGABYTE + 1);
        atomic_store(&is_full, 1);
        rp_preallocation_step(ahead);
        rp_preallocation_advise(ahead, 2 * MEGABYTE); /* the lead reaches into the second file, for which there is no space */
        rp_preallocation_step(ahead);
        rp_preallocation_step(ahead);
        CHECK(rp_preallocation_ready_end(ahead) == (mode == RP_READY_FOR_SYNC ? 4 * MEGABYTE : 0));
        CHECK(lines_with(log, "No space left") == (mode == RP_READY_FOR_SYNC));
        atomic_store(&is_full, 0);
        rp_preallocation_step(ahead);
        CHECK(rp_preallocation_ready_end(ahead) == (mode == RP_READY_FOR_SYNC ? 5 * MEGABYTE : 0));
        rp_preallocation_close(ahead);
        rp_mapped_file_queue_destroy(row);
        rp_log_destroy(log);
        fixture_remove(path);
    }
}

/* What the file system was asked for last, and what it was asked while the lead was not full yet. */
typedef struct noted_disk {
    rp_file_ops ops;
    _Atomic int64_t allocated_end, written_end, written_before;
    _Atomic int has_spare;
} noted_disk;

static int noting_allocate(void *context, int fd, int64_t offset, int64_t size) {
    noted_disk *disk = context;
    atomic_store(&disk->written_before, atomic_load(&disk->written_end));
    atomic_store(&disk->allocated_end, offset + size);
    int rc = rp_file_ops_system()->allocate(NULL, fd, offset, size);
    atomic_store(&disk->has_spare, offset > 0);
    return rc;
}

static int64_t noting_write(void *context, int fd, const void *source, size_t size, int64_t offset) {
    noted_disk *disk = context;
    atomic_store(&disk->written_end, offset + (int64_t)size);
    return rp_file_ops_system()->write_at(NULL, fd, source, size, offset);
}

/* Waits until the space behind the first of a file is asked for. The end of what was asked. */
static int64_t end_of_the_next_space(uint64_t file_size) {
    enum { MIB = 1 << 20, LEAD = 40 * MIB };
    char path[512];
    fixture_directory(path, sizeof path);
    noted_disk disk = {.ops = *rp_file_ops_system()};
    disk.ops.context = &disk;
    disk.ops.allocate = noting_allocate;
    disk.ops.write_at = noting_write;
    rp_mapped_file_queue *row = NULL;
    rp_mapped_file_queue_options row_options = {.ops = &disk.ops, .directory = path, .file_size = file_size, .mode = RP_MAP_WRITE};
    CHECK(rp_mapped_file_queue_create(&row_options, &row) == RP_OK);
    rp_preallocation_options options = {.ops = &disk.ops, .row = row, .ahead_bytes = LEAD};
    rp_preallocation *ahead = NULL;
    rp_error error = {0};
    CHECK(rp_preallocation_open(&options, &ahead, &error) == RP_OK && rp_preallocation_start(ahead, &error) == RP_OK);
    wait_for(&disk.has_spare);
    CHECK(disk.written_before == LEAD && rp_preallocation_ready_end(ahead) == LEAD);
    rp_preallocation_close(ahead);
    rp_mapped_file_queue_destroy(row);
    fixture_remove(path);
    return disk.allocated_end;
}

/* A file system may take long to find space, and the file cannot be written meanwhile. And a file that gets longer than its set size is
 * refused by the next start. */
static void the_next_space_is_asked_for_while_the_lead_is_full(void) {
    enum { ASKED_AT_ONCE = 64 << 20, ODD = ASKED_AT_ONCE + 100 /* its last page is no whole one */ };
    CHECK(end_of_the_next_space(4 * ASKED_AT_ONCE) == 2 * ASKED_AT_ONCE);
    CHECK(end_of_the_next_space(ODD) == ODD);
}

/* A disk that counts the ranges that were mapped ahead, and those that could not be. */
typedef struct mapping_disk {
    rp_file_ops ops;
    _Atomic int mapped, refused;
} mapping_disk;

static int counting_populate(void *context, void *address, size_t size) {
    mapping_disk *disk = context;
    int rc = rp_file_ops_system()->populate(NULL, address, size);
    atomic_fetch_add(rc == 0 ? &disk->mapped : &disk->refused, 1);
    return rc;
}

static void pages_are_mapped_ahead_where_files_begin_within_one(void) {
    enum { FILE_SIZE = (1 << 20) + 100 };
    char path[512];
    fixture_directory(path, sizeof path);
    mapping_disk disk = {.ops = *rp_file_ops_system()};
    disk.ops.context = &disk;
    disk.ops.populate = counting_populate;
    rp_mapped_file_queue *row = NULL;
    rp_mapped_file_queue_options row_options = {.ops = &disk.ops, .directory = path, .file_size = FILE_SIZE, .mode = RP_MAP_WRITE};
    CHECK(rp_mapped_file_queue_create(&row_options, &row) == RP_OK);
    rp_preallocation_options options = {.ops = &disk.ops, .row = row, .ahead_bytes = 2 * FILE_SIZE};
    rp_preallocation *ahead = NULL;
    rp_error error = {0};
    CHECK(rp_preallocation_open(&options, &ahead, &error) == RP_OK && rp_preallocation_start(ahead, &error) == RP_OK);
    for (int rounds = 0; rp_preallocation_ready_end(ahead) < 2 * FILE_SIZE; rounds++) {
        CHECK(rounds < 60000);
        pause_ms(1);
    }
    rp_preallocation_close(ahead);
    CHECK(disk.refused == 0 || disk.mapped == 0); /* a kernel before 5.14 maps nothing ahead */
    rp_mapped_file_queue_destroy(row);
    fixture_remove(path);
}

typedef struct counting_disk {
    rp_file_ops ops;
    int64_t zeroed;  /* bytes of zeros: nothing else is written by the preallocation */
    int can_allocate;
} counting_disk;

static int64_t counting_write(void *context, int fd, const void *source, size_t size, int64_t offset) {
    counting_disk *disk = context;
    disk->zeroed += (int64_t)size;
    return rp_file_ops_system()->write_at(NULL, fd, source, size, offset);
}

static int allocate_or_pretend(void *context, int fd, int64_t offset, int64_t size) {
    counting_disk *disk = context;
    return disk->can_allocate ? rp_file_ops_system()->allocate(NULL, fd, offset, size) : 1;
}

/* Zeros written ahead save each sync a commit of the journal, but double the bytes that the disk has to write. */
static void zeros_are_written_where_they_save_the_disk_more_than_they_cost(void) {
    enum { MIB = 1 << 20, SMALL = 100 * 1024, LARGE = MIB };
    static const struct {
        int32_t mode;
        int can_allocate;
        int64_t sync_bytes;
        bool has_zeros;
    } cases[] = {
        {RP_READY_FOR_SYNC, 1, 0, true},      {RP_READY_FOR_SYNC, 1, SMALL, true},
        {RP_READY_FOR_SYNC, 1, LARGE, false}, {RP_READY_FOR_SYNC, 0, LARGE, true}, /* else nothing has space */
        {RP_READY_FOR_ASYNC, 1, LARGE, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[512];
        fixture_directory(path, sizeof path);
        counting_disk disk = {.ops = *rp_file_ops_system(), .can_allocate = cases[i].can_allocate};
        disk.ops.context = &disk;
        disk.ops.allocate = allocate_or_pretend;
        disk.ops.write_at = counting_write;
        rp_mapped_file_queue *row = NULL;
        rp_mapped_file_queue_options row_options = {.ops = &disk.ops, .directory = path, .file_size = 16 * MIB, .mode = RP_MAP_WRITE};
        CHECK(rp_mapped_file_queue_create(&row_options, &row) == RP_OK);
        rp_preallocation_options options = {.ops = &disk.ops, .row = row, .ahead_bytes = 4 * MIB, .mode = cases[i].mode};
        rp_preallocation *ahead = NULL;
        rp_error error = {0};
        CHECK(rp_preallocation_open(&options, &ahead, &error) == RP_OK);
        for (int syncs = 0; syncs < 32; syncs++)
            rp_preallocation_count_sync(ahead, cases[i].sync_bytes);
        for (int64_t end = MIB; end <= 4 * MIB; end += MIB)
            CHECK(rp_preallocation_require(ahead, end, &error) == RP_OK && rp_preallocation_ready_end(ahead) >= end);
        CHECK(disk.zeroed == (cases[i].has_zeros ? 4 * MIB : 0));
        for (int syncs = 0; syncs < 32; syncs++)
            rp_preallocation_count_sync(ahead, SMALL);
        CHECK(rp_preallocation_require(ahead, 5 * MIB, &error) == RP_OK);
        CHECK(disk.zeroed == (cases[i].has_zeros ? 5 * MIB : MIB)); /* zeros are useful again */
        rp_preallocation_close(ahead);
        rp_mapped_file_queue_destroy(row);
        fixture_remove(path);
    }
}

/* Small syncs that come after large ones find zeros soon. */
static void where_zeros_are_not_of_use_the_lead_is_short(void) {
    enum { MIB = 1 << 20, LEAD = 32 * MIB, SHORT = 4 * MIB };
    char path[512];
    fixture_directory(path, sizeof path);
    rp_mapped_file_queue *row = NULL;
    rp_mapped_file_queue_options row_options = {
        .ops = rp_file_ops_system(), .directory = path, .file_size = 128 * MIB, .mode = RP_MAP_WRITE};
    CHECK(rp_mapped_file_queue_create(&row_options, &row) == RP_OK);
    rp_preallocation_options options = {.ops = rp_file_ops_system(), .row = row, .ahead_bytes = LEAD, .mode = RP_READY_FOR_SYNC};
    rp_preallocation *ahead = NULL;
    rp_error error = {0};
    CHECK(rp_preallocation_open(&options, &ahead, &error) == RP_OK);
    for (int syncs = 0; syncs < 32; syncs++)
        rp_preallocation_count_sync(ahead, MIB);
    for (int steps = 0; steps < 256; steps++)
        rp_preallocation_step(ahead);
    CHECK(rp_preallocation_ready_end(ahead) == SHORT);
    rp_preallocation_advise(ahead, 100 * MIB); /* the next file is begun in time */
    for (int steps = 0; steps < 256; steps++)
        rp_preallocation_step(ahead);
    CHECK(rp_preallocation_ready_end(ahead) == 100 * MIB + LEAD);
    rp_preallocation_advise(ahead, 0);
    rp_preallocation_count_sync(ahead, 1 << 30); /* as one of a megabyte */
    for (int syncs = 0; syncs < 16; syncs++)
        rp_preallocation_count_sync(ahead, 1);
    rp_preallocation_advise(ahead, 130 * MIB);
    for (int steps = 0; steps < 256; steps++)
        rp_preallocation_step(ahead);
    CHECK(rp_preallocation_ready_end(ahead) == 130 * MIB + LEAD);
    rp_preallocation_close(ahead);
    rp_mapped_file_queue_destroy(row);
    fixture_remove(path);
}

/* A disk on which the first zeros are written when somebody waits for the thread that writes them. */
typedef struct waited_disk {
    rp_file_ops ops;
    _Atomic int is_writing, allocations, writes;
} waited_disk;

static _Atomic int is_joining;

/* In front of libc's, for the library too. */
int pthread_join(pthread_t thread, void **result) {
    int (*real)(pthread_t, void **);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_join");
    atomic_store(&is_joining, 1);
    return real(thread, result);
}

static int waited_allocate(void *context, int fd, int64_t offset, int64_t size) {
    waited_disk *disk = context;
    atomic_fetch_add(&disk->allocations, 1);
    return rp_file_ops_system()->allocate(NULL, fd, offset, size);
}

static int64_t waited_write(void *context, int fd, const void *source, size_t size, int64_t offset) {
    waited_disk *disk = context;
    atomic_store(&disk->is_writing, 1);
    wait_for(&is_joining);
    atomic_fetch_add(&disk->writes, 1);
    return rp_file_ops_system()->write_at(NULL, fd, source, size, offset);
}

/* On a busy machine it has a core seldom, and a lead is many chunks. */
static void who_stops_the_thread_waits_for_one_chunk(void) {
    enum { MIB = 1 << 20, PIECES = 64 /* at most, of a chunk */ };
    for (int32_t mode = RP_READY_FOR_ASYNC; mode <= RP_READY_FOR_SYNC; mode++) {
        char path[512];
        fixture_directory(path, sizeof path);
        waited_disk disk = {.ops = *rp_file_ops_system()};
        disk.ops.context = &disk;
        disk.ops.allocate = waited_allocate;
        disk.ops.write_at = waited_write;
        atomic_store(&is_joining, 0);
        rp_mapped_file_queue *row = NULL;
        rp_mapped_file_queue_options row_options = {.ops = &disk.ops, .directory = path, .file_size = 128 * MIB, .mode = RP_MAP_WRITE};
        CHECK(rp_mapped_file_queue_create(&row_options, &row) == RP_OK);
        rp_preallocation_options options = {.ops = &disk.ops, .row = row, .ahead_bytes = 40 * MIB, .mode = mode};
        rp_preallocation *ahead = NULL;
        rp_error error = {0};
        CHECK(rp_preallocation_open(&options, &ahead, &error) == RP_OK && rp_preallocation_start(ahead, &error) == RP_OK);
        wait_for(&disk.is_writing);
        rp_preallocation_stop(ahead);
        CHECK(disk.writes <= PIECES && disk.allocations == 1);
        rp_preallocation_close(ahead);
        rp_mapped_file_queue_destroy(row);
        fixture_remove(path);
    }
}

static void sends_that_are_refused_for_want_of_space_are_told_of(void) {
    char path[512];
    fixture_directory(path, sizeof path);
    rp_file_ops ops = *rp_file_ops_system();
    ops.allocate = allocate_or_not;
    rp_message_store_options options;
    fixture_options(&options, path);
    options.file_ops = &ops;
    CHECK(rp_log_create(&options.log) == RP_OK);
    rp_message_store *store = fixture_open(&options);
    CHECK(fixture_append(store, fixture_queue(store, "T", 0), 0) == RP_OK);
    rp_consume_queue *queue = fixture_queue(store, "T", 1);
    atomic_store(&is_full, 1);
    for (int i = 0; i < 1000; i++) {
        CHECK(fixture_append(store, queue, i) == RP_E_DISK_FULL);
    }
    int lines = lines_with(options.log, "bytes of queue entries");
    CHECK(lines >= 1 && lines < 10);
    atomic_store(&is_full, 0);
    CHECK(fixture_append(store, queue, 0) == RP_OK);
    fixture_close(store);
    rp_log_destroy(options.log);
    fixture_remove(path);
}

/* A disk on which a record's write takes long: how many pieces of zeros were begun meanwhile. */
typedef struct shared_disk {
    rp_file_ops ops;
    _Atomic int log_fd, is_writing, zeros, zeros_meanwhile;
} shared_disk;

static int64_t shared_write(void *context, int fd, const void *source, size_t size, int64_t offset) {
    enum { PIECE = 16 * 1024 };
    shared_disk *disk = context;
    if (size == PIECE) {
        atomic_store(&disk->log_fd, fd);
        atomic_fetch_add(&disk->zeros, 1);
        atomic_fetch_add(&disk->zeros_meanwhile, atomic_load(&disk->is_writing));
    } else if (fd == atomic_load(&disk->log_fd)) {
        atomic_store(&disk->is_writing, 1);
        pause_ms(20);
        atomic_store(&disk->is_writing, 0);
    }
    return rp_file_ops_system()->write_at(NULL, fd, source, size, offset);
}

static void zeros_let_a_record_be_written(void) {
    char path[512];
    fixture_directory(path, sizeof path);
    shared_disk disk = {.ops = *rp_file_ops_system()};
    disk.ops.context = &disk;
    disk.ops.write_at = shared_write;
    rp_message_store_options options;
    fixture_options(&options, path);
    options.flush_mode = RP_FLUSH_SYNC;
    options.commit_log_file_size = 256 << 20;
    options.populate_ahead_bytes = 128 << 20; /* in work all the while */
    options.file_ops = &disk.ops;
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "T", 0);
    enum { RECORDS = 5 };
    for (int i = 0; i < RECORDS; i++) {
        CHECK(fixture_append(store, queue, i) == RP_OK);
    }
    CHECK(atomic_load(&disk.zeros_meanwhile) <= RECORDS); /* the piece that was on its way */
    fixture_close(store);
    CHECK(atomic_load(&disk.zeros) > 0);
    fixture_remove(path);
}

int main(void) {
    RUN(zeros_let_a_record_be_written);
    RUN(a_full_disk_is_told_once_though_what_is_left_is_used_up);
    RUN(a_file_that_was_cut_short_is_not_made_longer_again);
    RUN(a_queues_file_that_was_cut_short_is_not_either);
    RUN(who_syncs_makes_a_chunk_at_a_time_until_the_lead_is_full);
    RUN(the_next_space_is_asked_for_while_the_lead_is_full);
    RUN(pages_are_mapped_ahead_where_files_begin_within_one);
    RUN(zeros_are_written_where_they_save_the_disk_more_than_they_cost);
    RUN(where_zeros_are_not_of_use_the_lead_is_short);
    RUN(who_stops_the_thread_waits_for_one_chunk);
    RUN(sends_that_are_refused_for_want_of_space_are_told_of);
    RUN(an_empty_slave_of_a_master_whose_first_files_are_gone_goes_on_there);
    return 0;
}
