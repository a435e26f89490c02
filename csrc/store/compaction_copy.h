/* compaction_copy.h: copies a queue's messages from the commit log into its compacted log. Private to csrc/store.
 * RocketMQ: CommitLogDispatcherCompaction, CompactionLog.asyncPutMessage (5.5.0 store/kv/).
 *
 * The copy follows the queue's entries, after the append. So plain topics pay nothing; held-back and uncommitted messages are left out,
 * because they are not in the queue yet; and after a kill the copy continues behind the last record that is there.
 * Cut      when the log's end moves back (a torn tail, another leader's records) the copy may hold records that are no messages any
 *          more. So its last records are compared with the queue's at open and after every cut; those that differ, or that the queue
 *          does not have, are removed. What lies before the queue's first entry cannot be compared, and stays.
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
    rp_compaction_log *to; /* the caller holds its writer lock */
    rp_log *log;
    /* results, added up */
    uint64_t copied, without_key, passed_over;
} rp_compaction_copy;

/* Copies the next messages of the queue. 1: there may be more; 0: all are copied. RP_E_DISK_FULL, RP_E_IO, RP_E_NO_MEMORY, RP_E_BUSY:
 * try again. */
int rp_compaction_copy_some(rp_compaction_copy *copy, rp_error *error);
/* Appends messages that the queue's master kept and this queue never had, in the form of a pull's answer: those from the log's end on
 * and below `to`. The end moves behind the last. RP_OK; RP_E_PROTOCOL: bytes that are no messages of this queue; errors of
 * rp_compaction_log_append. */
int rp_compaction_copy_fill(rp_compaction_copy *copy, rp_slice records, int64_t to, rp_error *error);
#define RP_COMPACTION_COPY_ANEW 2
/* Compares the last records with the queue. 1: they agree, or those that differ were cut; 0: the queue is empty, so nothing can be said
 * yet. RP_COMPACTION_COPY_ANEW: some of the records to be cut are compacted already (not behind `compacted_to`), and older messages may
 * have been dropped in their favour; nothing was cut. RP_E_IO, RP_E_NO_MEMORY: try again. */
int rp_compaction_copy_compare(rp_compaction_copy *copy, int64_t compacted_to, rp_error *error);

#endif
