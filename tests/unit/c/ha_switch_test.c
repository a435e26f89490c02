/* ha_switch_test.c: brokers with a controller: a slave follows, roles change while producers send, diverged logs are cut, the SyncStateSet
 * decides what is confirmed, a lease ends. */
#include "ha_switch_fixture.h"

static void a_slave_follows_and_has_its_masters_epochs(void) {
    node a, b;
    open_node(&a, 1, 0);
    open_node(&b, 2, 0);
    CHECK(try_append(&a) == RP_E_READ_ONLY); /* nobody leads yet */
    lead(&a, 3);
    append_to(&a, 700); /* several files */
    follow_node(&b, &a);
    wait_same(&a, &b);
    append_to(&a, 20);
    wait_same(&a, &b);
    rp_epoch_entry entries[2];
    CHECK(rp_epoch_cache_read(b.epochs, entries, 2) == 1 && entries[0].epoch == 3 && entries[0].start_offset == 0);
    CHECK(wait_acked(&a.acked, end_of(&a)));
    CHECK(try_append(&b) == RP_E_READ_ONLY);
    rp_error error;
    CHECK(rp_ha_master_lead(a.master, 2, &a.id, 1, &error) == RP_E_RANGE);
    CHECK(rp_ha_master_lead(a.master, 3, &a.id, 1, &error) == RP_OK);
    append_to(&a, 1);
    wait_same(&a, &b);
    close_node(&b);
    close_node(&a);
}

#define PRODUCERS 2

typedef struct producer {
    pthread_t thread;
    node *nodes;
    _Atomic int *stopping;
    _Atomic int64_t *sent;
    rp_consume_queue *queues[2];
} producer;

static void *produce(void *context) {
    producer *one = context;
    struct timespec pause = {.tv_nsec = 20000};
    for (int i = 0; !atomic_load(one->stopping); i++) {
        rp_append_item item = {.queue = one->queues[i % 2], .body = fixture_slice("a body"), .born_timestamp_ms = 1};
        rp_commit_log_append(log_of(&one->nodes[i % 2]), &item, 1);
        CHECK(item.status == RP_OK || item.status == RP_E_READ_ONLY);
        atomic_fetch_add(one->sent, item.status == RP_OK);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* The lead changes ten times under load, each time when the other one has everything. No restart is needed, and no byte is lost or
 * foreign. */
static void roles_change_while_producers_send(void) {
    node nodes[2];
    _Atomic int stopping = 0;
    _Atomic int64_t sent = 0;
    open_node(&nodes[0], 1, 0);
    open_node(&nodes[1], 2, 0);
    producer producers[PRODUCERS];
    for (int i = 0; i < PRODUCERS; i++) {
        producers[i] = (producer){.nodes = nodes, .stopping = &stopping, .sent = &sent};
        for (int j = 0; j < 2; j++)
            producers[i].queues[j] = fixture_queue(nodes[j].store, "T", i);
        CHECK(pthread_create(&producers[i].thread, NULL, produce, &producers[i]) == 0);
    }
    for (int round = 0; round < 10; round++) {
        node *leader = &nodes[round % 2], *other = &nodes[1 - round % 2];
        lead(leader, round + 1);
        follow_node(other, leader);
        int64_t begin = end_of(leader);
        WAIT_FOR(end_of(leader) > begin + 500 && stats_of(other).state == RP_HA_SLAVE_TRANSFER && end_of(other) > begin);
        rp_ha_master_step_down(leader->master); /* its slave goes, and gets what it lacks from the next master */
        rp_ha_slave_let_go(other->slave);
        CHECK(end_of(other) <= end_of(leader));
        if (end_of(other) < end_of(leader)) { /* the controller elects the one with the longer log */
            lead(leader, round + 1);
            follow_node(other, leader);
            rp_ha_master_step_down(leader->master);
            rp_error error;
            CHECK(rp_ha_master_lead(leader->master, round + 1, &leader->id, 1, &error) == RP_OK);
            rp_commit_log_set_following(log_of(leader), 1); /* no more appends, but what the log has is still sent */
            WAIT_FOR(end_of(other) == end_of(leader));
        }
    }
    atomic_store(&stopping, 1);
    for (int i = 0; i < PRODUCERS; i++)
        CHECK(pthread_join(producers[i].thread, NULL) == 0);
    lead(&nodes[0], 11);
    follow_node(&nodes[1], &nodes[0]);
    wait_same(&nodes[0], &nodes[1]);
    int64_t entries = 0;
    for (int i = 0; i < PRODUCERS; i++)
        entries += rp_consume_queue_max_offset(producers[i].queues[1]);
    CHECK(entries == atomic_load(&sent));
    close_node(&nodes[1]);
    close_node(&nodes[0]);
}

/* b has the first ten of a's messages and leads; a has more of its own. */
static void part(node *a, node *b, int more) {
    lead(a, 1);
    append_to(a, 10);
    follow_node(b, a);
    wait_same(a, b);
    rp_ha_slave_let_go(b->slave);
    append_to(a, more);
    lead(b, 2);
    append_to(b, 3);
}

/* All of it was in a's queues, so the cut is left to the next open, and queues and index follow it. */
static void a_returning_masters_own_messages_are_cut_at_the_next_open(void) {
    node a, b;
    open_node(&a, 1, 0);
    open_node(&b, 2, 0);
    part(&a, &b, 400);
    follow_node(&a, &b);
    WAIT_FOR(stats_of(&a).state == RP_HA_SLAVE_TRUNCATE);
    rp_epoch_entry entries[2];
    CHECK(rp_epoch_cache_read(b.epochs, entries, 2) == 2);
    CHECK(stats_of(&a).truncate_to == entries[1].start_offset && end_of(&a) > entries[1].start_offset);
    rp_error error;
    CHECK(rp_message_store_cut_at_open(a.store, end_of(&a) + 1, &error) == RP_E_RANGE);
    CHECK(rp_message_store_cut_at_open(a.store, stats_of(&a).truncate_to, &error) == RP_OK);
    stop_node(&a);
    open_node_with(&a, NULL);
    CHECK(end_of(&a) == entries[1].start_offset);
    CHECK(rp_consume_queue_max_offset(fixture_queue(a.store, "T", 0)) == 4);
    follow_node(&a, &b);
    wait_same(&b, &a);
    append_to(&b, 300);
    wait_same(&b, &a);
    stop_node(&a); /* the intent is gone: this one cuts nothing */
    open_node_with(&a, NULL);
    check_same(&b, &a);
    close_node(&a);
    close_node(&b);
}

static _Atomic int is_to_leave;

/* A node's clock. It tells the node to follow nobody at the moment when the node has found that its log has to be cut. */
static int64_t leave_diverged(void *context) {
    node *one = context;
    if (atomic_load(&is_to_leave) && stats_of(one).truncate_to >= 0) {
        atomic_store(&is_to_leave, 0);
        CHECK(rp_ha_slave_set_master(one->slave, NULL) == RP_OK);
    }
    return rp_clock_monotonic_ns(NULL);
}

static int64_t wall_ms(void *context) {
    (void)context;
    return rp_clock_wall_ms(NULL);
}

static void nothing_is_cut_for_a_master_that_is_wanted_no_more(void) {
    node a, b;
    const rp_clock clock = {leave_diverged, wall_ms, &a};
    slave_clock = &clock;
    open_node(&a, 1, 0);
    slave_clock = NULL;
    open_node(&b, 2, 0);
    part(&a, &b, 400);
    atomic_store(&is_to_leave, 1);
    follow_node(&a, &b);
    WAIT_FOR(!atomic_load(&is_to_leave));
    rp_ha_slave_let_go(a.slave);
    CHECK(stats_of(&a).state == RP_HA_SLAVE_READY && stats_of(&a).truncate_to == -1);
    follow_node(&a, &b);
    WAIT_FOR(stats_of(&a).state == RP_HA_SLAVE_TRUNCATE);
    close_node(&a);
    close_node(&b);
}

static _Atomic int calls, fails_at; /* counts the calls of all threads of the store */

static int is_failing(void) {
    int nth = atomic_fetch_add(&calls, 1) + 1;
    if (nth < fails_at || fails_at == 0)
        return 0;
    errno = EIO;
    return 1;
}
static int open_or_fail(void *context, const char *path, int flags, uint32_t mode) {
    return is_failing() ? -1 : rp_file_ops_system()->open(context, path, flags, mode);
}
static int64_t write_or_fail(void *context, int fd, const void *source, size_t size, int64_t offset) {
    return is_failing() ? -1 : rp_file_ops_system()->write_at(context, fd, source, size, offset);
}
static int clear_or_fail(void *context, int fd, int64_t offset, int64_t size) {
    return is_failing() ? -1 : rp_file_ops_system()->clear(context, fd, offset, size);
}
static int sync_or_fail(void *context, int fd) { return is_failing() ? -1 : rp_file_ops_system()->sync_data(context, fd); }
static int rename_or_fail(void *context, const char *source, const char *target) {
    return is_failing() ? -1 : rp_file_ops_system()->rename(context, source, target);
}
static int unlink_or_fail(void *context, const char *path) { return is_failing() ? -1 : rp_file_ops_system()->unlink(context, path); }
static int directory_or_fail(void *context, const char *path) {
    return is_failing() ? -1 : rp_file_ops_system()->sync_directory(context, path);
}

/* From the n-th call on the disk does nothing, as for a process that was killed there. For every n the next open must have cut the log. */
static void an_open_that_dies_while_it_cuts_is_made_up_for(void) {
    rp_file_ops dying = *rp_file_ops_system();
    dying.open = open_or_fail, dying.write_at = write_or_fail, dying.clear = clear_or_fail, dying.sync_data = sync_or_fail;
    dying.rename = rename_or_fail, dying.unlink = unlink_or_fail, dying.sync_directory = directory_or_fail;
    int deaths = 0;
    for (int n = 1; n <= 64; n += n < 24 ? 1 : 8) {
        char path[128];
        rp_message_store_options options;
        rp_message_store *store = NULL;
        rp_error error;
        fixture_directory(path, sizeof path);
        fixture_options(&options, path);
        store = fixture_open(&options);
        node one = {.store = store};
        append_to(&one, 5);
        int64_t cut = rp_commit_log_max_offset(rp_message_store_commit_log(store));
        append_to(&one, 400); /* three files */
        CHECK(rp_message_store_cut_at_open(store, cut, &error) == RP_OK);
        fixture_close(store);
        options.file_ops = &dying;
        fails_at = n;
        calls = 0;
        if (rp_message_store_open(&options, &store, &error) == RP_OK) {
            (void)rp_message_store_close(store, &error);
        } else {
            deaths++;
        }
        fails_at = 0;
        options.file_ops = NULL;
        store = fixture_open(&options);
        CHECK(rp_commit_log_max_offset(rp_message_store_commit_log(store)) == cut);
        CHECK(rp_consume_queue_max_offset(fixture_queue(store, "T", 0)) == 2);
        one.store = store;
        append_to(&one, 3);
        fixture_close(store);
        fixture_remove(path);
    }
    CHECK(deaths > 8);
}

/* c has messages that nobody else has, and knows that they are not confirmed. So they are in no queue, and can be cut while the store is
 * open. */
static void what_was_not_confirmed_is_cut_while_the_store_is_open(void) {
    node a, b, c;
    open_node(&a, 1, 1);
    open_node(&b, 2, 1);
    open_node(&c, 3, 1);
    lead(&a, 1);
    append_to(&a, 10);
    follow_node(&b, &a);
    follow_node(&c, &a);
    wait_same(&a, &b);
    wait_same(&a, &c);
    int64_t confirmed = end_of(&a);
    WAIT_FOR(rp_ha_master_agree(a.master, (int64_t[]){1, 2}, 2) == RP_OK && rp_ha_master_confirm_offset(a.master) == confirmed);
    rp_ha_slave_let_go(b.slave);
    rp_ha_slave_row row;
    WAIT_FOR(!row_of(&a, 2, &row));
    CHECK(wait_acked(&a.acked, -1));
    append_to(&a, 400);
    WAIT_FOR(end_of(&c) == end_of(&a));
    CHECK(rp_ha_master_confirm_offset(a.master) == confirmed);
    CHECK(rp_commit_log_dispatched_offset(log_of(&c)) == confirmed);
    CHECK(rp_consume_queue_max_offset(fixture_queue(c.store, "T", 0)) == 4);
    lead(&b, 2);
    append_to(&b, 5);
    follow_node(&c, &b);
    wait_same(&b, &c);
    append_to(&b, 300);
    wait_same(&b, &c);
    stop_node(&c);
    open_node_with(&c, NULL);
    check_same(&b, &c);
    close_node(&c);
    close_node(&b);
    close_node(&a);
}

static void the_set_decides_what_is_acknowledged(void) {
    node a, b;
    open_node(&a, 1, 1);
    open_node(&b, 2, 1);
    lead(&a, 1);
    CHECK(wait_acked(&a.acked, INT64_MAX)); /* alone it waits for nobody */
    append_to(&a, 10);
    CHECK(rp_ha_master_confirm_offset(a.master) == end_of(&a));
    follow_node(&b, &a);
    wait_same(&a, &b);
    WAIT_FOR(is_signalled(&a)); /* b has caught up */
    rp_ha_slave_row row;
    CHECK(row_of(&a, 2, &row) && row.has_caught_up && !row.is_in_set && row.caught_up_ms > 0);
    CHECK(row.caught_up_ms <= rp_clock_monotonic_ns(rp_clock_system()) / 1000000); /* and by no clock that can be set */
    CHECK(rp_ha_master_propose(a.master, (int64_t[]){2}, 1) == RP_E_INVALID); /* the set lacks the master itself */
    CHECK(rp_ha_master_propose(a.master, (int64_t[]){1, 2}, 2) == RP_OK);
    CHECK(wait_acked(&a.acked, end_of(&a))); /* both count before the controller has answered */
    append_to(&a, 5);
    CHECK(wait_acked(&a.acked, end_of(&a)));
    CHECK(rp_ha_master_agree(a.master, (int64_t[]){1, 2}, 2) == RP_OK);
    CHECK(row_of(&a, 2, &row) && row.is_in_set);
    int64_t before = end_of(&a);
    rp_ha_slave_let_go(b.slave);
    CHECK(wait_acked(&a.acked, -1));
    WAIT_FOR(is_signalled(&a)); /* one of the set has gone */
    append_to(&a, 5);
    CHECK(rp_ha_master_confirm_offset(a.master) == before);
    CHECK(rp_ha_master_propose(a.master, (int64_t[]){1}, 1) == RP_OK);
    CHECK(told_offset(&a.acked) == -1); /* not before the controller has agreed */
    CHECK(rp_ha_master_confirm_offset(a.master) == before);
    CHECK(rp_ha_master_agree(a.master, (int64_t[]){1}, 1) == RP_OK);
    CHECK(told_offset(&a.acked) == INT64_MAX && rp_ha_master_confirm_offset(a.master) == end_of(&a));
    int64_t ids[RP_SYNC_STATE_SET_MAX];
    CHECK(rp_ha_master_read_set(a.master, ids, RP_SYNC_STATE_SET_MAX) == 1 && ids[0] == 1);
    rp_ha_master_step_down(a.master);
    CHECK(told_offset(&a.acked) == -1);
    close_node(&b);
    close_node(&a);
}

static void lose_epochs(node *loser) {
    char backup[176];
    snprintf(backup, sizeof backup, "%s.bak", loser->epochs_path);
    stop_node(loser);
    unlink(loser->epochs_path);
    unlink(backup);
    open_node_with(loser, NULL);
    CHECK(rp_epoch_cache_last(loser->epochs) == -1);
}

/* A slave that lost its epoch file, and a master that lost its: last bytes decide, and the transfer goes on. */
static void lost_epochs_stop_nothing(void) {
    node a, b;
    open_node(&a, 1, 0);
    open_node(&b, 2, 0);
    lead(&a, 1);
    append_to(&a, 100);
    follow_node(&b, &a);
    wait_same(&a, &b);
    for (int round = 0; round < 4; round++) {
        node *loser = round % 2 == 0 ? &a : &b, *leader = round < 2 ? &a : &b, *other = round < 2 ? &b : &a;
        lose_epochs(loser);
        lead(leader, 10 + round);
        follow_node(other, leader);
        append_to(leader, 50);
        wait_same(leader, other);
    }
    close_node(&b);
    close_node(&a);
}

/* b's last bytes, which are compared, are of both of a's epochs. c has the first one, and then leads. */
static void all_epochs_of_what_was_compared_are_taken_over(void) {
    node a, b, c;
    rp_epoch_entry entries[2];
    open_node(&a, 1, 0);
    open_node(&b, 2, 0);
    open_node(&c, 3, 0);
    lead(&a, 1);
    append_to(&a, 50);
    follow_node(&c, &a);
    wait_same(&a, &c);
    rp_ha_slave_let_go(c.slave);
    int64_t parted = end_of(&a);
    lead(&a, 2);
    append_to(&a, 5);
    follow_node(&b, &a);
    wait_same(&a, &b);
    lose_epochs(&b);
    follow_node(&b, &a);
    append_to(&a, 5);
    wait_same(&a, &b);
    CHECK(rp_epoch_cache_read(b.epochs, entries, 2) == 2);
    CHECK(entries[0].epoch == 1 && entries[0].start_offset == 0 && entries[1].epoch == 2 && entries[1].start_offset == parted);
    lead(&c, 3);
    append_to(&c, 100);
    uint64_t disconnects = stats_of(&b).disconnects;
    follow_node(&b, &c);
    WAIT_FOR(stats_of(&b).state == RP_HA_SLAVE_TRUNCATE || stats_of(&b).disconnects >= disconnects + 4);
    CHECK(stats_of(&b).state == RP_HA_SLAVE_TRUNCATE && stats_of(&b).truncate_to == parted);
    close_node(&c);
    close_node(&b);
    close_node(&a);
}

/* Its epochs, if it has any, are none of the master's, and its last bytes are others: it stays as it is, however often it tries. */
static void a_foreign_log_is_not_continued_with_the_second_attempt(void) {
    for (int has_epochs = 0; has_epochs < 2; has_epochs++) {
        node a, b;
        rp_ha_slave_row row;
        open_node(&a, 1, 0);
        open_node(&b, 2, 0);
        lead(&b, 1);
        append_to(&b, 50);
        lead(&a, 2);
        append_to(&a, 100);
        if (!has_epochs)
            lose_epochs(&b);
        int64_t end = end_of(&b), last = has_epochs ? 1 : -1;
        CHECK(end < end_of(&a) && rp_epoch_cache_last(b.epochs) == last);
        follow_node(&b, &a);
        WAIT_FOR(stats_of(&b).disconnects >= 3 || stats_of(&b).state == RP_HA_SLAVE_TRANSFER || end_of(&b) != end ||
                 rp_epoch_cache_last(b.epochs) != last);
        CHECK(stats_of(&b).state != RP_HA_SLAVE_TRANSFER && strstr(stats_of(&b).last_error, "differs from ours") != NULL);
        CHECK(end_of(&b) == end && rp_epoch_cache_last(b.epochs) == last);
        CHECK(!row_of(&a, 2, &row) || row.acked_offset < end);
        close_node(&b);
        close_node(&a);
    }
}

static void a_lease_that_is_over_ends_appends(void) {
    node a;
    open_node(&a, 1, 0);
    lead(&a, 1);
    append_to(&a, 1);
    rp_commit_log_set_lease(log_of(&a), rp_clock_monotonic_ns(NULL) - 1);
    CHECK(try_append(&a) == RP_E_READ_ONLY);
    rp_commit_log_set_lease(log_of(&a), rp_clock_monotonic_ns(NULL) + 3600 * RP_NS_PER_S);
    append_to(&a, 1);
    rp_commit_log_set_lease(log_of(&a), INT64_MAX);
    append_to(&a, 1);
    close_node(&a);
}

int main(void) {
    for (appenders_send = 0; appenders_send < 2; appenders_send++) {
        a_slave_follows_and_has_its_masters_epochs();
        roles_change_while_producers_send();
    }
    a_returning_masters_own_messages_are_cut_at_the_next_open();
    nothing_is_cut_for_a_master_that_is_wanted_no_more();
    an_open_that_dies_while_it_cuts_is_made_up_for();
    what_was_not_confirmed_is_cut_while_the_store_is_open();
    the_set_decides_what_is_acknowledged();
    lost_epochs_stop_nothing();
    all_epochs_of_what_was_compared_are_taken_over();
    a_foreign_log_is_not_continued_with_the_second_attempt();
    a_lease_that_is_over_ends_appends();
    return 0;
}
