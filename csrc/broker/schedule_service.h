/* schedule_service.h: delayed messages: kept in the queue of their level, delivered to where they belong when they are due. Private to
 * csrc/broker.
 * RocketMQ: ScheduleMessageService (5.3.3 broker/schedule/), which looks at each level ten times a second.
 *
 *   send, send back ─► SCHEDULE_TOPIC_XXXX, queue level - 1 ─ due ─► the service's thread ─ append ─► REAL_TOPIC, queue REAL_QID
 *                 └── rp_schedule_stored: something may be due before the thread looks again
 *
 * In one queue messages are due in the order in which they lie, so a level is looked at from its position on until one is not due. The
 * position moves behind what was appended; entries behind one that could not be are remembered, and none is delivered twice for that.
 * A message whose record or target is gone is passed over with a line in the log.
 *
 * Threads  one of its own, between start and stop; rp_schedule_stored and the positions: any.
 * Lock     `lock`: the thread sleeps in it, and a level's queue is made under it, once.
 * Bounds   RP_SCHEDULE_WINDOW entries of a level at once, RP_SCHEDULE_BYTES_MAX of their records (or one).
 */
#ifndef RP_BROKER_SCHEDULE_SERVICE_H
#define RP_BROKER_SCHEDULE_SERVICE_H

#include <stdint.h>

#include "../base/error.h"
#include "../store/message_store.h"
#include "broker.h"
#include "topic_table.h"

#define RP_SCHEDULE_WINDOW 32

typedef struct rp_schedule_service rp_schedule_service;

/* The queue of a level. */
typedef struct rp_delay_queue {
    rp_consume_queue *queue;
    int64_t delay_ms;
} rp_delay_queue;

/* Without its thread. NULL: memory is out. */
rp_schedule_service *rp_schedule_service_create(rp_broker *broker);
void rp_schedule_service_destroy(rp_schedule_service *service);

/* The level that a message gets that asks for `level`: of those that there are. */
int32_t rp_schedule_level(const rp_schedule_service *service, int64_t level);
/* Its queue, with its first file. RP_OK, or RP_E_IO: disk or memory is out. */
int rp_schedule_open_queue(rp_schedule_service *service, int32_t level, rp_delay_queue *queue);
/* SCHEDULE_TOPIC_XXXX, whose messages are counted. */
rp_topic *rp_schedule_topic(rp_schedule_service *service);
/* A message was appended that is due at due_ms of the wall clock, at the earliest. */
void rp_schedule_stored(rp_schedule_service *service, int64_t due_ms);
/* Of messages that were held back meanwhile, whenever they are due. */
void rp_schedule_arrived(rp_schedule_service *service);

#endif
