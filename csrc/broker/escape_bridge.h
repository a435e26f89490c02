/* escape_bridge.h: where delivery, timers and revive append: to this broker's log, or, on a slave that stands in for its master, to another
 * master's (escaping_messages.h). Private to csrc/broker.
 */
#ifndef RP_BROKER_ESCAPE_BRIDGE_H
#define RP_BROKER_ESCAPE_BRIDGE_H

#include <stdint.h>

#include "../store/commit_log.h"
#include "broker.h"

typedef struct rp_escape_bridge rp_escape_bridge;

/* Shut. NULL: memory or descriptors are out. */
rp_escape_bridge *rp_escape_bridge_create(void);
void rp_escape_bridge_destroy(rp_escape_bridge *bridge);

/* As rp_commit_log_append; over an open bridge it returns when all items are settled or refused. Their `size` is 0 then: nothing was stored
 * here. Items and what they point to stay until it returns. */
int64_t rp_escape_append(rp_broker *broker, rp_append_item *items, uint32_t count);
/* 1: nothing may be appended here. */
int rp_escape_is_on(const rp_broker *broker);
/* 1: and what comes is taken. */
int rp_escape_is_open(const rp_broker *broker);

/* Items that wait; all fields but items, count and settled are the bridge's. */
typedef struct rp_escape_batch {
    struct rp_escape_batch *next;
    rp_append_item *items;
    uint64_t first_id;
    uint32_t count, taken, left;
    /* NULL: a thread sleeps for it. Else called once, when all are settled or refused, on whichever thread did it, under the bridge's lock:
     * the batch has left the bridge. */
    void (*settled)(struct rp_escape_batch *batch);
} rp_escape_batch;

/* As rp_escape_append, without waiting, for reactors. RP_OK: batch->settled says the rest, perhaps already; RP_E_CLOSED: the bridge is not
 * open; RP_E_BUSY: as many as RP_ESCAPE_WAITING_MAX wait. */
#define RP_ESCAPE_WAITING_MAX 256u
int rp_escape_begin(rp_broker *broker, rp_escape_batch *batch);

/* For a queue of a group that one pop has on its way, so that no other takes the same. 1: it is the caller's; 0: it is another's, or as
 * many as RP_ESCAPE_WAITING_MAX are. */
int rp_escape_claim(rp_broker *broker, const void *cell);
void rp_escape_unclaim(rp_broker *broker, const void *cell);

#endif
