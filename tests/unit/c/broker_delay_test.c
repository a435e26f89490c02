/* broker_delay_test.c: delayed messages and those sent back: what is stored for them, when they are delivered, and how a failing disk is
 * handled. */
#include <stdbool.h>

#include "broker/send_path.h"
#include "stored_messages.h"

#define SENDERS 4
#define EACH 300

static void open_with_levels(fixture *fx, const char *levels) {
    static const uint8_t host[] = {127, 0, 0, 1, 0, 0, 0x2A, 0x9F};
    memcpy(fx->store_options.store_host, host, sizeof host);
    fx->store_options.delay_levels = levels;
    fixture_open(fx);
    CHECK(rp_broker_put_topic(fx->broker, text(RP_DELAY_TOPIC), 18, 18, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
    CHECK(rp_broker_put_topic(fx->broker, text("%RETRY%G"), 1, 1, 6, 0, RP_TOPIC_NATIVE_PULL | RP_TOPIC_CHECKED_SEND) == RP_OK);
}

/* The delivering thread does it without a word, so the test has to look again and again. */
static void wait_end(const fixture *fx, const char *topic, int32_t queue_id, int64_t end) {
    for (int64_t until = now_ms() + WAIT_MS; end_of(fx, topic, queue_id) < end;) {
        CHECK(now_ms() < until);
        sched_yield();
    }
}

static void wait_position(const fixture *fx, int32_t level, int64_t wanted) {
    int64_t offset = -1, end;
    for (int64_t until = now_ms() + WAIT_MS; offset != wanted;) {
        CHECK(now_ms() < until && rp_broker_read_delay_offset(fx->broker, level, &offset, &end) == RP_OK);
        sched_yield();
    }
}

static void send_delayed(client *c, int32_t queue_id, const char *properties, const char *body) {
    number_text queue;
    rp_command request = send_request_v2(c, RP_CODE_SEND_MESSAGE_V2, "T", queue_id, properties, text(body), &queue);
    CHECK(client_call(c, &request).code == 0);
}

static void a_delayed_message_lies_in_its_levels_queue_until_it_is_due(void) {
    fixture fx;
    fixture_init(&fx);
    open_with_levels(&fx, "1h 2h");
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_delayed(&c, 2, "TAGS\1TagA\2REAL_QID\0019\2DELAY\001007\2TIMER_DELIVER_MS\0015\2UNIQ_KEY\1AB\2", "later");
    rp_message message;
    rp_queue_entry entry;
    void *pin = read_message(&fx, RP_DELAY_TOPIC, 1, 0, &message, &entry);
    CHECK(slice_is(message.topic, RP_DELAY_TOPIC) && message.queue_id == 1 && slice_is(message.body, "later"));
    CHECK(property_is(&message, "DELAY", "2") && property_is(&message, "REAL_TOPIC", "T") && property_is(&message, "REAL_QID", "2"));
    CHECK(property_is(&message, "TAGS", "TagA") && property_is(&message, "CLUSTER", "DefaultCluster"));
    CHECK(property_is(&message, "UNIQ_KEY", "AB") && property_is(&message, "TIMER_DELIVER_MS", NULL));
    CHECK(entry.tags_code == message.store_timestamp_ms + 2 * 3600 * 1000);
    rp_log_range_release(pin);
    CHECK(end_of(&fx, "T", 2) == 0 && end_of(&fx, RP_DELAY_TOPIC, 0) == 0);
    CHECK(rp_broker_start_delivery(fx.broker, NULL) == RP_OK && rp_broker_start_delivery(fx.broker, NULL) == RP_OK);
    rp_broker_stop_delivery(fx.broker);
    rp_broker_stop_delivery(fx.broker);
    CHECK(end_of(&fx, "T", 2) == 0);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

/* Level 1 is due at once. That must work whether the thread is looking, sleeping or just starting. */
static void what_senders_on_all_reactors_delay_comes_once_and_in_order(void) {
    fixture fx;
    fixture_init(&fx);
    fx.server_options.reactors = 4;
    fx.store_options.commit_log_file_size = 4 << 20;
    open_with_levels(&fx, "0s 1s");
    client senders[SENDERS];
    for (int i = 0; i < SENDERS; i++)
        senders[i] = client_open(&fx, (uint8_t)(i % 2));
    for (int number = 0; number < EACH; number++) {
        char body[16];
        if (number == EACH / 2)
            rp_broker_stop_delivery(fx.broker);
        if (number == EACH / 3 || number == EACH * 2 / 3)
            CHECK(rp_broker_start_delivery(fx.broker, NULL) == RP_OK);
        snprintf(body, sizeof body, "%d", number);
        for (int i = 0; i < SENDERS; i++)
            send_delayed(&senders[i], i, number % 50 == 0 ? "DELAY\0012\2" : "DELAY\0011\2", body);
    }
    for (int i = 0; i < SENDERS; i++) {
        wait_end(&fx, "T", i, EACH);
        client_close(&senders[i]);
    }
    rp_broker_stop_delivery(fx.broker);
    int64_t offset, end;
    CHECK(rp_broker_read_delay_offset(fx.broker, 1, &offset, &end) == RP_OK && offset == end && end == SENDERS * (EACH - EACH / 50));
    for (int i = 0; i < SENDERS; i++) {
        int last[2] = {-1, -1};
        CHECK(end_of(&fx, "T", i) == EACH);
        for (int64_t at = 0; at < EACH; at++) {
            rp_message message;
            rp_queue_entry entry;
            void *pin = read_message(&fx, "T", i, at, &message, &entry);
            int64_t number;
            CHECK(rp_slice_to_i64(message.body, &number) == RP_OK && number > last[number % 50 == 0]);
            last[number % 50 == 0] = (int)number;
            rp_log_range_release(pin);
        }
        CHECK(last[0] == EACH - 1 && last[1] == EACH - 50);
    }
    drop_events(&fx);
    fixture_close(&fx);
}

static _Atomic bool is_full;
static _Atomic int refusals;

static int allocate_or_full(void *context, int fd, int64_t offset, int64_t size) {
    if (atomic_load(&is_full)) {
        atomic_fetch_add(&refusals, 1);
        errno = ENOSPC;
        return -1;
    }
    return rp_file_ops_system()->allocate(context, fd, offset, size);
}

/* No queue of "New" can be created; "T" works. Messages of "T" in the same batch must not be delivered a second time. */
static void what_a_full_disk_refuses_is_tried_again_and_the_rest_comes_once(void) {
    rp_file_ops full = *rp_file_ops_system();
    full.allocate = allocate_or_full;
    fixture fx;
    fixture_init(&fx);
    fx.store_options.file_ops = &full;
    open_with_levels(&fx, "0s");
    CHECK(rp_broker_put_topic(fx.broker, text("New"), 4, 4, 6, 0, RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL) == RP_OK);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    send_message(&c, "T", 0, NULL, "its queue has a file");
    for (int i = 0; i < 3; i++) {
        number_text queue;
        rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "New", i, "DELAY\0011\2", text("refused"), &queue);
        CHECK(client_call(&c, &request).code == 0);
        send_delayed(&c, 0, "DELAY\0011\2", "taken");
    }
    atomic_store(&is_full, true);
    CHECK(rp_broker_start_delivery(fx.broker, NULL) == RP_OK);
    wait_end(&fx, "T", 0, 4);
    int64_t offset, end, until = now_ms() + WAIT_MS;
    for (int before = atomic_load(&refusals); atomic_load(&refusals) < before + 9;) { /* three queues, three tries */
        CHECK(now_ms() < until);
        sched_yield();
    }
    CHECK(rp_broker_read_delay_offset(fx.broker, 1, &offset, &end) == RP_OK && offset == 0 && end == 6);
    CHECK(end_of(&fx, "T", 0) == 4);
    atomic_store(&is_full, false);
    wait_position(&fx, 1, 6);
    CHECK(end_of(&fx, "T", 0) == 4 && end_of(&fx, "New", 0) == 1 && end_of(&fx, "New", 1) == 1 && end_of(&fx, "New", 2) == 1);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

/* "Spare" is deleted at last, so that there may be a file for "New". */
static void what_would_be_one_file_too_many_holds_nobody_up(void) {
    fixture fx;
    fixture_init(&fx);
    fx.store_options.queue_files_max = 3; /* of T/0, Spare/0 and the level */
    open_with_levels(&fx, "0s");
    CHECK(rp_broker_put_topic(fx.broker, text("New"), 4, 4, 6, 0, RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL) == RP_OK);
    CHECK(rp_broker_put_topic(fx.broker, text("Spare"), 4, 4, 6, 0, RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL) == RP_OK);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    send_message(&c, "T", 0, NULL, "its queue has a file");
    send_message(&c, "Spare", 0, NULL, "and so has this one's");
    number_text queue;
    rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "New", 0, "DELAY\0011\2", text("set aside"), &queue);
    CHECK(client_call(&c, &request).code == 0);
    for (int i = 0; i < 100; i++)
        send_delayed(&c, 0, "DELAY\0011\2", "taken");
    request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "New", 0, NULL, text("refused"), &queue);
    rp_command answer = client_call(&c, &request);
    CHECK(answer.code == 1 && slice_is(answer.remark, "create mapped file failed, server is busy or broken."));
    CHECK(rp_broker_start_delivery(fx.broker, NULL) == RP_OK);
    wait_end(&fx, "T", 0, 101);
    CHECK(end_of(&fx, "New", 0) == 0);
    CHECK(rp_message_store_delete_topic(fx.store, text("Spare"), NULL) == RP_OK);
    wait_end(&fx, "New", 0, 1);
    wait_position(&fx, 1, 101);
    rp_broker_stop_delivery(fx.broker);
    CHECK(end_of(&fx, "T", 0) == 101 && end_of(&fx, "New", 0) == 1);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static void positions_are_put_where_the_queue_is(void) {
    fixture fx;
    fixture_init(&fx);
    open_with_levels(&fx, "0s 0s");
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    for (int i = 0; i < 3; i++)
        send_delayed(&c, 0, "DELAY\0011\2", "x");
    CHECK(rp_broker_put_delay_offset(fx.broker, 1, 2) == RP_OK && rp_broker_put_delay_offset(fx.broker, 2, 1 << 20) == RP_OK);
    CHECK(rp_broker_put_delay_offset(fx.broker, 0, 1) == RP_E_INVALID && rp_broker_put_delay_offset(fx.broker, 3, 1) == RP_E_INVALID);
    CHECK(rp_broker_put_delay_offset(fx.broker, 1, -1) == RP_E_INVALID);
    CHECK(rp_broker_start_delivery(fx.broker, NULL) == RP_OK);
    wait_position(&fx, 1, 3);
    CHECK(end_of(&fx, "T", 0) == 1);
    send_delayed(&c, 1, "DELAY\0012\2", "of a level whose position was past its end");
    wait_end(&fx, "T", 1, 1);
    rp_broker_stop_delivery(fx.broker);
    CHECK(rp_broker_put_delay_offset(fx.broker, 2, 5) == RP_OK && rp_broker_start_delivery(fx.broker, NULL) == RP_OK);
    send_delayed(&c, 1, "DELAY\0012\2", "again");
    wait_end(&fx, "T", 1, 2);
    int64_t offset, end;
    CHECK(rp_broker_read_delay_offset(fx.broker, 0, &offset, &end) == RP_E_NOT_FOUND);
    CHECK(rp_broker_read_delay_offset(fx.broker, 3, &offset, &end) == RP_E_NOT_FOUND);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static rp_send_back back_of(int64_t log_offset) {
    return (rp_send_back){
        .log_offset = log_offset, .retry_topic = text("%RETRY%G"), .dead_letter_topic = text("%DLQ%G"), .reconsume_times_max = 16};
}

/* Only a foreign log can hold such a message. The messages after it in its level must not wait for it. */
static void a_name_that_no_topic_can_have_holds_nobody_up(void) {
    static const char *const places[] = {"REAL_TOPIC\1a/b\2REAL_QID\0010\2", "REAL_TOPIC\1..\2REAL_QID\0010\2",
                                         "REAL_TOPIC\1T\2REAL_QID\0011\2"};
    fixture fx;
    fixture_init(&fx);
    open_with_levels(&fx, "0s");
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_delayed(&c, 0, "DELAY\0011\2", "makes the level's queue");
    rp_consume_queue *queue = rp_message_store_queue(fx.store, text(RP_DELAY_TOPIC), 0, 0, NULL);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        rp_append_item item = {.queue = queue, .born_host = {127, 0, 0, 1}, .body = text("due"), .properties = {text(places[i])}};
        CHECK(rp_commit_log_append(rp_message_store_commit_log(fx.store), &item, 1) == 1);
    }
    CHECK(rp_broker_start_delivery(fx.broker, NULL) == RP_OK);
    wait_position(&fx, 1, 4);
    CHECK(end_of(&fx, "T", 0) == 1 && end_of(&fx, "T", 1) == 1);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static void what_is_sent_back_is_stored_again_with_its_way(void) {
    fixture fx;
    fixture_init(&fx);
    open_with_levels(&fx, "1h 1h 1h 0s");
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_delayed(&c, 1, "TAGS\1TagA\2UNIQ_KEY\1AB\2", "work");
    rp_send_back request = back_of(0);
    CHECK(rp_broker_send_back(fx.broker, &request) == RP_SENT_BACK_TO_RETRY);
    rp_message message;
    rp_queue_entry entry;
    void *pin = read_message(&fx, RP_DELAY_TOPIC, 2, 0, &message, &entry);
    CHECK(message.reconsume_times == 1 && slice_is(message.body, "work") && message.flag == 7);
    CHECK(property_is(&message, "RETRY_TOPIC", "T") && property_is(&message, "WAIT", "false") && property_is(&message, "DELAY", "3"));
    CHECK(property_is(&message, "ORIGIN_MESSAGE_ID", "7F00000100002A9F0000000000000000"));
    CHECK(property_is(&message, "REAL_TOPIC", "%RETRY%G") && property_is(&message, "REAL_QID", "0"));
    request.log_offset = message.physical_offset;
    rp_log_range_release(pin);
    CHECK(rp_broker_send_back(fx.broker, &request) == RP_SENT_BACK_TO_RETRY); /* its second try, at level 4 */
    CHECK(rp_broker_start_delivery(fx.broker, NULL) == RP_OK);
    wait_end(&fx, "%RETRY%G", 0, 1);
    pin = read_message(&fx, "%RETRY%G", 0, 0, &message, &entry);
    CHECK(message.reconsume_times == 2 && property_is(&message, "ORIGIN_MESSAGE_ID", "7F00000100002A9F0000000000000000"));
    CHECK(entry.tags_code == 2598919 && property_is(&message, "RETRY_TOPIC", "T"));
    rp_log_range_release(pin);
    request.reconsume_times_max = 1;
    CHECK(rp_broker_send_back(fx.broker, &request) == RP_E_EXISTS);
    CHECK(rp_broker_put_topic(fx.broker, text("%DLQ%G"), 1, 1, 6, 0, RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL) == RP_OK);
    CHECK(rp_broker_send_back(fx.broker, &request) == RP_SENT_BACK_TO_DEAD_LETTERS);
    pin = read_message(&fx, "%DLQ%G", 0, 0, &message, &entry);
    CHECK(message.reconsume_times == 2 && property_is(&message, "DELAY", "0") && entry.tags_code == 2598919);
    rp_log_range_release(pin);
    int64_t end = rp_commit_log_max_offset(rp_message_store_commit_log(fx.store));
    const int64_t wrong[] = {1, -1, end, end - 1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        request = back_of(wrong[i]);
        CHECK(rp_broker_send_back(fx.broker, &request) == RP_E_NOT_FOUND);
    }
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

/* Its consumer goes on after this message, and would never get it again if it were lost. */
static void what_is_sent_back_is_synced_with_sync_flush(void) {
    fixture fx;
    fixture_init(&fx);
    fx.store_options.flush_mode = fx.settings.flush_mode = RP_FLUSH_SYNC;
    fx.store_options.flush_interval_ms = fx.store_options.flush_thorough_interval_ms = 3600000; /* only requests flush */
    open_with_levels(&fx, "1h 1h 1h");
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_message(&c, "T", 0, NULL, "work");
    rp_commit_log *log = rp_message_store_commit_log(fx.store);
    int64_t sent_end = rp_commit_log_max_offset(log);
    rp_send_back request = back_of(0);
    CHECK(rp_broker_send_back(fx.broker, &request) == RP_SENT_BACK_TO_RETRY);
    int64_t end = rp_commit_log_max_offset(log);
    CHECK(end > sent_end);
    for (int64_t until = now_ms() + WAIT_MS; rp_commit_log_flushed_offset(log) < end;) {
        CHECK(now_ms() < until);
        sched_yield();
    }
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static void retry_topics_take_what_python_has_looked_at(void) {
    fixture fx;
    fixture_init(&fx);
    open_with_levels(&fx, "0s");
    CHECK(rp_broker_start_delivery(fx.broker, NULL) == RP_OK);
    CHECK(rp_broker_put_topic(fx.broker, text("%DLQ%G"), 1, 1, 6, 0, RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL) == RP_OK);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    static const char *const topics[] = {"%RETRY%G", "%DLQ%G"};
    for (int found = RP_SEND_CAN_BE_STORED; found <= RP_SEND_IS_DEAD_LETTER; found++) {
        number_text queue;
        rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "%RETRY%G", 0, "TAGS\1TagA\2DELAY\0011\2", text("x"), &queue);
        client_send(&c, &request);
        CHECK(rp_server_resubmit(fx.server, take_punted(&fx), found) == RP_OK);
        rp_command answer;
        CHECK(client_receive(&c, &answer, WAIT_MS) == 1 && answer.code == 0 && field_number(&answer, "queueId") == 0);
        wait_end(&fx, topics[found - 1], 0, 1);
        rp_message message;
        rp_queue_entry entry;
        void *pin = read_message(&fx, topics[found - 1], 0, 0, &message, &entry);
        CHECK(property_is(&message, "DELAY", found == RP_SEND_IS_DEAD_LETTER ? "-1" : "1") && entry.tags_code == 2598919);
        rp_log_range_release(pin);
    }
    number_text queue;
    rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "Unknown", 0, NULL, text("x"), &queue);
    client_send(&c, &request);
    CHECK(rp_server_resubmit(fx.server, take_punted(&fx), RP_SEND_IS_DEAD_LETTER) == RP_OK);
    rp_command answer;
    CHECK(client_receive(&c, &answer, WAIT_MS) == 1 && answer.code == 1);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

int main(void) {
    RUN(a_delayed_message_lies_in_its_levels_queue_until_it_is_due);
    RUN(what_senders_on_all_reactors_delay_comes_once_and_in_order);
    RUN(what_a_full_disk_refuses_is_tried_again_and_the_rest_comes_once);
    RUN(what_would_be_one_file_too_many_holds_nobody_up);
    RUN(positions_are_put_where_the_queue_is);
    RUN(a_name_that_no_topic_can_have_holds_nobody_up);
    RUN(what_is_sent_back_is_stored_again_with_its_way);
    RUN(what_is_sent_back_is_synced_with_sync_flush);
    RUN(retry_topics_take_what_python_has_looked_at);
    return 0;
}
