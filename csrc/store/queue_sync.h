/* queue_sync.h: one pass that makes the entries of all queues durable.
 * RocketMQ: FlushConsumeQueueService (5.3.3 store/DefaultMessageStore.java), which syncs file by file.
 *
 * The sync of a file is one commit of the file system, 0.4 to 0.6 ms: 65,000 queues took half a minute. When at least at_once queues have
 * something new, the whole file system is synced instead (0.35 s for 20,000). That also writes what other programs have put there, so fewer
 * queues are synced one by one. They are, too, when the sync of the file system fails, since each file then says what it lost.
 *
 * Threads  one pass at a time: the flusher's.
 * Memory   40 bytes a queue, for the pass; where there is none they are synced one by one.
 */
#ifndef RP_STORE_QUEUE_SYNC_H
#define RP_STORE_QUEUE_SYNC_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"
#include "queue_table.h"

#define RP_QUEUES_AT_ONCE 1000

typedef struct rp_queue_sync {
    rp_queue_table *queues;
    const rp_file_ops *ops;
    int directory_fd; /* of the directory of all queues, opened before the first of them is written to; -1: none */
    uint32_t at_once; /* queues */
} rp_queue_sync;

/* 1: a pass would sync the file system now, and with it all that lies unwritten in it. */
int rp_queue_sync_is_together(const rp_queue_sync *sync, int64_t least_bytes);
/* Entries that were put before the call, of queues that have least_bytes of new ones. RP_OK; else with error, and other queues may be
 * synced: RP_E_IO; RP_E_BUSY, RP_E_NOT_FOUND as of rp_mapped_file_queue_sync. */
int rp_queue_sync_pass(const rp_queue_sync *sync, int64_t least_bytes, rp_error *error);

#endif
