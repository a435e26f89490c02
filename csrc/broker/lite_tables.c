/* lite_tables.c: Python's calls about lite topics (lite.h). */
#include "lite.h"

#include "../base/clock.h"
#include "../base/clock_inl.h"
#include "../base/slice_inl.h"
#include "../store/light_queue.h"
#include "lane.h"
#include "lite_readers.h"

int rp_broker_put_lite_group(rp_broker *broker, rp_slice name, rp_slice topic_name, int32_t is_wildcard) {
    rp_group *group = rp_group_table_entry(broker->groups, name);
    rp_topic *topic = topic_name.size > 0 ? rp_topic_table_entry(broker->topics, topic_name) : NULL;
    if (group == NULL || (topic == NULL && topic_name.size > 0))
        return name.size == 0 || name.size > RP_TOPIC_NAME_MAX || topic_name.size > RP_TOPIC_NAME_MAX ? RP_E_INVALID : RP_E_NO_MEMORY;
    atomic_store_explicit(&group->lite_wildcard, is_wildcard != 0, memory_order_relaxed);
    atomic_store_explicit(&group->lite_topic, topic, memory_order_release);
    return RP_OK;
}

static int is_client(rp_slice client) { return client.data != NULL && client.size > 0 && client.size <= RP_LITE_CLIENT_MAX; }

/* Offers the messages that are there, after subscribing: a message that arrives in between is seen by one of the two. */
static int offer(rp_broker *broker, const rp_group *group, rp_slice name) {
    rp_consume_queue *queue = rp_message_store_queue(broker->store, name, RP_LIGHT_QUEUE_ID, 0, NULL);
    if (queue != NULL && rp_consume_queue_max_offset(queue) > 0)
        (void)rp_lite_offer(broker->lite, group, queue);
    return RP_OK;
}

int rp_broker_put_lite_reader(rp_broker *broker, rp_slice group_name, rp_slice client, rp_slice queue) {
    rp_group *group = rp_group_table_entry(broker->groups, group_name);
    if (group == NULL || !is_client(client) || queue.size > RP_LITE_NAME_MAX || !rp_is_lite_queue(queue))
        return RP_E_INVALID;
    int status = rp_lite_subscribe(broker->lite, group, client, queue);
    return status == 1 ? offer(broker, group, queue) : status;
}

void rp_broker_delete_lite_reader(rp_broker *broker, rp_slice group_name, rp_slice client, rp_slice queue) {
    const rp_group *group = rp_group_table_known(broker->groups, group_name);
    if (group != NULL && is_client(client))
        rp_lite_unsubscribe(broker->lite, group, client, queue);
}

void rp_broker_delete_lite_readers(rp_broker *broker, rp_slice group_name, rp_slice client) {
    const rp_group *group = rp_group_table_known(broker->groups, group_name);
    if (group != NULL)
        rp_lite_unsubscribe_all(broker->lite, group, client);
}

typedef struct wildcard_walk {
    rp_broker *broker;
    const rp_group *group;
    rp_slice topic;
    int status;
} wildcard_walk;

static int offer_queue(void *context, rp_consume_queue *queue) {
    wildcard_walk *walk = context;
    rp_slice parent, lite;
    if (rp_consume_queue_is_lite(queue) && rp_consume_queue_max_offset(queue) > 0 &&
        rp_lite_queue_parts(rp_consume_queue_topic(queue), &parent, &lite) && rp_slice_equals(parent, walk->topic))
        walk->status = rp_lite_offer(walk->broker->lite, walk->group, queue);
    return walk->status != RP_OK;
}

int rp_broker_put_lite_wildcard(rp_broker *broker, rp_slice group_name, rp_slice topic) {
    rp_group *group = rp_group_table_entry(broker->groups, group_name);
    if (group == NULL || topic.size == 0 || topic.size > RP_TOPIC_NAME_MAX)
        return RP_E_INVALID;
    wildcard_walk walk = {broker, group, topic, rp_lite_read_all(broker->lite, group, topic)};
    if (walk.status == RP_OK)
        rp_message_store_each_queue(broker->store, offer_queue, &walk);
    return walk.status;
}

int rp_broker_lite_wildcard_has_missed(rp_broker *broker, rp_slice group_name) {
    const rp_group *group = rp_group_table_known(broker->groups, group_name);
    return group != NULL && rp_lite_has_missed(broker->lite, group);
}

void rp_broker_forget_lite_queue(rp_broker *broker, rp_slice queue) { rp_lite_forget(broker->lite, queue); }

void rp_broker_look_at_lite_queues(rp_broker *broker, rp_slice group_name, rp_slice client) {
    const rp_group *group = rp_group_table_known(broker->groups, group_name);
    if (group != NULL)
        rp_lite_look_at_all(broker->lite, group, client.size > 0 ? client : (rp_slice){NULL, 0});
}

void rp_broker_read_lite_stats(rp_broker *broker, rp_lite_stats *stats) {
    rp_lite_counts counts;
    rp_lite_read_counts(broker->lite, &counts);
    *stats = (rp_lite_stats){counts.readers, counts.subscriptions, counts.held};
}

int64_t rp_broker_lite_last_pop_ms(rp_broker *broker, rp_slice group_name, rp_slice client) {
    const rp_group *group = rp_group_table_known(broker->groups, group_name);
    int64_t at_ns = group != NULL ? rp_lite_last_pop_ns(broker->lite, group, client) : -1;
    return at_ns < 0 ? -1 : (rp_clock_monotonic_ns(rp_clock_system()) - at_ns) / RP_NS_PER_MS;
}
