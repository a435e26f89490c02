/* ha_held_test.c: with a controller a master keeps messages out of its queues until all of its SyncStateSet hold them: also across
 * restarts, role changes, deleted topics and full disks. */
#include "ha_switch_fixture.h"

#include <fcntl.h>

#include "../../../csrc/store/checkpoint.h"
#include "../../../csrc/store/store_verify.h"

static const int64_t BOTH[] = {1, 2};

static int64_t visible(const node *one, int32_t queue_id) { return rp_consume_queue_max_offset(fixture_queue(one->store, "T", queue_id)); }
static int64_t next_of(const node *one, int32_t queue_id) { return rp_consume_queue_next_offset(fixture_queue(one->store, "T", queue_id)); }
static int64_t dispatched_of(const node *one) { return rp_commit_log_dispatched_offset(log_of(one)); }

/* a leads both, b follows, and both have `count` messages. */
static void open_both(node *a, node *b, int count) {
    open_node(a, 1, 1);
    open_node(b, 2, 1);
    lead_with(a, 1, BOTH, 2);
    follow_node(b, a);
    append_to(a, count);
    CHECK(wait_acked(&a->acked, end_of(a)));
    CHECK(dispatched_of(a) == end_of(a)); /* consumers can read what was acknowledged */
    WAIT_FOR(has_same_dispatched(b));
}

static void lose(const node *leader, node *slave) {
    rp_ha_slave_row row;
    rp_ha_slave_let_go(slave->slave);
    WAIT_FOR(!row_of(leader, slave->id, &row));
}

static _Atomic uint64_t arrivals;

static void on_arrival(void *context, rp_consume_queue *queue, uint64_t waiting) {
    (void)context;
    CHECK(rp_consume_queue_max_offset(queue) > 4 && waiting == 2);
    atomic_fetch_add(&arrivals, 1);
}

static void a_message_is_seen_when_the_set_has_it(void) {
    node a, b;
    open_both(&a, &b, 12);
    CHECK(visible(&a, 0) == 4 && next_of(&a, 0) == 4);
    lose(&a, &b);
    atomic_store(&arrivals, 0);
    rp_message_store_on_arrival(a.store, on_arrival, NULL);
    rp_consume_queue_set_waiting(fixture_queue(a.store, "T", 0), 1);
    int64_t confirmed = end_of(&a);
    append_to(&a, 400); /* three files */
    CHECK(visible(&a, 0) == 4 && next_of(&a, 0) == 138 && dispatched_of(&a) == confirmed);
    CHECK(rp_ha_master_confirm_offset(a.master) == confirmed);
    CHECK(atomic_load(&arrivals) == 0);
    follow_node(&b, &a);
    WAIT_FOR(dispatched_of(&a) == end_of(&a));
    CHECK(wait_acked(&a.acked, end_of(&a)) && visible(&a, 0) == 138);
    WAIT_FOR(atomic_load(&arrivals) > 0);
    append_to(&a, 2);
    WAIT_FOR(dispatched_of(&a) == end_of(&a));
    wait_same(&a, &b);
    rp_message_store_stats stats;
    rp_message_store_read_stats(a.store, &stats);
    CHECK(stats.messages_appended == 414);
    close_node(&b);
    close_node(&a);
}

/* There are many rounds of entries, and messages come meanwhile. */
static void a_smaller_set_lets_all_go(void) {
    node a, b;
    open_both(&a, &b, 3);
    lose(&a, &b);
    append_to(&a, 5000);
    CHECK(visible(&a, 0) == 1);
    CHECK(rp_ha_master_agree(a.master, &a.id, 1) == RP_OK);
    CHECK(dispatched_of(&a) == end_of(&a) && visible(&a, 1) == 1668);
    append_to(&a, 1);
    CHECK(dispatched_of(&a) == end_of(&a)); /* entered at once, as without a controller */
    CHECK(rp_ha_master_propose(a.master, BOTH, 2) == RP_OK);
    CHECK(rp_ha_master_confirm_offset(a.master) == end_of(&a)); /* as it was acknowledged: b has to have it before it may join */
    append_to(&a, 1);
    CHECK(dispatched_of(&a) < end_of(&a));
    close_node(&b);
    close_node(&a);
}

static void an_old_masters_held_messages_are_cut_while_its_store_is_open(void) {
    node a, b;
    open_both(&a, &b, 12);
    lose(&a, &b);
    append_to(&a, 400);
    lead(&b, 2);
    append_to(&b, 3);
    follow_node(&a, &b);
    wait_same(&b, &a);
    CHECK(visible(&a, 0) == 5 && stats_of(&a).state == RP_HA_SLAVE_TRANSFER);
    lead_with(&a, 3, BOTH, 2); /* it leads again, and its offsets continue after what it has now */
    follow_node(&b, &a);
    append_to(&a, 3);
    CHECK(wait_acked(&a.acked, end_of(&a)));
    wait_same(&a, &b);
    CHECK(visible(&a, 0) == 6);
    close_node(&b);
    close_node(&a);
}

/* As a process that was killed leaves it: an abort mark, and a checkpoint of long ago. */
static void spoil_the_stop(const node *one) {
    char path[160];
    rp_error error;
    rp_checkpoint checkpoint;
    snprintf(path, sizeof path, "%s/abort", one->path);
    int fd = open(path, O_CREAT | O_WRONLY, 0644);
    CHECK(fd >= 0 && close(fd) == 0);
    snprintf(path, sizeof path, "%s/checkpoint", one->path);
    CHECK(rp_checkpoint_read(rp_file_ops_system(), path, &checkpoint, &error) == RP_OK);
    checkpoint.queues_offset = checkpoint.confirm_offset = 0;
    rp_checkpoint_forget_counts(&checkpoint);
    CHECK(rp_checkpoint_write(rp_file_ops_system(), path, &checkpoint, &error) == RP_OK);
}

static int64_t saved_confirm_offset(const node *one) {
    char path[160];
    rp_error error;
    rp_checkpoint checkpoint;
    snprintf(path, sizeof path, "%s/checkpoint", one->path);
    CHECK(rp_checkpoint_read(rp_file_ops_system(), path, &checkpoint, &error) == RP_OK);
    return checkpoint.confirm_offset;
}

static int64_t damages_of(const node *one) {
    rp_verify_options options;
    rp_verify_counts counts;
    rp_error error = {0};
    rp_verify_options_default(&options);
    options.root_path = one->path;
    options.index_shape = (rp_index_shape){64, 500};
    CHECK(rp_store_verify(&options, &counts, &error) == RP_OK);
    return (int64_t)counts.damages;
}

/* The same master leads again in the same epoch. What its set held is in the queues, the rest is still held back, and offsets continue
 * after it. */
static void a_restart_confirms_nothing(int is_killed) {
    node a, b;
    open_both(&a, &b, 12);
    lose(&a, &b);
    int64_t confirmed = end_of(&a);
    append_to(&a, 30);
    stop_node(&a);
    CHECK(saved_confirm_offset(&a) == confirmed && damages_of(&a) == 0);
    if (is_killed)
        spoil_the_stop(&a);
    open_node_with(&a, NULL);
    CHECK(dispatched_of(&a) == confirmed && visible(&a, 0) == 4 && end_of(&a) > confirmed);
    lead_with(&a, 1, BOTH, 2);
    CHECK(visible(&a, 0) == 4 && next_of(&a, 0) == 14 && rp_ha_master_confirm_offset(a.master) == confirmed);
    append_to(&a, 3);
    CHECK(visible(&a, 0) == 4 && next_of(&a, 0) == 15);
    follow_node(&b, &a);
    CHECK(wait_acked(&a.acked, end_of(&a)));
    CHECK(visible(&a, 0) == 15);
    wait_same(&a, &b);
    stop_node(&a);
    open_node_with(&a, NULL);
    check_same(&a, &b);
    close_node(&b);
    close_node(&a);
}

/* The master is alone after a restart, so no other replica can have less. */
static void who_leads_alone_holds_nothing_back(void) {
    node a, b;
    open_both(&a, &b, 3);
    lose(&a, &b);
    append_to(&a, 3);
    stop_node(&a);
    open_node_with(&a, NULL);
    CHECK(visible(&a, 0) == 1);
    lead(&a, 2);
    CHECK(visible(&a, 0) == 2 && dispatched_of(&a) == end_of(&a));
    close_node(&b);
    close_node(&a);
}

static void held_messages_of_a_deleted_topic_stay_away(void) {
    node a, b;
    rp_error error;
    open_both(&a, &b, 3);
    lose(&a, &b);
    append_to(&a, 3);
    CHECK(rp_message_store_delete_topic(a.store, fixture_slice("T"), &error) == RP_OK);
    CHECK(visible(&a, 0) == 0 && next_of(&a, 0) == 0);
    append_to(&a, 3);
    CHECK(next_of(&a, 0) == 1);
    follow_node(&b, &a);
    CHECK(wait_acked(&a.acked, end_of(&a)));
    CHECK(visible(&a, 0) == 1 && visible(&a, 2) == 1);
    rp_queue_entry entry;
    rp_message_store_stats stats;
    rp_message_store_read_stats(a.store, &stats);
    CHECK(rp_consume_queue_read(fixture_queue(a.store, "T", 2), 0, &entry, 1) == 1);
    CHECK(entry.commit_log_offset + entry.size == stats.commit_log_max_offset);
    close_node(&b);
    close_node(&a);
}

static _Atomic int is_full;

static int allocate_or_not(void *context, int fd, int64_t offset, int64_t size) {
    if (atomic_load(&is_full)) {
        errno = ENOSPC;
        return -1;
    }
    return rp_file_ops_system()->allocate(context, fd, offset, size);
}

/* There is no room to enter its log into the queues. So it must not lead, and above all must cut nothing. */
static void a_full_disk_costs_the_lead_but_no_message(void) {
    node a;
    rp_error error;
    rp_file_ops filling = *rp_file_ops_system();
    filling.allocate = allocate_or_not;
    open_node(&a, 1, 1);
    stop_node(&a);
    open_node_with(&a, &filling);
    lead_with(&a, 1, BOTH, 2);
    append_to(&a, 1000); /* more than a page of entries */
    int64_t end = end_of(&a);
    rp_ha_master_step_down(a.master);
    atomic_store(&is_full, 1);
    CHECK(rp_ha_master_lead(a.master, 2, &a.id, 1, &error) == RP_E_DISK_FULL && try_append(&a) == RP_E_READ_ONLY);
    CHECK(end_of(&a) == end && dispatched_of(&a) < end);
    atomic_store(&is_full, 0);
    lead(&a, 2);
    CHECK(end_of(&a) == end && visible(&a, 0) == 334 && dispatched_of(&a) == end);
    append_to(&a, 1);
    close_node(&a);
}

#define PRODUCERS 2

typedef struct producer {
    pthread_t thread;
    node *leader;
    _Atomic int *stopping;
    int32_t queue_id;
    int64_t sent;
} producer;

static void *produce(void *context) {
    producer *one = context;
    struct timespec pause = {.tv_nsec = 20000};
    rp_consume_queue *queue = fixture_queue(one->leader->store, "T", one->queue_id);
    for (; !atomic_load(one->stopping); one->sent++) {
        char body[512];
        rp_append_item item = fixture_item(queue, body, fixture_body(body, sizeof body, one->queue_id, one->sent));
        item.tags_code = rp_message_tags_code(item.properties[0]);
        rp_commit_log_append(log_of(one->leader), &item, 1);
        CHECK(item.status == RP_OK);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* The set shrinks and grows under load, so that messages are entered by their append and by rounds in turn: each is there once, in order,
 * and while both are in the set none is seen that b has not. */
static void the_set_changes_while_producers_send(void) {
    node a, b;
    _Atomic int stopping = 0;
    producer producers[PRODUCERS];
    open_both(&a, &b, 0);
    for (int i = 0; i < PRODUCERS; i++) {
        producers[i] = (producer){.leader = &a, .stopping = &stopping, .queue_id = i};
        CHECK(pthread_create(&producers[i].thread, NULL, produce, &producers[i]) == 0);
    }
    for (int round = 0; round < 4; round++) {
        int64_t begin = end_of(&a);
        WAIT_FOR(end_of(&a) > begin + 4000 && dispatched_of(&a) > begin);
        CHECK(rp_ha_master_agree(a.master, &a.id, 1) == RP_OK);
        begin = end_of(&a);
        WAIT_FOR(dispatched_of(&a) > begin + 4000);
        CHECK(rp_ha_master_propose(a.master, BOTH, 2) == RP_OK);
        int64_t alone = end_of(&a);
        CHECK(rp_ha_master_agree(a.master, BOTH, 2) == RP_OK);
        WAIT_FOR(end_of(&b) >= alone);
        for (int look = 0; look < 50; look++) {
            int64_t seen = dispatched_of(&a);
            CHECK(seen <= end_of(&b));
        }
    }
    atomic_store(&stopping, 1);
    for (int i = 0; i < PRODUCERS; i++)
        CHECK(pthread_join(producers[i].thread, NULL) == 0);
    WAIT_FOR(dispatched_of(&a) == end_of(&a));
    for (int i = 0; i < PRODUCERS; i++) {
        CHECK(visible(&a, i) == producers[i].sent);
        for (int64_t number = 0; number < producers[i].sent; number++)
            CHECK(fixture_check(a.store, fixture_queue(a.store, "T", i), number) == 0);
    }
    WAIT_FOR(end_of(&b) == end_of(&a) && has_same_dispatched(&b));
    check_same(&a, &b);
    close_node(&b);
    close_node(&a);
}

int main(void) {
    for (appenders_send = 0; appenders_send < 2; appenders_send++) {
        flush_mode = appenders_send ? RP_FLUSH_SYNC : RP_FLUSH_ASYNC; /* whose records are written, not stored through the map */
        a_message_is_seen_when_the_set_has_it();
    }
    the_set_changes_while_producers_send();
    flush_mode = RP_FLUSH_ASYNC;
    the_set_changes_while_producers_send();
    a_smaller_set_lets_all_go();
    an_old_masters_held_messages_are_cut_while_its_store_is_open();
    a_restart_confirms_nothing(0);
    a_restart_confirms_nothing(1);
    who_leads_alone_holds_nothing_back();
    held_messages_of_a_deleted_topic_stay_away();
    a_full_disk_costs_the_lead_but_no_message();
    return 0;
}
