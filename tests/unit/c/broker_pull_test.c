/* broker_pull_test.c: pulls through a real server on loopback: status rules, filters, limits, offsets. */
#include <fcntl.h>

#include "base/hash.h"
#include "broker_fixture.h"

enum { SUCCESS = 0, NOT_FOUND = 19, RETRY = 20, MOVED = 21, QUERY_NOT_FOUND = 22, INVALID_PARAMETER = 29 };

/* Counts the records of a pull's body, checking each. */
static int64_t count_records(const rp_command *response, int64_t first_offset) {
    int64_t count = 0;
    for (uint32_t at = 0; at < response->body.size;) {
        rp_message message;
        rp_error error;
        must(rp_message_decode(response->body.data + at, response->body.size - at, 1, &message, &error), &error, "pulled record");
        CHECK(first_offset < 0 || message.queue_offset == first_offset + count);
        at += message.size;
        count++;
    }
    return count;
}

static void send_many(client *c, int32_t queue_id, int count, const char *tag) {
    char properties[64], body[64];
    for (int i = 0; i < count; i++) {
        snprintf(properties, sizeof properties, "TAGS\1%s\2UNIQ_KEY\1K\2", tag);
        snprintf(body, sizeof body, "message %d of %s", i, tag);
        send_message(c, "T", queue_id, properties, body);
    }
}

typedef struct offset_rule {
    const char *why;
    int32_t queue_id;
    int64_t offset;
    int32_t code;
    const char *status;
    int64_t next;
} offset_rule;

static void offsets_are_answered_by_rocketmqs_rules(void) {
    static const offset_rule rules[] = {
        {"empty queue from 0", 3, 0, NOT_FOUND, "NO_MESSAGE_IN_QUEUE", 0},
        {"empty queue from elsewhere", 3, 7, MOVED, "NO_MESSAGE_IN_QUEUE", 0},
        {"negative", 0, -1, MOVED, "OFFSET_TOO_SMALL", 0},
        {"first", 0, 0, SUCCESS, "FOUND", 10},
        {"last", 0, 9, SUCCESS, "FOUND", 10},
        {"one past", 0, 10, NOT_FOUND, "OFFSET_OVERFLOW_ONE", 10},
        {"far past", 0, 11, MOVED, "OFFSET_OVERFLOW_BADLY", 10},
        {"very far", 0, INT64_MAX, MOVED, "OFFSET_OVERFLOW_BADLY", 10},
    };
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    for (uint8_t type = 0; type < 2; type++) {
        client c = client_open(&fx, type);
        if (type == 0)
            send_many(&c, 0, 10, "A");
        for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
            pull_request pull = pull_of(rules[i].queue_id, rules[i].offset);
            pull.code = i % 2 == 0 ? RP_CODE_PULL_MESSAGE : RP_CODE_LITE_PULL_MESSAGE;
            rp_command response = client_pull(&c, &pull);
            CHECK(response.code == rules[i].code && slice_is(response.remark, rules[i].status));
            CHECK(field_number(&response, "nextBeginOffset") == rules[i].next && field_number(&response, "minOffset") == 0);
            CHECK(field_number(&response, "maxOffset") == (rules[i].queue_id == 0 ? 10 : 0));
            CHECK(field_number(&response, "suggestWhichBrokerId") == 0);
            CHECK(field_number(&response, "topicSysFlag") == 0 && field_number(&response, "groupSysFlag") == 0);
            CHECK(response.code != SUCCESS || count_records(&response, rules[i].offset) == 10 - rules[i].offset);
        }
        client_close(&c);
    }
    rp_broker_stats stats;
    rp_broker_read_stats(fx.broker, &stats);
    CHECK(stats.pulls_found == 4 && stats.messages_out == 22 && stats.pulls == 16);
    fixture_close(&fx);
}

static void a_slave_keeps_bad_offsets_and_sends_consumers_back(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_many(&c, 0, 3, "A");
    rp_broker_settings settings;
    rp_broker_settings_default(&settings);
    settings.role = RP_ROLE_SLAVE;
    rp_broker_set_settings(fx.broker, &settings);
    pull_request pull = pull_of(0, 50);
    rp_command response = client_pull(&c, &pull);
    CHECK(response.code == 2 && slice_starts(response.remark, "[REJECTREQUEST]"));
    settings.slave_read_enable = 1;
    rp_broker_set_settings(fx.broker, &settings);
    response = client_pull(&c, &pull);
    CHECK(response.code == RETRY && field_number(&response, "nextBeginOffset") == 50 &&
          field_number(&response, "suggestWhichBrokerId") == 0);
    settings.broker_id_min = 1; /* the master is gone */
    rp_broker_set_settings(fx.broker, &settings);
    CHECK(rp_broker_put_group(fx.broker, text("G"), 1, 1, 5, 6, 3) == RP_OK);
    response = client_pull(&c, &pull);
    CHECK(response.code == RETRY && field_number(&response, "suggestWhichBrokerId") == 5 && field_number(&response, "groupSysFlag") == 3);
    pull.offset = 0;
    response = client_pull(&c, &pull);
    CHECK(response.code == SUCCESS && field_number(&response, "suggestWhichBrokerId") == 5);
    settings.offset_check_in_slave = 1;
    rp_broker_set_settings(fx.broker, &settings);
    pull.offset = 50;
    response = client_pull(&c, &pull);
    CHECK(response.code == MOVED && field_number(&response, "nextBeginOffset") == 3);
    client_close(&c);
    fixture_close(&fx);
}

static void tags_are_filtered_by_their_code(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    for (int i = 0; i < 10; i++) {
        send_many(&c, 0, 1, "A");
        send_many(&c, 0, 1, "B");
        send_many(&c, 0, 1, "C");
    }
    static const struct {
        const char *subscription;
        int64_t count;
    } cases[] = {{"*", 30}, {"A", 10}, {"A || B", 20}, {"A||B||C||D", 30}, {"", 30}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pull_request pull = pull_of(0, 0);
        pull.subscription = cases[i].subscription;
        pull.expression_type = i % 2 == 0 ? "TAG" : NULL;
        rp_command response = client_pull(&c, &pull);
        CHECK(response.code == SUCCESS && count_records(&response, -1) == cases[i].count);
        CHECK(field_number(&response, "nextBeginOffset") == 30);
    }
    pull_request pull = pull_of(0, 0);
    pull.subscription = "D";
    rp_command response = client_pull(&c, &pull);
    CHECK(response.code == RETRY && slice_is(response.remark, "NO_MATCHED_MESSAGE") && field_number(&response, "nextBeginOffset") == 30);
    pull.subscription = "||";
    response = client_pull(&c, &pull);
    CHECK(response.code == 23 && slice_is(response.remark, "parse the consumer's subscription failed"));
    client_close(&c);
    fixture_close(&fx);
}

static void a_pull_stops_at_its_limits(void) {
    fixture fx;
    fixture_init(&fx);
    fx.settings.transfer_count_max_memory = 8;
    fx.settings.transfer_bytes_max_memory = 2000;
    fx.settings.filter_bytes_max = 20 * 20;
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    char body[801];
    memset(body, 'x', 800);
    body[800] = 0;
    for (int i = 0; i < 50; i++)
        send_message(&c, "T", 0, "UNIQ_KEY\1K\2", "small");
    for (int i = 0; i < 5; i++)
        send_message(&c, "T", 1, "UNIQ_KEY\1K\2", body);
    pull_request pull = pull_of(0, 0);
    rp_command response = client_pull(&c, &pull);
    CHECK(response.code == SUCCESS && count_records(&response, 0) == 8); /* maxTransferCountOnMessageInMemory */
    pull.max_messages = 3;
    response = client_pull(&c, &pull);
    CHECK(count_records(&response, 0) == 3);
    pull.max_messages = 0; /* one at least, as in RocketMQ */
    response = client_pull(&c, &pull);
    CHECK(count_records(&response, 0) == 1);
    pull = pull_of(1, 0);
    response = client_pull(&c, &pull);
    CHECK(count_records(&response, 0) == 2); /* maxTransferBytesOnMessageInMemory */
    pull.max_bytes = 100;
    response = client_pull(&c, &pull);
    CHECK(count_records(&response, 0) == 1);
    pull = pull_of(0, 0); /* maxFilterMessageSize: 20 entries without a match, then the consumer comes back */
    pull.subscription = "nothing";
    pull.max_messages = 5;
    response = client_pull(&c, &pull);
    CHECK(response.code == RETRY && field_number(&response, "nextBeginOffset") == 20);
    rp_broker_settings_default(&fx.settings); /* and all of them while it runs */
    fx.settings.transfer_count_max_memory = 50;
    rp_broker_set_settings(fx.broker, &fx.settings);
    pull = pull_of(0, 0);
    pull.max_messages = 100;
    response = client_pull(&c, &pull);
    CHECK(response.code == SUCCESS && count_records(&response, 0) == 50);
    pull.subscription = "nothing";
    response = client_pull(&c, &pull);
    CHECK(response.code == RETRY && field_number(&response, "nextBeginOffset") == 50);
    client_close(&c);
    fixture_close(&fx);
}

static void messages_in_several_files_come_whole(void) {
    fixture fx;
    fixture_init(&fx);
    fx.store_options.commit_log_file_size = 16384;
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    char body[1001];
    memset(body, 'y', 1000);
    body[1000] = 0;
    for (int i = 0; i < 60; i++)
        send_message(&c, "T", i % 2, "UNIQ_KEY\1K\2", body);
    int64_t offset = 0;
    while (offset < 30) {
        pull_request pull = pull_of(0, offset);
        rp_command response = client_pull(&c, &pull);
        CHECK(response.code == SUCCESS);
        int64_t count = count_records(&response, offset);
        CHECK(count > 0 && field_number(&response, "nextBeginOffset") == offset + count);
        offset += count;
    }
    client_close(&c);
    fixture_close(&fx);
}

static void subscriptions_come_from_heartbeats_when_the_request_has_none(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_many(&c, 0, 2, "A");
    send_many(&c, 0, 3, "B");
    pull_request pull = pull_of(0, 0);
    pull.subscription = NULL;
    pull.sys_flag = 0;
    pull.sub_version = 5;
    rp_command response = client_pull(&c, &pull);
    CHECK(response.code == 24 && slice_starts(response.remark, "the consumer's group info not exist\nSee https://"));
    int32_t code = rp_hash_java((const uint8_t *)"B", 1);
    CHECK(rp_broker_put_subscription(fx.broker, text("G"), text("OTHER"), NULL, 0, 1, 0, 1) == RP_OK);
    response = client_pull(&c, &pull);
    CHECK(response.code == 24 && slice_starts(response.remark, "the consumer's subscription not exist\nSee https://"));
    CHECK(rp_broker_put_subscription(fx.broker, text("G"), text("T"), &code, 1, 4, 0, 1) == RP_OK);
    response = client_pull(&c, &pull);
    CHECK(response.code == 25 && slice_is(response.remark, "the consumer's subscription not latest"));
    CHECK(rp_broker_put_subscription(fx.broker, text("G"), text("T"), &code, 1, 5, 0, 1) == RP_OK);
    response = client_pull(&c, &pull);
    CHECK(response.code == SUCCESS && count_records(&response, 2) == 3);
    CHECK(rp_broker_put_subscription(fx.broker, text("G"), text("T"), NULL, 0, 6, 1, 1) == RP_OK);
    CHECK(rp_broker_put_group(fx.broker, text("G"), 1, 0, 0, 1, 0) == RP_OK);
    response = client_pull(&c, &pull);
    CHECK(response.code == 16 && field_number(&response, "forbiddenType") == 4);
    CHECK(slice_is(response.remark, "the consumer group[G] can not consume by broadcast way"));
    CHECK(rp_broker_put_group(fx.broker, text("G"), 1, 1, 0, 1, 0) == RP_OK);
    response = client_pull(&c, &pull);
    CHECK(response.code == SUCCESS && count_records(&response, 0) == 5);
    rp_broker_delete_subscription(fx.broker, text("G"), text("T"));
    CHECK(client_pull(&c, &pull).code == 24);
    client_close(&c);
    fixture_close(&fx);
}

static void permissions_and_queue_ids_are_checked(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    pull_request pull = pull_of(4, 0);
    rp_command response = client_pull(&c, &pull);
    CHECK(response.code == 29 &&
          slice_starts(response.remark, "queueId[4] is illegal, topic:[T] topicConfig.readQueueNums:[4] consumer:[/127.0.0.1:"));
    pull.queue_id = -1;
    CHECK(client_pull(&c, &pull).code == 29);
    pull.queue_id = 0;
    CHECK(rp_broker_put_topic(fx.broker, text("T"), 4, 4, 2, 0, RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL) == RP_OK);
    response = client_pull(&c, &pull);
    CHECK(response.code == 16 && field_number(&response, "forbiddenType") == 3);
    CHECK(slice_is(response.remark, "the topic[T] pulling message is forbidden"));
    CHECK(rp_broker_put_group(fx.broker, text("G"), 0, 1, 0, 1, 0) == RP_OK);
    response = client_pull(&c, &pull);
    CHECK(response.code == 16 && field_number(&response, "forbiddenType") == 2);
    CHECK(slice_is(response.remark, "subscription group no permission, G"));
    rp_broker_settings settings;
    rp_broker_settings_default(&settings);
    settings.permission = 2;
    rp_broker_set_settings(fx.broker, &settings);
    response = client_pull(&c, &pull);
    CHECK(response.code == 16 && field_number(&response, "forbiddenType") == 1);
    CHECK(slice_is(response.remark, "the broker[127.0.0.1] pulling message is forbidden"));
    settings.permission = 6;
    settings.lite_pull_enable = 0;
    rp_broker_set_settings(fx.broker, &settings);
    pull.code = RP_CODE_LITE_PULL_MESSAGE;
    response = client_pull(&c, &pull);
    CHECK(response.code == 16 && slice_is(response.remark, "the broker[127.0.0.1] for lite pull consumer is forbidden"));
    client_close(&c);
    fixture_close(&fx);
}

static void faulty_headers_are_system_errors(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    rp_command request = request_of(&c, RP_CODE_PULL_MESSAGE);
    rp_command response = client_call(&c, &request);
    CHECK(response.code == 1 && slice_is(response.remark, "the custom field <consumerGroup> is null"));
    with_text(&request, "queueOffset", "0x10");
    response = client_call(&c, &request);
    CHECK(response.code == 1 && slice_starts(response.remark, "java.lang.NumberFormatException: For input string: \"0x10\""));
    client_close(&c);
    fixture_close(&fx);
}

static void what_is_not_native_goes_to_python(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    CHECK(rp_broker_put_topic(fx.broker, text("PYTHON"), 4, 4, 6, 0, RP_TOPIC_NATIVE_SEND) == RP_OK);
    CHECK(rp_broker_put_subscription(fx.broker, text("G"), text("T"), NULL, 0, 1, 0, 0) == RP_OK);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    pull_request pulls[6];
    for (int i = 0; i < 6; i++)
        pulls[i] = pull_of(0, 0);
    pulls[0].topic = "unknown";
    pulls[1].group = "unknown";
    pulls[2].topic = "PYTHON";
    pulls[3].expression_type = "SQL92";
    pulls[4].sys_flag = RP_PULL_SUBSCRIPTION | RP_PULL_CLASS_FILTER;
    pulls[5].sys_flag = 0; /* the heartbeat's subscription is Python's */
    for (int i = 0; i < 6; i++) {
        client_send_pull(&c, &pulls[i]);
        rp_request *punted = take_punted(&fx);
        CHECK(punted->command.code == RP_CODE_PULL_MESSAGE);
        rp_request_free(punted);
    }
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static int find_offset(void *context, const rp_offset_row *row) {
    int64_t *found = context;
    CHECK(slice_is(row->group, row->queue_id == 1 || row->queue_id == 2 ? "H" : "G"));
    CHECK(slice_is(row->topic, row->queue_id == 2 ? "U" : "T"));
    found[row->queue_id] = row->offset;
    return 0;
}

static rp_command offset_call(client *c, int32_t code, const char *queue_id, const char *offset, const char *set_zero) {
    rp_command request = request_of(c, code);
    with_text(&request, "consumerGroup", "G");
    with_text(&request, "topic", "T");
    if (queue_id != NULL)
        with_text(&request, "queueId", queue_id);
    if (offset != NULL)
        with_text(&request, "commitOffset", offset);
    if (set_zero != NULL)
        with_text(&request, "setZeroIfNotFound", set_zero);
    return client_call(c, &request);
}

/* On a full disk there is no room for one, and RocketMQ opens no store with a plain queue's file under a topic of batch queues. */
static void reading_a_queue_without_messages_makes_no_file(void) {
    fixture fx;
    fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, 0);
    pull_request request = pull_of(3, 0);
    CHECK(client_pull(&c, &request).code == NOT_FOUND);
    rp_command response = offset_call(&c, RP_CODE_GET_MAX_OFFSET, "3", NULL, NULL);
    CHECK(response.code == SUCCESS && field_number(&response, "offset") == 0);
    char path[sizeof fx.path + 64];
    snprintf(path, sizeof path, "%s/consumequeue/T", fx.path);
    CHECK(access(path, F_OK) != 0);
    send_many(&c, 3, 1, "A");
    CHECK(access(path, F_OK) == 0);
    client_close(&c);
    fixture_close(&fx);
}

static client open_with_four_messages(fixture *fx) {
    fixture_init(fx);
    fixture_open(fx);
    client c = client_open(fx, RP_SERIALIZE_JSON);
    send_many(&c, 0, 4, "A");
    return c;
}

/* In place of one entry of the first file of queue 0, under the broker that has it mapped. */
static void damage_entry(const fixture *fx, int64_t number, int64_t log_offset, uint32_t size) {
    char path[512];
    uint8_t entry[12];
    rp_put_u64(entry, (uint64_t)log_offset);
    rp_put_u32(entry + 8, size);
    snprintf(path, sizeof path, "%s/consumequeue/T/0/%020d", fx->path, 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && pwrite(fd, entry, sizeof entry, number * 20) == sizeof entry);
    close(fd);
}

/* Sums with the damaged numbers would overflow, which the sanitizer reports. */
static void damaged_entries_are_passed_over(void) {
    static const int64_t offsets[] = {INT64_MIN, INT64_MAX, INT64_MIN + 50, INT64_MAX - 50, -1};
    static const uint32_t sizes[] = {100, INT32_MAX, UINT32_C(1) << 31, UINT32_MAX};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            fixture fx;
            client c = open_with_four_messages(&fx);
            damage_entry(&fx, 0, offsets[i], sizes[j]);
            damage_entry(&fx, 2, offsets[i], sizes[j]);
            pull_request pull = pull_of(0, 0);
            rp_command response = client_pull(&c, &pull);
            CHECK(response.code == SUCCESS && count_records(&response, -1) == 2 && field_number(&response, "nextBeginOffset") == 4);
            damage_entry(&fx, 3, offsets[i], sizes[j]);
            pull = pull_of(0, 2);
            response = client_pull(&c, &pull);
            CHECK(response.code == RETRY && field_number(&response, "nextBeginOffset") == 4);
            response = offset_call(&c, RP_CODE_QUERY_CONSUMER_OFFSET, "0", NULL, NULL);
            CHECK(response.code == SUCCESS && field_number(&response, "offset") == 0); /* a new group reads what is behind the damage */
            client_close(&c);
            fixture_close(&fx);
        }
    }
}

static int64_t committed(const fixture *fx, int32_t queue_id) { return rp_broker_read_offset(fx->broker, text("G"), text("T"), queue_id); }

static void a_group_without_offset_begins_with_the_first_message_or_is_told_that_there_is_none(void) {
    fixture fx;
    client c = open_with_four_messages(&fx);
    CHECK(committed(&fx, 0) == -1);
    rp_command response = offset_call(&c, RP_CODE_QUERY_CONSUMER_OFFSET, "0", NULL, NULL);
    CHECK(response.code == SUCCESS && field_number(&response, "offset") == 0); /* its first message is still in memory */
    CHECK(offset_call(&c, RP_CODE_QUERY_CONSUMER_OFFSET, "0", NULL, "false").code == QUERY_NOT_FOUND);
    response = offset_call(&c, RP_CODE_QUERY_CONSUMER_OFFSET, "1", NULL, NULL); /* its first message will be for this group */
    CHECK(response.code == SUCCESS && field_number(&response, "offset") == 0);
    CHECK(offset_call(&c, RP_CODE_QUERY_CONSUMER_OFFSET, "1", NULL, "false").code == QUERY_NOT_FOUND);
    CHECK(offset_call(&c, RP_CODE_QUERY_CONSUMER_OFFSET, "77", NULL, NULL).code == QUERY_NOT_FOUND);
    client_close(&c);
    fixture_close(&fx);
}

static void a_committed_offset_is_found_and_counts_as_one_change(void) {
    fixture fx;
    client c = open_with_four_messages(&fx);
    uint64_t version = rp_broker_offset_version(fx.broker);
    for (int i = 0; i < 2; i++) {
        CHECK(offset_call(&c, RP_CODE_UPDATE_CONSUMER_OFFSET, "0", "3", NULL).code == SUCCESS);
        CHECK(rp_broker_offset_version(fx.broker) == version + 1);
    }
    rp_command response = offset_call(&c, RP_CODE_QUERY_CONSUMER_OFFSET, "0", NULL, NULL);
    CHECK(response.code == SUCCESS && field_number(&response, "offset") == 3);
    response = offset_call(&c, RP_CODE_UPDATE_CONSUMER_OFFSET, NULL, "3", NULL);
    CHECK(response.code == INVALID_PARAMETER && slice_is(response.remark, "QueueId is null, topic is T"));
    response = offset_call(&c, RP_CODE_UPDATE_CONSUMER_OFFSET, "0", NULL, NULL);
    CHECK(response.code == INVALID_PARAMETER && slice_is(response.remark, "Offset is null, topic is T"));
    client_close(&c);
    fixture_close(&fx);
}

static void an_offset_of_a_queue_far_behind_those_that_there_are_is_not_kept(void) {
    fixture fx;
    client c = open_with_four_messages(&fx);
    CHECK(offset_call(&c, RP_CODE_UPDATE_CONSUMER_OFFSET, "255", "3", NULL).code == SUCCESS && committed(&fx, 255) == 3);
    rp_command response = offset_call(&c, RP_CODE_UPDATE_CONSUMER_OFFSET, "65535", "3", NULL);
    CHECK(response.code == INVALID_PARAMETER && slice_is(response.remark, "queueId 65535 is illegal, topic is T"));
    CHECK(committed(&fx, 65535) == -1);
    CHECK(rp_broker_put_offset(fx.broker, text("G"), text("T"), 60000, 1) == RP_OK);
    CHECK(offset_call(&c, RP_CODE_UPDATE_CONSUMER_OFFSET, "60001", "3", NULL).code == INVALID_PARAMETER && committed(&fx, 60001) == -1);
    CHECK(rp_broker_put_offset(fx.broker, text("G"), text("T"), 65535, 1) == RP_OK); /* of a file: the topic had more queues */
    CHECK(offset_call(&c, RP_CODE_UPDATE_CONSUMER_OFFSET, "65535", "3", NULL).code == SUCCESS && committed(&fx, 65535) == 3);
    CHECK(rp_broker_put_topic(fx.broker, text("T"), 4, 10000, 6, 0, RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL) == RP_OK);
    CHECK(offset_call(&c, RP_CODE_UPDATE_CONSUMER_OFFSET, "9999", "3", NULL).code == SUCCESS && committed(&fx, 9999) == 3);
    client_close(&c);
    fixture_close(&fx);
}

static void the_ends_of_a_queue_are_answered_and_of_one_that_is_not_here_left_to_python(void) {
    fixture fx;
    client c = open_with_four_messages(&fx);
    rp_command response = offset_call(&c, RP_CODE_GET_MAX_OFFSET, "0", NULL, NULL);
    CHECK(response.code == SUCCESS && field_number(&response, "offset") == 4);
    response = offset_call(&c, RP_CODE_GET_MIN_OFFSET, "0", NULL, NULL);
    CHECK(response.code == SUCCESS && field_number(&response, "offset") == 0);
    for (int32_t code = RP_CODE_GET_MAX_OFFSET; code <= RP_CODE_GET_MIN_OFFSET; code++) { /* of a queue the topic may have had */
        rp_command request = request_of(&c, code);
        with_text(&request, "topic", "T");
        with_text(&request, "queueId", "77");
        client_send(&c, &request);
        rp_request *punted = take_punted(&fx);
        CHECK(punted->command.code == code);
        rp_request_free(punted);
    }
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static void a_pull_commits_and_a_reset_sends_the_next_one_back(void) {
    fixture fx;
    client c = open_with_four_messages(&fx);
    pull_request pull = pull_of(0, 1);
    pull.sys_flag = RP_PULL_SUBSCRIPTION | RP_PULL_COMMIT_OFFSET;
    pull.commit_offset = 1;
    CHECK(client_pull(&c, &pull).code == SUCCESS);
    CHECK(committed(&fx, 0) == 1 && rp_broker_read_pull_offset(fx.broker, text("G"), text("T"), 0) == 4);

    CHECK(rp_broker_reset_offset(fx.broker, text("G"), text("T"), 0, 2) == RP_OK);
    rp_command response = offset_call(&c, RP_CODE_UPDATE_CONSUMER_OFFSET, "0", "4", NULL);
    CHECK(response.code == SUCCESS && slice_is(response.remark, "Offset has been previously reset"));
    response = offset_call(&c, RP_CODE_QUERY_CONSUMER_OFFSET, "0", NULL, NULL);
    CHECK(field_number(&response, "offset") == 2);
    pull.sys_flag = RP_PULL_SUBSCRIPTION;
    response = client_pull(&c, &pull);
    CHECK(response.code == MOVED && slice_is(response.remark, "OFFSET_RESET") && field_number(&response, "nextBeginOffset") == 2);
    CHECK(client_pull(&c, &pull).code == SUCCESS);
    CHECK(offset_call(&c, RP_CODE_UPDATE_CONSUMER_OFFSET, "0", "4", NULL).code == SUCCESS && committed(&fx, 0) == 4);
    client_close(&c);
    fixture_close(&fx);
}

static const rp_slice NO_NAME = {NULL, 0};

static void check_offsets(fixture *fx, rp_slice group, rp_slice topic, const int64_t expected[4]) {
    int64_t found[4] = {-1, -1, -1, -1};
    rp_broker_each_offset(fx->broker, group, topic, find_offset, found);
    CHECK(memcmp(found, expected, sizeof found) == 0);
}

static void offsets_are_listed_and_deleted_by_group_and_topic(void) {
    fixture fx;
    client c = open_with_four_messages(&fx);
    CHECK(rp_broker_put_offset(fx.broker, text("G"), text("T"), 0, 4) == RP_OK);
    CHECK(rp_broker_put_offset(fx.broker, text("G"), text("T"), 3, 99) == RP_OK);
    int64_t found[4] = {-1, -1, -1, -1};
    rp_broker_each_offset(fx.broker, NO_NAME, NO_NAME, find_offset, found);
    CHECK(found[0] == 4 && found[1] == -1 && found[2] == -1 && found[3] == 99);
    CHECK(rp_broker_put_offset(fx.broker, text("H"), text("T"), 1, 7) == RP_OK);
    CHECK(rp_broker_put_offset(fx.broker, text("H"), text("U"), 2, 8) == RP_OK);
    check_offsets(&fx, text("H"), NO_NAME, (int64_t[]){-1, 7, 8, -1});
    check_offsets(&fx, NO_NAME, text("T"), (int64_t[]){4, 7, -1, 99});
    check_offsets(&fx, text("H"), text("T"), (int64_t[]){-1, 7, -1, -1});
    check_offsets(&fx, text("nobody"), NO_NAME, (int64_t[]){-1, -1, -1, -1});
    check_offsets(&fx, NO_NAME, text("nothing"), (int64_t[]){-1, -1, -1, -1});
    rp_broker_delete_offsets(fx.broker, NO_NAME, text("U"));
    check_offsets(&fx, NO_NAME, NO_NAME, (int64_t[]){4, 7, -1, 99});
    rp_broker_delete_offsets(fx.broker, text("nobody"), NO_NAME);
    rp_broker_delete_offsets(fx.broker, NO_NAME, text("nothing"));
    check_offsets(&fx, NO_NAME, NO_NAME, (int64_t[]){4, 7, -1, 99});
    rp_broker_delete_offsets(fx.broker, text("G"), text("other"));
    CHECK(committed(&fx, 3) == 99);
    rp_broker_delete_offsets(fx.broker, text("G"), NO_NAME);
    CHECK(committed(&fx, 3) == -1);
    client_close(&c);
    fixture_close(&fx);
}

int main(void) {
    RUN(offsets_are_answered_by_rocketmqs_rules);
    RUN(a_slave_keeps_bad_offsets_and_sends_consumers_back);
    RUN(tags_are_filtered_by_their_code);
    RUN(a_pull_stops_at_its_limits);
    RUN(messages_in_several_files_come_whole);
    RUN(subscriptions_come_from_heartbeats_when_the_request_has_none);
    RUN(permissions_and_queue_ids_are_checked);
    RUN(faulty_headers_are_system_errors);
    RUN(what_is_not_native_goes_to_python);
    RUN(reading_a_queue_without_messages_makes_no_file);
    RUN(a_group_without_offset_begins_with_the_first_message_or_is_told_that_there_is_none);
    RUN(damaged_entries_are_passed_over);
    RUN(a_committed_offset_is_found_and_counts_as_one_change);
    RUN(an_offset_of_a_queue_far_behind_those_that_there_are_is_not_kept);
    RUN(the_ends_of_a_queue_are_answered_and_of_one_that_is_not_here_left_to_python);
    RUN(a_pull_commits_and_a_reset_sends_the_next_one_back);
    RUN(offsets_are_listed_and_deleted_by_group_and_topic);
    return 0;
}
