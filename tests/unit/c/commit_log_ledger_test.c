/* commit_log_ledger_test.c: a DLedger commit log: led, followed, committed, cut, reopened after every kind of end. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "../../../csrc/store/commit_log_writer.h"
#include "../../../csrc/store/log_scan.h"
#include "../../../csrc/store/store_verify.h"
#include "ledger_fixture.h"

#define MANY 700 /* messages of 400 bytes and more: five files of the log, eight of the index */

/* The store is left as a killed process leaves it: by a child that ends without closing it. The caller's own is opened afterwards. */
static void killed(ledger *one, void (*work)(ledger *one)) {
    fflush(stdout);
    int64_t *appended = mmap(NULL, sizeof *appended, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        ledger_reopen(one);
        work(one);
        *appended = one->appended;
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    one->appended = *appended;
    munmap(appended, sizeof *appended);
}

static void leads_and_commits(int flush_mode) {
    ledger one;
    rp_error error;
    ledger_open(&one, flush_mode);
    CHECK(ledger_try_append(&one) == RP_E_READ_ONLY); /* nobody leads */
    CHECK(ledger_ends(&one).end_index == -1 && ledger_ends(&one).begin_index == -1);
    CHECK(rp_commit_log_lead_entries(ledger_log(&one), 3, &error) == RP_OK);
    ledger_append(&one, MANY);
    rp_ledger_ends ends = ledger_ends(&one);
    CHECK(ends.begin_index == 0 && ends.end_index == MANY && ends.end_term == 3);
    ledger_check_queues(&one, 0);
    CHECK(rp_commit_log_index_below(ledger_log(&one), ends.end_offset) == MANY);
    CHECK(rp_commit_log_index_below(ledger_log(&one), ends.end_offset - 1) == MANY - 1);
    CHECK(rp_commit_log_index_below(ledger_log(&one), 1) == -1);
    rp_log_range range;
    rp_ledger_entry entry;
    CHECK(rp_commit_log_read_entry(ledger_log(&one), MANY / 2, &range, &entry) == RP_OK); /* one is the leader's own: MANY / 2 messages */
    rp_log_range_release(range.pin);
    rp_commit_log_commit_entries(ledger_log(&one), entry.position + entry.size);
    ledger_check_queues(&one, MANY / 2);
    rp_commit_log_commit_entries(ledger_log(&one), 5); /* an older commit index changes nothing */
    ledger_commit_all(&one);
    ledger_check_queues(&one, MANY);
    CHECK(fixture_found_by_key(one.store, "T") == MANY);
    CHECK(rp_commit_log_follow_entries(ledger_log(&one), 60000) == RP_OK);
    CHECK(ledger_try_append(&one) == RP_E_READ_ONLY);
    fixture_close(one.store);
    ledger_reopen(&one);
    ledger_check_queues(&one, MANY);
    CHECK(fixture_found_by_key(one.store, "T") == MANY);
    CHECK(ledger_ends(&one).end_index == MANY && ledger_ends(&one).end_term == 3);
    CHECK(rp_commit_log_lead_entries(ledger_log(&one), 2, &error) == RP_E_RANGE);
    CHECK(rp_commit_log_lead_entries(ledger_log(&one), 4, &error) == RP_OK);
    ledger_append(&one, 10);
    ledger_commit_all(&one);
    ledger_check_queues(&one, MANY + 10);
    ledger_close(&one);
}

static void a_leader_commits(void) { leads_and_commits(RP_FLUSH_ASYNC); }
static void a_leader_that_syncs_commits(void) { leads_and_commits(RP_FLUSH_SYNC); }

static void lead_and_leave(ledger *one) {
    rp_error error;
    CHECK(rp_commit_log_lead_entries(ledger_log(one), ledger_ends(one).end_term + 1, &error) == RP_OK);
    ledger_append(one, 100);
    ledger_commit_all(one);
    ledger_append(one, 60); /* not committed */
}

/* Messages that are not committed are in the log but in no queue. Their places in the queues are reserved. */
static void what_is_not_committed_waits(int kill, int flush_mode) {
    ledger one;
    rp_error error;
    ledger_open(&one, flush_mode);
    if (kill) {
        fixture_close(one.store);
        killed(&one, lead_and_leave);
    } else {
        lead_and_leave(&one);
        fixture_close(one.store);
    }
    ledger_reopen(&one);
    int64_t known = 0;
    for (int64_t id = 0; id < LEDGER_QUEUES; id++)
        known += rp_consume_queue_max_offset(ledger_queue(&one, id));
    CHECK(known == 100); /* also behind a kill: an entry of a queue is of a committed message */
    CHECK(ledger_ends(&one).end_index == 160);
    CHECK(rp_commit_log_lead_entries(ledger_log(&one), 9, &error) == RP_OK);
    ledger_append(&one, 50);
    ledger_commit_all(&one);
    ledger_check_queues(&one, 210);
    CHECK(ledger_ends(&one).end_index == 211 && ledger_ends(&one).end_term == 9);
    ledger_close(&one);
}

static void a_stop_keeps_what_is_not_committed(void) { what_is_not_committed_waits(0, RP_FLUSH_ASYNC); }
static void a_kill_keeps_what_is_not_committed(void) { what_is_not_committed_waits(1, RP_FLUSH_ASYNC); }
static void a_kill_of_one_that_syncs_too(void) { what_is_not_committed_waits(1, RP_FLUSH_SYNC); }

/* Puts the index unit of another entry in an entry's place, as a power cut may leave that of an entry cut since. */
static void put_stale_unit(ledger *one, int64_t index, int64_t of) {
    char path[200];
    uint8_t unit[32];
    snprintf(path, sizeof path, "%s/%020d", one->index, 3200);
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pread(fd, unit, 32, of * 32 - 3200) == 32);
    unit[23] = (uint8_t)index; /* the last byte of its index, so that it claims to be the right one */
    CHECK(pwrite(fd, unit, 32, index * 32 - 3200) == 32 && close(fd) == 0);
}

/* DLedger's own checkpoint says what is committed when ours is not there. */
static void committed_as_dledger_says(int is_stale) {
    ledger one;
    char checkpoint[200];
    ledger_open(&one, RP_FLUSH_ASYNC);
    lead_and_leave(&one);
    fixture_close(one.store);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint", one.path);
    CHECK(unlink(checkpoint) == 0);
    snprintf(checkpoint, sizeof checkpoint, "rm -r %s/consumequeue", one.path);
    CHECK(system(checkpoint) == 0);
    one.committed_index = 100;
    if (is_stale)
        put_stale_unit(&one, 100, 140);
    ledger_reopen(&one);
    ledger_check_queues(&one, is_stale ? 0 : 100);
    ledger_commit_all(&one);
    ledger_check_queues(&one, 160);
    ledger_close(&one);
}

static void dledgers_checkpoint_is_believed(void) {
    committed_as_dledger_says(0);
    committed_as_dledger_says(1);
}

static void a_follower_has_the_same(int flush_mode) {
    ledger leader, follower;
    rp_error error;
    ledger_open(&leader, RP_FLUSH_ASYNC);
    ledger_open(&follower, flush_mode);
    CHECK(rp_commit_log_lead_entries(ledger_log(&leader), 1, &error) == RP_OK);
    ledger_append(&leader, MANY);
    ledger_copy(&leader, &follower, 0, MANY / 2);
    fixture_close(follower.store);
    ledger_reopen(&follower);
    ledger_check_queues(&follower, 0);
    ledger_copy(&leader, &follower, MANY / 2 + 1, MANY);
    ledger_check_same(&leader, &follower);
    ledger_commit_all(&follower);
    ledger_check_queues(&follower, MANY);
    CHECK(fixture_found_by_key(follower.store, "T") == MANY);
    CHECK(rp_commit_log_cut_entries(ledger_log(&follower), MANY - 1, &error) == RP_E_RANGE); /* committed */
    ledger_close(&leader);
    ledger_close(&follower);
}

static void a_follower_follows(void) { a_follower_has_the_same(RP_FLUSH_ASYNC); }
static void a_follower_that_syncs_follows(void) { a_follower_has_the_same(RP_FLUSH_SYNC); }

/* Two leaders' tails: the follower's is cut where they part, across files, and stays away when it is opened again. */
static void a_tail_is_cut(int flush_mode) {
    ledger old, leader;
    rp_error error;
    ledger_open(&old, flush_mode);
    ledger_open(&leader, RP_FLUSH_ASYNC);
    CHECK(rp_commit_log_lead_entries(ledger_log(&old), 1, &error) == RP_OK);
    ledger_append(&old, 40);
    ledger_copy(&old, &leader, 0, 40);
    leader.appended = 40;
    ledger_commit_all(&old);
    ledger_append(&old, 400); /* entries that no other member gets */
    CHECK(rp_commit_log_lead_entries(ledger_log(&leader), 2, &error) == RP_OK);
    ledger_append(&leader, 200);
    CHECK(rp_commit_log_cut_entries(ledger_log(&old), 40, &error) == RP_E_INVALID); /* refused: this member leads */
    CHECK(rp_commit_log_follow_entries(ledger_log(&old), 60000) == RP_OK);
    CHECK(rp_commit_log_cut_entries(ledger_log(&old), 500, &error) == RP_E_RANGE);
    CHECK(rp_commit_log_cut_entries(ledger_log(&old), 39, &error) == RP_E_RANGE);
    CHECK(rp_commit_log_cut_entries(ledger_log(&old), 40, &error) == RP_OK);
    CHECK(ledger_ends(&old).end_index == 40 && ledger_ends(&old).end_term == 1);
    fixture_close(old.store);
    ledger_reopen(&old);
    CHECK(ledger_ends(&old).end_index == 40 && ledger_ends(&old).end_term == 1);
    ledger_copy(&leader, &old, 41, 100);
    fixture_close(old.store);
    ledger_reopen(&old);
    ledger_copy(&leader, &old, 101, 241);
    ledger_check_same(&leader, &old);
    ledger_commit_all(&old);
    ledger_check_queues(&old, 240);
    ledger_close(&old);
    ledger_close(&leader);
}

static void a_followers_tail_is_cut(void) { a_tail_is_cut(RP_FLUSH_ASYNC); }
static void one_that_syncs_cuts_too(void) { a_tail_is_cut(RP_FLUSH_SYNC); }

/* A log without any committed entry, and with nothing in common with its leader's, is cut whole. */
static void all_is_cut(void) {
    ledger old, leader;
    rp_error error;
    ledger_open(&old, RP_FLUSH_ASYNC);
    ledger_open(&leader, RP_FLUSH_ASYNC);
    CHECK(rp_commit_log_lead_entries(ledger_log(&old), 1, &error) == RP_OK);
    ledger_append(&old, 300);
    CHECK(rp_commit_log_lead_entries(ledger_log(&leader), 2, &error) == RP_OK);
    ledger_append(&leader, 250);
    CHECK(rp_commit_log_follow_entries(ledger_log(&old), 60000) == RP_OK);
    CHECK(rp_commit_log_cut_entries(ledger_log(&old), -1, &error) == RP_OK);
    CHECK(ledger_ends(&old).end_index == -1 && ledger_ends(&old).end_term == -1 && ledger_ends(&old).begin_index == -1);
    ledger_copy(&leader, &old, 0, 250);
    ledger_check_same(&leader, &old);
    ledger_close(&old);
    ledger_close(&leader);
}

static void strangers_entries_are_refused(void) {
    ledger leader, follower;
    rp_error error;
    rp_log_range range;
    rp_ledger_entry entry;
    ledger_open(&leader, RP_FLUSH_ASYNC);
    ledger_open(&follower, RP_FLUSH_ASYNC);
    CHECK(rp_commit_log_lead_entries(ledger_log(&leader), 1, &error) == RP_OK);
    ledger_append(&leader, 10);
    ledger_copy(&leader, &follower, 0, 4);
    rp_commit_log *log = ledger_log(&follower);
    CHECK(rp_commit_log_read_entry(ledger_log(&leader), 6, &range, &entry) == RP_OK);
    CHECK(rp_commit_log_append_entry(log, range.address, range.size, &error) == RP_E_RANGE); /* entry 5 is missing before it */
    rp_log_range_release(range.pin);
    CHECK(rp_commit_log_read_entry(ledger_log(&leader), 5, &range, &entry) == RP_OK);
    uint8_t *bytes = malloc(range.size);
    for (uint32_t at = 0; at < range.size; at++) { /* each byte of head and record turned over */
        memcpy(bytes, range.address, range.size);
        bytes[at] ^= 0x80;
        int rc = rp_commit_log_append_entry(log, bytes, range.size, &error);
        if (rc == RP_OK) { /* bytes that no check covers: host, times, properties, channel and CRCs of the head */
            CHECK(rp_commit_log_cut_entries(log, 4, &error) == RP_OK);
        }
        CHECK(ledger_ends(&follower).end_index == 4);
    }
    for (uint32_t size = 0; size < range.size; size += 7)
        CHECK(rp_commit_log_append_entry(log, range.address, size, &error) == RP_E_CORRUPT);
    free(bytes);
    CHECK(rp_commit_log_append_entry(log, range.address, range.size, &error) == RP_OK);
    CHECK(rp_commit_log_append_entry(log, range.address, range.size, &error) == RP_E_RANGE); /* again */
    CHECK(rp_commit_log_append_entry(ledger_log(&leader), range.address, range.size, &error) == RP_E_INVALID);
    rp_log_range_release(range.pin);
    ledger_check_queues(&follower, 0);
    ledger_close(&leader);
    ledger_close(&follower);
}

static void index_files_are_made_again(void) {
    ledger one;
    char command[400];
    ledger_open(&one, RP_FLUSH_ASYNC);
    lead_and_leave(&one);
    ledger_append(&one, 400);
    ledger_commit_all(&one);
    fixture_close(one.store);
    snprintf(command, sizeof command, "rm -r %s", one.index);
    CHECK(system(command) == 0);
    ledger_reopen(&one);
    CHECK(ledger_ends(&one).end_index == 560 && ledger_ends(&one).begin_index == 0);
    rp_log_range range;
    rp_ledger_entry entry;
    for (int64_t index = 0; index <= 560; index++) {
        CHECK(rp_commit_log_read_entry(ledger_log(&one), index, &range, &entry) == RP_OK);
        rp_log_range_release(range.pin);
    }
    ledger_close(&one);
}

static void flip(const char *directory, int64_t offset) {
    char path[256];
    uint8_t byte;
    snprintf(path, sizeof path, "%s/%020lld", directory, (long long)(offset - offset % FIXTURE_LOG_FILE_SIZE));
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pread(fd, &byte, 1, offset % FIXTURE_LOG_FILE_SIZE) == 1);
    byte ^= 0xFF;
    CHECK(pwrite(fd, &byte, 1, offset % FIXTURE_LOG_FILE_SIZE) == 1);
    close(fd);
}

/* A damaged entry behind the committed ones ends the log. Among the committed ones it refuses the open. */
static void damage_is_the_end_or_told(void) {
    ledger one;
    rp_log_range range;
    rp_ledger_entry entry;
    rp_error error;
    ledger_open(&one, RP_FLUSH_ASYNC);
    lead_and_leave(&one);
    CHECK(rp_commit_log_read_entry(ledger_log(&one), 130, &range, &entry) == RP_OK);
    rp_log_range_release(range.pin);
    fixture_close(one.store);
    flip(one.data, entry.position + 200);
    ledger_reopen(&one);
    CHECK(ledger_ends(&one).end_index == 129);
    one.appended = 129; /* the first entry is not a message */
    CHECK(rp_commit_log_lead_entries(ledger_log(&one), 5, &error) == RP_OK);
    ledger_append(&one, 20);
    ledger_commit_all(&one);
    ledger_check_queues(&one, 149);
    CHECK(rp_commit_log_read_entry(ledger_log(&one), 50, &range, &entry) == RP_OK);
    rp_log_range_release(range.pin);
    fixture_close(one.store);
    flip(one.data, entry.position + 200);
    char command[200];
    snprintf(command, sizeof command, "rm -r %s/consumequeue", one.path);
    CHECK(system(command) == 0); /* without queues the whole log is read */
    rp_message_store_options options;
    rp_message_store *store;
    ledger_options(&one, &options);
    CHECK(rp_message_store_open(&options, &store, &error) == RP_E_CORRUPT && strstr(error.message, "committed") != NULL);
    fixture_remove(one.path);
}

static void old_files_go(void) {
    ledger one;
    rp_error error;
    ledger_open(&one, RP_FLUSH_ASYNC);
    CHECK(rp_commit_log_lead_entries(ledger_log(&one), 1, &error) == RP_OK);
    ledger_append(&one, MANY);
    CHECK(rp_message_store_wait_flushed(one.store, ledger_ends(&one).end_offset, 60000) == RP_OK);
    CHECK(rp_message_store_expire_file(one.store, &error) == RP_E_NOT_FOUND); /* none is committed */
    ledger_commit_all(&one);
    CHECK(rp_message_store_expire_file(one.store, &error) == RP_OK);
    CHECK(rp_message_store_expire_file(one.store, &error) == RP_OK);
    rp_ledger_ends ends = ledger_ends(&one);
    CHECK(ends.begin_index > 100 && ends.end_index == MANY);
    rp_log_range range;
    rp_ledger_entry entry;
    CHECK(rp_commit_log_read_entry(ledger_log(&one), ends.begin_index - 1, &range, &entry) == RP_E_RANGE);
    CHECK(rp_commit_log_read_entry(ledger_log(&one), ends.begin_index, &range, &entry) == RP_OK);
    rp_log_range_release(range.pin);
    CHECK(rp_commit_log_index_below(ledger_log(&one), ends.end_offset) == MANY);
    fixture_close(one.store);
    ledger_reopen(&one);
    CHECK(ledger_ends(&one).begin_index == ends.begin_index && ledger_ends(&one).end_index == MANY);
    ledger follower; /* begins where its leader's log does */
    ledger_open(&follower, RP_FLUSH_ASYNC);
    ledger_copy(&one, &follower, ends.begin_index, MANY);
    ledger_check_same(&one, &follower);
    fixture_close(follower.store);
    ledger_reopen(&follower);
    ledger_check_same(&one, &follower);
    ledger_close(&follower);
    ledger_close(&one);
}

/* Many at once: a batch goes on behind the end of a file of the log, and of the index. */
static void batches_cross_files(int flush_mode) {
    enum { BATCH = 64, BATCHES = 12 };
    ledger one;
    rp_error error;
    static char bodies[BATCH][512];
    rp_append_item items[BATCH];
    ledger_open(&one, flush_mode);
    CHECK(rp_commit_log_lead_entries(ledger_log(&one), 1, &error) == RP_OK);
    for (int batch = 0; batch < BATCHES; batch++) {
        for (int i = 0; i < BATCH; i++, one.appended++) {
            rp_consume_queue *queue = ledger_queue(&one, one.appended);
            uint32_t size = fixture_body(bodies[i], sizeof bodies[i], rp_consume_queue_id(queue), one.appended / LEDGER_QUEUES);
            items[i] = fixture_item(queue, bodies[i], size);
        }
        CHECK(rp_commit_log_append(ledger_log(&one), items, BATCH) == BATCH);
    }
    ledger_commit_all(&one);
    ledger_check_queues(&one, BATCH * BATCHES);
    for (int64_t index = 0; index <= BATCH * BATCHES; index++) {
        rp_log_range range;
        rp_ledger_entry entry;
        CHECK(rp_commit_log_read_entry(ledger_log(&one), index, &range, &entry) == RP_OK);
        rp_log_range_release(range.pin);
    }
    ledger_close(&one);
}

static void a_batch_crosses_files(void) {
    batches_cross_files(RP_FLUSH_ASYNC);
    batches_cross_files(RP_FLUSH_SYNC);
}

typedef struct waiter {
    ledger *one;
    int64_t offset;
    int rc;
} waiter;

static void *wait_for_commit(void *context) {
    waiter *self = context;
    self->rc = rp_message_store_wait_committed(self->one->store, self->offset, 0, 60000);
    return NULL;
}

/* A record elsewhere that relies on an entry has to wait until the entry cannot be taken back. */
static void commits_are_waited_for(void) {
    ledger one;
    rp_error error;
    pthread_t thread;
    ledger_open(&one, RP_FLUSH_ASYNC);
    CHECK(rp_commit_log_lead_entries(ledger_log(&one), 1, &error) == RP_OK);
    ledger_append(&one, 5);
    waiter committed = {&one, ledger_ends(&one).end_offset, 1};
    CHECK(rp_message_store_wait_committed(one.store, committed.offset, 0, 0) == RP_E_TIMEOUT);
    CHECK(rp_message_store_wait_committed(one.store, committed.offset + 1, 0, 0) == RP_E_RANGE);
    CHECK(pthread_create(&thread, NULL, wait_for_commit, &committed) == 0);
    ledger_commit_all(&one);
    pthread_join(thread, NULL);
    CHECK(committed.rc == RP_OK && rp_message_store_wait_committed(one.store, committed.offset, 0, 0) == RP_OK);
    ledger_append(&one, 5);
    waiter cut = {&one, ledger_ends(&one).end_offset, 1};
    CHECK(pthread_create(&thread, NULL, wait_for_commit, &cut) == 0);
    CHECK(rp_commit_log_follow_entries(ledger_log(&one), 60000) == RP_OK);
    CHECK(rp_commit_log_cut_entries(ledger_log(&one), 5, &error) == RP_OK);
    pthread_join(thread, NULL);
    CHECK(cut.rc == RP_E_RANGE);
    ledger_close(&one);
}

/* A member that lost the lead and won it again writes other bytes at the same offsets. */
static void what_has_grown_again_is_not_what_was_there(void) {
    ledger one;
    rp_error error;
    rp_message_store_stats before, now;
    rp_message_store_options options;
    ledger_open(&one, RP_FLUSH_SYNC);
    fixture_close(one.store);
    ledger_options(&one, &options);
    fixture_never_flush(&options);
    one.store = fixture_open(&options);
    CHECK(rp_commit_log_lead_entries(ledger_log(&one), 1, &error) == RP_OK);
    ledger_append(&one, 5);
    rp_message_store_read_stats(one.store, &before);
    CHECK(rp_message_store_wait_flushed(one.store, before.commit_log_end_offset, 60000) == RP_OK);
    CHECK(rp_commit_log_follow_entries(ledger_log(&one), 60000) == RP_OK);
    CHECK(rp_commit_log_cut_entries(ledger_log(&one), 2, &error) == RP_OK);
    int64_t cut_end = ledger_ends(&one).end_offset;
    CHECK(rp_commit_log_lead_entries(ledger_log(&one), 2, &error) == RP_OK);
    one.appended = 2;
    ledger_append(&one, 10);
    rp_commit_log_set_synced(ledger_log(&one), before.commit_log_end_offset, before.commit_log_cuts); /* a sync of before the cut */
    CHECK(rp_commit_log_flushed_offset(ledger_log(&one)) == cut_end);
    ledger_commit_all(&one);
    rp_message_store_read_stats(one.store, &now);
    CHECK(now.commit_log_end_offset > before.commit_log_end_offset && now.commit_log_cuts == before.commit_log_cuts + 1);
    CHECK(rp_message_store_wait_committed(one.store, before.commit_log_end_offset, before.commit_log_cuts, 60000) == RP_E_RANGE);
    CHECK(rp_message_store_wait_committed(one.store, before.commit_log_end_offset, now.commit_log_cuts, 60000) == RP_OK);
    rp_append_item item = fixture_item(ledger_queue(&one, 0), "x", 1);
    CHECK(rp_commit_log_append_behind(ledger_log(&one), &item, 1, before.commit_log_cuts) == 0 && item.status == RP_E_READ_ONLY);
    CHECK(rp_commit_log_append_behind(ledger_log(&one), &item, 1, now.commit_log_cuts) == 1);
    ledger_close(&one);
}

static void a_log_from_before_is_refused(void) {
    ledger one;
    char command[400];
    rp_error error;
    rp_message_store_options options;
    rp_message_store *store;
    ledger_open(&one, RP_FLUSH_ASYNC);
    fixture_close(one.store);
    snprintf(command, sizeof command, "mkdir %s/commitlog && touch %s/commitlog/00000000000000000000", one.path, one.path);
    CHECK(system(command) == 0);
    ledger_options(&one, &options);
    CHECK(rp_message_store_open(&options, &store, &error) == RP_E_INVALID && strstr(error.message, "before DLedger") != NULL);
    fixture_remove(one.path);
}

/* Tools read the same from outside: every message once, from wherever a range begins, and damage as damage. */
static void the_log_is_read_from_outside(void) {
    ledger one;
    rp_error error;
    char path[256];
    rp_verify_options options;
    rp_verify_counts counts;
    ledger_open(&one, RP_FLUSH_ASYNC);
    lead_and_leave(&one);
    fixture_close(one.store);
    rp_verify_options_default(&options);
    options.root_path = one.path;
    options.commit_log_path = one.data;
    options.index_shape = (rp_index_shape){64, 500};
    CHECK(rp_store_verify(&options, &counts, &error) == RP_OK);
    CHECK(counts.damages == 0 && counts.messages == 161 && counts.queue_entries == 100 && counts.uncommitted == 60);
    snprintf(path, sizeof path, "%s/%020d", one.data, 0);
    int64_t of_file = 0;
    for (int64_t border = 1; border < 1200; border += 7) { /* across heads, records and the borders between */
        int64_t seen = 0, stops[] = {INT64_MIN, border, FIXTURE_LOG_FILE_SIZE};
        for (int range = 0; range < 2; range++) {
            rp_log_scan *scan;
            rp_message message;
            rp_scan_damage damage;
            CHECK(rp_log_scan_open(path, stops[range], stops[range + 1], 1, &scan, &error) == RP_OK);
            CHECK(rp_log_scan_has_entries(scan));
            int kind;
            while ((kind = rp_log_scan_next(scan, &message, &damage)) == RP_SCAN_MESSAGE)
                seen++;
            CHECK(kind == RP_SCAN_END);
            rp_log_scan_close(scan);
        }
        CHECK(seen == (of_file == 0 ? seen : of_file) && seen > 100);
        of_file = seen;
    }
    flip(one.data, 700);
    CHECK(rp_store_verify(&options, &counts, &error) == RP_OK && counts.damages > 0);
    fixture_remove(one.path);
}

static void a_log_without_entries_has_none(void) {
    char path[128];
    rp_message_store_options options;
    rp_error error;
    rp_ledger_entry entry;
    rp_log_range range;
    fixture_directory(path, sizeof path);
    fixture_options(&options, path);
    rp_message_store *store = fixture_open(&options);
    rp_commit_log *log = rp_message_store_commit_log(store);
    CHECK(!rp_commit_log_has_entries(log));
    CHECK(rp_commit_log_lead_entries(log, 1, &error) == RP_E_UNSUPPORTED);
    CHECK(rp_commit_log_append_entry(log, (const uint8_t *)"", 0, &error) == RP_E_UNSUPPORTED);
    CHECK(rp_commit_log_cut_entries(log, -1, &error) == RP_E_UNSUPPORTED);
    CHECK(rp_commit_log_read_entry(log, 0, &range, &entry) == RP_E_UNSUPPORTED);
    CHECK(rp_commit_log_follow_entries(log, 60000) == RP_OK);
    CHECK(fixture_append(store, fixture_queue(store, "T", 0), 0) == RP_OK);
    fixture_close(store);
    fixture_remove(path);
}

int main(void) {
    RUN(a_leader_commits);
    RUN(a_leader_that_syncs_commits);
    RUN(a_stop_keeps_what_is_not_committed);
    RUN(a_kill_keeps_what_is_not_committed);
    RUN(a_kill_of_one_that_syncs_too);
    RUN(dledgers_checkpoint_is_believed);
    RUN(a_follower_follows);
    RUN(a_follower_that_syncs_follows);
    RUN(a_followers_tail_is_cut);
    RUN(one_that_syncs_cuts_too);
    RUN(all_is_cut);
    RUN(strangers_entries_are_refused);
    RUN(index_files_are_made_again);
    RUN(damage_is_the_end_or_told);
    RUN(old_files_go);
    RUN(a_batch_crosses_files);
    RUN(commits_are_waited_for);
    RUN(what_has_grown_again_is_not_what_was_there);
    RUN(a_log_from_before_is_refused);
    RUN(the_log_is_read_from_outside);
    RUN(a_log_without_entries_has_none);
    return 0;
}
