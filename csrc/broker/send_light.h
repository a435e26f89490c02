/* send_light.h: sends to light queues besides their topic (store/light_queue.h), and to lite topics. Private to csrc/broker.
 * RocketMQ: LmqDispatch, HookUtils.handleLmqQuota, SendMessageProcessor.sendMessage (5.5.0 store/, broker/).
 *
 * Threads  the reactor's.
 */
#ifndef RP_BROKER_SEND_LIGHT_H
#define RP_BROKER_SEND_LIGHT_H

#include "send_path.h"

/* Of a message with a lite topic (rp_lite_queue_name): it goes to that one's light queue, whatever others it names. RP_OK, also of those to
 * topics that have no light queues; RP_PUNT; RP_E_NO_MEMORY; or what the answer to a refusal returned. */
int rp_send_name_lite_queue(rp_send_request *request);
/* Of a message that names some. RP_OK, or what the answer to a refusal returned: RocketMQ gives names of other queues no offset, and
 * dispatches nothing any more behind a list that begins with such a one. A lite topic is its parent's alone: rights are asked of the topic
 * that is sent to. */
int rp_send_check_light_queues(const rp_send_request *request);
/* Has the item, which is ready but for that, go there, if it is in its topic by now. RP_OK; RP_E_NO_MEMORY; RP_E_IO, RP_E_DISK_FULL; or
 * what the answer to a refusal returned. */
int rp_send_add_light_queues(rp_send_request *request, rp_append_item *item);
/* Of a message of a batch, which is in none: only the broker says where a message is in light queues. RP_OK, RP_E_NO_MEMORY. */
int rp_send_drop_light_offsets(const rp_send_request *request, rp_slice *properties);

#endif
