/* broker_tables.c: writes and reads the tables on behalf of Python (broker.h). */
#include "broker.h"

#include <stdlib.h>
#include <string.h>

#include "../store/light_queue.h"
#include "lane.h"
#include "lite_readers.h"
#include "pop_choice.h"
#include "sql_filter.h"
#include "tag_filter.h"

#define SQL_ARENA_BYTES (8u << 20) /* for the code of the longest expression, its texts, and the program compiled from them */

static int is_name(rp_slice name) { return name.data != NULL && name.size > 0 && name.size <= RP_TOPIC_NAME_MAX; }

int rp_broker_compact_topic(rp_broker *broker, rp_slice name, int32_t queues, rp_error *error) {
    if (!is_name(name) || queues < 0 || queues > RP_TOPIC_QUEUES_MAX)
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "a topic has a name of 1 to 255 bytes, and %d queues at most",
                            RP_TOPIC_QUEUES_MAX);
    (void)rp_message_store_set_batch_topic(broker->store, name, 0); /* a deleted topic of that name may have been one of batch queues */
    return rp_message_store_compact(broker->store, name, queues, error);
}

static int is_compacted(const rp_topic *topic) {
    return rp_topic_is_live(topic) && (atomic_load_explicit(&topic->flags, memory_order_relaxed) & RP_TOPIC_COMPACTED);
}

int rp_broker_put_topic(rp_broker *broker, rp_slice name, int32_t read_queues, int32_t write_queues, int32_t permission, int32_t sys_flag,
                        uint32_t flags) {
    if (!is_name(name))
        return RP_E_INVALID;
    rp_topic *topic = rp_topic_table_entry(broker->topics, name);
    if (topic == NULL)
        return RP_E_NO_MEMORY;
    uint32_t changed = atomic_load_explicit(&topic->flags, memory_order_relaxed) ^ flags;
    if (is_compacted(topic) && !(flags & RP_TOPIC_COMPACTED)) /* deleted and created again, where a slave hears of both at once */
        rp_message_store_compact_no_more(broker->store, name);
    if ((changed & RP_TOPIC_BATCH) && rp_topic_is_live(topic))
        rp_topic_delete(topic); /* it was created anew, with other queues */
    int status = rp_message_store_set_batch_topic(broker->store, name, (flags & RP_TOPIC_BATCH) != 0);
    if (status != RP_OK)
        return status;
    status = rp_topic_put(topic, read_queues, write_queues, permission, sys_flag, flags);
    rp_long_polling_topic_changed(topic); /* pulls waiting on any of its queues may have more of them now */
    return status;
}

int rp_broker_put_queue_mapping(rp_broker *broker, rp_slice name, int32_t global_id, int32_t queue_id, int64_t logic_offset,
                                int64_t start_offset, int32_t is_earliest) {
    rp_topic *topic = rp_topic_table_entry(broker->topics, name);
    rp_mapped_queue queue = {logic_offset, start_offset, queue_id, is_earliest != 0};
    if (topic == NULL)
        return is_name(name) ? RP_E_NO_MEMORY : RP_E_INVALID;
    return rp_topic_map_queue(topic, global_id, queue_id != -1 ? &queue : NULL);
}

void rp_broker_mark_mapped_sends(rp_broker *broker) {
    uint32_t lanes = atomic_load_explicit(&broker->lane_count, memory_order_acquire);
    atomic_thread_fence(memory_order_seq_cst); /* orders the mappings stored before against the reads below */
    for (uint32_t i = 0; i < lanes; i++)
        broker->lanes[i]->mapped_mark = atomic_load_explicit(&broker->lanes[i]->mapped_begun, memory_order_relaxed);
}

int rp_broker_mapped_sends_are_over(const rp_broker *broker) {
    uint32_t lanes = atomic_load_explicit(&broker->lane_count, memory_order_acquire);
    for (uint32_t i = 0; i < lanes; i++) {
        if (atomic_load_explicit(&broker->lanes[i]->mapped_over, memory_order_acquire) < broker->lanes[i]->mapped_mark)
            return 0;
    }
    return 1;
}

int rp_broker_put_producer(rp_broker *broker, rp_slice client_id, uint32_t server, uint64_t connection_id) {
    uint64_t reactor = connection_id >> RP_CONNECTION_REACTOR_SHIFT;
    if (client_id.data == NULL || client_id.size == 0 || client_id.size > RP_CLIENT_ID_MAX || server >= broker->server_count ||
        reactor >= broker->server_reactors[server])
        return RP_E_INVALID;
    rp_producer_place place = {connection_id, (uint16_t)(broker->server_lanes[server] + reactor)};
    return rp_producer_table_put(broker->producers, client_id, place);
}

void rp_broker_delete_producer(rp_broker *broker, rp_slice client_id) {
    if (client_id.data != NULL)
        rp_producer_table_delete(broker->producers, client_id);
}

typedef struct pair_walk {
    rp_broker *broker;
    const rp_group *group; /* NULL: all groups */
    const rp_topic *topic; /* NULL: all topics */
} pair_walk;

static int is_of_walk(const pair_walk *walk, const rp_consumption *consumption) {
    return (walk->group == NULL || consumption->group == walk->group) && (walk->topic == NULL || consumption->topic == walk->topic);
}

/* The entry stays, and serves the next group or topic of that name, which begins without messages. */
static int forget_counts(void *context, rp_name_entry *entry) {
    rp_consumption *consumption = (rp_consumption *)entry;
    if (is_of_walk(context, consumption)) {
        atomic_store_explicit(&consumption->messages_out, 0, memory_order_relaxed);
        atomic_store_explicit(&consumption->bytes_out, 0, memory_order_relaxed);
        atomic_store_explicit(&consumption->sent_back, 0, memory_order_relaxed);
    }
    return 0;
}

void rp_broker_delete_topic(rp_broker *broker, rp_slice name) {
    rp_topic *topic = rp_topic_table_find(broker->topics, name);
    if (topic == NULL)
        return;
    if (is_compacted(topic))
        rp_message_store_compact_no_more(broker->store, name);
    rp_topic_delete(topic);
    (void)rp_message_store_set_batch_topic(broker->store, name, 0); /* removing a name needs no memory */
    rp_long_polling_topic_changed(topic);
    pair_walk walk = {.topic = topic};
    rp_group_table_each_consumption(broker->groups, forget_counts, &walk);
}

int rp_broker_put_group(rp_broker *broker, rp_slice name, int32_t consume_enable, int32_t consume_broadcast_enable, int64_t broker_id,
                        int64_t which_broker_when_slow, int32_t sys_flag) {
    if (!is_name(name))
        return RP_E_INVALID;
    rp_group *group = rp_group_table_entry(broker->groups, name);
    if (group == NULL)
        return RP_E_NO_MEMORY;
    atomic_store_explicit(&group->consume_enable, consume_enable, memory_order_relaxed);
    atomic_store_explicit(&group->broadcast_enable, consume_broadcast_enable, memory_order_relaxed);
    atomic_store_explicit(&group->broker_id, broker_id, memory_order_relaxed);
    atomic_store_explicit(&group->broker_when_slow, which_broker_when_slow, memory_order_relaxed);
    atomic_store_explicit(&group->sys_flag, sys_flag, memory_order_relaxed);
    atomic_store_explicit(&group->live, 1, memory_order_release);
    return RP_OK;
}

int rp_broker_set_priority_percent(rp_broker *broker, rp_slice name, int32_t percent) {
    rp_group *group = is_name(name) ? rp_group_table_entry(broker->groups, name) : NULL;
    if (group == NULL)
        return is_name(name) ? RP_E_NO_MEMORY : RP_E_INVALID;
    int32_t by_priority = percent < 0 ? 0 : percent > 100 ? 100 : percent;
    atomic_store_explicit(&group->fair_percent, 100 - by_priority, memory_order_relaxed);
    return RP_OK;
}

int rp_broker_set_retries(rp_broker *broker, rp_slice name, int32_t queues, int32_t times_max) {
    if (!is_name(name) || queues < 0 || queues > RP_TOPIC_QUEUES_MAX)
        return RP_E_INVALID;
    rp_group *group = rp_group_table_entry(broker->groups, name);
    if (group == NULL)
        return RP_E_NO_MEMORY;
    atomic_store_explicit(&group->retry_times_max, times_max, memory_order_relaxed);
    atomic_store_explicit(&group->retry_queues, queues, memory_order_relaxed);
    return RP_OK;
}

void rp_broker_set_locked(rp_broker *broker, rp_slice name, int32_t is_locked) {
    rp_group *group = is_name(name) ? rp_group_table_known(broker->groups, name) : NULL;
    if (group != NULL)
        atomic_store_explicit(&group->is_unlocked, is_locked == 0, memory_order_relaxed);
}

void rp_broker_delete_group(rp_broker *broker, rp_slice name) {
    rp_group *group = rp_group_table_find(broker->groups, name);
    if (group == NULL)
        return;
    atomic_store_explicit(&group->live, 0, memory_order_release);
    pair_walk walk = {.group = group};
    rp_group_table_each_consumption(broker->groups, forget_counts, &walk);
}

/* Returns the pair's entry, live or not: offsets and subscriptions may arrive before their topic or group. */
static rp_consumption *pair_entry(rp_broker *broker, rp_slice group_name, rp_slice topic_name) {
    rp_group *group = rp_group_table_entry(broker->groups, group_name);
    rp_topic *topic = rp_topic_table_entry(broker->topics, topic_name);
    return group != NULL && topic != NULL ? rp_group_table_consumption_entry(broker->groups, group, topic) : NULL;
}

/* Returns the pair if it exists: a mere query must not create entries, which stay for ever. */
static rp_consumption *find_pair(const rp_broker *broker, rp_slice group_name, rp_slice topic_name) {
    const rp_group *group = rp_group_table_known(broker->groups, group_name);
    const rp_topic *topic = rp_topic_table_known(broker->topics, topic_name);
    return group != NULL && topic != NULL ? rp_group_table_consumption(broker->groups, group, topic) : NULL;
}

int rp_broker_put_subscription(rp_broker *broker, rp_slice group, rp_slice topic, const int32_t *tag_codes, uint32_t code_count,
                               int64_t version, int32_t broadcast, int32_t native) {
    rp_consumption *consumption = pair_entry(broker, group, topic);
    if (consumption == NULL)
        return is_name(group) && is_name(topic) ? RP_E_NO_MEMORY : RP_E_INVALID;
    if (code_count > RP_SUBSCRIPTION_CODES_MAX)
        return RP_E_INVALID;
    int32_t *sorted = malloc((code_count + 1) * sizeof *sorted);
    if (sorted == NULL)
        return RP_E_NO_MEMORY;
    if (code_count > 0)
        memcpy(sorted, tag_codes, code_count * sizeof *sorted);
    rp_tag_codes_sort(sorted, code_count);
    rp_message_filter filter = {.words = sorted, .count = code_count, .kind = code_count > 0 ? RP_FILTER_TAGS : RP_FILTER_ALL};
    int status = rp_consumption_subscribe(broker->groups, consumption, &filter, version, broadcast, native);
    free(sorted);
    return status;
}

static int compile_sql(rp_slice expression, rp_arena *arena, rp_message_filter *filter, uint32_t *end, rp_error *error) {
    rp_sql_fault fault;
    int status = arena != NULL ? rp_sql_filter_compile(expression, arena, filter, end, &fault) : RP_E_NO_MEMORY;
    if (status == RP_E_INVALID)
        return rp_error_set(error, status, 0, NULL, (int64_t)fault.at, "invalid SQL92 expression, at byte %u: %s", fault.at, fault.what);
    return status == RP_OK ? RP_OK : rp_error_set(error, status, 0, NULL, -1, "no memory to compile a SQL92 expression");
}

int rp_broker_check_sql(rp_slice expression, uint32_t *end, rp_error *error) {
    rp_arena *arena = rp_arena_create(0, SQL_ARENA_BYTES);
    rp_message_filter unused;
    int status = compile_sql(expression, arena, &unused, end, error);
    rp_arena_destroy(arena);
    return status;
}

int rp_broker_put_sql_subscription(rp_broker *broker, rp_slice group, rp_slice topic, rp_slice expression, int64_t version,
                                   int32_t broadcast, uint32_t *end, rp_error *error) {
    rp_consumption *consumption = pair_entry(broker, group, topic);
    if (consumption == NULL && !(is_name(group) && is_name(topic)))
        return rp_error_set(error, RP_E_INVALID, 0, NULL, -1, "no name of a group or of a topic");
    rp_arena *arena = consumption != NULL ? rp_arena_create(0, SQL_ARENA_BYTES) : NULL;
    rp_message_filter filter;
    int status = compile_sql(expression, arena, &filter, end, error);
    if (status == RP_OK && rp_consumption_subscribe(broker->groups, consumption, &filter, version, broadcast, 1) != RP_OK)
        status = rp_error_set(error, RP_E_NO_MEMORY, 0, NULL, -1, "no memory for a subscription");
    rp_arena_destroy(arena);
    return status;
}

void rp_broker_delete_subscription(rp_broker *broker, rp_slice group, rp_slice topic) {
    rp_consumption *consumption = find_pair(broker, group, topic);
    if (consumption != NULL)
        rp_consumption_unsubscribe(broker->groups, consumption);
}

static void offsets_changed(rp_broker *broker) { rp_note_change(&broker->offset_version); }

static rp_offset_cell *cell_entry(rp_broker *broker, rp_slice group, rp_slice topic, int32_t queue_id) {
    rp_consumption *consumption = pair_entry(broker, group, topic);
    return consumption != NULL ? rp_offset_cells_open(&consumption->offsets, queue_id) : NULL;
}

static int why_no_cell(rp_slice group, rp_slice topic, int32_t queue_id) {
    int is_possible = is_name(group) && is_name(topic) && queue_id >= 0 && queue_id < RP_TOPIC_QUEUES_MAX;
    return is_possible ? RP_E_NO_MEMORY : RP_E_INVALID;
}

static rp_offset_cell *find_cell(rp_broker *broker, rp_slice group, rp_slice topic, int32_t queue_id) {
    rp_consumption *consumption = find_pair(broker, group, topic);
    return consumption != NULL ? rp_offset_cells_find(&consumption->offsets, queue_id) : NULL;
}

int rp_broker_put_offset(rp_broker *broker, rp_slice group, rp_slice topic, int32_t queue_id, int64_t offset) {
    rp_offset_cell *cell = cell_entry(broker, group, topic, queue_id);
    if (cell == NULL)
        return why_no_cell(group, topic, queue_id);
    if (rp_offset_cell_commit(cell, offset))
        offsets_changed(broker);
    return RP_OK;
}

static int64_t or_none(int64_t offset) { return offset != RP_OFFSET_NONE ? offset : -1; }

int64_t rp_broker_read_offset(rp_broker *broker, rp_slice group, rp_slice topic, int32_t queue_id) {
    rp_offset_cell *cell = find_cell(broker, group, topic, queue_id);
    return cell != NULL ? or_none(atomic_load_explicit(&cell->committed, memory_order_relaxed)) : -1;
}

int64_t rp_broker_read_pull_offset(rp_broker *broker, rp_slice group, rp_slice topic, int32_t queue_id) {
    rp_offset_cell *cell = find_cell(broker, group, topic, queue_id);
    if (cell == NULL)
        return -1;
    int64_t pulled = atomic_load_explicit(&cell->pulled, memory_order_relaxed);
    return pulled != RP_OFFSET_NONE ? pulled : or_none(atomic_load_explicit(&cell->committed, memory_order_relaxed));
}

int rp_broker_reset_offset(rp_broker *broker, rp_slice group, rp_slice topic, int32_t queue_id, int64_t offset) {
    rp_offset_cell *cell = cell_entry(broker, group, topic, queue_id);
    if (cell == NULL)
        return why_no_cell(group, topic, queue_id);
    atomic_store_explicit(&cell->reset, offset, memory_order_relaxed);
    if (rp_offset_cell_commit(cell, offset))
        offsets_changed(broker);
    if (queue_id == RP_LIGHT_QUEUE_ID && rp_is_lite_queue(topic))
        rp_lite_look_again(broker->lite, rp_group_table_known(broker->groups, group), topic);
    return RP_OK;
}

static int clear_offsets(void *context, rp_name_entry *entry) {
    const pair_walk *walk = context;
    rp_consumption *consumption = (rp_consumption *)entry;
    if (!is_of_walk(walk, consumption))
        return 0;
    if (rp_pop_forget(walk->broker, consumption))
        offsets_changed(walk->broker);
    return 0;
}

/* Visits what lies between a group and a topic, either of which may be all (data NULL). `walk` is filled first; `context` holds it. */
static void each_pair(rp_broker *broker, rp_slice group, rp_slice topic, pair_walk *walk, int (*visit)(void *context, rp_name_entry *entry),
                      void *context) {
    walk->broker = broker;
    walk->group = group.data != NULL ? rp_group_table_known(broker->groups, group) : NULL;
    walk->topic = topic.data != NULL ? rp_topic_table_known(broker->topics, topic) : NULL;
    if ((group.data != NULL && walk->group == NULL) || (topic.data != NULL && walk->topic == NULL))
        return;
    if (walk->group == NULL || walk->topic == NULL) {
        rp_group_table_each_consumption(broker->groups, visit, context);
        return;
    }
    rp_consumption *consumption = rp_group_table_consumption(broker->groups, walk->group, walk->topic);
    if (consumption != NULL)
        visit(context, &consumption->head);
}

void rp_broker_delete_offsets(rp_broker *broker, rp_slice group, rp_slice topic) {
    pair_walk walk;
    each_pair(broker, group, topic, &walk, clear_offsets, &walk);
}

typedef struct offset_walk {
    pair_walk pairs;
    int (*visit)(void *context, const rp_offset_row *row);
    void *context;
} offset_walk;

static int visit_offsets(void *context, rp_name_entry *entry) {
    const offset_walk *walk = context;
    const rp_consumption *consumption = (const rp_consumption *)entry;
    if (!is_of_walk(&walk->pairs, consumption))
        return 0;
    rp_offset_row row = {.group = consumption->group->head.name, .topic = consumption->topic->head.name};
    for (uint32_t chunk = 0; chunk < RP_GROWING_CHUNKS; chunk++) {
        const rp_offset_cell *cells = atomic_load_explicit(&consumption->offsets.chunks[chunk], memory_order_acquire);
        for (uint32_t i = 0; cells != NULL && i < rp_growing_size(chunk); i++) {
            row.offset = atomic_load_explicit(&cells[i].committed, memory_order_relaxed);
            row.queue_id = (int32_t)(i + rp_growing_size(chunk) - RP_GROWING_FIRST);
            if (row.offset != RP_OFFSET_NONE && walk->visit(walk->context, &row) != 0)
                return 1;
        }
    }
    return 0;
}

void rp_broker_each_offset(rp_broker *broker, rp_slice group, rp_slice topic, int (*visit)(void *context, const rp_offset_row *row),
                           void *context) {
    offset_walk walk = {.visit = visit, .context = context};
    each_pair(broker, group, topic, &walk.pairs, visit_offsets, &walk);
}

uint64_t rp_broker_offset_version(const rp_broker *broker) { return rp_change_number(&broker->offset_version); }
