/* foreign_messages_test.c: checkpoints of an acting slave at another master, which fetches their messages from that slave and puts them
 * into its own retry topic. Also acks that such a slave notes for checkpoints in its own log. */
#include <stdbool.h>

#include "../../../csrc/broker/escaping_messages.h"
#include "../../../csrc/broker/foreign_messages.h"
#include "pop_revive_fixture.h"

static rp_pop_checkpoint foreign(int64_t start, uint32_t count) {
    rp_pop_checkpoint checkpoint = checkpoint_of(start, count, 1000);
    checkpoint.broker_name = text("broker-a");
    return checkpoint;
}

static rp_foreign_wanted wanted_of(const fixture *fx) {
    rp_foreign_wanted wanted;
    CHECK(rp_broker_take_foreign(fx->broker, &wanted) == RP_OK);
    CHECK(slice_is((rp_slice){wanted.broker_name, wanted.broker_name_size}, "broker-a"));
    return wanted;
}

static bool nothing_is_wanted(const fixture *fx) {
    rp_foreign_wanted none;
    return rp_broker_take_foreign(fx->broker, &none) == RP_E_NOT_FOUND;
}

/* Plays the other broker's answer, with a record of this broker. */
static void put_record(const fixture *fx, uint64_t id, int64_t offset) {
    rp_log_range range;
    rp_queue_entry entry;
    rp_consume_queue *queue = rp_message_store_queue(fx->store, text("T"), 0, 0, NULL);
    CHECK(rp_consume_queue_read(queue, offset, &entry, 1) == 1);
    CHECK(rp_commit_log_read(fx->broker->commit_log, entry.commit_log_offset, (uint32_t)entry.size, &range) == RP_OK);
    CHECK(rp_broker_put_foreign(fx->broker, id, RP_OK, (rp_slice){range.address, (uint32_t)entry.size}) == RP_OK);
    rp_log_range_release(range.pin);
}

static void what_another_broker_gave_out_is_fetched_from_it(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    for (int i = 0; i < 3; i++)
        CHECK(send_message(&c, "T", 0, "KEYS\1k\2", i == 1 ? "theirs" : "ours") == i);
    rp_pop_checkpoint checkpoint = foreign(1, 2);
    put(&fx, 0, &checkpoint);
    put_ack(&fx, 0, &checkpoint, 0, (const int64_t[]){2}, 1);
    turn(&fx, DUE_MS(1000) - 1);
    CHECK(nothing_is_wanted(&fx));
    turn(&fx, DUE_MS(1000));
    CHECK(end_of(&fx, RETRY, 0) == 0 && stats_of(&fx).checkpoints_kept == 1); /* no message of ours was put in its place */
    rp_foreign_wanted wanted = wanted_of(&fx);
    CHECK(wanted.offset == 1 && wanted.queue_id == 0 && slice_is((rp_slice){wanted.topic, wanted.topic_size}, "T"));
    CHECK(nothing_is_wanted(&fx));
    turn(&fx, DUE_MS(1000) + REVIVE_AGAIN_MS);
    CHECK(nothing_is_wanted(&fx)); /* it has been requested already */
    CHECK(rp_broker_put_foreign(fx.broker, wanted.id, RP_E_NETWORK, text("")) == RP_OK);
    wanted = wanted_of(&fx);
    put_record(&fx, wanted.id, 1);
    CHECK(rp_broker_put_foreign(fx.broker, wanted.id, RP_E_NOT_FOUND, text("")) == RP_OK); /* too late: the message is stored already */
    turn(&fx, DUE_MS(1000) + 2 * REVIVE_AGAIN_MS);
    CHECK(end_of(&fx, RETRY, 0) == 1 && body_is(&fx, RETRY, 0, 0, "theirs") && stats_of(&fx).checkpoints_kept == 0);
    turn(&fx, DUE_MS(1000) + 9 * REVIVE_AGAIN_MS);
    CHECK(end_of(&fx, RETRY, 0) == 1 && nothing_is_wanted(&fx));
    close_revive(&fx, &c);
}

static void what_is_gone_there_is_over(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    CHECK(send_message(&c, "T", 0, NULL, "ours") == 0);
    rp_pop_checkpoint checkpoint = foreign(0, 1);
    put(&fx, 0, &checkpoint);
    turn(&fx, DUE_MS(1000));
    CHECK(rp_broker_put_foreign(fx.broker, wanted_of(&fx).id, RP_E_NOT_FOUND, text("")) == RP_OK);
    turn(&fx, DUE_MS(1000) + REVIVE_AGAIN_MS);
    CHECK(stats_of(&fx).checkpoints_kept == 0 && end_of(&fx, RETRY, 0) == 0);
    close_revive(&fx, &c);
}

/* When its time is up, each message gets a checkpoint of its own, which still names that broker. Those without room are requested later. */
static void what_cannot_be_had_waits_and_holds_nothing_up(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    CHECK(send_message(&c, "T", 0, NULL, "ours") == 0);
    for (int64_t i = 0; i < RP_FOREIGN_MAX + 8; i++) {
        static const char *const names[] = {"broker-a", "broker-b", "broker-c", "broker-d"};
        rp_pop_checkpoint checkpoint = foreign(i, 1);
        checkpoint.broker_name = text(names[i % 4]);
        put(&fx, 0, &checkpoint);
    }
    rp_pop_checkpoint own = checkpoint_of(0, 1, 1000);
    put(&fx, 0, &own);
    turn(&fx, DUE_MS(1000));
    CHECK(end_of(&fx, RETRY, 0) == 1 && body_is(&fx, RETRY, 0, 0, "ours"));
    uint32_t count = 0;
    for (rp_foreign_wanted wanted; rp_broker_take_foreign(fx.broker, &wanted) == RP_OK; count++)
        CHECK(rp_broker_put_foreign(fx.broker, wanted.id, count < 8 ? RP_E_NOT_FOUND : RP_OK, text("no record")) == RP_OK);
    CHECK(count == RP_FOREIGN_MAX);
    turn(&fx, DUE_MS(1000) + REVIVE_AGAIN_MS);
    CHECK(stats_of(&fx).checkpoints_kept == RP_FOREIGN_MAX && end_of(&fx, RETRY, 0) == 1);
    turn(&fx, DUE_MS(1000) + 31000);
    CHECK(stats_of(&fx).put_again == RP_FOREIGN_MAX && end_of(&fx, RETRY, 0) == 1);
    close_revive(&fx, &c);
}

/* One that is larger than all may be is taken alone. */
static void few_bytes_wait_for_the_thread(void) {
    static uint8_t large[RP_FOREIGN_BYTES_MAX + 1];
    fixture fx;
    client c;
    open_revive(&fx, &c);
    rp_pop_checkpoint checkpoint = foreign(0, 2);
    put(&fx, 0, &checkpoint);
    CHECK(send_message(&c, "T", 0, NULL, "ours") == 0);
    turn(&fx, DUE_MS(1000));
    rp_foreign_wanted first = wanted_of(&fx), second = wanted_of(&fx);
    CHECK(rp_broker_put_foreign(fx.broker, first.id, RP_OK, (rp_slice){large, sizeof large}) == RP_OK);
    CHECK(rp_broker_put_foreign(fx.broker, second.id, RP_OK, (rp_slice){large, 1}) == RP_E_BUSY);
    CHECK(wanted_of(&fx).id == second.id);
    turn(&fx, DUE_MS(1000) + REVIVE_AGAIN_MS); /* which is no record */
    CHECK(rp_broker_put_foreign(fx.broker, second.id, RP_OK, (rp_slice){large, 1}) == RP_OK);
    close_revive(&fx, &c);
}

/* Messages of other brokers are requested once a round all the same. */
static void a_broker_that_cannot_be_reached_leaves_room_for_others(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    for (int64_t i = 0; i < RP_FOREIGN_MAX + 2; i++) {
        rp_pop_checkpoint checkpoint = foreign(i, 1);
        checkpoint.broker_name = text(i < RP_FOREIGN_MAX ? "away" : "broker-a");
        put(&fx, 0, &checkpoint);
    }
    turn(&fx, DUE_MS(1000));
    uint64_t ids[RP_FOREIGN_OF_BROKER_MAX + 2];
    uint32_t of_others = 0, count = 0;
    for (rp_foreign_wanted wanted; count < RP_FOREIGN_OF_BROKER_MAX + 2; count++) {
        CHECK(rp_broker_take_foreign(fx.broker, &wanted) == RP_OK);
        for (uint32_t i = 0; i < count; i++)
            CHECK(ids[i] != wanted.id);
        ids[count] = wanted.id;
        of_others += slice_is((rp_slice){wanted.broker_name, wanted.broker_name_size}, "broker-a");
        CHECK(rp_broker_put_foreign(fx.broker, wanted.id, RP_E_NETWORK, text("")) == RP_OK);
    }
    rp_foreign_wanted first;
    CHECK(of_others == 2 && rp_broker_take_foreign(fx.broker, &first) == RP_OK && first.id == ids[0]);
    close_revive(&fx, &c);
}

/* A message that waits for room fails only when its broker delivers nothing any more. */
static void a_backlog_that_comes_is_not_put_again(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    CHECK(send_message(&c, "T", 0, NULL, "theirs") == 0);
    for (int64_t i = 0; i < RP_FOREIGN_OF_BROKER_MAX + 8; i++) {
        rp_pop_checkpoint checkpoint = foreign(i, 1);
        put(&fx, 0, &checkpoint);
    }
    turn(&fx, DUE_MS(1000));
    put_record(&fx, wanted_of(&fx).id, 0);
    turn(&fx, DUE_MS(1000) + 29000);
    CHECK(end_of(&fx, RETRY, 0) == 1);
    turn(&fx, DUE_MS(1000) + 31000);
    CHECK(stats_of(&fx).put_again == 0);
    turn(&fx, DUE_MS(1000) + 59000);
    CHECK(stats_of(&fx).put_again == RP_FOREIGN_OF_BROKER_MAX + 7);
    close_revive(&fx, &c);
}

static void want(const fixture *fx, int64_t offset, int64_t now_ms) {
    uint8_t *record;
    uint32_t size;
    CHECK(rp_foreign_messages_find(fx->broker->foreign, text("broker-a"), text("T"), 0, offset, now_ms, &record, &size) == RP_E_BUSY);
}

static void what_nobody_asks_for_any_more_is_cleared(void) {
    static uint8_t large[RP_FOREIGN_BYTES_MAX + 1];
    fixture fx;
    client c;
    open_revive(&fx, &c);
    int64_t now_ms = rp_clock_wall_ms(rp_clock_system());
    want(&fx, 0, now_ms);
    CHECK(rp_broker_put_foreign(fx.broker, wanted_of(&fx).id, RP_OK, (rp_slice){large, sizeof large}) == RP_OK);
    want(&fx, 1, now_ms + RP_FOREIGN_KEPT_MS + 1); /* the first one's bytes are free again */
    want(&fx, 2, now_ms);
    CHECK(rp_broker_put_foreign(fx.broker, wanted_of(&fx).id, RP_OK, (rp_slice){large, 1}) == RP_OK);
    want(&fx, 3, now_ms - RP_FOREIGN_KEPT_MS - 1);
    CHECK(nothing_is_wanted(&fx));
    close_revive(&fx, &c);
}

/* The slave was still copying the message when its master went away. */
static void what_an_acting_slave_does_not_have_yet_waits(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    CHECK(send_message(&c, "T", 0, NULL, "m") == 0);
    rp_pop_checkpoint checkpoint = checkpoint_of(0, 1, 1000);
    checkpoint.group = text("new");
    put(&fx, 0, &checkpoint);
    checkpoint = checkpoint_of(0, 1, 1000);
    checkpoint.topic = text("new");
    put(&fx, 0, &checkpoint);
    rp_broker_open_escape(fx.broker);
    for (int64_t i = 0; i < 40; i++)
        turn(&fx, DUE_MS(1000) + i * REVIVE_AGAIN_MS);
    CHECK(stats_of(&fx).dropped == 0 && stats_of(&fx).checkpoints_kept == 2 && group_offset(&fx, 0) < 0);
    rp_broker_refuse_escape(fx.broker);
    rp_broker_shut_escape(fx.broker);
    turn(&fx, DUE_MS(1000) + 41 * REVIVE_AGAIN_MS);
    CHECK(stats_of(&fx).dropped == 2 && stats_of(&fx).checkpoints_kept == 0);
    close_revive(&fx, &c);
}

static void note(const fixture *fx, const rp_pop_checkpoint *checkpoint, int64_t offset) {
    rp_pop_ack ack = {.topic = checkpoint->topic,
                      .group = checkpoint->group,
                      .broker_name = checkpoint->broker_name,
                      .start_offset = checkpoint->start_offset,
                      .pop_time_ms = checkpoint->pop_time_ms,
                      .offset_count = 1,
                      .offsets = &offset};
    rp_pop_revive_note(fx->broker->revive, rp_noted_ack_copy(&ack));
}

/* The first round reads the checkpoint, though the ack came before. */
static void an_ack_that_was_noted_counts_as_one_in_the_log(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    for (int i = 0; i < 2; i++)
        CHECK(send_message(&c, "T", 0, NULL, i == 0 ? "acked" : "not acked") == i);
    rp_pop_checkpoint checkpoint = checkpoint_of(0, 2, 1000);
    put(&fx, 3, &checkpoint);
    note(&fx, &checkpoint, 0);
    turn(&fx, POP_MS);
    turn(&fx, DUE_MS(1000));
    CHECK(end_of(&fx, RETRY, 0) == 1 && body_is(&fx, RETRY, 0, 0, "not acked"));
    checkpoint.pop_time_ms++;
    put(&fx, 3, &checkpoint);
    turn(&fx, POP_MS);
    note(&fx, &checkpoint, 0);
    note(&fx, &checkpoint, 1);
    turn(&fx, DUE_MS(1001));
    CHECK(end_of(&fx, RETRY, 0) == 1 && stats_of(&fx).checkpoints_kept == 0);
    note(&fx, &checkpoint, 1); /* of none, and freed with the thread's state */
    close_revive(&fx, &c);
}

/* An acting slave gets acks before its revive thread has read their checkpoints. */
static void nothing_is_put_before_what_was_noted_is_taken(void) {
    fixture fx;
    client c;
    open_revive(&fx, &c);
    CHECK(send_message(&c, "T", 0, NULL, "acked") == 0);
    rp_pop_checkpoint checkpoint = checkpoint_of(0, 1, 1000);
    put(&fx, 3, &checkpoint);
    note(&fx, &checkpoint, 0);
    rp_broker_open_escape(fx.broker);
    rp_broker_refuse_escape(fx.broker); /* what is put fails at once */
    turn(&fx, DUE_MS(1000));
    turn(&fx, DUE_MS(1000) + REVIVE_AGAIN_MS);
    CHECK(stats_of(&fx).revived == 0 && stats_of(&fx).append_failures == 0 && stats_of(&fx).checkpoints_kept == 0);
    rp_broker_shut_escape(fx.broker);
    close_revive(&fx, &c);
}

int main(void) {
    a_broker_that_cannot_be_reached_leaves_room_for_others();
    a_backlog_that_comes_is_not_put_again();
    what_nobody_asks_for_any_more_is_cleared();
    what_an_acting_slave_does_not_have_yet_waits();
    nothing_is_put_before_what_was_noted_is_taken();
    what_another_broker_gave_out_is_fetched_from_it();
    what_is_gone_there_is_over();
    what_cannot_be_had_waits_and_holds_nothing_up();
    few_bytes_wait_for_the_thread();
    an_ack_that_was_noted_counts_as_one_in_the_log();
    return 0;
}
