/* ledger.h: compares what was acknowledged with what was delivered, message by message.
 *
 * There is one word for each queue offset: which message was acknowledged there, which was delivered, or both. The side that comes
 * second compares.
 *
 * Threads  acknowledge and deliver from any thread (one compare-and-swap on the word); the rest only when no thread writes.
 * Bounds   RP_LOAD_LEDGER_MAX offsets of a queue, from its base on, in chunks of 64 K that are created when first touched.
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
    RP_LEDGER_TAKEN = 2,     /* this side has been here before */
    RP_LEDGER_DIFFERENT = 3, /* the other side has another message here */
    RP_LEDGER_OUTSIDE = 4    /* below the base, past the bound, or memory is out: not checked */
};

typedef struct rp_ledger_missing {
    uint64_t acknowledged_only;
    uint64_t delivered_only;
    int64_t first_offset; /* of the first acknowledged_only; -1: none */
    uint32_t first_producer;
    uint64_t first_sequence;
} rp_ledger_missing;

rp_ledger *rp_ledger_open(uint32_t queue_count, uint64_t run_id); /* NULL: out of memory */
void rp_ledger_close(rp_ledger *ledger);
uint64_t rp_ledger_run_id(const rp_ledger *ledger);
uint32_t rp_ledger_queue_count(const rp_ledger *ledger);
void rp_ledger_set_base(rp_ledger *ledger, uint32_t queue, int64_t offset); /* before the first entry; default 0 */

int rp_ledger_acknowledge(rp_ledger *ledger, uint32_t queue, int64_t offset, uint32_t producer, uint64_t sequence);
int rp_ledger_deliver(rp_ledger *ledger, uint32_t queue, int64_t offset, uint32_t producer, uint64_t sequence);

/* Counts what one queue has on one side only. */
void rp_ledger_missing_of(const rp_ledger *ledger, uint32_t queue, rp_ledger_missing *missing);

/* Save and load acknowledged messages. The file: "RPLEDGER", run id, queue count, the base of each queue, then (queue, offset, producer
 * << 47 | sequence) of each message; all numbers are 8 bytes, big-endian. A loaded ledger has no deliveries. */
int rp_ledger_save(const rp_ledger *ledger, const char *path, rp_error *error);
int rp_ledger_load(const char *path, rp_ledger **ledger, rp_error *error);

#endif
