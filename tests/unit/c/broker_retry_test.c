/* broker_retry_test.c: what consumers have tried again: which sends to retry topics need no Python. */
#include "stored_messages.h"

#define RETRY "%RETRY%G"
#define RETRY_FLAGS (RP_TOPIC_NATIVE_PULL | RP_TOPIC_CHECKED_SEND | RP_TOPIC_RETRY_SEND)

/* A group of two tries, of whose queues none is locked. */
static void open_with_retries(fixture *fx) {
    fx->store_options.delay_levels = "1h 1h 1h 1h";
    fixture_open(fx);
    CHECK(rp_broker_put_topic(fx->broker, text("SCHEDULE_TOPIC_XXXX"), 18, 18, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
    CHECK(rp_broker_put_topic(fx->broker, text(RETRY), 1, 1, 6, 0, RETRY_FLAGS) == RP_OK);
    CHECK(rp_broker_set_retries(fx->broker, text("G"), 1, 2) == RP_OK);
    rp_broker_set_locked(fx->broker, text("G"), 0);
}

static void expect_punt(fixture *fx, client *c, const rp_command *request) {
    client_send(c, request);
    rp_request *punted = take_punted(fx);
    CHECK(punted->command.code == request->code && punted->command.opaque == request->opaque);
    rp_request_free(punted);
}

/* ---- sends to retry topics ---- */

typedef struct retry_send {
    const char *topic, *properties;
    const char *times, *most, *batch, *topic_queues; /* NULL: as a plain send has it */
} retry_send;

static void set_field(rp_command *command, const char *key, const char *value) {
    for (uint16_t i = 0; i < command->field_count; i++) {
        if (slice_is(command->fields[i].key, key)) {
            command->fields[i].value = text(value);
            return;
        }
    }
    with_text(command, key, value);
}

static rp_command retry_request(client *c, const retry_send *send, number_text *queue) {
    rp_command request = send_request_v2(c, RP_CODE_SEND_MESSAGE_V2, send->topic, 0, send->properties, text("again"), queue);
    if (send->times != NULL)
        set_field(&request, "j", send->times);
    if (send->most != NULL)
        set_field(&request, "l", send->most);
    if (send->batch != NULL)
        set_field(&request, "m", send->batch);
    if (send->topic_queues != NULL)
        set_field(&request, "d", send->topic_queues);
    return request;
}

static void what_may_have_another_try_is_stored(void) {
    static const retry_send sends[] = {
        {.topic = RETRY},
        {.topic = RETRY, .times = "2"},
        {.topic = RETRY, .times = "-1"},
        {.topic = RETRY, .times = "5", .most = "5"},
        {.topic = RETRY, .times = "2147483647", .most = "2147483647"},
        {.topic = RETRY, .times = "1", .properties = "TRAN_MSG\1false\2"},
    };
    fixture fx;
    fixture_init(&fx);
    open_with_retries(&fx);
    int64_t count = sizeof sends / sizeof *sends, end = 0;
    for (uint8_t type = 0; type < 2; type++) {
        client c = client_open(&fx, type);
        number_text queue;
        for (int64_t i = 0; i < count; i++) {
            rp_command request = retry_request(&c, &sends[i], &queue);
            rp_command response = client_call(&c, &request);
            CHECK(response.code == 0 && field_number(&response, "queueOffset") == end);
            rp_message message;
            int64_t times = 0;
            void *pin = read_message(&fx, RETRY, 0, end++, &message, NULL);
            CHECK(sends[i].times == NULL || rp_slice_to_i64(text(sends[i].times), &times) == RP_OK);
            CHECK(slice_is(message.topic, RETRY) && slice_is(message.body, "again") && message.reconsume_times == times);
            rp_log_range_release(pin);
        }
        rp_command delayed = retry_request(&c, &(retry_send){.topic = RETRY, .times = "1", .properties = "DELAY\0013\2"}, &queue);
        CHECK(client_call(&c, &delayed).code == 0 && end_of(&fx, RETRY, 0) == end && end_of(&fx, "SCHEDULE_TOPIC_XXXX", 2) == type + 1);
        client_close(&c);
    }
    rp_broker_stats stats;
    rp_broker_read_stats(fx.broker, &stats);
    CHECK(stats.sends == (uint64_t)(2 * count + 2) && stats.sends_punted == 0 && stats.sends_failed == 0);
    drop_events(&fx);
    fixture_close(&fx);
}

static rp_command long_request(client *c, const char *most) {
    static const char *const pairs[][2] = {
        {"producerGroup", "PG"}, {"topic", RETRY}, {"defaultTopic", "TBW102"},         {"defaultTopicQueueNums", "4"},
        {"queueId", "0"},        {"sysFlag", "0"}, {"bornTimestamp", "1700000000123"}, {"flag", "7"},
        {"reconsumeTimes", "3"}};
    rp_command request = request_of(c, RP_CODE_SEND_MESSAGE);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        with_text(&request, pairs[i][0], pairs[i][1]);
    if (most != NULL)
        with_text(&request, "maxReconsumeTimes", most);
    request.body = text("again");
    return request;
}

static void the_long_spelling_says_how_many_tries_there_are_too(void) {
    fixture fx;
    fixture_init(&fx);
    open_with_retries(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    rp_command request = long_request(&c, "3");
    CHECK(client_call(&c, &request).code == 0 && end_of(&fx, RETRY, 0) == 1);
    request = long_request(&c, NULL);
    expect_punt(&fx, &c, &request);
    CHECK(end_of(&fx, RETRY, 0) == 1);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static void what_has_had_its_tries_or_cannot_be_read_is_pythons(void) {
    static const retry_send sends[] = {
        {.topic = RETRY, .times = "3"},
        {.topic = RETRY, .times = "1", .most = "0"},
        {.topic = RETRY, .times = "0", .most = "-1"},
        {.topic = RETRY, .batch = "true"},
        {.topic = RETRY, .most = "many"},
        {.topic = RETRY, .most = "99999999999"},
        {.topic = RETRY, .topic_queues = "x"},
        {.topic = RETRY, .properties = "DELAY\1soon\2"},
        {.topic = "%RETRY%H"}, /* a group that is not here */
        {.topic = "%RETRY%"},
        {.topic = "%RETRY%G_T"},
    };
    fixture fx;
    fixture_init(&fx);
    open_with_retries(&fx);
    for (size_t i = 0; i < sizeof sends / sizeof *sends; i++)
        CHECK(rp_broker_put_topic(fx.broker, text(sends[i].topic), 1, 1, 6, 0, RETRY_FLAGS) == RP_OK);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    number_text queue;
    for (size_t i = 0; i < sizeof sends / sizeof *sends; i++) {
        rp_command request = retry_request(&c, &sends[i], &queue);
        expect_punt(&fx, &c, &request);
    }
    static const char *const without[] = {"a", "c", "d"};
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        rp_command request = retry_request(&c, &(retry_send){.topic = RETRY}, &queue);
        for (uint16_t f = 0; f < request.field_count; f++)
            request.fields[f].key = slice_is(request.fields[f].key, without[i]) ? text("zz") : request.fields[f].key;
        expect_punt(&fx, &c, &request);
    }
    rp_command reply = send_request_v2(&c, RP_CODE_SEND_REPLY_MESSAGE_V2, RETRY, 0, NULL, text("reply"), &queue);
    expect_punt(&fx, &c, &reply);
    CHECK(end_of(&fx, RETRY, 0) == 0 && end_of(&fx, "%RETRY%H", 0) == 0);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

typedef struct step {
    void (*change)(fixture *fx);
    bool is_stored;
} step;

static void lock_group(fixture *fx) { rp_broker_set_locked(fx->broker, text("G"), 1); }
static void unlock_group(fixture *fx) { rp_broker_set_locked(fx->broker, text("G"), 0); }
static void unlock_others(fixture *fx) { rp_broker_set_locked(fx->broker, text("never seen"), 0); }
static void take_retries(fixture *fx) { CHECK(rp_broker_set_retries(fx->broker, text("G"), 0, 2) == RP_OK); }
static void give_retries(fixture *fx) { CHECK(rp_broker_set_retries(fx->broker, text("G"), 1, 2) == RP_OK); }
static void delete_group(fixture *fx) { rp_broker_delete_group(fx->broker, text("G")); }
static void make_group(fixture *fx) { CHECK(rp_broker_put_group(fx->broker, text("G"), 1, 1, 0, 1, 0) == RP_OK); }
static void delete_topic(fixture *fx) { rp_broker_delete_topic(fx->broker, text(RETRY)); }
static void put_unsaved(fixture *fx) {
    CHECK(rp_broker_put_topic(fx->broker, text(RETRY), 1, 1, 6, 0, RETRY_FLAGS & ~RP_TOPIC_RETRY_SEND) == RP_OK);
}
static void put_saved(fixture *fx) { CHECK(rp_broker_put_topic(fx->broker, text(RETRY), 1, 1, 6, 0, RETRY_FLAGS) == RP_OK); }

static void what_the_tables_say_of_group_and_topic_counts_from_then_on(void) {
    static const step steps[] = {
        {lock_group, false},  {unlock_others, false}, {unlock_group, true}, {take_retries, false},
        {give_retries, true}, {delete_group, false},  {make_group, true},   {put_unsaved, false},
        {put_saved, true},    {delete_topic, false},  {put_saved, true},
    };
    fixture fx;
    fixture_init(&fx);
    open_with_retries(&fx);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        number_text queue;
        rp_command request = retry_request(&c, &(retry_send){.topic = RETRY, .times = "1"}, &queue);
        steps[i].change(&fx);
        if (steps[i].is_stored)
            CHECK(client_call(&c, &request).code == 0);
        else
            expect_punt(&fx, &c, &request);
    }
    CHECK(rp_broker_set_retries(fx.broker, text(""), 1, 1) == RP_E_INVALID);
    CHECK(rp_broker_set_retries(fx.broker, text("G"), -1, 1) == RP_E_INVALID);
    CHECK(rp_broker_set_retries(fx.broker, text("G"), RP_TOPIC_QUEUES_MAX + 1, 1) == RP_E_INVALID);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

/* Groups begin as locked: whoever made one may not have heard yet of a client that reads in order. */
static void a_new_group_is_looked_at_first(void) {
    fixture fx;
    fixture_init(&fx);
    open_with_retries(&fx);
    CHECK(rp_broker_set_retries(fx.broker, text("H"), 1, 2) == RP_OK);
    CHECK(rp_broker_put_group(fx.broker, text("H"), 1, 1, 0, 1, 0) == RP_OK);
    CHECK(rp_broker_put_topic(fx.broker, text("%RETRY%H"), 1, 1, 6, 0, RETRY_FLAGS) == RP_OK);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    number_text queue;
    rp_command request = retry_request(&c, &(retry_send){.topic = "%RETRY%H"}, &queue);
    expect_punt(&fx, &c, &request);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

/* What a consumer of 4.6.0 received was once prepared, and says so: not prepared again, but refused where all transactions are. */
static void what_was_prepared_is_stored_only_where_transactions_are_taken(void) {
    static const char was_prepared[] = "TRAN_MSG\1true\2DELAY\0013\2";
    fixture fx;
    fixture_init(&fx);
    open_with_retries(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    number_text queue;
    rp_command request = retry_request(&c, &(retry_send){.topic = RETRY, .times = "1", .properties = was_prepared}, &queue);
    CHECK(client_call(&c, &request).code == 0 && end_of(&fx, "SCHEDULE_TOPIC_XXXX", 2) == 1);
    fx.settings.transaction_enable = 0;
    rp_broker_set_settings(fx.broker, &fx.settings);
    expect_punt(&fx, &c, &request);
    rp_command plain = retry_request(&c, &(retry_send){.topic = RETRY, .times = "1"}, &queue);
    CHECK(client_call(&c, &plain).code == 0);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

int main(void) {
    RUN(what_may_have_another_try_is_stored);
    RUN(the_long_spelling_says_how_many_tries_there_are_too);
    RUN(what_has_had_its_tries_or_cannot_be_read_is_pythons);
    RUN(what_the_tables_say_of_group_and_topic_counts_from_then_on);
    RUN(a_new_group_is_looked_at_first);
    RUN(what_was_prepared_is_stored_only_where_transactions_are_taken);
    return 0;
}
