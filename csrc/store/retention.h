/* retention.h: removes the oldest file of the commit log, with everything that points into it, and frees its blocks gradually.
 * RocketMQ: MappedFileQueue.deleteExpiredFileByTime, CleanConsumeQueueService, ReferenceResource (5.3.3 store/). What may be removed and
 * when is decided above (rocketpy/broker/retention.py).
 *
 *   in the row ─ expire ─► no longer found, name gone, queues and index trimmed ─ last reader leaves ─► blocks freed in steps ─► closed
 *
 * Readers of the file finish undisturbed, however long they take (RocketMQ unmaps it under readers after
 * destroyMapedFileIntervalForcibly). Freeing a gigabyte at once would block the file system's journal for everybody else, so it is done
 * in steps of 64 MB with pauses between. A file with another name, as in a backup of hard links, is let go whole.
 * What recovery would look for is never removed: files that are not flushed, not queued, or being written; and the checkpoint is moved
 * past a file before it is removed. Nor is what still has to be copied into a compacted queue.
 * Threads  expire and reclaim from any thread, serialized by a lock of their own; both block on the file system, never on an append.
 * Bounds   RP_LEAVING_FILES_MAX files being let go, then RP_E_BUSY.
 */
#ifndef RP_STORE_RETENTION_H
#define RP_STORE_RETENTION_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"
#include "../base/log.h"
#include "commit_log_writer.h"
#include "compaction.h"
#include "flusher.h"
#include "key_index.h"
#include "queue_table.h"

typedef struct rp_retention rp_retention;

#define RP_LEAVING_FILES_MAX 64

typedef struct rp_retention_setup {
    const rp_file_ops *ops;
    rp_log *log;
    rp_commit_log *commit_log;
    rp_flusher *flusher;
    rp_queue_table *queues;
    rp_key_index *index; /* NULL: there is none */
    rp_ledger_index *ledger_index; /* likewise */
    rp_compaction *compaction;     /* likewise */
} rp_retention_setup;

int rp_retention_open(const rp_retention_setup *setup, rp_retention **retention, rp_error *error);
/* Files still being let go lose their blocks with their last reader. NULL is allowed. */
void rp_retention_close(rp_retention *retention);

/* See rp_message_store_expire_file. */
int rp_retention_expire_file(rp_retention *retention, rp_error *error);
/* Frees the blocks of files that nobody reads any more. Returns how many are still being read. */
uint32_t rp_retention_reclaim(rp_retention *retention);
/* Held while a topic's queues are deleted: only one thread at a time removes files of queues. Taken before the append lock. */
void rp_retention_lock(rp_retention *retention);
void rp_retention_unlock(rp_retention *retention);

typedef struct rp_retention_stats {
    uint64_t files_deleted, bytes_deleted;
    uint32_t files_leaving; /* as of the last expire or reclaim */
} rp_retention_stats;
void rp_retention_read_stats(const rp_retention *retention, rp_retention_stats *stats);

#endif
