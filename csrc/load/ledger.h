/* ledger.h: what was acknowledged, held against what was delivered, message by message.
 *
 * One word for every queue offset: who was acknowledged there, who was delivered there, or both. Whichever side comes second compares.
 *
 * Threads  acknowledge and deliver from any thread (one compare-and-swap on the word); the rest when no thread writes.
 * Bounds   RP_LOAD_LEDGER_MAX offsets a queue from its base on, in chunks of 64 K made when first touched.
 */
#ifndef RP_LOAD_LEDGER_H
#define RP_LOAD_LEDGER_H

#include <stdint.h>

#include "../base/error.h"

#define RP_LEDGER_PRODUCERS_MAX 16384u
#define RP_LEDGER_SEQUENCE_MAX (UINT64_C(1) << 47)

typedef struct rp_ledger rp_ledger;

enum rp_ledger_verdict {
    RP_LEDGER_FIRST = 0,     /* the other side has not been here yet */
    RP_LEDGER_MATCHED = 1,   /* both sides agree */
    RP_LEDGER_TAKEN = 2,     /* this side was here before */
    RP_LEDGER_DIFFERENT = 3, /* the other side saw another message here */
    RP_LEDGER_OUTSIDE = 4    /* below the base, past the bound, or memory is out: not checked */
};

typedef struct rp_ledger_missing {
    uint64_t acknowledged_only;
    uint64_t delivered_only;
    int64_t first_offset; /* of the first acknowledged_only, -1 without one */
    uint32_t first_producer;
    uint64_t first_sequence;
} rp_ledger_missing;

rp_ledger *rp_ledger_open(uint32_t queue_count, uint64_t run_id); /* NULL when memory is out */
void rp_ledger_close(rp_ledger *ledger);
uint64_t rp_ledger_run_id(const rp_ledger *ledger);
uint32_t rp_ledger_queue_count(const rp_ledger *ledger);
void rp_ledger_set_base(rp_ledger *ledger, uint32_t queue, int64_t offset); /* before the first entry; 0 without it */

int rp_ledger_acknowledge(rp_ledger *ledger, uint32_t queue, int64_t offset, uint32_t producer, uint64_t sequence);
int rp_ledger_deliver(rp_ledger *ledger, uint32_t queue, int64_t offset, uint32_t producer, uint64_t sequence);

/* What one queue has on one side only. */
void rp_ledger_missing_of(const rp_ledger *ledger, uint32_t queue, rp_ledger_missing *missing);

/* File: "RPLEDGER", run id, queue count, base of each queue, then (queue, offset, producer << 47 | sequence) of each acknowledged
 * message, all 8-byte big-endian. Load gives a ledger on which nothing has been delivered. */
int rp_ledger_save(const rp_ledger *ledger, const char *path, rp_error *error);
int rp_ledger_load(const char *path, rp_ledger **ledger, rp_error *error);

#endif
