/* target_queue.h: the queue that a message goes to once its time in a topic of the broker's own (delay levels, timers) is over. Private to
 * csrc/broker.
 * RocketMQ: ScheduleMessageService.messageTimeUp, TimerMessageStore.convertMessage (5.3.3), which do not check what the properties say.
 *
 * The message's properties REAL_TOPIC and REAL_QID name the queue. A broker wrote them, but perhaps of another product, and the log may
 * have been damaged since.
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

/* Opens the queue, and makes its first file. Also of a topic that is not in the table, as RocketMQ does: a crash or a lost file may have
 * taken it from there, and it may come back. RP_OK. Not worth another try: RP_E_INVALID (the properties name no queue, or one of a
 * forbidden topic), RP_E_TOO_LARGE (the store has as many queues as it may). To be tried again: RP_E_IO, RP_E_DISK_FULL, RP_E_NO_MEMORY,
 * RP_E_BUSY and whatever else. */
int rp_target_queue_open(rp_broker *broker, rp_slice properties, rp_target_queue *target);
/* 1: another try would end the same way. */
int rp_target_is_none(int status);
/* Why, for a log line in which the target's name follows; static storage. */
const char *rp_target_refusal(int status);

#endif
