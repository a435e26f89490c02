/* dledger_log.h: one member's part in a DLedger commit log, except for votes: pushes entries to followers, accepts them from a leader,
 * and tracks what is committed.
 * DLedger: DLedgerEntryPusher, DLedgerServer.handlePush (0.3.2); RocketMQ: DLedgerCommitLog (5.3.3 store/dledger/).
 *
 *   leader    append ─► push-ID threads, one a follower ─ PUSH ─► answers ─► a majority holds an entry of this term ─► committed
 *   follower  PUSH ─► reactor of the DLedger port: compared, appended, cut ─ synced once a turn ─► answered; committed as told
 *   Python    votes, heartbeats, terms: rp_dledger_lead, rp_dledger_follow; learns of later terms and unknown leaders by rp_dledger_fd
 *
 * Committed   a majority is counted only for entries of the leader's own term; all entries before them are committed with them (Raft
 *             5.4.2). A follower counts only entries that its log is known to share with the leader in this term, and never cuts those.
 * Answers     on_committed is told the log offset up to which everything is committed, by which sends are answered
 *             (rp_broker_set_committed); and -1 when this member no longer leads.
 * Leader      a push of an earlier term is refused here with EXPIRED_TERM. A push of a later term, or of a leader that Python has not
 *             named, is answered TERM_NOT_READY, and Python is told; the leader asks again.
 *
 * Threads  one for each follower, whether this member leads or not; with `sync` one that waits for its own disk. Pushes are handled on
 *          the reactor of the server that has the handler; it should have a single reactor, because that waits for the disk. lead,
 *          follow and close from one thread; the rest from any.
 * Owns     its threads and connections. Borrows the store, and the options' context.
 * Bounds   RP_DLEDGER_PEERS_MAX members; window entries and window_bytes on their way to a follower; a push of RP_FRAME_SIZE_MAX.
 */
#ifndef RP_HA_DLEDGER_LOG_H
#define RP_HA_DLEDGER_LOG_H

#include <stdint.h>

#include "../base/address.h"
#include "../base/clock.h"
#include "../base/error.h"
#include "../base/log.h"
#include "../remoting/server.h"
#include "../store/message_store.h"

typedef struct rp_dledger_log rp_dledger_log;

#define RP_DLEDGER_PEERS_MAX 16
#define RP_DLEDGER_ID_MAX 64 /* bytes of a member's id, including the final zero */

typedef struct rp_dledger_options {
    rp_message_store *store; /* opened with ledger_index_path */
    const char *group; /* dLegerGroup */
    const char *self_id; /* dLegerSelfId */
    const char *peers; /* dLegerPeers: "n0-host:port;n1-host:port", this member among them */
    uint32_t window; /* entries in flight to a follower, default 1,000 as in DLedger, at most 4,096 */
    uint32_t window_bytes; /* default 4 MiB */
    uint32_t batch_bytes; /* enableBatchPush: entries up to this many bytes together go in one push; 0, the default: each by itself */
    /* maxPushTimeOutMs 1,000: if a push is not answered for once or twice as long, and nothing more of it reaches the follower, the
     * connection is opened again */
    uint32_t push_timeout_ms;
    uint32_t retry_ms; /* pause after a failure, default 500 */
    /* A follower without new entries is told the committed index this often, default 1,000; and at once when it has moved. */
    uint32_t commit_interval_ms;
    int32_t sync; /* 1: only what is on disk is acknowledged or counted (SYNC_FLUSH) */
    const rp_clock *clock;
    rp_log *log;
    /* Called on any thread, one call at a time: see Answers above. May be NULL. */
    void (*on_committed)(void *context, int64_t offset);
    void *context;
} rp_dledger_options;

void rp_dledger_options_default(rp_dledger_options *options);
/* Opens the log; it has no leader at first. RP_OK; RP_E_INVALID (peers, group, a store without entries), RP_E_NO_MEMORY, RP_E_BUSY (no
 * threads), RP_E_IO. */
int rp_dledger_open(const rp_dledger_options *options, rp_dledger_log **dledger, rp_error *error);
/* To be called after the server that uses its handler has stopped, and before the store is closed. NULL is allowed. */
void rp_dledger_close(rp_dledger_log *dledger);
/* Returns the handler for the server of the DLedger port (rp_server_open): it answers PUSH and passes everything else to Python. */
const rp_handler *rp_dledger_handler(rp_dledger_log *dledger);

/* This member has won the vote and leads in that term. RP_OK: appends are accepted from now on. Otherwise an error of
 * rp_commit_log_lead_entries: the term has begun, but this member does not lead in it. Also RP_E_RANGE for a term below the present one. */
int rp_dledger_lead(rp_dledger_log *dledger, int64_t term, rp_error *error);
/* The term has begun, and leader_id leads it; NULL: no leader is known. When this returns RP_OK, no append is under way, nothing of an
 * earlier leader will be stored any more, and everybody who waits for a commit has been told -1. RP_E_INVALID: there is no such member, or
 * it is this one; RP_E_RANGE: a term below the present one; RP_E_BUSY: after half a second the disk still holds up an append or a push.
 * After RP_E_BUSY, also from rp_dledger_lead, nothing has changed, and nobody may be told about that term yet. */
int rp_dledger_follow(rp_dledger_log *dledger, int64_t term, const char *leader_id, rp_error *error);

/* For a leader that hands its lead over: once this returns RP_OK, no append is accepted until it is called with 0 or another term begins.
 * What the log has is still pushed. RP_E_READ_ONLY: this member does not lead; RP_E_BUSY: as for rp_dledger_follow. */
int rp_dledger_pause(rp_dledger_log *dledger, int is_paused, rp_error *error);

/* What Python has to be told: a push named a leader of this or a later term that this member does not follow, or a follower knows a
 * later term (leader_id is then empty). */
typedef struct rp_dledger_claim {
    int64_t term; /* 0: there is none */
    char leader_id[RP_DLEDGER_ID_MAX];
} rp_dledger_claim;
/* An eventfd that is readable while there is a claim; owned by this object until close. */
int rp_dledger_fd(const rp_dledger_log *dledger);
/* Takes out the claim with the latest term. */
void rp_dledger_take_claim(rp_dledger_log *dledger, rp_dledger_claim *claim);

typedef struct rp_dledger_state {
    int64_t term;
    int32_t is_leader;
    int32_t is_writable; /* 0: a sync of the log has failed, and it accepts no more entries: a leader with it should step down */
    int64_t held_ms; /* how long, in ms, the append under way has held the log; 0: none is under way */
    char leader_id[RP_DLEDGER_ID_MAX]; /* "" if no leader is known */
    int64_t begin_index, end_index, end_term, end_offset; /* of the log: what a vote is requested with */
    int64_t committed_index, committed_offset;
    int64_t heard_ms; /* monotonic: when the leader's last push came; 0: never in this term */
    int64_t gap_index; /* the leader's first entry, if this log ends before it and has to begin anew; otherwise -1 */
    uint64_t pushes_taken, pushes_refused, entries_appended, cuts;
} rp_dledger_state;
/* Reads the state after the last finished push, commit or change of term. Never waits for the disk. */
void rp_dledger_read_state(rp_dledger_log *dledger, rp_dledger_state *state);

typedef struct rp_dledger_follower_row {
    char id[RP_DLEDGER_ID_MAX];
    char address[RP_ENDPOINT_TEXT_MAX];
    int32_t is_connected, is_appending;
    int64_t matched_index, matched_offset; /* up to which index and log offset it is known to hold the log in this term; -1: nothing */
    uint64_t entries_sent, bytes_sent;
    char last_error[160]; /* why its connection last ended; "" if it never did */
} rp_dledger_follower_row;
/* Fills up to rows_max rows and returns how many followers there are. */
uint32_t rp_dledger_read_followers(rp_dledger_log *dledger, rp_dledger_follower_row *rows, uint32_t rows_max);

#endif
