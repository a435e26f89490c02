/* lite_readers_test.c: which clients read which lite topics: what is ready, held, freed, passed on and forgotten; also with random
 * operations against a model. */
#include "broker/lane.h"
#include "broker/lite_readers.h"
#include "broker_fixture.h"

#define DUE_NS 1000

static rp_slice client_one, client_two;

typedef struct table {
    fixture fx;
    rp_lite_readers *readers;
    rp_group *group;
} table;

static void open_table(table *t) {
    fixture_init(&t->fx);
    fixture_open(&t->fx);
    t->readers = rp_lite_readers_create();
    t->group = rp_group_table_find(t->fx.broker->groups, text("G"));
    CHECK(t->readers != NULL && t->group != NULL);
    client_one = text("one");
    client_two = text("two");
}

static void close_table(table *t) {
    rp_lite_counts counts;
    rp_lite_read_counts(t->readers, &counts);
    CHECK(counts.held == 0 || counts.subscriptions > 0);
    rp_lite_readers_destroy(t->readers);
    fixture_close(&t->fx);
}

static rp_consume_queue *queue_of(const table *t, const char *name) {
    rp_consume_queue *queue = rp_message_store_queue(t->fx.store, text(name), 0, 1, NULL);
    CHECK(queue != NULL && rp_consume_queue_is_lite(queue));
    return queue;
}

static void add_message(const table *t, const char *name) {
    rp_append_item item = {.queue = queue_of(t, name), .body = text("x")};
    CHECK(rp_commit_log_append(t->fx.broker->commit_log, &item, 1) > 0 && item.status == RP_OK);
    rp_lite_arrived(t->readers, item.queue);
}

static rp_lite_reader *reader_of(const table *t, rp_slice client, int is_wildcard) {
    rp_lite_reader *reader = rp_lite_reader_open(t->readers, t->group, client, is_wildcard, 1);
    CHECK(reader != NULL);
    return reader;
}

/* 1: that one is ready, and put back as it was found. */
static int takes(const table *t, rp_lite_reader *reader, const char *name, enum rp_lite_found found) {
    rp_lite_look look;
    if (!rp_lite_take(t->readers, reader, &look))
        return name == NULL;
    int is_so = name != NULL && look.name.size == strlen(name) && memcmp(look.name.data, name, look.name.size) == 0;
    rp_lite_put_back(t->readers, &look, found, DUE_NS);
    return is_so;
}

#define A "%LMQ%$T$a"
#define B "%LMQ%$T$b"

static void what_has_messages_is_ready_once_and_not_while_they_are_out(void) {
    table t;
    open_table(&t);
    CHECK(rp_lite_subscribe(t.readers, t.group, client_one, text(A)) == 1);
    CHECK(rp_lite_subscribe(t.readers, t.group, client_one, text(A)) == RP_OK);
    CHECK(rp_lite_subscribe(t.readers, t.group, client_one, text(B)) == 1);
    rp_lite_reader *reader = reader_of(&t, client_one, 0);
    CHECK(takes(&t, reader, NULL, RP_LITE_NOTHING));
    add_message(&t, B);
    add_message(&t, A);
    add_message(&t, B);
    CHECK(takes(&t, reader, B, RP_LITE_HELD) && takes(&t, reader, A, RP_LITE_AGAIN) && takes(&t, reader, A, RP_LITE_NOTHING));
    CHECK(takes(&t, reader, NULL, RP_LITE_NOTHING) && rp_lite_due_ns(t.readers) == DUE_NS);
    add_message(&t, B);
    rp_lite_expire(t.readers, DUE_NS - 1);
    CHECK(takes(&t, reader, NULL, RP_LITE_NOTHING));
    rp_lite_expire(t.readers, DUE_NS);
    CHECK(takes(&t, reader, B, RP_LITE_HELD));
    rp_lite_freed(t.readers, t.group, text(B), 3);
    CHECK(takes(&t, reader, NULL, RP_LITE_NOTHING) && rp_lite_due_ns(t.readers) == INT64_MAX);
    add_message(&t, B);
    CHECK(takes(&t, reader, B, RP_LITE_HELD));
    rp_lite_freed(t.readers, t.group, text(B), 3);
    CHECK(takes(&t, reader, B, RP_LITE_HELD));
    CHECK(rp_lite_hold(t.readers, t.group, text(B), 2 * DUE_NS) == 1 && rp_lite_due_ns(t.readers) == 2 * DUE_NS);
    rp_lite_look_again(t.readers, t.group, text(B));
    CHECK(takes(&t, reader, B, RP_LITE_HELD));
    rp_lite_look_at_all(t.readers, t.group, client_one);
    CHECK(takes(&t, reader, A, RP_LITE_NOTHING) && takes(&t, reader, NULL, RP_LITE_NOTHING));
    rp_lite_unsubscribe_all(t.readers, t.group, client_one);
    rp_lite_reader_close(t.readers, reader);
    rp_lite_counts counts;
    rp_lite_read_counts(t.readers, &counts);
    CHECK(counts.readers == 0 && counts.subscriptions == 0 && counts.held == 0 && rp_lite_due_ns(t.readers) == INT64_MAX);
    close_table(&t);
}

static void what_happens_while_a_pop_looks_is_not_lost(void) {
    table t;
    open_table(&t);
    CHECK(rp_lite_subscribe(t.readers, t.group, client_one, text(A)) == 1);
    rp_lite_reader *reader = reader_of(&t, client_one, 0);
    rp_lite_look look;
    add_message(&t, A);
    CHECK(rp_lite_take(t.readers, reader, &look) == 1);
    rp_lite_freed(t.readers, t.group, text(A), 1); /* acked before the pop has put it back */
    CHECK(rp_lite_put_back(t.readers, &look, RP_LITE_HELD, DUE_NS) == 0 && rp_lite_due_ns(t.readers) == INT64_MAX);
    CHECK(rp_lite_take(t.readers, reader, &look) == 1);
    add_message(&t, A);
    rp_lite_put_back(t.readers, &look, RP_LITE_NOTHING, 0);
    CHECK(rp_lite_take(t.readers, reader, &look) == 1);
    rp_lite_forget(t.readers, text(A)); /* deleted */
    rp_lite_put_back(t.readers, &look, RP_LITE_HELD, DUE_NS);
    CHECK(rp_lite_due_ns(t.readers) == INT64_MAX && takes(&t, reader, NULL, RP_LITE_NOTHING));
    add_message(&t, A);
    CHECK(takes(&t, reader, NULL, RP_LITE_NOTHING));
    CHECK(rp_lite_subscribe(t.readers, t.group, client_one, text(A)) == 1);
    CHECK(rp_lite_offer(t.readers, t.group, queue_of(&t, A)) == RP_OK &&
          rp_lite_offer(t.readers, t.group, queue_of(&t, B)) == RP_E_NOT_FOUND);
    CHECK(takes(&t, reader, A, RP_LITE_NOTHING));
    rp_lite_reader_close(t.readers, reader);
    close_table(&t);
}

static void a_waiting_pop_is_woken_and_passes_on_what_it_leaves(void) {
    table t;
    open_table(&t);
    rp_reactor *reactor = rp_server_reactor(t.fx.server, 0);
    int is_ready;
    for (int i = 0; i < 2; i++)
        CHECK(rp_lite_subscribe(t.readers, t.group, i == 0 ? client_one : client_two, text(A)) == 1);
    rp_lite_reader *one = reader_of(&t, client_one, 0), *two = reader_of(&t, client_two, 0);
    rp_lite_waits *first = rp_lite_wait(t.readers, one, reactor, 3, &is_ready);
    CHECK(first != NULL && !is_ready && rp_lite_wait(t.readers, one, reactor, 3, &is_ready) == first);
    rp_lite_waits *second = rp_lite_wait(t.readers, two, reactor, 4, &is_ready);
    add_message(&t, A);
    add_message(&t, A);
    rp_lite_waits *woken = rp_lite_next_woken(t.readers, 3);
    if (woken == NULL) {
        CHECK((woken = rp_lite_next_woken(t.readers, 4)) == second);
        CHECK(rp_lite_pass_on(t.readers, two) == 1 && rp_lite_next_woken(t.readers, 4) == second);
    } else {
        CHECK(woken == first && rp_lite_next_woken(t.readers, 4) == NULL);
        CHECK(rp_lite_pass_on(t.readers, one) == 1 && rp_lite_next_woken(t.readers, 3) == first);
    }
    CHECK(rp_lite_next_woken(t.readers, 3) == NULL || rp_lite_next_woken(t.readers, 4) == NULL);
    rp_lite_unsubscribe_all(t.readers, t.group, client_one);
    rp_lite_unwait(t.readers, first);
    rp_lite_unwait(t.readers, second);
    CHECK(takes(&t, two, A, RP_LITE_NOTHING) && takes(&t, one, NULL, RP_LITE_NOTHING));
    rp_lite_reader_close(t.readers, one);
    rp_lite_reader_close(t.readers, two);
    CHECK(rp_lite_next_woken(t.readers, 3) == NULL && rp_lite_next_woken(t.readers, 4) == NULL);
    close_table(&t);
}

/* Two share the lite topic and wait, on lanes 3 and 4; a message has come. Returns which of them was told. */
static int wake_one_of_two(table *t, rp_lite_reader *readers[2], rp_lite_waits *waits[2]) {
    for (int i = 0; i < 2; i++) {
        rp_slice client = i == 0 ? client_one : client_two;
        int is_ready;
        CHECK(rp_lite_subscribe(t->readers, t->group, client, text(A)) == 1);
        readers[i] = reader_of(t, client, 0);
        waits[i] = rp_lite_wait(t->readers, readers[i], rp_server_reactor(t->fx.server, 0), (uint16_t)(3 + i), &is_ready);
    }
    add_message(t, A);
    return waits[1]->is_woken;
}

static void one_that_leaves_before_it_has_looked_passes_on_that_it_was_woken(void) {
    table t;
    open_table(&t);
    rp_lite_reader *readers[2];
    rp_lite_waits *waits[2];
    int woken = wake_one_of_two(&t, readers, waits), other = 1 - woken;
    CHECK(waits[woken]->is_woken && !waits[other]->is_woken);
    rp_lite_unwait(t.readers, waits[woken]); /* its connection has ended */
    CHECK(rp_lite_next_woken(t.readers, (uint16_t)(3 + other)) == waits[other]);
    rp_lite_unwait(t.readers, waits[other]);
    for (int i = 0; i < 2; i++)
        rp_lite_reader_close(t.readers, readers[i]);
    close_table(&t);
}

static void one_that_leaves_what_it_cannot_read_yet_passes_it_on(void) {
    table t;
    open_table(&t);
    rp_lite_reader *readers[2];
    rp_lite_waits *waits[2];
    rp_lite_look look;
    int woken = wake_one_of_two(&t, readers, waits), other = 1 - woken;
    CHECK(rp_lite_next_woken(t.readers, (uint16_t)(3 + woken)) == waits[woken]);
    CHECK(rp_lite_take(t.readers, readers[woken], &look) == 1);
    rp_lite_put_back(t.readers, &look, RP_LITE_AGAIN, 0);
    rp_lite_unwait(t.readers, waits[woken]); /* its connection has ended */
    CHECK(rp_lite_next_woken(t.readers, (uint16_t)(3 + other)) == waits[other]);
    rp_lite_unwait(t.readers, waits[other]);
    for (int i = 0; i < 2; i++)
        rp_lite_reader_close(t.readers, readers[i]);
    close_table(&t);
}

static void a_wildcard_group_has_what_has_messages_and_nothing_else(void) {
    table t;
    open_table(&t);
    CHECK(rp_lite_read_all(t.readers, t.group, text("T")) == RP_OK && rp_lite_read_all(t.readers, t.group, text("T")) == RP_OK);
    rp_lite_reader *reader = reader_of(&t, client_one, 1);
    CHECK(reader == reader_of(&t, client_two, 1));
    rp_lite_counts counts;
    for (int round = 0; round < 3; round++) {
        add_message(&t, A);
        add_message(&t, "%LMQ%$OTHER$a");
        CHECK(takes(&t, reader, A, RP_LITE_HELD) && takes(&t, reader, NULL, RP_LITE_NOTHING));
        rp_lite_freed(t.readers, t.group, text(A), round + 1);
        rp_lite_read_counts(t.readers, &counts);
        CHECK(counts.subscriptions == 0 && counts.readers == 1 && !rp_lite_has_missed(t.readers, t.group));
    }
    CHECK(rp_lite_offer(t.readers, t.group, queue_of(&t, A)) == RP_OK);
    CHECK(rp_lite_read_all(t.readers, t.group, text("OTHER")) == RP_OK && takes(&t, reader, NULL, RP_LITE_NOTHING));
    add_message(&t, "%LMQ%$OTHER$a");
    CHECK(takes(&t, reader, "%LMQ%$OTHER$a", RP_LITE_NOTHING));
    rp_lite_unsubscribe_all(t.readers, t.group, text(""));
    add_message(&t, "%LMQ%$OTHER$a");
    CHECK(takes(&t, reader, NULL, RP_LITE_NOTHING));
    rp_lite_reader_close(t.readers, reader);
    rp_lite_reader_close(t.readers, reader);
    rp_lite_read_counts(t.readers, &counts);
    CHECK(counts.readers == 0);
    close_table(&t);
}

static void readers_of_one_lite_topic_are_bounded(void) {
    table t;
    open_table(&t);
    char name[16];
    for (uint32_t i = 0; i <= RP_LITE_SHARES_MAX; i++) {
        snprintf(name, sizeof name, "c%u", i);
        CHECK(rp_lite_subscribe(t.readers, t.group, text(name), text(A)) == (i < RP_LITE_SHARES_MAX ? 1 : RP_E_BUSY));
    }
    rp_lite_counts counts;
    rp_lite_read_counts(t.readers, &counts);
    CHECK(counts.readers == RP_LITE_SHARES_MAX && counts.subscriptions == RP_LITE_SHARES_MAX);
    rp_lite_unsubscribe(t.readers, t.group, text("c0"), text(A));
    CHECK(rp_lite_subscribe(t.readers, t.group, text("last"), text(A)) == 1);
    rp_lite_forget(t.readers, text(A));
    rp_lite_read_counts(t.readers, &counts);
    CHECK(counts.readers == 0 && counts.subscriptions == 0);
    close_table(&t);
}

/* ---- against a model ---- */

enum { QUEUES = 40, CLIENTS = 5, STEPS = 20000 };

typedef struct model {
    int reads[CLIENTS][QUEUES], is_ready[CLIENTS][QUEUES], is_held[QUEUES];
    int64_t due_ns[QUEUES], end[QUEUES];
} model;

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void set_ready(model *m, int queue) {
    for (int i = 0; i < CLIENTS; i++)
        m->is_ready[i][queue] |= m->reads[i][queue];
}

static int is_read(const model *m, int queue) {
    int any = 0;
    for (int i = 0; i < CLIENTS; i++)
        any |= m->reads[i][queue];
    return any;
}

static void subscribe(table *t, model *m, int reader, const char *client_id, int queue, const char *name) {
    if (rp_lite_subscribe(t->readers, t->group, text(client_id), text(name)) != 1)
        return;
    CHECK(!m->reads[reader][queue]);
    m->reads[reader][queue] = 1;
    if (m->end[queue] > 0 && rp_lite_offer(t->readers, t->group, queue_of(t, name)) == RP_OK && !m->is_held[queue])
        set_ready(m, queue);
}

static void expire(table *t, model *m, int64_t now_ns) {
    rp_lite_expire(t->readers, now_ns);
    for (int i = 0; i < QUEUES; i++) {
        if (m->is_held[i] && m->due_ns[i] <= now_ns) {
            m->is_held[i] = 0;
            set_ready(m, i);
        }
    }
}

/* The reader takes a queue that is ready for it, and holds it until due_ns; without one none was ready by the model either. */
static void take(table *t, model *m, rp_lite_reader *lite_reader, int reader, int64_t due_ns) {
    rp_lite_look look;
    char name[32];
    if (!rp_lite_take(t->readers, lite_reader, &look)) {
        for (int i = 0; i < QUEUES; i++)
            CHECK(!m->is_ready[reader][i]);
        return;
    }
    snprintf(name, sizeof name, "%.*s", (int)look.name.size, (const char *)look.name.data);
    int taken = atoi(name + strlen("%LMQ%$T$"));
    CHECK(m->is_ready[reader][taken] || m->end[taken] > 0);
    m->is_ready[reader][taken] = 0;
    m->is_held[taken] = 1;
    m->due_ns[taken] = due_ns;
    rp_lite_put_back(t->readers, &look, RP_LITE_HELD, due_ns);
}

static void step(table *t, model *m, rp_lite_reader **readers, uint32_t *random, int64_t now_ns) {
    int queue = (int)(next_random(random) % QUEUES), reader = (int)(next_random(random) % CLIENTS);
    char name[32], client_id[8];
    snprintf(name, sizeof name, "%%LMQ%%$T$%d", queue);
    snprintf(client_id, sizeof client_id, "c%d", reader);
    switch (next_random(random) % 6) {
    case 0:
        subscribe(t, m, reader, client_id, queue, name);
        break;
    case 1:
        rp_lite_unsubscribe(t->readers, t->group, text(client_id), text(name));
        m->reads[reader][queue] = m->is_ready[reader][queue] = 0;
        m->is_held[queue] &= is_read(m, queue);
        break;
    case 2:
        add_message(t, name);
        m->end[queue]++;
        if (!m->is_held[queue])
            set_ready(m, queue);
        break;
    case 3:
        rp_lite_freed(t->readers, t->group, text(name), m->end[queue] - (int)(next_random(random) % 2));
        m->is_held[queue] = 0;
        break;
    case 4:
        expire(t, m, now_ns);
        break;
    default:
        take(t, m, readers[reader], reader, now_ns + (int64_t)(next_random(random) % 50));
    }
}

static void whatever_happens_nothing_is_forgotten(void) {
    table t;
    open_table(&t);
    static model m;
    uint32_t random = 7;
    rp_lite_reader *readers[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        char client_id[8];
        snprintf(client_id, sizeof client_id, "c%d", i);
        readers[i] = reader_of(&t, text(client_id), 0);
    }
    for (int64_t i = 0; i < STEPS; i++)
        step(&t, &m, readers, &random, i);
    rp_lite_counts counts;
    rp_lite_read_counts(t.readers, &counts);
    uint32_t subscriptions = 0, held = 0;
    for (int queue = 0; queue < QUEUES; queue++) {
        held += m.is_held[queue];
        for (int i = 0; i < CLIENTS; i++)
            subscriptions += m.reads[i][queue];
    }
    CHECK(counts.subscriptions == subscriptions && counts.held == held && counts.readers == CLIENTS);
    for (int i = 0; i < CLIENTS; i++)
        rp_lite_reader_close(t.readers, readers[i]);
    close_table(&t);
}

int main(void) {
    RUN(what_has_messages_is_ready_once_and_not_while_they_are_out);
    RUN(what_happens_while_a_pop_looks_is_not_lost);
    RUN(a_waiting_pop_is_woken_and_passes_on_what_it_leaves);
    RUN(one_that_leaves_before_it_has_looked_passes_on_that_it_was_woken);
    RUN(one_that_leaves_what_it_cannot_read_yet_passes_it_on);
    RUN(a_wildcard_group_has_what_has_messages_and_nothing_else);
    RUN(readers_of_one_lite_topic_are_bounded);
    RUN(whatever_happens_nothing_is_forgotten);
    return 0;
}
