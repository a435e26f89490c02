/* light_targets.c: see light_targets.h. */
#include "light_targets.h"

#include <string.h>

#include "../base/decimal_inl.h"
#include "../base/utf8_inl.h"
#include "consume_queue_inl.h"
#include "consume_queue_space.h"
#include "light_queue.h"
#include "message_store_inl.h"

#define PAIR_HEAD RP_LIGHT_OFFSETS "\x01"
#define PAIR_END 2
#define OFFSET_DIGITS_MAX (RP_DECIMAL_SIZE_MAX - 1) /* no offset is negative */
#define TRANSACTIONS "RMQ_SYS_TRANS_"
#define LAST_PART (RP_APPEND_PROPERTY_PARTS - 1)

int rp_light_queues_are_on(const rp_message_store *store, rp_slice topic) {
    bool is_of_transactions = topic.size >= sizeof TRANSACTIONS - 1 && memcmp(topic.data, TRANSACTIONS, sizeof TRANSACTIONS - 1) == 0;
    return store->options.light_queues_max > 0 && rp_topic_has_light_queues(topic) && !is_of_transactions;
}

rp_slice rp_light_names_of(const rp_message_store *store, rp_slice topic, rp_slice properties) {
    rp_slice none = {NULL, 0};
    if (!rp_light_queues_are_on(store, topic)) {
        return none;
    }
    rp_slice names = rp_message_property(properties, RP_LIGHT_NAMES);
    return rp_light_names_count(names) > 0 ? names : none;
}

/* Is this the name of a light queue, valid as a directory's name, and text? It is checked only here, and shown to users later. */
static bool is_light_name(rp_slice name) {
    bool is_valid = rp_is_light_queue(name) && rp_queue_table_takes(name);
    for (uint32_t at = 0; at < name.size && is_valid;) {
        int is_whole;
        is_valid = name.data[at] >= ' ' && name.data[at] != 0x7F;
        at += rp_utf8_next(name.data + at, name.size - at, &is_whole);
        is_valid = is_valid && is_whole;
    }
    return is_valid;
}

int rp_light_names_are_valid(rp_slice names) {
    uint32_t count = rp_light_names_count(names);
    bool are_valid = count <= RP_LIGHT_TARGETS_MAX;
    for (uint32_t i = 0; i < count && are_valid; i++) {
        are_valid = is_light_name(rp_light_list_take(&names));
    }
    return are_valid;
}

size_t rp_light_offsets_size_max(rp_slice names) {
    return 1 + sizeof PAIR_HEAD + (size_t)rp_light_names_count(names) * (OFFSET_DIGITS_MAX + 1);
}

size_t rp_light_targets_size(rp_slice names, rp_slice last_part) {
    uint32_t count = rp_light_names_count(names);
    size_t text_size = last_part.size + rp_light_offsets_size_max(names);
    return count > RP_LIGHT_TARGETS_MAX ? 0 : sizeof(rp_light_targets) + count * sizeof(rp_light_target) + text_size;
}

/* Writes what stands before the offsets: a separator if the part before does not end with one, the item's last part, the property's
 * name. */
static void begin_text(rp_light_targets *targets, const rp_append_item *item) {
    uint8_t *at = targets->text = (uint8_t *)&targets->targets[targets->count], last = PAIR_END;
    for (uint32_t i = 0; i < LAST_PART; i++) {
        last = item->properties[i].size > 0 ? item->properties[i].data[item->properties[i].size - 1] : last;
    }
    if (last != PAIR_END) {
        *at++ = PAIR_END;
    }
    if (item->properties[LAST_PART].size > 0) {
        memcpy(at, item->properties[LAST_PART].data, item->properties[LAST_PART].size);
        at += item->properties[LAST_PART].size;
    }
    memcpy(at, PAIR_HEAD, sizeof PAIR_HEAD - 1);
    targets->head_size = (uint32_t)(at - targets->text) + sizeof PAIR_HEAD - 1;
}

/* Can all names be opened, and is none of them the item's own queue? Checked before any of the queues is created. */
static bool can_go_there(rp_slice names, const rp_append_item *item) {
    rp_slice own = rp_consume_queue_topic(item->queue);
    bool can = rp_light_names_are_valid(names);
    while (can && names.size > 0) {
        rp_slice name = rp_light_list_take(&names);
        can = name.size != own.size || memcmp(name.data, own.data, own.size) != 0;
    }
    return can;
}

static int open_target(rp_message_store *store, rp_slice name, rp_consume_queue **queue) {
    rp_error error = {0};
    *queue = rp_queue_table_find_light(store->queues, name, store->options.light_queues_max, &error);
    if (*queue == NULL) {
        return error.status;
    }
    int rc = rp_consume_queue_max_offset(*queue) == 0 ? rp_message_store_prepare_queue(store, *queue, &error) : RP_OK;
    bool would_hit_any_queue = error.status == RP_E_DISK_FULL || error.status == RP_E_NO_MEMORY;
    return rc != RP_OK && would_hit_any_queue ? error.status : rc;
}

int rp_light_targets_open(rp_message_store *store, rp_slice names, void *room, rp_append_item *item) {
    rp_light_targets *targets = room;
    if (!can_go_there(names, item)) {
        return RP_E_INVALID;
    }
    targets->count = rp_light_names_count(names);
    for (uint32_t i = 0; i < targets->count; i++) {
        rp_light_target *target = &targets->targets[i];
        int rc = open_target(store, rp_light_list_take(&names), &target->queue);
        if (rc != RP_OK) {
            return rc;
        }
        target->first = 0;
        while (targets->targets[target->first].queue != target->queue) {
            target->first++;
        }
    }
    begin_text(targets, item);
    item->properties[LAST_PART] = (rp_slice){targets->text, targets->head_size};
    item->light = targets;
    return RP_OK;
}

void rp_light_targets_number(rp_append_item *item, int holds_back) {
    rp_light_targets *targets = item->light;
    uint8_t *at = targets->text + targets->head_size;
    for (uint32_t i = 0; i < targets->count; i++) {
        const rp_consume_queue *queue = targets->targets[i].queue;
        int64_t next = holds_back ? rp_consume_queue_next_offset(queue) : rp_consume_queue_max_offset(queue);
        at = rp_decimal(at, next + queue->staged);
        *at++ = i + 1 < targets->count ? ',' : PAIR_END;
    }
    item->properties[LAST_PART].size = (uint32_t)(at - targets->text);
}

/* Returns the next queue from *at on, each only once; NULL: there are no more. */
static rp_consume_queue *next_queue(const rp_light_targets *targets, uint32_t *at) {
    while (*at < targets->count) {
        const rp_light_target *target = &targets->targets[*at];
        if (target->first == (*at)++) {
            return target->queue;
        }
    }
    return NULL;
}

int rp_light_targets_need_write(const rp_light_targets *targets) {
    rp_consume_queue *queue;
    uint32_t at = 0;
    while ((queue = next_queue(targets, &at)) != NULL) {
        if (queue->staged != 0 && rp_consume_queue_end_entry(queue) + queue->staged >= queue->allocated_end) {
            return 1;
        }
    }
    return 0;
}

int rp_light_targets_reserve(const rp_light_targets *targets, rp_error *error) {
    rp_consume_queue *queue;
    uint32_t at = 0;
    int rc = RP_OK;
    while (rc == RP_OK && (queue = next_queue(targets, &at)) != NULL) {
        rc = rp_consume_queue_reserve(queue, error);
    }
    return rc;
}

int rp_light_targets_write(const rp_light_targets *targets, const rp_queue_entry *entry, rp_error *error) {
    rp_consume_queue *queue;
    uint32_t at = 0;
    int rc = RP_OK;
    while (rc == RP_OK && (queue = next_queue(targets, &at)) != NULL) {
        rc = rp_consume_queue_write(queue, entry, error);
    }
    if (rc != RP_OK) {
        for (at = 0; (queue = next_queue(targets, &at)) != NULL;) {
            rp_consume_queue_unwrite(queue);
        }
    }
    return rc;
}

void rp_light_targets_put(const rp_light_targets *targets, const rp_queue_entry *entry) {
    rp_consume_queue *queue;
    uint32_t at = 0;
    while ((queue = next_queue(targets, &at)) != NULL) {
        rp_consume_queue_put(queue, entry);
    }
}

void rp_light_targets_show(const rp_light_targets *targets, const rp_queue_entry *entry) {
    rp_consume_queue *queue;
    uint32_t at = 0;
    while ((queue = next_queue(targets, &at)) != NULL) {
        rp_consume_queue_show(queue, entry);
    }
}

void rp_light_targets_place(const rp_light_targets *targets) {
    rp_consume_queue *queue;
    uint32_t at = 0;
    while ((queue = next_queue(targets, &at)) != NULL) {
        rp_consume_queue_place(queue, rp_consume_queue_next_offset(queue) + 1);
    }
}

void rp_light_targets_stage(const rp_light_targets *targets, int64_t change) {
    rp_consume_queue *queue;
    uint32_t at = 0;
    while ((queue = next_queue(targets, &at)) != NULL) {
        queue->staged += change;
    }
}
