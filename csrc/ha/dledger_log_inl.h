/* dledger_log_inl.h: the fields of a member of a DLedger commit log, for its files. C only. */
#ifndef RP_HA_DLEDGER_LOG_INL_H
#define RP_HA_DLEDGER_LOG_INL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "../base/address.h"
#include "../base/thread.h"
#include "../store/commit_log_ledger.h"
#include "dial.h"
#include "dledger_log.h"
#include "dledger_pusher.h"
#include "dledger_wire.h"

#define RP_DLEDGER_WINDOW_MAX 4096
#define RP_DLEDGER_REACTORS_MAX 64
#define RP_DLEDGER_GROUP_MAX 256

/* A push that was sent and not answered yet, and when. */
typedef struct rp_push_sent {
    rp_push push;
    int64_t sent_ms, end_offset; /* end_offset: log offset behind its last entry */
    uint64_t end_byte; /* position of its end in everything sent on this connection */
    bool is_open;
} rp_push_sent;

/* One of the other members, while this one leads. Owned by its thread, except where noted. */
typedef struct rp_dledger_follower {
    rp_dledger_log *dledger; /* fixed */
    char id[RP_DLEDGER_ID_MAX], address[RP_ENDPOINT_TEXT_MAX]; /* fixed */
    rp_thread *thread;       /* owner */
    int wake_fd;             /* fixed */
    atomic_int sleeping;     /* sequentially consistent against the log's end, as in index_builder.c */

    /* Leaf except for the store's locks: held while the log is read for the follower; cutting the log takes it first. */
    pthread_mutex_t read_lock;
    int64_t matched_index, matched_offset; /* guarded by dledger.lock */
    /* Guarded by dledger.seen_lock: figures, and copies of the two above from when dledger.lock was last released. */
    rp_dledger_follower_row row;

    rp_pusher pusher;
    int fd; /* -1: not connected */
    rp_look_ups look_ups;
    uint32_t opaque_first, opaque_next; /* of the pushes that may be open; the numbers wrap around */
    rp_push_sent sent[RP_DLEDGER_WINDOW_MAX]; /* by opaque */
    uint64_t bytes_out;     /* of all pushes put into this connection's output */
    uint64_t bytes_arrived; /* of these, at the follower's machine when last checked */
    int64_t moved_ms;       /* when bytes_arrived was seen to grow */
    int64_t seen_end, seen_committed;      /* of the leader's log, when this thread last looked for something to send */
    uint8_t *output, *input;               /* owned */
    uint32_t output_size, output_at, output_capacity, input_size, input_capacity;
    rp_arena *arena;                       /* for answers */
} rp_dledger_follower;

/* The answer to a push, until the end of the turn that received it. */
typedef struct rp_push_answer {
    struct rp_push_answer *next;
    rp_connection *connection;
    int32_t opaque;
    uint8_t serialize_type;
    int64_t end_offset; /* what has to be on disk first; 0: nothing */
    rp_push_response response;
} rp_push_answer;

struct rp_dledger_log {
    rp_dledger_options options; /* fixed; texts are in the copies below */
    char group[RP_DLEDGER_GROUP_MAX], self_id[RP_DLEDGER_ID_MAX]; /* fixed */
    rp_commit_log *log;         /* fixed */
    rp_handler handler;         /* fixed */
    uint32_t follower_count;    /* fixed */
    rp_dledger_follower *followers[RP_DLEDGER_PEERS_MAX]; /* fixed */
    rp_thread *disk_thread;     /* owner; NULL: not needed */
    int disk_fd, claim_fd;      /* fixed */
    atomic_int disk_sleeping;
    atomic_int stopping;
    _Atomic int64_t leads_term; /* term in which followers are pushed to; -1: this member does not lead. Written under lock */
    _Atomic int64_t committed_index; /* written under lock */
    _Atomic int64_t refused_due_ns; /* when a refusal may be logged again */

    pthread_mutex_t lock; /* before the store's locks */
    int64_t term;
    bool is_leader;
    char leader_id[RP_DLEDGER_ID_MAX];
    int64_t first_end;      /* log offset behind the first entry of the term that is led */
    int64_t matched_index;  /* on a follower: how far its log is its leader's */
    int64_t gap_index;      /* on a follower whose log ends before its leader's begins: where that begins; otherwise -1 */
    int64_t committed_offset;
    int64_t heard_ms;
    uint64_t pushes_taken, pushes_refused, entries_appended, cuts;
    uint8_t *entry_bytes;   /* owned: a decoded entry of a push */
    uint32_t entry_capacity;

    pthread_mutex_t seen_lock; /* leaf: guards what Python and operators read, who must not wait for the disk behind a holder of lock */
    rp_dledger_state seen;     /* except for the log's end; from when lock was last released */
    rp_dledger_claim claim;

    rp_push_answer *answers[RP_DLEDGER_REACTORS_MAX]; /* one list per reactor, in its arena, newest first */
};

/* Releases lock, after copying what it guards into `seen`. */
void rp_dledger_leave(rp_dledger_log *dledger);
/* dledger_log.c, under lock. */
void rp_dledger_commit(rp_dledger_log *dledger, int64_t index, int64_t offset);
void rp_dledger_advance(rp_dledger_log *dledger);
/* RP_OK; RP_E_BUSY: an append is stuck, and this member still leads. */
int rp_dledger_step_down(rp_dledger_log *dledger, uint32_t wait_ms);
void rp_dledger_raise_claim(rp_dledger_log *dledger, int64_t term, const char *leader_id);
const rp_dledger_follower *rp_dledger_member(const rp_dledger_log *dledger, rp_slice id);
/* Wakes the thread that sleeps on wake_fd, if it does. Any thread. */
void rp_dledger_wake(atomic_int *sleeping, int wake_fd);
/* The log has grown: wakes the threads that wait for that. Called in the appender's thread. */
void rp_dledger_appended(void *dledger);

/* dledger_disk.c: the thread of a member without followers, or whose disk counts. */
void rp_dledger_disk_run(void *dledger);

/* dledger_follow.c: the hooks of the DLedger port. */
int rp_dledger_on_request(void *context, rp_reactor *reactor, rp_connection *connection, const rp_command *command, int resubmitted);
void rp_dledger_on_turn_end(void *context, rp_reactor *reactor);

/* dledger_push.c: the thread for a follower. */
void rp_dledger_push_run(void *follower);

#endif
