/* checkpoint_test.c: reading a checkpoint that a power cut has torn, and one that RocketMQ has written since. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "../../../csrc/base/bytes_inl.h"
#include "../../../csrc/store/checkpoint.h"
#include "check.h"
#include "store_fixture.h"

enum { SECTOR = 512, SECTORS = RP_CHECKPOINT_SIZE / SECTOR };

static char path[600];

static void put(const uint8_t page[RP_CHECKPOINT_SIZE]) {
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && pwrite(fd, page, RP_CHECKPOINT_SIZE, 0) == RP_CHECKPOINT_SIZE);
    close(fd);
}

static rp_checkpoint get(void) {
    rp_checkpoint found;
    CHECK(rp_checkpoint_read(rp_file_ops_system(), path, &found, NULL) == RP_OK);
    return found;
}

/* Writes a checkpoint whose offsets are all `offset` over the file. page: the file's bytes afterwards. */
static void write_over(int64_t offset, uint8_t page[RP_CHECKPOINT_SIZE]) {
    rp_checkpoint checkpoint = get();
    checkpoint.log_time_ms = checkpoint.queues_time_ms = checkpoint.index_time_ms = offset + 1;
    checkpoint.flushed_offset = checkpoint.queues_offset = checkpoint.index_offset = offset;
    checkpoint.is_exact = 1;
    CHECK(rp_checkpoint_write(rp_file_ops_system(), path, &checkpoint, NULL) == RP_OK);
    memcpy(page, get().foreign, RP_CHECKPOINT_SIZE);
}

static int says(const rp_checkpoint *found, int64_t offset) {
    return found->is_exact && found->log_time_ms == offset + 1 && found->queues_time_ms == offset + 1 &&
           found->index_time_ms == offset + 1 && found->flushed_offset == offset && found->queues_offset == offset &&
           found->index_offset == offset;
}

static void a_torn_one_is_the_old_one_or_the_new(void) {
    uint8_t before[RP_CHECKPOINT_SIZE], after[RP_CHECKPOINT_SIZE], torn[RP_CHECKPOINT_SIZE];
    write_over(1000, before);
    write_over(2000, after);
    for (uint32_t written = 0; written < 1u << SECTORS; written++) {
        for (int sector = 0; sector < SECTORS; sector++)
            memcpy(torn + sector * SECTOR, (written >> sector & 1 ? after : before) + sector * SECTOR, SECTOR);
        put(torn);
        rp_checkpoint found = get();
        CHECK(says(&found, 1000) || says(&found, 2000));
    }
}

static void what_rocketmq_wrote_since_counts(void) {
    uint8_t page[RP_CHECKPOINT_SIZE];
    write_over(1000, page);
    rp_put_u64(page, 5000); /* physicMsgTimestamp */
    put(page);
    rp_checkpoint found = get();
    CHECK(!found.is_exact && found.flushed_offset == -1 && found.log_time_ms == 5000);
}

static void a_pipe_is_told_of_and_not_waited_for(void) {
    char pipe_path[620];
    rp_checkpoint found;
    rp_error error = {0};
    snprintf(pipe_path, sizeof pipe_path, "%s.pipe", path);
    CHECK(mkfifo(pipe_path, 0600) == 0);
    CHECK(rp_checkpoint_read(rp_file_ops_system(), pipe_path, &found, &error) == RP_E_IO && error.os_errno == ENXIO);
    CHECK(strcmp(error.file, pipe_path) == 0);
}

int main(void) {
    char base[400];
    fixture_directory(base, sizeof base);
    snprintf(path, sizeof path, "%s/checkpoint", base);
    RUN(a_torn_one_is_the_old_one_or_the_new);
    RUN(what_rocketmq_wrote_since_counts);
    RUN(a_pipe_is_told_of_and_not_waited_for);
    fixture_remove(base);
    return 0;
}
