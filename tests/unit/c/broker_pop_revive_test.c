/* broker_pop_revive_test.c: what was popped and not acked comes again through its retry topic: when, as what, and what stops or loses it.
 * Rounds are turned by the test's clock; the thread only in the last claim. */
#include <pthread.h>
#include <stdbool.h>

#include "../../../csrc/broker/pop_revive_inl.h"
#include "../../../csrc/broker/timer_service_inl.h"
#include "broker/pop.h"
#include "broker_fixture.h"

#define REVIVE "rmq_sys_REVIVE_LOG_DefaultCluster"
#define RETRY "%RETRY%G_T"
#define NATIVE (RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL)
#define POP_MS INT64_C(1700000000000) /* when everything is popped, by the test's clock */
#define DUE_MS(invisible_ms) (POP_MS + (invisible_ms) + REVIVE_GRACE_MS)

static void open_revive(fixture *fx, client *c) {
    fixture_init(fx);
    fixture_open(fx);
    CHECK(rp_broker_put_topic(fx->broker, text(REVIVE), 8, 8, 6, 0, NATIVE) == RP_OK);
    CHECK(rp_broker_put_topic(fx->broker, text(RETRY), 1, 1, 6, 0, NATIVE) == RP_OK);
    *c = client_open(fx, RP_SERIALIZE_ROCKETMQ);
}

static void close_revive(fixture *fx, client *c) {
    client_close(c);
    drop_events(fx);
    fixture_close(fx);
}

static int64_t end_of(const fixture *fx, const char *topic, int32_t queue_id) {
    rp_consume_queue *queue = rp_message_store_queue(fx->store, text(topic), queue_id, 0, NULL);
    return queue != NULL ? rp_consume_queue_max_offset(queue) : 0;
}

static int64_t group_offset(const fixture *fx, int32_t queue_id) {
    return rp_broker_read_offset(fx->broker, text(RP_POP_REVIVE_GROUP), text(REVIVE), queue_id);
}

/* The caller gives the pin back. */
static void *read_message(const fixture *fx, const char *topic, int32_t queue_id, int64_t offset, rp_message *message) {
    rp_queue_entry entry;
    rp_log_range range;
    rp_error error;
    rp_consume_queue *queue = rp_message_store_queue(fx->store, text(topic), queue_id, 0, NULL);
    CHECK(queue != NULL && rp_consume_queue_read(queue, offset, &entry, 1) == 1);
    CHECK(rp_commit_log_read(rp_message_store_commit_log(fx->store), entry.commit_log_offset, (uint32_t)entry.size, &range) == RP_OK);
    must(rp_message_decode(range.address, range.size, RP_CHECK_BODY_CRC, message, &error), &error, "decode record");
    return range.pin;
}

static int property_is(const rp_message *message, const char *name, const char *value) {
    rp_slice found = rp_message_property(message->properties, name);
    return value == NULL ? found.data == NULL : found.data != NULL && slice_is(found, value);
}

static int64_t turn(fixture *fx, int64_t now_ms) { return rp_pop_revive_round(fx->broker->revive, now_ms); }

static rp_pop_revive_stats stats_of(const fixture *fx) {
    rp_pop_revive_stats stats;
    rp_pop_revive_read_stats(fx->broker->revive, &stats);
    return stats;
}

static rp_pop_checkpoint checkpoint_of(int64_t start, uint32_t count, int64_t invisible_ms) {
    return (rp_pop_checkpoint){.topic = text("T"),
                               .group = text("G"),
                               .broker_name = text("broker"),
                               .start_offset = start,
                               .pop_time_ms = POP_MS,
                               .invisible_ms = invisible_ms,
                               .count = count};
}

static void put(fixture *fx, int32_t revive_queue_id, const rp_pop_checkpoint *checkpoint) {
    CHECK(rp_pop_log_put_checkpoint(fx->broker, revive_queue_id, checkpoint) == RP_OK);
}

static void put_ack(fixture *fx, int32_t revive_queue_id, const rp_pop_checkpoint *checkpoint, int is_batch, const int64_t *offsets,
                    uint32_t count) {
    rp_pop_ack ack = {.topic = checkpoint->topic,
                      .group = checkpoint->group,
                      .broker_name = checkpoint->broker_name,
                      .start_offset = checkpoint->start_offset,
                      .pop_time_ms = checkpoint->pop_time_ms,
                      .queue_id = checkpoint->queue_id,
                      .is_batch = is_batch,
                      .offset_count = count,
                      .offsets = offsets};
    CHECK(rp_pop_log_put_ack(fx->broker, revive_queue_id, &ack) == RP_OK);
}

/* A record of anybody's in the revive topic. */
static void put_text(fixture *fx, int32_t revive_queue_id, const char *properties, const char *body) {
    rp_append_item item = {.body = text(body), .properties = {text(properties)}};
    CHECK(rp_pop_log_open_queue(fx->broker, revive_queue_id, &item.queue) == RP_OK);
    CHECK(rp_commit_log_append(fx->broker->commit_log, &item, 1) == 1);
}

/* What a process that was killed leaves: the log, and the group's offset as it was written last. */
static void restart(fixture *fx, int64_t group_offset_of_0) {
    rp_pop_revive_destroy(fx->broker->revive);
    fx->broker->revive = rp_pop_revive_create(fx->broker);
    CHECK(fx->broker->revive != NULL);
    if (group_offset_of_0 >= 0)
        CHECK(rp_broker_put_offset(fx->broker, text(RP_POP_REVIVE_GROUP), text(REVIVE), 0, group_offset_of_0) == RP_OK);
    else
        rp_broker_delete_offsets(fx->broker, text(RP_POP_REVIVE_GROUP), text(REVIVE));
}

static void what_is_not_acked_comes_when_its_time_is_over(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    CHECK(send_message(&c, "T", 2, "TAGS\1TagA\2KEYS\1k\2", "one") == 0);
    CHECK(send_message(&c, "T", 2, "TAGS\1TagA\2", "two") == 1);
    rp_pop_checkpoint checkpoint = checkpoint_of(0, 2, 60000);
    checkpoint.queue_id = 2;
    put(&fx, 5, &checkpoint);
    put_ack(&fx, 5, &checkpoint, 0, (const int64_t[]){1}, 1);
    CHECK(turn(&fx, DUE_MS(60000) - 300) == 300 && end_of(&fx, RETRY, 0) == 0 && group_offset(&fx, 5) < 0);
    CHECK(stats_of(&fx).checkpoints_kept == 1 && stats_of(&fx).oldest_due_ms == POP_MS + 60000);
    turn(&fx, DUE_MS(60000));
    CHECK(end_of(&fx, RETRY, 0) == 1 && stats_of(&fx).checkpoints_kept == 0 && stats_of(&fx).revived == 1);
    rp_message message, first;
    void *first_pin = read_message(&fx, "T", 2, 0, &first), *pin = read_message(&fx, RETRY, 0, 0, &message);
    CHECK(slice_is(message.body, "one") && message.reconsume_times == 1 && message.flag == 7 && message.queue_id == 0);
    CHECK(property_is(&message, "1ST_POP_TIME", "1700000000000") && property_is(&message, "TAGS", "TagA") &&
          property_is(&message, "KEYS", "k"));
    CHECK(property_is(&message, "CLUSTER", "DefaultCluster") && message.born_timestamp_ms == first.born_timestamp_ms);
    CHECK(memcmp(message.born_host.data, fx.broker_options.store_host, 8) == 0); /* as RocketMQ: this broker's */
    rp_log_range_release(pin);
    rp_log_range_release(first_pin);
    CHECK(rp_broker_read_offset(fx.broker, text("G"), text(RETRY), 0) == 0); /* the group's first pop there begins with it */
    turn(&fx, DUE_MS(60000)); /* the ack of what was revived is read */
    CHECK(end_of(&fx, RETRY, 0) == 1 && end_of(&fx, REVIVE, 5) == 3 && group_offset(&fx, 5) == 2);
    close_revive(&fx, &c);
}

static void what_comes_again_and_again_is_counted(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    send_message(&c, "T", 0, NULL, "never acked");
    rp_pop_checkpoint checkpoint = checkpoint_of(0, 1, 1000);
    put(&fx, 0, &checkpoint);
    turn(&fx, DUE_MS(1000));
    checkpoint.topic = text(RETRY); /* as a pop from there says it */
    for (int64_t i = 0; i < 3; i++) {
        checkpoint.start_offset = i;
        checkpoint.pop_time_ms = POP_MS + 10000 * (i + 1);
        put(&fx, 0, &checkpoint);
        turn(&fx, DUE_MS(1000) + 10000 * (i + 1));
        CHECK(end_of(&fx, RETRY, 0) == i + 2);
    }
    rp_message message;
    void *pin = read_message(&fx, RETRY, 0, 3, &message);
    CHECK(message.reconsume_times == 4 && slice_is(message.body, "never acked") && property_is(&message, "1ST_POP_TIME", "1700000000000"));
    rp_log_range_release(pin);
    close_revive(&fx, &c);
}

static void what_is_acked_never_comes(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    for (int i = 0; i < 32; i++)
        send_message(&c, "T", 0, NULL, i == 30 ? "left" : "acked");
    rp_pop_checkpoint checkpoint = checkpoint_of(0, 32, 1000), other = checkpoint_of(0, 32, 1000);
    other.group = text("G2"); /* of the same messages */
    CHECK(rp_broker_put_group(fx.broker, text("G2"), 1, 1, 0, 1, 0) == RP_OK);
    CHECK(rp_broker_put_topic(fx.broker, text("%RETRY%G2+T"), 1, 1, 6, 0, NATIVE) == RP_OK);
    put(&fx, 0, &checkpoint);
    put(&fx, 0, &other);
    int64_t offsets[30];
    for (int i = 0; i < 30; i++)
        offsets[i] = i;
    put_ack(&fx, 0, &checkpoint, 1, offsets, 30);
    checkpoint.broker_name = (rp_slice){NULL, 0}; /* a client of old says none */
    put_ack(&fx, 0, &checkpoint, 0, (const int64_t[]){31}, 1);
    fx.settings.retry_topic_version = 2;
    CHECK(rp_broker_put_topic(fx.broker, text("%RETRY%G+T"), 1, 1, 6, 0, NATIVE) == RP_OK);
    rp_broker_set_settings(fx.broker, &fx.settings);
    turn(&fx, DUE_MS(1000));
    CHECK(end_of(&fx, "%RETRY%G+T", 0) == 1 && end_of(&fx, "%RETRY%G2+T", 0) == 32 && end_of(&fx, RETRY, 0) == 0);
    rp_message message;
    void *pin = read_message(&fx, "%RETRY%G+T", 0, 0, &message);
    CHECK(slice_is(message.body, "left"));
    rp_log_range_release(pin);
    close_revive(&fx, &c);
}

static void a_restart_revives_nothing_twice_behind_a_pop_that_takes_long(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    for (int i = 0; i < 33; i++)
        send_message(&c, "T", 0, NULL, "body");
    rp_pop_checkpoint takes_long = checkpoint_of(32, 1, 3000000), is_short = checkpoint_of(0, 32, 1000);
    put(&fx, 0, &takes_long);
    put(&fx, 0, &is_short);
    turn(&fx, DUE_MS(1000));
    CHECK(end_of(&fx, RETRY, 0) == 32 && group_offset(&fx, 0) < 0);
    restart(&fx, -1);
    turn(&fx, DUE_MS(1000));
    CHECK(end_of(&fx, RETRY, 0) == 32 && stats_of(&fx).checkpoints_kept == 1);
    turn(&fx, DUE_MS(3000000));
    CHECK(end_of(&fx, RETRY, 0) == 33);
    turn(&fx, DUE_MS(3000000));
    CHECK(group_offset(&fx, 0) == end_of(&fx, REVIVE, 0) - 1);
    restart(&fx, 1); /* its ack is there, too: the checkpoint is read again, with all that came after it */
    turn(&fx, DUE_MS(3000000));
    CHECK(end_of(&fx, RETRY, 0) == 33);
    close_revive(&fx, &c);
}

static void records_of_rocketmq_and_of_strangers(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    for (int i = 0; i < 3; i++)
        send_message(&c, "T", 0, NULL, "body");
    put_text(&fx, 0, "TAGS\1ck\2", "no JSON");
    put_text(&fx, 0, "TAGS\1ck\2", "{\"t\":\"T\",\"c\":\"G\",\"n\":33}");
    put_text(&fx, 0, "TAGS\1ck\2", "{\"t\":\"T\",\"c\":\"G\",\"n\":1,\"q\":-1}");
    put_text(&fx, 0, "TAGS\1ck\2", "{\"t\":\"T\",\"c\":\"G\",\"n\":1,\"so\":9223372036854775807,\"it\":-9223372036854775808,\"pt\":5}");
    put_text(&fx, 0, "TAGS\1ck\2", "{\"t\":\"T\",\"c\":\"G\",\"n\":1,\"so\":77,\"it\":1,\"pt\":-9223372036854775808,\"q\":65535}");
    put_text(&fx, 0, "TAGS\1ack\2", "[[[[");
    put_text(&fx, 0, "TAGS\1bAck\2", "{}");
    put_text(&fx, 0, "TAGS\1other\2", "{}");
    put_text(&fx, 0, "", "{}");
    /* as 4.9 wrote it, and its timer brought it; and an ack without its checkpoint */
    put_text(&fx, 0, "TAGS\1ck\2TIMER_DELIVER_MS\0011700000000000\2TIMER_OUT_MS\0011700000000000\2REAL_TOPIC\1" REVIVE "\2REAL_QID\0010\2",
             "{\"bm\":1,\"c\":\"G\",\"it\":1000,\"n\":3,\"pt\":1700000000000,\"q\":0,\"ro\":0,\"so\":0,\"t\":\"T\"}");
    put_text(&fx, 0, "TAGS\1ack\2", "{\"ao\":1,\"bn\":\"broker\",\"c\":\"G\",\"pt\":1700000000000,\"q\":0,\"so\":0,\"t\":\"T\"}");
    put_text(&fx, 0, "TAGS\1ack\2", "{\"ao\":2,\"bn\":\"other\",\"c\":\"G\",\"pt\":1700000000000,\"q\":0,\"so\":0,\"t\":\"T\"}");
    turn(&fx, DUE_MS(1000));
    CHECK(end_of(&fx, RETRY, 0) == 1); /* 0 by its bits, 1 by an ack; the other broker's is of another pop */
    /* one that was popped tomorrow, for ten thousand years: it counts from now, and ten years */
    put_text(&fx, 1, "TAGS\1ck\2", "{\"t\":\"T\",\"c\":\"G\",\"n\":1,\"so\":0,\"it\":315360000000000,\"pt\":1700086400000}");
    put_text(&fx, 1, "TAGS\1ck\2", "{\"t\":\"T\",\"c\":\"G\",\"n\":1,\"so\":1,\"it\":1000,\"pt\":1700086400000}");
    turn(&fx, POP_MS + 20000);
    CHECK(end_of(&fx, RETRY, 0) == 1 && stats_of(&fx).checkpoints_kept == 2);
    turn(&fx, POP_MS + 20000 + 1000 + REVIVE_GRACE_MS);
    CHECK(end_of(&fx, RETRY, 0) == 2 && stats_of(&fx).checkpoints_kept == 1);
    turn(&fx, INT64_C(4) * 1000 * 1000 * 1000 * 1000);
    CHECK(end_of(&fx, RETRY, 0) == 3 && stats_of(&fx).checkpoints_kept == 0);
    close_revive(&fx, &c);
}

static void a_clock_set_back_does_not_hold_messages(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    send_message(&c, "T", 0, NULL, "body");
    rp_pop_checkpoint checkpoint = checkpoint_of(0, 1, 1000);
    put(&fx, 0, &checkpoint);
    turn(&fx, POP_MS);
    turn(&fx, POP_MS - 86400000);
    CHECK(end_of(&fx, RETRY, 0) == 0);
    turn(&fx, POP_MS - 86400000 + 1000 + REVIVE_GRACE_MS);
    CHECK(end_of(&fx, RETRY, 0) == 1);
    close_revive(&fx, &c);
}

/* The acks of RocketMQ's stores come with the slot of their time. */
static void nothing_comes_ahead_of_timed_messages(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    CHECK(send_message(&c, "T", 0, "", "one") == 0 && send_message(&c, "T", 0, "", "two") == 1);
    rp_pop_checkpoint first = checkpoint_of(0, 1, 60000), second = checkpoint_of(1, 1, 60000);
    put(&fx, 0, &first);
    put(&fx, 0, &second);
    rp_timer_service *timers = fx.broker->timers;
    atomic_store(&timers->is_running, 1);
    atomic_store(&timers->delivers, 1);
    rp_timer_set_read(timers, POP_MS + 60000); /* the slot of that time is not delivered */
    CHECK(turn(&fx, DUE_MS(60000) + 3600000) == REVIVE_ROUND_MS && stats_of(&fx).revived == 0);
    put_ack(&fx, 0, &first, 0, (const int64_t[]){0}, 1);
    rp_timer_set_read(timers, POP_MS + 61000);
    turn(&fx, DUE_MS(60000) + 3600000);
    CHECK(stats_of(&fx).revived == 1 && end_of(&fx, RETRY, 0) == 1);
    rp_message message;
    void *pin = read_message(&fx, RETRY, 0, 0, &message);
    CHECK(slice_is(message.body, "two"));
    rp_log_range_release(pin);

    rp_timer_set_read(timers, 0); /* an operator stopped delivery, or timers are off: nothing waits for them */
    rp_pop_checkpoint third = checkpoint_of(0, 1, 1000), fourth = checkpoint_of(1, 1, 1000);
    fx.settings.timer_stop_dequeue = 1;
    rp_broker_set_settings(fx.broker, &fx.settings);
    put(&fx, 0, &third);
    turn(&fx, DUE_MS(60000));
    CHECK(stats_of(&fx).revived == 2);
    fx.settings.timer_stop_dequeue = 0;
    rp_broker_set_settings(fx.broker, &fx.settings);
    put(&fx, 0, &fourth);
    turn(&fx, DUE_MS(60000));
    CHECK(stats_of(&fx).revived == 2);
    atomic_store(&timers->is_running, 0);
    turn(&fx, DUE_MS(60000));
    CHECK(stats_of(&fx).revived == 3);
    close_revive(&fx, &c);
}

static void a_missing_retry_topic_is_waited_for(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    uint8_t name[RP_POP_RETRY_NAME_MAX];
    CHECK(rp_broker_put_group(fx.broker, text("G2"), 1, 1, 0, 1, 0) == RP_OK);
    send_message(&c, "T", 0, NULL, "body");
    rp_pop_checkpoint checkpoint = checkpoint_of(0, 1, 1000);
    checkpoint.group = text("G2");
    put(&fx, 0, &checkpoint);
    turn(&fx, POP_MS);
    CHECK(rp_broker_wanted_retry_topic(fx.broker, name) == 0);
    CHECK(turn(&fx, DUE_MS(1000)) == REVIVE_AGAIN_MS);
    uint32_t size = rp_broker_wanted_retry_topic(fx.broker, name);
    CHECK(slice_is((rp_slice){name, size}, "%RETRY%G2_T") && group_offset(&fx, 0) < 0);
    /* nobody makes it: a checkpoint of its own lets the others go on */
    turn(&fx, DUE_MS(1000) + 40000);
    CHECK(stats_of(&fx).put_again == 1 && end_of(&fx, REVIVE, 0) == 3);
    rp_message message;
    void *pin = read_message(&fx, REVIVE, 0, 1, &message);
    CHECK(slice_contains(message.body, "\"it\":11000,\"n\":1") && slice_contains(message.body, "\"rp\":\"1\",\"so\":0"));
    rp_log_range_release(pin);
    turn(&fx, DUE_MS(1000) + 40001);
    CHECK(group_offset(&fx, 0) == 0 && stats_of(&fx).checkpoints_kept == 1);
    CHECK(rp_broker_put_topic(fx.broker, text("%RETRY%G2_T"), 1, 1, 6, 0, NATIVE) == RP_OK);
    CHECK(rp_broker_wanted_retry_topic(fx.broker, name) == 0);
    turn(&fx, DUE_MS(1000) + 60000);
    CHECK(end_of(&fx, "%RETRY%G2_T", 0) == 1);
    turn(&fx, DUE_MS(1000) + 60000);
    CHECK(group_offset(&fx, 0) == end_of(&fx, REVIVE, 0) - 1);
    close_revive(&fx, &c);
}

static void what_nobody_wants_any_more_is_dropped(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    send_message(&c, "T", 0, NULL, "body");
    rp_pop_checkpoint checkpoint = checkpoint_of(0, 1, 1000);
    checkpoint.group = text("deleted");
    put(&fx, 0, &checkpoint);
    checkpoint.group = text("G");
    checkpoint.topic = text("deleted");
    put(&fx, 0, &checkpoint);
    checkpoint.topic = text("%RETRY%G_deleted");
    put(&fx, 0, &checkpoint);
    checkpoint.topic = text("%RETRY%G"); /* RocketMQ ends here: no name is behind the group's */
    put(&fx, 0, &checkpoint);
    checkpoint = checkpoint_of(5, 1, 1000); /* never stored, or gone */
    put(&fx, 0, &checkpoint);
    turn(&fx, DUE_MS(1000));
    CHECK(stats_of(&fx).dropped == 4 && stats_of(&fx).checkpoints_kept == 0 && stats_of(&fx).revived == 0 && end_of(&fx, RETRY, 0) == 0);
    turn(&fx, DUE_MS(1000));
    CHECK(group_offset(&fx, 0) == end_of(&fx, REVIVE, 0) - 1);
    close_revive(&fx, &c);
}

static void a_store_that_takes_nothing_is_waited_for(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    send_message(&c, "T", 0, NULL, "body");
    rp_pop_checkpoint checkpoint = checkpoint_of(0, 1, 1000);
    put(&fx, 0, &checkpoint);
    fx.settings.store_writable = 0;
    rp_broker_set_settings(fx.broker, &fx.settings);
    CHECK(turn(&fx, DUE_MS(1000) + 50000) > 0); /* no round follows at once */
    CHECK(end_of(&fx, RETRY, 0) == 0 && stats_of(&fx).checkpoints_kept == 1 && group_offset(&fx, 0) < 0);
    fx.settings.store_writable = 1;
    rp_broker_set_settings(fx.broker, &fx.settings);
    turn(&fx, DUE_MS(1000) + 51000);
    CHECK(end_of(&fx, RETRY, 0) == 1 && stats_of(&fx).put_again == 0);
    close_revive(&fx, &c);
}

static _Atomic bool is_full;

static int allocate_or_full(void *context, int fd, int64_t offset, int64_t size) {
    if (!atomic_load(&is_full))
        return rp_file_ops_system()->allocate(context, fd, offset, size);
    errno = ENOSPC;
    return -1;
}

/* Sends until one is taken: who makes files ahead has seen that there is room. */
static void wait_room(client *c, const char *body) {
    number_text queue;
    for (int64_t until = now_ms() + WAIT_MS; now_ms() < until; sched_yield()) {
        rp_command request = send_request_v2(c, RP_CODE_SEND_MESSAGE_V2, "T", 1, NULL, text(body), &queue);
        if (client_call(c, &request).code == 0)
            return;
    }
    CHECK(!"the log takes messages again");
}

static void what_a_full_disk_refuses_is_tried_again_and_comes_once(void) {
    enum { COUNT = 32, BODY = 60000 }; /* more than two files of the log */
    rp_file_ops full = *rp_file_ops_system();
    full.allocate = allocate_or_full;
    fixture fx;
    client c;
    fixture_init(&fx);
    fx.store_options.file_ops = &full;
    fixture_open(&fx);
    c = client_open(&fx, RP_SERIALIZE_JSON);
    CHECK(rp_broker_put_topic(fx.broker, text(REVIVE), 8, 8, 6, 0, NATIVE) == RP_OK);
    CHECK(rp_broker_put_topic(fx.broker, text(RETRY), 1, 1, 6, 0, NATIVE) == RP_OK);
    char *body = malloc(BODY + 1);
    memset(body, 'x', BODY);
    body[BODY] = 0;
    for (int i = 0; i < COUNT; i++)
        send_message(&c, "T", 0, NULL, body);
    rp_pop_checkpoint checkpoint = checkpoint_of(0, COUNT, 1000), is_first = checkpoint_of(0, 1, 0);
    put(&fx, 0, &checkpoint);
    atomic_store(&is_full, true);
    turn(&fx, DUE_MS(1000)); /* the retry queue cannot begin */
    CHECK(end_of(&fx, RETRY, 0) == 0 && stats_of(&fx).checkpoints_kept == 1);
    atomic_store(&is_full, false);
    is_first.pop_time_ms = POP_MS - 10000;
    put(&fx, 1, &is_first);
    turn(&fx, POP_MS);
    CHECK(end_of(&fx, RETRY, 0) == 1);
    atomic_store(&is_full, true);
    turn(&fx, DUE_MS(1000) + 1000); /* the log has no file any more */
    int64_t end = end_of(&fx, RETRY, 0);
    CHECK(end < 1 + COUNT && stats_of(&fx).append_failures > 0 && stats_of(&fx).checkpoints_kept == 1 && group_offset(&fx, 0) < 0);
    atomic_store(&is_full, false);
    wait_room(&c, body);
    turn(&fx, DUE_MS(1000) + 3000);
    CHECK(end_of(&fx, RETRY, 0) == 1 + COUNT && stats_of(&fx).put_again == 0 && stats_of(&fx).checkpoints_kept == 0);
    free(body);
    close_revive(&fx, &c);
}

/* A change of an invisible time: an ack is shorter than its checkpoint, and may still fit where the disk ends. */
static void an_ack_is_not_stored_without_its_checkpoint(void) {
    enum { BODY = 60000, SHIFT = 60, SHIFTS = 16 };
    rp_file_ops full = *rp_file_ops_system();
    full.allocate = allocate_or_full;
    fixture fx;
    client c;
    fixture_init(&fx);
    fx.store_options.file_ops = &full;
    fixture_open(&fx);
    c = client_open(&fx, RP_SERIALIZE_JSON);
    CHECK(rp_broker_put_topic(fx.broker, text(REVIVE), 8, 8, 6, 0, NATIVE) == RP_OK);
    char body[BODY + 1] = {0};
    number_text queue;
    rp_pop_checkpoint checkpoint = checkpoint_of(0, 1, 1000);
    rp_pop_ack ack = {.topic = checkpoint.topic, .group = checkpoint.group, .offset_count = 1, .offsets = (const int64_t[]){0}};
    memset(body, 'x', BODY);
    CHECK(rp_pop_log_replace(fx.broker, 0, &checkpoint, &ack) == RP_OK);
    for (int i = 0; i < SHIFTS; i++) {
        rp_command request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 1, NULL, text(body + BODY - i * SHIFT - 1), &queue);
        CHECK(client_call(&c, &request).code == 0);
        atomic_store(&is_full, true);
        do {
            request = send_request_v2(&c, RP_CODE_SEND_MESSAGE_V2, "T", 1, NULL, text(body), &queue);
        } while (client_call(&c, &request).code == 0);
        while (rp_pop_log_replace(fx.broker, 0, &checkpoint, &ack) == RP_OK)
            ;
        rp_message message, before;
        int64_t end = end_of(&fx, REVIVE, 0);
        void *pin = read_message(&fx, REVIVE, 0, end - 1, &message), *pin_before = read_message(&fx, REVIVE, 0, end - 2, &before);
        CHECK(property_is(&message, "TAGS", RP_POP_CK_TAG) || property_is(&before, "TAGS", RP_POP_CK_TAG));
        rp_log_range_release(pin);
        rp_log_range_release(pin_before);
        atomic_store(&is_full, false);
        wait_room(&c, body);
    }
    close_revive(&fx, &c);
}

static void what_finds_no_room_is_read_when_there_is_some(void) {
    enum { COUNT = 50 };
    fixture fx;
    client c;
    open_revive(&fx, &c);
    for (int i = 0; i < COUNT; i++)
        send_message(&c, "T", 0, NULL, "body");
    fx.broker->revive->kept.count_max[RP_KEPT_SHORT] = 8;
    fx.broker->revive->kept.count_max[RP_KEPT_LONG] = 1;
    for (int64_t i = 0; i < COUNT; i++) {
        rp_pop_checkpoint checkpoint = checkpoint_of(i, 1, i < 3 ? 7200000 : 1000);
        put(&fx, 0, &checkpoint);
    }
    for (int64_t i = 1; i < COUNT; i += 3) { /* behind all checkpoints */
        rp_pop_checkpoint checkpoint = checkpoint_of(i, 1, 0);
        put_ack(&fx, 0, &checkpoint, 0, (const int64_t[]){i}, 1);
    }
    const int64_t acked = (COUNT + 1) / 3; /* one is long */
    for (int i = 0; i < COUNT; i++)
        turn(&fx, DUE_MS(1000));
    CHECK(end_of(&fx, RETRY, 0) == COUNT - 3 - (acked - 1) && stats_of(&fx).checkpoints_kept == 1 && group_offset(&fx, 0) < 0);
    for (int i = 0; i < 6; i++)
        turn(&fx, DUE_MS(7200000));
    CHECK(end_of(&fx, RETRY, 0) == COUNT - acked && stats_of(&fx).checkpoints_kept == 0);
    CHECK(group_offset(&fx, 0) == end_of(&fx, REVIVE, 0) - 1);
    close_revive(&fx, &c);
}

static void a_pop_that_takes_long_does_not_hold_the_offset_for_ever(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    for (int i = 0; i < 2; i++)
        send_message(&c, "T", 0, NULL, "body");
    rp_pop_checkpoint takes_long = checkpoint_of(0, 2, 3000000);
    put(&fx, 0, &takes_long);
    put_ack(&fx, 0, &takes_long, 0, (const int64_t[]){0}, 1);
    for (int64_t i = 0; i < 6; i++)
        put_text(&fx, 0, "TAGS\1other\2", "{}");
    turn(&fx, POP_MS);
    CHECK(end_of(&fx, REVIVE, 0) == 8 && group_offset(&fx, 0) < 0);
    fx.broker->revive->carry_records = 8;
    turn(&fx, POP_MS);
    CHECK(end_of(&fx, REVIVE, 0) == 9 && group_offset(&fx, 0) == 7);
    restart(&fx, -1); /* the offset was not on disk: both records are read, as one */
    turn(&fx, POP_MS);
    CHECK(stats_of(&fx).checkpoints_kept == 1);
    restart(&fx, 7);
    turn(&fx, DUE_MS(3000000));
    CHECK(end_of(&fx, RETRY, 0) == 1 && stats_of(&fx).checkpoints_done == 1);
    rp_message message;
    void *pin = read_message(&fx, REVIVE, 0, 8, &message);
    CHECK(slice_starts(message.body, "{\"bm\":1,") && slice_contains(message.body, "\"so\":0"));
    rp_log_range_release(pin);
    close_revive(&fx, &c);
}

static void an_offset_that_cannot_be_is_corrected_and_an_operators_is_followed(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    for (int i = 0; i < 3; i++)
        send_message(&c, "T", 0, NULL, "body");
    rp_pop_checkpoint checkpoint = checkpoint_of(0, 1, 1000);
    put(&fx, 0, &checkpoint);
    restart(&fx, 100); /* the log lost its end, with its checkpoints */
    turn(&fx, POP_MS);
    CHECK(group_offset(&fx, 0) == 0);
    checkpoint.start_offset = 1;
    put(&fx, 0, &checkpoint);
    checkpoint.start_offset = 2;
    put(&fx, 0, &checkpoint);
    turn(&fx, POP_MS);
    CHECK(stats_of(&fx).checkpoints_kept == 2 && group_offset(&fx, 0) == 0);
    CHECK(rp_broker_put_offset(fx.broker, text(RP_POP_REVIVE_GROUP), text(REVIVE), 0, 1) == RP_OK);
    turn(&fx, DUE_MS(1000));
    CHECK(end_of(&fx, RETRY, 0) == 1);
    close_revive(&fx, &c);
}

enum { THREAD_POPS = 200 };

static void *put_and_ack(void *context) {
    fixture *fx = context;
    for (int64_t i = 0; i < THREAD_POPS; i++) {
        rp_pop_checkpoint checkpoint = checkpoint_of(i, 1, 1000); /* due long ago */
        checkpoint.queue_id = 1;
        checkpoint.pop_time_ms = i % 2 == 0 ? POP_MS : INT64_MAX; /* that one from now on, and it is acked */
        checkpoint.invisible_ms = i % 2 == 0 ? 1000 : 600000;
        put(fx, (int32_t)(i % 8), &checkpoint);
        if (i % 2 == 1)
            put_ack(fx, (int32_t)(i % 8), &checkpoint, 0, &i, 1);
    }
    return NULL;
}

static int half_came(void *context) {
    rp_pop_stats stats;
    rp_broker_read_pop_stats(((fixture *)context)->broker, &stats);
    return stats.revived >= THREAD_POPS / 2;
}

static void the_thread_stops_and_starts_while_checkpoints_come(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    uint8_t name[RP_POP_RETRY_NAME_MAX];
    rp_error error;
    for (int i = 0; i < THREAD_POPS; i++)
        send_message(&c, "T", 1, NULL, "body");
    must(rp_broker_start_revive(fx.broker, &error), &error, "start");
    must(rp_broker_start_revive(fx.broker, &error), &error, "start twice");
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, put_and_ack, &fx) == 0);
    for (int i = 0; i < 20; i++) {
        rp_broker_stop_revive(fx.broker);
        must(rp_broker_start_revive(fx.broker, &error), &error, "start again");
        CHECK(rp_broker_wanted_retry_topic(fx.broker, name) == 0);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    wait_until(half_came, &fx);
    rp_broker_stop_revive(fx.broker);
    rp_broker_stop_revive(fx.broker);
    CHECK(end_of(&fx, RETRY, 0) == THREAD_POPS / 2);
    close_revive(&fx, &c);
}

int main(void) {
    RUN(what_is_not_acked_comes_when_its_time_is_over);
    RUN(what_comes_again_and_again_is_counted);
    RUN(what_is_acked_never_comes);
    RUN(a_restart_revives_nothing_twice_behind_a_pop_that_takes_long);
    RUN(records_of_rocketmq_and_of_strangers);
    RUN(a_clock_set_back_does_not_hold_messages);
    RUN(nothing_comes_ahead_of_timed_messages);
    RUN(a_missing_retry_topic_is_waited_for);
    RUN(what_nobody_wants_any_more_is_dropped);
    RUN(a_store_that_takes_nothing_is_waited_for);
    RUN(what_a_full_disk_refuses_is_tried_again_and_comes_once);
    RUN(an_ack_is_not_stored_without_its_checkpoint);
    RUN(what_finds_no_room_is_read_when_there_is_some);
    RUN(a_pop_that_takes_long_does_not_hold_the_offset_for_ever);
    RUN(an_offset_that_cannot_be_is_corrected_and_an_operators_is_followed);
    RUN(the_thread_stops_and_starts_while_checkpoints_come);
    return 0;
}
