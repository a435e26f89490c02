/* escape_bridge.h: decides where delayed delivery, timers and revive append: to this broker's log or, on a slave that acts for its
 * master, to another master's (escaping_messages.h). Private to csrc/broker.
 */
#ifndef RP_BROKER_ESCAPE_BRIDGE_H
#define RP_BROKER_ESCAPE_BRIDGE_H

#include <stdint.h>

#include "../store/commit_log.h"
#include "broker.h"

typedef struct rp_escape_bridge rp_escape_bridge;

/* Creates a bridge that is shut. NULL: no memory or descriptor. */
rp_escape_bridge *rp_escape_bridge_create(void);
void rp_escape_bridge_destroy(rp_escape_bridge *bridge);

/* As rp_commit_log_append; over an open bridge it returns when all items are settled or refused. Their `size` is then 0, because nothing
 * was stored here. Items and what they point to must stay until it returns. */
int64_t rp_escape_append(rp_broker *broker, rp_append_item *items, uint32_t count);
/* 1 if nothing may be appended to this broker's log. */
int rp_escape_is_on(const rp_broker *broker);
/* 1 if, in addition, the bridge accepts messages. */
int rp_escape_is_open(const rp_broker *broker);

/* Items that wait. The caller sets items, count and settled; all other fields belong to the bridge. */
typedef struct rp_escape_batch {
    struct rp_escape_batch *next;
    rp_append_item *items;
    uint64_t first_id;
    uint32_t count, taken, left;
    /* NULL: a thread sleeps for the batch. Otherwise called once, when all items are settled or refused, on whichever thread did that,
     * under the bridge's lock; the batch has left the bridge by then. */
    void (*settled)(struct rp_escape_batch *batch);
} rp_escape_batch;

/* As rp_escape_append, without waiting, for reactors. RP_OK: batch->settled will be or has been called; RP_E_CLOSED: the bridge is not
 * open; RP_E_BUSY: RP_ESCAPE_WAITING_MAX batches wait already. */
#define RP_ESCAPE_WAITING_MAX 256u
int rp_escape_begin(rp_broker *broker, rp_escape_batch *batch);

/* Claims a queue of a group for one pop, so that no other takes the same messages. 1: claimed; 0: it is claimed by another, or
 * RP_ESCAPE_WAITING_MAX claims exist. */
int rp_escape_claim(rp_broker *broker, const void *cell);
void rp_escape_unclaim(rp_broker *broker, const void *cell);

#endif
