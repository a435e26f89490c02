/* light_queue.c: see light_queue.h. */
#include "light_queue.h"

#include <stdbool.h>
#include <string.h>

#include "../base/java_number.h"
#include "consume_queue.h"
#include "message.h"
#include "topic_prefix_inl.h"

#define PREFIX "%LMQ%"
#define PREFIX_SIZE ((uint32_t)sizeof PREFIX - 1)
#define SEPARATOR ','
#define LITE_PREFIX PREFIX "$"
#define LITE_PREFIX_SIZE ((uint32_t)sizeof LITE_PREFIX - 1)
#define LITE_SEPARATOR '$'

int rp_is_light_queue(rp_slice topic) { return topic.size > PREFIX_SIZE && memcmp(topic.data, PREFIX, PREFIX_SIZE) == 0; }

rp_light_queues rp_light_queues_of(rp_slice properties) {
    rp_light_queues queues = {rp_message_property(properties, RP_LIGHT_NAMES), {NULL, 0}};
    if (queues.names.size != 0) {
        queues.offsets = rp_message_property(properties, RP_LIGHT_OFFSETS);
    }
    return queues;
}

static bool is_lite_part(rp_slice part) { return part.size > 0 && memchr(part.data, LITE_SEPARATOR, part.size) == NULL; }

uint32_t rp_lite_queue_name(rp_slice parent, rp_slice lite, uint8_t *name) {
    uint64_t size = (uint64_t)LITE_PREFIX_SIZE + parent.size + 1 + lite.size;
    if (!is_lite_part(parent) || !is_lite_part(lite) || size > RP_LITE_NAME_MAX) {
        return 0;
    }
    memcpy(name, LITE_PREFIX, LITE_PREFIX_SIZE);
    memcpy(name + LITE_PREFIX_SIZE, parent.data, parent.size);
    name[LITE_PREFIX_SIZE + parent.size] = LITE_SEPARATOR;
    memcpy(name + LITE_PREFIX_SIZE + parent.size + 1, lite.data, lite.size);
    return (uint32_t)size;
}

int rp_lite_queue_parts(rp_slice queue, rp_slice *parent, rp_slice *lite) {
    if (queue.size <= LITE_PREFIX_SIZE || memcmp(queue.data, LITE_PREFIX, LITE_PREFIX_SIZE) != 0) {
        return 0;
    }
    const uint8_t *begin = queue.data + LITE_PREFIX_SIZE, *end = queue.data + queue.size;
    const uint8_t *middle = memchr(begin, LITE_SEPARATOR, (size_t)(end - begin));
    if (middle == NULL) {
        return 0;
    }
    *parent = (rp_slice){begin, (uint32_t)(middle - begin)};
    *lite = (rp_slice){middle + 1, (uint32_t)(end - middle - 1)};
    return is_lite_part(*parent) && is_lite_part(*lite);
}

int rp_is_lite_queue(rp_slice queue) {
    rp_slice parent, lite;
    return rp_lite_queue_parts(queue, &parent, &lite);
}

static int begins_with(rp_slice text, const char *prefix) {
    size_t size = strlen(prefix);
    return text.size >= size && memcmp(text.data, prefix, size) == 0;
}

int rp_topic_has_light_queues(rp_slice topic) {
    return !rp_is_retry_topic(topic) && !begins_with(topic, RP_DLQ_PREFIX) && !begins_with(topic, "rmq_sys_") &&
           !(topic.size == sizeof RP_DELAY_TOPIC - 1 && begins_with(topic, RP_DELAY_TOPIC));
}

uint32_t rp_light_names_count(rp_slice names) {
    while (names.size > 0 && names.data[names.size - 1] == SEPARATOR) {
        names.size--;
    }
    uint32_t count = names.size > 0, blanks = 0;
    for (uint32_t i = 0; i < names.size; i++) {
        count += names.data[i] == SEPARATOR;
        blanks += names.data[i] <= ' ';
    }
    return blanks < names.size ? count : 0;
}

rp_slice rp_light_list_take(rp_slice *list) {
    const uint8_t *separator = list->size == 0 ? NULL : memchr(list->data, SEPARATOR, list->size);
    rp_slice part = {list->data, separator == NULL ? list->size : (uint32_t)(separator - list->data)};
    uint32_t used = part.size + (separator != NULL);
    *list = list->size == used ? (rp_slice){NULL, 0} : (rp_slice){list->data + used, list->size - used};
    return part;
}

int rp_light_queues_next(rp_light_queues *queues, rp_slice *name, int64_t *offset) {
    while (queues->names.size != 0) {
        *name = rp_light_list_take(&queues->names);
        int is_offset = rp_java_integer(rp_light_list_take(&queues->offsets), 0, INT64_MAX, offset);
        if (rp_is_light_queue(*name)) { /* RocketMQ gives offsets only for light queues, so other names are skipped */
            return is_offset;
        }
    }
    return 0;
}

int rp_light_queue_holds(rp_slice topic, rp_slice properties, int64_t offset) {
    rp_light_queues queues = rp_light_queues_of(properties);
    rp_slice name;
    int64_t at;
    while (rp_light_queues_next(&queues, &name, &at)) {
        if (at == offset && name.size == topic.size && memcmp(name.data, topic.data, topic.size) == 0) {
            return 1;
        }
    }
    return 0;
}
