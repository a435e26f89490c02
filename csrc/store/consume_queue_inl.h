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
    uint64_t hash;                       /* fixed; hash of topic and id */
    rp_mapped_file_queue *row;           /* fixed */
    bool is_batch;                       /* fixed: its entries stand for many messages each (batch_queue.h) */
    uint32_t entry_size;                 /* fixed; the setup's */
    /* The queue of the same topic and id but of the other kind, or NULL. Guarded by the queue table's lock, as is the next. */
    rp_consume_queue *other;
    bool is_light_counted;
    bool is_lite;        /* fixed: belongs to a lite topic (light_queue.h) */
    bool is_delay_level; /* its entries' tags codes are due times. Fixed before the first append, as is the next */
    int64_t delay_ms;    /* delay of that level */

    /* Entries, counted from the row's byte 0. Except in a batch queue these numbers are the queue's offsets. */
    _Atomic int64_t end_entry;   /* released after the entry's bytes, so whoever sees it sees them */
    _Atomic int64_t first_entry;
    _Atomic int64_t batch_max, batch_min; /* offsets of a batch queue; the max is released after its end_entry */
    _Atomic uint64_t waiting;    /* sequentially consistent against max_offset: see rp_consume_queue_set_waiting */
    _Atomic(void *) user;        /* owned by the broker */
    _Atomic(rp_compaction_log *) compacted; /* NULL: a plain queue, or one whose topic was deleted */
    struct followed_queue *followed; /* guarded by compaction.lock: compaction.c */
    _Atomic bool deleted;        /* its topic was deleted, and nothing was put since */
    _Atomic int64_t synced_bytes; /* written under the append lock: entries below it are on disk; lowered by truncate */

    /* guarded by the append lock */
    rp_mapped_file *active;      /* pinned file of the next entry, NULL before the first */
    uint8_t *active_address;     /* its map */
    int64_t active_end;          /* first entry behind the active file */
    int64_t allocated_end;       /* entries below it have disk space and memory: put may write them */
    int64_t staged;              /* entries of the current batch whose records are not written yet; they come behind all others */
    int64_t staged_messages;     /* messages that the staged entries of a batch queue stand for */
    /* How often entries were removed from the end; increased after the end has moved, for readers without the lock. */
    _Atomic uint64_t cuts;
    int64_t wanted_entry;        /* reserving this entry asks for more space ahead */
    bool is_unclean;             /* behind its last entry lies one that was taken back and could not be cleared for want of space */
    bool went_back;              /* recovery: its files may hold something behind its end */
    bool is_in_round;            /* it got an entry in the current round of dispatch */
    int64_t deleted_at;          /* log offset: records below it belonged to its deleted topic, and get no entry any more */
    /* Queue offset behind its last record in the log whose entry is held back; valid while placed_in equals the log's `places`. Written
     * under the append lock, relaxed. */
    _Atomic int64_t placed_end;
    _Atomic uint64_t placed_in;

    _Atomic bool is_wanted; /* it is on the list of queues that want space */
    rp_consume_queue *next_wanted; /* link of that list, owned by its taker (consume_queue_space.c) */
};

/* Returns the number behind that of the last entry; entries that retention has removed are counted, too. */
static inline int64_t rp_consume_queue_end_entry(const rp_consume_queue *queue) {
    return atomic_load_explicit(&queue->end_entry, memory_order_acquire);
}

/* Pins the file that holds an entry and returns the entry's bytes. NULL: the file is not available; error->status, or 0 if there is no
 * such file. */
const uint8_t *rp_consume_queue_pin_entry(rp_consume_queue *queue, int64_t entry, rp_mapped_file **file, rp_error *error);
/* Returns the first of the entries [low, high) whose 8 bytes at field_at are at least `value`; high if there is none. An unwritten entry
 * counts as larger than any. Negative: the entries cannot be read now; with in_memory 1, RP_E_BUSY if the disk would have to be read. */
int64_t rp_consume_queue_search(rp_consume_queue *queue, int64_t low, int64_t high, uint32_t field_at, int64_t value, int in_memory,
                                rp_error *error);
/* Returns the first entry that points at or above log_offset; the end if there is none. Errors as rp_consume_queue_offset_by_log_offset. */
int64_t rp_consume_queue_entry_by_log_offset(rp_consume_queue *queue, int64_t log_offset, rp_error *error);

#endif
