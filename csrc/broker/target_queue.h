/* target_queue.h: where a message goes that waited in a topic of the broker's own, for its time. Private to csrc/broker.
 * RocketMQ: ScheduleMessageService.messageTimeUp, TimerMessageStore.convertMessage (5.3.3), which ask for no such thing.
 *
 * The place stands among the message's properties, REAL_TOPIC and REAL_QID. The broker wrote them; but what lies in the log may come from
 * another product, or be what is left of a damaged one.
 *
 * Threads  any.
 */
#ifndef RP_BROKER_TARGET_QUEUE_H
#define RP_BROKER_TARGET_QUEUE_H

#include <stdint.h>

#include "broker.h"
#include "topic_table.h"

typedef struct rp_target_queue {
    rp_slice name; /* in the properties */
    int32_t queue_id;
    rp_topic *topic; /* NULL: it is not in the table */
    rp_consume_queue *queue;
} rp_target_queue;

/* The queue, with its first file. A topic that is not there gets it as well, as from RocketMQ: it may be one that a crash or a lost file
 * has taken from the table, and be back later. RP_OK; for good: RP_E_INVALID (they name no queue, or one of a forbidden topic),
 * RP_E_TOO_LARGE (the store has as many queues as it may); else what to try again for: RP_E_IO, RP_E_DISK_FULL, RP_E_NO_MEMORY, RP_E_BUSY
 * … */
int rp_target_queue_open(rp_broker *broker, rp_slice properties, rp_target_queue *target);
/* 1: it is for good. */
int rp_target_is_none(int status);
/* Why, to be followed by the target's name; static storage. */
const char *rp_target_refusal(int status);

#endif
