/* light_queue.h: RocketMQ's light message queues (enableLmq, enableMultiDispatch): queues `%LMQ%name` whose entries point at messages of
 * other topics. Two properties of a message say which light queues it is in, and at which offsets: the producer sets the first, the
 * append writes the second (light_targets.h).
 * RocketMQ: LmqDispatch, ConsumeQueue.multiDispatchLmqQueue, MixAll.topicAllowsLMQ (5.5.0 store/, common/).
 *
 * Threads  any; pure.
 */
#ifndef RP_STORE_LIGHT_QUEUE_H
#define RP_STORE_LIGHT_QUEUE_H

#include <stdint.h>

#include "../base/slice.h"

#define RP_LIGHT_QUEUE_ID 0 /* queue id of every light queue */
#define RP_LIGHT_NAMES "INNER_MULTI_DISPATCH"
#define RP_LIGHT_OFFSETS "INNER_MULTI_QUEUE_OFFSET"
#define RP_LITE_TOPIC "__LITE_TOPIC"
#define RP_LITE_NAME_MAX 255 /* bytes in the name of a lite topic's queue, which is a directory's name */

/* An iteration over the light queues of a message: two comma-separated lists, one offset per name. */
typedef struct rp_light_queues {
    rp_slice names;
    rp_slice offsets;
} rp_light_queues;

int rp_is_light_queue(rp_slice topic);
/* 0 for topics whose messages are in no light queue whatever their properties say: retries, dead letters and system topics keep the
 * properties of the message they were made from. */
int rp_topic_has_light_queues(rp_slice topic);
rp_light_queues rp_light_queues_of(rp_slice properties);

/* Writes the name of a lite topic's light queue, `%LMQ%$parent$lite` (LiteUtil, 5.5.0 common/lite/), into name[RP_LITE_NAME_MAX].
 * Returns its size; 0 if there can be no such queue: a part is empty, contains a `$`, or is too long. */
uint32_t rp_lite_queue_name(rp_slice parent, rp_slice lite, uint8_t *name);
/* Splits a light queue's name into parent and lite topic. 1; 0: it is not a lite topic's queue. */
int rp_lite_queue_parts(rp_slice queue, rp_slice *parent, rp_slice *lite);
int rp_is_lite_queue(rp_slice queue);
/* Returns 1 with the next light queue, 0 if there is none left. An offset that is not a number ends the iteration. */
int rp_light_queues_next(rp_light_queues *queues, rp_slice *name, int64_t *offset);
/* Does a message with these properties have that offset in the light queue `topic`? */
int rp_light_queue_holds(rp_slice topic, rp_slice properties, int64_t offset);

/* How many names a producer's list has, counted as Java's split does: empty names at the end do not count, and a blank list has none. */
uint32_t rp_light_names_count(rp_slice names);
/* Cuts the first name or offset off a list and returns it; of an empty list, an empty slice. */
rp_slice rp_light_list_take(rp_slice *list);

#endif
