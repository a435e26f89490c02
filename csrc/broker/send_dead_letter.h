/* send_dead_letter.h: sends to a group's retry topic that were tried often enough: they go to its dead letters. Private to csrc/broker.
 * RocketMQ: SendMessageProcessor.handleRetryAndDLQ (5.3.3 broker/processor/).
 *
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_SEND_DEAD_LETTER_H
#define RP_BROKER_SEND_DEAD_LETTER_H

#include "send_path.h"

/* The topic becomes the dead letters of the group whose retry topic it was sent to. RP_OK, RP_PUNT, RP_E_NO_MEMORY. */
int rp_send_redirect_to_dead_letters(rp_send_request *request);
/* It is delayed no more. RP_OK, RP_E_NO_MEMORY. */
int rp_send_mark_dead_letter(rp_send_request *request);

#endif
