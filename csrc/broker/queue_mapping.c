/* queue_mapping.c: see queue_mapping.h. */
#include "queue_mapping.h"

#include <stdlib.h>

#include "broker.h"

#define LOOKS_MAX 64 /* reads of a cell that is being written, which takes a few stores; its writer may have been preempted */

void rp_queue_mapping_free(rp_queue_mapping *mapping) {
    for (uint32_t chunk = 0; mapping != NULL && chunk < RP_GROWING_CHUNKS; chunk++)
        free(atomic_load_explicit(&mapping->chunks[chunk], memory_order_relaxed));
    free(mapping);
}

static rp_mapping_cell *find_cell(const rp_queue_mapping *mapping, int32_t global_id) {
    if (mapping == NULL || global_id < 0 || global_id >= RP_TOPIC_QUEUES_MAX)
        return NULL;
    uint32_t chunk = rp_growing_chunk((uint32_t)global_id);
    rp_mapping_cell *cells = atomic_load_explicit(&mapping->chunks[chunk], memory_order_acquire);
    return cells != NULL ? &cells[rp_growing_place((uint32_t)global_id, chunk)] : NULL;
}

static rp_mapping_cell *open_cell(rp_queue_mapping *mapping, int32_t global_id) {
    rp_mapping_cell *known = find_cell(mapping, global_id);
    if (known != NULL)
        return known;
    uint32_t chunk = rp_growing_chunk((uint32_t)global_id);
    rp_mapping_cell *cells = calloc(rp_growing_size(chunk), sizeof *cells);
    if (cells == NULL)
        return NULL;
    atomic_store_explicit(&mapping->chunks[chunk], cells, memory_order_release);
    return &cells[rp_growing_place((uint32_t)global_id, chunk)];
}

/* A sequence lock like a subscription's (group_table.c): data is stored with release after the odd number, and loaded with acquire
 * before the sequence is read again. */
static void write_cell(rp_mapping_cell *cell, const rp_mapped_queue *queue) {
    atomic_fetch_add_explicit(&cell->sequence, 1, memory_order_acq_rel);
    atomic_store_explicit(&cell->is_led, queue != NULL, memory_order_release);
    if (queue != NULL) {
        atomic_store_explicit(&cell->queue_id, queue->queue_id, memory_order_release);
        atomic_store_explicit(&cell->is_earliest, queue->is_earliest, memory_order_release);
        atomic_store_explicit(&cell->logic_offset, queue->logic_offset, memory_order_release);
        atomic_store_explicit(&cell->start_offset, queue->start_offset, memory_order_release);
    }
    atomic_fetch_add_explicit(&cell->sequence, 1, memory_order_release);
}

static int can_be(const rp_mapped_queue *queue) {
    return queue->queue_id >= 0 && queue->queue_id < RP_TOPIC_QUEUES_MAX && queue->logic_offset >= -1 &&
           queue->logic_offset <= INT64_MAX / 2 && queue->start_offset >= 0 && queue->start_offset <= INT64_MAX / 2;
}

int rp_queue_mapping_put(rp_queue_mapping *mapping, int32_t global_id, const rp_mapped_queue *queue) {
    if (global_id < 0 || global_id >= RP_TOPIC_QUEUES_MAX || (queue != NULL && !can_be(queue)))
        return RP_E_INVALID;
    rp_mapping_cell *cell = queue != NULL ? open_cell(mapping, global_id) : find_cell(mapping, global_id);
    if (cell != NULL)
        write_cell(cell, queue);
    return cell != NULL || queue == NULL ? RP_OK : RP_E_NO_MEMORY;
}

/* 1: *queue is consistent; *is_led says whether it is valid. */
static int read_cell(const rp_mapping_cell *cell, rp_mapped_queue *queue, int *is_led) {
    uint32_t sequence = atomic_load_explicit(&cell->sequence, memory_order_acquire);
    *is_led = atomic_load_explicit(&cell->is_led, memory_order_acquire);
    queue->queue_id = atomic_load_explicit(&cell->queue_id, memory_order_acquire);
    queue->is_earliest = atomic_load_explicit(&cell->is_earliest, memory_order_acquire);
    queue->logic_offset = atomic_load_explicit(&cell->logic_offset, memory_order_acquire);
    queue->start_offset = atomic_load_explicit(&cell->start_offset, memory_order_acquire);
    return (sequence & 1) == 0 && atomic_load_explicit(&cell->sequence, memory_order_relaxed) == sequence;
}

int rp_queue_mapping_find(const rp_queue_mapping *mapping, int32_t global_id, rp_mapped_queue *queue) {
    const rp_mapping_cell *cell = find_cell(mapping, global_id);
    int is_led;
    for (int look = 0; cell != NULL && look < LOOKS_MAX; look++) {
        if (read_cell(cell, queue, &is_led))
            return is_led;
    }
    return cell != NULL ? RP_E_BUSY : 0;
}

/* Returns the first one from the random-th on, wrapping around. */
int32_t rp_queue_mapping_any(const rp_queue_mapping *mapping, uint64_t random, rp_mapped_queue *queue) {
    uint32_t count = 0;
    for (uint32_t chunk = 0; mapping != NULL && chunk < RP_GROWING_CHUNKS; chunk++) {
        if (atomic_load_explicit(&mapping->chunks[chunk], memory_order_acquire) != NULL)
            count = rp_growing_size(chunk) * 2 - RP_GROWING_FIRST;
    }
    for (uint32_t i = 0; i < count; i++) {
        int32_t global_id = (int32_t)((random + i) % count);
        if (rp_queue_mapping_find(mapping, global_id, queue) == 1)
            return global_id;
    }
    return -1;
}

int rp_mapped_queue_is(const rp_mapped_queue *queue, const rp_mapped_queue *other) {
    return queue->queue_id == other->queue_id && queue->is_earliest == other->is_earliest && queue->logic_offset == other->logic_offset &&
           queue->start_offset == other->start_offset;
}

int64_t rp_mapped_offset(const rp_mapped_queue *queue, int64_t offset) {
    if (queue->logic_offset < 0)
        return -1;
    return offset < queue->start_offset ? queue->logic_offset : queue->logic_offset + (offset - queue->start_offset);
}
