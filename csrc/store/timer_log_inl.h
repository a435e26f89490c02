/* timer_log_inl.h: the fields of a timer log, for the files of this room. C only. */
#ifndef RP_STORE_TIMER_LOG_INL_H
#define RP_STORE_TIMER_LOG_INL_H

#include "timer_log.h"

/* Sizes of the buffer of records to be written, and of the window that a read of a chain fills. */
#define TIMER_LOG_BUFFER_SIZE (1260 * RP_TIMER_RECORD_SIZE)
#define TIMER_LOG_WINDOW_SIZE (315 * RP_TIMER_RECORD_SIZE)
/* A file with less than this left takes no further record: RocketMQ wants room for a blank behind each. */
#define TIMER_LOG_ROOM_MIN (RP_TIMER_RECORD_SIZE + RP_TIMER_BLANK_SIZE)
#define TIMER_LOG_NOT_KNOWN (-2)
#define TIMER_LOG_UNREADABLE (-3)

struct rp_timer_log {
    const rp_file_ops *ops;
    char *directory;
    int64_t file_size;
    int64_t begin;       /* start of the first file */
    uint32_t file_count; /* files from there on, without gaps */
    uint32_t file_room;
    int64_t *newest;     /* for each file: the largest commit log offset in it, -1: it has no record; or one of the two above */
    int64_t end, written, flushed; /* flushed <= written <= end; bytes from written to end are in the buffer, and belong to the last file */
    int64_t append_base, read_base; /* start of the open files; -1: none */
    int append_fd, read_fd;
    int32_t names_changed; /* the directory has to be synced; 2: its parent too */
    int32_t sync_errno; /* of a sync that failed; 0: none has */
    int64_t window_start; /* position of the window's bytes, which are in files */
    int32_t window_size;
    uint8_t buffer[TIMER_LOG_BUFFER_SIZE];
    uint8_t window[TIMER_LOG_WINDOW_SIZE];
};

int rp_timer_log_failed(const rp_timer_log *log, int64_t position, const char *what, rp_error *error);
/* Reports a failed read, by errno: RP_E_CORRUPT if the disk cannot read what was there, else as rp_timer_log_failed. */
int rp_timer_log_unreadable(const rp_timer_log *log, int64_t position, rp_error *error);
int64_t rp_timer_log_base_of(const rp_timer_log *log, int64_t position);
int64_t rp_timer_log_files_end(const rp_timer_log *log);
/* 1 if a record could begin there. */
int rp_timer_log_is_place(const rp_timer_log *log, int64_t position);

/* Position of the record before the one at position, or before the end; RP_TIMER_NO_POSITION if there is none. */
int64_t rp_timer_log_before(const rp_timer_log *log, int64_t position);
/* 1 if the 16 bytes are a blank for the `left` bytes to the file's end. */
int rp_timer_log_is_blank(const uint8_t *bytes, int64_t left);

/* timer_log_files.c: the directory and its descriptors. */

/* Returns the descriptor of the file that begins at base, which stays open: one for appends, one for reads. -1 with error. */
int rp_timer_log_file(rp_timer_log *log, int64_t base, int for_append, rp_error *error);
void rp_timer_log_close_files(rp_timer_log *log);
/* Adds a file of full length behind the last one. RP_OK, or nothing has changed. */
int rp_timer_log_add_file(rp_timer_log *log, rp_error *error);
/* Removes the files from base on, the last one first. */
int rp_timer_log_remove_files(rp_timer_log *log, int64_t base, rp_error *error);
/* Removes the first of at least two files. */
int rp_timer_log_remove_first(rp_timer_log *log, rp_error *error);
/* Zeroes the bytes from position to its file's end, durably; those that are zero already are left alone. */
int rp_timer_log_clear_tail(rp_timer_log *log, int64_t position, rp_error *error);
/* Syncs every file from that of position on, and the directory. */
int rp_timer_log_sync_from(rp_timer_log *log, int64_t position, rp_error *error);
/* Syncs the names of files made or removed. */
int rp_timer_log_sync_names(rp_timer_log *log, rp_error *error);

#endif
