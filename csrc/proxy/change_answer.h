/* change_answer.h: the ChangeInvisibleDurationResponse that a client gets for a broker's answer.
 * RocketMQ: ChangeInvisibleDurationActivity (5.3.3 proxy/). rocketpy/proxy/receiving.py makes the same bytes.
 *
 * Threads  pure functions.
 */
#ifndef RP_PROXY_CHANGE_ANSWER_H
#define RP_PROXY_CHANGE_ANSWER_H

#include "answer_status.h"
#include "receipt_handle.h"

/* A status and, if it is OK, the handle that is valid from now on. */
typedef struct rp_change_answer {
    rp_answer_status status;
    uint32_t handle_size;
    uint8_t handle[RP_RECEIPT_HANDLE_MAX];
} rp_change_answer;

void rp_change_answer_of(rp_change_answer *answer, const rp_receipt_handle *handle, const rp_command *response);
uint32_t rp_change_answer_size(const rp_change_answer *answer);
/* Writes rp_change_answer_size bytes. */
void rp_change_answer_write(const rp_change_answer *answer, uint8_t *target);

#endif
