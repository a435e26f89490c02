/* timer_checkpoint.h: the file that says how far timed messages were entered and delivered.
 * RocketMQ: TimerCheckpoint (5.3.3 store/timer/), config/timercheck.
 *
 *  at size
 *    0  8  read time, ms: every slot before it has been delivered       8  8  position up to which the timer log is on disk
 *   16  8  offset in the timer queue up to which messages were entered  24  8  … on the master
 *   32 24  data version: state version, timestamp, counter
 *  256     rocketpy's own: magic, copies of bytes 0..32, precision, the log's end after a clean stop, what was rebuilt, CRC. RocketMQ
 *          preserves these bytes without reading them; if the copies differ, it has written since. Everything is in the first sector of
 *          4096 bytes, written by one write: kill -9 and a power cut leave the old or the new one.
 *
 * Threads  one writer at a time.
 */
#ifndef RP_STORE_TIMER_CHECKPOINT_H
#define RP_STORE_TIMER_CHECKPOINT_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"

#define RP_TIMER_CHECKPOINT_SIZE 4096
#define RP_TIMER_CHECKPOINT_WIRE_SIZE 56 /* the part that a slave requests from its master */

typedef struct rp_timer_checkpoint {
    int64_t read_time_ms;
    int64_t log_flushed_position;
    int64_t queue_offset;
    int64_t master_queue_offset;
    int64_t state_version;
    int64_t version_timestamp_ms;
    int64_t version_counter;
    /* Set when wheel and log were rebuilt: messages of the timer queue below this offset that are due before this time have been
     * delivered, although they are entered again. Both 0: nothing was rebuilt. */
    int64_t anew_queue_offset, anew_read_time_ms;
    int64_t log_end;      /* after a clean stop with everything flushed: the wheel need not be checked; otherwise -1 */
    int64_t wheel_crc;    /* CRC of the wheel, if log_end is set */
    int32_t precision_ms; /* precision of wheel and log; 0: unknown */
    int32_t is_there;     /* 1 if there was a file of full length when it was read */
    uint8_t foreign[RP_TIMER_CHECKPOINT_SIZE]; /* the file as read */
} rp_timer_checkpoint;

/* Reads the file. RP_OK also if it does not exist or is too short: every field is then 0 and log_end -1. Negative fields are read as 0.
 * RP_E_IO, RP_E_BUSY (descriptors are out). */
int rp_timer_checkpoint_read(const rp_file_ops *ops, const char *path, rp_timer_checkpoint *checkpoint, rp_error *error);
/* Writes and syncs the file, and for a new one its directory. RP_OK, RP_E_IO, RP_E_DISK_FULL, RP_E_BUSY, RP_E_READ_ONLY. */
int rp_timer_checkpoint_write(const rp_file_ops *ops, const char *path, rp_timer_checkpoint *checkpoint, rp_error *error);
/* Encodes RocketMQ's fields, RP_TIMER_CHECKPOINT_WIRE_SIZE bytes. */
void rp_timer_checkpoint_encode(const rp_timer_checkpoint *checkpoint, uint8_t *bytes);
/* Decodes them; size is 32 (before there were data versions) or more. RP_OK; RP_E_PROTOCOL. */
int rp_timer_checkpoint_decode(const uint8_t *bytes, uint32_t size, rp_timer_checkpoint *checkpoint);

#endif
