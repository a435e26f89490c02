/* timer_chain.h: the records of one slot, oldest first, though the log links them from the newest back, in bounded memory however long
 * the chain is.
 * RocketMQ: the two stacks of TimerMessageStore.dequeue (5.3.3 store/timer/).
 *
 * How      one walk back notes every n-th position (RP_TIMER_CHAIN_MARKS at most; n doubles when they are full) and counts the recalls;
 *          then the stretch between two marks is read at a time and given out in its order. So each record is read twice, and 10^8 of
 *          them need 1 MB.
 * Threads  one owner, that of the timer log, which must stay open. Records may be appended to the slot meanwhile: they are not in the
 *          chain.
 * Bounds   each call reads at most RP_TIMER_CHAIN_STEP records and returns; its caller looks for a stop, and calls again.
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

/* Begins the walk of a slot. RP_OK, RP_E_NO_MEMORY. */
int rp_timer_chain_open(rp_timer_log *log, const rp_timer_slot *slot, int32_t precision_ms, rp_timer_chain **opened, rp_error *error);
void rp_timer_chain_close(rp_timer_chain *chain);

/* Up to records_max records, oldest first, of those that kind asks for. How many: 0 when there are no more, as
 * rp_timer_chain_is_at_end says, or when a step was done that gave none yet. RP_E_CORRUPT with the position: no record of this slot is
 * where the chain says (rp_timer_files_make_anew); RP_E_IO, RP_E_BUSY, RP_E_NO_MEMORY: call again later, nothing was passed over. A chain
 * that goes below the log's first file ends there: the messages are gone with their commit log. */
enum rp_timer_chain_kind {
    RP_TIMER_CHAIN_RECALLS = 0, /* magic DELETE without ROLL */
    RP_TIMER_CHAIN_OTHERS = 1
};
int64_t rp_timer_chain_read(rp_timer_chain *chain, int kind, rp_timer_chain_record *records, uint32_t records_max, rp_error *error);
int rp_timer_chain_is_at_end(const rp_timer_chain *chain);
/* Back to the first record: recalls are read to their end, then it is rewound for the others. */
void rp_timer_chain_rewind(rp_timer_chain *chain);
int64_t rp_timer_chain_recalls(const rp_timer_chain *chain); /* known after the walk, which the first read makes */
int64_t rp_timer_chain_length(const rp_timer_chain *chain);  /* likewise, of both kinds */

#endif
