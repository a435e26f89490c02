/* timer_acting_test.c: timed messages that other masters refuse from an acting slave: those behind them continue, and none is lost, whoever
 * continues. */
#include "base/bytes_inl.h"
#include "broker/escaping_messages.h"
#include "store/timing_wheel.h"
#include "timer_fixture.h"

#define MINUTE INT64_C(60000)

static int64_t checkpoint_read_ms(const fixture *fx) {
    uint8_t bytes[RP_TIMER_CHECKPOINT_BYTES];
    CHECK(rp_broker_read_timer_checkpoint(fx->broker, bytes));
    return (int64_t)rp_get_u64(bytes);
}

/* Passes on what waits for that, or refuses "refused". Whether it was `wanted`; false: nothing waited. */
static bool pass_one_on(const fixture *fx, const char *wanted, bool refuses, unsigned *count) {
    rp_escaping_message escaping;
    rp_message message;
    if (rp_broker_take_escaping(fx->broker, &escaping) != RP_OK) {
        sched_yield();
        return false;
    }
    must(rp_message_decode(escaping.record, escaping.size, RP_CHECK_BODY_CRC, &message, NULL), NULL, "decode record");
    bool is_refused = refuses && slice_is(message.body, "refused"), is_wanted = slice_is(message.body, wanted);
    *count += !is_refused;
    rp_broker_settle_escaping(fx->broker, escaping.id, is_refused ? RP_E_INVALID : RP_OK);
    free(escaping.record);
    return is_wanted;
}

static void pass_on_until(const fixture *fx, const char *wanted, bool refuses, unsigned *count) {
    for (int64_t until = now_ms() + WAIT_MS; !pass_one_on(fx, wanted, refuses, count);)
        CHECK(now_ms() < until);
}

/* As wait_read; what is set aside may be tried again meanwhile, and is refused. */
static void refuse_until_read(const fixture *fx, int64_t time_ms) {
    unsigned count = 0;
    for (int64_t until = now_ms() + WAIT_MS; stats_of(fx).read_time_ms < time_ms;) {
        (void)pass_one_on(fx, "refused", true, &count);
        CHECK(count == 0 && now_ms() < until);
    }
}

static void stand_in(fixture *fx, const rp_timer_options *options) {
    rp_broker_open_escape(fx->broker);
    timers_start(fx, options);
}

static void stop(fixture *fx) {
    rp_broker_refuse_escape(fx->broker);
    timers_stop(fx);
    rp_broker_shut_escape(fx->broker);
}

static void one_that_others_refuse_holds_no_slot_up(void) {
    static int64_t offsets[RP_TIMERS_ASIDE_MAX];
    fixture fx;
    unsigned count = 0;
    int64_t read_ms;
    timer_fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    int64_t begin_ms = turned_wall_ms(NULL);
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00130\2", "refused");
    int64_t sent_ms = turned_wall_ms(NULL);
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00130\2", "beside it");
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00140\2", "behind it");
    int64_t end = rp_commit_log_max_offset(rp_message_store_commit_log(fx.store));
    rp_timer_options options = timer_options(&fx);
    stand_in(&fx, &options);
    wait_entered(&fx);
    atomic_fetch_add(&clock_ahead_ms, MINUTE);
    pass_on_until(&fx, "behind it", true, &count);
    CHECK(count == 2 && rp_broker_read_timers_aside(fx.broker, &read_ms, offsets) == 1 && offsets[0] == 0);
    for (int64_t until = now_ms() + WAIT_MS; read_ms <= begin_ms + 2 * MINUTE / 3;) {
        CHECK(now_ms() < until && sched_yield() == 0);
        (void)rp_broker_read_timers_aside(fx.broker, &read_ms, offsets);
    }
    stop(&fx);
    CHECK(checkpoint_read_ms(&fx) <= sent_ms + MINUTE / 2 + PRECISION_MS);

    stand_in(&fx, &options); /* as behind a crash: what was passed on comes once more */
    pass_on_until(&fx, "behind it", true, &count);
    CHECK(count == 4 && rp_broker_read_timers_aside(fx.broker, &read_ms, offsets) == 1 && offsets[0] == 0);
    atomic_fetch_add(&clock_ahead_ms, MINUTE);
    pass_on_until(&fx, "refused", false, &count);
    for (int64_t until = now_ms() + WAIT_MS; rp_broker_read_timers_aside(fx.broker, &read_ms, offsets) > 0;)
        CHECK(now_ms() < until && sched_yield() == 0);
    stop(&fx);
    CHECK(count == 5 && checkpoint_read_ms(&fx) > begin_ms + MINUTE && stats_of(&fx).messages_waiting == 0);
    CHECK(rp_commit_log_max_offset(rp_message_store_commit_log(fx.store)) == end && end_of(&fx, "T", 0) == 0);
    ended(&fx, &c);
}

/* The wheel has gone round: the slot of the messages that are set aside belongs to another time now. */
static void what_is_set_aside_for_longer_than_the_wheel_holds_waits_on(void) {
    static int64_t offsets[RP_TIMERS_ASIDE_MAX];
    fixture fx;
    unsigned count = 0;
    int64_t read_ms, wheel_ms = (int64_t)RP_TIMING_WHEEL_SLOTS * PRECISION_MS;
    timer_fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    int64_t begin_ms = turned_wall_ms(NULL);
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00130\2", "refused");
    int64_t sent_ms = turned_wall_ms(NULL);
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00140\2", "behind it");
    rp_timer_options options = timer_options(&fx);
    stand_in(&fx, &options);
    wait_entered(&fx);
    atomic_fetch_add(&clock_ahead_ms, MINUTE);
    pass_on_until(&fx, "behind it", true, &count);
    for (int turn = 0; turn < 4; turn++) {
        atomic_fetch_add(&clock_ahead_ms, wheel_ms / 2 + MINUTE);
        pass_on_until(&fx, "refused", true, &count);
        refuse_until_read(&fx, begin_ms + wheel_ms / 2 * (turn + 1));
    }
    CHECK(count == 1 && rp_broker_read_timers_aside(fx.broker, &read_ms, offsets) == 1 && offsets[0] == 0);
    stop(&fx);
    CHECK(checkpoint_read_ms(&fx) <= sent_ms + MINUTE / 2 + PRECISION_MS);
    stand_in(&fx, &options); /* as after a crash, two turns of the wheel later */
    pass_on_until(&fx, "behind it", true, &count);
    atomic_fetch_add(&clock_ahead_ms, MINUTE);
    pass_on_until(&fx, "refused", false, &count);
    for (int64_t until = now_ms() + WAIT_MS; rp_broker_read_timers_aside(fx.broker, &read_ms, offsets) > 0;)
        CHECK(now_ms() < until && sched_yield() == 0);
    stop(&fx);
    CHECK(count == 3 && checkpoint_read_ms(&fx) > begin_ms + 2 * wheel_ms && stats_of(&fx).messages_waiting == 0);
    ended(&fx, &c);
}

/* What was rolled waits at the other master by then. */
static void a_slave_that_knows_how_far_it_was_passes_on_nothing_twice(void) {
    static int64_t offsets[RP_TIMERS_ASIDE_MAX];
    fixture fx;
    unsigned count = 0;
    int64_t read_ms;
    timer_fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    rp_timer_options options = timer_options(&fx);
    options.roll_window_slots = 500;
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\0015\2", "refused");
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\0016\2", "behind it");
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00190\2", "rolled");
    stand_in(&fx, &options);
    wait_entered(&fx);
    atomic_fetch_add(&clock_ahead_ms, MINUTE);
    pass_on_until(&fx, "rolled", true, &count);
    refuse_until_read(&fx, turned_wall_ms(NULL) - PRECISION_MS);
    CHECK(count == 2 && rp_broker_read_timers_aside(fx.broker, &read_ms, offsets) == 1);
    stop(&fx);
    CHECK(rp_broker_set_timers_passed_on(fx.broker, read_ms, 3, offsets, 1) == RP_OK);
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00190\2", "later");
    stand_in(&fx, &options);
    wait_entered(&fx);
    atomic_fetch_add(&clock_ahead_ms, MINUTE);
    pass_on_until(&fx, "later", true, &count);
    CHECK(count == 3 && rp_broker_read_timers_aside(fx.broker, &read_ms, offsets) == 1 && offsets[0] == 0);
    stop(&fx);
    ended(&fx, &c);
}

static void what_was_set_aside_is_its_masters_again(void) {
    fixture fx;
    timer_fixture_init(&fx);
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00130\2", "passed on");
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00130\2", "refused");
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00130\2", "passed on, too");
    CHECK(rp_broker_set_timers_passed_on(fx.broker, turned_wall_ms(NULL) + MINUTE, 3, (int64_t[]){1}, 1) == RP_OK);
    rp_timer_options options = timer_options(&fx);
    timers_start(&fx, &options);
    send_later(&c, "T", 0, "TIMER_DELAY_SEC\00190\2", "later");
    wait_entered(&fx);
    atomic_fetch_add(&clock_ahead_ms, 2 * MINUTE);
    wait_end(&fx, "T", 0, 2);
    timers_stop(&fx);
    CHECK(end_of(&fx, "T", 0) == 2 && body_is(&fx, "T", 0, 0, "refused") && body_is(&fx, "T", 0, 1, "later"));
    ended(&fx, &c);
}

int main(void) {
    RUN(one_that_others_refuse_holds_no_slot_up);
    RUN(what_is_set_aside_for_longer_than_the_wheel_holds_waits_on);
    RUN(a_slave_that_knows_how_far_it_was_passes_on_nothing_twice);
    RUN(what_was_set_aside_is_its_masters_again);
    return 0;
}
