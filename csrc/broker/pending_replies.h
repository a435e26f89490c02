/* pending_replies.h: replies whose answer waits for the requester, for the disk, or for both. Private to csrc/broker.
 * RocketMQ: Broker2Client.callClient, ResponseFuture (5.3.3), where a thread waits for each.
 *
 *   lane A, the replier's                            lane B, the requester's
 *   take ─ rp_reply_push ───────── arriving ───────► written to the connection, listed by time and by opaque
 *     │  └ rp_reply_stored                             │ response, end of the connection, deadline: one of them
 *     └── over: answer ◄────────── settled ◄───────────┘
 *
 * A reply belongs to the lane it is at. Many threads push to either stack (release), and its lane takes it whole (acquire), so that each
 * side sees what the other wrote; A and B may be the same lane.
 *
 * Threads  as drawn; rp_replies_free after the last of them.
 * Owns     the replies, and their frames until a connection takes them.
 * Bounds   RP_REPLIES_MAX a lane, RP_PUSH_BYTES_MAX of frames in all, RP_PUSH_UNSENT_MAX unsent on one connection.
 */
#ifndef RP_BROKER_PENDING_REPLIES_H
#define RP_BROKER_PENDING_REPLIES_H

#include <stdatomic.h>
#include <stdint.h>

#include "answers.h"
#include "producer_table.h"

#define RP_REPLIES_MAX 4096
#define RP_PUSH_BYTES_MAX (UINT64_C(64) << 20)
#define RP_PUSH_UNSENT_MAX (UINT64_C(1) << 20) /* plus one frame: a few clients that do not read leave room for the others */
#define RP_PUSH_OPAQUE 0x40000000 /* set in the opaque of every push; Python's requests have smaller ones (remoting/service.py) */
#define RP_PUSH_CHAINS 1024u
#define RP_REQUESTER_TEXT_MAX 128 /* of a client id in a remark */

struct rp_lane;

enum rp_push_outcome {
    RP_PUSH_DONE = 0,
    RP_PUSH_NO_REQUESTER, /* the reply names no requester */
    RP_PUSH_NOT_FOUND,
    RP_PUSH_TOO_LARGE, /* for a frame */
    RP_PUSH_CLOSED,    /* the requester's connection ended, or its client does not read */
    RP_PUSH_REFUSED,   /* by the requester */
    RP_PUSH_TIMED_OUT
};

/* A complete frame to be sent to a requester. */
typedef struct rp_push_frame {
    rp_broker *broker; /* the broker whose push_bytes count it */
    uint32_t size;
    uint8_t bytes[];
} rp_push_frame;

typedef struct rp_reply {
    struct rp_lane *lane;         /* fixed: the replier's */
    struct rp_reply *made_before; /* fixed */
    struct rp_reply *next;        /* in its stack or list */
    struct rp_reply *previous;    /* in the list by time */
    struct rp_reply *next_in_chain;
    uint64_t replier_id;
    uint64_t requester_id;
    int64_t deadline_ns; /* deadline of the push */
    int64_t commit_log_offset, queue_offset; /* valid if is_stored */
    rp_push_frame *frame; /* NULL: there is none, or the connection has it */
    int64_t arrived_ns;  /* of the replier's request */
    int32_t request_code;
    int32_t opaque;
    int32_t push_opaque;
    int32_t queue_id;
    uint8_t serialize_type, oneway;
    uint8_t waits_for_push, waits_for_store; /* owned by lane A */
    uint8_t is_stored;
    uint8_t outcome; /* rp_push_outcome */
    char requester[RP_REQUESTER_TEXT_MAX];
} rp_reply;

/* Lane A's replies. */
typedef struct rp_replies {
    rp_reply *all, *free;
    uint32_t made;
    _Atomic(rp_reply *) settled;
} rp_replies;

/* Lane B's replies. */
typedef struct rp_pushes {
    _Atomic(rp_reply *) arriving;
    rp_reply *first, *last; /* by time */
    rp_reply *chains[RP_PUSH_CHAINS]; /* by opaque */
} rp_pushes;

void rp_replies_free(struct rp_lane *lane);

/* ---- lane A ---- */

/* Takes a reply that waits for nothing yet; NULL: the bound is reached, or no memory. */
rp_reply *rp_reply_take(struct rp_lane *lane, rp_answer_to replier, int32_t queue_id);
/* Encodes a push, with an opaque of its own. RP_OK; RP_E_BUSY at RP_PUSH_BYTES_MAX; RP_E_NO_MEMORY; RP_E_TOO_LARGE, RP_E_INVALID: it
 * does not make a frame. */
int rp_push_frame_create(rp_broker *broker, rp_command *push, rp_push_frame **frame);
/* Sends the frame and takes it over. */
void rp_reply_push(rp_reply *reply, rp_producer_place to, rp_push_frame *frame, int32_t push_opaque);
/* Called when the append is over, and the waiting for disk and slaves too. is_stored 0: the message was not stored. */
void rp_reply_stored(rp_reply *reply, int is_stored);
/* Frees a reply that waits for nothing, without an answer. */
void rp_reply_drop(rp_reply *reply);
/* Continues with the replies whose push was settled by lane B. */
void rp_replies_drain(struct rp_lane *lane);

/* ---- lane B ---- */

void rp_pushes_drain(struct rp_lane *lane);
/* RP_HANDLED; RP_PUNT: the response does not belong to one of these pushes. */
int rp_pushes_response(struct rp_lane *lane, const rp_connection *connection, const rp_command *response);
void rp_pushes_connection_closed(struct rp_lane *lane, uint64_t connection_id);
void rp_pushes_expire(struct rp_lane *lane, int64_t now_ns);
int64_t rp_pushes_deadline(const rp_pushes *pushes); /* monotonic ns, INT64_MAX: none */

#endif
