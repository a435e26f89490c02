/* queue_mapping.h: maps the global queues of a static topic that this broker leads to its own queues. Private to csrc/broker.
 * RocketMQ: LogicQueueMappingItem, TopicQueueMappingContext (5.3.3 remoting/protocol/statictopic/).
 *
 *   consumer: queue 5 from 12,003 ─► queue 2 from 2,003 ─► its messages, with 10,000 to be added ─► consumer
 *
 * Messages written to a global queue before it came here lie in other queues, most of them on other brokers: Python knows those, and
 * answers requests about them.
 *
 * Threads  put: one (Python's). The rest: any, without locks.
 * Bounds   cells up to the largest global queue that was ever led here, below RP_TOPIC_QUEUES_MAX.
 */
#ifndef RP_BROKER_QUEUE_MAPPING_H
#define RP_BROKER_QUEUE_MAPPING_H

#include <stdatomic.h>
#include <stdint.h>

#include "growing_inl.h"

/* The local queue that a global queue is written to. */
typedef struct rp_mapped_queue {
    int64_t logic_offset; /* global offset of start_offset; -1: not decided yet, and nothing can be read */
    int64_t start_offset;
    int32_t queue_id;
    int32_t is_earliest; /* 1: no readable messages lie in another queue */
} rp_mapped_queue;

typedef struct rp_mapping_cell {
    _Atomic uint32_t sequence; /* odd while the cell is written */
    _Atomic int32_t is_led, queue_id, is_earliest;
    _Atomic int64_t logic_offset, start_offset;
} rp_mapping_cell;

typedef struct rp_queue_mapping {
    _Atomic(rp_mapping_cell *) chunks[RP_GROWING_CHUNKS]; /* acquire/release: a chunk is filled before it is published */
} rp_queue_mapping;

void rp_queue_mapping_free(rp_queue_mapping *mapping);
/* Sets the local queue; queue NULL: it is no longer led here. RP_OK; RP_E_INVALID: an impossible queue or offset; RP_E_NO_MEMORY. */
int rp_queue_mapping_put(rp_queue_mapping *mapping, int32_t global_id, const rp_mapped_queue *queue);
/* 1: it is led here; 0: it is not; RP_E_BUSY: it is being written. mapping may be NULL. */
int rp_queue_mapping_find(const rp_queue_mapping *mapping, int32_t global_id, rp_mapped_queue *queue);
/* Picks a queue that is led here, by a random number. Returns its global id, or -1. */
int32_t rp_queue_mapping_any(const rp_queue_mapping *mapping, uint64_t random, rp_mapped_queue *queue);

int rp_mapped_queue_is(const rp_mapped_queue *queue, const rp_mapped_queue *other);
/* Returns the global offset of a local one; -1 while that is not decided. */
int64_t rp_mapped_offset(const rp_mapped_queue *queue, int64_t offset);

#endif
