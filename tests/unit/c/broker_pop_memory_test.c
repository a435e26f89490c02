/* broker_pop_memory_test.c: pops and revived messages while the n-th allocation fails, for every n: nothing is lost, nothing is delivered
 * twice.
 *
 * Counts the allocations of the revive rounds, or of the reactor, by this program's own allocator.
 */

#include "memory_out.h"
#include "pop_fixture.h"
#include "pop_revive_fixture.h"

#define CALLS_MAX 2000 /* a whole run has fewer */
#define LONG_AWAY_MS INT64_C(7200000)

static void counted_turn(fixture *fx, int64_t now_ms) {
    counts_here = 1;
    turn(fx, now_ms);
    counts_here = 0;
}

static int bodies(const fixture *fx, const char *topic, const char *body) {
    int count = 0;
    for (int64_t i = 0; i < end_of(fx, topic, 0); i++) {
        rp_message message;
        void *pin = read_message(fx, topic, 0, i, &message, NULL);
        count += slice_is(message.body, body);
        rp_log_range_release(pin);
    }
    return count;
}

/* Some are acked, one takes long and is written again, a retry topic is missing, and there is no room for one. */
static void revive_with(int64_t from, int64_t behind) {
    static const char *const sent[] = {"acked", "not acked", "takes long", "of a missing topic", "without room"};
    fixture fx;
    client c;
    open_revive(&fx, &c);
    for (int i = 0; i < 5; i++)
        send_message(&c, "T", 0, NULL, sent[i]);
    CHECK(rp_broker_put_group(fx.broker, text("G2"), 1, 1, 0, 1, 0) == RP_OK);
    rp_pop_checkpoint two = checkpoint_of(0, 2, 1000), takes_long = checkpoint_of(2, 1, LONG_AWAY_MS), missing = checkpoint_of(3, 1, 1000),
                      last = checkpoint_of(4, 1, 1000);
    missing.group = text("G2");
    put(&fx, 0, &takes_long);
    put(&fx, 0, &two);
    put(&fx, 0, &missing);
    put(&fx, 0, &last);
    put_ack(&fx, 0, &two, 1, (const int64_t[]){0}, 1);
    fx.broker->revive->kept.count_max[RP_KEPT_SHORT] = 2;
    fx.broker->revive->carry_records = 4;
    allocations = 0;
    fail_from = from;
    fail_behind = behind;
    int64_t now_ms = POP_MS;
    for (int i = 0; i < 4; i++)
        counted_turn(&fx, now_ms);
    now_ms = DUE_MS(1000);
    for (int i = 0; i < 40; i++, now_ms += REVIVE_AGAIN_MS)
        counted_turn(&fx, now_ms);
    uint8_t name[RP_POP_RETRY_NAME_MAX];
    int32_t queues;
    CHECK(rp_broker_wanted_retry_topic(fx.broker, name, &queues) > 0);
    CHECK(rp_broker_put_topic(fx.broker, text("%RETRY%G2_T"), 1, 1, 6, 0, NATIVE) == RP_OK);
    for (int i = 0; i < 40; i++, now_ms += REVIVE_AGAIN_MS)
        counted_turn(&fx, now_ms);
    now_ms = DUE_MS(LONG_AWAY_MS);
    for (int i = 0; i < 20; i++, now_ms += REVIVE_AGAIN_MS)
        counted_turn(&fx, now_ms);
    CHECK(bodies(&fx, RETRY, "acked") == 0 && bodies(&fx, RETRY, "not acked") == 1 && bodies(&fx, RETRY, "takes long") == 1);
    CHECK(bodies(&fx, RETRY, "without room") == 1 && bodies(&fx, "%RETRY%G2_T", "of a missing topic") == 1);
    CHECK(stats_of(&fx).checkpoints_kept == 0 && stats_of(&fx).dropped == 0);
    turn(&fx, now_ms);
    CHECK(group_offset(&fx, 0) == end_of(&fx, REVIVE, 0) - 1);
    close_revive(&fx, &c);
}

/* ---- pops ---- */

/* 1: it is in *response; 0: memory was out, and the connection is closed. */
static int may_receive(client *c, rp_command *response) {
    int received = client_receive(c, response, WAIT_MS);
    CHECK(received != 0);
    return received == 1;
}

static int may_change(client *c, const char *handle) {
    number_text number;
    rp_command command = request_of(c, RP_CODE_CHANGE_INVISIBLE_TIME), response;
    with_text(&command, "consumerGroup", "G");
    with_text(&command, "topic", "T");
    with_text(&command, "queueId", "0");
    with_text(&command, "offset", "0");
    with_text(&command, "extraInfo", handle);
    with_text(&command, "invisibleTime", number_of(&number, 5000));
    client_send(c, &command);
    return may_receive(c, &response);
}

/* Messages that wait are popped, one of them is put off, and one comes to a pop that waits: each comes again once. */
static void pop_with(int64_t from, int64_t behind) {
    enum { SENT = 4 };
    fixture fx;
    open_pop(&fx, 1);
    client c = client_open(&fx, RP_SERIALIZE_JSON), other = client_open(&fx, RP_SERIALIZE_JSON);
    for (int32_t i = 0; i + 1 < SENT; i++)
        send_message(&other, "T", i, NULL, "body");
    pop_request pop = pop_of(0);
    rp_command response;
    char handle[128];
    atomic_store(&allocations, 0);
    atomic_store(&fail_from, from);
    atomic_store(&fail_behind, behind);
    atomic_store(&counted_threads, "reactor");
    client_send_pop(&c, RP_CODE_POP_MESSAGE, &pop);
    int is_open = may_receive(&c, &response);
    if (is_open && response.code == SUCCESS) {
        handle_of(&response, 0, 0, handle);
        is_open = may_change(&c, handle);
    }
    pop = pop_of(-1);
    if (is_open) {
        client_send_pop(&c, RP_CODE_POP_MESSAGE, &pop);
        is_open = may_receive(&c, &response);
    }
    pop.poll_ms = 20;
    if (is_open) {
        client_send_pop(&c, RP_CODE_POP_MESSAGE, &pop);
        (void)may_receive(&c, &response);
    }
    atomic_store(&counted_threads, NULL);
    client_close(&c);
    c = client_open(&fx, RP_SERIALIZE_JSON);
    send_message(&c, "T", 3, NULL, "body");
    pop.poll_ms = 0;
    while (client_pop(&c, &pop).code == SUCCESS)
        ;
    for (int32_t i = 0; i < SENT; i++)
        CHECK(offset_of(&fx, i) == 1);
    int64_t due_ms = rp_clock_wall_ms(rp_clock_system()) + 60000 + REVIVE_GRACE_MS;
    turn(&fx, due_ms);
    CHECK(stats_of(&fx).checkpoints_kept == 0);
    CHECK(end_of(&fx, RETRY, 0) == SENT);
    client_close(&other);
    close_pop(&fx, &c);
}

/* ---- each call ---- */

static void run_until_none_fails(void (*run)(int64_t from, int64_t behind), int64_t at_once) {
    int64_t from = 1;
    do {
        run(from, from + at_once);
        from += at_once;
        CHECK(from < CALLS_MAX);
    } while (allocations >= from - at_once);
}

static void whichever_call_of_a_round_fails_nothing_is_lost(void) { run_until_none_fails(revive_with, 1); }
static void whichever_calls_of_rounds_fail_one_behind_the_other_nothing_is_lost(void) { run_until_none_fails(revive_with, 7); }
static void whichever_call_of_a_pop_fails_nothing_is_lost(void) { run_until_none_fails(pop_with, 1); }
static void whichever_calls_of_pops_fail_one_behind_the_other_nothing_is_lost(void) { run_until_none_fails(pop_with, 5); }

int main(void) {
    if (!HAS_OWN_MEMORY)
        return 0;
    RUN(whichever_call_of_a_round_fails_nothing_is_lost);
    RUN(whichever_calls_of_rounds_fail_one_behind_the_other_nothing_is_lost);
    RUN(whichever_call_of_a_pop_fails_nothing_is_lost);
    RUN(whichever_calls_of_pops_fail_one_behind_the_other_nothing_is_lost);
    return 0;
}
