/* broker_lite_test.c: lite topics over the wire: senders, pops that wait on two reactors, acks and missing acks, all at once: no message is
 * lost, and each lite topic is delivered in order. For TSan. Also sends that name a lite topic. */
#include <pthread.h>
#include <stdatomic.h>

#include "broker/lane.h"
#include "broker/lite_readers_inl.h"
#include "lite_client.h"

enum { PRODUCERS = 2, CONSUMERS = 4, MESSAGES = 400, LITES = 16 };

static void read_lite(const fixture *fx, const char *client_id, int lite) {
    char name[32];
    snprintf(name, sizeof name, "%%LMQ%%$T$%d", lite);
    CHECK(rp_broker_put_lite_reader(fx->broker, text("G"), text(client_id), text(name)) == RP_OK);
}

typedef struct party {
    fixture *fx;
    int index;
    _Atomic int *acked; /* of all messages */
    _Atomic int64_t *next; /* by lite topic: the offset that comes */
} party;

static void *produce(void *context) {
    const party *p = context;
    client c = client_open(p->fx, RP_SERIALIZE_JSON);
    char properties[64];
    for (int i = 0; i < MESSAGES; i++) {
        snprintf(properties, sizeof properties, LITE("%d") "TAGS\1A\2", i % LITES);
        CHECK(send_message(&c, "T", i % 4, properties, "x") >= 0);
    }
    client_close(&c);
    return NULL;
}

/* Reads a record's lite topic, and its offset there. */
static int lite_of(const rp_message *message, int64_t *offset) {
    rp_slice names = rp_message_property(message->properties, "INNER_MULTI_DISPATCH");
    rp_slice offsets = rp_message_property(message->properties, "INNER_MULTI_QUEUE_OFFSET");
    CHECK(rp_slice_to_i64(offsets, offset) == RP_OK);
    return atoi((const char *)names.data + strlen("%LMQ%$T$"));
}

static void consume_all(party *p, client *c, const rp_command *popped, rp_slice body) {
    int64_t pop_ms = field_number(popped, "popTime");
    for (uint32_t at = 0; at < body.size;) {
        rp_message message;
        CHECK(rp_message_decode(body.data + at, body.size - at, 1, &message, NULL) == RP_RECORD_MESSAGE);
        int64_t offset;
        number_text name;
        int lite = lite_of(&message, &offset);
        int64_t expected = atomic_load(&p->next[lite]);
        CHECK(offset == expected);
        atomic_store(&p->next[lite], expected + 1);
        at += message.size;
        CHECK(ack_lite(c, pop_ms, number_of(&name, lite), offset) == SUCCESS);
        atomic_fetch_add(p->acked, 1);
    }
}

static void *consume(void *context) {
    party *p = context;
    client c = client_open(p->fx, RP_SERIALIZE_JSON);
    char client_id[16];
    snprintf(client_id, sizeof client_id, "c%d", p->index / 2); /* two connections a client */
    uint8_t *copy = malloc(1 << 20);
    CHECK(copy != NULL);
    while (atomic_load(p->acked) < PRODUCERS * MESSAGES) {
        rp_command popped = pop_lite(&c, client_id, 500, 60000);
        CHECK(popped.code == SUCCESS || popped.code == TIMEOUT);
        if (popped.code != SUCCESS)
            continue;
        CHECK(popped.body.size <= 1 << 20);
        memcpy(copy, popped.body.data, popped.body.size); /* acks are answered into the same buffer */
        rp_command kept = popped;
        int64_t pop_ms = field_number(&popped, "popTime");
        number_text text_of_ms;
        rp_field field = {{(const uint8_t *)"popTime", 7}, text(number_of(&text_of_ms, pop_ms))};
        kept.fields[0] = field;
        kept.field_count = 1;
        consume_all(p, &c, &kept, (rp_slice){copy, popped.body.size});
    }
    free(copy);
    client_close(&c);
    return NULL;
}

static void nothing_is_lost_and_each_comes_in_order(void) {
    fixture fx;
    open_lite(&fx, 2);
    _Atomic int acked = 0;
    static _Atomic int64_t next[LITES];
    for (int client_number = 0; client_number < CONSUMERS / 2; client_number++) {
        char client_id[16];
        snprintf(client_id, sizeof client_id, "c%d", client_number);
        for (int lite = 0; lite < LITES; lite++)
            read_lite(&fx, client_id, lite);
    }
    pthread_t threads[PRODUCERS + CONSUMERS];
    party parties[PRODUCERS + CONSUMERS];
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++) {
        parties[i] = (party){&fx, i < PRODUCERS ? i : i - PRODUCERS, &acked, next};
        CHECK(pthread_create(&threads[i], NULL, i < PRODUCERS ? produce : consume, &parties[i]) == 0);
    }
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (int lite = 0; lite < LITES; lite++)
        CHECK(atomic_load(&next[lite]) == PRODUCERS * MESSAGES / LITES);
    rp_lite_stats stats;
    rp_broker_read_lite_stats(fx.broker, &stats);
    CHECK(stats.held == 0);
    drop_events(&fx);
    fixture_close(&fx);
}

static void a_client_that_leaves_with_messages_leaves_them_to_others(void) {
    fixture fx;
    open_lite(&fx, 2);
    read_lite(&fx, "c", 1);
    client gone = client_open(&fx, RP_SERIALIZE_JSON), c = client_open(&fx, RP_SERIALIZE_JSON);
    CHECK(send_message(&c, "T", 0, LITE("1"), "x") == 0);
    CHECK(pop_lite(&gone, "c", 0, 300).code == SUCCESS);
    client_close(&gone);
    rp_command again = pop_lite(&c, "c", WAIT_MS, 60000); /* the message comes again when its invisible time is over */
    CHECK(again.code == SUCCESS && messages_in(again.body) == 1);
    close_pop(&fx, &c);
}

static int nothing_is_held(void *context) {
    const fixture *fx = context;
    rp_lite_stats stats;
    rp_broker_read_lite_stats(fx->broker, &stats);
    return stats.held == 0;
}

/* One reactor times all messages that are out, also those popped through another one, and also if nobody waited the last time. */
static void what_is_not_acked_comes_again_each_time(void) {
    fixture fx;
    open_lite(&fx, 2);
    read_lite(&fx, "c", 1);
    client clients[2] = {client_open(&fx, RP_SERIALIZE_JSON), client_open(&fx, RP_SERIALIZE_JSON)};
    CHECK(send_message(&clients[0], "T", 0, LITE("1"), "x") == 0);
    for (int i = 0; i < 2; i++) {
        for (int times = 0; times < 3; times++) {
            CHECK(pop_lite(&clients[i], "c", WAIT_MS, 100).code == SUCCESS);
            wait_until(nothing_is_held, &fx);
        }
    }
    client_close(&clients[0]);
    close_pop(&fx, &clients[1]);
}

/* Only from now on can it be woken; pops_waiting counts it a little earlier. */
static int one_waits(void *context) {
    const fixture *fx = context;
    rp_lite_readers *readers = fx->broker->lite;
    pthread_mutex_lock(&readers->lock);
    const rp_lite_reader *reader = rp_lite_find_reader(readers, rp_group_table_find(fx->broker->groups, text("G")), text("c"));
    int waits = reader != NULL && reader->waits != NULL;
    pthread_mutex_unlock(&readers->lock);
    return waits;
}

/* There are more lite topics than one turn looks at, and only the last one has a message. */
static void a_pop_that_is_woken_goes_on_with_the_next_turn(void) {
    enum { MANY = 300 };
    fixture fx;
    open_lite(&fx, 1);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    char name[64];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, LITE("%d"), i);
        CHECK(send_message(&c, "T", 0, name, "x") == i);
        snprintf(name, sizeof name, "%%LMQ%%$T$%d", i);
        CHECK(rp_broker_put_offset(fx.broker, text("G"), text(name), 0, 1) == RP_OK); /* the group has consumed it */
        read_lite(&fx, "c", i);
    }
    for (int i = 0; i < 2; i++)
        CHECK(pop_lite(&c, "c", 0, 60000).code == TIMEOUT);
    int32_t opaque = send_pop_lite(&c, "c", 4 * WAIT_MS, 60000); /* so long that the pop's own end cannot be what finds it */
    wait_until(one_waits, &fx);
    rp_broker_delete_offsets(fx.broker, text("G"), text("%LMQ%$T$0"));
    rp_broker_look_at_lite_queues(fx.broker, text("G"), text("c"));
    rp_command popped;
    CHECK(client_receive(&c, &popped, WAIT_MS) == 1 && popped.opaque == opaque);
    CHECK(popped.code == SUCCESS && messages_in(popped.body) == 1);
    close_pop(&fx, &c);
}

static void a_deleted_lite_topic_begins_anew(void) {
    fixture fx;
    open_lite(&fx, 1);
    read_lite(&fx, "c", 1);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    for (int round = 0; round < 3; round++) {
        CHECK(send_message(&c, "T", 0, LITE("1"), "x") == round);
        rp_command popped = pop_lite(&c, "c", WAIT_MS, 60000);
        CHECK(popped.code == SUCCESS && messages_in(popped.body) == 1);
        CHECK(round == 1 || ack_lite(&c, field_number(&popped, "popTime"), "1", 0) == SUCCESS);
        rp_error error = {0};
        must(rp_message_store_delete_topic(fx.store, text("%LMQ%$T$1"), &error), &error, "delete");
        rp_broker_delete_offsets(fx.broker, text("G"), text("%LMQ%$T$1"));
        rp_broker_forget_lite_queue(fx.broker, text("%LMQ%$T$1"));
        CHECK(rp_broker_read_offset(fx.broker, text("G"), text("%LMQ%$T$1"), 0) == -1);
        read_lite(&fx, "c", 1);
    }
    close_pop(&fx, &c);
}

static void an_ack_of_what_is_not_known_to_be_out_passes_nothing_over(void) {
    fixture fx;
    open_lite(&fx, 1);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    for (int i = 0; i < 3; i++)
        CHECK(send_message(&c, "T", 0, LITE("1"), "x") == i);
    CHECK(rp_broker_put_offset(fx.broker, text("G"), text("%LMQ%$T$1"), 0, 0) == RP_OK); /* as after a start of the broker */
    CHECK(ack_lite(&c, 1, "1", 2) == SUCCESS && rp_broker_read_offset(fx.broker, text("G"), text("%LMQ%$T$1"), 0) == 0);
    CHECK(ack_lite(&c, 1, "1", 0) == SUCCESS && rp_broker_read_offset(fx.broker, text("G"), text("%LMQ%$T$1"), 0) == 1);
    CHECK(ack_lite(&c, 1, "1", 4) == NO_MESSAGE && ack_lite(&c, 1, "1", -5) == SUCCESS && ack_lite(&c, 1, "nowhere", 0) == SUCCESS);
    close_pop(&fx, &c);
}

int main(void) {
    RUN(nothing_is_lost_and_each_comes_in_order);
    RUN(a_client_that_leaves_with_messages_leaves_them_to_others);
    RUN(what_is_not_acked_comes_again_each_time);
    RUN(a_pop_that_is_woken_goes_on_with_the_next_turn);
    RUN(a_deleted_lite_topic_begins_anew);
    RUN(an_ack_of_what_is_not_known_to_be_out_passes_nothing_over);
    return 0;
}
