/* dledger_pusher.h: what a leader knows of one follower in one term, and the decision what to send it next. Private to csrc/ha.
 * DLedger: DLedgerEntryPusher.EntryDispatcher (0.3.2).
 *
 *   COMPARE at the log's end, back until both agree ─► TRUNCATE what the follower has behind ─► APPEND in a window ─ COMMIT when idle
 *
 * Threads  the caller's. No sockets and no clock: decisions only.
 */
#ifndef RP_HA_DLEDGER_PUSHER_H
#define RP_HA_DLEDGER_PUSHER_H

#include <stdint.h>

#include "dledger_wire.h"

typedef struct rp_pusher {
    int64_t term;          /* below 0: this follower is not pushed to */
    int64_t compare_at;    /* -1: at the log's end */
    int64_t next_index;    /* of the next entry to be appended */
    int64_t matched_index; /* up to here the follower is known to hold the log; -1: nothing */
    int64_t refused_at;    /* matched_index at the last refused append */
    int64_t quiet_until_ms;
    int64_t told_commit, told_ms; /* the committed index it was last told, and when */
    uint64_t flying_bytes;
    uint32_t flying;     /* entries of appends in flight */
    uint32_t generation; /* of appends: one sent before the last comparison counts only if it succeeds */
    int32_t truncate_at_begin; /* 1: the two logs have no entry in common, and the follower is to begin anew with this one */
    int32_t is_appending;      /* 1: the comparison is over */
    int32_t is_asked;          /* 1: a COMPARE or TRUNCATE is not answered yet */
} rp_pusher;

/* The leader's log and settings at this moment. */
typedef struct rp_pusher_view {
    int64_t begin_index, end_index, committed_index;
    int64_t now_ms;
    uint32_t window, window_bytes, retry_ms, commit_interval_ms;
} rp_pusher_view;

/* A push in flight. */
typedef struct rp_push {
    int32_t type;
    int64_t index, last_index; /* of its entries; -1 for a COMMIT */
    uint64_t bytes;
    uint32_t generation;
    int64_t commit_index;
} rp_push;

void rp_pusher_begin(rp_pusher *pusher, int64_t term);
/* The connection has ended: compares again, after a pause. */
void rp_pusher_lost(rp_pusher *pusher, const rp_pusher_view *view);
/* 1: *push is to be sent; an APPEND carries entries from its index on. 0: nothing is to be sent now. */
int rp_pusher_next(const rp_pusher *pusher, const rp_pusher_view *view, rp_push *push);
/* Notes that the push was sent; the caller has filled in last_index and bytes. */
void rp_pusher_sent(rp_pusher *pusher, const rp_push *push, const rp_pusher_view *view);
void rp_pusher_answered(rp_pusher *pusher, const rp_push *push, const rp_push_response *response, const rp_pusher_view *view);
/* Returns when rp_pusher_next may have something new although nothing was appended, committed or answered. */
int64_t rp_pusher_due_ms(const rp_pusher *pusher, const rp_pusher_view *view);

#endif
