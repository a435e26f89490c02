/* message_store_test.c: the store in one thread: append, read, roll over, restart, delete, bounds. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "../../../csrc/base/bytes_inl.h"
#include "../../../csrc/store/store_verify.h"
#include "check.h"
#include "store_fixture.h"

static void appended_messages_are_read_back_across_files_and_restarts(const char *path, int property_crc, int flush_mode) {
    rp_message_store_options options;
    fixture_options(&options, path);
    options.append_property_crc = property_crc;
    options.flush_mode = flush_mode;
    int64_t counts[3] = {0, 0, 0};
    for (int run = 0; run < 4; run++) {
        rp_message_store *store = fixture_open(&options);
        for (int32_t id = 0; id < 3; id++) {
            rp_consume_queue *queue = fixture_queue(store, "TopicTest", id);
            CHECK(rp_consume_queue_max_offset(queue) == counts[id]);
            for (int i = 0; i < 170 + 10 * id; i++) {
                CHECK(fixture_append(store, queue, counts[id]++) == RP_OK);
            }
            for (int64_t i = 0; i < counts[id]; i++) {
                CHECK(fixture_check(store, queue, i) == 0);
            }
            rp_queue_entry entries[400];
            CHECK(rp_consume_queue_read(queue, 0, entries, 400) == (counts[id] < 400 ? counts[id] : 400));
            CHECK(rp_consume_queue_read(queue, counts[id], entries, 1) == 0);
            CHECK(rp_consume_queue_read(queue, counts[id] + 1, entries, 1) == RP_E_RANGE);
            CHECK(rp_consume_queue_read(queue, -1, entries, 1) == RP_E_RANGE);
        }
        if (run == 2) {
            int64_t max = rp_commit_log_max_offset(rp_message_store_commit_log(store));
            CHECK(rp_message_store_wait_flushed(store, max, 60000) == RP_OK);
            CHECK(rp_commit_log_flushed_offset(rp_message_store_commit_log(store)) == max);
            CHECK(rp_message_store_wait_flushed(store, max + 1, 60000) == RP_E_RANGE);
        }
        fixture_close(store);
    }
}

static void a_lost_consume_queue_is_rebuilt(const char *path) {
    rp_message_store_options options;
    fixture_options(&options, path);
    char queue_path[4096];
    snprintf(queue_path, sizeof queue_path, "%s/consumequeue/TopicTest/1", path);
    fixture_remove(queue_path);
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "TopicTest", 1);
    CHECK(rp_consume_queue_max_offset(queue) == 4 * 180);
    for (int64_t i = 0; i < 4 * 180; i++) {
        CHECK(fixture_check(store, queue, i) == 0);
    }
    fixture_close(store);
}

/* As RocketMQ stops: its checkpoint has no counts. */
static void forget_our_counts(const char *path) {
    char name[4096];
    uint8_t zeros[3840] = {0};
    snprintf(name, sizeof name, "%s/checkpoint", path);
    int fd = open(name, O_RDWR);
    CHECK(fd >= 0 && pwrite(fd, zeros, sizeof zeros, 256) == (ssize_t)sizeof zeros);
    close(fd);
}

/* Of a cleanly stopped store: the first, a middle and the last file of a queue, with our checkpoint and with RocketMQ's. */
static void a_lost_file_of_a_consume_queue_is_rebuilt(const char *path) {
    rp_message_store_options options;
    fixture_options(&options, path);
    const int64_t lost[] = {0, 5, 14};
    for (int run = 0; run < 6; run++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/consumequeue/TopicTest/1/%020lld", path,
                 (long long)(lost[run % 3] * FIXTURE_QUEUE_FILE_ENTRIES * RP_CONSUME_QUEUE_ENTRY_SIZE));
        CHECK(unlink(name) == 0);
        if (run >= 3) {
            forget_our_counts(path);
        }
        rp_message_store *store = fixture_open(&options);
        for (int32_t id = 0; id < 3; id++) {
            rp_consume_queue *queue = fixture_queue(store, "TopicTest", id);
            int64_t count = 4 * (170 + 10 * id);
            CHECK(rp_consume_queue_min_offset(queue) == 0 && rp_consume_queue_max_offset(queue) == count);
            for (int64_t i = 0; i < count; i++) {
                CHECK(fixture_check(store, queue, i) == 0);
            }
        }
        fixture_close(store);
    }
}

static void a_lost_index_file_is_built_again(const char *path) {
    rp_message_store_options options;
    fixture_options(&options, path);
    char directory[4096], name[4096 + 300] = "";
    snprintf(directory, sizeof directory, "%s/index", path);
    rp_message_store *store = fixture_open(&options);
    int64_t before = fixture_found_by_key(store, "TopicTest");
    CHECK(before > 0);
    fixture_close(store);
    DIR *names = opendir(directory);
    struct dirent *entry;
    while ((entry = readdir(names)) != NULL) { /* the first by name */
        if (entry->d_name[0] != '.' && (name[0] == 0 || strcmp(entry->d_name, strrchr(name, '/') + 1) < 0)) {
            snprintf(name, sizeof name, "%s/%s", directory, entry->d_name);
        }
    }
    closedir(names);
    CHECK(unlink(name) == 0);
    store = fixture_open(&options);
    CHECK(fixture_found_by_key(store, "TopicTest") == before);
    fixture_close(store);
}

static _Atomic int index_syncs_fail;

static int moody_sync(void *context, int fd) {
    char link[64], path[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (atomic_load(&index_syncs_fail) && readlink(link, path, sizeof path - 1) > 0 && strstr(path, "/index/") != NULL) {
        errno = EIO;
        return -1;
    }
    return rp_file_ops_system()->sync_data(context, fd);
}

static void an_index_that_did_not_reach_the_disk_is_built_again(const char *path) {
    rp_message_store_options options;
    fixture_options(&options, path);
    rp_file_ops moody = *rp_file_ops_system(); /* whose other calls need no context */
    moody.sync_data = moody_sync;
    options.file_ops = &moody;
    rp_message_store *store = fixture_open(&options);
    int64_t before = fixture_found_by_key(store, "TopicTest");
    rp_consume_queue *queue = fixture_queue(store, "TopicTest", 0);
    for (int64_t i = 0; i < 10; i++) {
        CHECK(fixture_append(store, queue, i) == RP_OK);
    }
    CHECK(fixture_found_by_key(store, "TopicTest") == before + 10);
    atomic_store(&index_syncs_fail, 1);
    rp_error error = {0};
    CHECK(rp_message_store_close(store, &error) == RP_E_IO && strstr(error.file, "/index/") != NULL);
    char abort_mark[600];
    snprintf(abort_mark, sizeof abort_mark, "%s/abort", path);
    CHECK(access(abort_mark, F_OK) == 0); /* the next open does not trust what is there */
    atomic_store(&index_syncs_fail, 0);
    store = fixture_open(&options);
    CHECK(fixture_found_by_key(store, "TopicTest") == before + 10);
    fixture_close(store);
    CHECK(access(abort_mark, F_OK) != 0);
}

static void a_deleted_topic_starts_over(const char *path) {
    rp_message_store_options options;
    fixture_options(&options, path);
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "Short", 0);
    for (int64_t i = 0; i < 120; i++) {
        CHECK(fixture_append(store, queue, i) == RP_OK);
    }
    CHECK(rp_message_store_delete_topic(store, fixture_slice("Short"), NULL) == RP_OK);
    CHECK(rp_consume_queue_max_offset(queue) == 0);
    CHECK(fixture_queue(store, "Short", 0) == queue);
    CHECK(fixture_append(store, queue, 0) == RP_OK);
    CHECK(fixture_check(store, queue, 0) == 0);
    fixture_close(store);
    store = fixture_open(&options);
    CHECK(rp_consume_queue_max_offset(fixture_queue(store, "Short", 0)) == 1);
    fixture_close(store);
}

/* The process ends without closing its store, right behind the deletion and with one message of the topic made again. */
static void a_deleted_topic_stays_deleted_when_the_process_is_killed(const char *path) {
    rp_message_store_options options;
    fixture_options(&options, path);
    pid_t child = fork();
    if (child == 0) {
        rp_message_store *store = fixture_open(&options);
        for (int64_t i = 0; i < 100; i++) {
            for (int32_t id = 0; id < 2; id++) {
                CHECK(fixture_append(store, fixture_queue(store, "Killed", id), i) == RP_OK);
            }
        }
        CHECK(rp_message_store_delete_topic(store, fixture_slice("Killed"), NULL) == RP_OK);
        CHECK(fixture_append(store, fixture_queue(store, "Killed", 0), 0) == RP_OK);
        _exit(0);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    rp_message_store *store = fixture_open(&options);
    CHECK(rp_consume_queue_max_offset(fixture_queue(store, "Killed", 0)) == 1);
    CHECK(fixture_check(store, fixture_queue(store, "Killed", 0), 0) == 0);
    CHECK(rp_message_store_queue(store, fixture_slice("Killed"), 1, 0, NULL) == NULL);
    fixture_close(store);
}

static void a_deleted_topic_whose_messages_end_the_log_stays_deleted_after_a_clean_stop(const char *path) {
    rp_message_store_options options;
    fixture_options(&options, path);
    rp_message_store *store = fixture_open(&options);
    CHECK(fixture_append(store, fixture_queue(store, "Kept", 0), 0) == RP_OK);
    for (int64_t i = 0; i < 100; i++) {
        CHECK(fixture_append(store, fixture_queue(store, "Last", 0), i) == RP_OK);
    }
    int64_t end = rp_commit_log_max_offset(rp_message_store_commit_log(store));
    CHECK(rp_message_store_delete_topic(store, fixture_slice("Last"), NULL) == RP_OK);
    fixture_close(store);
    store = fixture_open(&options);
    CHECK(rp_message_store_queue(store, fixture_slice("Last"), 0, 0, NULL) == NULL);
    CHECK(rp_commit_log_max_offset(rp_message_store_commit_log(store)) == end);
    CHECK(fixture_check(store, fixture_queue(store, "Kept", 0), 0) == 0);
    fixture_close(store);
}

/* The log's last files hold messages of both topics' first lives. */
static void deleted_topics_stay_deleted_after_rocketmq_stopped_where_one_was_made_again(const char *path) {
    enum { BEFORE = 20, AFTER = 5 };
    rp_message_store_options options;
    fixture_options(&options, path);
    rp_message_store *store = fixture_open(&options);
    for (int64_t i = 0; i < BEFORE; i++) {
        CHECK(fixture_append(store, fixture_queue(store, "Gone", 0), i) == RP_OK);
        CHECK(fixture_append(store, fixture_queue(store, "Again", 0), i) == RP_OK);
    }
    CHECK(rp_message_store_delete_topic(store, fixture_slice("Gone"), NULL) == RP_OK);
    CHECK(rp_message_store_delete_topic(store, fixture_slice("Again"), NULL) == RP_OK);
    for (int64_t i = 0; i < AFTER; i++) {
        CHECK(fixture_append(store, fixture_queue(store, "Again", 0), i) == RP_OK);
    }
    fixture_close(store);
    forget_our_counts(path);
    store = fixture_open(&options);
    CHECK(rp_message_store_queue(store, fixture_slice("Gone"), 0, 0, NULL) == NULL);
    rp_consume_queue *again = fixture_queue(store, "Again", 0);
    CHECK(rp_consume_queue_max_offset(again) == AFTER);
    for (int64_t i = 0; i < AFTER; i++) {
        CHECK(fixture_check(store, again, i) == 0);
    }
    fixture_close(store);
}

static void queues_with_messages_behind_an_offset_of_the_log_stay(const char *path) {
    rp_message_store_options options;
    fixture_options(&options, path);
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *old = fixture_queue(store, "Again", 0), *both = fixture_queue(store, "Again", 1),
                     *other = fixture_queue(store, "O", 0);
    CHECK(fixture_append(store, old, 0) == RP_OK && fixture_append(store, both, 0) == RP_OK && fixture_append(store, other, 0) == RP_OK);
    int64_t deleted_at = rp_commit_log_max_offset(rp_message_store_commit_log(store));
    CHECK(fixture_append(store, both, 1) == RP_OK);
    CHECK(rp_message_store_delete_topic_before(store, fixture_slice("Again"), deleted_at, NULL) == 1);
    CHECK(rp_consume_queue_max_offset(old) == 0 && rp_consume_queue_max_offset(both) == 2 && rp_consume_queue_max_offset(other) == 1);
    CHECK(fixture_check(store, both, 1) == 0);
    CHECK(rp_message_store_delete_topic_before(store, fixture_slice("Again"), INT64_MAX, NULL) == RP_OK);
    CHECK(rp_consume_queue_max_offset(both) == 0);
    fixture_close(store);
}

static void queues_of_deleted_topics_make_room_for_others(const char *path) {
    enum { QUEUES = 3, TOPICS = 20 };
    rp_message_store_options options;
    fixture_options(&options, path);
    options.queues_max = QUEUES;
    rp_message_store *store = fixture_open(&options);
    for (int topic = 0; topic < TOPICS; topic++) {
        char name[16];
        rp_error error = {0};
        snprintf(name, sizeof name, "Topic%d", topic);
        for (int32_t id = 0; id < QUEUES; id++) {
            CHECK(fixture_append(store, fixture_queue(store, name, id), 0) == RP_OK);
        }
        CHECK(rp_message_store_queue(store, fixture_slice(name), QUEUES, 1, &error) == NULL && error.status == RP_E_BUSY);
        CHECK(rp_message_store_delete_topic(store, fixture_slice(name), NULL) == RP_OK);
    }
    fixture_close(store);
}

static void queues_on_disk_are_read_also_past_the_limit(const char *path) {
    enum { QUEUES = 5 };
    rp_message_store_options options;
    fixture_options(&options, path);
    rp_message_store *store = fixture_open(&options);
    for (int32_t id = 0; id < QUEUES; id++) {
        CHECK(fixture_append(store, fixture_queue(store, "Many", id), 0) == RP_OK);
    }
    fixture_close(store);
    options.queues_max = QUEUES - 1;
    store = fixture_open(&options);
    for (int32_t id = 0; id < QUEUES; id++) {
        CHECK(fixture_check(store, fixture_queue(store, "Many", id), 0) == 0);
    }
    rp_error error = {0};
    CHECK(rp_message_store_queue(store, fixture_slice("Many"), QUEUES, 1, &error) == NULL && error.status == RP_E_BUSY);
    fixture_close(store);
}

static void new_queues_leave_maps_for_everything_else(const char *path) {
    enum { QUEUES = 3 };
    rp_message_store_options options;
    fixture_options(&options, path);
    options.queue_files_max = QUEUES;
    for (int start = 0; start < 2; start++) {
        rp_message_store *store = fixture_open(&options);
        rp_error error = {0};
        for (int32_t id = 0; id < QUEUES; id++) {
            rp_consume_queue *queue = fixture_queue(store, "Some", id);
            CHECK(rp_message_store_prepare_queue(store, queue, NULL) == RP_OK && fixture_append(store, queue, 0) == RP_OK);
        }
        rp_consume_queue *further = fixture_queue(store, "Further", 0);
        CHECK(rp_message_store_prepare_queue(store, further, &error) == RP_E_IO && error.os_errno == ENOMEM);
        CHECK(strstr(error.message, "vm.max_map_count") != NULL && strstr(error.file, "Further") != NULL);
        CHECK(rp_message_store_prepare_queue(store, further, NULL) == RP_E_IO);
        /* Who asks for no leave goes on: a master's messages, and what recovery finds. */
        CHECK(fixture_append(store, further, 0) == RP_OK);
        CHECK(rp_message_store_delete_topic(store, fixture_slice("Further"), NULL) == RP_OK);
        CHECK(rp_message_store_delete_topic(store, fixture_slice("Some"), NULL) == RP_OK);
        for (int32_t id = 0; id < QUEUES; id++) {
            rp_consume_queue *queue = fixture_queue(store, "Other", id);
            CHECK(rp_message_store_prepare_queue(store, queue, NULL) == RP_OK && fixture_append(store, queue, 0) == RP_OK);
        }
        CHECK(rp_message_store_prepare_queue(store, fixture_queue(store, "Other", QUEUES), NULL) == RP_E_IO);
        fixture_close(store);
        store = fixture_open(&options); /* files that are not mapped yet count: they may be at any time */
        CHECK(rp_message_store_prepare_queue(store, fixture_queue(store, "Another", 0), NULL) == RP_E_IO);
        CHECK(rp_message_store_prepare_queue(store, fixture_queue(store, "Other", 0), NULL) == RP_OK);
        CHECK(rp_message_store_delete_topic(store, fixture_slice("Other"), NULL) == RP_OK);
        fixture_close(store);
    }
}

static void limits_are_refused_without_a_trace(const char *path) {
    rp_message_store_options options;
    fixture_options(&options, path);
    options.message_size_max = 100000;
    rp_message_store *store = fixture_open(&options);
    rp_commit_log *log = rp_message_store_commit_log(store);
    rp_consume_queue *queue = fixture_queue(store, "Limits", 0);
    int64_t before = rp_commit_log_max_offset(log);
    char *large = calloc(1, 100001), *properties = malloc(40000);
    memset(properties, 'p', 40000);
    rp_append_item items[3] = {fixture_item(queue, large, 100001), fixture_item(queue, large, FIXTURE_LOG_FILE_SIZE),
                               fixture_item(queue, large, 10)};
    items[2].properties[0] = (rp_slice){(const uint8_t *)properties, 32768};
    items[2].properties[1].size = 0;
    CHECK(rp_commit_log_append(log, items, 3) == 0);
    CHECK(items[0].status == RP_E_TOO_LARGE && items[1].status == RP_E_TOO_LARGE && items[2].status == RP_E_TOO_LARGE);
    CHECK(rp_commit_log_max_offset(log) == before && rp_consume_queue_max_offset(queue) == 0);
    items[2].properties[0].size = 32767;
    CHECK(rp_commit_log_append(log, &items[2], 1) == 1);
    const char *bad_names[] = {"", ".", "..", "a/b", "../../etc"};
    for (size_t i = 0; i < sizeof bad_names / sizeof *bad_names; i++) {
        rp_error error = {0};
        CHECK(rp_message_store_queue(store, fixture_slice(bad_names[i]), 0, 1, &error) == NULL && error.status == RP_E_INVALID);
    }
    CHECK(rp_message_store_queue(store, fixture_slice("Limits"), -1, 1, NULL) == NULL);
    CHECK(rp_message_store_queue(store, fixture_slice("Absent"), 0, 0, NULL) == NULL);
    free(large);
    free(properties);
    fixture_close(store);
}

static int not_of_a_light_queue(void *context, const rp_damage_row *damage) {
    (void)context;
    CHECK(strstr(damage->file, "%LMQ%") == NULL);
    return 0;
}

/* As RocketMQ with enableLmq leaves them: a queue of another name whose entries point at messages of a topic. */
static void light_queues_of_rocketmq_are_kept_and_go_on(const char *path) {
    enum { MESSAGES = 10, ENTERED = 6 };
    char file_path[600], other[600], properties[100];
    uint8_t entries[FIXTURE_QUEUE_FILE_ENTRIES * RP_CONSUME_QUEUE_ENTRY_SIZE] = {0};
    rp_append_item items[MESSAGES];
    rp_message_store_options options;
    fixture_options(&options, path);
    rp_message_store *store = fixture_open(&options);
    for (int i = 0; i < MESSAGES; i++) {
        items[i] = fixture_item(fixture_queue(store, "Light", 1), "light", 5);
        snprintf(properties, sizeof properties, "INNER_MULTI_DISPATCH\1%%LMQ%%absent,%%LMQ%%one\2INNER_MULTI_QUEUE_OFFSET\1%d,%d\2", 7, i);
        items[i].properties[2] = fixture_slice(properties);
        CHECK(rp_commit_log_append(rp_message_store_commit_log(store), &items[i], 1) == 1);
        rp_put_u64(entries + i * 20, i < ENTERED ? (uint64_t)items[i].commit_log_offset : 0);
        rp_put_u32(entries + i * 20 + 8, i < ENTERED ? items[i].size : 0);
    }
    fixture_close(store);
    snprintf(file_path, sizeof file_path, "%s/consumequeue/%%LMQ%%one", path);
    CHECK(mkdir(file_path, 0755) == 0);
    snprintf(file_path, sizeof file_path, "%s/consumequeue/%%LMQ%%one/0", path);
    CHECK(mkdir(file_path, 0755) == 0);
    snprintf(file_path, sizeof file_path, "%s/consumequeue/%%LMQ%%one/0/%020d", path, 0);
    int fd = open(file_path, O_RDWR | O_CREAT, 0644);
    CHECK(pwrite(fd, entries, sizeof entries, 0) == sizeof entries && close(fd) == 0);
    for (int round = 0; round < 3; round++) {
        if (round == 2) { /* after a crash, with all of the log to dispatch */
            snprintf(other, sizeof other, "%s/checkpoint", path);
            CHECK(unlink(other) == 0);
            snprintf(other, sizeof other, "%s/abort", path);
            close(open(other, O_RDWR | O_CREAT, 0644));
        }
        store = fixture_open(&options);
        CHECK(rp_consume_queue_max_offset(fixture_queue(store, "Light", 1)) == MESSAGES);
        CHECK(rp_message_store_queue(store, fixture_slice("%LMQ%absent"), 0, 0, NULL) == NULL);
        rp_consume_queue *light = rp_message_store_queue(store, fixture_slice("%LMQ%one"), 0, 0, NULL);
        CHECK(light != NULL && rp_consume_queue_max_offset(light) == MESSAGES);
        for (int i = 0; i < MESSAGES; i++) {
            rp_queue_entry entry;
            CHECK(rp_consume_queue_read(light, i, &entry, 1) == 1 && entry.commit_log_offset == items[i].commit_log_offset);
        }
        fixture_close(store);
    }
    rp_verify_options verify;
    rp_verify_counts counts;
    rp_verify_options_default(&verify);
    verify.root_path = path;
    verify.index_shape = (rp_index_shape){options.index_slot_count, options.index_entry_count_max};
    verify.visit = not_of_a_light_queue;
    CHECK(rp_store_verify(&verify, &counts, NULL) == RP_OK && counts.messages >= MESSAGES);
}

static void halves_of_transactions_enter_no_queue(const char *path) {
    rp_message_store_options options;
    fixture_options(&options, path);
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "Transactions", 0);
    rp_append_item items[4];
    int32_t types[4] = {RP_SYSFLAG_TRANSACTION_PREPARED, RP_SYSFLAG_TRANSACTION_COMMIT, RP_SYSFLAG_TRANSACTION_ROLLBACK, 0};
    for (int i = 0; i < 4; i++) {
        items[i] = fixture_item(queue, "half", 4);
        items[i].sys_flag = types[i];
    }
    CHECK(rp_commit_log_append(rp_message_store_commit_log(store), items, 4) == 4);
    CHECK(rp_consume_queue_max_offset(queue) == 2);
    CHECK(items[0].queue_offset == 0 && items[1].queue_offset == 0 && items[2].queue_offset == 0 && items[3].queue_offset == 1);
    fixture_close(store);
    store = fixture_open(&options);
    CHECK(rp_consume_queue_max_offset(fixture_queue(store, "Transactions", 0)) == 2);
    fixture_close(store);
}

static void one_process_a_store(const char *path) {
    rp_message_store_options options;
    fixture_options(&options, path);
    rp_message_store *store = fixture_open(&options), *second = NULL;
    rp_error error = {0};
    CHECK(rp_message_store_open(&options, &second, &error) == RP_E_LOCKED);
    fixture_close(store);
    options.read_only = 1;
    store = fixture_open(&options);
    CHECK(fixture_check(store, rp_message_store_queue(store, fixture_slice("TopicTest"), 0, 0, NULL), 5) == 0);
    CHECK(fixture_append(store, rp_message_store_queue(store, fixture_slice("TopicTest"), 0, 0, NULL), 5) == RP_E_READ_ONLY);
    fixture_close(store);
}

typedef struct hand_clock {
    _Atomic int64_t wall_ms;
} hand_clock;

static int64_t hand_wall(void *context) { return atomic_load(&((hand_clock *)context)->wall_ms); }
static int64_t hand_monotonic(void *context) { return hand_wall(context) * 1000000; }

static void times_lead_to_offsets(const char *path) {
    hand_clock hand = {.wall_ms = 1000000};
    rp_clock clock = {.monotonic_ns = hand_monotonic, .wall_ms = hand_wall, .context = &hand};
    rp_message_store_options options;
    fixture_options(&options, path);
    options.clock = &clock;
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "Times", 0);
    CHECK(rp_consume_queue_earliest_time(queue) == -1);
    CHECK(rp_consume_queue_offset_by_time(queue, 5, 0) == 0);
    for (int64_t i = 0; i < 200; i++) { /* two messages share each time: 10,000,000, 10,002,000, … */
        atomic_store(&hand.wall_ms, 10000000 + i / 2 * 2000);
        CHECK(fixture_append(store, queue, i) == RP_OK);
    }
    CHECK(rp_consume_queue_earliest_time(queue) == 10000000);
    CHECK(rp_consume_queue_time_at(queue, 199) == 10000000 + 99 * 2000);
    CHECK(rp_consume_queue_time_at(queue, 200) == -1);
    CHECK(rp_consume_queue_offset_by_time(queue, 10002000, 0) == 2);
    CHECK(rp_consume_queue_offset_by_time(queue, 10002000, 1) == 3);
    CHECK(rp_consume_queue_offset_by_time(queue, 10003000, 0) == 4);
    CHECK(rp_consume_queue_offset_by_time(queue, 10003000, 1) == 3);
    CHECK(rp_consume_queue_offset_by_time(queue, 1, 0) == 0);
    CHECK(rp_consume_queue_offset_by_time(queue, 1, 1) == 0);
    CHECK(rp_consume_queue_offset_by_time(queue, 99999999, 0) == 200);
    CHECK(rp_consume_queue_offset_by_time(queue, 99999999, 1) == 199);
    fixture_close(store);
}

/* The system's files, but memory holds only what is not larger than the test says: entries, or records, too. */
typedef struct small_memory {
    rp_file_ops ops;
    _Atomic size_t size_max;
    _Atomic int looks;
} small_memory;

static int holds(void *context, const void *address, size_t size) {
    small_memory *memory = context;
    (void)address;
    memory->looks++;
    return size <= memory->size_max;
}

static void times_lead_to_offsets_without_the_disk_or_not_at_all(const char *path) {
    small_memory memory = {.ops = *rp_file_ops_system(), .size_max = SIZE_MAX};
    memory.ops.context = &memory;
    memory.ops.in_memory = holds;
    hand_clock hand = {.wall_ms = 1000000};
    rp_clock clock = {.monotonic_ns = hand_monotonic, .wall_ms = hand_wall, .context = &hand};
    rp_message_store_options options;
    fixture_options(&options, path);
    options.clock = &clock;
    options.file_ops = &memory.ops;
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "Times", 0);
    for (int64_t i = 0; i < 200; i++) {
        atomic_store(&hand.wall_ms, 10000000 + i / 2 * 2000);
        CHECK(fixture_append(store, queue, i) == RP_OK);
    }
    for (int64_t time_ms = 9999999; time_ms <= 10200001; time_ms += 1000) {
        for (int boundary = 0; boundary < 2; boundary++) {
            int64_t offset = rp_consume_queue_offset_by_time(queue, time_ms, boundary);
            memory.size_max = SIZE_MAX;
            memory.looks = 0;
            CHECK(rp_consume_queue_offset_by_time_in_memory(queue, time_ms, boundary) == offset);
            CHECK(memory.looks <= 200 / FIXTURE_QUEUE_FILE_ENTRIES + 1 + 8); /* at each file's entries together, and at one record of 256 */
            memory.size_max = RP_CONSUME_QUEUE_ENTRY_SIZE;
            CHECK(rp_consume_queue_offset_by_time_in_memory(queue, time_ms, boundary) == RP_E_BUSY);
            memory.size_max = 0;
            CHECK(rp_consume_queue_offset_by_time_in_memory(queue, time_ms, boundary) == RP_E_BUSY);
        }
    }
    queue = fixture_queue(store, "Empty", 0);
    CHECK(rp_consume_queue_offset_by_time_in_memory(queue, 5, 0) == 0);
    CHECK(rp_consume_queue_offset_by_time_in_memory(queue, 5, 1) == 0);
    fixture_close(store);
}

static void appended_messages_are_read_back_under_sync_flush(const char *path) {
    appended_messages_are_read_back_across_files_and_restarts(path, 1, RP_FLUSH_SYNC);
}

/* A store of its own. */
static void in_a_directory(void (*claim)(const char *path)) {
    char path[512];
    fixture_directory(path, sizeof path);
    claim(path);
    fixture_remove(path);
}

int main(void) {
    char path[512];
    fixture_directory(path, sizeof path);
    appended_messages_are_read_back_across_files_and_restarts(path, 0, RP_FLUSH_ASYNC);
    a_lost_consume_queue_is_rebuilt(path);
    a_lost_file_of_a_consume_queue_is_rebuilt(path);
    a_lost_index_file_is_built_again(path);
    an_index_that_did_not_reach_the_disk_is_built_again(path);
    a_deleted_topic_starts_over(path);
    a_deleted_topic_stays_deleted_when_the_process_is_killed(path);
    a_deleted_topic_whose_messages_end_the_log_stays_deleted_after_a_clean_stop(path);
    limits_are_refused_without_a_trace(path);
    halves_of_transactions_enter_no_queue(path);
    light_queues_of_rocketmq_are_kept_and_go_on(path);
    one_process_a_store(path);
    times_lead_to_offsets(path);
    fixture_remove(path);
    in_a_directory(queues_with_messages_behind_an_offset_of_the_log_stay);
    in_a_directory(queues_of_deleted_topics_make_room_for_others);
    in_a_directory(queues_on_disk_are_read_also_past_the_limit);
    in_a_directory(new_queues_leave_maps_for_everything_else);
    in_a_directory(deleted_topics_stay_deleted_after_rocketmq_stopped_where_one_was_made_again);
    in_a_directory(times_lead_to_offsets_without_the_disk_or_not_at_all);
    in_a_directory(appended_messages_are_read_back_under_sync_flush);
    return 0;
}
