/* timer_item.h: the properties of messages with a timer: when one is due, and what its properties are while it waits and afterwards.
 * Private to csrc/broker.
 * RocketMQ: HookUtils.checkIfTimerMessage, transformTimerMessage (5.3.3 broker/util/), TimerMessageStore.convert (store/timer/).
 *
 *   as sent         TIMER_DELAY_SEC, TIMER_DELAY_MS or TIMER_DELIVER_MS
 *   while it waits  the same, and TIMER_OUT_MS, REAL_TOPIC, REAL_QID; TIMER_ROLL_TIMES once it waited longer than the wheel reaches
 *   as delivered    the same, and TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS if there is room for them
 *   a recall        TIMER_DEL_UNIQKEY: the unique key of a message of its slot and topic, which is not delivered; preceded by the topic
 *                   and '+' where RocketMQ 5.3 wrote it
 *
 * Threads  pure functions.
 */
#ifndef RP_BROKER_TIMER_ITEM_H
#define RP_BROKER_TIMER_ITEM_H

#include <stdint.h>

#include "../store/commit_log.h"
#include "../store/message.h"
#include "property_text.h"

/* What is added to a text besides the topic's name: TIMER_OUT_MS, REAL_TOPIC, REAL_QID, TIMER_ROLL_TIMES, TIMER_ENQUEUE_MS,
 * TIMER_DEQUEUE_MS. */
#define RP_TIMER_TEXT_ROOM 256u
/* The part of it that a message gets later; it must fit into its properties when it is sent. */
#define RP_TIMER_ROLL_ROOM 40u
#define RP_TIMER_NEVER_ENTERED INT64_MAX /* as TIMER_ENQUEUE_MS: the message was late, and went straight to its topic */

enum rp_timer_when { RP_TIMER_IS_NOW = 0, RP_TIMER_IS_LATER = 1 };
typedef struct rp_timer_rules {
    int64_t now_ms, delay_max_ms;
    int32_t precision_ms;
} rp_timer_rules;
/* Decides when a message with these properties is to be delivered. RP_TIMER_IS_NOW: it is a plain message; RP_TIMER_IS_LATER: after the
 * end of the slot *out_ms; RP_E_INVALID: no time, one too far away, or a recall whose time is over. */
int rp_timer_decide(rp_slice properties, const rp_timer_rules *rules, int64_t *out_ms);
/* 1 if it has a timer that counts: it has no delay level, and has not waited for another timer. */
int rp_timer_is_timed(rp_slice properties);
/* Reads TIMER_OUT_MS, 0 or later, of a message that waits. RP_OK, RP_E_NOT_FOUND. */
int rp_timer_out_ms(rp_slice properties, int64_t *out_ms);

/* Writes the properties of a message that begins to wait. `at` has room for sent.size + topic.size + RP_TIMER_TEXT_ROOM bytes. Returns
 * their end. */
uint8_t *rp_timer_put_waiting(uint8_t *at, rp_slice sent, int64_t out_ms, rp_slice topic, int32_t queue_id);

/* Write the properties of a message that has waited since enqueue_ms: to be delivered, or to wait once more. `at` has room for
 * waited.size + RP_TIMER_TEXT_ROOM bytes. Return their end. */
uint8_t *rp_timer_put_delivered(uint8_t *at, rp_slice waited, int64_t enqueue_ms, int64_t now_ms);
uint8_t *rp_timer_put_rolled(uint8_t *at, rp_slice waited, int64_t enqueue_ms, int64_t now_ms);
/* The same for one that is set aside until out_ms. */
uint8_t *rp_timer_put_set_aside(uint8_t *at, rp_slice waited, int64_t out_ms, int64_t enqueue_ms, int64_t now_ms);
/* Returns how often a message was appended to the timer queue again. */
int32_t rp_timer_roll_times(rp_slice waited);

#endif
