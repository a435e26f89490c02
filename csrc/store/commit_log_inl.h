/* commit_log_inl.h: the fields of the commit log, for the files of this room. C only. */
#ifndef RP_STORE_COMMIT_LOG_INL_H
#define RP_STORE_COMMIT_LOG_INL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "commit_log_writer.h"
#include "index_feed.h"
#include "inner_batch.h"
#include "light_targets.h"
#include "log_staging.h"
#include "mapped_file_inl.h"

struct rp_commit_log {
    rp_commit_log_setup setup;           /* fixed */
    int32_t store_sys_flag;              /* fixed: RP_SYSFLAG_STORE_V6 or 0 */
    int64_t file_size;                   /* fixed */
    rp_mapped_file_queue *row;           /* fixed */
    rp_preallocation *preallocation;     /* fixed after recovery; NULL in a read-only store */

    _Atomic int64_t max_offset;          /* released after the record's bytes, so whoever sees it sees them */
    /* Stored under flushed_lock by the thread that led the sync, after the sync, and by the thread that cuts the log. Sequentially
     * consistent, like the flusher's requests: a requester stores its request and then reads this; the flusher stores this and then
     * reads the requests; so at least one of the two sees the other's store. */
    _Atomic int64_t flushed_offset;
    _Atomic int64_t store_timestamp_ms; /* of the last published record; released after max_offset */
    _Atomic uint32_t message_size_max; /* limit of a body; relaxed: a setting that may change */
    _Atomic uint32_t busy_timeout_ms, wait_timeout_ms; /* initially as in the setup; relaxed, likewise */
    _Atomic int32_t failure; /* 0, or the status every further append gets; set once, never cleared */
    _Atomic uint64_t messages, bytes, failures, lock_ns_max; /* counters; written under the append lock, relaxed */

    _Atomic uint64_t refused_busy; /* counter, relaxed */
    _Atomic int64_t locked_ns; /* when the append that holds the lock took it, 0: no append holds it; relaxed: readers may see it late */

    _Atomic int64_t unreadable_due_ns, refused_due_ns; /* when each may be logged again: rp_log_is_due */

    pthread_mutex_t append_lock; /* first of the store's locks: extend_lock and the rows' are taken under it */
    int64_t position; /* guarded by append_lock: end of the log, equal to max_offset outside an append */
    rp_mapped_file *active; /* guarded by append_lock: pinned file of position, NULL before the first append */
    uint8_t *active_address; /* guarded by append_lock */
    int64_t active_end; /* guarded by append_lock: first byte behind the active file */
    rp_log_staging staging; /* guarded by append_lock; for appends through the map only its torn range is used */
    uint8_t *inner_text; /* guarded by append_lock: the last properties of an item for a batch queue; NULL before the first */
    int64_t ready_end; /* guarded by append_lock: the preallocation's ready end, as last read */
    int64_t uncleared_end; /* guarded by append_lock: a cut that failed has left old bytes up to here; 0: there are none */
    _Atomic int64_t lease_until_ns; /* relaxed: it takes effect by the clock passing it */
    bool is_following; /* guarded by append_lock: appends are refused */
    bool is_paused; /* guarded by append_lock: appends to a log that leads are refused for a while */
    int64_t dispatch_limit; /* guarded by append_lock */
    bool holds_back; /* guarded by append_lock, for one append: its messages get their entries later (commit_log_held.c) */
    int64_t appended_end; /* guarded by append_lock: records below it were counted when this broker appended them */
    /* Grows when the queues' placed_end are computed again, which makes older values void. Written under append_lock. */
    _Atomic uint64_t places;
    _Atomic uint64_t cuts; /* how often the end moved back. Written under append_lock and flushed_lock, after max_offset */
    pthread_mutex_t flushed_lock; /* leaf */

    pthread_mutex_t failure_lock; /* leaf */
    rp_error failure_error; /* guarded by failure_lock until failure is set */

    /* Records below it are whole, have their queue entries and have been fed to the index; a slave's last record may be incomplete.
     * Written under append_lock, released. */
    _Atomic int64_t dispatched;
    int64_t dispatch_failed_at; /* guarded by append_lock: where dispatch last failed, so that each place is logged once */
    _Atomic uint64_t queues_begun; /* relaxed: number of replicated messages that were the first of their queue */
    rp_error damage; /* guarded by append_lock until damaged_at is set, fixed after it */
    _Atomic int64_t damaged_at; /* where replicated bytes are not a record, -1: nowhere; set once, released after damage */
    rp_dispatch_record *dispatch, *place; /* fixed before the first replicated byte */
    void *dispatch_context;

    pthread_mutex_t committed_lock; /* leaf: guards the condition only */
    pthread_cond_t committed; /* signalled when dispatched has moved or the log was cut, if somebody waits */
    _Atomic uint32_t commit_waiters; /* sequentially consistent against dispatched */
    uint32_t head_size; /* fixed: RP_LEDGER_HEAD_SIZE when the log has entries, else 0 */
    int64_t term; /* guarded by append_lock: term given to appended entries */
    int64_t next_index; /* guarded by append_lock: index of the next entry; staged ones are counted */
    _Atomic int64_t begin_index; /* index of the first file's first entry; -1: no entry */
    _Atomic int64_t end_index, end_term; /* of the last published entry; end_index is released after its index unit and its bytes */

    rp_index_feed *index_feed; /* changed only while nobody appends; NULL: there is no index thread to feed */

    struct {
        void (*_Atomic appended)(void *context); /* stored last, released; NULL: free. Removed only while nobody appends. */
        void *_Atomic context;
    } followers[RP_LOG_FOLLOWERS_MAX];

    void (*arrived)(void *context, rp_consume_queue *queue, uint64_t waiting); /* fixed before the first append */
    void *arrived_context;
};

/* commit_log_append.c, under the append lock. */
static inline bool rp_commit_log_is_staging(const rp_commit_log *log) { return log->setup.ready_mode == RP_READY_FOR_SYNC; }
/* Makes room for `size` bytes at the log's position of the active file, ending the current file first if they do not fit. items: those
 * whose records are staged. */
int rp_commit_log_make_room(rp_commit_log *log, rp_append_item *items, uint32_t size);
/* Writes what is staged. */
int rp_commit_log_write_out(rp_commit_log *log);
/* commit_log_map.c, under the append lock: makes sure that the next `size` bytes stored to the active file find space, and that nothing
 * lies behind them. */
int rp_commit_log_hold(rp_commit_log *log, uint32_t size);
/* Calls store(context), which stores the `size` bytes at the log's position. RP_OK; RP_E_DISK_FULL, RP_E_IO: reserved space is no longer
 * there, and the bytes are torn. */
int rp_commit_log_store(rp_commit_log *log, uint32_t size, void (*store)(void *context), void *context);
/* The padding record over the `left` bytes that end the active file: encoded at target, or stored at the log's position. The latter
 * returns RP_OK, or an error of rp_commit_log_store. */
void rp_commit_log_encode_blank(const rp_commit_log *log, uint8_t *target, uint32_t left);
int rp_commit_log_store_blank(rp_commit_log *log, uint32_t left);
/* Takes back the padding of a file after what was to follow it could not be appended. */
void rp_commit_log_take_back_padding(rp_commit_log *log);
/* Voids what was written from the log's position to `end`: zeroes it, at once if there is space for the zeros. */
void rp_commit_log_tear(rp_commit_log *log, int64_t end);
/* For queue files that copy on write: writes the entry into all of the item's queues or into none, without publishing it. RP_OK,
 * RP_E_DISK_FULL, RP_E_IO. */
int rp_commit_log_write_entries(rp_commit_log *log, const rp_append_item *item, const rp_queue_entry *entry);
/* commit_log_replicated.c, under the append lock: lets an empty log start at offset. */
int rp_commit_log_start_at(rp_commit_log *log, int64_t offset, rp_error *error);
/* commit_log_ledger.c, under the append lock. next_entry: the head for a record of that size at the log's position. publish_entry:
 * publishes the entry and its index unit; RP_OK, RP_E_DISK_FULL. */
rp_ledger_entry rp_commit_log_next_entry(const rp_commit_log *log, uint32_t record_size);
int rp_commit_log_publish_entry(rp_commit_log *log, const rp_ledger_entry *entry);

/* commit_log_cut.c, under the append lock: clears what a failed cut or append left behind the log's end; called before anything is
 * written there. RP_OK, RP_E_IO, RP_E_DISK_FULL, RP_E_NO_MEMORY. */
int rp_commit_log_clear_behind(rp_commit_log *log, rp_error *error);

/* commit_log_held.c, under the append lock: computes the queues' placed_end again from the records not dispatched yet; *end is behind
 * the last whole one. */
int rp_commit_log_place_held(rp_commit_log *log, int64_t *end, rp_error *error);

/* commit_log_dispatch.c */
#define RP_WOKEN_QUEUES_MAX 64 /* checked when a record is visited; the record may add its own queue and all its light ones */
#define RP_ROUND_RECORDS_MAX 1024 /* bounds how long appends wait for the lock */

/* The queues that got entries under one hold of the lock; their readers are woken outside of it. */
typedef struct rp_dispatch_round {
    rp_consume_queue *queues[RP_WOKEN_QUEUES_MAX + 1 + RP_LIGHT_TARGETS_MAX];
    uint32_t count, records;
} rp_dispatch_round;

/* Under the lock: handles a whole record. RP_OK, or why the visit must stop there. */
typedef int rp_visit_record(rp_commit_log *log, const rp_message *message, rp_dispatch_round *round, rp_error *error);
/* Under the lock: visits the whole records of one file from *offset on, up to `end`, at most one round of them; *offset is then behind
 * the last. RP_OK; RP_E_CORRUPT: the bytes there are no record; the error of a read, or of the visit. */
int rp_commit_log_visit(rp_commit_log *log, int64_t *offset, int64_t end, rp_visit_record *visit, rp_dispatch_round *round,
                        rp_error *error);
/* Under the lock: dispatches a round of records from the dispatched offset on. 1: there may be more; 0: there are none for now;
 * negative: why they cannot be dispatched. */
int rp_commit_log_dispatch_round(rp_commit_log *log, rp_dispatch_round *round, rp_error *error);
/* Under the lock, which is released in between to wake readers: dispatches everything. RP_OK, or why no more can be dispatched now. */
int rp_commit_log_dispatch_all(rp_commit_log *log, rp_error *error);
/* Wakes the round's readers. Outside the lock. */
void rp_commit_log_wake_round(rp_commit_log *log, const rp_dispatch_round *round);

#endif
