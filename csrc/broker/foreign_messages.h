/* foreign_messages.h: messages of other brokers that the revive thread needs: a slave acting for its master sends us the checkpoints of
 * what it gives out, while the messages stay with it. Private to csrc/broker; Python's interface is in pop.h.
 * RocketMQ: EscapeBridge.getMessage (5.5.0 broker/failover/).
 *
 *   revive thread ─ find ─► wanted ─► taken by Python ─ PULL_MESSAGE ─► put: here, or gone ─ find, a second later ─► its retry topic
 *
 * Threads  any. Owns records until they are found.
 * Bounds   RP_FOREIGN_MAX messages, RP_FOREIGN_OF_BROKER_MAX of one broker, so that an unreachable broker leaves room for others;
 *          records of RP_FOREIGN_BYTES_MAX or a single larger one at a time, while the rest is requested later. A message that nobody
 *          has asked for again for RP_FOREIGN_KEPT_MS (wall clock) is removed.
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
rp_foreign_messages *rp_foreign_messages_create(void); /* NULL: no memory */
void rp_foreign_messages_destroy(rp_foreign_messages *messages);

/* RP_OK: *record belongs to the caller; RP_E_NOT_FOUND: its broker no longer has it; RP_E_BUSY: it is requested, or will be;
 * RP_E_INVALID: an impossible name. */
int rp_foreign_messages_find(rp_foreign_messages *messages, rp_slice broker_name, rp_slice topic, int32_t queue_id, int64_t offset,
                             int64_t now_ms, uint8_t **record, uint32_t *size);

#endif
