/* queue_kinds_test.c: a slave learns that a topic was recreated with queues of the other kind before its log has got there. Readers get the
 * messages of the new topic when they arrive, and nothing of the old one. */
#include "broker_fixture.h"

enum { SUCCESS = 0 };

#define FLAGS RP_TOPIC_NATIVE_PULL
#define TOPIC "Changing"

typedef struct pair {
    fixture slave;
    char path[256];
    rp_message_store *master;
} pair;

static void pair_open(pair *both) {
    rp_error error = {0};
    fixture_init(&both->slave);
    fixture_open(&both->slave);
    rp_commit_log_set_following(rp_message_store_commit_log(both->slave.store), 1);
    rp_message_store_options options = both->slave.store_options;
    snprintf(both->path, sizeof both->path, "%s/rocketpy-test-XXXXXX", fixture_base());
    CHECK(mkdtemp(both->path) != NULL);
    options.root_path = both->path;
    must(rp_message_store_open(&options, &both->master, &error), &error, "open the master's store");
}

static void pair_close(pair *both) {
    rp_error error = {0};
    fixture_close(&both->slave);
    must(rp_message_store_close(both->master, &error), &error, "close the master's store");
    nftw(both->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The topic's first queue at the master, which makes it again. */
static rp_consume_queue *make_again(const pair *both, int is_batch) {
    CHECK(rp_message_store_delete_topic(both->master, text(TOPIC), NULL) == 0);
    CHECK(rp_message_store_set_batch_topic(both->master, text(TOPIC), is_batch) == RP_OK);
    rp_consume_queue *queue = rp_message_store_queue(both->master, text(TOPIC), 0, 1, NULL);
    CHECK(queue != NULL && rp_consume_queue_is_batch(queue) == is_batch);
    return queue;
}

/* messages 0: a message that is sent alone. */
static void append(const pair *both, rp_consume_queue *queue, int32_t messages) {
    rp_append_item item = {.queue = queue,
                           .born_timestamp_ms = 1700000000000,
                           .born_host = {10, 0, 0, 1, 0, 0, 0x1F, 0x90},
                           .body = text("body"),
                           .inner_messages = messages};
    CHECK(rp_commit_log_append(rp_message_store_commit_log(both->master), &item, 1) == 1);
}

static void replicate(const pair *both) {
    rp_commit_log *from = rp_message_store_commit_log(both->master), *to = rp_message_store_commit_log(both->slave.store);
    for (int64_t at = rp_commit_log_max_offset(to), end = rp_commit_log_max_offset(from); at < end;) {
        uint8_t *address;
        uint32_t room, wanted = (uint32_t)(end - at);
        rp_log_range range;
        CHECK(rp_commit_log_reserve_replicated(to, at, wanted, &address, &room, NULL) == RP_OK);
        wanted = room < wanted ? room : wanted;
        CHECK(rp_commit_log_read(from, at, wanted, &range) == RP_OK);
        memcpy(address, range.address, range.size);
        rp_log_range_release(range.pin);
        CHECK(rp_commit_log_commit_replicated(to, at, (uint32_t)range.size, NULL) == RP_OK);
        at += (int64_t)range.size;
    }
}

/* The slave copies its master's table. */
static void hear_of(const pair *both, int is_batch) {
    CHECK(rp_broker_put_topic(both->slave.broker, text(TOPIC), 1, 1, 6, 0, FLAGS | (is_batch ? RP_TOPIC_BATCH : 0)) == RP_OK);
}

static pull_request pull_at(int64_t offset) {
    pull_request pull = pull_of(0, offset);
    pull.topic = TOPIC;
    pull.sys_flag = 4 | 2;
    pull.suspend_ms = 2 * WAIT_MS;
    return pull;
}

static int is_suspended(void *context) {
    rp_broker_stats stats;
    rp_broker_read_stats(((const pair *)context)->slave.broker, &stats);
    return stats.pulls_suspended_now == 1;
}

static void check_pull(client *c, int64_t offset, int64_t next) {
    pull_request pull = pull_at(offset);
    rp_command response = client_pull(c, &pull);
    CHECK(response.code == SUCCESS && field_number(&response, "nextBeginOffset") == next);
}

static int is_there(const pair *both, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s/" TOPIC, both->slave.path, name);
    return access(path, F_OK) == 0;
}

static void check_kind(const pair *both, int is_batch) {
    CHECK(is_there(both, "batchconsumequeue") == is_batch && is_there(both, "consumequeue") == !is_batch);
}

static void who_waits_on_the_old_kind_gets_messages_of_the_new_one(void) {
    pair both;
    pair_open(&both);
    client c = client_open(&both.slave, RP_SERIALIZE_ROCKETMQ);
    rp_command response;
    hear_of(&both, 0);
    append(&both, make_again(&both, 0), 0);
    replicate(&both);
    check_pull(&c, 0, 1);
    for (int is_batch = 1; is_batch >= 0; is_batch--) {
        hear_of(&both, is_batch);
        pull_request pull = pull_at(1); /* behind the one message of before: it opens what the log has so far */
        client_send_pull(&c, &pull);
        wait_until(is_suspended, &both);
        rp_consume_queue *queue = make_again(&both, is_batch);
        for (int i = 0; i < 4; i++) {
            append(&both, queue, 0);
        }
        replicate(&both);
        CHECK(client_receive(&c, &response, WAIT_MS) == 1 && response.code == SUCCESS);
        for (int64_t offset = 0; offset < 4; offset++) {
            check_pull(&c, offset, 4);
        }
        check_kind(&both, is_batch);
        queue = make_again(&both, is_batch); /* one message, as at first */
        append(&both, queue, 0);
        replicate(&both);
        check_pull(&c, 0, 1);
    }
    client_close(&c);
    pair_close(&both);
}

/* The old topic's messages go on coming, when the empty place of its queue has been given to the new kind already. */
static void messages_of_the_old_kind_that_still_come_leave_nothing_behind(void) {
    pair both;
    pair_open(&both);
    client c = client_open(&both.slave, RP_SERIALIZE_ROCKETMQ);
    for (int is_batch = 1; is_batch >= 0; is_batch--) {
        rp_consume_queue *old = make_again(&both, !is_batch);
        hear_of(&both, !is_batch);
        append(&both, old, 0);
        replicate(&both);
        CHECK(rp_message_store_delete_topic(both.slave.store, text(TOPIC), NULL) == 0);
        hear_of(&both, is_batch);
        CHECK(rp_consume_queue_is_batch(rp_message_store_queue(both.slave.store, text(TOPIC), 0, 1, NULL)) == is_batch);
        append(&both, old, 0);
        replicate(&both);
        append(&both, make_again(&both, is_batch), 0);
        replicate(&both);
        check_pull(&c, 0, 1);
        check_kind(&both, is_batch);
    }
    client_close(&c);
    pair_close(&both);
}

static void a_topic_that_is_compacted_from_now_on_is(void) {
    pair both;
    pair_open(&both);
    rp_error error;
    hear_of(&both, 1);
    append(&both, make_again(&both, 1), 0);
    replicate(&both);
    must(rp_broker_compact_topic(both.slave.broker, text(TOPIC), 1, &error), &error, "compact the topic");
    hear_of(&both, 0);
    append(&both, make_again(&both, 0), 0);
    replicate(&both);
    rp_consume_queue *queue = rp_message_store_queue(both.slave.store, text(TOPIC), 0, 0, NULL);
    CHECK(!rp_consume_queue_is_batch(queue) && rp_consume_queue_max_offset(queue) == 1 && rp_consume_queue_compacted(queue) != NULL);
    check_kind(&both, 0);
    pair_close(&both);
}

int main(void) {
    who_waits_on_the_old_kind_gets_messages_of_the_new_one();
    messages_of_the_old_kind_that_still_come_leave_nothing_behind();
    a_topic_that_is_compacted_from_now_on_is();
    return 0;
}
