/* consume_queue_inl.h: the fields of a consume queue, for the files of this room. C only. */
#ifndef RP_STORE_CONSUME_QUEUE_INL_H
#define RP_STORE_CONSUME_QUEUE_INL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "consume_queue_writer.h"
#include "mapped_file_inl.h"
#include "mapped_file_queue.h"

struct rp_consume_queue {
    const rp_consume_queue_setup *setup; /* fixed */
    rp_slice topic;                      /* fixed; owned bytes behind the struct */
    int32_t id;                          /* fixed */
    uint64_t hash;                       /* fixed: of topic and id */
    rp_mapped_file_queue *row;           /* fixed */
    bool is_light_counted; /* guarded by the queue table's lock */
    bool is_delay_level; /* its entries say when a message is due. Fixed before the first append, as is the next */
    int64_t delay_ms;    /* of that level */

    _Atomic int64_t max_offset;  /* entries; released after the entry's bytes, so who sees it sees them */
    _Atomic int64_t min_offset;  /* entries */
    _Atomic uint64_t waiting;    /* sequentially consistent against max_offset: see rp_consume_queue_set_waiting */
    _Atomic(void *) user;        /* the broker's */
    _Atomic(rp_compaction_log *) compacted; /* NULL: a plain queue, or its topic was deleted */
    struct followed_queue *followed; /* guarded by compaction.lock: compaction.c */
    _Atomic bool deleted;        /* its topic was deleted and nothing was put since */
    _Atomic int64_t synced_bytes; /* written under the append lock: entries below it are on disk; put back by truncate */

    /* guarded by the append lock */
    rp_mapped_file *active;      /* pinned file of the next entry, NULL before the first */
    uint8_t *active_address;     /* its map */
    int64_t active_end_offset;   /* entries: first one behind the active file */
    int64_t allocated_offset;    /* entries below it have disk space and memory: put may write them */
    int64_t staged;              /* entries of the batch whose records are not written yet: they come behind all others */
    uint64_t cuts;               /* how often entries were taken from its end */
    int64_t wanted_offset;       /* the entry whose reservation asks for more space ahead */
    bool is_in_round;            /* it has got an entry in the round of dispatch that is under way */
    int64_t deleted_at;          /* log offset: records below it were its deleted topic's, and get no entry any more */
    /* Behind its last record in the log, whose entry is held back; counts while placed_in is the log's `places`. Written under the append
     * lock, relaxed. */
    _Atomic int64_t placed_end;
    _Atomic uint64_t placed_in;

    _Atomic bool is_wanted; /* it is in the list of queues that want space */
    rp_consume_queue *next_wanted; /* of that list: its owner's (consume_queue_space.c) */
};

#endif
