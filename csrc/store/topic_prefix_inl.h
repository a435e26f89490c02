/* topic_prefix_inl.h: the prefixes of topics that hold a group's messages from any topic: %RETRY% for those to be tried again, %DLQ% for
 * those given up. C only.
 * RocketMQ: MixAll.RETRY_GROUP_TOPIC_PREFIX, DLQ_GROUP_TOPIC_PREFIX (5.5.0 common/).
 */
#ifndef RP_STORE_TOPIC_PREFIX_INL_H
#define RP_STORE_TOPIC_PREFIX_INL_H

#include <string.h>

#include "../base/slice.h"

#define RP_RETRY_PREFIX "%RETRY%"
#define RP_RETRY_PREFIX_SIZE ((uint32_t)sizeof RP_RETRY_PREFIX - 1)
#define RP_DLQ_PREFIX "%DLQ%"
#define RP_DLQ_PREFIX_SIZE ((uint32_t)sizeof RP_DLQ_PREFIX - 1)

static inline int rp_is_retry_topic(rp_slice topic) {
    return topic.size >= RP_RETRY_PREFIX_SIZE && memcmp(topic.data, RP_RETRY_PREFIX, RP_RETRY_PREFIX_SIZE) == 0;
}

#endif
