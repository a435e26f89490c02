/* light_queue.h: RocketMQ's light message queues (enableLmq): queues `%LMQ%name` whose entries point at messages of other topics. A message
 * says in two properties which of them it is in, and at which offsets. This broker fills none, but keeps those that it finds in a store.
 * RocketMQ: LmqDispatch, ConsumeQueue.multiDispatchLmqQueue (5.3.3 store/). Private to csrc/store.
 *
 * Threads  any; pure.
 */
#ifndef RP_STORE_LIGHT_QUEUE_H
#define RP_STORE_LIGHT_QUEUE_H

#include <stdint.h>

#include "../base/slice.h"

#define RP_LIGHT_QUEUE_ID 0 /* of each of them */

/* What is left to visit of the light queues of a message: comma-separated, one offset a name. */
typedef struct rp_light_queues {
    rp_slice names;
    rp_slice offsets;
} rp_light_queues;

int rp_is_light_queue(rp_slice topic);
rp_light_queues rp_light_queues_of(rp_slice properties);
/* 1 with the next light queue, 0 when there is none any more. An offset that is no number ends the visit. */
int rp_light_queues_next(rp_light_queues *queues, rp_slice *name, int64_t *offset);
/* Does a message with these properties have that offset in the light queue? */
int rp_light_queue_holds(rp_slice topic, rp_slice properties, int64_t offset);

#endif
