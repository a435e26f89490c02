/* send_dead_letter.c: see send_dead_letter.h. */
#include "send_dead_letter.h"

#include <string.h>

#include "lane.h"
#include "property_text.h"

int rp_send_redirect_to_dead_letters(rp_send_request *request) {
    static const char retry[] = "%RETRY%", dead_letters[] = "%DLQ%";
    rp_slice topic = request->header.topic;
    if (topic.size < sizeof retry || memcmp(topic.data, retry, sizeof retry - 1) != 0)
        return RP_PUNT;
    const uint8_t *group = topic.data + sizeof retry - 1;
    uint32_t group_size =
        (uint32_t)(rp_find_byte(group, topic.data + topic.size, '+') - group); /* of POP's retry topics: KeyBuilder.parseGroup */
    uint8_t *name = rp_arena_take(rp_reactor_arena(request->lane->reactor), sizeof dead_letters + group_size);
    if (name == NULL)
        return RP_E_NO_MEMORY;
    memcpy(name, dead_letters, sizeof dead_letters - 1);
    memcpy(name + sizeof dead_letters - 1, group, group_size);
    request->header.topic = (rp_slice){name, (uint32_t)(sizeof dead_letters - 1) + group_size};
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
