/* flusher.h: makes appended bytes durable: many waiters share one sync, and a timed sync covers everybody else.
 * RocketMQ: GroupCommitService, FlushRealTimeService, FlushConsumeQueueService (5.3.3 store/CommitLog.java, DefaultMessageStore.java).
 *
 *   wait ──► leader: [msync of flushed..max] ─► flushed offset ─► every waiter below it returns; one of the others leads the next sync
 *   request ──► log's thread ─┘ ◄── timer        timer ──► queues' thread ─► sync of each queue ─► checkpoint
 *
 * Group    one sync is under way at a time. A waiter that finds none leads: in its own thread it syncs everything appended so far, also
 *          for those who arrive meanwhile. A lone writer waits for nobody.
 * Failure  a failed sync is never repeated, because the kernel may have dropped the pages. The log refuses writes for good.
 * Threads  two of its own, so that the log's syncs do not wait for the queues'. After each requested sync the log's thread also prepares
 *          bytes ahead of the writer (rp_preallocation_step). wait and request from any thread. Owns its threads, borrows the rest.
 */
#ifndef RP_STORE_FLUSHER_H
#define RP_STORE_FLUSHER_H

#include <stdint.h>

#include "../base/error.h"
#include "checkpoint.h"
#include "commit_log_writer.h"
#include "flush_timing.h"
#include "queue_sync.h"

typedef struct rp_flusher rp_flusher;

typedef struct rp_flusher_setup {
    const rp_file_ops *ops;
    const rp_clock *clock;
    rp_log *log;
    rp_commit_log *commit_log;
    rp_queue_sync queues;
    rp_ledger_index *ledger_index; /* synced together with the queues; NULL: none */
    const char *checkpoint_path;
    rp_checkpoint checkpoint; /* as recovery left it */
    rp_flush_timing timing;   /* at the start */
    /* 1: at the start no producer waits for syncs. The threads then run at a low priority, even if producers wait later, and small
     * amounts may wait for the thorough interval. */
    int32_t is_timed_only;
} rp_flusher_setup;

typedef struct rp_flusher_stats {
    uint64_t flushes, flush_ns_total, flush_ns_max;
} rp_flusher_stats;

int rp_flusher_open(const rp_flusher_setup *setup, rp_flusher **flusher, rp_error *error);
int rp_flusher_start(rp_flusher *flusher, rp_error *error);
/* Stops the threads, then syncs everything and writes the checkpoint. RP_OK, or why that failed: RP_E_IO, RP_E_DISK_FULL, RP_E_BUSY. */
int rp_flusher_stop(rp_flusher *flusher, rp_error *error);
void rp_flusher_close(rp_flusher *flusher);

/* As rp_message_store_wait_flushed, rp_message_store_request_flush, rp_message_store_flush_is_idle, rp_message_store_on_flushed. */
int rp_flusher_wait(rp_flusher *flusher, int64_t offset, uint32_t timeout_ms);
void rp_flusher_request(rp_flusher *flusher, int64_t offset);
/* Changes the timing from now on; a sync due later than the new intervals allow is brought forward. Any thread. */
void rp_flusher_set_timing(rp_flusher *flusher, const rp_flush_timing *timing);
int rp_flusher_is_idle(const rp_flusher *flusher);
void rp_flusher_on_flushed(rp_flusher *flusher, void (*flushed)(void *context, int64_t flushed_offset), void *context);
/* For the next checkpoint: the index files on disk hold every message up to the one at log_offset, stored at time_ms. Any thread. */
void rp_flusher_set_indexed(rp_flusher *flusher, int64_t time_ms, int64_t log_offset);
/* For the last checkpoint: the index is closed and has this many files. */
void rp_flusher_set_index_count(rp_flusher *flusher, uint32_t files);
/* Writes a checkpoint saying that the log is flushed up to offset, which must be true. Needed when the log's beginning moves forward: to
 * recovery, a log that begins behind the checkpoint's offset looks as if it had lost its first files. RP_OK, RP_E_IO, RP_E_DISK_FULL. */
int rp_flusher_checkpoint_log(rp_flusher *flusher, int64_t offset, rp_error *error);
/* Syncs log and queues now and writes the checkpoint, so that recovery does not dispatch again what is in the log at the time of the
 * call. RP_OK, RP_E_IO, RP_E_DISK_FULL, RP_E_BUSY. */
int rp_flusher_checkpoint_queues(rp_flusher *flusher, rp_error *error);
void rp_flusher_read_stats(const rp_flusher *flusher, rp_flusher_stats *stats);

#endif
