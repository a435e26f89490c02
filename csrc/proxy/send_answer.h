/* send_answer.h: the SendMessageResponse that a client gets for a broker's answer.
 * RocketMQ: SendMessageActivity.convertToSendMessageResponse, ProducerProcessor (5.3.3 proxy/). rocketpy/proxy/sending.py makes the same
 * bytes.
 *
 * Threads  pure functions.
 */
#ifndef RP_PROXY_SEND_ANSWER_H
#define RP_PROXY_SEND_ANSWER_H

#include "answer_status.h"

/* What is written: a status, and perhaps an entry for a message. Texts point into the broker's answer, `request` into the client's
 * request. */
typedef struct rp_send_answer {
    rp_answer_status status;
    rp_answer_status entry_status; /* if has_entry */
    int32_t has_entry;
    int64_t offset;
    uint32_t ids_size; /* size of the ids of the request's messages */
    rp_slice request, transaction_id, recall_handle; /* request: data NULL if the entry has no ids */
} rp_send_answer;

void rp_send_answer_of(rp_send_answer *answer, const rp_command *response, rp_slice request);
uint32_t rp_send_answer_size(const rp_send_answer *answer);
/* Writes rp_send_answer_size bytes. */
void rp_send_answer_write(const rp_send_answer *answer, uint8_t *target);

#endif
