/* broker_lite_memory_test.c: lite topics while the n-th allocation fails, for every n: a reader that was reported as added does read,
 * and no message is lost. Counts the allocations of the reactor, or of the thread that adds readers. */
#include "memory_out.h"

#include "lite_client.h"
#include "stored_messages.h"

#define CALLS_MAX 2000
#define QUEUE "%LMQ%$T$1"

static void fail(int64_t from, int64_t behind) {
    atomic_store(&allocations, 0);
    atomic_store(&fail_from, from);
    atomic_store(&fail_behind, behind);
}

/* Pops until the message comes, and acks it. */
static void take_the_message(fixture *fx) {
    client c = client_open(fx, RP_SERIALIZE_JSON);
    rp_command popped;
    do {
        popped = pop_lite(&c, "c", 1000, 60000);
        CHECK(popped.code == SUCCESS || popped.code == TIMEOUT);
    } while (popped.code != SUCCESS);
    CHECK(messages_in(popped.body) == 1);
    CHECK(ack_lite(&c, field_number(&popped, "popTime"), "1", 0) == SUCCESS);
    CHECK(rp_broker_read_offset(fx->broker, text("G"), text(QUEUE), 0) == 1);
    client_close(&c);
    drop_events(fx);
    fixture_close(fx);
}

static void pop_with(int64_t from, int64_t behind) {
    fixture fx;
    open_lite(&fx, 1);
    CHECK(rp_broker_put_lite_reader(fx.broker, text("G"), text("c"), text(QUEUE)) == RP_OK);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    rp_command response;
    CHECK(send_message(&c, "T", 0, LITE("1"), "x") == 0);
    fail(from, behind);
    atomic_store(&counted_threads, "reactor");
    for (int i = 0, is_open = 1; i < 3 && is_open; i++) { /* popped; waits in vain; woken when it comes again */
        send_pop_lite(&c, "c", i == 1 ? 2 : i == 2 ? 60 : 0, 10);
        is_open = client_receive(&c, &response, WAIT_MS) == 1;
    }
    atomic_store(&counted_threads, NULL);
    client_close(&c);
    take_the_message(&fx);
}

static void subscribe_with(int64_t from, int64_t behind) {
    fixture fx;
    open_lite(&fx, 1);
    fail(from, behind);
    counts_here = 1;
    int status = rp_broker_put_lite_reader(fx.broker, text("G"), text("c"), text(QUEUE));
    counts_here = 0;
    CHECK(status == RP_OK || status == RP_E_NO_MEMORY || status == RP_E_BUSY || status == RP_E_INVALID);
    if (status != RP_OK)
        CHECK(rp_broker_put_lite_reader(fx.broker, text("G"), text("c"), text(QUEUE)) == RP_OK);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    CHECK(send_message(&c, "T", 0, LITE("1"), "x") == 0);
    client_close(&c);
    take_the_message(&fx);
}

static void wildcard_with(int64_t from, int64_t behind) {
    fixture fx;
    open_lite(&fx, 1);
    CHECK(rp_broker_put_lite_group(fx.broker, text("G"), text("T"), 1) == RP_OK);
    client c = client_open(&fx, RP_SERIALIZE_JSON), other = client_open(&fx, RP_SERIALIZE_JSON);
    rp_command response;
    CHECK(rp_broker_put_lite_wildcard(fx.broker, text("G"), text("T")) == RP_OK);
    fail(from, behind);
    atomic_store(&counted_threads, "reactor");
    number_text queue;
    rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, LITE("1"), text("x"), &queue);
    client_send(&c, &request);
    (void)client_receive(&c, &response, WAIT_MS);
    atomic_store(&counted_threads, NULL);
    if (end_of(&fx, QUEUE, 0) == 0) /* otherwise it is stored, although its sender may have got an error */
        CHECK(send_message(&other, "T", 0, LITE("1"), "x") == 0);
    if (rp_broker_lite_wildcard_has_missed(fx.broker, text("G")))
        CHECK(rp_broker_put_lite_wildcard(fx.broker, text("G"), text("T")) == RP_OK);
    CHECK(!rp_broker_lite_wildcard_has_missed(fx.broker, text("G")));
    client_close(&c);
    client_close(&other);
    take_the_message(&fx);
}

static void run_until_none_fails(void (*run)(int64_t from, int64_t behind)) {
    int64_t from = 0;
    do {
        from++;
        CHECK(from < CALLS_MAX);
        run(from, from + 1);
    } while (allocations >= from);
}

static void whichever_call_of_a_pop_fails_nothing_is_lost(void) { run_until_none_fails(pop_with); }
static void whichever_call_of_a_subscription_fails_it_is_told(void) { run_until_none_fails(subscribe_with); }
static void whichever_call_of_an_arrival_fails_a_wildcard_group_is_told(void) { run_until_none_fails(wildcard_with); }

int main(void) {
    if (!HAS_OWN_MEMORY)
        return 0;
    RUN(whichever_call_of_a_pop_fails_nothing_is_lost);
    RUN(whichever_call_of_a_subscription_fails_it_is_told);
    RUN(whichever_call_of_an_arrival_fails_a_wildcard_group_is_told);
    return 0;
}
