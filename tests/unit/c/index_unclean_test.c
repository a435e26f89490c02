/* index_unclean_test.c: how much of an index is trusted after an unclean stop: no more than was on disk, whatever the clock said. */
#include <errno.h>
#include <fcntl.h>

#include "../../../csrc/store/checkpoint.h"
#include "../../../csrc/store/key_index.h"
#include "../../../csrc/store/store_lock.h"
#include "check.h"
#include "store_fixture.h"

#define START_MS 1700000000000LL
#define HEADER_SIZE 40
#define ONE_SLOT 1 /* one slot, so that all keys are in the same chain */

static rp_file_ops counting_ops;
static int directories_synced, directory_failures, fail_errno;

static int sync_directory(void *context, const char *path) {
    directories_synced++;
    if (directory_failures > 0) {
        directory_failures--;
        errno = fail_errno;
        return -1;
    }
    return rp_file_ops_system()->sync_directory(context, path);
}

static int read_failures;

static int64_t read_at(void *context, int fd, void *target, size_t size, int64_t offset) {
    if (read_failures > 0 && offset > 0) { /* reads of the header succeed */
        read_failures--;
        errno = EIO;
        return -1;
    }
    return rp_file_ops_system()->read_at(context, fd, target, size, offset);
}

static rp_key_index *open_index(const char *directory, int32_t last_exit_clean, int64_t synced_offset, int64_t synced_ms) {
    rp_key_index_options options;
    rp_key_index_options_default(&options);
    options.directory = directory;
    options.shape = (rp_index_shape){ONE_SLOT, 101};
    options.last_exit_clean = last_exit_clean;
    options.synced_offset = synced_offset;
    options.synced_time_ms = synced_ms;
    options.file_ops = &counting_ops;
    rp_key_index *index = NULL;
    CHECK(rp_key_index_open(&options, &index, NULL) == RP_OK);
    return index;
}

static void put(rp_key_index *index, int number, int64_t time_ms) {
    rp_error error;
    CHECK(rp_key_index_put(index, 100 + number, number * 1000, time_ms, &error) == RP_OK);
}

/* The first bytes of the last file. */
static void move_bytes(const char *directory, uint8_t *bytes, ssize_t size, int is_put) {
    char command[256], path[300] = "";
    snprintf(command, sizeof command, "ls '%s' | tail -n 1", directory);
    FILE *names = popen(command, "r");
    char name[64] = "";
    CHECK(names != NULL && fscanf(names, "%63s", name) == 1 && pclose(names) == 0);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && (is_put ? pwrite(fd, bytes, (size_t)size, 0) : pread(fd, bytes, (size_t)size, 0)) == size && close(fd) == 0);
}

/* The clock is set back to before the last sync. Entries made then look older than those that were synced, but are not on disk. */
static void a_clock_that_is_set_back_makes_nothing_safe(void) {
    char directory[512];
    fixture_directory(directory, sizeof directory);
    rp_key_index *index = open_index(directory, 1, -1, 0);
    rp_error error;
    put(index, 0, START_MS);
    CHECK(rp_key_index_sync(index, &error) == START_MS && rp_key_index_next_offset(index) == 0);
    put(index, 1, START_MS - 3600000);
    rp_key_index_close(index);
    index = open_index(directory, 0, 0, START_MS);
    CHECK(rp_key_index_file_count(index) == 0 && rp_key_index_next_offset(index) == -1);
    rp_key_index_close(index);
    fixture_remove(directory);
}

/* Of the entries after the sync the disk has the slots, but not the header. The synced entries of those slots could not be found. */
static void slots_that_know_more_than_the_header_cost_the_file(void) {
    char directory[512];
    uint8_t header[HEADER_SIZE];
    fixture_directory(directory, sizeof directory);
    rp_key_index *index = open_index(directory, 1, -1, 0);
    rp_error error;
    put(index, 0, START_MS);
    put(index, 1, START_MS);
    CHECK(rp_key_index_sync(index, &error) == START_MS);
    move_bytes(directory, header, sizeof header, 0);
    rp_key_index_close(index);
    index = open_index(directory, 0, 1000, START_MS);
    CHECK(rp_key_index_file_count(index) == 1 && rp_key_index_next_offset(index) == 1000); /* nothing came: it stays */
    rp_key_index_close(index);
    read_failures = 1;
    index = open_index(directory, 1, 1000, START_MS);
    CHECK(rp_key_index_file_count(index) == 1 && read_failures == 1); /* a clean stop is believed */
    read_failures = 0;
    put(index, 2, START_MS);
    rp_key_index_close(index);
    move_bytes(directory, header, sizeof header, 1);
    index = open_index(directory, 0, 1000, START_MS);
    CHECK(rp_key_index_file_count(index) == 0);
    rp_key_index_close(index);
    fixture_remove(directory);
}

static void slots_that_cannot_be_read_cost_the_file(void) {
    char directory[512];
    fixture_directory(directory, sizeof directory);
    rp_key_index *index = open_index(directory, 1, -1, 0);
    put(index, 0, START_MS);
    rp_key_index_close(index);
    read_failures = 1;
    index = open_index(directory, 0, 0, START_MS);
    CHECK(rp_key_index_file_count(index) == 0 && read_failures == 0);
    rp_key_index_close(index);
    fixture_remove(directory);
}

/* The disk has only the length of a file that was just made. The index would begin again at the log's start. */
static void a_file_without_entries_is_made_again(void) {
    char directory[512];
    uint8_t nothing[HEADER_SIZE + RP_INDEX_SLOT_SIZE] = {0};
    fixture_directory(directory, sizeof directory);
    rp_key_index *index = open_index(directory, 1, -1, 0);
    rp_error error;
    for (int i = 0; i < 100; i++)
        put(index, i, START_MS);
    CHECK(rp_key_index_sync(index, &error) == START_MS && rp_key_index_file_count(index) == 1);
    put(index, 100, START_MS);
    CHECK(rp_key_index_file_count(index) == 2);
    rp_key_index_close(index);
    move_bytes(directory, nothing, sizeof nothing, 1);
    index = open_index(directory, 0, 99000, START_MS);
    CHECK(rp_key_index_file_count(index) == 1 && rp_key_index_next_offset(index) == 99000);
    rp_key_index_close(index);
    fixture_remove(directory);
}

/* A file name lost in a power cut would leave a gap. So a sync must sync the directory before it says what is safe. */
static void names_of_new_files_are_synced(void) {
    char directory[512];
    fixture_directory(directory, sizeof directory);
    rp_key_index *index = open_index(directory, 1, -1, 0);
    rp_error error = {0};
    directories_synced = 0;
    put(index, 0, START_MS);
    CHECK(rp_key_index_sync(index, &error) == START_MS && directories_synced == 1);
    put(index, 1, START_MS);
    CHECK(rp_key_index_sync(index, &error) == START_MS && directories_synced == 1);
    for (int i = 2; i < 102; i++)
        put(index, i, START_MS);
    directory_failures = 1;
    fail_errno = EMFILE;
    CHECK(rp_key_index_sync(index, &error) == RP_E_BUSY && error.os_errno == EMFILE);
    CHECK(rp_key_index_sync(index, &error) == START_MS && directories_synced == 3);
    for (int i = 102; i < 202; i++)
        put(index, i, START_MS);
    directory_failures = 1;
    fail_errno = EIO;
    CHECK(rp_key_index_sync(index, &error) == RP_E_IO && error.os_errno == EIO);
    CHECK(rp_key_index_sync(index, &error) == RP_E_IO && directories_synced == 4);
    rp_key_index_close(index);
    fixture_remove(directory);
}

static void read_checkpoint(const char *root, rp_checkpoint *checkpoint) {
    char path[600];
    snprintf(path, sizeof path, "%s/checkpoint", root);
    CHECK(rp_checkpoint_read(rp_file_ops_system(), path, checkpoint, NULL) == RP_OK && checkpoint->is_exact);
}

/* A rebuilt index is not on disk yet. After a second unclean stop it must not be taken for safe. */
static void an_index_that_is_built_again_is_not_safe_at_once(void) {
    char path[512], command[700], mark[600];
    rp_message_store_options options;
    rp_checkpoint checkpoint;
    fixture_directory(path, sizeof path);
    fixture_options(&options, path);
    options.index_enable = 1;
    rp_message_store *store = fixture_open(&options);
    for (int64_t i = 0; i < 10; i++)
        CHECK(fixture_append(store, fixture_queue(store, "T", 0), i) == RP_OK);
    rp_queue_entry last;
    CHECK(rp_consume_queue_read(fixture_queue(store, "T", 0), 9, &last, 1) == 1);
    fixture_close(store);
    read_checkpoint(path, &checkpoint);
    CHECK(checkpoint.index_offset == last.commit_log_offset && checkpoint.index_time_ms > 0);
    snprintf(command, sizeof command, "rm -r '%s/index'", path);
    snprintf(mark, sizeof mark, "%s/abort", path);
    CHECK(system(command) == 0 && rp_abort_mark_set(rp_file_ops_system(), mark, path, NULL) == RP_OK);
    store = fixture_open(&options);
    read_checkpoint(path, &checkpoint);
    CHECK(checkpoint.index_offset == -1 && checkpoint.index_time_ms == 0);
    fixture_close(store);
    read_checkpoint(path, &checkpoint);
    CHECK(checkpoint.index_offset == last.commit_log_offset && checkpoint.index_time_ms > 0);
    fixture_remove(path);
}

int main(void) {
    counting_ops = *rp_file_ops_system();
    counting_ops.sync_directory = sync_directory;
    counting_ops.read_at = read_at;
    RUN(a_clock_that_is_set_back_makes_nothing_safe);
    RUN(slots_that_know_more_than_the_header_cost_the_file);
    RUN(slots_that_cannot_be_read_cost_the_file);
    RUN(a_file_without_entries_is_made_again);
    RUN(names_of_new_files_are_synced);
    RUN(an_index_that_is_built_again_is_not_safe_at_once);
    return 0;
}
