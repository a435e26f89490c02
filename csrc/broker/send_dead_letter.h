/* send_dead_letter.h: sends to a group's retry topic after the last try: they become dead letters of the group. Private to csrc/broker.
 * RocketMQ: SendMessageProcessor.handleRetryAndDLQ (5.3.3 broker/processor/).
 *
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_SEND_DEAD_LETTER_H
#define RP_BROKER_SEND_DEAD_LETTER_H

#include "send_path.h"

/* Changes the topic to the dead letter topic of the group whose retry topic it was. RP_OK, RP_PUNT, RP_E_NO_MEMORY. */
int rp_send_redirect_to_dead_letters(rp_send_request *request);
/* Removes its delay. RP_OK, RP_E_NO_MEMORY. */
int rp_send_mark_dead_letter(rp_send_request *request);

#endif
