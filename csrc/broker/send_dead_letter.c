/* send_dead_letter.c: see send_dead_letter.h. */
#include "send_dead_letter.h"

#include <string.h>

#include "../store/topic_prefix_inl.h"
#include "lane.h"
#include "property_text.h"

int rp_send_redirect_to_dead_letters(rp_send_request *request) {
    rp_slice topic = request->header.topic;
    if (!rp_is_retry_topic(topic) || topic.size == RP_RETRY_PREFIX_SIZE)
        return RP_PUNT;
    const uint8_t *group = topic.data + RP_RETRY_PREFIX_SIZE;
    uint32_t group_size =
        (uint32_t)(rp_find_byte(group, topic.data + topic.size, '+') - group); /* of POP's retry topics: KeyBuilder.parseGroup */
    uint8_t *name = rp_arena_take(rp_reactor_arena(request->lane->reactor), RP_DLQ_PREFIX_SIZE + group_size);
    if (name == NULL)
        return RP_E_NO_MEMORY;
    memcpy(name, RP_DLQ_PREFIX, RP_DLQ_PREFIX_SIZE);
    memcpy(name + RP_DLQ_PREFIX_SIZE, group, group_size);
    request->header.topic = (rp_slice){name, RP_DLQ_PREFIX_SIZE + group_size};
    request->header.queue_id = -1;
    return RP_OK;
}

int rp_send_mark_dead_letter(rp_send_request *request) {
    static const char *const replaced[] = {"DELAY", NULL};
    rp_slice sent = request->properties.text;
    uint8_t *start = rp_arena_take(rp_reactor_arena(request->lane->reactor), (size_t)sent.size + RP_PROPERTY_TEXT_ROOM);
    if (start == NULL)
        return RP_E_NO_MEMORY;
    uint8_t *end = rp_put_number_pair(rp_copy_pairs_without(start, sent, replaced), "DELAY", -1);
    request->properties.text = (rp_slice){start, (uint32_t)(end - start)};
    request->properties.delay_level = 0;
    return RP_OK;
}
