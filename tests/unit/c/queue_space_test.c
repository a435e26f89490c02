/* queue_space_test.c: a queue that goes back keeps its files as they are for the entries that are put again; then what it does not need is
 * cleared. */
#include <errno.h>

#include "../../../csrc/store/commit_log_inl.h"
#include "../../../csrc/store/consume_queue_writer.h"
#include "../../../csrc/store/consume_queue_space.h"
#include "check.h"
#include "store_fixture.h"

enum { PER_FILE = FIXTURE_QUEUE_FILE_ENTRIES, FILES = 8, MESSAGES = FILES * PER_FILE - 10 };

typedef int change(rp_consume_queue *queue, int64_t offset, rp_error *error);

static int clear_behind(rp_consume_queue *queue, int64_t unused, rp_error *error) {
    (void)unused;
    return rp_consume_queue_clear_behind(queue, error);
}

static void run(rp_message_store *store, change *it, rp_consume_queue *queue, int64_t offset) {
    pthread_mutex_t *append_lock = &rp_message_store_commit_log(store)->append_lock;
    rp_error error = {0};
    pthread_mutex_lock(append_lock);
    CHECK(it(queue, offset, &error) == RP_OK);
    pthread_mutex_unlock(append_lock);
}

/* How many files the queue has; *zeros_from becomes the byte behind the last one that is no zero, *blocks their blocks. */
static int look(const char *root, int64_t *zeros_from, int64_t *blocks) {
    int count = 0;
    *zeros_from = *blocks = 0;
    for (int64_t base = 0; base < FILES * PER_FILE * RP_CONSUME_QUEUE_ENTRY_SIZE; base += PER_FILE * RP_CONSUME_QUEUE_ENTRY_SIZE) {
        char path[600];
        uint8_t bytes[PER_FILE * RP_CONSUME_QUEUE_ENTRY_SIZE];
        struct stat status;
        snprintf(path, sizeof path, "%s/consumequeue/T/0/%020lld", root, (long long)base);
        int fd = open(path, O_RDONLY);
        if (fd < 0)
            continue;
        count++;
        CHECK(fstat(fd, &status) == 0 && read(fd, bytes, sizeof bytes) == (ssize_t)sizeof bytes);
        *blocks += (int64_t)status.st_blocks;
        for (int64_t i = 0; i < (int64_t)sizeof bytes; i++)
            *zeros_from = bytes[i] != 0 ? base + i + 1 : *zeros_from;
        close(fd);
    }
    return count;
}

/* Goes back to `offset`, and entries are put again up to `end`. files: so many are needed for those. */
static void goes_back(int64_t offset, int64_t end, int files) {
    char path[400];
    rp_message_store_options options;
    fixture_directory(path, sizeof path);
    fixture_options(&options, path);
    options.index_enable = 0;
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "T", 0);
    for (int64_t i = 0; i < MESSAGES; i++)
        CHECK(fixture_append(store, queue, i) == RP_OK);
    int64_t zeros_from, blocks, before;
    CHECK(look(path, &zeros_from, &before) == FILES && zeros_from > (MESSAGES - 1) * RP_CONSUME_QUEUE_ENTRY_SIZE);
    run(store, rp_consume_queue_go_back, queue, offset);
    CHECK(rp_consume_queue_max_offset(queue) == offset && look(path, &zeros_from, &blocks) == FILES && blocks == before);
    for (int64_t i = offset; i < end; i++)
        CHECK(fixture_append(store, queue, i) == RP_OK);
    CHECK(look(path, &zeros_from, &blocks) == FILES && blocks == before);
    run(store, clear_behind, queue, 0);
    CHECK(look(path, &zeros_from, &blocks) == files && zeros_from <= end * RP_CONSUME_QUEUE_ENTRY_SIZE);
    for (int64_t i = end; i < end + 2 * PER_FILE; i++) /* files are made again */
        CHECK(fixture_append(store, queue, i) == RP_OK);
    for (int64_t i = 0; i < end + 2 * PER_FILE; i++)
        CHECK(fixture_check(store, queue, i) == 0);
    fixture_close(store);
    fixture_remove(path);
}

/* Of the thread that tests: the log and the index allocate by themselves. */
static _Thread_local int allocate_errno; /* 0: allocate works */
static _Thread_local bool is_unseekable;

static int allocate_or_not(void *context, int fd, int64_t offset, int64_t size) {
    int ends[2];
    if (allocate_errno == 0)
        return rp_file_ops_system()->allocate(context, fd, offset, size);
    if (is_unseekable) {
        CHECK(pipe(ends) == 0 && dup2(ends[0], fd) == fd && close(ends[0]) == 0 && close(ends[1]) == 0);
    }
    errno = allocate_errno;
    return -1;
}

static int reserve(rp_message_store *store, rp_consume_queue *queue) {
    pthread_mutex_t *append_lock = &rp_message_store_commit_log(store)->append_lock;
    pthread_mutex_lock(append_lock);
    rp_consume_queue_leave_file(queue);
    int status = rp_consume_queue_reserve(queue, NULL);
    pthread_mutex_unlock(append_lock);
    return status;
}

/* xfs refuses on a full disk to allocate what it has allocated. */
static void blocks_that_are_there_are_enough_on_a_full_disk_only(void) {
    char path[400];
    rp_message_store_options options;
    rp_file_ops ops = *rp_file_ops_system();
    ops.allocate = allocate_or_not;
    fixture_directory(path, sizeof path);
    fixture_options(&options, path);
    options.file_ops = &ops;
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "T", 0);
    CHECK(fixture_append(store, queue, 0) == RP_OK);
    const struct {
        int os_errno;
        bool is_unseekable;
        int status;
    } cases[] = {{ENOSPC, false, RP_OK}, {EDQUOT, false, RP_OK}, {EIO, false, RP_E_IO}, {ENOSPC, true, RP_E_DISK_FULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        allocate_errno = cases[i].os_errno;
        is_unseekable = cases[i].is_unseekable;
        CHECK(reserve(store, queue) == cases[i].status);
    }
    allocate_errno = 0;
    CHECK(reserve(store, queue) == RP_OK && fixture_append(store, queue, 1) == RP_OK && fixture_check(store, queue, 0) == 0);
    fixture_close(store);
    fixture_remove(path);
}

static _Thread_local int64_t clears;

static int count_clear(void *context, int fd, int64_t offset, int64_t size) {
    clears++;
    return rp_file_ops_system()->clear(context, fd, offset, size);
}

/* Each clear is followed by a sync. */
static void only_what_went_back_is_cleared(void) {
    enum { QUEUES = 20 };
    char path[400];
    rp_message_store_options options;
    rp_file_ops ops = *rp_file_ops_system();
    ops.clear = count_clear;
    fixture_directory(path, sizeof path);
    fixture_options(&options, path);
    fixture_never_flush(&options);
    options.index_enable = 0;
    options.file_ops = &ops;
    rp_message_store *store = fixture_open(&options);
    for (int32_t id = 0; id < QUEUES; id++)
        CHECK(fixture_append(store, fixture_queue(store, "T", id), 0) == RP_OK);
    fixture_close(store);
    for (int is_rebuild = 0; is_rebuild < 2; is_rebuild++) {
        if (!is_rebuild)
            fixture_forget_synced(path);
        options.rebuild_queues = is_rebuild;
        clears = 0;
        store = fixture_open(&options);
        CHECK(is_rebuild ? clears < QUEUES : clears >= QUEUES);
        for (int32_t id = 0; id < QUEUES; id++)
            CHECK(fixture_check(store, fixture_queue(store, "T", id), 0) == 0);
        fixture_close(store);
    }
    fixture_remove(path);
}

static void recovery_needs_nobody_to_take_its_error(void) {
    char path[400];
    rp_message_store_options options;
    fixture_directory(path, sizeof path);
    fixture_options(&options, path);
    fixture_never_flush(&options);
    options.batch_topics = "Batches\n";
    rp_message_store *store = fixture_open(&options);
    for (int i = 0; i < 20; i++) {
        rp_append_item item = fixture_item(fixture_queue(store, "Batches", 0), "three", 5);
        item.inner_messages = 3;
        CHECK(rp_commit_log_append(rp_message_store_commit_log(store), &item, 1) == 1);
    }
    fixture_close(store);
    fixture_forget_synced(path);
    CHECK(rp_message_store_open(&options, &store, NULL) == RP_OK);
    CHECK(rp_consume_queue_max_offset(fixture_queue(store, "Batches", 0)) == 60);
    fixture_close(store);
    fixture_remove(path);
}

int main(void) {
    blocks_that_are_there_are_enough_on_a_full_disk_only();
    only_what_went_back_is_cleared();
    recovery_needs_nobody_to_take_its_error();
    goes_back(0, 0, 0);
    goes_back(0, 1, 1);
    goes_back(1, PER_FILE, 1);
    goes_back(PER_FILE, 2 * PER_FILE + 3, 3);
    goes_back(5, MESSAGES, FILES);
    goes_back(MESSAGES, MESSAGES, FILES);
    return 0;
}
