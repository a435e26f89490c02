/* timer_log_inl.h: the fields of a timer log, for the files of this room. C only. */
#ifndef RP_STORE_TIMER_LOG_INL_H
#define RP_STORE_TIMER_LOG_INL_H

#include "timer_log.h"

/* Records that wait for their write, and what a look at a chain reads at once. */
#define TIMER_LOG_BUFFER_SIZE (1260 * RP_TIMER_RECORD_SIZE)
#define TIMER_LOG_WINDOW_SIZE (315 * RP_TIMER_RECORD_SIZE)
/* A file with less than this left takes no record more: RocketMQ wants room for a blank behind each. */
#define TIMER_LOG_ROOM_MIN (RP_TIMER_RECORD_SIZE + RP_TIMER_BLANK_SIZE)
#define TIMER_LOG_NOT_KNOWN (-2)
#define TIMER_LOG_UNREADABLE (-3)

struct rp_timer_log {
    const rp_file_ops *ops;
    char *directory;
    int64_t file_size;
    int64_t begin;       /* of the first file */
    uint32_t file_count; /* without gaps from there on */
    uint32_t file_room;
    int64_t *newest;     /* of each file: the largest commit log offset in it, -1: no record; or one of the two above */
    int64_t end, written, flushed; /* flushed <= written <= end: what lies between the latter is in the buffer, of the last file */
    int64_t append_base, read_base; /* which files are open; -1: none */
    int append_fd, read_fd;
    int32_t names_changed; /* the directory has to be synced; 2: the one that it is in, too */
    int32_t has_failed;    /* a sync failed: errno */
    int64_t window_start;  /* of bytes that are in files */
    int32_t window_size;
    uint8_t buffer[TIMER_LOG_BUFFER_SIZE];
    uint8_t window[TIMER_LOG_WINDOW_SIZE];
};

int rp_timer_log_failed(const rp_timer_log *log, int64_t position, const char *what, rp_error *error);
/* A read failed, by errno: RP_E_CORRUPT where the disk cannot give what was there, else as rp_timer_log_failed. */
int rp_timer_log_unreadable(const rp_timer_log *log, int64_t position, rp_error *error);
int64_t rp_timer_log_base_of(const rp_timer_log *log, int64_t position);
int64_t rp_timer_log_files_end(const rp_timer_log *log);
/* 1 when a record could begin there. */
int rp_timer_log_is_place(const rp_timer_log *log, int64_t position);

/* The record before that at position, or before the end; RP_TIMER_NO_POSITION. */
int64_t rp_timer_log_before(const rp_timer_log *log, int64_t position);
/* 1 when 16 bytes say that nothing but them is left in the file. */
int rp_timer_log_is_blank(const uint8_t *bytes, int64_t left);

/* timer_log_files.c: the directory and its descriptors. */

/* The descriptor of the file that begins at base, kept open: that of appends, or that of reads. -1 with error. */
int rp_timer_log_file(rp_timer_log *log, int64_t base, int for_append, rp_error *error);
void rp_timer_log_close_files(rp_timer_log *log);
/* A file behind the last one, of full length. RP_OK, or nothing has changed. */
int rp_timer_log_add_file(rp_timer_log *log, rp_error *error);
/* The files from base on go, the last one first. */
int rp_timer_log_remove_files(rp_timer_log *log, int64_t base, rp_error *error);
/* One of at least two. */
int rp_timer_log_remove_first(rp_timer_log *log, rp_error *error);
/* Bytes from position to its file's end become zeros, durably; those that are zeros already are left alone. */
int rp_timer_log_clear_tail(rp_timer_log *log, int64_t position, rp_error *error);
/* Every file from that of position on is synced, and the directory. */
int rp_timer_log_sync_from(rp_timer_log *log, int64_t position, rp_error *error);
/* Names made or removed are on disk. */
int rp_timer_log_sync_names(rp_timer_log *log, rp_error *error);

#endif
