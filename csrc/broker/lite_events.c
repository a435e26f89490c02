/* lite_events.c: the events of lite queues, and which readers are told of them (lite_readers.h). */
#include <stdlib.h>

#include "../base/error.h"
#include "../base/hash.h"
#include "../base/slice_inl.h"
#include "../store/light_queue.h"
#include "lite_readers_inl.h"

#define EXPIRED_MAX 1024 /* in one turn; the rest follows in the next */
#define PASSED_MAX 64 /* subscriptions of a reader whose other readers are told at once; further ones stay ready for the next reader */

/* ---- held: a binary heap that knows where each stands ---- */

static void place(rp_lite_readers *readers, uint32_t at, rp_lite_interest *interest) {
    readers->heap[at] = interest;
    interest->heap_place = at;
}

static void sift(rp_lite_readers *readers, uint32_t at, rp_lite_interest *interest) {
    while (at > 0 && readers->heap[(at - 1) / 2]->due_ns > interest->due_ns) {
        place(readers, at, readers->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= readers->heap_size)
            break;
        if (child + 1 < readers->heap_size && readers->heap[child + 1]->due_ns < readers->heap[child]->due_ns)
            child++;
        if (readers->heap[child]->due_ns >= interest->due_ns)
            break;
        place(readers, at, readers->heap[child]);
        at = child;
    }
    place(readers, at, interest);
}

static void note_due(rp_lite_readers *readers) {
    atomic_store_explicit(&readers->due_ns, readers->heap_size > 0 ? readers->heap[0]->due_ns : INT64_MAX, memory_order_release);
}

/* 1: it is now the first. */
static int hold(rp_lite_readers *readers, rp_lite_interest *interest, int64_t due_ns) {
    uint32_t at = interest->heap_place;
    interest->due_ns = due_ns;
    interest->changes++;
    if (at == RP_LITE_NOT_HELD)
        at = readers->heap_size++; /* the heap has room for every interest */
    sift(readers, at, interest);
    note_due(readers);
    return interest->heap_place == 0;
}

void rp_lite_not_held(rp_lite_readers *readers, rp_lite_interest *interest) {
    interest->changes++;
    if (interest->heap_place == RP_LITE_NOT_HELD)
        return;
    rp_lite_interest *last = readers->heap[--readers->heap_size];
    if (last != interest)
        sift(readers, interest->heap_place, last);
    interest->heap_place = RP_LITE_NOT_HELD;
    note_due(readers);
}

int64_t rp_lite_due_ns(const rp_lite_readers *readers) { return atomic_load_explicit(&readers->due_ns, memory_order_acquire); }

/* ---- ready ---- */

static void be_ready(rp_lite_subscription *one) {
    rp_lite_reader *reader = one->reader;
    if (one->is_ready)
        return;
    one->is_ready = 1;
    one->previous_ready = reader->last_ready;
    one->next_ready = NULL;
    if (reader->last_ready != NULL)
        reader->last_ready->next_ready = one;
    else
        reader->first_ready = one;
    reader->last_ready = one;
}

void rp_lite_not_ready(rp_lite_subscription *one) {
    rp_lite_reader *reader = one->reader;
    if (!one->is_ready)
        return;
    one->is_ready = 0;
    if (one->previous_ready != NULL)
        one->previous_ready->next_ready = one->next_ready;
    else
        reader->first_ready = one->next_ready;
    if (one->next_ready != NULL)
        one->next_ready->previous_ready = one->previous_ready;
    else
        reader->last_ready = one->previous_ready;
}

/* A subscription whose queue has had no message yet becomes ready with the first one. */
void rp_lite_ready(rp_lite_interest *interest) {
    for (rp_lite_subscription *one = interest->queue != NULL ? interest->shares : NULL; one != NULL; one = one->next_share)
        be_ready(one);
}

/* ---- waking ---- */

static void wake(rp_lite_readers *readers, rp_lite_waits *waits) {
    rp_lite_waits **first = &readers->woken[waits->lane];
    waits->is_woken = 1;
    waits->reader->woken++;
    waits->previous_woken = NULL;
    waits->next_woken = *first;
    if (*first != NULL)
        (*first)->previous_woken = waits;
    *first = waits;
    atomic_fetch_add_explicit(&readers->woken_count[waits->lane], 1, memory_order_release);
    rp_reactor_wake(waits->reactor);
}

static void unlink_woken(rp_lite_readers *readers, rp_lite_waits *waits) {
    waits->is_woken = 0;
    waits->reader->woken--;
    if (waits->previous_woken != NULL)
        waits->previous_woken->next_woken = waits->next_woken;
    else
        readers->woken[waits->lane] = waits->next_woken;
    if (waits->next_woken != NULL)
        waits->next_woken->previous_woken = waits->previous_woken;
    atomic_fetch_sub_explicit(&readers->woken_count[waits->lane], 1, memory_order_release);
}

/* Wakes a waiting pop of the reader that is not woken yet. 1: there was one. */
static int wake_reader(rp_lite_readers *readers, const rp_lite_reader *reader) {
    for (rp_lite_waits *waits = reader->waits; waits != NULL; waits = waits->next) {
        if (!waits->is_woken) {
            wake(readers, waits);
            return 1;
        }
    }
    return 0;
}

void rp_lite_wake(rp_lite_readers *readers, const rp_lite_interest *interest) {
    const rp_lite_reader *waiting = NULL;
    for (const rp_lite_subscription *one = interest->shares; one != NULL; one = one->next_share) {
        if (!one->is_ready)
            continue;
        if (one->reader->woken > 0)
            return; /* it looks, and passes on what it leaves */
        if (waiting == NULL && one->reader->waits != NULL)
            waiting = one->reader;
    }
    if (waiting != NULL)
        wake_reader(readers, waiting);
}

/* Under the lock. A reader that was woken looks already, and passes on what it leaves. */
static int pass_on(rp_lite_readers *readers, const rp_lite_reader *reader) {
    int told = reader->first_ready != NULL && (reader->woken > 0 || wake_reader(readers, reader));
    uint32_t left = told ? 0 : PASSED_MAX;
    for (const rp_lite_subscription *one = reader->first_ready; one != NULL && left > 0; one = one->next_ready, left--) {
        for (const rp_lite_subscription *share = one->interest->shares; share != NULL; share = share->next_share) {
            if (share->reader != reader && (share->reader->woken > 0 || wake_reader(readers, share->reader))) {
                told = 1;
                break;
            }
        }
    }
    return told;
}

int rp_lite_pass_on(rp_lite_readers *readers, rp_lite_reader *reader) {
    pthread_mutex_lock(&readers->lock);
    int told = pass_on(readers, reader);
    pthread_mutex_unlock(&readers->lock);
    return told;
}

/* ---- events ---- */

static void tell(rp_lite_readers *readers, rp_lite_interest *interest) {
    rp_lite_ready(interest);
    rp_lite_wake(readers, interest);
}

static void arrived_for(rp_lite_readers *readers, rp_lite_interest *interest, rp_consume_queue *queue) {
    interest->queue = queue;
    if (interest->heap_place == RP_LITE_NOT_HELD)
        tell(readers, interest);
}

static void arrived_for_wildcards(rp_lite_readers *readers, rp_consume_queue *queue) {
    rp_slice parent, lite;
    if (readers->wildcards == NULL || !rp_lite_queue_parts(rp_consume_queue_topic(queue), &parent, &lite))
        return;
    uint64_t hash = rp_hash_bytes(parent.data, parent.size, 0);
    for (rp_lite_reader *reader = readers->wildcards; reader != NULL; reader = reader->next_wildcard) {
        if (reader->parent_hash != hash || !rp_slice_equals((rp_slice){reader->parent, reader->parent_size}, parent))
            continue;
        rp_lite_interest *interest = rp_lite_wildcard_interest(readers, reader, queue);
        if (interest != NULL)
            arrived_for(readers, interest, queue);
    }
}

void rp_lite_arrived(rp_lite_readers *readers, rp_consume_queue *queue) {
    atomic_thread_fence(memory_order_seq_cst); /* the entry was published before this */
    if (atomic_load(&readers->watched) == 0)   /* a new reader sets `watched` and then looks at what is there */
        return;
    pthread_mutex_lock(&readers->lock);
    rp_lite_interest *interest = rp_lite_first_interest(readers, rp_consume_queue_topic(queue));
    for (; interest != NULL; interest = interest->next)
        arrived_for(readers, interest, queue);
    arrived_for_wildcards(readers, queue);
    pthread_mutex_unlock(&readers->lock);
}

int rp_lite_offer(rp_lite_readers *readers, const rp_group *group, rp_consume_queue *queue) {
    pthread_mutex_lock(&readers->lock);
    rp_lite_reader *reader = rp_lite_find_reader(readers, group, (rp_slice){NULL, 0});
    int is_wildcard = reader != NULL && reader->parent != NULL;
    rp_lite_interest *interest = is_wildcard ? rp_lite_wildcard_interest(readers, reader, queue)
                                             : rp_lite_find_interest(readers, group, rp_consume_queue_topic(queue));
    if (interest != NULL)
        arrived_for(readers, interest, queue);
    pthread_mutex_unlock(&readers->lock);
    return interest != NULL ? RP_OK : is_wildcard ? RP_E_BUSY : RP_E_NOT_FOUND;
}

/* A message that arrived while the queue was held is seen here, or its arrival is. */
void rp_lite_freed(rp_lite_readers *readers, const rp_group *group, rp_slice name, int64_t next) {
    pthread_mutex_lock(&readers->lock);
    rp_lite_interest *interest = rp_lite_find_interest(readers, group, name);
    if (interest != NULL) {
        rp_lite_not_held(readers, interest);
        if (interest->queue != NULL && rp_consume_queue_max_offset(interest->queue) > next)
            tell(readers, interest);
        else
            rp_lite_drop_idle(readers, interest);
    }
    pthread_mutex_unlock(&readers->lock);
}

int rp_lite_hold(rp_lite_readers *readers, const rp_group *group, rp_slice name, int64_t due_ns) {
    pthread_mutex_lock(&readers->lock);
    rp_lite_interest *interest = rp_lite_find_interest(readers, group, name);
    int is_first = interest != NULL && hold(readers, interest, due_ns);
    pthread_mutex_unlock(&readers->lock);
    return is_first;
}

static void look_again(rp_lite_readers *readers, rp_lite_interest *interest) {
    rp_lite_not_held(readers, interest);
    tell(readers, interest);
}

void rp_lite_look_again(rp_lite_readers *readers, const rp_group *group, rp_slice name) {
    pthread_mutex_lock(&readers->lock);
    rp_lite_interest *interest = rp_lite_find_interest(readers, group, name);
    if (interest != NULL)
        look_again(readers, interest);
    pthread_mutex_unlock(&readers->lock);
}

static void look_at_all_of(rp_lite_readers *readers, const rp_lite_reader *reader) {
    for (const rp_lite_subscription *one = reader->subscriptions; one != NULL; one = one->next) {
        if (one->interest->heap_place == RP_LITE_NOT_HELD)
            tell(readers, one->interest);
    }
}

void rp_lite_look_at_all(rp_lite_readers *readers, const rp_group *group, rp_slice client) {
    pthread_mutex_lock(&readers->lock);
    for (uint32_t i = 0; i < readers->reader_buckets; i++) {
        for (const rp_lite_reader *reader = readers->readers[i]; reader != NULL; reader = reader->next) {
            if (reader->group == group && (client.data == NULL || rp_slice_equals(reader->client, client)))
                look_at_all_of(readers, reader);
        }
    }
    pthread_mutex_unlock(&readers->lock);
}

void rp_lite_expire(rp_lite_readers *readers, int64_t now_ns) {
    if (rp_lite_due_ns(readers) > now_ns)
        return;
    pthread_mutex_lock(&readers->lock);
    for (int left = EXPIRED_MAX; left > 0 && readers->heap_size > 0 && readers->heap[0]->due_ns <= now_ns; left--)
        look_again(readers, readers->heap[0]);
    pthread_mutex_unlock(&readers->lock);
}

void rp_lite_look_at_held(rp_lite_readers *readers) {
    pthread_mutex_lock(&readers->lock);
    while (readers->heap_size > 0)
        look_again(readers, readers->heap[0]);
    pthread_mutex_unlock(&readers->lock);
}

/* ---- pops ---- */

int rp_lite_take(rp_lite_readers *readers, rp_lite_reader *reader, rp_lite_look *look) {
    pthread_mutex_lock(&readers->lock);
    rp_lite_subscription *one = reader->first_ready;
    if (one != NULL) {
        rp_lite_interest *interest = one->interest;
        rp_lite_not_ready(one);
        interest->looks++;
        *look = (rp_lite_look){interest, interest->of->name, interest->topic, interest->queue, interest->changes};
    }
    pthread_mutex_unlock(&readers->lock);
    return one != NULL;
}

int rp_lite_put_back(rp_lite_readers *readers, const rp_lite_look *look, enum rp_lite_found found, int64_t due_ns) {
    rp_lite_interest *interest = look->interest;
    int is_first = 0;
    pthread_mutex_lock(&readers->lock);
    interest->looks--;
    interest->topic = look->topic;
    if (interest->is_gone)
        rp_lite_let_go_of_interest(readers, interest);
    else if (found == RP_LITE_HELD && interest->changes == look->changes)
        is_first = hold(readers, interest, due_ns);
    else if (found == RP_LITE_HELD) /* it was acked, or changed, meanwhile */
        tell(readers, interest);
    else if (found == RP_LITE_AGAIN)
        rp_lite_ready(interest);
    else
        rp_lite_drop_idle(readers, interest);
    pthread_mutex_unlock(&readers->lock);
    return is_first;
}

rp_lite_waits *rp_lite_wait(rp_lite_readers *readers, rp_lite_reader *reader, rp_reactor *reactor, uint16_t lane, int *is_ready) {
    pthread_mutex_lock(&readers->lock);
    rp_lite_waits *waits = reader->waits;
    while (waits != NULL && waits->lane != lane)
        waits = waits->next;
    if (waits == NULL && (waits = calloc(1, sizeof *waits)) != NULL) {
        waits->reader = reader;
        waits->reactor = reactor;
        waits->lane = lane;
        waits->next = reader->waits;
        reader->waits = waits;
    }
    *is_ready = reader->first_ready != NULL;
    pthread_mutex_unlock(&readers->lock);
    return waits;
}

void rp_lite_unwait(rp_lite_readers *readers, rp_lite_waits *waits) {
    rp_lite_reader *reader = waits->reader;
    pthread_mutex_lock(&readers->lock);
    if (waits->is_woken)
        unlink_woken(readers, waits);
    rp_lite_waits **at = &reader->waits;
    while (*at != waits)
        at = &(*at)->next;
    *at = waits->next;
    free(waits);
    /* The reader was woken and has not looked, or was to look again: nobody else was told of what is there. */
    (void)pass_on(readers, reader);
    rp_lite_let_go_of_reader(readers, reader);
    pthread_mutex_unlock(&readers->lock);
}

rp_lite_waits *rp_lite_next_woken(rp_lite_readers *readers, uint16_t lane) {
    if (atomic_load_explicit(&readers->woken_count[lane], memory_order_acquire) == 0)
        return NULL;
    pthread_mutex_lock(&readers->lock);
    rp_lite_waits *waits = readers->woken[lane];
    if (waits != NULL)
        unlink_woken(readers, waits);
    pthread_mutex_unlock(&readers->lock);
    return waits;
}
