/* foreign_messages.h: messages of other brokers that the revive thread needs: a slave that stands in for its master sends us the
 * checkpoints of what it gives out, and the messages stay with it. Private to csrc/broker; what Python asks is in pop.h.
 * RocketMQ: EscapeBridge.getMessage (5.5.0 broker/failover/).
 *
 *   revive thread ─ find ─► wanted ─► taken by Python ─ PULL_MESSAGE ─► put: here, or gone ─ find, a second later ─► its retry topic
 *
 * Threads  any. Owns: records until they are found. Bounds: RP_FOREIGN_MAX messages, RP_FOREIGN_OF_BROKER_MAX of one broker, so that one
 * that cannot be reached leaves room for others, and RP_FOREIGN_BYTES_MAX of records, or one, at once, the rest is asked for later; one
 * that nobody has asked for again for RP_FOREIGN_KEPT_MS (wall clock) is cleared.
 */
#ifndef RP_BROKER_FOREIGN_MESSAGES_H
#define RP_BROKER_FOREIGN_MESSAGES_H

#include <stdint.h>

#include "pop.h"

#define RP_FOREIGN_MAX 256u
#define RP_FOREIGN_OF_BROKER_MAX 64u
#define RP_FOREIGN_BYTES_MAX (UINT64_C(32) << 20)
#define RP_FOREIGN_KEPT_MS 30000

typedef struct rp_foreign_messages rp_foreign_messages;
rp_foreign_messages *rp_foreign_messages_create(void); /* NULL: memory */
void rp_foreign_messages_destroy(rp_foreign_messages *messages);

/* RP_OK: *record is the caller's; RP_E_NOT_FOUND: its broker has it no more; RP_E_BUSY: it is asked for, or will be; RP_E_INVALID: there is
 * no such name. */
int rp_foreign_messages_find(rp_foreign_messages *messages, rp_slice broker_name, rp_slice topic, int32_t queue_id, int64_t offset,
                             int64_t now_ms, uint8_t **record, uint32_t *size);

#endif
