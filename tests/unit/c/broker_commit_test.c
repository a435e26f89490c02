/* broker_commit_test.c: with a DLedger log, sends wait until their entries are committed, or until this broker no longer leads. */
#include <pthread.h>

#include "../../../csrc/broker/half_messages.h"
#include "../../../csrc/broker/lane.h"
#include "../../../csrc/broker/pop_log.h"
#include "../../../csrc/store/commit_log_ledger.h"
#include "broker_fixture.h"

enum { SUCCESS = 0, SYSTEM_ERROR = 1, SERVICE_NOT_AVAILABLE = 14 };

static char data_path[200], index_path[200];

static void open_leader(fixture *fx, uint32_t timeout_ms) {
    rp_error error;
    fixture_init(fx);
    snprintf(data_path, sizeof data_path, "%s/dledger-n0/data", fx->store_options.root_path);
    snprintf(index_path, sizeof index_path, "%s/dledger-n0/index", fx->store_options.root_path);
    fx->store_options.commit_log_path = data_path;
    fx->store_options.ledger_index_path = index_path;
    fx->store_options.ledger_index_file_size = 3200;
    fx->store_options.delay_levels = "1h 1h 1h";
    fx->settings.slave_timeout_ms = timeout_ms;
    fixture_open(fx);
    CHECK(rp_commit_log_lead_entries(rp_message_store_commit_log(fx->store), 1, &error) == RP_OK);
    rp_broker_set_committed(fx->broker, 0);
}

static void commit_all(const fixture *fx) {
    rp_ledger_ends ends;
    rp_commit_log *log = rp_message_store_commit_log(fx->store);
    rp_commit_log_read_ends(log, &ends);
    rp_commit_log_commit_entries(log, ends.end_offset);
    rp_broker_set_committed(fx->broker, ends.end_offset);
}

static void send_one(client *c, const char *properties) {
    number_text queue;
    rp_command request = send_request_v2(c, RP_CODE_SEND_MESSAGE_V2, "T", 0, properties, text("x"), &queue);
    client_send(c, &request);
}

static void a_commit_answers_all_below_it(void) {
    fixture fx;
    rp_command response;
    open_leader(&fx, 60000);
    client c = client_open(&fx, RP_SERIALIZE_ROCKETMQ);
    for (int i = 0; i < 20; i++)
        send_one(&c, i % 2 != 0 ? "WAIT\1false\2" : NULL); /* sends that do not wait for slaves wait for the commit all the same */
    wait_parked(&fx, 20);
    CHECK(client_receive(&c, &response, 0) == 0);
    rp_consume_queue *queue = rp_message_store_queue(fx.store, text("T"), 0, 0, NULL);
    CHECK(queue == NULL || rp_consume_queue_max_offset(queue) == 0);
    commit_all(&fx);
    for (int i = 0; i < 20; i++)
        CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == SUCCESS && field_number(&response, "queueOffset") == i);
    CHECK(rp_consume_queue_max_offset(rp_message_store_queue(fx.store, text("T"), 0, 0, NULL)) == 20);
    pull_request pull = pull_of(0, 0);
    rp_command found = client_pull(&c, &pull);
    CHECK(found.code == SUCCESS && field_number(&found, "maxOffset") == 20);
    client_close(&c);
    fixture_close(&fx);
}

static void who_leads_no_more_says_so_at_once(void) {
    fixture fx;
    rp_error error;
    open_leader(&fx, 60000);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    for (int i = 0; i < 20; i++)
        send_one(&c, NULL);
    wait_parked(&fx, 20);
    rp_commit_log *log = rp_message_store_commit_log(fx.store);
    CHECK(rp_commit_log_follow_entries(log, 60000) == RP_OK);
    rp_broker_set_committed(fx.broker, -1);
    CHECK(rp_commit_log_lead_entries(log, 2, &error) == RP_OK); /* it leads again: commits now say nothing about the earlier sends */
    commit_all(&fx);
    for (int i = 0; i < 20; i++) {
        rp_command response;
        CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == SERVICE_NOT_AVAILABLE);
        CHECK(slice_contains(response.remark, "master no more"));
    }
    send_one(&c, NULL);
    wait_parked(&fx, 1);
    commit_all(&fx);
    rp_command response;
    CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == SUCCESS);
    CHECK(rp_commit_log_follow_entries(log, 60000) == RP_OK);
    rp_broker_set_committed(fx.broker, -1);
    send_one(&c, NULL); /* the log accepts no appends */
    CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == SERVICE_NOT_AVAILABLE);
    client_close(&c);
    fixture_close(&fx);
}

static void without_a_majority_a_send_is_late(void) {
    fixture fx;
    rp_command response;
    open_leader(&fx, 30);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_one(&c, NULL);
    CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == SYSTEM_ERROR);
    CHECK(slice_starts(response.remark, "in-sync replicas not enough"));
    client_close(&c);
    fixture_close(&fx);
}

typedef struct returned {
    fixture *fx;
    int status;
} returned;

static void *send_back(void *context) {
    returned *back = context;
    rp_send_back request = {.log_offset = RP_LEDGER_HEAD_SIZE + back->status, /* the message comes after the leader's first entry */
                            .retry_topic = text("%RETRY%G"),
                            .dead_letter_topic = text("%DLQ%G"),
                            .reconsume_times_max = 16};
    back->status = rp_broker_send_back(back->fx->broker, &request);
    return NULL;
}

static int64_t end_index(const fixture *fx) {
    rp_ledger_ends ends;
    rp_commit_log_read_ends(rp_message_store_commit_log(fx->store), &ends);
    return ends.end_index;
}

static int has_grown(void *context) {
    const parked_claim *claim = context;
    return end_index(claim->fx) == (int64_t)claim->count;
}

/* A consumer that hears of the copy counts the message as done. So it must hear only when no other leader can take the copy back. */
static void what_is_sent_back_waits_too(void) {
    fixture fx;
    rp_command response;
    rp_error error;
    pthread_t thread;
    open_leader(&fx, 60000);
    CHECK(rp_broker_put_topic(fx.broker, text("SCHEDULE_TOPIC_XXXX"), 18, 18, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
    CHECK(rp_broker_put_topic(fx.broker, text("%RETRY%G"), 1, 1, 6, 0, RP_TOPIC_NATIVE_PULL | RP_TOPIC_RETRY_SEND) == RP_OK);
    CHECK(rp_broker_set_retries(fx.broker, text("G"), 1, 16) == RP_OK);
    rp_commit_log *log = rp_message_store_commit_log(fx.store);
    int first_end = (int)rp_commit_log_max_offset(log);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    send_one(&c, NULL);
    wait_parked(&fx, 1);
    commit_all(&fx);
    CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == SUCCESS);
    number_text offset;
    rp_command request = request_of(&c, RP_CODE_CONSUMER_SEND_MSG_BACK); /* no reactor waits for a commit */
    with_text(&request, "offset", number_of(&offset, RP_LEDGER_HEAD_SIZE + first_end));
    with_text(&request, "group", "G");
    with_text(&request, "delayLevel", "0");
    client_send(&c, &request);
    rp_request_free(take_punted(&fx));
    CHECK(end_index(&fx) == 1);
    returned back = {&fx, first_end};
    CHECK(pthread_create(&thread, NULL, send_back, &back) == 0);
    wait_until(has_grown, &(parked_claim){&fx, 2});
    CHECK(pthread_tryjoin_np(thread, NULL) == EBUSY);
    commit_all(&fx);
    pthread_join(thread, NULL);
    CHECK(back.status == RP_SENT_BACK_TO_RETRY);
    back.status = first_end;
    CHECK(pthread_create(&thread, NULL, send_back, &back) == 0);
    wait_until(has_grown, &(parked_claim){&fx, 3});
    CHECK(rp_commit_log_follow_entries(log, 60000) == RP_OK);
    rp_broker_set_committed(fx.broker, -1);
    CHECK(rp_commit_log_lead_entries(log, 2, &error) == RP_OK);
    commit_all(&fx); /* under another leadership: the sender hears that the message may be lost */
    pthread_join(thread, NULL);
    CHECK(back.status == RP_E_READ_ONLY);
    fx.settings.slave_timeout_ms = 10;
    rp_broker_set_settings(fx.broker, &fx.settings);
    back.status = first_end;
    (void)send_back(&back);
    CHECK(back.status == RP_E_TIMEOUT);
    client_close(&c);
    fixture_close(&fx);
}

/* After the next append the lead is lost, another leader cuts what was appended, and the lead is won again. All of this happens at once,
 * so that no thread sees a step in between. */
typedef struct losing {
    rp_commit_log *log;
    int64_t kept; /* the last entry that stays */
    int appends;
} losing;

static void lose_and_win(void *context) {
    losing *self = context;
    rp_error error;
    if (self->appends++ == 0) {
        CHECK(rp_commit_log_follow_entries(self->log, 60000) == RP_OK);
        CHECK(rp_commit_log_cut_entries(self->log, self->kept, &error) == RP_OK);
        CHECK(rp_commit_log_lead_entries(self->log, 2, &error) == RP_OK);
    }
}

/* Otherwise the log had only the end record: the transaction would be over, and its message lost. */
static void a_transaction_is_not_over_without_its_message(void) {
    fixture fx;
    open_leader(&fx, 60000);
    CHECK(rp_broker_put_topic(fx.broker, text(RP_HALF_TOPIC), 1, 1, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
    CHECK(rp_broker_put_topic(fx.broker, text(RP_OP_TOPIC), 1, 1, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    number_text queue;
    rp_command response, request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 0, "TRAN_MSG\1true\2PGROUP\1P\2", text("x"), &queue);
    for (uint16_t i = 0; i < request.field_count; i++) {
        if (slice_is(request.fields[i].key, "f")) /* sysFlag */
            request.fields[i].value = text("4");
    }
    rp_commit_log *log = rp_message_store_commit_log(fx.store);
    int64_t half = rp_commit_log_max_offset(log) + RP_LEDGER_HEAD_SIZE;
    client_send(&c, &request);
    wait_parked(&fx, 1);
    commit_all(&fx);
    CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == SUCCESS);
    losing self = {log, end_index(&fx), 0};
    CHECK(rp_message_store_on_appended(fx.store, lose_and_win, &self) == RP_OK);
    rp_end_transaction end = {.producer_group = text("P"), .log_offset = half, .decision = RP_SYSFLAG_TRANSACTION_COMMIT};
    const char *remark;
    (void)rp_broker_end_transaction(fx.broker, &end, &remark);
    CHECK(self.appends == 2); /* the second is the next leader's first entry */
    rp_message_store_forget_appended(fx.store, &self);
    commit_all(&fx);
    rp_consume_queue *over = rp_message_store_queue(fx.store, text(RP_OP_TOPIC), 0, 0, NULL);
    CHECK(over == NULL || rp_consume_queue_max_offset(over) == 0);
    CHECK(end_index(&fx) == self.kept + 1);
    client_close(&c);
    fixture_close(&fx);
}

/* Otherwise the log had only the ack, and the message would never come again. */
static void a_message_is_not_acked_without_its_new_checkpoint(void) {
    fixture fx;
    open_leader(&fx, 60000);
    CHECK(rp_broker_put_topic(fx.broker, fx.broker->revive_topic, 8, 8, 6, 0, RP_TOPIC_NATIVE_PULL) == RP_OK);
    losing self = {rp_message_store_commit_log(fx.store), end_index(&fx), 0};
    CHECK(rp_message_store_on_appended(fx.store, lose_and_win, &self) == RP_OK);
    rp_pop_checkpoint checkpoint = {.topic = text("T"), .group = text("G"), .broker_name = text("b"), .count = 1, .diff_count = 1};
    int64_t offset = 0;
    rp_pop_ack ack = {.topic = text("T"), .group = text("G"), .broker_name = text("b"), .offset_count = 1, .offsets = &offset};
    CHECK(rp_pop_log_replace(fx.broker, 0, &checkpoint, &ack) == RP_OK);
    rp_message_store_forget_appended(fx.store, &self);
    CHECK(end_index(&fx) == self.kept + 1);
    fixture_close(&fx);
}

int main(void) {
    RUN(a_transaction_is_not_over_without_its_message);
    RUN(a_message_is_not_acked_without_its_new_checkpoint);
    RUN(what_is_sent_back_waits_too);
    RUN(a_commit_answers_all_below_it);
    RUN(who_leads_no_more_says_so_at_once);
    RUN(without_a_majority_a_send_is_late);
    return 0;
}
