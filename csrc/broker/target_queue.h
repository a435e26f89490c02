/* target_queue.h: opens the queue that a message goes to when its time in one of the broker's own topics (delay levels, timers) is over.
 * Private to csrc/broker.
 * RocketMQ: ScheduleMessageService.messageTimeUp, TimerMessageStore.convertMessage (5.3.3), which do not check what the properties say.
 *
 * The message's properties REAL_TOPIC and REAL_QID name the queue. A broker wrote them, but perhaps one of the other product, and the
 * log may have been damaged since.
 *
 * Threads  any.
 */
#ifndef RP_BROKER_TARGET_QUEUE_H
#define RP_BROKER_TARGET_QUEUE_H

#include <stdint.h>

#include "broker.h"
#include "topic_table.h"

typedef struct rp_target_queue {
    rp_slice name; /* slice of the properties */
    int32_t queue_id;
    rp_topic *topic; /* NULL: not in the table */
    rp_consume_queue *queue;
} rp_target_queue;

/* Opens the queue and creates its first file. As in RocketMQ, the topic need not be in the table: a crash or a lost file may have
 * removed it, and it may come back. RP_OK. Permanent: RP_E_INVALID (the properties name no queue, or one of a forbidden topic),
 * RP_E_TOO_LARGE (the store has as many queues as it may). To be tried again: RP_E_IO, RP_E_DISK_FULL, RP_E_NO_MEMORY, RP_E_BUSY and any
 * other. */
int rp_target_queue_open(rp_broker *broker, rp_slice properties, rp_target_queue *target);
/* 1 if another try would end the same way. */
int rp_target_is_none(int status);
/* Returns the reason, for a log line in which the target's name follows; static storage. */
const char *rp_target_refusal(int status);

#endif
