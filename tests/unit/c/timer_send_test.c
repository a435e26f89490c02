/* timer_send_test.c: sends of timed messages: which are accepted, what is stored, what their sender is answered. */
#include "broker/key_set.h"
#include "broker/timer_item.h"
#include "timer_fixture.h"

#define NOW INT64_C(1700000000123)
#define DAYS_3 (INT64_C(3) * 86400 * 1000)

static int when(const char *properties, int64_t *out_ms) {
    rp_timer_rules rules = {.now_ms = NOW, .delay_max_ms = DAYS_3, .precision_ms = 1000};
    return rp_timer_decide(text(properties), &rules, out_ms);
}

static void a_time_is_the_slot_before_it_and_no_number_goes_round(void) {
    static const struct {
        const char *properties;
        int when;
        int64_t out_ms;
    } cases[] = {
        {"TIMER_DELAY_SEC\00110\2", RP_TIMER_IS_LATER, INT64_C(1700000010000)},
        {"TIMER_DELAY_MS\001877\2", RP_TIMER_IS_LATER, INT64_C(1700000000000)},
        {"TIMER_DELAY_MS\001878\2", RP_TIMER_IS_LATER, INT64_C(1700000001000)},
        {"TIMER_DELIVER_MS\0011700000005000\2", RP_TIMER_IS_LATER, INT64_C(1700000004000)},
        {"TIMER_DELIVER_MS\0011\2TIMER_DELAY_MS\0010\2TIMER_DELAY_SEC\0012\2", RP_TIMER_IS_LATER, INT64_C(1700000002000)},
        {"TIMER_DELAY_SEC\001259200\2", RP_TIMER_IS_LATER, INT64_C(1700259200000)},
        {"TIMER_DELAY_SEC\001259201\2", RP_E_INVALID, 0},
        {"TIMER_DELAY_SEC\0010\2TIMER_DELAY_MS\0015000\2", RP_TIMER_IS_NOW, 0},
        {"TIMER_DELAY_SEC\1-5\2", RP_TIMER_IS_NOW, 0},
        {"TIMER_DELIVER_MS\0011700000000123\2", RP_TIMER_IS_NOW, 0},
        {"TIMER_DELIVER_MS\1-9223372036854775808\2", RP_TIMER_IS_NOW, 0},
        {"TIMER_DELAY_SEC\1-9223372036854775808\2", RP_TIMER_IS_NOW, 0},
        {"TIMER_DELAY_MS\1-9223372036854775808\2", RP_TIMER_IS_NOW, 0},
        {"TIMER_DELIVER_MS\0019223372036854775807\2", RP_E_INVALID, 0},
        {"TIMER_DELAY_SEC\0019223372036854775807\2", RP_E_INVALID, 0},
        {"TIMER_DELAY_MS\0019223372036854775807\2", RP_E_INVALID, 0},
        {"TIMER_DELAY_MS\0019223372036854775808\2", RP_E_INVALID, 0},
        {"TIMER_DELAY_SEC\1soon\2TIMER_DELAY_MS\0015000\2", RP_E_INVALID, 0},
        {"TIMER_DELAY_MS\1-1\2TIMER_DEL_UNIQKEY\1T+K\2", RP_E_INVALID, 0},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t out_ms = -7;
        CHECK(when(cases[i].properties, &out_ms) == cases[i].when);
        CHECK(cases[i].when != RP_TIMER_IS_LATER || out_ms == cases[i].out_ms);
    }
    int64_t out_ms = -7;
    CHECK(rp_timer_out_ms(text("TIMER_OUT_MS\1-9223372036854775808\2"), &out_ms) == RP_OK && out_ms == 0);
    CHECK(rp_timer_out_ms(text("TIMER_OUT_MS\1x\2"), &out_ms) == RP_E_NOT_FOUND);
    CHECK(rp_timer_out_ms(text("A\1b\2"), &out_ms) == RP_E_NOT_FOUND);
}

/* The counts of rolls stay when there is room for nothing else; what is dropped is what nobody needs. */
static void full_properties_keep_what_the_broker_needs(void) {
    static char waited[RP_PROPERTIES_SIZE_MAX];
    static uint8_t room[RP_PROPERTIES_SIZE_MAX + 1 + RP_TIMER_TEXT_ROOM];
    static const char head[] = "TIMER_ROLL_TIMES\0016\2REAL_TOPIC\1T\2REAL_QID\0013\2A\1";
    memset(waited, 'x', sizeof waited);
    memcpy(waited, head, sizeof head - 1);
    waited[sizeof waited - 1] = 2;
    for (uint32_t left = 32; left < 128; left += 16) {
        rp_slice text_of = {(const uint8_t *)waited + left, (uint32_t)sizeof waited - left};
        memcpy(waited + left, head, sizeof head - 1);
        rp_slice rolled = {room, (uint32_t)(rp_timer_put_rolled(room, text_of, 5, 7) - room)};
        CHECK(rolled.size <= RP_PROPERTIES_SIZE_MAX && slice_is(rp_message_property(rolled, "TIMER_ROLL_TIMES"), "7"));
        CHECK(slice_is(rp_message_property(rolled, "REAL_QID"), "3"));
        rp_slice delivered = {room, (uint32_t)(rp_timer_put_delivered(room, text_of, 5, 7) - room)};
        CHECK(delivered.size <= RP_PROPERTIES_SIZE_MAX && slice_is(rp_message_property(delivered, "REAL_TOPIC"), "T"));
    }
}

static void a_set_of_keys_has_what_was_added(void) {
    rp_key_set set;
    char key[64];
    rp_key_set_init(&set, 7);
    CHECK(!rp_key_set_has_recalled(&set, text("T"), text("1")));
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "T+%d", i % 500);
        CHECK(rp_key_set_add_recalled(&set, text("T"), i < 500 ? text(key) : text(key + 2)) == RP_OK);
    }
    CHECK(set.count == 500 && rp_key_set_has_recalled(&set, text("T"), text("499")));
    CHECK(!rp_key_set_has_recalled(&set, text("T"), text("500")) && !rp_key_set_has_recalled(&set, text("U"), text("1")));
    CHECK(rp_key_set_add_recalled(&set, text("A"), text("B+\001")) == RP_OK && rp_key_set_has_recalled(&set, text("A"), text("B+\001")));
    CHECK(!rp_key_set_has_recalled(&set, text("T"), (rp_slice){NULL, 0}) && !rp_key_set_has_recalled(&set, (rp_slice){NULL, 0}, text("1")));
    rp_key_set_clear(&set);
    CHECK(!rp_key_set_has_recalled(&set, text("T"), text("1")));
}

static void a_message_with_a_timer_waits_in_the_timer_queue_and_its_sender_gets_a_handle(void) {
    fixture fx;
    timer_fixture_init(&fx);
    fixture_open(&fx);
    for (uint8_t encoding = 0; encoding < 2; encoding++) {
        client c = client_open(&fx, encoding);
        rp_command response = send_timed(&c, "T", 2,
                                         "TAGS\1A\2TIMER_DELIVER_MS\0011\2TIMER_DELAY_SEC\00160\2REAL_QID\0019\2TIMER_ROLL_TIMES\0013\2"
                                         "UNIQ_KEY\1AB\2",
                                         "later");
        rp_message message;
        char handle[200];
        int64_t out_ms;
        CHECK(response.code == 0 && field_number(&response, "queueId") == 2);
        void *pin = read_message(&fx, RP_TIMER_TOPIC, 0, encoding, &message, NULL);
        CHECK(slice_is(message.topic, RP_TIMER_TOPIC) && slice_is(message.body, "later") && property_is(&message, "TAGS", "A"));
        CHECK(property_is(&message, "REAL_TOPIC", "T") && property_is(&message, "REAL_QID", "2"));
        CHECK(property_is(&message, "TIMER_DELAY_SEC", "60") && property_is(&message, "TIMER_ROLL_TIMES", NULL));
        CHECK(rp_timer_out_ms(message.properties, &out_ms) == RP_OK && out_ms % PRECISION_MS == 0);
        CHECK(out_ms <= message.store_timestamp_ms + 60000 && out_ms > message.store_timestamp_ms + 60000 - WAIT_MS);
        rp_log_range_release(pin);
        rp_slice got = rp_command_field(&response, "recallHandle");
        CHECK(got.data != NULL && got.size % 4 == 0);
        /* base64 of a text that begins so, whatever the broker's name and the time are */
        snprintf(handle, sizeof handle, "%.*s", 6, (const char *)got.data);
        CHECK(strncmp(handle, "djEgVC", 6) == 0);
        CHECK(end_of(&fx, "T", 2) == 0);
        client_close(&c);
    }
    drop_events(&fx);
    fixture_close(&fx);
}

static void what_has_no_later_time_is_a_plain_message_and_what_cannot_wait_is_refused(void) {
    fixture fx;
    timer_fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    rp_command response = send_timed(&c, "T", 0, "TIMER_DELIVER_MS\0011000\2", "at once");
    CHECK(response.code == 0 && rp_command_field(&response, "recallHandle").data == NULL && end_of(&fx, "T", 0) == 1);
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00160\2TIMER_OUT_MS\0011\2", "was delivered once");
    CHECK(end_of(&fx, "T", 0) == 2);
    CHECK(send_timed(&c, "T", 0, "TIMER_DELAY_SEC\0019000000\2", "too far").code == RP_RESPONSE_MESSAGE_ILLEGAL);
    response = send_timed(&c, "T", 0, "TIMER_DELAY_SEC\1x\2", "no number");
    CHECK(response.code == RP_RESPONSE_MESSAGE_ILLEGAL && slice_starts(response.remark, "timer message illegal, the delay time"));
    CHECK(send_timed(&c, "T", 0, "TIMER_DELIVER_MS\0011\2TIMER_DEL_UNIQKEY\1T+K\2", "late").code == RP_RESPONSE_MESSAGE_ILLEGAL);
    CHECK(rp_broker_put_topic(fx.broker, text(RP_TIMER_TOPIC), 1, 1, 6, 0, RP_TOPIC_NATIVE_SEND) == RP_OK);
    CHECK(send_timed(&c, RP_TIMER_TOPIC, 0, "TIMER_DELAY_SEC\00160\2", "again and again").code == RP_RESPONSE_NO_PERMISSION);
    fx.settings.timer_enable = 0;
    rp_broker_set_settings(fx.broker, &fx.settings);
    response = send_timed(&c, "T", 0, "TIMER_DELAY_SEC\00160\2", "off");
    CHECK(response.code == RP_RESPONSE_SYSTEM_ERROR && slice_contains(response.remark, "accurate timer message is not enabled"));
    CHECK(end_of(&fx, RP_TIMER_TOPIC, 0) == 0 && end_of(&fx, "T", 0) == 2);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static void properties_without_room_for_the_brokers_are_refused(void) {
    fixture fx;
    timer_fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    static char properties[RP_PROPERTIES_SIZE_MAX];
    memset(properties, 'x', sizeof properties);
    memcpy(properties, "TIMER_DELAY_SEC\00160\2A\1", 21);
    properties[sizeof properties - 150] = 0;
    CHECK(send_timed(&c, "T", 0, properties, "full").code == RP_RESPONSE_MESSAGE_ILLEGAL);
    properties[sizeof properties - 400] = 0;
    CHECK(send_timed(&c, "T", 0, properties, "fits").code == 0);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

static void a_full_slot_is_closed_for_sends(void) {
    fixture fx;
    timer_fixture_init(&fx);
    fx.settings.timer_slot_messages_max = 2;
    fixture_open(&fx);
    rp_timer_options options = timer_options(&fx);
    timers_start(&fx, &options);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    char properties[64];
    snprintf(properties, sizeof properties, "TIMER_DELIVER_MS\1%" PRId64 "\2", turned_wall_ms(NULL) + 600000);
    int stored = 0;
    for (int i = 0; i < 100; i++) {
        rp_command response = send_timed(&c, "T", 0, properties, "many");
        CHECK(response.code == 0 || (response.code == RP_RESPONSE_SYSTEM_ERROR && slice_contains(response.remark, "under flow control")));
        stored += response.code == 0;
        wait_entered(&fx);
    }
    CHECK(stored >= 3 && stored <= 4);
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

int main(void) {
    RUN(a_time_is_the_slot_before_it_and_no_number_goes_round);
    RUN(full_properties_keep_what_the_broker_needs);
    RUN(a_set_of_keys_has_what_was_added);
    RUN(a_message_with_a_timer_waits_in_the_timer_queue_and_its_sender_gets_a_handle);
    RUN(what_has_no_later_time_is_a_plain_message_and_what_cannot_wait_is_refused);
    RUN(properties_without_room_for_the_brokers_are_refused);
    RUN(a_full_slot_is_closed_for_sends);
    return 0;
}
