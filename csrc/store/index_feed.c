/* index_feed.c: see index_feed.h. */
#include "index_feed.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct rp_index_feed {
    uint32_t mask;    /* fixed */
    bool is_running;  /* owned by the appender */
    uint64_t put_end; /* the appender's copy of head */
    uint64_t taken;   /* the index thread's copy of tail */

    /* Set by the index thread, cleared by the appender when the feed begins; orders from, end and the reuse of the ring. */
    _Atomic bool is_wanted;
    _Atomic int64_t from;    /* released when the feed begins */
    _Atomic int64_t end;     /* released before any record that was not put is dispatched */
    _Atomic uint64_t head;   /* released after the entry */
    _Atomic uint64_t tail;   /* released after the copy of the entry */
    rp_index_feed_entry entries[]; /* tail..head belong to the index thread, the rest to the appender */
};

rp_index_feed *rp_index_feed_create(uint32_t capacity) {
    rp_index_feed *feed = calloc(1, sizeof *feed + (size_t)capacity * sizeof feed->entries[0]);
    if (feed != NULL) {
        feed->mask = capacity - 1;
        atomic_init(&feed->from, INT64_MAX);
        atomic_init(&feed->end, INT64_MAX);
    }
    return feed;
}

void rp_index_feed_destroy(rp_index_feed *feed) { free(feed); }

void rp_index_feed_put(rp_index_feed *feed, const rp_index_feed_entry *entry) {
    if (!feed->is_running) {
        if (!atomic_load_explicit(&feed->is_wanted, memory_order_acquire)) {
            return;
        }
        atomic_store_explicit(&feed->is_wanted, false, memory_order_relaxed);
        feed->is_running = true;
        atomic_store_explicit(&feed->from, entry->log_offset, memory_order_release);
    }
    if (feed->put_end - atomic_load_explicit(&feed->tail, memory_order_acquire) > feed->mask) {
        feed->is_running = false;
        atomic_store_explicit(&feed->end, entry->log_offset, memory_order_release);
        return;
    }
    feed->entries[feed->put_end & feed->mask] = *entry;
    atomic_store_explicit(&feed->head, ++feed->put_end, memory_order_release);
}

void rp_index_feed_request(rp_index_feed *feed) {
    atomic_store_explicit(&feed->from, INT64_MAX, memory_order_relaxed);
    atomic_store_explicit(&feed->end, INT64_MAX, memory_order_relaxed);
    atomic_store_explicit(&feed->is_wanted, true, memory_order_release);
}

int64_t rp_index_feed_from(const rp_index_feed *feed) { return atomic_load_explicit(&feed->from, memory_order_acquire); }

int64_t rp_index_feed_end(const rp_index_feed *feed) { return atomic_load_explicit(&feed->end, memory_order_acquire); }

int rp_index_feed_take(rp_index_feed *feed, int64_t limit, rp_index_feed_entry *entry) {
    if (feed->taken == atomic_load_explicit(&feed->head, memory_order_acquire)) {
        return 0;
    }
    *entry = feed->entries[feed->taken & feed->mask];
    if (entry->log_offset >= limit) {
        return 0;
    }
    atomic_store_explicit(&feed->tail, ++feed->taken, memory_order_release);
    return 1;
}
