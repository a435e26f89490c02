/* log_staging_test.c: batches under SYNC_FLUSH are written, not stored through the map: in pieces, across files and queues; the remains
 * of a failed write are never taken for the log's next record. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "check.h"
#include "store_fixture.h"

enum { BATCH = 40, PAGE = 4096 };

/* A disk that writes at most `piece` bytes a call, and reports EIO for what it has written while `lies` is set. */
typedef struct odd_disk {
    size_t piece;
    _Atomic int lies;
    _Atomic int64_t ragged,
        ragged_end; /* records' writes that end within a page, and where the last of them did, from the start of its file */
} odd_disk;

static int64_t odd_write_at(void *context, int fd, const void *source, size_t size, int64_t offset) {
    odd_disk *disk = context;
    int64_t count = rp_file_ops_system()->write_at(NULL, fd, source, size < disk->piece ? size : disk->piece, offset);
    bool is_record = size > 4 && ((const uint8_t *)source)[4] != 0; /* known by its magic; otherwise zeros made ahead */
    if (is_record && (offset + count) % PAGE != 0) {
        atomic_fetch_add(&disk->ragged, 1);
        atomic_store(&disk->ragged_end, offset + count);
    }
    if (disk->lies && size < 16 * 1024) { /* not the preallocation's zeros */
        errno = EIO;
        return -1;
    }
    return count;
}

static rp_file_ops odd_ops(odd_disk *disk) {
    rp_file_ops ops = *rp_file_ops_system();
    ops.context = disk;
    ops.write_at = odd_write_at;
    return ops;
}

/* `count` messages in one batch, over the queues in turn. How many were appended. */
static int64_t append_batch(rp_message_store *store, rp_consume_queue **queues, int64_t queue_count, int64_t first, int64_t count) {
    static char bodies[BATCH][512];
    rp_append_item items[BATCH];
    for (int64_t i = 0; i < count; i++) {
        rp_consume_queue *queue = queues[(first + i) % queue_count];
        uint32_t size = fixture_body(bodies[i], sizeof bodies[i], rp_consume_queue_id(queue), (first + i) / queue_count);
        items[i] = fixture_item(queue, bodies[i], size);
    }
    int64_t appended = rp_commit_log_append(rp_message_store_commit_log(store), items, (uint32_t)count);
    int64_t good = 0;
    for (int64_t i = 0; i < count; i++) {
        good += items[i].status == RP_OK;
    }
    CHECK(good == appended);
    return appended;
}

static void batches_cross_files_and_queues_in_pieces(const char *path) {
    odd_disk disk = {.piece = 700};
    rp_file_ops ops = odd_ops(&disk);
    rp_message_store_options options;
    fixture_options(&options, path);
    options.flush_mode = RP_FLUSH_SYNC;
    options.file_ops = &ops;
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queues[3] = {fixture_queue(store, "Staged", 0), fixture_queue(store, "Staged", 1), fixture_queue(store, "Staged", 2)};
    for (int64_t batch = 0; batch < 30; batch++) { /* 400 entries a queue: eight of its files; half a megabyte of log: as many of its */
        CHECK(append_batch(store, queues, 3, batch * BATCH, BATCH) == BATCH);
    }
    int64_t end = rp_commit_log_max_offset(rp_message_store_commit_log(store));
    CHECK(end > 5 * FIXTURE_LOG_FILE_SIZE && rp_message_store_wait_flushed(store, end, 60000) == RP_OK);
    for (int run = 0; run < 2; run++) {
        for (int32_t id = 0; id < 3; id++) {
            rp_consume_queue *queue = fixture_queue(store, "Staged", id);
            CHECK(rp_consume_queue_max_offset(queue) == 400);
            for (int64_t i = 0; i < 400; i++) {
                CHECK(fixture_check(store, queue, i) == 0);
            }
        }
        fixture_close(store);
        store = fixture_open(&options);
    }
    fixture_close(store);
}

/* One line of the log, and no more, has both texts: a producer's every try would bring another. */
static bool says_once(rp_log *log, const char *begin, const char *end) {
    rp_log_line line;
    int count = 0;
    while (rp_log_take(log, &line, 1) == 1) {
        count += strstr(line.text, begin) != NULL && strstr(line.text, end) != NULL;
    }
    return count == 1;
}

/* A batch fails after its bytes were written. The next message has the size of its first one: behind it the failed batch's second would
 * fit exactly, queue offset and all. */
static void a_failed_write_leaves_no_record_behind(const char *path) {
    odd_disk disk = {.piece = SIZE_MAX};
    rp_file_ops ops = odd_ops(&disk);
    rp_message_store_options options;
    fixture_options(&options, path);
    options.flush_mode = RP_FLUSH_SYNC;
    options.index_enable = 0;
    options.file_ops = &ops;
    rp_log *lines;
    CHECK(rp_log_create(&lines) == RP_OK);
    options.log = lines;
    rp_message_store *store = fixture_open(&options);
    rp_commit_log *log = rp_message_store_commit_log(store);
    rp_consume_queue *queue = fixture_queue(store, "Torn", 0);
    CHECK(append_batch(store, &queue, 1, 0, 5) == 5);
    int64_t end = rp_commit_log_max_offset(log);
    disk.lies = 1;
    CHECK(append_batch(store, &queue, 1, 5, 3) == 0);
    CHECK(rp_commit_log_max_offset(log) == end && rp_consume_queue_max_offset(queue) == 5);
    CHECK(append_batch(store, &queue, 1, 5, 3) == 0); /* nor while what is there cannot be cleared */
    CHECK(says_once(lines, "sends are refused: cannot write to the commit log: Input/output error [", "/00000000000000000000]"));
    disk.lies = 0;
    CHECK(append_batch(store, &queue, 1, 5, 1) == 1);
    CHECK(fixture_check(store, queue, 5) == 0);
    fixture_close(store);
    char name[600];
    snprintf(name, sizeof name, "%s/checkpoint", path);
    CHECK(unlink(name) == 0);
    snprintf(name, sizeof name, "%s/abort", path);
    close(open(name, O_RDWR | O_CREAT, 0644)); /* as if it had been killed: the whole log is read again */
    store = fixture_open(&options);
    queue = fixture_queue(store, "Torn", 0);
    CHECK(rp_consume_queue_max_offset(queue) == 6);
    CHECK(append_batch(store, &queue, 1, 6, 1) == 1 && fixture_check(store, queue, 6) == 0);
    fixture_close(store);
    rp_log_destroy(lines);
}

/* Else the kernel would read a page that has left memory since it was made ready, before it takes a part of it. */
static void whole_pages_are_written(const char *path) {
    odd_disk disk = {.piece = 1 << 20};
    rp_file_ops ops = odd_ops(&disk);
    rp_message_store_options options;
    fixture_options(&options, path);
    options.flush_mode = RP_FLUSH_SYNC;
    options.index_enable = 0;
    options.commit_log_file_size = 5 * PAGE + 1000;
    options.file_ops = &ops;
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "Staged", 0);
    for (int64_t i = 0; i < 200; i++) {
        int64_t ragged = atomic_load(&disk.ragged);
        CHECK(append_batch(store, &queue, 1, i, 1) == 1);
        CHECK(atomic_load(&disk.ragged) == ragged || atomic_load(&disk.ragged_end) == (int64_t)options.commit_log_file_size);
    }
    CHECK(atomic_load(&disk.ragged) > 0); /* the files end so */
    for (int64_t i = 0; i < 200; i++) {
        CHECK(fixture_check(store, queue, i) == 0);
    }
    fixture_close(store);
}

int main(void) {
    void (*const tests[])(const char *path) = {batches_cross_files_and_queues_in_pieces, a_failed_write_leaves_no_record_behind,
                                               whole_pages_are_written};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        char path[400];
        fixture_directory(path, sizeof path);
        tests[i](path);
        fixture_remove(path);
    }
    return 0;
}
