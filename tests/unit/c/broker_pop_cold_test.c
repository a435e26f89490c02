/* broker_pop_cold_test.c: pops of messages that are no longer in memory. */
#include "../../../csrc/broker/lane.h"
#include "cold_disk.h"
#include "pop_fixture.h"

/* The reader thread must read in every region before the filter skips its messages, not only the first one and the reactor the others. */
static void a_pops_filter_goes_through_a_cold_log_region_by_region(void) {
    fixture fx;
    cold_disk disk;
    prepare_over(&fx, &disk);
    disk.by_page = 1;
    fx.settings.property_filter_enable = 1;
    fixture_open(&fx);
    put_pop_topics(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_large_messages(&c);
    pop_request pop = pop_of(0);
    pop.expression_type = "SQL92";
    pop.expression = "price = 1";
    rp_command response = client_pop(&c, &pop);
    CHECK(response.code == SUCCESS && messages_in(response.body) == 1 && offset_of(&fx, 0) == LARGE_MESSAGES);
    CHECK(wait_for_reads(&disk, 0) >= LARGE_REGIONS);
    close_pop(&fx, &c);
}

/* One filter, some windows of entries: each is asked for when its turn has come, and nothing is found by the end of its time alone. */
static void a_pops_filter_asks_for_each_window_of_entries(void) {
    enum { MESSAGES = 9000 };
    fixture fx;
    cold_disk disk;
    prepare_over(&fx, &disk);
    disk.by_page = 1;
    fx.broker_options.cold_after_entries = 0;
    fx.broker_options.cold_wait_ms = 10 * WAIT_MS;
    fixture_open(&fx);
    put_pop_topics(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    append_small_messages(&fx, MESSAGES - 1);
    send_message(&c, "T", 0, "TAGS\1wanted\2", "small");
    pop_request pop = pop_of(0);
    pop.expression = "wanted";
    rp_command response = client_pop(&c, &pop);
    CHECK(response.code == SUCCESS && messages_in(response.body) == 1 && offset_of(&fx, 0) == MESSAGES);
    close_pop(&fx, &c);
}

/* If the disk fails, pops do not wait for ever either: the reactor then reads itself. */
static void what_the_reader_cannot_bring_in_is_popped_all_the_same(void) {
    enum { MESSAGES = 100 };
    fixture fx;
    cold_disk disk;
    prepare_over(&fx, &disk);
    disk.reads_in = 0;
    fx.broker_options.cold_wait_ms = 20;
    fx.settings.property_filter_enable = 1;
    fixture_open(&fx);
    put_pop_topics(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    for (int i = 0; i < MESSAGES; i++)
        send_message(&c, "T", 0, i == MESSAGES - 1 ? "price\0011\2" : "", "on disk");
    pop_request pop = pop_of(0);
    pop.expression_type = "SQL92";
    pop.expression = "price = 1";
    pop.poll_ms = WAIT_MS;
    rp_command response = client_pop(&c, &pop);
    CHECK(response.code == SUCCESS && messages_in(response.body) == 1 && offset_of(&fx, 0) == MESSAGES);
    CHECK(wait_for_reads(&disk, 1) >= 1);
    close_pop(&fx, &c);
}

int main(void) {
    a_pops_filter_goes_through_a_cold_log_region_by_region();
    a_pops_filter_asks_for_each_window_of_entries();
    what_the_reader_cannot_bring_in_is_popped_all_the_same();
    return 0;
}
