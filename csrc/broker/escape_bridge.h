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

#endif
