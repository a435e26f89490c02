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
    bool is_batch;                       /* fixed: its entries stand for many messages each (batch_queue.h) */
    uint32_t entry_size;                 /* fixed: the setup's */
    rp_consume_queue *other; /* of the other kind and the same name, or NULL. Guarded by the queue table's lock, as is the next */
    bool is_light_counted;
    bool is_lite;        /* fixed: a lite topic's (light_queue.h) */
    bool is_delay_level; /* its entries say when a message is due. Fixed before the first append, as is the next */
    int64_t delay_ms;    /* of that level */

    /* Entries, counted from the row's byte 0. Except of a batch queue they are the queue's offsets, too. */
    _Atomic int64_t end_entry;   /* released after the entry's bytes, so whoever sees it sees them */
    _Atomic int64_t first_entry;
    _Atomic int64_t batch_max, batch_min; /* a batch queue's offsets; the max is released after its end_entry */
    _Atomic uint64_t waiting;    /* sequentially consistent against max_offset: see rp_consume_queue_set_waiting */
    _Atomic(void *) user;        /* the broker's */
    _Atomic(rp_compaction_log *) compacted; /* NULL: a plain queue, or its topic was deleted */
    struct followed_queue *followed; /* guarded by compaction.lock: compaction.c */
    _Atomic bool deleted;        /* its topic was deleted and nothing was put since */
    _Atomic int64_t synced_bytes; /* written under the append lock: entries below it are on disk; put back by truncate */

    /* guarded by the append lock */
    rp_mapped_file *active;      /* pinned file of the next entry, NULL before the first */
    uint8_t *active_address;     /* its map */
    int64_t active_end;          /* first entry behind the active file */
    int64_t allocated_end;       /* entries below it have disk space and memory: put may write them */
    int64_t staged;              /* entries of the batch whose records are not written yet: they come behind all others */
    int64_t staged_messages;     /* that they stand for, of a batch queue */
    _Atomic uint64_t cuts;       /* how often entries were taken from its end; grows behind that end, for who looks without the lock */
    int64_t wanted_entry;        /* the entry whose reservation asks for more space ahead */
    bool is_unclean;             /* behind its last entry is one that was taken back, and that there was no space to clear */
    bool is_in_round;            /* it has got an entry in the round of dispatch that is under way */
    int64_t deleted_at;          /* log offset: records below it were its deleted topic's, and get no entry any more */
    /* Behind its last record in the log, whose entry is held back; counts while placed_in is the log's `places`. Written under the append
     * lock, relaxed. */
    _Atomic int64_t placed_end;
    _Atomic uint64_t placed_in;

    _Atomic bool is_wanted; /* it is in the list of queues that want space */
    rp_consume_queue *next_wanted; /* of that list: its owner's (consume_queue_space.c) */
};

/* Behind its last entry, in entries. */
static inline int64_t rp_consume_queue_end_entry(const rp_consume_queue *queue) {
    return atomic_load_explicit(&queue->end_entry, memory_order_acquire);
}

/* An entry of a queue in a file that is pinned for it. NULL: the file cannot be had: error->status, or 0 when there is none. */
const uint8_t *rp_consume_queue_pin_entry(rp_consume_queue *queue, int64_t entry, rp_mapped_file **file, rp_error *error);
/* The first of the entries [low, high) whose 8 bytes at field_at are at least `value`; high when none is. What is not written is behind
 * everything. Or why they cannot be read just now; with in_memory 1 RP_E_BUSY when the disk would have to be asked. */
int64_t rp_consume_queue_search(rp_consume_queue *queue, int64_t low, int64_t high, uint32_t field_at, int64_t value, int in_memory,
                                rp_error *error);
/* The first entry that points at or above log_offset; the end when none does. Errors as of rp_consume_queue_offset_by_log_offset. */
int64_t rp_consume_queue_entry_by_log_offset(rp_consume_queue *queue, int64_t log_offset, rp_error *error);

#endif
