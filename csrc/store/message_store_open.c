/* message_store_open.c: opens, wires and closes the parts of the store. See message_store.h.
 *
 * Open     lock ─ checkpoint and abort mark read ─ files loaded ─ recovery ─ end set ─ index ─ synced, checkpoint, abort mark ─ threads
 * Close    appends end ─ preallocation stops ─ flusher syncs all, writes the checkpoint ─ abort mark removed ─ unmap ─ unlock
 */
#include "message_store_inl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "batch_queue.h"
#include "cut_intent.h"
#include "message.h"

#define INDEX_DRAIN_MS 500

void rp_message_store_options_default(rp_message_store_options *options) {
    *options = (rp_message_store_options){
        .commit_log_file_size = (uint64_t)1 << 30,
        .consume_queue_file_size = 300000 * RP_CONSUME_QUEUE_ENTRY_SIZE,
        .batch_queue_file_size = 300000 * RP_BATCH_ENTRY_SIZE,
        .message_size_max = 4 << 20,
        .flush_mode = RP_FLUSH_ASYNC,
        .flush_interval_ms = 500,
        .flush_least_pages = 4,
        .flush_thorough_interval_ms = 10000,
        .queue_flush_interval_ms = 1000,
        .append_busy_timeout_ms = 1000,
        .append_wait_timeout_ms = 200,
        .populate_ahead_bytes = 32 << 20,
        .check_crc_on_recover = RP_CHECK_BODY_CRC,
        .queues_max = 1000000,
        .index_enable = 1,
        .index_slot_count = RP_INDEX_SLOT_COUNT,
        .index_entry_count_max = RP_INDEX_ENTRY_COUNT_MAX,
        .store_host = {127, 0, 0, 1},
        .ledger_index_file_size = 5 * 1024 * 1024 * RP_LEDGER_UNIT_SIZE,
        .ledger_committed_index = -1,
        .compaction_file_size = 100 << 20,
        .compaction_queue_file_size = 10 << 20,
        .compaction_interval_ms = 15 * 60 * 1000,
        .compaction_key_memory = 100 << 20,
    };
}

int rp_message_store_check_intervals(uint32_t log_ms, uint32_t queue_ms, rp_error *error) {
    return log_ms != 0 && queue_ms != 0 ? RP_OK : rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "flush intervals must be at least 1 ms");
}

static int check_options(rp_message_store *store, rp_error *error) {
    rp_message_store_options *options = &store->options;
    uint32_t entry = RP_CONSUME_QUEUE_ENTRY_SIZE;
    if (options->root_path == NULL || options->root_path[0] == 0) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "the store needs a directory (storePathRootDir)");
    }
    if (options->commit_log_file_size < 4096 || options->commit_log_file_size > INT32_MAX) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "mappedFileSizeCommitLog must be 4,096 to 2,147,483,647 bytes, not %llu",
                            (unsigned long long)options->commit_log_file_size);
    }
    if (options->consume_queue_file_size == 0 || options->consume_queue_file_size > INT32_MAX - entry) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "mappedFileSizeConsumeQueue must be 1 to 2,147,483,627 bytes, not %u",
                            options->consume_queue_file_size);
    }
    if (options->batch_queue_file_size == 0 || options->batch_queue_file_size > INT32_MAX - RP_BATCH_ENTRY_SIZE) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "mapperFileSizeBatchConsumeQueue must be 1 to 2,147,483,601 bytes, not %u",
                            options->batch_queue_file_size);
    }
    options->consume_queue_file_size = (options->consume_queue_file_size + entry - 1) / entry * entry;
    options->batch_queue_file_size = (options->batch_queue_file_size + RP_BATCH_ENTRY_SIZE - 1) / RP_BATCH_ENTRY_SIZE * RP_BATCH_ENTRY_SIZE;
    return rp_message_store_check_intervals(options->flush_interval_ms, options->queue_flush_interval_ms, error);
}

static int set_paths(rp_message_store *store, rp_error *error) {
    store_paths *paths = &store->paths;
    size_t length = strlen(store->options.root_path);
    if (length >= RP_PATH_MAX) {
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "the store's path is too long");
    }
    memcpy(paths->root, store->options.root_path, length + 1);
    const struct {
        char *path;
        const char *name;
    } parts[] = {{paths->commit_log, "commitlog"},
                 {paths->queues, "consumequeue"},
                 {paths->batch_queues, "batchconsumequeue"},
                 {paths->lock, "lock"},
                 {paths->abort_mark, "abort"},
                 {paths->checkpoint, "checkpoint"},
                 {paths->index, "index"},
                 {paths->compaction, "compaction"},
                 {paths->aside, "commitlog.aside"}};
    int rc = RP_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && rc == RP_OK; i++) {
        rc = rp_path_join(parts[i].path, paths->root, parts[i].name, error);
    }
    if (rc == RP_OK && store->options.commit_log_path != NULL) {
        if (strlen(store->options.commit_log_path) >= RP_PATH_MAX) {
            return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "the commit log's path is too long");
        }
        snprintf(paths->commit_log, sizeof paths->commit_log, "%s", store->options.commit_log_path);
    }
    if (rc == RP_OK && store->options.ledger_index_path != NULL) {
        if (strlen(store->options.ledger_index_path) >= RP_PATH_MAX) {
            return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "the path of the entries' index is too long");
        }
        snprintf(paths->ledger_index, sizeof paths->ledger_index, "%s", store->options.ledger_index_path);
    }
    store->options.root_path = store->options.commit_log_path = store->options.ledger_index_path = NULL;
    return rc;
}

static int make_directories(rp_message_store *store, rp_error *error) {
    const char *const paths[] = {store->paths.root, store->paths.commit_log};
    int rc = RP_OK;
    for (size_t i = 0; i < sizeof paths / sizeof *paths && rc == RP_OK && !store->options.read_only; i++) {
        rc = rp_path_make_directories(paths[i], error);
    }
    return rc;
}

static int take_lock(rp_message_store *store, rp_error *error) {
    store->lock_fd = rp_store_lock_take(store->paths.lock, store->options.read_only, error);
    return store->lock_fd < 0 ? store->lock_fd : RP_OK;
}

static int choose_backend(rp_message_store *store, rp_error *error) {
    const rp_message_store_options *options = &store->options;
    bool is_sync = options->flush_mode == RP_FLUSH_SYNC; /* otherwise nobody waits for syncs */
    int32_t wanted = options->flush_backend == RP_FLUSH_BACKEND_AUTO && !is_sync ? RP_FLUSH_BACKEND_SYSCALL : options->flush_backend;
    if (options->read_only || options->file_ops != NULL) {
        return RP_OK;
    }
    rp_flush_backend_setup setup = {
        .wanted = wanted, .directory = store->paths.root, .liburing_path = options->liburing_path, .log = options->log};
    int rc = rp_flush_backend_open(&setup, &store->backend, error);
    store->ops = rc == RP_OK ? rp_flush_backend_ops(store->backend) : store->ops;
    return rc;
}

/* Finds out how the last run ended. A stop of ours leaves counts: if there are none, somebody removed the abort mark, or copied
 * everything except it. */
static int read_marks(rp_message_store *store, rp_error *error) {
    int rc = rp_checkpoint_read(store->ops, store->paths.checkpoint, &store->checkpoint, error);
    bool was_open = store->checkpoint.is_exact && store->checkpoint.queue_count < 0;
    store->was_clean = !was_open && !rp_abort_mark_exists(store->paths.abort_mark);
    return rc;
}

static int open_log(rp_message_store *store, rp_error *error) {
    const rp_message_store_options *options = &store->options;
    rp_commit_log_setup log = {.ops = store->ops,
                               .clock = store->clock,
                               .log = options->log,
                               .directory = store->paths.commit_log,
                               .aside_directory = store->paths.aside,
                               .file_size = options->commit_log_file_size,
                               .message_size_max = options->message_size_max,
                               .ahead_bytes = options->populate_ahead_bytes,
                               .busy_timeout_ms = options->append_busy_timeout_ms,
                               .wait_timeout_ms = options->append_wait_timeout_ms,
                               .ready_mode = options->flush_mode == RP_FLUSH_SYNC ? RP_READY_FOR_SYNC : RP_READY_FOR_ASYNC,
                               .append_property_crc = options->append_property_crc,
                               .read_only = options->read_only,
                               .unsynced_from =
                                   store->was_clean || !store->checkpoint.is_exact ? INT64_MAX : store->checkpoint.flushed_offset,
                               .store_host_is_v6 = options->store_host_is_v6,
                               .ledger_index = store->ledger_index};
    memcpy(log.store_host, options->store_host, sizeof log.store_host);
    return rp_commit_log_open(&log, &store->commit_log, error);
}

/* Cuts the log before anything reads it: the bytes behind the intent's offset are removed from disk, as if a crash had lost them, and
 * recovery does the rest. First the abort mark is set and the checkpoint moved back to that offset, so that recovery looks at everything
 * from there on; the intent is removed last. */
static int cut_log(rp_message_store *store, rp_error *error) {
    int64_t offset;
    int rc = store->options.read_only ? RP_OK : rp_cut_intent_read(store->ops, store->paths.root, &offset, error);
    if (rc != RP_OK || store->options.read_only || offset < 0) {
        return rc;
    }
    rp_mapped_file_queue *row = rp_commit_log_files(store->commit_log);
    int64_t size = (int64_t)rp_mapped_file_queue_file_size(row);
    rp_checkpoint *checkpoint = &store->checkpoint;
    rp_log_write(store->options.log, RP_LOG_NOTICE, "commit log: cut at %lld, which is where it and the master's part", (long long)offset);
    store->was_clean = false;
    checkpoint->flushed_offset = checkpoint->flushed_offset < offset ? checkpoint->flushed_offset : offset;
    checkpoint->queues_offset = checkpoint->queues_offset < offset ? checkpoint->queues_offset : offset;
    if (!checkpoint->is_exact) {
        checkpoint->log_time_ms = checkpoint->queues_time_ms = 0; /* the times say nothing of the cut: all of the log is read */
    }
    rp_checkpoint_forget_counts(checkpoint);
    rc = rp_abort_mark_set(store->ops, store->paths.abort_mark, store->paths.root, error);
    rc = rc == RP_OK ? rp_checkpoint_write(store->ops, store->paths.checkpoint, checkpoint, error) : rc;
    while (rc == RP_OK && rp_mapped_file_queue_end(row) > rp_mapped_file_queue_begin(row) &&
           rp_mapped_file_queue_end(row) - size >= offset) {
        rc = rp_mapped_file_queue_set_last_aside(row, error);
    }
    rc = rc == RP_OK && offset % size != 0 ? rp_mapped_file_queue_clear_tail(row, offset, error) : rc;
    return rc == RP_OK ? rp_cut_intent_remove(store->ops, store->paths.root, error) : rc;
}

static int tell_batch_topics(rp_message_store *store, rp_error *error) {
    const char *at = store->options.batch_topics == NULL ? "" : store->options.batch_topics, *end;
    for (; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        rp_slice topic = {(const uint8_t *)at, (uint32_t)(end - at)};
        if (rp_queue_table_set_batch_topic(store->queues, topic, 1) != RP_OK) {
            return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for the names of topics");
        }
    }
    return RP_OK;
}

static int open_queues(rp_message_store *store, rp_error *error) {
    const rp_message_store_options *options = &store->options;
    store->queue_setup = (rp_consume_queue_setup){.ops = store->ops,
                                                  .directory = store->paths.queues,
                                                  .file_size = options->consume_queue_file_size,
                                                  .entry_size = RP_CONSUME_QUEUE_ENTRY_SIZE,
                                                  .read_only = options->read_only,
                                                  .log = store->commit_log,
                                                  .files = &store->queue_files,
                                                  .files_max = options->queue_files_max};
    store->batch_setup = store->queue_setup;
    store->batch_setup.directory = store->paths.batch_queues;
    store->batch_setup.file_size = options->batch_queue_file_size;
    store->batch_setup.entry_size = RP_BATCH_ENTRY_SIZE;
    int rc = rp_queue_table_create(&store->queue_setup, &store->batch_setup, options->queues_max, &store->queues, error);
    rc = rc == RP_OK ? tell_batch_topics(store, error) : rc;
    return rc == RP_OK ? rp_dispatcher_init(&store->dispatcher, store->queues, options->log, options->delay_levels, error) : rc;
}

/* The abort mark is written last: before that the counts of a clean stop show that something is wrong, afterwards the offset does. */
static int doubt_queues(void *context, rp_error *error) {
    rp_message_store *store = context;
    rp_checkpoint doubt = store->checkpoint;
    doubt.queues_offset = rp_commit_log_min_offset(store->commit_log);
    doubt.queues_time_ms = 0;
    int rc = rp_checkpoint_write(store->ops, store->paths.checkpoint, &doubt, error);
    return rc == RP_OK ? rp_abort_mark_set(store->ops, store->paths.abort_mark, store->paths.root, error) : rc;
}

/* Before anything is written below it. After an unclean end the checkpoint may call entries synced that went with the whole directory: that
 * is taken back first, so that a start that ends early does not leave an empty one. Queues synced one by one do without the descriptor. */
static int make_queues_directory(rp_message_store *store, rp_error *error) {
    const rp_mapped_file_queue *row = rp_commit_log_files(store->commit_log);
    int rc = RP_OK;
    if (store->options.read_only) {
        return RP_OK;
    }
    if (!store->was_clean && access(store->paths.queues, F_OK) != 0 && rp_mapped_file_queue_end(row) > rp_mapped_file_queue_begin(row)) {
        store->queues_gone = true;
        rp_log_write(store->options.log, RP_LOG_WARNING, "consume queues: %s is gone; rebuilding all of them", store->paths.queues);
        rc = doubt_queues(store, error);
    }
    rc = rc == RP_OK ? rp_path_make_directories(store->paths.queues, error) : rc;
    if (rc == RP_OK) {
        store->queues_fd = store->ops->open(store->ops->context, store->paths.queues, O_RDONLY | O_DIRECTORY, 0);
    }
    return rc;
}

/* Loads what is there, finds the end of the log and makes the queues agree with it. */
static int recover(rp_message_store *store, rp_error *error) {
    rp_error queues_error = {0};
    int loaded = rp_queue_table_load(store->queues, &queues_error);
    if (loaded != RP_OK && loaded != RP_E_CORRUPT) {
        return rp_error_set(error, loaded, queues_error.os_errno, queues_error.file, queues_error.offset, "%s", queues_error.message);
    }
    if (loaded != RP_OK) {
        rp_log_write(store->options.log, RP_LOG_WARNING, "consume queues: %s [%s]; rebuilding all of them", queues_error.message,
                     queues_error.file);
    }
    rp_dispatcher_look_for_light_queues(&store->dispatcher, store->options.light_queues_max > 0);
    store->recovery = (rp_recovery){.ops = store->ops,
                                    .clock = store->clock,
                                    .log = store->options.log,
                                    .commit_log = store->commit_log,
                                    .queues = store->queues,
                                    .dispatcher = &store->dispatcher,
                                    .checkpoint = &store->checkpoint,
                                    .was_clean = store->was_clean,
                                    .queues_damaged = loaded != RP_OK || store->queues_gone || store->options.rebuild_queues,
                                    .check_crc = store->options.check_crc_on_recover,
                                    .read_only = store->options.read_only,
                                    .holds_back = store->options.holds_back || store->ledger_index != NULL,
                                    .confirmed_at_least = rp_message_store_committed_end(store),
                                    .doubt_queues = doubt_queues,
                                    .context = store};
    store->was_exact = store->checkpoint.is_exact;
    int rc = rp_recovery_run(&store->recovery, error);
    rc = rc == RP_OK ? rp_commit_log_set_end(store->commit_log, store->recovery.end, store->recovery.held_from,
                                             store->recovery.store_timestamp_ms, error)
                     : rc;
    return rc == RP_OK && store->ledger_index != NULL ? rp_message_store_settle_entries(store, error) : rc;
}

static int dispatch_record(void *context, const rp_message *message, rp_consume_queue *const **queues, uint32_t *count, rp_error *error) {
    rp_dispatcher *dispatcher = context;
    int rc = rp_dispatcher_apply(dispatcher, message, error);
    *queues = dispatcher->touched;
    *count = dispatcher->touched_count;
    return rc;
}

static int place_record(void *context, const rp_message *message, rp_consume_queue *const **queues, uint32_t *count, rp_error *error) {
    *queues = NULL;
    *count = 0;
    return rp_dispatcher_place(context, message, error);
}

static void index_synced(void *context, int64_t time_ms, int64_t log_offset) {
    rp_flusher_set_indexed(((rp_message_store *)context)->flusher, time_ms, log_offset);
}
static void index_appended(void *context) { rp_index_builder_notify(context); }

/* Notes how far the index is on disk. What was dropped is not on disk any more, and what replaces it is not on disk yet. */
static void note_indexed(rp_checkpoint *checkpoint, rp_key_index *index) {
    int64_t last = rp_key_index_next_offset(index), last_ms = rp_key_index_last_time(index);
    bool has_offset = checkpoint->index_offset >= 0;
    checkpoint->index_offset = has_offset && checkpoint->index_offset > last ? last : checkpoint->index_offset;
    checkpoint->index_time_ms = checkpoint->index_time_ms > last_ms ? last_ms : checkpoint->index_time_ms;
}

/* After recovery: removes what the index has beyond the log; the builder catches up from there. */
static int open_index(rp_message_store *store, rp_error *error) {
    const rp_message_store_options *options = &store->options;
    if (!options->index_enable) {
        return RP_OK;
    }
    rp_key_index_options index;
    rp_key_index_options_default(&index);
    index.directory = store->paths.index;
    index.shape = (rp_index_shape){options->index_slot_count, options->index_entry_count_max};
    index.last_exit_clean = store->recovery.was_clean;
    index.synced_time_ms = store->checkpoint.index_time_ms;
    index.synced_offset = store->checkpoint.index_offset;
    index.read_only = options->read_only;
    index.file_ops = store->ops;
    index.clock = store->clock;
    index.log = options->log;
    int rc = rp_key_index_open(&index, &store->index, error);
    int64_t expected = index.last_exit_clean && store->checkpoint.is_exact ? store->checkpoint.index_count : -1;
    if (rc == RP_OK && !options->read_only && expected >= 0 && expected != rp_key_index_file_count(store->index)) {
        rp_log_write(options->log, RP_LOG_WARNING, "index: %u files where %lld were left: building it again from the commit log",
                     rp_key_index_file_count(store->index), (long long)expected);
        rp_key_index_truncate(store->index, 0);
    }
    if (rc == RP_OK && !options->read_only) {
        rp_key_index_truncate(store->index, rp_commit_log_max_offset(store->commit_log));
        note_indexed(&store->checkpoint, store->index);
    }
    return rc;
}

static int start_index(rp_message_store *store, rp_error *error) {
    if (store->index == NULL) {
        return RP_OK;
    }
    rp_index_builder_options options;
    rp_index_builder_options_default(&options);
    options.commit_log = store->commit_log;
    options.index = store->index;
    options.commit_log_file_size = store->options.commit_log_file_size;
    options.has_entries = store->ledger_index != NULL;
    options.clock = store->clock;
    options.log = store->options.log;
    options.on_synced = index_synced;
    options.context = store;
    int rc = rp_index_builder_open(&options, &store->index_builder, error);
    return rc == RP_OK ? rp_commit_log_add_follower(store->commit_log, index_appended, store->index_builder) : rc;
}

/* What recovery found counts as on disk from now on, so it is synced: after a kill it was only in the page cache. */
static int settle(rp_message_store *store, rp_error *error) {
    const rp_recovery *recovery = &store->recovery;
    rp_checkpoint *checkpoint = &store->checkpoint;
    int rc = rp_mapped_file_queue_sync_files(rp_commit_log_files(store->commit_log), recovery->start, recovery->end, error);
    checkpoint->log_time_ms = recovery->store_timestamp_ms;
    checkpoint->flushed_offset = recovery->end;
    checkpoint->queues_offset = recovery->start; /* what was dispatched from there on is synced by the next pass over the queues */
    checkpoint->confirm_offset = recovery->held_from;
    rp_checkpoint_forget_counts(checkpoint);
    checkpoint->is_exact = 1;
    return rc == RP_OK ? rp_checkpoint_write(store->ops, store->paths.checkpoint, checkpoint, error) : rc;
}

static int open_retention(rp_message_store *store, rp_error *error) {
    rp_retention_setup retention = {.ops = store->ops,
                                    .log = store->options.log,
                                    .commit_log = store->commit_log,
                                    .flusher = store->flusher,
                                    .queues = store->queues,
                                    .index = store->index,
                                    .ledger_index = store->ledger_index,
                                    .compaction = store->compaction};
    return rp_retention_open(&retention, &store->retention, error);
}

static int wait_flushed(void *context, int64_t offset, uint32_t timeout_ms) {
    return rp_message_store_wait_flushed(context, offset, timeout_ms);
}

static int open_compaction(rp_message_store *store, rp_error *error) {
    const rp_message_store_options *options = &store->options;
    rp_compaction_options compaction = {.directory = store->paths.compaction,
                                        .log_file_size = options->compaction_file_size,
                                        .queue_file_size = options->compaction_queue_file_size,
                                        .interval_ms = options->compaction_interval_ms,
                                        .key_memory = options->compaction_key_memory,
                                        .checks_records = !store->was_clean,
                                        .commit_log = store->commit_log,
                                        .wait_flushed = wait_flushed,
                                        .context = store,
                                        .clock = store->clock,
                                        .ops = store->ops,
                                        .log = options->log};
    return options->compaction_file_size > 0 ? rp_compaction_open(&compaction, &store->compaction, error) : RP_OK;
}

static int set_mark(rp_message_store *store, rp_error *error) {
    int rc = rp_abort_mark_set(store->ops, store->paths.abort_mark, store->paths.root, error);
    store->was_marked = rc == RP_OK;
    return rc;
}

static int open_flusher(rp_message_store *store, rp_error *error) {
    const rp_message_store_options *options = &store->options;
    rp_flusher_setup flusher = {.ops = store->ops,
                                .clock = store->clock,
                                .log = options->log,
                                .commit_log = store->commit_log,
                                .queues = {store->queues, store->ops, store->queues_fd, RP_QUEUES_AT_ONCE},
                                .ledger_index = store->ledger_index,
                                .checkpoint_path = store->paths.checkpoint,
                                .checkpoint = store->checkpoint,
                                .timing = {options->flush_interval_ms, options->flush_least_pages, options->flush_thorough_interval_ms,
                                           options->queue_flush_interval_ms},
                                .is_timed_only = options->flush_mode == RP_FLUSH_ASYNC};
    return rp_flusher_open(&flusher, &store->flusher, error);
}

static int start_log(rp_message_store *store, rp_error *error) {
    rp_commit_log_on_dispatch(store->commit_log, dispatch_record, place_record, &store->dispatcher);
    return rp_commit_log_start(store->commit_log, error);
}

static int start_flusher(rp_message_store *store, rp_error *error) { return rp_flusher_start(store->flusher, error); }

/* Idempotent. What is not indexed by then is indexed at the next open. RP_OK, or why the index is not on disk. */
static int stop_index(rp_message_store *store, rp_error *error) {
    if (store->index_builder == NULL) {
        return RP_OK;
    }
    rp_commit_log_remove_follower(store->commit_log, store->index_builder);
    rp_index_builder_close(store->index_builder, INDEX_DRAIN_MS);
    store->index_builder = NULL;
    rp_flusher_set_index_count(store->flusher, rp_key_index_file_count(store->index));
    rp_error failure;
    if (rp_key_index_sync(store->index, &failure) >= 0) {
        return RP_OK;
    }
    return rp_error_set(error, failure.status, failure.os_errno, failure.file, failure.offset, "%s", failure.message);
}

typedef struct queue_cleaning {
    rp_error *error;
    int rc;
} queue_cleaning;

static int clean_queue(void *context, rp_consume_queue *queue) {
    queue_cleaning *cleaning = context;
    cleaning->rc = rp_consume_queue_clean(queue, cleaning->error);
    return cleaning->rc != RP_OK;
}

/* After the last append: makes sure that the next start does not find entries that were taken back. */
static int clean_queues(rp_message_store *store, rp_error *error) {
    queue_cleaning cleaning = {error, RP_OK};
    rp_queue_table_each(store->queues, clean_queue, &cleaning);
    return cleaning.rc;
}

static void destroy(rp_message_store *store) {
    if (store->commit_log != NULL) {
        (void)rp_commit_log_stop(store->commit_log, NULL);
    }
    (void)stop_index(store, NULL);
    rp_retention_close(store->retention);
    rp_compaction_close(store->compaction);
    rp_flusher_close(store->flusher);
    rp_key_index_close(store->index);
    rp_queue_table_destroy(store->queues);
    rp_commit_log_close(store->commit_log);
    rp_ledger_index_close(store->ledger_index);
    if (store->queues_fd >= 0) {
        store->ops->close(store->ops->context, store->queues_fd);
    }
    rp_store_lock_release(store->lock_fd);
    rp_flush_backend_close(store->backend);
    free(store);
}

/* A step of the open: RP_OK, or why the store cannot be opened. Each step relies on those before it. */
typedef int step(rp_message_store *store, rp_error *error);

static step *const opening[] = {check_options,
                                set_paths,
                                rp_message_store_refuse_old_log,
                                make_directories,
                                take_lock,
                                choose_backend,
                                read_marks,
                                rp_message_store_open_ledger,
                                open_log,
                                cut_log,
                                make_queues_directory,
                                open_queues,
                                recover,
                                open_index,
                                NULL};
/* Steps that a read-only store leaves out. */
static step *const starting[] = {settle,         set_mark,    open_flusher,  start_log, open_compaction,
                                 open_retention, start_index, start_flusher, NULL};

static int run(rp_message_store *store, step *const *steps, rp_error *error) {
    int rc = RP_OK;
    for (; *steps != NULL && rc == RP_OK; steps++) {
        rc = (*steps)(store, error);
    }
    return rc;
}

int rp_message_store_open(const rp_message_store_options *options, rp_message_store **out, rp_error *error) {
    rp_message_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for the store");
    }
    store->options = *options;
    store->ops = options->file_ops != NULL ? options->file_ops : rp_file_ops_system();
    store->clock = options->clock != NULL ? options->clock : rp_clock_system();
    store->lock_fd = store->queues_fd = -1;
    int rc = run(store, opening, error);
    rc = rc == RP_OK && !options->read_only ? run(store, starting, error) : rc;
    store->options.delay_levels = store->options.liburing_path = store->options.batch_topics = NULL;
    if (rc != RP_OK) {
        destroy(store);
        return rc;
    }
    *out = store;
    return RP_OK;
}

int rp_message_store_close(rp_message_store *store, rp_error *error) {
    if (store == NULL) {
        return RP_OK;
    }
    int rc = rp_commit_log_stop(store->commit_log, error);
    rp_compaction_close(store->compaction);
    store->compaction = NULL;
    int index_rc = stop_index(store, error); /* before the flusher stops: the index's last sync is part of the last checkpoint */
    rc = index_rc != RP_OK ? index_rc : rc;
    rc = rc == RP_OK ? clean_queues(store, error) : rc;
    if (store->flusher != NULL) {
        int flusher_rc = rp_flusher_stop(store->flusher, error);
        rc = flusher_rc != RP_OK ? flusher_rc : rc;
    }
    if (rc == RP_OK && store->was_marked) { /* otherwise the next open must recover */
        rc = rp_abort_mark_clear(store->ops, store->paths.abort_mark, store->paths.root, error);
    }
    destroy(store);
    return rc;
}
