/* broker_long_polling_test.c: waiting pulls: woken by an arrival, a deadline or a deleted topic; dropped with their connection. */
#include <stdatomic.h>

#include "broker_fixture.h"

enum { SUCCESS = 0, NOT_FOUND = 19, RETRY = 20, TOPIC_NOT_EXIST = 17 };

static pull_request waiting_pull(int32_t queue_id, int64_t offset, int64_t suspend_ms) {
    pull_request pull = pull_of(queue_id, offset);
    pull.sys_flag = RP_PULL_SUBSCRIPTION | RP_PULL_SUSPEND;
    pull.suspend_ms = suspend_ms;
    return pull;
}

typedef struct suspended_claim {
    const fixture *fx;
    uint64_t count;
} suspended_claim;

static int are_suspended(void *context) {
    const suspended_claim *claim = context;
    rp_broker_stats stats;
    rp_broker_read_stats(claim->fx->broker, &stats);
    return stats.pulls_suspended_now == claim->count;
}

static void wait_suspended(const fixture *fx, uint64_t count) { wait_until(are_suspended, &(suspended_claim){fx, count}); }

static void a_message_wakes_the_pulls_of_its_queue_at_once(void) {
    fixture fx;
    fixture_init(&fx);
    fx.server_options.reactors = 2;
    fixture_open(&fx);
    client producer = client_open(&fx, RP_SERIALIZE_ROCKETMQ), consumers[4];
    for (int i = 0; i < 4; i++)
        consumers[i] = client_open(&fx, i % 2 == 0 ? RP_SERIALIZE_JSON : RP_SERIALIZE_ROCKETMQ);
    rp_command response;
    int64_t quickest_ms = INT64_MAX;
    for (int64_t round = 0; round < 20; round++) {
        pull_request pull = waiting_pull(0, round, 2 * WAIT_MS), other = waiting_pull(1, 0, 2 * WAIT_MS);
        for (int i = 0; i < 4; i++)
            client_send_pull(&consumers[i], &pull);
        if (round == 0)
            client_send_pull(&consumers[0], &other);
        wait_suspended(&fx, 5);
        int64_t sent_ms = now_ms();
        send_message(&producer, "T", 0, "UNIQ_KEY\1K\2", "wake up");
        for (int i = 0; i < 4; i++) {
            CHECK(client_receive(&consumers[i], &response, WAIT_MS) == 1);
            CHECK(response.code == SUCCESS && field_number(&response, "nextBeginOffset") == round + 1);
        }
        int64_t took_ms = now_ms() - sent_ms;
        quickest_ms = took_ms < quickest_ms ? took_ms : quickest_ms;
    }
    CHECK(quickest_ms < 1000); /* milliseconds on a free machine; RocketMQ's hold service looks every 5,000 */
    wait_suspended(&fx, 1);
    for (int i = 0; i < 4; i++)
        client_close(&consumers[i]);
    client_close(&producer);
    drop_events(&fx);
    fixture_close(&fx);
}

static void a_pull_goes_on_waiting_until_its_tag_comes(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client producer = client_open(&fx, RP_SERIALIZE_ROCKETMQ), consumer = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    pull_request pull = waiting_pull(0, 0, 2 * WAIT_MS);
    pull.subscription = "B || C";
    client_send_pull(&consumer, &pull);
    wait_suspended(&fx, 1);
    for (int i = 0; i < 5; i++)
        send_message(&producer, "T", 0, "UNIQ_KEY\1K\2TAGS\1A\2", "not for you");
    rp_command response;
    CHECK(client_receive(&consumer, &response, 20) == 0);
    wait_suspended(&fx, 1);
    send_message(&producer, "T", 0, "UNIQ_KEY\1K\2TAGS\1C\2", "for you");
    CHECK(client_receive(&consumer, &response, WAIT_MS) == 1 && response.code == SUCCESS);
    CHECK(field_number(&response, "nextBeginOffset") == 6);
    rp_message message;
    rp_error error;
    must(rp_message_decode(response.body.data, response.body.size, 1, &message, &error), &error, "record");
    CHECK(message.size == response.body.size && slice_is(message.body, "for you") && message.queue_offset == 5);
    client_close(&consumer);
    client_close(&producer);
    fixture_close(&fx);
}

static void a_pull_is_answered_when_its_time_is_up(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    rp_command response;
    static const int64_t waits[] = {0, 1, 60, 30};
    for (size_t i = 0; i < 4; i++) {
        int64_t began_ms = now_ms();
        pull_request pull = waiting_pull(0, 0, waits[i]);
        client_send_pull(&c, &pull);
        CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == NOT_FOUND);
        CHECK(now_ms() - began_ms >= waits[i]);
    }
    client_close(&c);
    fixture_close(&fx);
}

static int64_t hand_time(void *context) { return atomic_load((_Atomic int64_t *)context); }

static void when_no_message_matched_the_consumer_learns_how_far_it_got(void) {
    _Atomic int64_t hand_ns = 1000000000;
    rp_clock clock = {hand_time, hand_time, &hand_ns};
    fixture fx;
    fixture_init(&fx);
    fx.server_options.clock = &clock;
    fx.server_options.spin_us = 0;
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON), producer = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    pull_request pull = waiting_pull(0, 0, 200);
    pull.subscription = "B";
    client_send_pull(&c, &pull);
    wait_suspended(&fx, 1);
    send_message(&producer, "T", 0, "UNIQ_KEY\1K\2TAGS\1A\2", "x");
    atomic_fetch_add(&hand_ns, 200 * 1000000);
    rp_reactor_wake(rp_server_reactor(fx.server, 0));
    rp_command response;
    CHECK(client_receive(&c, &response, WAIT_MS) == 1);
    CHECK(response.code == NOT_FOUND || response.code == RETRY);
    CHECK(field_number(&response, "nextBeginOffset") == 1);
    client_close(&c);
    client_close(&producer);
    fixture_close(&fx);
}

static void a_closed_connection_takes_its_pulls_along(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client staying = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    for (int round = 0; round < 10; round++) {
        client leaving = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
        for (int i = 0; i < 20; i++) {
            pull_request pull = waiting_pull(i % 4, 0, 2 * WAIT_MS);
            pull.subscription = i % 2 == 0 ? "A || B" : "*";
            client_send_pull(&leaving, &pull);
        }
        wait_suspended(&fx, 20);
        client_close(&leaving);
        wait_suspended(&fx, 0);
    }
    send_message(&staying, "T", 0, "UNIQ_KEY\1K\2", "nobody waits");
    client_close(&staying);
    drop_events(&fx);
    fixture_close(&fx);
}

static void the_bound_of_suspended_pulls_holds(void) {
    fixture fx;
    fixture_init(&fx);
    fx.broker_options.suspended_pulls_max = 3;
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    pull_request pull = waiting_pull(0, 0, 2 * WAIT_MS);
    for (int i = 0; i < 3; i++)
        client_send_pull(&c, &pull);
    wait_suspended(&fx, 3);
    rp_command response;
    int32_t opaque = client_send_pull(&c, &pull);
    CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == NOT_FOUND && response.opaque == opaque);
    client_close(&c);
    fixture_close(&fx);
}

static void a_deleted_topic_answers_its_waiting_pulls_and_may_come_back(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON), producer = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    rp_command response;
    rp_error error = {0};
    for (int round = 0; round < 3; round++) {
        pull_request pull = waiting_pull(0, 0, 2 * WAIT_MS);
        client_send_pull(&c, &pull);
        wait_suspended(&fx, 1);
        send_message(&producer, "T", 0, "UNIQ_KEY\1K\2", "here");
        CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == SUCCESS);
        pull.offset = 1;
        client_send_pull(&c, &pull);
        wait_suspended(&fx, 1);
        rp_broker_delete_topic(fx.broker, text("T"));
        must(rp_message_store_delete_topic(fx.store, text("T"), &error), &error, "delete topic");
        CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == TOPIC_NOT_EXIST);
        CHECK(slice_starts(response.remark, "topic[T] not exist, apply first please! "));
        CHECK(rp_broker_put_topic(fx.broker, text("T"), 4, 4, 6, 0, RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL) == RP_OK);
    }
    client_close(&c);
    client_close(&producer);
    fixture_close(&fx);
}

static void what_no_client_sent_wakes_pulls_too(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    pull_request pull = waiting_pull(2, 0, 2 * WAIT_MS);
    client_send_pull(&c, &pull);
    wait_suspended(&fx, 1);
    rp_append_item item = {.queue = rp_message_store_queue(fx.store, text("T"), 2, 1, NULL), .body = text("from elsewhere")};
    CHECK(rp_commit_log_append(rp_message_store_commit_log(fx.store), &item, 1) == 1 && item.queue_offset == 0);
    rp_command response;
    CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == SUCCESS);
    client_close(&c);
    fixture_close(&fx);
}

static void a_pull_that_python_must_answer_comes_back_with_its_next_offset(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ), producer = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    CHECK(rp_broker_put_subscription(fx.broker, text("G"), text("T"), NULL, 0, 1, 0, 1) == RP_OK);
    pull_request pull = waiting_pull(0, 0, 2 * WAIT_MS);
    pull.subscription = NULL;
    pull.sys_flag = RP_PULL_SUSPEND;
    client_send_pull(&c, &pull);
    wait_suspended(&fx, 1);
    CHECK(rp_broker_put_subscription(fx.broker, text("G"), text("T"), NULL, 0, 2, 0, 0) == RP_OK); /* SQL92 from now on */
    send_message(&producer, "T", 0, "UNIQ_KEY\1K\2", "wake up");
    rp_command response;
    CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == RETRY && field_number(&response, "nextBeginOffset") == 0);
    client_send_pull(&c, &pull);
    rp_request_free(take_punted(&fx));
    client_close(&c);
    client_close(&producer);
    drop_events(&fx);
    fixture_close(&fx);
}

/* 1,000 waiting pulls of a consumer that does not read, each of which would get 200 KB. */
static void a_consumer_that_does_not_read_is_not_fed_until_it_does(void) {
    fixture fx;
    fixture_init(&fx);
    fx.store_options.commit_log_file_size = 8 << 20;
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ), producer = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    enum { PULLS = 1000, BYTES = 200000 };
    char *body = malloc(BYTES + 1);
    memset(body, 'x', BYTES);
    body[BYTES] = 0;
    pull_request pull = waiting_pull(0, 0, 2 * WAIT_MS);
    for (int i = 0; i < PULLS; i++)
        client_send_pull(&c, &pull);
    wait_suspended(&fx, PULLS);
    send_message(&producer, "T", 0, "UNIQ_KEY\1K\2", body);
    rp_broker_stats stats;
    rp_broker_read_stats(fx.broker, &stats);
    CHECK(stats.bytes_out < 24u << 20 && stats.pulls_suspended_now > PULLS - 200);
    send_message(&producer, "T", 1, "UNIQ_KEY\1K\2", "others are served");
    rp_command response; /* and when it reads after all, it gets everything, without another message */
    for (int i = 0; i < PULLS; i++)
        CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == SUCCESS && response.body.size > BYTES);
    free(body);
    client_close(&c);
    client_close(&producer);
    drop_events(&fx);
    fixture_close(&fx);
}

int main(void) {
    RUN(a_message_wakes_the_pulls_of_its_queue_at_once);
    RUN(a_pull_goes_on_waiting_until_its_tag_comes);
    RUN(a_pull_is_answered_when_its_time_is_up);
    RUN(when_no_message_matched_the_consumer_learns_how_far_it_got);
    RUN(a_closed_connection_takes_its_pulls_along);
    RUN(the_bound_of_suspended_pulls_holds);
    RUN(a_deleted_topic_answers_its_waiting_pulls_and_may_come_back);
    RUN(what_no_client_sent_wakes_pulls_too);
    RUN(a_pull_that_python_must_answer_comes_back_with_its_next_offset);
    RUN(a_consumer_that_does_not_read_is_not_fed_until_it_does);
    return 0;
}
