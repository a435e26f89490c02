/* timing_wheel.h: when timed messages are due: a slot for each moment of the next fourteen days that holds the ends of a chain of timer
 * log records.
 * RocketMQ: TimerWheel, Slot (5.3.3 store/timer/).
 *
 * Slot     32 bytes big-endian: [8 time / precision][8 first position][8 last position][4 count][4 magic]; the slot of a time is
 *          time / precision modulo RP_TIMING_WHEEL_SLOTS. A slot that says another time is empty.
 * Memory   38.7 MB of addresses, of which only the pages count that hold a slot (128 slots each; a flush gives back those that became
 *          empty). The file is sparse.
 * Threads  one owner (the timer thread); rp_timing_wheel_count and _slot_count from any thread.
 * kill -9  leaves the file as of the last flush, or some pages as of this one. Nothing in it is the only copy: the timer log makes it
 * again, and the timer queue makes that again.
 */
#ifndef RP_STORE_TIMING_WHEEL_H
#define RP_STORE_TIMING_WHEEL_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/file_ops.h"

#define RP_TIMING_WHEEL_SLOTS (2 * 7 * 86400)
#define RP_TIMING_WHEEL_SLOT_SIZE 32
/* timerRollWindowSlot at most: half of the wheel but 60 slots, so that a late reader and an early writer do not meet. */
#define RP_TIMING_WHEEL_ROLL_WINDOW_MAX (7 * 86400 - 60)

typedef struct rp_timing_wheel rp_timing_wheel;

typedef struct rp_timer_slot {
    int64_t time_ms; /* a multiple of the precision */
    int64_t first_position;
    int64_t last_position;
    int32_t count;   /* messages that wait there, never below 0 */
    int32_t magic;   /* carried along */
} rp_timer_slot;

/* Reads what the file holds. A missing file, or one of another length, is an empty wheel, and rp_timing_wheel_is_new says so. RP_OK;
 * RP_E_INVALID (precision_ms < 1), RP_E_IO, RP_E_NO_MEMORY. ops NULL: the kernel's. */
int rp_timing_wheel_open(const rp_file_ops *ops, const char *path, int32_t precision_ms, rp_timing_wheel **opened, rp_error *error);
/* Writes nothing: flush comes before. NULL is allowed. */
void rp_timing_wheel_close(rp_timing_wheel *wheel);
int rp_timing_wheel_is_new(const rp_timing_wheel *wheel);

/* The start of the slot that a time falls into; times before 1970 fall into the first. */
int64_t rp_timing_wheel_floor(const rp_timing_wheel *wheel, int64_t time_ms);
/* 1 and the slot; 0 when nothing waits there. */
int rp_timing_wheel_slot(const rp_timing_wheel *wheel, int64_t time_ms, rp_timer_slot *slot);
/* Whose time's messages the place of time_ms holds; -1: nobody's. */
int64_t rp_timing_wheel_holds(const rp_timing_wheel *wheel, int64_t time_ms);
/* 1: the place of time_ms holds another time's messages, which were entered behind the record at position: that one is long past. */
int rp_timing_wheel_is_past(const rp_timing_wheel *wheel, int64_t time_ms, int64_t position);
/* Sets the slot of slot->time_ms, whatever it held. */
void rp_timing_wheel_put(rp_timing_wheel *wheel, const rp_timer_slot *slot);
/* Nothing waits there any more. A slot that holds another time stays. */
void rp_timing_wheel_clear(rp_timing_wheel *wheel, int64_t time_ms);
/* The record that was just appended joins its slot; recalls count as -1. Also how recovery makes slots again, in the log's order: a record
 * that the slot knows already changes nothing, and one without a previous one begins the slot again. */
void rp_timing_wheel_add(rp_timing_wheel *wheel, int64_t time_ms, int64_t position, int64_t previous, int32_t magic);
void rp_timing_wheel_clear_all(rp_timing_wheel *wheel);
/* Every slot that is not empty, in the file's order; stops when visit returns non-zero, and returns that. */
int rp_timing_wheel_each(const rp_timing_wheel *wheel, int (*visit)(void *context, const rp_timer_slot *slot), void *context);
/* The earliest slot at or behind time_ms that is not empty: its time; -1 when there is none. Looks at pages without a slot as at one. */
int64_t rp_timing_wheel_next(const rp_timing_wheel *wheel, int64_t time_ms);

/* Writes the pages that changed, and syncs. The timer log they point into has been flushed before. RP_OK; RP_E_IO, RP_E_DISK_FULL,
 * RP_E_BUSY, RP_E_READ_ONLY: what could not be written is written by the next flush. */
int rp_timing_wheel_flush(rp_timing_wheel *wheel, rp_error *error);

/* Of all slots that are not empty and of their places: another wheel, or a damaged one, has another. */
uint32_t rp_timing_wheel_crc(const rp_timing_wheel *wheel);

/* Any thread: messages of all slots, and of that of time_ms. */
int64_t rp_timing_wheel_count(const rp_timing_wheel *wheel);
int32_t rp_timing_wheel_slot_count(const rp_timing_wheel *wheel, int64_t time_ms);

#endif
