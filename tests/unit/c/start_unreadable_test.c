/* start_unreadable_test.c: opening a store without descriptors or maps left (ulimit -n, vm.max_map_count), or with another user's file. The
 * start is refused and changes nothing: no queue is cut or rebuilt, and the next start that can read finds everything. */
#include <errno.h>
#include <fcntl.h>

#include "check.h"
#include "store_fixture.h"

enum { MESSAGES = 600, FILE_ENTRIES = 70 }; /* nine files of the queue, five of the log */
#define QUEUE_FILE_SIZE (FILE_ENTRIES * RP_CONSUME_QUEUE_ENTRY_SIZE)

static size_t unmapped; /* files of that size find no map; 0: all do */
static const char *unopened; /* paths with that text in them cannot be opened; NULL: all can */
static int os_errno;

static void *map_or_not(void *context, int fd, size_t size, int writable) {
    if (size == unmapped) {
        errno = ENOMEM;
        return NULL;
    }
    return rp_file_ops_system()->map(context, fd, size, writable);
}

static int open_or_not(void *context, const char *path, int flags, uint32_t mode) {
    if (unopened != NULL && strstr(path, unopened) != NULL) {
        errno = os_errno;
        return -1;
    }
    return rp_file_ops_system()->open(context, path, flags, mode);
}

static void fill(const rp_message_store_options *options) {
    rp_message_store *store = fixture_open(options);
    rp_consume_queue *queue = fixture_queue(store, "Kept", 0);
    for (int64_t i = 0; i < MESSAGES; i++) {
        CHECK(fixture_append(store, queue, i) == RP_OK);
    }
    fixture_close(store);
}

/* As a kill leaves it: the checkpoint knows all. */
static void mark_as_killed(const char *root) {
    char path[600];
    snprintf(path, sizeof path, "%s/abort", root);
    CHECK(close(open(path, O_RDWR | O_CREAT, 0644)) == 0);
}

static ino_t inode_of_queue(const char *root) {
    char path[600];
    struct stat status;
    snprintf(path, sizeof path, "%s/consumequeue/Kept/0/%020d", root, 0);
    CHECK(stat(path, &status) == 0);
    return status.st_ino;
}

static void the_start_is_refused_and_changes_nothing(const rp_message_store_options *options, int was_killed, int expected) {
    rp_message_store *store = NULL;
    rp_error error = {0};
    if (was_killed) {
        mark_as_killed(options->root_path);
    }
    ino_t before = inode_of_queue(options->root_path);
    CHECK(rp_message_store_open(options, &store, &error) == expected && error.message[0] != 0);
    unmapped = 0;
    unopened = NULL;
    CHECK(inode_of_queue(options->root_path) == before);
    store = fixture_open(options);
    rp_consume_queue *queue = fixture_queue(store, "Kept", 0);
    CHECK(rp_consume_queue_min_offset(queue) == 0 && rp_consume_queue_max_offset(queue) == MESSAGES);
    for (int64_t i = 0; i < MESSAGES; i++) {
        CHECK(fixture_check(store, queue, i) == 0);
    }
    fixture_close(store);
    CHECK(inode_of_queue(options->root_path) == before);
}

int main(void) {
    char root[400];
    fixture_directory(root, sizeof root);
    rp_file_ops ops = *rp_file_ops_system();
    ops.map = map_or_not;
    ops.open = open_or_not;
    rp_message_store_options options;
    fixture_options(&options, root);
    options.consume_queue_file_size = QUEUE_FILE_SIZE;
    options.file_ops = &ops;
    options.index_enable = 0;
    fill(&options);
    for (int was_killed = 0; was_killed <= 1; was_killed++) {
        unmapped = QUEUE_FILE_SIZE;
        the_start_is_refused_and_changes_nothing(&options, was_killed, RP_E_NO_MEMORY);
        unopened = "commitlog/";
        os_errno = EMFILE;
        the_start_is_refused_and_changes_nothing(&options, was_killed, RP_E_IO);
        unopened = "consumequeue/Kept/0/";
        the_start_is_refused_and_changes_nothing(&options, was_killed, RP_E_IO);
        unopened = "consumequeue/Kept/0/";
        os_errno = EACCES;
        the_start_is_refused_and_changes_nothing(&options, was_killed, RP_E_IO);
    }
    fixture_remove(root);
    return 0;
}
