/* escaping_messages.h: the messages that a slave acting for its master sends to another master: the interface for Python. Public, beside
 * broker.h.
 * RocketMQ: EscapeBridge (5.3.3 broker/failover/).
 *
 *   delivery, timers, revive ─ append ─┬─ the bridge is shut: the own commit log
 *                                      └─ open: they wait ─┬─ event fd ─► taken, sent ─► settled ─► they go on
 *   pops, acks ─ begin ─ their requests wait, no thread ──┘                                    └─► answers (pop_escape.h)
 *
 * A slave must not append: its record would lie in its log where its master's next bytes belong.
 *
 *   shut ─ open ─► open ─ refuse ─► refusing ─ shut ─► shut
 *
 * The owner opens the bridge before it starts delivery, timers and revive, and refuses before it stops them, which releases threads that
 * wait. It shuts the bridge when they have stopped.
 *
 * Threads  any. Bounds: each of the three waits with one append, of at most 32 messages; in addition RP_ESCAPE_WAITING_MAX requests.
 */
#ifndef RP_BROKER_ESCAPING_MESSAGES_H
#define RP_BROKER_ESCAPING_MESSAGES_H

#include <stdint.h>

#include "broker.h"

void rp_broker_open_escape(rp_broker *broker);
/* Everything that waits, and everything that arrives, gets RP_E_CLOSED. */
void rp_broker_refuse_escape(rp_broker *broker);
/* Only while delivery, timers and revive are stopped, or are those of a master. */
void rp_broker_shut_escape(rp_broker *broker);
/* Returns a descriptor, owned by the bridge, that becomes readable when a message arrives and stays so until it is read. */
int rp_broker_escape_fd(const rp_broker *broker);

/* One message, as a record of the topic and queue it goes to. */
typedef struct rp_escaping_message {
    uint64_t id;
    uint8_t *record; /* owned by the caller, who frees it */
    uint32_t size;
} rp_escaping_message;
/* Takes the next message that nobody has taken. RP_OK; RP_E_NOT_FOUND: there is none; RP_E_NO_MEMORY: it continues to wait. */
int rp_broker_take_escaping(rp_broker *broker, rp_escaping_message *message);
/* Reports what became of a message that was taken. RP_OK: it is stored; RP_E_TOO_LARGE: it is passed over; any other status: it is tried
 * again. Ignored if the message was refused meanwhile. */
void rp_broker_settle_escaping(rp_broker *broker, uint64_t id, int status);

#endif
