/* acked_messages.h: an AckMessageRequest, as far as it can be passed on without Python. RocketMQ: AckMessageActivity (5.3.3 proxy/).
 *
 * rocketpy/proxy/receiving.py is the specification. These requests are left to it: with no message or with more than RP_ACKED_MAX, for a
 * lite topic, with a long message id, or with invalid names.
 *
 * Threads  pure functions. Slices point into the request.
 */
#ifndef RP_PROXY_ACKED_MESSAGES_H
#define RP_PROXY_ACKED_MESSAGES_H

#include <stdint.h>

#include "../base/slice.h"

#define RP_ACKED_MAX 32 /* as many as are received at once */
#define RP_ACKED_ID_MAX 128

typedef struct rp_acked_message {
    rp_slice message_id, handle; /* the handle that the client knows */
} rp_acked_message;

typedef struct rp_acked_messages {
    rp_slice topic, group;
    uint32_t count;
    rp_acked_message messages[RP_ACKED_MAX];
} rp_acked_messages;

/* 1; 0: the request is Python's. */
int rp_acked_messages_read(rp_slice request, rp_acked_messages *acked);

#endif
