/* broker_concurrent_test.c: producers, long-polling consumers and a writer of the tables at once: no message is lost, duplicated or out of
 * order. For TSan. */
#include <pthread.h>
#include <stdatomic.h>

#include "broker_fixture.h"

enum { PRODUCERS = 3, CONSUMERS = 3, MESSAGES = 2000, QUEUES = 4 };

typedef struct party {
    fixture *fx;
    int index;
    _Atomic int *done;
    int64_t received[QUEUES];
} party;

/* Each producer writes its messages round robin over the queues, several in flight. */
static void *produce(void *context) {
    party *p = context;
    client c = client_open(p->fx, (uint8_t)(p->index % 2));
    rp_command response;
    enum { WINDOW = 16 };
    for (int i = 0; i < MESSAGES + WINDOW; i++) {
        if (i < MESSAGES) {
            number_text queue, body;
            rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", i % QUEUES, "UNIQ_KEY\1K\2TAGS\1A\2",
                                                 text(number_of(&body, (int64_t)p->index * 1000000 + i)), &queue);
            client_send(&c, &request);
        }
        if (i >= WINDOW)
            CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == 0);
    }
    client_close(&c);
    return NULL;
}

/* Follows all queues by long polling and checks that offsets are gapless and every producer's numbers ascend. */
static void *consume(void *context) {
    party *p = context;
    client c = client_open(p->fx, (uint8_t)(p->index % 2));
    int64_t next[QUEUES] = {0}, last[QUEUES][PRODUCERS], total = 0;
    int32_t queue_of[QUEUES] = {0};
    memset(last, -1, sizeof last);
    char group[8];
    snprintf(group, sizeof group, "G%d", p->index);
    for (int32_t q = 0; q < QUEUES; q++) {
        pull_request pull = pull_of(q, 0);
        pull.sys_flag = RP_PULL_SUBSCRIPTION | RP_PULL_SUSPEND | RP_PULL_COMMIT_OFFSET;
        pull.group = group;
        queue_of[q] = client_send_pull(&c, &pull);
    }
    while (total < (int64_t)PRODUCERS * MESSAGES) {
        rp_command response;
        CHECK(client_receive(&c, &response, WAIT_MS) == 1);
        int32_t q = 0;
        while (queue_of[q] != response.opaque)
            CHECK(++q < QUEUES);
        CHECK(response.code == 0 || response.code == 19 || response.code == 20);
        for (uint32_t at = 0; response.code == 0 && at < response.body.size;) {
            rp_message message;
            CHECK(rp_message_decode(response.body.data + at, response.body.size - at, 1, &message, NULL) == RP_RECORD_MESSAGE);
            int64_t number = 0;
            CHECK(rp_slice_to_i64(message.body, &number) == RP_OK && message.queue_offset == next[q]);
            CHECK(number % 1000000 > last[q][number / 1000000]);
            last[q][number / 1000000] = number % 1000000;
            next[q]++;
            total++;
            at += message.size;
        }
        pull_request pull = pull_of(q, next[q]);
        pull.sys_flag = RP_PULL_SUBSCRIPTION | RP_PULL_SUSPEND | RP_PULL_COMMIT_OFFSET;
        pull.group = group;
        pull.commit_offset = next[q];
        queue_of[q] = client_send_pull(&c, &pull);
    }
    atomic_fetch_add(p->done, 1);
    client_close(&c);
    return NULL;
}

static int ignore_offset(void *context, const rp_offset_row *row) {
    (void)context, (void)row;
    return 0;
}
static int ignore_topic(void *context, const rp_topic_stats *stats) {
    (void)context, (void)stats;
    return 0;
}

/* What Python does meanwhile: new topics and groups, changed settings and subscriptions, exports. */
static void write_tables(fixture *fx, const _Atomic int *done) {
    char name[32];
    for (int i = 0; atomic_load(done) < CONSUMERS; i++) {
        rp_broker_settings settings;
        rp_broker_stats stats;
        rp_broker_settings_default(&settings);
        settings.slave_read_enable = i % 2;
        settings.flush_mode = i / 8 % 2;
        settings.sync_flush_timeout_ms = WAIT_MS;
        rp_broker_set_settings(fx->broker, &settings);
        snprintf(name, sizeof name, "topic-%d", i % 300);
        CHECK(rp_broker_put_topic(fx->broker, text(name), 1 + i % 8, 1 + i % 8, 6, 0, RP_TOPIC_NATIVE_SEND) == RP_OK);
        CHECK(rp_broker_put_topic(fx->broker, text("T"), 4, 4, 6, 0, RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL) == RP_OK);
        CHECK(rp_broker_put_group(fx->broker, text(name), 1, 1, 0, 1, 0) == RP_OK);
        int32_t codes[3] = {i, i + 1, i + 2};
        CHECK(rp_broker_put_subscription(fx->broker, text("G1"), text("T"), codes, (uint32_t)i % 4, i, 0, 1) == RP_OK);
        CHECK(rp_broker_put_offset(fx->broker, text(name), text("T"), i % 40, i) == RP_OK);
        rp_broker_delete_topic(fx->broker, text(name));
        rp_broker_each_offset(fx->broker, (rp_slice){NULL, 0}, (rp_slice){NULL, 0}, ignore_offset, NULL);
        rp_broker_each_topic_stats(fx->broker, ignore_topic, NULL);
        rp_broker_read_stats(fx->broker, &stats);
        drop_events(fx);
        sched_yield();
    }
}

static void everybody_at_once_gets_everything_in_order(void) {
    fixture fx;
    fixture_init(&fx);
    fx.store_options.commit_log_file_size = 256 << 10;
    fx.server_options.reactors = 2;
    fixture_open(&fx);
    _Atomic int done = 0;
    pthread_t threads[PRODUCERS + CONSUMERS];
    party parties[PRODUCERS + CONSUMERS];
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++) {
        parties[i] = (party){&fx, i < PRODUCERS ? i : i - PRODUCERS, &done, {0}};
        char group[8];
        snprintf(group, sizeof group, "G%d", parties[i].index);
        CHECK(rp_broker_put_group(fx.broker, text(group), 1, 1, 0, 1, 0) == RP_OK);
        CHECK(pthread_create(&threads[i], NULL, i < PRODUCERS ? produce : consume, &parties[i]) == 0);
    }
    write_tables(&fx, &done);
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++)
        pthread_join(threads[i], NULL);
    rp_broker_stats stats;
    rp_broker_read_stats(fx.broker, &stats);
    CHECK(stats.messages_in == PRODUCERS * MESSAGES && stats.messages_out == (uint64_t)CONSUMERS * PRODUCERS * MESSAGES);
    CHECK(stats.sends_failed == 0 && stats.put_ns_max > 0);
    drop_events(&fx);
    fixture_close(&fx);
}

/* Oneway sends and long polls as fast as they go, whatever becomes of the topic. */
static void *trouble(void *context) {
    party *p = context;
    rp_command response;
    for (int round = 0; round < 40; round++) {
        client c = client_open(p->fx, (uint8_t)(round % 2));
        for (int i = 0; i < 40; i++) {
            number_text queue;
            rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", i % QUEUES, "UNIQ_KEY\1K\2TAGS\1A\2", text("x"), &queue);
            request.flag = RP_COMMAND_ONEWAY;
            client_send(&c, &request);
            pull_request pull = pull_of(i % QUEUES, i % 3 == 0 ? 1000000 : i % 5);
            pull.sys_flag = RP_PULL_SUBSCRIPTION | RP_PULL_SUSPEND | RP_PULL_COMMIT_OFFSET;
            pull.subscription = i % 4 == 0 ? "B" : "*";
            pull.suspend_ms = i % 7;
            client_send_pull(&c, &pull);
        }
        while (round % 3 != 0 && client_receive(&c, &response, 10) == 1)
            CHECK(response.code == 0 || response.code == 1 || response.code == 17 || (response.code >= 19 && response.code <= 21));
        client_close(&c); /* every third time while requests are still under way */
    }
    atomic_fetch_add(p->done, 1);
    return NULL;
}

static void a_topic_may_come_and_go_under_its_traffic(void) {
    fixture fx;
    fixture_init(&fx);
    fx.store_options.commit_log_file_size = 256 << 10;
    fx.server_options.reactors = 2;
    fixture_open(&fx);
    _Atomic int done = 0;
    pthread_t threads[4];
    party parties[4];
    rp_error error = {0};
    for (int i = 0; i < 4; i++) {
        parties[i] = (party){&fx, i, &done, {0}};
        CHECK(pthread_create(&threads[i], NULL, trouble, &parties[i]) == 0);
    }
    for (int i = 0; atomic_load(&done) < 4; i++) {
        rp_broker_delete_topic(fx.broker, text("T"));
        must(rp_message_store_delete_topic(fx.store, text("T"), &error), &error, "delete topic");
        drop_events(&fx);
        CHECK(rp_broker_put_topic(fx.broker, text("T"), 4, 4, 6, 0, RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL) == RP_OK);
        CHECK(rp_broker_reset_offset(fx.broker, text("G"), text("T"), i % QUEUES, i) == RP_OK);
        for (int turn = 0; turn < 200; turn++)
            sched_yield();
        drop_events(&fx);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    client c = client_open(&fx, RP_SERIALIZE_JSON);
    int64_t offset = send_message(&c, "T", 0, "UNIQ_KEY\1K\2", "still there");
    pull_request pull = pull_of(0, offset);
    rp_command response = client_pull(&c, &pull);
    CHECK(response.code == 0 || response.code == 21); /* 21: the consumer has not been told of the last reset yet */
    client_close(&c);
    drop_events(&fx);
    fixture_close(&fx);
}

int main(void) {
    RUN(a_topic_may_come_and_go_under_its_traffic);
    RUN(everybody_at_once_gets_everything_in_order);
    return 0;
}
