/* message_filter.h: the messages that a pull accepts, as one block of words that can be copied. Private to csrc/broker.
 * RocketMQ: SubscriptionData, MessageFilter (5.3.3 remoting/protocol/heartbeat/, store/).
 */
#ifndef RP_BROKER_MESSAGE_FILTER_H
#define RP_BROKER_MESSAGE_FILTER_H

#include <stdint.h>

enum rp_filter_kind {
    RP_FILTER_ALL,  /* every message; no words */
    RP_FILTER_TAGS, /* words: tags codes, ascending (tag_filter.h) */
    RP_FILTER_SQL   /* words: a compiled expression (sql_filter.h) */
};

/* A filter whose words somebody else owns. */
typedef struct rp_message_filter {
    const int32_t *words;
    uint32_t count;
    int32_t kind; /* rp_filter_kind */
} rp_message_filter;

#endif
