/* message_properties.h: what the broker must know of a sent message's properties, and what it adds to them. Private to csrc/broker.
 * RocketMQ: SendMessageProcessor, AbstractSendMessageProcessor.buildMsgContext, MessageDecoder.string2messageProperties (5.3.3).
 *
 * A stored message carries what its producer sent, then MSG_REGION, TRACE_ON and CLUSTER of this broker, then a UNIQ_KEY if the producer
 * set none. Removed from what was sent: POP_CK, INNER_MULTI_QUEUE_OFFSET, INNER_NUM and INNER_BASE, which only the broker may set, and
 * pairs that RocketMQ's parser drops. RocketMQ stores the same set in the order of a Java HashMap; readers look properties up by name.
 *
 * Threads  pure functions.
 */
#ifndef RP_BROKER_MESSAGE_PROPERTIES_H
#define RP_BROKER_MESSAGE_PROPERTIES_H

#include <stdint.h>

#include "../base/arena.h"
#include "../base/slice.h"
#include "property_pair_inl.h"

/* RP_PRIORITY_DROPPED: the message names a priority but is delayed, ordered or part of a transaction, where the priority means nothing
 * and is not stored. RocketMQ: TopicMessageType.parseFromMessageProperty. */
enum rp_no_priority { RP_PRIORITY_NONE = -1, RP_PRIORITY_DROPPED = -2 };

typedef struct rp_sent_properties {
    rp_slice text;       /* the text to store; in the request, or in the arena if pairs were removed */
    rp_slice unique_key; /* data NULL: none */
    rp_slice tags;       /* data NULL: none */
    rp_slice light_names; /* INNER_MULTI_DISPATCH: light queues that the message goes to besides its own queue */
    rp_slice lite_topic;  /* __LITE_TOPIC: the lite topic of its topic that the message goes to; size 0: none */
    int64_t tags_code;
    int32_t wait;        /* WAIT; 1 unless its value is something else than true */
    int32_t has_keys;    /* KEYS: there is more to index than the unique key */
    int32_t delay_level; /* DELAY; 0: none */
    int32_t sharded;     /* __SHARDINGKEY: the message is an ordered one */
    int32_t prepared;    /* TRAN_MSG: the message waits for the end of its transaction */
    int32_t light_lists; /* number of INNER_MULTI_DISPATCH properties; if there are several, readers disagree about which one counts */
    int32_t timed; /* 1: it has a timer; 2: one whose value is neither 0 nor negative. A delay level takes precedence */
    int32_t priority; /* _SYS_MSG_PRIORITY_: the queue it goes to; or an rp_no_priority */
    int32_t special; /* the delay is not a number: not for the fast path */
} rp_sent_properties;

/* RP_OK or RP_E_NO_MEMORY. */
int rp_sent_properties_scan(rp_slice text, rp_arena *arena, rp_sent_properties *properties);
/* The same for one message of a batch, whose properties are stored unchanged. 0: there is a pair that must not be stored (see above),
 * and the rest was not scanned. */
int rp_batch_properties_scan(rp_slice text, rp_sent_properties *properties);

#endif
