/* receipt_handle.h: which message of which pop a consumer speaks of. RocketMQ: ReceiptHandle, ExtraInfoUtil (5.3.3 common/, remoting/).
 *
 *   START_OFFSET POP_TIME INVISIBLE_MS REVIVE_QUEUE KIND BROKER QUEUE OFFSET [LOG_OFFSET]
 *
 * As rocketpy/proxy/handles.py reads it; only a text that it would write is taken.
 *
 * Threads  pure functions. Slices point into the text.
 */
#ifndef RP_PROXY_RECEIPT_HANDLE_H
#define RP_PROXY_RECEIPT_HANDLE_H

#include <stdint.h>

#include "../base/slice.h"

#define RP_RECEIPT_HANDLE_MAX 512

typedef struct rp_receipt_handle {
    int64_t visible_ms; /* when the message comes again */
    uint8_t kind;       /* 0: it came by its own topic; 1, 2: by the group's for retries, of either name */
    rp_slice broker;
    rp_slice queue_id; /* in decimal, as the offset */
    rp_slice offset;
    rp_slice log_offset; /* data NULL: it does not say */
} rp_receipt_handle;

/* 1; 0: it is none, or written in another way. */
int rp_receipt_handle_read(rp_slice text, rp_receipt_handle *handle);
#define RP_RETRY_TOPIC_MAX 255 /* "%RETRY%", a group, a mark and a topic */
/* The topic that it was popped from: for a retry the group's, which is written into the room. The names are such as resource.h allows. */
rp_slice rp_receipt_handle_topic(const rp_receipt_handle *handle, rp_slice topic, rp_slice group, uint8_t room[RP_RETRY_TOPIC_MAX]);

#endif
