/* compaction_copy.h: a queue's messages on their way from the commit log into its compacted log. Private to csrc/store.
 * RocketMQ: CommitLogDispatcherCompaction, CompactionLog.asyncPutMessage (5.5.0 store/kv/).
 *
 * By the queue's entries, behind the append: plain topics pay nothing, what is held back or not committed is not in the queue yet, and
 * after a kill the copy goes on behind the last record that is there.
 * Cut      where the log's end goes back (a torn tail, another leader's records) the copy may hold what is no message any more. So its
 *          last records are compared with the queue's when it is opened and after every cut: those that differ, or that the queue does
 *          not have, go. What lies before the queue's first entry cannot be compared, and stays.
 * Threads  the log's writer. Bounds: RP_COMPACTION_COPY_MAX messages a call.
 */
#ifndef RP_STORE_COMPACTION_COPY_H
#define RP_STORE_COMPACTION_COPY_H

#include <stdint.h>

#include "commit_log.h"
#include "compaction_log.h"

#define RP_COMPACTION_COPY_MAX 512

typedef struct rp_compaction_copy {
    rp_commit_log *commit_log;
    rp_consume_queue *queue;
    rp_compaction_log *to; /* its writer's lock is held */
    rp_log *log;
    /* results, added up */
    uint64_t copied, without_key, passed_over;
} rp_compaction_copy;

/* The next messages of the queue. 1: there may be more; 0: all are there. RP_E_DISK_FULL, RP_E_IO, RP_E_NO_MEMORY, RP_E_BUSY: try again. */
int rp_compaction_copy_some(rp_compaction_copy *copy, rp_error *error);
/* Messages that the queue's master kept and this queue never had, as a pull's answer holds them: those from the end of the log on, below
 * `to`. The end moves behind the last. RP_OK; RP_E_PROTOCOL: bytes that are no messages of this queue; as rp_compaction_log_append. */
int rp_compaction_copy_fill(rp_compaction_copy *copy, rp_slice records, int64_t to, rp_error *error);
#define RP_COMPACTION_COPY_ANEW 2
/* Compares the last records. 1: they agree, or were cut; 0: the queue is empty, nothing can be said yet. RP_COMPACTION_COPY_ANEW: of those
 * that are to be cut some are not behind `compacted_to`, and older ones may have gone for them; nothing was cut. RP_E_IO, RP_E_NO_MEMORY:
 * try again. */
int rp_compaction_copy_compare(rp_compaction_copy *copy, int64_t compacted_to, rp_error *error);

#endif
