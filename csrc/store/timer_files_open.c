/* timer_files_open.c: makes wheel, log and checkpoint consistent after any stop. See timer_files.h. */
#include "timer_files_inl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/log_inl.h"
#include "store_path.h"

/* After a kill this many files (4 million messages) are read whole in 0.3 s, and the wheel on disk need not be right. */
#define WHOLE_FILES 2
#define AHEAD_MS_MAX (INT64_C(366) * 86400 * 1000)
#define QUEUE_OFFSET_MAX (INT64_C(1) << 48)

typedef struct recovery {
    rp_timer_files *files;
    const rp_timer_files_options *options;
    int64_t keep_from_ms;   /* start of a slot: what was due before has been delivered */
    int64_t last_seen;      /* position of the last record that was linked or passed over */
    /* 1: a chain may have been cut (rp_timer_files_cut_slot); otherwise a record without a previous one comes from another precision */
    int32_t may_begin_anew;
    int32_t is_broken; /* the slots and a chain disagree */
} recovery;

static int is_ours(const rp_timer_checkpoint *checkpoint) { return checkpoint->precision_ms > 0; }

static int is_in_commit_log(void *context, int64_t position, const rp_timer_record *record) {
    const recovery *recovery = context;
    (void)position;
    return record->commit_log_offset + record->size <= recovery->options->commit_log_max_offset;
}

static int is_sound_link(const recovery *recovery, int64_t time_ms, int64_t position, int64_t previous) {
    rp_timer_slot slot;
    if (!rp_timing_wheel_slot(recovery->files->wheel, time_ms, &slot)) {
        return previous < rp_timer_log_begin(recovery->files->timer_log); /* none, or one that was removed with its file */
    }
    return position <= slot.last_position || previous == slot.last_position ||
           (previous == RP_TIMER_NO_POSITION && recovery->may_begin_anew);
}

static int link_record(void *context, int64_t position, const rp_timer_record *record) {
    recovery *recovery = context;
    rp_timing_wheel *wheel = recovery->files->wheel;
    int64_t time_ms = rp_timing_wheel_floor(wheel, rp_timer_record_due_ms(record));
    recovery->last_seen = position;
    if (time_ms < recovery->keep_from_ms || rp_timing_wheel_is_past(wheel, time_ms, position)) {
        return 1;
    }
    if (!is_sound_link(recovery, time_ms, position, record->previous)) {
        recovery->is_broken = 1;
        return 0;
    }
    rp_timing_wheel_add(wheel, time_ms, position, record->previous, record->magic);
    return 1;
}

/* 0; 1: the slot's last record is not in the log; 2: it is, but belongs to another slot; or an error. */
static int look_at_slot(recovery *recovery, const rp_timer_slot *slot, rp_error *error) {
    rp_timer_record record;
    int rc = rp_timer_log_read(recovery->files->timer_log, slot->last_position, &record, error);
    if (rc == RP_OK) {
        return rp_timing_wheel_floor(recovery->files->wheel, rp_timer_record_due_ms(&record)) == slot->time_ms ? 0 : 2;
    }
    return rc == RP_E_NOT_FOUND || rc == RP_E_CORRUPT ? 1 : rc;
}

static int has_other_precision(void *context, const rp_timer_slot *slot) {
    int found = look_at_slot(context, slot, NULL);
    return found == 1 ? 0 : found;
}

static int is_unsound(void *context, const rp_timer_slot *slot) {
    recovery *recovery = context;
    return slot->time_ms < recovery->keep_from_ms ? 0 : look_at_slot(recovery, slot, NULL);
}

static int is_any(void *context, const rp_timer_slot *slot) {
    (void)context;
    (void)slot;
    return 1;
}

/* One record before what the checkpoint calls flushed, so that this one is read; for RocketMQ's checkpoint one file earlier, as RocketMQ
 * does. */
static int64_t begin_of_walk(const rp_timer_files *files, int64_t file_size) {
    const rp_timer_checkpoint *checkpoint = &files->checkpoint;
    int64_t from = checkpoint->log_flushed_position - (is_ours(checkpoint) ? RP_TIMER_RECORD_SIZE : file_size);
    int64_t begin = rp_timer_log_begin(files->timer_log);
    return from < begin ? begin : from;
}

/* RP_OK, with is_broken if the records do not form chains. */
static int link_from(recovery *recovery, int64_t from, rp_error *error) {
    rp_timer_log *timer_log = recovery->files->timer_log;
    recovery->is_broken = 0;
    recovery->last_seen = RP_TIMER_NO_POSITION;
    int rc = rp_timer_log_each(timer_log, from, link_record, recovery, error);
    if (rc == RP_OK && recovery->last_seen != rp_timer_log_last(timer_log)) {
        recovery->is_broken = 1;
    }
    return rc;
}

static int lost(rp_timer_files *files, const char *why, rp_error *error) {
    rp_log_write(files->log, RP_LOG_WARNING, "timed messages: %s; wheel and timer log are made again from the topic rmq_sys_wheel_timer%s",
                 why, files->checkpoint.anew_read_time_ms > 0 ? "" : ", and what was delivered before cannot be told: it comes again");
    return rp_timer_files_empty(files, error);
}

/* 1 if only the whole log can tell what the slots are; 0; or an error. */
static int link_tail(recovery *recovery, int64_t from, rp_error *error) {
    const rp_timing_wheel *wheel = recovery->files->wheel;
    const rp_timer_log *timer_log = recovery->files->timer_log;
    int64_t begin = rp_timer_log_begin(timer_log);
    if (from <= begin || rp_timer_log_end(timer_log) - begin <= WHOLE_FILES * recovery->options->log_file_size ||
        rp_timing_wheel_is_new(wheel) || !rp_timing_wheel_each(wheel, is_any, NULL)) {
        return 1;
    }
    int rc = link_from(recovery, from, error);
    if (rc != RP_OK) {
        return rc;
    }
    int found = recovery->is_broken ? 1 : rp_timing_wheel_each(wheel, is_unsound, recovery);
    return found < 0 ? rp_error_set(error, found, 0, NULL, -1, "cannot read the timer log for the timing wheel's slots") : found != 0;
}

static int link_whole(recovery *recovery, rp_error *error) {
    rp_timer_files *files = recovery->files;
    rp_log_write(files->log, RP_LOG_INFO, "timed messages: the timing wheel is made again from the timer log, positions %lld to %lld",
                 (long long)rp_timer_log_begin(files->timer_log), (long long)rp_timer_log_end(files->timer_log));
    rp_timing_wheel_clear_all(files->wheel);
    return link_from(recovery, rp_timer_log_begin(files->timer_log), error);
}

static int is_of_other_precision(recovery *recovery) {
    const rp_timer_files *files = recovery->files;
    return !is_ours(&files->checkpoint) && rp_timing_wheel_each(files->wheel, has_other_precision, recovery) == 2;
}

static int find_end(recovery *recovery, int64_t *from, rp_error *error) {
    rp_timer_log *timer_log = recovery->files->timer_log;
    int64_t begin = rp_timer_log_begin(timer_log);
    int rc = rp_timer_log_recover(timer_log, *from, is_in_commit_log, recovery, error);
    if (rc == RP_OK && *from > begin && rp_timer_log_end(timer_log) <= *from) {
        *from = begin;
        rc = rp_timer_log_recover(timer_log, begin, is_in_commit_log, recovery, error);
    }
    return rc;
}

static int recover(recovery *recovery, rp_error *error) {
    rp_timer_files *files = recovery->files;
    int64_t begin = rp_timer_log_begin(files->timer_log), from = begin_of_walk(files, recovery->options->log_file_size);
    int rc = find_end(recovery, &from, error);
    if (rc != RP_OK) {
        return rc;
    }
    if (is_of_other_precision(recovery)) {
        return lost(files, "the timing wheel was written with another timerPrecisionMs", error);
    }
    int needs_whole = link_tail(recovery, from, error);
    if (needs_whole < 0) {
        return needs_whole;
    }
    if (needs_whole) {
        rc = from > begin ? rp_timer_log_recover(files->timer_log, begin, is_in_commit_log, recovery, error) : RP_OK;
        rc = rc == RP_OK ? link_whole(recovery, error) : rc;
        if (rc != RP_OK) {
            return rc;
        }
        if (recovery->is_broken) {
            return lost(files, "the chains of the timer log are damaged, or of another timerPrecisionMs", error);
        }
    }
    rp_timer_files_clear_before(files, recovery->keep_from_ms);
    if (rp_timer_log_end(files->timer_log) < files->checkpoint.log_flushed_position) {
        if (rp_timer_log_last(files->timer_log) == RP_TIMER_NO_POSITION) {
            return lost(files, "no record of the timer log is left", error);
        }
        rp_log_write(files->log, RP_LOG_WARNING,
                     "timed messages: the timer log ends at %lld, not at %lld as when it was flushed: what is missing is entered again",
                     (long long)rp_timer_log_end(files->timer_log), (long long)files->checkpoint.log_flushed_position);
        files->state = RP_TIMER_FILES_SHORT;
    }
    return RP_OK;
}

static int is_clean(recovery *recovery) {
    const rp_timer_files *files = recovery->files;
    const rp_timer_checkpoint *checkpoint = &files->checkpoint;
    rp_timer_record last;
    if (!is_ours(checkpoint) || checkpoint->log_end < 0 || rp_timing_wheel_is_new(files->wheel) ||
        rp_timing_wheel_crc(files->wheel) != checkpoint->wheel_crc || !rp_timer_log_set_end(files->timer_log, checkpoint->log_end)) {
        return 0;
    }
    int has_last = rp_timer_files_last(recovery->files, &last, NULL);
    return has_last == 0 || (has_last == 1 && is_in_commit_log(recovery, 0, &last));
}

/* What the disk cannot read is treated as damage: all of it is in the timer queue. */
static int recover_or_begin_anew(recovery *recovery, rp_error *error) {
    rp_error cause = {0};
    int rc = recover(recovery, &cause);
    if (rc == RP_E_CORRUPT) {
        return lost(recovery->files, cause.message, error);
    }
    if (rc != RP_OK && error != NULL) {
        *error = cause;
    }
    return rc;
}

static int decide(recovery *recovery, int row, const rp_error *row_error, rp_error *error) {
    rp_timer_files *files = recovery->files;
    const rp_timer_checkpoint *checkpoint = &files->checkpoint;
    char why[RP_LOG_LINE_MAX];
    if (row == RP_E_CORRUPT) {
        snprintf(why, sizeof why, "%.255s: %.128s", row_error->file, row_error->message);
        return lost(files, why, error);
    }
    if (is_ours(checkpoint) && checkpoint->precision_ms != files->precision_ms) {
        snprintf(why, sizeof why, "timerPrecisionMs is %d now, the files were written with %d", files->precision_ms,
                 checkpoint->precision_ms);
        return lost(files, why, error);
    }
    if (rp_timer_log_has_files(files->timer_log)) {
        if (!checkpoint->is_there) {
            rp_log_write(files->log, RP_LOG_WARNING,
                         "timed messages: %s is gone or cut short: what was due by now is delivered, perhaps once more",
                         files->checkpoint_path);
        }
        files->state = RP_TIMER_FILES_GOOD;
        return is_clean(recovery) ? RP_OK : recover_or_begin_anew(recovery, error);
    }
    if (checkpoint->log_flushed_position > 0 || (checkpoint->queue_offset > 0 && !is_ours(checkpoint))) {
        return lost(files, "the timer log is gone", error);
    }
    if (rp_timing_wheel_each(files->wheel, is_any, NULL)) {
        rp_timing_wheel_clear_all(files->wheel);
    }
    files->state = checkpoint->is_there ? RP_TIMER_FILES_GOOD : RP_TIMER_FILES_FRESH;
    return RP_OK;
}

static int64_t keep_from(const rp_timer_files *files, int64_t now_ms) {
    const rp_timer_checkpoint *checkpoint = &files->checkpoint;
    int64_t from = checkpoint->read_time_ms < now_ms ? checkpoint->read_time_ms : now_ms;
    if (!checkpoint->is_there || checkpoint->read_time_ms == 0) {
        from = now_ms - (int64_t)RP_TIMING_WHEEL_ROLL_WINDOW_MAX * files->precision_ms;
    }
    return rp_timing_wheel_floor(files->wheel, from);
}

/* True for noise, or another file under this name: no clock is ever set so far ahead, and no queue is so long. Believing it would make
 * all waiting messages count as delivered. */
static int is_nonsense(const rp_timer_checkpoint *checkpoint, int64_t now_ms) {
    return !is_ours(checkpoint) && (checkpoint->read_time_ms > now_ms + AHEAD_MS_MAX || checkpoint->queue_offset > QUEUE_OFFSET_MAX);
}

static int read_checkpoint(rp_timer_files *files, int64_t now_ms, rp_error *error) {
    int rc = rp_timer_checkpoint_read(files->ops, files->checkpoint_path, &files->checkpoint, error);
    if (rc == RP_OK && is_nonsense(&files->checkpoint, now_ms)) {
        rp_log_write(files->log, RP_LOG_ERROR, "timed messages: what %s holds cannot be: it is taken for gone", files->checkpoint_path);
        files->checkpoint = (rp_timer_checkpoint){.log_end = -1};
    }
    return rc;
}

static int open_files(rp_timer_files *files, const rp_timer_files_options *options, rp_error *error) {
    char config[RP_PATH_MAX], path[RP_PATH_MAX], log_path[RP_PATH_MAX], wheel_path[RP_PATH_MAX];
    int rc = rp_path_join(config, options->root_path, "config", error);
    rc = rc == RP_OK ? rp_path_join(path, config, "timercheck", error) : rc;
    rc = rc == RP_OK ? rp_path_join(log_path, options->root_path, "timerlog", error) : rc;
    rc = rc == RP_OK ? rp_path_join(wheel_path, options->root_path, "timerwheel", error) : rc;
    rc = rc == RP_OK ? rp_path_make_directories(config, error) : rc;
    if (rc != RP_OK) {
        return rc;
    }
    files->checkpoint_path = strdup(path);
    if (files->checkpoint_path == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, 0, path, -1, "no memory for the files of timed messages");
    }
    rc = read_checkpoint(files, options->now_ms, error);
    rc = rc == RP_OK ? rp_timing_wheel_open(files->ops, wheel_path, options->precision_ms, &files->wheel, error) : rc;
    if (rc != RP_OK) {
        return rc;
    }
    rp_error row_error = {0};
    int row = rp_timer_log_open(files->ops, log_path, options->log_file_size, &files->timer_log, &row_error);
    if (files->timer_log == NULL) {
        if (error != NULL) {
            *error = row_error;
        }
        return row;
    }
    rp_timer_files_note_delivered(&files->checkpoint);
    if (files->checkpoint.anew_queue_offset > options->queue_max_offset) {
        files->checkpoint.anew_queue_offset = options->queue_max_offset; /* offsets from here on will be given to other messages */
    }
    recovery recovery = {.files = files, .options = options, .keep_from_ms = keep_from(files, options->now_ms)};
    recovery.may_begin_anew = is_ours(&files->checkpoint);
    files->has_passed = 1;
    return decide(&recovery, row, &row_error, error);
}

int rp_timer_files_open(const rp_timer_files_options *options, rp_timer_files **opened, rp_error *error) {
    rp_timer_files *files = calloc(1, sizeof *files);
    *opened = NULL;
    if (files == NULL) {
        return rp_error_set(error, RP_E_NO_MEMORY, 0, options->root_path, -1, "no memory for the files of timed messages");
    }
    files->ops = options->file_ops != NULL ? options->file_ops : rp_file_ops_system();
    files->log = options->log;
    files->precision_ms = options->precision_ms;
    int rc = open_files(files, options, error);
    if (rc != RP_OK) {
        rp_timer_files_close(files);
        return rc;
    }
    *opened = files;
    return RP_OK;
}
