/* checkpoint_idle_test.c: the checkpoint records what reaches the disk while nothing is appended, so that a recovery after a kill does not
 * read it again. */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>

#include "../../../csrc/base/clock.h"
#include "../../../csrc/store/checkpoint.h"
#include "check.h"
#include "store_fixture.h"

#define WAIT_NS (INT64_C(120) * 1000000000)

static rp_file_ops failing_ops;
static _Atomic int failures; /* how often opening the checkpoint has yet to fail */

static int open_or_fail(void *context, const char *path, int flags, uint32_t mode) {
    if (strstr(path, "/checkpoint") != NULL && failures > 0) {
        failures--;
        errno = EMFILE;
        return -1;
    }
    return rp_file_ops_system()->open(context, path, flags, mode);
}

static rp_message_store *open_store(char path[512], rp_message_store_options *options) {
    fixture_directory(path, 512);
    fixture_options(options, path);
    options->file_ops = &failing_ops;
    options->flush_interval_ms = options->queue_flush_interval_ms = options->flush_thorough_interval_ms = 20;
    return fixture_open(options);
}

static int64_t index_offset(const rp_checkpoint *checkpoint) { return checkpoint->index_offset; }
static int64_t queues_offset(const rp_checkpoint *checkpoint) { return checkpoint->queues_offset; }

static void await_checkpoint(const char *root, int64_t (*offset)(const rp_checkpoint *checkpoint), int64_t wanted) {
    char path[600];
    rp_checkpoint checkpoint;
    int64_t begun_ns = rp_clock_monotonic_ns(rp_clock_system());
    snprintf(path, sizeof path, "%s/checkpoint", root);
    for (;;) {
        CHECK(rp_checkpoint_read(rp_file_ops_system(), path, &checkpoint, NULL) == RP_OK);
        if (checkpoint.is_exact && offset(&checkpoint) == wanted) { /* is_exact is 0 while a write is half done */
            return;
        }
        CHECK(rp_clock_monotonic_ns(rp_clock_system()) - begun_ns < WAIT_NS);
        poll(NULL, 0, 5);
    }
}

/* The log is synced seconds after the last pass that found anything new in the queues. */
static void the_last_sync_of_the_index_is_in_it(void) {
    char path[512];
    rp_message_store_options options;
    rp_message_store *store = open_store(path, &options);
    rp_queue_entry entry;
    CHECK(fixture_append(store, fixture_queue(store, "T", 0), 0) == RP_OK);
    CHECK(rp_consume_queue_read(fixture_queue(store, "T", 0), 0, &entry, 1) == 1);
    await_checkpoint(path, index_offset, entry.commit_log_offset);
    fixture_close(store);
    fixture_remove(path);
}

static void one_that_could_not_be_written_is_written_later(void) {
    char path[512];
    rp_message_store_options options;
    rp_message_store *store = open_store(path, &options);
    failures = 3;
    CHECK(fixture_append(store, fixture_queue(store, "T", 0), 0) == RP_OK);
    await_checkpoint(path, queues_offset, rp_commit_log_max_offset(rp_message_store_commit_log(store)));
    CHECK(failures == 0);
    fixture_close(store);
    fixture_remove(path);
}

int main(void) {
    failing_ops = *rp_file_ops_system();
    failing_ops.open = open_or_fail;
    RUN(the_last_sync_of_the_index_is_in_it);
    RUN(one_that_could_not_be_written_is_written_later);
    return 0;
}
