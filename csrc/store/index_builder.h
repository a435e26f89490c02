/* index_builder.h: follows the commit log and enters its messages into the key index, off the append path.
 * RocketMQ: the index part of ReputMessageService (5.3.3 store/DefaultMessageStore.java).
 *
 * The appender, or the slave's replication, hands the hashes of keys over (index_feed.h); where it could not, the log is read. Index
 * slots are hit at random, so entries are made in batches by a thread of their own: it sleeps while there is nothing, is woken by the
 * first append after that, and after a pass lingers linger_ms so that a stream of appends wakes it once per batch and not once per append.
 * Whoever looks a key up ends the linger and waits for it (await): a consumer finds the message that it was just given, as in RocketMQ,
 * which enters a key before it answers the pull that waits.
 *
 * Threads  one ("index"). notify, await and figures: any thread.
 * Owns     its thread. Borrows log and index, which must be closed after it.
 * Errors   a full disk or failed write is logged once and tried again every second; a failed sync is logged once, and none is tried
 *          again (key_index.h); what is not a record is logged and passed over to the next one. None of them stops sends.
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
    int32_t has_entries;       /* the log's records stand behind heads (ledger_entry.h) */
    uint32_t linger_ms;        /* default 5 */
    uint32_t sync_interval_ms; /* default 5,000: dirty index files reach the disk at least this often */
    const rp_clock *clock;
    rp_log *log;
    /* On the index thread after a sync: messages up to the one at log_offset, stored at time_ms, are safely indexed. May be NULL. */
    void (*on_synced)(void *context, int64_t time_ms, int64_t log_offset);
    void *context;
} rp_index_builder_options;

void rp_index_builder_options_default(rp_index_builder_options *options);
int rp_index_builder_open(const rp_index_builder_options *options, rp_index_builder **builder, rp_error *error);
/* Enters what the log holds (bounded by drain_ms), syncs, joins the thread. */
void rp_index_builder_close(rp_index_builder *builder, uint32_t drain_ms);
/* The log has grown: one atomic read, and one eventfd write when the thread sleeps. */
void rp_index_builder_notify(rp_index_builder *builder);
/* Waits until the index has every message below this log offset. RP_OK, RP_E_TIMEOUT: it is that far behind, or cannot grow. */
int rp_index_builder_await(rp_index_builder *builder, int64_t offset, uint32_t timeout_ms);
/* Every message below this log offset is in the index. */
int64_t rp_index_builder_offset(const rp_index_builder *builder);

#endif
