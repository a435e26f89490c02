/* light_copies.h: puts messages that the broker appends by itself (delayed ones, and those of transactions) into the light queues that they
 * name (store/light_queue.h), when they come to their topic. Private to csrc/broker.
 * RocketMQ: LmqDispatch (5.5.0 store/), on the way of every append: there a message of a transaction is in its light queues before its
 * commit.
 *
 * Threads  any.
 */
#ifndef RP_BROKER_LIGHT_COPIES_H
#define RP_BROKER_LIGHT_COPIES_H

#include "../store/commit_log.h"
#include "broker.h"

/* Has the item, which is ready but for that, go to them. *room is to be freed after the append, NULL: it goes to none. Names that name
 * no light queue, those past the store's limit, and those whose offsets may not fit behind the properties are left out with a line in the
 * log: the message itself is neither held up nor lost by them. RP_OK;
 * RP_E_NO_MEMORY, RP_E_DISK_FULL, RP_E_IO: to be tried again. */
int rp_copy_to_light_queues(rp_broker *broker, rp_append_item *item, void **room);

#endif
