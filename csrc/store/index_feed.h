/* index_feed.h: passes hashed keys from the appender (on a slave: from the thread that enters the master's records into their queues) to
 * the index thread, so that it need not read the records again. Private to csrc/store.
 *
 *   appender (append lock) ── put: offset, time, hash ──► ring ──► take ── index thread
 *
 * Why      the record is in the appender's cache. Without the feed, the index thread spends three quarters of its time waiting for its
 *          cache lines.
 * How      the feed either runs or does not. While it runs, every record from `from` on has its entry in the ring before the log calls
 *          it dispatched. When the ring is full the appender ends the feed and says where; the index thread then reads the log itself
 *          and asks for a new feed, which the next append begins.
 * Threads  put under the append lock; the rest belongs to the index thread. Lock-free; bounded by the capacity.
 */
#ifndef RP_STORE_INDEX_FEED_H
#define RP_STORE_INDEX_FEED_H

#include <stdint.h>

#define RP_INDEX_HASH_UNKNOWN (-1) /* the keys have to be read from the record */

typedef struct rp_index_feed rp_index_feed;

typedef struct rp_index_feed_entry {
    int64_t log_offset;
    int64_t store_time_ms;
    uint32_t size;     /* of the record */
    int32_t key_hash;  /* rp_index_key_hash of its only key, or RP_INDEX_HASH_UNKNOWN */
    int32_t tags_hash; /* rp_index_tags_hash, if key_hash is known; 0: it has no tags */
} rp_index_feed_entry;

/* capacity must be a power of two. NULL: no memory. */
rp_index_feed *rp_index_feed_create(uint32_t capacity);
void rp_index_feed_destroy(rp_index_feed *feed);

/* Called before the entry's record is dispatched. */
void rp_index_feed_put(rp_index_feed *feed, const rp_index_feed_entry *entry);

/* Asks for a new feed. Everything of an earlier feed must have been taken. */
void rp_index_feed_request(rp_index_feed *feed);
/* Returns the log offset from which on records are in the feed; INT64_MAX: it has not begun. */
int64_t rp_index_feed_from(const rp_index_feed *feed);
/* Returns the log offset from which on records are not in the feed; INT64_MAX: it runs. Read it after the log's dispatched offset: a
 * record below both is in the feed. */
int64_t rp_index_feed_end(const rp_index_feed *feed);
/* Takes the oldest entry if its record lies below limit. Returns 1, else 0. */
int rp_index_feed_take(rp_index_feed *feed, int64_t limit, rp_index_feed_entry *entry);

#endif
