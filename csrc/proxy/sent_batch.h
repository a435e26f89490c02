/* sent_batch.h: the messages of a SendMessageRequest with several, in the form in which brokers take a batch. RocketMQ:
 * SendMessageActivity, MessageBatch, MessageDecoder.encodeMessages (5.3.3 proxy/, common/).
 *
 *   each message: [size u32][magic, CRC and flag: 12 bytes, which nobody reads][body size u32][body][properties size u16][properties]
 *
 * rocketpy/proxy/sending.py and encoding.py are the specification. A batch is left to them if sent_message.h would leave any of its
 * messages to Python, if it has more than RP_SENT_BATCH_MAX, or if it has messages of several topics, lite topics, delivery times, or
 * properties that may be too long.
 *
 * Threads  pure functions.
 */
#ifndef RP_PROXY_SENT_BATCH_H
#define RP_PROXY_SENT_BATCH_H

#include "sent_message.h"

#define RP_SENT_BATCH_MAX 1024

typedef struct rp_sent_batch {
    uint32_t count;
    uint64_t size_max; /* an upper bound of what rp_sent_batch_write writes */
} rp_sent_batch;

/* Returns 1; 0: the request is left to Python. *first: the first message; peer_host_size: bytes of the host that
 * rp_sent_batch_write is going to get. */
int rp_sent_batch_read(rp_slice request, const rp_send_rules *rules, int64_t now_ms, uint32_t peer_host_size, rp_sent_message *first,
                       rp_sent_batch *batch);
/* Writes a request that rp_sent_batch_read accepted with the same rules and time; returns the size. */
uint64_t rp_sent_batch_write(rp_slice request, const rp_send_rules *rules, int64_t now_ms, rp_slice peer_host, uint8_t *target);

/* The ids of a request's messages, separated by commas: their size, and writing them. */
uint32_t rp_sent_ids_size(rp_slice request);
uint8_t *rp_sent_ids_write(rp_slice request, uint8_t *target);

#endif
