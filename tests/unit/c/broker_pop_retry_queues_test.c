/* broker_pop_retry_queues_test.c: to which queue of its retry topic a message is revived, and what waits for a queue that is missing.
 * The test's clock drives the revive rounds. */
#include "pop_revive_fixture.h"

/* Revives the message of T's, or of the retry topic's, queue, and checks in which retry queue it is then. */
static void comes_to(fixture *fx, int64_t *pop_ms, const char *topic, int32_t queue_id, int64_t offset, int32_t retry_queue_id) {
    int64_t before = end_of(fx, RETRY, retry_queue_id);
    rp_pop_checkpoint checkpoint = checkpoint_of(offset, 1, 1000);
    checkpoint.topic = text(topic);
    checkpoint.queue_id = queue_id;
    checkpoint.pop_time_ms = *pop_ms += 10000;
    put(fx, 0, &checkpoint);
    turn(fx, *pop_ms + 1000 + REVIVE_GRACE_MS);
    CHECK(end_of(fx, RETRY, retry_queue_id) == before + 1 && stats_of(fx).checkpoints_kept == 0);
    CHECK(rp_broker_read_offset(fx->broker, text("G"), text(RETRY), retry_queue_id) == 0);
}

static void what_comes_again_keeps_the_number_of_its_queue(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    uint8_t name[RP_POP_RETRY_NAME_MAX];
    int32_t queues = 0;
    int64_t pop_ms = POP_MS;
    CHECK(rp_broker_put_topic(fx.broker, text("T"), 4, 4, 6, 0, NATIVE) == RP_OK);
    for (int i = 0; i < 4; i++)
        CHECK(send_message(&c, "T", 3, NULL, "body") == i);
    comes_to(&fx, &pop_ms, "T", 3, 0, 0);
    fx.settings.separate_retry_queues = 1;
    rp_broker_set_settings(fx.broker, &fx.settings);
    rp_pop_checkpoint checkpoint = checkpoint_of(1, 1, 1000);
    checkpoint.queue_id = 3;
    put(&fx, 0, &checkpoint);
    turn(&fx, pop_ms + 20000); /* until then its retry topic has one queue */
    uint32_t size = rp_broker_wanted_retry_topic(fx.broker, name, &queues);
    CHECK(slice_is((rp_slice){name, size}, RETRY) && queues == 4 && stats_of(&fx).checkpoints_kept == 1);
    turn(&fx, pop_ms + 20000 + REVIVE_AGAIN_MS);
    CHECK(rp_broker_put_topic(fx.broker, text(RETRY), 3, 4, 6, 0, NATIVE) == RP_OK);
    CHECK(rp_broker_wanted_retry_topic(fx.broker, name, &queues) > 0 && queues == 4); /* the fourth queue cannot be read */
    CHECK(rp_broker_put_topic(fx.broker, text(RETRY), 4, 4, 6, 0, NATIVE) == RP_OK);
    turn(&fx, pop_ms + 20000 + 2 * REVIVE_AGAIN_MS);
    CHECK(end_of(&fx, RETRY, 3) == 1 && end_of(&fx, RETRY, 0) == 1 && stats_of(&fx).checkpoints_kept == 0);
    comes_to(&fx, &pop_ms, RETRY, 3, 0, 3);
    comes_to(&fx, &pop_ms, RETRY, 0, 0, 0);
    /* the message was sent to a queue that takes no more sends */
    CHECK(rp_broker_put_topic(fx.broker, text("T"), 4, 2, 6, 0, NATIVE) == RP_OK);
    comes_to(&fx, &pop_ms, "T", 3, 2, 3);
    CHECK(rp_broker_put_topic(fx.broker, text(RETRY), 2, 2, 6, 0, NATIVE) == RP_OK);
    comes_to(&fx, &pop_ms, "T", 3, 3, 0);
    fx.settings.separate_retry_queues = 0;
    rp_broker_set_settings(fx.broker, &fx.settings);
    comes_to(&fx, &pop_ms, RETRY, 3, 1, 0);
    close_revive(&fx, &c);
}

static void separate_queues(fixture *fx, client *c) {
    open_revive(fx, c);
    fx->settings.separate_retry_queues = 1;
    rp_broker_set_settings(fx->broker, &fx->settings);
    CHECK(rp_broker_put_topic(fx->broker, text("T"), 4, 4, 6, 0, NATIVE) == RP_OK);
    for (int32_t queue_id = 0; queue_id < 4; queue_id++)
        CHECK(send_message(c, "T", queue_id, NULL, "body") == 0);
}

static void put_of_queue(fixture *fx, int32_t queue_id) {
    rp_pop_checkpoint checkpoint = checkpoint_of(0, 1, 1000);
    checkpoint.queue_id = queue_id;
    put(fx, 0, &checkpoint);
}

static void a_narrow_retry_topic_holds_up_only_what_its_missing_queues_are_for(void) {
    fixture fx;
    client c;
    separate_queues(&fx, &c);
    uint8_t name[RP_POP_RETRY_NAME_MAX];
    int32_t queues = 0;
    CHECK(rp_broker_put_topic(fx.broker, text(RETRY), 2, 2, 6, 0, NATIVE) == RP_OK);
    for (int32_t queue_id = 3; queue_id >= 0; queue_id--)
        put_of_queue(&fx, queue_id);
    turn(&fx, DUE_MS(1000));
    CHECK(end_of(&fx, RETRY, 0) == 1 && end_of(&fx, RETRY, 1) == 1 && stats_of(&fx).checkpoints_kept == 2);
    CHECK(rp_broker_wanted_retry_topic(fx.broker, name, &queues) > 0 && queues == 4);
    CHECK(rp_broker_put_topic(fx.broker, text(RETRY), 4, 4, 6, 0, NATIVE) == RP_OK);
    turn(&fx, DUE_MS(1000) + REVIVE_AGAIN_MS);
    CHECK(end_of(&fx, RETRY, 2) == 1 && end_of(&fx, RETRY, 3) == 1 && stats_of(&fx).checkpoints_kept == 0);
    close_revive(&fx, &c);
}

static void a_queue_that_nobody_makes_is_waited_for_five_seconds(void) {
    fixture fx;
    client c;
    separate_queues(&fx, &c);
    put_of_queue(&fx, 3);
    turn(&fx, DUE_MS(1000));
    turn(&fx, DUE_MS(1000) + 4999);
    CHECK(end_of(&fx, RETRY, 0) == 0 && stats_of(&fx).checkpoints_kept == 1);
    turn(&fx, DUE_MS(1000) + 4999 + REVIVE_AGAIN_MS);
    CHECK(end_of(&fx, RETRY, 0) == 1 && stats_of(&fx).checkpoints_kept == 0 && stats_of(&fx).put_again == 0);
    close_revive(&fx, &c);
}

int main(void) {
    RUN(what_comes_again_keeps_the_number_of_its_queue);
    RUN(a_narrow_retry_topic_holds_up_only_what_its_missing_queues_are_for);
    RUN(a_queue_that_nobody_makes_is_waited_for_five_seconds);
    return 0;
}
