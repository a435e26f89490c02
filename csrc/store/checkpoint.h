/* checkpoint.h: up to where the store is known to be on disk, so that recovery need not start at the beginning.
 * RocketMQ: StoreCheckpoint (5.3.3 and 5.5.0 store/).
 *
 *  at size
 *    0  8  store time of the last synced record of the commit log, ms
 *    8  8  … of the consume queues      16  8  … of the index
 *   24  8  master's flushed offset      32  8  confirm offset: up to there a group behind a controller has the log (and queues' entries)
 *   40  8  commit log offset below which the consume queues are synced (5.5.0)
 *  256     ours: magic, copies of 0..24, the exact offsets, a clean stop's counts, CRC. RocketMQ keeps these bytes without knowing them;
 *          when the copies differ from the fields above, it has written since, and only the times count.
 * All of it is in the first sector, which a power cut leaves either old or new as a whole: copies that differ are never its doing. The file
 * has 4096 bytes. RocketMQ's fields that we do not use are carried along.
 *
 * Threads  one writer at a time (the flusher's sync lock, or the owner while it opens and closes).
 */
#ifndef RP_STORE_CHECKPOINT_H
#define RP_STORE_CHECKPOINT_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"

#define RP_CHECKPOINT_SIZE 4096

typedef struct rp_checkpoint {
    int64_t log_time_ms;
    int64_t queues_time_ms;
    int64_t index_time_ms;
    int64_t master_flushed_offset;
    int64_t confirm_offset;
    int64_t queues_offset; /* entries of all records below it are synced */
    int64_t flushed_offset; /* records below it are synced; -1 unless is_exact */
    int64_t index_offset;   /* synced index files hold the records up to the one that begins there; -1: no record, or not is_exact */
    /* The counts at a clean stop, by which missing and foreign files are noticed; else -1. */
    int64_t queue_count;    /* that are not empty */
    int64_t entry_count;    /* sum of their max offsets */
    int64_t begin_bytes;    /* sum of where their first files begin */
    int64_t index_count;    /* index files */
    int32_t is_exact;       /* the offsets were written by us, after everything else in the file */
    uint8_t foreign[RP_CHECKPOINT_SIZE]; /* the file as read */
} rp_checkpoint;

/* Sets the counts to -1, because the store is open and they change. */
void rp_checkpoint_forget_counts(rp_checkpoint *checkpoint);
/* RP_OK, also if there is no file or a short one: the offsets of log, queues and index and the counts are then -1, and every other field is
 * 0. RP_E_IO. */
int rp_checkpoint_read(const rp_file_ops *ops, const char *path, rp_checkpoint *checkpoint, rp_error *error);
/* Writes and syncs the file; without is_exact in RocketMQ's own form. After a crash the file has its old content or the new one (one page,
 * one write). RP_OK, RP_E_IO, RP_E_DISK_FULL. */
int rp_checkpoint_write(const rp_file_ops *ops, const char *path, const rp_checkpoint *checkpoint, rp_error *error);

#endif
