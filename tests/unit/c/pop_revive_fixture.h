/* pop_revive_fixture.h: a broker whose revive rounds are driven by the test's clock, and the content of its revive topic. */
#ifndef RP_TESTS_POP_REVIVE_FIXTURE_H
#define RP_TESTS_POP_REVIVE_FIXTURE_H

#include "../../../csrc/broker/pop_revive_inl.h"
#include "broker/pop.h"
#include "stored_messages.h"

#define REVIVE "rmq_sys_REVIVE_LOG_DefaultCluster"
#define RETRY "%RETRY%G_T"
#define NATIVE (RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL)
#define POP_MS INT64_C(1700000000000) /* when everything is popped, by the test's clock */
#define DUE_MS(invisible_ms) (POP_MS + (invisible_ms) + REVIVE_GRACE_MS)

static inline void open_revive(fixture *fx, client *c) {
    fixture_init(fx);
    fixture_open(fx);
    CHECK(rp_broker_put_topic(fx->broker, text(REVIVE), 8, 8, 6, 0, NATIVE) == RP_OK);
    CHECK(rp_broker_put_topic(fx->broker, text(RETRY), 1, 1, 6, 0, NATIVE) == RP_OK);
    *c = client_open(fx, RP_SERIALIZE_ROCKETMQ);
}

static inline void close_revive(fixture *fx, client *c) {
    client_close(c);
    drop_events(fx);
    fixture_close(fx);
}

static inline int64_t group_offset(const fixture *fx, int32_t queue_id) {
    return rp_broker_read_offset(fx->broker, text(RP_POP_REVIVE_GROUP), text(REVIVE), queue_id);
}

static inline int64_t turn(fixture *fx, int64_t now_ms) { return rp_pop_revive_round(fx->broker->revive, now_ms); }

static inline rp_pop_revive_stats stats_of(const fixture *fx) {
    rp_pop_revive_stats stats;
    rp_pop_revive_read_stats(fx->broker->revive, &stats);
    return stats;
}

static inline rp_pop_checkpoint checkpoint_of(int64_t start, uint32_t count, int64_t invisible_ms) {
    return (rp_pop_checkpoint){.topic = text("T"),
                               .group = text("G"),
                               .broker_name = text("broker"),
                               .start_offset = start,
                               .pop_time_ms = POP_MS,
                               .invisible_ms = invisible_ms,
                               .count = count};
}

static inline void put(fixture *fx, int32_t revive_queue_id, const rp_pop_checkpoint *checkpoint) {
    CHECK(rp_pop_log_put_checkpoint(fx->broker, revive_queue_id, checkpoint) == RP_OK);
}

static inline void put_ack(fixture *fx, int32_t revive_queue_id, const rp_pop_checkpoint *checkpoint, int is_batch, const int64_t *offsets,
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

/* Appends any record to the revive topic. */
static inline void put_text(fixture *fx, int32_t revive_queue_id, const char *properties, const char *body) {
    rp_append_item item = {.body = text(body), .properties = {text(properties)}};
    CHECK(rp_pop_log_open_queue(fx->broker, revive_queue_id, &item.queue) == RP_OK);
    CHECK(rp_commit_log_append(fx->broker->commit_log, &item, 1) == 1);
}

#endif
