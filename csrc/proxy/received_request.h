/* received_request.h: a ReceiveMessageRequest, as far as it can be passed on without Python, and the POP_MESSAGE that a broker gets for it.
 * RocketMQ: ReceiveMessageActivity (5.3.3 proxy/grpc/v2/consumer/), PopMessageRequestHeader (5.3.3 remoting/).
 *
 * rocketpy/proxy/receiving.py is the specification. Left to it are times that may not be, filters of other letters than ASCII's visible
 * ones or too long, fields that are not known here, and names that are none.
 *
 * Threads  pure functions. Slices point into the request.
 */
#ifndef RP_PROXY_RECEIVED_REQUEST_H
#define RP_PROXY_RECEIVED_REQUEST_H

#include "../remoting/command.h"

#define RP_REQUEST_POP_MESSAGE 200050
#define RP_FILTER_SIZE_MAX 1024
#define RP_ATTEMPT_SIZE_MAX 256
#define RP_POP_NUMBERS 5

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

/* A command, and the numbers that its fields point to: never copied. */
typedef struct rp_pop_command {
    rp_command command;
    uint8_t numbers[RP_POP_NUMBERS][20];
} rp_pop_command;

/* 1; 0: the request is Python's. */
int rp_received_request_read(rp_slice request, const rp_receive_rules *rules, rp_received_request *received);
/* How long a broker may keep it, of a client that waits for remaining_ms yet, and wants reserve_ms of that for other things when it does
 * not say; -1: it does not wait for so long, which is Python's to say. */
int64_t rp_receive_polling_ms(const rp_received_request *received, const rp_receive_rules *rules, int64_t remaining_ms, int64_t reserve_ms);
/* The fields point to all of the arguments. */
void rp_pop_command_fill(rp_pop_command *pop, const rp_received_request *received, int64_t polling_ms, int64_t now_ms, int is_orderly);

/* Whether a filter of tags lets a message with this tag through: each is compared, as brokers compare hashes alone. */
int rp_filter_takes(rp_slice filter, rp_slice tag);

#endif
