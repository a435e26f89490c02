/* send_timed.h: sends of messages with a time of their own: they wait in rmq_sys_wheel_timer. Private to csrc/broker.
 * RocketMQ: HookUtils.handleScheduleMessage, SendMessageProcessor.attachRecallHandle (5.3.3 broker/), RecallMessageHandle (common/).
 *
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_SEND_TIMED_H
#define RP_BROKER_SEND_TIMED_H

#include "send_path.h"

/* Of a message that says it has a timer. RP_OK: it has its place in the timer queue now, request->out_ms says until when, and its sender is
 * told of the queue it was sent to; RP_E_NOT_FOUND: it is a plain one, its time is over; RP_E_NO_MEMORY, or what the answer to a refusal
 * returned. */
int rp_send_wait_for_time(rp_send_request *request);
/* What its sender may take it back by: base64 of "v1 topic broker time key". RP_OK; data NULL where RocketMQ gives none; RP_E_NO_MEMORY. */
int rp_send_make_recall_handle(const rp_send_request *request, rp_slice *handle);

#endif
