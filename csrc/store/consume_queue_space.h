/* consume_queue_space.h: makes files and disk space for the entries of a queue, ahead of the appender.
 *
 * A file has its full length from the start (RocketMQ loads no other), but blocks only where entries are or will soon be. A full disk is
 * then an error of fallocate before the record is written, never a SIGBUS at a store. Thin queues stay thin: steps grow from 4 KB to 64
 * KB with the file; beyond that the file is allocated whole, in one journal transaction for 300,000 entries.
 *
 *   appender ── reserve ──► space left: nothing to do │ half of the step left: put on the wanted list │ none: makes it itself
 *   preallocation thread ── take wanted queues, extend each ──► publishes under the append lock
 *
 * Threads  reserve and leave_file under the append lock; prepare and extend from any thread without it.
 */
#ifndef RP_STORE_CONSUME_QUEUE_SPACE_H
#define RP_STORE_CONSUME_QUEUE_SPACE_H

#include "../base/error.h"
#include "consume_queue.h"

/* Makes room for the entry at max_offset. The following put then cannot fail, except on file systems where reserved space can be taken
 * back (base/map_hold.h). RP_OK; RP_E_DISK_FULL, RP_E_IO, RP_E_NO_MEMORY. */
int rp_consume_queue_reserve(rp_consume_queue *queue, rp_error *error);
/* Forgets the active file; the next reserve looks it up again. */
void rp_consume_queue_leave_file(rp_consume_queue *queue);

/* Makes the directory and first file of a new queue, so that its first append need not. RP_OK; RP_E_IO, also with as many files as
 * the setup's files_max; RP_E_DISK_FULL, RP_E_NO_MEMORY, which would hit any queue. The log says why sends are refused. */
int rp_consume_queue_prepare(rp_consume_queue *queue, rp_error *error);
/* Makes one more step of space, and the next file when this one is used up. */
int rp_consume_queue_extend(rp_consume_queue *queue, rp_error *error);

#endif
