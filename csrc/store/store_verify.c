/* store_verify.c: see store_verify.h. Five passes: the log in order with each message's queue entry, the queues, the index, timed
 * messages, compacted topics. */
#include "store_verify.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint.h"
#include "compaction_check.h"
#include "file_row.h"
#include "index_key.h"
#include "log_scan.h"
#include "message_layout_inl.h"
#include "light_queue.h"
#include "queue_check.h"
#include "store_lock.h"
#include "store_path.h"
#include "timer_check.h"

#define PROGRESS_BYTES (16u << 20)

typedef struct verify_run {
    const rp_verify_options *options;
    rp_verify_counts *counts;
    rp_file_row *log;
    rp_queue_check *queues;
    int64_t confirmed; /* messages from here on may be held back from their queues */
    int is_stopped;      /* the last run ended cleanly */
    int64_t index_files; /* as the last stop left them; -1: unknown */
    uint64_t bytes_total, bytes_done, bytes_reported;
    int has_entries; /* the log's files begin with entries of DLedger */
    uint32_t missing_queue; /* queue of the first message in counts->uncommitted */
    int64_t missing_offset;
} verify_run;

void rp_verify_options_default(rp_verify_options *options) {
    *options = (rp_verify_options){.check_crc = 1, .index_shape = {RP_INDEX_SLOT_COUNT, RP_INDEX_ENTRY_COUNT_MAX}};
}

/* RP_OK, or RP_E_CLOSED if the visitor ended the run. */
static int report(verify_run *run, int kind, const char *file, int64_t offset, int64_t size, const char *cause) {
    run->counts->damages++;
    rp_damage_row row = {kind, file, offset, size, cause};
    if (run->options->visit == NULL || run->options->visit(run->options->context, &row) == 0)
        return RP_OK;
    return RP_E_CLOSED;
}

static int show_progress(verify_run *run, uint64_t bytes_done) {
    run->bytes_done = bytes_done;
    if (run->options->progress == NULL || bytes_done - run->bytes_reported < PROGRESS_BYTES)
        return RP_OK;
    run->bytes_reported = bytes_done;
    return run->options->progress(run->options->context, bytes_done, run->bytes_total) == 0 ? RP_OK : RP_E_CLOSED;
}

/* A file that could not be read says nothing about the store: the check ends. */
static int find_unreadable(const verify_run *run, uint32_t queue, rp_error *error) {
    int status = rp_file_row_failure(run->log, error);
    return status < 0 ? status : rp_queue_check_failure(run->queues, queue, error);
}

/* ---- pass 1: the log ---- */

/* Called for a message that is in its queue behind some that are in none: those were committed before it, so their entries are lost. */
static int report_missing(verify_run *run, uint64_t missing) {
    char cause[RP_ERROR_MESSAGE_MAX];
    run->counts->uncommitted = 0;
    snprintf(cause, sizeof cause, "%llu messages are in the log but their queue entries are missing, the first one's here",
             (unsigned long long)missing);
    return report(run, RP_DAMAGE_QUEUE, rp_queue_check_path(run->queues, run->missing_queue), run->missing_offset, 0, cause);
}

/* Checks the message's entries in existing light queues. An unconfirmed message has none. */
static int check_light_queues(verify_run *run, const rp_message *message) {
    rp_light_queues light = rp_light_queues_of(message->properties);
    rp_message in_light = *message;
    int status = RP_OK;
    in_light.queue_id = RP_LIGHT_QUEUE_ID;
    in_light.sys_flag &= ~RP_SYSFLAG_INNER_BATCH; /* entries of light queues are plain, whatever the message is */
    while (status == RP_OK && rp_light_queues_next(&light, &in_light.topic, &in_light.queue_offset)) {
        uint32_t queue;
        int64_t offset;
        const char *cause;
        int outcome = rp_queue_check_message(run->queues, rp_file_row_min(run->log), &in_light, &queue, &offset, &cause);
        int may_be_missing = run->has_entries || message->physical_offset >= run->confirmed;
        if (outcome == 0 || (outcome == RP_QUEUE_CHECK_MISSING && !may_be_missing))
            status = report(run, RP_DAMAGE_QUEUE, rp_queue_check_path(run->queues, queue), offset, 0, cause);
    }
    return status;
}

static int check_message(verify_run *run, const rp_message *message, rp_error *error) {
    run->counts->messages++;
    run->counts->log_max_offset = message->physical_offset + message->size;
    uint32_t queue = 0;
    int64_t offset = -1;
    const char *cause = NULL;
    int outcome = rp_queue_check_message(run->queues, rp_file_row_min(run->log), message, &queue, &offset, &cause);
    int is_held = outcome == RP_QUEUE_CHECK_MISSING && message->physical_offset >= run->confirmed && !run->has_entries;
    int is_orphan = outcome == RP_QUEUE_CHECK_ORPHAN || is_held;
    run->counts->orphans += (uint64_t)is_orphan;
    int status = outcome == 1 ? RP_OK : find_unreadable(run, queue, error);
    if (status == RP_OK && outcome == RP_QUEUE_CHECK_MISSING && run->has_entries) {
        if (run->counts->uncommitted++ == 0) {
            run->missing_queue = queue;
            run->missing_offset = offset;
        }
        return RP_OK;
    }
    if (outcome == 1 && rp_message_is_queued(message->sys_flag) && run->counts->uncommitted != 0)
        return report_missing(run, run->counts->uncommitted);
    if (status == RP_OK && outcome != 1 && !is_orphan)
        status = report(run, RP_DAMAGE_QUEUE, rp_queue_check_path(run->queues, queue), offset, 0, cause);
    return status == RP_OK && rp_topic_has_light_queues(message->topic) ? check_light_queues(run, message) : status;
}

/* Does any later file hold a record? A file made ahead for the writer is all zero. */
static int is_written_behind(verify_run *run, uint32_t file) {
    for (uint32_t i = file + 1; i < rp_file_row_count(run->log); i++) {
        const uint8_t *head = rp_file_row_at(run->log, rp_file_row_start(run->log, i), RP_MESSAGE_BLANK_SIZE_MIN);
        static const uint8_t zeros[RP_MESSAGE_BLANK_SIZE_MIN];
        if (head != NULL && memcmp(head, zeros, sizeof zeros) != 0)
            return 1;
    }
    return 0;
}

static int check_log_file(verify_run *run, uint32_t file, rp_error *error) {
    rp_log_scan *scan = NULL;
    const char *path = rp_file_row_path(run->log, file);
    int status = rp_log_scan_open(path, INT64_MIN, INT64_MAX, run->options->check_crc, &scan, error);
    if (status < 0)
        return status;
    uint64_t done_before = run->bytes_done;
    run->has_entries = rp_log_scan_has_entries(scan);
    for (int kind = RP_SCAN_MESSAGE; status == RP_OK && kind != RP_SCAN_END;) {
        rp_message message;
        rp_scan_damage damage;
        kind = rp_log_scan_next(scan, &message, &damage);
        if (kind == RP_SCAN_MESSAGE)
            status = check_message(run, &message, error);
        else if (kind == RP_SCAN_DAMAGE)
            status = report(run, RP_DAMAGE_LOG, path, damage.offset, damage.size, damage.cause);
        if (status == RP_OK)
            status = show_progress(run, done_before + (uint64_t)(rp_log_scan_offset(scan) - rp_log_scan_file_start(scan)));
    }
    if (status == RP_OK && rp_log_scan_ended_unwritten(scan) && is_written_behind(run, file))
        status = report(run, RP_DAMAGE_LOG, path, run->counts->log_max_offset, 0,
                        "the file ends with unwritten bytes but later files hold records");
    rp_log_scan_close(scan);
    run->bytes_done = done_before + (uint64_t)rp_file_row_size(run->log, file);
    return status;
}

static int check_log(verify_run *run, rp_error *error) {
    int status = RP_OK;
    for (uint32_t i = 0; i < rp_file_row_count(run->log) && status == RP_OK; i++) {
        run->counts->log_files++;
        run->counts->log_bytes += (uint64_t)rp_file_row_size(run->log, i);
        int64_t start = rp_file_row_start(run->log, i);
        int64_t expected = i == 0 ? start : rp_file_row_start(run->log, i - 1) + rp_file_row_size(run->log, i - 1);
        if (start != expected)
            status = report(run, RP_DAMAGE_LOG, rp_file_row_path(run->log, i), expected, start - expected,
                            start > expected ? "commit log files are missing before this one"
                                             : "this commit log file overlaps the one before it");
        if (status == RP_OK)
            status = check_log_file(run, i, error);
    }
    return status;
}

/* ---- pass 2: queues ---- */

typedef struct bad_entry_context {
    verify_run *run;
    uint32_t queue;
    rp_error *error;
} bad_entry_context;

static int report_bad_entry(void *context, int64_t offset, const char *cause) {
    bad_entry_context *bad = context;
    int status = find_unreadable(bad->run, bad->queue, bad->error);
    return status < 0 ? status : report(bad->run, RP_DAMAGE_QUEUE, rp_queue_check_path(bad->run->queues, bad->queue), offset, 0, cause);
}

static int check_queues(verify_run *run, rp_error *error) {
    int status = RP_OK;
    for (uint32_t i = 0; i < rp_queue_check_count(run->queues) && status == RP_OK; i++) {
        bad_entry_context context = {run, i, error};
        run->counts->queues++;
        status = rp_queue_check_entries(run->queues, i, run->log, rp_file_row_min(run->log), &run->counts->queue_entries, report_bad_entry,
                                        &context);
    }
    return status;
}

/* ---- pass 3: index ---- */

static int has_key_hash(const rp_message *message, int32_t hash) {
    rp_index_keys keys = rp_index_keys_of(message);
    int32_t known;
    while (rp_index_keys_next(&keys, &known))
        if (known == hash)
            return 1;
    return 0;
}

static const char *index_entry_fault(verify_run *run, int32_t hash, int64_t log_offset) {
    if (log_offset < rp_file_row_min(run->log))
        return NULL; /* its message has expired */
    uint64_t size;
    const uint8_t *record = rp_file_row_record(run->log, log_offset, &size);
    rp_message message;
    if (record == NULL)
        return "the index entry points behind the log's end";
    if (rp_message_decode(record, size, 0, &message, NULL) != RP_RECORD_MESSAGE)
        return "the index entry points at no record";
    return has_key_hash(&message, hash) ? NULL : "the index entry points at a message without that key";
}

static int check_index_file(verify_run *run, const char *path, rp_error *error) {
    rp_index_file *file = NULL;
    rp_error cause;
    int status = rp_index_file_open(NULL, path, run->options->index_shape, 0, &file, &cause);
    if (status == RP_E_CORRUPT)
        return report(run, RP_DAMAGE_INDEX, path, -1, 0, cause.message);
    if (status < 0)
        return rp_error_set(error, status, cause.os_errno, path, -1, "%s", cause.message);
    run->counts->index_files++;
    uint32_t count = rp_index_file_entry_count(file);
    for (uint32_t number = 1; number <= count && status == RP_OK; number++) {
        int32_t hash;
        int64_t log_offset;
        status = rp_index_file_entry(file, number, &hash, &log_offset, error);
        const char *fault = status == RP_OK ? index_entry_fault(run, hash, log_offset) : NULL;
        run->counts->index_entries += status == RP_OK;
        int64_t at = RP_INDEX_HEADER_SIZE + (int64_t)run->options->index_shape.slot_count * RP_INDEX_SLOT_SIZE +
                     (int64_t)number * RP_INDEX_ENTRY_SIZE;
        if (fault != NULL)
            status = rp_file_row_failure(run->log, error);
        if (fault != NULL && status == RP_OK)
            status = report(run, RP_DAMAGE_INDEX, path, at, RP_INDEX_ENTRY_SIZE, fault);
    }
    rp_index_file_close(file);
    return status;
}

static int is_index_name(const struct dirent *entry) { return strlen(entry->d_name) == 17 && strspn(entry->d_name, "0123456789") == 17; }

/* Compares the number of files with what the last stop left, as a start does. */
static int check_index_count(verify_run *run, const char *directory, int count) {
    char cause[RP_ERROR_MESSAGE_MAX];
    if (run->index_files < 0 || run->index_files == count)
        return RP_OK;
    snprintf(cause, sizeof cause, "%d index files where the last stop left %lld; a start builds the index again", count,
             (long long)run->index_files);
    return report(run, RP_DAMAGE_INDEX, directory, -1, 0, cause);
}

static int check_index(verify_run *run, rp_error *error) {
    char directory[PATH_MAX], path[PATH_MAX + NAME_MAX + 2];
    snprintf(directory, sizeof directory, "%s/index", run->options->root_path);
    struct dirent **names = NULL;
    int count = scandir(directory, &names, is_index_name, alphasort), counted = 0;
    int status = RP_OK;
    if (count < 0 && errno != ENOENT)
        status = rp_error_set(error, rp_status_from_errno(errno), errno, directory, -1, "cannot list the directory: %s", strerror(errno));
    for (int i = 0; i < count; i++) { /* count -1: there is no index, and nothing to check */
        snprintf(path, sizeof path, "%s/%s", directory, names[i]->d_name);
        int is_new = i + 1 == count && rp_path_file_size(path) == 0; /* a kill left it without length: a start removes it */
        counted += !is_new;
        if (status == RP_OK && !is_new)
            status = check_index_file(run, path, error);
        free(names[i]);
    }
    free(names);
    return status == RP_OK ? check_index_count(run, directory, counted) : status;
}

/* ---- pass 4: timed messages ---- */

static int report_timer_damage(void *context, const char *file, int64_t offset, int64_t size, const char *cause) {
    return report(context, RP_DAMAGE_TIMER, file, offset, size, cause);
}

static int check_timers(verify_run *run, rp_error *error) {
    static const rp_slice topic = {(const uint8_t *)RP_TIMER_CHECK_TOPIC, sizeof RP_TIMER_CHECK_TOPIC - 1};
    rp_timer_check_options options = {
        .root_path = run->options->root_path,
        .commit_log = run->log,
        .is_stopped = run->is_stopped,
        .queue_end = rp_queue_check_end(run->queues, topic, 0),
        .report = report_timer_damage,
        .context = run,
    };
    return rp_timer_check(&options, &run->counts->timer_records, &run->counts->timer_slots, error);
}

/* ---- pass 5: compacted topics ---- */

static int report_compaction_damage(void *context, const char *file, int64_t offset, int64_t size, const char *cause) {
    return report(context, RP_DAMAGE_COMPACTION, file, offset, size, cause);
}

static int check_compaction(verify_run *run, rp_error *error) {
    rp_compaction_check_options options = {
        .root_path = run->options->root_path,
        .check_crc = run->options->check_crc,
        .is_stopped = run->is_stopped,
        .queues = run->queues,
        .report = report_compaction_damage,
        .context = run,
    };
    rp_compaction_check_counts counts;
    int status = rp_compaction_check(&options, &counts, error);
    run->counts->compacted_queues = counts.queues;
    run->counts->compacted_messages = counts.messages;
    run->counts->compactions_unfinished = counts.unfinished;
    return status;
}

/* Reads what our last run left. RocketMQ's checkpoint dates from its last start, unless it is behind a controller. */
static void read_checkpoint(verify_run *run) {
    char path[PATH_MAX], abort_mark[PATH_MAX];
    rp_checkpoint checkpoint;
    snprintf(path, sizeof path, "%s/checkpoint", run->options->root_path);
    snprintf(abort_mark, sizeof abort_mark, "%s/abort", run->options->root_path);
    run->is_stopped = !rp_abort_mark_exists(abort_mark);
    if (rp_checkpoint_read(rp_file_ops_system(), path, &checkpoint, NULL) != RP_OK || !checkpoint.is_exact)
        return;
    if (checkpoint.confirm_offset > 0)
        run->confirmed = checkpoint.confirm_offset;
    if (run->is_stopped)
        run->index_files = checkpoint.index_count;
}

int rp_store_verify(const rp_verify_options *options, rp_verify_counts *counts, rp_error *error) {
    char log_path[PATH_MAX];
    *counts = (rp_verify_counts){0};
    struct stat info;
    if (stat(options->root_path, &info) < 0 || !S_ISDIR(info.st_mode))
        return rp_error_set(error, RP_E_NOT_FOUND, 0, options->root_path, -1, "there is no store directory here");
    if (options->commit_log_path != NULL)
        snprintf(log_path, sizeof log_path, "%s", options->commit_log_path);
    else
        snprintf(log_path, sizeof log_path, "%s/commitlog", options->root_path);
    verify_run run = {.options = options, .counts = counts, .confirmed = INT64_MAX, .index_files = -1};
    read_checkpoint(&run);
    int status = rp_file_row_open(log_path, &run.log, error);
    if (status == RP_OK)
        status = rp_queue_check_open(options->root_path, &run.queues, error);
    if (status == RP_OK) {
        counts->log_min_offset = counts->log_max_offset = rp_file_row_min(run.log);
        for (uint32_t i = 0; i < rp_file_row_count(run.log); i++)
            run.bytes_total += (uint64_t)rp_file_row_size(run.log, i);
        status = check_log(&run, error);
        if (status == RP_OK)
            status = check_queues(&run, error);
        if (status == RP_OK)
            status = check_index(&run, error);
        if (status == RP_OK)
            status = check_timers(&run, error);
        if (status == RP_OK)
            status = check_compaction(&run, error);
        if (status == RP_E_CLOSED)
            rp_error_set(error, RP_E_CLOSED, 0, options->root_path, -1, "the check was ended by its caller");
    }
    rp_queue_check_close(run.queues);
    rp_file_row_close(run.log);
    return status;
}
