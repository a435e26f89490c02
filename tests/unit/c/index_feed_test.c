/* index_feed_test.c: an appender and an index thread with a feed that is too small between them: each record is entered exactly once, from
 * the feed or from the log, however often the feed starts and ends. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "../../../csrc/store/index_feed.h"
#include "check.h"

#define RECORDS 400000
#define RECORD_SIZE 8
#define CAPACITY 64

static rp_index_feed *feed;
static _Atomic int64_t max_offset;
static uint8_t *entered;

static int has_entry(int64_t record) { return record % 3 != 0; } /* the others have no key: they are put, but as unknown */

static void *append_all(void *context) {
    (void)context;
    for (int64_t record = 0; record < RECORDS; record++) {
        int64_t offset = record * RECORD_SIZE;
        int32_t hash = has_entry(record) ? (int32_t)record : RP_INDEX_HASH_UNKNOWN;
        rp_index_feed_entry entry = {offset, record, RECORD_SIZE, hash, 0};
        rp_index_feed_put(feed, &entry);
        atomic_store_explicit(&max_offset, offset + RECORD_SIZE, memory_order_release);
    }
    return NULL;
}

int main(void) {
    feed = rp_index_feed_create(CAPACITY);
    entered = calloc(RECORDS, 1);
    CHECK(feed != NULL && entered != NULL);
    rp_index_feed_request(feed);
    pthread_t appender;
    CHECK(pthread_create(&appender, NULL, append_all, NULL) == 0);
    int64_t offset = 0, fed = 0, read = 0;
    while (offset < (int64_t)RECORDS * RECORD_SIZE) {
        int64_t max = atomic_load_explicit(&max_offset, memory_order_acquire), from = rp_index_feed_from(feed);
        if (offset < from) {
            for (int64_t end = max < from ? max : from; offset < end; offset += RECORD_SIZE, read++) {
                entered[offset / RECORD_SIZE]++;
            }
            continue;
        }
        int64_t end = rp_index_feed_end(feed), limit = max < end ? max : end;
        rp_index_feed_entry entry;
        while (rp_index_feed_take(feed, limit, &entry)) {
            CHECK(entry.log_offset == offset && entry.store_time_ms == offset / RECORD_SIZE);
            CHECK(entry.key_hash == (has_entry(offset / RECORD_SIZE) ? (int32_t)(offset / RECORD_SIZE) : RP_INDEX_HASH_UNKNOWN));
            entered[offset / RECORD_SIZE]++;
            offset += RECORD_SIZE;
            fed++;
        }
        CHECK(offset == limit); /* all of it was there */
        if (offset == end) {
            rp_index_feed_request(feed);
        }
    }
    pthread_join(appender, NULL);
    for (int record = 0; record < RECORDS; record++) {
        CHECK(entered[record] == 1);
    }
    CHECK(fed + read == RECORDS && fed > 0 && read > 0);
    free(entered);
    rp_index_feed_destroy(feed);
    return 0;
}
