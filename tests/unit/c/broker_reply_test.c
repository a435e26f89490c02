/* broker_reply_test.c: replies to requests: who gets them, what is stored, what their sender is answered, and when. */
#include "reply_clients.h"
#include "stored_messages.h"

static void check_stored(fixture *fx, int64_t offset, const char *body) {
    rp_queue_entry entry;
    rp_message message;
    void *pin = read_message(fx, "T", 2, offset, &message, &entry);
    CHECK(entry.tags_code == 2598919);
    CHECK(slice_is(message.body, body) && slice_is(message.topic, "T") && message.flag == 7 && message.queue_offset == offset);
    CHECK(slice_is(rp_message_property(message.properties, "REPLY_TO_CLIENT"), REQUESTER));
    CHECK(slice_is(rp_message_property(message.properties, "MSG_REGION"), "DefaultRegion"));
    CHECK(slice_is(rp_message_property(message.properties, "TRACE_ON"), "true"));
    CHECK(rp_message_property(message.properties, "CLUSTER").data == NULL && "5.3.3 gives it to sends only");
    CHECK(rp_message_property(message.properties, "PUSH_REPLY_TIME").data == NULL && "it is stored as it came");
    rp_log_range_release(pin);
}

static void check_pushed(const rp_command *push, const char *body) {
    static const char *const fields[][2] = {
        {"producerGroup", "PG"}, {"topic", "T"},        {"defaultTopic", "TBW102"},         {"defaultTopicQueueNums", "4"},
        {"queueId", "2"},        {"sysFlag", "0"},      {"bornTimestamp", "1700000000123"}, {"flag", "7"},
        {"reconsumeTimes", "0"}, {"unitMode", "false"}, {"storeHost", "127.0.0.1:10911"}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        CHECK(slice_is(rp_command_field(push, fields[i][0]), fields[i][1]));
    CHECK(slice_starts(rp_command_field(push, "bornHost"), "127.0.0.1:"));
    CHECK(field_number(push, "storeTimestamp") > INT64_C(1700000000000));
    CHECK(slice_is(push->body, body));
    rp_slice properties = rp_command_field(push, "properties");
    CHECK(slice_is(rp_message_property(properties, "CORRELATION_ID"), "c-1"));
    CHECK(slice_is(rp_message_property(properties, "MSG_REGION"), "DefaultRegion"));
    CHECK(slice_is(rp_message_property(properties, "TRACE_ON"), "true"));
    int64_t pushed_ms;
    CHECK(rp_slice_to_i64(rp_message_property(properties, "PUSH_REPLY_TIME"), &pushed_ms) == RP_OK);
    CHECK(pushed_ms == field_number(push, "storeTimestamp"));
}

static void check_answer(const rp_command *answer, int32_t opaque, int64_t offset) {
    CHECK(answer->code == SUCCESS && answer->remark.data == NULL && answer->opaque == opaque);
    CHECK(field_number(answer, "queueId") == 2 && field_number(answer, "queueOffset") == offset);
    rp_slice id = rp_command_field(answer, "msgId");
    CHECK(id.size == 32 && slice_starts(id, "7F00000100002A9F"));
    CHECK(rp_command_field(answer, "transactionId").data == NULL);
}

static void a_reply_is_pushed_stored_and_answered_in_both_encodings_and_spellings(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    int64_t offset = 0;
    for (uint8_t type = 0; type < 2; type++) {
        client requester = open_requester(&fx, type), replier = open_replier(&fx, type);
        number_text queue;
        rp_command v2 = reply_of(&replier, PROPERTIES, "hello", &queue);
        client_send(&replier, &v2);
        rp_command push = receive_push(&requester);
        check_pushed(&push, "hello");
        answer_push(&requester, push.opaque, SUCCESS);
        rp_command answer = receive(&replier);
        check_answer(&answer, v2.opaque, offset);
        check_stored(&fx, offset++, "hello");
        rp_command v1 = request_of(&replier, RP_CODE_SEND_REPLY_MESSAGE);
        static const char *const pairs[][2] = {
            {"producerGroup", "PG"},   {"topic", "T"},   {"defaultTopic", "TBW102"},         {"defaultTopicQueueNums", "4"},
            {"queueId", "2"},          {"sysFlag", "0"}, {"bornTimestamp", "1700000000123"}, {"flag", "7"},
            {"properties", PROPERTIES}};
        for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
            with_text(&v1, pairs[i][0], pairs[i][1]);
        v1.body = text("world");
        client_send(&replier, &v1);
        push = receive_push(&requester);
        check_pushed(&push, "world");
        answer_push(&requester, push.opaque, SUCCESS);
        answer = receive(&replier);
        check_answer(&answer, v1.opaque, offset);
        check_stored(&fx, offset++, "world");
        client_close(&replier);
        client_close(&requester);
    }
    rp_broker_stats stats;
    rp_broker_read_stats(fx.broker, &stats);
    CHECK(stats.replies == 4 && stats.replies_failed == 0 && stats.replies_pending_now == 0 && stats.messages_in == 4);
    drop_events(&fx);
    fixture_close(&fx);
}

static void a_reply_to_nobody_is_stored_and_said_so(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client replier = open_replier(&fx, RP_SERIALIZE_JSON);
    send_reply(&replier, "lost");
    rp_command answer = receive(&replier);
    check_remark(&answer, SYSTEM_ERROR, "push reply message fail, channel of <" REQUESTER "> not found.");
    CHECK(field_number(&answer, "queueOffset") == 0 && rp_command_field(&answer, "msgId").size == 32);
    check_stored(&fx, 0, "lost");
    client requester = open_requester(&fx, RP_SERIALIZE_JSON);
    rp_broker_delete_producer(fx.broker, text(REQUESTER));
    rp_broker_delete_producer(fx.broker, text(REQUESTER));
    send_reply(&replier, "too late");
    answer = receive(&replier);
    check_remark(&answer, SYSTEM_ERROR, "push reply message fail, channel of <" REQUESTER "> not found.");
    number_text queue;
    static const char *const without[] = {NULL, "", "REPLY_TO_CLIENT\1\2", "REPLY_TO_CLIENT\2", "TAGS\1REPLY_TO_CLIENT\2"};
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++) {
        rp_command request = reply_of(&replier, without[i], "to whom", &queue);
        answer = client_call(&replier, &request);
        check_remark(&answer, SYSTEM_ERROR, "reply message properties[REPLY_TO_CLIENT] is null");
        CHECK(rp_command_field(&answer, "msgId").size == 32);
    }
    client_close(&requester);
    client_close(&replier);
    drop_events(&fx);
    fixture_close(&fx);
}

static void what_a_requester_refuses_or_ends_before_is_answered_at_once(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client requester = open_requester(&fx, RP_SERIALIZE_JSON), replier = open_replier(&fx, RP_SERIALIZE_ROCKETMQ);
    send_reply(&replier, "a");
    answer_push(&requester, receive_push(&requester).opaque, SYSTEM_ERROR);
    rp_command answer = receive(&replier);
    check_remark(&answer, SYSTEM_ERROR, "push reply message to " REQUESTER "fail.");
    CHECK(field_number(&answer, "queueOffset") == 0);
    for (int i = 0; i < 3; i++)
        send_reply(&replier, "b");
    int32_t second = receive_push(&requester).opaque;
    CHECK(receive_push(&requester).opaque != second);
    answer_push(&requester, second, SUCCESS);
    answer = receive(&replier);
    CHECK(answer.code == SUCCESS);
    client_close(&requester); /* two of three are unanswered */
    for (int i = 0; i < 2; i++) {
        answer = receive(&replier);
        check_remark(&answer, SYSTEM_ERROR, "push reply message to " REQUESTER "fail.");
    }
    send_reply(&replier, "c"); /* Python has not heard yet that the requester is gone */
    answer = receive(&replier);
    check_remark(&answer, SYSTEM_ERROR, "push reply message to " REQUESTER "fail.");
    CHECK(stored_count(&fx) == 5);
    client_close(&replier);
    drop_events(&fx);
    fixture_close(&fx);
}

static void a_push_that_nobody_answers_ends_at_its_time(void) {
    fixture fx;
    fixture_init(&fx);
    fx.broker_options.push_timeout_ms = 50;
    fixture_open(&fx);
    client requester = open_requester(&fx, RP_SERIALIZE_JSON), replier = open_replier(&fx, RP_SERIALIZE_JSON);
    int64_t before = now_ms();
    send_reply(&replier, "a");
    int32_t opaque = receive_push(&requester).opaque;
    rp_command answer = receive(&replier);
    check_remark(&answer, SYSTEM_ERROR, "push reply message to " REQUESTER "fail.");
    CHECK(now_ms() - before >= 50);
    answer_push(&requester, opaque, SUCCESS); /* this answer is too late, and changes nothing */
    send_message(&replier, "T", 0, NULL, "the connection lives");
    send_message(&requester, "T", 0, NULL, "this one, too");
    rp_broker_stats stats;
    rp_broker_read_stats(fx.broker, &stats);
    CHECK(stats.replies_failed == 1 && stats.replies_pending_now == 0);
    client_close(&requester);
    client_close(&replier);
    drop_events(&fx);
    fixture_close(&fx);
}

static void only_who_was_asked_can_answer(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client requester = open_requester(&fx, RP_SERIALIZE_JSON), replier = open_replier(&fx, RP_SERIALIZE_JSON);
    client stranger = open_replier(&fx, RP_SERIALIZE_JSON);
    send_reply(&replier, "a");
    int32_t opaque = receive_push(&requester).opaque;
    answer_push(&stranger, opaque, SUCCESS);
    answer_push(&requester, opaque + 1, SUCCESS);
    answer_push(&requester, INT32_MAX, SUCCESS);
    answer_push(&requester, -1, SUCCESS);
    answer_push(&requester, 7, SUCCESS); /* these two answers are passed up to Python */
    send_message(&stranger, "T", 0, NULL, "behind its answer");
    send_message(&requester, "T", 0, NULL, "behind its answers");
    rp_command answer;
    CHECK(client_receive(&replier, &answer, 0) == 0);
    rp_request *punted[8];
    uint32_t responses = 0;
    for (uint32_t count; (count = rp_server_take(fx.server, punted, 8)) > 0;) {
        for (uint32_t i = 0; i < count; i++) {
            responses += punted[i]->kind == RP_REQUEST_RESPONSE;
            rp_request_free(punted[i]);
        }
    }
    CHECK(responses == 2);
    answer_push(&requester, opaque, SUCCESS);
    answer = receive(&replier);
    CHECK(answer.code == SUCCESS);
    client_close(&stranger);
    client_close(&requester);
    client_close(&replier);
    drop_events(&fx);
    fixture_close(&fx);
}

static void replies_that_are_not_stored_are_pushed_all_the_same(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client requester = open_requester(&fx, RP_SERIALIZE_JSON), replier = open_replier(&fx, RP_SERIALIZE_JSON);
    for (int reason = 0; reason < 4; reason++) {
        fx.settings.store_reply_enable = reason != 0;
        fx.settings.role = reason == 1 ? RP_ROLE_SLAVE : RP_ROLE_SYNC_MASTER;
        fx.settings.store_writable = reason != 2;
        fx.settings.slaves_min = reason == 3;
        rp_broker_set_settings(fx.broker, &fx.settings);
        send_reply(&replier, "a");
        answer_push(&requester, receive_push(&requester).opaque, SUCCESS);
        rp_command answer = receive(&replier);
        CHECK(answer.code == SUCCESS && slice_is(rp_command_field(&answer, "msgId"), "0"));
        CHECK(field_number(&answer, "queueId") == 2 && field_number(&answer, "queueOffset") == 0);
        send_reply(&replier, "b");
        answer_push(&requester, receive_push(&requester).opaque, SYSTEM_ERROR);
        answer = receive(&replier);
        check_remark(&answer, SYSTEM_ERROR, "push reply message to " REQUESTER "fail.");
        CHECK(answer.field_count == 2);
    }
    CHECK(stored_count(&fx) == 0);
    client_close(&requester);
    client_close(&replier);
    drop_events(&fx);
    fixture_close(&fx);
}

static void check_fault(client *replier, const char *key, const char *value, int32_t code, const char *remark) {
    number_text queue;
    rp_command request = reply_of(replier, PROPERTIES, "body", &queue);
    for (uint16_t i = 0; i < request.field_count; i++) {
        if (slice_is(request.fields[i].key, key))
            request.fields[i] = value != NULL ? (rp_field){text(key), text(value)} : (rp_field){text("x"), text("y")};
    }
    rp_command answer = client_call(replier, &request);
    if (answer.code != code || !slice_starts(answer.remark, remark))
        fprintf(stderr, "%s: %d %.*s\n", key, answer.code, (int)answer.remark.size, (const char *)answer.remark.data);
    CHECK(answer.code == code && slice_starts(answer.remark, remark));
}

static void faulty_replies_reach_nobody(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client requester = open_requester(&fx, RP_SERIALIZE_JSON), replier = open_replier(&fx, RP_SERIALIZE_JSON);
    static const char *const required[] = {"a", "c", "d", "e", "f", "g", "h"};
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++)
        check_fault(&replier, required[i], NULL, SYSTEM_ERROR, "the custom field <");
    check_fault(&replier, "d", "four", SYSTEM_ERROR, "java.lang.NumberFormatException: For input string: \"four\"");
    check_fault(&replier, "d", "4294967296", SYSTEM_ERROR, "java.lang.NumberFormatException");
    check_fault(&replier, "e", "4", INVALID_PARAMETER, "request queueId[4] is illegal");
    number_text queue;
    rp_command request = reply_of(&replier, PROPERTIES, "", &queue);
    rp_command answer = client_call(&replier, &request);
    CHECK(answer.code == MESSAGE_ILLEGAL);
    fx.settings.accept_after_ms = INT64_C(32503680000000);
    rp_broker_set_settings(fx.broker, &fx.settings);
    check_fault(&replier, "x", NULL, SYSTEM_ERROR, "broker unable to service, until ");
    CHECK(client_receive(&requester, &answer, 0) == 0 && stored_count(&fx) == 0);
    static const char *const special[] = {"DELAY\0013\2", "__LITE_TOPIC\001x\2"};
    fx.settings.accept_after_ms = 0;
    rp_broker_set_settings(fx.broker, &fx.settings);
    for (size_t i = 0; i < 2; i++) {
        request = reply_of(&replier, special[i], "special", &queue);
        client_send(&replier, &request);
        rp_request *punted = take_punted(&fx);
        CHECK(punted->command.code == RP_CODE_SEND_REPLY_MESSAGE_V2);
        rp_request_free(punted);
    }
    client_close(&requester);
    client_close(&replier);
    drop_events(&fx);
    fixture_close(&fx);
}

static void a_resubmitted_reply_goes_its_way_once_its_topic_is_there(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client requester = open_requester(&fx, RP_SERIALIZE_JSON), replier = open_replier(&fx, RP_SERIALIZE_ROCKETMQ);
    number_text queue;
    rp_command request = send_request_v2(&replier, RP_CODE_SEND_REPLY_MESSAGE_V2, "N", 0, PROPERTIES, text("first"), &queue);
    client_send(&replier, &request);
    rp_request *punted = take_punted(&fx);
    CHECK(rp_broker_put_topic(fx.broker, text("N"), 4, 4, 6, 0, RP_TOPIC_NATIVE_SEND) == RP_OK);
    CHECK(rp_server_resubmit(fx.server, punted, 1) == RP_OK);
    rp_command push = receive_push(&requester);
    CHECK(slice_is(push.body, "first") && slice_is(rp_command_field(&push, "topic"), "N"));
    answer_push(&requester, push.opaque, SUCCESS);
    rp_command answer = receive(&replier);
    CHECK(answer.code == SUCCESS && field_number(&answer, "queueOffset") == 0);
    client_close(&requester);
    client_close(&replier);
    drop_events(&fx);
    fixture_close(&fx);
}

static void oneway_replies_and_repliers_that_went_are_answered_to_nobody(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client requester = open_requester(&fx, RP_SERIALIZE_JSON), replier = open_replier(&fx, RP_SERIALIZE_JSON);
    number_text queue;
    rp_command request = reply_of(&replier, PROPERTIES, "oneway", &queue);
    request.flag = RP_COMMAND_ONEWAY;
    client_send(&replier, &request);
    answer_push(&requester, receive_push(&requester).opaque, SUCCESS);
    send_message(&replier, "T", 0, NULL, "the next answer is this one's");
    send_reply(&replier, "gone");
    int32_t opaque = receive_push(&requester).opaque;
    client_close(&replier);
    answer_push(&requester, opaque, SUCCESS);
    send_message(&requester, "T", 0, NULL, "behind its answer");
    CHECK(stored_count(&fx) == 2);
    client_close(&requester);
    drop_events(&fx);
    fixture_close(&fx);
}

static void an_answer_waits_for_disk_and_slaves_too(void) {
    fixture fx;
    fixture_init(&fx);
    fx.store_options.flush_mode = RP_FLUSH_SYNC;
    fx.store_options.flush_interval_ms = 60000; /* only requests flush */
    fixture_open(&fx);
    fx.settings.flush_mode = RP_FLUSH_SYNC;
    rp_broker_set_settings(fx.broker, &fx.settings);
    client requester = open_requester(&fx, RP_SERIALIZE_JSON), replier = open_replier(&fx, RP_SERIALIZE_JSON);
    send_reply(&replier, "flushed");
    answer_push(&requester, receive_push(&requester).opaque, SUCCESS);
    rp_command answer = receive(&replier);
    check_answer(&answer, 1, 0);
    rp_commit_log *commit_log = rp_message_store_commit_log(fx.store);
    CHECK(rp_commit_log_flushed_offset(commit_log) == rp_commit_log_max_offset(commit_log));
    fx.settings.role = RP_ROLE_SYNC_MASTER;
    fx.settings.slave_acks = 1;
    rp_broker_set_settings(fx.broker, &fx.settings);
    rp_broker_set_replicated(fx.broker, 0);
    send_reply(&replier, "replicated");
    answer_push(&requester, receive_push(&requester).opaque, SUCCESS);
    rp_broker_stats stats;
    rp_broker_read_stats(fx.broker, &stats);
    CHECK(client_receive(&replier, &answer, 0) == 0 && stats.replies_pending_now == 1);
    rp_broker_set_replicated(fx.broker, rp_commit_log_max_offset(commit_log));
    answer = receive(&replier);
    check_answer(&answer, 2, 1);
    fx.settings.slave_timeout_ms = 20; /* RocketMQ does not tell the replier */
    rp_broker_set_settings(fx.broker, &fx.settings);
    send_reply(&replier, "alone");
    answer_push(&requester, receive_push(&requester).opaque, SUCCESS);
    answer = receive(&replier);
    check_answer(&answer, 3, 2);
    client_close(&requester);
    client_close(&replier);
    drop_events(&fx);
    fixture_close(&fx);
}

int main(void) {
    RUN(a_reply_is_pushed_stored_and_answered_in_both_encodings_and_spellings);
    RUN(a_reply_to_nobody_is_stored_and_said_so);
    RUN(what_a_requester_refuses_or_ends_before_is_answered_at_once);
    RUN(a_push_that_nobody_answers_ends_at_its_time);
    RUN(only_who_was_asked_can_answer);
    RUN(replies_that_are_not_stored_are_pushed_all_the_same);
    RUN(faulty_replies_reach_nobody);
    RUN(a_resubmitted_reply_goes_its_way_once_its_topic_is_there);
    RUN(oneway_replies_and_repliers_that_went_are_answered_to_nobody);
    RUN(an_answer_waits_for_disk_and_slaves_too);
    return 0;
}
