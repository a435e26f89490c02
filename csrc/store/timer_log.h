/* timer_log.h: one record for each time a timed message was put into the wheel, in the order in which that was done.
 * RocketMQ: TimerLog (5.3.3 store/timer/).
 *
 * Record   52 bytes big-endian: [4 size][8 position of the slot's record before, -1: none][4 magic][8 write time, ms][4 delay, ms]
 *          [8 commit log offset][4 size there][4 hash of the real topic][8 zeros]. Files of file_size bytes named by start position; what
 *          is left at a file's end, 16 bytes at least, begins with a blank: [4 how many][8 zeros][4 another magic].
 * Threads  one owner (the timer thread).
 * Owns     the files, at most two descriptors, a buffer of records not written yet. Nothing is mapped: a full or broken disk is an error
 *          here, never a signal.
 * kill -9  leaves the records that were written; those in the buffer (64 KB) are missing at the end, never in the middle. After a
 *          power cut any record that was not flushed may be missing or torn: rp_timer_log_recover finds the end.
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
    RP_TIMER_ROLL = 2,    /* due later than the wheel reaches: goes to the timer queue again at this time */
    RP_TIMER_DELETE = 4   /* a recall of another message of the slot */
};

typedef struct rp_timer_log rp_timer_log;

typedef struct rp_timer_record {
    int64_t previous;  /* position of the record before it in its slot; RP_TIMER_NO_POSITION */
    int64_t write_time_ms;
    int64_t commit_log_offset;
    int32_t delay_ms;  /* the record's slot is that of write_time_ms + delay_ms; RocketMQ may write a negative one */
    int32_t size;      /* in the commit log */
    int32_t magic;     /* rp_timer_magic */
    int32_t topic_hash;
} rp_timer_record;

int64_t rp_timer_record_due_ms(const rp_timer_record *record);
/* Exactly RP_TIMER_RECORD_SIZE bytes. */
void rp_timer_record_encode(const rp_timer_record *record, uint8_t *bytes);
/* 1; 0 when they are not a record that belongs at position: another size or magic, a previous record that is not before it, no place in a
 * commit log, a time before 1970 or past what a wheel can hold. */
int rp_timer_record_decode(const uint8_t *bytes, int64_t position, rp_timer_record *record);

/* The row of files as it lies there; a missing directory is an empty log. The log's end is not known yet: rp_timer_log_recover, or
 * rp_timer_log_set_end after a clean stop, comes first. An empty last file (of a kill while it was made) is deleted. RP_OK; RP_E_CORRUPT:
 * a file of another length, or one is missing in the middle (rp_timer_log_remove_all of the opened log mends it: *opened is set then, too);
 * RP_E_IO, RP_E_READ_ONLY, RP_E_INVALID (file_size), RP_E_NO_MEMORY: *opened is NULL. ops NULL: the kernel's. */
int rp_timer_log_open(const rp_file_ops *ops, const char *directory, int64_t file_size, rp_timer_log **opened, rp_error *error);
/* Writes nothing: rp_timer_log_flush comes before. NULL is allowed. */
void rp_timer_log_close(rp_timer_log *log);

/* Reads from position `from` on and tells `visit` of every record (NULL: nobody); the log ends at the first thing that is not a record, or
 * that `visit` refuses with 0. From there on everything is removed, durably: later files, the last one first, then the bytes. `from` that
 * is no record's place: the start of its file. RP_OK: rp_timer_log_end says where; RP_E_CORRUPT: the disk cannot give what is there
 * (EIO), RP_E_IO, RP_E_NO_MEMORY: nothing was removed, or the last files only. */
typedef int (*rp_timer_record_visit)(void *context, int64_t position, const rp_timer_record *record);
int rp_timer_log_recover(rp_timer_log *log, int64_t from, rp_timer_record_visit visit, void *context, rp_error *error);
/* The same without removing: for whoever only counts or makes the wheel again, of a log whose end is known. Visit's 0 stops it. */
int rp_timer_log_each(rp_timer_log *log, int64_t from, rp_timer_record_visit visit, void *context, rp_error *error);
/* 1: the log ends at `end`, as the checkpoint of a clean stop says: the record before it is one, no other follows; 0: it does not, or it
 * cannot be read. */
int rp_timer_log_set_end(rp_timer_log *log, int64_t end);

/* Adds a record; *position is where. RP_OK; else nothing was added and the same call may be made again: RP_E_DISK_FULL, RP_E_IO,
 * RP_E_NO_MEMORY, RP_E_BUSY (descriptors are out), RP_E_READ_ONLY. */
int rp_timer_log_append(rp_timer_log *log, const rp_timer_record *record, int64_t *position, rp_error *error);
/* RP_OK; RP_E_NOT_FOUND: below begin or not below end; RP_E_CORRUPT: no record is there, or the disk cannot give it (EIO); RP_E_IO,
 * RP_E_BUSY. Reads go back in steps of 16 KiB, so that a chain costs no system call a record. */
int rp_timer_log_read(rp_timer_log *log, int64_t position, rp_timer_record *record, rp_error *error);
/* The record at position becomes the first of its chain: those before it have been delivered. Both products read it so. Written at
 * once and synced. Errors as of read and append. */
int rp_timer_log_end_chain(rp_timer_log *log, int64_t position, rp_error *error);
/* Everything appended is on disk, with the names of the files. RP_OK; RP_E_DISK_FULL, RP_E_BUSY: try again; RP_E_IO: a sync failed, and the
 * kernel may have dropped what it could not write, so that every later call says the same until rp_timer_log_remove_all. */
int rp_timer_log_flush(rp_timer_log *log, rp_error *error);

/* Removes the first files whose records all point below commit_log_min_offset, never the last file; a file's records are read for that
 * once, what is not a record is passed over, and a file that cannot be read goes when the one behind it could. At most one file is read in
 * a call. How many went; RP_E_IO. */
int rp_timer_log_expire(rp_timer_log *log, int64_t commit_log_min_offset, rp_error *error);
/* Every file goes, the last one first (a kill in between leaves a log that is shorter, and whole), and the log begins at 0 again. RP_OK;
 * RP_E_IO. */
int rp_timer_log_remove_all(rp_timer_log *log, rp_error *error);

int rp_timer_log_has_files(const rp_timer_log *log);
int64_t rp_timer_log_begin(const rp_timer_log *log);
int64_t rp_timer_log_end(const rp_timer_log *log);
int64_t rp_timer_log_flushed(const rp_timer_log *log);
/* The last record's position; RP_TIMER_NO_POSITION when there is none. */
int64_t rp_timer_log_last(const rp_timer_log *log);

#endif
