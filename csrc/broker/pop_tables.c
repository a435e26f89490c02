/* pop_tables.c: Python's reads and writes of pop consumption (pop.h). */
#include <stdlib.h>
#include <string.h>

#include "../store/light_queue.h"
#include "lane.h"
#include "pop.h"
#include "pop_choice.h"
#include "pop_order.h"
#include "pop_revive.h"

#define MS_MAX (INT64_C(1) << 50) /* a file may hold any number: sums of two must not overflow */

int rp_broker_start_revive(rp_broker *broker, rp_error *error) { return rp_pop_revive_start(broker->revive, error); }
void rp_broker_stop_revive(rp_broker *broker) { rp_pop_revive_stop(broker->revive); }
uint32_t rp_broker_wanted_retry_topic(rp_broker *broker, uint8_t *name, int32_t *queues) {
    return rp_pop_revive_wanted_topic(broker->revive, name, queues);
}

typedef struct order_walk {
    rp_broker *broker;
    int (*visit)(void *context, const rp_pop_order_row *row);
    void *context;
} order_walk;

/* Copies the order, so that the lock is not held during the visit. 0: nothing is out. */
static int copy_order(rp_broker *broker, rp_offset_cell *cell, rp_pop_order *copy) {
    pthread_mutex_t *lock = rp_pop_lock_of(broker, cell);
    pthread_mutex_lock(lock);
    int is_there = cell->order != NULL && cell->order->count > 0;
    if (is_there)
        *copy = *cell->order;
    pthread_mutex_unlock(lock);
    return is_there;
}

/* What is out of lite topics is in no file: after a start it is popped again. */
static int visit_orders(void *context, rp_name_entry *entry) {
    const order_walk *walk = context;
    rp_consumption *consumption = (rp_consumption *)entry;
    if (rp_is_lite_queue(consumption->topic->head.name))
        return 0;
    for (uint32_t chunk = 0; chunk < RP_GROWING_CHUNKS; chunk++) {
        rp_offset_cell *cells = atomic_load_explicit(&consumption->offsets.chunks[chunk], memory_order_acquire);
        for (uint32_t i = 0; cells != NULL && i < rp_growing_size(chunk); i++) {
            rp_pop_order order;
            if (!copy_order(walk->broker, &cells[i], &order))
                continue;
            rp_pop_order_row row = {
                .group = consumption->group->head.name,
                .topic = consumption->topic->head.name,
                .attempt_id = {order.has_attempt_id ? order.attempt_id : NULL, order.attempt_size},
                .queue_id = (int32_t)(i + rp_growing_size(chunk) - RP_GROWING_FIRST),
                .count = order.count,
                .pop_time_ms = order.pop_time_ms,
                .invisible_ms = order.invisible_ms,
                .last_consume_ms = order.last_consume_ms,
                .acked = order.acked,
                .offsets = order.offsets,
                .visible_ms = order.visible_ms,
                .times = order.times,
            };
            if (walk->visit(walk->context, &row) != 0)
                return 1;
        }
    }
    return 0;
}

void rp_broker_each_pop_order(rp_broker *broker, int (*visit)(void *context, const rp_pop_order_row *row), void *context) {
    order_walk walk = {broker, visit, context};
    rp_group_table_each_consumption(broker->groups, visit_orders, &walk);
}

int rp_pop_forget(rp_broker *broker, rp_consumption *consumption) {
    int any = 0;
    for (uint32_t chunk = 0; chunk < RP_GROWING_CHUNKS; chunk++) {
        rp_offset_cell *cells = atomic_load_explicit(&consumption->offsets.chunks[chunk], memory_order_acquire);
        for (uint32_t i = 0; cells != NULL && i < rp_growing_size(chunk); i++) {
            pthread_mutex_t *lock = rp_pop_lock_of(broker, &cells[i]);
            pthread_mutex_lock(lock);
            any |= rp_offset_cell_clear(&cells[i]);
            free(cells[i].order);
            cells[i].order = NULL;
            pthread_mutex_unlock(lock);
        }
    }
    rp_note_change(&broker->pop_order_version);
    return any;
}

static int64_t clipped(int64_t ms) { return ms < 0 ? 0 : ms > MS_MAX ? MS_MAX : ms; }

static void fill_order(rp_pop_order *order, const rp_pop_order_row *row) {
    *order = (rp_pop_order){
        .pop_time_ms = clipped(row->pop_time_ms),
        .invisible_ms = clipped(row->invisible_ms),
        .last_consume_ms = clipped(row->last_consume_ms),
        .acked = row->acked,
        .count = row->count,
        .has_attempt_id = row->attempt_id.data != NULL,
        .attempt_size = row->attempt_id.size,
    };
    for (uint32_t i = 0; i < row->count; i++) {
        order->offsets[i] = row->offsets[i];
        order->visible_ms[i] = clipped(row->visible_ms[i]);
        order->times[i] = row->times[i] > 0 ? row->times[i] : 0;
    }
    if (row->attempt_id.size > 0)
        memcpy(order->attempt_id, row->attempt_id.data, row->attempt_id.size);
}

int rp_broker_put_pop_order(rp_broker *broker, const rp_pop_order_row *row) {
    if (row->count < 1 || row->count > RP_POP_MESSAGES_MAX || row->attempt_id.size > RP_POP_ATTEMPT_ID_MAX || row->group.size == 0 ||
        row->topic.size == 0 || row->queue_id < 0 || row->queue_id >= RP_TOPIC_QUEUES_MAX)
        return RP_E_INVALID;
    for (uint32_t i = 0; i < row->count; i++) {
        if (row->offsets[i] < 0 || row->offsets[i] == INT64_MAX)
            return RP_E_INVALID;
    }
    rp_group *group = rp_group_table_entry(broker->groups, row->group);
    rp_topic *topic = rp_topic_table_entry(broker->topics, row->topic);
    rp_consumption *consumption = group != NULL && topic != NULL ? rp_group_table_consumption_entry(broker->groups, group, topic) : NULL;
    rp_offset_cell *cell = consumption != NULL ? rp_offset_cells_open(&consumption->offsets, row->queue_id) : NULL;
    rp_pop_order *made = cell != NULL ? malloc(sizeof *made) : NULL;
    if (made == NULL)
        return RP_E_NO_MEMORY;
    fill_order(made, row);
    pthread_mutex_t *lock = rp_pop_lock_of(broker, cell);
    pthread_mutex_lock(lock);
    rp_pop_order *before = cell->order;
    cell->order = made;
    pthread_mutex_unlock(lock);
    free(before);
    rp_note_change(&broker->pop_order_version);
    return RP_OK;
}

uint64_t rp_broker_pop_order_version(const rp_broker *broker) { return rp_change_number(&broker->pop_order_version); }

void rp_broker_read_pop_stats(const rp_broker *broker, rp_pop_stats *stats) {
    *stats = (rp_pop_stats){.waiting_now = atomic_load_explicit(&broker->pops_waiting, memory_order_relaxed)};
    uint32_t lanes = atomic_load_explicit(&broker->lane_count, memory_order_acquire);
    for (uint32_t i = 0; i < lanes; i++) {
        const rp_lane_counters *counters = &broker->lanes[i]->counters;
        stats->pops += atomic_load_explicit(&counters->pops, memory_order_relaxed);
        stats->pops_found += atomic_load_explicit(&counters->pops_found, memory_order_relaxed);
        stats->pops_punted += atomic_load_explicit(&counters->pops_punted, memory_order_relaxed);
        stats->acks += atomic_load_explicit(&counters->acks, memory_order_relaxed);
        stats->acks_failed += atomic_load_explicit(&counters->acks_failed, memory_order_relaxed);
    }
    rp_pop_revive_stats revive;
    rp_pop_revive_read_stats(broker->revive, &revive);
    stats->checkpoints_kept = revive.checkpoints_kept;
    stats->checkpoints_done = revive.checkpoints_done;
    stats->revived = revive.revived;
    stats->put_again = revive.put_again;
    stats->dropped = revive.dropped;
    stats->append_failures = revive.append_failures;
    stats->oldest_due_ms = revive.oldest_due_ms;
}
