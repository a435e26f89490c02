/* changed_message.h: a ChangeInvisibleDurationRequest, as far as it can be passed on without Python.
 * RocketMQ: ChangeInvisibleDurationActivity (5.3.3 proxy/).
 *
 * rocketpy/proxy/receiving.py is the specification. These are left to it: times that are not allowed, lite topics, requests to suspend, and
 * invalid names and handles.
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

/* 1; 0: the request is Python's. invisible_max_ms 0: there is no most. */
int rp_changed_message_read(rp_slice request, int64_t invisible_max_ms, rp_changed_message *changed);

#endif
