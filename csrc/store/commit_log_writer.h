/* commit_log_writer.h: what the store does to the commit log besides appending messages: open, recover, fail, close.
 *
 * Threads  open, set_end and close from the store's owner; fail, set_message_size_max and set_append_timing from any thread.
 */
#ifndef RP_STORE_COMMIT_LOG_WRITER_H
#define RP_STORE_COMMIT_LOG_WRITER_H

#include <stdint.h>

#include "../base/clock.h"
#include "../base/error.h"
#include "../base/file_ops.h"
#include "../base/log.h"
#include "commit_log.h"
#include "index_feed.h"
#include "ledger_index.h"
#include "mapped_file_queue.h"
#include "message.h"
#include "preallocation.h"

/* Enters a record that is in the log into its queues. *queues: the *count queues that have a new entry; valid until the next call. Under
 * the append lock. */
typedef int rp_dispatch_record(void *context, const rp_message *message, rp_consume_queue *const **queues, uint32_t *count,
                               rp_error *error);

#define RP_LOG_FOLLOWERS_MAX 4

typedef struct rp_commit_log_setup {
    const rp_file_ops *ops;
    const rp_clock *clock;
    rp_log *log;
    const char *directory; /* borrowed; outlives the log */
    const char *aside_directory; /* where files go that a crash left behind the end of the log */
    uint64_t file_size;
    uint32_t message_size_max; /* at first */
    uint64_t ahead_bytes;
    int32_t ready_mode; /* rp_ready_mode; READY_FOR_SYNC: records are written (log_staging.h), else stored through the map */
    int32_t append_property_crc;
    int32_t read_only;
    uint32_t busy_timeout_ms; /* an append that holds the lock longer is stuck */
    uint32_t wait_timeout_ms; /* how long an append waits for the one before it */
    int64_t unsynced_from; /* what the last run is not known to have synced begins here; INT64_MAX: unknown */
    uint8_t store_host[20];
    int32_t store_host_is_v6;
    rp_ledger_index *ledger_index; /* borrowed; not NULL: the log is DLedger's (commit_log_ledger.h) */
} rp_commit_log_setup;

/* Reads the directory; nothing is appended before rp_commit_log_set_end. */
int rp_commit_log_open(const rp_commit_log_setup *setup, rp_commit_log **log, rp_error *error);
/* Recovery has found the end of the log: everything below is readable and counts as flushed, appends go on from here. Records from
 * `dispatched` on have no entries yet. Files behind the end are removed. */
int rp_commit_log_set_end(rp_commit_log *log, int64_t end, int64_t dispatched, int64_t store_timestamp_ms, rp_error *error);
/* The largest body of the appends that come. */
void rp_commit_log_set_message_size_max(rp_commit_log *log, uint32_t bytes);
/* How long the appends that come wait for one another, and when one counts as stuck. */
void rp_commit_log_set_append_timing(rp_commit_log *log, uint32_t busy_timeout_ms, uint32_t wait_timeout_ms);
/* Starts preallocating ahead of the appender. */
int rp_commit_log_start(rp_commit_log *log, rp_error *error);
/* By the flusher, after a sync for many: more of what is ahead is made ready (rp_preallocation_step). */
void rp_commit_log_step_ahead(rp_commit_log *log);
/* The queue will need more space soon: handed to the preallocation. */
void rp_commit_log_want_space(rp_commit_log *log, rp_consume_queue *queue);
/* From now on every append fails with RP_E_CLOSED; returns when none is under way. The preallocation has stopped.
 * RP_OK, or why bytes behind the end are still those of records that were refused or cut off. */
int rp_commit_log_stop(rp_commit_log *log, rp_error *error);
void rp_commit_log_close(rp_commit_log *log);
/* Called with context after every append that published bytes, outside the lock. RP_OK; RP_E_BUSY past RP_LOG_FOLLOWERS_MAX. */
int rp_commit_log_add_follower(rp_commit_log *log, void (*appended)(void *context), void *context);
/* Where appends put their hashed keys; NULL: nowhere. Only while nobody appends. */
void rp_commit_log_feed_index(rp_commit_log *log, rp_index_feed *feed);
/* Only while nobody appends. */
void rp_commit_log_remove_follower(rp_commit_log *log, const void *context);
void rp_commit_log_tell_followers(rp_commit_log *log);
/* dispatch enters a record into its queue; place only says where the queue goes on behind it. */
void rp_commit_log_on_dispatch(rp_commit_log *log, rp_dispatch_record *dispatch, rp_dispatch_record *place, void *context);
/* After set_end, of a log with entries: makes sure that every entry has its unit in the index files. Entries from `from` (where an entry
 * begins) to the log's end are entered; where the units before `from` do not lead up to them, all entries from the log's begin are.
 * RP_OK; RP_E_CORRUPT; RP_E_IO, RP_E_DISK_FULL, RP_E_NO_MEMORY. */
int rp_commit_log_settle_entries(rp_commit_log *log, int64_t from, rp_error *error);
/* After the first file was removed: finds the entry that is the first one now. */
void rp_commit_log_find_begin(rp_commit_log *log);
/* Under the append lock: the file that holds offset becomes the active one. */
int rp_commit_log_enter_file(rp_commit_log *log, int64_t offset, rp_error *error);

rp_mapped_file_queue *rp_commit_log_files(const rp_commit_log *log);
int64_t rp_commit_log_store_timestamp(const rp_commit_log *log);
/* A sync has ended: bytes below `end` are on disk. cuts: how often the log had been cut when the sync began; nothing is marked as synced
 * where it was cut since. */
void rp_commit_log_set_synced(rp_commit_log *log, int64_t end, uint64_t cuts);
/* Under the append lock: the log ends at offset, and one more cut is counted. */
void rp_commit_log_count_cut(rp_commit_log *log, int64_t offset);

/* Ends the log's writability for good: closed, or a sync failed and what is on disk is unknown. The first error stays. */
void rp_commit_log_fail(rp_commit_log *log, int status, const rp_error *error);
/* Logs, not more often than now and then, that a file of the store cannot be opened or mapped for a reader. Returns the error's status. Any
 * thread. */
int rp_commit_log_tell_unreadable(rp_commit_log *log, const rp_error *error);
/* The same for why an append found no space or file for its entry or record. Any thread. */
void rp_commit_log_tell_refused(rp_commit_log *log, const rp_error *error);
/* RP_OK, or the status of the failure with its error. */
int rp_commit_log_failure(rp_commit_log *log, rp_error *error);

#endif
