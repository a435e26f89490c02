/* timer_files.h: wheel, timer log and checkpoint as one thing: what is entered, read, delivered and flushed together, and what is true of
 * them after a crash. The owner is the broker's timer service, which knows the messages; here are positions and times only.
 * RocketMQ: the files' part of TimerMessageStore (5.3.3 store/timer/): recover, doEnqueue, the flush service.
 *
 *   ROOT/timerwheel   ROOT/timerlog/00000000000000000000 …   ROOT/config/timercheck
 *
 * Order    a flush is: log, wheel, checkpoint, each on disk before the next is begun. So the wheel never points at a record that a power
 *          cut can take, and the checkpoint never says more than both hold.
 * Threads  one owner; the counts of the wheel from any thread.
 * Time     comes from the caller; nothing here asks a clock.
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
    int64_t commit_log_max_offset; /* records that point behind it were written before a power cut that took their messages */
    int64_t queue_max_offset;      /* of the timer queue */
    int64_t now_ms;                /* wall clock: a read time from behind it is not believed when slots are made again */
    const rp_file_ops *file_ops;   /* NULL: the kernel's */
    rp_log *log;
} rp_timer_files_options;

/* What open found, and what the owner has to do. */
enum rp_timer_files_state {
    /* There were none: entering begins at the timer queue's first message, all of which wait. */
    RP_TIMER_FILES_FRESH = 0,
    /* Entering goes on behind the message of rp_timer_files_last, or at the checkpoint's queue offset when that is larger. */
    RP_TIMER_FILES_GOOD = 1,
    /* Log damaged, gone, or of another precision: wheel and log are empty now. Entering begins at the timer queue's first message. */
    RP_TIMER_FILES_LOST = 2,
    /* The log lost its newest records: entering goes on behind the message of rp_timer_files_last. */
    RP_TIMER_FILES_SHORT = 3
};

/* RP_OK: the files are consistent, and written back as far as they had to be mended; a line in the log says what was mended and why.
 * Everything else: nothing is known, nothing is lost, and opening again may do: RP_E_IO, RP_E_DISK_FULL, RP_E_BUSY, RP_E_READ_ONLY,
 * RP_E_NO_MEMORY, RP_E_INVALID. */
int rp_timer_files_open(const rp_timer_files_options *options, rp_timer_files **opened, rp_error *error);
/* Gives up descriptors and memory; flushes nothing. NULL is allowed. */
void rp_timer_files_close(rp_timer_files *files);
int rp_timer_files_state_of(const rp_timer_files *files);
const rp_timer_checkpoint *rp_timer_files_checkpoint(const rp_timer_files *files); /* as read at open or last written */
rp_timing_wheel *rp_timer_files_wheel(rp_timer_files *files);
rp_timer_log *rp_timer_files_log(rp_timer_files *files);
/* The last record of the log: 1; 0 when it is empty. RP_E_… as of rp_timer_log_read. */
int rp_timer_files_last(rp_timer_files *files, rp_timer_record *record, rp_error *error);

/* 1: the message of this offset in the timer queue had been entered, and was due before the read time, when the checkpoint of the last run
 * was written: it has been delivered, and is passed over. Asked before each entering, whatever the state: making again may have been
 * killed in an earlier run. A rolled message's copy is the owner's to know: the queue holds the older one too, and both are due later. */
int rp_timer_files_was_delivered(const rp_timer_files *files, int64_t queue_offset, int64_t due_ms);

typedef struct rp_timer_entry {
    int64_t due_ms;            /* not before write_time_ms, at most RP_TIMING_WHEEL_ROLL_WINDOW_MAX slots behind it */
    int64_t write_time_ms;     /* the owner's, a multiple of the precision that never goes back */
    int64_t commit_log_offset;
    int32_t size;
    int32_t magic;             /* rp_timer_magic */
    int32_t topic_hash;
} rp_timer_entry;

/* Appends the record, then links it into its slot. RP_OK; RP_E_RANGE when due_ms is not in the wheel's reach (its place holds another
 * time's messages), or 2^31 ms and more behind write_time_ms (the record has no room for more); else as of rp_timer_log_append, and
 * nothing has changed. */
int rp_timer_files_enter(rp_timer_files *files, const rp_timer_entry *entry, rp_error *error);

/* For a clean stop within a slot: its records before `position` (of the slot's chain) have been delivered, and neither product delivers
 * them again. The chain begins at position then; recalls among those before are entered once more at its end, so that they stay. The
 * caller has made durable what was delivered, and flushes afterwards. A slot that is finished is emptied by rp_timing_wheel_clear
 * instead. RP_OK; RP_E_NOT_FOUND: no such slot, or position is not in its chain; else as of rp_timer_log_append: then the slot is whole,
 * or has some recalls twice, which means the same. */
int rp_timer_files_cut_slot(rp_timer_files *files, int64_t time_ms, int64_t position, rp_error *error);

typedef struct rp_timer_progress {
    int64_t read_time_ms;
    int64_t queue_offset;
    int64_t master_queue_offset;
    int64_t state_version, version_timestamp_ms, version_counter;
} rp_timer_progress;
/* Log, wheel, checkpoint, in this order; the first also empties slots that a start left before the read time. is_clean 1: nothing comes
 * after it, the next open need not look at the log. The caller has made durable the commit log's records that read_time_ms stands for
 * (what was delivered), and those that queue_offset does. RP_OK; else the checkpoint is the old one, and the next flush does all that
 * this one did not. */
int rp_timer_files_flush(rp_timer_files *files, const rp_timer_progress *progress, int is_clean, rp_error *error);

/* Log and wheel are emptied so that everything is entered again from the timer queue's first message, for whoever met RP_E_CORRUPT in a
 * chain. The checkpoint goes first (queue offset 0), then the log's files from the last to the first, then the wheel: killed at any point,
 * or failing, what is left is a shorter log that the next open goes on from. RP_OK: the state is RP_TIMER_FILES_LOST. */
int rp_timer_files_make_anew(rp_timer_files *files, rp_error *error);

#endif
