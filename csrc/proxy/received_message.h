/* received_message.h: the ReceiveMessageResponse that carries a message, a status, or the time of delivery to a consumer.
 * RocketMQ: GrpcConverter.buildMessage, ReceiveMessageResponseStreamWriter (5.3.3 proxy/grpc/v2/).
 *
 * Writes the same bytes as rocketpy/proxy/messages.py, except for the order of the producer's properties.
 *
 * Threads  pure functions. Slices point into the message and into the arena.
 */
#ifndef RP_PROXY_RECEIVED_MESSAGE_H
#define RP_PROXY_RECEIVED_MESSAGE_H

#include "answer_status.h"
#include "popped_message.h"

typedef struct rp_received_message {
    rp_slice topic, system, properties, body;
    uint32_t message_size, size; /* of the Message, and of the whole response */
} rp_received_message;

/* topic: the name by which the consumer subscribed. Returns 1; 0: out of memory, or the message is too large for a response. */
int rp_received_message_fill(rp_received_message *received, const rp_popped_message *popped, rp_slice topic, int64_t now_ms,
                             rp_arena *arena);
/* Writes size bytes. */
void rp_received_message_write(const rp_received_message *received, uint8_t *target);

uint32_t rp_received_status_size(const rp_answer_status *status);
void rp_received_status_write(const rp_answer_status *status, uint8_t *target);

#define RP_DELIVERED_SIZE_MAX 24
/* Writes the last response of an answer, with the time of delivery; returns its size. */
uint32_t rp_delivered_write(int64_t now_ms, uint8_t target[RP_DELIVERED_SIZE_MAX]);

#endif
