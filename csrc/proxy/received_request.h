/* received_request.h: a ReceiveMessageRequest, as far as it can be passed on without Python.
 * RocketMQ: ReceiveMessageActivity (5.3.3 proxy/grpc/v2/consumer/).
 *
 * rocketpy/proxy/receiving.py is the specification. These are left to it: times that are not allowed, filters that are too long or have
 * other than visible ASCII characters, fields that are not known here, and invalid names.
 *
 * Threads  pure functions. Slices point into the request.
 */
#ifndef RP_PROXY_RECEIVED_REQUEST_H
#define RP_PROXY_RECEIVED_REQUEST_H

#include <stdint.h>

#include "../base/slice.h"

#define RP_FILTER_SIZE_MAX 1024
#define RP_ATTEMPT_SIZE_MAX 256

/* Of the proxy's settings, in ms. */
typedef struct rp_receive_rules {
    int64_t polling_min, polling_max;
    int64_t invisible_min, invisible_max; /* of a client that sets it; no maximum: 0 */
    int64_t invisible_renewed; /* where the proxy renews it */
    int32_t may_renew;
} rp_receive_rules;

typedef struct rp_received_request {
    rp_slice group, topic, broker, filter; /* filter: without it "*" */
    rp_slice attempt_id; /* data NULL: none */
    int64_t invisible_ms;
    int64_t polling_ms; /* -1: it does not say */
    int32_t batch_size; /* 1 to 32 */
    int32_t is_sql;
    int32_t is_renewed;
} rp_received_request;

/* 1; 0: the request is Python's. */
int rp_received_request_read(rp_slice request, const rp_receive_rules *rules, rp_received_request *received);
/* How long a broker may keep it, of a client that waits for remaining_ms yet, and wants reserve_ms of that for other things when it does
 * not say; -1: it does not wait for so long, which is Python's to say. */
int64_t rp_receive_polling_ms(const rp_received_request *received, const rp_receive_rules *rules, int64_t remaining_ms, int64_t reserve_ms);

#endif
