/* preallocation_test.c: the thread that makes the log ready, while the log it works on moves away from under it. */
#include <stdatomic.h>

#include "../../../csrc/base/file_ops.h"
#include "check.h"
#include "store_fixture.h"

/* A disk on which the first sync of the log's directory lasts until a file is removed, and that removal until the sync's caller has gone
 * on: as with large files on a busy disk. */
typedef struct slow_disk {
    rp_file_ops ops;
    _Atomic int is_armed, is_syncing, is_removing;
} slow_disk;

static void pause_ms(long ms) {
    const struct timespec pause = {.tv_nsec = ms * 1000000};
    nanosleep(&pause, NULL);
}

static void wait_for(const _Atomic int *flag) {
    for (int rounds = 0; !atomic_load(flag); rounds++) {
        CHECK(rounds < 20000);
        pause_ms(1);
    }
}

static int slow_sync_directory(void *context, const char *path) {
    slow_disk *disk = context;
    if (strstr(path, "commitlog") != NULL && atomic_exchange(&disk->is_armed, 0)) {
        atomic_store(&disk->is_syncing, 1);
        wait_for(&disk->is_removing);
    }
    return rp_file_ops_system()->sync_directory(NULL, path);
}

static int slow_unlink(void *context, const char *path) {
    slow_disk *disk = context;
    atomic_store(&disk->is_removing, 1);
    pause_ms(50);
    return rp_file_ops_system()->unlink(NULL, path);
}

static void an_empty_slave_of_a_master_whose_first_files_are_gone_goes_on_there(void) {
    char path[512];
    fixture_directory(path, sizeof path);
    slow_disk disk = {.ops = *rp_file_ops_system(), .is_armed = 1};
    disk.ops.context = &disk;
    disk.ops.sync_directory = slow_sync_directory;
    disk.ops.unlink = slow_unlink;
    rp_message_store_options options;
    fixture_options(&options, path);
    options.flush_mode = RP_FLUSH_SYNC; /* then the zeros are synced */
    options.file_ops = &disk.ops;
    rp_message_store *store = fixture_open(&options);
    rp_commit_log *log = rp_message_store_commit_log(store);
    wait_for(&disk.is_syncing);
    uint8_t *address = NULL;
    uint32_t room = 0;
    rp_error error = {0};
    CHECK(rp_commit_log_reserve_replicated(log, 5 * FIXTURE_LOG_FILE_SIZE, &address, &room, &error) == RP_OK);
    CHECK(atomic_load(&disk.is_removing));
    int again = rp_commit_log_reserve_replicated(log, 5 * FIXTURE_LOG_FILE_SIZE, &address, &room, &error);
    if (again != RP_OK)
        fprintf(stderr, "%s\n", error.message);
    CHECK(again == RP_OK && room > 0);
    CHECK(rp_message_store_close(store, &error) == RP_OK);
    fixture_remove(path);
}

int main(void) {
    RUN(an_empty_slave_of_a_master_whose_first_files_are_gone_goes_on_there);
    return 0;
}
