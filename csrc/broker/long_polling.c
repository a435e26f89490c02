/* long_polling.c: see long_polling.h. */
#include "long_polling.h"

#include <stdlib.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "lane.h"
#include "pull_path.h"

#define PULLS_A_BLOCK 64u
#define HEAP_FIRST 64u
#define CONNECTIONS_FIRST 64u
#define CHOKED_LOOK_NS (100 * RP_NS_PER_MS)
#define SUSPEND_MS_MAX (INT64_C(24) * 3600 * 1000)
#define SUSPENDED_WORDS_MAX (UINT64_C(16) << 20) /* 64 MB */

struct rp_suspended_pull {
    rp_pull pull;
    int32_t *words; /* the filter's words, owned; NULL without a filter */
    int64_t deadline_ns;
    int64_t look_ns; /* when to try again without an arrival: the deadline, or earlier while its connection is choked */
    uint32_t heap_place;
    rp_queue_waits *waits;
    rp_suspended_pull *previous, *next; /* in its queue's list */
    rp_suspended_pull *chain_previous, *chain_next; /* in the list of its hash bucket of connections */
};

typedef struct pull_block {
    struct pull_block *next;
    rp_suspended_pull pulls[PULLS_A_BLOCK];
} pull_block;

/* The pulls of one lane on one queue. Created once, freed with the topic table. */
struct rp_queue_waits {
    rp_lane *lane;             /* fixed */
    rp_queue_slot *slot;       /* fixed */
    rp_suspended_pull *first, *last; /* lane's thread */
    rp_consume_queue *marked;  /* owned by the lane's thread: the queue in whose mask our bit is set */
    _Atomic int32_t queued;    /* 1 while in the arrivals stack; acq_rel exchange on both sides */
    rp_queue_waits *next;      /* in the arrivals stack; owned by the thread that set queued */
};

/* All lanes' waits on one queue. */
struct rp_queue_waiters {
    _Atomic(rp_queue_waits *) lanes[RP_LANES_MAX]; /* released by the lane, acquired by appenders */
};

void rp_queue_waiters_free(rp_queue_waiters *waiters) {
    if (waiters == NULL)
        return;
    for (uint32_t i = 0; i < RP_LANES_MAX; i++)
        free(atomic_load_explicit(&waiters->lanes[i], memory_order_relaxed));
    free(waiters);
}

/* ---- deadlines: a binary heap in which each pull knows its place ---- */

static void place(rp_suspended_pulls *pulls, uint32_t at, rp_suspended_pull *pull) {
    pulls->heap[at] = pull;
    pull->heap_place = at;
}

static void sift(rp_suspended_pulls *pulls, uint32_t at, rp_suspended_pull *pull) {
    while (at > 0 && pulls->heap[(at - 1) / 2]->look_ns > pull->look_ns) {
        place(pulls, at, pulls->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= pulls->heap_size)
            break;
        if (child + 1 < pulls->heap_size && pulls->heap[child + 1]->look_ns < pulls->heap[child]->look_ns)
            child++;
        if (pulls->heap[child]->look_ns >= pull->look_ns)
            break;
        place(pulls, at, pulls->heap[child]);
        at = child;
    }
    place(pulls, at, pull);
}

static int heap_push(rp_suspended_pulls *pulls, rp_suspended_pull *pull) {
    if (pulls->heap_size == pulls->heap_capacity) {
        uint32_t capacity = pulls->heap_capacity > 0 ? pulls->heap_capacity * 2 : HEAP_FIRST;
        rp_suspended_pull **heap = realloc(pulls->heap, capacity * sizeof *heap);
        if (heap == NULL)
            return RP_E_NO_MEMORY;
        pulls->heap = heap;
        pulls->heap_capacity = capacity;
    }
    sift(pulls, pulls->heap_size++, pull);
    return RP_OK;
}

static void heap_remove(rp_suspended_pulls *pulls, rp_suspended_pull *pull) {
    rp_suspended_pull *last = pulls->heap[--pulls->heap_size];
    if (last != pull)
        sift(pulls, pull->heap_place, last);
}

int64_t rp_long_polling_deadline(const rp_suspended_pulls *pulls) { return pulls->heap_size > 0 ? pulls->heap[0]->look_ns : INT64_MAX; }

/* ---- pulls by connection, so that a closed one takes its pulls along ---- */

static uint32_t bucket_of(const rp_suspended_pulls *pulls, uint64_t connection_id) {
    return (uint32_t)((connection_id * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & pulls->connection_mask;
}

static void chain_pull(rp_suspended_pulls *pulls, rp_suspended_pull *pull) {
    rp_suspended_pull **bucket = &pulls->by_connection[bucket_of(pulls, pull->pull.connection_id)];
    pull->chain_previous = NULL;
    pull->chain_next = *bucket;
    if (*bucket != NULL)
        (*bucket)->chain_previous = pull;
    *bucket = pull;
}

static void unchain_pull(rp_suspended_pulls *pulls, rp_suspended_pull *pull) {
    if (pull->chain_previous != NULL)
        pull->chain_previous->chain_next = pull->chain_next;
    else
        pulls->by_connection[bucket_of(pulls, pull->pull.connection_id)] = pull->chain_next;
    if (pull->chain_next != NULL)
        pull->chain_next->chain_previous = pull->chain_previous;
}

/* Keeps at least as many buckets as pulls; without memory for more the chains get longer. */
static int size_buckets(rp_suspended_pulls *pulls) {
    uint32_t buckets = pulls->by_connection != NULL ? pulls->connection_mask + 1 : 0;
    if (pulls->heap_size < buckets)
        return RP_OK;
    uint32_t more = buckets > 0 ? buckets * 2 : CONNECTIONS_FIRST;
    rp_suspended_pull **chains = calloc(more, sizeof *chains);
    if (chains == NULL)
        return buckets > 0 ? RP_OK : RP_E_NO_MEMORY;
    free(pulls->by_connection);
    pulls->by_connection = chains;
    pulls->connection_mask = more - 1;
    for (uint32_t i = 0; i < pulls->heap_size; i++)
        chain_pull(pulls, pulls->heap[i]);
    return RP_OK;
}

/* ---- coming and going ---- */

static rp_suspended_pull *take_free(rp_suspended_pulls *pulls) {
    if (pulls->free_list == NULL) {
        pull_block *block = malloc(sizeof *block);
        if (block == NULL)
            return NULL;
        block->next = pulls->blocks;
        pulls->blocks = block;
        for (uint32_t i = 0; i < PULLS_A_BLOCK; i++) {
            block->pulls[i].next = pulls->free_list;
            pulls->free_list = &block->pulls[i];
        }
    }
    rp_suspended_pull *pull = pulls->free_list;
    pulls->free_list = pull->next;
    return pull;
}

static void give_back(rp_lane *lane, rp_suspended_pull *pull) {
    rp_suspended_pulls *pulls = &lane->suspended;
    if (pull->words != NULL)
        atomic_fetch_sub_explicit(&lane->broker->suspended_words, pull->pull.filter.count, memory_order_relaxed);
    free(pull->words);
    pull->next = pulls->free_list;
    pulls->free_list = pull;
}

static void append_to_waits(rp_queue_waits *waits, rp_suspended_pull *pull) {
    pull->waits = waits;
    pull->previous = waits->last;
    pull->next = NULL;
    if (waits->last != NULL)
        waits->last->next = pull;
    else
        waits->first = pull;
    waits->last = pull;
}

static void remove_from_waits(rp_suspended_pull *pull) {
    rp_queue_waits *waits = pull->waits;
    if (pull->previous != NULL)
        pull->previous->next = pull->next;
    else
        waits->first = pull->next;
    if (pull->next != NULL)
        pull->next->previous = pull->previous;
    else
        waits->last = pull->previous;
}

static void set_later(rp_lane *lane, rp_suspended_pull *pull, int is_later) {
    lane->filters_waiting += (uint32_t)is_later - pull->pull.later;
    pull->pull.later = (uint8_t)is_later;
}

static void drop(rp_lane *lane, rp_suspended_pull *pull) {
    set_later(lane, pull, 0);
    remove_from_waits(pull);
    heap_remove(&lane->suspended, pull);
    unchain_pull(&lane->suspended, pull);
    give_back(lane, pull);
    atomic_fetch_sub_explicit(&lane->broker->suspended_now, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&lane->counters.pulls_suspended, 1, memory_order_relaxed);
}

void rp_suspended_pulls_free(rp_suspended_pulls *pulls) {
    for (uint32_t i = 0; i < pulls->heap_size; i++)
        free(pulls->heap[i]->words);
    while (pulls->blocks != NULL) {
        pull_block *next = pulls->blocks->next;
        free(pulls->blocks);
        pulls->blocks = next;
    }
    free(pulls->heap);
    free(pulls->by_connection);
    *pulls = (rp_suspended_pulls){.heap = NULL};
}

static rp_queue_waits *waits_of(rp_lane *lane, rp_queue_slot *slot) {
    rp_queue_waiters *waiters = atomic_load_explicit(&slot->waiters, memory_order_acquire);
    if (waiters == NULL) {
        rp_queue_waiters *made = calloc(1, sizeof *made);
        if (made == NULL)
            return NULL;
        if (atomic_compare_exchange_strong(&slot->waiters, &waiters, made))
            waiters = made;
        else
            free(made);
    }
    rp_queue_waits *waits = atomic_load_explicit(&waiters->lanes[lane->index], memory_order_relaxed);
    if (waits == NULL && (waits = calloc(1, sizeof *waits)) != NULL) {
        waits->lane = lane;
        waits->slot = slot;
        atomic_store_explicit(&waiters->lanes[lane->index], waits, memory_order_release);
    }
    return waits;
}

/* NULL: no memory, or the bound of filters is reached. */
static int32_t *copy_words(rp_broker *broker, const rp_message_filter *filter) {
    uint64_t before = atomic_fetch_add_explicit(&broker->suspended_words, filter->count, memory_order_relaxed);
    int32_t *words = before + filter->count <= SUSPENDED_WORDS_MAX ? malloc(filter->count * sizeof *words) : NULL;
    if (words != NULL)
        memcpy(words, filter->words, filter->count * sizeof *words);
    else
        atomic_fetch_sub_explicit(&broker->suspended_words, filter->count, memory_order_relaxed);
    return words;
}

static rp_suspended_pull *make_suspended(rp_lane *lane, const rp_pull *pull) {
    rp_suspended_pulls *pulls = &lane->suspended;
    rp_queue_waits *waits = waits_of(lane, pull->slot);
    rp_suspended_pull *made = waits != NULL && size_buckets(pulls) == RP_OK ? take_free(pulls) : NULL;
    if (made == NULL)
        return NULL;
    int64_t wait_ms = pull->suspend_ms < 0 ? 0 : pull->suspend_ms > SUSPEND_MS_MAX ? SUSPEND_MS_MAX : pull->suspend_ms;
    made->pull = *pull;
    made->words = NULL;
    made->deadline_ns = made->look_ns = rp_reactor_now_ns(lane->reactor) + wait_ms * RP_NS_PER_MS;
    if (pull->filter.count > 0 && (made->words = copy_words(lane->broker, &pull->filter)) == NULL) {
        give_back(lane, made);
        return NULL;
    }
    made->pull.filter.words = made->words;
    if (heap_push(pulls, made) != RP_OK) {
        give_back(lane, made);
        return NULL;
    }
    chain_pull(pulls, made);
    append_to_waits(waits, made);
    return made;
}

static void look_at(rp_suspended_pulls *pulls, rp_suspended_pull *pull, int64_t look_ns) {
    pull->look_ns = look_ns < pull->deadline_ns ? look_ns : pull->deadline_ns;
    sift(pulls, pull->heap_place, pull);
}

/* Asks to be told of arrivals in the queue. 1: that is new. */
static int mark(const rp_lane *lane, rp_queue_waits *waits, rp_consume_queue *queue) {
    if (waits->marked == queue)
        return 0;
    rp_consume_queue_set_waiting(queue, lane->index);
    waits->marked = queue;
    return 1;
}

/* Tries one pull again, after an arrival or because there is time for its filter. Returns its outcome. It may have found that another
 * queue has replaced the one it waited on. */
static int retry_pull(rp_lane *lane, rp_suspended_pull *pull) {
    int64_t now_ns = rp_reactor_now_ns(lane->reactor);
    int outcome;
    do {
        outcome = rp_pull_path_retry(lane, &pull->pull, RP_PULL_WOKEN);
    } while (outcome != RP_PULL_DONE && mark(lane, pull->waits, pull->pull.queue));
    if (outcome == RP_PULL_DONE) {
        drop(lane, pull);
        return outcome;
    }
    set_later(lane, pull, outcome == RP_PULL_LATER);
    look_at(&lane->suspended, pull, outcome == RP_PULL_LATER ? now_ns : outcome == RP_PULL_CHOKED ? now_ns + CHOKED_LOOK_NS : INT64_MAX);
    return outcome;
}

int rp_long_polling_suspend(rp_lane *lane, const rp_pull *pull) {
    rp_broker *broker = lane->broker;
    if (atomic_fetch_add_explicit(&broker->suspended_now, 1, memory_order_relaxed) >= broker->options.suspended_pulls_max) {
        atomic_fetch_sub_explicit(&broker->suspended_now, 1, memory_order_relaxed);
        return 0;
    }
    rp_suspended_pull *made = make_suspended(lane, pull);
    if (made == NULL) {
        atomic_fetch_sub_explicit(&broker->suspended_now, 1, memory_order_relaxed);
        return 0;
    }
    atomic_fetch_add_explicit(&lane->counters.pulls_suspended, 1, memory_order_relaxed);
    rp_queue_waits *waits = made->waits;
    int look_again = pull->cold;
    if (pull->later) {
        lane->filters_waiting++;
        look_at(&lane->suspended, made, rp_reactor_now_ns(lane->reactor));
    }
    if (mark(lane, waits, pull->queue))
        look_again |= rp_consume_queue_max_offset(pull->queue) > made->pull.from ||
                      atomic_load_explicit(&pull->slot->queue, memory_order_acquire) != pull->queue;
    if (look_again && !pull->later)
        retry_pull(lane, made);
    if (lane->suspended.heap_size > 0 && lane->suspended.heap[0] == made)
        rp_lane_schedule(lane);
    return 1;
}

int rp_long_polling_mark(rp_lane *lane, rp_queue_slot *slot, rp_consume_queue *queue) {
    rp_queue_waits *waits = waits_of(lane, slot);
    return waits != NULL ? mark(lane, waits, queue) : RP_E_NO_MEMORY;
}

/* ---- waking ---- */

static void push_arrival(rp_queue_waits *waits) {
    if (atomic_exchange_explicit(&waits->queued, 1, memory_order_acq_rel) != 0)
        return; /* the lane has not taken the last arrival yet, and will see this message too */
    _Atomic(rp_queue_waits *) *stack = &waits->lane->suspended.arrivals;
    waits->next = atomic_load_explicit(stack, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(stack, &waits->next, waits, memory_order_release, memory_order_relaxed)) {
    }
    rp_reactor_wake(waits->lane->reactor);
}

void rp_long_polling_arrived(void *context, rp_consume_queue *queue, uint64_t waiting) {
    (void)context;
    rp_queue_slot *slot = rp_consume_queue_user(queue);
    rp_queue_waiters *waiters = slot != NULL ? atomic_load_explicit(&slot->waiters, memory_order_acquire) : NULL;
    while (waiters != NULL && waiting != 0) {
        uint32_t lane = (uint32_t)__builtin_ctzll(waiting);
        waiting &= waiting - 1;
        rp_queue_waits *waits = atomic_load_explicit(&waiters->lanes[lane], memory_order_acquire);
        if (waits != NULL)
            push_arrival(waits);
    }
}

void rp_long_polling_wake(rp_queue_slot *slot) {
    rp_queue_waiters *waiters = atomic_load_explicit(&slot->waiters, memory_order_acquire);
    for (uint32_t i = 0; waiters != NULL && i < RP_LANES_MAX; i++) {
        rp_queue_waits *waits = atomic_load_explicit(&waiters->lanes[i], memory_order_acquire);
        if (waits != NULL)
            push_arrival(waits);
    }
}

static void wake_slot(void *context, rp_queue_slot *slot) {
    (void)context;
    rp_long_polling_wake(slot);
}

void rp_long_polling_topic_changed(rp_topic *topic) { rp_topic_each_slot(topic, wake_slot, NULL); }

static void retry_waits(rp_lane *lane, rp_queue_waits *waits) {
    if (waits->first == NULL && waits->marked != NULL && !rp_pop_waits_wait_on(lane, waits->slot->topic)) {
        rp_consume_queue_clear_waiting(waits->marked, lane->index);
        waits->marked = NULL;
    }
    rp_suspended_pull *last = waits->last;
    for (rp_suspended_pull *pull = waits->first, *next; pull != NULL; pull = next) {
        next = pull != last ? pull->next : NULL; /* pulls suspended meanwhile have looked already */
        rp_count(&lane->counters.pulls_woken, 1);
        retry_pull(lane, pull);
    }
    rp_pop_waits_arrived(lane, waits->slot);
}

/* Refuses each pull as if it arrived now. */
static void dismiss(rp_lane *lane) {
    rp_suspended_pulls *pulls = &lane->suspended;
    while (pulls->heap_size > 0) {
        rp_suspended_pull *pull = pulls->heap[pulls->heap_size - 1];
        rp_pull_path_retry(lane, &pull->pull, RP_PULL_LAST);
        drop(lane, pull);
    }
    rp_pop_waits_dismiss(lane);
}

void rp_long_polling_drain(rp_lane *lane) {
    if (atomic_load_explicit(&lane->broker->pulls_dismissed, memory_order_acquire))
        dismiss(lane);
    int64_t earliest_ns = rp_lane_deadline(lane);
    rp_queue_waits *waits = atomic_exchange_explicit(&lane->suspended.arrivals, NULL, memory_order_acquire);
    while (waits != NULL) {
        rp_queue_waits *next = waits->next; /* read before it can be pushed again */
        atomic_exchange_explicit(&waits->queued, 0, memory_order_acq_rel);
        retry_waits(lane, waits);
        waits = next;
    }
    if (rp_lane_deadline(lane) < earliest_ns)
        rp_lane_schedule(lane);
}

int64_t rp_long_polling_expire(rp_lane *lane, int64_t now_ns) {
    rp_suspended_pulls *pulls = &lane->suspended;
    while (pulls->heap_size > 0 && pulls->heap[0]->look_ns <= now_ns) {
        rp_suspended_pull *pull = pulls->heap[0];
        if (pull->deadline_ns > now_ns) {
            if (retry_pull(lane, pull) == RP_PULL_LATER)
                break; /* the turn has no time for the others either; in the next one the pull that has waited longest goes first */
            continue;
        }
        rp_pull_path_retry(lane, &pull->pull, RP_PULL_LAST);
        drop(lane, pull);
    }
    return rp_long_polling_deadline(pulls);
}

void rp_long_polling_connection_closed(rp_lane *lane, uint64_t connection_id) {
    rp_suspended_pulls *pulls = &lane->suspended;
    if (pulls->heap_size == 0)
        return;
    rp_suspended_pull *next;
    for (rp_suspended_pull *pull = pulls->by_connection[bucket_of(pulls, connection_id)]; pull != NULL; pull = next) {
        next = pull->chain_next;
        if (pull->pull.connection_id == connection_id)
            drop(lane, pull);
    }
}
