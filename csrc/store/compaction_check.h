/* compaction_check.h: what compacted topics have kept (compaction/), checked as it lies there. Private to store_verify.
 *
 * Segments   each file of records has one of entries; offsets ascend, in it and from one segment to the next; what a start would drop, or
 *            make anew, is told of. None begins within another.
 * Gaps       in the row of files: compacted messages need fewer files, so one gap is normal, in front of the first file behind the
 *            position. A second gap, or one elsewhere, says that files are lost. Files lost right beside the normal gap cannot be told.
 * Entries    each points at a whole record behind the one before it, of that queue, at that offset, with that tags code. A sealed segment
 *            ends with the entry that says so: whole records without one are missing some.
 * Positions  position-checkpoint can be read.
 *
 * A queue whose files were being moved when its process ended is passed over: the next start finishes that first (compaction_files.h).
 * Records that a cut of the log took back lie there without entries until somebody writes over them: they are no damage, and nor is the
 * one that a kill kept from getting its own. A last file without length is none after a kill, and damage after a clean stop.
 *
 * Threads  one owner. Nothing is written. Of either product's stores: the commit log offset of a record is not looked at.
 */
#ifndef RP_STORE_COMPACTION_CHECK_H
#define RP_STORE_COMPACTION_CHECK_H

#include <stdint.h>

#include "../base/error.h"
#include "queue_check.h"

typedef struct rp_compaction_check_options {
    const char *root_path;
    int32_t check_crc;
    int32_t is_stopped;           /* by a clean stop, not a kill: every file has a length */
    const rp_queue_check *queues; /* walked; borrowed */
    /* Non-zero ends the check. file is valid meanwhile; offset in the file, -1: the whole file; size 0 where that says nothing. */
    int (*report)(void *context, const char *file, int64_t offset, int64_t size, const char *cause);
    void *context;
} rp_compaction_check_options;

typedef struct rp_compaction_check_counts {
    uint64_t queues, messages, unfinished; /* unfinished: queues that were passed over */
} rp_compaction_check_counts;

/* RP_OK, also of a store without; what report returned; RP_E_IO, RP_E_NO_MEMORY: a file could not be read, which is no damage. */
int rp_compaction_check(const rp_compaction_check_options *options, rp_compaction_check_counts *counts, rp_error *error);

#endif
