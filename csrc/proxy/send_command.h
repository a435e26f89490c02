/* send_command.h: the SEND_MESSAGE_V2 or SEND_BATCH_MESSAGE request for a gRPC client's messages. RocketMQ: ProducerProcessor
 * (5.3.3 proxy/), SendMessageRequestHeaderV2 (5.3.3 remoting/).
 *
 * Sends the same fields as rocketpy/proxy/sending.py, but in the binary encoding, which is cheaper for brokers.
 *
 * Threads  pure functions.
 */
#ifndef RP_PROXY_SEND_COMMAND_H
#define RP_PROXY_SEND_COMMAND_H

#include "../remoting/command.h"
#include "route_table.h"
#include "sent_message.h"

#define RP_REQUEST_SEND_MESSAGE_V2 310
#define RP_REQUEST_SEND_BATCH_MESSAGE 320

/* A command, and the numbers that its fields point to. Must not be copied. */
typedef struct rp_send_command {
    rp_command command;
    uint8_t queue_id[20];
    uint8_t born_ms[20];
    uint8_t attempt[20];
} rp_send_command;

/* message: the only one, or the first of a batch; properties: written by rp_sent_message_write_properties for it; batch: written by
 * rp_sent_batch_write, data NULL for a single message. The fields point into all of the arguments. */
void rp_send_command_fill(rp_send_command *request, const rp_sent_message *message, const rp_route_choice *choice, rp_slice properties,
                          rp_slice batch);

#endif
