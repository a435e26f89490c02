/* resource.h: which names of topics and groups clients may use. RocketMQ: TopicValidator, Validators (5.3.3 common/, client/).
 *
 * The same rules as rocketpy/proxy/validation.py, without its error texts.
 *
 * Threads  pure functions.
 */
#ifndef RP_PROXY_RESOURCE_H
#define RP_PROXY_RESOURCE_H

#include "../base/slice.h"

#define RP_TOPIC_CHARACTERS_MAX 127
#define RP_GROUP_CHARACTERS_MAX 120

/* Reads the name of a protobuf Resource. Returns 1; 0: it is malformed. */
int rp_resource_read(rp_slice resource, rp_slice *name);
int rp_resource_is_topic(rp_slice name);
int rp_resource_is_group(rp_slice name);

#endif
