/* stalled_queues.c: finds queues in which a group has messages left but makes no progress, for operators. See broker.h. */
#include "broker.h"
#include "lane.h"

typedef struct stalled_walk {
    int64_t now_ms, idle_ms; /* idle_ms: at least */
    int (*visit)(void *context, const rp_stalled_row *row);
    void *context;
    const rp_consumption *consumption; /* the one that is walked */
    int is_over;
} stalled_walk;

static void visit_slot(void *context, rp_queue_slot *slot) {
    stalled_walk *walk = context;
    const rp_consumption *consumption = walk->consumption;
    const rp_offset_cell *cell = rp_offset_cells_find(&consumption->offsets, slot->queue_id);
    const rp_consume_queue *queue = atomic_load_explicit(&slot->queue, memory_order_acquire);
    int64_t committed = cell != NULL ? atomic_load_explicit(&cell->committed, memory_order_relaxed) : RP_OFFSET_NONE;
    if (walk->is_over || queue == NULL || committed == RP_OFFSET_NONE)
        return;
    int64_t end = rp_consume_queue_max_offset(queue);
    if (end <= committed || end <= atomic_load_explicit(&cell->pulled, memory_order_relaxed))
        return;
    rp_stalled_row row = {
        .group = consumption->group->head.name,
        .topic = consumption->topic->head.name,
        .queue_id = slot->queue_id,
        .messages = end - committed,
        .idle_ms = walk->now_ms - atomic_load_explicit(&cell->moved_ms, memory_order_relaxed),
    };
    if (row.idle_ms >= walk->idle_ms)
        walk->is_over = walk->visit(walk->context, &row);
}

static int visit_consumption(void *context, rp_name_entry *entry) {
    stalled_walk *walk = context;
    walk->consumption = (const rp_consumption *)entry;
    rp_topic_each_slot(walk->consumption->topic, visit_slot, walk);
    return walk->is_over;
}

void rp_broker_each_stalled(rp_broker *broker, int64_t idle_ms, int (*visit)(void *context, const rp_stalled_row *row), void *context) {
    stalled_walk walk = {.now_ms = rp_offset_now_ms(), .idle_ms = idle_ms, .visit = visit, .context = context};
    rp_group_table_each_consumption(broker->groups, visit_consumption, &walk);
}
