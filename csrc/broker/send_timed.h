/* send_timed.h: sends of messages with a timer: they wait in rmq_sys_wheel_timer. Private to csrc/broker.
 * RocketMQ: HookUtils.handleScheduleMessage, SendMessageProcessor.attachRecallHandle (5.3.3 broker/), RecallMessageHandle (common/).
 *
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_SEND_TIMED_H
#define RP_BROKER_SEND_TIMED_H

#include "send_path.h"

/* Redirects a message with a timer to the timer queue. RP_OK: request->out_ms says until when it waits, and its sender is told of the
 * queue it sent to; RP_E_NOT_FOUND: its time is over, so it is a plain message; RP_E_NO_MEMORY, or the result of answering a refusal. */
int rp_send_wait_for_time(rp_send_request *request);
/* Makes the handle by which the sender may recall the message: base64 of "v1 topic broker time key". RP_OK; data NULL where RocketMQ
 * gives none; RP_E_NO_MEMORY. */
int rp_send_make_recall_handle(const rp_send_request *request, rp_slice *handle);

#endif
