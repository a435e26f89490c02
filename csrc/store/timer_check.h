/* timer_check.h: checks timer log, timing wheel and checkpoint of timed messages, without changing them. Private to store_verify.
 *
 * Timer log   files of one length follow each other; every place up to the last record holds one; a record points at a message of the
 *             timer queue that has the size it says, and back at a record of its own slot.
 * Wheel       has the right length; a slot that is not past points at the last record of its chain, and counts as many messages as that
 *             has. RocketMQ leaves past slots, and after a kill counts too few: neither is reported.
 * Checkpoint  has the right length, is not ahead of log and timer queue; after a clean stop of ours it agrees with the end of the log
 *             and with the wheel.
 *
 * What a kill leaves (records that no slot knows, a wheel older than them, no wheel yet, a partial record behind what was flushed) is no
 * damage: a start mends it.
 *
 * Threads  one owner. Writes nothing.
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
    int64_t queue_end; /* queue offset at which the timer queue ends; -1: there is none */
    /* Called for each damage; non-zero ends the check. file is valid during the call. offset: in the file, -1: the whole file. size: 0
     * where it means nothing. */
    int (*report)(void *context, const char *file, int64_t offset, int64_t size, const char *cause);
    void *context;
} rp_timer_check_options;

/* Counts the log's records, and the slots with undelivered messages. RP_OK; the value that report returned; RP_E_IO, RP_E_NO_MEMORY: a
 * file could not be read, which is not damage. */
int rp_timer_check(const rp_timer_check_options *options, uint64_t *records, uint64_t *slots, rp_error *error);

#endif
