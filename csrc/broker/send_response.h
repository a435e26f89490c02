/* send_response.h: writes the responses to sends: success with ids, or the error. Private to csrc/broker.
 * RocketMQ: SendMessageProcessor.handlePutMessageResult, SendMessageResponseHeader, MessageDecoder.createMessageId (5.3.3).
 *
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_SEND_RESPONSE_H
#define RP_BROKER_SEND_RESPONSE_H

#include "broker.h"
#include "send_path.h"

/* The constant parts of every answer to a send, encoded once: [0] JSON, [1] binary. */
#define RP_SEND_HEAD_MAX 192
#define RP_SEND_TAIL_MAX 1700 /* MSG_REGION of 255 bytes, escaped, and TRACE_ON */
typedef struct rp_send_template {
    uint8_t head[2][RP_SEND_HEAD_MAX]; /* up to the store host in the first msgId */
    uint32_t head_size[2];
    uint8_t tail[2][RP_SEND_TAIL_MAX]; /* MSG_REGION and TRACE_ON as fields that follow another */
    uint32_t tail_size[2];
    char store_host_hex[41];
    uint32_t store_host_hex_size;
} rp_send_template;

void rp_send_template_init(rp_send_template *template, const rp_broker_options *options);

/* Answers SERVICE_NOT_AVAILABLE with the reason that Python gave. */
int rp_send_answer_not_writable(struct rp_lane *lane, rp_answer_to to);

#endif
