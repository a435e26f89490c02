/* receipt_handle.h: the text by which a consumer names a popped message. RocketMQ: ReceiptHandle, ExtraInfoUtil (5.3.3 common/,
 * remoting/).
 *
 *   START_OFFSET POP_TIME INVISIBLE_MS REVIVE_QUEUE KIND BROKER QUEUE OFFSET [LOG_OFFSET]
 *
 * Reads what rocketpy/proxy/handles.py reads, but only in the form in which that writes it.
 *
 * Threads  pure functions. Slices point into the text.
 */
#ifndef RP_PROXY_RECEIPT_HANDLE_H
#define RP_PROXY_RECEIPT_HANDLE_H

#include <stdint.h>

#include "../base/slice.h"

#define RP_RECEIPT_HANDLE_MAX 512

typedef struct rp_receipt_handle {
    int64_t visible_ms; /* when the message becomes visible again */
    uint8_t kind;       /* 0: popped from its own topic; 1, 2: from the group's retry topic, in one form of its name or the other */
    rp_slice broker;
    rp_slice queue_id; /* in decimal, like the offset */
    rp_slice offset;
    rp_slice log_offset; /* data NULL: not given */
} rp_receipt_handle;

/* Returns 1; 0: it is not a handle, or not in canonical form. */
int rp_receipt_handle_read(rp_slice text, rp_receipt_handle *handle);
#define RP_RETRY_TOPIC_MAX 255 /* "%RETRY%", a group, a separator and a topic */
/* Returns the topic that the message was popped from; the name of a retry topic is written into `room`. topic and group must be valid
 * names (resource.h). */
rp_slice rp_receipt_handle_topic(const rp_receipt_handle *handle, rp_slice topic, rp_slice group, uint8_t room[RP_RETRY_TOPIC_MAX]);

#endif
