/* light_queue.h: RocketMQ's light message queues (enableLmq, enableMultiDispatch): queues `%LMQ%name` whose entries point at messages of
 * other topics. A message says in two properties which of them it is in, and at which offsets: the first is its producer's, the second
 * is written by the append (light_targets.h).
 * RocketMQ: LmqDispatch, ConsumeQueue.multiDispatchLmqQueue, MixAll.topicAllowsLMQ (5.5.0 store/, common/).
 *
 * Threads  any; pure.
 */
#ifndef RP_STORE_LIGHT_QUEUE_H
#define RP_STORE_LIGHT_QUEUE_H

#include <stdint.h>

#include "../base/slice.h"

#define RP_LIGHT_QUEUE_ID 0 /* of each of them */
#define RP_LIGHT_NAMES "INNER_MULTI_DISPATCH"
#define RP_LIGHT_OFFSETS "INNER_MULTI_QUEUE_OFFSET"
#define RP_LITE_TOPIC "__LITE_TOPIC"
#define RP_LITE_NAME_MAX 255 /* bytes of a lite topic's queue: a directory's name */

/* What is left to visit of the light queues of a message: comma-separated, one offset a name. */
typedef struct rp_light_queues {
    rp_slice names;
    rp_slice offsets;
} rp_light_queues;

int rp_is_light_queue(rp_slice topic);
/* Messages of the others are in none, whatever their properties say: retries, dead letters and the system's own keep those of the message
 * they were made of. */
int rp_topic_has_light_queues(rp_slice topic);
rp_light_queues rp_light_queues_of(rp_slice properties);

/* The light queue of a lite topic is `%LMQ%$parent$lite` (LiteUtil, 5.5.0 common/lite/). Writes it into name[RP_LITE_NAME_MAX]; its size,
 * 0: no such queue can be, as a part is empty, holds a `$`, or is too long. */
uint32_t rp_lite_queue_name(rp_slice parent, rp_slice lite, uint8_t *name);
/* 1: it is one; and its two parts. */
int rp_lite_queue_parts(rp_slice queue, rp_slice *parent, rp_slice *lite);
int rp_is_lite_queue(rp_slice queue);
/* 1 with the next light queue, 0 when there is none any more. An offset that is not a number ends the visit. */
int rp_light_queues_next(rp_light_queues *queues, rp_slice *name, int64_t *offset);
/* Does a message with these properties have that offset in the light queue? */
int rp_light_queue_holds(rp_slice topic, rp_slice properties, int64_t offset);

/* How many names a producer's list has, as Java's split counts them: empty ones at its end do not count, and a blank list has none. */
uint32_t rp_light_names_count(rp_slice names);
/* Cuts the first name, or offset, off a list; of an empty list an empty one. */
rp_slice rp_light_list_take(rp_slice *list);

#endif
