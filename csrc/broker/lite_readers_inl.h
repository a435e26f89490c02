/* lite_readers_inl.h: the structs of lite_readers.h, for lite_readers.c and lite_events.c. C only. Everything is guarded by the lock but
 * what says otherwise. */
#ifndef RP_BROKER_LITE_READERS_INL_H
#define RP_BROKER_LITE_READERS_INL_H

#include <pthread.h>
#include <stdatomic.h>

#include "lane.h"
#include "lite_readers.h"

#define RP_LITE_NOT_HELD UINT32_MAX

typedef struct rp_lite_queue {
    struct rp_lite_queue *next; /* in its bucket */
    uint64_t hash;              /* fixed, as the next: of the name, as of the store's queue */
    rp_slice name;              /* bytes behind the struct */
    rp_lite_interest *interests;
    uint32_t uses; /* interests, those that are looked at while they are gone among them */
} rp_lite_queue;

typedef struct rp_lite_subscription {
    rp_lite_interest *interest; /* fixed */
    rp_lite_reader *reader;     /* fixed */
    struct rp_lite_subscription *previous_share, *next_share; /* of the interest's */
    struct rp_lite_subscription *previous, *next;             /* of the reader's */
    struct rp_lite_subscription *previous_ready, *next_ready; /* of the reader's that are ready */
    int is_ready;
} rp_lite_subscription;

struct rp_lite_interest {
    rp_lite_queue *of; /* fixed */
    rp_group *group;   /* fixed */
    rp_lite_interest *next; /* of the queue's */
    rp_topic *topic;
    rp_consume_queue *queue; /* NULL: it has had no message yet */
    rp_lite_subscription *shares;
    uint32_t share_count;
    uint32_t looks;   /* that are under way */
    uint32_t changes; /* of when it is held */
    uint32_t heap_place;
    int64_t due_ns;
    int is_gone; /* nobody reads it; freed behind its last look */
};

struct rp_lite_reader {
    rp_lite_reader *next; /* in its bucket */
    uint64_t hash;        /* fixed, as the next two */
    rp_group *group;
    rp_slice client; /* bytes behind the struct; empty: the whole group */
    uint8_t *parent; /* of a wildcard group, owned; NULL: it is none */
    uint32_t parent_size;
    uint64_t parent_hash;
    rp_lite_reader *next_wildcard;
    rp_lite_subscription *subscriptions;
    rp_lite_subscription *first_ready, *last_ready;
    rp_lite_waits *waits;
    uint32_t woken; /* of its waits */
    uint32_t opens;
    int has_missed;
    int64_t last_pop_ns; /* -1: none */
};

struct rp_lite_readers {
    pthread_mutex_t lock;
    rp_lite_queue **queues;
    rp_lite_reader **readers;
    uint32_t queue_buckets, queue_count; /* powers of two */
    uint32_t reader_buckets, reader_count;
    rp_lite_reader *wildcards;
    uint32_t wildcard_count;
    uint32_t subscription_count, interest_count;
    rp_lite_interest **heap; /* room for every interest */
    uint32_t heap_size, heap_capacity;
    rp_lite_waits *woken[RP_LANES_MAX];
    _Atomic uint32_t woken_count[RP_LANES_MAX]; /* read without the lock */
    _Atomic uint32_t watched;                   /* queues and wildcard groups; read without the lock */
    _Atomic int64_t due_ns;                     /* of the heap's first; read without the lock */
};

/* Of lite_events.c. */
void rp_lite_ready(rp_lite_interest *interest);
/* Wakes a pop that waits for one of its readers, unless one of them is woken already. */
void rp_lite_wake(rp_lite_readers *readers, const rp_lite_interest *interest);
void rp_lite_not_ready(rp_lite_subscription *subscription);
void rp_lite_not_held(rp_lite_readers *readers, rp_lite_interest *interest);
/* Of lite_readers.c. */
rp_lite_interest *rp_lite_first_interest(const rp_lite_readers *readers, rp_slice name); /* of all groups */
rp_lite_interest *rp_lite_find_interest(const rp_lite_readers *readers, const rp_group *group, rp_slice name);
rp_lite_reader *rp_lite_find_reader(const rp_lite_readers *readers, const rp_group *group, rp_slice client);
/* The queue's interest of a wildcard group, made when it is missing; NULL, and the group has missed it: a bound, or memory. */
rp_lite_interest *rp_lite_wildcard_interest(rp_lite_readers *readers, rp_lite_reader *reader, rp_consume_queue *queue);
/* Nobody has it any more, or something of it: freed then. */
void rp_lite_let_go_of_interest(rp_lite_readers *readers, rp_lite_interest *interest);
void rp_lite_let_go_of_reader(rp_lite_readers *readers, rp_lite_reader *reader);
/* Of a wildcard group: there is nothing in the queue for now. */
void rp_lite_drop_idle(rp_lite_readers *readers, rp_lite_interest *interest);

#endif
