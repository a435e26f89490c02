/* store_verify.h: checks a stopped store directory of either product against itself and names each damage.
 *
 * Commit log      every record decodes, its CRC is right, it lies where it says, files follow each other without a gap.
 *                 DLedger's log, with heads, likewise; what lies at its end and is in no queue was not committed yet.
 * Consume queues  every message has its entry, but for those that our checkpoint does not call confirmed (commit_log_held.c), every entry
 *                 points at its message, sizes and tag codes agree. Those of a batch queue are in the order of their offsets.
 * Index           every entry points at a message that has a key of that hash; as many files as our last stop left, if it was clean.
 * Timed messages  timer log, timing wheel and checkpoint agree with each other and with the log (timer_check.h).
 * Compacted topics  what they have kept is whole, and found by its entries (compaction_check.h).
 * A file that a kill left without length while it was made is no damage: a start makes it. Of compacted topics it is damage after a stop.
 *
 * Threads  runs in the caller's; visit is called there too. Nothing is written.
 * Bounds   the log is read once in order; queue and index checks read it again by offset. Memory: a small record per queue.
 */
#ifndef RP_STORE_STORE_VERIFY_H
#define RP_STORE_STORE_VERIFY_H

#include <stdint.h>

#include "../base/error.h"
#include "index_file.h"

enum rp_damage_kind { RP_DAMAGE_LOG = 1, RP_DAMAGE_QUEUE = 2, RP_DAMAGE_INDEX = 3, RP_DAMAGE_TIMER = 4, RP_DAMAGE_COMPACTION = 5 };

typedef struct rp_damage_row {
    int32_t kind;     /* rp_damage_kind */
    const char *file; /* valid while visited */
    int64_t offset;   /* byte in the file's own numbering: physical for the log, in the file for others; -1 the whole file */
    int64_t size;     /* bytes, 0 where that says nothing */
    const char *cause;
} rp_damage_row;

typedef struct rp_verify_counts {
    uint64_t log_files, log_bytes, messages, queues, queue_entries, index_files, index_entries, timer_records, timer_slots, damages;
    uint64_t orphans; /* messages without a queue, or before its begin, because their topic was deleted; and those that are held back */
    uint64_t uncommitted; /* in a log with entries (ledger_entry.h): messages at its end from the first that is in no queue on */
    uint64_t compacted_queues, compacted_messages;
    uint64_t compactions_unfinished; /* of those queues: not looked into, the next start moves their files first */
    int64_t log_min_offset, log_max_offset; /* max: behind the last good record */
} rp_verify_counts;

typedef struct rp_verify_options {
    const char *root_path;
    const char *commit_log_path;   /* NULL: root/commitlog */
    int32_t check_crc;             /* default 1 */
    rp_index_shape index_shape;
    /* Non-zero ends the run. May be NULL. */
    int (*visit)(void *context, const rp_damage_row *damage);
    /* Called every few megabytes with bytes done of bytes_total; non-zero ends the run. May be NULL. */
    int (*progress)(void *context, uint64_t bytes_done, uint64_t bytes_total);
    void *context;
} rp_verify_options;

void rp_verify_options_default(rp_verify_options *options);
/* RP_OK: ran to its end (counts->damages says how it went); RP_E_CLOSED: ended by a callback; RP_E_NOT_FOUND: no such store;
 * RP_E_IO, RP_E_NO_MEMORY: a file could not be read, which is no damage. */
int rp_store_verify(const rp_verify_options *options, rp_verify_counts *counts, rp_error *error);

#endif
