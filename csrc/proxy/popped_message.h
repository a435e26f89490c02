/* popped_message.h: a broker's answer to a pop: its messages, and the handle by which each is spoken of.
 * RocketMQ: MQClientAPIImpl.processPopResponse, ExtraInfoUtil (5.3.3 client/, remoting/), ReceiptHandle (5.3.3 common/).
 *
 * Like popped() of rocketpy/proxy/handles.py. A message that carries its handle (the property POP_CK, which brokers write) has that one,
 * with its offset in the log behind it. A message whose producer gave it no id, or a blank one, gets one from its store host and log
 * offset.
 *
 * Threads  pure functions. Slices point into the answer and the broker's name; that of the id perhaps into the message's struct.
 * Bounds   RP_POPPED_MAX messages, RP_POP_INFO_MAX bytes of texts about queues: an answer with more is refused, since no pop asks for that.
 */
#ifndef RP_PROXY_POPPED_MESSAGE_H
#define RP_PROXY_POPPED_MESSAGE_H

#include "../remoting/command.h"
#include "../store/message.h"
#include "receipt_handle.h"
#include "shown_properties.h"

#define RP_POPPED_MAX 1024u
#define RP_POP_INFO_MAX 65536u
#define RP_PLACE_ID_MAX 56 /* digits of 20 bytes of a host and 8 of a place */

typedef struct rp_pop_answer {
    rp_slice records; /* those that are left */
    rp_slice broker, starts, counts;
    int64_t pop_ms, invisible_ms;
    int32_t revive_queue;
    uint32_t count; /* messages, of all of the answer */
} rp_pop_answer;

typedef struct rp_popped_message {
    rp_message stored;
    rp_shown_properties shown;
    int32_t attempts; /* how often it came before */
    uint32_t handle_size;
    uint8_t handle[RP_RECEIPT_HANDLE_MAX];
    uint8_t place_id[RP_PLACE_ID_MAX];
} rp_popped_message;

/* 1: it can be read to its end, and every message of it can be; 0. */
int rp_pop_answer_read(rp_pop_answer *answer, const rp_command *response, rp_slice broker);
/* Takes the next message: 1; 0: there is none left. Text that is no UTF-8 is mended in the arena; without memory 0, too. */
int rp_pop_answer_next(rp_pop_answer *answer, rp_arena *arena, rp_popped_message *popped);

#endif
