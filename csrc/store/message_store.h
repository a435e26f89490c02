/* message_store.h: opens, wires and closes the store: commit log, consume queues, flusher, checkpoint, preallocation.
 * RocketMQ: DefaultMessageStore (5.3.3 store/).
 *
 * Directory  commitlog/ consumequeue/TOPIC/QUEUE/ index/ compaction/ config/ checkpoint abort lock, as RocketMQ lays them out.
 * Threads    open and close from the owner; the rest from any thread.
 * Owns       its threads (docs/locks.md) and files; holds the lock file: exclusively, or shared with other readers.
 */
#ifndef RP_STORE_MESSAGE_STORE_H
#define RP_STORE_MESSAGE_STORE_H

#include <stdint.h>

#include "../base/clock.h"
#include "../base/error.h"
#include "../base/file_ops.h"
#include "../base/log.h"
#include "commit_log.h"
#include "compaction_stats.h"
#include "consume_queue.h"
#include "flush_backend.h"
#include "flush_timing.h"
#include "key_index.h"

typedef struct rp_message_store rp_message_store;

enum rp_flush_mode { RP_FLUSH_ASYNC = 0, RP_FLUSH_SYNC = 1 };

typedef struct rp_message_store_options {
    const char *root_path;        /* storePathRootDir */
    const char *commit_log_path;  /* NULL: root/commitlog */
    uint64_t commit_log_file_size;      /* mappedFileSizeCommitLog, default 1 GiB */
    uint32_t consume_queue_file_size;   /* mappedFileSizeConsumeQueue, default 6,000,000 bytes; rounded up to entries */
    uint32_t batch_queue_file_size;     /* mapperFileSizeBatchConsumeQueue, default 13,800,000 bytes; rounded up to entries */
    const char *batch_topics; /* names of the topics with batch queues (queue.type=BatchCQ), each followed by \n; NULL: none is known */
    uint32_t message_size_max; /* maxMessageSize, default 4 MiB; limit of the body */
    int32_t flush_mode; /* rp_flush_mode */
    int32_t flush_backend; /* rp_flush_backend_kind; AUTO times both under RP_FLUSH_SYNC, otherwise it means SYSCALL */
    const char *liburing_path; /* absolute path of the shared object, read at open; NULL: no io_uring */
    uint32_t flush_interval_ms; /* flushIntervalCommitLog 500 */
    uint32_t flush_least_pages; /* flushCommitLogLeastPages 4 */
    uint32_t flush_thorough_interval_ms; /* flushCommitLogThoroughInterval 10,000 */
    uint32_t queue_flush_interval_ms; /* flushIntervalConsumeQueue 1,000 */
    uint32_t append_busy_timeout_ms; /* osPageCacheBusyTimeOutMills, default 1,000: see rp_commit_log_stuck_ms */
    uint32_t append_wait_timeout_ms; /* waitTimeMillsInSendQueue, default 200: an append waits this long for another */
    uint32_t populate_ahead_bytes; /* pre-faulted ahead of the writer, default 32 MiB */
    int32_t append_property_crc; /* enabledAppendPropCRC */
    int32_t read_only; /* for tools: no threads, no writes, shared lock */
    int32_t check_crc_on_recover; /* rp_check_crc of message.h, default RP_CHECK_BODY_CRC */
    int32_t rebuild_queues; /* for tools: consume queues are dropped and rebuilt from the whole commit log */
    int32_t holds_back; /* behind a controller: records that may be unconfirmed get no queue entry at open (recovery.h) */
    uint32_t queues_max; /* bound of the queues of topics, default 1,000,000 */
    /* Files of consume queues beyond which no message is taken for a queue without one: each is a map of the process, or may become one
     * at any time, and the process needs others for its log, its memory and its threads. Default 0: any number. Queues that recovery or a
     * master asks for are made all the same. */
    uint32_t queue_files_max;
    uint32_t light_queues_max; /* bound of light queues (light_queue.h) among these; default 0: none is created, existing ones continue */
    const char *delay_levels; /* messageDelayLevel; NULL: RocketMQ's 18 levels */
    int32_t index_enable; /* messageIndexEnable, default 1 */
    uint32_t index_slot_count; /* maxHashSlotNum, default 5,000,000 */
    uint32_t index_entry_count_max; /* maxIndexNum, default 20,000,000 */
    uint8_t store_host[20]; /* address + 4-byte port written into records */
    int32_t store_host_is_v6;
    const char *ledger_index_path; /* not NULL: the commit log is DLedger's (commit_log_ledger.h), and its index files lie here */
    uint32_t ledger_index_file_size; /* default 167,772,160, a multiple of 32 */
    int64_t ledger_committed_index; /* committedIndex of DLedger's checkpoint file, default -1: unknown */
    uint64_t compaction_file_size; /* compactionMappedFileSize, default 100 MiB; 0: enableCompaction=false */
    uint32_t compaction_queue_file_size; /* compactionCqMappedFileSize, default 10 MiB */
    uint32_t compaction_interval_ms; /* compactionScheduleInternal, default 15 min */
    uint64_t compaction_key_memory; /* maxOffsetMapSize, default 100 MiB */
    const rp_clock *clock;
    const rp_file_ops *file_ops;
    rp_log *log;
} rp_message_store_options;

void rp_message_store_options_default(rp_message_store_options *options);

/* RP_OK; RP_E_LOCKED (error names the holder's pid); RP_E_CORRUPT, RP_E_IO, RP_E_DISK_FULL, RP_E_INVALID with cause and remedy. */
int rp_message_store_open(const rp_message_store_options *options, rp_message_store **store, rp_error *error);
/* Flushes everything, writes the checkpoint, removes abort, joins threads, unmaps. Pinned ranges must have been released. RP_OK; else an
 * error for what did not reach the disk. The file abort then stays, so that the next open recovers. */
int rp_message_store_close(rp_message_store *store, rp_error *error);

rp_commit_log *rp_message_store_commit_log(rp_message_store *store);
/* Changes message_size_max for the appends that follow. */
void rp_message_store_set_message_size_max(rp_message_store *store, uint32_t bytes);
/* Changes append_busy_timeout_ms and append_wait_timeout_ms for the appends that follow. */
void rp_message_store_set_append_timing(rp_message_store *store, uint32_t busy_timeout_ms, uint32_t wait_timeout_ms);
/* Changes when timed syncs are due, from now on. RP_OK, RP_E_INVALID. */
int rp_message_store_set_flush_timing(rp_message_store *store, const rp_flush_timing *timing, rp_error *error);
/* The queue; with create 1 it is made in memory if it does not exist. Its files come with its first entry, so a queue that is only read has
 * none. NULL if there is no such queue (create 0), or if a bound or the memory is exhausted (create 1, error says which). */
rp_consume_queue *rp_message_store_queue(rp_message_store *store, rp_slice topic, int32_t queue_id, int create, rp_error *error);
/* Says whether the topic's queues are batch queues (batch_queue.h). It applies to queues that are made later, so it has to be called before
 * the first of them is. RP_OK, RP_E_NO_MEMORY. */
int rp_message_store_set_batch_topic(rp_message_store *store, rp_slice topic, int is_batch);
/* How many delay levels messageDelayLevel names. */
int32_t rp_message_store_delay_level_max(const rp_message_store *store);
/* How long, in ms, a message of a level (from 1) waits. */
int64_t rp_message_store_delay_ms(const rp_message_store *store, int32_t level);
/* The queue of a delay level, as rp_message_store_queue. From now on the tags codes of its entries say when their messages are due. To be
 * called before the first append to the level, by one thread at a time for each level. */
rp_consume_queue *rp_message_store_delay_queue(rp_message_store *store, int32_t level, int create, rp_error *error);
/* To be called before an append to the queue: the queue gets its first file here instead of under the append lock. RP_OK; RP_E_IO, also
 * with as many files as queue_files_max: other queues may work; RP_E_DISK_FULL, RP_E_NO_MEMORY, RP_E_READ_ONLY. Any thread. */
int rp_message_store_prepare_queue(rp_message_store *store, rp_consume_queue *queue, rp_error *error);
/* For a topic with cleanup.policy=COMPACTION: its queues 0 to queue_count - 1 are compacted from now on (compaction.h), and what their
 * files hold can be read. To be called before anybody is served from them. RP_OK, also if the store compacts nothing or is read only;
 * RP_E_IO, RP_E_CORRUPT, RP_E_NO_MEMORY, RP_E_BUSY, with the file or the bound in error. */
int rp_message_store_compact(rp_message_store *store, rp_slice topic, int32_t queue_count, rp_error *error);
/* Makes the topic's queues plain queues again. The files of what was kept stay until the topic is deleted. */
void rp_message_store_compact_no_more(rp_message_store *store, rp_slice topic);
/* On a slave, the log may begin later than what its master has kept of a compacted queue. While `holds` is set, such a queue is not
 * copied, but waits until that gap is filled. */
void rp_message_store_hold_gaps(rp_message_store *store, int holds);
/* Finds the next queue that waits, and the queue offsets it lacks, [*from, *to); *to is INT64_MAX while the queue has no messages.
 * *cursor must be 0 before the first call. Returns 1, or 0 if there are no more. */
int rp_message_store_next_gap(rp_message_store *store, uint32_t *cursor, rp_consume_queue **queue, int64_t *from, int64_t *to);
/* Puts records, in the form of a pull's answer, into the gap. next_offset is the offset of the first record after these; if it is `to` or
 * more, nothing is missing any more. RP_OK; RP_E_PROTOCOL if they are not messages of this queue; RP_E_NOT_FOUND if there is no such queue;
 * RP_E_DISK_FULL, RP_E_IO, RP_E_NO_MEMORY. */
int rp_message_store_fill_gap(rp_message_store *store, rp_slice topic, int32_t queue_id, rp_slice records, int64_t next_offset,
                              rp_error *error);
/* The first offset that can be read; in a compacted queue, the first one that is kept. */
int64_t rp_message_store_first_offset(const rp_consume_queue *queue);
/* As rp_consume_queue_offset_by_time; in a compacted queue, kept messages are searched too. */
int64_t rp_message_store_offset_by_time(rp_consume_queue *queue, int64_t timestamp_ms, int boundary);
/* Fills stats; all zeros if the store compacts nothing. */
void rp_message_store_read_compaction(const rp_message_store *store, rp_compaction_stats *stats);
/* Makes the next open of this store cut its log at offset, where a record must begin, and its queues and index accordingly. The intent is
 * kept in a file (truncate.to) until the cut is on disk, so if that open is killed, the next one cuts. RP_OK; RP_E_RANGE outside the log;
 * RP_E_IO, RP_E_DISK_FULL, RP_E_READ_ONLY. */
int rp_message_store_cut_at_open(rp_message_store *store, int64_t offset, rp_error *error);
/* Drops the queues of a topic: files unlinked, entries gone, also after a crash. Its messages stay in the commit log until retention. */
int rp_message_store_delete_topic(rp_message_store *store, rp_slice topic, rp_error *error);
/* As rp_message_store_delete_topic, but a queue stays if its last message lies at or behind log_offset: it then belongs to a topic that was
 * made again after the log had reached that offset. Returns how many queues with messages stay, or an error. */
int rp_message_store_delete_topic_before(rp_message_store *store, rp_slice topic, int64_t log_offset, rp_error *error);
/* Deletes the first file of the commit log, and the files of queues and index that only pointed into it. Readers that have it pinned keep
 * it until they release it; its blocks are freed in steps, here or by a later call or by rp_message_store_reclaim. Blocks on the file
 * system, never on an append. RP_OK; RP_E_NOT_FOUND if the remaining files are needed: they are being written, not on disk yet, or not
 * covered by the checkpoint; RP_E_BUSY if too many deleted files are still being read; RP_E_IO (the file stays); RP_E_READ_ONLY. Any
 * thread. */
int rp_message_store_expire_file(rp_message_store *store, rp_error *error);
/* Frees the blocks of deleted files whose last reader has left. Returns how many deleted files are still being read. */
uint32_t rp_message_store_reclaim(rp_message_store *store);
/* Calls visit for each queue; stops when visit returns non-zero. */
void rp_message_store_each_queue(rp_message_store *store, int (*visit)(void *context, rp_consume_queue *queue), void *context);

/* Called after each sync that moved the flushed offset, on the thread that made the sync (the flusher's, or a waiter's). Two syncs may call
 * in either order: keep the larger offset. Also called when a sync fails, with the offset unchanged; rp_message_store_writable then tells.
 * Set it before the first append. When a call that sets it to NULL returns, no callback is running. */
void rp_message_store_on_flushed(rp_message_store *store, void (*flushed)(void *context, int64_t flushed_offset), void *context);
/* Called outside the lock, in the appender's thread, for each queue of the batch that has waiting reactors or belongs to a lite topic. If
 * entries are made later than their append (a slave's, or held ones), the thread that makes them calls; it also calls, with waiting 0, for
 * each delay level's queue. */
void rp_message_store_on_arrival(rp_message_store *store, void (*arrived)(void *context, rp_consume_queue *queue, uint64_t waiting),
                                 void *context);
/* Called in the appender's thread, outside the lock, after every append or replicated piece: the log has grown. RP_OK; RP_E_BUSY if there
 * are too many callbacks. A callback is removed by its context, only while nobody appends. */
int rp_message_store_on_appended(rp_message_store *store, void (*appended)(void *context), void *context);
void rp_message_store_forget_appended(rp_message_store *store, const void *context);
/* Log offsets by key (see rp_key_index_query); found is 0 if the index is off. Finds everything that was stored before the call: it waits
 * for the index thread, 200 ms at most. */
rp_key_query rp_message_store_query(rp_message_store *store, rp_slice topic, rp_slice key, int64_t begin_ms, int64_t end_ms,
                                    int64_t *offsets, uint32_t offsets_max);
/* Waits until every byte below offset is on disk. Syncs in the caller's thread unless another thread's sync covers the offset: many waiters
 * share one sync, and a single one waits for nobody. RP_OK, RP_E_TIMEOUT, RP_E_RANGE (past the log's end), RP_E_IO (a sync failed, and so
 * will every later one), RP_E_BUSY (no descriptors left: the flusher tries again). */
int rp_message_store_wait_flushed(rp_message_store *store, int64_t offset, uint32_t timeout_ms);
/* As rp_message_store_wait_flushed; in a log with entries (commit_log_ledger.h) also waits until they are committed. cuts: commit_log_cuts
 * of the stats, read before offset was. Also RP_E_RANGE if the log was cut since. */
int rp_message_store_wait_committed(rp_message_store *store, int64_t offset, uint64_t cuts, uint32_t timeout_ms);
/* Asks for every byte below offset to be on disk soon, without waiting: the flusher syncs at once, and on_flushed reports it. Any
 * thread. */
void rp_message_store_request_flush(rp_message_store *store, int64_t offset);
/* 1 if no sync is under way or requested: whoever needs one may then lead it by rp_message_store_wait_flushed. Only a hint. Any thread. */
int rp_message_store_flush_is_idle(const rp_message_store *store);
/* RP_OK while the store takes appends; else RP_E_READ_ONLY (a sync failed, error says which) or RP_E_CLOSED. */
int rp_message_store_writable(rp_message_store *store, rp_error *error);

typedef struct rp_message_store_stats {
    uint64_t messages_appended, bytes_appended, append_failures, append_refused_busy;
    uint64_t flushes, flush_ns_total, flush_ns_max;
    uint64_t append_lock_ns_max;
    int64_t commit_log_min_offset, commit_log_max_offset, flushed_offset, dispatched_offset;
    int64_t commit_log_end_offset; /* commit_log_max_offset; in a log with entries, uncommitted ones included */
    uint64_t commit_log_cuts; /* how often the log's end went back, read before commit_log_end_offset */
    int64_t appended_not_synced_bytes;
    int64_t queue_count;
    int64_t indexed_offset; /* messages below it can be found by key */
    int64_t recovered_from, recovered_records; /* of the recovery pass at open */
    int64_t flush_backend; /* rp_flush_backend_kind in use */
    int64_t files_deleted, bytes_deleted, files_leaving; /* by retention; leaving: still read by somebody */
} rp_message_store_stats;
void rp_message_store_read_stats(const rp_message_store *store, rp_message_store_stats *stats);

#endif
