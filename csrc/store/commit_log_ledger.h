/* commit_log_ledger.h: the commit log as DLedger's: entries with index and term, of which only committed ones are in queues.
 * RocketMQ: DLedgerCommitLog (5.3.3 store/dledger/); DLedger: DLedgerMmapFileStore (0.3.2).
 *
 *   leader    append: head and record at the log's end ─ pushed to followers ─ committed ─► queues, index, readers
 *   follower  rp_commit_log_append_entry ─────────────────────────────────────── committed ─► the same
 *
 * What is not committed is in no queue: another leader may take it back (rp_commit_log_cut_entries), which touches nothing but the log's
 * end. A leader numbers a queue's messages on behind those that are not committed yet.
 * Of a log without entries these give RP_E_UNSUPPORTED, or nothing. A log with entries follows nobody's term and refuses appends when it is
 * opened; how much of it is committed its last checkpoint says, and then the group.
 *
 * Threads  all of these from any thread; lead, follow, pause, append_entry, cut_entries and commit_entries one at a time (one member
 *          decides).
 */
#ifndef RP_STORE_COMMIT_LOG_LEDGER_H
#define RP_STORE_COMMIT_LOG_LEDGER_H

#include <stdint.h>

#include "../base/error.h"
#include "commit_log.h"
#include "ledger_entry.h"

typedef struct rp_ledger_ends {
    int64_t begin_index; /* -1: no entry */
    int64_t end_index;   /* the last entry's; -1: no entry */
    int64_t end_term;    /* likewise */
    int64_t end_offset;  /* behind its last byte */
} rp_ledger_ends;

int rp_commit_log_has_entries(const rp_commit_log *log);
void rp_commit_log_read_ends(rp_commit_log *log, rp_ledger_ends *ends);
/* The same without the lock, which an append that the disk holds up may have; of a log that neither grows nor is cut meanwhile, else of
 * one moment or another. */
void rp_commit_log_peek_ends(const rp_commit_log *log, rp_ledger_ends *ends);
/* The two indexes alone, without a lock. */
int64_t rp_commit_log_begin_index(const rp_commit_log *log);
int64_t rp_commit_log_end_index(const rp_commit_log *log);
/* Head and record of the entry, pinned; the head is decoded into *entry. RP_OK; RP_E_RANGE: the log has no such index; RP_E_NOT_FOUND,
 * RP_E_IO, RP_E_NO_MEMORY as rp_commit_log_read; RP_E_CORRUPT: index file and log disagree. */
int rp_commit_log_read_entry(rp_commit_log *log, int64_t index, rp_log_range *range, rp_ledger_entry *entry);
/* The last entry that ends at or below the offset; -1: none does. RP_E_IO … as a negative status below -1 never occurs: -1 then, too. */
int64_t rp_commit_log_index_below(rp_commit_log *log, int64_t offset);

/* The log's appends make entries of this term from now on, the first of which it makes itself: a record without a body or a queue (a
 * rolled-back half of SELF_TEST_TOPIC, which RocketMQ's brokers pass over too), so that all before it is committed with it (Raft 5.4.2).
 * What is not committed is counted to its queues first. RP_OK; RP_E_RANGE: a term below the last entry's; RP_E_CORRUPT, RP_E_IO,
 * RP_E_DISK_FULL, RP_E_READ_ONLY, RP_E_CLOSED: it does not lead. */
int rp_commit_log_lead_entries(rp_commit_log *log, int64_t term, rp_error *error);
/* Appends are refused (RP_E_READ_ONLY) when this returns RP_OK, and none is under way. RP_E_BUSY: one still is after wait_ms, stuck on the
 * disk; all is as it was. */
int rp_commit_log_follow_entries(rp_commit_log *log, uint32_t wait_ms);
/* Of a log that leads: the same for a while, until it is called with 0, or the log is led or follows again. */
int rp_commit_log_pause_entries(rp_commit_log *log, int is_paused, uint32_t wait_ms);
/* The leader's next entry, head and record as they are to lie in the log. RP_OK; RP_E_RANGE: it does not follow the last one (index, term,
 * position); RP_E_CORRUPT: it is not a record, or not one of this place; RP_E_INVALID: the log leads; RP_E_DISK_FULL, RP_E_IO,
 * RP_E_NO_MEMORY: may be tried again; RP_E_READ_ONLY, RP_E_CLOSED. It is readable then; durable as rp_commit_log_flushed_offset says. */
int rp_commit_log_append_entry(rp_commit_log *log, const uint8_t *bytes, uint32_t size, rp_error *error);
/* Entries behind last_index are gone, on disk too, when this returns RP_OK; -1: all are, of a log of which none is committed.
 * RP_E_RANGE: committed ones would be cut, or there is no such entry; RP_E_INVALID: the log leads; RP_E_IO, RP_E_DISK_FULL: as
 * rp_commit_log_cut. */
int rp_commit_log_cut_entries(rp_commit_log *log, int64_t last_index, rp_error *error);
/* Everything below offset, an entry's end, is committed: into the queues with it. Never goes back. */
void rp_commit_log_commit_entries(rp_commit_log *log, int64_t offset);
/* Waits until everything below offset is committed, and in its queues. cuts: rp_commit_log_cuts, read before offset was taken. RP_OK, also
 * of a log without entries; RP_E_TIMEOUT; RP_E_RANGE: it is past the log's end, or the log was cut since. Any thread. */
int rp_commit_log_wait_committed(rp_commit_log *log, int64_t offset, uint64_t cuts, uint32_t timeout_ms);

#endif
