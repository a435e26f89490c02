/* broker_priority_test.c: messages with a priority: the queue of each, and the order in which pops read the queues. */
#include "pop_fixture.h"
#include "stored_messages.h"

#define RANKED(priority) "UNIQ_KEY\1A\2_SYS_MSG_PRIORITY_\1" priority "\2"

static void open_ranked(fixture *fx) {
    open_pop(fx, 1);
    CHECK(rp_broker_put_topic(fx->broker, text("T"), 4, 4, 6, 0, NATIVE | RP_TOPIC_PRIORITY) == RP_OK);
}

static int32_t queue_sent_to(client *c, const char *topic, int32_t queue_id, const char *properties) {
    number_text queue;
    rp_command request = send_request_v2(c, RP_CODE_SEND_MESSAGE_V2, topic, queue_id, properties, text("body"), &queue);
    rp_command response = client_call(c, &request);
    CHECK(response.code == SUCCESS);
    return (int32_t)field_number(&response, "queueId");
}

static rp_slice stored_priority(const fixture *fx, int32_t queue_id, int64_t offset, char room[32]) {
    rp_message message;
    rp_queue_entry entry;
    void *pin = read_message(fx, "T", queue_id, offset, &message, &entry);
    rp_slice value = rp_message_property(message.properties, "_SYS_MSG_PRIORITY_");
    CHECK(value.size < 32 && slice_is(rp_message_property(message.properties, "UNIQ_KEY"), "A"));
    if (value.size > 0)
        memcpy(room, value.data, value.size);
    rp_log_range_release(pin);
    return (rp_slice){value.size > 0 ? (const uint8_t *)room : NULL, value.size};
}

static void a_priority_is_the_queue_the_last_one_for_those_above_it(void) {
    fixture fx;
    open_pop(&fx, 1); /* a topic of any type, as in RocketMQ */
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    static const struct {
        const char *properties;
        int32_t queue;
    } cases[] = {{RANKED("0"), 0},
                 {RANKED("3"), 3},
                 {RANKED("+2"), 2},
                 {RANKED("4"), 3},
                 {RANKED("2147483647"), 3},
                 {RANKED("2147483648"), 1}, /* too large for Java's int: counts as no priority */
                 {RANKED("-1"), 1},
                 {RANKED("1x"), 1},
                 {RANKED(""), 1},
                 {"_SYS_MSG_PRIORITY_\0013\2" RANKED("0"), 0}, /* of two priorities the later one counts */
                 {"_SYS_MSG_PRIORITY_\0013\2" RANKED("x"), 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(queue_sent_to(&c, "T", 1, cases[i].properties) == cases[i].queue);
    char room[32];
    CHECK(slice_is(stored_priority(&fx, 0, 0, room), "0") && slice_is(stored_priority(&fx, 1, 1, room), "-1"));
    CHECK(rp_broker_put_topic(fx.broker, text("T"), 4, 0, 6, 0, NATIVE) == RP_OK); /* no write queues, but a send may name a queue */
    CHECK(queue_sent_to(&c, "T", 1, RANKED("0")) == 1);
    close_pop(&fx, &c);
}

static void a_message_of_another_kind_has_none_and_loses_what_it_says(void) {
    fixture fx;
    open_pop(&fx, 1);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    static const char *const others[] = {RANKED("3") "__SHARDINGKEY\1k\2", RANKED("3") "DELAY\0010\2",
                                         RANKED("3") "TIMER_DELAY_SEC\0010\2"
                                                     "TIMER_OUT_MS\0011\2"};
    char room[32];
    for (int i = 0; i < 3; i++) {
        CHECK(queue_sent_to(&c, "T", 1, others[i]) == 1);
        CHECK(stored_priority(&fx, 1, i, room).size == 0);
    }
    CHECK(queue_sent_to(&c, "T", 1, RANKED("3") "TRAN_MSG\1false\2") == 3);
    close_pop(&fx, &c);
}

/* The queues of the messages that pops of one message each get. */
static void pops_are_of(client *c, const pop_request *pop, const char *queues) {
    for (; *queues != '\0'; queues++) {
        char expected[16];
        snprintf(expected, sizeof expected, "%c %c ", *queues == 'r' ? '1' : '0', *queues == 'r' ? '0' : *queues);
        rp_command response = client_pop(c, pop);
        CHECK(response.code == SUCCESS && slice_contains(rp_command_field(&response, "startOffsetInfo"), expected));
    }
}

static void a_pop_takes_the_highest_priority_first_and_what_comes_again_last(void) {
    fixture fx;
    open_ranked(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    pop_request pop = pop_of(-1);
    pop.max_messages = 1;
    for (int round = 0; round < 8; round++) { /* eight times, so that chance cannot give this order each time */
        for (int32_t queue = 0; queue < 4; queue++)
            send_message(&c, "T", queue, NULL, "of a priority");
        send_message(&c, RETRY, 0, NULL, "once more");
        pops_are_of(&c, &pop, "3");
        send_message(&c, "T", 3, NULL, "urgent");
        pops_are_of(&c, &pop, "3210r");
    }
    fx.settings.priority_ascends = 0;
    fx.settings.pop_from_retry_percent_by_priority = 100;
    rp_broker_set_settings(fx.broker, &fx.settings);
    for (int32_t queue = 0; queue < 4; queue++)
        send_message(&c, "T", queue, NULL, "of a priority");
    send_message(&c, RETRY, 0, NULL, "once more");
    pops_are_of(&c, &pop, "r0123");
    close_pop(&fx, &c);
}

/* Whether, of many tries, the first message came from another queue than the last one. */
static int is_left_to_chance(client *c, const pop_request *pop) {
    int others = 0;
    for (int i = 0; i < 64; i++) {
        for (int32_t queue = 0; queue < 4; queue++)
            send_message(c, "T", queue, NULL, "one of a queue");
        for (int at = 0; at < 4; at++) {
            rp_command response = client_pop(c, pop);
            CHECK(response.code == SUCCESS);
            others += at == 0 && !slice_contains(rp_command_field(&response, "startOffsetInfo"), "0 3 ");
        }
    }
    return others > 0;
}

static void a_group_may_do_without_and_so_does_any_other_topic(void) {
    fixture fx;
    open_ranked(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    pop_request pop = pop_of(-1);
    pop.max_messages = 1;
    CHECK(!is_left_to_chance(&c, &pop));
    CHECK(rp_broker_set_priority_percent(fx.broker, text("G"), 0) == RP_OK);
    CHECK(is_left_to_chance(&c, &pop));
    CHECK(rp_broker_set_priority_percent(fx.broker, text("G"), 101) == RP_OK);
    CHECK(!is_left_to_chance(&c, &pop));
    CHECK(rp_broker_set_priority_percent(fx.broker, text(""), 1) == RP_E_INVALID);
    CHECK(rp_broker_put_topic(fx.broker, text("T"), 4, 4, 6, 0, NATIVE) == RP_OK);
    CHECK(is_left_to_chance(&c, &pop));
    CHECK(rp_broker_put_topic(fx.broker, text("T"), 5000, 5000, 6, 0, NATIVE | RP_TOPIC_PRIORITY) == RP_OK);
    send_message(&c, "T", 0, NULL, "the lowest of more than a pop looks at");
    rp_command response = client_pop(&c, &pop);
    for (int i = 0; i < 100 && response.code == TIMEOUT; i++)
        response = client_pop(&c, &pop);
    CHECK(response.code == SUCCESS);
    close_pop(&fx, &c);
}

int main(void) {
    a_priority_is_the_queue_the_last_one_for_those_above_it();
    a_message_of_another_kind_has_none_and_loses_what_it_says();
    a_pop_takes_the_highest_priority_first_and_what_comes_again_last();
    a_group_may_do_without_and_so_does_any_other_topic();
    return 0;
}
