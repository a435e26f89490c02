/* timer_check.h: timer log, timing wheel and checkpoint of timed messages, checked as they lie there. Private to store_verify.
 *
 * Timer log   files of one length that follow each other; every place up to the last record holds one; a record points at a message of
 *             the timer queue that is as long as it says, and back at a record of its own slot.
 * Wheel       as long as a wheel is; a slot that is not over points at the last record of its chain, and counts as many messages as
 *             that has. RocketMQ leaves slots that are over, and after a kill counts less than there are: neither is looked at.
 * Checkpoint  as long as it has to be, not ahead of log and timer queue; of our clean stop: the log ends, the wheel is as it says.
 *
 * What a kill leaves (records that no slot knows, a wheel of before them, no wheel yet, a part of a record behind what
 * was flushed) is no damage: a start mends it.
 *
 * Threads  one owner. Nothing is written.
 * Bounds   memory: the wheel's touched pages, 38.7 MB at most. Each record is read twice at most.
 */
#ifndef RP_STORE_TIMER_CHECK_H
#define RP_STORE_TIMER_CHECK_H

#include <stdint.h>

#include "../base/error.h"
#include "file_row.h"

#define RP_TIMER_CHECK_TOPIC "rmq_sys_wheel_timer"

typedef struct rp_timer_check_options {
    const char *root_path;
    rp_file_row *commit_log;
    int is_stopped;    /* the last run ended cleanly */
    int64_t queue_end; /* of the timer queue, an offset; -1: there is none */
    /* Non-zero ends the check. file is valid meanwhile; offset in the file, -1: the whole file; size 0 where that says nothing. */
    int (*report)(void *context, const char *file, int64_t offset, int64_t size, const char *cause);
    void *context;
} rp_timer_check_options;

/* How many records the log has, and how many slots hold messages that are not delivered. RP_OK; what report returned; RP_E_IO,
 * RP_E_NO_MEMORY: a file could not be read, which is no damage. */
int rp_timer_check(const rp_timer_check_options *options, uint64_t *records, uint64_t *slots, rp_error *error);

#endif
