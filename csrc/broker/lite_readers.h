/* lite_readers.h: which clients read which lite topics, which queues each of them has to look at, and which pops wait. Private to
 * csrc/broker.
 * RocketMQ: LiteEventDispatcher, LiteSubscriptionRegistryImpl, PopLiteLongPollingService, QueueLevelConsumerOrderInfoLockManager (5.5.0
 * broker/). Design: docs/design-lite.md.
 *
 *   lite queue ─ interest, one a group ─ subscription, one a reader ─ reader: its subscriptions that are ready, in a row ─ pops that
 *   wait
 *                   └─ held: its messages are out; in a heap, by when they come again
 *
 *   arrival ─► for each interest that is not held: its subscriptions become ready, one waiting reader is woken
 *   pop     ─► take: the reader's next ready subscription ─ look at its queue ─ put back: nothing, held until, ready again
 *   ack     ─► freed: no longer held; ready if there is more
 *
 * A reader is a client of a group, or a whole wildcard group: all its clients take from one row, and a subscription exists only while
 * its queue has messages. So no event is ever dropped: a row is no longer than the list of subscriptions, each of which is in it at most
 * once.
 *
 * Threads  any; one mutex, a leaf (docs/locks.md), held for at most one queue's readers, except for due heap entries and clients that
 *          leave.
 * Owns     all of it. Topics, groups and the store's queues are borrowed, and live as long.
 * Bounds   RP_LITE_SUBSCRIPTIONS_MAX subscriptions, RP_LITE_SHARES_MAX readers of one group at a lite topic, RP_LITE_WILDCARDS_MAX
 *          wildcard groups; at most as many readers as subscriptions and waiting pops.
 * Clocks   monotonic, passed in.
 */
#ifndef RP_BROKER_LITE_READERS_H
#define RP_BROKER_LITE_READERS_H

#include <stdint.h>

#include "group_table.h"

#define RP_LITE_SUBSCRIPTIONS_MAX 1000000u
#define RP_LITE_SHARES_MAX 1000u
#define RP_LITE_WILDCARDS_MAX 1000u

typedef struct rp_lite_readers rp_lite_readers;
typedef struct rp_lite_reader rp_lite_reader;
typedef struct rp_lite_interest rp_lite_interest;

rp_lite_readers *rp_lite_readers_create(void);
void rp_lite_readers_destroy(rp_lite_readers *readers);

/* ---- subscriptions: called by Python ---- */

/* Subscribes a client of the group to that lite queue. 1: new, so rp_lite_offer must be called for the messages that are there; RP_OK:
 * it was subscribed already; RP_E_BUSY: a bound; RP_E_NO_MEMORY. */
int rp_lite_subscribe(rp_lite_readers *readers, rp_group *group, rp_slice client, rp_slice name);
void rp_lite_unsubscribe(rp_lite_readers *readers, const rp_group *group, rp_slice client, rp_slice name);
/* Unsubscribes the client from everything; with an empty client, ends a wildcard group. */
void rp_lite_unsubscribe_all(rp_lite_readers *readers, const rp_group *group, rp_slice client);
/* Lets the group read every lite topic of the parent, in place of another parent; messages that are there already are offered by
 * rp_lite_offer. RP_OK, RP_E_BUSY, RP_E_NO_MEMORY. */
int rp_lite_read_all(rp_lite_readers *readers, rp_group *group, rp_slice parent);
/* Says that there may be messages for the group in the store's queue. RP_OK; RP_E_NOT_FOUND: the group does not read it; RP_E_BUSY: a
 * bound, or memory. */
int rp_lite_offer(rp_lite_readers *readers, const rp_group *group, rp_consume_queue *queue);
/* 1 if, for want of memory or room, the group was not told of something since this was last asked. */
int rp_lite_has_missed(rp_lite_readers *readers, const rp_group *group);
/* Forgets a lite queue that was deleted, with its subscriptions. */
void rp_lite_forget(rp_lite_readers *readers, rp_slice name);

/* ---- events: any thread ---- */

/* The store's queue, a lite topic's, has got messages. Costs one load while nobody reads any lite topic. */
void rp_lite_arrived(rp_lite_readers *readers, rp_consume_queue *queue);
/* Messages of the group in that lite queue are no longer out; `next` is the first that the group has not had. */
void rp_lite_freed(rp_lite_readers *readers, const rp_group *group, rp_slice name, int64_t next);
/* Messages that are out come again at due_ns. 1: that is earlier than for any other queue. */
int rp_lite_hold(rp_lite_readers *readers, const rp_group *group, rp_slice name, int64_t due_ns);
/* The queue is to be looked at now, even if messages are out, because for example its offset was set. */
void rp_lite_look_again(rp_lite_readers *readers, const rp_group *group, rp_slice name);
/* The same for everything that a client reads, or each client of the group (data NULL). */
void rp_lite_look_at_all(rp_lite_readers *readers, const rp_group *group, rp_slice client);

/* Returns when the first held queue is due; INT64_MAX: none is held. */
int64_t rp_lite_due_ns(const rp_lite_readers *readers);
/* Makes held queues that are due by now ready. */
void rp_lite_expire(rp_lite_readers *readers, int64_t now_ns);
/* Makes all held queues ready: what was out when this broker last led may have been acked at another one since. */
void rp_lite_look_at_held(rp_lite_readers *readers);

/* ---- pops: the lane's reactor ---- */

/* Returns the reader of a client's pop, created if it is missing; it stays until it is closed. NULL: no memory. */
rp_lite_reader *rp_lite_reader_open(rp_lite_readers *readers, rp_group *group, rp_slice client, int is_wildcard, int64_t now_ns);
void rp_lite_reader_close(rp_lite_readers *readers, rp_lite_reader *reader);

typedef struct rp_lite_look {
    rp_lite_interest *interest;
    rp_slice name; /* name of the lite queue; valid until it is put back */
    rp_topic *topic; /* topic of that name; NULL before the first look, which sets it */
    rp_consume_queue *queue;
    uint32_t changes; /* version of the interest's held state */
} rp_lite_look;

enum rp_lite_found { RP_LITE_NOTHING, RP_LITE_HELD, RP_LITE_AGAIN };

/* Takes the reader's next ready queue. 0: there is none. */
int rp_lite_take(rp_lite_readers *readers, rp_lite_reader *reader, rp_lite_look *look);
/* Puts the queue back. due_ns: for RP_LITE_HELD. 1: that is earlier than for any other queue. */
int rp_lite_put_back(rp_lite_readers *readers, const rp_lite_look *look, enum rp_lite_found found, int64_t due_ns);
/* Passes what is ready for a reader whose pop took all it could, or could take nothing, to another waiting pop. 1: there was something. */
int rp_lite_pass_on(rp_lite_readers *readers, rp_lite_reader *reader);

/* The pops of one lane that wait for one reader. `list` belongs to the lane. */
typedef struct rp_lite_waits {
    rp_lite_reader *reader; /* fixed */
    rp_reactor *reactor;    /* fixed */
    uint16_t lane;          /* fixed */
    void *list;             /* the lane's thread */
    int is_woken;
    struct rp_lite_waits *next;                      /* in the reader's list */
    struct rp_lite_waits *previous_woken, *next_woken; /* in the lane's list of woken ones */
} rp_lite_waits;

/* Finds or creates the entry; *is_ready: there is something to look at. NULL: no memory. */
rp_lite_waits *rp_lite_wait(rp_lite_readers *readers, rp_lite_reader *reader, rp_reactor *reactor, uint16_t lane, int *is_ready);
/* Called when the last of these pops has left. */
void rp_lite_unwait(rp_lite_readers *readers, rp_lite_waits *waits);
/* Takes one that was woken; NULL: there is none, which is found without the lock. */
rp_lite_waits *rp_lite_next_woken(rp_lite_readers *readers, uint16_t lane);

/* ---- what operators ask ---- */

typedef struct rp_lite_counts {
    uint32_t readers, subscriptions, held;
} rp_lite_counts;
void rp_lite_read_counts(rp_lite_readers *readers, rp_lite_counts *counts);
/* Returns when the client's last pop came; -1: unknown. */
int64_t rp_lite_last_pop_ns(rp_lite_readers *readers, const rp_group *group, rp_slice client);

#endif
