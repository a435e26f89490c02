/* cold_reads.c: see cold_reads.h. */
#include "cold_reads.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "../base/clock_inl.h"
#include "../base/thread.h"
#include "get_compacted.h"
#include "lane.h"
#include "lite_readers.h"

#define REGION_BYTES (INT64_C(4) << 20)
#define SEEN_NS RP_NS_PER_S
/* Between two checks of a whole region for the same place: 10 to 50 µs each, where checking a message takes 1 */
#define LOOKED_AT_NS (100 * RP_NS_PER_MS)
#define ENTRIES_LOOKED_AT_MAX 65536 /* bounds a pull whose tag matches nothing, on a broker with a large maxFilterMessageSize */
#define ENTRIES_ASKED 32 /* the first messages of a pull; the next pull requests what follows */
#define ENTRIES_A_WINDOW 4096 /* 80 KiB: a consumer that reads a backlog reads the next entries soon */

typedef struct cold_read {
    enum rp_cold_kind kind;
    rp_cold_stretch stretch;
    rp_consume_queue *queue; /* pulls of this queue wait for the read; NULL: they wait for the one that follows */
    rp_group *group; /* the group that the read is counted for; NULL: none */
    uint16_t lane;
} cold_read;

struct rp_cold_reads {
    rp_broker *broker; /* fixed */
    rp_thread *thread; /* owner */
    pthread_mutex_t lock; /* leaf */
    pthread_cond_t more;
    uint32_t head, count; /* guarded by lock, like the rest */
    bool stopping;
    cold_read ring[RP_COLD_ASKED_MAX];
};

/* ---- the lane's side ---- */

static void want(rp_cold_looks *looks, int64_t begin, int64_t end) {
    rp_cold_stretch *last = looks->wanted_count > 0 ? &looks->wanted[looks->wanted_count - 1] : NULL;
    if (last != NULL && (looks->wanted_count == RP_COLD_WANTED || last->end == begin))
        last->end = end;
    else
        looks->wanted[looks->wanted_count++] = (rp_cold_stretch){begin, end};
}

static uint32_t place_number(int64_t region) { return (uint64_t)region % RP_COLD_SEEN; }

static rp_cold_region *place_of(rp_lane *lane, int64_t region) { return &lane->looks.regions[place_number(region)]; }

static bool has_seen(const rp_lane *lane, const rp_cold_region *place, int64_t region) {
    return place->region == region && place->in_memory && rp_reactor_now_ns(lane->reactor) - place->looked_at_ns < SEEN_NS;
}

int rp_cold_reads_saw(const void *context, int64_t log_offset) {
    const rp_lane *lane = context;
    int64_t region = log_offset / REGION_BYTES;
    return has_seen(lane, &lane->looks.regions[place_number(region)], region);
}

static rp_cold_stretch stretch_of(const rp_lane *lane, int64_t region, int64_t log_max) {
    int64_t begin = region * REGION_BYTES, end = begin + REGION_BYTES, min = rp_commit_log_min_offset(lane->broker->commit_log);
    return (rp_cold_stretch){begin > min ? begin : min, end < log_max ? end : log_max};
}

static bool look_at_region(const rp_lane *lane, rp_cold_region *place, int64_t region, rp_cold_stretch stretch) {
    int in_memory = rp_commit_log_in_memory(lane->broker->commit_log, stretch.begin, stretch.end);
    *place = (rp_cold_region){region, rp_reactor_now_ns(lane->reactor), in_memory};
    return in_memory;
}

static void look_at_whole_region(rp_lane *lane, int64_t region, int64_t log_max) {
    rp_cold_region *place = place_of(lane, region);
    if (has_seen(lane, place, region))
        return;
    rp_cold_stretch stretch = stretch_of(lane, region, log_max);
    bool is_missed = place->region == region && !place->in_memory && place->looked_at_ns == rp_reactor_now_ns(lane->reactor);
    if (is_missed || !look_at_region(lane, place, region, stretch))
        want(&lane->looks, stretch.begin, stretch.end);
}

/* For messages scattered over the log. A whole region is checked for one of them only if its place was not used lately, either by this
 * region (which is then not entirely in memory) or by another. */
static bool message_is_in_memory(rp_lane *lane, int64_t begin, int64_t end, int64_t log_max) {
    int64_t region = begin / REGION_BYTES;
    rp_cold_region *place = place_of(lane, region);
    if (end <= (region + 1) * REGION_BYTES) {
        if (has_seen(lane, place, region))
            return true;
        if (rp_reactor_now_ns(lane->reactor) - place->looked_at_ns >= LOOKED_AT_NS &&
            look_at_region(lane, place, region, stretch_of(lane, region, log_max)))
            return true;
    }
    return rp_commit_log_in_memory(lane->broker->commit_log, begin, end);
}

/* Clips an offset of a window's begin or end to what the queue still has. */
static int64_t within(rp_consume_queue *queue, int64_t offset) {
    int64_t min = rp_consume_queue_min_offset(queue), max = rp_consume_queue_max_offset(queue);
    return offset < min ? min : offset > max ? max : offset;
}

static int window_is_in_memory(rp_lane *lane, rp_consume_queue *queue, int64_t window) {
    int64_t now_ns = rp_reactor_now_ns(lane->reactor), begin = window * ENTRIES_A_WINDOW;
    rp_cold_window *seen = &lane->looks.windows[((uintptr_t)queue / 64 + (uint64_t)window) % RP_COLD_SEEN];
    if (seen->queue == queue && seen->window == window && seen->until_ns > now_ns)
        return 1;
    if (!rp_consume_queue_in_memory(queue, within(queue, begin), within(queue, begin + ENTRIES_A_WINDOW)))
        return 0;
    *seen = (rp_cold_window){queue, window, now_ns + SEEN_NS};
    return 1;
}

static int look_at_compacted(rp_lane *lane, rp_consume_queue *queue, int64_t offset) {
    lane->looks.kind = RP_COLD_COMPACTED;
    lane->looks.wanted_count = 1;
    lane->looks.wanted[0] = (rp_cold_stretch){offset, offset + ENTRIES_A_WINDOW};
    return rp_compacted_is_on_disk(queue, offset, offset + 1);
}

/* For what was found in a compacted log: its pages belong to no region of the log. */
static int look_at_found(rp_lane *lane, const rp_get_result *result) {
    lane->looks.kind = RP_COLD_COMPACTED;
    lane->looks.wanted_count = 1;
    lane->looks.wanted[0] = (rp_cold_stretch){result->compacted_from, result->next_offset};
    return rp_compacted_found_is_on_disk(&lane->scratch, result);
}

int rp_cold_reads_look_at_entries(rp_lane *lane, rp_consume_queue *queue, int64_t offset, int64_t count, int asked) {
    if (__builtin_expect(rp_consume_queue_compacted(queue) != NULL, 0) && rp_compacted_has(queue, offset))
        return look_at_compacted(lane, queue, offset);
    int64_t min = rp_consume_queue_min_offset(queue), max = rp_consume_queue_max_offset(queue);
    if (offset < min || offset >= max || max - offset < (int64_t)lane->broker->options.cold_after_entries || count <= 0)
        return 0;
    count = count < max - offset ? count : max - offset;
    lane->looks.kind = RP_COLD_ENTRIES;
    if (asked)
        return !rp_consume_queue_in_memory(queue, offset, offset + (count < ENTRIES_ASKED ? count : ENTRIES_ASKED));
    int64_t last = (offset + (count < ENTRIES_LOOKED_AT_MAX ? count : ENTRIES_LOOKED_AT_MAX) - 1) / ENTRIES_A_WINDOW;
    for (int64_t window = offset / ENTRIES_A_WINDOW; window <= last; window++) {
        if (window_is_in_memory(lane, queue, window))
            continue;
        lane->looks.wanted_count = 1;
        lane->looks.wanted[0] = (rp_cold_stretch){within(queue, window * ENTRIES_A_WINDOW), within(queue, (last + 1) * ENTRIES_A_WINDOW)};
        return 1;
    }
    return 0;
}

int rp_cold_reads_look(rp_lane *lane, const rp_get_result *result, int asked) {
    if (__builtin_expect(result->compacted_from >= 0, 0))
        return look_at_found(lane, result);
    const rp_file_range *ranges = lane->scratch.ranges, *last = &ranges[result->range_count - 1];
    int64_t begin = result->file_base + ranges[0].file_offset, end = result->file_base + last->file_offset + last->size;
    int64_t log_max = rp_commit_log_max_offset(lane->broker->commit_log);
    if (log_max - begin < (int64_t)lane->broker->options.cold_after_bytes)
        return 0;
    int dense = end - begin <= REGION_BYTES;
    lane->looks.kind = RP_COLD_MESSAGES;
    lane->looks.wanted_count = 0;
    if (dense && asked)
        return !rp_commit_log_in_memory(lane->broker->commit_log, begin, end);
    if (dense) {
        for (int64_t region = begin / REGION_BYTES; region <= (end - 1) / REGION_BYTES; region++)
            look_at_whole_region(lane, region, log_max);
    } else {
        for (const rp_file_range *range = ranges; range <= last; range++) {
            int64_t at = result->file_base + range->file_offset;
            if (!message_is_in_memory(lane, at, at + range->size, log_max))
                want(&lane->looks, at, at + range->size);
        }
    }
    return lane->looks.wanted_count > 0;
}

/* A consumer that searches for few among many messages looks at the next ones soon. */
int rp_cold_reads_look_at_message(void *context, int64_t log_offset, uint32_t size) {
    rp_lane *lane = context;
    int64_t end = log_offset + size, log_max = rp_commit_log_max_offset(lane->broker->commit_log);
    if (log_max - log_offset < (int64_t)lane->broker->options.cold_after_bytes || message_is_in_memory(lane, log_offset, end, log_max))
        return 0;
    lane->looks.kind = RP_COLD_MESSAGES;
    lane->looks.wanted_count = 1;
    lane->looks.wanted[0] = (rp_cold_stretch){stretch_of(lane, log_offset / REGION_BYTES, log_max).begin,
                                              stretch_of(lane, (end - 1) / REGION_BYTES, log_max).end};
    return 1;
}

int rp_cold_reads_ask(rp_cold_reads *reads, const rp_cold_looks *looks, rp_consume_queue *queue, uint16_t lane, rp_group *group) {
    pthread_mutex_lock(&reads->lock);
    int fits = reads->count + looks->wanted_count <= RP_COLD_ASKED_MAX;
    for (uint32_t i = 0; i < looks->wanted_count && fits; i++) {
        rp_consume_queue *waiting = i + 1 == looks->wanted_count ? queue : NULL;
        reads->ring[(reads->head + reads->count++) % RP_COLD_ASKED_MAX] = (cold_read){looks->kind, looks->wanted[i], waiting, group, lane};
    }
    pthread_cond_signal(&reads->more);
    pthread_mutex_unlock(&reads->lock);
    return fits;
}

/* ---- the reader ---- */

static bool take(rp_cold_reads *reads, cold_read *read) {
    pthread_mutex_lock(&reads->lock);
    while (reads->count == 0 && !reads->stopping)
        pthread_cond_wait(&reads->more, &reads->lock);
    bool goes_on = !reads->stopping;
    if (goes_on) {
        *read = reads->ring[reads->head];
        reads->head = (reads->head + 1) % RP_COLD_ASKED_MAX;
        reads->count--;
    }
    pthread_mutex_unlock(&reads->lock);
    return goes_on;
}

static void read_messages(rp_broker *broker, const cold_read *read) {
    int64_t begin = read->stretch.begin, end = read->stretch.end;
    if (rp_commit_log_in_memory(broker->commit_log, begin, end))
        return; /* another pull of its region had it read */
    rp_commit_log_read_in(broker->commit_log, begin, end);
    if (read->group != NULL)
        rp_cold_flow_note(broker, read->group, end - begin);
}

static void read_compacted(rp_broker *broker, const cold_read *read) {
    uint64_t bytes = rp_compacted_read_in(read->queue, read->stretch.begin, read->stretch.end);
    if (read->group != NULL)
        rp_cold_flow_note(broker, read->group, (int64_t)bytes);
}

static void run(void *context) {
    rp_cold_reads *reads = context;
    cold_read read;
    while (take(reads, &read)) {
        int64_t begin = read.stretch.begin, end = read.stretch.end;
        if (read.kind == RP_COLD_ENTRIES)
            rp_consume_queue_read_in(read.queue, begin, end);
        else if (read.kind == RP_COLD_COMPACTED)
            read_compacted(reads->broker, &read);
        else
            read_messages(reads->broker, &read);
        if (read.queue != NULL)
            rp_long_polling_arrived(NULL, read.queue, UINT64_C(1) << read.lane);
        if (read.queue != NULL && rp_consume_queue_is_lite(read.queue))
            rp_lite_arrived(reads->broker->lite, read.queue);
    }
}

rp_cold_reads *rp_cold_reads_open(rp_broker *broker) {
    rp_cold_reads *reads = calloc(1, sizeof *reads);
    if (reads == NULL)
        return NULL;
    reads->broker = broker;
    pthread_mutex_init(&reads->lock, NULL);
    pthread_cond_init(&reads->more, NULL);
    if (rp_thread_start(&reads->thread, "cold-reads", run, reads) != RP_OK) {
        rp_cold_reads_close(reads);
        return NULL;
    }
    return reads;
}

void rp_cold_reads_close(rp_cold_reads *reads) {
    if (reads == NULL)
        return;
    pthread_mutex_lock(&reads->lock);
    reads->stopping = true;
    pthread_cond_signal(&reads->more);
    pthread_mutex_unlock(&reads->lock);
    rp_thread_join(reads->thread);
    pthread_cond_destroy(&reads->more);
    pthread_mutex_destroy(&reads->lock);
    free(reads);
}
