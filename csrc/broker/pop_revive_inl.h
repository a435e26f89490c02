/* pop_revive_inl.h: what the files of the revive thread share: reading (pop_revive_read.c), due checkpoints (pop_revive_due.c), putting
 * messages into retry topics (pop_revive_put.c), and the rounds (pop_revive.c). C only. Private to csrc/broker.
 */
#ifndef RP_BROKER_POP_REVIVE_INL_H
#define RP_BROKER_POP_REVIVE_INL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "../base/arena.h"
#include "../base/slice_inl.h"
#include "../base/thread.h"
#include "inner_messages.h"
#include "lane.h"
#include "pop_kept.h"
#include "pop_log.h"
#include "pop_revive.h"
#include "stored_message.h"

#define REVIVE_GRACE_MS 2000 /* after the invisible time: for acks under way, and those that RocketMQ's timer delivers only at its end */
#define REVIVE_AGAIN_MS 1000 /* until what failed is tried again */
#define REVIVE_ROUND_MS 1000 /* between two looks at the queues */
/* Limit of a record's body; a checkpoint has some hundred bytes, the acks of a batch at most as many thousand */
#define REVIVE_RECORD_MAX (1u << 20)

#define REVIVE_WANTED_MAX 64u
#define REVIVE_BROUGHT_MAX 64u

/* One revive queue. */
typedef struct revive_queue {
    int64_t position; /* offset of the first record that was not read */
    /* Offset of the first checkpoint of the kind that found no room: none behind it is kept; -1: all are kept. */
    int64_t skipped_from[RP_KEPT_KINDS];
    int64_t acks_from; /* acks from here to position must be read again before any message is put; -1: none */
    int64_t committed; /* the revive group's offset as last written, before which everything is over; -1: not written yet */
    rp_kept_queue kept;
} revive_queue;

/* A retry topic that is missing, or has too few queues. */
typedef struct revive_wanted {
    int32_t queues; /* that it needs */
    uint32_t size;
    uint8_t name[RP_POP_RETRY_NAME_MAX];
} revive_wanted;

struct rp_pop_revive {
    rp_broker *broker; /* fixed */
    rp_thread *thread; /* started and joined by the broker's owner */
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool stopping; /* guarded by lock */
    uint32_t wanted_count; /* guarded by lock, like the next */
    revive_wanted wanted[REVIVE_WANTED_MAX];
    _Atomic bool is_stopping; /* copy of stopping, for loops */
    /* Owned by the thread, from here on. */
    uint32_t queue_count;
    revive_queue *queues; /* owned */
    rp_kept_table kept;
    /* Fixed: a checkpoint this far behind is appended again, so that the next start need not read all records since. */
    int64_t carry_records;
    rp_arena *arena; /* for the texts of the current record */
    rp_inner_places inner_places;
    int64_t now_ms; /* wall clock of the round */
    bool has_read; /* a round is complete: everything that was in the log at the start is kept */
    rp_noted_acks noted; /* any thread */
    bool is_refused; /* the last append was refused, and that was logged */
    int64_t brought_ms[REVIVE_BROUGHT_MAX]; /* for each broker, by a hash of its name: when a message of it was last finished */
    _Atomic int64_t line_due_ns; /* limits how often certain lines are logged */
    _Atomic uint64_t done, revived, put_again, dropped, append_failures, kept_now;
    _Atomic int64_t oldest_due_ms;
};

static inline rp_slice revive_broker_name(const rp_pop_revive *revive) { return rp_slice_of(revive->broker->options.broker_name); }

static inline bool revive_is_stopping(const rp_pop_revive *revive) {
    return atomic_load_explicit(&revive->is_stopping, memory_order_relaxed);
}

/* Reads a revive queue to its end. 1: all of it was read; 0: a file could not be read, or the thread is to stop. No message may be put
 * before everything was read: its ack may be in the missing part. */
bool revive_read(rp_pop_revive *revive, rp_consume_queue *queue, revive_queue *state, int64_t now_ms);
/* Puts what is due by due_ms (now or earlier) into its retry topics. 1: nothing was refused; 0: the log accepts no more now. */
bool revive_put_due(rp_pop_revive *revive, int32_t queue_id, revive_queue *state, int64_t due_ms, int64_t now_ms);
/* Appends old checkpoints again, a few in each round: the group's offset cannot move past them while they are open. */
void revive_carry(rp_pop_revive *revive, int32_t queue_id, revive_queue *state, int64_t now_ms);

#define REVIVE_BATCH_MAX 32u

/* One message on its way to a retry topic. */
typedef struct revived_message {
    rp_kept_checkpoint *kept;
    uint32_t index;
    rp_stored_message stored;
    uint8_t *text; /* owned; its properties */
    uint8_t *record; /* owned; NULL, or a copy of the message if the commit log no longer has it */
    rp_topic *topic;
} revived_message;

typedef struct revive_batch {
    rp_pop_revive *revive;
    uint32_t count;
    uint64_t bytes;
    bool is_refused; /* an append was refused: the log accepts no more now */
    rp_stored_message whole; /* the record of a batch queue that was looked into last, which is checked once for all of its messages; pin
                                NULL: none */
    rp_append_item items[REVIVE_BATCH_MAX];
    revived_message messages[REVIVE_BATCH_MAX];
} revive_batch;

/* Returns the topic that the messages come from: for the name of a pop retry topic, the part behind the group. */
rp_slice revive_normal_topic(rp_slice topic, rp_slice group);
/* Returns the live retry topic for this topic's messages; NULL: it is missing. Python is told of that, and of one that has too few
 * queues. */
rp_topic *revive_target(rp_pop_revive *revive, const rp_pop_checkpoint *record, const rp_topic *normal);
/* Takes one message into the batch, appending the batch first if it is full; or marks the message as over if the log no longer has it.
 * RP_OK, or an error after which it is to be tried again. */
int revive_take(revive_batch *batch, rp_kept_checkpoint *kept, const rp_pop_checkpoint *record, rp_group *group, rp_topic *target,
                uint32_t index);
/* Appends the batch and marks what is over. `whole` stays until revive_end. */
void revive_flush(revive_batch *batch);
void revive_end(revive_batch *batch);

static inline void revive_count(_Atomic uint64_t *counter) { rp_count(counter, 1); }
static inline void revive_is_over(rp_kept_checkpoint *kept, uint32_t index) { kept->over |= UINT32_C(1) << index; }

#endif
