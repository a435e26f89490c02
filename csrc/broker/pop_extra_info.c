/* pop_extra_info.c: see pop_extra_info.h. */
#include "pop_extra_info.h"

#include <string.h>

#include "../remoting/command.h"
#include "../store/topic_prefix_inl.h"

#define PARTS 6

/* As Java's split: returns the number of parts, of which the first six are kept. */
static int split(rp_slice text, rp_slice parts[PARTS]) {
    const uint8_t *at = text.data, *last = text.data + text.size;
    for (int i = 0; i < PARTS; i++) {
        if (at == NULL || at > last)
            return RP_E_PROTOCOL;
        const uint8_t *end = memchr(at, ' ', (size_t)(last - at));
        parts[i] = (rp_slice){at, (uint32_t)((end != NULL ? end : last) - at)};
        at = end != NULL ? end + 1 : NULL;
    }
    return RP_OK;
}

int rp_pop_extra_info_read(rp_slice text, rp_pop_extra_info *info) {
    rp_slice parts[PARTS];
    if (text.size == 0 || split(text, parts) != RP_OK || rp_slice_to_i64(parts[0], &info->start_offset) != RP_OK ||
        rp_slice_to_i64(parts[1], &info->pop_time_ms) != RP_OK || rp_slice_to_i64(parts[2], &info->invisible_ms) != RP_OK ||
        rp_slice_to_i32(parts[3], &info->revive_queue_id) != RP_OK)
        return RP_E_PROTOCOL;
    info->retry = parts[4];
    info->broker_name = parts[5];
    return RP_OK;
}

char rp_pop_retry_kind(rp_slice topic) {
    if (!rp_is_retry_topic(topic))
        return '0';
    return memchr(topic.data, '+', topic.size) != NULL ? '2' : '1';
}
