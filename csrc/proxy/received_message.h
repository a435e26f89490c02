/* received_message.h: the ReceiveMessageResponse that tells a consumer of a message, of a status, or of when the messages were delivered.
 * RocketMQ: GrpcConverter.buildMessage, ReceiveMessageResponseStreamWriter (5.3.3 proxy/grpc/v2/).
 *
 * Writes the same bytes as rocketpy/proxy/messages.py, but for the order of the properties that a producer has given.
 *
 * Threads  pure functions. Slices point into the message and to what the arena holds.
 */
#ifndef RP_PROXY_RECEIVED_MESSAGE_H
#define RP_PROXY_RECEIVED_MESSAGE_H

#include "answer_status.h"
#include "popped_message.h"

typedef struct rp_received_message {
    rp_slice topic, system, properties, body;
    uint32_t message_size, size; /* of the Message, of the response */
} rp_received_message;

/* topic: as the consumer calls it. 1; 0: memory is out, or the message is too large for a response. */
int rp_received_message_fill(rp_received_message *received, const rp_popped_message *popped, rp_slice topic, int64_t now_ms,
                             rp_arena *arena);
/* Writes size bytes. */
void rp_received_message_write(const rp_received_message *received, uint8_t *target);

uint32_t rp_received_status_size(const rp_answer_status *status);
void rp_received_status_write(const rp_answer_status *status, uint8_t *target);

#define RP_DELIVERED_SIZE_MAX 24
/* The last of an answer; its size. */
uint32_t rp_delivered_write(int64_t now_ms, uint8_t target[RP_DELIVERED_SIZE_MAX]);

#endif
