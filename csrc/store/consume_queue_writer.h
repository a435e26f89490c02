/* consume_queue_writer.h: what the store does to a queue: load, put, cut at either end, sync.
 * RocketMQ: ConsumeQueue.putMessagePositionInfo, recover, truncateDirtyLogicFiles, correctMinOffset (5.3.3 store/).
 *
 * Threads  open and load before the queue is published; put and truncate under the commit log's append lock; sync on the
 *          queues' thread of the flusher; trim on the retention thread.
 */
#ifndef RP_STORE_CONSUME_QUEUE_WRITER_H
#define RP_STORE_CONSUME_QUEUE_WRITER_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"
#include "commit_log.h"
#include "consume_queue.h"

/* Same for every queue of a kind of a store; outlives them. */
typedef struct rp_consume_queue_setup {
    const rp_file_ops *ops;
    const char *directory; /* root/consumequeue, root/batchconsumequeue */
    uint32_t file_size;    /* multiple of entry_size */
    uint32_t entry_size;   /* RP_CONSUME_QUEUE_ENTRY_SIZE, or RP_BATCH_ENTRY_SIZE: they are batch queues */
    int32_t read_only;
    rp_commit_log *log; /* for the searches by time */
} rp_consume_queue_setup;

/* A queue with nothing in it and nothing on disk; its directory is made with its first file. RP_OK; RP_E_NO_MEMORY; RP_E_TOO_LARGE. */
int rp_consume_queue_open(const rp_consume_queue_setup *setup, rp_slice topic, int32_t queue_id, rp_consume_queue **queue, rp_error *error);
void rp_consume_queue_close(rp_consume_queue *queue);

/* Finds the entries of an earlier run: sets max_offset to the end of the entries written without a hole. */
int rp_consume_queue_load(rp_consume_queue *queue, rp_error *error);

/* Writes the entry behind the last, which was reserved (consume_queue_space.h), and publishes it. Of a batch queue its offset is not below
 * the max. Where the file copies on write it may end the process: then in two steps. */
void rp_consume_queue_put(rp_consume_queue *queue, const rp_queue_entry *entry);
/* Writes it for nobody to see yet. RP_OK; RP_E_DISK_FULL, RP_E_IO: its page had space, and has none (base/map_hold.h). */
int rp_consume_queue_write(rp_consume_queue *queue, const rp_queue_entry *entry, rp_error *error);
/* What was written is none. If there is no space for that either, before the next is written, or by a clean. */
void rp_consume_queue_unwrite(rp_consume_queue *queue);
/* Under the append lock: nothing behind the last entry looks like one. RP_OK; RP_E_DISK_FULL, RP_E_IO, RP_E_NO_MEMORY. */
int rp_consume_queue_clean(rp_consume_queue *queue, rp_error *error);
/* Publishes what was written. */
void rp_consume_queue_show(rp_consume_queue *queue, const rp_queue_entry *entry);
/* Its messages go up to `end`, though their entries are held back: the next is appended there. */
void rp_consume_queue_place(rp_consume_queue *queue, int64_t end);
/* The waiting bits, read so that a reactor that sets its bit and then reads the max offset misses nothing: either it sees the entries
 * put before this call, or its bit is seen here. */
uint64_t rp_consume_queue_waiting_after_put(rp_consume_queue *queue);
/* Whoever waits for messages of `left` waits for those of `queue`, which is in its place. */
void rp_consume_queue_take_readers(rp_consume_queue *queue, rp_consume_queue *left);
/* An empty queue whose first entry will be `offset` (what came before is gone): fills the start of the file as RocketMQ does, but of a
 * batch queue, whose entries say where they are. */
int rp_consume_queue_start_at(rp_consume_queue *queue, int64_t offset, rp_error *error);

/* Drops the entries from `offset` on, or from the one that holds it, and clears their bytes. A first file that begins there stays, empty,
 * unless that is 0 or it is a batch queue's. The directory of a queue that has no file then is removed. */
int rp_consume_queue_truncate(rp_consume_queue *queue, int64_t offset, rp_error *error);
/* Recovery only: clears every byte behind max_offset, whatever a crash left there. */
int rp_consume_queue_clear_tail(rp_consume_queue *queue, rp_error *error);
/* Entries that point below log_offset are no longer readable: moves min_offset. Files that hold only such entries are removed, but
 * never the last one, which keeps the queue's max offset. */
int rp_consume_queue_trim(rp_consume_queue *queue, int64_t log_offset, rp_error *error);
/* Removes every file and starts over at offset 0 (the topic was deleted). */
int rp_consume_queue_clear(rp_consume_queue *queue, rp_error *error);

/* Makes every entry below the max offset of the call durable. RP_OK; RP_E_IO. */
int rp_consume_queue_sync(rp_consume_queue *queue, rp_error *error);
/* The same, where somebody else makes all of a file system durable in between. */
typedef struct rp_queue_mark {
    rp_consume_queue *queue;
    int64_t begin, end; /* bytes that were not synced */
    uint64_t cuts, name_changes;
} rp_queue_mark;
rp_queue_mark rp_consume_queue_mark(rp_consume_queue *queue);
void rp_consume_queue_is_synced(const rp_queue_mark *mark);
/* Where its files are. */
const char *rp_consume_queue_directory(const rp_consume_queue *queue);
/* Bytes put and not synced yet. */
int64_t rp_consume_queue_dirty_bytes(const rp_consume_queue *queue);
/* Where the queue's first file begins; 0 without files. */
int64_t rp_consume_queue_begin_bytes(const rp_consume_queue *queue);

/* First offset whose entry points at or above log_offset; max when none. RP_E_IO, RP_E_NO_MEMORY with the file: entries cannot be read just
 * now, and any place would be a wrong one. */
int64_t rp_consume_queue_offset_by_log_offset(rp_consume_queue *queue, int64_t log_offset, rp_error *error);

#endif
