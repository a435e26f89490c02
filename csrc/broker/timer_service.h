/* timer_service.h: messages with a time of their own: kept in one queue, and delivered to where they belong when their time has come.
 * Private to csrc/broker.
 * RocketMQ: TimerMessageStore (5.3.3 store/timer/), which does this in a dozen threads with queues between them.
 *
 *   send, recall ─► rmq_sys_wheel_timer, queue 0 ─ enter ─► timer log, wheel ─ slot is due ─┬─► REAL_TOPIC, queue REAL_QID
 *                          ▲                                                               └─ roll: due later than the wheel reaches ─┐
 *                          └──────────────────────────────────────────────────────────────────────────────────────────────────────────┘
 *
 * A slot is due when it is over, so nothing is delivered early, and all messages of one slot come in the order in which they were sent. The
 * slot's recalls are looked at first. The read time is that of the first slot that has not been delivered; what is entered for an earlier
 * slot is late, and is delivered at once. One thread enters and delivers, so a message is either in a slot that will be read, or delivered.
 *
 * Threads  one of its own, between start and stop; what senders ask, and what timed_messages.h says of others: any.
 * Lock     `lock`: the thread sleeps in it; the timer queue is made under it, once; the last checkpoint is read under it.
 * Refused  what cannot be appended is tried again and holds up what is behind it: for as long as memory or disk space is missing. A message
 *          whose own queue, or the queue's next file, cannot be made holds it up for ten seconds; then it is set aside, which puts it into
 *          the timer queue with a later time.
 * Bounds   RP_TIMER_WINDOW messages at once, RP_TIMER_BYTES_MAX of their records (or one); a slot of any length is walked in steps.
 * kill -9  what was delivered since the last checkpoint, a second or so, is delivered again. A clean stop leaves nothing twice, and no
 *          kill or power cut loses anything that is in the timer queue.
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

/* Without its thread, and without files. NULL: memory is out. */
rp_timer_service *rp_timer_service_create(rp_broker *broker);
/* Stops it. What did not reach the disk stands in the log. */
void rp_timer_service_destroy(rp_timer_service *service);

/* The timer queue, with its first file. RP_OK, or RP_E_IO: disk or memory is out. */
int rp_timer_open_queue(rp_timer_service *service, rp_consume_queue **queue);
/* rmq_sys_wheel_timer, whose messages are counted. */
rp_topic *rp_timer_topic(rp_timer_service *service);
/* When a message that has a timer is to be delivered, as the settings are. As rp_timer_decide; or RP_E_UNSUPPORTED: timers are off;
 * RP_E_BUSY: too many messages are due in its slot: more are refused, by chance below twice the bound, always from there on. `permille` is
 * random, below 1,000. */
int rp_timer_when(rp_timer_service *service, rp_slice properties, uint32_t permille, int64_t *out_ms);
/* Messages whose time was before this one are where they belong, and seen by whoever reads there from now on. INT64_MAX: this broker is
 * not delivering. */
int64_t rp_timer_delivered_until(const rp_timer_service *service);

#endif
