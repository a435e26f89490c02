/* acked_message.h: an AckMessageRequest, as far as it can be passed on without Python; the ACK_MESSAGE that a broker gets for it, and the
 * answer to the client. RocketMQ: AckMessageActivity, ConsumerProcessor (5.3.3 proxy/), AckMessageRequestHeader (5.3.3 remoting/).
 *
 * rocketpy/proxy/receiving.py is the specification. Left to it is a request of no message or several, of a lite topic, of a long
 * message id, or of names and handles that are none.
 *
 * Threads  pure functions. Slices point into the request.
 */
#ifndef RP_PROXY_ACKED_MESSAGE_H
#define RP_PROXY_ACKED_MESSAGE_H

#include "../remoting/command.h"
#include "answer_status.h"
#include "receipt_handle.h"
#include "resource.h"

#define RP_REQUEST_ACK_MESSAGE 200051
#define RP_ACKED_ID_MAX 128

typedef struct rp_acked_message {
    rp_slice topic, group, message_id, handle; /* the handle that the client knows */
} rp_acked_message;

/* A command, and the topic that one of its fields points to: never copied. */
typedef struct rp_ack_command {
    rp_command command;
    uint8_t topic[RP_RETRY_TOPIC_MAX];
} rp_ack_command;

/* 1; 0: the request is Python's. */
int rp_acked_message_read(rp_slice request, rp_acked_message *acked);
/* today: the handle that its broker knows, and what it says. The fields point to all of the arguments. */
void rp_ack_command_fill(rp_ack_command *ack, const rp_acked_message *acked, rp_slice today, const rp_receipt_handle *handle);

/* What became of it. */
void rp_ack_status_of(rp_answer_status *status, const rp_command *response);
uint32_t rp_ack_answer_size(const rp_acked_message *acked, const rp_answer_status *status);
/* Writes rp_ack_answer_size bytes: an AckMessageResponse. */
void rp_ack_answer_write(const rp_acked_message *acked, const rp_answer_status *status, uint8_t *target);

#endif
