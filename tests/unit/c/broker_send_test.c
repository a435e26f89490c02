/* broker_send_test.c: sends through a real server on loopback: what is stored, what is answered, what is passed up to Python. */
#include "stored_messages.h"

static void check_stored(fixture *fx, int64_t offset, const char *body) {
    rp_message message;
    rp_queue_entry entry;
    void *pin = read_message(fx, "T", 2, offset, &message, &entry);
    CHECK(slice_is(message.body, body) && slice_is(message.topic, "T"));
    CHECK(message.queue_id == 2 && message.flag == 7 && message.sys_flag == 0 && message.born_timestamp_ms == 1700000000123);
    CHECK(message.queue_offset == offset && message.reconsume_times == 0 && entry.tags_code == 2598919); /* "TagA".hashCode() */
    CHECK(message.born_host.size == 8 && memcmp(message.born_host.data, "\x7F\0\0\1", 4) == 0);
    CHECK(slice_is(rp_message_property(message.properties, "TAGS"), "TagA"));
    CHECK(slice_is(rp_message_property(message.properties, "UNIQ_KEY"), "0A0B"));
    CHECK(slice_is(rp_message_property(message.properties, "WAIT"), "true"));
    CHECK(slice_is(rp_message_property(message.properties, "MSG_REGION"), "DefaultRegion"));
    CHECK(slice_is(rp_message_property(message.properties, "TRACE_ON"), "true"));
    CHECK(slice_is(rp_message_property(message.properties, "CLUSTER"), "DefaultCluster"));
    rp_log_range_release(pin);
}

static void check_answer(const rp_command *response, int64_t offset) {
    char id[33] = {0}, expected[17];
    CHECK(response->code == 0 && response->remark.size == 0);
    CHECK(field_number(response, "queueId") == 2 && field_number(response, "queueOffset") == offset);
    CHECK(slice_is(rp_command_field(response, "transactionId"), "0A0B"));
    CHECK(slice_is(rp_command_field(response, "MSG_REGION"), "DefaultRegion") && slice_is(rp_command_field(response, "TRACE_ON"), "true"));
    rp_slice message_id = rp_command_field(response, "msgId");
    CHECK(message_id.size == 32);
    memcpy(id, message_id.data, 32);
    CHECK(memcmp(id, "7F00000100002A9F", 16) == 0);
    snprintf(expected, sizeof expected, "%016" PRIX64, (uint64_t)strtoull(id + 16, NULL, 16));
    CHECK(memcmp(id + 16, expected, 16) == 0);
}

static void a_message_is_stored_and_answered_in_both_encodings_and_spellings(void) {
    static const char properties[] = "TAGS\1TagA\2UNIQ_KEY\0010A0B\2WAIT\1true";
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    int64_t offset = 0;
    for (uint8_t type = 0; type < 2; type++) {
        client c = client_open(&fx, type);
        number_text queue;
        rp_command v2 = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 2, properties, text("hello"), &queue);
        rp_command response = client_call(&c, &v2);
        check_answer(&response, offset);
        check_stored(&fx, offset++, "hello");
        rp_command v1 = request_of(&c, RP_CODE_SEND_MESSAGE);
        static const char *const pairs[][2] = {{"producerGroup", "PG"},
                                               {"topic", "T"},
                                               {"defaultTopic", "TBW102"},
                                               {"defaultTopicQueueNums", "4"},
                                               {"queueId", "2"},
                                               {"sysFlag", "0"},
                                               {"bornTimestamp", "1700000000123"},
                                               {"flag", "7"},
                                               {"properties", properties},
                                               {"reconsumeTimes", "0"},
                                               {"unitMode", "false"},
                                               {"batch", "false"}};
        for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
            with_text(&v1, pairs[i][0], pairs[i][1]);
        v1.body = text("world");
        response = client_call(&c, &v1);
        check_answer(&response, offset);
        check_stored(&fx, offset++, "world");
        client_close(&c);
    }
    fixture_close(&fx);
}

static void a_message_without_key_gets_one(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    number_text queue;
    rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, NULL, text("x"), &queue);
    rp_command response = client_call(&c, &request);
    rp_message message;
    rp_queue_entry entry;
    void *pin = read_message(&fx, "T", 0, 0, &message, &entry);
    rp_slice key = rp_message_property(message.properties, "UNIQ_KEY"), answered = rp_command_field(&response, "transactionId");
    CHECK(key.size == 32 && answered.size == 32 && memcmp(key.data, answered.data, 32) == 0 && entry.tags_code == 0);
    rp_log_range_release(pin);
    client_close(&c);
    fixture_close(&fx);
}

/* The body of a batch request; sizes as a Java client writes them. */
static uint32_t add_to_batch(uint8_t *at, uint32_t flag, const char *body, const char *properties) {
    uint32_t body_size = (uint32_t)strlen(body), properties_size = (uint32_t)strlen(properties);
    rp_put_u32(at, 22 + body_size + properties_size);
    rp_put_u32(at + 4, 0);
    rp_put_u32(at + 8, 0);
    rp_put_u32(at + 12, flag);
    rp_put_u32(at + 16, body_size);
    memcpy(at + 20, body, body_size);
    rp_put_u16(at + 20 + body_size, (uint16_t)properties_size);
    memcpy(at + 22 + body_size, properties, properties_size);
    return 22 + body_size + properties_size;
}

static void a_batch_becomes_single_messages_with_one_answer(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    for (uint8_t type = 0; type < 2; type++) {
        client c = client_open(&fx, type);
        uint8_t body[512];
        uint32_t size = add_to_batch(body, 1, "first", "UNIQ_KEY\1A1\2TAGS\1TagA\2");
        size += add_to_batch(body + size, 2, "second", "UNIQ_KEY\1A2");
        size += add_to_batch(body + size, 3, "", "");
        number_text queue;
        rp_command request =
            send_request_v2(&c, RP_CODE_SEND_BATCH_MESSAGE, "T", 1, "WAIT\1true\2UNIQ_KEY\1B\2", (rp_slice){body, size}, &queue);
        with_text(&request, "m", "true");
        request.fields[5].value = text("48"); /* the flags of an IPv6 host, although the client uses IPv4 */
        rp_command response = client_call(&c, &request);
        CHECK(response.code == 0 && field_number(&response, "queueOffset") == type * 3 && field_number(&response, "queueId") == 1);
        rp_slice ids = rp_command_field(&response, "msgId");
        CHECK(ids.size == 3 * 32 + 2 && ids.data[32] == ',' && ids.data[65] == ',');
        CHECK(slice_is(rp_command_field(&response, "transactionId"), "B"));
        static const char *const bodies[] = {"first", "second", ""};
        for (int64_t i = 0; i < 3; i++) {
            rp_message message;
            rp_queue_entry entry;
            void *pin = read_message(&fx, "T", 1, type * 3 + i, &message, &entry);
            CHECK(message.sys_flag == 0 && message.born_host.size == 8);
            CHECK(message.flag == i + 1 && message.body.size == strlen(bodies[i]) &&
                  memcmp(message.body.data, bodies[i], message.body.size) == 0);
            CHECK(rp_message_property(message.properties, "WAIT").data == NULL); /* the batch's own properties are not stored */
            CHECK(slice_is(rp_message_property(message.properties, "CLUSTER"), "DefaultCluster"));
            CHECK(i == 2 || slice_is(rp_message_property(message.properties, "UNIQ_KEY"), i == 0 ? "A1" : "A2"));
            CHECK(entry.tags_code == (i == 0 ? 2598919 : 0));
            rp_log_range_release(pin);
        }
        request = send_request_v2(&c, RP_CODE_SEND_BATCH_MESSAGE, "T", 1, NULL, (rp_slice){body, size - 1}, &queue);
        with_text(&request, "m", "true");
        response = client_call(&c, &request);
        CHECK(response.code == 1 && slice_starts(response.remark, "java.nio.BufferUnderflowException"));
        client_close(&c);
    }
    fixture_close(&fx);
}

typedef struct refusal {
    const char *field, *value; /* replaces this field, or drops it when value is NULL */
    int32_t code;
    const char *remark; /* how it begins */
} refusal;

static void faulty_requests_get_rocketmqs_codes(void) {
    static const refusal refusals[] = {
        {"e", "4", 29, "request queueId[4] is illegal, TopicConfig [topicName=T, readQueueNums=4, writeQueueNums=4, perm=RW-, "},
        {"e", "x", 1, "java.lang.NumberFormatException: For input string: \"x\""},
        {"e", NULL, 1, "the custom field <e> is null"},
        {"f", NULL, 1, "the custom field <f> is null"},
        {"g", "1e5", 1, "java.lang.NumberFormatException"},
        {"g", NULL, 1, "the custom field <g> is null"},
        {"h", "99999999999", 1, "java.lang.NumberFormatException"},
    };
    fixture fx;
    fixture_init(&fx);
    fx.settings.message_size_max = 1000;
    fixture_open(&fx);
    char large[1002];
    memset(large, 'x', sizeof large);
    for (uint8_t type = 0; type < 2; type++) {
        client c = client_open(&fx, type);
        number_text queue;
        for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
            rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, NULL, text("x"), &queue);
            for (uint16_t f = 0; f < request.field_count; f++) {
                if (!slice_is(request.fields[f].key, refusals[i].field))
                    continue;
                request.fields[f].value = text(refusals[i].value != NULL ? refusals[i].value : "");
                if (refusals[i].value == NULL)
                    request.fields[f].key = text("zz");
            }
            rp_command response = client_call(&c, &request);
            CHECK(response.code == refusals[i].code);
            CHECK(slice_starts(response.remark, refusals[i].remark));
        }
        rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, NULL, (rp_slice){NULL, 0}, &queue);
        CHECK(client_call(&c, &request).code == 13);
        request.body = (rp_slice){(const uint8_t *)large, 1000};
        CHECK(client_call(&c, &request).code == 0);
        request.body.size = 1001;
        rp_command response = client_call(&c, &request);
        CHECK(response.code == 13 &&
              slice_starts(response.remark, "the message is illegal, maybe msg body or properties length not matched. "
                                            "msg body length limit 1000B, msg properties length limit 32KB."));
        client_close(&c);
    }
    fixture_close(&fx);
}

static void properties_past_32_kb_are_illegal(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    char *properties = malloc(40000);
    number_text queue;
    memset(properties, 'x', 40000);
    properties[1] = 1;
    properties[32760] = 0;
    rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, properties, text("x"), &queue);
    CHECK(client_call(&c, &request).code == 13);
    properties[32000] = 0;
    request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, properties, text("x"), &queue);
    CHECK(client_call(&c, &request).code == 0);
    free(properties);
    client_close(&c);
    fixture_close(&fx);
}

static void settings_refuse_sends(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    CHECK(rp_broker_put_topic(fx.broker, text("ORDER"), 4, 4, 6, 0, RP_TOPIC_NATIVE_SEND | RP_TOPIC_ORDER) == RP_OK);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    number_text queue;
    rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, NULL, text("x"), &queue);
    rp_command ordered = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "ORDER", 0, NULL, text("x"), &queue);
    rp_broker_settings settings;
    rp_broker_settings_default(&settings);
    settings.role = RP_ROLE_SLAVE;
    rp_broker_set_settings(fx.broker, &settings);
    rp_command response = client_call(&c, &request);
    CHECK(response.code == 2 && slice_starts(response.remark, "[REJECTREQUEST]"));
    settings.role = RP_ROLE_ASYNC_MASTER;
    settings.accept_after_ms = INT64_C(32503680000000);
    rp_broker_set_settings(fx.broker, &settings);
    response = client_call(&c, &request);
    CHECK(response.code == 1 && slice_starts(response.remark, "broker unable to service, until "));
    settings.accept_after_ms = 1;
    settings.permission = 4;
    rp_broker_set_settings(fx.broker, &settings);
    response = client_call(&c, &ordered);
    CHECK(response.code == 16 && slice_is(response.remark, "the broker[127.0.0.1] sending message is forbidden"));
    CHECK(client_call(&c, &request).code == 0); /* only order topics care, as in RocketMQ */
    settings.permission = 6;
    settings.store_writable = 0;
    snprintf(settings.store_reason, sizeof settings.store_reason, "CL: 0.99");
    rp_broker_set_settings(fx.broker, &settings);
    response = client_call(&c, &request);
    CHECK(response.code == 14 &&
          slice_starts(response.remark, "service not available now. It may be caused by one of the following reasons: "
                                        "the broker's disk is full [CL: 0.99]"));
    settings.store_writable = 1;
    rp_broker_set_settings(fx.broker, &settings);
    CHECK(client_call(&c, &request).code == 0);
    client_close(&c);
    fixture_close(&fx);
}

static void what_is_special_goes_to_python(void) {
    static const struct {
        const char *topic, *properties, *sys_flag;
    } cases[] = {
        {"unknown", NULL, "0"},      {"PYTHON", NULL, "0"}, {"%RETRY%G", NULL, "0"},
        {"T", "DELAY\1soon\2", "0"}, {"T", NULL, "4"},      {"T", NULL, "128"},
    };
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    CHECK(rp_broker_put_topic(fx.broker, text("PYTHON"), 4, 4, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
    CHECK(rp_broker_put_topic(fx.broker, text("%RETRY%G"), 1, 1, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        number_text queue;
        rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, cases[i].topic, 0, cases[i].properties, text("x"), &queue);
        request.fields[5].value = text(cases[i].sys_flag);
        client_send(&c, &request);
        rp_request *punted = take_punted(&fx);
        CHECK(punted->command.code == RP_CODE_SEND_MESSAGE_V2 && slice_is(rp_command_field(&punted->command, "b"), cases[i].topic));
        rp_request_free(punted);
    }
    rp_broker_stats stats;
    rp_broker_read_stats(fx.broker, &stats);
    CHECK(stats.sends_punted == sizeof cases / sizeof cases[0] && stats.sends == 0);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static void a_resubmitted_send_is_stored_once_its_topic_is_there(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    number_text queue;
    rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "NEW", 0, NULL, text("x"), &queue), response;
    client_send(&c, &request);
    rp_request *punted = take_punted(&fx);
    CHECK(rp_broker_put_topic(fx.broker, text("NEW"), 1, 1, 6, 0, RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL) == RP_OK);
    CHECK(rp_server_resubmit(fx.server, punted, 1) == RP_OK);
    CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == 0 && field_number(&response, "queueOffset") == 0);
    rp_broker_delete_topic(fx.broker, text("NEW"));
    client_send(&c, &request);
    rp_request_free(take_punted(&fx));
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static void oneway_sends_are_stored_without_answer_and_negative_queues_are_chosen(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    number_text queue;
    for (int i = 0; i < 50; i++) {
        rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", -1, NULL, text("x"), &queue);
        request.flag = RP_COMMAND_ONEWAY;
        client_send(&c, &request);
    }
    rp_command last = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", -1, NULL, text("x"), &queue);
    rp_command response = client_call(&c, &last);
    CHECK(response.code == 0);
    int64_t total = 0, used = 0;
    for (int32_t id = 0; id < 4; id++) {
        rp_consume_queue *found = rp_message_store_queue(fx.store, text("T"), id, 0, NULL);
        int64_t count = found != NULL ? rp_consume_queue_max_offset(found) : 0;
        total += count;
        used += count > 0;
    }
    CHECK(total == 51 && used >= 2);
    rp_broker_stats stats;
    rp_broker_read_stats(fx.broker, &stats);
    CHECK(stats.sends == 51 && stats.messages_in == 51 && stats.bytes_in > 51 * 91);
    client_close(&c);
    fixture_close(&fx);
}

static void pipelined_sends_are_answered_in_order(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    number_text queue;
    enum { COUNT = 3000 };
    for (int i = 0; i < COUNT; i++) {
        rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 3, NULL, text("0123456789"), &queue);
        client_send(&c, &request);
    }
    for (int i = 0; i < COUNT; i++) {
        rp_command response;
        CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.opaque == i + 1 && field_number(&response, "queueOffset") == i);
    }
    client_close(&c);
    fixture_close(&fx);
}

int main(void) {
    RUN(a_message_is_stored_and_answered_in_both_encodings_and_spellings);
    RUN(a_message_without_key_gets_one);
    RUN(a_batch_becomes_single_messages_with_one_answer);
    RUN(faulty_requests_get_rocketmqs_codes);
    RUN(properties_past_32_kb_are_illegal);
    RUN(settings_refuse_sends);
    RUN(what_is_special_goes_to_python);
    RUN(a_resubmitted_send_is_stored_once_its_topic_is_there);
    RUN(oneway_sends_are_stored_without_answer_and_negative_queues_are_chosen);
    RUN(pipelined_sends_are_answered_in_order);
    return 0;
}
