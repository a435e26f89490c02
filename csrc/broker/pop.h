/* pop.h: what Python does for pop consumption: starts and stops the revive thread, makes retry topics, keeps what order consumers have.
 * RocketMQ: PopReviveService, ConsumerOrderInfoManager (5.3.3 broker/). Design: docs/design-pop.md.
 *
 * Threads  Python's. A row and its texts are valid while visited.
 */
#ifndef RP_BROKER_POP_H
#define RP_BROKER_POP_H

#include <stdint.h>

#include "broker.h"

/* Starts the thread that puts what was popped and not acked in time into retry topics. Only a master has it; idempotent. RP_OK;
 * RP_E_NO_MEMORY, RP_E_BUSY. */
int rp_broker_start_revive(rp_broker *broker, rp_error *error);
void rp_broker_stop_revive(rp_broker *broker);
/* Copies the name of a retry topic that is missing, or has too few queues, into name[256], and into *queues how many it is to have. The
 * name's size; 0: none is missing. Each name is given once, and once more whenever it is found missing again. */
uint32_t rp_broker_wanted_retry_topic(rp_broker *broker, uint8_t *name, int32_t *queues);

/* A message of another broker that a checkpoint here stands for (foreign_messages.h). */
#define RP_FOREIGN_NAME_MAX 255u
typedef struct rp_foreign_wanted {
    uint64_t id;
    int64_t offset;
    int32_t queue_id;
    uint32_t broker_name_size, topic_size;
    uint8_t broker_name[RP_FOREIGN_NAME_MAX], topic[RP_FOREIGN_NAME_MAX];
} rp_foreign_wanted;
/* The next that is wanted and that nobody has taken. RP_OK; RP_E_NOT_FOUND: there is none. */
int rp_broker_take_foreign(rp_broker *broker, rp_foreign_wanted *wanted);
/* What became of it: RP_OK with its record, which is copied; RP_E_NOT_FOUND: it is gone; else it may be taken again. RP_OK; RP_E_BUSY, too
 * many bytes wait for the revive thread, and RP_E_NO_MEMORY: so it may. */
int rp_broker_put_foreign(rp_broker *broker, uint64_t id, int status, rp_slice record);

/* What one order consumer has of one queue: consumerOrderInfo.json. */
typedef struct rp_pop_order_row {
    rp_slice group, topic;
    rp_slice attempt_id; /* data NULL: none */
    int32_t queue_id;
    uint32_t count; /* 1..32 */
    int64_t pop_time_ms, invisible_ms, last_consume_ms;
    uint64_t acked;
    const int64_t *offsets;
    const int64_t *visible_ms; /* 0: not changed */
    const int32_t *times;
} rp_pop_order_row;

void rp_broker_each_pop_order(rp_broker *broker, int (*visit)(void *context, const rp_pop_order_row *row), void *context);
/* Replaces what the group has of that queue. RP_OK; RP_E_INVALID: names, queue, count or attempt id are out of range; RP_E_NO_MEMORY. */
int rp_broker_put_pop_order(rp_broker *broker, const rp_pop_order_row *row);
uint64_t rp_broker_pop_order_version(const rp_broker *broker); /* grows with each change */

typedef struct rp_pop_stats {
    uint64_t pops, pops_found, pops_punted, acks, acks_failed, waiting_now;
    uint64_t checkpoints_kept, checkpoints_done, revived, put_again, dropped, append_failures;
    int64_t oldest_due_ms; /* 0: no checkpoint is kept */
} rp_pop_stats;
void rp_broker_read_pop_stats(const rp_broker *broker, rp_pop_stats *stats);

#endif
