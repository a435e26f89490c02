/* broker_light_test.c: sends to light queues: which are accepted, which are refused; delayed and transactional messages enter a light queue
 * when they enter their topic, not before. */
#include "broker/answers.h"
#include "broker/half_messages.h"
#include "broker/lane.h"
#include "broker/light_copies.h"
#include "broker/transactions.h"
#include "stored_messages.h"

#define LISTS(names) "INNER_MULTI_DISPATCH\1" names "\2"
#define FORGED "INNER_MULTI_QUEUE_OFFSET\1999\2"

static void open_light(fixture *fx, uint32_t light_queues_max) {
    fx->store_options.light_queues_max = light_queues_max;
    fx->store_options.delay_levels = "0s 1h";
    fixture_open(fx);
    uint32_t native = RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL;
    CHECK(rp_broker_put_topic(fx->broker, text("%LMQ%x"), 1, 1, 6, 0, native) == RP_OK);
    CHECK(rp_broker_put_topic(fx->broker, text(RP_DELAY_TOPIC), 18, 18, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
    CHECK(rp_broker_put_topic(fx->broker, text(RP_HALF_TOPIC), 1, 1, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
    CHECK(rp_broker_put_topic(fx->broker, text(RP_OP_TOPIC), 1, 1, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
}

static void close_light(fixture *fx, client *c) {
    client_close(c);
    drop_events(fx);
    fixture_close(fx);
}

static int32_t answer_to(client *c, const char *topic, const char *properties) {
    number_text queue;
    rp_command request = send_request_v2(c, RP_CODE_SEND_MESSAGE_V2, topic, 0, properties, text("body"), &queue);
    return client_call(c, &request).code;
}

static int offsets_are(const fixture *fx, const char *topic, int32_t queue_id, int64_t offset, const char *offsets) {
    rp_message message;
    rp_queue_entry entry;
    void *pin = read_message(fx, topic, queue_id, offset, &message, &entry);
    int are_so = property_is(&message, "INNER_MULTI_QUEUE_OFFSET", offsets);
    rp_log_range_release(pin);
    return are_so;
}

static int is_the_same(const fixture *fx, const char *light, int64_t offset, const char *topic, int64_t topic_offset) {
    rp_queue_entry in_light, in_topic;
    rp_consume_queue *queue = rp_message_store_queue(fx->store, text(light), 0, 0, NULL);
    CHECK(queue != NULL && rp_consume_queue_read(queue, offset, &in_light, 1) == 1);
    queue = rp_message_store_queue(fx->store, text(topic), 0, 0, NULL);
    CHECK(queue != NULL && rp_consume_queue_read(queue, topic_offset, &in_topic, 1) == 1);
    return in_light.commit_log_offset == in_topic.commit_log_offset && in_light.tags_code == in_topic.tags_code;
}

static void a_message_is_stored_once_and_is_in_each_of_its_queues(void) {
    fixture fx;
    fixture_init(&fx);
    open_light(&fx, 10);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    CHECK(send_message(&c, "T", 0, "TAGS\1TagA\2" LISTS("%LMQ%x,%LMQ%y"), "one") == 0);
    CHECK(send_message(&c, "T", 0, FORGED LISTS("%LMQ%y") "UNIQ_KEY\1AB", "two") == 1);
    CHECK(send_message(&c, "%LMQ%x", 0, NULL, "direct") == 1);
    CHECK(end_of(&fx, "%LMQ%x", 0) == 2 && end_of(&fx, "%LMQ%y", 0) == 2);
    CHECK(offsets_are(&fx, "T", 0, 0, "0,0") && offsets_are(&fx, "T", 0, 1, "1"));
    CHECK(is_the_same(&fx, "%LMQ%x", 0, "T", 0) && is_the_same(&fx, "%LMQ%y", 1, "T", 1));
    pull_request pull = pull_of(0, 0);
    pull.topic = "%LMQ%x";
    rp_command answer = client_pull(&c, &pull);
    CHECK(answer.code == 0 && slice_contains(answer.body, "one") && slice_contains(answer.body, "direct"));
    close_light(&fx, &c);
}

static void a_queue_that_would_be_one_file_too_many_refuses_its_own_messages_only(void) {
    fixture fx;
    fixture_init(&fx);
    fx.store_options.queue_files_max = 2;
    open_light(&fx, 10);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    CHECK(send_message(&c, "T", 0, LISTS("%LMQ%x"), "one") == 0);
    CHECK(answer_to(&c, "T", LISTS("%LMQ%y")) == RP_RESPONSE_SYSTEM_ERROR && end_of(&fx, "T", 0) == 1);
    CHECK(send_message(&c, "T", 0, LISTS("%LMQ%x"), "two") == 1 && end_of(&fx, "%LMQ%x", 0) == 2);
    close_light(&fx, &c);
}

static void what_would_be_read_in_two_ways_is_refused(void) {
    static const char *const bad[] = {LISTS("x"),
                                      LISTS("x,%LMQ%a"),
                                      LISTS("%LMQ%a,,%LMQ%b"),
                                      LISTS("%LMQ%a/b"),
                                      LISTS("%LMQ%a") LISTS("%LMQ%b"),
                                      "TRAN_MSG\1true\2" LISTS("x"),
                                      "DELAY\0012\2" LISTS("x")};
    fixture fx;
    fixture_init(&fx);
    open_light(&fx, 2);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(answer_to(&c, "T", bad[i]) == RP_RESPONSE_MESSAGE_ILLEGAL);
    CHECK(answer_to(&c, "%LMQ%x", LISTS("%LMQ%y,%LMQ%x")) == RP_RESPONSE_MESSAGE_ILLEGAL);
    CHECK(end_of(&fx, "T", 0) == 0);
    CHECK(answer_to(&c, "T", LISTS("%LMQ%one,%LMQ%two")) == 0);
    CHECK(answer_to(&c, "T", LISTS("%LMQ%three")) == RP_RESPONSE_SYSTEM_ERROR);
    CHECK(rp_message_store_queue(fx.store, text("%LMQ%three"), 0, 0, NULL) == NULL);
    close_light(&fx, &c);
}

static void who_sends_to_one_topic_writes_into_no_lite_topic_of_another(void) {
    fixture fx;
    fixture_init(&fx);
    open_light(&fx, 10);
    CHECK(rp_broker_put_topic(fx.broker, text("P"), 1, 1, 6, 0, RP_TOPIC_NATIVE_SEND | RP_TOPIC_LITE) == RP_OK);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    CHECK(answer_to(&c, "T", LISTS("%LMQ%a,%LMQ%$P$x")) == RP_RESPONSE_MESSAGE_ILLEGAL);
    CHECK(answer_to(&c, "T", "DELAY\0012\2" LISTS("%LMQ%$P$x")) == RP_RESPONSE_MESSAGE_ILLEGAL);
    CHECK(rp_message_store_queue(fx.store, text("%LMQ%$P$x"), 0, 0, NULL) == NULL);
    CHECK(answer_to(&c, "P", LISTS("%LMQ%$P$x")) == 0 && end_of(&fx, "%LMQ%$P$x", 0) == 1);
    CHECK(answer_to(&c, "T", LISTS("%LMQ%$T$x,%LMQ%$unknown$x")) == 0);
    close_light(&fx, &c);
}

static void without_light_queues_the_list_is_a_property_like_others(void) {
    fixture fx;
    fixture_init(&fx);
    open_light(&fx, 0);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    CHECK(answer_to(&c, "T", LISTS("%LMQ%a,x") FORGED) == 0);
    CHECK(offsets_are(&fx, "T", 0, 0, NULL));
    CHECK(rp_message_store_queue(fx.store, text("%LMQ%a"), 0, 0, NULL) == NULL);
    close_light(&fx, &c);
}

/* size, magic, CRC, flag, body, properties: as MessageDecoder.encodeMessage. */
static uint32_t put_batch_message(uint8_t *at, const char *properties) {
    uint32_t size = 4 * 5 + 1 + 2 + (uint32_t)strlen(properties);
    memset(at, 0, size);
    rp_put_u32(at, size);
    rp_put_u32(at + 16, 1);
    at[20] = 'b';
    rp_put_u16(at + 21, (uint16_t)strlen(properties));
    memcpy(at + 23, properties, strlen(properties));
    return size;
}

static void offsets_that_a_producer_writes_into_a_batch_are_dropped(void) {
    uint8_t body[512];
    fixture fx;
    fixture_init(&fx);
    open_light(&fx, 10);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    uint32_t size = put_batch_message(body, "TAGS\1a\2" FORGED LISTS("%LMQ%victim"));
    size += put_batch_message(body + size, "TAGS\1b\2" LISTS("%LMQ%victim"));
    number_text queue;
    rp_command request = send_request_v2(&c, RP_CODE_SEND_BATCH_MESSAGE, "T", 0, NULL, (rp_slice){body, size}, &queue);
    with_text(&request, "m", "true");
    CHECK(client_call(&c, &request).code == 0);
    CHECK(end_of(&fx, "T", 0) == 2 && offsets_are(&fx, "T", 0, 0, NULL) && offsets_are(&fx, "T", 0, 1, NULL));
    CHECK(rp_message_store_queue(fx.store, text("%LMQ%victim"), 0, 0, NULL) == NULL);
    close_light(&fx, &c);
}

static int came(void *context) { return end_of(context, "%LMQ%late", 0) == 1; }

static void block(const fixture *fx, const char *topic, char path[512]) {
    snprintf(path, 512, "%s/consumequeue/%s", fx->path, topic);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fclose(file) == 0);
}

#define BROKEN 40 /* more than a window of a delay level */

/* A plain file stands where the directory of the light queue has to be. */
static void delayed_messages_to_a_broken_light_queue_hold_nobody_up(void) {
    fixture fx;
    char path[512];
    int64_t offset, end;
    fixture_init(&fx);
    open_light(&fx, 10);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    for (int i = 0; i <= BROKEN; i++) {
        number_text queue;
        const char *properties = i < BROKEN ? "DELAY\0011\2" LISTS("%LMQ%broken") : "DELAY\0011\2";
        rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", i / BROKEN, properties, text("b"), &queue);
        CHECK(client_call(&c, &request).code == 0);
    }
    block(&fx, "%LMQ%broken", path);
    CHECK(rp_broker_start_delivery(fx.broker, NULL) == RP_OK);
    for (int64_t until = now_ms() + WAIT_MS; end_of(&fx, "T", 1) < 1;)
        CHECK(now_ms() < until && sched_yield() == 0);
    CHECK(end_of(&fx, "T", 0) == 0 && rp_broker_read_delay_offset(fx.broker, 1, &offset, &end) == RP_OK && offset == 0);
    CHECK(unlink(path) == 0);
    for (int64_t until = now_ms() + WAIT_MS; offset <= BROKEN;)
        CHECK(now_ms() < until && rp_broker_read_delay_offset(fx.broker, 1, &offset, &end) == RP_OK && sched_yield() == 0);
    CHECK(end_of(&fx, "T", 0) == BROKEN && end_of(&fx, "%LMQ%broken", 0) == BROKEN && end_of(&fx, "T", 1) == 1);
    rp_broker_stop_delivery(fx.broker);
    close_light(&fx, &c);
}

static void a_delayed_message_comes_to_its_light_queues_when_it_is_due(void) {
    fixture fx;
    fixture_init(&fx);
    open_light(&fx, 10);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    number_text queue;
    rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, "DELAY\0011\2" LISTS("%LMQ%late"), text("b"), &queue);
    CHECK(client_call(&c, &request).code == 0);
    CHECK(end_of(&fx, RP_DELAY_TOPIC, 0) == 1 && rp_message_store_queue(fx.store, text("%LMQ%late"), 0, 0, NULL) == NULL);
    CHECK(rp_broker_start_delivery(fx.broker, NULL) == RP_OK);
    int64_t until = now_ms() + WAIT_MS;
    while (rp_message_store_queue(fx.store, text("%LMQ%late"), 0, 0, NULL) == NULL)
        CHECK(now_ms() < until && sched_yield() == 0);
    wait_until(came, &fx);
    rp_broker_stop_delivery(fx.broker);
    CHECK(offsets_are(&fx, "T", 0, 0, "0") && is_the_same(&fx, "%LMQ%late", 0, "T", 0));
    close_light(&fx, &c);
}

static void a_message_of_a_transaction_comes_with_its_commit(void) {
    fixture fx;
    fixture_init(&fx);
    open_light(&fx, 10);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    CHECK(answer_to(&c, "T", "TRAN_MSG\1true\2PGROUP\1P\2UNIQ_KEY\1AB\2" LISTS("%LMQ%sure")) == 0);
    CHECK(end_of(&fx, RP_HALF_TOPIC, 0) == 1 && rp_message_store_queue(fx.store, text("%LMQ%sure"), 0, 0, NULL) == NULL);
    rp_queue_entry half;
    CHECK(rp_consume_queue_read(rp_message_store_queue(fx.store, text(RP_HALF_TOPIC), 0, 0, NULL), 0, &half, 1) == 1);
    rp_end_transaction end = {.producer_group = text("P"), .log_offset = half.commit_log_offset, .decision = RP_SYSFLAG_TRANSACTION_COMMIT};
    const char *remark;
    CHECK(rp_broker_end_transaction(fx.broker, &end, &remark) == 0);
    CHECK(end_of(&fx, "%LMQ%sure", 0) == 1 && offsets_are(&fx, "T", 0, 0, "0") && is_the_same(&fx, "%LMQ%sure", 0, "T", 0));
    close_light(&fx, &c);
}

/* Its offsets would not fit into a record any more when it comes: then, as before there were light queues, it is in its topic alone. */
static void a_message_is_not_lost_for_want_of_room_for_its_offsets(void) {
    enum { FULL = RP_PROPERTIES_SIZE_MAX - 120 };
    static char properties[RP_PROPERTIES_SIZE_MAX];
    fixture fx;
    fixture_init(&fx);
    open_light(&fx, 10);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    int size = snprintf(properties, sizeof properties, "DELAY\0011\2UNIQ_KEY\1AB\2" LISTS("%%LMQ%%a") "X\1");
    memset(properties + size, 'x', (size_t)(FULL - size));
    CHECK(answer_to(&c, "T", properties) == RP_RESPONSE_MESSAGE_ILLEGAL && end_of(&fx, RP_DELAY_TOPIC, 0) == 0);
    rp_append_item item = {.queue = rp_message_store_queue(fx.store, text("T"), 0, 1, NULL),
                           .body = text("taken before"),
                           .properties = {{(const uint8_t *)properties, RP_PROPERTIES_SIZE_MAX - 20}}};
    void *room;
    CHECK(rp_copy_to_light_queues(fx.broker, &item, &room) == RP_OK && room == NULL && item.light == NULL);
    CHECK(rp_commit_log_append(fx.broker->commit_log, &item, 1) > 0 && item.status == RP_OK);
    item.properties[0].size = FULL - 200;
    CHECK(rp_copy_to_light_queues(fx.broker, &item, &room) == RP_OK && room != NULL && item.light != NULL);
    CHECK(rp_commit_log_append(fx.broker->commit_log, &item, 1) > 0 && end_of(&fx, "%LMQ%a", 0) == 1);
    free(room);
    close_light(&fx, &c);
}

int main(void) {
    a_message_is_stored_once_and_is_in_each_of_its_queues();
    a_queue_that_would_be_one_file_too_many_refuses_its_own_messages_only();
    what_would_be_read_in_two_ways_is_refused();
    who_sends_to_one_topic_writes_into_no_lite_topic_of_another();
    without_light_queues_the_list_is_a_property_like_others();
    offsets_that_a_producer_writes_into_a_batch_are_dropped();
    a_delayed_message_comes_to_its_light_queues_when_it_is_due();
    delayed_messages_to_a_broken_light_queue_hold_nobody_up();
    a_message_of_a_transaction_comes_with_its_commit();
    a_message_is_not_lost_for_want_of_room_for_its_offsets();
    return 0;
}
