/* store_directories_test.c: a directory that the kernel cannot list, or lists only in part: the start is refused, and nothing in it
 * counts as lost. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>

#include "../../../csrc/store/log_scan.h"
#include "../../../csrc/store/mapped_file_queue.h"
#include "check.h"
#include "compaction_fixture.h"

enum { MESSAGES = 600 }; /* three files of the log, twelve of the queue */

static const char *failing_path; /* NULL: none fails */
static int refusal = EMFILE;
static int fails_half_way; /* at the third name, not at once */
static DIR *half_read;
static int names_left;

/* In front of libc's, for the library too. */
DIR *opendir(const char *path) {
    DIR *(*real)(const char *);
    *(void **)&real = dlsym(RTLD_NEXT, "opendir");
    int is_it = failing_path != NULL && strcmp(path, failing_path) == 0;
    if (is_it && !fails_half_way) {
        errno = refusal;
        return NULL;
    }
    DIR *directory = real(path);
    if (is_it) {
        half_read = directory;
        names_left = 2;
    }
    return directory;
}

struct dirent *readdir(DIR *directory) {
    struct dirent *(*real)(DIR *);
    *(void **)&real = dlsym(RTLD_NEXT, "readdir");
    if (directory == half_read && names_left-- == 0) {
        half_read = NULL;
        errno = EIO;
        return NULL;
    }
    return real(directory);
}

static void fill(const rp_message_store_options *options) {
    rp_message_store *store = fixture_open(options);
    for (int64_t i = 0; i < MESSAGES; i++) {
        CHECK(fixture_append(store, fixture_queue(store, "T", 0), i) == RP_OK);
        CHECK(fixture_append(store, fixture_queue(store, "Other", 0), i) == RP_OK);
    }
    fixture_close(store);
}

static void check_all(rp_message_store *store) {
    for (int64_t i = 0; i < MESSAGES; i++) {
        CHECK(fixture_check(store, fixture_queue(store, "T", 0), i) == 0);
        CHECK(fixture_check(store, fixture_queue(store, "Other", 0), i) == 0);
    }
    CHECK(rp_consume_queue_max_offset(fixture_queue(store, "T", 0)) == MESSAGES);
}

static void make_unclean(const char *root) {
    char path[600];
    snprintf(path, sizeof path, "%s/abort", root);
    close(open(path, O_RDWR | O_CREAT, 0644));
}

static void refuses_to_start_without(const rp_message_store_options *options, const char *name, int half_way) {
    char path[600];
    rp_message_store *store = NULL;
    rp_error error = {0};
    snprintf(path, sizeof path, "%s/%s", options->root_path, name);
    make_unclean(options->root_path);
    failing_path = path;
    fails_half_way = half_way;
    CHECK(rp_message_store_open(options, &store, &error) == RP_E_IO);
    CHECK(strcmp(error.file, path) == 0 && error.os_errno == (half_way ? EIO : EMFILE));
    failing_path = NULL;
    store = fixture_open(options);
    check_all(store);
    fixture_close(store);
}

/* The file's end, and the next file's name, would be numbers beyond all offsets. */
static void a_file_named_by_an_offset_that_no_store_reaches_is_refused(void) {
    static const int64_t bases[] = {INT64_MAX / 4096 * 4096, INT64_C(1) << 62};
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        char path[400], file[600];
        fixture_directory(path, sizeof path);
        snprintf(file, sizeof file, "%s/%020lld", path, (long long)bases[i]);
        int fd = open(file, O_RDWR | O_CREAT, 0644);
        CHECK(fd >= 0 && ftruncate(fd, 4096) == 0 && close(fd) == 0);
        rp_mapped_file_queue *row = NULL;
        rp_mapped_file_queue_options options = {.ops = rp_file_ops_system(), .directory = path, .file_size = 4096, .mode = RP_MAP_WRITE};
        CHECK(rp_mapped_file_queue_create(&options, &row) == RP_OK);
        rp_error error = {0};
        CHECK(rp_mapped_file_queue_load(row, 0, 0, &error) == RP_E_CORRUPT);
        CHECK(strcmp(error.file, file) == 0 && strstr(error.message, "move it away") != NULL);
        CHECK(rp_mapped_file_queue_end(row) == 0);
        rp_mapped_file_queue_destroy(row);
        rp_log_scan *scan = NULL;
        if (bases[i] > INT64_MAX - 4096) /* a tool may read files up to the highest offset */
            CHECK(rp_log_scan_open(file, INT64_MIN, INT64_MAX, 1, &scan, &error) == RP_E_CORRUPT && strcmp(error.file, file) == 0);
        fixture_remove(path);
    }
}

/* A file that is missing from the list would cost the messages in it. */
static void a_compacted_queue_is_not_opened_by_half(void) {
    static kept_messages kept;
    char path[400], files[600];
    rp_message_store_options options;
    fixture_directory(path, sizeof path);
    compacting_options(&options, path, NEVER_MS);
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = compacted_queue(store, "T");
    append_numbers(store, queue, 0, 200, 200);
    await_copied(store, queue);
    fixture_close(store);
    snprintf(files, sizeof files, "%s/compaction/compactionLog/T/0", path);
    store = fixture_open(&options);
    rp_error error = {0};
    failing_path = files;
    fails_half_way = 1;
    CHECK(rp_message_store_compact(store, fixture_slice("T"), 1, &error) == RP_E_IO);
    CHECK(strcmp(error.file, files) == 0 && error.os_errno == EIO);
    failing_path = NULL;
    queue = compacted_queue(store, "T");
    read_kept(queue, &kept);
    CHECK(kept.count == 200 && has_last_of_each(&kept, 200, 200));
    fixture_close(store);
    fixture_remove(path);
}

/* Of a disk that is mounted there. */
static void what_is_roots_alone_is_passed_over(const rp_message_store_options *options) {
    char path[600];
    snprintf(path, sizeof path, "%s/consumequeue/lost+found", options->root_path);
    CHECK(mkdir(path, 0700) == 0);
    failing_path = path;
    refusal = EACCES;
    fails_half_way = 0;
    rp_message_store *store = fixture_open(options);
    check_all(store);
    fixture_close(store);
    failing_path = NULL;
}

int main(void) {
    static const char *names[] = {"commitlog", "consumequeue", "consumequeue/T", "consumequeue/T/0"};
    char path[400];
    rp_message_store_options options;
    fixture_directory(path, sizeof path);
    fixture_options(&options, path);
    options.index_enable = 0;
    fill(&options);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        refuses_to_start_without(&options, names[i], 0);
        refuses_to_start_without(&options, names[i], 1);
    }
    char *file = NULL; /* what is not a directory belongs to somebody else */
    CHECK(asprintf(&file, "%s/consumequeue/notes", path) > 0);
    close(open(file, O_RDWR | O_CREAT, 0644));
    free(file);
    rp_message_store *store = fixture_open(&options);
    check_all(store);
    fixture_close(store);
    what_is_roots_alone_is_passed_over(&options);
    fixture_remove(path);
    a_compacted_queue_is_not_opened_by_half();
    a_file_named_by_an_offset_that_no_store_reaches_is_refused();
    return 0;
}
