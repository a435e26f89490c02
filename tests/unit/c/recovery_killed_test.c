/* recovery_killed_test.c: a recovery is killed before its n-th system call, n = 1, 2, … until one completes; the next start finds every
 * message. */
#include <errno.h>
#include <fcntl.h>

#include "check.h"
#include "power_cut.h"
#include "store_fixture.h"

enum { MESSAGES = 260 };

static void options_of(rp_message_store_options *options, const char *path) {
    fixture_options(options, path);
    options->flush_interval_ms = options->queue_flush_interval_ms = 60000;
    options->index_enable = 0; /* is built again after any start */
}

static void copy_tree(const char *from, const char *to) {
    char command[2400];
    snprintf(command, sizeof command, "cp -a --sparse=always '%s' '%s'", from, to);
    CHECK(system(command) == 0);
}

/* What a killed process leaves: MESSAGES whole records, and half of one more in front of bytes of another. */
static void make_store(const char *root, const char *image) {
    rp_message_store_options options;
    options_of(&options, root);
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "Killed", 0);
    for (int64_t i = 0; i < MESSAGES; i++) {
        CHECK(fixture_append(store, queue, i) == RP_OK);
    }
    int64_t end = rp_commit_log_max_offset(rp_message_store_commit_log(store));
    CHECK(rp_message_store_wait_flushed(store, end, 60000) == RP_OK);
    copy_tree(root, image);
    fixture_close(store);
    char path[1024];
    snprintf(path, sizeof path, "%s/commitlog/%020lld", image, (long long)(end - end % FIXTURE_LOG_FILE_SIZE));
    int fd = open(path, O_RDWR);
    uint8_t torn[3000];
    memset(torn, 0x5A, sizeof torn);
    memcpy(torn, (uint8_t[]){0, 0, 1, 200, 0xDA, 0xA3, 0x20, 0xA7}, 8);
    CHECK(fd >= 0 && pwrite(fd, torn, sizeof torn, end % FIXTURE_LOG_FILE_SIZE) == (ssize_t)sizeof torn && close(fd) == 0);
}

static void leave_as_it_is(const char *image) { (void)image; }

static void lose_a_queue_file(const char *image) {
    char path[1024];
    snprintf(path, sizeof path, "%s/consumequeue/Killed/0/%020d", image, 3 * FIXTURE_QUEUE_FILE_ENTRIES * RP_CONSUME_QUEUE_ENTRY_SIZE);
    CHECK(unlink(path) == 0);
}

static void look_like_a_clean_stop(const char *image) {
    char path[1024];
    snprintf(path, sizeof path, "%s/abort", image);
    CHECK(unlink(path) == 0);
}

/* What a kill leaves, with all queues gone; the checkpoint calls all their entries synced. */
static void lose_all_queues(const char *image) {
    char path[1024];
    rp_message_store_options options;
    options_of(&options, image);
    fixture_close(fixture_open(&options)); /* writes the checkpoint */
    snprintf(path, sizeof path, "%s/abort", image);
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && close(fd) == 0);
    snprintf(path, sizeof path, "%s/consumequeue", image);
    fixture_remove(path);
}

static void all_is_there(const char *path, int64_t n) {
    rp_message_store_options options;
    options_of(&options, path);
    printf("%lld ", (long long)n); /* which one it was */
    fflush(stdout);
    rp_message_store *store = fixture_open(&options);
    rp_consume_queue *queue = fixture_queue(store, "Killed", 0);
    CHECK(rp_consume_queue_max_offset(queue) == MESSAGES);
    for (int64_t i = 0; i < MESSAGES; i++) {
        CHECK(fixture_check(store, queue, i) == 0);
    }
    CHECK(fixture_append(store, queue, MESSAGES) == RP_OK && fixture_check(store, queue, MESSAGES) == 0);
    fixture_close(store);
}

enum { CHANGES_MIN = 3 }; /* a recovery makes more: the row's cut, the checkpoint, the mark */

static void a_killed_recovery_loses_nothing(const char *base, const char *image, void (*damage)(const char *image)) {
    char damaged[600], live[600];
    snprintf(damaged, sizeof damaged, "%s/damaged", base);
    snprintf(live, sizeof live, "%s/live", base);
    copy_tree(image, damaged);
    damage(damaged);
    int64_t n = 0;
    for (int is_over = 0; !is_over;) {
        n++;
        copy_tree(damaged, live);
        power_cut *cut = power_cut_create(live);
        cut->fail_at = n;
        cut->fail_errno = EIO;
        cut->fail_forever = true;
        rp_message_store_options options;
        options_of(&options, live);
        options.file_ops = &cut->ops;
        rp_message_store *store = NULL;
        rp_error error = {0};
        is_over = rp_message_store_open(&options, &store, &error) == RP_OK;
        if (is_over) {
            rp_message_store_close(store, &error);
        }
        all_is_there(live, n);
        power_cut_destroy(cut);
        fixture_remove(live);
    }
    printf("\n");
    CHECK(n > CHANGES_MIN); /* else the store goes by other calls than the failing ones */
    fixture_remove(damaged);
}

/* Somebody removed the abort file of a killed broker, or of a copy of a running one. A power cut had taken the last entries of one
 * queue, but not the younger ones of the other. */
static void a_removed_abort_mark_hides_no_lost_entry(const char *base) {
    char root[512], image[512], path[1024];
    snprintf(root, sizeof root, "%s/two", base);
    snprintf(image, sizeof image, "%s/two.image", base);
    rp_message_store_options options;
    options_of(&options, root);
    rp_message_store *store = fixture_open(&options);
    for (int64_t i = 0; i < 40; i++) {
        CHECK(fixture_append(store, fixture_queue(store, "Killed", (int32_t)(i % 2)), i / 2) == RP_OK);
    }
    copy_tree(root, image);
    fixture_close(store);
    look_like_a_clean_stop(image);
    snprintf(path, sizeof path, "%s/consumequeue/Killed/0/%020d", image, 0);
    const uint8_t lost[7 * RP_CONSUME_QUEUE_ENTRY_SIZE] = {0};
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pwrite(fd, lost, sizeof lost, 13 * RP_CONSUME_QUEUE_ENTRY_SIZE) == (ssize_t)sizeof lost && close(fd) == 0);
    options_of(&options, image);
    store = fixture_open(&options);
    for (int32_t id = 0; id < 2; id++) {
        CHECK(rp_consume_queue_max_offset(fixture_queue(store, "Killed", id)) == 20);
        for (int64_t i = 0; i < 20; i++) {
            CHECK(fixture_check(store, fixture_queue(store, "Killed", id), i) == 0);
        }
    }
    fixture_close(store);
}

/* The power went before anything was synced: of the log nothing is left, of a queue the file that had been made ahead. */
static void a_queue_that_lost_its_log_and_its_first_file_begins_anew(const char *base) {
    char root[512], image[512], command[2400];
    snprintf(root, sizeof root, "%s/ahead", base);
    snprintf(image, sizeof image, "%s/ahead.image", base);
    rp_message_store_options options;
    options_of(&options, root);
    rp_message_store *store = fixture_open(&options);
    for (int64_t i = 0; i <= FIXTURE_QUEUE_FILE_ENTRIES; i++) {
        CHECK(fixture_append(store, fixture_queue(store, "Killed", 0), i) == RP_OK);
    }
    copy_tree(root, image);
    fixture_close(store);
    snprintf(command, sizeof command, "cd '%s' && rm commitlog/* checkpoint consumequeue/Killed/0/* && test -e abort", image);
    snprintf(command + strlen(command), sizeof command - strlen(command), " && truncate -s %d consumequeue/Killed/0/%020d",
             FIXTURE_QUEUE_FILE_ENTRIES * RP_CONSUME_QUEUE_ENTRY_SIZE, FIXTURE_QUEUE_FILE_ENTRIES * RP_CONSUME_QUEUE_ENTRY_SIZE);
    CHECK(system(command) == 0);
    options_of(&options, image);
    store = fixture_open(&options);
    CHECK(rp_consume_queue_min_offset(fixture_queue(store, "Killed", 0)) == 0);
    CHECK(fixture_append(store, fixture_queue(store, "Killed", 0), 0) == RP_OK);
    CHECK(fixture_check(store, fixture_queue(store, "Killed", 0), 0) == 0);
    fixture_close(store);
}

int main(void) {
    char base[400], root[512], image[512];
    fixture_directory(base, sizeof base);
    snprintf(root, sizeof root, "%s/root", base);
    snprintf(image, sizeof image, "%s/image", base);
    make_store(root, image);
    a_killed_recovery_loses_nothing(base, image, leave_as_it_is);
    a_killed_recovery_loses_nothing(base, image, lose_a_queue_file);
    a_killed_recovery_loses_nothing(base, image, look_like_a_clean_stop);
    a_killed_recovery_loses_nothing(base, image, lose_all_queues);
    a_removed_abort_mark_hides_no_lost_entry(base);
    a_queue_that_lost_its_log_and_its_first_file_begins_anew(base);
    fixture_remove(base);
    return 0;
}
