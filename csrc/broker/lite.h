/* lite.h: Python's calls about lite topics: which groups read which of them, and their state.
 * RocketMQ: LiteSubscriptionRegistryImpl, LiteLifecycleManager, LiteManagerProcessor (5.5.0 broker/). Design: docs/design-lite.md.
 *
 * Threads  Python's, while reactors use the same tables.
 */
#ifndef RP_BROKER_LITE_H
#define RP_BROKER_LITE_H

#include <stdint.h>

#include "broker.h"

#define RP_LITE_CLIENT_MAX 1024u /* bytes of a client id */

/* Sets the topic whose lite topics a group reads (lite.bind.topic; size 0: none), and whether it reads all of them (lite.sub.wildcard).
 * RP_OK; RP_E_INVALID: impossible names; RP_E_NO_MEMORY. */
int rp_broker_put_lite_group(rp_broker *broker, rp_slice group, rp_slice topic, int32_t is_wildcard);

/* Subscribes a client of a group to a lite topic, given by its light queue's name. RP_OK; RP_E_INVALID: impossible names; RP_E_BUSY: a
 * bound of lite_readers.h; RP_E_NO_MEMORY. */
int rp_broker_put_lite_reader(rp_broker *broker, rp_slice group, rp_slice client, rp_slice queue);
void rp_broker_delete_lite_reader(rp_broker *broker, rp_slice group, rp_slice client, rp_slice queue);
/* Unsubscribes a client from everything; a client without a name stands for a wildcard group. */
void rp_broker_delete_lite_readers(rp_broker *broker, rp_slice group, rp_slice client);
/* Lets a wildcard group read all lite topics of the topic, including the messages that are there. Visits every queue of the store.
 * Errors as rp_broker_put_lite_reader; RP_E_BUSY or RP_E_NO_MEMORY: the group does not know of all of them. */
int rp_broker_put_lite_wildcard(rp_broker *broker, rp_slice group, rp_slice topic);
/* 1 if the group has missed a lite topic since this was last asked: put it again. */
int rp_broker_lite_wildcard_has_missed(rp_broker *broker, rp_slice group);
/* Forgets a light queue that was deleted; its groups' offsets are forgotten by rp_broker_delete_offsets. */
void rp_broker_forget_lite_queue(rp_broker *broker, rp_slice queue);
/* Has everything that a client reads looked at again; size 0: that of every client of the group. */
void rp_broker_look_at_lite_queues(rp_broker *broker, rp_slice group, rp_slice client);

typedef struct rp_lite_stats {
    uint64_t readers, subscriptions, held;
} rp_lite_stats;
void rp_broker_read_lite_stats(rp_broker *broker, rp_lite_stats *stats);
/* Returns how long ago the client's last pop came, in ms; -1: unknown. */
int64_t rp_broker_lite_last_pop_ms(rp_broker *broker, rp_slice group, rp_slice client);

#endif
