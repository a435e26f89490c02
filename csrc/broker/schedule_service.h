/* schedule_service.h: delayed messages: kept in the queue of their level, and delivered to their topics when due. Private to
 * csrc/broker.
 * RocketMQ: ScheduleMessageService (5.3.3 broker/schedule/), which looks at each level ten times a second.
 *
 *   send, send back ─► SCHEDULE_TOPIC_XXXX, queue level - 1 ─ due ─► the service's thread ─ append ─► REAL_TOPIC, queue REAL_QID
 *                 └── rp_schedule_stored: something may be due before the thread looks again
 *
 * In one queue messages are due in their order, so a level is read from its position on up to the first that is not due. The position
 * moves behind what was appended; delivered entries behind one that could not be appended are remembered, so that none is delivered
 * twice. A message whose record or target is gone is passed over and logged.
 *
 * Threads  one of its own, between start and stop; rp_schedule_stored and the positions: any.
 * Lock     `lock`: the thread sleeps in it, and a level's queue is created under it, once.
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

/* Creates the service without its thread. NULL: no memory. */
rp_schedule_service *rp_schedule_service_create(rp_broker *broker);
void rp_schedule_service_destroy(rp_schedule_service *service);

/* Clips the level that a message asks for to those that exist. */
int32_t rp_schedule_level(const rp_schedule_service *service, int64_t level);
/* Opens the level's queue, with its first file. RP_OK, or RP_E_IO: disk or memory is out. */
int rp_schedule_open_queue(rp_schedule_service *service, int32_t level, rp_delay_queue *queue);
/* Returns SCHEDULE_TOPIC_XXXX, which counts the messages. */
rp_topic *rp_schedule_topic(rp_schedule_service *service);
/* A message was appended that is due no earlier than due_ms, wall clock. */
void rp_schedule_stored(rp_schedule_service *service, int64_t due_ms);
/* Messages arrived that had been held back, with any due times. */
void rp_schedule_arrived(rp_schedule_service *service);

#endif
