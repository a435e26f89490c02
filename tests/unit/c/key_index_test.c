/* key_index_test.c: keys find their messages, newest first, over several files, after a reopen, a cut and an unclean stop. */
#include "../../../csrc/store/key_index.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "../../../csrc/base/bytes_inl.h"
#include "../../../csrc/base/file_ops.h"
#include "../../../csrc/store/index_key.h"
#include "check.h"

#define START_MS 1700000000000LL

static rp_slice text(const char *value) { return (rp_slice){(const uint8_t *)value, (uint32_t)strlen(value)}; }

static rp_key_index *open_index_with(const rp_file_ops *ops, const char *directory, int last_exit_clean, int64_t synced_ms) {
    rp_key_index_options options;
    rp_key_index_options_default(&options);
    options.directory = directory;
    options.file_ops = ops;
    options.shape = (rp_index_shape){64, 101};
    options.last_exit_clean = last_exit_clean;
    options.synced_time_ms = synced_ms;
    rp_key_index *index = NULL;
    rp_error error;
    int status = rp_key_index_open(&options, &index, &error);
    if (status < 0)
        fprintf(stderr, "%s\n", error.message);
    CHECK(status == RP_OK);
    return index;
}

static rp_key_index *open_index(const char *directory, int last_exit_clean, int64_t synced_ms) {
    return open_index_with(NULL, directory, last_exit_clean, synced_ms);
}

/* Message i: unique key u<i>, keys "shared k<i>", one second apart, 1,000 bytes each. */
static void put(rp_key_index *index, int i) {
    char properties[128];
    snprintf(properties, sizeof properties, "UNIQ_KEY\1u%d\2KEYS\1shared k%d\2", i, i);
    rp_message message = {
        .physical_offset = i * 1000LL, .store_timestamp_ms = START_MS + i * 1000LL, .topic = text("T"), .properties = text(properties)};
    rp_error error;
    CHECK(rp_key_index_put_message(index, &message, &error) == RP_OK);
}

static uint32_t query(rp_key_index *index, const char *key, int64_t *offsets, uint32_t offsets_max) {
    return rp_key_index_query(index, text("T"), text(key), 0, INT64_MAX, offsets, offsets_max).found;
}

static void remove_directory(const char *directory) {
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", directory);
    CHECK(system(command) == 0);
}

static int sync_failures; /* to come */

static int moody_sync(void *context, int fd) {
    if (sync_failures > 0) {
        sync_failures--;
        errno = EIO;
        return -1;
    }
    return rp_file_ops_system()->sync_data(context, fd);
}

/* As RocketMQ 5.5 does it: TOPIC#T#TAGS, beside the keys and apart from them. */
static void tags_are_a_key_of_their_own(void) {
    char directory[] = "/tmp/rp-key-index-XXXXXX";
    CHECK(mkdtemp(directory) != NULL);
    rp_key_index *index = open_index(directory, 1, 0);
    const char *properties[] = {"UNIQ_KEY\1u0\2TAGS\1red\2", "TAGS\1red\2KEYS\1k\2", "TAGS\1a b\2KEYS\1red\2"};
    rp_error error;
    for (int i = 0; i < 3; i++) {
        rp_message message = {
            .physical_offset = i * 1000LL, .store_timestamp_ms = START_MS + i, .topic = text("T"), .properties = text(properties[i])};
        CHECK(rp_key_index_put_message(index, &message, &error) == RP_OK);
    }
    int64_t offsets[8];
    CHECK(query(index, "T#red", offsets, 8) == 2 && offsets[0] == 1000 && offsets[1] == 0);
    CHECK(query(index, "red", offsets, 8) == 1 && offsets[0] == 2000);
    CHECK(query(index, "T#a b", offsets, 8) == 1 && query(index, "T#a", offsets, 8) == 0); /* as a whole */
    CHECK(rp_index_tags_hash(text("T"), text("red")) == rp_index_key_hash(text("T"), text("T#red")));
    rp_key_index_close(index);
    remove_directory(directory);
}

/* The kernel forgets pages it could not write: a later sync that succeeds says nothing about them. */
static void a_failed_sync_is_never_followed_by_a_good_one(void) {
    char directory[] = "/tmp/rp-key-index-XXXXXX";
    CHECK(mkdtemp(directory) != NULL);
    rp_file_ops moody = *rp_file_ops_system(); /* whose other calls need no context */
    moody.sync_data = moody_sync;
    rp_key_index *index = open_index_with(&moody, directory, 1, 0);
    rp_error error;
    put(index, 0);
    CHECK(rp_key_index_sync(index, &error) == START_MS);
    put(index, 1);
    sync_failures = 1;
    for (int i = 2; i < 5; i++) {
        CHECK(rp_key_index_sync(index, &error) == RP_E_IO && error.os_errno == EIO && strstr(error.file, directory) != NULL);
        put(index, i);
    }
    CHECK(sync_failures == 0);
    rp_key_index_close(index);
    remove_directory(directory);
}

/* A kill between a file's making and its first length. */
static void a_file_without_length_is_removed(void) {
    char directory[] = "/tmp/rp-key-index-XXXXXX", path[64], aside[80];
    CHECK(mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/20990101000000000", directory);
    snprintf(aside, sizeof aside, "%s.damaged", path);
    FILE *empty = fopen(path, "w");
    CHECK(empty != NULL && fclose(empty) == 0);
    rp_key_index *index = open_index(directory, 0, 0);
    CHECK(access(path, F_OK) != 0 && access(aside, F_OK) != 0);
    put(index, 0);
    rp_key_index_close(index);
    remove_directory(directory);
}

/* The latest time there is: a query without bounds still finds what is there. */
static void a_damaged_time_in_the_header_hides_nothing(void) {
    char directory[] = "/tmp/rp-key-index-XXXXXX", pattern[64];
    uint8_t latest[8];
    glob_t found;
    CHECK(mkdtemp(directory) != NULL);
    rp_key_index *index = open_index(directory, 1, 0);
    for (int i = 0; i < 5; i++)
        put(index, i);
    rp_key_index_close(index);
    snprintf(pattern, sizeof pattern, "%s/*", directory);
    CHECK(glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1);
    int fd = open(found.gl_pathv[0], O_RDWR);
    rp_put_u64(latest, INT64_MAX - 500);
    CHECK(fd >= 0 && pwrite(fd, latest, sizeof latest, 0) == sizeof latest && close(fd) == 0);
    globfree(&found);
    index = open_index(directory, 1, 0);
    int64_t offsets[8];
    CHECK(query(index, "u3", offsets, 8) == 1 && offsets[0] == 3000 && query(index, "shared", offsets, 8) == 5);
    rp_key_index_close(index);
    remove_directory(directory);
}

static const int messages_put = 200; /* 600 entries, 100 a file: 6 files */

static void put_all(rp_key_index *index) {
    for (int i = 0; i < messages_put; i++)
        put(index, i);
}

static void keys_find_their_messages_newest_first_over_all_files(void) {
    char directory[] = "/tmp/rp-key-index-XXXXXX";
    CHECK(mkdtemp(directory) != NULL);
    rp_key_index *index = open_index(directory, 1, 0);
    CHECK(rp_key_index_next_offset(index) == -1);
    put_all(index);
    CHECK(rp_key_index_file_count(index) == 6);
    CHECK(rp_key_index_next_offset(index) == 199000);
    int64_t offsets[300];
    CHECK(query(index, "u7", offsets, 300) == 1 && offsets[0] == 7000);
    CHECK(query(index, "k199", offsets, 300) == 1 && offsets[0] == 199000);
    CHECK(query(index, "absent", offsets, 300) == 0);
    CHECK(query(index, "shared", offsets, 300) == 200 && offsets[0] == 199000 && offsets[199] == 0);
    CHECK(query(index, "shared", offsets, 5) == 5);
    rp_key_query part = rp_key_index_query(index, text("T"), text("shared"), START_MS + 10000, START_MS + 19000, offsets, 300);
    CHECK(part.found == 10 && offsets[0] == 19000 && part.last_update_offset == 199000);
    rp_key_index_close(index);
    remove_directory(directory);
}

static void a_message_that_was_rolled_back_is_not_found(void) {
    char directory[] = "/tmp/rp-key-index-XXXXXX";
    CHECK(mkdtemp(directory) != NULL);
    rp_key_index *index = open_index(directory, 1, 0);
    rp_message rolled_back = {
        .physical_offset = 900000, .sys_flag = RP_SYSFLAG_TRANSACTION_ROLLBACK, .topic = text("T"), .properties = text("KEYS\1gone\2")};
    rp_error error;
    int64_t offsets[8];
    CHECK(rp_key_index_put_message(index, &rolled_back, &error) == RP_OK && query(index, "gone", offsets, 8) == 0);
    rp_key_index_close(index);
    remove_directory(directory);
}

static void an_unclean_stop_costs_the_files_that_no_checkpoint_covers(void) {
    char directory[] = "/tmp/rp-key-index-XXXXXX";
    CHECK(mkdtemp(directory) != NULL);
    rp_key_index *index = open_index(directory, 1, 0);
    put_all(index);
    rp_error error;
    int64_t synced_ms = rp_key_index_sync(index, &error), offsets[300];
    CHECK(synced_ms == START_MS + 199000);
    rp_key_index_close(index);
    index = open_index(directory, 0, synced_ms); /* all was synced: nothing is dropped */
    CHECK(query(index, "shared", offsets, 300) == 200 && rp_key_index_next_offset(index) == 199000);
    put(index, 200);
    rp_key_index_close(index);
    index = open_index(directory, 0, synced_ms); /* the last file has an entry that was not */
    CHECK(rp_key_index_file_count(index) == 6);
    CHECK(query(index, "u200", offsets, 300) == 0 && query(index, "u199", offsets, 300) == 1);
    rp_key_index_close(index);
    remove_directory(directory);
}

static void files_go_from_both_ends_of_the_log(void) {
    char directory[] = "/tmp/rp-key-index-XXXXXX";
    CHECK(mkdtemp(directory) != NULL);
    rp_key_index *index = open_index(directory, 1, 0);
    put_all(index);
    int64_t offsets[8];
    CHECK(rp_key_index_truncate(index, 150000) == 2);
    CHECK(rp_key_index_next_offset(index) < 150000 && query(index, "u160", offsets, 8) == 0);
    CHECK(rp_key_index_delete_before(index, 70000) == 2);
    CHECK(query(index, "u3", offsets, 8) == 0 && query(index, "u100", offsets, 8) == 1);
    rp_key_index_close(index);
    remove_directory(directory);
}

static int allocate_nothing(void *context, int fd, int64_t offset, int64_t size) {
    (void)context, (void)fd, (void)offset, (void)size;
    errno = ENOSPC;
    return -1;
}

/* A map in which a hole that is looked at ends the process, as on a full tmpfs. */
static void *map_without_holes(void *context, int fd, size_t size, int writable) {
    uint8_t *map = rp_file_ops_system()->map(context, fd, size, writable);
    for (int64_t hole = rp_file_next_hole(fd, 0, (int64_t)size), end; hole < (int64_t)size;
         hole = rp_file_next_hole(fd, end, (int64_t)size)) {
        end = rp_file_next_data(fd, hole, (int64_t)size);
        CHECK(mprotect(map + hole, (size_t)(end - hole), PROT_NONE) == 0);
    }
    return map;
}

static bool is_full; /* as a tmpfs without space */

int fstatfs(int fd, struct statfs *system) {
    long rc = syscall(SYS_fstatfs, fd, system);
    system->f_type = is_full ? TMPFS_MAGIC : system->f_type;
    system->f_bfree = is_full ? 0 : system->f_bfree;
    return (int)rc;
}

static int allocate_while_there_is_space(void *context, int fd, int64_t offset, int64_t size) {
    return is_full ? allocate_nothing(context, fd, offset, size) : rp_file_ops_system()->allocate(context, fd, offset, size);
}

static int reads, is_unreadable;

static int64_t counted_read(void *context, int fd, void *target, size_t size, int64_t offset) {
    reads++;
    errno = EIO;
    return is_unreadable ? -1 : rp_file_ops_system()->read_at(context, fd, target, size, offset);
}

/* A restored copy of an empty file: all of it is a hole, its header too. */
static void a_file_that_is_one_hole_is_opened_where_there_is_no_space_for_it(void) {
    char directory[] = "/tmp/rp-key-index-XXXXXX", path[64];
    rp_index_shape shape = {100000, 100};
    rp_file_ops ops = *rp_file_ops_system();
    rp_error error;
    ops.allocate = allocate_nothing;
    ops.map = map_without_holes;
    CHECK(mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/20261127192500000", directory);
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && ftruncate(fd, RP_INDEX_HEADER_SIZE + 100000 * RP_INDEX_SLOT_SIZE + 100 * RP_INDEX_ENTRY_SIZE) == 0 && close(fd) == 0);
    is_full = true;
    for (int writable = 0; writable <= 1; writable++) {
        rp_index_file *file;
        int64_t offsets[4];
        CHECK(rp_index_file_open(&ops, path, shape, writable, &file, &error) == RP_OK);
        CHECK(rp_index_file_entry_count(file) == 0 && rp_index_file_end_offset(file) == 0);
        CHECK(rp_index_file_select(file, 5, 0, INT64_MAX, offsets, 4) == 0);
        rp_index_file_close(file);
    }
    is_full = false;
    remove_directory(directory);
}

static void holes_are_read_by_calls_until_there_is_space(void) {
    char directory[] = "/tmp/rp-key-index-XXXXXX";
    rp_file_ops ops = *rp_file_ops_system();
    rp_error error;
    int64_t offsets[300];
    ops.allocate = allocate_while_there_is_space;
    ops.read_at = counted_read;
    CHECK(mkdtemp(directory) != NULL);
    rp_key_index *index = open_index(directory, 1, 0);
    put_all(index);
    rp_key_index_close(index);
    is_full = true;
    index = open_index_with(&ops, directory, 1, 0);
    reads = 0;
    CHECK(query(index, "shared", offsets, 300) == 200 && reads > 0);
    CHECK(rp_key_index_sync(index, &error) == START_MS + 199000);
    is_full = false;
    put(index, 200);
    CHECK(rp_key_index_sync(index, &error) == START_MS + 200000);
    reads = 0;
    CHECK(query(index, "shared", offsets, 300) == 201 && reads == 0);
    rp_key_index_close(index);
    remove_directory(directory);
}

static void an_entry_that_cannot_be_read_is_no_entry_of_zeros(void) {
    char directory[] = "/tmp/rp-key-index-XXXXXX", path[64];
    rp_index_shape shape = {64, 101};
    rp_file_ops ops = *rp_file_ops_system();
    rp_index_file *file;
    rp_error error;
    int32_t hash;
    int64_t offset;
    ops.read_at = counted_read;
    CHECK(mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/20261127192500000", directory);
    CHECK(rp_index_file_create(NULL, path, shape, 0, START_MS, &file, &error) == RP_OK);
    CHECK(rp_index_file_put(file, 5, 1000, START_MS, &error) == RP_OK);
    rp_index_file_close(file);
    ops.allocate = allocate_nothing;
    CHECK(rp_index_file_open(&ops, path, shape, 1, &file, &error) == RP_OK);
    CHECK(rp_index_file_entry(file, 1, &hash, &offset, &error) == RP_OK && hash == 5 && offset == 1000);
    CHECK(rp_index_file_entry(file, 2, &hash, &offset, &error) == RP_E_RANGE);
    is_unreadable = 1;
    CHECK(rp_index_file_entry(file, 1, &hash, &offset, &error) == RP_E_IO && error.os_errno == EIO && strcmp(error.file, path) == 0);
    rp_index_file_close(file);
    CHECK(rp_index_file_open(&ops, path, shape, 0, &file, &error) == RP_E_CORRUPT && error.os_errno == EIO);
    is_unreadable = 0;
    remove_directory(directory);
}

/* RocketMQ's files are sparse. */
static void holes_that_there_is_no_space_for_are_not_looked_at(void) {
    enum { SLOTS = 100000, SLOTS_END = RP_INDEX_HEADER_SIZE + SLOTS * RP_INDEX_SLOT_SIZE, HOLE = 65536, HOLE_END = 4 * HOLE };
    char directory[] = "/tmp/rp-key-index-XXXXXX", path[64];
    CHECK(mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/20261127192500000", directory);
    rp_index_file *file;
    rp_error error;
    rp_index_shape shape = {SLOTS, 100};
    CHECK(rp_index_file_create(NULL, path, shape, 0, START_MS, &file, &error) == RP_OK);
    CHECK(rp_index_file_put(file, 5, 1000, START_MS, &error) == RP_OK && rp_index_file_put(file, 5, 2000, START_MS, &error) == RP_OK);
    rp_index_file_close(file);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    bool has_hole = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, HOLE, HOLE_END - HOLE) == 0;
    if (!has_hole)
        CHECK(errno == EOPNOTSUPP || errno == ENOSYS);
    else if (rp_file_next_hole(fd, 0, SLOTS_END) != HOLE) /* a file system that tells no holes apart, or with larger blocks */
        has_hole = false;
    CHECK(close(fd) == 0);
    if (!has_hole)
        fprintf(stderr, "/tmp makes no holes: how they are passed over is not seen\n");
    rp_file_ops ops = *rp_file_ops_system();
    ops.allocate = allocate_nothing;
    ops.map = map_without_holes;
    CHECK(rp_index_file_open(&ops, path, shape, 1, &file, &error) == RP_OK);
    int64_t offsets[4];
    CHECK(rp_index_file_select(file, 2 * HOLE / RP_INDEX_SLOT_SIZE, 0, INT64_MAX, offsets, 4) == 0);
    CHECK(rp_index_file_select(file, 5, 0, INT64_MAX, offsets, 4) == 2 && offsets[0] == 2000 && offsets[1] == 1000);
    CHECK(rp_index_file_put(file, 5, 3000, START_MS, &error) == RP_E_DISK_FULL);
    rp_index_file_close(file);
    remove_directory(directory);
}

int main(void) {
    RUN(keys_find_their_messages_newest_first_over_all_files);
    RUN(a_message_that_was_rolled_back_is_not_found);
    RUN(tags_are_a_key_of_their_own);
    RUN(a_file_without_length_is_removed);
    RUN(a_damaged_time_in_the_header_hides_nothing);
    RUN(a_failed_sync_is_never_followed_by_a_good_one);
    RUN(an_unclean_stop_costs_the_files_that_no_checkpoint_covers);
    RUN(files_go_from_both_ends_of_the_log);
    RUN(a_file_that_is_one_hole_is_opened_where_there_is_no_space_for_it);
    RUN(holes_are_read_by_calls_until_there_is_space);
    RUN(an_entry_that_cannot_be_read_is_no_entry_of_zeros);
    RUN(holes_that_there_is_no_space_for_are_not_looked_at);
    return 0;
}
