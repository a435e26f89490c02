/* lite_readers.c: see lite_readers.h. The tables of queues, interests, readers and subscriptions; lite_events.c handles the events. */
#include "lite_readers.h"

#include <stdlib.h>
#include <string.h>

#include "../base/error.h"
#include "../base/hash.h"
#include "../base/slice_inl.h"
#include "../store/light_queue.h"
#include "lite_readers_inl.h"

#define BUCKETS_FIRST 256u
#define HEAP_FIRST 64u

rp_lite_readers *rp_lite_readers_create(void) {
    rp_lite_readers *readers = calloc(1, sizeof *readers);
    if (readers == NULL)
        return NULL;
    readers->queues = calloc(BUCKETS_FIRST, sizeof *readers->queues);
    readers->readers = calloc(BUCKETS_FIRST, sizeof *readers->readers);
    readers->queue_buckets = readers->reader_buckets = BUCKETS_FIRST;
    if (readers->queues == NULL || readers->readers == NULL) {
        free(readers->queues);
        free(readers->readers);
        free(readers);
        return NULL;
    }
    atomic_store(&readers->due_ns, INT64_MAX);
    pthread_mutex_init(&readers->lock, NULL);
    return readers;
}

static void free_reader(rp_lite_reader *reader) {
    for (rp_lite_subscription *one = reader->subscriptions, *next; one != NULL; one = next) {
        next = one->next;
        free(one);
    }
    for (rp_lite_waits *waits = reader->waits, *next; waits != NULL; waits = next) {
        next = waits->next;
        free(waits);
    }
    free(reader->parent);
    free(reader);
}

void rp_lite_readers_destroy(rp_lite_readers *readers) {
    if (readers == NULL)
        return;
    for (uint32_t i = 0; i < readers->reader_buckets; i++) {
        for (rp_lite_reader *reader = readers->readers[i], *next; reader != NULL; reader = next) {
            next = reader->next;
            free_reader(reader);
        }
    }
    for (uint32_t i = 0; i < readers->queue_buckets; i++) {
        for (rp_lite_queue *queue = readers->queues[i], *next; queue != NULL; queue = next) {
            next = queue->next;
            for (rp_lite_interest *interest = queue->interests, *other; interest != NULL; interest = other) {
                other = interest->next;
                free(interest);
            }
            free(queue);
        }
    }
    pthread_mutex_destroy(&readers->lock);
    free(readers->heap);
    free(readers->queues);
    free(readers->readers);
    free(readers);
}

/* ---- queues ---- */

static rp_lite_queue **queue_place(const rp_lite_readers *readers, uint64_t hash) {
    return &readers->queues[hash & (readers->queue_buckets - 1)];
}

static rp_lite_queue *find_queue(const rp_lite_readers *readers, rp_slice name) {
    uint64_t hash = rp_hash_bytes(name.data, name.size, RP_LIGHT_QUEUE_ID);
    rp_lite_queue *queue = *queue_place(readers, hash);
    while (queue != NULL && (queue->hash != hash || !rp_slice_equals(queue->name, name)))
        queue = queue->next;
    return queue;
}

/* Without memory for more buckets the chains get longer. */
static void grow_queues(rp_lite_readers *readers) {
    rp_lite_queue **before = readers->queues, **more = calloc(readers->queue_buckets * 2, sizeof *more);
    uint32_t count = readers->queue_buckets;
    if (more == NULL)
        return;
    readers->queues = more;
    readers->queue_buckets *= 2;
    for (uint32_t i = 0; i < count; i++) {
        for (rp_lite_queue *queue = before[i], *next; queue != NULL; queue = next) {
            next = queue->next;
            queue->next = *queue_place(readers, queue->hash);
            *queue_place(readers, queue->hash) = queue;
        }
    }
    free(before);
}

/* Must come before the look at what is there: rp_lite_arrived. */
static void watch(rp_lite_readers *readers) {
    atomic_fetch_add(&readers->watched, 1);
    atomic_thread_fence(memory_order_seq_cst);
}

static rp_lite_queue *make_queue(rp_lite_readers *readers, rp_slice name) {
    rp_lite_queue *queue = calloc(1, sizeof *queue + name.size);
    if (queue == NULL)
        return NULL;
    memcpy(queue + 1, name.data, name.size);
    queue->name = (rp_slice){(const uint8_t *)(queue + 1), name.size};
    queue->hash = rp_hash_bytes(name.data, name.size, RP_LIGHT_QUEUE_ID);
    if (readers->queue_count >= readers->queue_buckets)
        grow_queues(readers);
    queue->next = *queue_place(readers, queue->hash);
    *queue_place(readers, queue->hash) = queue;
    readers->queue_count++;
    watch(readers);
    return queue;
}

static void let_go_of_queue(rp_lite_readers *readers, rp_lite_queue *queue) {
    if (queue->uses > 0)
        return;
    rp_lite_queue **place = queue_place(readers, queue->hash);
    while (*place != queue)
        place = &(*place)->next;
    *place = queue->next;
    readers->queue_count--;
    atomic_fetch_sub(&readers->watched, 1);
    free(queue);
}

/* ---- interests ---- */

static rp_lite_interest *interest_of(const rp_lite_queue *queue, const rp_group *group) {
    rp_lite_interest *interest = queue != NULL ? queue->interests : NULL;
    while (interest != NULL && interest->group != group)
        interest = interest->next;
    return interest;
}

rp_lite_interest *rp_lite_first_interest(const rp_lite_readers *readers, rp_slice name) {
    const rp_lite_queue *queue = find_queue(readers, name);
    return queue != NULL ? queue->interests : NULL;
}

rp_lite_interest *rp_lite_find_interest(const rp_lite_readers *readers, const rp_group *group, rp_slice name) {
    return interest_of(find_queue(readers, name), group);
}

static int make_heap_room(rp_lite_readers *readers) {
    if (readers->interest_count < readers->heap_capacity)
        return RP_OK;
    uint32_t capacity = readers->heap_capacity > 0 ? readers->heap_capacity * 2 : HEAP_FIRST;
    rp_lite_interest **heap = realloc(readers->heap, capacity * sizeof(rp_lite_interest *));
    if (heap == NULL)
        return RP_E_NO_MEMORY;
    readers->heap = heap;
    readers->heap_capacity = capacity;
    return RP_OK;
}

static rp_lite_interest *open_interest(rp_lite_readers *readers, rp_group *group, rp_slice name) {
    rp_lite_queue *queue = find_queue(readers, name);
    rp_lite_interest *interest = interest_of(queue, group);
    if (interest != NULL || make_heap_room(readers) != RP_OK || (queue == NULL && (queue = make_queue(readers, name)) == NULL))
        return interest;
    interest = calloc(1, sizeof *interest);
    if (interest == NULL) {
        let_go_of_queue(readers, queue);
        return NULL;
    }
    interest->of = queue;
    interest->group = group;
    interest->heap_place = RP_LITE_NOT_HELD;
    interest->next = queue->interests;
    queue->interests = interest;
    queue->uses++;
    readers->interest_count++;
    return interest;
}

void rp_lite_let_go_of_interest(rp_lite_readers *readers, rp_lite_interest *interest) {
    if (interest->shares != NULL)
        return;
    rp_lite_queue *queue = interest->of;
    if (!interest->is_gone) {
        rp_lite_interest **place = &queue->interests;
        while (*place != interest)
            place = &(*place)->next;
        *place = interest->next;
        rp_lite_not_held(readers, interest);
        interest->is_gone = 1;
    }
    if (interest->looks > 0)
        return;
    free(interest);
    readers->interest_count--;
    queue->uses--;
    let_go_of_queue(readers, queue);
}

/* ---- readers ---- */

static uint64_t reader_hash(const rp_group *group, rp_slice client) {
    return rp_hash_bytes(client.data, client.size, (uint64_t)(uintptr_t)group);
}

static rp_lite_reader **reader_place(const rp_lite_readers *readers, uint64_t hash) {
    return &readers->readers[hash & (readers->reader_buckets - 1)];
}

rp_lite_reader *rp_lite_find_reader(const rp_lite_readers *readers, const rp_group *group, rp_slice client) {
    uint64_t hash = reader_hash(group, client);
    rp_lite_reader *reader = *reader_place(readers, hash);
    while (reader != NULL && (reader->hash != hash || reader->group != group || !rp_slice_equals(reader->client, client)))
        reader = reader->next;
    return reader;
}

static void grow_readers(rp_lite_readers *readers) {
    rp_lite_reader **before = readers->readers, **more = calloc(readers->reader_buckets * 2, sizeof *more);
    uint32_t count = readers->reader_buckets;
    if (more == NULL)
        return;
    readers->readers = more;
    readers->reader_buckets *= 2;
    for (uint32_t i = 0; i < count; i++) {
        for (rp_lite_reader *reader = before[i], *next; reader != NULL; reader = next) {
            next = reader->next;
            reader->next = *reader_place(readers, reader->hash);
            *reader_place(readers, reader->hash) = reader;
        }
    }
    free(before);
}

static rp_lite_reader *open_reader(rp_lite_readers *readers, rp_group *group, rp_slice client) {
    rp_lite_reader *reader = rp_lite_find_reader(readers, group, client);
    if (reader != NULL || (reader = calloc(1, sizeof *reader + client.size)) == NULL)
        return reader;
    if (client.size > 0)
        memcpy(reader + 1, client.data, client.size);
    reader->client = (rp_slice){(const uint8_t *)(reader + 1), client.size};
    reader->group = group;
    reader->hash = reader_hash(group, client);
    reader->last_pop_ns = -1;
    if (readers->reader_count >= readers->reader_buckets)
        grow_readers(readers);
    reader->next = *reader_place(readers, reader->hash);
    *reader_place(readers, reader->hash) = reader;
    readers->reader_count++;
    return reader;
}

void rp_lite_let_go_of_reader(rp_lite_readers *readers, rp_lite_reader *reader) {
    if (reader->subscriptions != NULL || reader->waits != NULL || reader->opens > 0 || reader->parent != NULL)
        return;
    rp_lite_reader **place = reader_place(readers, reader->hash);
    while (*place != reader)
        place = &(*place)->next;
    *place = reader->next;
    readers->reader_count--;
    free(reader);
}

/* ---- subscriptions ---- */

static rp_lite_subscription *find_subscription(const rp_lite_interest *interest, const rp_lite_reader *reader) {
    rp_lite_subscription *one = interest->shares;
    while (one != NULL && one->reader != reader)
        one = one->next_share;
    return one;
}

/* RP_OK, RP_E_BUSY, RP_E_NO_MEMORY. */
static int add_subscription(rp_lite_readers *readers, rp_lite_interest *interest, rp_lite_reader *reader) {
    if (readers->subscription_count >= RP_LITE_SUBSCRIPTIONS_MAX || interest->share_count >= RP_LITE_SHARES_MAX)
        return RP_E_BUSY;
    rp_lite_subscription *one = calloc(1, sizeof *one);
    if (one == NULL)
        return RP_E_NO_MEMORY;
    one->interest = interest;
    one->reader = reader;
    one->next_share = interest->shares;
    if (one->next_share != NULL)
        one->next_share->previous_share = one;
    interest->shares = one;
    one->next = reader->subscriptions;
    if (one->next != NULL)
        one->next->previous = one;
    reader->subscriptions = one;
    interest->share_count++;
    readers->subscription_count++;
    return RP_OK;
}

/* What was ready for its reader is left to others. */
static void remove_subscription(rp_lite_readers *readers, rp_lite_subscription *one) {
    rp_lite_interest *interest = one->interest;
    int was_ready = one->is_ready;
    rp_lite_not_ready(one);
    if (one->previous_share != NULL)
        one->previous_share->next_share = one->next_share;
    else
        interest->shares = one->next_share;
    if (one->next_share != NULL)
        one->next_share->previous_share = one->previous_share;
    if (one->previous != NULL)
        one->previous->next = one->next;
    else
        one->reader->subscriptions = one->next;
    if (one->next != NULL)
        one->next->previous = one->previous;
    free(one);
    interest->share_count--;
    readers->subscription_count--;
    if (was_ready)
        rp_lite_wake(readers, interest);
    rp_lite_let_go_of_interest(readers, interest);
}

/* Under the lock, as rp_lite_subscribe. */
static int subscribe(rp_lite_readers *readers, rp_group *group, rp_slice client, rp_slice name) {
    rp_lite_reader *reader = open_reader(readers, group, client);
    rp_lite_interest *interest = reader != NULL ? open_interest(readers, group, name) : NULL;
    int status = interest == NULL ? RP_E_NO_MEMORY : RP_OK;
    if (interest != NULL && find_subscription(interest, reader) == NULL)
        status = add_subscription(readers, interest, reader) == RP_OK ? 1 : RP_E_BUSY;
    if (interest != NULL)
        rp_lite_let_go_of_interest(readers, interest);
    if (reader != NULL)
        rp_lite_let_go_of_reader(readers, reader);
    return status;
}

int rp_lite_subscribe(rp_lite_readers *readers, rp_group *group, rp_slice client, rp_slice name) {
    pthread_mutex_lock(&readers->lock);
    int status = subscribe(readers, group, client, name);
    pthread_mutex_unlock(&readers->lock);
    return status;
}

void rp_lite_unsubscribe(rp_lite_readers *readers, const rp_group *group, rp_slice client, rp_slice name) {
    pthread_mutex_lock(&readers->lock);
    rp_lite_reader *reader = rp_lite_find_reader(readers, group, client);
    rp_lite_interest *interest = reader != NULL ? rp_lite_find_interest(readers, group, name) : NULL;
    rp_lite_subscription *one = interest != NULL ? find_subscription(interest, reader) : NULL;
    if (one != NULL) {
        remove_subscription(readers, one);
        rp_lite_let_go_of_reader(readers, reader);
    }
    pthread_mutex_unlock(&readers->lock);
}

static void close_wildcard(rp_lite_readers *readers, rp_lite_reader *reader) {
    if (reader->parent == NULL)
        return;
    rp_lite_reader **place = &readers->wildcards;
    while (*place != reader)
        place = &(*place)->next_wildcard;
    *place = reader->next_wildcard;
    free(reader->parent);
    reader->parent = NULL;
    readers->wildcard_count--;
    atomic_fetch_sub(&readers->watched, 1);
}

void rp_lite_unsubscribe_all(rp_lite_readers *readers, const rp_group *group, rp_slice client) {
    pthread_mutex_lock(&readers->lock);
    rp_lite_reader *reader = rp_lite_find_reader(readers, group, client);
    if (reader != NULL) {
        while (reader->subscriptions != NULL)
            remove_subscription(readers, reader->subscriptions);
        close_wildcard(readers, reader);
        rp_lite_let_go_of_reader(readers, reader);
    }
    pthread_mutex_unlock(&readers->lock);
}

void rp_lite_forget(rp_lite_readers *readers, rp_slice name) {
    pthread_mutex_lock(&readers->lock);
    rp_lite_queue *queue = find_queue(readers, name);
    for (rp_lite_interest *interest = queue != NULL ? queue->interests : NULL, *next; interest != NULL; interest = next) {
        next = interest->next;
        for (uint32_t left = interest->share_count; left > 0; left--) {
            rp_lite_subscription *one = interest->shares;
            rp_lite_reader *reader = one->reader;
            rp_lite_not_ready(one); /* others would find nothing either */
            remove_subscription(readers, one);
            rp_lite_let_go_of_reader(readers, reader);
        }
    }
    pthread_mutex_unlock(&readers->lock);
}

/* ---- wildcard groups ---- */

static int open_wildcard(rp_lite_readers *readers, rp_lite_reader *reader, rp_slice parent) {
    if (reader->parent != NULL && rp_slice_equals((rp_slice){reader->parent, reader->parent_size}, parent))
        return RP_OK;
    if (reader->parent == NULL && readers->wildcard_count >= RP_LITE_WILDCARDS_MAX)
        return RP_E_BUSY;
    uint8_t *copy = malloc(parent.size > 0 ? parent.size : 1);
    if (copy == NULL)
        return RP_E_NO_MEMORY;
    while (reader->subscriptions != NULL) /* those of another parent */
        remove_subscription(readers, reader->subscriptions);
    close_wildcard(readers, reader);
    memcpy(copy, parent.data, parent.size);
    reader->parent = copy;
    reader->parent_size = parent.size;
    reader->parent_hash = rp_hash_bytes(parent.data, parent.size, 0);
    reader->next_wildcard = readers->wildcards;
    readers->wildcards = reader;
    readers->wildcard_count++;
    watch(readers);
    return RP_OK;
}

int rp_lite_read_all(rp_lite_readers *readers, rp_group *group, rp_slice parent) {
    pthread_mutex_lock(&readers->lock);
    rp_lite_reader *reader = open_reader(readers, group, (rp_slice){NULL, 0});
    int status = reader != NULL ? open_wildcard(readers, reader, parent) : RP_E_NO_MEMORY;
    if (reader != NULL)
        rp_lite_let_go_of_reader(readers, reader);
    pthread_mutex_unlock(&readers->lock);
    return status;
}

rp_lite_interest *rp_lite_wildcard_interest(rp_lite_readers *readers, rp_lite_reader *reader, rp_consume_queue *queue) {
    rp_lite_interest *interest = open_interest(readers, reader->group, rp_consume_queue_topic(queue));
    int status = interest == NULL ? RP_E_NO_MEMORY : RP_OK;
    if (interest != NULL && find_subscription(interest, reader) == NULL)
        status = add_subscription(readers, interest, reader);
    if (status == RP_OK)
        return interest;
    reader->has_missed = 1;
    if (interest != NULL)
        rp_lite_let_go_of_interest(readers, interest);
    return NULL;
}

int rp_lite_has_missed(rp_lite_readers *readers, const rp_group *group) {
    pthread_mutex_lock(&readers->lock);
    rp_lite_reader *reader = rp_lite_find_reader(readers, group, (rp_slice){NULL, 0});
    int has_missed = reader != NULL && reader->has_missed;
    if (has_missed)
        reader->has_missed = 0;
    pthread_mutex_unlock(&readers->lock);
    return has_missed;
}

void rp_lite_drop_idle(rp_lite_readers *readers, rp_lite_interest *interest) {
    rp_lite_subscription *one = interest->shares;
    if (one != NULL && one->next_share == NULL && one->reader->parent != NULL && !one->is_ready && interest->looks == 0 &&
        interest->heap_place == RP_LITE_NOT_HELD)
        remove_subscription(readers, one);
}

/* ---- what operators ask ---- */

void rp_lite_read_counts(rp_lite_readers *readers, rp_lite_counts *counts) {
    pthread_mutex_lock(&readers->lock);
    *counts = (rp_lite_counts){readers->reader_count, readers->subscription_count, readers->heap_size};
    pthread_mutex_unlock(&readers->lock);
}

int64_t rp_lite_last_pop_ns(rp_lite_readers *readers, const rp_group *group, rp_slice client) {
    pthread_mutex_lock(&readers->lock);
    const rp_lite_reader *reader = rp_lite_find_reader(readers, group, client);
    int64_t at_ns = reader != NULL ? reader->last_pop_ns : -1;
    pthread_mutex_unlock(&readers->lock);
    return at_ns;
}

rp_lite_reader *rp_lite_reader_open(rp_lite_readers *readers, rp_group *group, rp_slice client, int is_wildcard, int64_t now_ns) {
    pthread_mutex_lock(&readers->lock);
    rp_lite_reader *reader = open_reader(readers, group, is_wildcard ? (rp_slice){NULL, 0} : client);
    if (reader != NULL) {
        reader->opens++;
        reader->last_pop_ns = now_ns;
    }
    pthread_mutex_unlock(&readers->lock);
    return reader;
}

void rp_lite_reader_close(rp_lite_readers *readers, rp_lite_reader *reader) {
    pthread_mutex_lock(&readers->lock);
    reader->opens--;
    rp_lite_let_go_of_reader(readers, reader);
    pthread_mutex_unlock(&readers->lock);
}
