/* offset_table.h: how far a group has consumed the queues of one topic. Private to csrc/broker.
 * RocketMQ: ConsumerOffsetManager's offsetTable, pullOffsetTable, resetOffsetTable (5.3.3 broker/offset/).
 *
 * One cell for each queue, in chunks that never move; every field is one atomic, so commits from reactors and Python's reads need no
 * lock.
 *
 * Threads  any.
 */
#ifndef RP_BROKER_OFFSET_TABLE_H
#define RP_BROKER_OFFSET_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

#include "growing_inl.h"

#define RP_OFFSET_NONE INT64_MIN

typedef struct rp_offset_cell {
    _Atomic int64_t committed; /* relaxed: a lone value; RP_OFFSET_NONE before the first commit */
    _Atomic int64_t pulled;    /* where the last pull left off */
    _Atomic int64_t reset;     /* where the next pull is sent; RP_OFFSET_NONE: not reset */
    _Atomic int64_t moved_ms;  /* when committed or pulled last changed, by rp_offset_now_ms */
    struct rp_pop_order *order; /* guarded by the cell's pop lock (pop_choice.h); NULL before the first orderly pop */
} rp_offset_cell;

typedef struct rp_offset_cells {
    _Atomic(rp_offset_cell *) chunks[RP_GROWING_CHUNKS]; /* acquire/release: a chunk is filled before it is seen */
} rp_offset_cells;

void rp_offset_cells_free(rp_offset_cells *cells);
/* The cell; NULL if it was never made, or for a queue id outside 0..RP_TOPIC_QUEUES_MAX-1. */
rp_offset_cell *rp_offset_cells_find(const rp_offset_cells *cells, int32_t queue_id);
/* The cell, made if it is missing. NULL: memory is exhausted, or the queue id is out of range. */
rp_offset_cell *rp_offset_cells_open(rp_offset_cells *cells, int32_t queue_id);
/* Stores an offset. Returns 1 if that changed anything. */
int rp_offset_cell_commit(rp_offset_cell *cell, int64_t offset);
/* Notes the offset after a pull. */
void rp_offset_cell_pull(rp_offset_cell *cell, int64_t next_offset);
/* The time in ms, up to a few ms behind, at the cost of a load: CLOCK_MONOTONIC_COARSE. */
int64_t rp_offset_now_ms(void);
/* Forgets the cell's offsets. Returns 1 if there was one. */
int rp_offset_cell_clear(rp_offset_cell *cell);

#endif
