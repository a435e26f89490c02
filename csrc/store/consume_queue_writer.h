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

/* Shared by all queues of one kind in a store; outlives them. */
typedef struct rp_consume_queue_setup {
    const rp_file_ops *ops;
    const char *directory; /* root/consumequeue, root/batchconsumequeue */
    uint32_t file_size;    /* multiple of entry_size */
    uint32_t entry_size;   /* RP_CONSUME_QUEUE_ENTRY_SIZE, or RP_BATCH_ENTRY_SIZE for batch queues */
    int32_t read_only;
    rp_commit_log *log; /* for searches by time */
    _Atomic int64_t *files; /* counts the files of all queues (mapped_file_queue.h); NULL: nobody does */
    uint32_t files_max;     /* beyond these no queue is prepared; 0: any number */
} rp_consume_queue_setup;

/* Makes an empty queue, with nothing on disk; its directory is made with its first file. RP_OK; RP_E_NO_MEMORY; RP_E_TOO_LARGE. */
int rp_consume_queue_open(const rp_consume_queue_setup *setup, rp_slice topic, int32_t queue_id, rp_consume_queue **queue, rp_error *error);
void rp_consume_queue_close(rp_consume_queue *queue);

/* Finds the entries of an earlier run: sets max_offset to the end of the entries written without a hole. */
int rp_consume_queue_load(rp_consume_queue *queue, rp_error *error);

/* Writes and publishes the entry behind the last one; its space must have been reserved (consume_queue_space.h). In a batch queue its
 * offset must not be below the max. On a file system that copies on write a full disk may end the process here: use write and show
 * there. */
void rp_consume_queue_put(rp_consume_queue *queue, const rp_queue_entry *entry);
/* Writes the entry without publishing it. RP_OK; RP_E_DISK_FULL, RP_E_IO: the reserved space is no longer there (base/map_hold.h). */
int rp_consume_queue_write(rp_consume_queue *queue, const rp_queue_entry *entry, rp_error *error);
/* Takes back an entry that was written and not published. If even that finds no space, it is done before the next write, or by
 * rp_consume_queue_clean. */
void rp_consume_queue_unwrite(rp_consume_queue *queue);
/* Under the append lock: makes sure that nothing behind the last entry looks like one. RP_OK; RP_E_DISK_FULL, RP_E_IO, RP_E_NO_MEMORY. */
int rp_consume_queue_clean(rp_consume_queue *queue, rp_error *error);
/* Publishes the entry that was written. */
void rp_consume_queue_show(rp_consume_queue *queue, const rp_queue_entry *entry);
/* Notes that the queue's messages go up to `end`, although their entries are held back: the next one is appended there. */
void rp_consume_queue_place(rp_consume_queue *queue, int64_t end);
/* Returns the waiting bits such that a reactor that sets its bit and then reads the max offset misses nothing: either it sees the
 * entries put before this call, or this call sees its bit. */
uint64_t rp_consume_queue_waiting_after_put(rp_consume_queue *queue);
/* Readers waiting on `left` now wait on `queue`, which has replaced it. */
void rp_consume_queue_take_readers(rp_consume_queue *queue, rp_consume_queue *left);
/* Lets an empty queue start at `offset`, since earlier messages are gone: fills the start of the file as RocketMQ does. In a batch
 * queue, whose entries give their own offsets, nothing is filled in. */
int rp_consume_queue_start_at(rp_consume_queue *queue, int64_t offset, rp_error *error);

/* Drops the entries from `offset` on (or from the one that holds it) and clears their bytes. A first file that begins exactly there
 * stays, empty, unless that offset is 0 or the queue is a batch queue. If the queue has no file left, its directory is removed. */
int rp_consume_queue_truncate(rp_consume_queue *queue, int64_t offset, rp_error *error);
/* For recovery only: goes back to `offset`, from where entries are put again over those that are there. So the files keep their space,
 * which a full disk would not give a second time, and a kill meanwhile leaves the entries that it found. */
int rp_consume_queue_go_back(rp_consume_queue *queue, int64_t offset, rp_error *error);
/* For recovery only, when all entries are there: clears every byte behind max_offset of a queue that went back, whatever a crash left
 * there, and removes the files behind, as rp_consume_queue_truncate does. */
int rp_consume_queue_clear_behind(rp_consume_queue *queue, rp_error *error);
/* Moves min_offset past entries that point below log_offset. Files that hold only such entries are removed, but never the last one,
 * which keeps the queue's max offset. */
int rp_consume_queue_trim(rp_consume_queue *queue, int64_t log_offset, rp_error *error);
/* Removes every file and starts over at offset 0 (the topic was deleted). */
int rp_consume_queue_clear(rp_consume_queue *queue, rp_error *error);

/* Makes every entry below the max offset of the call durable. RP_OK; RP_E_IO. */
int rp_consume_queue_sync(rp_consume_queue *queue, rp_error *error);
/* A range to be synced, for when somebody else syncs the whole file system in between. */
typedef struct rp_queue_mark {
    rp_consume_queue *queue;
    int64_t begin, end; /* bytes of entries that are not synced */
    uint64_t cuts, name_changes;
} rp_queue_mark;
rp_queue_mark rp_consume_queue_mark(rp_consume_queue *queue);
void rp_consume_queue_is_synced(const rp_queue_mark *mark);
/* The directory of its files. */
const char *rp_consume_queue_directory(const rp_consume_queue *queue);
/* Bytes put and not synced yet. */
int64_t rp_consume_queue_dirty_bytes(const rp_consume_queue *queue);
/* Start offset of the queue's first file; 0 without files. */
int64_t rp_consume_queue_begin_bytes(const rp_consume_queue *queue);

/* Returns the first offset whose entry points at or above log_offset; the max if there is none. RP_E_IO, RP_E_NO_MEMORY with the file:
 * entries cannot be read now, so no offset can be given. */
int64_t rp_consume_queue_offset_by_log_offset(rp_consume_queue *queue, int64_t log_offset, rp_error *error);

#endif
