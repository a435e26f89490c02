/* timer_log.h: one record for each time a timed message was put into the wheel, in that order.
 * RocketMQ: TimerLog (5.3.3 store/timer/).
 *
 * Record   52 bytes big-endian: [4 size][8 position of the slot's previous record, -1: none][4 magic][8 write time, ms][4 delay, ms][8
 *          commit log offset][4 size there][4 hash of the real topic][8 zeros]. Files of file_size bytes are named by start position;
 *          the rest of a file, at least 16 bytes, begins with a blank: [4 how many][8 zeros][4 another magic].
 * Threads  one owner (the timer thread).
 * Owns     the files, at most two descriptors, a buffer of records not yet written. Nothing is mapped: a full or broken disk is an error
 *          here, never a signal.
 * kill -9  leaves the records that were written; those in the buffer (64 KB) are missing at the end, never in the middle. After a power
 * cut any unflushed record may be missing or torn: rp_timer_log_recover finds the end.
 */
#ifndef RP_STORE_TIMER_LOG_H
#define RP_STORE_TIMER_LOG_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"

#define RP_TIMER_RECORD_SIZE 52
#define RP_TIMER_BLANK_SIZE 16
#define RP_TIMER_LOG_FILE_SIZE (100 * 1024 * 1024) /* mappedFileSizeTimerLog */
#define RP_TIMER_LOG_FILE_SIZE_MIN 4096
#define RP_TIMER_NO_POSITION (-1)

enum rp_timer_magic {
    RP_TIMER_DEFAULT = 1, /* always set */
    RP_TIMER_ROLL = 2,    /* due later than the wheel reaches: put into the timer queue again at this time */
    RP_TIMER_DELETE = 4   /* recalls another message of the slot */
};

typedef struct rp_timer_log rp_timer_log;

typedef struct rp_timer_record {
    int64_t previous;  /* position of the previous record in its slot, or RP_TIMER_NO_POSITION */
    int64_t write_time_ms;
    int64_t commit_log_offset;
    int32_t delay_ms;  /* the record is in the slot of write_time_ms + delay_ms; RocketMQ may write a negative delay */
    int32_t size;      /* in the commit log */
    int32_t magic;     /* rp_timer_magic */
    int32_t topic_hash;
} rp_timer_record;

int64_t rp_timer_record_due_ms(const rp_timer_record *record);
/* Writes exactly RP_TIMER_RECORD_SIZE bytes. */
void rp_timer_record_encode(const rp_timer_record *record, uint8_t *bytes);
/* 1; 0 if the bytes are not a record that can lie at position: another size or magic, a previous record that is not before it, an
 * impossible commit log offset, a time before 1970 or beyond what a wheel can hold. */
int rp_timer_record_decode(const uint8_t *bytes, int64_t position, rp_timer_record *record);

/* Opens the files in the directory; a missing directory is an empty log. The log's end is not known yet: call rp_timer_log_recover, or
 * rp_timer_log_set_end after a clean stop. An empty last file, left by a kill, is deleted. ops NULL: the system's. RP_OK; RP_E_CORRUPT:
 * a file of another length, or a missing one in the middle (*opened is set all the same; rp_timer_log_remove_all mends it); RP_E_IO,
 * RP_E_READ_ONLY, RP_E_INVALID (file_size), RP_E_NO_MEMORY: *opened is NULL. */
int rp_timer_log_open(const rp_file_ops *ops, const char *directory, int64_t file_size, rp_timer_log **opened, rp_error *error);
/* Closes without writing: call rp_timer_log_flush before. NULL is allowed. */
void rp_timer_log_close(rp_timer_log *log);

/* Reads from position `from` on and passes every record to `visit` (NULL: to nobody); the log ends at the first place that is no record,
 * or where `visit` returns 0. Everything from there on is removed durably: later files, the last one first, then the bytes. If `from` is
 * not a record's place, reading starts at the begin of its file. RP_OK: rp_timer_log_end gives the end; RP_E_CORRUPT: the disk cannot
 * read what is there (EIO); RP_E_IO, RP_E_NO_MEMORY: nothing was removed, or only the last files. */
typedef int (*rp_timer_record_visit)(void *context, int64_t position, const rp_timer_record *record);
int rp_timer_log_recover(rp_timer_log *log, int64_t from, rp_timer_record_visit visit, void *context, rp_error *error);
/* The same without removing anything, for a log whose end is known: to count records or rebuild the wheel. A 0 from visit stops it. */
int rp_timer_log_each(rp_timer_log *log, int64_t from, rp_timer_record_visit visit, void *context, rp_error *error);
/* 1: the log ends at `end`, as the checkpoint of a clean stop says: there is a record before it and none behind. 0: it does not, or
 * cannot be read. */
int rp_timer_log_set_end(rp_timer_log *log, int64_t end);

/* Adds a record; *position is where. RP_OK; otherwise nothing was added, and the same call may be repeated: RP_E_DISK_FULL, RP_E_IO,
 * RP_E_NO_MEMORY, RP_E_BUSY (descriptors are out), RP_E_READ_ONLY. */
int rp_timer_log_append(rp_timer_log *log, const rp_timer_record *record, int64_t *position, rp_error *error);
/* Reads the record at position. RP_OK; RP_E_NOT_FOUND: outside [begin, end); RP_E_CORRUPT: there is no record, or the disk cannot read it
 * (EIO); RP_E_IO, RP_E_BUSY. Reads are done backwards in steps of 16 KiB, so that a chain does not cost a system call per record. */
int rp_timer_log_read(rp_timer_log *log, int64_t position, rp_timer_record *record, rp_error *error);
/* Makes the record at position the first of its chain, because those before it have been delivered; both products read it so. Written at
 * once and synced. Errors as rp_timer_log_read and rp_timer_log_append. */
int rp_timer_log_end_chain(rp_timer_log *log, int64_t position, rp_error *error);
/* Returns when everything appended is on disk, with the names of the files. RP_OK; RP_E_DISK_FULL, RP_E_BUSY: try again; RP_E_IO: a sync
 * failed, and the kernel may have dropped what it could not write, so every later call returns the same until rp_timer_log_remove_all. */
int rp_timer_log_flush(rp_timer_log *log, rp_error *error);

/* Removes the first files whose records all point below commit_log_min_offset, never the last file. A file's records are read once for
 * this; places that are no record are passed over, and an unreadable file is removed once the one behind it may be. At most one file is
 * read per call. Returns how many were removed; RP_E_IO. */
int rp_timer_log_expire(rp_timer_log *log, int64_t commit_log_min_offset, rp_error *error);
/* Removes every file, the last one first (a kill in between leaves a shorter, intact log); the log begins at 0 again. RP_OK; RP_E_IO. */
int rp_timer_log_remove_all(rp_timer_log *log, rp_error *error);

int rp_timer_log_has_files(const rp_timer_log *log);
int64_t rp_timer_log_begin(const rp_timer_log *log);
int64_t rp_timer_log_end(const rp_timer_log *log);
int64_t rp_timer_log_flushed(const rp_timer_log *log);
/* Position of the last record; RP_TIMER_NO_POSITION if there is none. */
int64_t rp_timer_log_last(const rp_timer_log *log);

#endif
