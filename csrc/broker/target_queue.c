/* target_queue.c: see target_queue.h. */
#include "target_queue.h"

#include "../store/message.h"
#include "escape_bridge.h"
#include "forbidden_topics.h"
#include "lane.h"

static int read_place(rp_slice properties, rp_target_queue *target) {
    target->name = rp_message_property(properties, "REAL_TOPIC");
    if (target->name.size == 0 || target->name.size > RP_TOPIC_NAME_MAX || rp_topic_is_forbidden(target->name) ||
        rp_slice_to_i32(rp_message_property(properties, "REAL_QID"), &target->queue_id) != RP_OK || target->queue_id < 0 ||
        target->queue_id >= RP_TOPIC_QUEUES_MAX)
        return RP_E_INVALID;
    return RP_OK;
}

/* Opens the queue in the store. The bound of queues is permanent, that of descriptors is not. A message that goes to another broker
 * needs only the queue's name: a slave creates no files of its own. */
static int open_in_store(const rp_broker *broker, rp_target_queue *target) {
    rp_error error = {.status = RP_E_NO_MEMORY};
    target->queue = rp_message_store_queue(broker->store, target->name, target->queue_id, 1, &error);
    if (target->queue == NULL)
        return error.status == RP_E_BUSY ? RP_E_TOO_LARGE : error.status;
    if (rp_escape_is_on(broker))
        return RP_OK;
    int status = rp_message_store_prepare_queue(broker->store, target->queue, &error);
    return status == RP_OK || error.status == RP_OK || rp_target_is_none(error.status) ? status : error.status;
}

int rp_target_queue_open(rp_broker *broker, rp_slice properties, rp_target_queue *target) {
    *target = (rp_target_queue){.queue_id = -1};
    if (read_place(properties, target) != RP_OK)
        return RP_E_INVALID;
    target->topic = rp_topic_table_find(broker->topics, target->name);
    if (target->topic == NULL || rp_escape_is_on(broker))
        return open_in_store(broker, target);
    if (rp_topic_open_queue_to_send(broker->topics, target->topic, target->queue_id, &target->queue) != NULL)
        return RP_OK;
    int status = open_in_store(broker, target); /* which gives the reason */
    return status != RP_OK ? status : RP_E_IO;  /* or it is gone, as the topic is while it is being deleted */
}

int rp_target_is_none(int status) { return status == RP_E_INVALID || status == RP_E_TOO_LARGE; }

const char *rp_target_refusal(int status) {
    return status == RP_E_TOO_LARGE ? "the store has as many queues as it may, none for topic "
                                    : "its properties REAL_TOPIC and REAL_QID name no queue that it may go to: ";
}
