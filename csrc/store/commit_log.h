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
    int32_t sys_flag; /* RP_SYSFLAG_BORN_V6 when born_host holds 16+4 bytes; the log itself sets STORE_V6 and the batch flags */
    int64_t born_timestamp_ms;
    uint8_t born_host[20]; /* address, then port as 4 bytes big-endian */
    int32_t reconsume_times;
    int64_t prepared_transaction_offset;
    int64_t tags_code; /* for the queue entry: hash of the tag; for a delay level's queue the log computes the due time instead */
    /* For a batch queue: the number of messages in the body, which is then a batch; 0: the body is one message. Either way the log
     * itself writes the two properties that give a batch record its place. */
    int32_t inner_messages;
    int32_t is_copy; /* the item copies a stored message: it may exceed message_size_max, which may have been lowered since */
    rp_slice body;
    rp_slice properties[RP_APPEND_PROPERTY_PARTS]; /* written one after the other; together <= RP_PROPERTIES_SIZE_MAX */
    rp_slice index_key; /* the only key the message is indexed by; data NULL: the index thread reads the keys from the record */
    rp_slice index_tags; /* the message's TAGS, used together with index_key; data NULL: it has none */
    rp_light_targets *light; /* light queues that also get an entry; NULL: none */
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
 * On return the messages are readable and in their queues, unless their entries are held back until they are confirmed
 * (rp_commit_log_confirm). They are durable once rp_commit_log_flushed_offset has passed their end. Any thread. */
int64_t rp_commit_log_append(rp_commit_log *log, rp_append_item *items, uint32_t item_count);
/* As rp_commit_log_append, for items that refer to earlier appends: RP_E_READ_ONLY if the log was cut since `cuts` was read, because
 * those appends may be gone. */
int64_t rp_commit_log_append_behind(rp_commit_log *log, rp_append_item *items, uint32_t item_count, uint64_t cuts);
/* Returns how often the log's end has moved back. Read it before taking an offset: while the count is unchanged, so are the bytes below
 * the offset. */
uint64_t rp_commit_log_cuts(const rp_commit_log *log);
/* For a caller whose append was refused: was it the queue? RP_OK: the queue has room for its next entry; otherwise RP_E_DISK_FULL,
 * RP_E_IO, RP_E_NO_MEMORY or RP_E_BUSY, as an append would report. */
int rp_commit_log_try_queue(rp_commit_log *log, rp_consume_queue *queue);
/* Returns how long, in ms, the append that holds the append lock has held it, if that is longer than append_busy_timeout_ms: it is then
 * stuck in the page cache or on the disk (RocketMQ: isOSPageCacheBusy). Otherwise, and while no append holds it, 0. now_ns is monotonic
 * time. */
int64_t rp_commit_log_stuck_ms(const rp_commit_log *log, int64_t now_ns);
/* Returns how long, in ms, an append has held the append lock so far, however short; for callers that can do something else meanwhile. */
int64_t rp_commit_log_held_ms(const rp_commit_log *log);

int64_t rp_commit_log_min_offset(const rp_commit_log *log);
int64_t rp_commit_log_max_offset(const rp_commit_log *log); /* end of published bytes */
int64_t rp_commit_log_flushed_offset(const rp_commit_log *log); /* every byte below is on disk */
/* Every record below this offset is whole and has its queue entry. It equals the max offset, except: on a slave it stops at the last
 * record while that is incomplete, and everywhere at the first record that waits for room in its queue or for confirmation. */
int64_t rp_commit_log_dispatched_offset(const rp_commit_log *log);

/* For a slave: reserves room for the bytes that its master has at `offset`, which must be the log's max offset (an empty log may also
 * start at a file's begin). The calling thread, the only writer, may write *room bytes at *address, in the mapped file: at least 1,
 * never past the file's end. `stored`: how many of them, from the first on, it will write by plain stores (map_hold.h); 0 if a system
 * call writes them, which returns an error where a store would raise SIGBUS. RP_OK; RP_E_RANGE; RP_E_DISK_FULL, RP_E_IO (try again
 * later); RP_E_CORRUPT, RP_E_READ_ONLY, RP_E_CLOSED. */
int rp_commit_log_reserve_replicated(rp_commit_log *log, int64_t offset, uint32_t stored, uint8_t **address, uint32_t *room,
                                     rp_error *error);
/* Publishes the first `size` bytes of the reserved room and enters the records that they complete into their queues. RP_OK; RP_E_INVALID
 * if they were not reserved; RP_E_CORRUPT, RP_E_READ_ONLY, RP_E_CLOSED. */
int rp_commit_log_commit_replicated(rp_commit_log *log, int64_t offset, uint32_t size, rp_error *error);
/* Retries the records that found no room in their queues, if there are any. The replicating thread calls it now and then while no bytes
 * arrive. */
void rp_commit_log_dispatch_replicated(rp_commit_log *log);
/* Counts replicated messages that were the first of their queue: their topics may be new. Any thread. */
uint64_t rp_commit_log_queues_begun(const rp_commit_log *log);
/* Reserve and commit in one call, for many bytes: moves `size` bytes from a pipe into the file, without first zeroing or mapping pages
 * for them, and publishes them as they arrive. Errors as rp_commit_log_reserve_replicated; the caller then discards what is left in the
 * pipe. */
int rp_commit_log_splice_replicated(rp_commit_log *log, int64_t offset, int pipe_fd, uint32_t size, rp_error *error);
/* Returns where the replicated bytes stop being records (*error says why), or -1. From then on the three calls above give RP_E_CORRUPT,
 * and the next start cuts the bytes off. Any thread. */
int64_t rp_commit_log_damaged_at(const rp_commit_log *log, rp_error *error);

/* Says whether another broker writes this log. A log that follows refuses appends with RP_E_READ_ONLY, under the append lock: when this
 * call returns, no append is under way, and none starts until the log leads again. A new log leads; a slave without a controller may
 * leave it that way. Any thread. */
void rp_commit_log_set_following(rp_commit_log *log, int follows);
/* Refuses appends in the same way once the monotonic clock reaches until_ns. INT64_MAX, the initial value: never. Any thread. */
void rp_commit_log_set_lease(rp_commit_log *log, int64_t until_ns);
int64_t rp_commit_log_lease(const rp_commit_log *log);
/* Sets the confirmed offset that a slave's master reports: records that end behind it are not dispatched. INT64_MAX, the initial value
 * unless the open held records back: everything is dispatched. Raising it dispatches nothing by itself
 * (rp_commit_log_dispatch_replicated does). Any thread. */
void rp_commit_log_limit_dispatch(rp_commit_log *log, int64_t offset);
/* Sets the confirmed offset of a log that leads, and runs one round of dispatch. Returns 1 if more is to be dispatched (by
 * rp_commit_log_dispatch_replicated). Appends are held back from queues and index while the offset is not INT64_MAX, and after that
 * until everything is dispatched. Any thread. */
int rp_commit_log_confirm(rp_commit_log *log, int64_t offset);
/* Prepares a log that follows to lead: cuts off what lies behind the last whole record and enters whole records into their queues. With
 * holds_back, records not yet dispatched stay so, and appends take queue offsets behind them. No thread may be replicating. RP_OK;
 * RP_E_CORRUPT: it has replicated bytes that are no records; RP_E_DISK_FULL, RP_E_IO, RP_E_NO_MEMORY: it must not lead yet; call again. */
int rp_commit_log_settle(rp_commit_log *log, int holds_back, rp_error *error);
/* Cuts a log that follows at `offset`, which must not be below the dispatched offset. What lies behind is cleared and synced first, so
 * that no crash brings it back. Called by the replicating thread, or while there is none. RP_OK; RP_E_RANGE: below the dispatched
 * offset, or past the end; RP_E_INVALID: the log leads; RP_E_IO, RP_E_DISK_FULL, RP_E_NO_MEMORY: either the log is unchanged, or it ends
 * at `offset` and a crash may bring back what was behind. In the latter case the next call that writes tries to clear the rest, and
 * nothing is appended before that succeeds. */
int rp_commit_log_cut(rp_commit_log *log, int64_t offset, rp_error *error);

/* Bytes of the log lent to the caller with a pin on their file. */
typedef struct rp_log_range {
    const uint8_t *address;
    uint32_t size;
    int32_t fd;
    int64_t file_offset;
    void *pin; /* give back with rp_log_range_release */
} rp_log_range;

/* Pins `size` bytes at `offset`, all in one file. RP_OK; RP_E_RANGE outside min..max or across a file end; RP_E_NOT_FOUND: the file was
 * removed from outside; RP_E_IO, RP_E_NO_MEMORY: the file could not be opened or mapped now, and nothing is lost (the cause is logged,
 * at a limited rate). */
int rp_commit_log_read(rp_commit_log *log, int64_t offset, uint32_t size, rp_log_range *range);
void rp_log_range_release(void *pin);

/* Returns 1 if the bytes [begin, end) are in memory, 0 if some would have to be read from disk or are not in the log. Does not block on
 * the disk. */
int rp_commit_log_in_memory(rp_commit_log *log, int64_t begin, int64_t end);
/* Reads those bytes into memory, as far as the log has them. Blocks on the disk. Reports no failure: a later read of the bytes does. */
void rp_commit_log_read_in(rp_commit_log *log, int64_t begin, int64_t end);

#endif
