/* pop_escape_test.c: pops and acks at an acting slave: answered once another master has their records, refused if none takes them;
 * nothing is appended here. */
#include <stdbool.h>

#include "broker/escaping_messages.h"
#include "pop_fixture.h"
#include "stored_messages.h"

#define HANDLE_MAX 128

static void become_slave(fixture *fx) {
    fx->settings.role = RP_ROLE_SLAVE;
    rp_broker_set_settings(fx->broker, &fx->settings);
}

static int64_t log_end(const fixture *fx) { return rp_commit_log_max_offset(rp_message_store_commit_log(fx->store)); }

/* Its log has count messages in queue 0 of T, and its master is gone. */
static client open_acting(fixture *fx, int count) {
    open_pop(fx, 1);
    client c = client_open(fx, RP_SERIALIZE_JSON);
    for (int i = 0; i < count; i++)
        CHECK(send_message(&c, "T", 0, NULL, "m") == i);
    become_slave(fx);
    rp_broker_open_escape(fx->broker);
    return c;
}

static void close_acting(fixture *fx, client *c) {
    rp_broker_refuse_escape(fx->broker);
    rp_broker_shut_escape(fx->broker);
    close_pop(fx, c);
}

/* The next record that is handed over; it is one of the revive topic, with that tag, a checkpoint names this broker. */
static uint64_t next(const fixture *fx, const char *tag) {
    rp_escaping_message escaping;
    rp_message message;
    rp_error error;
    for (int64_t until = now_ms() + WAIT_MS; rp_broker_take_escaping(fx->broker, &escaping) != RP_OK;) {
        CHECK(now_ms() < until);
        sched_yield();
    }
    must(rp_message_decode(escaping.record, escaping.size, RP_CHECK_BODY_CRC, &message, &error), &error, "decode record");
    CHECK(slice_is(message.topic, REVIVE) && property_is(&message, "TAGS", tag));
    CHECK(rp_message_property(message.properties, "TIMER_DELIVER_MS").size > 0);
    CHECK(strcmp(tag, "ck") != 0 || slice_contains(message.body, "\"bn\":\"broker\""));
    free(escaping.record);
    return escaping.id;
}

static bool nothing_is_handed_over(const fixture *fx) {
    rp_escaping_message none;
    return rp_broker_take_escaping(fx->broker, &none) == RP_E_NOT_FOUND;
}

static rp_command answer_of(client *c, int32_t opaque) {
    rp_command response;
    CHECK(client_receive(c, &response, WAIT_MS) == 1 && response.opaque == opaque);
    return response;
}

static void a_pop_is_answered_once_another_master_has_its_checkpoint(void) {
    fixture fx;
    client c = open_acting(&fx, 3), other = client_open(&fx, RP_SERIALIZE_JSON);
    int64_t end = log_end(&fx);
    pop_request pop = pop_of(-1);
    pop.max_messages = 2;
    int32_t opaque = client_send_pop(&c, RP_CODE_POP_MESSAGE, &pop);
    uint64_t id = next(&fx, "ck");
    CHECK(client_pop(&other, &pop).code == TIMEOUT); /* the first pop has the queue */
    CHECK(offset_of(&fx, 0) <= 0 && nothing_is_handed_over(&fx));
    rp_broker_settle_escaping(fx.broker, id, RP_OK);
    rp_command response = answer_of(&c, opaque);
    CHECK(response.code == SUCCESS && messages_in(response.body) == 2 && offset_of(&fx, 0) == 2);
    pop.poll_ms = WAIT_MS; /* this pop waits for the queue too, and nobody wakes it */
    opaque = client_send_pop(&c, RP_CODE_POP_MESSAGE, &pop);
    id = next(&fx, "ck");
    int32_t waiting = client_send_pop(&other, RP_CODE_POP_MESSAGE, &pop);
    rp_broker_settle_escaping(fx.broker, id, RP_E_NETWORK);
    CHECK(answer_of(&c, opaque).code == SYSTEM_ERROR && offset_of(&fx, 0) == 2);
    rp_broker_settle_escaping(fx.broker, next(&fx, "ck"), RP_OK);
    response = answer_of(&other, waiting);
    CHECK(response.code == SUCCESS && messages_in(response.body) == 1 && offset_of(&fx, 0) == 3);
    CHECK(log_end(&fx) == end && records(&fx) == 0);
    client_close(&other);
    close_acting(&fx, &c);
}

static void whoever_stands_in_no_more_answers_and_gives_nothing(void) {
    fixture fx;
    client c = open_acting(&fx, 1);
    pop_request pop = pop_of(0);
    int32_t opaque = client_send_pop(&c, RP_CODE_POP_MESSAGE, &pop);
    (void)next(&fx, "ck");
    rp_broker_refuse_escape(fx.broker);
    CHECK(answer_of(&c, opaque).code == SYSTEM_ERROR && offset_of(&fx, 0) <= 0);
    rp_command response = client_pop(&c, &pop);
    CHECK(response.code == SYSTEM_ERROR && slice_contains(response.remark, "is a slave"));
    CHECK(client_ack(&c, RP_CODE_ACK_MESSAGE, 0, 0, "0 1 60000 0 0 broker 0 0", 0).code == SYSTEM_ERROR);
    rp_broker_shut_escape(fx.broker);
    CHECK(client_pop(&c, &pop).code == SYSTEM_ERROR);
    rp_broker_open_escape(fx.broker);
    opaque = client_send_pop(&c, RP_CODE_POP_MESSAGE, &pop);
    rp_broker_settle_escaping(fx.broker, next(&fx, "ck"), RP_OK);
    CHECK(answer_of(&c, opaque).code == SUCCESS && offset_of(&fx, 0) == 1);
    close_acting(&fx, &c);
}

static void an_offset_that_was_set_meanwhile_stays(void) {
    fixture fx;
    client c = open_acting(&fx, 3);
    pop_request pop = pop_of(0);
    pop.max_messages = 1;
    int32_t opaque = client_send_pop(&c, RP_CODE_POP_MESSAGE, &pop);
    uint64_t id = next(&fx, "ck");
    CHECK(rp_broker_put_offset(fx.broker, text("G"), text("T"), 0, 2) == RP_OK);
    rp_broker_settle_escaping(fx.broker, id, RP_OK);
    CHECK(answer_of(&c, opaque).code == SUCCESS && offset_of(&fx, 0) == 2);
    close_acting(&fx, &c);
}

static int has_moved(void *context) { return offset_of(context, 0) == 1; }

/* Nobody gets the messages, whose checkpoint brings them again. */
static void a_consumer_may_leave_meanwhile(void) {
    fixture fx;
    client c = open_acting(&fx, 1), gone = client_open(&fx, RP_SERIALIZE_JSON);
    pop_request pop = pop_of(0);
    client_send_pop(&gone, RP_CODE_POP_MESSAGE, &pop);
    uint64_t id = next(&fx, "ck");
    client_close(&gone);
    rp_broker_settle_escaping(fx.broker, id, RP_OK);
    wait_until(has_moved, &fx);
    CHECK(client_pop(&c, &pop).code == TIMEOUT);
    CHECK(rp_broker_put_offset(fx.broker, text("G"), text("T"), 0, 0) == RP_OK);
    client_send_pop(&c, RP_CODE_POP_MESSAGE, &pop);
    (void)next(&fx, "ck"); /* this record is on its way when the broker is closed */
    close_pop(&fx, &c);
}

static int32_t send_ack(client *c, int32_t code, const char *handle) {
    number_text number;
    rp_command command = request_of(c, code);
    with_text(&command, "consumerGroup", "G");
    with_text(&command, "topic", "T");
    with_text(&command, "queueId", "0");
    with_text(&command, "offset", "0");
    with_text(&command, "extraInfo", handle);
    with_text(&command, "invisibleTime", number_of(&number, 30000));
    client_send(c, &command);
    return command.opaque;
}

static void acks_go_where_checkpoints_go(void) {
    fixture fx;
    client c = open_acting(&fx, 2);
    pop_request pop = pop_of(0);
    char handle[HANDLE_MAX];
    int64_t end = log_end(&fx);
    pop.max_messages = 1;
    int32_t opaque = client_send_pop(&c, RP_CODE_POP_MESSAGE, &pop);
    rp_broker_settle_escaping(fx.broker, next(&fx, "ck"), RP_OK);
    rp_command response = answer_of(&c, opaque);
    handle_of(&response, 0, 0, handle);
    opaque = send_ack(&c, RP_CODE_CHANGE_INVISIBLE_TIME, handle);
    rp_broker_settle_escaping(fx.broker, next(&fx, "ck"), RP_OK);
    rp_broker_settle_escaping(fx.broker, next(&fx, "ack"), RP_E_NETWORK); /* the message will come twice, but the new time counts */
    response = answer_of(&c, opaque);
    CHECK(response.code == SUCCESS && field_number(&response, "invisibleTime") == 30000);
    opaque = send_ack(&c, RP_CODE_CHANGE_INVISIBLE_TIME, "0 1 60000 0 0 another 0 0"); /* otherwise nobody would get its message again */
    rp_broker_settle_escaping(fx.broker, next(&fx, "ck"), RP_OK);
    rp_broker_settle_escaping(fx.broker, next(&fx, "ack"), RP_OK);
    CHECK(answer_of(&c, opaque).code == SUCCESS);
    opaque = send_ack(&c, RP_CODE_CHANGE_INVISIBLE_TIME, handle);
    rp_broker_settle_escaping(fx.broker, next(&fx, "ck"), RP_E_NETWORK);
    CHECK(answer_of(&c, opaque).code == SYSTEM_ERROR && nothing_is_handed_over(&fx));
    opaque = send_ack(&c, RP_CODE_ACK_MESSAGE, handle);
    rp_broker_settle_escaping(fx.broker, next(&fx, "ack"), RP_OK);
    CHECK(answer_of(&c, opaque).code == SUCCESS);
    opaque = send_ack(&c, RP_CODE_ACK_MESSAGE, handle);
    rp_broker_settle_escaping(fx.broker, next(&fx, "ack"), RP_E_INVALID);
    CHECK(answer_of(&c, opaque).code == SYSTEM_ERROR);
    rp_command batch = request_of(&c, RP_CODE_BATCH_ACK_MESSAGE);
    batch.body = text("{\"brokerName\":\"broker\",\"acks\":[{\"c\":\"G\",\"t\":\"T\",\"r\":\"0\",\"so\":0,\"q\":0,\"rq\":3,\"pt\":1,"
                      "\"it\":60000,\"b\":\"Aw==\"},{\"c\":\"G\",\"t\":\"T\",\"r\":\"0\",\"so\":1,\"q\":0,\"rq\":4,\"pt\":2,\"it\":1,"
                      "\"b\":\"AQ==\"},{\"c\":\"G\",\"t\":\"none\",\"r\":\"0\",\"so\":1,\"q\":0,\"rq\":4,\"pt\":2,\"it\":1,"
                      "\"b\":\"AQ==\"}]}");
    client_send(&c, &batch);
    uint64_t first = next(&fx, "bAck"), second = next(&fx, "bAck");
    rp_broker_settle_escaping(fx.broker, second, RP_OK);
    rp_broker_settle_escaping(fx.broker, first, RP_OK);
    CHECK(answer_of(&c, batch.opaque).code == SUCCESS && nothing_is_handed_over(&fx) && log_end(&fx) == end && records(&fx) == 0);
    CHECK(client_ack(&c, RP_CODE_ACK_MESSAGE, 0, 0, "0 1 60000 77 0 broker 0 0", 0).code == ILLEGAL);
    close_acting(&fx, &c);
}

/* Only this broker knows which messages are out, and it moves the offset when they are acked. */
static void order_consumers_need_no_other_master(void) {
    fixture fx;
    client c = open_acting(&fx, 2);
    pop_request pop = pop_of(0);
    pop.order = 1;
    pop.max_messages = 1;
    rp_command response = client_pop(&c, &pop);
    char handle[HANDLE_MAX];
    CHECK(response.code == SUCCESS && messages_in(response.body) == 1 && field_number(&response, "reviveQid") == 999);
    handle_of(&response, 0, 0, handle);
    CHECK(client_pop(&c, &pop).code == TIMEOUT);
    CHECK(client_ack(&c, RP_CODE_ACK_MESSAGE, 0, 0, handle, 0).code == SUCCESS && offset_of(&fx, 0) == 1);
    CHECK(client_pop(&c, &pop).code == SUCCESS && nothing_is_handed_over(&fx));
    close_acting(&fx, &c);
}

int main(void) {
    a_pop_is_answered_once_another_master_has_its_checkpoint();
    whoever_stands_in_no_more_answers_and_gives_nothing();
    an_offset_that_was_set_meanwhile_stays();
    a_consumer_may_leave_meanwhile();
    acks_go_where_checkpoints_go();
    order_consumers_need_no_other_master();
    return 0;
}
