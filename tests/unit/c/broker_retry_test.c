/* broker_retry_test.c: retries of consumers: which sends to retry topics, and which messages sent back, need no Python. */
#include "base/clock.h"
#include "cold_disk.h"
#include "../../../csrc/store/commit_log_inl.h"
#include "stored_messages.h"

#define DELAYED "SCHEDULE_TOPIC_XXXX"
#define SENDERS 4
#define EACH 100

#define RETRY "%RETRY%G"
#define RETRY_FLAGS (RP_TOPIC_NATIVE_PULL | RP_TOPIC_CHECKED_SEND | RP_TOPIC_RETRY_SEND)

/* Puts a group that allows two tries, and has no locked queues. */
static void open_with_retries(fixture *fx) {
    fx->store_options.delay_levels = "1h 1h 1h 1h";
    fixture_open(fx);
    CHECK(rp_broker_put_topic(fx->broker, text(DELAYED), 18, 18, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
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
    const char *times, *most, *batch, *topic_queues; /* NULL: the field's value in a plain send */
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
        CHECK(client_call(&c, &delayed).code == 0 && end_of(&fx, RETRY, 0) == end && end_of(&fx, DELAYED, 2) == type + 1);
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
    request.version = 121;
    CHECK(client_call(&c, &request).code == 0 && end_of(&fx, RETRY, 0) == 2);
    request.version = 120; /* a client of 3.4.8, whose maxReconsumeTimes is ignored */
    expect_punt(&fx, &c, &request);
    request = long_request(&c, NULL);
    expect_punt(&fx, &c, &request);
    CHECK(end_of(&fx, RETRY, 0) == 2);
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
static void check_rights(fixture *fx) {
    CHECK(rp_broker_put_topic(fx->broker, text(RETRY), 1, 1, 6, 0, RETRY_FLAGS | RP_TOPIC_CHECKED_BACK) == RP_OK);
}

static void what_the_tables_say_of_group_and_topic_counts_from_then_on(void) {
    static const step steps[] = {
        {lock_group, false},  {unlock_others, false}, {unlock_group, true}, {take_retries, false},
        {give_retries, true}, {delete_group, false},  {make_group, true},   {put_unsaved, false},
        {put_saved, true},    {delete_topic, false},  {put_saved, true},    {check_rights, true},
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

/* A new group counts as locked, because the broker may not have heard yet of a client that reads in order. */
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

/* A message that a consumer of 4.6.0 sends back may still say that it was prepared. It is not prepared again, but refused where
 * transactions are refused. */
static void what_was_prepared_is_stored_only_where_transactions_are_taken(void) {
    static const char was_prepared[] = "TRAN_MSG\1true\2DELAY\0013\2";
    fixture fx;
    fixture_init(&fx);
    open_with_retries(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    number_text queue;
    rp_command request = retry_request(&c, &(retry_send){.topic = RETRY, .times = "1", .properties = was_prepared}, &queue);
    CHECK(client_call(&c, &request).code == 0 && end_of(&fx, DELAYED, 2) == 1);
    fx.settings.transaction_enable = 0;
    rp_broker_set_settings(fx.broker, &fx.settings);
    expect_punt(&fx, &c, &request);
    rp_command plain = retry_request(&c, &(retry_send){.topic = RETRY, .times = "1"}, &queue);
    CHECK(client_call(&c, &plain).code == 0);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

/* ---- messages sent back ---- */

typedef struct back {
    const char *group, *level, *most, *topic; /* NULL: G, level 0, the field left out, T */
    int64_t shift;                            /* added to the log offset */
    int32_t version;                          /* 0: today's */
} back;

static int64_t log_offset_of(const fixture *fx, int64_t offset) {
    rp_message message;
    void *pin = read_message(fx, "T", 0, offset, &message, NULL);
    rp_log_range_release(pin);
    return message.physical_offset;
}

static int64_t log_end(const fixture *fx) { return rp_commit_log_max_offset(rp_message_store_commit_log(fx->store)); }

static rp_command back_request(client *c, const back *back, int64_t log_offset, number_text *offset) {
    rp_command request = request_of(c, RP_CODE_CONSUMER_SEND_MSG_BACK);
    request.version = back->version != 0 ? back->version : request.version;
    with_text(&request, "offset", number_of(offset, log_offset + back->shift));
    with_text(&request, "group", back->group != NULL ? back->group : "G");
    with_text(&request, "delayLevel", back->level != NULL ? back->level : "0");
    with_text(&request, "originTopic", back->topic != NULL ? back->topic : "T");
    with_text(&request, "originMsgId", "an id");
    with_text(&request, "unitMode", "false");
    if (back->most != NULL)
        with_text(&request, "maxReconsumeTimes", back->most);
    return request;
}

/* The broker handled it natively, and its answer has no remark. */
static void expect_done(client *c, const rp_command *request) {
    rp_command response = client_call(c, request);
    CHECK(response.code == 0 && response.remark.size == 0 && response.field_count == 0 && response.body.size == 0);
}

typedef struct sent_back_count {
    uint64_t of_t, of_others;
} sent_back_count;

static int count_row(void *context, const rp_group_stats *stats) {
    sent_back_count *count = context;
    if (slice_is(stats->group, "G") && slice_is(stats->topic, "T"))
        count->of_t += stats->sent_back;
    else
        count->of_others += stats->sent_back;
    return 0;
}

static sent_back_count sent_back_of(const fixture *fx) {
    sent_back_count count = {0};
    rp_broker_each_group_stats(fx->broker, count_row, &count);
    return count;
}

/* A message of T that was tried so often, and where it is. */
static int64_t send_tried(const fixture *fx, client *c, const char *times) {
    number_text queue;
    rp_command request = send_request_v2(c, RP_CODE_SEND_MESSAGE_V2, "T", 0, "TAGS\1TagA\2UNIQ_KEY\1AB\2", text("work"), &queue);
    set_field(&request, "j", times);
    rp_command response = client_call(c, &request);
    CHECK(response.code == 0);
    return log_offset_of(fx, field_number(&response, "queueOffset"));
}

static void what_may_have_another_try_comes_back(void) {
    fixture fx;
    fixture_init(&fx);
    open_with_retries(&fx);
    for (uint8_t type = 0; type < 2; type++) {
        client c = client_open(&fx, type);
        number_text offset;
        int64_t place = send_tried(&fx, &c, "0");
        rp_command request = back_request(&c, &(back){.group = NULL}, place, &offset);
        expect_done(&c, &request);
        rp_message message;
        void *pin = read_message(&fx, DELAYED, 2, type, &message, NULL);
        CHECK(slice_is(message.body, "work") && message.reconsume_times == 1 && message.flag == 7);
        CHECK(property_is(&message, "RETRY_TOPIC", "T") && property_is(&message, "REAL_TOPIC", RETRY) &&
              property_is(&message, "DELAY", "3"));
        CHECK(property_is(&message, "REAL_QID", "0") && property_is(&message, "UNIQ_KEY", "AB") && property_is(&message, "TAGS", "TagA"));
        rp_log_range_release(pin);
        request = back_request(&c, &(back){.level = "1", .topic = "unknown"}, place, &offset);
        expect_done(&c, &request);
        CHECK(end_of(&fx, DELAYED, 0) == type + 1 && sent_back_of(&fx).of_t == 2 * ((uint64_t)type + 1)); /* it counts for T all the same */
        request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, "RETRY_TOPIC\1U\2", text("again"), &offset);
        CHECK(client_call(&c, &request).code == 0);
        request = back_request(&c, &(back){.level = "2"}, log_offset_of(&fx, 2 * type + 1), &offset);
        expect_done(&c, &request);
        CHECK(sent_back_of(&fx).of_others == (uint64_t)type); /* U counts only once it exists */
        CHECK(rp_broker_put_topic(fx.broker, text("U"), 1, 1, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
        client_close(&c);
    }
    CHECK(sent_back_of(&fx).of_t == 4 && end_of(&fx, DELAYED, 2) == 2);
    rp_broker_delete_group(fx.broker, text("G"));
    make_group(&fx);
    CHECK(sent_back_of(&fx).of_t == 0);
    drop_events(&fx);
    fixture_close(&fx);
}

static void tries_are_the_clients_if_it_is_new_enough(void) {
    static const struct {
        back back;
        bool is_done;
    } cases[] = {
        {{.most = NULL}, false}, {{.most = "3"}, true},   {{.most = "3", .version = 121}, true}, {{.most = "3", .version = 120}, false},
        {{.most = "2"}, false},  {{.most = "-1"}, false},
    };
    fixture fx;
    fixture_init(&fx);
    open_with_retries(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    int64_t place = send_tried(&fx, &c, "2"), end = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        number_text offset;
        rp_command request = back_request(&c, &cases[i].back, place, &offset);
        if (cases[i].is_done)
            expect_done(&c, &request);
        else
            expect_punt(&fx, &c, &request);
        end += cases[i].is_done;
        CHECK(end_of(&fx, DELAYED, 4 - 1) == end); /* the third try's, as there is no fifth level */
    }
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static void what_is_wrong_with_a_request_is_pythons_to_say(void) {
    char long_name[260];
    memset(long_name, 'g', sizeof long_name);
    long_name[255 - 7 + 1] = 0;
    const back cases[] = {
        {.group = "H"},
        {.group = ""},
        {.group = long_name},
        {.level = "-1"},
        {.level = "soon"},
        {.most = "many"},
        {.shift = 1},
        {.shift = -1},
        {.shift = 1 << 20},
        {.shift = INT64_C(1) << 40},
        {.shift = -(INT64_C(1) << 40)},
    };
    static const char *const needed[] = {"offset", "group", "delayLevel"};
    fixture fx;
    fixture_init(&fx);
    open_with_retries(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    number_text offset;
    int64_t place = send_tried(&fx, &c, "0"), end = log_end(&fx);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rp_command request = back_request(&c, &cases[i], place, &offset);
        expect_punt(&fx, &c, &request);
    }
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        rp_command request = back_request(&c, &(back){.group = NULL}, place, &offset);
        for (uint16_t f = 0; f < request.field_count; f++)
            request.fields[f].key = slice_is(request.fields[f].key, needed[i]) ? text("zz") : request.fields[f].key;
        expect_punt(&fx, &c, &request);
    }
    CHECK(log_end(&fx) == end && sent_back_of(&fx).of_t == 0);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static void put_settings(fixture *fx, int32_t role, int32_t permission, int32_t store_writable) {
    fx->settings.role = role;
    fx->settings.permission = permission;
    fx->settings.store_writable = store_writable;
    rp_broker_set_settings(fx->broker, &fx->settings);
}
static void become_slave(fixture *fx) { put_settings(fx, RP_ROLE_SLAVE, 6, 1); }
static void forbid_writing(fixture *fx) { put_settings(fx, RP_ROLE_ASYNC_MASTER, 4, 1); }
static void fill_disk(fixture *fx) { put_settings(fx, RP_ROLE_ASYNC_MASTER, 6, 0); }
static void serve_again(fixture *fx) { put_settings(fx, RP_ROLE_ASYNC_MASTER, 6, 1); }
static void forbid_topic(fixture *fx) { CHECK(rp_broker_put_topic(fx->broker, text(RETRY), 1, 1, 4, 0, RETRY_FLAGS) == RP_OK); }

/* As an append that has waited for the disk for a second. */
static void hold_log(fixture *fx) {
    rp_commit_log *log = rp_message_store_commit_log(fx->store);
    pthread_mutex_lock(&log->append_lock);
    atomic_store(&log->locked_ns, rp_clock_monotonic_ns(rp_clock_system()) - 1000000000);
}
static void release_log(fixture *fx) {
    rp_commit_log *log = rp_message_store_commit_log(fx->store);
    atomic_store(&log->locked_ns, 0);
    pthread_mutex_unlock(&log->append_lock);
}

/* Locks do not matter here: an orderly consumer sends nothing back. */
static void what_the_broker_cannot_take_just_now_is_pythons(void) {
    static const step steps[] = {
        {become_slave, false}, {serve_again, true},   {forbid_writing, false}, {serve_again, true},   {fill_disk, false},
        {serve_again, true},   {hold_log, false},     {release_log, true},     {forbid_topic, false}, {put_saved, true},
        {put_unsaved, false},  {put_saved, true},     {delete_topic, false},   {put_saved, true},     {take_retries, false},
        {give_retries, true},  {delete_group, false}, {make_group, true},      {lock_group, true},    {check_rights, false},
        {put_saved, true},
    };
    fixture fx;
    fixture_init(&fx);
    open_with_retries(&fx);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    int64_t place = send_tried(&fx, &c, "0");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        number_text offset;
        rp_command request = back_request(&c, &(back){.group = NULL}, place, &offset);
        steps[i].change(&fx);
        int64_t end = log_end(&fx);
        if (steps[i].is_stored)
            expect_done(&c, &request);
        else
            expect_punt(&fx, &c, &request);
        CHECK((log_end(&fx) > end) == steps[i].is_stored);
    }
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static void no_reactor_waits_for_a_message_that_is_on_disk(void) {
    cold_disk disk;
    fixture fx;
    prepare_over(&fx, &disk);
    open_with_retries(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    number_text offset;
    rp_command request = back_request(&c, &(back){.group = NULL}, send_tried(&fx, &c, "0"), &offset);
    expect_punt(&fx, &c, &request);
    CHECK(end_of(&fx, DELAYED, 2) == 0 && disk.begun == 0);
    keep_all_in_memory(&disk);
    expect_done(&c, &request);
    CHECK(end_of(&fx, DELAYED, 2) == 1);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

/* Returns how many requests came up to Python since the last call. */
static int count_punted(fixture *fx) {
    rp_request *request;
    int count = 0;
    while (rp_server_take(fx->server, &request, 1) == 1) {
        count += request->kind == RP_REQUEST_COMMAND;
        rp_request_free(request);
    }
    return count;
}

/* All reactors at once, while Python writes the tables that they read. Where an append has the log for too long, Python is asked. */
static void each_comes_back_once_whatever_the_tables_are_told_meanwhile(void) {
    fixture fx;
    fixture_init(&fx);
    fx.server_options.reactors = SENDERS;
    fx.store_options.commit_log_file_size = 4 << 20;
    open_with_retries(&fx);
    client senders[SENDERS];
    int64_t place = 0;
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = client_open(&fx, (uint8_t)(i % 2));
        place = send_tried(&fx, &senders[i], "0");
    }
    for (int number = 0; number < EACH; number++) {
        number_text offset;
        for (int i = 0; i < SENDERS; i++) {
            rp_command request = back_request(&senders[i], &(back){.group = NULL}, place, &offset);
            client_send(&senders[i], &request);
        }
        CHECK(rp_broker_set_retries(fx.broker, text("G"), 1 + number % 2, number % 16 + 1) == RP_OK);
        rp_broker_set_locked(fx.broker, text("G"), number % 2);
        make_group(&fx);
        put_saved(&fx);
    }
    int done = 0, punted = 0;
    for (int64_t until = now_ms() + WAIT_MS; done + punted < SENDERS * EACH; punted += count_punted(&fx)) {
        rp_command response;
        CHECK(now_ms() < until);
        for (int i = 0; i < SENDERS; i++) {
            while (client_receive(&senders[i], &response, 1) == 1) {
                CHECK(response.code == 0);
                done++;
            }
        }
    }
    CHECK(done > 0 && end_of(&fx, DELAYED, 2) == done && sent_back_of(&fx).of_t == (uint64_t)done);
    for (int i = 0; i < SENDERS; i++)
        client_close(&senders[i]);
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
    RUN(what_may_have_another_try_comes_back);
    RUN(tries_are_the_clients_if_it_is_new_enough);
    RUN(what_is_wrong_with_a_request_is_pythons_to_say);
    RUN(what_the_broker_cannot_take_just_now_is_pythons);
    RUN(no_reactor_waits_for_a_message_that_is_on_disk);
    RUN(each_comes_back_once_whatever_the_tables_are_told_meanwhile);
    return 0;
}
