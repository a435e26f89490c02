/* pop.h: Python's calls for pop consumption: start and stop of the revive thread, missing retry topics, the state of orderly consumers.
 * RocketMQ: PopReviveService, ConsumerOrderInfoManager (5.3.3 broker/). Design: docs/design-pop.md.
 *
 * Threads  Python's. A row and its texts are valid during the visit.
 */
#ifndef RP_BROKER_POP_H
#define RP_BROKER_POP_H

#include <stdint.h>

#include "broker.h"

/* Starts the thread that puts messages that were popped and not acked in time into retry topics. Only a master runs it; idempotent.
 * RP_OK; RP_E_NO_MEMORY, RP_E_BUSY. */
int rp_broker_start_revive(rp_broker *broker, rp_error *error);
void rp_broker_stop_revive(rp_broker *broker);
/* Copies the name of a retry topic that is missing or has too few queues into name[256], and the number of queues it needs into *queues.
 * Returns the name's size; 0: there is none. Each name is given once, and again whenever the topic is found missing again. */
uint32_t rp_broker_wanted_retry_topic(rp_broker *broker, uint8_t *name, int32_t *queues);

/* A message of another broker that a checkpoint here refers to (foreign_messages.h). */
#define RP_FOREIGN_NAME_MAX 255u
typedef struct rp_foreign_wanted {
    uint64_t id;
    int64_t offset;
    int32_t queue_id;
    uint32_t broker_name_size, topic_size;
    uint8_t broker_name[RP_FOREIGN_NAME_MAX], topic[RP_FOREIGN_NAME_MAX];
} rp_foreign_wanted;
/* Takes the next wanted message that nobody has taken. RP_OK; RP_E_NOT_FOUND: there is none. */
int rp_broker_take_foreign(rp_broker *broker, rp_foreign_wanted *wanted);
/* Reports the result. status RP_OK with the record, which is copied; RP_E_NOT_FOUND: it is gone; any other: it may be taken again.
 * Returns RP_OK; RP_E_BUSY (too many bytes wait for the revive thread) and RP_E_NO_MEMORY: it may be taken again. */
int rp_broker_put_foreign(rp_broker *broker, uint64_t id, int status, rp_slice record);

/* The messages of one queue that one orderly consumer has, as in consumerOrderInfo.json. */
typedef struct rp_pop_order_row {
    rp_slice group, topic;
    rp_slice attempt_id; /* data NULL: none */
    int32_t queue_id;
    uint32_t count; /* 1..32 */
    int64_t pop_time_ms, invisible_ms, last_consume_ms;
    uint64_t acked;
    const int64_t *offsets;
    const int64_t *visible_ms; /* 0: unchanged */
    const int32_t *times;
} rp_pop_order_row;

void rp_broker_each_pop_order(rp_broker *broker, int (*visit)(void *context, const rp_pop_order_row *row), void *context);
/* Replaces the group's row for that queue. RP_OK; RP_E_INVALID: names, queue, count or attempt id are out of range; RP_E_NO_MEMORY. */
int rp_broker_put_pop_order(rp_broker *broker, const rp_pop_order_row *row);
uint64_t rp_broker_pop_order_version(const rp_broker *broker); /* grows with each change */

typedef struct rp_pop_stats {
    uint64_t pops, pops_found, pops_punted, acks, acks_failed, waiting_now;
    uint64_t checkpoints_kept, checkpoints_done, revived, put_again, dropped, append_failures;
    int64_t oldest_due_ms; /* 0: no checkpoint is kept */
} rp_pop_stats;
void rp_broker_read_pop_stats(const rp_broker *broker, rp_pop_stats *stats);

#endif
