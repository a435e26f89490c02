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
    /* Stored under flushed_lock, after the sync by whoever leads it, and by whoever cuts the log. Sequentially consistent, as what was
     * asked of the flusher is: whoever asks looks at this afterwards, the flusher stores it and then looks at what was asked, and one of
     * the two sees the other. */
    _Atomic int64_t flushed_offset;
    _Atomic int64_t store_timestamp_ms; /* of the last published record; released after max_offset */
    _Atomic uint32_t message_size_max; /* of a body; relaxed: a setting that may change */
    _Atomic uint32_t busy_timeout_ms, wait_timeout_ms; /* as in the setup at first; relaxed, likewise */
    _Atomic int32_t failure; /* 0, or the status every further append gets; set once, never cleared */
    _Atomic uint64_t messages, bytes, failures, lock_ns_max; /* counters; written under the append lock, relaxed */

    _Atomic uint64_t refused_busy; /* counter, relaxed */
    _Atomic int64_t locked_ns; /* since when an append has held the lock, 0: none does; relaxed: whoever looks may be late */

    _Atomic int64_t unreadable_due_ns, refused_due_ns; /* when each may be told of again: rp_log_is_due */

    pthread_mutex_t append_lock; /* first of the store's locks: extend_lock and the rows' are taken under it */
    int64_t position; /* guarded by append_lock: end of the log, equal to max_offset outside an append */
    rp_mapped_file *active; /* guarded by append_lock: pinned file of position, NULL before the first append */
    uint8_t *active_address; /* guarded by append_lock */
    int64_t active_end; /* guarded by append_lock: first byte behind the active file */
    rp_log_staging staging; /* guarded by append_lock; of what goes through the map only what is torn */
    uint8_t *inner_text; /* guarded by append_lock: an item's last properties for a batch queue; NULL before the first */
    int64_t ready_end; /* guarded by append_lock: preallocation's, as last seen */
    int64_t uncleared_end; /* guarded by append_lock: up to here a cut that failed has left old bytes; 0: nowhere */
    _Atomic int64_t lease_until_ns; /* relaxed: the clock passes it by itself */
    bool is_following; /* guarded by append_lock: appends are refused */
    bool is_paused; /* guarded by append_lock: the same for a while, of a log that leads */
    int64_t dispatch_limit; /* guarded by append_lock */
    bool holds_back; /* guarded by append_lock, for one append: what it brings gets its entries later (commit_log_held.c) */
    int64_t appended_end; /* guarded by append_lock: own records below it were counted when they were appended */
    _Atomic uint64_t places; /* grows when queues' placed_end are counted again: older ones say nothing. Written under append_lock */
    _Atomic uint64_t cuts; /* how often the end went back. Written under append_lock and flushed_lock, behind max_offset */
    pthread_mutex_t flushed_lock; /* leaf */

    pthread_mutex_t failure_lock; /* leaf */
    rp_error failure_error; /* guarded by failure_lock until failure is set */

    /* Records below it are whole, have their queue entries and are fed to the index; a slave's last record may be incomplete. Written
     * under append_lock, released. */
    _Atomic int64_t dispatched;
    int64_t dispatch_failed_at; /* guarded by append_lock: reported once per place */
    _Atomic uint64_t queues_begun; /* relaxed: replicated messages that were their queue's first */
    rp_error damage; /* guarded by append_lock until damaged_at is set, fixed after it */
    _Atomic int64_t damaged_at; /* where replicated bytes are not a record, -1: nowhere; set once, released after damage */
    rp_dispatch_record *dispatch, *place; /* fixed before the first replicated byte */
    void *dispatch_context;

    pthread_mutex_t committed_lock; /* leaf: of the condition alone */
    pthread_cond_t committed; /* dispatched has moved on, or the log was cut, and somebody waits */
    _Atomic uint32_t commit_waiters; /* sequentially consistent against dispatched */
    uint32_t head_size; /* fixed: RP_LEDGER_HEAD_SIZE when the log has entries, else 0 */
    int64_t term; /* guarded by append_lock: of the entries that are appended */
    int64_t next_index; /* guarded by append_lock: of the next entry, staged ones counted */
    _Atomic int64_t begin_index; /* of the first file's first; -1: no entry */
    _Atomic int64_t end_index, end_term; /* of the last published entry; end_index is released after its unit and bytes */

    rp_index_feed *index_feed; /* fixed before the first append and after the last; NULL: nobody indexes */

    struct {
        void (*_Atomic appended)(void *context); /* stored last, released; NULL: free. Removed only while nobody appends. */
        void *_Atomic context;
    } followers[RP_LOG_FOLLOWERS_MAX];

    void (*arrived)(void *context, rp_consume_queue *queue, uint64_t waiting); /* fixed before the first append */
    void *arrived_context;
};

/* commit_log_append.c, under the append lock. */
static inline bool rp_commit_log_is_staging(const rp_commit_log *log) { return log->setup.ready_mode == RP_READY_FOR_SYNC; }
/* `size` bytes fit at the log's position of the active file, behind the end of the file before when they have to; items are those whose
 * records are staged. */
int rp_commit_log_make_room(rp_commit_log *log, rp_append_item *items, uint32_t size);
/* Writes what is staged. */
int rp_commit_log_write_out(rp_commit_log *log);
/* commit_log_map.c, under the append lock: what is stored to the active file next finds space in it, and nothing lies behind it. */
int rp_commit_log_hold(rp_commit_log *log, uint32_t size);
/* Calls store(context), which stores the `size` bytes at the log's position. RP_OK; RP_E_DISK_FULL: there was space, and is none, or
 * RP_E_IO: what was stored is torn. */
int rp_commit_log_store(rp_commit_log *log, uint32_t size, void (*store)(void *context), void *context);
/* The padding record over the `left` bytes that end the active file: at target, and at the log's position. The latter RP_OK, or as the
 * store. */
void rp_commit_log_encode_blank(const rp_commit_log *log, uint8_t *target, uint32_t left);
int rp_commit_log_store_blank(rp_commit_log *log, uint32_t left);
/* What was to follow the padding of a file could not be appended. */
void rp_commit_log_take_back_padding(rp_commit_log *log);
/* What was written from the log's position to `end` is none: zeros, at once if there is space for them. */
void rp_commit_log_tear(rp_commit_log *log, int64_t end);
/* Where queues' files copy on write: the entry into all of the item's queues or into none, for nobody to see yet. RP_OK, RP_E_DISK_FULL,
 * RP_E_IO. */
int rp_commit_log_write_entries(rp_commit_log *log, const rp_append_item *item, const rp_queue_entry *entry);
/* commit_log_replicated.c, under the append lock: an empty log starts there. */
int rp_commit_log_start_at(rp_commit_log *log, int64_t offset, rp_error *error);
/* commit_log_ledger.c, under the append lock: the next entry's head for a record of that size at the log's position; and that it is
 * there, with its unit: RP_OK, RP_E_DISK_FULL. */
rp_ledger_entry rp_commit_log_next_entry(const rp_commit_log *log, uint32_t record_size);
int rp_commit_log_publish_entry(rp_commit_log *log, const rp_ledger_entry *entry);

/* commit_log_cut.c, under the append lock: before anything is written behind an end that a failed cut, or an append, has left. RP_OK,
 * RP_E_IO, RP_E_DISK_FULL, RP_E_NO_MEMORY. */
int rp_commit_log_clear_behind(rp_commit_log *log, rp_error *error);

/* commit_log_held.c, under the append lock: queues' places are counted again, by what is not dispatched yet; *end is behind the last whole
 * record of it. */
int rp_commit_log_place_held(rp_commit_log *log, int64_t *end, rp_error *error);

/* commit_log_dispatch.c */
#define RP_WOKEN_QUEUES_MAX 64 /* when a record is visited; it may bring its own and all its light ones */
#define RP_ROUND_RECORDS_MAX 1024 /* while appends wait for the lock */

/* One hold of the lock: queues that got entries, to wake their readers outside of it. */
typedef struct rp_dispatch_round {
    rp_consume_queue *queues[RP_WOKEN_QUEUES_MAX + 1 + RP_LIGHT_TARGETS_MAX];
    uint32_t count, records;
} rp_dispatch_round;

/* Under the lock: what is done with a whole record. RP_OK, or why it goes no further. */
typedef int rp_visit_record(rp_commit_log *log, const rp_message *message, rp_dispatch_round *round, rp_error *error);
/* Under the lock: visits the whole records of one file from *offset on, up to `end`, at most a round of them; *offset is behind the last.
 * RP_OK; RP_E_CORRUPT: what stands there is no record; what the log cannot be read for, or the visit failed with. */
int rp_commit_log_visit(rp_commit_log *log, int64_t *offset, int64_t end, rp_visit_record *visit, rp_dispatch_round *round,
                        rp_error *error);
/* Under the lock: entries for a round of records from the dispatched offset on. 1: there may be more; 0: not now; or why there are none. */
int rp_commit_log_dispatch_round(rp_commit_log *log, rp_dispatch_round *round, rp_error *error);
/* Under the lock, which is given up in between to wake readers: all there is. RP_OK, or why there is no more for now. */
int rp_commit_log_dispatch_all(rp_commit_log *log, rp_error *error);
/* Outside the lock. */
void rp_commit_log_wake_round(rp_commit_log *log, const rp_dispatch_round *round);

#endif
