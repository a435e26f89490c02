/* send_light.h: sends to light queues besides their topic (store/light_queue.h), and to lite topics. Private to csrc/broker.
 * RocketMQ: LmqDispatch, HookUtils.handleLmqQuota, SendMessageProcessor.sendMessage (5.5.0 store/, broker/).
 *
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_SEND_LIGHT_H
#define RP_BROKER_SEND_LIGHT_H

#include "send_path.h"

/* A message with a lite topic (rp_lite_queue_name) goes to that topic's light queue, whatever others it names. RP_OK, also for topics
 * without light queues; RP_PUNT; RP_E_NO_MEMORY; or the result of answering a refusal. */
int rp_send_name_lite_queue(rp_send_request *request);
/* Checks the names of a message that names light queues. RP_OK, or the result of answering a refusal: RocketMQ gives names of other
 * queues no offset, and dispatches nothing any more behind a list that begins with one. A lite topic belongs to its parent alone: rights
 * are checked for the topic that is sent to. */
int rp_send_check_light_queues(const rp_send_request *request);
/* Adds the light queues to an item that is otherwise ready, if it already goes to its own topic. RP_OK; RP_E_NO_MEMORY; RP_E_IO,
 * RP_E_DISK_FULL; or the result of answering a refusal. */
int rp_send_add_light_queues(rp_send_request *request, rp_append_item *item);
/* For a message of a batch, which is in no light queue: removes offsets, which only the broker may set. RP_OK, RP_E_NO_MEMORY. */
int rp_send_drop_light_offsets(const rp_send_request *request, rp_slice *properties);

#endif
