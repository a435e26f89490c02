/* changed_message.h: a ChangeInvisibleDurationRequest, as far as it can be passed on without Python; the CHANGE_MESSAGE_INVISIBLETIME that
 * a broker gets for it, and the answer to the client. RocketMQ: ChangeInvisibleDurationActivity, ConsumerProcessor (5.3.3 proxy/),
 * ChangeInvisibleTimeRequestHeader (5.3.3 remoting/).
 *
 * rocketpy/proxy/receiving.py is the specification. Left to it are times that may not be, lite topics, what is to be suspended, and names
 * and handles that are none.
 *
 * Threads  pure functions. Slices point into the request.
 */
#ifndef RP_PROXY_CHANGED_MESSAGE_H
#define RP_PROXY_CHANGED_MESSAGE_H

#include "../remoting/command.h"
#include "answer_status.h"
#include "receipt_handle.h"

#define RP_REQUEST_CHANGE_INVISIBLE_TIME 200053

typedef struct rp_changed_message {
    rp_slice topic, group, handle; /* the handle that the client knows */
    int64_t invisible_ms;
} rp_changed_message;

/* A command, and what its fields point to: never copied. */
typedef struct rp_change_command {
    rp_command command;
    uint8_t topic[RP_RETRY_TOPIC_MAX];
    uint8_t invisible_ms[20];
} rp_change_command;

/* What a client is answered: a status, and where that is OK the handle of from now on. */
typedef struct rp_change_answer {
    rp_answer_status status;
    uint32_t handle_size;
    uint8_t handle[RP_RECEIPT_HANDLE_MAX];
} rp_change_answer;

/* 1; 0: the request is Python's. invisible_max_ms 0: there is no most. */
int rp_changed_message_read(rp_slice request, int64_t invisible_max_ms, rp_changed_message *changed);
/* today: the handle that its broker knows, and what it says. The fields point to all of the arguments. */
void rp_change_command_fill(rp_change_command *change, const rp_changed_message *changed, rp_slice today, const rp_receipt_handle *handle);

void rp_change_answer_of(rp_change_answer *answer, const rp_receipt_handle *handle, const rp_command *response);
uint32_t rp_change_answer_size(const rp_change_answer *answer);
/* Writes rp_change_answer_size bytes: a ChangeInvisibleDurationResponse. */
void rp_change_answer_write(const rp_change_answer *answer, uint8_t *target);

#endif
