/* offset_table.c: see offset_table.h. */
#include "offset_table.h"

#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "broker.h"

int64_t rp_offset_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void set_cell(rp_offset_cell *cell) {
    atomic_store_explicit(&cell->committed, RP_OFFSET_NONE, memory_order_relaxed);
    atomic_store_explicit(&cell->pulled, RP_OFFSET_NONE, memory_order_relaxed);
    atomic_store_explicit(&cell->reset, RP_OFFSET_NONE, memory_order_relaxed);
    atomic_store_explicit(&cell->moved_ms, 0, memory_order_relaxed);
}

void rp_offset_cells_free(rp_offset_cells *cells) {
    for (uint32_t chunk = 0; chunk < RP_GROWING_CHUNKS; chunk++) {
        rp_offset_cell *made = atomic_load_explicit(&cells->chunks[chunk], memory_order_relaxed);
        for (uint32_t i = 0; made != NULL && i < rp_growing_size(chunk); i++)
            free(made[i].order);
        free(made);
    }
}

rp_offset_cell *rp_offset_cells_find(const rp_offset_cells *cells, int32_t queue_id) {
    if (queue_id < 0 || queue_id >= RP_TOPIC_QUEUES_MAX)
        return NULL;
    uint32_t chunk = rp_growing_chunk((uint32_t)queue_id);
    rp_offset_cell *made = atomic_load_explicit(&cells->chunks[chunk], memory_order_acquire);
    return made != NULL ? &made[rp_growing_place((uint32_t)queue_id, chunk)] : NULL;
}

rp_offset_cell *rp_offset_cells_open(rp_offset_cells *cells, int32_t queue_id) {
    rp_offset_cell *cell = rp_offset_cells_find(cells, queue_id);
    if (cell != NULL || queue_id < 0 || queue_id >= RP_TOPIC_QUEUES_MAX)
        return cell;
    uint32_t chunk = rp_growing_chunk((uint32_t)queue_id);
    uint32_t size = rp_growing_size(chunk);
    rp_offset_cell *made = malloc(size * sizeof *made);
    if (made == NULL)
        return NULL;
    for (uint32_t i = 0; i < size; i++) {
        set_cell(&made[i]);
        made[i].order = NULL;
    }
    rp_offset_cell *seen = NULL;
    if (!atomic_compare_exchange_strong(&cells->chunks[chunk], &seen, made)) {
        free(made);
        made = seen;
    }
    return &made[rp_growing_place((uint32_t)queue_id, chunk)];
}

int rp_offset_cell_commit(rp_offset_cell *cell, int64_t offset) {
    if (atomic_exchange_explicit(&cell->committed, offset, memory_order_relaxed) == offset)
        return 0;
    atomic_store_explicit(&cell->moved_ms, rp_offset_now_ms(), memory_order_relaxed);
    return 1;
}

void rp_offset_cell_pull(rp_offset_cell *cell, int64_t next_offset) {
    if (atomic_load_explicit(&cell->pulled, memory_order_relaxed) == next_offset)
        return;
    atomic_store_explicit(&cell->pulled, next_offset, memory_order_relaxed);
    atomic_store_explicit(&cell->moved_ms, rp_offset_now_ms(), memory_order_relaxed);
}

int rp_offset_cell_clear(rp_offset_cell *cell) {
    int any = atomic_load_explicit(&cell->committed, memory_order_relaxed) != RP_OFFSET_NONE;
    set_cell(cell);
    return any;
}
