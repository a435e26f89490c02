/* changed_message.h: a ChangeInvisibleDurationRequest, as far as it can be passed on without Python.
 * RocketMQ: ChangeInvisibleDurationActivity (5.3.3 proxy/).
 *
 * rocketpy/proxy/receiving.py is the specification. Requests are left to it if their time is not allowed, they name a lite topic, ask to
 * suspend, or have an invalid name or handle.
 *
 * Threads  pure functions. Slices point into the request.
 */
#ifndef RP_PROXY_CHANGED_MESSAGE_H
#define RP_PROXY_CHANGED_MESSAGE_H

#include <stdint.h>

#include "../base/slice.h"

typedef struct rp_changed_message {
    rp_slice topic, group, handle; /* the handle that the client knows */
    int64_t invisible_ms;
} rp_changed_message;

/* Returns 1; 0: the request is left to Python. invisible_max_ms 0: no maximum. */
int rp_changed_message_read(rp_slice request, int64_t invisible_max_ms, rp_changed_message *changed);

#endif
