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

/* Enters a record that is in the log into its queues. *queues: the *count queues that got a new entry; valid until the next call. Under
 * the append lock. */
typedef int rp_dispatch_record(void *context, const rp_message *message, rp_consume_queue *const **queues, uint32_t *count,
                               rp_error *error);

#define RP_LOG_FOLLOWERS_MAX 4

typedef struct rp_commit_log_setup {
    const rp_file_ops *ops;
    const rp_clock *clock;
    rp_log *log;
    const char *directory; /* borrowed; outlives the log */
    const char *aside_directory; /* where recovery moves files that a crash left behind the end of the log */
    uint64_t file_size;
    uint32_t message_size_max; /* initial value */
    uint64_t ahead_bytes;
    int32_t ready_mode; /* rp_ready_mode; READY_FOR_SYNC: records are written (log_staging.h), else stored through the map */
    int32_t append_property_crc;
    int32_t read_only;
    uint32_t busy_timeout_ms; /* an append that holds the lock longer is stuck */
    uint32_t wait_timeout_ms; /* how long an append waits for the one before it */
    int64_t unsynced_from; /* nothing from this offset on is known to have been synced by the last run; INT64_MAX: unknown */
    uint8_t store_host[20];
    int32_t store_host_is_v6;
    rp_ledger_index *ledger_index; /* borrowed; not NULL: the log is DLedger's (commit_log_ledger.h) */
} rp_commit_log_setup;

/* Reads the directory; nothing is appended before rp_commit_log_set_end. */
int rp_commit_log_open(const rp_commit_log_setup *setup, rp_commit_log **log, rp_error *error);
/* Sets the end that recovery found: everything below is readable and counts as flushed, and appends continue there. Records from
 * `dispatched` on have no entries yet. Files behind the end are removed. */
int rp_commit_log_set_end(rp_commit_log *log, int64_t end, int64_t dispatched, int64_t store_timestamp_ms, rp_error *error);
/* Sets the largest body of later appends. */
void rp_commit_log_set_message_size_max(rp_commit_log *log, uint32_t bytes);
/* Sets, for later appends, how long one waits for another and when one counts as stuck. */
void rp_commit_log_set_append_timing(rp_commit_log *log, uint32_t busy_timeout_ms, uint32_t wait_timeout_ms);
/* Starts preallocating ahead of the appender. */
int rp_commit_log_start(rp_commit_log *log, rp_error *error);
/* Called by the flusher after a sync for many: prepares more of what is ahead (rp_preallocation_step). */
void rp_commit_log_step_ahead(rp_commit_log *log);
/* Tells the preallocation that the queue will need more space soon. */
void rp_commit_log_want_space(rp_commit_log *log, rp_consume_queue *queue);
/* Makes every later append fail with RP_E_CLOSED; returns when none is under way and the preallocation has stopped. RP_OK, or why bytes of
 * refused or cut records could not be cleared behind the end. */
int rp_commit_log_stop(rp_commit_log *log, rp_error *error);
void rp_commit_log_close(rp_commit_log *log);
/* Registers a callback, called with context after every append that published bytes, outside the lock. RP_OK; RP_E_BUSY past
 * RP_LOG_FOLLOWERS_MAX. */
int rp_commit_log_add_follower(rp_commit_log *log, void (*appended)(void *context), void *context);
/* Sets where appends put their hashed keys; NULL: nowhere. Only while nobody appends. */
void rp_commit_log_feed_index(rp_commit_log *log, rp_index_feed *feed);
/* Removes the callback with this context. Only while nobody appends. */
void rp_commit_log_remove_follower(rp_commit_log *log, const void *context);
void rp_commit_log_tell_followers(rp_commit_log *log);
/* Sets the callbacks: dispatch enters a record into its queue; place only gives it its offset there. */
void rp_commit_log_on_dispatch(rp_commit_log *log, rp_dispatch_record *dispatch, rp_dispatch_record *place, void *context);
/* After set_end, for a log with entries: makes sure that every entry has its unit in the index files. Units are written for the entries
 * from `from` (where an entry begins) to the log's end; if the units before `from` do not lead up to it, for all entries from the log's
 * begin. RP_OK; RP_E_CORRUPT; RP_E_IO, RP_E_DISK_FULL, RP_E_NO_MEMORY. */
int rp_commit_log_settle_entries(rp_commit_log *log, int64_t from, rp_error *error);
/* After the first file was removed: finds the entry that is now the first. */
void rp_commit_log_find_begin(rp_commit_log *log);
/* Under the append lock: makes the file that holds offset the active one. */
int rp_commit_log_enter_file(rp_commit_log *log, int64_t offset, rp_error *error);

rp_mapped_file_queue *rp_commit_log_files(const rp_commit_log *log);
int64_t rp_commit_log_store_timestamp(const rp_commit_log *log);
/* Records that bytes below `end` are on disk. cuts: rp_commit_log_cuts when the sync began; if the log was cut since, nothing is marked
 * as synced. */
void rp_commit_log_set_synced(rp_commit_log *log, int64_t end, uint64_t cuts);
/* Under the append lock: sets the log's end to offset and counts one more cut. */
void rp_commit_log_count_cut(rp_commit_log *log, int64_t offset);

/* Makes the log refuse writes for good: it was closed, or a sync failed and what is on disk is unknown. The first error is kept. */
void rp_commit_log_fail(rp_commit_log *log, int status, const rp_error *error);
/* Logs, at a limited rate, that a file of the store cannot be opened or mapped for a reader. Returns the error's status. Any thread. */
int rp_commit_log_tell_unreadable(rp_commit_log *log, const rp_error *error);
/* Logs, at a limited rate, why an append found no space or file for its entry or record. Any thread. */
void rp_commit_log_tell_refused(rp_commit_log *log, const rp_error *error);
/* RP_OK, or the status with which the log failed, and its error. */
int rp_commit_log_failure(rp_commit_log *log, rp_error *error);

#endif
