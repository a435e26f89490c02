/* answer_status.h: the outcome of a call, in the codes of gRPC clients. RocketMQ: ResponseBuilder (5.3.3 proxy/grpc/v2/common/).
 *
 * The same as rocketpy/proxy/status.py, for the calls that are answered without Python.
 *
 * Threads  pure functions.
 */
#ifndef RP_PROXY_ANSWER_STATUS_H
#define RP_PROXY_ANSWER_STATUS_H

#include <stdint.h>

#include "../base/slice.h"
#include "../remoting/command.h"

#define RP_STATUS_TEXT_MAX 4096u /* bytes of a Status's message: longer remarks of brokers are cut */

/* apache.rocketmq.v2.Code */
enum rp_answer_code {
    RP_CODE_OK = 20000,
    RP_CODE_MULTIPLE_RESULTS = 30000,
    RP_CODE_MESSAGE_NOT_FOUND = 40401,
    RP_CODE_TOPIC_NOT_FOUND = 40402,
    RP_CODE_CONSUMER_GROUP_NOT_FOUND = 40403,
    RP_CODE_TOO_MANY_REQUESTS = 42900,
    RP_CODE_LITE_TOPIC_QUOTA_EXCEEDED = 42901,
    RP_CODE_LITE_SUBSCRIPTION_QUOTA_EXCEEDED = 42902,
    RP_CODE_INTERNAL_SERVER_ERROR = 50001,
    RP_CODE_HA_NOT_AVAILABLE = 50002,
    RP_CODE_NOT_IMPLEMENTED = 50100,
    RP_CODE_PROXY_TIMEOUT = 50400,
    RP_CODE_MASTER_PERSISTENCE_TIMEOUT = 50401,
    RP_CODE_SLAVE_PERSISTENCE_TIMEOUT = 50402
};

#define RP_ANSWER_CODES 14

/* Codes by which a broker says that it has stored a message. */
enum rp_stored_code {
    RP_STORED = 0,
    RP_STORED_FLUSH_DISK_TIMEOUT = 10,
    RP_STORED_SLAVE_NOT_AVAILABLE = 11,
    RP_STORED_FLUSH_SLAVE_TIMEOUT = 12
};

typedef struct rp_answer_status {
    int32_t code; /* of rp_answer_code */
    uint32_t size;
    uint8_t text[RP_STATUS_TEXT_MAX];
} rp_answer_status;

/* Returns the name of a code, which is also the message of a Status without a text; INTERNAL_SERVER_ERROR for an unknown code. Static
 * storage. */
const char *rp_answer_code_name(int32_t code);
/* Each code has a place from 0 to RP_ANSWER_CODES - 1, so that arrays can count them; other numbers have INTERNAL_SERVER_ERROR's. */
uint32_t rp_answer_code_place(int32_t code);
int32_t rp_answer_code_at(uint32_t place);
/* Sets the code, with its name as the text. */
void rp_answer_status_name(rp_answer_status *status, int32_t code);
/* Sets code and text. format is printf's. A long text is cut between two characters at RP_STATUS_TEXT_MAX; bytes that are not UTF-8 are
 * replaced. */
void rp_answer_status_set(rp_answer_status *status, int32_t code, const char *format, ...);
/* Sets the status that corresponds to a broker's error answer. */
void rp_answer_status_of(rp_answer_status *status, const rp_command *answer);

uint32_t rp_answer_status_size(const rp_answer_status *status);
/* Writes a protobuf Status; returns the end of what was written. */
uint8_t *rp_answer_status_write(const rp_answer_status *status, uint8_t *target);

#endif
