/* long_polling.h: the pulls of one reactor that wait for messages. Private to csrc/broker.
 * RocketMQ: PullRequestHoldService, ManyPullRequest, PullRequest (5.3.3 broker/longpolling/).
 *
 *   suspend ─► waits of (queue, lane) ─ bit of the lane in the queue's waiting mask
 *   append  ─► rp_long_polling_arrived: waits pushed on the lane's arrivals, lane woken ─► every pull of it tried again
 *   heap    ─► deadlines; the earliest is the reactor's
 *
 * A pull is suspended first, then the queue's max offset is read again: a message that arrived in between is seen either by this read or
 * by the appender, which reads the mask. The bit stays set after the last pull has left, and is cleared by the first arrival that finds
 * none.
 *
 * Threads  the lane's reactor; rp_long_polling_arrived and _topic_changed: any.
 * Owns     the suspended pulls and their filters.
 * Bounds   suspended_pulls_max in all lanes together, and 64 MB of filters; beyond that a pull is answered at once.
 */
#ifndef RP_BROKER_LONG_POLLING_H
#define RP_BROKER_LONG_POLLING_H

#include <stdatomic.h>
#include <stdint.h>

#include "../store/consume_queue.h"
#include "topic_table.h"

struct rp_lane;
struct rp_pull;

typedef struct rp_suspended_pull rp_suspended_pull;
typedef struct rp_queue_waits rp_queue_waits;

typedef struct rp_suspended_pulls {
    _Atomic(rp_queue_waits *) arrivals; /* stack: pushed with release by appenders, taken whole with acquire by the lane */
    rp_suspended_pull **heap;           /* by deadline */
    uint32_t heap_size, heap_capacity;
    rp_suspended_pull *free_list;
    struct pull_block *blocks;        /* memory of the free list; freed with the lane */
    rp_suspended_pull **by_connection; /* hash: first pull of each connection, chained */
    uint32_t connection_mask;
} rp_suspended_pulls;

void rp_suspended_pulls_free(rp_suspended_pulls *pulls);

/* Suspends the pull (copies it and its filter), for which the caller has found nothing. 1: it waits, or was answered because messages
 * arrived meanwhile; 0: a bound is reached or memory is out: answer it at once. */
int rp_long_polling_suspend(struct rp_lane *lane, const struct rp_pull *pull);
/* Tries the pulls again that arrivals concern; once pulls are dismissed, all of them, for the last time. */
void rp_long_polling_drain(struct rp_lane *lane);
/* Answers the pulls whose time is up. Returns the next deadline; INT64_MAX: none. */
int64_t rp_long_polling_expire(struct rp_lane *lane, int64_t now_ns);
int64_t rp_long_polling_deadline(const rp_suspended_pulls *pulls);
void rp_long_polling_connection_closed(struct rp_lane *lane, uint64_t connection_id);

/* The store's callback (context: rp_broker): the queue got messages, and the lanes in `waiting` have pulls on it. */
void rp_long_polling_arrived(void *context, rp_consume_queue *queue, uint64_t waiting);
/* Wakes every pull that waits on one queue. Any thread. */
void rp_long_polling_wake(rp_queue_slot *slot);
/* For pops, which wait on many queues: makes arrivals in this queue reach the lane. 1: that is new, so the queue has to be looked at
 * again; 0: they did already; RP_E_NO_MEMORY. */
int rp_long_polling_mark(struct rp_lane *lane, rp_queue_slot *slot, rp_consume_queue *queue);
/* Wakes every pull that waits on a queue of the topic, because the topic is gone or has other queues now. */
void rp_long_polling_topic_changed(rp_topic *topic);
/* For rp_topic_table_destroy. */
void rp_queue_waiters_free(rp_queue_waiters *waiters);

#endif
