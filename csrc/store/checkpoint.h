/* checkpoint.h: the file that says how far the store is on disk, so that recovery does not have to start at the beginning.
 * RocketMQ: StoreCheckpoint (5.3.3 and 5.5.0 store/).
 *
 *  at size
 *    0  8  store time of the last synced record of the commit log, ms
 *    8  8  … of the consume queues      16  8  … of the index
 *   24  8  master's flushed offset      32  8  confirm offset: up to here a group behind a controller has the log and its queue entries
 *   40  8  commit log offset below which the consume queues are synced (5.5.0)
 *  256     rocketpy's own: magic, copies of bytes 0..24, the exact offsets, the counts of a clean stop, a CRC. RocketMQ preserves these
 *          bytes without reading them; if the copies differ from the fields above, RocketMQ has written the file since, and only the
 *          times count.
 * Everything lies in the first sector, which a power cut leaves either old or new as a whole, so differing copies are never the result
 * of one. The file has 4096 bytes. Fields of RocketMQ that rocketpy does not use are preserved.
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
    /* Counts taken at a clean stop, by which the next start notices missing and foreign files; -1 at any other time. */
    int64_t queue_count;    /* queues that are not empty */
    int64_t entry_count;    /* sum of their max offsets */
    int64_t begin_bytes;    /* sum of the start offsets of their first files */
    int64_t index_count;    /* index files */
    int32_t is_exact;       /* the offsets were written by rocketpy, and by nobody since */
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
