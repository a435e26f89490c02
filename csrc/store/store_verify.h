/* store_verify.h: checks a stopped store directory of either product against itself and names each damage.
 *
 * Commit log      every record decodes, its CRC is right, it lies where it says, and files follow each other without a gap. The same in
 *                 a DLedger log, with its heads; records at its end that are in no queue were not committed yet.
 * Consume queues  every message has its entry, except those that our checkpoint does not call confirmed (commit_log_held.c); every entry
 *                 points at its message; sizes and tags codes agree. Entries of a batch queue are in the order of their offsets.
 * Index           every entry points at a message that has a key with that hash; there are as many files as our last stop left, if it
 *                 was clean.
 * Timed messages  timer log, timing wheel and checkpoint agree with each other and with the log (timer_check.h).
 * Compacted topics  the messages they have kept are whole, and found by their entries (compaction_check.h).
 * A file that a kill left without length while it was being made is no damage: a start makes it again. For compacted topics it is damage
 * after a clean stop.
 *
 * Threads  runs in the caller's; callbacks are called there too. Writes nothing.
 * Bounds   the log is read once in order; queue and index checks read it again by offset. Memory: a small struct per queue.
 */
#ifndef RP_STORE_STORE_VERIFY_H
#define RP_STORE_STORE_VERIFY_H

#include <stdint.h>

#include "../base/error.h"
#include "index_file.h"

enum rp_damage_kind { RP_DAMAGE_LOG = 1, RP_DAMAGE_QUEUE = 2, RP_DAMAGE_INDEX = 3, RP_DAMAGE_TIMER = 4, RP_DAMAGE_COMPACTION = 5 };

typedef struct rp_damage_row {
    int32_t kind;     /* rp_damage_kind */
    const char *file; /* valid during the visit */
    int64_t offset;   /* where it starts: for the log its physical offset, for other files the byte in the file; -1: the whole file */
    int64_t size;     /* bytes, 0 where it means nothing */
    const char *cause;
} rp_damage_row;

typedef struct rp_verify_counts {
    uint64_t log_files, log_bytes, messages, queues, queue_entries, index_files, index_entries, timer_records, timer_slots, damages;
    uint64_t orphans; /* messages without a queue, or before its begin, because their topic was deleted; also those that are held back */
    uint64_t uncommitted; /* in a log with entries (ledger_entry.h): messages at its end, counted from the first that is in no queue */
    uint64_t compacted_queues, compacted_messages;
    uint64_t compactions_unfinished; /* queues among these that were not checked, because the next start moves their files first */
    int64_t log_min_offset, log_max_offset; /* max: behind the last good record */
} rp_verify_counts;

typedef struct rp_verify_options {
    const char *root_path;
    const char *commit_log_path;   /* NULL: root/commitlog */
    int32_t check_crc;             /* default 1 */
    rp_index_shape index_shape;
    /* Called for each damage; non-zero ends the run. May be NULL. */
    int (*visit)(void *context, const rp_damage_row *damage);
    /* Called every few megabytes with bytes done of bytes_total; non-zero ends the run. May be NULL. */
    int (*progress)(void *context, uint64_t bytes_done, uint64_t bytes_total);
    void *context;
} rp_verify_options;

void rp_verify_options_default(rp_verify_options *options);
/* RP_OK: the run is complete, and counts->damages is the result; RP_E_CLOSED: a callback ended it; RP_E_NOT_FOUND: no such store;
 * RP_E_IO, RP_E_NO_MEMORY: a file could not be read, which is not damage. */
int rp_store_verify(const rp_verify_options *options, rp_verify_counts *counts, rp_error *error);

#endif
