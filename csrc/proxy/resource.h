/* resource.h: which names of topics and groups clients may use. RocketMQ: TopicValidator, Validators (5.3.3 common/, client/).
 *
 * The same as rocketpy/proxy/validation.py, but for the words about what is wrong.
 *
 * Threads  pure functions.
 */
#ifndef RP_PROXY_RESOURCE_H
#define RP_PROXY_RESOURCE_H

#include "../base/slice.h"

#define RP_TOPIC_CHARACTERS_MAX 127
#define RP_GROUP_CHARACTERS_MAX 120

/* A Resource's name. 1; 0: it is no Resource. */
int rp_resource_read(rp_slice resource, rp_slice *name);
int rp_resource_is_topic(rp_slice name);
int rp_resource_is_group(rp_slice name);

#endif
