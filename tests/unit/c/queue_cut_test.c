/* queue_cut_test.c: a topic is deleted and created again while its queue is being synced: that is no failure, and its new entries are
 * synced too. */
#include <pthread.h>
#include <stdatomic.h>

#include "../../../csrc/store/commit_log_inl.h"
#include "../../../csrc/store/consume_queue_writer.h"
#include "check.h"
#include "power_cut.h"
#include "store_fixture.h"

enum { BEFORE = 40, AFTER = 20, IMAGES = 6 };

typedef struct deletion {
    power_cut *cut;
    rp_file_ops ops; /* the power cut's, but for sync_range */
    const char *root;
    rp_message_store *store;
    rp_consume_queue *queue;
    _Atomic bool is_due;
} deletion;

static deletion once;

/* Does what a deletion does after its own first sync, which would wait for the sync that is under way here. */
static void clear_queue(void) {
    char path[CUT_PATH];
    cut_join(path, once.root, "consumequeue/Again/0");
    pthread_mutex_t *append_lock = &rp_message_store_commit_log(once.store)->append_lock;
    rp_error error = {0};
    pthread_mutex_lock(append_lock);
    CHECK(rp_consume_queue_clear(once.queue, &error) == RP_OK);
    pthread_mutex_unlock(append_lock);
    CHECK(rmdir(path) == 0);
}

/* Once, in the middle of the queue's sync: its topic is deleted, and sent to again. */
static int sync_range(void *context, int fd, void *address, int64_t offset, size_t size) {
    int rc = once.cut->ops.sync_range(context, fd, address, offset, size);
    if (fd < 0 && atomic_exchange(&once.is_due, false)) { /* queues are mapped without a descriptor */
        clear_queue();
        for (int64_t i = 0; i < AFTER; i++) {
            CHECK(fixture_append(once.store, once.queue, i) == RP_OK);
        }
    }
    return rc;
}

static void entries_put_while_older_ones_are_synced_are_not_forgotten(void) {
    char base[400], live[512], image[512];
    fixture_directory(base, sizeof base);
    snprintf(live, sizeof live, "%s/live", base);
    once.root = live;
    once.cut = power_cut_create(live);
    once.ops = once.cut->ops;
    once.ops.sync_range = sync_range;
    rp_message_store_options options;
    fixture_options(&options, live);
    options.file_ops = &once.ops;
    options.index_enable = 0;
    fixture_never_flush(&options);
    once.store = fixture_open(&options);
    once.queue = fixture_queue(once.store, "Again", 0);
    for (int64_t i = 0; i < BEFORE; i++) {
        CHECK(fixture_append(once.store, once.queue, i) == RP_OK);
    }
    atomic_store(&once.is_due, true);
    rp_error error = {0};
    CHECK(rp_message_store_delete_topic(once.store, fixture_slice("Other"), &error) == RP_OK); /* syncs log and queues */
    CHECK(!atomic_load(&once.is_due));
    CHECK(rp_message_store_delete_topic(once.store, fixture_slice("Other"), &error) == RP_OK);
    power_cut_now(once.cut);
    for (uint64_t seed = 1; seed <= IMAGES; seed++) {
        uint64_t dice = seed;
        snprintf(image, sizeof image, "%s/image-%llu", base, (unsigned long long)seed);
        power_cut_image(once.cut, "", image, &dice);
        rp_message_store_options after;
        fixture_options(&after, image);
        rp_message_store *store = fixture_open(&after);
        rp_consume_queue *queue = fixture_queue(store, "Again", 0);
        CHECK(rp_consume_queue_max_offset(queue) == AFTER);
        for (int64_t i = 0; i < AFTER; i++) {
            CHECK(fixture_check(store, queue, i) == 0);
        }
        fixture_close(store);
    }
    CHECK(rp_message_store_close(once.store, &error) == RP_E_IO); /* the power is gone */
    power_cut_destroy(once.cut);
    fixture_remove(base);
}

static bool is_queue_directory(const char *path) { return strstr(path, "/consumequeue/Again/") != NULL; }

/* Once, before a queue's directory is opened to be synced: its topic is deleted. */
static int sync_directory(void *context, const char *path) {
    if (is_queue_directory(path) && atomic_exchange(&once.is_due, false)) {
        clear_queue();
    }
    return rp_file_ops_system()->sync_directory(context, path);
}

/* As it did when the disk had failed: no checkpoint any more, a close that fails, a recovery after it. */
static void a_directory_that_goes_before_its_sync_is_no_failed_disk(void) {
    char path[400];
    fixture_directory(path, sizeof path);
    once.root = path;
    once.ops = *rp_file_ops_system();
    once.ops.sync_directory = sync_directory;
    rp_message_store_options options;
    fixture_options(&options, path);
    options.file_ops = &once.ops;
    fixture_never_flush(&options);
    once.store = fixture_open(&options);
    once.queue = fixture_queue(once.store, "Again", 0);
    CHECK(fixture_append(once.store, once.queue, 0) == RP_OK);
    atomic_store(&once.is_due, true);
    rp_error error = {0};
    CHECK(rp_message_store_delete_topic(once.store, fixture_slice("Other"), &error) == RP_OK); /* syncs log and queues */
    CHECK(!atomic_load(&once.is_due));
    fixture_close(once.store);
    fixture_remove(path);
}

int main(void) {
    RUN(a_directory_that_goes_before_its_sync_is_no_failed_disk);
    RUN(entries_put_while_older_ones_are_synced_are_not_forgotten);
    return 0;
}
