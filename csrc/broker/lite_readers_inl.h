/* lite_readers_inl.h: the structs of lite_readers.h, for lite_readers.c and lite_events.c. C only. Everything is guarded by the lock,
 * except where noted. */
#ifndef RP_BROKER_LITE_READERS_INL_H
#define RP_BROKER_LITE_READERS_INL_H

#include <pthread.h>
#include <stdatomic.h>

#include "lane.h"
#include "lite_readers.h"

#define RP_LITE_NOT_HELD UINT32_MAX

typedef struct rp_lite_queue {
    struct rp_lite_queue *next; /* in its bucket */
    uint64_t hash;              /* fixed, like the next: hash of the name, as in the store's queue */
    rp_slice name;              /* bytes behind the struct */
    rp_lite_interest *interests;
    uint32_t uses; /* interests, including removed ones that are still being looked at */
} rp_lite_queue;

typedef struct rp_lite_subscription {
    rp_lite_interest *interest; /* fixed */
    rp_lite_reader *reader;     /* fixed */
    struct rp_lite_subscription *previous_share, *next_share; /* in the interest's list */
    struct rp_lite_subscription *previous, *next;             /* in the reader's list */
    struct rp_lite_subscription *previous_ready, *next_ready; /* in the reader's list of ready ones */
    int is_ready;
} rp_lite_subscription;

struct rp_lite_interest {
    rp_lite_queue *of; /* fixed */
    rp_group *group;   /* fixed */
    rp_lite_interest *next; /* in the queue's list */
    rp_topic *topic;
    rp_consume_queue *queue; /* NULL: no message has arrived yet */
    rp_lite_subscription *shares;
    uint32_t share_count;
    uint32_t looks;   /* looks under way */
    uint32_t changes; /* version of the held state */
    uint32_t heap_place;
    int64_t due_ns;
    int is_gone; /* nobody reads it; freed after its last look */
};

struct rp_lite_reader {
    rp_lite_reader *next; /* in its bucket */
    uint64_t hash;        /* fixed, as the next two */
    rp_group *group;
    rp_slice client; /* bytes behind the struct; empty: a whole wildcard group */
    uint8_t *parent; /* parent of a wildcard group, owned; NULL: it is a client */
    uint32_t parent_size;
    uint64_t parent_hash;
    rp_lite_reader *next_wildcard;
    rp_lite_subscription *subscriptions;
    rp_lite_subscription *first_ready, *last_ready;
    rp_lite_waits *waits;
    uint32_t woken; /* number of its waits that are woken */
    uint32_t opens;
    int has_missed;
    int64_t last_pop_ns; /* -1: never */
};

struct rp_lite_readers {
    pthread_mutex_t lock;
    rp_lite_queue **queues;
    rp_lite_reader **readers;
    uint32_t queue_buckets, queue_count; /* buckets: powers of two */
    uint32_t reader_buckets, reader_count;
    rp_lite_reader *wildcards;
    uint32_t wildcard_count;
    uint32_t subscription_count, interest_count;
    rp_lite_interest **heap; /* has room for every interest */
    uint32_t heap_size, heap_capacity;
    rp_lite_waits *woken[RP_LANES_MAX];
    _Atomic uint32_t woken_count[RP_LANES_MAX]; /* read without the lock */
    _Atomic uint32_t watched;                   /* number of queues and wildcard groups; read without the lock */
    _Atomic int64_t due_ns;                     /* due time of the heap's first; read without the lock */
};

/* In lite_events.c. */
void rp_lite_ready(rp_lite_interest *interest);
/* Wakes a waiting pop of one of its readers, unless one of them is woken already. */
void rp_lite_wake(rp_lite_readers *readers, const rp_lite_interest *interest);
void rp_lite_not_ready(rp_lite_subscription *subscription);
void rp_lite_not_held(rp_lite_readers *readers, rp_lite_interest *interest);
/* In lite_readers.c. */
rp_lite_interest *rp_lite_first_interest(const rp_lite_readers *readers, rp_slice name); /* first in the list of all groups' interests */
rp_lite_interest *rp_lite_find_interest(const rp_lite_readers *readers, const rp_group *group, rp_slice name);
rp_lite_reader *rp_lite_find_reader(const rp_lite_readers *readers, const rp_group *group, rp_slice client);
/* Returns a wildcard group's interest in the queue, created if it is missing; NULL: a bound, or no memory, and the group has missed the
 * queue. */
rp_lite_interest *rp_lite_wildcard_interest(rp_lite_readers *readers, rp_lite_reader *reader, rp_consume_queue *queue);
/* Frees the interest or reader if nothing uses it any more. */
void rp_lite_let_go_of_interest(rp_lite_readers *readers, rp_lite_interest *interest);
void rp_lite_let_go_of_reader(rp_lite_readers *readers, rp_lite_reader *reader);
/* For a wildcard group: drops the subscription of a queue without messages. */
void rp_lite_drop_idle(rp_lite_readers *readers, rp_lite_interest *interest);

#endif
