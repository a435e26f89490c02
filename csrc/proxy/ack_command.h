/* ack_command.h: the ACK_MESSAGE request for one message. RocketMQ: ConsumerProcessor (5.3.3 proxy/), AckMessageRequestHeader
 * (5.3.3 remoting/). rocketpy/proxy/receiving.py sends the same fields.
 *
 * Threads  pure functions.
 */
#ifndef RP_PROXY_ACK_COMMAND_H
#define RP_PROXY_ACK_COMMAND_H

#include "../remoting/command.h"
#include "receipt_handle.h"

#define RP_REQUEST_ACK_MESSAGE 200051

/* A command, and the topic that one of its fields points to. Must not be copied. */
typedef struct rp_ack_command {
    rp_command command;
    uint8_t topic[RP_RETRY_TOPIC_MAX];
} rp_ack_command;

/* today: the handle that the broker knows now; handle: the same, decoded. The fields point into all of the arguments. */
void rp_ack_command_fill(rp_ack_command *ack, rp_slice topic, rp_slice group, rp_slice today, const rp_receipt_handle *handle);

#endif
