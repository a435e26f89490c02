/* lite_readers.h: who reads which lite topics, what each of them has to look at, and who waits for it. Private to csrc/broker.
 * RocketMQ: LiteEventDispatcher, LiteSubscriptionRegistryImpl, PopLiteLongPollingService, QueueLevelConsumerOrderInfoLockManager (5.5.0
 * broker/). Design: docs/design-lite.md.
 *
 *   lite queue ─ interest, one a group ─ subscription, one a reader ─ reader: its subscriptions that are ready, in a row ─ pops that wait
 *                   └─ held: its messages are out; in a heap, by when they come again
 *
 *   arrival ─► of each interest that is not held: its subscriptions are ready, one waiting reader is woken
 *   pop     ─► take: the reader's next ready subscription ─ look at its queue ─ put back: nothing, held until, ready again
 *   ack     ─► freed: held no more; ready when there is more
 *
 * A reader is a client of a group, or a whole wildcard group: all its clients take from one row, and a subscription is there only while its
 * queue has something. So no event is ever dropped: a row is no longer than what is subscribed to, and each stands in it once.
 *
 * Threads  any; one mutex, a leaf (docs/locks.md), held for one queue's readers at most, but for heaps that are due and clients that leave.
 * Owns     all of it. Topics, groups and the store's queues are borrowed, and live as long.
 * Bounds   RP_LITE_SUBSCRIPTIONS_MAX subscriptions, RP_LITE_SHARES_MAX readers of one group at a lite topic, RP_LITE_WILDCARDS_MAX wildcard
 *          groups; readers: as many as subscriptions and waiting pops.
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

/* ---- subscriptions: Python's ---- */

/* A client of the group reads that lite queue. 1: from now on, so rp_lite_offer has to tell of what is there; RP_OK: it did already;
 * RP_E_BUSY: a bound; RP_E_NO_MEMORY. */
int rp_lite_subscribe(rp_lite_readers *readers, rp_group *group, rp_slice client, rp_slice name);
void rp_lite_unsubscribe(rp_lite_readers *readers, const rp_group *group, rp_slice client, rp_slice name);
/* Of everything; of a wildcard group, whose client is empty, it reads no more then. */
void rp_lite_unsubscribe_all(rp_lite_readers *readers, const rp_group *group, rp_slice client);
/* The group reads every lite topic of the parent from now on, which replaces another; what is there already is offered by rp_lite_offer.
 * RP_OK, RP_E_BUSY, RP_E_NO_MEMORY. */
int rp_lite_read_all(rp_lite_readers *readers, rp_group *group, rp_slice parent);
/* There may be something for the group in the store's queue. RP_OK; RP_E_NOT_FOUND: it does not read it; RP_E_BUSY: a bound, or memory. */
int rp_lite_offer(rp_lite_readers *readers, const rp_group *group, rp_consume_queue *queue);
/* 1: for want of memory or room the group was not told of something since the last time this was asked. */
int rp_lite_has_missed(rp_lite_readers *readers, const rp_group *group);
/* The lite queue was deleted: nobody reads it. */
void rp_lite_forget(rp_lite_readers *readers, rp_slice name);

/* ---- events: any thread ---- */

/* The store's queue, a lite topic's, has got messages. One load while nobody reads any. */
void rp_lite_arrived(rp_lite_readers *readers, rp_consume_queue *queue);
/* Messages of the group in that lite queue are out no more, and `next` is the first that it has not had. */
void rp_lite_freed(rp_lite_readers *readers, const rp_group *group, rp_slice name, int64_t next);
/* They come again at another time. 1: earlier than all others do. */
int rp_lite_hold(rp_lite_readers *readers, const rp_group *group, rp_slice name, int64_t due_ns);
/* To be looked at now, whoever has messages of it: its offset was set, say. */
void rp_lite_look_again(rp_lite_readers *readers, const rp_group *group, rp_slice name);
/* The same of everything that a client, or each client of the group (data NULL), reads. */
void rp_lite_look_at_all(rp_lite_readers *readers, const rp_group *group, rp_slice client);

/* When the first that is held comes again, INT64_MAX: none is. */
int64_t rp_lite_due_ns(const rp_lite_readers *readers);
/* Those that are due by now are ready. */
void rp_lite_expire(rp_lite_readers *readers, int64_t now_ns);
/* All that is held: what was out when this broker led before may have been acked at another one since. */
void rp_lite_look_at_held(rp_lite_readers *readers);

/* ---- pops: the lane's reactor ---- */

/* The reader that a client's pop is of, made when it is missing, until it is let go of. NULL: memory. */
rp_lite_reader *rp_lite_reader_open(rp_lite_readers *readers, rp_group *group, rp_slice client, int is_wildcard, int64_t now_ns);
void rp_lite_reader_close(rp_lite_readers *readers, rp_lite_reader *reader);

typedef struct rp_lite_look {
    rp_lite_interest *interest;
    rp_slice name; /* of the lite queue; lives until it is put back */
    rp_topic *topic; /* of that name; NULL before the first look, for who looks to set */
    rp_consume_queue *queue;
    uint32_t changes; /* of when it is held */
} rp_lite_look;

enum rp_lite_found { RP_LITE_NOTHING, RP_LITE_HELD, RP_LITE_AGAIN };

/* Takes the next ready one. 0: there is none. */
int rp_lite_take(rp_lite_readers *readers, rp_lite_reader *reader, rp_lite_look *look);
/* due_ns: of one that is held. 1: it comes again earlier than all others. */
int rp_lite_put_back(rp_lite_readers *readers, const rp_lite_look *look, enum rp_lite_found found, int64_t due_ns);
/* What is ready for a reader whose pop took all it could, or could take nothing, is told to another pop that waits. 1: something was. */
int rp_lite_pass_on(rp_lite_readers *readers, rp_lite_reader *reader);

/* The pops of one lane that wait for one reader. `list` is the lane's. */
typedef struct rp_lite_waits {
    rp_lite_reader *reader; /* fixed */
    rp_reactor *reactor;    /* fixed */
    uint16_t lane;          /* fixed */
    void *list;             /* the lane's thread */
    int is_woken;
    struct rp_lite_waits *next;                      /* of the reader's */
    struct rp_lite_waits *previous_woken, *next_woken; /* of the lane's */
} rp_lite_waits;

/* Found or made; *is_ready: there is something to look at. NULL: memory. */
rp_lite_waits *rp_lite_wait(rp_lite_readers *readers, rp_lite_reader *reader, rp_reactor *reactor, uint16_t lane, int *is_ready);
/* The last of them has left. */
void rp_lite_unwait(rp_lite_readers *readers, rp_lite_waits *waits);
/* Takes one that was woken; NULL: none is. No lock is taken for the latter. */
rp_lite_waits *rp_lite_next_woken(rp_lite_readers *readers, uint16_t lane);

/* ---- what operators ask ---- */

typedef struct rp_lite_counts {
    uint32_t readers, subscriptions, held;
} rp_lite_counts;
void rp_lite_read_counts(rp_lite_readers *readers, rp_lite_counts *counts);
/* When the client's last pop came, -1: it is not known. */
int64_t rp_lite_last_pop_ns(rp_lite_readers *readers, const rp_group *group, rp_slice client);

#endif
