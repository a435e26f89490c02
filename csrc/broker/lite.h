/* lite.h: the calls of Python about lite topics: which groups read which of them, and how they stand.
 * RocketMQ: LiteSubscriptionRegistryImpl, LiteLifecycleManager, LiteManagerProcessor (5.5.0 broker/). Design: docs/design-lite.md.
 *
 * Threads  Python's, but for what reactors do meanwhile.
 */
#ifndef RP_BROKER_LITE_H
#define RP_BROKER_LITE_H

#include <stdint.h>

#include "broker.h"

#define RP_LITE_CLIENT_MAX 1024u /* bytes of a client id */

/* Which topic's lite topics a group reads (lite.bind.topic), size 0: none; and whether all of them (lite.sub.wildcard). RP_OK;
 * RP_E_INVALID: no names; RP_E_NO_MEMORY. */
int rp_broker_put_lite_group(rp_broker *broker, rp_slice group, rp_slice topic, int32_t is_wildcard);

/* A client of a group reads a lite topic, by its light queue's name. RP_OK; RP_E_INVALID: no such names; RP_E_BUSY: a bound of
 * lite_readers.h; RP_E_NO_MEMORY. */
int rp_broker_put_lite_reader(rp_broker *broker, rp_slice group, rp_slice client, rp_slice queue);
void rp_broker_delete_lite_reader(rp_broker *broker, rp_slice group, rp_slice client, rp_slice queue);
/* Of everything it reads; a client without a name stands for a wildcard group. */
void rp_broker_delete_lite_readers(rp_broker *broker, rp_slice group, rp_slice client);
/* A wildcard group reads what comes to any lite topic of the topic, and what is in the queues there are. As above; RP_E_BUSY or
 * RP_E_NO_MEMORY: it was not told of all of them. Looks at every queue of the store. */
int rp_broker_put_lite_wildcard(rp_broker *broker, rp_slice group, rp_slice topic);
/* 1: it was not told of something since the last time this was asked: to be put again. */
int rp_broker_lite_wildcard_has_missed(rp_broker *broker, rp_slice group);
/* The light queue was deleted; what groups of its topic had of it is forgotten by rp_broker_delete_offsets. */
void rp_broker_forget_lite_queue(rp_broker *broker, rp_slice queue);
/* Has everything that a client, size 0: every client of the group, reads looked at. */
void rp_broker_look_at_lite_queues(rp_broker *broker, rp_slice group, rp_slice client);

typedef struct rp_lite_stats {
    uint64_t readers, subscriptions, held;
} rp_lite_stats;
void rp_broker_read_lite_stats(rp_broker *broker, rp_lite_stats *stats);
/* How long ago the client's last pop came, in ms; -1: it is not known. */
int64_t rp_broker_lite_last_pop_ms(rp_broker *broker, rp_slice group, rp_slice client);

#endif
