/* dispatcher_test.c: the entry made from a record says what RocketMQ reads in that record. */
#include "../../../csrc/store/dispatcher.h"
#include "check.h"
#include "store_fixture.h"

static int64_t due_in(const char *level) {
    char properties[64];
    rp_dispatcher dispatcher;
    rp_error error;
    CHECK(rp_dispatcher_init(&dispatcher, NULL, NULL, "10s 20s 1m", &error) == RP_OK);
    snprintf(properties, sizeof properties, "TAGS\1A\2DELAY\1%s\2", level);
    rp_message message = {
        .topic = fixture_slice(RP_DELAY_TOPIC), .properties = fixture_slice(properties), .store_timestamp_ms = 1700000000000};
    return rp_dispatcher_tags_code(&dispatcher, &message) - message.store_timestamp_ms;
}

/* Integer.parseInt, as the append has it too: an entry made from the record is that of the append. */
static void a_delay_level_is_a_number_of_javas(void) {
    int64_t none = due_in("none");
    CHECK(due_in("1") == 10000 && due_in("2") == 20000 && due_in("+2") == 20000 && due_in("002") == 20000);
    CHECK(due_in("3") == 60000 && due_in("99") == 60000 && due_in("2147483647") == 60000);
    CHECK(none < 0 && due_in("0") == none && due_in("-1") == none && due_in("") == none && due_in("2 ") == none);
    CHECK(due_in("2147483648") == none && due_in("99999999999999999999") == none);
}

static void the_time_of_a_damaged_record_does_not_go_round(void) {
    rp_dispatcher dispatcher;
    rp_error error;
    CHECK(rp_dispatcher_init(&dispatcher, NULL, NULL, "10s", &error) == RP_OK);
    rp_message message = {
        .topic = fixture_slice(RP_DELAY_TOPIC), .properties = fixture_slice("DELAY\0011\2"), .store_timestamp_ms = INT64_MAX - 9999};
    CHECK(rp_dispatcher_tags_code(&dispatcher, &message) == INT64_MAX);
    message.store_timestamp_ms = INT64_MIN;
    CHECK(rp_dispatcher_tags_code(&dispatcher, &message) == INT64_MIN + 10000);
}

int main(void) {
    RUN(a_delay_level_is_a_number_of_javas);
    RUN(the_time_of_a_damaged_record_does_not_go_round);
    return 0;
}
