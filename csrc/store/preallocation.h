/* preallocation.h: keeps bytes of the commit log ready to be written ahead of the appender: files made, space allocated, pages in memory;
 * and extends the consume queues that ask for it.
 * RocketMQ: AllocateMappedFileService, warmMappedFile (5.3.3 store/).
 *
 *   written ──► position ▒▒▒▒▒ ready ▒▒▒▒▒ ready_end ░░░ zeroed ░░░ zeroed_end ─── allocated ─── file end │ next file …
 *
 * Why      a first touch of a mapped page costs 2 to 3 µs and, on a full disk, the process (SIGBUS). Here the kernel is asked in bulk,
 *          by another thread, and answers with an error code.
 * How      fallocate reserves the blocks; zeros written in pieces make folios of the piece's size in the page cache, which are faulted
 *          in and, later, written back as a whole. Measured: docs/design-store.md. The next blocks are asked for when
 *          the lead is full: finding them may take longer than half a lead lasts.
 * Modes    RP_READY_FOR_ASYNC: pieces of 256 KB, one at a time; MADV_POPULATE_WRITE maps them writable. Larger folios cost less to
 *          fault in and much less to write back (one of 64 KB: four times, most of it interrupts to the other cores, whose TLBs must
 *          forget the pages); at 2 MB the kernel may have to compact memory, or a virtual machine's host to find some.
 *          RP_READY_FOR_SYNC: pieces of 16 KB, synced ahead, so that a record's sync finds written extents and needs no journal commit;
 *          not mapped, as the appender writes (log_staging.h). No zeros, and a short lead, while syncs are large: there, to write
 *          everything twice takes the disk longer than a commit.
 * Crowds   while many wait for each sync, the thread that syncs also makes the zeros, right after the sync, before the next sends come: a
 *          third thread that writes to the same file and disk whenever it gets a core would make everybody wait. While few wait, this
 *          module's own thread makes them.
 * Threads  one thread of its own; advise from the appender, lock-free; require from the appender, which does the work itself when
 *          the thread has been outrun. Extending is guarded by one lock, held for at most one chunk or
 *          one request for blocks.
 * Bounds   never further ahead than ahead_bytes, nor than the end of the next file; without zeros 4 MB, but near a file's end.
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
    /* A sync of zeros failed: the disk loses pages of the log's file, which is as fatal as the flusher's own failure. On the
     * preallocation thread; NULL: nobody is told. */
    void (*sync_failed)(void *context, const rp_error *error);
    void *context;
} rp_preallocation_options;

int rp_preallocation_open(const rp_preallocation_options *options, rp_preallocation **preallocation, rp_error *error);
/* Starts the thread; without it require does everything. */
int rp_preallocation_start(rp_preallocation *preallocation, rp_error *error);
void rp_preallocation_stop(rp_preallocation *preallocation);
void rp_preallocation_close(rp_preallocation *preallocation);

/* Every byte below it can be written without a fault. */
int64_t rp_preallocation_ready_end(const rp_preallocation *preallocation);
/* Returns when ready_end >= end. RP_OK; RP_E_DISK_FULL, RP_E_IO, RP_E_NO_MEMORY: then it may be tried again at any time. */
int rp_preallocation_require(rp_preallocation *preallocation, int64_t end, rp_error *error);
/* As require, for a caller that writes all of [ready_end, end) itself at once: makes space, but no zeros and no pages, which would be
 * written twice. A slave's backlog goes this way. */
int rp_preallocation_claim(rp_preallocation *preallocation, int64_t end, rp_error *error);
/* By the thread that syncs the log for a crowd, right behind a sync: one chunk of zeros more, when one is missing; its write-out is begun
 * and not waited for. RP_READY_FOR_SYNC; else nothing happens. */
void rp_preallocation_step(rp_preallocation *preallocation);
/* A sync of the log has covered so many bytes. By whoever syncs, one at a time. */
void rp_preallocation_count_sync(rp_preallocation *preallocation, int64_t bytes);
/* Around a write of the appender's own to the file: between the two no zeros are begun. The kernel lets one write to a file at a time, and
 * whoever waits gets its turn from a loop of small writes only after 4 ms. */
void rp_preallocation_pause(rp_preallocation *preallocation);
void rp_preallocation_resume(rp_preallocation *preallocation);
/* The appender has come to position: wakes the thread when a refill of the lead is used up, or half of a small or short lead. */
void rp_preallocation_advise(rp_preallocation *preallocation, int64_t position);
/* The queue will need more space soon: the thread extends it (consume_queue_space.h). Any thread; nothing happens without the thread. */
void rp_preallocation_want_space(rp_preallocation *preallocation, rp_consume_queue *queue);
/* The log is empty and starts at position: files made ready for another start are removed first. Nobody may append meanwhile. RP_OK, or why
 * one could not be removed. */
int rp_preallocation_move(rp_preallocation *preallocation, int64_t position, rp_error *error);

#endif
