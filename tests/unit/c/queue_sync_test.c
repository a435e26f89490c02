/* queue_sync_test.c: many queues are synced by one sync of their file system, or one by one where that is impossible. */
#include <errno.h>

#include "../../../csrc/store/commit_log_inl.h"
#include "../../../csrc/store/message_store_inl.h"
#include "../../../csrc/store/queue_sync.h"
#include "check.h"
#include "power_cut.h"
#include "store_fixture.h"

enum { QUEUES = 12, MESSAGES = 3, IMAGES = 6 };

static struct disk {
    power_cut *cut;
    rp_file_ops ops; /* the power cut's, with its context, but for the two below */
    int together, alone;     /* syncs of the file system; of single queues, which are mapped without a descriptor */
    int fails_with;          /* errno of the file system's; 0: none */
    void (*meanwhile)(void); /* behind it, before the store knows; NULL: nothing */
    rp_message_store *store;
    rp_consume_queue *queues[QUEUES];
    char base[400], live[512];
} disk;

static int sync_filesystem(void *context, int fd) {
    disk.together++;
    errno = disk.fails_with;
    int rc = disk.fails_with != 0 ? -1 : disk.cut->ops.sync_filesystem(context, fd);
    if (disk.meanwhile != NULL)
        disk.meanwhile();
    return rc;
}

static int sync_range(void *context, int fd, void *address, int64_t offset, size_t size) {
    disk.alone += fd < 0;
    return disk.cut->ops.sync_range(context, fd, address, offset, size);
}

static void append_to_each(int64_t number) {
    for (int i = 0; i < QUEUES; i++)
        CHECK(fixture_append(disk.store, disk.queues[i], number) == RP_OK);
}

/* A store of QUEUES queues of MESSAGES each, of which nothing is synced. */
static void begin(void) {
    disk = (struct disk){0};
    fixture_directory(disk.base, sizeof disk.base);
    CHECK(snprintf(disk.live, sizeof disk.live, "%s/live", disk.base) < (int)sizeof disk.live);
    disk.cut = power_cut_create(disk.live);
    disk.ops = disk.cut->ops;
    disk.ops.sync_filesystem = sync_filesystem;
    disk.ops.sync_range = sync_range;
    rp_message_store_options options;
    fixture_options(&options, disk.live);
    options.file_ops = &disk.ops;
    options.index_enable = 0;
    fixture_never_flush(&options);
    disk.store = fixture_open(&options);
    for (int i = 0; i < QUEUES; i++)
        disk.queues[i] = fixture_queue(disk.store, "T", i);
    for (int64_t number = 0; number < MESSAGES; number++)
        append_to_each(number);
    disk.alone = 0;
}

static void end(void) {
    fixture_close(disk.store);
    power_cut_destroy(disk.cut);
    fixture_remove(disk.base);
}

static int pass(uint32_t at_once, rp_error *error) {
    rp_queue_sync sync = {disk.store->queues, &disk.ops, disk.store->queues_fd, at_once};
    return rp_queue_sync_pass(&sync, 1, error);
}

static int count_clean(void) {
    int clean = 0;
    for (int i = 0; i < QUEUES; i++)
        clean += rp_consume_queue_dirty_bytes(disk.queues[i]) == 0;
    return clean;
}

static void many_are_synced_together(void) {
    rp_error error = {0};
    begin();
    CHECK(pass(QUEUES, &error) == RP_OK);
    CHECK(disk.together == 1 && disk.alone == 0 && count_clean() == QUEUES);
    power_cut_now(disk.cut);
    for (uint64_t seed = 1; seed <= IMAGES; seed++) {
        char image[CUT_PATH];
        uint64_t dice = seed;
        CHECK(snprintf(image, sizeof image, "%s/image-%d", disk.base, (int)seed) < CUT_PATH);
        power_cut_image(disk.cut, "", image, &dice);
        rp_message_store_options options;
        fixture_options(&options, image);
        rp_message_store *store = fixture_open(&options);
        for (int i = 0; i < QUEUES; i++)
            CHECK(rp_consume_queue_max_offset(fixture_queue(store, "T", i)) == MESSAGES);
        fixture_close(store);
    }
    CHECK(rp_message_store_close(disk.store, &error) == RP_E_IO); /* the power is gone */
    power_cut_destroy(disk.cut);
    fixture_remove(disk.base);
}

static void few_are_synced_one_by_one(void) {
    rp_error error = {0};
    begin();
    CHECK(pass(QUEUES + 1, &error) == RP_OK);
    CHECK(disk.together == 0 && disk.alone == QUEUES && count_clean() == QUEUES);
    end();
}

static void so_are_many_whose_file_system_does_not_say_what_it_lost(void) {
    static const int reasons[] = {ENOTSUP, EIO};
    for (int i = 0; i < 2; i++) {
        rp_error error = {0};
        begin();
        disk.fails_with = reasons[i];
        CHECK(pass(QUEUES, &error) == RP_OK);
        CHECK(disk.together == 1 && disk.alone == QUEUES && count_clean() == QUEUES);
        end();
    }
}

/* A disk that fails fails both. */
static void a_failed_sync_is_told(void) {
    rp_error error = {0};
    begin();
    disk.fails_with = EIO;
    power_cut_now(disk.cut);
    CHECK(pass(QUEUES, &error) == RP_E_IO && count_clean() == 0);
    CHECK(rp_message_store_close(disk.store, &error) == RP_E_IO);
    power_cut_destroy(disk.cut);
    fixture_remove(disk.base);
}

static void a_queue_on_another_disk_is_synced_by_itself(void) {
    char moved[CUT_PATH], other[CUT_PATH];
    struct stat here, there;
    rp_error error = {0};
    begin();
    fixture_directory_below("/dev/shm", other, sizeof other);
    CHECK(stat(disk.live, &here) == 0 && stat(other, &there) == 0);
    if (here.st_dev != there.st_dev) { /* else the tests run in /dev/shm, and there is no other disk */
        CHECK(snprintf(moved, sizeof moved, "%s/consumequeue/T/0", disk.live) < CUT_PATH);
        fixture_remove(moved);
        CHECK(symlink(other, moved) == 0);
        CHECK(pass(QUEUES, &error) == RP_OK);
        CHECK(disk.together == 1 && disk.alone == 1 && count_clean() == QUEUES);
        CHECK(unlink(moved) == 0);
    }
    end();
    fixture_remove(other);
}

static void put_again(void) {
    pthread_mutex_t *append_lock = &rp_message_store_commit_log(disk.store)->append_lock;
    rp_error error = {0};
    pthread_mutex_lock(append_lock);
    CHECK(rp_consume_queue_clear(disk.queues[0], &error) == RP_OK); /* its topic is deleted */
    pthread_mutex_unlock(append_lock);
    append_to_each(MESSAGES);
}

static void what_is_put_meanwhile_is_not_taken_for_synced(void) {
    rp_error error = {0};
    begin();
    disk.meanwhile = put_again;
    CHECK(pass(QUEUES, &error) == RP_OK);
    CHECK(disk.together == 1 && disk.alone == 0);
    for (int i = 0; i < QUEUES; i++)
        CHECK(rp_consume_queue_dirty_bytes(disk.queues[i]) == RP_CONSUME_QUEUE_ENTRY_SIZE);
    disk.meanwhile = NULL;
    CHECK(pass(QUEUES, &error) == RP_OK && count_clean() == QUEUES);
    end();
}

int main(void) {
    RUN(many_are_synced_together);
    RUN(few_are_synced_one_by_one);
    RUN(so_are_many_whose_file_system_does_not_say_what_it_lost);
    RUN(a_failed_sync_is_told);
    RUN(a_queue_on_another_disk_is_synced_by_itself);
    RUN(what_is_put_meanwhile_is_not_taken_for_synced);
    return 0;
}
