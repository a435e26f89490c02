/* forbidden_topics.h: topics that belong to the broker, and to which no client may send. Private to csrc/broker.
 * RocketMQ: TopicValidator.isNotAllowedSendTopic (5.3.3 common/topic/), which lets clients send to rmq_sys_wheel_timer.
 *
 * The same list as SEND_FORBIDDEN_TOPICS in broker/names.py. Python refuses sends to these topics; this is for messages that name one of
 * them as the topic they are to be delivered to later.
 *
 * Threads  pure functions.
 */
#ifndef RP_BROKER_FORBIDDEN_TOPICS_H
#define RP_BROKER_FORBIDDEN_TOPICS_H

#include "../base/slice.h"

int rp_topic_is_forbidden(rp_slice name);

#endif
