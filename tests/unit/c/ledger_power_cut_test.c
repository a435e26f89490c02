/* ledger_power_cut_test.c: a DLedger log after power cuts, at any moment of appending, committing and cutting. Seeds as arguments, else
 * a few fixed ones.
 *
 * Claims   an entry whose sync was awaited is there; what was cut stays away; entries are contiguous, and queues hold what is committed.
 */
#include "ledger_fixture.h"
#include "power_cut.h"

enum { ROUNDS = 4 };

static void open_below(ledger *one, const char *live, power_cut *cut, int flush_mode) {
    rp_message_store_options options;
    snprintf(one->path, sizeof one->path, "%s", live);
    snprintf(one->data, sizeof one->data, "%s/dledger-n0/data", live);
    snprintf(one->index, sizeof one->index, "%s/dledger-n0/index", live);
    one->flush_mode = flush_mode;
    one->committed_index = -1;
    ledger_options(one, &options);
    options.file_ops = &cut->ops;
    options.flush_interval_ms = 3;
    options.flush_least_pages = 1;
    options.queue_flush_interval_ms = 4;
    options.flush_thorough_interval_ms = 10;
    one->store = fixture_open(&options);
}

/* What a leader finds: all entries, one after the other, with their messages in the queues once they are committed. */
static void lead_and_count(ledger *one, int64_t term) {
    rp_error error;
    CHECK(rp_commit_log_lead_entries(ledger_log(one), term, &error) == RP_OK);
    ledger_commit_all(one);
    one->appended = 0;
    for (int64_t id = 0; id < LEDGER_QUEUES; id++)
        one->appended += rp_consume_queue_max_offset(ledger_queue(one, id));
    ledger_check_queues(one, one->appended);
    for (int64_t index = 0; index <= ledger_ends(one).end_index; index++) {
        rp_log_range range;
        rp_ledger_entry entry;
        CHECK(rp_commit_log_read_entry(ledger_log(one), index, &range, &entry) == RP_OK);
        rp_log_range_release(range.pin);
    }
}

static int64_t flushed_index(const ledger *one) {
    return rp_commit_log_index_below(ledger_log(one), rp_commit_log_flushed_offset(ledger_log(one)));
}

static void entries_survive_power_cuts(uint64_t seed, int flush_mode) {
    char base[100], live[120], image[120];
    int64_t kept_index = -1, cut_index = -1;
    fixture_directory(base, sizeof base);
    printf("seed %llu %s\n", (unsigned long long)seed, flush_mode == RP_FLUSH_SYNC ? "sync" : "async");
    for (int round = 0; round < ROUNDS; round++) {
        ledger one = {0};
        rp_error error;
        snprintf(live, sizeof live, "%s/%d", base, round);
        snprintf(image, sizeof image, "%s/%d", base, round + 1);
        power_cut *cut = power_cut_create(live);
        power_cut_settle(cut, ".");
        open_below(&one, live, cut, flush_mode);
        CHECK(ledger_ends(&one).end_index >= kept_index);
        CHECK(cut_index < 0 || ledger_ends(&one).end_index == cut_index);
        lead_and_count(&one, round + 1);
        int64_t committed = ledger_ends(&one).end_index;
        ledger_append(&one, 30 + (int)(cut_random(&seed) % 300));
        if (round % 2 == 0) {
            CHECK(rp_message_store_wait_flushed(one.store, ledger_ends(&one).end_offset, 60000) == RP_OK);
            kept_index = ledger_ends(&one).end_index;
            ledger_append(&one, (int)(cut_random(&seed) % 100)); /* whatever becomes of them */
            cut_index = -1;
        } else {
            CHECK(rp_commit_log_follow_entries(ledger_log(&one), 60000) == RP_OK);
            int64_t end = ledger_ends(&one).end_index;
            cut_index = kept_index = committed + (int64_t)(cut_random(&seed) % (uint32_t)(end - committed + 1));
            CHECK(rp_commit_log_cut_entries(ledger_log(&one), cut_index, &error) == RP_OK);
            CHECK(rp_message_store_wait_flushed(one.store, ledger_ends(&one).end_offset, 60000) == RP_OK);
        }
        CHECK(flushed_index(&one) >= kept_index);
        power_cut_now(cut);
        power_cut_image(cut, "", image, &seed);
        (void)rp_message_store_close(one.store, NULL);
        power_cut_destroy(cut);
    }
    fixture_remove(base);
}

/* Runs a store in which one file call fails. Every order must be done or say why not, and what was on disk must be there afterwards.
 * Returns the number of calls. */
static int64_t work_with_a_fault(int64_t fail_at, int fail_errno, int flush_mode) {
    char base[100], live[120];
    ledger one = {0};
    rp_error error = {0};
    rp_message_store_options options;
    int64_t kept = -1, leaders = 0;
    fixture_directory(base, sizeof base);
    snprintf(live, sizeof live, "%s/live", base);
    power_cut *cut = power_cut_create(live);
    cut->fail_at = fail_at;
    cut->fail_errno = fail_errno;
    snprintf(one.path, sizeof one.path, "%s", live);
    snprintf(one.data, sizeof one.data, "%s/dledger-n0/data", live);
    snprintf(one.index, sizeof one.index, "%s/dledger-n0/index", live);
    one.flush_mode = flush_mode;
    one.committed_index = -1;
    ledger_options(&one, &options);
    options.file_ops = &cut->ops;
    if (rp_message_store_open(&options, &one.store, &error) == RP_OK) {
        rp_commit_log *log = ledger_log(&one);
        for (int64_t term = 1; term < 4; term++) {
            if (rp_commit_log_lead_entries(log, term, &error) != RP_OK)
                continue;
            leaders++;
            for (int i = 0; i < 90; i++)
                (void)ledger_try_append(&one);
            int64_t end = ledger_ends(&one).end_index;
            if (rp_message_store_wait_flushed(one.store, ledger_ends(&one).end_offset, 60000) == RP_OK)
                kept = end;
            rp_commit_log_commit_entries(log, ledger_ends(&one).end_offset);
            for (int i = 0; i < 60; i++)
                (void)ledger_try_append(&one);
            CHECK(rp_commit_log_follow_entries(log, 60000) == RP_OK);
            (void)rp_commit_log_cut_entries(log, end, &error);
            one.appended = ledger_ends(&one).end_index + 1 - leaders; /* each began with an entry that is not a message */
        }
        (void)rp_message_store_close(one.store, &error);
    }
    int64_t calls = atomic_load(&cut->calls);
    power_cut_destroy(cut);
    ledger_reopen(&one);
    CHECK(ledger_ends(&one).end_index >= kept);
    lead_and_count(&one, 9);
    fixture_close(one.store);
    fixture_remove(base);
    return calls;
}

static void any_call_may_fail(int64_t step) {
    for (int flush_mode = RP_FLUSH_ASYNC; flush_mode <= RP_FLUSH_SYNC; flush_mode++) {
        int64_t calls = work_with_a_fault(0, 0, flush_mode);
        CHECK(calls > 50);
        for (int64_t fail_at = 1; fail_at <= calls; fail_at += step)
            (void)work_with_a_fault(fail_at, fail_at % 2 != 0 ? EIO : ENOSPC, flush_mode);
    }
}

int main(int argc, char **argv) {
    any_call_may_fail(argc > 3 ? strtoll(argv[3], NULL, 10) : 47);
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 2;
    for (uint64_t seed = first; seed < first + count; seed++) {
        entries_survive_power_cuts(seed, RP_FLUSH_SYNC);
        entries_survive_power_cuts(seed, RP_FLUSH_ASYNC);
    }
    return 0;
}
