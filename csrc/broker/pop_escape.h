/* pop_escape.h: pops, acks and changes of invisible time at a slave that acts for its master: their checkpoints and acks go to another
 * master's revive topic, and the answer waits for that. Private to csrc/broker.
 * RocketMQ: EscapeBridge.asyncRemotePutMessageToSpecificQueue (5.5.0 broker/failover/). Design: docs/design-acting-master.md.
 *
 *   request ─ records ─► bridge (escape_bridge.h) ─► another master ─► settled ─► its lane's stack ─ woken ─► finish: answered
 *
 * Nothing is appended here, and no reactor waits.
 *
 * Threads  the lane's reactor; any thread pushes what is settled.
 * Owns     the records, until it is freed. Bounds: RP_ESCAPE_WAITING_MAX in all lanes.
 */
#ifndef RP_BROKER_POP_ESCAPE_H
#define RP_BROKER_POP_ESCAPE_H

#include <stddef.h>

#include "answers.h"
#include "escape_bridge.h"
#include "pop_records.h"

struct rp_lane;

#define RP_POP_NOT_OF_LITE "a slave that stands in for its master serves no lite topics: their acks wait for it"

/* 1 if this is a slave that acts for its master. */
int rp_pop_escapes(const rp_broker *broker);

typedef struct rp_pop_escape rp_pop_escape;
struct rp_pop_escape {
    rp_escape_batch batch; /* must be the first field: the bridge knows only this */
    rp_pop_escape *next; /* in the lane's stack */
    struct rp_lane *lane;
    rp_answer_to to; /* as in rp_pop_escape_send: without the connection, which may be closed meanwhile */
    uint64_t connection_id;
    /* Called on the reactor once all records are settled; status is RP_OK or the first failure's. The escape is freed afterwards. */
    void (*finish)(rp_pop_escape *escape, int status);
    /* NULL; otherwise called instead of finish if there is no reactor any more. */
    void (*drop)(rp_pop_escape *escape);
    void *context; /* freed together with it */
    uint32_t records_max;
    uint8_t **texts; /* text of each record; owned */
};

/* Creates an escape, which owns context from then on. NULL: no memory. */
rp_pop_escape *rp_pop_escape_create(struct rp_lane *lane, uint32_t records_max, void *context);
void rp_pop_escape_free(rp_pop_escape *escape);
/* Adds a record. RP_OK; RP_E_NOT_FOUND: no such revive queue; RP_E_NO_MEMORY, RP_E_IO. */
int rp_pop_escape_add_checkpoint(rp_pop_escape *escape, int32_t revive_queue_id, const rp_pop_checkpoint *checkpoint);
int rp_pop_escape_add_ack(rp_pop_escape *escape, int32_t revive_queue_id, const rp_pop_ack *ack);
/* Sends the records. to: the answer's addressee, without a connection, which is given by connection_id. RP_OK: finish is called in a
 * later turn. Otherwise the status of rp_escape_begin, and the escape still belongs to the caller. */
int rp_pop_escape_send(rp_pop_escape *escape, rp_answer_to to, void (*finish)(rp_pop_escape *escape, int status));
/* Returns where the answer goes; connection NULL: the client has gone. */
rp_answer_to rp_pop_escape_answer_to(const rp_pop_escape *escape);

/* Finishes those of the lane that are settled. */
void rp_pop_escape_drain(struct rp_lane *lane);
void rp_pop_escape_free_all(struct rp_lane *lane); /* at the lane's end, when the bridge is shut */

#endif
