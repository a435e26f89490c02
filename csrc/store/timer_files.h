/* timer_files.h: wheel, timer log and checkpoint as a unit: entered, read, delivered and flushed together, and brought into agreement
 * after a crash. The owner is the broker's timer service, which knows the messages; this file knows only positions and times.
 * RocketMQ: the files' part of TimerMessageStore (5.3.3 store/timer/): recover, doEnqueue, the flush service.
 *
 *   ROOT/timerwheel   ROOT/timerlog/00000000000000000000 …   ROOT/config/timercheck
 *
 * Order    a flush writes log, wheel, checkpoint, each on disk before the next is begun. So the wheel never points at a record that a
 *          power cut can take, and the checkpoint never claims more than both hold.
 * Threads  one owner; the counts of the wheel from any thread.
 * Time     comes from the caller; nothing here reads a clock.
 */
#ifndef RP_STORE_TIMER_FILES_H
#define RP_STORE_TIMER_FILES_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"
#include "../base/log.h"
#include "timer_checkpoint.h"
#include "timer_log.h"
#include "timing_wheel.h"

typedef struct rp_timer_files rp_timer_files;

typedef struct rp_timer_files_options {
    const char *root_path;         /* storePathRootDir; copied */
    int64_t log_file_size;         /* mappedFileSizeTimerLog */
    int32_t precision_ms;          /* timerPrecisionMs */
    int64_t commit_log_max_offset; /* records that point beyond it were written before a power cut that took their messages */
    int64_t queue_max_offset;      /* end of the timer queue, an offset */
    int64_t now_ms;                /* wall clock: a checkpoint's read time later than this is not trusted when slots are rebuilt */
    const rp_file_ops *file_ops;   /* NULL: the system's */
    rp_log *log;
} rp_timer_files_options;

/* What open found, and what the owner has to do. */
enum rp_timer_files_state {
    /* There were no files: entering begins at the timer queue's first message, and all its messages are waiting. */
    RP_TIMER_FILES_FRESH = 0,
    /* Entering continues behind the message of rp_timer_files_last, or at the checkpoint's queue offset if that is larger. */
    RP_TIMER_FILES_GOOD = 1,
    /* The log was damaged, missing, or of another precision: wheel and log are empty now. Entering begins at the timer queue's first
     * message. */
    RP_TIMER_FILES_LOST = 2,
    /* The log lost its newest records: entering continues behind the message of rp_timer_files_last. */
    RP_TIMER_FILES_SHORT = 3
};

/* Opens the files. RP_OK: they are consistent, and written back as far as they had to be mended; the log says what was mended and why.
 * Any other status: nothing is lost, and opening again may succeed: RP_E_IO, RP_E_DISK_FULL, RP_E_BUSY, RP_E_READ_ONLY, RP_E_NO_MEMORY,
 * RP_E_INVALID. */
int rp_timer_files_open(const rp_timer_files_options *options, rp_timer_files **opened, rp_error *error);
/* Releases descriptors and memory; flushes nothing. NULL is allowed. */
void rp_timer_files_close(rp_timer_files *files);
int rp_timer_files_state_of(const rp_timer_files *files);
const rp_timer_checkpoint *rp_timer_files_checkpoint(const rp_timer_files *files); /* as read at open or last written */
rp_timing_wheel *rp_timer_files_wheel(rp_timer_files *files);
rp_timer_log *rp_timer_files_log(rp_timer_files *files);
/* Reads the last record of the log: 1; 0 if the log is empty. Errors as rp_timer_log_read. */
int rp_timer_files_last(rp_timer_files *files, rp_timer_record *record, rp_error *error);

/* 1 if the message at this offset of the timer queue had been entered, and was due before the read time, when the last run's checkpoint
 * was written: it has been delivered, and is not entered again. To be asked before each entering, whatever the state, because a rebuild
 * may have been killed in an earlier run. The copies of a rolled message are the owner's business: the queue also holds the older one,
 * and both are due later. */
int rp_timer_files_was_delivered(const rp_timer_files *files, int64_t queue_offset, int64_t due_ms);

typedef struct rp_timer_entry {
    int64_t due_ms;            /* not before write_time_ms, and at most RP_TIMING_WHEEL_ROLL_WINDOW_MAX slots behind it */
    int64_t write_time_ms;     /* supplied by the owner: a multiple of the precision that never goes back */
    int64_t commit_log_offset;
    int32_t size;
    int32_t magic;             /* rp_timer_magic */
    int32_t topic_hash;
} rp_timer_entry;

/* Appends the record and links it into its slot. RP_OK; RP_E_RANGE if due_ms is out of the wheel's reach (its place holds messages of
 * another time), or 2^31 ms or more behind write_time_ms (which the record cannot express); else as rp_timer_log_append, and nothing has
 * changed. */
int rp_timer_files_enter(rp_timer_files *files, const rp_timer_entry *entry, rp_error *error);

/* For a clean stop within a slot: the slot's records before `position` (in its chain) have been delivered, and neither product delivers
 * them again. The chain then begins at position; recalls among the earlier records are entered once more at its end, so that they stay.
 * The caller must have made durable what was delivered, and must flush afterwards. A finished slot is emptied by rp_timing_wheel_clear
 * instead. RP_OK; RP_E_NOT_FOUND: there is no such slot, or position is not in its chain; else as rp_timer_log_append: the slot is then
 * unchanged, or has some recalls twice, which means the same. */
int rp_timer_files_cut_slot(rp_timer_files *files, int64_t time_ms, int64_t position, rp_error *error);

typedef struct rp_timer_progress {
    int64_t read_time_ms;
    int64_t queue_offset;
    int64_t master_queue_offset;
    int64_t state_version, version_timestamp_ms, version_counter;
} rp_timer_progress;
/* Flushes log, wheel and checkpoint, in this order; the first flush also empties slots from before the read time that an open left.
 * is_clean 1: nothing follows, and the next open need not read the log. The caller must have made durable the commit log's records that
 * read_time_ms (what was delivered) and queue_offset stand for. RP_OK; otherwise the checkpoint is the old one, and the next flush does
 * what this one did not. */
int rp_timer_files_flush(rp_timer_files *files, const rp_timer_progress *progress, int is_clean, rp_error *error);

/* Empties log and wheel so that everything is entered again from the timer queue's first message; called after RP_E_CORRUPT from a
 * chain. The checkpoint is written first (queue offset 0), then the log's files are removed from the last to the first, then the wheel
 * is emptied: if this is killed at any point, or fails, the next open finds a shorter log and continues from there. RP_OK: the state is
 * RP_TIMER_FILES_LOST. */
int rp_timer_files_make_anew(rp_timer_files *files, rp_error *error);

#endif
