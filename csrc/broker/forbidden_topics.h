/* forbidden_topics.h: topics that belong to the broker, and to which no client may send. Private to csrc/broker.
 * RocketMQ: TopicValidator.isNotAllowedSendTopic (5.3.3 common/topic/), which lets clients send to rmq_sys_wheel_timer.
 *
 * The same as SEND_FORBIDDEN_TOPICS of broker/names.py, which refuses the sends; here it is about messages that say they go there.
 *
 * Threads  pure functions.
 */
#ifndef RP_BROKER_FORBIDDEN_TOPICS_H
#define RP_BROKER_FORBIDDEN_TOPICS_H

#include "../base/slice.h"

int rp_topic_is_forbidden(rp_slice name);

#endif
