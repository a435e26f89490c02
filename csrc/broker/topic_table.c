/* topic_table.c: see topic_table.h. */
#include "topic_table.h"

#include <stdlib.h>

#include "broker.h"

struct rp_topic_table {
    rp_name_table *names;    /* fixed */
    rp_message_store *store; /* fixed */
    void (*free_waiters)(rp_queue_waiters *waiters); /* set by destroy */
};

rp_topic_table *rp_topic_table_create(rp_message_store *store) {
    rp_topic_table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return NULL;
    table->store = store;
    table->names = rp_name_table_create(sizeof(rp_topic), NULL, NULL);
    if (table->names == NULL) {
        free(table);
        return NULL;
    }
    return table;
}

static void free_chunks(rp_name_entry *entry) {
    rp_topic *topic = (rp_topic *)entry;
    for (uint32_t chunk = 0; chunk < RP_GROWING_CHUNKS; chunk++)
        free(atomic_load_explicit(&topic->chunks[chunk], memory_order_relaxed));
    rp_queue_mapping_free(atomic_load_explicit(&topic->mapping, memory_order_relaxed));
}

static int free_slot_waiters(void *context, rp_name_entry *entry) {
    rp_topic_table *table = context;
    rp_topic *topic = (rp_topic *)entry;
    for (uint32_t chunk = 0; chunk < RP_GROWING_CHUNKS; chunk++) {
        rp_queue_slot *slots = atomic_load_explicit(&topic->chunks[chunk], memory_order_relaxed);
        for (uint32_t i = 0; slots != NULL && i < rp_growing_size(chunk); i++) {
            rp_consume_queue *queue = atomic_load_explicit(&slots[i].queue, memory_order_relaxed);
            if (queue != NULL)
                rp_consume_queue_set_user(queue, NULL);
            table->free_waiters(atomic_load_explicit(&slots[i].waiters, memory_order_relaxed));
        }
    }
    return 0;
}

void rp_topic_table_destroy(rp_topic_table *table, void (*free_waiters)(rp_queue_waiters *waiters)) {
    if (table == NULL)
        return;
    table->free_waiters = free_waiters;
    rp_name_table_each(table->names, free_slot_waiters, table);
    rp_name_table_destroy(table->names, free_chunks);
    free(table);
}

rp_topic *rp_topic_table_find(const rp_topic_table *table, rp_slice name) {
    rp_topic *topic = (rp_topic *)rp_name_table_find(table->names, name);
    return topic != NULL && rp_topic_is_live(topic) ? topic : NULL;
}

rp_topic *rp_topic_table_known(const rp_topic_table *table, rp_slice name) { return (rp_topic *)rp_name_table_find(table->names, name); }

rp_topic *rp_topic_table_entry(rp_topic_table *table, rp_slice name) {
    if (name.data == NULL || name.size == 0 || name.size > RP_TOPIC_NAME_MAX)
        return NULL;
    return (rp_topic *)rp_name_table_put(table->names, name);
}

void rp_topic_table_each(const rp_topic_table *table, int (*visit)(void *context, rp_name_entry *entry), void *context) {
    rp_name_table_each(table->names, visit, context);
}

int rp_topic_is_live(const rp_topic *topic) { return atomic_load_explicit(&topic->live, memory_order_acquire); }

int rp_topic_put(rp_topic *topic, int32_t read_queues, int32_t write_queues, int32_t permission, int32_t sys_flag, uint32_t flags) {
    if (read_queues < 0 || read_queues > RP_TOPIC_QUEUES_MAX || write_queues < 0 || write_queues > RP_TOPIC_QUEUES_MAX)
        return RP_E_INVALID;
    atomic_store_explicit(&topic->read_queues, read_queues, memory_order_relaxed);
    atomic_store_explicit(&topic->write_queues, write_queues, memory_order_relaxed);
    atomic_store_explicit(&topic->permission, permission, memory_order_relaxed);
    atomic_store_explicit(&topic->sys_flag, sys_flag, memory_order_relaxed);
    atomic_store_explicit(&topic->flags, flags, memory_order_relaxed);
    atomic_store_explicit(&topic->live, 1, memory_order_release);
    return RP_OK;
}

int rp_topic_map_queue(rp_topic *topic, int32_t global_id, const rp_mapped_queue *queue) {
    rp_queue_mapping *mapping = atomic_load_explicit(&topic->mapping, memory_order_relaxed);
    if (mapping == NULL && queue == NULL)
        return RP_OK;
    if (mapping == NULL) {
        if ((mapping = calloc(1, sizeof *mapping)) == NULL)
            return RP_E_NO_MEMORY;
        atomic_store_explicit(&topic->mapping, mapping, memory_order_release);
    }
    return rp_queue_mapping_put(mapping, global_id, queue);
}

int rp_topic_mapped_queue(const rp_topic *topic, int32_t global_id, rp_mapped_queue *queue) {
    return rp_queue_mapping_find(atomic_load_explicit(&topic->mapping, memory_order_acquire), global_id, queue);
}

static void empty_slot(void *context, rp_queue_slot *slot) {
    (void)context;
    atomic_store_explicit(&slot->queue, NULL, memory_order_release);
}

void rp_topic_delete(rp_topic *topic) {
    atomic_store_explicit(&topic->live, 0, memory_order_seq_cst);
    atomic_fetch_add_explicit(&topic->generation, 1, memory_order_seq_cst);
    rp_topic_each_slot(topic, empty_slot, NULL);
    _Atomic uint64_t *counts[] = {&topic->messages_out, &topic->bytes_out, &topic->commits, &topic->rollbacks, &topic->timers_out};
    for (uint32_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        atomic_store_explicit(counts[i], 0, memory_order_relaxed);
    rp_durations_reset(&topic->commit_times);
    rp_durations_reset(&topic->delays);
    for (uint32_t type = 0; type < RP_MESSAGE_TYPES; type++)
        rp_intake_reset(&topic->in[type]);
    atomic_store_explicit(&topic->timers, 0, memory_order_relaxed);
    atomic_store_explicit(&topic->timers_changed_ms, 0, memory_order_relaxed);
}

void rp_topic_each_slot(rp_topic *topic, void (*visit)(void *context, rp_queue_slot *slot), void *context) {
    for (uint32_t chunk = 0; chunk < RP_GROWING_CHUNKS; chunk++) {
        rp_queue_slot *slots = atomic_load_explicit(&topic->chunks[chunk], memory_order_acquire);
        for (uint32_t i = 0; slots != NULL && i < rp_growing_size(chunk); i++)
            visit(context, &slots[i]);
    }
}

static rp_queue_slot *make_chunk(rp_topic *topic, uint32_t chunk) {
    uint32_t size = rp_growing_size(chunk);
    rp_queue_slot *slots = calloc(size, sizeof *slots);
    if (slots == NULL)
        return NULL;
    for (uint32_t i = 0; i < size; i++) {
        slots[i].topic = topic;
        slots[i].queue_id = (int32_t)(i + size - RP_GROWING_FIRST);
    }
    rp_queue_slot *seen = NULL;
    if (atomic_compare_exchange_strong(&topic->chunks[chunk], &seen, slots))
        return slots;
    free(slots);
    return seen;
}

/* A slave may learn that a topic was created again with queues of the other kind before its log has got there: until then the store has
 * the old queues, which the new ones replace. */
static int is_its_kind(const rp_topic *topic, const rp_consume_queue *queue) {
    return rp_consume_queue_is_batch(queue) == ((atomic_load_explicit(&topic->flags, memory_order_relaxed) & RP_TOPIC_BATCH) != 0);
}

/* Looks the queue up in the store once, unless it is not of the topic's kind. A queue found while the topic was deleted is not kept: the
 * next generation gets its own. */
static rp_consume_queue *fill_slot(rp_topic_table *table, rp_topic *topic, rp_queue_slot *slot) {
    uint32_t generation = atomic_load(&topic->generation);
    if (!rp_topic_is_live(topic))
        return NULL;
    rp_consume_queue *queue = rp_message_store_queue(table->store, topic->head.name, slot->queue_id, 1, NULL);
    if (queue == NULL)
        return NULL;
    rp_consume_queue_set_user(queue, slot);
    if (!is_its_kind(topic, queue))
        return queue;
    atomic_store(&slot->queue, queue);
    if (atomic_load(&topic->generation) == generation)
        return queue;
    atomic_store(&slot->queue, NULL);
    return NULL;
}

rp_queue_slot *rp_topic_open_queue(rp_topic_table *table, rp_topic *topic, int32_t queue_id, rp_consume_queue **queue) {
    if (queue_id < 0 || queue_id >= RP_TOPIC_QUEUES_MAX)
        return NULL;
    uint32_t chunk = rp_growing_chunk((uint32_t)queue_id);
    rp_queue_slot *slots = atomic_load_explicit(&topic->chunks[chunk], memory_order_acquire);
    if (slots == NULL && (slots = make_chunk(topic, chunk)) == NULL)
        return NULL;
    rp_queue_slot *slot = &slots[rp_growing_place((uint32_t)queue_id, chunk)];
    *queue = atomic_load_explicit(&slot->queue, memory_order_acquire);
    if (*queue == NULL)
        *queue = fill_slot(table, topic, slot);
    return *queue != NULL ? slot : NULL;
}

rp_queue_slot *rp_topic_open_queue_to_send(rp_topic_table *table, rp_topic *topic, int32_t queue_id, rp_consume_queue **queue) {
    rp_queue_slot *slot = rp_topic_open_queue(table, topic, queue_id, queue);
    if (slot != NULL && rp_consume_queue_max_offset(*queue) == 0 && rp_message_store_prepare_queue(table->store, *queue, NULL) != RP_OK)
        return NULL;
    return slot;
}
