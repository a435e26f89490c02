/* popped_message.h: a broker's answer to a pop: its messages, each with its receipt handle.
 * RocketMQ: MQClientAPIImpl.processPopResponse, ExtraInfoUtil (5.3.3 client/, remoting/), ReceiptHandle (5.3.3 common/).
 *
 * Does the same as popped() of rocketpy/proxy/handles.py. A message that carries its handle (the property POP_CK, which brokers write)
 * keeps it, with its log offset appended. A message whose producer gave it no id, or a blank one, gets one from its store host and log
 * offset.
 *
 * Threads  pure functions. Slices point into the answer and the broker's name; that of the id may point into the message's struct.
 * Bounds   RP_POPPED_MAX messages, RP_POP_INFO_MAX bytes of texts about queues. No pop asks for more, so a larger answer is refused.
 */
#ifndef RP_PROXY_POPPED_MESSAGE_H
#define RP_PROXY_POPPED_MESSAGE_H

#include "../remoting/command.h"
#include "../store/message.h"
#include "receipt_handle.h"
#include "shown_properties.h"

#define RP_POPPED_MAX 1024u
#define RP_POP_INFO_MAX 65536u
#define RP_PLACE_ID_MAX 56 /* hex digits of a host, 20 bytes, and of a log offset, 8 */

typedef struct rp_pop_answer {
    rp_slice records; /* not yet taken */
    rp_slice broker, starts, counts;
    int64_t pop_ms, invisible_ms;
    int32_t revive_queue;
    uint32_t count; /* messages in the whole answer */
} rp_pop_answer;

typedef struct rp_popped_message {
    rp_message stored;
    rp_shown_properties shown;
    int32_t attempts; /* how often it was delivered before */
    uint32_t handle_size;
    uint8_t handle[RP_RECEIPT_HANDLE_MAX];
    uint8_t place_id[RP_PLACE_ID_MAX];
} rp_popped_message;

/* Returns 1 if the whole answer and every message in it can be read, else 0. */
int rp_pop_answer_read(rp_pop_answer *answer, const rp_command *response, rp_slice broker);
/* Takes the next message. Returns 1; 0: none is left, or out of memory. Text that is not UTF-8 is mended in the arena. */
int rp_pop_answer_next(rp_pop_answer *answer, rp_arena *arena, rp_popped_message *popped);

#endif
