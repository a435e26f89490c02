/* index_builder.h: follows the commit log and enters its messages into the key index, off the append path.
 * RocketMQ: the index part of ReputMessageService (5.3.3 store/DefaultMessageStore.java).
 *
 * The appender, or a slave's replication, passes the hashes of keys through index_feed.h; where it could not, the log is read. Index
 * slots are hit at random, so a thread of its own makes entries in batches. It sleeps while there is nothing to do, is woken by the next
 * append, and lingers linger_ms after a pass so that a stream of appends wakes it once per batch and not once per append. A key query
 * ends the linger and waits for the thread (await), so a consumer finds the message it was just given, as in RocketMQ, which enters a
 * key before it answers the waiting pull.
 *
 * Threads  one ("index"). notify, await and figures: any thread.
 * Owns     its thread. Borrows log and index, which must be closed after it.
 * Errors   a full disk or failed write is logged once and retried every second; a failed sync is logged once, and no sync is tried again
 *          (key_index.h); bytes that are no record are logged and passed over. None of these stops sends.
 */
#ifndef RP_STORE_INDEX_BUILDER_H
#define RP_STORE_INDEX_BUILDER_H

#include <stdint.h>

#include "../base/clock.h"
#include "../base/error.h"
#include "../base/log.h"
#include "commit_log.h"
#include "key_index.h"

typedef struct rp_index_builder rp_index_builder;

typedef struct rp_index_builder_options {
    rp_commit_log *commit_log;
    rp_key_index *index;
    uint64_t commit_log_file_size;
    int32_t has_entries;       /* 1: records stand behind heads (ledger_entry.h) */
    uint32_t linger_ms;        /* default 5 */
    uint32_t sync_interval_ms; /* default 5,000: dirty index files are synced at least this often */
    const rp_clock *clock;
    rp_log *log;
    /* Called on the index thread after a sync: the index files on disk hold all messages up to the one at log_offset, stored at time_ms.
     * May be NULL. */
    void (*on_synced)(void *context, int64_t time_ms, int64_t log_offset);
    void *context;
} rp_index_builder_options;

void rp_index_builder_options_default(rp_index_builder_options *options);
int rp_index_builder_open(const rp_index_builder_options *options, rp_index_builder **builder, rp_error *error);
/* Enters what the log holds (for at most drain_ms), syncs, joins the thread. */
void rp_index_builder_close(rp_index_builder *builder, uint32_t drain_ms);
/* The log has grown. Costs one atomic read, and an eventfd write if the thread sleeps. Any thread. */
void rp_index_builder_notify(rp_index_builder *builder);
/* Waits until the index has every message below this log offset. RP_OK; RP_E_TIMEOUT: the index is that far behind, or cannot grow. Any
 * thread. */
int rp_index_builder_await(rp_index_builder *builder, int64_t offset, uint32_t timeout_ms);
/* Returns the log offset below which every message is in the index. Any thread. */
int64_t rp_index_builder_offset(const rp_index_builder *builder);

#endif
