/* timer_chain.h: reads the records of one slot, oldest first, although the log links them from the newest back, in bounded memory
 * however long the chain is.
 * RocketMQ: the two stacks of TimerMessageStore.dequeue (5.3.3 store/timer/).
 *
 * How      one walk back notes every n-th position (at most RP_TIMER_CHAIN_MARKS; n doubles when they are used up) and counts the
 *          recalls. Then one stretch between two marks at a time is read and returned in its order. So each record is read twice, and
 *          10^8 records need 1 MB.
 * Threads  one owner, that of the timer log, which must stay open. Records appended to the slot meanwhile are not part of the chain.
 * Bounds   each call reads at most RP_TIMER_CHAIN_STEP records; the caller checks whether to stop, and calls again.
 */
#ifndef RP_STORE_TIMER_CHAIN_H
#define RP_STORE_TIMER_CHAIN_H

#include <stdint.h>

#include "../base/error.h"
#include "timer_log.h"
#include "timing_wheel.h"

#define RP_TIMER_CHAIN_MARKS 65536
#define RP_TIMER_CHAIN_STEP 4096

typedef struct rp_timer_chain rp_timer_chain;

typedef struct rp_timer_chain_record {
    int64_t position;
    rp_timer_record record;
} rp_timer_chain_record;

/* Begins reading a slot. RP_OK, RP_E_NO_MEMORY. */
int rp_timer_chain_open(rp_timer_log *log, const rp_timer_slot *slot, int32_t precision_ms, rp_timer_chain **opened, rp_error *error);
void rp_timer_chain_close(rp_timer_chain *chain);

/* Returns up to records_max records of a kind, oldest first. Returns how many: 0 if there are no more (rp_timer_chain_is_at_end tells),
 * or if this step found none yet. RP_E_CORRUPT with the position: there is no record of this slot where the chain says
 * (rp_timer_files_make_anew); RP_E_IO, RP_E_BUSY, RP_E_NO_MEMORY: call again later, nothing was passed over. A chain that leads below
 * the log's first file ends there: the messages are gone with their commit log. */
enum rp_timer_chain_kind {
    RP_TIMER_CHAIN_RECALLS = 0, /* magic DELETE without ROLL */
    RP_TIMER_CHAIN_OTHERS = 1
};
int64_t rp_timer_chain_read(rp_timer_chain *chain, int kind, rp_timer_chain_record *records, uint32_t records_max, rp_error *error);
int rp_timer_chain_is_at_end(const rp_timer_chain *chain);
/* Goes back to the first record: the caller reads the recalls to their end, then rewinds for the others. */
void rp_timer_chain_rewind(rp_timer_chain *chain);
int64_t rp_timer_chain_recalls(const rp_timer_chain *chain); /* known after the walk, which the first read makes */
int64_t rp_timer_chain_length(const rp_timer_chain *chain);  /* likewise; counts both kinds */

#endif
