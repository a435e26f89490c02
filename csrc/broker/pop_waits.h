/* pop_waits.h: the pops and notifications of one reactor that wait for messages. Private to csrc/broker.
 * RocketMQ: PopLongPollingService, PopRequest (5.3.3 broker/longpolling/).
 *
 *   wait ─► list of (group, topic) ─ hashed by topic and by each retry topic ─ this lane's bit in the mask of every queue they look at
 *   arrival ─► long_polling's stack ─► the lists of that topic: pops from the first until one finds nothing, notifications from the
 *   last, as many as there are messages
 *   heap ─► deadlines, and when a blocked queue is free
 *
 * Threads  the lane's reactor.
 * Owns     waiting pops, their filters and attempt ids.
 * Bounds   RP_POPS_WAITING_MAX in all lanes, RP_POP_POLL_MS_MAX each; beyond that a pop is refused.
 */
#ifndef RP_BROKER_POP_WAITS_H
#define RP_BROKER_POP_WAITS_H

#include <stdatomic.h>
#include <stdint.h>

#include "topic_table.h"

#define RP_POPS_WAITING_MAX 100000u
#define RP_POP_POLL_MS_MAX 300000

struct rp_lane;
struct rp_pop;
struct rp_group;

typedef struct rp_waiting_pop rp_waiting_pop;
typedef struct rp_pop_list rp_pop_list;

#define RP_POP_BUCKETS 1024u
#define RP_POP_IDLE_LISTS_MAX 16u /* lists are kept so that repeated polls do not create new ones */
typedef struct rp_pop_waits {
    struct rp_pop_key **buckets; /* lists by topic, RP_POP_BUCKETS; NULL before the first */
    /* One for each (group, topic) with pops; an arrival of the topic leaves RP_POP_IDLE_LISTS_MAX without any. */
    rp_pop_list *lists;
    _Atomic uint32_t list_count; /* read by tests */
    rp_waiting_pop **connections; /* pops by connection, RP_POP_BUCKETS; made with the buckets */
    rp_waiting_pop **heap;       /* ordered by when to look */
    uint32_t heap_size, heap_capacity;
} rp_pop_waits;

void rp_pop_waits_free(struct rp_lane *lane);
/* Lets a pop that found nothing wait as long as it wants, and at least until the disk has answered, if it was asked; pop->poll_ms is
 * then that long. 1: it waits, or was answered meanwhile; 0: it does not want to wait, or (poll_ms above 0) a bound is reached or memory
 * is out. */
int rp_pop_waits_begin(struct rp_lane *lane, struct rp_pop *pop);
void rp_pop_waits_arrived(struct rp_lane *lane, const rp_queue_slot *slot);
/* Tries the pops in the list of a reader of lite topics (rp_lite_waits) for which something is ready: from the first until one finds
 * nothing. */
void rp_pop_waits_woken(struct rp_lane *lane, void *list);
int rp_pop_waits_wait_on(const struct rp_lane *lane, const rp_topic *topic); /* 1: the queue's bit stays set */
void rp_pop_waits_expire(struct rp_lane *lane, int64_t now_ns);
int64_t rp_pop_waits_deadline(const rp_pop_waits *waits);
void rp_pop_waits_dismiss(struct rp_lane *lane); /* refuses each: the broker is stopping */
void rp_pop_waits_connection_closed(struct rp_lane *lane, uint64_t connection_id);
/* Returns how many pops of a group wait for a topic on this lane. */
uint32_t rp_pop_waits_count(const struct rp_lane *lane, const rp_topic *topic, const struct rp_group *group, int32_t queue_id);

#endif
