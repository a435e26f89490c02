/* pop_choice.h: chooses the messages that one pop gets of one queue, and writes the checkpoint for them. Private to csrc/broker.
 * RocketMQ: PopMessageProcessor.popMsgFromQueue, getPopOffset, getInitOffset (5.3.3 broker/processor/).
 *
 *   queue's lock ─ offset (reset, committed, or the group's first) ─ get_message ─ checkpoint in the log ─ offset moves ─ unlock
 *                                                                       └─ orderly: who has which messages is noted, the offset stays
 *
 * Threads  the reactor's; two pops of one queue for one group are serialized.
 */
#ifndef RP_BROKER_POP_CHOICE_H
#define RP_BROKER_POP_CHOICE_H

#include <pthread.h>
#include <stdint.h>

#include "../remoting/server.h"
#include "get_message.h"
#include "pop_path.h"

#define RP_POP_START_TEXT_MAX 1280  /* 32 queues of "0 65535 -9223372036854775808;" */
#define RP_POP_OFFSET_TEXT_MAX 1536 /* the same with 32 offsets */
#define RP_POP_ORDER_TEXT_MAX 3072  /* "0 qo65535%offset times;" for each message and "0 65535 times;" for each queue */

/* What one pop has collected so far. */
typedef struct rp_pop_catch {
    rp_get_limits limits;
    int64_t pop_time_ms;
    int64_t rest; /* messages left in the queues looked at */
    uint64_t bytes;
    uint32_t count, range_count;
    int32_t revive_queue_id;
    int32_t is_peek;
    int status; /* why the log accepts no more checkpoints; or RP_OK */
    /* For an acting slave: the checkpoint, for one queue, that another master must have before anybody gets the messages; NULL: none. */
    struct rp_pop_escape *escape;
    rp_topic *escape_topic;
    rp_offset_cell *escape_cell; /* claimed (rp_escape_claim) cell of that queue */
    int64_t escape_from; /* the group's offset before the pop */
    int64_t escape_next; /* … and after it */
    rp_file_range ranges[RP_POP_MESSAGES_MAX];
    uint32_t start_size, offset_size, order_size;
    uint8_t start_text[RP_POP_START_TEXT_MAX], offset_text[RP_POP_OFFSET_TEXT_MAX], order_text[RP_POP_ORDER_TEXT_MAX];
} rp_pop_catch;

/* Forgets what was requested from the disk: the next look may request again. */
static inline void rp_pop_forget_disk(rp_pop *pop) { pop->cold_ns = pop->cold_kinds = 0; }

/* Returns the lock of an offset cell's queue (broker.pop_locks of docs/locks.md). Never take two at once. */
pthread_mutex_t *rp_pop_lock_of(rp_broker *broker, const rp_offset_cell *cell);

/* Adds the queue's messages to the pop. pop->look_ms, pop->more, pop->cold_ns and catch->status say what prevented more. */
void rp_pop_choose(struct rp_lane *lane, rp_pop *pop, rp_topic *topic, int32_t queue_id, rp_pop_catch *caught);
/* Adds messages of a lite topic's light queue, in order, whatever the topic table says of a topic of that name. Returns what was found;
 * *free_ms: when messages that are out come again, wall clock. */
enum rp_light_choice { RP_LIGHT_NOTHING, RP_LIGHT_TAKEN, RP_LIGHT_BLOCKED, RP_LIGHT_LATER };
enum rp_light_choice rp_pop_choose_light(struct rp_lane *lane, rp_pop *pop, rp_topic *topic, rp_consume_queue *queue, rp_pop_catch *caught,
                                         int64_t *free_ms);
/* Returns how many messages of the queue the group has not popped; -1: unknown, or an orderly consumer's messages block it. */
int64_t rp_pop_rest(struct rp_lane *lane, rp_pop *pop, rp_topic *topic, int32_t queue_id);
/* Forgets the group's offsets of the topic, and what its orderly consumers have. If a concurrent pop has already found the topic or the
 * group, and both are deleted now, it writes none of that again. 1: there was an offset. */
int rp_pop_forget(rp_broker *broker, rp_consumption *consumption);
/* Ends a pop once another master has its checkpoint, or (status) has not: the offset moves, or the messages can be popped again. */
void rp_pop_escaped(rp_broker *broker, const rp_pop *pop, rp_pop_catch *caught, int status);
/* Releases the pins. */
void rp_pop_catch_release(rp_pop_catch *caught);

#endif
