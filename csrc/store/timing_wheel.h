/* timing_wheel.h: when timed messages are due: a slot for each moment of the next fourteen days, which holds both ends of a chain of
 * timer log records.
 * RocketMQ: TimerWheel, Slot (5.3.3 store/timer/).
 *
 * Slot     32 bytes big-endian: [8 time / precision][8 first position][8 last position][4 count][4 magic]; the slot of a time is number
 *          time / precision modulo RP_TIMING_WHEEL_SLOTS. A slot that holds another time counts as empty for this one.
 * Memory   38.7 MB of addresses, of which only pages that hold a slot are used (128 slots each; a flush gives back those that became
 *          empty). The file is sparse.
 * Threads  one owner (the timer thread); rp_timing_wheel_count and _slot_count from any thread.
 * kill -9  leaves the file of the last flush, or some pages of the next one. Nothing in it is the only copy: the timer log can rebuild
 * it, and the timer queue can rebuild the log.
 */
#ifndef RP_STORE_TIMING_WHEEL_H
#define RP_STORE_TIMING_WHEEL_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"

#define RP_TIMING_WHEEL_SLOTS (2 * 7 * 86400)
#define RP_TIMING_WHEEL_SLOT_SIZE 32
/* Upper limit of timerRollWindowSlot: half of the wheel less 60 slots, so that a late reader and an early writer do not meet. */
#define RP_TIMING_WHEEL_ROLL_WINDOW_MAX (7 * 86400 - 60)

typedef struct rp_timing_wheel rp_timing_wheel;

typedef struct rp_timer_slot {
    int64_t time_ms; /* a multiple of the precision */
    int64_t first_position;
    int64_t last_position;
    int32_t count;   /* messages waiting in the slot, never below 0 */
    int32_t magic;   /* preserved, not used */
} rp_timer_slot;

/* Reads the file. If it does not exist or has another length the wheel is empty, and rp_timing_wheel_is_new returns 1. ops NULL: the
 * system's. RP_OK; RP_E_INVALID (precision_ms < 1), RP_E_IO, RP_E_NO_MEMORY. */
int rp_timing_wheel_open(const rp_file_ops *ops, const char *path, int32_t precision_ms, rp_timing_wheel **opened, rp_error *error);
/* Closes without writing: flush before. NULL is allowed. */
void rp_timing_wheel_close(rp_timing_wheel *wheel);
int rp_timing_wheel_is_new(const rp_timing_wheel *wheel);

/* Returns the start of the slot that a time falls into; times before 1970 fall into the first. */
int64_t rp_timing_wheel_floor(const rp_timing_wheel *wheel, int64_t time_ms);
/* Reads the slot of a time. 1; 0 if nothing waits there. */
int rp_timing_wheel_slot(const rp_timing_wheel *wheel, int64_t time_ms, rp_timer_slot *slot);
/* Returns the time whose messages are at the place of time_ms; -1: none. */
int64_t rp_timing_wheel_holds(const rp_timing_wheel *wheel, int64_t time_ms);
/* 1 if the place of time_ms holds messages of another time that were entered behind the record at position: that record is long past. */
int rp_timing_wheel_is_past(const rp_timing_wheel *wheel, int64_t time_ms, int64_t position);
/* Sets the slot of slot->time_ms, whatever it held. */
void rp_timing_wheel_put(rp_timing_wheel *wheel, const rp_timer_slot *slot);
/* Empties the slot of time_ms. A slot that holds another time stays. */
void rp_timing_wheel_clear(rp_timing_wheel *wheel, int64_t time_ms);
/* Links a record that was just appended into its slot; a recall counts as -1. Recovery also rebuilds slots with it, in the log's order:
 * a record that the slot has already changes nothing, and one without a previous record begins the slot anew. */
void rp_timing_wheel_add(rp_timing_wheel *wheel, int64_t time_ms, int64_t position, int64_t previous, int32_t magic);
void rp_timing_wheel_clear_all(rp_timing_wheel *wheel);
/* Visits every slot that is not empty, in the file's order; stops when visit returns non-zero, and returns that. */
int rp_timing_wheel_each(const rp_timing_wheel *wheel, int (*visit)(void *context, const rp_timer_slot *slot), void *context);
/* Returns the time of the earliest slot at or behind time_ms that is not empty; -1 if there is none. A page without slots costs as much
 * as one slot. */
int64_t rp_timing_wheel_next(const rp_timing_wheel *wheel, int64_t time_ms);

/* Writes the changed pages and syncs. The timer log that they point into must have been flushed. RP_OK; RP_E_IO, RP_E_DISK_FULL,
 * RP_E_BUSY, RP_E_READ_ONLY: what could not be written is written by the next flush. */
int rp_timing_wheel_flush(rp_timing_wheel *wheel, rp_error *error);

/* CRC of all slots that are not empty and their places, by which another wheel or a damaged one is recognized. */
uint32_t rp_timing_wheel_crc(const rp_timing_wheel *wheel);

/* Messages in all slots, and in the slot of time_ms. Any thread. */
int64_t rp_timing_wheel_count(const rp_timing_wheel *wheel);
int32_t rp_timing_wheel_slot_count(const rp_timing_wheel *wheel, int64_t time_ms);

#endif
