/* acked_messages.h: an AckMessageRequest, as far as it can be passed on without Python. RocketMQ: AckMessageActivity (5.3.3 proxy/).
 *
 * rocketpy/proxy/receiving.py is the specification. Requests are left to it if they have no message or more than RP_ACKED_MAX, name a
 * lite topic, or have a long message id or an invalid name.
 *
 * Threads  pure functions. Slices point into the request.
 */
#ifndef RP_PROXY_ACKED_MESSAGES_H
#define RP_PROXY_ACKED_MESSAGES_H

#include <stdint.h>

#include "../base/slice.h"

#define RP_ACKED_MAX 32 /* as many as one receive can bring */
#define RP_ACKED_ID_MAX 128

typedef struct rp_acked_message {
    rp_slice message_id, handle; /* the handle that the client knows */
} rp_acked_message;

typedef struct rp_acked_messages {
    rp_slice topic, group;
    uint32_t count;
    rp_acked_message messages[RP_ACKED_MAX];
} rp_acked_messages;

/* Returns 1; 0: the request is left to Python. */
int rp_acked_messages_read(rp_slice request, rp_acked_messages *acked);

#endif
