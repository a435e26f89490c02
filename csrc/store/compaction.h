/* compaction.h: the compacted queues of a store: the thread that copies into them, and when each is compacted. Private to csrc/store.
 * RocketMQ: CompactionStore, CompactionService (5.5.0 store/kv/).
 *
 *   follow ─► row of queues ◄─ thread `compaction`: copies new messages, ten times a second; syncs; compacts each queue once in
 *   interval_ms
 *
 * Why so rarely: nobody waits for a copy, since messages not yet copied are read from the queue itself (compaction_log.h). A store
 * without compacted topics has no such thread.
 * Threads  follow, leave and delete from any thread, one at a time; needed_from and the stats from any.
 * Locks    `compaction.lock` guards the row and the positions; rows' locks are taken under it. A log's writer lock is held over a copy,
 *          a sync or a compaction of its queue. Deleting a topic takes it under retention's lock, after ending the compaction (stop).
 * Bounds   one thread; a queue's copy yields to the next queue's after RP_COMPACTION_COPY_MAX messages; a queue that fails waits 1 s.
 */
#ifndef RP_STORE_COMPACTION_H
#define RP_STORE_COMPACTION_H

#include <stddef.h>
#include <stdint.h>

#include "../base/clock.h"
#include "../base/error.h"
#include "../base/file_ops.h"
#include "../base/log.h"
#include "commit_log.h"
#include "compaction_log.h"
#include "compaction_stats.h"

typedef struct rp_compaction rp_compaction;

typedef struct rp_compaction_options {
    const char *directory;    /* ROOT/compaction; copied */
    uint64_t log_file_size;   /* compactionMappedFileSize; the open makes it a multiple of queue_file_size, rounding as RocketMQ does */
    uint32_t queue_file_size; /* compactionCqMappedFileSize */
    uint32_t interval_ms;     /* compactionScheduleInternal */
    uint64_t key_memory;      /* maxOffsetMapSize */
    int32_t checks_records;   /* 1 if the store was not closed cleanly */
    rp_commit_log *commit_log;
    /* Returns when every byte of the log below offset is on disk: a message may only replace another once a power cut cannot take it
     * back. As rp_message_store_wait_flushed. */
    int (*wait_flushed)(void *context, int64_t offset, uint32_t timeout_ms);
    void *context;
    const rp_clock *clock;
    const rp_file_ops *ops;
    rp_log *log;
} rp_compaction_options;

/* RP_OK; RP_E_INVALID (sizes, interval), RP_E_IO, RP_E_NO_MEMORY. */
int rp_compaction_open(const rp_compaction_options *options, rp_compaction **compaction, rp_error *error);
/* Joins the thread and syncs. NULL is allowed. Nobody may follow or read any more. */
void rp_compaction_close(rp_compaction *compaction);

/* Loads the queue's files and copies it from now on. RP_OK, also when it is followed already; errors of rp_compaction_log_open, and
 * RP_E_BUSY: no thread could be started. */
int rp_compaction_follow(rp_compaction *compaction, rp_consume_queue *queue, rp_error *error);
/* Makes the queue a plain one again; its files stay. */
void rp_compaction_leave(rp_compaction *compaction, rp_consume_queue *queue);
/* Removes the copies of a queue whose topic is deleted. RP_OK, RP_E_IO. */
int rp_compaction_delete(rp_compaction *compaction, rp_consume_queue *queue, rp_error *error);

/* A slave's log may begin later than what its master has kept of a queue. While `holds` is set, such a queue is not copied, but waits until
 * the gap is filled. Any thread. */
void rp_compaction_hold_gaps(rp_compaction *compaction, int holds);
/* A queue that waits, and the queue offsets that it lacks: [from, to); `to` is INT64_MAX while the queue has no messages. */
typedef struct rp_compaction_gap {
    rp_consume_queue *queue;
    int64_t from, to;
} rp_compaction_gap;
/* The next queue that waits. *cursor must be 0 before the first call. Returns 1, or 0 if there are no more. Any thread. */
int rp_compaction_next_gap(rp_compaction *compaction, uint32_t *cursor, rp_compaction_gap *gap);
/* Puts records into a gap, from its `from` on. next_offset is the offset of the first record after these; if it is `to` or more, nothing is
 * missing any more. RP_OK, also if the queue no longer waits; RP_E_PROTOCOL, RP_E_DISK_FULL, RP_E_IO, RP_E_NO_MEMORY. One thread at a time;
 * blocks on the disk. */
int rp_compaction_fill(rp_compaction *compaction, rp_consume_queue *queue, rp_slice records, int64_t next_offset, rp_error *error);

/* The log offset from which on the commit log is needed: that of the first message that its compacted log does not have on disk yet.
 * INT64_MAX: there is no such message. */
int64_t rp_compaction_needed_from(rp_compaction *compaction);

void rp_compaction_read_stats(rp_compaction *compaction, rp_compaction_stats *stats);

#endif
