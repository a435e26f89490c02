/* compaction_killed_test.c: a process that is killed at any file system call of a compaction, or of rebuilding a copy, loses no message. */
#include <sys/wait.h>

#include "../../../csrc/store/store_verify.h"
#include "compaction_fixture.h"

#if defined(__SANITIZE_ADDRESS__)
#define STEP 7 /* a fork takes a second there; the run without a sanitizer tries every call */
#else
#define STEP 1
#endif
#define MESSAGES 100
#define KEYS 10
#define CALLS_MAX 500
#define KILLED 9
#define SOME_KEYS 4
#define ONLY_ONCE 36

static rp_file_ops killing_ops;
static int calls_left; /* of the child; its other threads do not touch compaction/ */

static void count_down(const char *path) {
    if (strstr(path, "/compaction/") != NULL && calls_left-- == 0)
        _exit(KILLED);
}

static int open_killing(void *context, const char *path, int flags, uint32_t mode) {
    count_down(path);
    return rp_file_ops_system()->open(context, path, flags, mode);
}

static int64_t write_killing(void *context, int fd, const void *source, size_t size, int64_t offset) {
    char name[64], path[600];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, path, sizeof path - 1);
    CHECK(length > 0);
    path[length] = 0;
    count_down(path);
    return rp_file_ops_system()->write_at(context, fd, source, size, offset);
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

static int look(void *context, const rp_damage_row *damage) {
    (void)context;
    if (strstr(damage->cause, "files of records are missing") != NULL)
        fprintf(stderr, "%s: %s\n", damage->file, damage->cause);
    CHECK(strstr(damage->cause, "files of records are missing") == NULL);
    return 0;
}

/* A kill takes none that the check of a store would look for. */
static void no_file_is_missing(const char *path) {
    rp_verify_options verify;
    rp_verify_counts counts;
    rp_verify_options_default(&verify);
    verify.root_path = path;
    verify.visit = look;
    CHECK(rp_store_verify(&verify, &counts, NULL) == RP_OK);
}

/* Checks the store as the kill left it: nothing is missing, nothing there twice, and it goes on. */
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

/* Kills at each call in turn, or at each STEP-th. The next process that opens the store is killed on its way, too. */
static void every_kill_is_survived(void) {
    char path[512], work[600];
    fixture_memory_directory(path, sizeof path);
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
        no_file_is_missing(work);
        options.file_ops = NULL;
        options.compaction_interval_ms = NEVER_MS;
        check_store(&options);
        CHECK((killed += is_killed) < CALLS_MAX);
    }
    CHECK(killed > 10 / STEP);
    fixture_remove(work);
    fixture_remove(path);
}

/* The child: copies until everything is copied, or is killed. */
static int copier_is_killed(rp_message_store_options *options, int calls) {
    calls_left = calls;
    pid_t child = fork();
    if (child == 0) {
        options->file_ops = &killing_ops;
        rp_message_store *store = fixture_open(options);
        await_copied(store, compacted_queue(store, "T"));
        fixture_close(store);
        _exit(0);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == KILLED);
    return WEXITSTATUS(status) == KILLED;
}

/* A store whose log is cut `left` messages behind the queue's first, in front of what was compacted. Returns that first one's offset. */
static int64_t fill_and_cut(rp_message_store_options *options, int expires, int64_t left) {
    options->compaction_interval_ms = OFTEN_MS;
    rp_message_store *store = fixture_open(options);
    rp_consume_queue *queue = compacted_queue(store, "T");
    append_numbers(store, queue, 0, ONLY_ONCE, 1000); /* of keys that stay, so that a file has messages on both sides of the cut */
    append_numbers(store, queue, ONLY_ONCE, 300, SOME_KEYS);
    await_copied(store, queue);
    await_kept(queue, ONLY_ONCE + 20, &kept);
    rp_commit_log *log = rp_message_store_commit_log(store);
    CHECK(rp_message_store_wait_flushed(store, rp_commit_log_max_offset(log), 60000) == RP_OK);
    int64_t begun_ns = rp_clock_monotonic_ns(rp_clock_system());
    while (expires && rp_message_store_expire_file(store, NULL) != RP_OK) {
        CHECK(!is_late(begun_ns));
        poll(NULL, 0, 1);
    }
    rp_queue_entry entry;
    int64_t min = rp_consume_queue_min_offset(queue);
    CHECK((min > 0) == expires && min + left < 200 && rp_consume_queue_read(queue, min + left, &entry, 1) == 1);
    CHECK(rp_message_store_cut_at_open(store, entry.commit_log_offset, NULL) == RP_OK);
    fixture_close(store);
    fixture_close(fixture_open(options)); /* cuts the log, and nobody copies */
    options->compaction_interval_ms = NEVER_MS;
    return min;
}

/* All that the log has is there, in order, and nothing of what was cut. */
static void check_anew(const rp_message_store_options *options, int64_t min, int64_t left) {
    rp_message_store *store = fixture_open(options);
    rp_consume_queue *queue = compacted_queue(store, "T");
    await_copied(store, queue);
    read_kept(queue, &kept);
    int below = 0;
    while (below < kept.count && kept.offsets[below] < min)
        below++;
    CHECK(kept.count == below + left);
    for (int i = 0; i < kept.count; i++)
        CHECK(kept.offsets[i] == kept.numbers[i] && (i < below || kept.offsets[i] == min + i - below));
    fixture_close(store);
}

static void every_kill_of_a_copy_made_anew_is_survived(int expires, int64_t left) {
    char path[512], work[600];
    fixture_memory_directory(path, sizeof path);
    snprintf(work, sizeof work, "%s.work", path);
    rp_message_store_options options;
    compacting_options(&options, path, OFTEN_MS);
    options.commit_log_file_size = 16 * 1024;
    int64_t min = fill_and_cut(&options, expires, left);
    int killed = 0, is_killed = 1;
    for (int calls = 0; is_killed; calls += STEP) {
        copy_store(path, work);
        options.root_path = work;
        is_killed = copier_is_killed(&options, calls);
        if (is_killed)
            (void)copier_is_killed(&options, calls * 7 % 13);
        no_file_is_missing(work);
        options.file_ops = NULL;
        check_anew(&options, min, left);
        CHECK((killed += is_killed) < CALLS_MAX);
    }
    CHECK(killed > 10 / STEP);
    fixture_remove(work);
    fixture_remove(path);
}

static void every_kill_of_a_whole_copy_is_survived(void) { every_kill_of_a_copy_made_anew_is_survived(0, 8); }
static void every_kill_of_a_copy_of_a_few_files_is_survived(void) { every_kill_of_a_copy_made_anew_is_survived(0, 24); }
static void every_kill_of_what_retention_left_is_survived(void) { every_kill_of_a_copy_made_anew_is_survived(1, 8); }

int main(void) {
    killing_ops = *rp_file_ops_system();
    killing_ops.write_at = write_killing;
    killing_ops.open = open_killing;
    killing_ops.rename = rename_killing;
    killing_ops.unlink = unlink_killing;
    killing_ops.sync_directory = sync_directory_killing;
    RUN(every_kill_is_survived);
    RUN(every_kill_of_a_whole_copy_is_survived);
    RUN(every_kill_of_a_copy_of_a_few_files_is_survived);
    RUN(every_kill_of_what_retention_left_is_survived);
    return 0;
}
