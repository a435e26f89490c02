/* light_copies.h: puts messages that the broker itself appends (delayed ones, and those of transactions) into the light queues that they
 * name (store/light_queue.h), when they arrive in their topic. Private to csrc/broker.
 * RocketMQ: LmqDispatch (5.5.0 store/), part of every append: there a message of a transaction is in its light queues before its commit.
 *
 * Threads  any.
 */
#ifndef RP_BROKER_LIGHT_COPIES_H
#define RP_BROKER_LIGHT_COPIES_H

#include "../store/commit_log.h"
#include "broker.h"

/* Adds the light queues to an item that is otherwise ready. *room must be freed after the append; NULL: it goes to none. Names that are
 * no light queue's, those beyond the store's limit, and those whose offsets may not fit behind the properties are left out and logged:
 * they neither delay nor lose the message itself. RP_OK; RP_E_NO_MEMORY, RP_E_DISK_FULL, RP_E_IO: try again. */
int rp_copy_to_light_queues(rp_broker *broker, rp_append_item *item, void **room);

#endif
