/* ack_answer.h: the AckMessageResponse that a client gets for its brokers' answers. RocketMQ: AckMessageActivity (5.3.3 proxy/).
 * rocketpy/proxy/receiving.py makes the same bytes.
 *
 * Threads  pure functions.
 */
#ifndef RP_PROXY_ACK_ANSWER_H
#define RP_PROXY_ACK_ANSWER_H

#include "acked_messages.h"
#include "answer_status.h"

/* Sets the status of one of the messages from its broker's answer. */
void rp_ack_status_of(rp_answer_status *status, const rp_command *response);
/* failed: for each message why it is not acknowledged, NULL if it is. Returns the code of the whole answer: that of all messages if they
 * agree, otherwise the one for differing results. */
int32_t rp_ack_answer_code(uint32_t count, const rp_answer_status *const failed[]);
uint32_t rp_ack_answer_size(const rp_acked_messages *acked, const rp_answer_status *const failed[]);
/* Writes rp_ack_answer_size bytes. */
void rp_ack_answer_write(const rp_acked_messages *acked, const rp_answer_status *const failed[], uint8_t *target);

#endif
