/* dledger_stalled_test.c: a member whose disk stalls does not block those who ask for the log's state; and a leader that pauses on
 * purpose. */
#include <pthread.h>

#include "../../../csrc/ha/dledger_log_inl.h"
#include "dledger_group.h"

static atomic_int gate_is_closed; /* of writes to the log's files */
static atomic_int waiting_at_gate;

static int64_t write_behind_gate(void *context, int fd, const void *source, size_t size, int64_t offset) {
    if (size > RP_LEDGER_HEAD_SIZE && ((const uint8_t *)source)[3] == RP_LEDGER_MAGIC) {
        atomic_fetch_add(&waiting_at_gate, 1);
        WAIT_FOR(!atomic_load(&gate_is_closed));
        atomic_fetch_sub(&waiting_at_gate, 1);
    }
    return rp_file_ops_system()->write_at(context, fd, source, size, offset);
}

static void open_stalling(group *all, rp_file_ops *ops) {
    rp_message_store_options options;
    member *one = &all->members[0];
    memset(all, 0, sizeof *all);
    all->flush_mode = RP_FLUSH_SYNC;
    snprintf(all->peers, sizeof all->peers, "n0-127.0.0.1:1;n1-127.0.0.1:2;n2-127.0.0.1:3");
    snprintf(one->id, sizeof one->id, "n0");
    ledger_open(&one->ledger, RP_FLUSH_SYNC);
    fixture_close(one->ledger.store);
    *ops = *rp_file_ops_system();
    ops->write_at = write_behind_gate;
    ledger_options(&one->ledger, &options);
    options.file_ops = ops;
    one->ledger.store = fixture_open(&options);
    open_member(all, 0);
}

static void *append_one(void *context) {
    ledger_append(context, 1);
    return NULL;
}

static void a_member_tells_its_state_while_its_disk_stands_still(void) {
    group all;
    rp_file_ops ops;
    rp_error error;
    pthread_t appender;
    rp_dledger_claim claim;
    rp_dledger_follower_row rows[MEMBERS];
    open_stalling(&all, &ops);
    member *one = &all.members[0];
    lead(one, 1);
    CHECK(state_of(one).end_index == 0 && state_of(one).held_ms == 0);
    atomic_store(&gate_is_closed, 1);
    CHECK(pthread_create(&appender, NULL, append_one, &one->ledger) == 0);
    WAIT_FOR(atomic_load(&waiting_at_gate) == 1);
    WAIT_FOR(state_of(one).held_ms > 0);
    CHECK(state_of(one).is_leader && state_of(one).term == 1 && state_of(one).end_index == 0);
    CHECK(rp_dledger_follow(one->dledger, 2, "n1", &error) == RP_E_BUSY); /* a term is not begun before its fence stands */
    CHECK(rp_dledger_lead(one->dledger, 2, &error) == RP_E_BUSY);
    CHECK(state_of(one).is_leader && state_of(one).term == 1 && strcmp(state_of(one).leader_id, "n0") == 0);
    pthread_mutex_lock(&one->dledger->lock); /* as a push does that waits for the log */
    CHECK(rp_dledger_follow(one->dledger, 2, "n1", &error) == RP_E_BUSY && state_of(one).term == 1);
    rp_dledger_raise_claim(one->dledger, 3, "n2");
    rp_dledger_take_claim(one->dledger, &claim);
    CHECK(claim.term == 3 && strcmp(claim.leader_id, "n2") == 0);
    CHECK(rp_dledger_read_followers(one->dledger, rows, MEMBERS) == 2 && rows[0].matched_index == -1);
    rp_dledger_leave(one->dledger);
    atomic_store(&gate_is_closed, 0);
    pthread_join(appender, NULL);
    CHECK(state_of(one).end_index == 1);
    follow(one, 2, "n1");
    CHECK(!state_of(one).is_leader && state_of(one).term == 2 && atomic_load(&one->stepped_down) == 1);
    stop_member(one);
    fixture_remove(one->ledger.path);
}

/* A leader that hands its lead over takes no appends, but still pushes what it has. With the next term the pause is over. */
static void a_leader_that_hands_over_takes_nothing_for_a_while(void) {
    group all;
    open_group(&all, RP_FLUSH_ASYNC, 0);
    member *leader = &all.members[0];
    CHECK(pause_status(leader, 1) == RP_E_READ_ONLY); /* it leads nobody */
    elect(&all, 0, 1);
    ledger_append(&leader->ledger, 20);
    CHECK(pause_status(leader, 1) == RP_OK);
    CHECK(ledger_try_append(&leader->ledger) == RP_E_READ_ONLY && state_of(leader).is_leader);
    wait_same(&all, 0, 20);
    CHECK(pause_status(leader, 0) == RP_OK);
    ledger_append(&leader->ledger, 5);
    wait_same(&all, 0, 25);
    for (int64_t term = 2; term < 4; term++) {
        CHECK(pause_status(leader, 1) == RP_OK);
        follow(leader, term, NULL);
        elect(&all, 0, term);
        ledger_append(&leader->ledger, 1);
    }
    wait_same(&all, 0, 27);
    close_group(&all);
}

int main(void) {
    RUN(a_leader_that_hands_over_takes_nothing_for_a_while);
    RUN(a_member_tells_its_state_while_its_disk_stands_still);
    return 0;
}
