/* compaction_verify_test.c: what verifying a store reports about compacted topics. Intact copies, whether compacted, cut or being moved,
 * have no damage; each damage is reported at its place. */
#include <fcntl.h>

#include "../../../csrc/base/bytes_inl.h"
#include "../../../csrc/store/store_verify.h"
#include "compaction_fixture.h"

#define MESSAGES 70
#define ENTRY RP_COMPACTION_ENTRY_SIZE

static char root[512];
static kept_messages kept;

/* ---- the check ---- */

typedef struct wanted_damage {
    const char *file, *cause; /* the end of its path, a part of what is said */
    int64_t offset;
    int found, others;
} wanted_damage;

static int look(void *context, const rp_damage_row *row) {
    wanted_damage *wanted = context;
    size_t size = strlen(row->file), tail = wanted->file != NULL ? strlen(wanted->file) : 0;
    int is_it = tail > 0 && row->kind == RP_DAMAGE_COMPACTION && size > tail && strcmp(row->file + size - tail, wanted->file) == 0 &&
                strstr(row->cause, wanted->cause) != NULL && row->offset == wanted->offset;
    if (!is_it)
        fprintf(stderr, "%d %s %lld %s\n", row->kind, row->file, (long long)row->offset, row->cause);
    wanted->found += is_it;
    wanted->others += !is_it;
    return 0;
}

static rp_verify_counts check(wanted_damage *wanted) {
    rp_error error = {.message = ""};
    rp_verify_options options;
    rp_verify_counts counts;
    rp_verify_options_default(&options);
    options.root_path = root;
    options.visit = look;
    options.context = wanted;
    CHECK(rp_store_verify(&options, &counts, &error) == RP_OK);
    return counts;
}

static void is_whole(uint64_t messages, uint64_t unfinished) {
    wanted_damage none = {0};
    rp_verify_counts counts = check(&none);
    CHECK(none.others == 0 && counts.damages == 0 && counts.compacted_queues == 1);
    CHECK(counts.compacted_messages == messages && counts.compactions_unfinished == unfinished);
}

/* ---- stores and their damage ---- */

/* A closed store: 70 messages in segments of 20. */
static void make_store(rp_message_store_options *options, uint32_t interval_ms, int keys) {
    fixture_directory(root, sizeof root);
    compacting_options(options, root, interval_ms);
    rp_message_store *store = fixture_open(options);
    rp_consume_queue *queue = compacted_queue(store, "T");
    append_numbers(store, queue, 0, MESSAGES, keys);
    await_copied(store, queue);
    if (interval_ms != NEVER_MS)
        await_kept(queue, keys + 20, &kept);
    read_kept(queue, &kept);
    fixture_close(store);
}

static int64_t base_of_segment(int segment) {
    char path[700];
    struct stat status;
    snprintf(path, sizeof path, "%s/compaction/compactionLog/T/0/%020d", root, 0);
    CHECK(stat(path, &status) == 0);
    return segment * (int64_t)status.st_size;
}

/* compactionLog or compactionCq */
static const char *file_of(const char *kind, int segment) {
    static char names[4][64];
    static int turn;
    char *name = names[turn = (turn + 1) % 4];
    snprintf(name, 64, "%s/T/0/%020lld", kind, (long long)base_of_segment(segment));
    return name;
}

static int open_file(const char *name, int flags) {
    char path[700];
    snprintf(path, sizeof path, "%s/compaction/%s", root, name);
    int fd = open(path, flags, 0644);
    CHECK(fd >= 0);
    return fd;
}

static void flip(const char *name, int64_t at) {
    uint8_t byte;
    int fd = open_file(name, O_RDWR);
    CHECK(pread(fd, &byte, 1, at) == 1);
    byte ^= 0x40;
    CHECK(pwrite(fd, &byte, 1, at) == 1);
    close(fd);
}

static void clear(const char *name, int64_t at, size_t size) {
    static const uint8_t zeros[100 * ENTRY];
    int fd = open_file(name, O_RDWR);
    CHECK(size <= sizeof zeros && pwrite(fd, zeros, size, at) == (ssize_t)size);
    close(fd);
}

static void take_away(const char *name) {
    char path[700];
    snprintf(path, sizeof path, "%s/compaction/%s", root, name);
    CHECK(unlink(path) == 0);
}

/* Of the record of an entry, in its file. */
static int64_t place_of(int segment, int entry) {
    uint8_t bytes[8];
    int fd = open_file(file_of("compactionCq", segment), O_RDONLY);
    CHECK(pread(fd, bytes, sizeof bytes, entry * ENTRY) == sizeof bytes);
    close(fd);
    return (int64_t)rp_get_u64(bytes) - base_of_segment(segment);
}

/* One damage of a store that is whole without it. */
static void is_named(wanted_damage wanted) {
    rp_verify_counts counts = check(&wanted);
    if (wanted.found != 1)
        fprintf(stderr, "not found: %s %lld %s\n", wanted.file, (long long)wanted.offset, wanted.cause);
    CHECK(wanted.found == 1 && wanted.others == 0 && counts.damages == 1);
}

/* ---- claims ---- */

static void whole_ones_are_whole(void) {
    rp_message_store_options options;
    make_store(&options, NEVER_MS, MESSAGES);
    is_whole(MESSAGES, 0);
    fixture_remove(root);
    make_store(&options, OFTEN_MS, 7);
    CHECK(kept.count <= 27);
    is_whole((uint64_t)kept.count, 0);
    fixture_remove(root);
}

/* Records that a cut took from the log are still in the copy's files, without entries. */
static void records_of_a_cut_are_no_damage(void) {
    rp_message_store_options options;
    make_store(&options, NEVER_MS, MESSAGES);
    rp_message_store *store = fixture_open(&options);
    rp_queue_entry entry;
    CHECK(rp_consume_queue_read(fixture_queue(store, "T", 0), 27, &entry, 1) == 1);
    CHECK(rp_message_store_cut_at_open(store, entry.commit_log_offset, NULL) == RP_OK);
    fixture_close(store);
    store = fixture_open(&options);
    rp_consume_queue *queue = compacted_queue(store, "T");
    await_copied(store, queue);
    fixture_close(store);
    is_whole(27, 0);
    store = fixture_open(&options);
    queue = compacted_queue(store, "T");
    append_numbers(store, queue, 500, 530, MESSAGES); /* behind them, and into the next segment */
    await_copied(store, queue);
    fixture_close(store);
    is_whole(57, 0);
    fixture_remove(root);
}

static void a_queue_whose_files_are_being_moved_is_passed_over(void) {
    rp_message_store_options options;
    char path[700];
    make_store(&options, NEVER_MS, MESSAGES);
    flip(file_of("compactionCq", 1), 3 * ENTRY + 9);
    snprintf(path, sizeof path, "%s/compaction/compactionLog/T/0/compacting", root);
    CHECK(mkdir(path, 0755) == 0 || access(path, F_OK) == 0);
    close(open_file("compactionLog/T/0/compacting/replace", O_CREAT | O_RDWR));
    is_whole(0, 1);
    fixture_remove(root);
}

static void each_damage_is_named_where_it_is(void) {
    rp_message_store_options options;
    const char *records, *entries;
    for (int damage = 0; damage < 11; damage++) {
        make_store(&options, NEVER_MS, MESSAGES);
        records = file_of("compactionLog", 1), entries = file_of("compactionCq", 1);
        switch (damage) {
        case 0:
            flip(records, place_of(1, 5) + 100);
            is_named((wanted_damage){records, "CRC", place_of(1, 5), 0, 0});
            break;
        case 1:
            clear(records, place_of(1, 5), 64);
            is_named((wanted_damage){records, "record", place_of(1, 5), 0, 0});
            break;
        case 2:
            flip(entries, 6 * ENTRY); /* the position */
            is_named((wanted_damage){entries, "does not point", 6 * ENTRY, 0, 0});
            break;
        case 3:
            flip(entries, 6 * ENTRY + 19); /* the tags code */
            is_named((wanted_damage){entries, "tags code", 6 * ENTRY, 0, 0});
            break;
        case 4:
            flip(entries, 6 * ENTRY + 35); /* the queue offset: 26 becomes 90 */
            is_named((wanted_damage){entries, "another size, offset or queue", 6 * ENTRY, 0, 0});
            break;
        case 5:
            clear(entries, 4 * ENTRY, 3 * ENTRY);
            is_named((wanted_damage){entries, "missing", 4 * ENTRY, 0, 0});
            break;
        case 6:
            clear(entries, 4 * ENTRY, 17 * ENTRY);
            is_named((wanted_damage){entries, "have no entries", 4 * ENTRY, 0, 0});
            break;
        case 7:
            take_away(entries);
            is_named((wanted_damage){records, "have no entries", 0, 0, 0});
            break;
        case 8:
            take_away(records);
            is_named((wanted_damage){entries, "is gone", -1, 0, 0});
            break;
        case 9:
            entries = file_of("compactionCq", 3); /* the last, which is not full */
            clear(entries, 0, 21 * ENTRY);
            is_named((wanted_damage){entries, "have no entries", 0, 0, 0});
            break;
        default:
            close(open_file("position-checkpoint", O_CREAT | O_RDWR | O_TRUNC));
            is_whole(MESSAGES, 0); /* empty: as none */
            CHECK(pwrite(open_file("position-checkpoint", O_RDWR), "{\"queue", 7, 0) == 7);
            is_named((wanted_damage){"position-checkpoint", "damaged", -1, 0, 0});
        }
        fixture_remove(root);
    }
}

static void a_file_that_is_cut_short_is_named(void) {
    rp_message_store_options options;
    make_store(&options, NEVER_MS, MESSAGES);
    const char *records = file_of("compactionLog", 3);
    int fd = open_file(records, O_RDWR);
    CHECK(ftruncate(fd, 20) == 0);
    close(fd);
    is_named((wanted_damage){records, "too short", -1, 0, 0});
    fixture_remove(root);
}

static void cut_to_nothing(const char *name) { close(open_file(name, O_RDWR | O_TRUNC)); }

/* The last segment's: a stop leaves none, a kill those that it was about to make. */
static void a_file_without_length_is_damage_unless_a_kill_left_it(void) {
    rp_message_store_options options;
    char abort_mark[700];
    make_store(&options, NEVER_MS, MESSAGES);
    snprintf(abort_mark, sizeof abort_mark, "%s/abort", root);
    const char *records = file_of("compactionLog", 3), *entries = file_of("compactionCq", 3);
    cut_to_nothing(entries);
    is_named((wanted_damage){entries, "no length", -1, 0, 0});
    cut_to_nothing(records);
    is_named((wanted_damage){records, "too short", -1, 0, 0});
    take_away(entries);
    is_named((wanted_damage){records, "too short", -1, 0, 0});
    close(open(abort_mark, O_CREAT | O_RDWR, 0644));
    is_whole(60, 0);
    fixture_remove(root);
}

/* As a botched restore leaves it: within another file, and behind all of them. */
static void a_copy_under_another_name_is_named(void) {
    rp_message_store_options options;
    char path[700], names[2][64];
    uint8_t bytes[64 * 1024];
    make_store(&options, NEVER_MS, MESSAGES);
    snprintf(names[0], sizeof names[0], "compactionLog/T/0/%020lld", (long long)base_of_segment(1) + 4000);
    snprintf(names[1], sizeof names[1], "compactionLog/T/0/%020lld", (long long)base_of_segment(4));
    int fd = open_file(file_of("compactionLog", 1), O_RDONLY);
    ssize_t size = read(fd, bytes, sizeof bytes);
    close(fd);
    for (int i = 0; i < 2; i++) {
        fd = open_file(names[i], O_CREAT | O_RDWR);
        CHECK(size > 0 && write(fd, bytes, (size_t)size) == size);
        close(fd);
        is_named((wanted_damage){names[i], i == 0 ? "begins within" : "are in those before it", -1, 0, 0});
        snprintf(path, sizeof path, "%s/compaction/%s", root, names[i]);
        CHECK(unlink(path) == 0);
    }
    is_whole(MESSAGES, 0);
    fixture_remove(root);
}

static void a_file_of_entries_that_is_cut_short_is_named(void) {
    rp_message_store_options options;
    make_store(&options, NEVER_MS, MESSAGES);
    const char *entries = file_of("compactionCq", 3); /* where records without entries may be those of a cut */
    int fd = open_file(entries, O_RDWR);
    CHECK(ftruncate(fd, 5 * ENTRY + 7) == 0);
    close(fd);
    is_named((wanted_damage){entries, "have no entries", 5 * ENTRY, 0, 0});
    fixture_remove(root);
}

/* Of segments 0, 1 and 3: a compaction needed one less. */
static void files_that_are_missing_are_named_but_not_beside_the_gap_of_a_compaction(void) {
    rp_message_store_options options;
    char names[6][64];
    make_store(&options, OFTEN_MS, 25);
    CHECK(kept.count == 35);
    for (int i = 0; i < 6; i++)
        snprintf(names[i], sizeof names[i], "%s", file_of(i % 2 == 0 ? "compactionLog" : "compactionCq", i / 2 + i / 4));
    is_whole(35, 0);
    take_away(names[0]);
    take_away(names[1]);
    is_named((wanted_damage){names[2], "missing before", -1, 0, 0});
    take_away("position-checkpoint"); /* then it is the second gap that says it */
    is_named((wanted_damage){names[4], "missing before", -1, 0, 0});
    fixture_remove(root);
    make_store(&options, OFTEN_MS, 25);
    take_away(names[2]);
    take_away(names[3]);
    is_whole(30, 0);
    fixture_remove(root);
}

int main(void) {
    RUN(whole_ones_are_whole);
    RUN(records_of_a_cut_are_no_damage);
    RUN(a_queue_whose_files_are_being_moved_is_passed_over);
    RUN(each_damage_is_named_where_it_is);
    RUN(a_file_that_is_cut_short_is_named);
    RUN(a_file_without_length_is_damage_unless_a_kill_left_it);
    RUN(a_copy_under_another_name_is_named);
    RUN(a_file_of_entries_that_is_cut_short_is_named);
    RUN(files_that_are_missing_are_named_but_not_beside_the_gap_of_a_compaction);
    return 0;
}
