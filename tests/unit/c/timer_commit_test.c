/* timer_commit_test.c: timed messages of a broker with a DLedger log: what was delivered but not committed may be taken back. */
#include <errno.h>
#include <pthread.h>

#include "../../../csrc/store/commit_log_ledger.h"
#include "timer_fixture.h"

#define MINUTE INT64_C(60000)

static char data_path[300], index_path[300];

static void lead(const fixture *fx, int64_t term) {
    rp_error error;
    CHECK(rp_commit_log_lead_entries(rp_message_store_commit_log(fx->store), term, &error) == RP_OK);
    rp_broker_set_committed(fx->broker, 0);
}

static rp_ledger_ends ends_of(const fixture *fx) {
    rp_ledger_ends ends;
    rp_commit_log_read_ends(rp_message_store_commit_log(fx->store), &ends);
    return ends;
}

static void commit_all(const fixture *fx) {
    int64_t end = ends_of(fx).end_offset;
    rp_commit_log_commit_entries(rp_message_store_commit_log(fx->store), end);
    rp_broker_set_committed(fx->broker, end);
}

static void wait_index(const fixture *fx, int64_t index) {
    for (int64_t until = now_ms() + WAIT_MS; ends_of(fx).end_index < index;) {
        CHECK(now_ms() < until);
        sched_yield();
    }
}

static void open_leader(fixture *fx) {
    timer_fixture_init(fx);
    snprintf(data_path, sizeof data_path, "%s/dledger-n0/data", fx->store_options.root_path);
    snprintf(index_path, sizeof index_path, "%s/dledger-n0/index", fx->store_options.root_path);
    fx->store_options.commit_log_path = data_path;
    fx->store_options.ledger_index_path = index_path;
    fx->store_options.ledger_index_file_size = 3200;
    fx->settings.slave_timeout_ms = 60000;
    fixture_open(fx);
    rp_timer_options options = timer_options(fx);
    lead(fx, 1);
    timers_start(fx, &options);
}

static void what_was_taken_back_is_delivered_again(void) {
    fixture fx;
    rp_error error;
    rp_command response;
    number_text queue;
    char properties[80];
    open_leader(&fx);
    rp_timer_options options = timer_options(&fx);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    snprintf(properties, sizeof properties, "TIMER_DELIVER_MS\1%" PRId64 "\2", turned_wall_ms(NULL) + MINUTE);
    rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, properties, text("later"), &queue);
    client_send(&c, &request);
    wait_index(&fx, 1);
    commit_all(&fx);
    CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == 0);
    wait_entered(&fx);
    atomic_fetch_add(&clock_ahead_ms, 2 * MINUTE);
    wait_index(&fx, 2); /* it was delivered, here only */
    rp_commit_log *log = rp_message_store_commit_log(fx.store);
    CHECK(rp_commit_log_follow_entries(log, 60000) == RP_OK);
    rp_broker_set_committed(fx.broker, -1);
    CHECK(rp_commit_log_cut_entries(log, 1, &error) == RP_OK);
    timers_stop(&fx);
    lead(&fx, 2);
    timers_start(&fx, &options);
    wait_index(&fx, 3);
    commit_all(&fx);
    CHECK(end_of(&fx, "T", 0) == 1);
    wait_read(&fx, turned_wall_ms(NULL) - MINUTE);
    timers_stop(&fx);
    CHECK(ends_of(&fx).end_index == 3); /* delivered once */
    ended(&fx, &c);
}

typedef struct recalling {
    const fixture *fx;
    int64_t end;
    int status;
} recalling;

static void *recall_one(void *context) {
    recalling *self = context;
    rp_recall recall = {.topic = text("T"), .unique_key = text("K0"), .deliver_ms = turned_wall_ms(NULL) + MINUTE};
    self->status = rp_broker_put_recall(self->fx->broker, &recall, &self->end);
    return NULL;
}

/* A recall is answered only when no other leader can take it back; otherwise the message might come after all. */
static void a_recall_waits_for_its_commit(void) {
    fixture fx;
    pthread_t thread;
    open_leader(&fx);
    recalling self = {.fx = &fx, .status = 1};
    CHECK(pthread_create(&thread, NULL, recall_one, &self) == 0);
    wait_index(&fx, 1);
    CHECK(pthread_tryjoin_np(thread, NULL) == EBUSY);
    commit_all(&fx);
    pthread_join(thread, NULL);
    CHECK(self.status == RP_OK && self.end == ends_of(&fx).end_offset);
    CHECK(pthread_create(&thread, NULL, recall_one, &self) == 0);
    wait_index(&fx, 2);
    rp_commit_log *log = rp_message_store_commit_log(fx.store);
    CHECK(rp_commit_log_follow_entries(log, 60000) == RP_OK);
    rp_broker_set_committed(fx.broker, -1);
    lead(&fx, 2);
    commit_all(&fx); /* under another leadership */
    pthread_join(thread, NULL);
    CHECK(self.status == RP_E_READ_ONLY && self.end == -1);
    fx.settings.slave_timeout_ms = 10;
    rp_broker_set_settings(fx.broker, &fx.settings);
    (void)recall_one(&self);
    CHECK(self.status == RP_E_TIMEOUT && self.end == -1);
    timers_stop(&fx);
    drop_events(&fx);
    fixture_close(&fx);
}

int main(void) {
    RUN(a_recall_waits_for_its_commit);
    RUN(what_was_taken_back_is_delivered_again);
    return 0;
}
