/* pop_kept.c: see pop_kept.h. */
#include "pop_kept.h"

#include <stdlib.h>
#include <string.h>

#include "../base/error.h"
#include "../base/hash.h"

#define LONG_MS (INT64_C(3600) * 1000)
#define SAME_POP_MAX 64u /* far more than consumers create */
#define BUCKETS_MIN 1024u
#define HEAP_MIN 256u

/* ---- by pop ---- */

typedef struct pop_key {
    uint64_t names;
    int64_t start_offset, pop_time_ms, queue_id;
} pop_key;

/* Old records and acks omit the broker's name: it is then this broker's. */
static uint64_t hash_pop(const rp_kept_table *table, rp_slice topic, rp_slice group, rp_slice said_name, rp_slice broker_name,
                         pop_key key) {
    rp_slice name = said_name.size > 0 ? said_name : broker_name;
    key.names = rp_hash_bytes(topic.data, topic.size, table->seed);
    key.names = rp_hash_bytes(group.data, group.size, key.names);
    key.names = rp_hash_bytes(name.data, name.size, key.names);
    return rp_hash_bytes(&key, sizeof key, table->seed);
}

static rp_kept_checkpoint **bucket_of(const rp_kept_table *table, uint64_t pop) { return &table->buckets[pop & (table->bucket_count - 1)]; }

/* Doubles the buckets; without memory the chains get longer. */
static void grow_table(rp_kept_table *table) {
    rp_kept_table larger = {.bucket_count = table->bucket_count * 2};
    larger.buckets = calloc(larger.bucket_count, sizeof(rp_kept_checkpoint *));
    if (larger.buckets == NULL)
        return;
    for (uint32_t i = 0; i < table->bucket_count; i++) {
        for (rp_kept_checkpoint *kept = table->buckets[i], *next; kept != NULL; kept = next) {
            next = kept->next;
            rp_kept_checkpoint **bucket = bucket_of(&larger, kept->pop);
            kept->next = *bucket;
            *bucket = kept;
        }
    }
    free(table->buckets);
    table->buckets = larger.buckets;
    table->bucket_count = larger.bucket_count;
}

int rp_kept_table_init(rp_kept_table *table, uint32_t count_max) {
    *table = (rp_kept_table){.bucket_count = BUCKETS_MIN, .count_max = {count_max - count_max / 4, count_max / 4}};
    table->buckets = calloc(table->bucket_count, sizeof(rp_kept_checkpoint *));
    table->seed = (uint64_t)(uintptr_t)table->buckets; /* unknown to strangers */
    return table->buckets != NULL ? RP_OK : RP_E_NO_MEMORY;
}

void rp_kept_table_free(rp_kept_table *table) {
    free(table->buckets);
    *table = (rp_kept_table){0};
}

/* ---- by time ---- */

static void set_place(rp_kept_queue *queue, uint32_t place, rp_kept_checkpoint *kept) {
    queue->heap[place] = kept;
    kept->heap_place = place;
}

static void sift(rp_kept_queue *queue, rp_kept_checkpoint *kept) {
    uint32_t place = kept->heap_place;
    for (uint32_t above; place > 0 && queue->heap[above = (place - 1) / 2]->look_ms > kept->look_ms; place = above)
        set_place(queue, place, queue->heap[above]);
    for (uint32_t below; (below = place * 2 + 1) < queue->heap_count; place = below) {
        if (below + 1 < queue->heap_count && queue->heap[below + 1]->look_ms < queue->heap[below]->look_ms)
            below++;
        if (queue->heap[below]->look_ms >= kept->look_ms)
            break;
        set_place(queue, place, queue->heap[below]);
    }
    set_place(queue, place, kept);
}

static int make_heap_room(rp_kept_queue *queue) {
    if (queue->heap_count < queue->heap_room)
        return RP_OK;
    uint32_t room = queue->heap_room == 0 ? HEAP_MIN : queue->heap_room * 2;
    rp_kept_checkpoint **heap = realloc(queue->heap, room * sizeof(rp_kept_checkpoint *));
    if (heap == NULL)
        return RP_E_NO_MEMORY;
    queue->heap = heap;
    queue->heap_room = room;
    return RP_OK;
}

rp_kept_checkpoint *rp_kept_next(const rp_kept_queue *queue) { return queue->heap_count > 0 ? queue->heap[0] : NULL; }

void rp_kept_put_off(rp_kept_queue *queue, rp_kept_checkpoint *kept, int64_t look_ms) {
    kept->look_ms = look_ms;
    sift(queue, kept);
}

/* What is hastened passes only those above it, which have been visited. */
void rp_kept_clock_set_back(rp_kept_queue *queue, int64_t now_ms, int64_t grace_ms) {
    for (uint32_t place = 0; place < queue->heap_count; place++) {
        rp_kept_checkpoint *kept = queue->heap[place];
        int64_t farthest = now_ms + kept->invisible_ms + grace_ms;
        if (kept->look_ms > farthest)
            rp_kept_put_off(queue, kept, farthest);
    }
}

/* ---- in and out ---- */

enum rp_kept_kind rp_kept_kind_of(const rp_pop_checkpoint *checkpoint) {
    return checkpoint->invisible_ms > LONG_MS ? RP_KEPT_LONG : RP_KEPT_SHORT;
}

/* Copies the checkpoint; consecutive messages need no list. */
static rp_kept_checkpoint *copy_of(const rp_pop_checkpoint *checkpoint) {
    uint32_t diffs = 0;
    for (uint32_t i = 0; i < checkpoint->count && checkpoint->diff_count > 0; i++) {
        if (checkpoint->diffs[i] != (int32_t)i)
            diffs = checkpoint->count;
    }
    rp_kept_checkpoint *kept = malloc(sizeof *kept + diffs * sizeof kept->diffs[0]);
    if (kept == NULL)
        return NULL;
    *kept = (rp_kept_checkpoint){
        .start_offset = checkpoint->start_offset,
        .pop_time_ms = checkpoint->pop_time_ms,
        .invisible_ms = checkpoint->invisible_ms,
        .queue_id = checkpoint->queue_id,
        .over = (uint32_t)checkpoint->bits,
        .kind = (uint8_t)rp_kept_kind_of(checkpoint),
        .count = (uint8_t)checkpoint->count,
        .diff_count = (uint8_t)diffs,
    };
    memcpy(kept->diffs, checkpoint->diffs, diffs * sizeof kept->diffs[0]);
    return kept;
}

static int is_same(const rp_kept_checkpoint *kept, const rp_pop_checkpoint *checkpoint) {
    if (kept->count != checkpoint->count)
        return 0;
    for (uint32_t i = 0; i < kept->count; i++) {
        int32_t diff = kept->diff_count > 0 ? kept->diffs[i] : (int32_t)i,
                other = checkpoint->diff_count > 0 ? checkpoint->diffs[i] : (int32_t)i;
        if (diff != other)
            return 0;
    }
    return 1;
}

static uint32_t bits_of(const rp_kept_checkpoint *kept) { return (uint32_t)((UINT64_C(1) << kept->count) - 1); }

static void link_newest(rp_kept_queue *queue, rp_kept_checkpoint *kept) {
    kept->newer = NULL;
    kept->older = queue->newest[kept->kind];
    *(kept->older != NULL ? &kept->older->newer : &queue->oldest[kept->kind]) = kept;
    queue->newest[kept->kind] = kept;
}

static void unlink_kept(rp_kept_queue *queue, const rp_kept_checkpoint *kept) {
    *(kept->older != NULL ? &kept->older->newer : &queue->oldest[kept->kind]) = kept->newer;
    *(kept->newer != NULL ? &kept->newer->older : &queue->newest[kept->kind]) = kept->older;
}

/* Moves the checkpoint to a later record, which must include everything that is over, because reading may begin there. Not for a record
 * of another revive queue, which a stranger named. */
static void move(rp_kept_queue *queue, rp_kept_checkpoint *kept, uint32_t bits, int64_t revive_offset, int64_t log_offset) {
    int is_here = kept->heap_place < queue->heap_count && queue->heap[kept->heap_place] == kept;
    if (!is_here || revive_offset <= kept->revive_offset)
        return;
    kept->is_carried = 0;
    if ((kept->over & bits_of(kept) & ~bits) != 0)
        return;
    unlink_kept(queue, kept);
    kept->revive_offset = revive_offset;
    kept->log_offset = log_offset;
    link_newest(queue, kept);
}

/* NULL: there is none yet. *of_pop: how many checkpoints of that pop there are. */
static rp_kept_checkpoint *find(const rp_kept_table *table, uint64_t pop, const rp_pop_checkpoint *checkpoint, uint32_t *of_pop) {
    *of_pop = 0;
    for (rp_kept_checkpoint *kept = *bucket_of(table, pop); kept != NULL; kept = kept->next) {
        *of_pop += kept->pop == pop;
        if (kept->pop == pop && is_same(kept, checkpoint))
            return kept;
    }
    return NULL;
}

int rp_kept_add(rp_kept_table *table, rp_kept_queue *queue, const rp_pop_checkpoint *checkpoint, rp_slice broker_name,
                int64_t revive_offset, int64_t log_offset, int64_t look_ms) {
    enum rp_kept_kind kind = rp_kept_kind_of(checkpoint);
    pop_key key = {0, checkpoint->start_offset, checkpoint->pop_time_ms, checkpoint->queue_id};
    uint64_t pop = hash_pop(table, checkpoint->topic, checkpoint->group, checkpoint->broker_name, broker_name, key);
    uint32_t of_pop;
    rp_kept_checkpoint *same = find(table, pop, checkpoint, &of_pop);
    if (same != NULL) {
        move(queue, same, (uint32_t)checkpoint->bits, revive_offset, log_offset);
        same->over |= (uint32_t)checkpoint->bits;
        return RP_OK;
    }
    if (of_pop >= SAME_POP_MAX)
        return RP_E_EXISTS;
    if (table->count[kind] >= table->count_max[kind])
        return RP_E_BUSY;
    rp_kept_checkpoint *kept = make_heap_room(queue) == RP_OK ? copy_of(checkpoint) : NULL;
    if (kept == NULL)
        return RP_E_NO_MEMORY;
    if (table->count[RP_KEPT_SHORT] + table->count[RP_KEPT_LONG] >= table->bucket_count)
        grow_table(table);
    kept->pop = pop;
    kept->revive_offset = revive_offset;
    kept->log_offset = log_offset;
    kept->look_ms = look_ms;
    rp_kept_checkpoint **bucket = bucket_of(table, pop);
    kept->next = *bucket;
    *bucket = kept;
    link_newest(queue, kept);
    set_place(queue, queue->heap_count++, kept);
    sift(queue, kept);
    table->count[kind]++;
    return RP_OK;
}

static void leave_heap(rp_kept_queue *queue, rp_kept_checkpoint *kept) {
    rp_kept_checkpoint *last = queue->heap[--queue->heap_count];
    if (last == kept)
        return;
    set_place(queue, kept->heap_place, last);
    sift(queue, last);
}

void rp_kept_remove(rp_kept_table *table, rp_kept_queue *queue, rp_kept_checkpoint *kept) {
    rp_kept_checkpoint **link = bucket_of(table, kept->pop);
    while (*link != kept)
        link = &(*link)->next;
    *link = kept->next;
    unlink_kept(queue, kept);
    leave_heap(queue, kept);
    table->count[kept->kind]--;
    free(kept);
}

void rp_kept_queue_free(rp_kept_table *table, rp_kept_queue *queue) {
    while (queue->heap_count > 0)
        rp_kept_remove(table, queue, queue->heap[queue->heap_count - 1]);
    free(queue->heap);
    *queue = (rp_kept_queue){0};
}

int64_t rp_kept_oldest(const rp_kept_queue *queue) {
    int64_t oldest = INT64_MAX;
    for (uint32_t kind = 0; kind < RP_KEPT_KINDS; kind++) {
        if (queue->oldest[kind] != NULL && queue->oldest[kind]->revive_offset < oldest)
            oldest = queue->oldest[kind]->revive_offset;
    }
    return oldest;
}

/* ---- acks ---- */

int rp_kept_is_over(const rp_kept_checkpoint *kept) { return (kept->over & bits_of(kept)) == bits_of(kept); }

static void mark(rp_kept_checkpoint *kept, int64_t offset) {
    int64_t diff;
    if (__builtin_sub_overflow(offset, kept->start_offset, &diff))
        return;
    if (kept->diff_count == 0 && diff >= 0 && diff < kept->count)
        kept->over |= UINT32_C(1) << diff;
    for (uint32_t i = 0; i < kept->diff_count; i++) {
        if (kept->diffs[i] == diff)
            kept->over |= UINT32_C(1) << i;
    }
}

uint32_t rp_kept_ack(rp_kept_table *table, const rp_pop_ack *ack, rp_slice broker_name) {
    pop_key key = {0, ack->start_offset, ack->pop_time_ms, ack->queue_id};
    uint64_t pop = hash_pop(table, ack->topic, ack->group, ack->broker_name, broker_name, key);
    uint32_t found = 0;
    for (rp_kept_checkpoint *kept = *bucket_of(table, pop); kept != NULL; kept = kept->next) {
        if (kept->pop != pop)
            continue;
        for (uint32_t i = 0; i < ack->offset_count; i++)
            mark(kept, ack->offsets[i]);
        found++;
    }
    return found;
}
