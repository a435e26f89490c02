/* change_command.h: the CHANGE_MESSAGE_INVISIBLETIME request for one message.
 * RocketMQ: ConsumerProcessor (5.3.3 proxy/), ChangeInvisibleTimeRequestHeader (5.3.3 remoting/). rocketpy/proxy/receiving.py sends
 * the same fields.
 *
 * Threads  pure functions.
 */
#ifndef RP_PROXY_CHANGE_COMMAND_H
#define RP_PROXY_CHANGE_COMMAND_H

#include "../remoting/command.h"
#include "receipt_handle.h"

#define RP_REQUEST_CHANGE_INVISIBLE_TIME 200053

/* A command, and what its fields point to. Must not be copied. */
typedef struct rp_change_command {
    rp_command command;
    uint8_t topic[RP_RETRY_TOPIC_MAX];
    uint8_t invisible_ms[20];
} rp_change_command;

/* today: the handle that the broker knows now; handle: the same, decoded. The fields point into all of the arguments. */
void rp_change_command_fill(rp_change_command *change, rp_slice topic, rp_slice group, int64_t invisible_ms, rp_slice today,
                            const rp_receipt_handle *handle);

#endif
