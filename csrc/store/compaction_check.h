/* compaction_check.h: checks the files that compacted topics have kept (compaction/). Private to store_verify.
 *
 * Segments   each file of records has a file of entries; offsets ascend within a segment and from one segment to the next; what a start
 *            would drop or make anew is reported. No segment begins within another.
 * Gaps       between the files: compacted messages need fewer files, so one gap is normal, before the first file behind the position. A
 *            second gap, or one elsewhere, means that files are lost. Files lost right beside the normal gap cannot be detected.
 * Entries    each points at a whole record behind the previous one, of that queue, at that offset, with that tags code. A sealed segment
 *            ends with an end entry: whole records without an entry mean that entries are missing.
 * Positions  position-checkpoint can be read.
 *
 * A queue whose files were being moved when its process ended is passed over: the next start finishes that first (compaction_files.h).
 * Records that a cut of the log took back lie in the file without entries until they are overwritten: they are not damage, nor is a
 * record whose entry a kill prevented. A last file without length is ignored after a kill, and damage after a clean stop.
 *
 * Threads  one owner. Writes nothing. Works on stores of either product: the commit log offset of a record is not checked.
 */
#ifndef RP_STORE_COMPACTION_CHECK_H
#define RP_STORE_COMPACTION_CHECK_H

#include <stdint.h>

#include "../base/error.h"
#include "queue_check.h"

typedef struct rp_compaction_check_options {
    const char *root_path;
    int32_t check_crc;
    int32_t is_stopped;           /* 1 after a clean stop (not a kill): every file has a length */
    const rp_queue_check *queues; /* walked already; borrowed */
    /* Called for each damage; non-zero ends the check. file is valid during the call. offset: in the file, -1: the whole file. size: 0
     * where it means nothing. */
    int (*report)(void *context, const char *file, int64_t offset, int64_t size, const char *cause);
    void *context;
} rp_compaction_check_options;

typedef struct rp_compaction_check_counts {
    uint64_t queues, messages, unfinished; /* unfinished: queues that were passed over */
} rp_compaction_check_counts;

/* RP_OK, also for a store without compacted topics; the value that report returned; RP_E_IO, RP_E_NO_MEMORY: a file could not be read,
 * which is not damage. */
int rp_compaction_check(const rp_compaction_check_options *options, rp_compaction_check_counts *counts, rp_error *error);

#endif
