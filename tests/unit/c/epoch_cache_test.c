/* epoch_cache_test.c: epochs and their file: RocketMQ's format, damaged and missing files, cuts at both ends, the consistent point. */
#include <errno.h>

#include "../../../csrc/base/crc32.h"
#include "../../../csrc/ha/epoch_cache.h"
#include "check.h"
#include "store_fixture.h"

static char directory[128], path[256], backup[256 + 4];

static rp_epoch_cache *open_at(const rp_file_ops *ops) {
    rp_epoch_cache_options options = {.path = path, .file_ops = ops};
    rp_epoch_cache *cache = NULL;
    rp_error error;
    CHECK(rp_epoch_cache_open(&options, &cache, &error) == RP_OK);
    return cache;
}

static void write_text(const char *name, const char *text) {
    FILE *file = fopen(name, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void check_text(const char *name, const char *wanted) {
    char text[512] = {0};
    FILE *file = fopen(name, "r");
    CHECK(file != NULL);
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    CHECK(size == strlen(wanted) && strcmp(text, wanted) == 0);
}

static void append(rp_epoch_cache *cache, int64_t epoch, int64_t start_offset) {
    rp_error error;
    CHECK(rp_epoch_cache_append(cache, epoch, start_offset, &error) == RP_OK);
}

static void check_entries(rp_epoch_cache *cache, const rp_epoch_entry *wanted, uint32_t count) {
    rp_epoch_entry entries[RP_EPOCHS_MAX];
    CHECK(rp_epoch_cache_read(cache, entries, RP_EPOCHS_MAX) == count);
    for (uint32_t i = 0; i < count; i++)
        CHECK(entries[i].epoch == wanted[i].epoch && entries[i].start_offset == wanted[i].start_offset &&
              entries[i].end_offset == wanted[i].end_offset);
}

static void remove_files(void) {
    unlink(path);
    unlink(backup);
}

/* The example in RocketMQ's CheckpointFile has this CRC. */
static void the_file_is_rocketmqs(void) {
    rp_epoch_cache *cache = open_at(NULL);
    CHECK(rp_epoch_cache_last(cache) == -1);
    append(cache, 7, 7000);
    append(cache, 8, 8000);
    check_text(path, "2\n773307083\n7-7000\n8-8000\n");
    rp_epoch_cache_close(cache);
    cache = open_at(NULL);
    check_entries(cache, (rp_epoch_entry[]){{7, 7000, 8000}, {8, 8000, INT64_MAX}}, 2);
    rp_epoch_cache_close(cache);
    write_text(path, "1\n0\n3-44\n"); /* a CRC of 0 is not checked */
    cache = open_at(NULL);
    check_entries(cache, (rp_epoch_entry[]){{3, 44, INT64_MAX}}, 1);
    rp_epoch_cache_close(cache);
    remove_files();
}

static void a_damaged_file_gives_way_to_the_one_before(void) {
    static const char *const damaged[] = {"",
                                          "2\n773307083\n7-7000\n",
                                          "2\n773307083\n7-7000\n8-8001\n",
                                          "x",
                                          "1\n0\n7-\n",
                                          "1\n0\n-7\n",
                                          "1\n0\n7-7000",
                                          "2\n0\n8-1\n7-2\n",
                                          "1\n0\n99999999999-1\n",
                                          "1\n0\n1-99999999999999999999\n"};
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        rp_epoch_cache *cache = open_at(NULL);
        append(cache, 7, 7000);
        append(cache, 8, 8000);
        rp_epoch_cache_close(cache);
        write_text(path, damaged[i]);
        cache = open_at(NULL);
        check_entries(cache, (rp_epoch_entry[]){{7, 7000, INT64_MAX}}, 1);
        append(cache, 9, 9000);
        check_entries(cache, (rp_epoch_entry[]){{7, 7000, 9000}, {9, 9000, INT64_MAX}}, 2);
        rp_epoch_cache_close(cache);
        write_text(path, damaged[i]);
        write_text(backup, "?");
        cache = open_at(NULL);
        CHECK(rp_epoch_cache_last(cache) == -1);
        rp_epoch_cache_close(cache);
        remove_files();
    }
}

static void entries_go_where_the_log_was_cut(void) {
    rp_epoch_cache *cache = open_at(NULL);
    rp_error error;
    append(cache, 1, 0);
    append(cache, 2, 100);
    append(cache, 4, 200);
    CHECK(rp_epoch_cache_append(cache, 3, 300, &error) == RP_E_RANGE);
    CHECK(rp_epoch_cache_append(cache, -1, 300, &error) == RP_E_INVALID);
    CHECK(rp_epoch_cache_append(cache, (int64_t)INT32_MAX + 1, 300, &error) == RP_E_INVALID);
    CHECK(rp_epoch_cache_truncate_suffix(cache, 201, &error) == RP_OK);
    CHECK(rp_epoch_cache_last(cache) == 4);
    CHECK(rp_epoch_cache_truncate_suffix(cache, 200, &error) == RP_OK);
    check_entries(cache, (rp_epoch_entry[]){{1, 0, 100}, {2, 100, INT64_MAX}}, 2);
    append(cache, 5, 100); /* nothing was written in epoch 2 */
    check_entries(cache, (rp_epoch_entry[]){{1, 0, 100}, {5, 100, INT64_MAX}}, 2);
    CHECK(rp_epoch_cache_truncate_prefix(cache, 99, &error) == RP_OK);
    check_entries(cache, (rp_epoch_entry[]){{1, 0, 100}, {5, 100, INT64_MAX}}, 2);
    CHECK(rp_epoch_cache_truncate_prefix(cache, 100, &error) == RP_OK);
    check_entries(cache, (rp_epoch_entry[]){{5, 100, INT64_MAX}}, 1);
    append(cache, 6, 500);
    CHECK(rp_epoch_cache_fit(cache, 0, 499, &error) == RP_OK); /* a log that lost what it had not synced */
    check_entries(cache, (rp_epoch_entry[]){{5, 100, INT64_MAX}}, 1);
    append(cache, 6, 499);
    CHECK(rp_epoch_cache_fit(cache, 0, 499, &error) == RP_OK);
    CHECK(rp_epoch_cache_last(cache) == 6); /* a master that has written nothing yet */
    rp_epoch_entry entry;
    CHECK(rp_epoch_cache_find(cache, 498, &entry) == RP_OK && entry.epoch == 5 && entry.end_offset == 499);
    CHECK(rp_epoch_cache_find(cache, 499, &entry) == RP_OK && entry.epoch == 6 && entry.end_offset == INT64_MAX);
    CHECK(rp_epoch_cache_find(cache, 3, &entry) == RP_OK && entry.epoch == 5);
    rp_epoch_cache_close(cache);
    remove_files();
}

static void several_are_appended_or_none(void) {
    static const rp_epoch_entry not_rising[][2] = {
        {{.epoch = 3, .start_offset = 300}, {.epoch = 3, .start_offset = 400}},
        {{.epoch = 3, .start_offset = 300}, {.epoch = 4, .start_offset = 300}},
        {{.epoch = 3, .start_offset = 300}, {.epoch = (int64_t)INT32_MAX + 1, .start_offset = 400}},
        {{.epoch = -1, .start_offset = 300}, {.epoch = 4, .start_offset = 400}},
    };
    rp_epoch_cache *cache = open_at(NULL);
    rp_error error;
    append(cache, 1, 0);
    append(cache, 2, 200);
    for (size_t i = 0; i < sizeof not_rising / sizeof *not_rising; i++)
        CHECK(rp_epoch_cache_append_all(cache, not_rising[i], 2, &error) == RP_E_INVALID);
    check_entries(cache, (rp_epoch_entry[]){{1, 0, 200}, {2, 200, INT64_MAX}}, 2);
    rp_epoch_entry more[] = {{.epoch = 2, .start_offset = 200}, {.epoch = 4, .start_offset = 300}, {.epoch = 5, .start_offset = 400}};
    CHECK(rp_epoch_cache_append_all(cache, more, 3, &error) == RP_OK);
    check_entries(cache, (rp_epoch_entry[]){{1, 0, 200}, {2, 200, 300}, {4, 300, 400}, {5, 400, INT64_MAX}}, 4);
    CHECK(rp_epoch_cache_append_all(cache, more, 3, &error) == RP_E_RANGE);
    rp_epoch_cache_close(cache);
    cache = open_at(NULL);
    CHECK(rp_epoch_cache_last(cache) == 5);
    rp_epoch_cache_close(cache);
    remove_files();
}

static void the_list_has_a_bound(void) {
    rp_epoch_cache *cache = open_at(NULL);
    char *text = malloc(64 * (RP_EPOCHS_MAX + 8)), *at = text + 64;
    int head = 0;
    for (int i = 0; i < RP_EPOCHS_MAX; i++)
        at += sprintf(at, "%d-%d\n", i, i * 10);
    char first[64];
    head = snprintf(first, sizeof first, "%d\n0\n", RP_EPOCHS_MAX);
    memcpy(text + 64 - head, first, (size_t)head);
    rp_epoch_cache_close(cache);
    write_text(path, text + 64 - head);
    free(text);
    cache = open_at(NULL);
    CHECK(rp_epoch_cache_last(cache) == RP_EPOCHS_MAX - 1);
    append(cache, RP_EPOCHS_MAX, RP_EPOCHS_MAX * 10);
    rp_epoch_entry entries[RP_EPOCHS_MAX];
    CHECK(rp_epoch_cache_read(cache, entries, RP_EPOCHS_MAX) == RP_EPOCHS_MAX);
    CHECK(entries[0].epoch == 1 && entries[RP_EPOCHS_MAX - 1].epoch == RP_EPOCHS_MAX);
    rp_epoch_cache_close(cache);
    remove_files();
}

static int fails_at, calls;

static int sync_or_fail(void *context, int fd) {
    (void)context;
    if (++calls == fails_at) {
        errno = EIO;
        return -1;
    }
    return rp_file_ops_system()->sync_data(NULL, fd);
}

static int rename_or_fail(void *context, const char *source, const char *target) {
    (void)context;
    if (++calls == fails_at) {
        errno = EIO;
        return -1;
    }
    return rp_file_ops_system()->rename(NULL, source, target);
}

/* A disk that fails at the n-th step leaves the old list, in memory and in the file. */
static void a_failed_write_changes_nothing(void) {
    rp_file_ops moody = *rp_file_ops_system();
    moody.sync_data = sync_or_fail;
    moody.rename = rename_or_fail;
    for (int n = 1; n <= 4; n++) {
        fails_at = 0;
        rp_epoch_cache *cache = open_at(&moody);
        append(cache, 1, 0);
        fails_at = n;
        calls = 0;
        rp_error error;
        CHECK(rp_epoch_cache_append(cache, 2, 10, &error) == RP_E_IO);
        CHECK(rp_epoch_cache_last(cache) == 1);
        rp_epoch_cache_close(cache);
        fails_at = 0;
        cache = open_at(&moody);
        CHECK(rp_epoch_cache_last(cache) == 1);
        append(cache, 2, 10);
        rp_epoch_cache_close(cache);
        remove_files();
    }
}

static int64_t point(const rp_epoch_entry *ours, uint32_t ours_count, int64_t ours_end, const rp_epoch_entry *theirs, uint32_t theirs_count,
                     int64_t theirs_end) {
    return rp_epoch_consistent_point(ours, ours_count, ours_end, theirs, theirs_count, theirs_end);
}

static void the_consistent_point_is_where_the_last_common_epoch_ends(void) {
    const rp_epoch_entry both[] = {{1, 0, 0}, {2, 100, 0}}, next[] = {{1, 0, 0}, {2, 100, 0}, {3, 150, 0}},
                         other[] = {{1, 0, 0}, {3, 80, 0}}, moved[] = {{1, 5, 0}};
    CHECK(point(both, 2, 200, both, 2, 300) == 200);
    CHECK(point(both, 2, 300, both, 2, 200) == 200);
    CHECK(point(both, 2, 200, next, 3, 400) == 150); /* the next master did not have all of our entries */
    CHECK(point(both, 2, 120, next, 3, 400) == 120);
    CHECK(point(both, 2, 200, other, 2, 400) == 80);
    CHECK(point(next, 3, 200, both, 2, 120) == 120);
    CHECK(point(both, 2, 200, moved, 1, 400) == -1);
    CHECK(point(NULL, 0, 0, both, 2, 400) == -1);
    CHECK(point(both, 2, 200, NULL, 0, 0) == -1);
    CHECK(point(both, 2, 50, both, 2, 60) == 50); /* entries that reach beyond a log's end count only up to that end */
}

int main(void) {
    fixture_directory(directory, sizeof directory);
    snprintf(path, sizeof path, "%s/epochFileCheckpoint", directory);
    snprintf(backup, sizeof backup, "%s.bak", path);
    the_file_is_rocketmqs();
    a_damaged_file_gives_way_to_the_one_before();
    entries_go_where_the_log_was_cut();
    several_are_appended_or_none();
    the_list_has_a_bound();
    a_failed_write_changes_nothing();
    the_consistent_point_is_where_the_last_common_epoch_ends();
    fixture_remove(directory);
    return 0;
}
