/* pop_order.h: the messages of a queue that an orderly consumer has, and until when they block it. Private to csrc/broker.
 * RocketMQ: ConsumerOrderInfoManager, OrderInfo (5.3.3 broker/offset/).
 *
 * Threads  pure; an rp_pop_order belongs to its offset cell and is guarded by that cell's pop lock.
 * Owns     nothing; allocated with the first orderly pop of a queue, freed with its cell.
 */
#ifndef RP_BROKER_POP_ORDER_H
#define RP_BROKER_POP_ORDER_H

#include <stdint.h>

#include "../base/slice.h"
#include "pop_records.h"

#define RP_POP_ATTEMPT_ID_MAX 256

typedef struct rp_pop_order {
    int64_t pop_time_ms, invisible_ms, last_consume_ms;
    int64_t seen_ms; /* the latest time a call had, by which a clock set back is noticed; 0 after a load: last_consume_ms stands in */
    uint64_t acked; /* a bit for each message; cm in the file */
    uint32_t count; /* messages out; 0: the queue is free */
    int64_t offsets[RP_POP_MESSAGES_MAX];
    int64_t visible_ms[RP_POP_MESSAGES_MAX]; /* changed by the consumer; 0: unchanged */
    int32_t times[RP_POP_MESSAGES_MAX]; /* how often each was consumed before */
    int32_t has_attempt_id;
    uint32_t attempt_size;
    uint8_t attempt_id[RP_POP_ATTEMPT_ID_MAX];
} rp_pop_order;

/* Removes messages below the group's offset: they were acked at another broker, which led meanwhile. order may be NULL. */
void rp_pop_order_pass(rp_pop_order *order, int64_t committed);
/* Returns when the queue is free again: 0 now, else a wall time. A repeated attempt gets the same messages again. attempt_id data NULL:
 * none. invisible_ms: of the pop that asks; from now on it also applies to messages whose own pop gave none. RP_POP_ORDER_NO_POP: no pop
 * asks, and what a handle says may be a stranger's. */
#define RP_POP_ORDER_NO_POP 0
int64_t rp_pop_order_blocked_until(rp_pop_order *order, rp_slice attempt_id, int64_t invisible_ms, int64_t now_ms);
/* Notes the messages as out, and counts how often each was before. count: 1..RP_POP_MESSAGES_MAX. */
void rp_pop_order_update(rp_pop_order *order, rp_slice attempt_id, int64_t pop_time_ms, int64_t invisible_ms, const int64_t *offsets,
                         uint32_t count);
/* Acks a message. Returns the offset to commit; RP_POP_ORDER_ILLEGAL: it is not among those that are out; RP_POP_ORDER_STALE: it belongs
 * to another pop. order may be NULL. */
#define RP_POP_ORDER_ILLEGAL (-1)
#define RP_POP_ORDER_STALE (-2)
int64_t rp_pop_order_ack(rp_pop_order *order, int64_t offset, int64_t pop_time_ms);
/* Makes a message visible in invisible_ms. 1: it is one of those that this pop has out. */
int rp_pop_order_change(rp_pop_order *order, int64_t offset, int64_t pop_time_ms, int64_t invisible_ms, int64_t now_ms);
/* Makes all messages of that pop visible in invisible_ms, and does not count this consumption. 1: it is the pop whose messages are out. */
int rp_pop_order_suspend(rp_pop_order *order, int64_t pop_time_ms, int64_t invisible_ms, int64_t now_ms);
/* 1 if none of them is out any more. */
int rp_pop_order_is_over(const rp_pop_order *order);

#endif
