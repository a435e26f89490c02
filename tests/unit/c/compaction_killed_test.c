/* compaction_killed_test.c: a process that is killed at each call that its compactions make of the file system loses no message. */
#include <sys/wait.h>

#include "compaction_fixture.h"

#if defined(__SANITIZE_THREAD__)
#define STEP 7 /* a fork costs a second there, and the call it dies at shows nothing about threads */
#else
#define STEP 1
#endif
#define MESSAGES 100
#define KEYS 10
#define CALLS_MAX 500
#define KILLED 9

static rp_file_ops killing_ops;
static int calls_left; /* of the child, whose other threads are not in compaction/ */

static void count_down(const char *path) {
    if (strstr(path, "/compaction/") != NULL && calls_left-- == 0)
        _exit(KILLED);
}

static int open_killing(void *context, const char *path, int flags, uint32_t mode) {
    count_down(path);
    return rp_file_ops_system()->open(context, path, flags, mode);
}

static int rename_killing(void *context, const char *source, const char *target) {
    count_down(source);
    return rp_file_ops_system()->rename(context, source, target);
}

static int unlink_killing(void *context, const char *path) {
    count_down(path);
    return rp_file_ops_system()->unlink(context, path);
}

static int sync_directory_killing(void *context, const char *path) {
    count_down(path);
    return rp_file_ops_system()->sync_directory(context, path);
}

static kept_messages kept;

/* The child: compacts until nothing is left to do, or is killed. */
static void compact_all(const rp_message_store_options *options) {
    rp_message_store *store = fixture_open(options);
    rp_consume_queue *queue = compacted_queue(store, "T");
    await_copied(store, queue);
    await_kept(queue, KEYS + 20, &kept);
    fixture_close(store);
}

static int child_is_killed(rp_message_store_options *options, int calls) {
    calls_left = calls;
    pid_t child = fork();
    if (child == 0) {
        options->file_ops = &killing_ops;
        options->compaction_interval_ms = OFTEN_MS;
        compact_all(options);
        _exit(0);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == KILLED);
    return WEXITSTATUS(status) == KILLED;
}

/* A store whose queue has not been compacted yet. */
static void fill(const rp_message_store_options *options) {
    rp_message_store *store = fixture_open(options);
    rp_consume_queue *queue = compacted_queue(store, "T");
    append_numbers(store, queue, 0, MESSAGES, KEYS);
    await_copied(store, queue);
    fixture_close(store);
}

static void copy_store(const char *from, const char *to) {
    char command[1200];
    fixture_remove(to);
    snprintf(command, sizeof command, "cp -a %s %s", from, to);
    CHECK(system(command) == 0);
}

/* The store as it was left: nothing is missing, nothing twice, and it goes on. */
static void check_store(const rp_message_store_options *options) {
    rp_message_store *store = fixture_open(options);
    rp_consume_queue *queue = compacted_queue(store, "T");
    read_kept(queue, &kept);
    CHECK(has_last_of_each(&kept, MESSAGES, KEYS));
    append_numbers(store, queue, MESSAGES, MESSAGES + KEYS, KEYS);
    await_copied(store, queue);
    read_kept(queue, &kept);
    CHECK(has_last_of_each(&kept, MESSAGES + KEYS, KEYS));
    fixture_close(store);
}

/* At each call in turn, or each STEP-th; who opens the store next is killed, too, somewhere on its way. */
static void every_kill_is_survived(void) {
    char path[512], work[600];
    fixture_directory(path, sizeof path);
    snprintf(work, sizeof work, "%s.work", path);
    rp_message_store_options options;
    compacting_options(&options, path, NEVER_MS);
    fill(&options);
    int killed = 0, is_killed = 1;
    for (int calls = 0; is_killed; calls += STEP) {
        copy_store(path, work);
        options.root_path = work;
        is_killed = child_is_killed(&options, calls);
        if (is_killed)
            (void)child_is_killed(&options, calls * 7 % 13);
        options.file_ops = NULL;
        options.compaction_interval_ms = NEVER_MS;
        check_store(&options);
        CHECK((killed += is_killed) < CALLS_MAX);
    }
    CHECK(killed > 10 / STEP);
    fixture_remove(work);
    fixture_remove(path);
}

int main(void) {
    killing_ops = *rp_file_ops_system();
    killing_ops.open = open_killing;
    killing_ops.rename = rename_killing;
    killing_ops.unlink = unlink_killing;
    killing_ops.sync_directory = sync_directory_killing;
    RUN(every_kill_is_survived);
    return 0;
}
