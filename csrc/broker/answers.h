/* answers.h: answers that are rare enough to be built as an rp_command: errors and refusals. Private to csrc/broker.
 *
 * Threads  the connection's reactor.
 */
#ifndef RP_BROKER_ANSWERS_H
#define RP_BROKER_ANSWERS_H

#include <inttypes.h>

#include "../remoting/server.h"
#include "answer_times.h"
#include "broker.h"
#include "request_header.h"

/* The values of RocketMQ's ResponseCode that csrc/broker answers with. */
enum rp_response_code {
    RP_RESPONSE_SUCCESS = 0,
    RP_RESPONSE_SYSTEM_ERROR = 1,
    RP_RESPONSE_SYSTEM_BUSY = 2,
    RP_RESPONSE_REQUEST_CODE_NOT_SUPPORTED = 3,
    RP_RESPONSE_FLUSH_DISK_TIMEOUT = 10,
    RP_RESPONSE_SLAVE_NOT_AVAILABLE = 11,
    RP_RESPONSE_FLUSH_SLAVE_TIMEOUT = 12,
    RP_RESPONSE_MESSAGE_ILLEGAL = 13,
    RP_RESPONSE_SERVICE_NOT_AVAILABLE = 14,
    RP_RESPONSE_NO_PERMISSION = 16,
    RP_RESPONSE_TOPIC_NOT_EXIST = 17,
    RP_RESPONSE_PULL_NOT_FOUND = 19,
    RP_RESPONSE_PULL_RETRY_IMMEDIATELY = 20,
    RP_RESPONSE_PULL_OFFSET_MOVED = 21,
    RP_RESPONSE_QUERY_NOT_FOUND = 22,
    RP_RESPONSE_SUBSCRIPTION_PARSE_FAILED = 23,
    RP_RESPONSE_SUBSCRIPTION_NOT_EXIST = 24,
    RP_RESPONSE_SUBSCRIPTION_NOT_LATEST = 25,
    RP_RESPONSE_SUBSCRIPTION_GROUP_NOT_EXIST = 26,
    RP_RESPONSE_INVALID_PARAMETER = 29,
    RP_RESPONSE_NO_MESSAGE = 208,
    RP_RESPONSE_POLLING_FULL = 209,
    RP_RESPONSE_POLLING_TIMEOUT = 210,
    RP_RESPONSE_NOT_LEADER_FOR_QUEUE = 501,
    RP_RESPONSE_ILLEGAL_OPERATION = 604
};

#define RP_FAQ_TIP "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
#define RP_NO_LEASE "this broker has not heard from the controller for too long and may be master no more"
#define RP_REJECTED "[REJECTREQUEST]system busy, start flow control for a while"
#define RP_STOPPING "[REJECTREQUEST]the broker is stopping"
/* Appended to RocketMQ's text to say which stage is slow. Takes an int64_t of milliseconds. */
#define RP_SLOW_APPEND "; slow stage: an append has held the commit log for %" PRId64 " ms (page cache or disk)"
#define RP_OVERLOADED "[OVERLOAD]system busy, start flow control for a while"

struct rp_lane;

/* What an answer needs to know of its request. */
typedef struct rp_answer_to {
    rp_connection *connection;
    rp_answer_times *times;
    int64_t arrived_ns;
    int32_t request_code;
    int32_t opaque;
    uint8_t serialize_type;
    uint8_t oneway; /* 1: the client expects no answer */
} rp_answer_to;

rp_answer_to rp_answer_to_command(struct rp_lane *lane, rp_connection *connection, const rp_command *command);
/* Counts an answer as written; rp_answer calls it, and so does code that writes an answer by itself. */
static inline void rp_answered(const rp_answer_to *to, int32_t code) {
    rp_answer_times_note(to->times, to->request_code, code, to->arrived_ns);
}

/* Answers code with a formatted remark (NULL: none) and fields, both copied. Always RP_HANDLED, or RP_E_NO_MEMORY, which closes
 * the connection: a request without an answer must not look like a slow one. */
int rp_answer(rp_answer_to to, int32_t code, const rp_field *fields, uint16_t field_count, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
#define RP_REMARK_MAX 1024

/* The fields that RocketMQ puts into every answer to a send, refusals included: MSG_REGION and TRACE_ON. */
#define RP_SEND_FIELD_COUNT 2
void rp_send_fields_init(rp_field fields[RP_SEND_FIELD_COUNT], const rp_broker_options *options);

/* Answers SYSTEM_ERROR for a header that cannot be used. */
int rp_answer_fault(rp_answer_to to, const rp_header_fault *fault);

/* Answers NOT_LEADER_FOR_QUEUE for a global queue; what: RocketMQ's name for the kind of request. */
int rp_answer_not_led(const struct rp_lane *lane, rp_answer_to to, const char *what, rp_slice topic, int32_t global_id);

/* Writes "ip:port" of the connection's peer. */
void rp_peer_text(const rp_connection *connection, char text[RP_ADDRESS_TEXT_MAX]);

#endif
