/* send_batch.h: cuts the body of a batch request into messages. Private to csrc/broker.
 * RocketMQ: MessageDecoder.encodeMessage, MessageExtEncoder.encode(MessageExtBatch) (5.3.3).
 *
 *  per message  [4 total size][4 magic][4 body crc][4 flag][4 body size][body][2 properties size][properties]
 *               total size, magic and crc are not looked at, as in RocketMQ
 *
 * Threads  pure functions.
 */
#ifndef RP_BROKER_SEND_BATCH_H
#define RP_BROKER_SEND_BATCH_H

#include <stdint.h>

#include "../base/slice.h"

typedef struct rp_batch_message {
    int32_t flag;
    rp_slice body;
    rp_slice properties;
} rp_batch_message;

/* Cuts off the message at *position and moves *position behind it. 1; 0 at the end; RP_E_PROTOCOL if sizes do not fit. */
int rp_batch_next(rp_slice body, uint32_t *position, rp_batch_message *message);
/* Counts the messages, or returns RP_E_PROTOCOL; *position then says where it went wrong. */
int64_t rp_batch_count(rp_slice body, uint32_t *position);

#endif
