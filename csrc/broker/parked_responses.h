/* parked_responses.h: responses of one reactor that wait until their messages are on disk, on slaves, or both. Private to csrc/broker.
 * RocketMQ: GroupCommitRequest, GroupTransferService, CommitLog.handleDiskFlushAndHA (5.3.3 store/).
 *
 *   append ─ frame written with SUCCESS ─ push ─ [FIFO by log offset] ─ flushed and replicated pass its end ─► connection
 *                                                                    └ deadline: code replaced, the message stays
 *
 * A reactor appends in log order, so offsets in the FIFO only grow, and checking its head is enough.
 *
 * Threads  the reactor's, except that the broker reads the lane's `parked` counter.
 * Owns     copies of the frames.
 * Bounds   RP_PARKED_MAX responses; senders are told SYSTEM_BUSY before their message is stored (is_full).
 */
#ifndef RP_BROKER_PARKED_RESPONSES_H
#define RP_BROKER_PARKED_RESPONSES_H

#include <stdint.h>

#include "answers.h"
#include "broker.h"

#define RP_PARKED_MAX 131072
#define RP_PARKED_INLINE 320
#define RP_PARKED_FEW 4 /* up to this many, threads are spared a wake-up on the way to disk and back; beyond, work is shared */

struct rp_lane;

enum rp_parked_need { RP_NEEDS_FLUSH = 1, RP_NEEDS_SLAVES = 2, RP_NEEDS_COMMIT = 4 };

/* How a stored message fared on its way to disk and slaves: a response code, and in the bits above which of its reasons. RocketMQ's
 * clients react to NOT_MASTER by sending the message elsewhere: nobody knows whether the next master has it. */
enum rp_outcome {
    RP_OUTCOME_FLUSH_TIMEOUT = RP_RESPONSE_FLUSH_DISK_TIMEOUT,
    RP_OUTCOME_NO_SLAVE = RP_RESPONSE_SLAVE_NOT_AVAILABLE,
    RP_OUTCOME_GAP = RP_RESPONSE_SLAVE_NOT_AVAILABLE | 1 << 8,
    RP_OUTCOME_SLAVE_TIMEOUT = RP_RESPONSE_FLUSH_SLAVE_TIMEOUT,
    RP_OUTCOME_NOT_COMMITTED = RP_RESPONSE_SYSTEM_ERROR,
    RP_OUTCOME_NOT_MASTER = RP_RESPONSE_SERVICE_NOT_AVAILABLE
};
#define RP_OUTCOME_CODE(outcome) ((outcome) & 0xFF)
#define RP_OUTCOME_SIZE_MAX 192u /* bytes that rp_outcome_write may add to a frame */

typedef struct rp_parked_response {
    int64_t end_offset; /* log offset behind the last byte that must be safe */
    int64_t arrived_ns;
    union {
        uint64_t connection_id;
        struct rp_reply *reply; /* if size is 0: what continues instead of a frame being sent (pending_replies.h) */
    };
    uint8_t *large; /* the frame if it does not fit inside; owned */
    uint32_t size;
    int16_t outcome; /* 0, or the failure known already */
    uint16_t needs;
    uint32_t leadership; /* the broker's, when the message was stored */
    int32_t request_code;
    uint8_t frame[RP_PARKED_INLINE];
} rp_parked_response;

typedef struct rp_parked_responses {
    rp_parked_response *ring; /* capacity is a power of two, grown by doubling */
    uint32_t capacity, head, count;
    int64_t flush_wanted; /* log offset of the last response that waits for the disk */
    /* One was parked in this turn; the offset alone does not tell, since offsets start again after a cut of the log. */
    int wants_flush;
    /* The head's end_offset, or an earlier one: an ack below it need not wake the reactor. Never decreases; written by the reactor,
     * released. */
    _Atomic int64_t head_end;
} rp_parked_responses;

void rp_parked_responses_free(rp_parked_responses *parked);
int rp_parked_responses_are_full(const rp_parked_responses *parked, uint32_t more);

/* Turns the frame of a SUCCESS into one of the outcome; outcome 0 leaves it unchanged. Returns its new size. */
uint32_t rp_outcome_write(int32_t outcome, uint8_t *frame, uint32_t size);

/* Returns what a message that ends at end_offset has to wait for now, as rp_parked_need bits. *outcome: the failure known already; 0:
 * none. */
uint32_t rp_parked_needs(const rp_broker *broker, int64_t end_offset, int32_t *outcome);

/* Parks a copy of the frame. RP_OK, RP_E_NO_MEMORY. */
int rp_parked_responses_push(struct rp_lane *lane, const rp_answer_to *to, int64_t end_offset, uint32_t needs, int32_t outcome,
                             const uint8_t *frame, uint32_t size);
/* The same for a reply that was stored: rp_reply_stored is called when it is complete or late. */
int rp_parked_responses_push_reply(struct rp_lane *lane, struct rp_reply *reply, int64_t end_offset, uint32_t needs);
/* For callers that append by themselves, outside of reactors: blocks until what they appended, up to end_offset, is committed.
 * leadership: its value before the append. RP_OK, at once if the log has no entries; RP_E_TIMEOUT; RP_E_READ_ONLY: the lead was lost,
 * and another leader may take the message back. */
int rp_broker_wait_committed(rp_broker *broker, uint32_t leadership, int64_t end_offset, int64_t timeout_ms);
/* Requests, without waiting, the sync of what was appended up to end_offset. Does nothing without SYNC_FLUSH. Any thread. */
void rp_broker_request_flush(const rp_broker *broker, int64_t end_offset);
/* How long senders wait for a commit, in ms: slaveTimeout. */
int64_t rp_broker_commit_patience_ms(const rp_broker *broker);
/* At a turn's end: requests the sync of what was parked in the turn, if it waits for the disk. */
void rp_parked_responses_request_flush(struct rp_lane *lane);
/* Sends the responses that are complete or late. Returns the next deadline in monotonic ns; INT64_MAX if nothing waits. */
int64_t rp_parked_responses_complete(struct rp_lane *lane, int64_t now_ns);

#endif
