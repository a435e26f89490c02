/* compaction_log.h: the compacted log of one queue: the row of its segments. Private to csrc/store except for what the broker reads.
 * RocketMQ: CompactionLog (5.5.0 store/kv/).
 *
 *   row ─► [ segment ][ segment ][ segment, written ]      queue offsets ascending, with gaps
 *
 * End      messages below rp_compaction_log_end are read from here, later ones from the queue itself. The two agree, so nobody waits for
 *          the copy, and the commit log may lose what is here.
 * Threads  one writer at a time (rp_compaction_log_lock_writer). Readers find and pin a segment under the row's lock, a leaf held for a
 *          binary search among segments, and read it without the lock. min, max and end are atomics.
 * Lifetime a log that a queue was given lives until the store closes, also when its topic is deleted (then it is empty).
 */
#ifndef RP_STORE_COMPACTION_LOG_H
#define RP_STORE_COMPACTION_LOG_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"
#include "../base/log.h"
#include "compaction_segment.h"
#include "consume_queue.h"
#include "message.h"

typedef struct rp_compaction_log_setup {
    const rp_file_ops *ops;
    rp_log *log;
    /* The directories of all topics: compaction/compactionLog, compaction/compactionCq; copied. */
    const char *log_directory, *queue_directory;
    uint64_t log_size, queue_size;               /* sizes of new files */
    int32_t checks_records;                      /* 1 if the store was not closed cleanly */
} rp_compaction_log_setup;

/* Settles the queue's files and loads them; no file is made before the first append. RP_OK; RP_E_IO, RP_E_CORRUPT, RP_E_NO_MEMORY,
 * RP_E_TOO_LARGE with the file. */
int rp_compaction_log_open(const rp_compaction_log_setup *setup, rp_slice topic, int32_t queue_id, rp_compaction_log **log,
                           rp_error *error);
void rp_compaction_log_close(rp_compaction_log *log);

void rp_compaction_log_lock_writer(rp_compaction_log *log);
void rp_compaction_log_unlock_writer(rp_compaction_log *log);

/* ---- for the writer ---- */

/* Appends a record of the commit log; a record whose queue offset is not behind the last one is left out. Does not move the end. RP_OK;
 * RP_E_INVALID: it is too large for any file; RP_E_DISK_FULL, RP_E_IO, RP_E_NO_MEMORY, RP_E_BUSY: nothing has changed. */
int rp_compaction_log_append(rp_compaction_log *log, const rp_message *message, rp_slice record, int64_t tags_code, rp_error *error);
void rp_compaction_log_set_end(rp_compaction_log *log, int64_t end);
/* Returns when everything appended is on disk. RP_OK, RP_E_IO, RP_E_DISK_FULL. */
int rp_compaction_log_sync(rp_compaction_log *log, rp_error *error);
/* Removes the entries from queue offset `offset` on, and moves the end back to it. RP_OK, RP_E_IO. */
int rp_compaction_log_cut(rp_compaction_log *log, int64_t offset, rp_error *error);
/* As rp_compaction_log_cut, for messages that have to be copied again because others were dropped in their favour. If the process is
 * killed meanwhile, the next open finds the last of them unchanged, or none of them. RP_OK; RP_E_IO, RP_E_DISK_FULL: some of them may be
 * left, and then the last of them is. */
int rp_compaction_log_cut_anew(rp_compaction_log *log, int64_t offset, rp_error *error);
/* Removes all entries and their files. RP_OK, RP_E_IO. */
int rp_compaction_log_clear(rp_compaction_log *log, rp_error *error);
/* Where its files lie; borrowed. */
const rp_compaction_place *rp_compaction_log_place(const rp_compaction_log *log);
/* Returns the segments that are no longer written, each with a pin, in an array that the caller frees; *base: where the segment that is
 * written begins. RP_OK, RP_E_NO_MEMORY. */
int rp_compaction_log_sealed(rp_compaction_log *log, rp_compaction_segment ***segments, uint32_t *count, int64_t *base, rp_error *error);
/* Puts `fresh` in the place of the first `old_count` segments and takes over their pins. Their files must have been moved already.
 * RP_OK, RP_E_NO_MEMORY. */
int rp_compaction_log_replace(rp_compaction_log *log, uint32_t old_count, rp_compaction_segment *const *fresh, uint32_t fresh_count,
                              rp_error *error);
int64_t rp_compaction_log_synced_end(const rp_compaction_log *log);

/* ---- from any thread ---- */

int64_t rp_compaction_log_end(const rp_compaction_log *log);
/* The queue offset of the first entry, and the one behind the last; both are 0 when there is none. */
int64_t rp_compaction_log_min_offset(const rp_compaction_log *log);
int64_t rp_compaction_log_max_offset(const rp_compaction_log *log);
/* Returns the segment with the first entry whose queue offset is `offset` or more, pinned; NULL if there is none. */
rp_compaction_segment *rp_compaction_log_find(rp_compaction_log *log, int64_t offset);
/* Reads the last entry below `offset` and returns its segment, pinned; NULL if there is none. */
rp_compaction_segment *rp_compaction_log_find_before(rp_compaction_log *log, int64_t offset, rp_compaction_entry *entry);
/* Counts the segments, and the bytes of their files. */
void rp_compaction_log_read_size(rp_compaction_log *log, uint32_t *segments, uint64_t *bytes);
rp_slice rp_compaction_log_topic(const rp_compaction_log *log);
int32_t rp_compaction_log_queue_id(const rp_compaction_log *log);

#endif
