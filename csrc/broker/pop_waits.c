/* pop_waits.c: see pop_waits.h. */
#include "pop_waits.h"

#include <stdlib.h>
#include <string.h>

#include "../base/clock.h"
#include "../base/clock_inl.h"
#include "../base/slice_inl.h"
#include "lane.h"
#include "lite_readers.h"
#include "pop_choice.h"
#include "pop_path.h"

#define HEAP_FIRST 64u
#define MISSES_MAX 4      /* per arrival, of one group, whose pops may differ in queue and filter */
#define WORDS_MAX (UINT64_C(16) << 20) /* of filters, including those of waiting pulls */
#define LOOK_MS_MIN 1

struct rp_waiting_pop {
    rp_pop pop;
    int32_t *words;  /* the filter's words, owned; NULL without a filter */
    uint8_t *attempt; /* owned; NULL without an attempt id */
    int64_t deadline_ns, look_ns;
    uint32_t heap_place;
    rp_pop_list *list;
    rp_waiting_pop *previous, *next;
    rp_waiting_pop *chain_previous, *chain_next; /* in its bucket of connections */
};

/* A list's entry under one of the topics that its pops look at. */
typedef struct rp_pop_key {
    rp_topic *topic; /* NULL: does not exist yet */
    rp_pop_list *list;
    struct rp_pop_key *next; /* in the bucket */
    uint32_t generation;     /* generation of the topic when its queues were marked, like the next */
    int32_t queues;
} rp_pop_key;

#define KEYS 3 /* the topic and its retry topics */
struct rp_pop_list {
    rp_topic *topic;
    rp_group *group;
    rp_pop_key keys[KEYS];
    struct {
        rp_waiting_pop *first, *last;
    } kinds[2]; /* indexed by rp_pop_kind */
    rp_pop_list *next_made, *previous_made;
    rp_pop_list *next_doomed; /* link while it is being removed */
    int is_doomed;
    rp_lite_waits *lite; /* for a reader of lite topics, whose list is under no topic and is freed with its last pop; otherwise NULL */
};

/* ---- when to look: a binary heap in which each pop knows its place ---- */

static void place(rp_pop_waits *waits, uint32_t at, rp_waiting_pop *waiting) {
    waits->heap[at] = waiting;
    waiting->heap_place = at;
}

static void sift(rp_pop_waits *waits, uint32_t at, rp_waiting_pop *waiting) {
    while (at > 0 && waits->heap[(at - 1) / 2]->look_ns > waiting->look_ns) {
        place(waits, at, waits->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= waits->heap_size)
            break;
        if (child + 1 < waits->heap_size && waits->heap[child + 1]->look_ns < waits->heap[child]->look_ns)
            child++;
        if (waits->heap[child]->look_ns >= waiting->look_ns)
            break;
        place(waits, at, waits->heap[child]);
        at = child;
    }
    place(waits, at, waiting);
}

static int heap_push(rp_pop_waits *waits, rp_waiting_pop *waiting) {
    if (waits->heap_size == waits->heap_capacity) {
        uint32_t capacity = waits->heap_capacity > 0 ? waits->heap_capacity * 2 : HEAP_FIRST;
        rp_waiting_pop **heap = realloc(waits->heap, capacity * sizeof *heap);
        if (heap == NULL)
            return RP_E_NO_MEMORY;
        waits->heap = heap;
        waits->heap_capacity = capacity;
    }
    sift(waits, waits->heap_size++, waiting);
    return RP_OK;
}

static void heap_remove(rp_pop_waits *waits, rp_waiting_pop *waiting) {
    rp_waiting_pop *last = waits->heap[--waits->heap_size];
    if (last != waiting)
        sift(waits, waiting->heap_place, last);
}

int64_t rp_pop_waits_deadline(const rp_pop_waits *waits) { return waits->heap_size > 0 ? waits->heap[0]->look_ns : INT64_MAX; }

/* ---- lists by topic ---- */

static rp_pop_key **bucket_of(const rp_pop_waits *waits, const rp_topic *topic) {
    return &waits->buckets[(((uintptr_t)topic * UINT64_C(0x9E3779B97F4A7C15)) >> 32) % RP_POP_BUCKETS];
}

static rp_pop_list *find_list(const rp_pop_waits *waits, const rp_topic *topic, const rp_group *group) {
    rp_pop_key *key = waits->buckets != NULL ? *bucket_of(waits, topic) : NULL;
    while (key != NULL && (key->list->topic != topic || key->list->group != group))
        key = key->next;
    return key != NULL ? key->list : NULL;
}

static void enter_key(rp_pop_waits *waits, rp_pop_list *list, int which, rp_topic *topic) {
    rp_pop_key *key = &list->keys[which];
    if (topic == NULL || key->topic != NULL)
        return;
    rp_pop_key **bucket = bucket_of(waits, topic);
    *key = (rp_pop_key){.topic = topic, .list = list, .next = *bucket};
    *bucket = key;
}

static int open_tables(rp_pop_waits *waits) {
    if (waits->buckets == NULL)
        waits->buckets = calloc(RP_POP_BUCKETS, sizeof *waits->buckets);
    if (waits->connections == NULL)
        waits->connections = calloc(RP_POP_BUCKETS, sizeof *waits->connections);
    return waits->buckets != NULL && waits->connections != NULL;
}

static int is_empty(const rp_pop_list *list) {
    return list->kinds[RP_POP_MESSAGES].first == NULL && list->kinds[RP_POP_NOTIFICATION].first == NULL;
}

static void count_lists(rp_pop_waits *waits, int more) {
    uint32_t count = atomic_load_explicit(&waits->list_count, memory_order_relaxed);
    atomic_store_explicit(&waits->list_count, count + (uint32_t)more, memory_order_relaxed);
}

static void forget_list(rp_pop_waits *waits, rp_pop_list *list) {
    for (int i = 0; i < KEYS; i++) {
        rp_pop_key *key = &list->keys[i], **link = key->topic != NULL ? bucket_of(waits, key->topic) : NULL;
        while (link != NULL && *link != key)
            link = &(*link)->next;
        if (link != NULL)
            *link = key->next;
    }
    *(list->previous_made != NULL ? &list->previous_made->next_made : &waits->lists) = list->next_made;
    if (list->next_made != NULL)
        list->next_made->previous_made = list->previous_made;
    count_lists(waits, -1);
    free(list);
}

static void unlink_doomed(rp_pop_key **link) {
    while (*link != NULL) {
        rp_pop_key *key = *link;
        if (key->list->is_doomed) {
            *link = key->next;
            key->topic = NULL;
        } else {
            link = &key->next;
        }
    }
}

/* Otherwise each arrival of the topic would visit the lists of all groups that ever waited for it. Removes them from the topic's bucket
 * in one walk. */
static void forget_idle_lists(rp_pop_waits *waits, const rp_topic *topic) {
    rp_pop_list *doomed = NULL;
    uint32_t idle = 0;
    for (const rp_pop_key *key = *bucket_of(waits, topic); key != NULL; key = key->next) {
        if (key->topic != topic || !is_empty(key->list) || idle++ < RP_POP_IDLE_LISTS_MAX)
            continue;
        key->list->is_doomed = 1;
        key->list->next_doomed = doomed;
        doomed = key->list;
    }
    if (doomed == NULL)
        return;
    unlink_doomed(bucket_of(waits, topic));
    for (rp_pop_list *next; doomed != NULL; doomed = next) {
        next = doomed->next_doomed;
        forget_list(waits, doomed);
    }
}

/* Opens the list of a (group, topic). NULL: no memory. */
static rp_pop_list *open_list(rp_pop_waits *waits, const rp_pop *pop) {
    rp_pop_list *list = find_list(waits, pop->topic, pop->group);
    if (list == NULL) {
        list = calloc(1, sizeof *list);
        if (list == NULL)
            return NULL;
        list->topic = pop->topic;
        list->group = pop->group;
        list->next_made = waits->lists;
        if (waits->lists != NULL)
            waits->lists->previous_made = list;
        waits->lists = list;
        count_lists(waits, 1);
    }
    enter_key(waits, list, 0, pop->topic);
    enter_key(waits, list, 1, pop->retry_topics[0]);
    enter_key(waits, list, 2, pop->retry_topics[1]);
    return list;
}

/* Opens the list of a reader of lite topics. NULL: no memory. */
static rp_pop_list *open_lite_list(rp_lane *lane, const rp_pop *pop, int *is_ready) {
    rp_lite_waits *waits = rp_lite_wait(lane->broker->lite, pop->lite, lane->reactor, lane->index, is_ready);
    if (waits == NULL)
        return NULL;
    if (waits->list == NULL && (waits->list = calloc(1, sizeof(rp_pop_list))) == NULL) {
        rp_lite_unwait(lane->broker->lite, waits);
        return NULL;
    }
    rp_pop_list *list = waits->list;
    list->lite = waits;
    return list;
}

static void close_lite_list(rp_lane *lane, rp_pop_list *list) {
    if (list->lite == NULL || list->kinds[RP_POP_MESSAGES].first != NULL)
        return;
    rp_lite_unwait(lane->broker->lite, list->lite);
    free(list);
}

static void append_to_list(rp_pop_list *list, rp_waiting_pop *waiting) {
    uint8_t kind = waiting->pop.kind;
    waiting->list = list;
    waiting->previous = list->kinds[kind].last;
    waiting->next = NULL;
    if (waiting->previous != NULL)
        waiting->previous->next = waiting;
    else
        list->kinds[kind].first = waiting;
    list->kinds[kind].last = waiting;
}

static void remove_from_list(rp_waiting_pop *waiting) {
    rp_pop_list *list = waiting->list;
    uint8_t kind = waiting->pop.kind;
    if (waiting->previous != NULL)
        waiting->previous->next = waiting->next;
    else
        list->kinds[kind].first = waiting->next;
    if (waiting->next != NULL)
        waiting->next->previous = waiting->previous;
    else
        list->kinds[kind].last = waiting->previous;
}

/* ---- pops by connection, so that a closed one takes its pops along ---- */

static rp_waiting_pop **chain_of(const rp_pop_waits *waits, uint64_t connection_id) {
    return &waits->connections[((connection_id * UINT64_C(0x9E3779B97F4A7C15)) >> 32) % RP_POP_BUCKETS];
}

static void chain(const rp_pop_waits *waits, rp_waiting_pop *waiting) {
    rp_waiting_pop **first = chain_of(waits, waiting->pop.connection_id);
    waiting->chain_next = *first;
    if (*first != NULL)
        (*first)->chain_previous = waiting;
    *first = waiting;
}

static void unchain(const rp_pop_waits *waits, const rp_waiting_pop *waiting) {
    if (waiting->chain_previous != NULL)
        waiting->chain_previous->chain_next = waiting->chain_next;
    else
        *chain_of(waits, waiting->pop.connection_id) = waiting->chain_next;
    if (waiting->chain_next != NULL)
        waiting->chain_next->chain_previous = waiting->chain_previous;
}

/* ---- coming and going ---- */

static void free_waiting(rp_broker *broker, rp_waiting_pop *waiting) {
    if (waiting->words != NULL)
        atomic_fetch_sub_explicit(&broker->suspended_words, waiting->pop.filter.count, memory_order_relaxed);
    free(waiting->words);
    free(waiting->attempt);
    free(waiting);
}

static void drop(rp_lane *lane, rp_waiting_pop *waiting) {
    remove_from_list(waiting);
    close_lite_list(lane, waiting->list);
    unchain(&lane->pop_waits, waiting);
    heap_remove(&lane->pop_waits, waiting);
    free_waiting(lane->broker, waiting);
    atomic_fetch_sub_explicit(&lane->broker->pops_waiting, 1, memory_order_relaxed);
}

void rp_pop_waits_free(rp_lane *lane) {
    rp_pop_waits *waits = &lane->pop_waits;
    for (uint32_t i = 0; i < waits->heap_size; i++) {
        remove_from_list(waits->heap[i]);
        close_lite_list(lane, waits->heap[i]->list);
        free_waiting(lane->broker, waits->heap[i]);
    }
    while (waits->lists != NULL) {
        rp_pop_list *next = waits->lists->next_made;
        free(waits->lists);
        waits->lists = next;
    }
    free(waits->heap);
    free(waits->buckets);
    free(waits->connections);
    *waits = (rp_pop_waits){.heap = NULL};
}

/* Copies what lies in the arena. 0: no memory, or the bound of filters. */
static int keep_texts(rp_broker *broker, rp_waiting_pop *waiting) {
    rp_pop *pop = &waiting->pop;
    uint32_t count = pop->filter.count;
    if (pop->attempt_id.size > 0) {
        waiting->attempt = malloc(pop->attempt_id.size);
        if (waiting->attempt == NULL)
            return 0;
        memcpy(waiting->attempt, pop->attempt_id.data, pop->attempt_id.size);
        pop->attempt_id.data = waiting->attempt;
    } else if (pop->attempt_id.data != NULL) {
        pop->attempt_id.data = (const uint8_t *)"";
    }
    if (count == 0)
        return 1;
    uint64_t before = atomic_fetch_add_explicit(&broker->suspended_words, count, memory_order_relaxed);
    waiting->words = before + count <= WORDS_MAX ? malloc(count * sizeof *waiting->words) : NULL;
    if (waiting->words == NULL) {
        atomic_fetch_sub_explicit(&broker->suspended_words, count, memory_order_relaxed);
        return 0;
    }
    memcpy(waiting->words, pop->filter.words, count * sizeof *waiting->words);
    pop->filter.words = waiting->words;
    return 1;
}

/* Sets when to look without an arrival: when a blocked queue is free, or in the next turn if this one had no time for more. */
static void set_look(const rp_lane *lane, rp_waiting_pop *waiting) {
    int64_t now_ns = rp_reactor_now_ns(lane->reactor), look_ns = waiting->deadline_ns;
    if (waiting->pop.look_ms != 0) {
        int64_t wait_ms = waiting->pop.look_ms - rp_clock_wall_ms(rp_clock_system());
        wait_ms = wait_ms < LOOK_MS_MIN ? LOOK_MS_MIN : wait_ms > RP_POP_POLL_MS_MAX ? RP_POP_POLL_MS_MAX : wait_ms;
        look_ns = now_ns + wait_ms * RP_NS_PER_MS;
    }
    if (waiting->pop.more)
        look_ns = now_ns + 1;
    waiting->look_ns = look_ns < waiting->deadline_ns ? look_ns : waiting->deadline_ns;
}

static rp_waiting_pop *make_waiting(rp_lane *lane, const rp_pop *pop, int *is_ready) {
    int is_open = open_tables(&lane->pop_waits);
    rp_pop_list *list = !is_open ? NULL : pop->lite != NULL ? open_lite_list(lane, pop, is_ready) : open_list(&lane->pop_waits, pop);
    if (list == NULL)
        return NULL;
    rp_waiting_pop *waiting = calloc(1, sizeof *waiting);
    if (waiting == NULL) {
        close_lite_list(lane, list);
        return NULL;
    }
    waiting->pop = *pop;
    waiting->deadline_ns = rp_reactor_now_ns(lane->reactor) + pop->poll_ms * RP_NS_PER_MS;
    int is_kept = keep_texts(lane->broker, waiting);
    if (is_kept)
        set_look(lane, waiting);
    if (!is_kept || heap_push(&lane->pop_waits, waiting) != RP_OK) {
        free_waiting(lane->broker, waiting);
        close_lite_list(lane, list);
        return NULL;
    }
    chain(&lane->pop_waits, waiting);
    append_to_list(list, waiting);
    return waiting;
}

static int32_t queues_of(const rp_topic *topic) {
    return topic != NULL && rp_topic_is_live(topic) ? atomic_load_explicit(&topic->read_queues, memory_order_relaxed) : 0;
}

/* Asks to be told of arrivals in any queue of the key's topic. 1: that is new for some queue. */
static int mark_queues(rp_lane *lane, rp_pop_key *key) {
    int look_again = 0;
    if (key->topic != NULL)
        key->generation = atomic_load_explicit(&key->topic->generation, memory_order_acquire);
    key->queues = queues_of(key->topic);
    for (int32_t i = 0; i < key->queues && i < RP_POP_QUEUES_MAX; i++) {
        rp_consume_queue *queue;
        rp_queue_slot *slot = rp_topic_open_queue(lane->broker->topics, key->topic, i, &queue);
        look_again |= slot != NULL && rp_long_polling_mark(lane, slot, queue) == 1;
    }
    return look_again;
}

/* 1: it has left. */
static int retry(rp_lane *lane, rp_waiting_pop *waiting, int last) {
    if (rp_pop_retry(lane, &waiting->pop, last) || last) {
        drop(lane, waiting);
        return 1;
    }
    set_look(lane, waiting);
    sift(&lane->pop_waits, waiting->heap_place, waiting);
    return 0;
}

static int add(rp_lane *lane, const rp_pop *pop) {
    rp_broker *broker = lane->broker;
    if (atomic_fetch_add_explicit(&broker->pops_waiting, 1, memory_order_relaxed) >= RP_POPS_WAITING_MAX) {
        atomic_fetch_sub_explicit(&broker->pops_waiting, 1, memory_order_relaxed);
        return 0;
    }
    int look_again = 0;
    rp_waiting_pop *waiting = make_waiting(lane, pop, &look_again);
    if (waiting == NULL) {
        atomic_fetch_sub_explicit(&broker->pops_waiting, 1, memory_order_relaxed);
        return 0;
    }
    look_again &= waiting->pop.look_ms == 0 && !waiting->pop.more; /* what is ready then was looked at just now */
    for (int i = 0; i < KEYS; i++)
        look_again |= mark_queues(lane, &waiting->list->keys[i]);
    if (look_again)
        retry(lane, waiting, 0);
    rp_lane_schedule(lane);
    return 1;
}

int rp_pop_waits_begin(rp_lane *lane, rp_pop *pop) {
    int64_t least_ms = pop->more || pop->cold_ns != 0 ? lane->broker->options.cold_wait_ms : 0;
    if (pop->poll_ms < least_ms)
        pop->poll_ms = least_ms;
    return pop->poll_ms > 0 && add(lane, pop);
}

/* ---- waking ---- */

static int is_elsewhere(const rp_waiting_pop *waiting, const rp_queue_slot *slot) {
    return slot->topic == waiting->list->topic && waiting->pop.queue_id >= 0 && waiting->pop.queue_id != slot->queue_id;
}

static void serve(rp_lane *lane, const rp_pop_list *list, const rp_queue_slot *slot) {
    int misses = 0;
    for (rp_waiting_pop *waiting = list->kinds[RP_POP_MESSAGES].first, *next; waiting != NULL && misses < MISSES_MAX; waiting = next) {
        next = waiting->next;
        misses += !is_elsewhere(waiting, slot) && !retry(lane, waiting, 0);
    }
}

void rp_pop_waits_woken(rp_lane *lane, void *list) {
    for (rp_waiting_pop *waiting = ((rp_pop_list *)list)->kinds[RP_POP_MESSAGES].first, *next; waiting != NULL; waiting = next) {
        next = waiting->next;
        if (!retry(lane, waiting, 0))
            return;
    }
}

/* Answers one notification for each message, from the latest one back, as the latest is the likeliest to be still connected: all of them
 * would come for one message. */
static void tell(rp_lane *lane, const rp_pop_list *list, const rp_queue_slot *slot) {
    int64_t told = 0;
    int misses = 0;
    for (rp_waiting_pop *waiting = list->kinds[RP_POP_NOTIFICATION].last, *next; waiting != NULL && misses < MISSES_MAX; waiting = next) {
        next = waiting->previous;
        if (is_elsewhere(waiting, slot))
            continue;
        if (told > 0 && told >= rp_pop_rest(lane, &waiting->pop, slot->topic, slot->queue_id))
            return;
        if (retry(lane, waiting, 0))
            told++;
        else
            misses++;
    }
}

/* True if the topic has other queues than those marked: it was changed, or deleted and created again. */
static int is_changed(const rp_pop_key *key) {
    return key->generation != atomic_load_explicit(&key->topic->generation, memory_order_acquire) || key->queues != queues_of(key->topic);
}

void rp_pop_waits_arrived(rp_lane *lane, const rp_queue_slot *slot) {
    if (lane->pop_waits.buckets == NULL)
        return;
    for (rp_pop_key *key = *bucket_of(&lane->pop_waits, slot->topic); key != NULL && lane->pop_waits.heap_size > 0; key = key->next) {
        if (key->topic != slot->topic)
            continue;
        if (is_changed(key))
            mark_queues(lane, key);
        serve(lane, key->list, slot);
        tell(lane, key->list, slot);
    }
    forget_idle_lists(&lane->pop_waits, slot->topic);
}

int rp_pop_waits_wait_on(const rp_lane *lane, const rp_topic *topic) {
    if (lane->pop_waits.heap_size == 0)
        return 0;
    for (const rp_pop_key *key = *bucket_of(&lane->pop_waits, topic); key != NULL; key = key->next) {
        if (key->topic == topic && !is_empty(key->list))
            return 1;
    }
    return 0;
}

void rp_pop_waits_expire(rp_lane *lane, int64_t now_ns) {
    rp_pop_waits *waits = &lane->pop_waits;
    uint32_t looks = waits->heap_size;
    while (looks-- > 0 && waits->heap_size > 0 && waits->heap[0]->look_ns <= now_ns)
        retry(lane, waits->heap[0], waits->heap[0]->deadline_ns <= now_ns);
}

void rp_pop_waits_dismiss(rp_lane *lane) {
    while (lane->pop_waits.heap_size > 0)
        retry(lane, lane->pop_waits.heap[lane->pop_waits.heap_size - 1], 1);
}

void rp_pop_waits_connection_closed(rp_lane *lane, uint64_t connection_id) {
    rp_pop_waits *waits = &lane->pop_waits;
    for (rp_waiting_pop *waiting = waits->heap_size > 0 ? *chain_of(waits, connection_id) : NULL, *next; waiting != NULL; waiting = next) {
        next = waiting->chain_next;
        if (waiting->pop.connection_id == connection_id)
            drop(lane, waiting);
    }
}

uint32_t rp_pop_waits_count(const rp_lane *lane, const rp_topic *topic, const rp_group *group, int32_t queue_id) {
    const rp_pop_list *list = find_list(&lane->pop_waits, topic, group);
    uint32_t count = 0;
    for (const rp_waiting_pop *waiting = list != NULL ? list->kinds[RP_POP_MESSAGES].first : NULL; waiting != NULL; waiting = waiting->next)
        count += waiting->pop.queue_id == queue_id;
    return count;
}
