/* shown_properties.c: see shown_properties.h. */
#include "shown_properties.h"

#include <stddef.h>
#include <string.h>

#include "../base/slice_inl.h"

#define NAME_END 1
#define PAIR_END 2

typedef struct shown_name {
    const char *name;
    size_t place; /* offset in rp_shown_properties */
} shown_name;

static const shown_name names[] = {
    {"TAGS", offsetof(rp_shown_properties, tag)},
    {"KEYS", offsetof(rp_shown_properties, keys)},
    {"UNIQ_KEY", offsetof(rp_shown_properties, message_id)},
    {"TRAN_MSG", offsetof(rp_shown_properties, transaction)},
    {"DELAY", offsetof(rp_shown_properties, delay_level)},
    {"TIMER_DELIVER_MS", offsetof(rp_shown_properties, deliver_ms)},
    {"TIMER_DELAY_SEC", offsetof(rp_shown_properties, delay_s)},
    {"TIMER_DELAY_MS", offsetof(rp_shown_properties, delay_ms)},
    {"__BORNHOST", offsetof(rp_shown_properties, born_host)},
    {"__SHARDINGKEY", offsetof(rp_shown_properties, message_group)},
    {"TRACE_CONTEXT", offsetof(rp_shown_properties, trace_context)},
    {"DLQ_ORIGIN_TOPIC", offsetof(rp_shown_properties, dead_topic)},
    {"DLQ_ORIGIN_MESSAGE_ID", offsetof(rp_shown_properties, dead_id)},
    {"__LITE_TOPIC", offsetof(rp_shown_properties, lite_topic)},
    {"_SYS_MSG_PRIORITY_", offsetof(rp_shown_properties, priority)},
    {"POP_CK", offsetof(rp_shown_properties, handle)},
};

int rp_stored_property_next(rp_slice *properties, rp_slice *name, rp_slice *value) {
    while (properties->size > 0) {
        const uint8_t *begin = properties->data, *pair_end = memchr(begin, PAIR_END, properties->size);
        uint32_t size = pair_end != NULL ? (uint32_t)(pair_end - begin) : properties->size;
        uint32_t taken = pair_end != NULL ? size + 1 : size;
        *properties = (rp_slice){begin + taken, properties->size - taken};
        const uint8_t *name_end = size > 0 ? memchr(begin, NAME_END, size) : NULL;
        if (name_end != NULL) {
            *name = (rp_slice){begin, (uint32_t)(name_end - begin)};
            *value = (rp_slice){name_end + 1, size - name->size - 1};
            return 1;
        }
    }
    return 0;
}

void rp_shown_properties_read(rp_slice properties, rp_shown_properties *shown) {
    rp_slice name, value;
    *shown = (rp_shown_properties){0};
    while (rp_stored_property_next(&properties, &name, &value)) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            if (name.size > 0 && name.data[0] == (uint8_t)names[i].name[0] && rp_slice_is(name, names[i].name))
                memcpy((uint8_t *)shown + names[i].place, &value, sizeof value);
        }
    }
}
