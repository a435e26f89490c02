/* escaping_messages.h: messages of a slave that stands in for its master, on their way to another master: what Python asks. Public,
 * beside broker.h.
 * RocketMQ: EscapeBridge (5.3.3 broker/failover/).
 *
 *   delivery, timers, revive ─ append ─┬─ the bridge is shut: the own commit log
 *                                      └─ open: they wait ─┬─ event fd ─► taken, sent ─► settled ─► they go on
 *   pops, acks ─ begin ─ their requests wait, no thread ──┘                                    └─► answers (pop_escape.h)
 *
 * A slave must not append: what it did would stand in its log where its master's next bytes belong.
 *
 *   shut ─ open ─► open ─ refuse ─► refusing ─ shut ─► shut
 *
 * The owner opens it before it starts the three, and refuses before it stops them: a thread that waits is let go then. It shuts it when
 * they have stopped.
 *
 * Threads  any. Bounds: each of the three waits with one append, of at most 32 messages; beside them RP_ESCAPE_WAITING_MAX requests.
 */
#ifndef RP_BROKER_ESCAPING_MESSAGES_H
#define RP_BROKER_ESCAPING_MESSAGES_H

#include <stdint.h>

#include "broker.h"

void rp_broker_open_escape(rp_broker *broker);
/* What waits, and what comes, has RP_E_CLOSED. */
void rp_broker_refuse_escape(rp_broker *broker);
/* Only while delivery, timers and revive are stopped, or those of a master. */
void rp_broker_shut_escape(rp_broker *broker);
/* Readable since a message came, until it is read. The bridge's. */
int rp_broker_escape_fd(const rp_broker *broker);

/* One message, as a record of the topic and queue it goes to. */
typedef struct rp_escaping_message {
    uint64_t id;
    uint8_t *record; /* the caller's to free */
    uint32_t size;
} rp_escaping_message;
/* The next one that nobody has taken. RP_OK; RP_E_NOT_FOUND: there is none; RP_E_NO_MEMORY: it waits on. */
int rp_broker_take_escaping(rp_broker *broker, rp_escaping_message *message);
/* What became of a message that was taken: RP_OK, RP_E_TOO_LARGE: it is passed over; else it is tried again. Of one that was refused
 * meanwhile, nothing. */
void rp_broker_settle_escaping(rp_broker *broker, uint64_t id, int status);

#endif
