/* broker_transaction_test.c: prepared messages: what is stored for them, what ending a transaction stores, which ones are undecided. */
#include <stdbool.h>

#include "../../../csrc/store/commit_log_inl.h"
#include "base/clock.h"
#include "broker/half_messages.h"
#include "broker/transactions.h"
#include "stored_messages.h"

#define HALF RP_HALF_TOPIC
#define PREPARED "TRAN_MSG\1true\2PGROUP\1P\2UNIQ_KEY\1AB\2TAGS\1TagA\2"
#define COMMIT RP_SYSFLAG_TRANSACTION_COMMIT
#define ROLL_BACK RP_SYSFLAG_TRANSACTION_ROLLBACK

static void open_with_transactions(fixture *fx) {
    fixture_open(fx);
    CHECK(rp_broker_put_topic(fx->broker, text(HALF), 1, 1, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
    CHECK(rp_broker_put_topic(fx->broker, text(RP_OP_TOPIC), 1, 1, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
}

static void send_prepared_to(client *c, const char *topic, int32_t queue_id, const char *properties, const char *body) {
    number_text queue;
    rp_command request = send_request_v2(c, RP_CODE_SEND_MESSAGE_V2, topic, queue_id, properties, text(body), &queue);
    for (uint16_t i = 0; i < request.field_count; i++) {
        if (slice_is(request.fields[i].key, "f")) /* sysFlag */
            request.fields[i].value = text("4");
    }
    rp_command answer = client_call(c, &request);
    CHECK(answer.code == 0 && field_number(&answer, "queueId") == queue_id);
}

static void send_prepared(client *c, int32_t queue_id, const char *properties, const char *body) {
    send_prepared_to(c, "T", queue_id, properties, body);
}

static int64_t log_offset_of(const fixture *fx, const char *topic, int64_t offset) {
    rp_queue_entry entry;
    rp_consume_queue *queue = rp_message_store_queue(fx->store, text(topic), 0, 0, NULL);
    CHECK(queue != NULL && rp_consume_queue_read(queue, offset, &entry, 1) == 1);
    return entry.commit_log_offset;
}

static rp_command end_request(client *c, number_text numbers[3], const char *group, int64_t queue_offset, int64_t log_offset,
                              int32_t decision, bool is_check) {
    rp_command request = request_of(c, RP_CODE_END_TRANSACTION);
    with_text(&request, "producerGroup", group);
    with_text(&request, "tranStateTableOffset", number_of(&numbers[0], queue_offset));
    with_text(&request, "commitLogOffset", number_of(&numbers[1], log_offset));
    with_text(&request, "commitOrRollback", number_of(&numbers[2], decision));
    with_text(&request, "fromTransactionCheck", is_check ? "true" : "false");
    with_text(&request, "msgId", "AB");
    return request;
}

/* END_TRANSACTION over the wire. */
static int32_t end_transaction(client *c, const char *group, int64_t queue_offset, int64_t log_offset, int32_t decision, bool is_check) {
    number_text numbers[3];
    rp_command request = end_request(c, numbers, group, queue_offset, log_offset, decision, is_check);
    return client_call(c, &request).code;
}

static void a_prepared_message_is_seen_when_it_is_committed(void) {
    fixture fx;
    fixture_init(&fx);
    open_with_transactions(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_prepared(&c, 2, PREPARED, "money");
    rp_message message;
    rp_queue_entry entry;
    void *pin = read_message(&fx, HALF, 0, 0, &message, &entry);
    int64_t log_offset = message.physical_offset;
    CHECK((message.sys_flag & RP_SYSFLAG_TRANSACTION_MASK) == 0 && slice_is(message.body, "money"));
    CHECK(property_is(&message, "REAL_TOPIC", "T") && property_is(&message, "REAL_QID", "2"));
    CHECK(property_is(&message, "__transactionId__", "AB") && property_is(&message, "CLUSTER", "DefaultCluster"));
    rp_log_range_release(pin);
    CHECK(end_of(&fx, "T", 2) == 0);
    CHECK(end_transaction(&c, "P", 0, log_offset, COMMIT, false) == 0);
    pin = read_message(&fx, "T", 2, 0, &message, &entry);
    CHECK((message.sys_flag & RP_SYSFLAG_TRANSACTION_MASK) == COMMIT && message.prepared_transaction_offset == log_offset);
    CHECK(slice_is(message.body, "money") && message.flag == 7 && entry.tags_code == 2598919 && message.queue_id == 2);
    rp_log_range_release(pin);
    pin = read_message(&fx, RP_OP_TOPIC, 0, 0, &message, &entry);
    CHECK(slice_is(message.body, "0") && property_is(&message, "TAGS", "d") && entry.tags_code == 100);
    rp_log_range_release(pin);
    send_prepared(&c, 3, PREPARED, "not seen");
    CHECK(end_transaction(&c, "P", 1, log_offset_of(&fx, HALF, 1), ROLL_BACK, true) == 0);
    CHECK(end_of(&fx, "T", 3) == 0 && end_of(&fx, RP_OP_TOPIC, 0) == 2);
    rp_broker_stats stats;
    rp_broker_read_stats(fx.broker, &stats);
    CHECK(stats.messages_in == 2 && stats.puts_inside == 1);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static void a_delayed_one_goes_by_its_level(void) {
    fixture fx;
    fixture_init(&fx);
    fx.store_options.delay_levels = "0s 1h";
    open_with_transactions(&fx);
    CHECK(rp_broker_put_topic(fx.broker, text(RP_DELAY_TOPIC), 18, 18, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    send_prepared(&c, 1, PREPARED "DELAY\0012\2", "later");
    CHECK(end_of(&fx, RP_DELAY_TOPIC, 1) == 0);
    CHECK(end_transaction(&c, "P", 0, log_offset_of(&fx, HALF, 0), COMMIT, false) == 0);
    rp_message message;
    rp_queue_entry entry;
    void *pin = read_message(&fx, RP_DELAY_TOPIC, 1, 0, &message, &entry);
    CHECK(property_is(&message, "DELAY", "2") && property_is(&message, "REAL_TOPIC", "T") && property_is(&message, "REAL_QID", "1"));
    CHECK(entry.tags_code == message.store_timestamp_ms + 3600 * 1000);
    rp_log_range_release(pin);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

/* A prepared message may name any topic. Only at its commit is the topic checked. */
static void a_timed_one_waits_for_its_time(void) {
    fixture fx;
    fixture_init(&fx);
    open_with_transactions(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_prepared(&c, 1, PREPARED "TIMER_DELAY_SEC\00160\2", "later");
    send_prepared(&c, 1, PREPARED "TIMER_DELAY_SEC\1x\2", "illegal");
    send_prepared(&c, 1, PREPARED "TIMER_DELAY_SEC\0010\2", "at once");
    CHECK(end_transaction(&c, "P", 0, log_offset_of(&fx, HALF, 0), COMMIT, false) == 1);
    fx.settings.timer_enable = 1;
    rp_broker_set_settings(fx.broker, &fx.settings);
    CHECK(end_transaction(&c, "P", 0, log_offset_of(&fx, HALF, 0), COMMIT, false) == 0);
    CHECK(end_transaction(&c, "P", 1, log_offset_of(&fx, HALF, 1), COMMIT, false) == 13);
    CHECK(end_transaction(&c, "P", 2, log_offset_of(&fx, HALF, 2), COMMIT, false) == 0);
    rp_message message;
    rp_queue_entry entry;
    void *pin = read_message(&fx, "rmq_sys_wheel_timer", 0, 0, &message, &entry);
    CHECK(slice_is(message.body, "later") && property_is(&message, "REAL_TOPIC", "T") && property_is(&message, "REAL_QID", "1"));
    CHECK(rp_message_property(message.properties, "TIMER_OUT_MS").data != NULL);
    CHECK((message.sys_flag & RP_SYSFLAG_TRANSACTION_MASK) == COMMIT);
    rp_log_range_release(pin);
    CHECK(end_of(&fx, "rmq_sys_wheel_timer", 0) == 1 && end_of(&fx, "T", 1) == 1 && end_of(&fx, RP_OP_TOPIC, 0) == 2);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static void what_cannot_be_ended_is_refused_and_nothing_is_stored(void) {
    fixture fx;
    fixture_init(&fx);
    fx.settings.transaction_timeout_ms = 1;
    open_with_transactions(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_message(&c, "T", 0, NULL, "plain");
    send_prepared(&c, 0, PREPARED, "first");
    send_prepared(&c, 0, PREPARED "CHECK_IMMUNITY_TIME_IN_SECONDS\1x\2", "too late");
    int64_t plain = log_offset_of(&fx, "T", 0), first = log_offset_of(&fx, HALF, 0), late = log_offset_of(&fx, HALF, 1);
    int64_t end = rp_commit_log_max_offset(rp_message_store_commit_log(fx.store));
    CHECK(end_transaction(&c, "other", 0, first, COMMIT, false) == 1 && end_transaction(&c, "P", 1, first, COMMIT, false) == 1);
    CHECK(end_transaction(&c, "P", 0, plain, COMMIT, false) == 1);
    CHECK(end_transaction(&c, "P", 1, late, COMMIT, false) == 604); /* too late: it was born long ago */
    CHECK(end_transaction(&c, "P", 0, first, 4, false) == 1);
    const char *remark;
    const int64_t wrong[] = {first + 1, -1, end, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        rp_end_transaction request = {text("P"), 0, wrong[i], COMMIT, 1};
        CHECK(rp_broker_end_transaction(fx.broker, &request, &remark) == 1 && remark != NULL);
    }
    CHECK(rp_commit_log_max_offset(rp_message_store_commit_log(fx.store)) == end);
    CHECK(end_transaction(&c, "P", 1, late, COMMIT, true) == 0 && end_of(&fx, "T", 0) == 2);
    rp_broker_delete_topic(fx.broker, text("T"));
    end = rp_commit_log_max_offset(rp_message_store_commit_log(fx.store));
    CHECK(end_transaction(&c, "P", 0, first, COMMIT, false) == 1);
    CHECK(rp_commit_log_max_offset(rp_message_store_commit_log(fx.store)) == end);
    CHECK(end_transaction(&c, "P", 0, first, ROLL_BACK, false) == 0);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

/* Sums with it would overflow, which the sanitizer tells. */
static void an_offset_that_no_log_has_is_left_to_python(void) {
    static const int64_t offsets[] = {INT64_MAX, INT64_MAX - 3, INT64_MAX - 100, INT64_MIN, -1};
    fixture fx;
    fixture_init(&fx);
    open_with_transactions(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_prepared(&c, 0, PREPARED, "m");
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        number_text numbers[3];
        rp_command request = end_request(&c, numbers, "P", 0, offsets[i], COMMIT, false);
        client_send(&c, &request);
        rp_request *punted = take_punted(&fx);
        CHECK(punted->command.code == RP_CODE_END_TRANSACTION);
        rp_request_free(punted);
    }
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

/* The producer chooses bornTimestamp, so it may be any number. */
static void one_that_was_born_before_all_time_is_too_late(void) {
    static const char *const births[] = {"-9223372036854775808", "0"};
    fixture fx;
    fixture_init(&fx);
    open_with_transactions(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    for (int i = 0; i < 2; i++) {
        number_text queue;
        rp_slice body = text("m");
        rp_command request =
            send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, PREPARED "CHECK_IMMUNITY_TIME_IN_SECONDS\00160\2", body, &queue);
        for (uint16_t j = 0; j < request.field_count; j++) {
            if (slice_is(request.fields[j].key, "g")) /* bornTimestamp */
                request.fields[j].value = text(births[i]);
        }
        CHECK(client_call(&c, &request).code == 0);
        int64_t log_offset = log_offset_of(&fx, HALF, i);
        fx.settings.transaction_timeout_ms = i == 0 ? 1 : INT64_MAX;
        rp_broker_set_settings(fx.broker, &fx.settings);
        CHECK(end_transaction(&c, "P", i, log_offset, COMMIT, false) == (i == 0 ? 604 : 0));
    }
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static int64_t needed(const fixture *fx, int64_t op_position, int64_t half_position, const int64_t *copied, size_t copied_count) {
    return rp_broker_needed_operation(fx->broker, op_position, half_position, copied, copied_count);
}

static void whoever_does_not_know_is_asked(void) {
    fixture fx;
    fixture_init(&fx);
    open_with_transactions(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    rp_undecided_half rows[8];
    int64_t scanned;
    CHECK(rp_broker_undecided_halves(fx.broker, 5, 5, rows, 8, &scanned) == 0 && needed(&fx, 5, 5, NULL, 0) == 5);
    for (int i = 0; i < 6; i++)
        send_prepared(&c, 1, i == 4 ? PREPARED "TRANSACTION_CHECK_TIMES\0013\2CHECK_IMMUNITY_TIME_IN_SECONDS\00160\2" : PREPARED, "m");
    for (int i = 0; i < 6; i += 2) {
        if (i != 4)
            CHECK(end_transaction(&c, "P", i, log_offset_of(&fx, HALF, i), COMMIT, false) == 0);
    }
    CHECK(rp_broker_undecided_halves(fx.broker, 0, 0, rows, 8, &scanned) == 4 && scanned == 6);
    const int64_t undecided[] = {1, 3, 4, 5};
    for (int i = 0; i < 4; i++) {
        CHECK(rows[i].queue_offset == undecided[i] && rows[i].log_offset == log_offset_of(&fx, HALF, undecided[i]));
        CHECK(rows[i].check_times == (i == 2 ? 3 : 0) && rows[i].immune_s == (i == 2 ? 60 : RP_HALF_NOT_IMMUNE));
    }
    CHECK(rp_broker_undecided_halves(fx.broker, 0, 0, rows, 2, &scanned) == 2 && scanned == 4);
    CHECK(rp_broker_undecided_halves(fx.broker, 0, 1, rows, 8, &scanned) == 5); /* the scan began after the first operation */
    CHECK(needed(&fx, 0, 0, NULL, 0) == 0 && needed(&fx, 0, 1, NULL, 0) == 1);
    CHECK(needed(&fx, 0, 3, NULL, 0) == 2 && needed(&fx, -7, 99, NULL, 0) == 2);
    const int64_t copied[] = {7, 2, 1};
    CHECK(needed(&fx, 0, 6, copied, 1) == 2 && needed(&fx, 0, 6, copied, 3) == 1 && needed(&fx, 0, 0, copied, 3) == 0);
    CHECK(rp_broker_undecided_halves(fx.broker, 99, 99, rows, 8, &scanned) == 0 && scanned == 6);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

typedef struct seen_counts {
    rp_half_count rows[4];
    int count, room;
} seen_counts;

static int see_count(void *context, const rp_half_count *count) {
    seen_counts *seen = context;
    seen->rows[seen->count++] = *count;
    return seen->count == seen->room;
}

static seen_counts counts_from(const fixture *fx, int64_t half_position, int64_t op_position, int room) {
    seen_counts seen = {.room = room};
    CHECK(rp_broker_each_half_count(fx->broker, half_position, op_position, see_count, &seen) == RP_OK);
    return seen;
}

static void what_waits_is_counted_by_topic(void) {
    fixture fx;
    fixture_init(&fx);
    open_with_transactions(&fx);
    CHECK(rp_broker_put_topic(fx.broker, text("U"), 8, 8, 6, 0, RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL) == RP_OK);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    CHECK(counts_from(&fx, 0, 0, 4).count == 0);
    for (int i = 0; i < 300; i++) /* more than are read at once */
        send_prepared(&c, 1, PREPARED, "m");
    send_prepared_to(&c, "U", 1, PREPARED, "m");
    for (int i = 0; i < 10; i++)
        CHECK(end_transaction(&c, "P", i, log_offset_of(&fx, HALF, i), i % 2 ? COMMIT : ROLL_BACK, false) == 0);
    seen_counts seen = counts_from(&fx, 0, 0, 4);
    int u = slice_is(seen.rows[0].topic, "U") ? 0 : 1;
    CHECK(seen.count == 2 && slice_is(seen.rows[u].topic, "U") && slice_is(seen.rows[1 - u].topic, "T"));
    CHECK(seen.rows[u].count == 1 && seen.rows[1 - u].count == 290);
    CHECK(counts_from(&fx, 0, 0, 1).count == 1); /* the callback ends the scan when it has seen enough */
    seen = counts_from(&fx, 299, 0, 4);
    CHECK(seen.count == 2 && seen.rows[0].count == 1 && seen.rows[1].count == 1);
    CHECK(counts_from(&fx, 999, 999, 4).count == 0);
    rp_broker_delete_topic(fx.broker, text("T"));
    seen = counts_from(&fx, 0, 0, 4);
    CHECK(seen.count == 1 && slice_is(seen.rows[0].topic, "U"));
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static void times_that_clients_made_up_are_bounded(void) {
    static const struct {
        int64_t begin_ms, end_ms, seconds;
        uint32_t class;
    } rows[] = {{0, 5999, 5, 0},
                {0, 6000, 6, 1},
                {INT64_MIN, INT64_MAX, INT32_MAX, 6},
                {INT64_MAX, INT64_MIN, 0, 0},
                {-1, INT64_MAX, INT32_MAX, 6},
                {0, 86401000, 86401, 6}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rp_durations durations = {0};
        rp_duration_counts counts;
        rp_durations_add(&durations, rp_end_seconds_max, rows[i].begin_ms, rows[i].end_ms);
        rp_durations_read(&durations, &counts);
        CHECK(counts.seconds == (uint64_t)rows[i].seconds && counts.classes[rows[i].class] == 1);
        rp_durations_reset(&durations);
        rp_durations_read(&durations, &counts);
        CHECK(counts.seconds == 0 && counts.classes[rows[i].class] == 0);
    }
    CHECK(rp_delay_seconds_max(0) == 60 && rp_delay_seconds_max(5) == 259200 && rp_delay_seconds_max(6) == INT32_MAX);
}

/* A copy is decided as soon as its original is. */
static void what_is_copied_keeps_what_it_was(void) {
    fixture fx;
    fixture_init(&fx);
    open_with_transactions(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_prepared(&c, 3, PREPARED, "m");
    int64_t first = log_offset_of(&fx, HALF, 0);
    rp_half_copy copy;
    CHECK(rp_broker_put_half_again(fx.broker, first, RP_HALF_IS_IMMUNE, 9, &copy) == RP_OK && copy.queue_offset == 1);
    CHECK(copy.question == NULL && copy.log_offset == log_offset_of(&fx, HALF, 1) && copy.first_offset == 0);
    rp_message message;
    rp_queue_entry entry;
    void *pin = read_message(&fx, HALF, 0, 1, &message, &entry);
    CHECK(property_is(&message, "TRAN_PREPARED_QUEUE_OFFSET", "0") && property_is(&message, "TRANSACTION_CHECK_TIMES", NULL));
    rp_log_range_release(pin);
    CHECK(rp_broker_put_half_again(fx.broker, copy.log_offset, RP_HALF_IS_IMMUNE, 9, &copy) == RP_OK && copy.queue_offset == 2);
    CHECK(end_transaction(&c, "P", 0, first, COMMIT, false) == 0);
    rp_undecided_half rows[8];
    int64_t scanned;
    CHECK(rp_broker_undecided_halves(fx.broker, 1, 0, rows, 8, &scanned) == 0 && scanned == 3);
    CHECK(rp_broker_undecided_halves(fx.broker, 1, 1, rows, 8, &scanned) == 2);
    CHECK(rp_broker_put_half_again(fx.broker, copy.log_offset, RP_HALF_IS_ASKED_FOR, 4, &copy) == RP_OK && copy.queue_offset == 3);
    CHECK(copy.first_offset == 0); /* its end may have been stored since the scan */
    rp_error error;
    must(rp_message_decode(copy.question, copy.question_size, RP_CHECK_BODY_CRC, &message, &error), &error, "decode question");
    CHECK(slice_is(message.topic, "T") && message.queue_id == 3 && message.queue_offset == 3 && slice_is(message.body, "m"));
    CHECK(message.physical_offset == copy.log_offset && property_is(&message, "TRANSACTION_CHECK_TIMES", "4") && message.flag == 7);
    free(copy.question);
    CHECK(end_transaction(&c, "P", 3, copy.log_offset, ROLL_BACK, true) == 0);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

/* Producers may pass on a received message with all its properties, or invent such properties. */
static void what_only_says_that_it_is_a_copy_is_none(void) {
    static const char *const said[] = {"0", "1", "3", "99", "-1", "9223372036854775808", "x"};
    fixture fx;
    fixture_init(&fx);
    open_with_transactions(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_prepared(&c, 0, PREPARED, "m");
    send_prepared(&c, 0, PREPARED, "another body");
    for (int64_t i = 0; i < 2; i++)
        CHECK(end_transaction(&c, "P", i, log_offset_of(&fx, HALF, i), COMMIT, false) == 0);
    for (int64_t i = 0; i < 7; i++) {
        char properties[256];
        rp_half_copy copy;
        rp_undecided_half row;
        rp_message message;
        rp_queue_entry entry;
        int64_t scanned, offset = 2 + 3 * i;
        snprintf(properties, sizeof properties, PREPARED "%sTRAN_PREPARED_QUEUE_OFFSET\1%s\2", i == 0 ? "UNIQ_KEY\1CD\2" : "", said[i]);
        send_prepared(&c, 0, properties, "m");
        CHECK(rp_broker_undecided_halves(fx.broker, offset, 0, &row, 1, &scanned) == 1 && row.queue_offset == offset);
        CHECK(rp_broker_put_half_again(fx.broker, row.log_offset, RP_HALF_IS_ASKED_FOR, 1, &copy) == RP_OK && copy.first_offset == -1);
        free(copy.question);
        CHECK(end_transaction(&c, "P", offset + 1, copy.log_offset, COMMIT, false) == 0);
        CHECK(rp_broker_put_half_again(fx.broker, row.log_offset, RP_HALF_IS_IMMUNE, 0, &copy) == RP_OK && copy.first_offset == offset);
        number_text first;
        void *pin = read_message(&fx, HALF, 0, copy.queue_offset, &message, &entry);
        CHECK(property_is(&message, "TRAN_PREPARED_QUEUE_OFFSET", number_of(&first, offset)));
        rp_log_range_release(pin);
        CHECK(end_transaction(&c, "P", offset, row.log_offset, COMMIT, false) == 0);
        CHECK(rp_broker_undecided_halves(fx.broker, offset, 0, &row, 1, &scanned) == 0);
    }
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static void what_is_given_up_may_be_asked_about_again(void) {
    fixture fx;
    fixture_init(&fx);
    open_with_transactions(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    static const char given_up[] = "TRANS_CHECK_MAX_TIME_TOPIC";
    send_prepared(&c, 0, PREPARED "TRANSACTION_CHECK_TIMES\00115\2", "m");
    rp_half_copy copy;
    int64_t first = log_offset_of(&fx, HALF, 0);
    CHECK(rp_broker_put_half_again(fx.broker, first, RP_HALF_IS_GIVEN_UP, 0, &copy) == RP_E_EXISTS);
    CHECK(rp_broker_put_topic(fx.broker, text(given_up), 1, 1, 6, 0, RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL) == RP_OK);
    CHECK(rp_broker_put_half_again(fx.broker, first, RP_HALF_IS_RESUMED, 0, &copy) == RP_E_NOT_FOUND);
    CHECK(rp_broker_put_half_again(fx.broker, first + 1, RP_HALF_IS_GIVEN_UP, 0, &copy) == RP_E_NOT_FOUND);
    CHECK(rp_broker_put_half_again(fx.broker, first, RP_HALF_IS_GIVEN_UP, 0, &copy) == RP_OK && copy.question == NULL);
    CHECK(copy.first_offset == -1);
    rp_message message;
    rp_queue_entry entry;
    void *pin = read_message(&fx, given_up, 0, 0, &message, &entry);
    CHECK(property_is(&message, "TRANSACTION_CHECK_TIMES", "15") && property_is(&message, "REAL_TOPIC", "T"));
    rp_log_range_release(pin);
    CHECK(rp_broker_put_half_again(fx.broker, copy.log_offset, RP_HALF_IS_RESUMED, 0, &copy) == RP_OK);
    pin = read_message(&fx, HALF, 0, 1, &message, &entry);
    CHECK(property_is(&message, "TRANSACTION_CHECK_TIMES", "0"));
    rp_log_range_release(pin);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

/* As an append that has waited for the disk for so long. */
static void hold_log(rp_commit_log *log, int64_t held_ms) {
    pthread_mutex_lock(&log->append_lock);
    atomic_store(&log->locked_ns, rp_clock_monotonic_ns(rp_clock_system()) - held_ms * 1000000);
}

static void release_log(rp_commit_log *log) {
    atomic_store(&log->locked_ns, 0);
    pthread_mutex_unlock(&log->append_lock);
}

static void a_decision_does_not_hold_its_reactor_up_behind_an_append_that_hangs(void) {
    fixture fx;
    fixture_init(&fx);
    open_with_transactions(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_prepared(&c, 0, PREPARED, "m");
    rp_commit_log *log = rp_message_store_commit_log(fx.store);
    int64_t first = log_offset_of(&fx, HALF, 0);
    number_text numbers[3];
    hold_log(log, 1000);
    rp_command request = end_request(&c, numbers, "P", 0, first, COMMIT, false);
    client_send(&c, &request);
    rp_request *punted = take_punted(&fx); /* while the log is held */
    CHECK(punted->command.code == RP_CODE_END_TRANSACTION);
    rp_request_free(punted);
    release_log(log);
    hold_log(log, 40000);
    CHECK(end_transaction(&c, "P", 0, first, COMMIT, false) == 1);
    release_log(log);
    CHECK(end_of(&fx, "T", 0) == 0 && end_transaction(&c, "P", 0, first, COMMIT, false) == 0 && end_of(&fx, "T", 0) == 1);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static void who_may_not_send_them_is_told_by_python(void) {
    fixture fx;
    fixture_init(&fx);
    fx.settings.transaction_enable = 0;
    open_with_transactions(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    number_text queue;
    rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, PREPARED, text("m"), &queue);
    client_send(&c, &request);
    rp_request_free(take_punted(&fx));
    CHECK(end_of(&fx, HALF, 0) == 0);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

int main(void) {
    RUN(a_prepared_message_is_seen_when_it_is_committed);
    RUN(a_delayed_one_goes_by_its_level);
    RUN(a_timed_one_waits_for_its_time);
    RUN(what_cannot_be_ended_is_refused_and_nothing_is_stored);
    RUN(an_offset_that_no_log_has_is_left_to_python);
    RUN(one_that_was_born_before_all_time_is_too_late);
    RUN(whoever_does_not_know_is_asked);
    RUN(what_waits_is_counted_by_topic);
    RUN(times_that_clients_made_up_are_bounded);
    RUN(what_is_copied_keeps_what_it_was);
    RUN(what_only_says_that_it_is_a_copy_is_none);
    RUN(what_is_given_up_may_be_asked_about_again);
    RUN(a_decision_does_not_hold_its_reactor_up_behind_an_append_that_hangs);
    RUN(who_may_not_send_them_is_told_by_python);
    return 0;
}
