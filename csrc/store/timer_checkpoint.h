/* timer_checkpoint.h: how far timed messages were entered and delivered.
 * RocketMQ: TimerCheckpoint (5.3.3 store/timer/), config/timercheck.
 *
 *  at size
 *    0  8  read time, ms: every slot before it has been delivered       8  8  position up to which the timer log is on disk
 *   16  8  offset in the timer queue up to which messages were entered  24  8  … on the master
 *   32 24  data version: state version, timestamp, counter
 *  256     ours: magic, copies of 0..32, precision, the log's end after a clean stop, what was made again, CRC. RocketMQ keeps but does
 * not know these bytes; when the copies differ, it has written since. All of it is in the first sector of 4096 bytes, written by one
 * write: kill -9 and a power cut leave the old one or the new one.
 *
 * Threads  one writer at a time.
 */
#ifndef RP_STORE_TIMER_CHECKPOINT_H
#define RP_STORE_TIMER_CHECKPOINT_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"

#define RP_TIMER_CHECKPOINT_SIZE 4096
#define RP_TIMER_CHECKPOINT_WIRE_SIZE 56 /* what a slave asks its master for */

typedef struct rp_timer_checkpoint {
    int64_t read_time_ms;
    int64_t log_flushed_position;
    int64_t queue_offset;
    int64_t master_queue_offset;
    int64_t state_version;
    int64_t version_timestamp_ms;
    int64_t version_counter;
    /* Wheel and log were rebuilt: messages of the timer queue below this offset that are due before this time have been delivered, though
     * they are entered again. Both 0: nothing of the kind. */
    int64_t anew_queue_offset, anew_read_time_ms;
    int64_t log_end;      /* of a clean stop, all flushed: the wheel need not be looked at; -1 else */
    int64_t wheel_crc;    /* of the wheel, then */
    int32_t precision_ms; /* that wheel and log were written with; 0: not known */
    int32_t is_there;     /* there was a file of full length when it was read */
    uint8_t foreign[RP_TIMER_CHECKPOINT_SIZE]; /* the file as read */
} rp_timer_checkpoint;

/* RP_OK also when there is no file or a short one: then every field is 0 and log_end -1. Negative fields are read as 0. RP_E_IO,
 * RP_E_BUSY (descriptors are out). */
int rp_timer_checkpoint_read(const rp_file_ops *ops, const char *path, rp_timer_checkpoint *checkpoint, rp_error *error);
/* Writes and syncs; a new file's directory, too. RP_OK, RP_E_IO, RP_E_DISK_FULL, RP_E_BUSY, RP_E_READ_ONLY. */
int rp_timer_checkpoint_write(const rp_file_ops *ops, const char *path, rp_timer_checkpoint *checkpoint, rp_error *error);
/* RocketMQ's fields, RP_TIMER_CHECKPOINT_WIRE_SIZE bytes. */
void rp_timer_checkpoint_encode(const rp_timer_checkpoint *checkpoint, uint8_t *bytes);
/* The same back; size 32 (before there were data versions) or more. RP_OK; RP_E_PROTOCOL. */
int rp_timer_checkpoint_decode(const uint8_t *bytes, uint32_t size, rp_timer_checkpoint *checkpoint);

#endif
