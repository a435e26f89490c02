/* broker_pop_revive_test.c: messages that were popped and not acked are delivered again through their retry topic: when, in which form, and
 * what stops or loses them. The test's clock drives the revive rounds; only the last claim uses the thread. */
#include <pthread.h>
#include <stdbool.h>

#include "../../../csrc/broker/timer_service_inl.h"
#include "pop_revive_fixture.h"

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
    void *first_pin = read_message(&fx, "T", 2, 0, &first, NULL), *pin = read_message(&fx, RETRY, 0, 0, &message, NULL);
    CHECK(slice_is(message.body, "one") && message.reconsume_times == 1 && message.flag == 7 && message.queue_id == 0);
    CHECK(property_is(&message, "1ST_POP_TIME", "1700000000000") && property_is(&message, "TAGS", "TagA") &&
          property_is(&message, "KEYS", "k"));
    CHECK(property_is(&message, "CLUSTER", "DefaultCluster") && message.born_timestamp_ms == first.born_timestamp_ms);
    CHECK(memcmp(message.born_host.data, fx.broker_options.store_host, 8) == 0); /* as RocketMQ: this broker's */
    rp_log_range_release(pin);
    rp_log_range_release(first_pin);
    CHECK(rp_broker_read_offset(fx.broker, text("G"), text(RETRY), 0) == 0); /* the group's first pop there begins with this message */
    turn(&fx, DUE_MS(60000)); /* this round reads the ack of the revived message */
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
    checkpoint.topic = text(RETRY); /* as a pop of the retry topic writes it */
    for (int64_t i = 0; i < 3; i++) {
        checkpoint.start_offset = i;
        checkpoint.pop_time_ms = POP_MS + 10000 * (i + 1);
        put(&fx, 0, &checkpoint);
        turn(&fx, DUE_MS(1000) + 10000 * (i + 1));
        CHECK(end_of(&fx, RETRY, 0) == i + 2);
    }
    rp_message message;
    void *pin = read_message(&fx, RETRY, 0, 3, &message, NULL);
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
    other.group = text("G2"); /* another group popped the same messages */
    CHECK(rp_broker_put_group(fx.broker, text("G2"), 1, 1, 0, 1, 0) == RP_OK);
    CHECK(rp_broker_put_topic(fx.broker, text("%RETRY%G2+T"), 1, 1, 6, 0, NATIVE) == RP_OK);
    put(&fx, 0, &checkpoint);
    put(&fx, 0, &other);
    int64_t offsets[30];
    for (int i = 0; i < 30; i++)
        offsets[i] = i;
    put_ack(&fx, 0, &checkpoint, 1, offsets, 30);
    checkpoint.broker_name = (rp_slice){NULL, 0}; /* an old client's checkpoint names no broker */
    put_ack(&fx, 0, &checkpoint, 0, (const int64_t[]){31}, 1);
    fx.settings.retry_topic_version = 2;
    CHECK(rp_broker_put_topic(fx.broker, text("%RETRY%G+T"), 1, 1, 6, 0, NATIVE) == RP_OK);
    rp_broker_set_settings(fx.broker, &fx.settings);
    turn(&fx, DUE_MS(1000));
    CHECK(end_of(&fx, "%RETRY%G+T", 0) == 1 && end_of(&fx, "%RETRY%G2+T", 0) == 32 && end_of(&fx, RETRY, 0) == 0);
    rp_message message;
    void *pin = read_message(&fx, "%RETRY%G+T", 0, 0, &message, NULL);
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
    restart(&fx, 1); /* the log also has its ack: the checkpoint is read again, and everything after it */
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
    CHECK(end_of(&fx, RETRY, 0) == 1); /* 0 is acked by the checkpoint's bits, 1 by an ack; the other broker's ack belongs to another pop */
    /* popped tomorrow, for ten thousand years: counted as popped now, for ten years */
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

/* Nor while the queue has checkpoints of pops behind it, which come first. */
static void a_clock_set_back_does_not_hold_messages(void) {
    const int64_t set_back_ms = POP_MS - 86400000;
    fixture fx;
    client c;
    open_revive(&fx, &c);
    for (int64_t start = 0; start < 12; start++) {
        send_message(&c, "T", 0, NULL, "body");
        rp_pop_checkpoint checkpoint = checkpoint_of(start, 1, 1000 + (start * 7 % 10) * 100);
        put(&fx, 0, &checkpoint);
    }
    turn(&fx, POP_MS);
    rp_pop_checkpoint behind = checkpoint_of(12, 1, 500);
    behind.pop_time_ms = set_back_ms;
    send_message(&c, "T", 0, NULL, "body");
    put(&fx, 0, &behind);
    turn(&fx, set_back_ms);
    CHECK(end_of(&fx, RETRY, 0) == 0);
    behind.start_offset++;
    behind.invisible_ms = 10000;
    send_message(&c, "T", 0, NULL, "body");
    put(&fx, 0, &behind);
    turn(&fx, set_back_ms + 500 + REVIVE_GRACE_MS);
    CHECK(end_of(&fx, RETRY, 0) == 1);
    turn(&fx, set_back_ms + 2000 + REVIVE_GRACE_MS);
    CHECK(end_of(&fx, RETRY, 0) == 13 && stats_of(&fx).checkpoints_kept == 1);
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
    void *pin = read_message(&fx, RETRY, 0, 0, &message, NULL);
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
    int32_t queues;
    CHECK(rp_broker_put_group(fx.broker, text("G2"), 1, 1, 0, 1, 0) == RP_OK);
    send_message(&c, "T", 0, NULL, "body");
    rp_pop_checkpoint checkpoint = checkpoint_of(0, 1, 1000);
    checkpoint.group = text("G2");
    put(&fx, 0, &checkpoint);
    turn(&fx, POP_MS);
    CHECK(rp_broker_wanted_retry_topic(fx.broker, name, &queues) == 0);
    CHECK(turn(&fx, DUE_MS(1000)) == REVIVE_AGAIN_MS);
    uint32_t size = rp_broker_wanted_retry_topic(fx.broker, name, &queues);
    CHECK(slice_is((rp_slice){name, size}, "%RETRY%G2_T") && queues == 1 && group_offset(&fx, 0) < 0);
    /* nobody creates the topic: the message gets a checkpoint of its own, so that the others can go on */
    turn(&fx, DUE_MS(1000) + 40000);
    CHECK(stats_of(&fx).put_again == 1 && end_of(&fx, REVIVE, 0) == 3);
    rp_message message;
    void *pin = read_message(&fx, REVIVE, 0, 1, &message, NULL);
    CHECK(slice_contains(message.body, "\"it\":11000,\"n\":1") && slice_contains(message.body, "\"rp\":\"1\",\"so\":0"));
    rp_log_range_release(pin);
    turn(&fx, DUE_MS(1000) + 40001);
    CHECK(group_offset(&fx, 0) == 0 && stats_of(&fx).checkpoints_kept == 1);
    CHECK(rp_broker_put_topic(fx.broker, text("%RETRY%G2_T"), 1, 1, 6, 0, NATIVE) == RP_OK);
    CHECK(rp_broker_wanted_retry_topic(fx.broker, name, &queues) == 0);
    turn(&fx, DUE_MS(1000) + 60000);
    CHECK(end_of(&fx, "%RETRY%G2_T", 0) == 1);
    turn(&fx, DUE_MS(1000) + 60000);
    CHECK(group_offset(&fx, 0) == end_of(&fx, REVIVE, 0) - 1);
    close_revive(&fx, &c);
}

static void missing_retry_topics_are_named_some_at_once(void) {
    enum { GROUPS = REVIVE_WANTED_MAX + 3 };
    fixture fx;
    client c;
    open_revive(&fx, &c);
    send_message(&c, "T", 0, NULL, "body");
    for (int round = 0; round < 2; round++) { /* a topic that is still missing is reported again */
        for (int i = 0; round == 0 && i < GROUPS; i++) {
            char group[16];
            snprintf(group, sizeof group, "of-many-%d", i);
            CHECK(rp_broker_put_group(fx.broker, text(group), 1, 1, 0, 1, 0) == RP_OK);
            rp_pop_checkpoint checkpoint = checkpoint_of(0, 1, 1000);
            checkpoint.group = text(group);
            put(&fx, 0, &checkpoint);
        }
        turn(&fx, DUE_MS(1000) + round * REVIVE_AGAIN_MS);
        uint8_t name[RP_POP_RETRY_NAME_MAX];
        uint32_t named = 0, size;
        int32_t queues;
        while ((size = rp_broker_wanted_retry_topic(fx.broker, name, &queues)) > 0) {
            CHECK(slice_starts((rp_slice){name, size}, "%RETRY%of-many-"));
            if (round == 1)
                CHECK(rp_broker_put_topic(fx.broker, (rp_slice){name, size}, 1, 1, 6, 0, NATIVE) == RP_OK);
            named++;
        }
        CHECK(named == REVIVE_WANTED_MAX);
    }
    turn(&fx, DUE_MS(1000) + 2 * REVIVE_AGAIN_MS);
    CHECK(stats_of(&fx).revived == REVIVE_WANTED_MAX && stats_of(&fx).checkpoints_kept == GROUPS - REVIVE_WANTED_MAX);
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
    checkpoint.topic = text("%RETRY%G"); /* RocketMQ's thread ends here, because no topic name follows the group's */
    put(&fx, 0, &checkpoint);
    checkpoint = checkpoint_of(5, 1, 1000); /* a message that was never stored, or is gone */
    put(&fx, 0, &checkpoint);
    turn(&fx, DUE_MS(1000));
    CHECK(stats_of(&fx).dropped == 4 && stats_of(&fx).checkpoints_kept == 0 && stats_of(&fx).revived == 0 && end_of(&fx, RETRY, 0) == 0);
    turn(&fx, DUE_MS(1000));
    CHECK(group_offset(&fx, 0) == end_of(&fx, REVIVE, 0) - 1);
    close_revive(&fx, &c);
}

static void what_a_topic_that_was_made_again_has_at_the_same_place_is_another_message(void) {
    fixture fx;
    client c;
    rp_error error;
    open_revive(&fx, &c);
    send_message(&c, "T", 0, NULL, "popped");
    rp_pop_checkpoint checkpoint = checkpoint_of(0, 1, 1000);
    put(&fx, 0, &checkpoint);
    turn(&fx, POP_MS);
    rp_broker_delete_topic(fx.broker, text("T"));
    must(rp_message_store_delete_topic(fx.store, text("T"), &error), &error, "delete topic");
    CHECK(rp_broker_put_topic(fx.broker, text("T"), 4, 4, 6, 0, NATIVE) == RP_OK);
    CHECK(send_message(&c, "T", 0, NULL, "not popped yet") == 0);
    turn(&fx, DUE_MS(1000));
    CHECK(end_of(&fx, RETRY, 0) == 0 && stats_of(&fx).checkpoints_done == 1);
    put(&fx, 0, &checkpoint); /* and a checkpoint that is due */
    turn(&fx, DUE_MS(1000));
    CHECK(end_of(&fx, RETRY, 0) == 1);
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
    CHECK(turn(&fx, DUE_MS(1000) + 50000) > 0); /* so the next round need not begin at once */
    CHECK(end_of(&fx, RETRY, 0) == 0 && stats_of(&fx).checkpoints_kept == 1 && group_offset(&fx, 0) < 0);
    fx.settings.store_writable = 1;
    rp_broker_set_settings(fx.broker, &fx.settings);
    turn(&fx, DUE_MS(1000) + 51000);
    CHECK(end_of(&fx, RETRY, 0) == 1 && stats_of(&fx).put_again == 0);
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
    CHECK(end_of(&fx, REVIVE, 0) == 9);
    turn(&fx, POP_MS);
    CHECK(end_of(&fx, REVIVE, 0) == 9 && group_offset(&fx, 0) == 7);
    restart(&fx, -1); /* the group's offset was not on disk: both records are read again, and count as one checkpoint */
    turn(&fx, POP_MS);
    CHECK(stats_of(&fx).checkpoints_kept == 1);
    restart(&fx, 7);
    turn(&fx, DUE_MS(3000000));
    CHECK(end_of(&fx, RETRY, 0) == 1 && stats_of(&fx).checkpoints_done == 1);
    rp_message message;
    void *pin = read_message(&fx, REVIVE, 0, 8, &message, NULL);
    CHECK(slice_starts(message.body, "{\"bm\":1,") && slice_contains(message.body, "\"so\":0"));
    rp_log_range_release(pin);
    close_revive(&fx, &c);
}

static void an_ack_between_a_checkpoint_and_what_is_written_of_it_again_counts(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    for (int i = 0; i < 2; i++)
        send_message(&c, "T", 0, NULL, "body");
    rp_pop_checkpoint takes_long = checkpoint_of(0, 2, 3000000);
    put(&fx, 0, &takes_long);
    turn(&fx, POP_MS);
    rp_pop_revive *revive = fx.broker->revive;
    revive->carry_records = 1;
    put_ack(&fx, 0, &takes_long, 0, (const int64_t[]){0}, 1); /* the ack comes after the round has read */
    revive_carry(revive, 0, &revive->queues[0], POP_MS);
    revive_carry(revive, 0, &revive->queues[0], POP_MS); /* the offset waits for the checkpoint that is written again */
    CHECK(end_of(&fx, REVIVE, 0) == 3);
    revive->carry_records = 1000000;
    turn(&fx, POP_MS);
    CHECK(group_offset(&fx, 0) < 0); /* the second record was written without the ack */
    revive->carry_records = 1;
    turn(&fx, POP_MS);
    turn(&fx, POP_MS);
    CHECK(group_offset(&fx, 0) >= 2);
    restart(&fx, group_offset(&fx, 0));
    turn(&fx, DUE_MS(3000000));
    CHECK(end_of(&fx, RETRY, 0) == 1);
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
    restart(&fx, 100); /* the log has lost its end, and the checkpoints in it */
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

static void the_highest_offset_passes_over_all_that_is_there(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    send_message(&c, "T", 0, NULL, "body");
    rp_pop_checkpoint checkpoint = checkpoint_of(0, 1, 1000);
    put(&fx, 0, &checkpoint);
    turn(&fx, POP_MS);
    CHECK(stats_of(&fx).checkpoints_kept == 1);
    CHECK(rp_broker_put_offset(fx.broker, text(RP_POP_REVIVE_GROUP), text(REVIVE), 0, INT64_MAX) == RP_OK);
    turn(&fx, POP_MS);
    CHECK(stats_of(&fx).checkpoints_kept == 0 && group_offset(&fx, 0) == 0);
    restart(&fx, INT64_MAX);
    turn(&fx, DUE_MS(1000));
    CHECK(end_of(&fx, RETRY, 0) == 0 && group_offset(&fx, 0) == 0);
    close_revive(&fx, &c);
}

enum { THREAD_POPS = 200 };

static void *put_and_ack(void *context) {
    fixture *fx = context;
    for (int64_t i = 0; i < THREAD_POPS; i++) {
        rp_pop_checkpoint checkpoint = checkpoint_of(i, 1, 1000); /* due long ago */
        checkpoint.queue_id = 1;
        checkpoint.pop_time_ms = i % 2 == 0 ? POP_MS : INT64_MAX; /* every second one counts as popped now, and is acked */
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
    int32_t queues;
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
        CHECK(rp_broker_wanted_retry_topic(fx.broker, name, &queues) == 0);
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
    RUN(missing_retry_topics_are_named_some_at_once);
    RUN(what_nobody_wants_any_more_is_dropped);
    RUN(what_a_topic_that_was_made_again_has_at_the_same_place_is_another_message);
    RUN(a_store_that_takes_nothing_is_waited_for);
    RUN(what_finds_no_room_is_read_when_there_is_some);
    RUN(a_pop_that_takes_long_does_not_hold_the_offset_for_ever);
    RUN(an_ack_between_a_checkpoint_and_what_is_written_of_it_again_counts);
    RUN(an_offset_that_cannot_be_is_corrected_and_an_operators_is_followed);
    RUN(the_highest_offset_passes_over_all_that_is_there);
    RUN(the_thread_stops_and_starts_while_checkpoints_come);
    return 0;
}
