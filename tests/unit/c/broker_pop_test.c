/* broker_pop_test.c: pops of messages of any queue, what blocks and wakes them; acks, invisible times, peeks; malformed requests. */
#include <pthread.h>
#include <stdatomic.h>

#include "../../../csrc/broker/lane.h"
#include "../../../csrc/broker/pop_log.h"
#include "pop_fixture.h"

static int are_waiting(void *context) {
    const fixture *fx = context;
    rp_pop_stats stats;
    rp_broker_read_pop_stats(fx->broker, &stats);
    return stats.waiting_now == 1;
}
static int two_wait(void *context) {
    const fixture *fx = context;
    rp_pop_stats stats;
    rp_broker_read_pop_stats(fx->broker, &stats);
    return stats.waiting_now == 2;
}
static int none_waits(void *context) {
    const fixture *fx = context;
    rp_pop_stats stats;
    rp_broker_read_pop_stats(fx->broker, &stats);
    return stats.waiting_now == 0;
}

static void what_is_popped_is_popped_once_and_written_down(void) {
    fixture fx;
    open_pop(&fx, 1);
    client c = client_open(&fx, RP_SERIALIZE_JSON); /* the binary encoding has no room for codes past 65,535 */
    for (int i = 0; i < 3; i++)
        send_message(&c, "T", 2, NULL, "one of three");
    pop_request pop = pop_of(2);
    rp_command response = client_pop(&c, &pop);
    CHECK(response.code == SUCCESS && slice_is(response.remark, "FOUND"));
    CHECK(messages_in(response.body) == 3);
    CHECK(slice_is(rp_command_field(&response, "startOffsetInfo"), "0 2 0"));
    CHECK(slice_is(rp_command_field(&response, "msgOffsetInfo"), "0 2 0,1,2"));
    CHECK(field_number(&response, "invisibleTime") == 60000 && field_number(&response, "restNum") == 0);
    CHECK(field_number(&response, "reviveQid") >= 0 && field_number(&response, "reviveQid") < 8);
    CHECK(records(&fx) == 1 && offset_of(&fx, 2) == 3);
    response = client_pop(&c, &pop);
    CHECK(response.code == TIMEOUT && response.body.size == 0 && records(&fx) == 1);
    close_pop(&fx, &c);
}

static void one_pop_gets_messages_of_every_queue_and_those_that_come_again(void) {
    fixture fx;
    open_pop(&fx, 1);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    for (int32_t queue = 0; queue < 4; queue++)
        send_message(&c, "T", queue, NULL, "one of a queue");
    send_message(&c, RETRY, 0, NULL, "once more");
    pop_request pop = pop_of(-1);
    rp_command response = client_pop(&c, &pop);
    CHECK(response.code == SUCCESS && messages_in(response.body) == 5 && records(&fx) == 5);
    CHECK(slice_contains(rp_command_field(&response, "msgOffsetInfo"), "1 0 0"));
    CHECK(slice_contains(rp_command_field(&response, "startOffsetInfo"), "0 3 0"));
    for (int i = 0; i < 40; i++)
        send_message(&c, "T", i % 4, NULL, "more than a pop takes");
    response = client_pop(&c, &pop);
    CHECK(response.code == SUCCESS && messages_in(response.body) == 32 && field_number(&response, "restNum") == 8);
    response = client_pop(&c, &pop);
    CHECK(response.code == SUCCESS && messages_in(response.body) == 8);
    close_pop(&fx, &c);
}

/* Of the two kinds of retry topics one may never have been made. */
static void what_comes_again_is_found_whichever_retry_topic_there_is(void) {
    fixture fx;
    open_pop(&fx, 1);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    fx.settings.retry_topic_version = 2;
    rp_broker_set_settings(fx.broker, &fx.settings);
    rp_broker_delete_topic(fx.broker, text(RETRY));
    CHECK(rp_broker_put_topic(fx.broker, text("%RETRY%G+T"), 1, 1, 6, 0, NATIVE) == RP_OK);
    pop_request pop = pop_of(-1);
    for (int i = 0; i < 64; i++) {
        send_message(&c, "%RETRY%G+T", 0, NULL, "once more");
        rp_command response = client_ask(&c, RP_CODE_NOTIFICATION, &pop);
        CHECK(slice_is(rp_command_field(&response, "hasMsg"), "true"));
        response = client_pop(&c, &pop);
        CHECK(response.code == SUCCESS && messages_in(response.body) == 1);
    }
    close_pop(&fx, &c);
}

static void only_the_tags_asked_for_and_the_offset_goes_on(void) {
    fixture fx;
    open_pop(&fx, 1);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    for (int i = 0; i < 5; i++)
        send_message(&c, "T", 0, i == 1 || i == 3 ? "TAGS\1A\2" : "TAGS\1B\2", "by tag");
    pop_request pop = pop_of(0);
    pop.expression = "A";
    rp_command response = client_pop(&c, &pop);
    CHECK(response.code == SUCCESS && messages_in(response.body) == 2);
    CHECK(slice_is(rp_command_field(&response, "msgOffsetInfo"), "0 0 1,3") &&
          slice_is(rp_command_field(&response, "startOffsetInfo"), "0 0 0"));
    for (int i = 0; i < 3; i++)
        send_message(&c, "T", 0, "TAGS\1B\2", "nobody's");
    CHECK(client_pop(&c, &pop).code == TIMEOUT && offset_of(&fx, 0) == 8 && records(&fx) == 1);
    pop.expression = "||";
    CHECK(client_pop(&c, &pop).code == 23);
    close_pop(&fx, &c);
}

static void a_waiting_pop_is_woken_by_its_topic_and_by_its_retry_topic(void) {
    fixture fx;
    open_pop(&fx, 2);
    client producer = client_open(&fx, RP_SERIALIZE_JSON), c = client_open(&fx, RP_SERIALIZE_JSON);
    pop_request pop = pop_of(-1);
    pop.poll_ms = 2 * WAIT_MS;
    static const char *const topics[] = {"T", RETRY};
    rp_command response;
    for (int round = 0; round < 6; round++) {
        client_send_pop(&c, RP_CODE_POP_MESSAGE, &pop);
        wait_until(are_waiting, &fx);
        send_message(&producer, topics[round % 2], 0, NULL, "wake up");
        CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == SUCCESS && messages_in(response.body) == 1);
        client_send_pop(&c, RP_CODE_NOTIFICATION, &pop);
        wait_until(are_waiting, &fx);
        send_message(&producer, topics[round % 2], 0, NULL, "something is there");
        CHECK(client_receive(&c, &response, WAIT_MS) == 1 && slice_is(rp_command_field(&response, "hasMsg"), "true"));
        CHECK(client_pop(&c, &pop).code == SUCCESS);
    }
    pop.poll_ms = 20;
    response = client_pop(&c, &pop);
    CHECK(response.code == TIMEOUT && slice_is(response.remark, "NO_MESSAGE_IN_QUEUE"));
    response = client_ask(&c, RP_CODE_NOTIFICATION, &pop);
    CHECK(response.code == SUCCESS && slice_is(rp_command_field(&response, "hasMsg"), "false"));
    pop.poll_ms = 2 * WAIT_MS;
    client_send_pop(&c, RP_CODE_POP_MESSAGE, &pop);
    wait_until(are_waiting, &fx);
    client_close(&c); /* its waiting pop ends with the connection */
    wait_until(none_waits, &fx);
    c = client_open(&fx, RP_SERIALIZE_JSON);
    client_send_pop(&c, RP_CODE_POP_MESSAGE, &pop);
    wait_until(are_waiting, &fx);
    rp_broker_dismiss_pulls(fx.broker);
    CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == 2);
    client_close(&producer);
    close_pop(&fx, &c);
}

static void a_message_is_told_to_the_last_who_asked(void) {
    fixture fx;
    open_pop(&fx, 1);
    client producer = client_open(&fx, RP_SERIALIZE_JSON), c = client_open(&fx, RP_SERIALIZE_JSON);
    pop_request pop = pop_of(-1);
    pop.poll_ms = 2 * WAIT_MS;
    int32_t first = client_send_pop(&c, RP_CODE_NOTIFICATION, &pop), second = client_send_pop(&c, RP_CODE_NOTIFICATION, &pop);
    wait_until(two_wait, &fx);
    send_message(&producer, "T", 0, NULL, "for one of them");
    rp_command response;
    CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.opaque == second);
    CHECK(slice_is(rp_command_field(&response, "hasMsg"), "true"));
    CHECK(client_pop(&c, &pop).code == SUCCESS && are_waiting(&fx));
    second = client_send_pop(&c, RP_CODE_NOTIFICATION, &pop);
    wait_until(two_wait, &fx);
    for (int32_t told = 0; told < 2; told++) {
        send_message(&producer, "T", 0, NULL, "one for each");
        CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.opaque == (told == 0 ? second : first));
        CHECK(slice_is(rp_command_field(&response, "hasMsg"), "true"));
    }
    client_close(&producer);
    close_pop(&fx, &c);
}

static void an_order_consumer_blocks_its_queue_until_it_acks(void) {
    fixture fx;
    open_pop(&fx, 1);
    client c = client_open(&fx, RP_SERIALIZE_JSON), waiter = client_open(&fx, RP_SERIALIZE_JSON);
    for (int i = 0; i < 2; i++)
        send_message(&c, "T", 1, NULL, "in order");
    pop_request pop = pop_of(1);
    pop.order = 1;
    pop.max_messages = 1;
    pop.attempt_id = "first";
    rp_command response = client_pop(&c, &pop);
    CHECK(response.code == SUCCESS && field_number(&response, "reviveQid") == 999 && offset_of(&fx, 1) == 0 && records(&fx) == 0);
    CHECK(slice_is(rp_command_field(&response, "orderCountInfo"), "0 1 0"));
    char handle[128];
    response = client_pop(&c, &pop); /* as if the answer was lost: the same attempt gets the same messages again */
    CHECK(response.code == SUCCESS && slice_is(rp_command_field(&response, "msgOffsetInfo"), "0 1 0"));
    handle_of(&response, 1, 0, handle);
    pop.attempt_id = "second";
    CHECK(client_pop(&c, &pop).code == TIMEOUT);
    CHECK(client_ack(&c, RP_CODE_ACK_MESSAGE, 1, 1, handle, 0).code == ILLEGAL); /* the handle is not of what this pop has */
    response = client_ack(&c, RP_CODE_CHANGE_INVISIBLE_TIME, 1, 0, handle, 90000);
    CHECK(response.code == SUCCESS && field_number(&response, "invisibleTime") >= 90000);
    pop.poll_ms = 2 * WAIT_MS;
    client_send_pop(&waiter, RP_CODE_POP_MESSAGE, &pop);
    wait_until(are_waiting, &fx);
    CHECK(client_ack(&c, RP_CODE_ACK_MESSAGE, 1, 0, handle, 0).code == SUCCESS);
    CHECK(client_receive(&waiter, &response, WAIT_MS) == 1 && response.code == SUCCESS);
    CHECK(slice_is(rp_command_field(&response, "msgOffsetInfo"), "0 1 1") && offset_of(&fx, 1) == 1);
    handle_of(&response, 1, 1, handle);
    CHECK(client_ack(&c, RP_CODE_CHANGE_INVISIBLE_TIME, 1, 1, handle, 1).code == SUCCESS); /* visible again at once */
    pop.attempt_id = "third";
    response = client_pop(&c, &pop);
    CHECK(response.code == SUCCESS && slice_is(rp_command_field(&response, "orderCountInfo"), "0 qo1%1 1;0 1 1"));
    client_close(&waiter);
    close_pop(&fx, &c);
}

/* A handle is a text that anybody can write. */
static void an_ack_of_what_is_not_there_yet_moves_no_order_consumer(void) {
    fixture fx;
    open_pop(&fx, 1);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_message(&c, "T", 1, NULL, "first");
    CHECK(rp_broker_put_offset(fx.broker, text("G"), text("T"), 1, 1) == RP_OK);
    pop_request pop = pop_of(1);
    pop.order = 1;
    CHECK(client_pop(&c, &pop).code == TIMEOUT); /* everything is consumed */
    CHECK(client_ack(&c, RP_CODE_ACK_MESSAGE, 1, 1, "1 5 60000 999 0 broker-a 1", 0).code == SUCCESS && offset_of(&fx, 1) == 1);
    send_message(&c, "T", 1, NULL, "second");
    CHECK(client_ack(&c, RP_CODE_ACK_MESSAGE, 1, 0, "1 5 60000 999 0 broker-a 1", 0).code == SUCCESS && offset_of(&fx, 1) == 1);
    CHECK(client_pop(&c, &pop).code == SUCCESS);
    close_pop(&fx, &c);
}

/* A file of RocketMQ may lack the invisible time. Then the time that the next pop asks for counts. */
static void no_handle_says_that_a_queue_is_blocked_for_ever(void) {
    fixture fx;
    open_pop(&fx, 1);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    for (int i = 0; i < 2; i++)
        send_message(&c, "T", 1, NULL, "in order");
    int64_t offsets[] = {0, 1}, visible[] = {0, 0};
    int32_t times[] = {0, 0};
    rp_pop_order_row row = {
        .group = text("G"), .topic = text("T"), .queue_id = 1, .count = 2, .offsets = offsets, .visible_ms = visible, .times = times};
    char handle[96];
    row.pop_time_ms = rp_clock_wall_ms(rp_clock_system()) - 24 * 3600 * 1000;
    snprintf(handle, sizeof handle, "0 %" PRId64 " 9223372036854775807 999 0 broker-a 1", row.pop_time_ms);
    CHECK(rp_broker_put_pop_order(fx.broker, &row) == RP_OK);
    CHECK(client_ack(&c, RP_CODE_ACK_MESSAGE, 1, 0, handle, 0).code == SUCCESS);
    pop_request pop = pop_of(1);
    pop.order = 1;
    CHECK(client_pop(&c, &pop).code == SUCCESS); /* a pop of yesterday is over for a pop that asks for a minute */
    close_pop(&fx, &c);
}

static int keep_row(void *context, const rp_pop_order_row *row) {
    CHECK(slice_is(row->group, "G") && slice_is(row->topic, "T") && row->queue_id == 3 && row->count == 2 && row->acked == 1);
    CHECK(row->offsets[1] == 8 && row->times[1] == 5 && slice_is(row->attempt_id, "a"));
    ++*(int *)context;
    return 0;
}

static void what_order_consumers_have_survives_a_restart(void) {
    fixture fx;
    open_pop(&fx, 1);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    int64_t offsets[] = {7, 8}, visible[] = {0, 0};
    int32_t times[] = {0, 5};
    int rows = 0;
    rp_pop_order_row row = {.group = text("G"),
                            .topic = text("T"),
                            .attempt_id = text("a"),
                            .queue_id = 3,
                            .count = 2,
                            .pop_time_ms = INT64_MAX,
                            .invisible_ms = INT64_MAX,
                            .acked = 1,
                            .offsets = offsets,
                            .visible_ms = visible,
                            .times = times};
    uint64_t version = rp_broker_pop_order_version(fx.broker);
    CHECK(rp_broker_put_pop_order(fx.broker, &row) == RP_OK && rp_broker_pop_order_version(fx.broker) > version);
    CHECK(rp_broker_put_pop_order(fx.broker, &row) == RP_OK);
    rp_broker_each_pop_order(fx.broker, keep_row, &rows);
    CHECK(rows == 1);
    send_message(&c, "T", 3, NULL, "blocked");
    pop_request pop = pop_of(3);
    pop.order = 1;
    CHECK(client_pop(&c, &pop).code == TIMEOUT);
    CHECK(rp_broker_reset_offset(fx.broker, text("G"), text("T"), 3, 0) == RP_OK);
    CHECK(client_pop(&c, &pop).code == SUCCESS); /* an operator's reset frees the queue */
    version = rp_broker_pop_order_version(fx.broker);
    CHECK(rp_broker_reset_offset(fx.broker, text("G"), text("T"), 3, 1) == RP_OK && client_pop(&c, &pop).code == TIMEOUT);
    rp_broker_each_pop_order(fx.broker, keep_row, &rows);
    CHECK(rows == 1 && rp_broker_pop_order_version(fx.broker) > version); /* a change that has to be saved */
    rp_broker_delete_offsets(fx.broker, text("G"), text("T"));
    rows = 0;
    rp_broker_each_pop_order(fx.broker, keep_row, &rows);
    CHECK(rows == 0);
    row.count = 33;
    CHECK(rp_broker_put_pop_order(fx.broker, &row) == RP_E_INVALID);
    row = (rp_pop_order_row){.group = text("G"), .topic = text("T"), .queue_id = -1, .count = 1, .offsets = offsets};
    CHECK(rp_broker_put_pop_order(fx.broker, &row) == RP_E_INVALID);
    close_pop(&fx, &c);
}

static void acks_and_changes_are_in_the_log_and_strangers_ones_are_refused(void) {
    fixture fx;
    open_pop(&fx, 1);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_message(&c, "T", 0, NULL, "to be acked");
    pop_request pop = pop_of(0);
    rp_command response = client_pop(&c, &pop);
    char handle[128];
    handle_of(&response, 0, 0, handle);
    response = client_ack(&c, RP_CODE_CHANGE_INVISIBLE_TIME, 0, 0, handle, 5000);
    CHECK(response.code == SUCCESS && field_number(&response, "invisibleTime") == 5000 && records(&fx) == 3); /* a checkpoint, an ack */
    CHECK(client_ack(&c, RP_CODE_ACK_MESSAGE, 0, 0, handle, 0).code == SUCCESS && records(&fx) == 4);
    static const char *const strange[] = {
        "", " ", "1", "0 0 0 x 0 b 0", "0 0 0 0", "     ", "0 0 0 99999999999999999999 0 b 0", "9223372036854775808 0 0 0 0 b 0"};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        CHECK(client_ack(&c, RP_CODE_ACK_MESSAGE, 0, 0, strange[i], 0).code == SYSTEM_ERROR);
        CHECK(client_ack(&c, RP_CODE_CHANGE_INVISIBLE_TIME, 0, 0, strange[i], 0).code == SYSTEM_ERROR);
    }
    CHECK(client_ack(&c, RP_CODE_ACK_MESSAGE, 0, 0, "0 1 2 8 0 broker 0 0", 0).code == ILLEGAL); /* no such revive queue */
    CHECK(client_ack(&c, RP_CODE_ACK_MESSAGE, 0, 0, "0 1 2 -1 0 broker 0 0", 0).code == ILLEGAL);
    CHECK(client_ack(&c, RP_CODE_ACK_MESSAGE, 4, 0, handle, 0).code == ILLEGAL);
    CHECK(client_ack(&c, RP_CODE_ACK_MESSAGE, -1, 0, handle, 0).code == ILLEGAL);
    CHECK(client_ack(&c, RP_CODE_ACK_MESSAGE, 0, 2, handle, 0).code == NO_MESSAGE);
    CHECK(client_ack(&c, RP_CODE_ACK_MESSAGE, 0, INT64_MAX, handle, 0).code == NO_MESSAGE);
    CHECK(client_ack(&c, RP_CODE_CHANGE_INVISIBLE_TIME, 0, 1, handle, 0).code == NO_MESSAGE);
    CHECK(client_ack(&c, RP_CODE_CHANGE_INVISIBLE_TIME, 0, 0, "0 -9223372036854775808 0 999 0 b 0", INT64_MAX).code == SUCCESS);
    CHECK(records(&fx) == 4);
    close_pop(&fx, &c);
}

static void many_acks_at_once(void) {
    fixture fx;
    open_pop(&fx, 1);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    for (int i = 0; i < 4; i++)
        send_message(&c, "T", 0, NULL, "to be acked");
    pop_request pop = pop_of(0);
    rp_command response = client_pop(&c, &pop), command = request_of(&c, RP_CODE_BATCH_ACK_MESSAGE);
    char body[512];
    snprintf(body, sizeof body,
             "{\"brokerName\":\"broker\",\"acks\":[{\"c\":\"G\",\"t\":\"T\",\"r\":\"0\",\"so\":0,\"q\":0,\"rq\":%d,\"pt\":%" PRId64
             ",\"it\":60000,\"b\":\"Dw==\"}]}",
             (int)field_number(&response, "reviveQid"), field_number(&response, "popTime"));
    command.body = text(body);
    CHECK(client_call(&c, &command).code == SUCCESS && records(&fx) == 2);
    static const char *const strange[] = {"{", "[]", "{\"acks\":[{\"c\":1}]}", "{\"acks\":7}", "\xff\xfe", "null"};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        command = request_of(&c, RP_CODE_BATCH_ACK_MESSAGE);
        command.body = text(strange[i]);
        CHECK(client_call(&c, &command).code != SUCCESS);
    }
    command = request_of(&c, RP_CODE_BATCH_ACK_MESSAGE);
    CHECK(client_call(&c, &command).code == NO_MESSAGE && records(&fx) == 2);
    close_pop(&fx, &c);
}

static void a_peek_leaves_everything_as_it_is(void) {
    fixture fx;
    open_pop(&fx, 1);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    pop_request pop = pop_of(-1);
    CHECK(client_ask(&c, RP_CODE_PEEK_MESSAGE, &pop).code == NOT_FOUND);
    send_message(&c, "T", 0, NULL, "looked at");
    send_message(&c, RETRY, 0, NULL, "looked at, too");
    for (int i = 0; i < 2; i++) {
        rp_command response = client_ask(&c, RP_CODE_PEEK_MESSAGE, &pop);
        CHECK(response.code == SUCCESS && messages_in(response.body) == 2);
    }
    CHECK(offset_of(&fx, 0) == -1 && records(&fx) == 0);
    close_pop(&fx, &c);
}

static void a_peek_of_many_queues_shows_no_more_than_was_asked_for(void) {
    enum { QUEUES = 200 };
    fixture fx;
    open_pop(&fx, 1);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    CHECK(rp_broker_put_topic(fx.broker, text("T"), QUEUES, QUEUES, 6, 0, NATIVE) == RP_OK);
    for (int32_t i = 0; i < QUEUES; i++)
        send_message(&c, "T", i, NULL, "one a queue");
    static const struct {
        int32_t asked, code;
        uint32_t shown;
    } peeks[] = {{INT32_MIN, INVALID, 0}, {-1, INVALID, 0},  {0, NOT_FOUND, 0},
                 {1, SUCCESS, 1},         {32, SUCCESS, 32}, {INT32_MAX, SUCCESS, 32}};
    pop_request pop = pop_of(-1);
    for (size_t i = 0; i < sizeof peeks / sizeof *peeks; i++) {
        pop.max_messages = peeks[i].asked;
        rp_command response = client_ask(&c, RP_CODE_PEEK_MESSAGE, &pop);
        CHECK(response.code == peeks[i].code && messages_in(response.body) == peeks[i].shown);
    }
    close_pop(&fx, &c);
}

static void what_cannot_be_popped_is_refused_or_goes_to_python(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    pop_request pop = pop_of(4);
    CHECK(client_pop(&c, &pop).code == INVALID);
    pop = pop_of(-1);
    client_send_pop(&c, RP_CODE_POP_MESSAGE, &pop); /* no retry topic yet: Python's */
    rp_request *request = take_punted(&fx);
    CHECK(rp_broker_put_topic(fx.broker, text(REVIVE), 8, 8, 6, 0, NATIVE) == RP_OK);
    CHECK(rp_broker_put_topic(fx.broker, text(RETRY), 1, 1, 6, 0, NATIVE) == RP_OK);
    CHECK(rp_server_resubmit(fx.server, request, 1) == RP_OK);
    rp_command response;
    CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == TIMEOUT);
    pop.group = "nobody";
    client_send_pop(&c, RP_CODE_POP_MESSAGE, &pop);
    rp_request_free(take_punted(&fx));
    pop = pop_of(4);
    CHECK(client_pop(&c, &pop).code == INVALID);
    pop = pop_of(0);
    for (int32_t strange = -1; strange <= 33; strange += 17) { /* -1, 16, 33 */
        pop.max_messages = strange;
        CHECK(client_pop(&c, &pop).code == (strange == 16 ? TIMEOUT : INVALID));
    }
    static const int64_t times[] = {INT64_MIN, -1, 0, INT64_MAX};
    for (int i = 0; i < 4; i++) {
        pop = pop_of(INT32_MIN);
        pop.invisible_ms = times[i];
        send_message(&c, "T", 0, NULL, "for a strange time");
        CHECK(client_pop(&c, &pop).code == SUCCESS);
    }
    fx.settings.permission = 2;
    rp_broker_set_settings(fx.broker, &fx.settings);
    response = client_pop(&c, &pop);
    CHECK(response.code == NO_PERMISSION && slice_is(response.remark, "the broker[127.0.0.1] pop message is forbidden"));
    static const int32_t peeks[] = {RP_CODE_PEEK_MESSAGE, RP_CODE_NOTIFICATION, RP_CODE_POLLING_INFO};
    for (size_t i = 0; i < sizeof peeks / sizeof peeks[0]; i++) {
        response = client_ask(&c, peeks[i], &pop);
        CHECK(response.code == NO_PERMISSION && slice_is(response.remark, "the broker[127.0.0.1] peeking message is forbidden"));
    }
    fx.settings.permission = 6;
    fx.settings.role = RP_ROLE_SLAVE;
    rp_broker_set_settings(fx.broker, &fx.settings);
    CHECK(client_pop(&c, &pop).code == SYSTEM_ERROR && client_ack(&c, RP_CODE_ACK_MESSAGE, 0, 0, "0 1 2 0 0 b 0", 0).code == SYSTEM_ERROR);
    close_pop(&fx, &c);
}

static void without_a_revive_topic_nothing_is_popped_and_nothing_lost(void) {
    fixture fx;
    open_pop(&fx, 1);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    rp_broker_delete_topic(fx.broker, text(REVIVE));
    send_message(&c, "T", 0, NULL, "stays");
    pop_request pop = pop_of(0);
    CHECK(client_pop(&c, &pop).code == SYSTEM_ERROR && offset_of(&fx, 0) == 0);
    CHECK(rp_broker_put_topic(fx.broker, text(REVIVE), 8, 8, 6, 0, NATIVE) == RP_OK);
    CHECK(client_pop(&c, &pop).code == SUCCESS);
    close_pop(&fx, &c);
}

static void no_handle_names_the_revive_queue_that_stands_for_order(void) {
    fixture fx;
    open_pop(&fx, 1);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    CHECK(rp_broker_put_topic(fx.broker, text(REVIVE), 2000, 2000, 6, 0, NATIVE) == RP_OK);
    for (int i = 0; i < 2; i++) {
        send_message(&c, "T", 0, NULL, "to be acked");
        atomic_store(&fx.broker->pop_serial, (uint32_t)(RP_POP_ORDER_QUEUE + i));
        pop_request pop = pop_of(0);
        rp_command response = client_pop(&c, &pop);
        CHECK(response.code == SUCCESS && field_number(&response, "reviveQid") < RP_POP_ORDER_QUEUE);
    }
    close_pop(&fx, &c);
}

#define CONSUMERS 4
#define SENT 2000
typedef struct crowd {
    fixture *fx;
    _Atomic uint32_t seen[4][SENT];
    _Atomic uint32_t count;
} crowd;

static void *consume(void *context) {
    crowd *all = context;
    client c = client_open(all->fx, RP_SERIALIZE_JSON);
    pop_request pop = pop_of(-1);
    pop.max_messages = 7;
    pop.poll_ms = 50;
    while (atomic_load(&all->count) < SENT) {
        rp_command response = client_pop(&c, &pop);
        CHECK(response.code == SUCCESS || response.code == TIMEOUT);
        for (uint32_t at = 0; at < response.body.size; at += rp_get_u32(response.body.data + at)) {
            rp_message message;
            CHECK(rp_message_decode(response.body.data + at, rp_get_u32(response.body.data + at), RP_CHECK_BODY_CRC, &message, NULL) ==
                  RP_RECORD_MESSAGE);
            CHECK(atomic_fetch_add(&all->seen[message.queue_id][message.queue_offset], 1) == 0);
            atomic_fetch_add(&all->count, 1);
        }
    }
    client_close(&c);
    return NULL;
}

static void a_crowd_gets_every_message_once(void) {
    static crowd all;
    fixture fx;
    pthread_t threads[CONSUMERS];
    open_pop(&fx, 2);
    all.fx = &fx;
    client producer = client_open(&fx, RP_SERIALIZE_JSON);
    for (int i = 0; i < CONSUMERS; i++)
        CHECK(pthread_create(&threads[i], NULL, consume, &all) == 0);
    for (int i = 0; i < SENT; i++)
        send_message(&producer, "T", i % 4, NULL, "to one of them");
    for (int i = 0; i < CONSUMERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(atomic_load(&all.count) == SENT);
    close_pop(&fx, &producer);
}

int main(void) {
    what_is_popped_is_popped_once_and_written_down();
    one_pop_gets_messages_of_every_queue_and_those_that_come_again();
    what_comes_again_is_found_whichever_retry_topic_there_is();
    only_the_tags_asked_for_and_the_offset_goes_on();
    a_waiting_pop_is_woken_by_its_topic_and_by_its_retry_topic();
    a_message_is_told_to_the_last_who_asked();
    an_order_consumer_blocks_its_queue_until_it_acks();
    an_ack_of_what_is_not_there_yet_moves_no_order_consumer();
    no_handle_says_that_a_queue_is_blocked_for_ever();
    what_order_consumers_have_survives_a_restart();
    acks_and_changes_are_in_the_log_and_strangers_ones_are_refused();
    many_acks_at_once();
    a_peek_leaves_everything_as_it_is();
    a_peek_of_many_queues_shows_no_more_than_was_asked_for();
    what_cannot_be_popped_is_refused_or_goes_to_python();
    without_a_revive_topic_nothing_is_popped_and_nothing_lost();
    no_handle_names_the_revive_queue_that_stands_for_order();
    a_crowd_gets_every_message_once();
    return 0;
}
