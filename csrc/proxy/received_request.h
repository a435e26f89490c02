/* received_request.h: a ReceiveMessageRequest, as far as it can be passed on without Python.
 * RocketMQ: ReceiveMessageActivity (5.3.3 proxy/grpc/v2/consumer/).
 *
 * rocketpy/proxy/receiving.py is the specification. Requests are left to it if a time is not allowed, the filter is too long or has
 * other than visible ASCII characters, a field is not known here, or a name is invalid.
 *
 * Threads  pure functions. Slices point into the request.
 */
#ifndef RP_PROXY_RECEIVED_REQUEST_H
#define RP_PROXY_RECEIVED_REQUEST_H

#include <stdint.h>

#include "../base/slice.h"

#define RP_FILTER_SIZE_MAX 1024
#define RP_ATTEMPT_SIZE_MAX 256

/* The proxy's settings, in ms. */
typedef struct rp_receive_rules {
    int64_t polling_min, polling_max;
    int64_t invisible_min, invisible_max; /* if the client sets it; maximum 0: none */
    int64_t invisible_renewed; /* if the proxy renews it */
    int32_t may_renew;
} rp_receive_rules;

typedef struct rp_received_request {
    rp_slice group, topic, broker, filter; /* filter: "*" if the request has none */
    rp_slice attempt_id; /* data NULL: none */
    int64_t invisible_ms;
    int64_t polling_ms; /* -1: not given */
    int32_t batch_size; /* 1 to 32 */
    int32_t is_sql;
    int32_t is_renewed;
} rp_received_request;

/* Returns 1; 0: the request is left to Python. */
int rp_received_request_read(rp_slice request, const rp_receive_rules *rules, rp_received_request *received);
/* Returns how long a broker may hold the poll of a client that waits for another remaining_ms. A request that gives no time polls all
 * but reserve_ms of that. -1: the client does not wait long enough to poll at all, which Python reports. */
int64_t rp_receive_polling_ms(const rp_received_request *received, const rp_receive_rules *rules, int64_t remaining_ms, int64_t reserve_ms);

#endif
