/* recovery.c: see recovery.h. */
#include "recovery.h"

#include <stdbool.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "commit_log_ledger.h"
#include "consume_queue_writer.h"
#include "inner_batch.h"
#include "light_queue.h"
#include "log_cursor.h"
#include "message_layout_inl.h"
#include "record_check.h"

#define TIME_MARGIN_MS 3000 /* RocketMQ subtracts it from the checkpoint's times */
#define LAST_FILES 3        /* of the log: what RocketMQ reads again after a clean stop */
#define ALONE_BYTES (1 << 20) /* less than this is not worth a second thread */
#define PREFETCH_RECORDS 12 /* records ahead of the current one whose cache lines are prefetched */
#define MIB (1024.0 * 1024)

static rp_mapped_file_queue *files(const rp_recovery *recovery) { return rp_commit_log_files(recovery->commit_log); }

static rp_log_cursor cursor_of(const rp_recovery *recovery) {
    return (rp_log_cursor){.row = files(recovery), .has_entries = rp_commit_log_has_entries(recovery->commit_log)};
}

/* As rp_log_cursor_decode; RP_RECORD_END also behind the last file. A file that cannot be opened is RP_E_IO and not the end, or its
 * messages would be lost. */
static int decode_at(const rp_recovery *recovery, rp_log_cursor *cursor, int64_t offset, rp_message *message, rp_error *error) {
    int rc = rp_log_cursor_move(cursor, offset, error);
    if (rc != RP_OK) {
        return rc == RP_E_RANGE ? RP_RECORD_END : rc;
    }
    return rp_log_cursor_decode(cursor, offset, recovery->check_crc, message, error);
}

/* The same for stepping from record to record (rp_log_cursor_step). */
static int step_at(const rp_recovery *recovery, rp_log_cursor *cursor, int64_t offset, rp_message *message, rp_error *error) {
    int rc = rp_log_cursor_move(cursor, offset, error);
    if (rc != RP_OK) {
        return rc == RP_E_RANGE ? RP_RECORD_END : rc;
    }
    return rp_log_cursor_step(cursor, offset, recovery->check_crc, message, error);
}

/* Returns the start of the newest file that the checkpoint's times allow as a start, or of the first file if none is old enough. */
static int64_t start_by_time(rp_recovery *recovery) {
    const rp_checkpoint *checkpoint = recovery->checkpoint;
    int64_t time_ms = checkpoint->log_time_ms < checkpoint->queues_time_ms ? checkpoint->log_time_ms : checkpoint->queues_time_ms;
    int64_t known_ms = time_ms < INT64_MIN + TIME_MARGIN_MS ? INT64_MIN : time_ms - TIME_MARGIN_MS; /* a damaged file may hold any time */
    int64_t size = (int64_t)rp_mapped_file_queue_file_size(files(recovery)), begin = rp_mapped_file_queue_begin(files(recovery));
    rp_log_cursor cursor = cursor_of(recovery);
    int64_t base = rp_mapped_file_queue_end(files(recovery)) - size;
    for (; base > begin; base -= size) {
        rp_message message;
        cursor.last_term = 0;
        if (step_at(recovery, &cursor, base, &message, NULL) == RP_RECORD_MESSAGE && message.store_timestamp_ms != 0 &&
            message.store_timestamp_ms <= known_ms) {
            break;
        }
    }
    rp_log_cursor_leave(&cursor);
    return base > begin ? base : begin;
}

typedef struct queue_ends {
    rp_recovery *recovery;
    rp_log_cursor cursor;
    int64_t end;     /* end of the record that the furthest entry points to */
    int64_t queues, entries, begin_bytes;
    bool disagree;   /* some entry and its record disagree */
    int rc;          /* not RP_OK: a file cannot be read or changed now, which is no reason to cut or rebuild any queue */
    rp_error *error;
} queue_ends;

static bool has_read(queue_ends *ends, const rp_consume_queue *queue, int64_t got) {
    if (rp_status_is_passing((int)got)) {
        rp_slice topic = rp_consume_queue_topic(queue);
        ends->rc = rp_error_set(ends->error, (int)got, 0, NULL, -1,
                                "queue %.*s/%d cannot be read (%s): free memory, or raise the limits of open files and maps "
                                "(vm.max_map_count)",
                                (int)topic.size, (const char *)topic.data, rp_consume_queue_id(queue), rp_status_text((int)got));
    }
    return got == 1;
}

/* Reads the entry at offset, or the last one before it. False: there is none, or ends->rc is set. */
static bool read_entry(queue_ends *ends, rp_consume_queue *queue, int64_t offset, rp_queue_entry *entry) {
    return has_read(ends, queue, rp_consume_queue_read(queue, offset, entry, 1));
}

static bool read_entry_before(queue_ends *ends, rp_consume_queue *queue, int64_t offset, rp_queue_entry *entry) {
    return has_read(ends, queue, rp_consume_queue_read_before(queue, offset, entry));
}

/* Does a record of a batch queue agree with its entry? */
static bool is_same_batch(const rp_message *message, const rp_queue_entry *entry) {
    rp_queue_entry told;
    return rp_inner_batch_read(message, &told) && told.messages == entry->messages;
}

/* Does the entry point to a record with that queue and offset? False also with ends->rc. */
static bool entry_is_true(queue_ends *ends, rp_consume_queue *queue, const rp_queue_entry *entry) {
    rp_message message;
    rp_error cause = {0};
    rp_slice topic = rp_consume_queue_topic(queue);
    int kind = decode_at(ends->recovery, &ends->cursor, entry->commit_log_offset, &message, &cause);
    if (kind < 0 && kind != RP_E_CORRUPT) {
        ends->rc = rp_error_set(ends->error, kind, cause.os_errno, cause.file, cause.offset, "%s", cause.message);
    }
    if (kind != RP_RECORD_MESSAGE || message.size != (uint32_t)entry->size) {
        return false;
    }
    return (message.queue_id == rp_consume_queue_id(queue) && message.queue_offset == entry->queue_offset &&
            message.topic.size == topic.size && memcmp(message.topic.data, topic.data, topic.size) == 0 &&
            (!rp_consume_queue_is_batch(queue) || is_same_batch(&message, entry))) ||
           (rp_is_light_queue(topic) && rp_light_queue_holds(topic, message.properties, entry->queue_offset));
}

/* Retention leaves queues that begin with entries of expired messages, or with the first existing one. A queue that begins with a
 * message in the middle of the log may have lost its first file. A checkpoint of ours knows. */
static bool begins_too_late(queue_ends *ends, rp_consume_queue *queue) {
    const rp_recovery *recovery = ends->recovery;
    int64_t first = rp_consume_queue_min_offset(queue);
    rp_queue_entry entry;
    return !recovery->checkpoint->is_exact && first > 0 && first < rp_consume_queue_max_offset(queue) &&
           read_entry(ends, queue, first, &entry) && entry.commit_log_offset > rp_mapped_file_queue_begin(files(recovery));
}

static int look_at_queue(void *context, rp_consume_queue *queue) {
    queue_ends *ends = context;
    int64_t max = rp_consume_queue_max_offset(queue);
    rp_queue_entry last;
    ends->queues += max > 0;
    ends->entries += max;
    ends->begin_bytes += rp_consume_queue_begin_bytes(queue);
    if (begins_too_late(ends, queue)) {
        ends->disagree = true;
    }
    if (max == rp_consume_queue_min_offset(queue) || !read_entry_before(ends, queue, max, &last) ||
        last.commit_log_offset < rp_mapped_file_queue_begin(files(ends->recovery))) { /* its messages are gone; only the offset is kept */
        return ends->rc != RP_OK;
    }
    if (!entry_is_true(ends, queue, &last)) {
        ends->disagree = true;
    } else if (last.commit_log_offset + last.size > ends->end) {
        ends->end = last.commit_log_offset + last.size;
    }
    return ends->rc != RP_OK;
}

/* Returns where the pass over the log must begin; or a status: that cannot be told now. */
static int64_t choose_start(rp_recovery *recovery, rp_error *error) {
    const rp_checkpoint *checkpoint = recovery->checkpoint;
    int64_t begin = rp_mapped_file_queue_begin(files(recovery)), end = rp_mapped_file_queue_end(files(recovery));
    bool is_known = checkpoint->is_exact && checkpoint->queues_offset >= begin && checkpoint->queues_offset <= end;
    if (recovery->queues_damaged) {
        return begin;
    }
    if (recovery->was_clean) {
        queue_ends ends = {.recovery = recovery, .cursor = cursor_of(recovery), .end = begin, .rc = RP_OK, .error = error};
        rp_queue_table_each(recovery->queues, look_at_queue, &ends);
        rp_log_cursor_leave(&ends.cursor);
        if (ends.rc != RP_OK) {
            return ends.rc;
        }
        bool all_there = !checkpoint->is_exact || checkpoint->queue_count < 0 ||
                         (checkpoint->queue_count == ends.queues && checkpoint->entry_count == ends.entries &&
                          checkpoint->begin_bytes == ends.begin_bytes);
        if (!ends.disagree && all_there) {
            int64_t last_files = end - LAST_FILES * (int64_t)rp_mapped_file_queue_file_size(files(recovery));
            last_files = last_files > begin ? last_files : begin;
            recovery->looked_at_end = ends.end;
            if (is_known && checkpoint->queues_offset > ends.end) {
                return checkpoint->queues_offset; /* the log's last messages belong to deleted topics */
            }
            return checkpoint->is_exact || ends.end < last_files ? ends.end : last_files;
        }
        rp_log_write(recovery->log, RP_LOG_WARNING, "consume queues do not match the commit log: rebuilding them");
        recovery->queues_damaged = 1;
        return begin;
    }
    return is_known ? checkpoint->queues_offset : start_by_time(recovery);
}

/* True if the queue's messages have all expired, and nothing in the log tells where it ended. Rebuilt, it would begin at 0, and
 * consumers, who are further along, would miss its new messages. */
static bool has_only_its_offset(queue_ends *ends, rp_consume_queue *queue) {
    int64_t max = rp_consume_queue_max_offset(queue);
    rp_queue_entry last;
    return max > 0 &&
           (max == rp_consume_queue_min_offset(queue) ||
            (read_entry_before(ends, queue, max, &last) && last.commit_log_offset < rp_mapped_file_queue_begin(files(ends->recovery))));
}

/* Cuts entries that point at or behind ends->end. After an unclean end the entries before that are known to be synced, in order; behind
 * it there may be anything: holes, torn entries, entries of an older history. So a search may end among those, but that is noticed: the
 * last entry that is kept must agree with its record. */
static int cut_queue(void *context, rp_consume_queue *queue) {
    queue_ends *ends = context;
    rp_queue_entry last;
    bool is_rebuilt = ends->recovery->queues_damaged && !has_only_its_offset(ends, queue);
    int64_t offset = is_rebuilt ? 0 : rp_consume_queue_offset_by_log_offset(queue, ends->end, ends->error);
    int64_t begin = rp_mapped_file_queue_begin(files(ends->recovery));
    if (offset < 0 || ends->rc != RP_OK) {
        ends->rc = ends->rc != RP_OK ? ends->rc : (int)offset;
        return 1;
    }
    /* A queue that begins above 0 lost its first files to retention or their names to a crash; if the log is whole, to a crash. */
    bool lost_its_start = offset == rp_consume_queue_min_offset(queue) && offset > 0 && begin == 0;
    if (is_rebuilt || lost_its_start) {
        ends->rc = rp_consume_queue_clear(queue, ends->error);
        return ends->rc != RP_OK;
    }
    if (!ends->recovery->was_clean && offset > rp_consume_queue_min_offset(queue) &&
        (!read_entry_before(ends, queue, offset, &last) || (last.commit_log_offset >= begin && !entry_is_true(ends, queue, &last)))) {
        ends->disagree = true;
    }
    if (ends->rc == RP_OK) {
        bool is_over = ends->recovery->was_clean && !ends->recovery->queues_damaged;
        ends->rc = is_over ? rp_consume_queue_truncate(queue, offset, ends->error) : rp_consume_queue_go_back(queue, offset, ends->error);
    }
    return ends->rc != RP_OK;
}

/* Starts the rebuild of all queues from the log's begin. That is noted on disk first, so that half a rebuild is not taken for a whole
 * one. */
static int begin_rebuild(rp_recovery *recovery, rp_error *error) {
    recovery->queues_damaged = 1;
    recovery->start = rp_mapped_file_queue_begin(files(recovery));
    return recovery->read_only ? RP_OK : recovery->doubt_queues(recovery->context, error);
}

static int cut_queues(rp_recovery *recovery, int64_t log_offset, rp_error *error) {
    queue_ends ends = {.recovery = recovery, .cursor = cursor_of(recovery), .end = log_offset, .rc = RP_OK, .error = error};
    rp_queue_table_each(recovery->queues, cut_queue, &ends);
    rp_log_cursor_leave(&ends.cursor);
    if (ends.rc == RP_OK && ends.disagree) {
        rp_log_write(recovery->log, RP_LOG_WARNING, "consume queues do not match the commit log: rebuilding them");
        ends.rc = begin_rebuild(recovery, error);
        if (ends.rc == RP_OK) {
            rp_queue_table_each(recovery->queues, cut_queue, &ends);
        }
    }
    return ends.rc;
}

static int clear_behind(void *context, rp_consume_queue *queue) {
    queue_ends *ends = context;
    ends->rc = rp_consume_queue_clear_behind(queue, ends->error);
    return ends->rc != RP_OK;
}

/* When every record has its entry: clears what the queues' files hold behind them. */
static int clear_queues_behind(rp_recovery *recovery, rp_error *error) {
    queue_ends ends = {.recovery = recovery, .rc = RP_OK, .error = error};
    rp_queue_table_each(recovery->queues, clear_behind, &ends);
    return ends.rc;
}

static int trim_queue(void *context, rp_consume_queue *queue) {
    queue_ends *ends = context;
    ends->rc = rp_consume_queue_trim(queue, ends->end, ends->error);
    return ends->rc != RP_OK;
}

static int trim_queues(rp_recovery *recovery, rp_error *error) {
    queue_ends ends = {.recovery = recovery, .end = rp_mapped_file_queue_begin(files(recovery)), .rc = RP_OK, .error = error};
    rp_queue_table_each(recovery->queues, trim_queue, &ends);
    return ends.rc;
}

/* True if the topic was deleted and created again since: the queue's first entry points behind the record. */
static bool is_of_deleted_topic(queue_ends *ends, rp_consume_queue *queue, const rp_message *message) {
    int64_t first = rp_consume_queue_min_offset(queue);
    rp_queue_entry entry;
    return first < rp_consume_queue_max_offset(queue) && read_entry(ends, queue, first, &entry) &&
           entry.commit_log_offset > message->physical_offset;
}

/* A queue that ends before this record has lost its last file. One that does not exist was deleted with its topic. RP_OK, or why that
 * cannot be told now. */
static int look_for_entry(rp_recovery *recovery, const rp_message *message, rp_error *error) {
    queue_ends ends = {.recovery = recovery, .rc = RP_OK, .error = error};
    rp_consume_queue *queue = rp_queue_table_find(recovery->queues, message->topic, message->queue_id, 0, NULL);
    rp_queue_entry unused;
    bool is_in_queue = queue != NULL && rp_message_is_queued(message->sys_flag) &&
                       rp_consume_queue_is_batch(queue) == ((message->sys_flag & RP_SYSFLAG_INNER_BATCH) != 0) &&
                       (!rp_consume_queue_is_batch(queue) || rp_inner_batch_read(message, &unused));
    if (is_in_queue && message->queue_offset >= rp_consume_queue_max_offset(queue) && !is_of_deleted_topic(&ends, queue, message)) {
        recovery->entries_missing = 1;
    }
    return ends.rc;
}

/* Enters the record into its queue. A whole record that names an impossible queue stays in the log: it harms nobody. */
static int dispatch(rp_recovery *recovery, const rp_message *message, int64_t tags_code, rp_error *error) {
    int rc = RP_OK;
    if (message->physical_offset + message->size > recovery->confirmed) {
        int64_t begin = message->physical_offset - (rp_commit_log_has_entries(recovery->commit_log) ? RP_LEDGER_HEAD_SIZE : 0);
        recovery->held_from = begin < recovery->held_from ? begin : recovery->held_from;
    } else if (message->physical_offset < recovery->looked_at_end) {
        rc = look_for_entry(recovery, message, error);
    } else if (!recovery->read_only) {
        rc = rp_dispatcher_apply_coded(recovery->dispatcher, message, tags_code, error);
    }
    if (rc == RP_E_CORRUPT) {
        rp_log_write(recovery->log, RP_LOG_WARNING, "record at %lld is in no queue: %s", (long long)message->physical_offset,
                     error != NULL ? error->message : "impossible topic, queue id or offset");
        rc = RP_OK;
    }
    recovery->end = message->physical_offset + message->size;
    recovery->store_timestamp_ms = message->store_timestamp_ms;
    recovery->records++;
    return rc;
}

typedef struct progress {
    int64_t started_ns, told_ns;
} progress;

static void tell_progress(const rp_recovery *recovery, progress *told) {
    int64_t now_ns = rp_clock_monotonic_ns(recovery->clock);
    if (now_ns - told->told_ns < RP_NS_PER_S) {
        return;
    }
    told->told_ns = now_ns;
    double done = (double)(recovery->end - recovery->start), all = (double)(rp_mapped_file_queue_end(files(recovery)) - recovery->start);
    double seconds = (double)(now_ns - told->started_ns) / RP_NS_PER_S, rate = done / seconds;
    rp_log_write(recovery->log, RP_LOG_NOTICE,
                 "recovery: %.0f of at most %.0f MiB of the commit log checked (%.0f %%), %.0f MiB/s, at most %.0f s to go", done / MIB,
                 all / MIB, all > 0 ? done * 100 / all : 100, rate / MIB, rate > 0 ? (all - done) / rate : 0);
}

/* Dispatches what a second thread has checked, from *offset on, as far as that goes; *offset is then behind it. If no such thread can be
 * started, does nothing, and the caller checks by itself. */
static int walk_behind_check(rp_recovery *recovery, rp_log_cursor *cursor, int64_t *offset, progress *told, rp_error *error) {
    rp_record_check *check;
    rp_record_check_setup setup = {.ops = recovery->ops,
                                   .row = files(recovery),
                                   .dispatcher = recovery->dispatcher,
                                   .start = *offset,
                                   .check_crc = recovery->check_crc,
                                   .read_only = recovery->read_only,
                                   .has_entries = cursor->has_entries,
                                   .last_index = cursor->last_index,
                                   .last_term = cursor->last_term};
    if (rp_record_check_open(&setup, &check, NULL) != RP_OK) {
        return RP_OK;
    }
    const rp_checked_record *records;
    uint32_t count;
    int rc;
    while ((rc = rp_record_check_take(check, &records, &count, offset, error)) == RP_OK && count != 0) {
        for (uint32_t i = 0; i < count && rc == RP_OK; i++) {
            __builtin_prefetch(records[i + PREFETCH_RECORDS < count ? i + PREFETCH_RECORDS : count - 1].message.topic.data);
            rc = dispatch(recovery, &records[i].message, records[i].tags_code, error);
        }
        if (rc != RP_OK) {
            break;
        }
        tell_progress(recovery, told);
    }
    if (rc == RP_OK) {
        rp_record_check_last(check, &cursor->last_index, &cursor->last_term);
    }
    rp_record_check_close(check);
    return rc;
}

/* True if the damage at offset, whose next whole record is `next`, lies below bytes that are known to have been synced: then it is no
 * torn end but damage that came later. A checkpoint of ours knows the place. RocketMQ's knows the time of the last synced record;
 * records behind the log's end may belong to an older history, and are then older than the last one of this. */
static bool was_synced(const rp_recovery *recovery, int64_t offset, const rp_message *next) {
    const rp_checkpoint *checkpoint = recovery->checkpoint;
    if (checkpoint->is_exact) {
        return offset < checkpoint->flushed_offset;
    }
    return next->store_timestamp_ms >= recovery->store_timestamp_ms && next->store_timestamp_ms <= checkpoint->log_time_ms;
}

/* Moves *offset from damage to the next whole record, if the log is known to continue; RP_E_RANGE: it ends here. */
static int pass_over_damage(rp_recovery *recovery, rp_log_cursor *cursor, int64_t *offset, rp_error *error) {
    rp_message next;
    int64_t damaged = *offset;
    bool may_go_on = !cursor->has_entries && (!recovery->checkpoint->is_exact || damaged < recovery->checkpoint->flushed_offset);
    int rc = may_go_on ? rp_log_cursor_find(cursor, damaged + 1, recovery->check_crc, &next, error) : RP_E_RANGE;
    if (rc != RP_OK || !was_synced(recovery, damaged, &next)) {
        return rc == RP_OK ? RP_E_RANGE : rc;
    }
    *offset = next.physical_offset;
    rp_log_write(recovery->log, RP_LOG_ERROR,
                 "commit log: %lld bytes at %lld are damaged, what was stored there is lost and what follows is kept: %s; look at the disk",
                 (long long)(*offset - damaged), (long long)damaged,
                 recovery->cause.status != RP_OK ? recovery->cause.message : "zeros where records were");
    return RP_OK;
}

/* Reads records from start on and dispatches them; recovery->end is then behind the last whole one. */
static int walk(rp_recovery *recovery, progress *told, rp_error *error) {
    rp_log_cursor cursor = cursor_of(recovery);
    rp_message message;
    int64_t offset = recovery->start;
    bool is_alone = true;
    int rc = RP_OK;
    while (rc == RP_OK) {
        if (is_alone && offset - recovery->start >= ALONE_BYTES) {
            is_alone = false;
            rc = walk_behind_check(recovery, &cursor, &offset, told, error);
            if (rc != RP_OK) {
                break;
            }
        }
        recovery->cause.status = RP_OK;
        int kind = step_at(recovery, &cursor, offset, &message, &recovery->cause);
        if (kind == RP_RECORD_BLANK) {
            offset += message.size;
            continue;
        }
        if (kind < 0 && kind != RP_E_CORRUPT) {
            rc = kind;
            if (error != NULL) {
                *error = recovery->cause;
            }
            break;
        }
        if (kind != RP_RECORD_MESSAGE) {
            int passed = pass_over_damage(recovery, &cursor, &offset, error);
            if (passed == RP_OK) {
                is_alone = true; /* the check continues from there */
                continue;
            }
            rc = passed == RP_E_RANGE ? RP_OK : passed;
            recovery->cut = kind < 0;
            break;
        }
        rc = dispatch(recovery, &message, rp_dispatcher_tags_code(recovery->dispatcher, &message), error);
        offset = message.physical_offset + message.size;
    }
    rp_log_cursor_leave(&cursor);
    recovery->passed_end = offset;
    return rc;
}

static int pass_over_log(rp_recovery *recovery, rp_error *error) {
    int64_t begun_ns = rp_clock_monotonic_ns(recovery->clock);
    progress told = {begun_ns, begun_ns};
    recovery->end = recovery->start;
    recovery->held_from = INT64_MAX;
    recovery->store_timestamp_ms = 0;
    int rc = walk(recovery, &told, error);
    recovery->elapsed_ns = rp_clock_monotonic_ns(recovery->clock) - begun_ns;
    if (recovery->end - recovery->start >= ALONE_BYTES) {
        double mib = (double)(recovery->end - recovery->start) / MIB, seconds = (double)recovery->elapsed_ns / RP_NS_PER_S;
        int level = told.told_ns == begun_ns ? RP_LOG_INFO : RP_LOG_NOTICE; /* if progress was logged, so is the end */
        rp_log_write(recovery->log, level, "recovery: %.0f MiB of the commit log from %lld on, %llu messages, in %.2f s (%.0f MiB/s)", mib,
                     (long long)recovery->start, (unsigned long long)recovery->records, seconds, seconds > 0 ? mib / seconds : 0);
    }
    return rc;
}

static int rebuild_queues(rp_recovery *recovery, rp_error *error) {
    rp_log_write(recovery->log, RP_LOG_WARNING, "consume queues miss entries the commit log has: rebuilding them");
    recovery->records = 0;
    recovery->cut = 0;
    recovery->looked_at_end = 0;
    int rc = begin_rebuild(recovery, error);
    rc = rc == RP_OK ? cut_queues(recovery, recovery->start, error) : rc;
    return rc == RP_OK ? pass_over_log(recovery, error) : rc;
}

/* A file system that copies on write (btrfs) needs space to put entries over others: the queues give theirs back first. */
static int pass_with_space(rp_recovery *recovery, rp_error *error) {
    recovery->records = 0;
    recovery->cut = 0;
    int rc = cut_queues(recovery, recovery->start, error);
    rc = rc == RP_OK ? clear_queues_behind(recovery, error) : rc;
    return rc == RP_OK ? pass_over_log(recovery, error) : rc;
}

/* Returns up to where the group is known to have the log; or a status: that cannot be told now. */
static int64_t find_confirmed(rp_recovery *recovery, rp_error *error) {
    if (!recovery->holds_back || recovery->read_only) {
        return INT64_MAX;
    }
    queue_ends ends = {.recovery = recovery, .cursor = cursor_of(recovery), .end = 0, .rc = RP_OK, .error = error};
    rp_queue_table_each(recovery->queues, look_at_queue, &ends);
    rp_log_cursor_leave(&ends.cursor);
    int64_t confirmed = recovery->checkpoint->confirm_offset > ends.end ? recovery->checkpoint->confirm_offset : ends.end;
    confirmed = recovery->confirmed_at_least > confirmed ? recovery->confirmed_at_least : confirmed;
    return ends.rc != RP_OK ? ends.rc : confirmed;
}

int rp_recovery_run(rp_recovery *recovery, rp_error *error) {
    recovery->start = choose_start(recovery, error);
    recovery->confirmed = recovery->start < 0 ? recovery->start : find_confirmed(recovery, error);
    if (recovery->confirmed < 0) {
        return (int)recovery->confirmed;
    }
    int rc = recovery->queues_damaged ? begin_rebuild(recovery, error) : RP_OK;
    if (rc == RP_OK && !recovery->read_only && (!recovery->was_clean || recovery->queues_damaged)) {
        rc = cut_queues(recovery, recovery->start, error);
    }
    if (rc == RP_OK) {
        rc = pass_over_log(recovery, error);
        if (rc == RP_E_DISK_FULL && !recovery->read_only && (!recovery->was_clean || recovery->queues_damaged)) {
            rc = pass_with_space(recovery, error);
        }
    }
    if (rc == RP_OK && recovery->entries_missing && !recovery->read_only) {
        rc = rebuild_queues(recovery, error);
    }
    if (rc != RP_OK) {
        return rc;
    }
    recovery->held_from = recovery->held_from < recovery->end ? recovery->held_from : recovery->end;
    if (recovery->records == 0) {
        recovery->store_timestamp_ms = recovery->checkpoint->log_time_ms;
    }
    if (recovery->cut) {
        rp_log_write(recovery->log, RP_LOG_WARNING, "commit log ends at %lld: %s", (long long)recovery->end, recovery->cause.message);
    }
    bool is_short = recovery->checkpoint->is_exact && recovery->passed_end < recovery->checkpoint->queues_offset;
    if (is_short && rp_commit_log_has_entries(recovery->commit_log) && !recovery->read_only) {
        return rp_error_set(
            error, RP_E_CORRUPT, 0, NULL, recovery->end,
            "the log ends at %lld, but up to %lld it was committed: entries were lost or damaged. Restore them, or move the "
            "store away and let this member join its group again while a majority of the others is up",
            (long long)recovery->end, (long long)recovery->checkpoint->queues_offset);
    }
    if (is_short) {
        rp_log_write(
            recovery->log, RP_LOG_ERROR,
            "commit log: it ends at %lld, but up to %lld it had been synced: its last files are missing or damaged; stop the broker "
            "and restore them, or what they held is lost",
            (long long)recovery->end, (long long)recovery->checkpoint->queues_offset);
    }
    if (recovery->read_only) {
        return RP_OK;
    }
    bool went_back = !recovery->was_clean || recovery->queues_damaged;
    rc = went_back ? clear_queues_behind(recovery, error) : RP_OK;
    bool ends_with_file =
        recovery->end % (int64_t)rp_mapped_file_queue_file_size(files(recovery)) == 0; /* later files are set aside whole */
    if (rc == RP_OK && !ends_with_file && (!recovery->was_clean || recovery->cut)) {
        rc = rp_mapped_file_queue_clear_tail(files(recovery), recovery->end, error);
    }
    if (rc == RP_OK && !went_back) {
        rc = cut_queues(recovery, recovery->end, error);
    }
    return rc == RP_OK ? trim_queues(recovery, error) : rc;
}
