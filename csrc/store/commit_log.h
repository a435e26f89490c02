/* commit_log.h: the one append, and reads by physical offset.
 * RocketMQ: CommitLog (5.3.3 store/).
 *
 *   items → [append lock: timestamp, queue offset, encode + CRC straight into the mapped file, consume queue entry] → published
 *
 * Threads  append from any thread (one adaptive lock around the whole batch); reads from any thread.
 * Cost     1 KB message: ~60 ns copy+CRC, ~40 ns header, ~20 ns queue entry; page faults are taken ahead by the preallocation thread.
 */
#ifndef RP_STORE_COMMIT_LOG_H
#define RP_STORE_COMMIT_LOG_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/slice.h"
#include "consume_queue.h"

typedef struct rp_commit_log rp_commit_log;

#define RP_APPEND_PROPERTY_PARTS 3

typedef struct rp_light_targets rp_light_targets; /* light_targets.h */

/* One message to append. The record's topic and queue id are the queue's. */
typedef struct rp_append_item {
    rp_consume_queue *queue;
    int32_t flag;
    int32_t sys_flag; /* RP_SYSFLAG_BORN_V6 when born_host holds 16+4 bytes; STORE_V6 and the flags of batches are the log's */
    int64_t born_timestamp_ms;
    uint8_t born_host[20]; /* address, then port as 4 bytes big-endian */
    int32_t reconsume_times;
    int64_t prepared_transaction_offset;
    int64_t tags_code; /* for the queue entry: tag hash; in a delay level's queue it is the log that says when the message is due */
    /* Its body is a batch of so many, for a batch queue; 0: it is one message. What the record of a batch queue says of its place is
     * written by the log itself, in either case. */
    int32_t inner_messages;
    int32_t is_copy; /* of a stored message: it may be larger than message_size_max, which may have changed */
    rp_slice body;
    rp_slice properties[RP_APPEND_PROPERTY_PARTS]; /* written one after the other; together <= RP_PROPERTIES_SIZE_MAX */
    rp_slice index_key; /* the one key the message is indexed by; data NULL: the index thread looks for its keys in the record */
    rp_slice index_tags; /* beside index_key: its TAGS; data NULL: it has none */
    rp_light_targets *light; /* light queues it goes to, too; NULL: none */
    /* results */
    int32_t status; /* RP_OK, RP_E_TOO_LARGE, RP_E_DISK_FULL, RP_E_IO, RP_E_READ_ONLY, RP_E_CLOSED, RP_E_BUSY (append_wait_timeout_ms) */
    uint32_t size; /* record bytes */
    int64_t commit_log_offset; /* where the record starts */
    int64_t queue_offset;
    int64_t store_timestamp_ms;
    int32_t index_hash; /* of index_key, for the index thread */
    int32_t index_tags_hash; /* of index_tags; 0: none */
} rp_append_item;

/* Appends all items in order under one lock acquisition. Returns how many succeeded; each item has its own status.
 * On return the messages are readable and in their queues, or held back from them until they are confirmed (rp_commit_log_confirm);
 * durable when rp_commit_log_flushed_offset passes their end. */
int64_t rp_commit_log_append(rp_commit_log *log, rp_append_item *items, uint32_t item_count);
/* The same for items that need earlier appends: RP_E_READ_ONLY if the log was cut since `cuts` was read, as those may be gone then. */
int64_t rp_commit_log_append_behind(rp_commit_log *log, rp_append_item *items, uint32_t item_count, uint64_t cuts);
/* How often the log's end went back. Read before an offset is taken: as long as it stays the same, so do the bytes below that offset. */
uint64_t rp_commit_log_cuts(const rp_commit_log *log);
/* For whoever was refused: whether it was the queue. RP_OK: there is room for its next entry; RP_E_DISK_FULL, RP_E_IO, RP_E_NO_MEMORY,
 * RP_E_BUSY as of an append. */
int rp_commit_log_try_queue(rp_commit_log *log, rp_consume_queue *queue);
/* How long the append that holds the lock has held it, when that is longer than append_busy_timeout_ms: it is stuck in the page cache or
 * on the disk (RocketMQ: isOSPageCacheBusy). 0: none is. now_ns of the monotonic clock. */
int64_t rp_commit_log_stuck_ms(const rp_commit_log *log, int64_t now_ns);
/* How long it has held the lock by now, however short that is; for whoever has something else to do meanwhile. */
int64_t rp_commit_log_held_ms(const rp_commit_log *log);

int64_t rp_commit_log_min_offset(const rp_commit_log *log);
int64_t rp_commit_log_max_offset(const rp_commit_log *log); /* end of published bytes */
int64_t rp_commit_log_flushed_offset(const rp_commit_log *log); /* every byte below is on disk */
/* Every record below it is whole and has its queue entry. The max offset, but on a slave: where its last record begins while that is not
 * whole yet; less while records wait for room in their queues, or to be confirmed. */
int64_t rp_commit_log_dispatched_offset(const rp_commit_log *log);

/* For a slave. Room for the bytes its master has at `offset`, which must be our max offset (or start a file while we are empty): *address
 * points into the mapped file, *room bytes of it (at least 1, never past the file's end) may be written there by the calling thread,
 * the only one that writes. The first `stored` of them it may store to by itself (map_hold.h): 0 when a system call does, which fails
 * where a store is a SIGBUS. RP_OK; RP_E_RANGE; RP_E_DISK_FULL, RP_E_IO (try again later); RP_E_CORRUPT, RP_E_READ_ONLY, RP_E_CLOSED. */
int rp_commit_log_reserve_replicated(rp_commit_log *log, int64_t offset, uint32_t stored, uint8_t **address, uint32_t *room,
                                     rp_error *error);
/* Publishes the first size bytes of that room and enters the records they complete into their queues. RP_OK; RP_E_INVALID when they were
 * not reserved; RP_E_CORRUPT, RP_E_READ_ONLY, RP_E_CLOSED. */
int rp_commit_log_commit_replicated(rp_commit_log *log, int64_t offset, uint32_t size, rp_error *error);
/* Enters records that are there already and found no room in their queues, if there are any. To be called now and then while nothing comes,
 * by the same thread. */
void rp_commit_log_dispatch_replicated(rp_commit_log *log);
/* Grows with each replicated message that is the first of its queue: its topic may have been made just now. Any thread. */
uint64_t rp_commit_log_queues_begun(const rp_commit_log *log);
/* Reserve and commit in one, for many bytes: `size` bytes that lie in a pipe go into the file, without zeros or mapped pages made for them
 * first, and are published as they come. Errors as of reserve; then the caller throws away what is left in the pipe. */
int rp_commit_log_splice_replicated(rp_commit_log *log, int64_t offset, int pipe_fd, uint32_t size, rp_error *error);
/* -1, or where the replicated bytes stop being records (then *error says why): every later call of the three gives RP_E_CORRUPT, and the
 * next start cuts them off. Any thread. */
int64_t rp_commit_log_damaged_at(const rp_commit_log *log, rp_error *error);

/* Says who writes the next bytes. A log that follows refuses appends (RP_E_READ_ONLY) under the append lock: when this returns none is
 * under way, and none comes until it leads again. A new log leads, and a slave without a controller may leave it so. Any thread. */
void rp_commit_log_set_following(rp_commit_log *log, int follows);
/* Appends are refused likewise once the monotonic clock has come to until_ns; INT64_MAX, at first: never. Any thread. */
void rp_commit_log_set_lease(rp_commit_log *log, int64_t until_ns);
int64_t rp_commit_log_lease(const rp_commit_log *log);
/* Records that end behind it are not dispatched: the confirmed offset, as a slave's master says it. INT64_MAX, at first unless the
 * open held records back: all are dispatched. Raising it dispatches none by itself (rp_commit_log_dispatch_replicated does). Any thread. */
void rp_commit_log_limit_dispatch(rp_commit_log *log, int64_t offset);
/* The same for whoever leads, with a round of dispatch: 1 when there is more to do (rp_commit_log_dispatch_replicated does the rest). While
 * the offset is not INT64_MAX, and until all is dispatched again then, appends are held back from queues and index. Any thread. */
int rp_commit_log_confirm(rp_commit_log *log, int64_t offset);
/* Before it leads: cuts off what is behind the last whole record. Whole ones get their entries, or, with holds_back, what is not dispatched
 * by now stays so, and appends take their queue offsets behind it. Of a log that follows, with no replicating thread. RP_OK; RP_E_CORRUPT:
 * it has replicated bytes that are no records; RP_E_DISK_FULL, RP_E_IO, RP_E_NO_MEMORY: it must not lead yet, and may be asked again. */
int rp_commit_log_settle(rp_commit_log *log, int holds_back, rp_error *error);
/* Cuts a log that follows at offset, which is not below the dispatched offset: what is behind it is cleared and synced first, so that no
 * crash brings it back. By the replicating thread, or while there is none. RP_OK; RP_E_RANGE: below the dispatched offset, or past the end;
 * RP_E_INVALID: the log leads; RP_E_IO, RP_E_DISK_FULL, RP_E_NO_MEMORY: the log is as it was, or ends at offset and a crash may bring back
 * what was behind it; it takes nothing more before that is cleared, which the next call that writes tries again. */
int rp_commit_log_cut(rp_commit_log *log, int64_t offset, rp_error *error);

/* Bytes of the log lent to the caller with a pin on their file. */
typedef struct rp_log_range {
    const uint8_t *address;
    uint32_t size;
    int32_t fd;
    int64_t file_offset;
    void *pin; /* give back with rp_log_range_release */
} rp_log_range;

/* Pins size bytes at offset (all in one file). RP_OK; RP_E_RANGE outside min..max or across a file end; RP_E_NOT_FOUND: the file was taken
 * away from outside. Passing troubles, by which nothing is lost: RP_E_IO, RP_E_NO_MEMORY (no descriptor or no map for
 * the file; the log's lines name the cause now and then). */
int rp_commit_log_read(rp_commit_log *log, int64_t offset, uint32_t size, rp_log_range *range);
void rp_log_range_release(void *pin);

/* 1: the bytes [begin, end) are in memory; 0: the disk has to be asked for some, or they are not in the log. Does not block on the disk. */
int rp_commit_log_in_memory(rp_commit_log *log, int64_t begin, int64_t end);
/* Returns when they are, as far as the log has them: blocks on the disk. A failure is not told: whoever reads them later meets it. */
void rp_commit_log_read_in(rp_commit_log *log, int64_t begin, int64_t end);

#endif
