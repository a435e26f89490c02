/* escape_bridge_test.c: what an acting slave delivers is handed over instead of being appended. */
#include <stdbool.h>

#include "broker/escape_bridge.h"
#include "broker/escaping_messages.h"
#include "broker/pop_log.h"
#include "stored_messages.h"

static void open_with_level(fixture *fx) {
    fx->store_options.delay_levels = "0s";
    fixture_open(fx);
    CHECK(rp_broker_put_topic(fx->broker, text("SCHEDULE_TOPIC_XXXX"), 18, 18, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
}

static void send_delayed(fixture *fx, int count) {
    client c = client_open(fx, RP_SERIALIZE_JSON);
    for (int i = 0; i < count; i++) {
        number_text queue;
        char body[16];
        snprintf(body, sizeof body, "%d", i);
        rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", i % 4, "DELAY\0011\2KEYS\1k\2", text(body), &queue);
        CHECK(client_call(&c, &request).code == 0);
    }
    client_close(&c);
}

/* The next message that is handed over. */
static rp_escaping_message next(const fixture *fx) {
    rp_escaping_message message;
    for (int64_t until = now_ms() + WAIT_MS; rp_broker_take_escaping(fx->broker, &message) != RP_OK;) {
        CHECK(now_ms() < until);
        sched_yield();
    }
    return message;
}

static int64_t body_number(const rp_escaping_message *escaping) {
    rp_message message;
    rp_error error;
    int64_t number;
    must(rp_message_decode(escaping->record, escaping->size, RP_CHECK_BODY_CRC, &message, &error), &error, "decode record");
    CHECK(slice_is(message.topic, "T") && property_is(&message, "KEYS", "k"));
    CHECK(rp_slice_to_i64(message.body, &number) == RP_OK && message.queue_id == number % 4);
    return number;
}

static void settle(const fixture *fx, const rp_escaping_message *message, int status) {
    rp_broker_settle_escaping(fx->broker, message->id, status);
    free(message->record);
}

static int64_t position(const fixture *fx) {
    int64_t offset = -1, end;
    CHECK(rp_broker_read_delay_offset(fx->broker, 1, &offset, &end) == RP_OK);
    return offset;
}

/* One message of a batch of five is refused, and is offered alone the next time. None of them is in this log. */
static void what_is_due_is_handed_over_until_it_is_settled(void) {
    fixture fx;
    fixture_init(&fx);
    open_with_level(&fx);
    send_delayed(&fx, 5);
    int64_t end = rp_commit_log_max_offset(rp_message_store_commit_log(fx.store));
    rp_broker_open_escape(fx.broker);
    CHECK(rp_broker_start_delivery(fx.broker, NULL) == RP_OK);
    unsigned seen = 0;
    for (int i = 0; i < 5; i++) {
        rp_escaping_message message = next(&fx);
        int64_t number = body_number(&message);
        seen |= 1u << number;
        settle(&fx, &message, number == 2 ? RP_E_NETWORK : number == 3 ? RP_E_TOO_LARGE : RP_OK);
    }
    CHECK(seen == 31);
    rp_escaping_message again = next(&fx);
    CHECK(body_number(&again) == 2 && position(&fx) == 2);
    rp_broker_settle_escaping(fx.broker, again.id + 1000, RP_OK); /* an id that nobody has */
    rp_broker_settle_escaping(fx.broker, again.id, RP_OK);
    rp_broker_settle_escaping(fx.broker, again.id, RP_E_IO); /* settled already: ignored */
    free(again.record);
    for (int64_t until = now_ms() + WAIT_MS; position(&fx) != 5;)
        CHECK(now_ms() < until && sched_yield() == 0);
    rp_broker_refuse_escape(fx.broker);
    rp_broker_stop_delivery(fx.broker);
    rp_broker_shut_escape(fx.broker);
    CHECK(rp_commit_log_max_offset(rp_message_store_commit_log(fx.store)) == end && end_of(&fx, "T", 0) == 0);
    drop_events(&fx);
    fixture_close(&fx);
}

/* Waiting messages do not hold up the thread, whether they were taken or not. Without the bridge they are delivered here. */
static void a_stop_does_not_wait_for_who_sends(void) {
    fixture fx;
    fixture_init(&fx);
    open_with_level(&fx);
    send_delayed(&fx, 3);
    rp_broker_open_escape(fx.broker);
    CHECK(rp_broker_start_delivery(fx.broker, NULL) == RP_OK);
    rp_escaping_message taken = next(&fx), none;
    rp_broker_refuse_escape(fx.broker);
    rp_broker_stop_delivery(fx.broker);
    settle(&fx, &taken, RP_OK);
    CHECK(rp_broker_take_escaping(fx.broker, &none) == RP_E_NOT_FOUND && none.record == NULL && position(&fx) <= 0);
    rp_broker_shut_escape(fx.broker);
    CHECK(rp_broker_start_delivery(fx.broker, NULL) == RP_OK);
    for (int64_t until = now_ms() + WAIT_MS; position(&fx) != 3;)
        CHECK(now_ms() < until && sched_yield() == 0);
    CHECK(end_of(&fx, "T", 0) == 1 && end_of(&fx, "T", 1) == 1 && end_of(&fx, "T", 2) == 1);
    drop_events(&fx);
    fixture_close(&fx);
}

static int64_t delivered_here(const fixture *fx) {
    return end_of(fx, "T", 0) + end_of(fx, "T", 1) + end_of(fx, "T", 2) + end_of(fx, "T", 3);
}

#define MANY 100 /* more than a window, also of those that are refused */

/* Every second message is refused for good. What the slave reports about these is enough for its master to deliver them, and no others. */
static void what_others_refuse_holds_nothing_up(void) {
    static int64_t offsets[RP_DELAY_ASIDE_MAX];
    fixture fx;
    int64_t reached = -1, passed_on = 0;
    fixture_init(&fx);
    open_with_level(&fx);
    send_delayed(&fx, MANY);
    rp_broker_open_escape(fx.broker);
    CHECK(rp_broker_start_delivery(fx.broker, NULL) == RP_OK);
    for (int64_t until = now_ms() + WAIT_MS; passed_on < MANY / 2;) {
        CHECK(now_ms() < until);
        rp_escaping_message message = next(&fx);
        bool is_refused = body_number(&message) % 2 == 0;
        passed_on += !is_refused;
        settle(&fx, &message, is_refused ? RP_E_INVALID : RP_OK);
    }
    /* The last batch, and some once more. */
    for (int64_t until = now_ms() + WAIT_MS; rp_broker_read_delay_aside(fx.broker, 1, &reached, NULL) < MANY / 2;) {
        CHECK(now_ms() < until);
        rp_escaping_message message;
        if (rp_broker_take_escaping(fx.broker, &message) == RP_OK)
            settle(&fx, &message, RP_E_INVALID);
    }
    CHECK(rp_broker_read_delay_aside(fx.broker, 1, &reached, offsets) == MANY / 2 && position(&fx) == 0 && reached == MANY);
    for (int i = 0; i < MANY / 2; i++)
        CHECK(offsets[i] == 2 * i);
    rp_broker_refuse_escape(fx.broker);
    rp_broker_stop_delivery(fx.broker);
    rp_broker_shut_escape(fx.broker);
    CHECK(rp_broker_put_delay_aside(fx.broker, 1, MANY, (int64_t[]){MANY}, 1) == RP_E_INVALID);
    CHECK(rp_broker_put_delay_aside(fx.broker, 1, MANY, offsets, MANY / 2) == RP_OK && position(&fx) == 0);
    CHECK(rp_broker_start_delivery(fx.broker, NULL) == RP_OK);
    for (int64_t until = now_ms() + WAIT_MS; position(&fx) != MANY;)
        CHECK(now_ms() < until && sched_yield() == 0);
    CHECK(delivered_here(&fx) == MANY / 2 && rp_broker_read_delay_aside(fx.broker, 1, &reached, NULL) == 0 && reached == MANY);
    drop_events(&fx);
    fixture_close(&fx);
}

/* A broker is closed while a message waits. And checkpoints that revive keeps are not in a slave's log. */
static void nothing_waits_for_ever_and_no_record_of_pops_is_appended(void) {
    fixture fx;
    fixture_init(&fx);
    open_with_level(&fx);
    send_delayed(&fx, 1);
    rp_broker_refuse_escape(fx.broker); /* it is not open */
    CHECK(!rp_escape_is_on(fx.broker));
    rp_broker_open_escape(fx.broker);
    rp_pop_checkpoint checkpoint = {.topic = text("T"), .group = text("G"), .broker_name = text("broker-a"), .count = 1};
    CHECK(rp_pop_log_put_checkpoint(fx.broker, 0, &checkpoint) == RP_E_READ_ONLY);
    CHECK(rp_broker_start_delivery(fx.broker, NULL) == RP_OK);
    rp_escaping_message taken = next(&fx);
    free(taken.record);
    drop_events(&fx);
    fixture_close(&fx);
}

int main(void) {
    RUN(what_is_due_is_handed_over_until_it_is_settled);
    RUN(a_stop_does_not_wait_for_who_sends);
    RUN(what_others_refuse_holds_nothing_up);
    RUN(nothing_waits_for_ever_and_no_record_of_pops_is_appended);
    return 0;
}
