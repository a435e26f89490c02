/* queue_sync.h: one pass that makes the entries of all queues durable.
 * RocketMQ: FlushConsumeQueueService (5.3.3 store/DefaultMessageStore.java), which syncs file by file.
 *
 * The sync of a file costs one commit of the file system, 0.4 to 0.6 ms: 65,000 queues took half a minute. If at least at_once queues
 * have new entries, the whole file system is synced instead (0.35 s for 20,000). That also writes what other programs have put there, so
 * fewer queues are synced one by one. If the sync of the file system fails, they are synced one by one too, since each file then reports
 * what it lost.
 *
 * Threads  one pass at a time: the flusher's.
 * Memory   40 bytes a queue during a pass; if that cannot be allocated, queues are synced one by one.
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
    int directory_fd; /* descriptor of the directory of all queues, opened before anything is written below it; -1: none */
    uint32_t at_once; /* number of queues from which on the file system is synced */
} rp_queue_sync;

/* 1 if a pass would now sync the file system, including everything else that is unwritten in it. */
int rp_queue_sync_is_together(const rp_queue_sync *sync, int64_t least_bytes);
/* Syncs the entries put before the call, of queues that have least_bytes of new ones. RP_OK; else, with error, some queues may be
 * synced: RP_E_IO; RP_E_BUSY, RP_E_NOT_FOUND as rp_mapped_file_queue_sync. */
int rp_queue_sync_pass(const rp_queue_sync *sync, int64_t least_bytes, rp_error *error);

#endif
