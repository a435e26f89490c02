/* dledger_log_test.c: a DLedger group's commit log: pushed, acknowledged, committed; leaders change, members stop and return. */
#include <pthread.h>

#include "dledger_group.h"

static void append_and_count(member *one, int count) { ledger_append(&one->ledger, count); }

static void three_have_the_same(int flush_mode, uint32_t batch_bytes) {
    group all;
    open_group(&all, flush_mode, batch_bytes);
    CHECK(ledger_try_append(&all.members[0].ledger) == RP_E_READ_ONLY);
    elect(&all, 0, 1);
    append_and_count(&all.members[0], 500);
    wait_same(&all, 0, 500);
    CHECK(atomic_load(&all.members[0].committed) == state_of(&all.members[0]).end_offset);
    append_and_count(&all.members[0], 1); /* a single entry is committed, and all members hold it */
    wait_same(&all, 0, 501);
    rp_dledger_follower_row rows[MEMBERS];
    CHECK(rp_dledger_read_followers(all.members[0].dledger, rows, MEMBERS) == 2);
    CHECK(rows[0].is_connected && rows[0].is_appending && rows[0].entries_sent >= 502);
    CHECK(ledger_try_append(&all.members[1].ledger) == RP_E_READ_ONLY);
    close_group(&all);
}

static void entries_are_pushed(void) { three_have_the_same(RP_FLUSH_ASYNC, 0); }
static void entries_are_pushed_and_synced(void) { three_have_the_same(RP_FLUSH_SYNC, 0); }
static void batches_are_pushed(void) { three_have_the_same(RP_FLUSH_ASYNC, 16384); }

/* Without a majority nothing is committed. */
static void one_of_three_commits_nothing(void) {
    group all;
    open_group(&all, RP_FLUSH_ASYNC, 0);
    stop_member(&all.members[1]);
    elect(&all, 0, 1);
    append_and_count(&all.members[0], 50);
    wait_same(&all, 0, 50); /* two are a majority */
    stop_member(&all.members[2]);
    append_and_count(&all.members[0], 30);
    rp_dledger_follower_row rows[MEMBERS];
    CHECK_AT_LAST(rp_dledger_read_followers(all.members[0].dledger, rows, MEMBERS) > 0 && !rows[1].is_connected);
    CHECK(state_of(&all.members[0]).committed_index == 50);
    ledger_check_queues(&all.members[0].ledger, 50);
    start_member(&all, 1); /* has nothing at all */
    follow(&all.members[1], 1, "n0");
    wait_same(&all, 0, 80);
    start_member(&all, 2);
    follow(&all.members[2], 1, "n0");
    wait_same(&all, 0, 80);
    close_group(&all);
}

/* Each leader in turn is cut off with a tail of its own, which the next one's entries replace. */
static void leaders_change(int flush_mode) {
    group all;
    int64_t messages = 0;
    open_group(&all, flush_mode, 0);
    for (int64_t term = 1; term <= 6; term++) {
        int leader = (int)(term % MEMBERS);
        member *one = &all.members[leader];
        one->ledger.appended = messages;
        elect(&all, leader, term);
        append_and_count(one, 40);
        messages += 40;
        wait_same(&all, leader, messages);
        for (int i = 0; i < MEMBERS; i++) /* all enter a later term first, so that pushes of the old leader are refused */
            if (i != leader)
                follow(&all.members[i], term * 10, NULL);
        CHECK(ledger_try_append(&one->ledger) == RP_OK);
        append_and_count(one, (int)term * 25);
        int stepped_down = atomic_load(&one->stepped_down);
        follow(one, term * 10, NULL);
        CHECK(atomic_load(&one->stepped_down) == stepped_down + 1 && atomic_load(&one->committed) == -1);
        CHECK(ledger_try_append(&one->ledger) == RP_E_READ_ONLY);
        for (int i = 0; i < MEMBERS; i++) /* back to small terms, by which the test counts */
            ledger_check_queues(&all.members[i].ledger, messages);
        for (int i = 0; i < MEMBERS; i++) {
            stop_member(&all.members[i]);
            start_member(&all, i);
        }
    }
    elect(&all, 1, 100);
    wait_same(&all, 1, messages);
    CHECK(state_of(&all.members[0]).cuts + state_of(&all.members[1]).cuts + state_of(&all.members[2]).cuts > 0);
    close_group(&all);
}

static void a_new_leaders_log_counts(void) { leaders_change(RP_FLUSH_ASYNC); }
static void a_new_leaders_log_counts_with_syncs(void) { leaders_change(RP_FLUSH_SYNC); }

/* Entries of an earlier term that a majority holds are committed together with the first entry of the new leader's term. */
static void an_earlier_terms_entries_are_committed_by_a_later_one(void) {
    group all;
    open_group(&all, RP_FLUSH_ASYNC, 0);
    stop_member(&all.members[1]);
    stop_member(&all.members[2]);
    elect(&all, 0, 1);
    append_and_count(&all.members[0], 20);
    CHECK(state_of(&all.members[0]).committed_index == -1);
    follow(&all.members[0], 2, NULL);
    start_member(&all, 1);
    elect(&all, 0, 3);
    wait_same(&all, 0, 20);
    CHECK(state_of(&all.members[0]).committed_index == 21); /* both leaders' first entries count */
    append_and_count(&all.members[0], 5);
    wait_same(&all, 0, 25);
    close_group(&all);
}

static void one_alone_leads_itself(int flush_mode) {
    ledger one;
    rp_error error;
    rp_dledger_options options;
    rp_dledger_log *dledger;
    rp_dledger_state state;
    ledger_open(&one, flush_mode);
    rp_dledger_options_default(&options);
    options.store = one.store;
    options.group = "G";
    options.self_id = "n0";
    options.peers = "n0-127.0.0.1:1";
    options.sync = flush_mode == RP_FLUSH_SYNC;
    CHECK(rp_dledger_open(&options, &dledger, &error) == RP_OK);
    CHECK(rp_dledger_lead(dledger, 1, &error) == RP_OK);
    ledger_append(&one, 100);
    WAIT_FOR((rp_dledger_read_state(dledger, &state), state.committed_index == 100));
    ledger_check_queues(&one, 100);
    rp_dledger_close(dledger);
    ledger_close(&one);
}

static void a_group_of_one(void) {
    one_alone_leads_itself(RP_FLUSH_ASYNC);
    one_alone_leads_itself(RP_FLUSH_SYNC);
}

/* A member was away until the leader's first files had expired. It cuts nothing, says what would help, and counts for no majority. With
 * an empty store it joins where the leader's log begins. */
static void a_log_that_ends_before_its_leaders_begins_stays_as_it_is(void) {
    group all;
    rp_error error;
    open_group(&all, RP_FLUSH_ASYNC, 0);
    member *leader = &all.members[0], *late = &all.members[2];
    elect(&all, 0, 1);
    append_and_count(leader, 5);
    wait_same(&all, 0, 5);
    stop_member(late);
    append_and_count(leader, 700);
    wait_committed(leader, 705);
    CHECK(rp_message_store_wait_flushed(leader->ledger.store, ledger_ends(&leader->ledger).end_offset, 60000) == RP_OK);
    CHECK(rp_message_store_expire_file(leader->ledger.store, &error) == RP_OK);
    int64_t begin = state_of(leader).begin_index;
    CHECK(begin > 6);
    start_member(&all, 2);
    follow(late, 1, "n0");
    WAIT_FOR(state_of(late).gap_index == begin);
    CHECK(state_of(late).end_index == 5 && state_of(late).committed_index <= 5);
    ledger_check_queues(&late->ledger, 5);
    stop_member(late);
    fixture_remove(late->ledger.path);
    start_member(&all, 2);
    follow(late, 1, "n0");
    WAIT_FOR(state_of(late).committed_index == 705);
    CHECK(state_of(late).gap_index == -1 && state_of(late).begin_index == begin);
    ledger_check_same(&leader->ledger, &late->ledger);
    close_group(&all);
}

/* Python is told of a leader that it has not named, and of a later term that a follower knows. */
static void claims_are_told(void) {
    group all;
    rp_dledger_claim claim;
    open_group(&all, RP_FLUSH_ASYNC, 0);
    lead(&all.members[0], 5);
    struct pollfd polled = {.fd = rp_dledger_fd(all.members[1].dledger), .events = POLLIN};
    CHECK(poll(&polled, 1, 60000) == 1);
    rp_dledger_take_claim(all.members[1].dledger, &claim);
    CHECK(claim.term == 5 && strcmp(claim.leader_id, "n0") == 0);
    follow(&all.members[1], 5, "n0");
    wait_committed(&all.members[0], 0);
    follow(&all.members[2], 9, NULL);
    polled.fd = rp_dledger_fd(all.members[0].dledger);
    CHECK(poll(&polled, 1, 60000) == 1);
    rp_dledger_take_claim(all.members[0].dledger, &claim);
    CHECK(claim.term == 9 && claim.leader_id[0] == 0);
    CHECK(follow_status(&all.members[0], 4, NULL) == RP_E_RANGE);
    CHECK(lead_status(&all.members[0], 4) == RP_E_RANGE);
    CHECK(follow_status(&all.members[0], 9, "n7") == RP_E_INVALID);
    CHECK(follow_status(&all.members[0], 9, "n0") == RP_E_INVALID);
    close_group(&all);
}

static void bad_options_are_refused(void) {
    static const char *const peers[] = {"",  "n1-127.0.0.1:1", "n0", "n0-", "-127.0.0.1:1", "n0-127.0.0.1:1;n0-127.0.0.1:2", "n0-nowhere",
                                        NULL};
    ledger one;
    rp_error error;
    rp_dledger_options options;
    rp_dledger_log *dledger;
    ledger_open(&one, RP_FLUSH_ASYNC);
    rp_dledger_options_default(&options);
    options.store = one.store;
    options.group = "G";
    options.self_id = "n0";
    for (int i = 0; peers[i] != NULL; i++) {
        options.peers = peers[i];
        CHECK(rp_dledger_open(&options, &dledger, &error) == RP_E_INVALID);
    }
    options.peers = "n0-127.0.0.1:1";
    options.group = "a\"b";
    CHECK(rp_dledger_open(&options, &dledger, &error) == RP_E_INVALID);
    ledger_close(&one);
}

static void a_group_has_sixteen_members_wherever_this_one_stands(void) {
    ledger one;
    rp_error error;
    rp_dledger_options options;
    rp_dledger_log *dledger;
    char peers[RP_DLEDGER_PEERS_MAX * 20 + 20] = "";
    ledger_open(&one, RP_FLUSH_ASYNC);
    rp_dledger_options_default(&options);
    options.store = one.store;
    options.group = "G";
    options.self_id = "n0";
    options.peers = peers;
    for (int i = RP_DLEDGER_PEERS_MAX - 1; i >= 0; i--) {
        snprintf(peers + strlen(peers), sizeof peers - strlen(peers), "n%d-127.0.0.1:%d;", i, i + 1);
    }
    CHECK(rp_dledger_open(&options, &dledger, &error) == RP_OK);
    rp_dledger_close(dledger);
    snprintf(peers + strlen(peers), sizeof peers - strlen(peers), "n%d-127.0.0.1:%d", RP_DLEDGER_PEERS_MAX, RP_DLEDGER_PEERS_MAX + 1);
    CHECK(rp_dledger_open(&options, &dledger, &error) == RP_E_INVALID);
    CHECK(strstr(error.message, "n16 is one member too many") != NULL);
    ledger_close(&one);
}

typedef struct sender {
    member *one;
    pthread_t thread;
    atomic_int stop;
    int64_t stored; /* what the store took, committed or not */
} sender;

static void *send_on(void *context) {
    sender *self = context;
    char body[64] = "under load";
    struct timespec pace = {.tv_nsec = 100000};
    while (!atomic_load(&self->stop)) {
        rp_dledger_state state = state_of(self->one);
        if (state.is_leader && state.end_index - state.committed_index > 30) { /* a window, as a producer's */
            nanosleep(&pace, NULL);
            continue;
        }
        rp_append_item item = fixture_item(fixture_queue(self->one->ledger.store, "L", 0), body, sizeof body);
        item.tags_code = rp_message_tags_code(item.properties[0]);
        rp_commit_log_append(ledger_log(&self->one->ledger), &item, 1);
        self->stored += item.status == RP_OK;
        if (item.status != RP_OK)
            sched_yield();
    }
    return NULL;
}

static void start_sender(sender *self) {
    atomic_store(&self->stop, 0);
    CHECK(pthread_create(&self->thread, NULL, send_on, self) == 0);
}

static void stop_sender(sender *self) {
    atomic_store(&self->stop, 1);
    pthread_join(self->thread, NULL);
}

/* All members enter a later term. As in a vote, the member with the longest log by Raft's order leads. Returns it. */
static int elect_the_fullest(group *all, int64_t *term) {
    int leader = 0;
    rp_error error;
    rp_dledger_state states[MEMBERS];
    for (int i = 0; i < MEMBERS; i++)
        (void)rp_dledger_follow(all->members[i].dledger, ++*term, NULL, &error); /* no leader pushes any more; one may be held up */
    for (int i = 0; i < MEMBERS; i++)
        follow(&all->members[i], *term + 1, NULL);
    for (int i = 0; i < MEMBERS; i++) {
        states[i] = state_of(&all->members[i]);
        if (states[i].end_term > states[leader].end_term ||
            (states[i].end_term == states[leader].end_term && states[i].end_index > states[leader].end_index))
            leader = i;
    }
    *term += 2;
    elect(all, leader, *term);
    return leader;
}

static void the_queue_has_no_gap(member *one, int64_t max) {
    rp_consume_queue *queue = fixture_queue(one->ledger.store, "L", 0);
    CHECK(rp_consume_queue_max_offset(queue) == max);
    for (int64_t offset = 0; offset < max; offset++) {
        rp_queue_entry entry;
        rp_log_range range;
        rp_message message;
        CHECK(rp_consume_queue_read(queue, offset, &entry, 1) == 1);
        CHECK(rp_commit_log_read(ledger_log(&one->ledger), entry.commit_log_offset, (uint32_t)entry.size, &range) == RP_OK);
        CHECK(rp_message_decode(range.address, range.size, RP_CHECK_BODY_CRC, &message, NULL) == RP_RECORD_MESSAGE);
        CHECK(message.queue_offset == offset);
        rp_log_range_release(range.pin);
    }
}

/* All members try to append all the time, and only the leader can. In the end all have the same log, and its queue has no gap. */
static void roles_change_under_load(void) {
    group all;
    sender senders[MEMBERS] = {0};
    open_group(&all, RP_FLUSH_ASYNC, 0);
    for (int i = 0; i < MEMBERS; i++) {
        senders[i].one = &all.members[i];
        start_sender(&senders[i]);
    }
    int64_t term = 0, committed = -1;
    for (int round = 0; round < 12; round++) {
        int leader = elect_the_fullest(&all, &term);
        WAIT_FOR(state_of(&all.members[leader]).committed_index > committed + 20);
        committed = state_of(&all.members[leader]).committed_index;
        int spare = (leader + 1 + round % 2) % MEMBERS;
        if (round % 4 == 1) { /* a follower stops and starts again */
            stop_sender(&senders[spare]);
            stop_member(&all.members[spare]);
            start_member(&all, spare);
            follow(&all.members[spare], term, all.members[leader].id);
            start_sender(&senders[spare]);
        }
    }
    int leader = -1;
    for (int i = 0; i < MEMBERS; i++) {
        stop_sender(&senders[i]);
        leader = state_of(&all.members[i]).is_leader ? i : leader;
    }
    CHECK(leader >= 0);
    int64_t end = state_of(&all.members[leader]).end_index;
    wait_committed(&all.members[leader], end);
    int64_t max = rp_consume_queue_max_offset(fixture_queue(all.members[leader].ledger.store, "L", 0));
    CHECK(max > 200);
    for (int i = 0; i < MEMBERS; i++) {
        wait_committed(&all.members[i], end);
        ledger_check_same(&all.members[leader].ledger, &all.members[i].ledger);
        the_queue_has_no_gap(&all.members[i], max);
    }
    close_group(&all);
}

int main(void) {
    RUN(a_group_of_one);
    RUN(entries_are_pushed);
    RUN(entries_are_pushed_and_synced);
    RUN(batches_are_pushed);
    RUN(one_of_three_commits_nothing);
    RUN(an_earlier_terms_entries_are_committed_by_a_later_one);
    RUN(a_new_leaders_log_counts);
    RUN(a_new_leaders_log_counts_with_syncs);
    RUN(a_log_that_ends_before_its_leaders_begins_stays_as_it_is);
    RUN(claims_are_told);
    RUN(bad_options_are_refused);
    RUN(a_group_has_sixteen_members_wherever_this_one_stands);
    RUN(roles_change_under_load);
    return 0;
}
