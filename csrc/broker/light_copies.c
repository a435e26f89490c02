/* light_copies.c: see light_copies.h. */
#include "light_copies.h"

#include <stdlib.h>

#include "../base/log_inl.h"
#include "../store/light_targets.h"
#include "../store/message.h"
#include "escape_bridge.h"
#include "lane.h"

#define CRC_ROOM 32u /* of the CRC that the log may put behind the properties */

static void tell_left_out(rp_broker *broker, rp_slice topic, int status) {
    if (rp_log_is_due(&broker->light_due_ns))
        rp_log_write(broker->options.log, RP_LOG_WARNING, "a message of topic %.*s goes to none of the light queues it names: %s",
                     (int)topic.size, (const char *)topic.data,
                     status == RP_E_BUSY        ? "the store has as many as it may"
                     : status == RP_E_TOO_LARGE ? "its properties leave no room for its offsets there"
                                                : "one of the names is not a light queue's, or there are too many");
}

/* Without the copies the record may still fit into the log: consumers of its topic get the message that the producer was told is stored. */
static int have_room(const rp_append_item *item, rp_slice names) {
    size_t size = rp_light_offsets_size_max(names) + CRC_ROOM;
    for (uint32_t i = 0; i < RP_APPEND_PROPERTY_PARTS; i++)
        size += item->properties[i].size;
    return size <= RP_PROPERTIES_SIZE_MAX;
}

int rp_copy_to_light_queues(rp_broker *broker, rp_append_item *item, void **room) {
    rp_slice topic = rp_consume_queue_topic(item->queue), names = rp_light_names_of(broker->store, topic, item->properties[0]);
    *room = NULL;
    if (names.size == 0 || rp_escape_is_on(broker)) /* the broker that stores the message handles them */
        return RP_OK;
    if (!have_room(item, names)) {
        tell_left_out(broker, topic, RP_E_TOO_LARGE);
        return RP_OK;
    }
    size_t size = rp_light_targets_size(names, item->properties[RP_APPEND_PROPERTY_PARTS - 1]);
    if (size > 0 && (*room = malloc(size)) == NULL)
        return RP_E_NO_MEMORY;
    int status = size > 0 ? rp_light_targets_open(broker->store, names, *room, item) : RP_E_INVALID;
    if (status == RP_OK)
        return RP_OK;
    free(*room);
    *room = NULL;
    if (status != RP_E_INVALID && status != RP_E_BUSY)
        return status;
    tell_left_out(broker, topic, status);
    return RP_OK;
}
