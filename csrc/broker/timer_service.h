/* timer_service.h: messages with a timer: kept in one queue, and delivered to their topics when their time has come. Private to
 * csrc/broker.
 * RocketMQ: TimerMessageStore (5.3.3 store/timer/), which does this in a dozen threads with queues between them.
 *
 *   send, recall ─► rmq_sys_wheel_timer, queue 0 ─ enter ─► timer log, wheel ─ slot is due ─┬─► REAL_TOPIC, queue REAL_QID
 *                          ▲                                                               └─ roll: due later than the wheel reaches ─┐
 *                          └──────────────────────────────────────────────────────────────────────────────────────────────────────────┘
 *
 * A slot is due when it is over, so nothing is delivered early, and the messages of a slot come in the order in which they were sent.
 * The slot's recalls are read first. The read time is that of the first slot that has not been delivered; a message entered for an
 * earlier slot is late, and delivered at once. One thread enters and delivers, so a message is either in a slot that will be read, or
 * delivered.
 *
 * Threads  one of its own, between start and stop; what senders ask, and what timed_messages.h says of others: any.
 * Lock     `lock`: the thread sleeps in it; the timer queue is created under it, once; the last checkpoint is read under it.
 * Refused  what cannot be appended is tried again and holds up what is behind it, as long as memory or disk space is missing. A message
 *          whose own queue, or that queue's next file, cannot be created does so for ten seconds; then it is set aside, i.e. put into
 *          the timer queue with a later time.
 * Bounds   RP_TIMER_WINDOW messages at once, RP_TIMER_BYTES_MAX of their records (or one); a slot of any length is walked in steps.
 * kill -9  what was delivered since the last checkpoint, about a second, is delivered again. A clean stop leaves nothing to be delivered
 * twice, and no kill or power cut loses anything that is in the timer queue.
 */
#ifndef RP_BROKER_TIMER_SERVICE_H
#define RP_BROKER_TIMER_SERVICE_H

#include <stdint.h>

#include "../base/error.h"
#include "../store/message_store.h"
#include "broker.h"
#include "timed_messages.h"
#include "topic_table.h"

#define RP_TIMER_WINDOW 32
#define RP_TIMER_BYTES_MAX (1 << 20)

typedef struct rp_timer_service rp_timer_service;

/* Creates the service without its thread and files. NULL: no memory. */
rp_timer_service *rp_timer_service_create(rp_broker *broker);
/* Stops it first. What did not reach the disk is logged. */
void rp_timer_service_destroy(rp_timer_service *service);

/* Opens the timer queue, with its first file. RP_OK, or RP_E_IO: disk or memory is out. */
int rp_timer_open_queue(rp_timer_service *service, rp_consume_queue **queue);
/* Returns rmq_sys_wheel_timer, which counts the messages. */
rp_topic *rp_timer_topic(rp_timer_service *service);
/* Decides when a message with a timer is to be delivered, by the settings: as rp_timer_decide; or RP_E_UNSUPPORTED: timers are off;
 * RP_E_BUSY: too many messages are due in its slot: below twice the bound some are refused at random, from there on all. `permille`: a
 * random number below 1,000. */
int rp_timer_when(rp_timer_service *service, rp_slice properties, uint32_t permille, int64_t *out_ms);
/* Messages due before the returned time are in their topics, visible to whoever reads there from now on. INT64_MAX: this broker does not
 * deliver. */
int64_t rp_timer_delivered_until(const rp_timer_service *service);

#endif
