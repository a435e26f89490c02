/* preallocation.h: prepares bytes of the commit log ahead of the appender (files made, space allocated, pages in memory), and extends
 * the consume queues that ask for it.
 * RocketMQ: AllocateMappedFileService, warmMappedFile (5.3.3 store/).
 *
 *   written ──► position ▒▒▒▒▒ ready ▒▒▒▒▒ ready_end ░░░ zeroed ░░░ zeroed_end ─── allocated ─── file end │ next file …
 *
 * Why      the first touch of a mapped page costs 2 to 3 µs and, on a full disk, the process (SIGBUS). Here another thread asks the
 *          kernel in bulk, which answers with an error code.
 * How      fallocate reserves the blocks; zeros written in pieces create folios of the piece's size in the page cache, which are faulted
 *          in and later written back as a whole. Measured: docs/design-store.md. The next blocks are requested while the lead is full:
 *          finding them may take longer than half a lead lasts.
 * Modes    RP_READY_FOR_ASYNC: pieces of 256 KB, one at a time; MADV_POPULATE_WRITE maps them writable. Larger folios cost less to fault
 *          in and much less to write back (one of 64 KB costs four times as much, most of it interrupts that make the other cores flush
 *          their TLBs); at 2 MB the kernel may have to compact memory, or the host of a virtual machine may have to find some.
 *          RP_READY_FOR_SYNC: pieces of 16 KB, synced ahead, so that a record's sync finds written extents and needs no journal commit;
 *          not mapped, because the appender writes by system calls (log_staging.h). No zeros, and a short lead, while syncs are large:
 *          writing everything twice then costs the disk more than a commit.
 * Crowds   while many producers wait for each sync, the thread that syncs also writes the zeros, right after the sync and before the
 *          next sends arrive: a third thread that writes to the same file and disk whenever it gets a core would delay everybody. While
 *          few wait, this module's own thread does it.
 * Threads  one thread of its own; advise from the appender, lock-free; require from the appender, which does the work itself if the
 *          thread has fallen behind. One lock guards extending, held for at most one chunk or one request for blocks.
 * Bounds   never further ahead than ahead_bytes or the end of the next file; without zeros 4 MB, except near a file's end.
 */
#ifndef RP_STORE_PREALLOCATION_H
#define RP_STORE_PREALLOCATION_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"
#include "../base/log.h"
#include "consume_queue.h"
#include "mapped_file_queue.h"

typedef struct rp_preallocation rp_preallocation;

enum rp_ready_mode { RP_READY_FOR_ASYNC = 0, RP_READY_FOR_SYNC = 1 };

typedef struct rp_preallocation_options {
    const rp_file_ops *ops;
    rp_mapped_file_queue *row;
    rp_log *log;
    uint64_t ahead_bytes;
    int32_t mode;     /* rp_ready_mode */
    int64_t position; /* where the appender will start */
    /* Called on the preallocation thread when a sync of zeros failed: the disk loses pages of the log's file, which is as fatal as a
     * failure of the flusher. May be NULL. */
    void (*sync_failed)(void *context, const rp_error *error);
    void *context;
} rp_preallocation_options;

int rp_preallocation_open(const rp_preallocation_options *options, rp_preallocation **preallocation, rp_error *error);
/* Starts the thread; without it, require does everything. */
int rp_preallocation_start(rp_preallocation *preallocation, rp_error *error);
void rp_preallocation_stop(rp_preallocation *preallocation);
void rp_preallocation_close(rp_preallocation *preallocation);

/* Returns the offset below which every byte can be written without a fault. */
int64_t rp_preallocation_ready_end(const rp_preallocation *preallocation);
/* Returns when ready_end >= end. RP_OK; RP_E_DISK_FULL, RP_E_IO, RP_E_NO_MEMORY: it may be tried again at any time. */
int rp_preallocation_require(rp_preallocation *preallocation, int64_t end, rp_error *error);
/* As require, for a caller that itself writes all of [ready_end, end) at once, as for a slave's backlog: makes space, but no zeros and
 * no pages, since those bytes would be written twice. */
int rp_preallocation_claim(rp_preallocation *preallocation, int64_t end, rp_error *error);
/* Called by the thread that syncs the log for many, right after a sync: zeroes one more chunk if one is missing, and starts its
 * write-out without waiting for it. Does nothing except in RP_READY_FOR_SYNC. */
void rp_preallocation_step(rp_preallocation *preallocation);
/* Counts a sync of the log that covered `bytes`. Called by the thread that syncs, one at a time. */
void rp_preallocation_count_sync(rp_preallocation *preallocation, int64_t bytes);
/* Bracket a write of the appender's own to the file: no zeroing starts in between. The kernel lets only one write to a file proceed at a
 * time, and a waiter gets its turn from a loop of small writes only after 4 ms. */
void rp_preallocation_pause(rp_preallocation *preallocation);
void rp_preallocation_resume(rp_preallocation *preallocation);
/* Tells the appender's position: wakes the thread when a refill of the lead is used up, or half of a small or short lead. */
void rp_preallocation_advise(rp_preallocation *preallocation, int64_t position);
/* The queue will need more space soon: the thread extends it (consume_queue_space.h). Any thread; without the thread nothing happens. */
void rp_preallocation_want_space(rp_preallocation *preallocation, rp_consume_queue *queue);
/* The log is empty and now starts at position: files made ready for another start are removed. Nobody may append meanwhile. RP_OK, or
 * why one could not be removed. */
int rp_preallocation_move(rp_preallocation *preallocation, int64_t position, rp_error *error);

#endif
