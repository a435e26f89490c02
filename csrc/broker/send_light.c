/* send_light.c: see send_light.h. */
#include "send_light.h"

#include "../base/slice_inl.h"
#include "../store/light_queue.h"
#include "../store/light_targets.h"
#include "lane.h"
#include "property_text.h"
#include "send_response.h"

#define BAD_LIGHT_QUEUES                                                                                                                   \
    "the message is illegal: INNER_MULTI_DISPATCH comes twice, or names more than %d queues, or one that is not a light queue: "           \
    "%%LMQ%%NAME, "                                                                                                                        \
    "where NAME does for a directory, and not the queue it is sent to"
#define BAD_LITE_TOPIC                                                                                                                     \
    "the message is illegal: its __LITE_TOPIC makes no light queue: %%LMQ%%$TOPIC$LITE has 255 bytes at most, is one name that does for "  \
    "a "                                                                                                                                   \
    "directory, and has no $ but those"
#define ANOTHERS_LITE_TOPIC "the message is illegal: INNER_MULTI_DISPATCH names a lite topic of another topic"
#define NO_ROOM "the message is illegal: its properties leave no room for its offsets in light queues"
#define WAITING_ROOM 512u /* for what delay, timer and transaction add; generous */
#define LIGHT_QUEUES_EXCEEDED "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]lmq consume queue num exceeded."

#define FIELDS_OF(request) (request)->lane->broker->send_fields

/* True for replies and batches, which go to no light queue: Python refuses them. */
static int is_for_none(const rp_send_request *request) {
    int32_t code = request->command->code;
    return request->header.batch || code == RP_CODE_SEND_REPLY_MESSAGE || code == RP_CODE_SEND_REPLY_MESSAGE_V2;
}

int rp_send_name_lite_queue(rp_send_request *request) {
    static const char *const replaced[] = {RP_LIGHT_NAMES, NULL};
    rp_slice sent = request->properties.text, topic = request->header.topic;
    if (is_for_none(request) || (rp_topic_has_light_queues(topic) && !rp_light_queues_are_on(request->lane->broker->store, topic)))
        return RP_PUNT;
    if (!rp_topic_has_light_queues(topic))
        return RP_OK;
    uint8_t name[RP_LITE_NAME_MAX];
    rp_slice queue = {name, rp_lite_queue_name(topic, request->properties.lite_topic, name)};
    if (rp_light_names_count(queue) != 1 || !rp_light_names_are_valid(queue))
        return rp_answer(request->to, RP_RESPONSE_MESSAGE_ILLEGAL, FIELDS_OF(request), RP_SEND_FIELD_COUNT, BAD_LITE_TOPIC);
    uint8_t *start = rp_arena_take(rp_reactor_arena(request->lane->reactor), (size_t)sent.size + RP_LITE_NAME_MAX + RP_PROPERTY_TEXT_ROOM);
    if (start == NULL)
        return RP_E_NO_MEMORY;
    uint8_t *end = rp_put_pair(rp_copy_pairs_without(start, sent, replaced), RP_LIGHT_NAMES, queue);
    request->properties.text = (rp_slice){start, (uint32_t)(end - start)};
    request->properties.light_names = (rp_slice){end - 1 - queue.size, queue.size};
    request->properties.light_lists = 1;
    return RP_OK;
}

static int answer_bad_light_queues(const rp_send_request *request) {
    return rp_answer(request->to, RP_RESPONSE_MESSAGE_ILLEGAL, FIELDS_OF(request), RP_SEND_FIELD_COUNT, BAD_LIGHT_QUEUES,
                     RP_LIGHT_TARGETS_MAX);
}

/* For a message that first waits: is there room for the properties it gets until it reaches its queues? */
static int will_fit(const rp_send_request *request) {
    const rp_sent_properties *properties = &request->properties;
    size_t size = (size_t)properties->text.size + properties->unique_key.size + request->header.topic.size + WAITING_ROOM +
                  request->lane->broker->property_tail.size + rp_light_offsets_size_max(properties->light_names);
    int waits = request->is_prepared || properties->delay_level > 0 || properties->timed;
    return !waits || size <= RP_PROPERTIES_SIZE_MAX;
}

/* A producer that may send to one topic must not write into the lite topics of another. */
static int names_lite_topic_of_another(const rp_send_request *request) {
    rp_slice names = request->properties.light_names, parent, lite;
    while (names.size > 0) {
        rp_slice name = rp_light_list_take(&names);
        if (!rp_lite_queue_parts(name, &parent, &lite) || rp_slice_equals(parent, request->topic->head.name))
            continue;
        const rp_topic *topic = rp_topic_table_find(request->lane->broker->topics, parent);
        if (topic != NULL && (atomic_load_explicit(&topic->flags, memory_order_relaxed) & RP_TOPIC_LITE))
            return 1;
    }
    return 0;
}

int rp_send_check_light_queues(const rp_send_request *request) {
    const rp_sent_properties *properties = &request->properties;
    if (!rp_light_queues_are_on(request->lane->broker->store, request->topic->head.name))
        return RP_OK;
    int is_valid = properties->light_lists == 1 && rp_light_names_are_valid(properties->light_names);
    if (is_valid && !will_fit(request))
        return rp_answer(request->to, RP_RESPONSE_MESSAGE_ILLEGAL, FIELDS_OF(request), RP_SEND_FIELD_COUNT, NO_ROOM);
    if (is_valid && names_lite_topic_of_another(request))
        return rp_answer(request->to, RP_RESPONSE_MESSAGE_ILLEGAL, FIELDS_OF(request), RP_SEND_FIELD_COUNT, ANOTHERS_LITE_TOPIC);
    return is_valid ? RP_OK : answer_bad_light_queues(request);
}

int rp_send_add_light_queues(rp_send_request *request, rp_append_item *item) {
    rp_message_store *store = request->lane->broker->store;
    rp_slice names = request->properties.light_names;
    if (!rp_light_queues_are_on(store, rp_consume_queue_topic(item->queue)) || rp_light_names_count(names) == 0)
        return RP_OK;
    size_t size = rp_light_targets_size(names, item->properties[RP_APPEND_PROPERTY_PARTS - 1]);
    void *room = size > 0 ? rp_arena_take(rp_reactor_arena(request->lane->reactor), size) : NULL;
    int status = room != NULL ? rp_light_targets_open(store, names, room, item) : RP_E_NO_MEMORY;
    if (status == RP_E_INVALID)
        return answer_bad_light_queues(request);
    if (status == RP_E_BUSY)
        return rp_answer(request->to, RP_RESPONSE_SYSTEM_ERROR, FIELDS_OF(request), RP_SEND_FIELD_COUNT, LIGHT_QUEUES_EXCEEDED);
    return status;
}

int rp_send_drop_light_offsets(const rp_send_request *request, rp_slice *properties) {
    static const char *const dropped[] = {RP_LIGHT_OFFSETS, NULL};
    if (rp_message_property(*properties, dropped[0]).data == NULL)
        return RP_OK;
    uint8_t *start = rp_arena_take(rp_reactor_arena(request->lane->reactor), (size_t)properties->size + 1);
    if (start == NULL)
        return RP_E_NO_MEMORY;
    *properties = (rp_slice){start, (uint32_t)(rp_copy_pairs_without(start, *properties, dropped) - start)};
    return RP_OK;
}
