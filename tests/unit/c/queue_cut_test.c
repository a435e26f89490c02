/* queue_cut_test.c: a topic is deleted, and made again, while its queue is being synced: that is no failure, and its new entries are synced
 * too. */
#include <pthread.h>
#include <stdatomic.h>

#include "check.h"
#include "power_cut.h"
#include "store_fixture.h"

enum { BEFORE = 40, AFTER = 20, IMAGES = 6 };

typedef struct deletion {
    power_cut *cut;
    rp_file_ops ops; /* the power cut's, but for sync_range */
    rp_message_store *store;
    rp_consume_queue *queue;
    pthread_t thread;
    _Atomic bool is_due;
} deletion;

static void *delete_topic(void *context) {
    deletion *of = context;
    rp_error error = {0};
    CHECK(rp_message_store_delete_topic(of->store, fixture_slice("Again"), &error) == RP_OK);
    return NULL;
}

static deletion once;

/* Once, in the middle of the queue's sync: its topic is deleted, and sent to again. */
static int sync_range(void *context, int fd, void *address, int64_t offset, size_t size) {
    int rc = once.cut->ops.sync_range(context, fd, address, offset, size);
    if (fd < 0 && atomic_exchange(&once.is_due, false)) { /* queues are mapped without a descriptor */
        char topic[CUT_PATH];
        cut_join(topic, once.cut->live, "consumequeue/Again");
        CHECK(pthread_create(&once.thread, NULL, delete_topic, &once) == 0);
        while (access(topic, F_OK) == 0) {
            sched_yield();
        }
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
    once.cut = power_cut_create(live);
    once.ops = once.cut->ops;
    once.ops.sync_range = sync_range;
    rp_message_store_options options;
    fixture_options(&options, live);
    options.file_ops = &once.ops;
    options.index_enable = 0;
    options.flush_interval_ms = options.queue_flush_interval_ms = options.flush_thorough_interval_ms = 600000;
    once.store = fixture_open(&options);
    once.queue = fixture_queue(once.store, "Again", 0);
    for (int64_t i = 0; i < BEFORE; i++) {
        CHECK(fixture_append(once.store, once.queue, i) == RP_OK);
    }
    atomic_store(&once.is_due, true);
    rp_error error = {0};
    CHECK(rp_message_store_delete_topic(once.store, fixture_slice("Other"), &error) == RP_OK); /* syncs log and queues */
    CHECK(pthread_join(once.thread, NULL) == 0 && !atomic_load(&once.is_due));
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
        CHECK(pthread_create(&once.thread, NULL, delete_topic, &once) == 0);
        while (access(path, F_OK) == 0) {
            sched_yield();
        }
    }
    return rp_file_ops_system()->sync_directory(context, path);
}

/* As it did when the disk had failed: no checkpoint any more, a close that fails, a recovery after it. */
static void a_directory_that_goes_before_its_sync_is_no_failed_disk(void) {
    char path[400];
    fixture_directory(path, sizeof path);
    once.ops = *rp_file_ops_system();
    once.ops.sync_directory = sync_directory;
    rp_message_store_options options;
    fixture_options(&options, path);
    options.file_ops = &once.ops;
    options.flush_interval_ms = options.queue_flush_interval_ms = options.flush_thorough_interval_ms = 600000;
    once.store = fixture_open(&options);
    CHECK(fixture_append(once.store, fixture_queue(once.store, "Again", 0), 0) == RP_OK);
    atomic_store(&once.is_due, true);
    rp_error error = {0};
    CHECK(rp_message_store_delete_topic(once.store, fixture_slice("Other"), &error) == RP_OK); /* syncs log and queues */
    CHECK(pthread_join(once.thread, NULL) == 0 && !atomic_load(&once.is_due));
    fixture_close(once.store);
    fixture_remove(path);
}

int main(void) {
    RUN(a_directory_that_goes_before_its_sync_is_no_failed_disk);
    RUN(entries_put_while_older_ones_are_synced_are_not_forgotten);
    return 0;
}
