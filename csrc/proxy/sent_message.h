/* sent_message.h: a message of a SendMessageRequest, as far as it can be sent without Python, and its properties in brokers' form.
 * RocketMQ: SendMessageActivity.buildMessage, buildMessageProperty, GrpcValidator (5.3.3 proxy/).
 *
 * rocketpy/proxy/messages.py is the specification: a message read here gets the same properties as there. Whatever that refuses, or is
 * rare, is left to it: transactions; delays by level; a property with a name that brokers use, or two with one name; more than
 * RP_SENT_PROPERTIES_MAX properties or RP_SENT_KEYS_MAX keys; a long message id; a text that may be blank or has control characters;
 * what is too large, empty where it may not be, or not protobuf; more than RP_SENT_FIELDS_MAX fields, since unknown and repeated ones
 * only cost time.
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
#define RP_SENT_FIELDS_MAX 4096 /* of a request (not counting those in its messages), of a message, or of its system properties */

/* The proxy's settings. 0 is no bound, except for user_properties_max, user_property_size_max and lite_topic_size_max. */
typedef struct rp_send_rules {
    uint32_t message_size_max;       /* bytes of a body */
    uint32_t user_properties_max;
    uint32_t user_property_size_max; /* bytes of all together, with tag and keys */
    uint32_t message_group_size_max; /* bytes; a group of this size is already too long */
    uint32_t lite_topic_size_max;    /* bytes */
    int64_t delay_ms_max;
    int32_t takes_empty_body;
    int32_t uses_delay_level;
} rp_send_rules;

/* Message types of RocketMQ's gRPC API, one bit each, so that they can say what a topic takes. */
enum rp_sent_type { RP_SENT_NORMAL = 1, RP_SENT_FIFO = 2, RP_SENT_DELAY = 4, RP_SENT_PRIORITY = 8, RP_SENT_LITE = 16 };

typedef struct rp_sent_property {
    rp_slice name;
    rp_slice value;
} rp_sent_property;

typedef struct rp_sent_message {
    rp_slice resource; /* the topic's Resource, undecoded */
    rp_slice topic, body, tag, message_id, message_group, lite_topic, trace_context, born_host;
    int64_t born_ms;
    int64_t deliver_ms; /* if has_delivery */
    int32_t has_delivery;
    int32_t has_priority;
    int32_t priority; /* if has_priority */
    int32_t is_compressed;
    int32_t attempt;
    uint32_t property_count, key_count;
    rp_sent_property properties[RP_SENT_PROPERTIES_MAX];
    rp_slice keys[RP_SENT_KEYS_MAX];
} rp_sent_message;

/* Removes the next message from the front of a request. Returns 1; 0: none is left; RP_E_PROTOCOL: it is malformed, or has too many
 * fields before the message. */
int rp_sent_next(rp_slice *request, rp_slice *message);
/* Whether the request has at least two messages, as far as it can be read. */
int rp_sent_has_several(rp_slice request);
/* Returns 1; 0: it is left to Python, and *message is undefined. */
int rp_sent_message_read(rp_slice bytes, const rp_send_rules *rules, int64_t now_ms, rp_sent_message *message);
/* Returns a bit of rp_sent_type. */
uint32_t rp_sent_message_type(const rp_sent_message *message);
/* Returns the message group, which determines the queue of a message that is sent alone; empty if any queue will do. */
rp_slice rp_sent_message_group(const rp_sent_message *message);
/* Whether producers may not give a property this name. */
int rp_sent_name_is_reserved(rp_slice name);

/* An upper bound of what rp_sent_message_write_properties writes for the message, from a client whose host has peer_host_size bytes. */
uint32_t rp_sent_message_properties_size(const rp_sent_message *message, uint32_t peer_host_size);
/* Writes "NAME 1 VALUE 2" for each property, in the order of messages.py; returns the size. */
uint32_t rp_sent_message_write_properties(const rp_sent_message *message, rp_slice peer_host, uint8_t *target);

#endif
