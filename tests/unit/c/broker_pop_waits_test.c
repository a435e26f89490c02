/* broker_pop_waits_test.c: waiting pops, and that other waiting requests do not disturb them. */
#include "broker/lane.h"
#include "pop_fixture.h"

static int waiting_now(const fixture *fx) {
    rp_pop_stats stats;
    rp_broker_read_pop_stats(fx->broker, &stats);
    return (int)stats.waiting_now;
}

typedef struct number_of_waiting {
    const fixture *fx;
    int count;
} number_of_waiting;

static int as_many_wait(void *context) {
    const number_of_waiting *wanted = context;
    return waiting_now(wanted->fx) == wanted->count;
}

static void who_does_not_read_keeps_nothing_from_who_does(void) {
    enum { POPS = 40, BODY = 1 << 20 }; /* more than a connection and its sockets hold unread */
    fixture fx;
    fixture_init(&fx);
    fx.store_options.commit_log_file_size = 64 << 20;
    fixture_open(&fx);
    put_pop_topics(&fx);
    client producer = client_open(&fx, RP_SERIALIZE_JSON), stuck = client_open(&fx, RP_SERIALIZE_JSON),
           c = client_open(&fx, RP_SERIALIZE_JSON);
    pop_request pop = pop_of(0);
    pop.poll_ms = 2 * WAIT_MS;
    pop.max_messages = 1;
    for (int i = 0; i < POPS; i++)
        client_send_pop(&stuck, RP_CODE_POP_MESSAGE, &pop);
    number_of_waiting all = {&fx, POPS};
    wait_until(as_many_wait, &all);
    client_send_pop(&c, RP_CODE_POP_MESSAGE, &pop);
    all.count++;
    wait_until(as_many_wait, &all);
    char *body = malloc(BODY + 1);
    CHECK(body != NULL);
    memset(body, 'x', BODY);
    body[BODY] = 0;
    for (int i = 0; i <= POPS; i++)
        send_message(&producer, "T", 0, NULL, body);
    free(body);
    rp_command response;
    CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == SUCCESS && messages_in(response.body) == 1);
    client_close(&producer);
    client_close(&stuck);
    close_pop(&fx, &c);
}

static void who_waits_is_woken_by_queues_that_were_made_meanwhile(void) {
    fixture fx;
    open_pop(&fx, 1);
    client producer = client_open(&fx, RP_SERIALIZE_JSON), c = client_open(&fx, RP_SERIALIZE_JSON);
    pop_request pop = pop_of(-1);
    pop.poll_ms = 2 * WAIT_MS;
    number_of_waiting one = {&fx, 1};
    client_send_pop(&c, RP_CODE_POP_MESSAGE, &pop);
    wait_until(as_many_wait, &one);
    CHECK(rp_broker_put_topic(fx.broker, text("T"), 8, 8, 6, 0, NATIVE) == RP_OK);
    send_message(&producer, "T", 6, NULL, "in a new queue");
    rp_command response;
    CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == SUCCESS);
    client_send_pop(&c, RP_CODE_POP_MESSAGE, &pop);
    wait_until(as_many_wait, &one);
    rp_error error;
    rp_broker_delete_topic(fx.broker, text(RETRY));
    must(rp_message_store_delete_topic(fx.store, text(RETRY), &error), &error, "delete topic");
    rp_broker_delete_offsets(fx.broker, text("G"), text(RETRY));
    CHECK(rp_broker_put_topic(fx.broker, text(RETRY), 1, 1, 6, 0, NATIVE) == RP_OK);
    send_message(&producer, RETRY, 0, NULL, "in a topic that was made again");
    CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == SUCCESS);
    client_close(&producer);
    close_pop(&fx, &c);
}

static void who_goes_takes_only_its_own_along(void) {
    enum { CLIENTS = 3, POPS = 20 };
    fixture fx;
    open_pop(&fx, 1);
    client clients[CLIENTS];
    pop_request pop = pop_of(-1);
    pop.poll_ms = 2 * WAIT_MS;
    pop.max_messages = 1;
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = client_open(&fx, RP_SERIALIZE_JSON);
    for (int i = 0; i < CLIENTS * POPS; i++)
        client_send_pop(&clients[i % CLIENTS], i % 4 < 3 ? RP_CODE_POP_MESSAGE : RP_CODE_NOTIFICATION, &pop);
    number_of_waiting left = {&fx, CLIENTS * POPS};
    wait_until(as_many_wait, &left);
    for (int i = 0; i + 1 < CLIENTS; i++) {
        client_close(&clients[(i + 1) % CLIENTS]);
        left.count -= POPS;
        wait_until(as_many_wait, &left);
    }
    rp_command response;
    client producer = client_open(&fx, RP_SERIALIZE_JSON);
    for (int answered = 0; answered < POPS; answered++) {
        send_message(&producer, "T", 0, NULL, "for one of those that are left");
        CHECK(client_receive(&clients[0], &response, WAIT_MS) == 1 && response.code == SUCCESS);
    }
    wait_until(as_many_wait, &(number_of_waiting){&fx, 0});
    client_close(&producer);
    close_pop(&fx, &clients[0]);
}

static uint32_t lists_of(const rp_broker *broker) {
    uint32_t lists = 0;
    for (uint32_t i = 0; i < atomic_load(&broker->lane_count); i++)
        lists += atomic_load(&broker->lanes[i]->pop_waits.list_count);
    return lists;
}

static int few_lists_are_left(void *context) { return lists_of(context) <= RP_POP_IDLE_LISTS_MAX; }

static void groups_that_waited_once_cost_later_arrivals_nothing(void) {
    fixture fx;
    open_pop(&fx, 1);
    client producer = client_open(&fx, RP_SERIALIZE_JSON), c = client_open(&fx, RP_SERIALIZE_JSON);
    pop_request pop = pop_of(-1);
    for (int i = 0; i < 40; i++) {
        char name[8];
        snprintf(name, sizeof name, "g%d", i);
        CHECK(rp_broker_put_group(fx.broker, text(name), 1, 1, 0, 1, 0) == RP_OK);
        pop.group = name;
        pop.order = i % 2;
        pop.poll_ms = 1;
        CHECK(client_ask(&c, RP_CODE_NOTIFICATION, &pop).code == SUCCESS && lists_of(fx.broker) == (uint32_t)i + 1);
    }
    send_message(&producer, "T", 0, NULL, "while nobody waits");
    wait_until(few_lists_are_left, fx.broker);
    pop = pop_of(0);
    CHECK(client_pop(&c, &pop).code == SUCCESS);
    pop.poll_ms = 2 * WAIT_MS;
    for (int i = 0; i < 3; i++) {
        client_send_pop(&c, RP_CODE_POP_MESSAGE, &pop);
        wait_until(as_many_wait, &(number_of_waiting){&fx, 1});
        CHECK(lists_of(fx.broker) == RP_POP_IDLE_LISTS_MAX + (i == 0)); /* it has the one that it had */
        send_message(&producer, "T", 0, NULL, "for who waits");
        rp_command response;
        CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == SUCCESS && messages_in(response.body) == 1);
        wait_until(few_lists_are_left, fx.broker);
    }
    client_close(&producer);
    close_pop(&fx, &c);
}

int main(void) {
    groups_that_waited_once_cost_later_arrivals_nothing();
    who_does_not_read_keeps_nothing_from_who_does();
    who_waits_is_woken_by_queues_that_were_made_meanwhile();
    who_goes_takes_only_its_own_along();
    return 0;
}
