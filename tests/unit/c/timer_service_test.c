/* timer_service_test.c: timed messages: when they are delivered, what recalls them; the effect of restarts, malformed messages, settings
 * and clocks. */
#include "timer_fixture.h"
#include "store/timing_wheel.h"

#define MINUTE INT64_C(60000)
#define SENDS 300

static client opened(fixture *fx) {
    timer_fixture_init(fx);
    fixture_open(fx);
    rp_timer_options options = timer_options(fx);
    timers_start(fx, &options);
    return client_open(fx, RP_SERIALIZE_JSON);
}

static void a_message_comes_when_its_time_is_over_and_not_before(void) {
    fixture fx;
    client c = opened(&fx);
    send_later(&c, "T", 1, "TAGS\1A\2TIMER_DELAY_SEC\00160\2UNIQ_KEY\1K\2", "minute");
    send_later(&c, "T", 1, "TIMER_DELAY_SEC\00130\2", "half");
    turn_clock(&fx, 10000);
    CHECK(end_of(&fx, "T", 1) == 0 && count_of(&fx, "T") == 2 && stats_of(&fx).messages_waiting == 2);
    CHECK(rp_broker_timers_between(fx.broker, 0, 5) == 0 && rp_broker_timers_between(fx.broker, 10, 3600) == 2);
    turn_clock(&fx, 25000);
    CHECK(end_of(&fx, "T", 1) == 1 && body_is(&fx, "T", 1, 0, "half") && count_of(&fx, "T") == 1);
    turn_clock(&fx, 30000);
    rp_message message;
    void *pin = read_message(&fx, "T", 1, 1, &message, NULL);
    CHECK(slice_is(message.body, "minute") && property_is(&message, "TAGS", "A") && property_is(&message, "UNIQ_KEY", "K"));
    CHECK(property_is(&message, "REAL_TOPIC", "T") && property_is(&message, "REAL_QID", "1")); /* RocketMQ leaves these properties too */
    CHECK(rp_message_property(message.properties, "TIMER_OUT_MS").data != NULL);
    CHECK(rp_message_property(message.properties, "TIMER_ENQUEUE_MS").data != NULL);
    rp_log_range_release(pin);
    CHECK(end_of(&fx, "T", 1) == 2 && count_of(&fx, "T") == 0 && stats_of(&fx).delivered == 2);
    ended(&fx, &c);
}

/* More than one batch, and more than one file of the timer log. */
static void a_slot_comes_in_the_order_of_its_sends(void) {
    fixture fx;
    client c = opened(&fx);
    char properties[64], body[16];
    snprintf(properties, sizeof properties, "TIMER_DELIVER_MS\1%" PRId64 "\2", turned_wall_ms(NULL) + 5 * MINUTE);
    for (int i = 0; i < SENDS * 5; i++) {
        snprintf(body, sizeof body, "%d", i);
        send_later(&c, "T", 0, properties, body);
    }
    turn_clock(&fx, 6 * MINUTE);
    CHECK(end_of(&fx, "T", 0) == SENDS * 5);
    for (int i = 0; i < SENDS * 5; i++) {
        snprintf(body, sizeof body, "%d", i);
        CHECK(body_is(&fx, "T", 0, i, body));
    }
    ended(&fx, &c);
}

static void what_is_recalled_does_not_come_and_the_others_of_its_slot_do(void) {
    fixture fx;
    client c = opened(&fx);
    char properties[96];
    int64_t deliver_ms = (turned_wall_ms(NULL) + MINUTE) / PRECISION_MS * PRECISION_MS + 1;
    for (int i = 0; i < 3; i++) {
        snprintf(properties, sizeof properties, "TIMER_DELIVER_MS\1%" PRId64 "\2UNIQ_KEY\1K%d\2", deliver_ms, i);
        send_later(&c, "T", 0, properties, "x");
    }
    CHECK(put_recall(&fx, "T", "K0", deliver_ms) == RP_OK && put_recall(&fx, "T", "K2", deliver_ms) == RP_OK);
    CHECK(put_recall(&fx, "U", "K1", deliver_ms) == RP_OK && put_recall(&fx, "T", "unknown", deliver_ms) == RP_OK);
    CHECK(put_recall(&fx, "T", "K1", 1) == RP_E_INVALID && put_recall(&fx, "T", "", deliver_ms) == RP_E_INVALID);
    CHECK(put_recall(&fx, "T", "K\0021", deliver_ms) == RP_E_INVALID && put_recall(&fx, "T", "K1", INT64_MAX) == RP_E_INVALID);
    turn_clock(&fx, 2 * MINUTE);
    rp_timer_stats stats = stats_of(&fx);
    CHECK(end_of(&fx, "T", 0) == 1 && stats.recalled == 2 && stats.delivered == 1 && count_of(&fx, "T") == 0);
    ended(&fx, &c);
}

/* A second is all that the wheel is used for. */
static void what_waits_longer_than_the_window_is_rolled_and_comes_once(void) {
    fixture fx;
    timer_fixture_init(&fx);
    fixture_open(&fx);
    rp_timer_options options = timer_options(&fx);
    options.roll_window_slots = 50;
    timers_start(&fx, &options);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00110\2UNIQ_KEY\1K\2", "far");
    wait_entered(&fx);
    for (int i = 0; i < 25; i++)
        turn_clock(&fx, 500);
    rp_message message;
    void *pin = read_message(&fx, "T", 0, 0, &message, NULL);
    int64_t times;
    CHECK(rp_slice_to_i64(rp_message_property(message.properties, "TIMER_ROLL_TIMES"), &times) == RP_OK && times >= 2);
    CHECK(slice_is(message.body, "far") && end_of(&fx, "T", 0) == 1 && stats_of(&fx).rolled == (uint64_t)times);
    CHECK(count_of(&fx, "T") == 0 && stats_of(&fx).messages_waiting == 0);
    rp_log_range_release(pin);
    ended(&fx, &c);
}

/* A message and its recall, both rolled while the service is far behind: their own slot is due as well, and is read behind them. */
static void what_is_recalled_stays_so_when_it_is_rolled_late(void) {
    fixture fx;
    timer_fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    rp_timer_options options = timer_options(&fx);
    options.roll_window_slots = 500;
    timers_start(&fx, &options);
    char properties[96];
    int64_t deliver_ms = turned_wall_ms(NULL) + MINUTE / 2;
    snprintf(properties, sizeof properties, "TIMER_DELIVER_MS\1%" PRId64 "\2UNIQ_KEY\1K\2", deliver_ms);
    send_later(&c, "T", 0, properties, "recalled");
    send_later(&c, "T", 1, "TIMER_DELAY_SEC\00130\2", "comes");
    CHECK(put_recall(&fx, "T", "K", deliver_ms) == RP_OK);
    wait_entered(&fx);
    timers_stop(&fx);
    atomic_fetch_add(&clock_ahead_ms, 2 * MINUTE);
    timers_start(&fx, &options);
    wait_end(&fx, "T", 1, 1);
    wait_read(&fx, deliver_ms + MINUTE);
    wait_entered(&fx);
    timers_stop(&fx);
    CHECK(end_of(&fx, "T", 0) == 0 && end_of(&fx, "T", 1) == 1 && stats_of(&fx).recalled == 1);
    ended(&fx, &c);
}

static void what_a_restart_finds_waits_on_and_what_was_delivered_does_not_come_again(void) {
    fixture fx;
    client c = opened(&fx);
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00110\2", "soon");
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\001600\2", "later");
    turn_clock(&fx, 20000);
    CHECK(end_of(&fx, "T", 0) == 1);
    client_close(&c);
    for (int i = 0; i < 3; i++) {
        timer_fixture_reopen(&fx);
        rp_timer_options options = timer_options(&fx);
        timers_start(&fx, &options);
        CHECK(count_of(&fx, "T") == 1 && stats_of(&fx).messages_waiting == 1 && stats_of(&fx).queue_offset == 2);
        turn_clock(&fx, 10000);
        CHECK(end_of(&fx, "T", 0) == 1);
    }
    turn_clock(&fx, 600000);
    CHECK(end_of(&fx, "T", 0) == 2 && body_is(&fx, "T", 0, 1, "later"));
    drop_events(&fx);
    fixture_close(&fx);
}

/* Messages that came while the service was stopped, and whose time has passed since, are delivered at once. So late a recall takes
 * nothing back. */
static void what_is_late_comes_at_once(void) {
    fixture fx;
    timer_fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    rp_timer_options options = timer_options(&fx);
    timers_start(&fx, &options);
    turn_clock(&fx, 1000);
    timers_stop(&fx);
    for (int i = 0; i < 100; i++)
        send_later(&c, "T", 0, "TIMER_DELAY_SEC\00110\2UNIQ_KEY\1K\2", "x");
    CHECK(put_recall(&fx, "T", "other", turned_wall_ms(NULL) + 10000) == RP_OK);
    atomic_fetch_add(&clock_ahead_ms, MINUTE);
    timers_start(&fx, &options);
    wait_end(&fx, "T", 0, 100);
    turn_clock(&fx, 1000);
    CHECK(end_of(&fx, "T", 0) == 100 && stats_of(&fx).delivered == 100);
    ended(&fx, &c);
}

/* Messages that no client can have sent, or that cannot be delivered, get a log line each. The others are delivered. */
static void strange_messages_are_passed_over(void) {
    static const char *const strange[] = {
        "REAL_TOPIC\1T\2REAL_QID\0010\2",
        "TIMER_OUT_MS\1x\2REAL_TOPIC\1T\2REAL_QID\0010\2",
        "TIMER_OUT_MS\0015\2REAL_TOPIC\1rmq_sys_wheel_timer\2REAL_QID\0010\2",
        "TIMER_OUT_MS\0015\2REAL_TOPIC\1RMQ_SYS_TRANS_HALF_TOPIC\2REAL_QID\0010\2",
        "TIMER_OUT_MS\0015\2REAL_TOPIC\1SCHEDULE_TOPIC_XXXX\2REAL_QID\0010\2",
        "TIMER_OUT_MS\0015\2REAL_TOPIC\1..\2REAL_QID\0010\2",
        "TIMER_OUT_MS\0015\2REAL_TOPIC\1a/b\2REAL_QID\0010\2",
        "TIMER_OUT_MS\0015\2REAL_TOPIC\1T\2REAL_QID\1-1\2",
        "TIMER_OUT_MS\0015\2REAL_TOPIC\1T\2REAL_QID\001999999999999\2",
        "TIMER_OUT_MS\0015\2REAL_QID\0010\2",
        "TIMER_OUT_MS\0015\2",
    };
    const uint64_t count = sizeof strange / sizeof strange[0];
    fixture fx;
    client c = opened(&fx);
    for (uint64_t i = 0; i < count; i++)
        put_strange(&fx, strange[i], "strange");
    put_strange(&fx, "TIMER_OUT_MS\1-9223372036854775808\2REAL_TOPIC\1T\2REAL_QID\0010\2", "old");
    put_strange(&fx, "TIMER_OUT_MS\0019223372036854775807\2REAL_TOPIC\1T\2REAL_QID\0010\2", "never");
    put_strange(&fx, "TIMER_OUT_MS\0015\2REAL_TOPIC\1is not in the table\2REAL_QID\0010\2", "elsewhere");
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\0011\2", "rest");
    turn_clock(&fx, 5000);
    rp_timer_stats stats = stats_of(&fx);
    CHECK(end_of(&fx, "T", 0) == 2 && body_is(&fx, "T", 0, 0, "old") && body_is(&fx, "T", 0, 1, "rest"));
    CHECK(end_of(&fx, "is not in the table", 0) == 1 && stats.passed_over == count && stats.messages_waiting == 1);
    CHECK(end_of(&fx, RP_TIMER_TOPIC, 0) == (int64_t)count + 4 && count_of(&fx, "is not in the table") == -1);
    ended(&fx, &c);
}

static void a_store_with_all_its_queues_passes_over_what_needs_one_more(void) {
    fixture fx;
    timer_fixture_init(&fx);
    fx.store_options.queues_max = 3;
    fixture_open(&fx);
    rp_timer_options options = timer_options(&fx);
    timers_start(&fx, &options);
    put_strange(&fx, "TIMER_OUT_MS\0015\2REAL_TOPIC\1T\2REAL_QID\0010\2", "first");
    put_strange(&fx, "TIMER_OUT_MS\0015\2REAL_TOPIC\1T\2REAL_QID\0011\2", "second");
    put_strange(&fx, "TIMER_OUT_MS\0015\2REAL_TOPIC\1T\2REAL_QID\0012\2", "too many");
    put_strange(&fx, "TIMER_OUT_MS\0015\2REAL_TOPIC\1T\2REAL_QID\0010\2", "third");
    turn_clock(&fx, 1000);
    CHECK(end_of(&fx, "T", 0) == 2 && end_of(&fx, "T", 1) == 1 && stats_of(&fx).passed_over == 1);
    drop_events(&fx);
    fixture_close(&fx);
}

/* ---- settings, clock, slaves ---- */

static void switches_hold_entering_and_delivering(void) {
    fixture fx;
    client c = opened(&fx);
    fx.settings.timer_stop_dequeue = 1;
    rp_broker_set_settings(fx.broker, &fx.settings);
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\0011\2", "held");
    wait_entered(&fx);
    int64_t read_ms = stats_of(&fx).read_time_ms;
    atomic_fetch_add(&clock_ahead_ms, MINUTE);
    fx.settings.timer_stop_enqueue = 1;
    rp_broker_set_settings(fx.broker, &fx.settings);
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\0011\2", "not entered");
    fx.settings.timer_stop_dequeue = 0;
    rp_broker_set_settings(fx.broker, &fx.settings);
    wait_end(&fx, "T", 0, 1);
    CHECK(stats_of(&fx).read_time_ms >= read_ms && stats_of(&fx).queue_offset == 1);
    fx.settings.timer_stop_enqueue = 0;
    rp_broker_set_settings(fx.broker, &fx.settings);
    turn_clock(&fx, MINUTE);
    CHECK(end_of(&fx, "T", 0) == 2);
    ended(&fx, &c);
}

/* The senders' clock is not changed: a message for ten seconds from now is due ten seconds after the service's clock before it was set. */
static void a_clock_that_is_set_back_is_waited_for(void) {
    fixture fx;
    client c = opened(&fx);
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00160\2", "before");
    turn_clock(&fx, 2 * MINUTE);
    CHECK(end_of(&fx, "T", 0) == 1);
    atomic_store(&clock_ahead_ms, 0);
    for (int64_t until = now_ms() + WAIT_MS; stats_of(&fx).read_time_ms > turned_wall_ms(NULL);) {
        CHECK(now_ms() < until);
        sched_yield();
    }
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00130\2", "after");
    turn_clock(&fx, 10000);
    CHECK(end_of(&fx, "T", 0) == 1);
    turn_clock(&fx, 5 * MINUTE);
    CHECK(end_of(&fx, "T", 0) == 2 && body_is(&fx, "T", 0, 1, "after"));
    ended(&fx, &c);
}

/* Master and slave are one store here. The slave's service enters messages only as far as its master has. */
static void a_slave_enters_up_to_its_master_and_delivers_once_it_is_one(void) {
    fixture fx;
    timer_fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    rp_timer_options options = timer_options(&fx);
    options.delivers = 0;
    CHECK(rp_broker_follow_timer_checkpoint(fx.broker, (const uint8_t *)"", 0) == RP_E_CLOSED);
    timers_start(&fx, &options);
    for (int i = 0; i < 3; i++)
        send_later(&c, "T", 0, "TIMER_DELAY_SEC\00160\2", "x");
    uint8_t master[RP_TIMER_CHECKPOINT_BYTES] = {0};
    int64_t read_ms = turned_wall_ms(NULL) / PRECISION_MS * PRECISION_MS;
    rp_put_u64(master, (uint64_t)read_ms);
    rp_put_u64(master + 24, 2);
    CHECK(rp_broker_follow_timer_checkpoint(fx.broker, master, 7) == RP_E_PROTOCOL);
    CHECK(rp_broker_follow_timer_checkpoint(fx.broker, master, sizeof master) == RP_OK);
    for (int64_t until = now_ms() + WAIT_MS; stats_of(&fx).queue_offset < 2;) {
        CHECK(now_ms() < until);
        sched_yield();
    }
    atomic_fetch_add(&clock_ahead_ms, 2 * MINUTE);
    timers_stop(&fx);
    CHECK(end_of(&fx, "T", 0) == 0 && stats_of(&fx).queue_offset == 2 && stats_of(&fx).read_time_ms == read_ms);
    options.delivers = 1;
    timers_start(&fx, &options);
    CHECK(rp_broker_follow_timer_checkpoint(fx.broker, master, sizeof master) == RP_E_CLOSED);
    wait_end(&fx, "T", 0, 3);
    turn_clock(&fx, MINUTE);
    CHECK(end_of(&fx, "T", 0) == 3);
    timers_stop(&fx);
    uint8_t mine[RP_TIMER_CHECKPOINT_BYTES];
    CHECK(rp_broker_read_timer_checkpoint(fx.broker, mine) == 1 && rp_get_u64(mine + 16) == 3 && rp_get_u64(mine + 24) == 3);
    ended(&fx, &c);
}

/* A slave must not roll a message, whatever its clock says: its master may have passed the time at which this one would roll it. */
static void a_slave_rolls_nothing(void) {
    fixture fx;
    timer_fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    rp_timer_options options = timer_options(&fx);
    options.delivers = 0;
    options.roll_window_slots = 10;
    timers_start(&fx, &options);
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00160\2", "x");
    uint8_t master[RP_TIMER_CHECKPOINT_BYTES] = {0};
    int64_t read_ms = turned_wall_ms(NULL) / PRECISION_MS * PRECISION_MS;
    rp_put_u64(master, (uint64_t)read_ms);
    rp_put_u64(master + 24, 1);
    CHECK(rp_broker_follow_timer_checkpoint(fx.broker, master, sizeof master) == RP_OK);
    wait_entered(&fx);
    rp_put_u64(master, (uint64_t)(read_ms + MINUTE / 2));
    CHECK(rp_broker_follow_timer_checkpoint(fx.broker, master, sizeof master) == RP_OK);
    atomic_fetch_add(&clock_ahead_ms, 2 * MINUTE);
    for (int64_t until = now_ms() + WAIT_MS; stats_of(&fx).read_time_ms < read_ms + MINUTE / 2; sched_yield())
        CHECK(now_ms() < until);
    timers_stop(&fx);
    CHECK(end_of(&fx, "T", 0) == 0);
    options.delivers = 1;
    timers_start(&fx, &options);
    wait_end(&fx, "T", 0, 1);
    ended(&fx, &c);
}

/* A slave that stood in for this master has read the slots up to a minute from now, but had only two of the messages. */
static void what_a_slave_has_passed_on_is_passed_over(void) {
    fixture fx;
    timer_fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00130\2", "was entered");
    rp_timer_options options = timer_options(&fx);
    timers_start(&fx, &options);
    wait_entered(&fx);
    timers_stop(&fx);
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00130\2", "was not");
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00130\2", "the slave did not have it");
    rp_broker_set_timers_passed_on(fx.broker, turned_wall_ms(NULL) + MINUTE, 2, NULL, 0);
    timers_start(&fx, &options);
    rp_broker_set_timers_passed_on(fx.broker, 0, 0, NULL, 0); /* this recall is too late */
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00190\2", "later");
    wait_entered(&fx);
    atomic_fetch_add(&clock_ahead_ms, 2 * MINUTE);
    wait_end(&fx, "T", 0, 2);
    timers_stop(&fx);
    CHECK(end_of(&fx, "T", 0) == 2 && body_is(&fx, "T", 0, 0, "the slave did not have it") && body_is(&fx, "T", 0, 1, "later"));
    ended(&fx, &c);
}

/* A message that such a slot would roll is not due, so no slave has delivered it. */
static void what_is_to_be_rolled_meanwhile_is_rolled(void) {
    fixture fx;
    timer_fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    rp_timer_options options = timer_options(&fx);
    options.roll_window_slots = 10;
    timers_start(&fx, &options);
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00160\2", "x");
    wait_entered(&fx);
    timers_stop(&fx);
    rp_broker_set_timers_passed_on(fx.broker, turned_wall_ms(NULL) + MINUTE / 2, 1 << 20, NULL, 0);
    timers_start(&fx, &options);
    atomic_fetch_add(&clock_ahead_ms, 2 * MINUTE);
    wait_end(&fx, "T", 0, 1);
    ended(&fx, &c);
}

static void options_out_of_range_and_unknown_topics(void) {
    fixture fx;
    rp_error error;
    timer_fixture_init(&fx);
    fixture_open(&fx);
    rp_timer_options options = timer_options(&fx);
    options.precision_ms = 1001;
    CHECK(rp_broker_start_timers(fx.broker, &options, &error) == RP_E_INVALID && strstr(error.message, "timerPrecisionMs") != NULL);
    options = timer_options(&fx);
    options.roll_window_slots = 604741;
    CHECK(rp_broker_start_timers(fx.broker, &options, &error) == RP_E_INVALID && strstr(error.message, "timerRollWindowSlot") != NULL);
    uint8_t bytes[RP_TIMER_CHECKPOINT_BYTES];
    CHECK(rp_broker_read_timer_checkpoint(fx.broker, bytes) == 0 && rp_broker_timers_between(fx.broker, 0, 1) == 0);
    CHECK(rp_broker_stop_timers(fx.broker, &error) == RP_OK && stats_of(&fx).is_running == 0);
    options = timer_options(&fx);
    timers_start(&fx, &options);
    timers_start(&fx, &options);
    CHECK(stats_of(&fx).is_running == 1);
    put_strange(&fx, "TIMER_OUT_MS\0019000000000000\2REAL_TOPIC\1stranger\2REAL_QID\0010\2", "x");
    wait_entered(&fx);
    CHECK(count_of(&fx, "stranger") == -1 && stats_of(&fx).messages_waiting == 1);
    timers_stop(&fx);
    timers_stop(&fx);
    drop_events(&fx);
    fixture_close(&fx);
}

/* A message sent while the clock was a whole wheel ahead occupies the place of a slot that is due much sooner. */
static void a_clock_that_is_set_back_by_a_wheel_leaves_no_place_taken(void) {
    fixture fx;
    client c = opened(&fx);
    char properties[64];
    const int64_t wheel_ms = (int64_t)RP_TIMING_WHEEL_SLOTS * PRECISION_MS, deliver_ms = turned_wall_ms(NULL) + MINUTE;
    turn_clock(&fx, wheel_ms);
    snprintf(properties, sizeof properties, "TIMER_DELIVER_MS\1%" PRId64 "\2", deliver_ms + wheel_ms);
    send_later(&c, "T", 0, properties, "far");
    wait_entered(&fx);
    atomic_store(&clock_ahead_ms, 0);
    for (int64_t until = now_ms() + WAIT_MS; stats_of(&fx).read_time_ms > turned_wall_ms(NULL);) {
        CHECK(now_ms() < until);
        sched_yield();
    }
    snprintf(properties, sizeof properties, "TIMER_DELIVER_MS\1%" PRId64 "\2", deliver_ms);
    send_later(&c, "T", 0, properties, "near");
    turn_clock(&fx, 2 * MINUTE);
    CHECK(end_of(&fx, "T", 0) == 1 && body_is(&fx, "T", 0, 0, "near") && stats_of(&fx).messages_waiting == 1);
    ended(&fx, &c);
}

int main(void) {
    RUN(a_message_comes_when_its_time_is_over_and_not_before);
    RUN(a_slot_comes_in_the_order_of_its_sends);
    RUN(what_is_recalled_does_not_come_and_the_others_of_its_slot_do);
    RUN(what_waits_longer_than_the_window_is_rolled_and_comes_once);
    RUN(what_is_recalled_stays_so_when_it_is_rolled_late);
    RUN(what_a_restart_finds_waits_on_and_what_was_delivered_does_not_come_again);
    RUN(what_is_late_comes_at_once);
    RUN(strange_messages_are_passed_over);
    RUN(a_store_with_all_its_queues_passes_over_what_needs_one_more);
    RUN(switches_hold_entering_and_delivering);
    RUN(a_clock_that_is_set_back_is_waited_for);
    RUN(a_slave_enters_up_to_its_master_and_delivers_once_it_is_one);
    RUN(a_slave_rolls_nothing);
    RUN(what_a_slave_has_passed_on_is_passed_over);
    RUN(what_is_to_be_rolled_meanwhile_is_rolled);
    RUN(options_out_of_range_and_unknown_topics);
    RUN(a_clock_that_is_set_back_by_a_wheel_leaves_no_place_taken);
    return 0;
}
