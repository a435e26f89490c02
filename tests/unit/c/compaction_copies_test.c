/* compaction_copies_test.c: files of a compacted queue under another name, as a botched restore leaves them, and truncated files of
 * entries:
 * no start loses what the queue's own files hold. */
#include <fcntl.h>

#include "compaction_fixture.h"

#define MESSAGES 70 /* in four segments, the last has ten */
#define ENTRY RP_COMPACTION_ENTRY_SIZE
#define WHOLE (-1)

static char root[512];
static rp_message_store_options options;
static kept_messages kept;
static int64_t length; /* of a file of records */

static void path_of(char *to, size_t size, const char *kind, int64_t base) {
    snprintf(to, size, "%s/compaction/%s/T/0/%020lld", root, kind, (long long)base);
}

static void make_store(void) {
    char path[700];
    struct stat status;
    fixture_memory_directory(root, sizeof root);
    compacting_options(&options, root, NEVER_MS);
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = compacted_queue(store, "T");
    append_numbers(store, queue, 0, MESSAGES, MESSAGES);
    await_copied(store, queue);
    fixture_close(store);
    path_of(path, sizeof path, "compactionLog", 0);
    CHECK(stat(path, &status) == 0);
    length = status.st_size;
}

/* What a start reads, before anything is copied again. */
static void everything_is_kept(void) {
    rp_message_store *store = fixture_open(&options);
    read_kept(compacted_queue(store, "T"), &kept);
    fixture_close(store);
    CHECK(kept.count == MESSAGES);
    for (int i = 0; i < MESSAGES; i++)
        CHECK(kept.offsets[i] == i && kept.numbers[i] == i);
}

static void shorten(const char *kind, int64_t base, int64_t size) {
    char path[700];
    path_of(path, sizeof path, kind, base);
    CHECK(truncate(path, size) == 0);
}

static void copy(const char *kind, int64_t from, int64_t to, int64_t size) {
    static uint8_t bytes[64 * 1024];
    char path[700];
    path_of(path, sizeof path, kind, from);
    int fd = open(path, O_RDONLY);
    ssize_t got = read(fd, bytes, sizeof bytes);
    CHECK(fd >= 0 && got > 0);
    close(fd);
    path_of(path, sizeof path, kind, to);
    fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0644);
    got = size == WHOLE || size > got ? got : size;
    CHECK(fd >= 0 && write(fd, bytes, (size_t)got) == got);
    close(fd);
}

static int exists(const char *kind, int64_t base) {
    char path[700];
    path_of(path, sizeof path, kind, base);
    return access(path, F_OK) == 0;
}

/* Copies of a segment, with and without its entries, named before its own place, behind it, and among other segments. */
static void no_copy_takes_the_place_of_what_it_is_a_copy_of(void) {
    const struct {
        int segment, near;
        int64_t at, size;
        int has_entries;
    } copies[] = {{0, 0, 4000, WHOLE, 0}, {0, 0, 2000, 1500, 1},  {1, 0, 4000, WHOLE, 0}, {1, 0, 4000, 1500, 0},  {1, 0, 2000, 700, 1},
                  {1, 0, 50, WHOLE, 1},   {2, 0, 4000, WHOLE, 0}, {2, 0, 4000, 1500, 1},  {2, 1, 2000, WHOLE, 1}, {3, 1, 2000, WHOLE, 0},
                  {3, 2, 4000, 700, 0},   {0, 2, 4000, WHOLE, 1}, {1, 3, 4000, WHOLE, 0}, {1, 4, 0, WHOLE, 0},    {2, 5, 0, WHOLE, 1}};
    make_store();
    for (size_t i = 0; i < sizeof copies / sizeof copies[0]; i++) {
        int64_t to = copies[i].near * length + copies[i].at;
        copy("compactionLog", copies[i].segment * length, to, copies[i].size);
        if (copies[i].has_entries)
            copy("compactionCq", copies[i].segment * length, to, WHOLE);
        everything_is_kept();
        CHECK(!exists("compactionLog", to) && !exists("compactionCq", to));
    }
    fixture_remove(root);
}

/* The first file is cut short behind its records. A copy behind it has a name that lies within no file. */
static void nor_does_one_where_there_seems_to_be_room_for_it(void) {
    make_store();
    shorten("compactionLog", 0, 3000);
    for (int segment = 1; segment < 4; segment++) {
        copy("compactionLog", segment * length, length - 2000, WHOLE);
        everything_is_kept();
        CHECK(!exists("compactionLog", length - 2000));
    }
    fixture_remove(root);
}

/* A kill came before the file was removed, and its entries had been made. */
static void nor_does_one_that_a_start_made_entries_of(void) {
    char path[700];
    uint8_t entry[8];
    make_store();
    copy("compactionLog", 2 * length, 4000, WHOLE);
    copy("compactionCq", 2 * length, 4000, WHOLE);
    path_of(path, sizeof path, "compactionCq", 4000);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    for (int i = 0; i < 20; i++) {
        CHECK(pread(fd, entry, sizeof entry, i * ENTRY) == sizeof entry);
        int64_t place = (int64_t)__builtin_bswap64(*(uint64_t *)(void *)entry) - 2 * length;
        *(uint64_t *)(void *)entry = __builtin_bswap64((uint64_t)(place + 4000));
        CHECK(pwrite(fd, entry, sizeof entry, i * ENTRY) == sizeof entry);
    }
    close(fd);
    everything_is_kept();
    CHECK(!exists("compactionLog", 4000));
    fixture_remove(root);
}

static void a_file_of_entries_that_is_cut_short_loses_no_message(void) {
    const int64_t sizes[] = {10 * ENTRY, 10 * ENTRY + 20, 2 * ENTRY, 20 * ENTRY};
    make_store();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        shorten("compactionCq", length, sizes[i]);
        shorten("compactionCq", 3 * length, sizes[i]);
        everything_is_kept();
    }
    fixture_remove(root);
}

static int64_t length_of_entries(int64_t base) {
    char path[700];
    struct stat status;
    path_of(path, sizeof path, "compactionCq", base);
    CHECK(stat(path, &status) == 0);
    return status.st_size;
}

/* RocketMQ refuses files of other lengths than its setting; one that is whole keeps its own under any setting here. */
static void whole_files_of_entries_keep_their_length(void) {
    make_store();
    int64_t before = length_of_entries(length);
    uint64_t size = options.compaction_queue_file_size;
    options.compaction_queue_file_size = 4 * size;
    everything_is_kept();
    for (int segment = 0; segment < 4; segment++)
        CHECK(length_of_entries(segment * length) == before);
    shorten("compactionCq", length, 10 * ENTRY);
    everything_is_kept();
    CHECK(length_of_entries(length) == 4 * (int64_t)size && length_of_entries(2 * length) == before);
    fixture_remove(root);
}

/* The file of records shows that the setting gives entry files another length. RocketMQ would not start with this one. */
static void a_file_of_entries_that_is_cut_within_its_empty_end_gets_its_length_again(void) {
    make_store();
    int64_t whole = length_of_entries(0);
    uint64_t size = options.compaction_queue_file_size;
    for (int entries = 11; entries <= 13; entries += 2) {
        shorten("compactionCq", 3 * length, entries * ENTRY + 7 * (entries == 11));
        options.compaction_queue_file_size = 5 * size;
        everything_is_kept();
        CHECK(length_of_entries(3 * length) < whole);
        options.compaction_queue_file_size = size;
        everything_is_kept();
        CHECK(length_of_entries(3 * length) == whole);
    }
    fixture_remove(root);
}

int main(void) {
    RUN(no_copy_takes_the_place_of_what_it_is_a_copy_of);
    RUN(nor_does_one_where_there_seems_to_be_room_for_it);
    RUN(nor_does_one_that_a_start_made_entries_of);
    RUN(a_file_of_entries_that_is_cut_short_loses_no_message);
    RUN(whole_files_of_entries_keep_their_length);
    RUN(a_file_of_entries_that_is_cut_within_its_empty_end_gets_its_length_again);
    return 0;
}
