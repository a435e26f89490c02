/* timer_memory_test.c: timed messages while the n-th allocation fails, for every n: nothing is lost, nothing is delivered twice.
 *
 * Counts the allocations of the timer's thread, and those of a start, a stop and a recall, by this program's own allocator.
 */
#include "memory_out.h"
#include "timer_fixture.h"

#define SLOT_MS 10
#define WINDOW_SLOTS 3000
#define SOON_MS 20000 /* within the window; and no pause of the machine between a message and its recall takes as long */
#define LATE_MS 50000 /* beyond it: rolled on its way */
#define CALLS_MAX 1000  /* a whole run has fewer */

/* ---- what is tried again, as the broker's owner does ---- */

static void start(fixture *fx) {
    rp_timer_options options = timer_options(fx);
    options.precision_ms = SLOT_MS;
    options.roll_window_slots = WINDOW_SLOTS;
    rp_error error = {.message = ""};
    int status = RP_E_NO_MEMORY;
    for (int tries = 0; (status == RP_E_NO_MEMORY || status == RP_E_BUSY) && tries < CALLS_MAX; tries++) { /* busy: no thread */
        counts_here = 1;
        status = rp_broker_start_timers(fx->broker, &options, &error);
        counts_here = 0;
    }
    must(status, &error, "start timers");
}

static bool stop(fixture *fx) {
    rp_error error = {.message = ""};
    counts_here = 1;
    int status = rp_broker_stop_timers(fx->broker, &error);
    counts_here = 0;
    CHECK(status == RP_OK || status == RP_E_NO_MEMORY);
    return status == RP_OK;
}

static void take_back(const fixture *fx, const char *key, int64_t deliver_ms) {
    rp_recall recall = {.topic = text("T"), .unique_key = text(key), .producer_group = text("PG"), .deliver_ms = deliver_ms};
    int64_t end;
    int status = RP_E_NO_MEMORY;
    for (int tries = 0; status == RP_E_NO_MEMORY && tries < CALLS_MAX; tries++) {
        counts_here = 1;
        status = rp_broker_put_recall(fx->broker, &recall, &end);
        counts_here = 0;
    }
    CHECK(status == RP_OK);
}

/* ---- one run ---- */

static void send_at(client *c, int32_t queue_id, int64_t deliver_ms, const char *key) {
    char properties[96];
    snprintf(properties, sizeof properties, "TIMER_DELIVER_MS\1%" PRId64 "\2UNIQ_KEY\1%s\2", deliver_ms, key);
    send_later(c, "T", queue_id, properties, key);
}

/* Sent, entered, recalled, rolled, left by a stop within all that, and delivered. */
static void run_with(int64_t from, int64_t behind) {
    fixture fx;
    timer_fixture_init(&fx);
    fx.settings.timer_precision_ms = SLOT_MS;
    fixture_open(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    atomic_store(&allocations, 0);
    atomic_store(&fail_behind, behind);
    atomic_store(&fail_from, from);
    atomic_store(&counted_threads, "timer");
    start(&fx);
    int64_t begin_ms = turned_wall_ms(NULL);
    send_at(&c, 0, begin_ms + LATE_MS, "A");
    send_at(&c, 1, begin_ms + SOON_MS, "B");
    take_back(&fx, "B", begin_ms + SOON_MS);
    turn_clock(&fx, SOON_MS);
    bool is_clean = stop(&fx);
    client_close(&c);
    timer_fixture_reopen(&fx);
    c = client_open(&fx, RP_SERIALIZE_JSON);
    start(&fx);
    send_at(&c, 2, begin_ms + LATE_MS, "C");
    turn_clock(&fx, LATE_MS);
    wait_end(&fx, "T", 0, 1);
    wait_end(&fx, "T", 2, 1);
    is_clean = stop(&fx) && is_clean;
    CHECK(body_is(&fx, "T", 0, 0, "A") && body_is(&fx, "T", 2, 0, "C") && stats_of(&fx).passed_over == 0);
    CHECK(!is_clean || (end_of(&fx, "T", 0) == 1 && end_of(&fx, "T", 1) == 0 && end_of(&fx, "T", 2) == 1));
    client_close(&c);
    timer_fixture_reopen(&fx);
    start(&fx);
    turn_clock(&fx, LATE_MS);
    (void)stop(&fx);
    CHECK(!is_clean || (end_of(&fx, "T", 0) == 1 && end_of(&fx, "T", 1) == 0 && end_of(&fx, "T", 2) == 1));
    atomic_store(&counted_threads, NULL);
    fixture_close(&fx);
}

static void run_until_none_fails(int64_t at_once) {
    int64_t from = 1;
    do {
        run_with(from, from + at_once);
        from += at_once;
        CHECK(from < CALLS_MAX);
    } while (atomic_load(&allocations) >= from - at_once);
}

static void whichever_call_fails_nothing_is_lost(void) { run_until_none_fails(1); }
static void whichever_calls_fail_one_behind_the_other_nothing_is_lost(void) { run_until_none_fails(10); }

int main(void) {
    if (!HAS_OWN_MEMORY)
        return 0;
    RUN(whichever_call_fails_nothing_is_lost);
    RUN(whichever_calls_fail_one_behind_the_other_nothing_is_lost);
    return 0;
}
