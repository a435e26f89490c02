/* index_feed.h: hashed keys on their way from the appender (on a slave: from whoever enters its master's records into their queues) to the
 * index thread, so that it need not read the records again. Private to csrc/store.
 *
 *   appender (append lock) ── put: offset, time, hash ──► ring ──► take ── index thread
 *
 * Why      the record lies in the appender's cache. The index thread waits for it line by line, three quarters of all its time.
 * How      the feed runs, or it does not. While it runs, every record from `from` on has its entry in the ring before the log calls it
 *          dispatched. When the ring is full the appender ends the feed and says where; the index thread then reads the log itself and
 *          asks for a new feed, which the next append begins.
 * Threads  put under the append lock; the rest belongs to the index thread. Lock-free; the bound is the capacity.
 */
#ifndef RP_STORE_INDEX_FEED_H
#define RP_STORE_INDEX_FEED_H

#include <stdint.h>

#define RP_INDEX_HASH_UNKNOWN (-1) /* the keys are in the record */

typedef struct rp_index_feed rp_index_feed;

typedef struct rp_index_feed_entry {
    int64_t log_offset;
    int64_t store_time_ms;
    uint32_t size;     /* of the record */
    int32_t key_hash;  /* rp_index_key_hash of its one key, or RP_INDEX_HASH_UNKNOWN */
    int32_t tags_hash; /* rp_index_tags_hash beside a key_hash that is known; 0: none */
} rp_index_feed_entry;

/* capacity: a power of two. NULL: no memory. */
rp_index_feed *rp_index_feed_create(uint32_t capacity);
void rp_index_feed_destroy(rp_index_feed *feed);

/* The record of entry is about to be dispatched. */
void rp_index_feed_put(rp_index_feed *feed, const rp_index_feed_entry *entry);

/* Asks for a feed. What was taken of an earlier one counts; nothing of it may be left. */
void rp_index_feed_request(rp_index_feed *feed);
/* Records from this log offset on are in the feed; INT64_MAX: it has not begun. */
int64_t rp_index_feed_from(const rp_index_feed *feed);
/* Records from this log offset on are not in the feed; INT64_MAX: it runs. To be asked after the log's dispatched offset was read: a
 * record below both is in the feed. */
int64_t rp_index_feed_end(const rp_index_feed *feed);
/* Takes the oldest entry if its record lies below limit: 1, else 0. */
int rp_index_feed_take(rp_index_feed *feed, int64_t limit, rp_index_feed_entry *entry);

#endif
