/* pop_command.h: the POP_MESSAGE request for a ReceiveMessageRequest.
 * RocketMQ: ReceiveMessageActivity (5.3.3 proxy/grpc/v2/consumer/), PopMessageRequestHeader (5.3.3 remoting/).
 *
 * rocketpy/proxy/receiving.py sends the same fields.
 *
 * Threads  pure functions.
 */
#ifndef RP_PROXY_POP_COMMAND_H
#define RP_PROXY_POP_COMMAND_H

#include "../remoting/command.h"
#include "received_request.h"

#define RP_REQUEST_POP_MESSAGE 200050
#define RP_POP_NUMBERS 5

/* A command, and the numbers that its fields point to. Must not be copied. */
typedef struct rp_pop_command {
    rp_command command;
    uint8_t numbers[RP_POP_NUMBERS][20];
} rp_pop_command;

/* The fields point into all of the arguments. */
void rp_pop_command_fill(rp_pop_command *pop, const rp_received_request *received, int64_t polling_ms, int64_t now_ms, int is_orderly);

#endif
