/* compaction_test.c: what a compacted queue keeps across restarts, retention, cuts, damage and deletion. */
#include <fcntl.h>

#include "../../../csrc/store/commit_log_inl.h"
#include "../../../csrc/store/consume_queue_writer.h"
#include "compaction_fixture.h"

static kept_messages kept;

static void path_of(char *to, size_t size, const char *root, const char *kind, const char *topic, int64_t base) {
    snprintf(to, size, "%s/compaction/%s/%s/0/%020lld", root, kind, topic, (long long)base);
}

static int exists(const char *path) { return access(path, F_OK) == 0; }

static int64_t segment_size(const char *root) {
    char path[700];
    struct stat status;
    path_of(path, sizeof path, root, "compactionLog", "T", 0);
    CHECK(stat(path, &status) == 0);
    return status.st_size;
}

/* A store of its own in a new directory, and the queue of its compacted topic T. */
static rp_message_store *open_compacting(char path[512], rp_message_store_options *options, uint32_t interval_ms,
                                         rp_consume_queue **queue) {
    fixture_directory(path, 512);
    compacting_options(options, path, interval_ms);
    rp_message_store *store = fixture_open(options);
    *queue = compacted_queue(store, "T");
    return store;
}

static void the_last_message_of_each_key_stays(void) {
    char path[512];
    rp_message_store_options options;
    rp_consume_queue *queue;
    rp_message_store *store = open_compacting(path, &options, OFTEN_MS, &queue);
    CHECK(append_keyed(store, queue, NULL, "777777") == RP_OK);
    CHECK(append_keyed(store, queue, "  ", "777777") == RP_OK);
    append_numbers(store, queue, 0, 200, 10);
    await_copied(store, queue);
    await_kept(queue, 10 + 20, &kept);
    CHECK(has_last_of_each(&kept, 200, 10));
    CHECK(rp_compaction_log_max_offset(rp_consume_queue_compacted(queue)) == 202);
    rp_compaction_stats stats;
    int64_t begun_ns = rp_clock_monotonic_ns(rp_clock_system());
    for (rp_message_store_read_compaction(store, &stats); stats.dropped < 160; rp_message_store_read_compaction(store, &stats)) {
        CHECK(!is_late(begun_ns)); /* counted behind the replacement */
        poll(NULL, 0, 1);
    }
    CHECK(stats.queues == 1 && stats.copied == 200 && stats.without_key == 2 && stats.behind == 0 && stats.failures == 0);
    fixture_close(store);
    store = fixture_open(&options);
    queue = compacted_queue(store, "T");
    kept_messages before = kept;
    read_kept(queue, &kept);
    CHECK(kept.count <= before.count && has_last_of_each(&kept, 200, 10));
    append_numbers(store, queue, 200, 300, 10);
    await_copied(store, queue);
    await_kept(queue, 10 + 20, &kept);
    CHECK(has_last_of_each(&kept, 300, 10));
    fixture_close(store);
    fixture_remove(path);
}

static void a_message_without_a_body_deletes_its_key(void) {
    char path[512];
    rp_message_store_options options;
    rp_consume_queue *queue;
    rp_message_store *store = open_compacting(path, &options, OFTEN_MS, &queue);
    append_numbers(store, queue, 0, 5, 5);
    CHECK(append_keyed(store, queue, "k3", "") == RP_OK);
    for (int i = 0; i < 60; i++)
        CHECK(append_keyed(store, queue, "other", "99") == RP_OK);
    await_copied(store, queue);
    await_kept(queue, 4 + 1 + 20, &kept);
    int threes = 0, empty = 0;
    for (int i = 0; i < kept.count; i++) {
        threes += kept.numbers[i] == 3;
        empty += kept.numbers[i] == -1;
    }
    CHECK(threes == 0 && empty == 0 && kept.numbers[0] == 0 && kept.numbers[1] == 1 && kept.numbers[2] == 2 && kept.numbers[3] == 4);
    fixture_close(store);
    fixture_remove(path);
}

static void a_map_that_is_full_leaves_the_rest_to_the_next_compaction(void) {
    char path[512];
    fixture_directory(path, sizeof path);
    rp_message_store_options options;
    compacting_options(&options, path, OFTEN_MS);
    options.compaction_key_memory = 1; /* 96 keys */
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = compacted_queue(store, "T");
    append_numbers(store, queue, 0, 500, 150);
    await_copied(store, queue);
    await_kept(queue, 150 + 20, &kept);
    CHECK(has_last_of_each(&kept, 500, 150));
    fixture_close(store);
    fixture_remove(path);
}

static void what_is_kept_outlives_the_commit_log(void) {
    char path[512];
    rp_message_store_options options;
    rp_consume_queue *queue;
    rp_message_store *store = open_compacting(path, &options, OFTEN_MS, &queue);
    append_numbers(store, queue, 0, 1000, 10);
    await_copied(store, queue);
    rp_commit_log *log = rp_message_store_commit_log(store);
    CHECK(rp_message_store_wait_flushed(store, rp_commit_log_max_offset(log), 60000) == RP_OK);
    int64_t begun_ns = rp_clock_monotonic_ns(rp_clock_system()), last = rp_commit_log_max_offset(log) / FIXTURE_LOG_FILE_SIZE;
    CHECK(last >= 2);
    while (rp_commit_log_min_offset(log) < last * FIXTURE_LOG_FILE_SIZE) { /* once the copies are synced */
        CHECK(!is_late(begun_ns));
        int rc = rp_message_store_expire_file(store, NULL);
        CHECK(rc == RP_OK || rc == RP_E_NOT_FOUND);
        poll(NULL, 0, 1);
    }
    CHECK(rp_consume_queue_min_offset(queue) > 0);
    await_kept(queue, 10 + 20, &kept);
    CHECK(has_last_of_each(&kept, 1000, 10));
    CHECK(rp_message_store_first_offset(queue) == kept.offsets[0]);
    fixture_close(store);
    char consume_queue[600];
    snprintf(consume_queue, sizeof consume_queue, "%s/consumequeue/T", path);
    fixture_remove(consume_queue);
    snprintf(consume_queue, sizeof consume_queue, "%s/commitlog", path);
    fixture_remove(consume_queue);
    snprintf(consume_queue, sizeof consume_queue, "%s/checkpoint", path);
    unlink(consume_queue);
    store = fixture_open(&options);
    queue = compacted_queue(store, "T");
    read_kept(queue, &kept);
    CHECK(has_last_of_each(&kept, 1000, 10));
    append_numbers(store, queue, 1000, 1001, 10); /* comes after everything that was kept */
    CHECK(rp_consume_queue_max_offset(queue) == 1001);
    await_copied(store, queue);
    read_kept(queue, &kept);
    CHECK(kept.numbers[kept.count - 1] == 1000 && kept.offsets[kept.count - 1] == 1000);
    fixture_close(store);
    fixture_remove(path);
}

static void a_cut_log_takes_its_copies_with_it(void) {
    char path[512];
    rp_message_store_options options;
    rp_consume_queue *queue;
    rp_message_store *store = open_compacting(path, &options, NEVER_MS, &queue);
    append_numbers(store, queue, 0, 70, 70);
    await_copied(store, queue);
    rp_queue_entry entry;
    CHECK(rp_consume_queue_read(queue, 30, &entry, 1) == 1);
    CHECK(rp_message_store_cut_at_open(store, entry.commit_log_offset, NULL) == RP_OK);
    fixture_close(store);
    store = fixture_open(&options);
    queue = compacted_queue(store, "T");
    CHECK(rp_consume_queue_max_offset(queue) == 30);
    append_numbers(store, queue, 500, 510, 70); /* other messages at the same offsets */
    await_copied(store, queue);
    read_kept(queue, &kept);
    CHECK(kept.count == 40);
    for (int i = 0; i < 40; i++)
        CHECK(kept.offsets[i] == i && kept.numbers[i] == (i < 30 ? i : 470 + i));
    fixture_close(store);
    fixture_remove(path);
}

/* Compaction dropped older messages in favour of those that are cut now. The older ones come back from the log. */
static void a_cut_behind_what_was_compacted_takes_no_key_with_it(void) {
    char path[512];
    rp_message_store_options options;
    rp_consume_queue *queue;
    rp_message_store *store = open_compacting(path, &options, OFTEN_MS, &queue);
    append_numbers(store, queue, 0, 8, 4);
    append_numbers(store, queue, 8, 60, 4);
    await_copied(store, queue);
    await_kept(queue, 4 + 20, &kept);
    CHECK(kept.offsets[0] >= 36);
    rp_queue_entry entry;
    CHECK(rp_consume_queue_read(queue, 8, &entry, 1) == 1);
    CHECK(rp_message_store_cut_at_open(store, entry.commit_log_offset, NULL) == RP_OK);
    fixture_close(store);
    store = fixture_open(&options);
    queue = compacted_queue(store, "T");
    append_numbers(store, queue, 100, 101, 1000);
    await_copied(store, queue);
    read_kept(queue, &kept);
    CHECK(kept.count == 9 && kept.numbers[8] == 100);
    for (int i = 0; i < 8; i++)
        CHECK(kept.numbers[i] == i);
    fixture_close(store);
    store = fixture_open(&options); /* and nothing of it counts as compacted */
    queue = compacted_queue(store, "T");
    append_numbers(store, queue, 204, 264, 4);
    await_copied(store, queue);
    await_kept(queue, 1 + 4 + 20, &kept);
    CHECK(has_last_of_each(&kept, 264, 4));
    fixture_close(store);
    fixture_remove(path);
}

/* A slave's queue begins again at 0 when its topic was deleted and created again. The log is not cut for that. */
static void a_queue_that_begins_again_takes_its_copies_with_it(void) {
    char path[512];
    rp_message_store_options options;
    rp_consume_queue *queue;
    rp_message_store *store = open_compacting(path, &options, NEVER_MS, &queue);
    rp_commit_log *log = rp_message_store_commit_log(store);
    append_numbers(store, queue, 0, 30, 30);
    await_copied(store, queue);
    rp_compaction_log_lock_writer(rp_consume_queue_compacted(queue)); /* held as by a compaction; the copy is made again afterwards */
    CHECK(compacted_queue(store, "T") == queue); /* a change of the topic does not wait for a compaction */
    pthread_mutex_lock(&log->append_lock);
    CHECK(rp_consume_queue_clear(queue, NULL) == RP_OK);
    pthread_mutex_unlock(&log->append_lock);
    append_numbers(store, queue, 500, 540, 70);
    rp_compaction_log_unlock_writer(rp_consume_queue_compacted(queue));
    await_copied(store, queue);
    read_kept(queue, &kept);
    CHECK(kept.count == 40);
    for (int i = 0; i < 40; i++)
        CHECK(kept.offsets[i] == i && kept.numbers[i] == 500 + i);
    fixture_close(store);
    fixture_remove(path);
}

static void spoil(const char *path, int64_t at, size_t size) {
    int fd = open(path, O_RDWR);
    char garbage[256];
    memset(garbage, 0x7A, sizeof garbage);
    CHECK(fd >= 0 && pwrite(fd, garbage, size, at) == (ssize_t)size);
    close(fd);
}

static void entries_that_are_lost_are_made_anew(void) {
    char path[512], file[700];
    fixture_directory(path, sizeof path);
    rp_message_store_options options;
    compacting_options(&options, path, NEVER_MS);
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = compacted_queue(store, "T");
    append_numbers(store, queue, 0, 90, 90);
    await_copied(store, queue);
    fixture_close(store);
    int64_t size = segment_size(path);
    path_of(file, sizeof file, path, "compactionCq", "T", 0);
    CHECK(unlink(file) == 0);
    path_of(file, sizeof file, path, "compactionCq", "T", size);
    spoil(file, 5 * RP_COMPACTION_ENTRY_SIZE, RP_COMPACTION_ENTRY_SIZE);
    store = fixture_open(&options);
    queue = compacted_queue(store, "T");
    read_kept(queue, &kept);
    CHECK(kept.count == 90);
    fixture_close(store);
    path_of(file, sizeof file, path, "compactionLog", "T", 0); /* lost records are gone, but nothing else is */
    CHECK(unlink(file) == 0);
    store = fixture_open(&options);
    queue = compacted_queue(store, "T");
    read_kept(queue, &kept);
    CHECK(kept.count > 60 && kept.count < 90 && kept.numbers[kept.count - 1] == 89);
    path_of(file, sizeof file, path, "compactionCq", "T", 0);
    CHECK(!exists(file));
    fixture_close(store);
    fixture_remove(path);
}

/* The queue offsets of first and last entries give the order of segments. A wrong one must not cost this segment or those behind it. */
static void an_entry_that_is_wrong_takes_no_segment_with_it(void) {
    char path[512], name[700];
    rp_message_store_options options;
    rp_consume_queue *queue;
    const struct {
        int segment, entry;
        uint8_t spoiled; /* of its queue offset, or its position */
        int at;
    } flips[] = {{0, 19, 0x40, 34}, {1, 0, 0x10, 35},  {1, 5, 0x40, 34}, {1, 5, 0x10, 35},
                 {2, 0, 0x40, 34},  {2, 19, 0x20, 35}, {1, 5, 0x80, 0},  {2, 19, 0x40, 28}};
    rp_message_store *store = open_compacting(path, &options, NEVER_MS, &queue);
    append_numbers(store, queue, 0, 70, 70);
    await_copied(store, queue);
    fixture_close(store);
    int64_t size = segment_size(path);
    for (size_t i = 0; i < sizeof flips / sizeof flips[0]; i++) {
        uint8_t byte;
        path_of(name, sizeof name, path, "compactionCq", "T", flips[i].segment * size);
        int fd = open(name, O_RDWR);
        int64_t at = flips[i].entry * RP_COMPACTION_ENTRY_SIZE + flips[i].at;
        CHECK(fd >= 0 && pread(fd, &byte, 1, at) == 1);
        byte ^= flips[i].spoiled;
        CHECK(pwrite(fd, &byte, 1, at) == 1);
        close(fd);
        store = fixture_open(&options);
        queue = compacted_queue(store, "T");
        read_kept(queue, &kept); /* read before the thread copies anything again */
        fixture_close(store);
        CHECK(kept.count == 70);
        for (int number = 0; number < 70; number++)
            CHECK(kept.offsets[number] == number && kept.numbers[number] == number);
    }
    fixture_remove(path);
}

/* Nor does a record that is damaged. */
static void a_record_that_is_damaged_takes_no_segment_with_it(void) {
    char path[512], name[700];
    rp_message_store_options options;
    rp_consume_queue *queue;
    rp_message_store *store = open_compacting(path, &options, NEVER_MS, &queue);
    append_numbers(store, queue, 0, 70, 70);
    await_copied(store, queue);
    fixture_close(store);
    path_of(name, sizeof name, path, "compactionLog", "T", segment_size(path));
    spoil(name, 88, 1);
    store = fixture_open(&options);
    rp_compaction_log *log = rp_consume_queue_compacted(compacted_queue(store, "T"));
    for (int64_t at = 0; at < 70; at++) {
        rp_compaction_entry entry;
        rp_compaction_segment *segment = rp_compaction_log_find(log, at);
        CHECK(segment != NULL);
        rp_compaction_segment_entry(segment, rp_compaction_segment_find(segment, at), &entry);
        CHECK(entry.queue_offset == at);
        rp_compaction_segment_release(segment);
    }
    fixture_close(store);
    fixture_remove(path);
}

static void a_deleted_topic_leaves_nothing(void) {
    char path[512], directory[700];
    fixture_directory(path, sizeof path);
    rp_message_store_options options;
    compacting_options(&options, path, OFTEN_MS);
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = compacted_queue(store, "T");
    append_numbers(store, queue, 0, 300, 10);
    await_copied(store, queue);
    rp_message_store_compact_no_more(store, fixture_slice("T"));
    CHECK(rp_consume_queue_compacted(queue) == NULL);
    CHECK(rp_message_store_delete_topic(store, fixture_slice("T"), NULL) == 0);
    snprintf(directory, sizeof directory, "%s/compaction/compactionLog/T", path);
    CHECK(!exists(directory));
    queue = compacted_queue(store, "T");
    read_kept(queue, &kept);
    CHECK(kept.count == 0);
    append_numbers(store, queue, 1000, 1030, 100);
    CHECK(rp_consume_queue_max_offset(queue) == 30);
    await_copied(store, queue);
    read_kept(queue, &kept);
    CHECK(kept.count == 30 && kept.offsets[0] == 0 && kept.numbers[0] == 1000);
    fixture_close(store);
    fixture_remove(path);
}

/* ---- what a slave's log begins too late for ---- */

/* The records of a compacted log in [from, to), as a pull's answer holds them. */
static uint32_t answer_of(rp_consume_queue *queue, int64_t from, int64_t to, uint8_t *bytes, uint32_t room) {
    uint32_t size = 0;
    for (rp_compaction_segment *segment; (segment = rp_compaction_log_find(rp_consume_queue_compacted(queue), from)) != NULL;) {
        rp_compaction_entry entry;
        rp_compaction_segment_entry(segment, rp_compaction_segment_find(segment, from), &entry);
        rp_slice record = rp_compaction_segment_record(segment, &entry);
        from = entry.queue_offset < to ? entry.queue_offset + 1 : INT64_MAX;
        if (from != INT64_MAX) {
            CHECK(size + record.size <= room);
            memcpy(bytes + size, record.data, record.size);
            size += record.size;
        }
        rp_compaction_segment_release(segment);
    }
    return size;
}

/* A store without what was kept, whose log begins with its last files. */
static void make_latecomer(const char *path) {
    char directory[600];
    snprintf(directory, sizeof directory, "%s/compaction", path);
    fixture_remove(directory);
}

/* Retention takes the log's first file, once its messages have been copied. */
static void expire_first_file(rp_message_store *store) {
    rp_commit_log *log = rp_message_store_commit_log(store);
    CHECK(rp_message_store_wait_flushed(store, rp_commit_log_max_offset(log), 60000) == RP_OK);
    int64_t begun_ns = rp_clock_monotonic_ns(rp_clock_system());
    while (rp_message_store_expire_file(store, NULL) != RP_OK) {
        CHECK(!is_late(begun_ns));
        poll(NULL, 0, 1);
    }
}

static void the_only_gap_is(rp_message_store *store, const rp_consume_queue *queue, int64_t from, int64_t to) {
    uint32_t cursor = 0;
    int64_t gap_from, gap_to;
    rp_consume_queue *waiting;
    CHECK(rp_message_store_next_gap(store, &cursor, &waiting, &gap_from, &gap_to) == 1);
    CHECK(waiting == queue && gap_from == from && gap_to == to);
    CHECK(rp_message_store_next_gap(store, &cursor, &waiting, &gap_from, &gap_to) == 0);
}

static void there_is_no_gap(rp_message_store *store) {
    uint32_t cursor = 0;
    int64_t from, to;
    rp_consume_queue *waiting;
    CHECK(rp_message_store_next_gap(store, &cursor, &waiting, &from, &to) == 0);
}

static void a_latecomer_is_given_what_its_master_kept(void) {
    char path[512];
    static uint8_t bytes[64 * 1024];
    fixture_directory(path, sizeof path);
    rp_message_store_options options;
    compacting_options(&options, path, NEVER_MS);
    options.commit_log_file_size = 16 * 1024;
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = compacted_queue(store, "T");
    append_numbers(store, queue, 0, 300, 300);
    await_copied(store, queue);
    expire_first_file(store);
    int64_t min = rp_consume_queue_min_offset(queue);
    CHECK(min > 20 && min < 200);
    uint32_t half = answer_of(queue, 0, min / 2, bytes, sizeof bytes), all = half;
    all += answer_of(queue, min / 2, min + 5, bytes + half, (uint32_t)sizeof bytes - half);
    fixture_close(store);
    make_latecomer(path);
    store = fixture_open(&options);
    rp_message_store_hold_gaps(store, 1);
    queue = compacted_queue(store, "T");
    rp_slice topic = fixture_slice("T");
    the_only_gap_is(store, queue, 0, min);
    CHECK(rp_message_store_fill_gap(store, topic, 0, (rp_slice){bytes + 1, half - 1}, 1, NULL) == RP_E_PROTOCOL);
    CHECK(rp_message_store_fill_gap(store, fixture_slice("U"), 0, (rp_slice){bytes, half}, 1, NULL) == RP_E_NOT_FOUND);
    CHECK(rp_message_store_fill_gap(store, topic, 0, (rp_slice){bytes, half}, min / 2, NULL) == RP_OK);
    the_only_gap_is(store, queue, min / 2, min);
    CHECK(rp_message_store_fill_gap(store, topic, 0, (rp_slice){bytes, all}, min + 5, NULL) == RP_OK);
    there_is_no_gap(store);
    await_copied(store, queue);
    read_kept(queue, &kept);
    CHECK(kept.count == 300);
    for (int i = 0; i < 300; i++)
        CHECK(kept.numbers[i] == i);
    /* The same for a log that begins late and has no message of the queue at all. */
    rp_message_store_compact_no_more(store, topic);
    CHECK(rp_message_store_delete_topic(store, topic, NULL) == 0);
    queue = compacted_queue(store, "T");
    the_only_gap_is(store, queue, 0, INT64_MAX);
    CHECK(rp_message_store_fill_gap(store, topic, 0, (rp_slice){bytes, half}, min / 2, NULL) == RP_OK);
    CHECK(rp_message_store_fill_gap(store, topic, 0, (rp_slice){NULL, 0}, INT64_MAX, NULL) == RP_OK);
    there_is_no_gap(store);
    read_kept(queue, &kept);
    CHECK(kept.count == min / 2 && rp_consume_queue_next_offset(queue) == min / 2); /* the next message continues there */
    fixture_close(store);
    fixture_remove(path);
}

/* ---- a queue that begins late ---- */

static _Thread_local rp_consume_queue *beginning; /* by this thread: the store's own make files too */
static int64_t seen_max;

static int allocate_looking(void *context, int fd, int64_t offset, int64_t size) {
    if (beginning != NULL)
        seen_max = rp_consume_queue_max_offset(beginning);
    return rp_file_ops_system()->allocate(context, fd, offset, size);
}

/* Otherwise the copy would be cut where its queue seems to end. */
static void a_queue_that_begins_behind_its_copy_has_no_end_before_that(void) {
    char path[512];
    fixture_directory(path, sizeof path);
    rp_file_ops ops = *rp_file_ops_system();
    ops.allocate = allocate_looking;
    rp_message_store_options options;
    compacting_options(&options, path, NEVER_MS);
    options.file_ops = &ops;
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "T", 0);
    rp_commit_log *log = rp_message_store_commit_log(store);
    pthread_mutex_lock(&log->append_lock);
    seen_max = -1;
    beginning = queue;
    CHECK(rp_consume_queue_start_at(queue, FIXTURE_QUEUE_FILE_ENTRIES + 7, NULL) == RP_OK);
    beginning = NULL;
    pthread_mutex_unlock(&log->append_lock);
    CHECK(seen_max == 0 && rp_consume_queue_min_offset(queue) == FIXTURE_QUEUE_FILE_ENTRIES + 7);
    CHECK(fixture_append(store, queue, FIXTURE_QUEUE_FILE_ENTRIES + 7) == RP_OK);
    CHECK(fixture_check(store, queue, FIXTURE_QUEUE_FILE_ENTRIES + 7) == 0);
    CHECK(rp_consume_queue_max_offset(queue) == FIXTURE_QUEUE_FILE_ENTRIES + 8);
    fixture_close(store);
    fixture_remove(path);
}

/* Messages that its own log no longer has come from the master. */
static void a_slave_that_is_cut_behind_what_was_compacted_asks_its_master(void) {
    char path[512];
    fixture_directory(path, sizeof path);
    rp_message_store_options options;
    compacting_options(&options, path, OFTEN_MS);
    options.commit_log_file_size = 16 * 1024;
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = compacted_queue(store, "T");
    append_numbers(store, queue, 0, 300, 4);
    await_copied(store, queue);
    await_kept(queue, 4 + 20, &kept);
    expire_first_file(store);
    int64_t min = rp_consume_queue_min_offset(queue);
    rp_queue_entry entry;
    CHECK(min > 20 && min < 200 && rp_consume_queue_read(queue, min + 4, &entry, 1) == 1);
    CHECK(rp_message_store_cut_at_open(store, entry.commit_log_offset, NULL) == RP_OK);
    fixture_close(store);
    store = fixture_open(&options);
    rp_message_store_hold_gaps(store, 1);
    queue = compacted_queue(store, "T");
    CHECK(rp_consume_queue_max_offset(queue) == min + 4);
    the_only_gap_is(store, queue, 0, min);
    CHECK(rp_message_store_fill_gap(store, fixture_slice("T"), 0, (rp_slice){NULL, 0}, min, NULL) == RP_OK);
    await_copied(store, queue);
    read_kept(queue, &kept);
    CHECK(kept.count == 4 && kept.offsets[0] == min);
    fixture_close(store);
    fixture_remove(path);
}

int main(void) {
    RUN(the_last_message_of_each_key_stays);
    RUN(a_message_without_a_body_deletes_its_key);
    RUN(a_map_that_is_full_leaves_the_rest_to_the_next_compaction);
    RUN(what_is_kept_outlives_the_commit_log);
    RUN(a_cut_log_takes_its_copies_with_it);
    RUN(a_cut_behind_what_was_compacted_takes_no_key_with_it);
    RUN(a_queue_that_begins_again_takes_its_copies_with_it);
    RUN(entries_that_are_lost_are_made_anew);
    RUN(an_entry_that_is_wrong_takes_no_segment_with_it);
    RUN(a_record_that_is_damaged_takes_no_segment_with_it);
    RUN(a_deleted_topic_leaves_nothing);
    RUN(a_latecomer_is_given_what_its_master_kept);
    RUN(a_queue_that_begins_behind_its_copy_has_no_end_before_that);
    RUN(a_slave_that_is_cut_behind_what_was_compacted_asks_its_master);
    return 0;
}
