/* topic_deletion_killed_test.c: a process is killed before the n-th call by which its deletion of a topic changes the disk, n = 1, 2, …
 * until one completes. At the next start what is left of the queue can be read, and the store is whole. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "../../../csrc/store/store_verify.h"
#include "check.h"
#include "store_fixture.h"

enum { QUEUES = 2, CHECKPOINTED = 30, MESSAGES = 45, OVER = 7 }; /* one file a queue: among several the unlinks are no one step */

static _Atomic bool counts_calls, syncs_fail; /* the store's own threads look at them too */
static int64_t calls_left; /* the deleter's */
static pthread_t deleter;

static void count_call(void) {
    if (counts_calls && pthread_equal(pthread_self(), deleter) && --calls_left == 0) {
        _exit(0);
    }
}

static int64_t write_at(void *context, int fd, const void *source, size_t size, int64_t offset) {
    count_call();
    return rp_file_ops_system()->write_at(context, fd, source, size, offset);
}

static int sync_data(void *context, int fd) {
    count_call();
    return rp_file_ops_system()->sync_data(context, fd);
}

static int sync_range(void *context, int fd, void *address, int64_t offset, size_t size) {
    count_call();
    errno = EIO;
    return syncs_fail ? -1 : rp_file_ops_system()->sync_range(context, fd, address, offset, size);
}

static int unlink_file(void *context, const char *path) {
    count_call();
    return rp_file_ops_system()->unlink(context, path);
}

static rp_message_store *open_store(const char *path) {
    static rp_file_ops ops;
    ops = *rp_file_ops_system();
    ops.write_at = write_at;
    ops.sync_data = sync_data;
    ops.sync_range = sync_range;
    ops.unlink = unlink_file;
    rp_message_store_options options;
    fixture_options(&options, path);
    options.file_ops = &ops;
    options.index_enable = 0;
    fixture_never_flush(&options);
    return fixture_open(&options);
}

static void append_up_to(rp_message_store *store, int64_t end) {
    for (int32_t id = 0; id < QUEUES; id++) {
        rp_consume_queue *queue = fixture_queue(store, "Killed", id);
        for (int64_t i = rp_consume_queue_max_offset(queue); i < end; i++) {
            char body[512];
            rp_append_item item = fixture_item(queue, body, fixture_body(body, sizeof body, id, i));
            item.tags_code = rp_message_tags_code(item.properties[0]); /* what recovery puts into the queue has it */
            CHECK(rp_commit_log_append(rp_message_store_commit_log(store), &item, 1) == 1);
        }
    }
}

/* The child's exit code: 0 killed before the n-th call, OVER when there were fewer. */
static int delete_and_die(const char *path, int64_t n) {
    pid_t child = fork();
    if (child == 0) {
        rp_message_store *store = open_store(path);
        rp_error error = {0};
        append_up_to(store, CHECKPOINTED);
        CHECK(rp_message_store_delete_topic(store, fixture_slice("Other"), &error) == RP_OK); /* syncs log and queues */
        append_up_to(store, MESSAGES);
        deleter = pthread_self();
        calls_left = n;
        counts_calls = true;
        CHECK(rp_message_store_delete_topic(store, fixture_slice("Killed"), &error) == RP_OK);
        _exit(OVER);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int tell(void *context, const rp_damage_row *damage) {
    fprintf(stderr, "killed before call %lld: %s at %lld of %s\n", (long long)*(int64_t *)context, damage->cause, (long long)damage->offset,
            damage->file);
    return 0;
}

static void what_is_left_is_whole(const char *path, int64_t n) {
    rp_message_store_options options;
    fixture_options(&options, path);
    options.index_enable = 0;
    rp_message_store *store = fixture_open(&options);
    for (int32_t id = 0; id < QUEUES; id++) {
        rp_consume_queue *queue = rp_message_store_queue(store, fixture_slice("Killed"), id, 0, NULL);
        int64_t end = queue != NULL ? rp_consume_queue_max_offset(queue) : 0;
        CHECK(end == 0 || end == MESSAGES);
        for (int64_t i = 0; i < end; i++) {
            CHECK(fixture_check(store, queue, i) == 0);
        }
    }
    fixture_close(store);
    rp_verify_options verify;
    rp_verify_counts counts;
    rp_verify_options_default(&verify);
    verify.root_path = path;
    verify.visit = tell;
    verify.context = &n;
    CHECK(rp_store_verify(&verify, &counts, NULL) == RP_OK && counts.damages == 0 && counts.messages == QUEUES * MESSAGES);
}

static void a_killed_deletion_leaves_no_damage(void) {
    for (int64_t n = 1, code = 0; code != OVER; n++) {
        char path[400];
        fixture_directory(path, sizeof path);
        code = delete_and_die(path, n);
        CHECK(code == 0 || (code == OVER && n > 2 + QUEUES)); /* at least a sync, a checkpoint and each queue's file */
        what_is_left_is_whole(path, n);
        fixture_remove(path);
    }
}

static void a_topic_is_deleted_on_a_disk_that_fails_to_sync(void) {
    char path[400], topic[500];
    fixture_directory(path, sizeof path);
    snprintf(topic, sizeof topic, "%s/consumequeue/Killed", path);
    rp_message_store *store = open_store(path);
    rp_error error = {0};
    append_up_to(store, MESSAGES);
    syncs_fail = true;
    CHECK(access(topic, F_OK) == 0);
    CHECK(rp_message_store_delete_topic(store, fixture_slice("Killed"), &error) == RP_OK);
    CHECK(access(topic, F_OK) != 0 && rp_consume_queue_max_offset(fixture_queue(store, "Killed", 0)) == 0);
    CHECK(rp_message_store_close(store, &error) == RP_E_IO);
    syncs_fail = false;
    fixture_remove(path);
}

int main(void) {
    RUN(a_killed_deletion_leaves_no_damage);
    RUN(a_topic_is_deleted_on_a_disk_that_fails_to_sync);
    return 0;
}
