/* commit_log_ledger.h: the commit log as DLedger's: entries with index and term, of which only committed ones are in queues.
 * RocketMQ: DLedgerCommitLog (5.3.3 store/dledger/); DLedger: DLedgerMmapFileStore (0.3.2).
 *
 *   leader    append: head and record at the log's end ─ pushed to followers ─ committed ─► queues, index, readers
 *   follower  rp_commit_log_append_entry ─────────────────────────────────────── committed ─► the same
 *
 * Uncommitted entries are in no queue: another leader may take them back (rp_commit_log_cut_entries), which changes only the log's end.
 * A leader numbers a queue's messages behind those that are not committed yet.
 * On a log without entries these functions return RP_E_UNSUPPORTED, or do nothing. A log with entries is opened with no leader and no
 * term, and refuses appends; its last checkpoint says how much of it is committed, and later the group does.
 *
 * Threads  any; but lead, follow, pause, append_entry, cut_entries and commit_entries one at a time (one member decides).
 */
#ifndef RP_STORE_COMMIT_LOG_LEDGER_H
#define RP_STORE_COMMIT_LOG_LEDGER_H

#include <stdint.h>

#include "../base/error.h"
#include "commit_log.h"
#include "ledger_entry.h"

typedef struct rp_ledger_ends {
    int64_t begin_index; /* -1: no entry */
    int64_t end_index;   /* index of the last entry; -1: no entry */
    int64_t end_term;    /* term of the last entry; -1: no entry */
    int64_t end_offset;  /* log offset behind its last byte */
} rp_ledger_ends;

int rp_commit_log_has_entries(const rp_commit_log *log);
void rp_commit_log_read_ends(rp_commit_log *log, rp_ledger_ends *ends);
/* As rp_commit_log_read_ends, without the lock, which an append held up by the disk may hold. The values belong together only if the log
 * neither grows nor is cut meanwhile. */
void rp_commit_log_peek_ends(const rp_commit_log *log, rp_ledger_ends *ends);
/* One index alone, without a lock. */
int64_t rp_commit_log_begin_index(const rp_commit_log *log);
int64_t rp_commit_log_end_index(const rp_commit_log *log);
/* Pins head and record of the entry and decodes the head into *entry. RP_OK; RP_E_RANGE: the log has no such index; RP_E_NOT_FOUND,
 * RP_E_IO, RP_E_NO_MEMORY as rp_commit_log_read; RP_E_CORRUPT: index file and log disagree. */
int rp_commit_log_read_entry(rp_commit_log *log, int64_t index, rp_log_range *range, rp_ledger_entry *entry);
/* Returns the index of the last entry that ends at or below the offset, -1 if there is none. Entries whose unit cannot be read count as
 * ending behind it. */
int64_t rp_commit_log_index_below(rp_commit_log *log, int64_t offset);

/* Leads: appends make entries of this term from now on. The first entry is appended here: a record without body or queue (a rolled-back
 * half of SELF_TEST_TOPIC, which RocketMQ's brokers pass over too), so that everything before it is committed together with it (Raft
 * 5.4.2). Uncommitted records get their places in the queues first. RP_OK; RP_E_RANGE: the term is below the last entry's; RP_E_CORRUPT,
 * RP_E_IO, RP_E_DISK_FULL, RP_E_READ_ONLY, RP_E_CLOSED: the log does not lead. */
int rp_commit_log_lead_entries(rp_commit_log *log, int64_t term, rp_error *error);
/* Follows: on RP_OK appends are refused (RP_E_READ_ONLY) and none is under way. RP_E_BUSY: an append is still under way after wait_ms,
 * stuck on the disk, and nothing has changed. */
int rp_commit_log_follow_entries(rp_commit_log *log, uint32_t wait_ms);
/* Pauses a log that leads: appends are refused until it is called with 0, or the log leads or follows again. Returns as
 * rp_commit_log_follow_entries. */
int rp_commit_log_pause_entries(rp_commit_log *log, int is_paused, uint32_t wait_ms);
/* Appends the leader's next entry: head and record, exactly as they are to lie in the log. It is readable on return, and durable as
 * rp_commit_log_flushed_offset says. RP_OK; RP_E_RANGE: it does not follow the last one (index, term, position); RP_E_CORRUPT: it is no
 * record, or not one of this place; RP_E_INVALID: the log leads; RP_E_DISK_FULL, RP_E_IO, RP_E_NO_MEMORY: may be tried again;
 * RP_E_READ_ONLY, RP_E_CLOSED. */
int rp_commit_log_append_entry(rp_commit_log *log, const uint8_t *bytes, uint32_t size, rp_error *error);
/* Removes the entries behind last_index. On RP_OK they are gone from disk too. last_index -1 removes all, of a log of which none is
 * committed. RP_E_RANGE: committed entries would be cut, or there is no such entry; RP_E_INVALID: the log leads; RP_E_IO,
 * RP_E_DISK_FULL: as rp_commit_log_cut. */
int rp_commit_log_cut_entries(rp_commit_log *log, int64_t last_index, rp_error *error);
/* Everything below `offset`, an entry's end, is committed and is dispatched to the queues. The committed offset never moves back. */
void rp_commit_log_commit_entries(rp_commit_log *log, int64_t offset);
/* Waits until everything below `offset` is committed and in its queues. cuts: rp_commit_log_cuts, read before `offset` was taken. RP_OK,
 * also for a log without entries; RP_E_TIMEOUT; RP_E_RANGE: offset is past the log's end, or the log was cut since. Any thread. */
int rp_commit_log_wait_committed(rp_commit_log *log, int64_t offset, uint64_t cuts, uint32_t timeout_ms);

#endif
