/* sent_message.h: the message of a SendMessageRequest, as far as it can be sent without Python, and its properties as brokers want them.
 * RocketMQ: SendMessageActivity.buildMessage, buildMessageProperty, GrpcValidator (5.3.3 proxy/).
 *
 * rocketpy/proxy/messages.py is the specification: what is read here becomes the same properties as there. All that it refuses, or that is
 * rare, is left to it: transactions; delays by level; a property with a name that brokers use, or two with one name; more than
 * RP_SENT_PROPERTIES_MAX properties or RP_SENT_KEYS_MAX keys; a long message id; a text that may be blank, or has control characters; what
 * is too large, empty where it may not be, or not protobuf; more than RP_SENT_FIELDS_MAX fields, since unknown and repeated ones only cost
 * time.
 *
 * Threads  pure functions. Slices of a message point into the request.
 */
#ifndef RP_PROXY_SENT_MESSAGE_H
#define RP_PROXY_SENT_MESSAGE_H

#include <stdint.h>

#include "../base/error.h"
#include "../base/slice.h"

#define RP_SENT_PROPERTIES_MAX 32
#define RP_SENT_KEYS_MAX 16
#define RP_SENT_ID_MAX 128
#define RP_SENT_FIELDS_MAX 4096 /* of a request beside its messages, of a message, of its system properties */

/* Of the proxy's settings; 0 for no bound but of user_properties_max, user_property_size_max and lite_topic_size_max. */
typedef struct rp_send_rules {
    uint32_t message_size_max;       /* bytes of a body */
    uint32_t user_properties_max;
    uint32_t user_property_size_max; /* bytes of all, with tag and keys */
    uint32_t message_group_size_max; /* bytes; a group of so many is too long */
    uint32_t lite_topic_size_max;    /* bytes */
    int64_t delay_ms_max;
    int32_t takes_empty_body;
    int32_t uses_delay_level;
} rp_send_rules;

/* MessageType of RocketMQ's gRPC, and a bit each: what topics take. */
enum rp_sent_type { RP_SENT_NORMAL = 1, RP_SENT_FIFO = 2, RP_SENT_DELAY = 4, RP_SENT_PRIORITY = 8, RP_SENT_LITE = 16 };

typedef struct rp_sent_property {
    rp_slice name;
    rp_slice value;
} rp_sent_property;

typedef struct rp_sent_message {
    rp_slice resource; /* the topic's, as it came */
    rp_slice topic, body, tag, message_id, message_group, lite_topic, trace_context, born_host;
    int64_t born_ms;
    int64_t deliver_ms; /* where has_delivery */
    int32_t has_delivery;
    int32_t has_priority;
    int32_t priority; /* where has_priority */
    int32_t is_compressed;
    int32_t attempt;
    uint32_t property_count, key_count;
    rp_sent_property properties[RP_SENT_PROPERTIES_MAX];
    rp_slice keys[RP_SENT_KEYS_MAX];
} rp_sent_message;

/* Takes the bytes of the next message off the front of a request. 1; 0: there is none left; RP_E_PROTOCOL, also
 * for too many fields before it. */
int rp_sent_next(rp_slice *request, rp_slice *message);
/* Whether there are two at least, as far as the request can be read. */
int rp_sent_has_several(rp_slice request);
/* 1; 0: it is Python's, and *message holds nothing of use. */
int rp_sent_message_read(rp_slice bytes, const rp_send_rules *rules, int64_t now_ms, rp_sent_message *message);
/* rp_sent_type. */
uint32_t rp_sent_message_type(const rp_sent_message *message);
/* By what it finds its queue, if it is sent alone: empty where any will do. */
rp_slice rp_sent_message_group(const rp_sent_message *message);
/* Whether no producer may give a property this name. */
int rp_sent_name_is_reserved(rp_slice name);

/* An upper bound of what rp_sent_message_write_properties writes for it from a client at peer_host. */
uint32_t rp_sent_message_properties_size(const rp_sent_message *message, uint32_t peer_host_size);
/* "NAME 1 VALUE 2" of each property, in the order of messages.py; its size. */
uint32_t rp_sent_message_write_properties(const rp_sent_message *message, rp_slice peer_host, uint8_t *target);

#endif
