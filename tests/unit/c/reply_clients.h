/* reply_clients.h: clients that reply, and one that gets replies, for the tests of replies. */
#ifndef RP_TESTS_REPLY_CLIENTS_H
#define RP_TESTS_REPLY_CLIENTS_H

#include "broker/pending_replies.h"
#include "broker_fixture.h"

#define REQUESTER "10.0.0.1@42"
#define PROPERTIES "REPLY_TO_CLIENT\001" REQUESTER "\2CORRELATION_ID\1c-1\2MSG_TYPE\1reply\2UNIQ_KEY\1AB01\2TAGS\1TagA\2"

enum { SUCCESS = 0, SYSTEM_ERROR = 1, SYSTEM_BUSY = 2, MESSAGE_ILLEGAL = 13, INVALID_PARAMETER = 29 };

/* Returns the connection id of the client that connected last. */
static inline uint64_t opened(fixture *fx) {
    int64_t until = now_ms() + WAIT_MS;
    for (;;) {
        rp_request *request;
        while (rp_server_take(fx->server, &request, 1) == 1) {
            uint64_t id = request->kind == RP_REQUEST_OPENED ? request->connection_id : 0;
            rp_request_free(request);
            if (id != 0)
                return id;
        }
        struct pollfd waiter = {.fd = rp_server_event_fd(fx->server), .events = POLLIN};
        CHECK(now_ms() < until);
        poll(&waiter, 1, 1000);
    }
}

/* Opens a client that is found by replies to REQUESTER. */
static inline client open_requester(fixture *fx, uint8_t serialize_type) {
    client requester = client_open(fx, serialize_type);
    CHECK(rp_broker_put_producer(fx->broker, text(REQUESTER), 0, opened(fx)) == RP_OK);
    return requester;
}

static inline client open_replier(fixture *fx, uint8_t serialize_type) {
    client replier = client_open(fx, serialize_type);
    opened(fx);
    return replier;
}

static inline rp_command reply_of(client *c, const char *properties, const char *body, number_text *queue) {
    return send_request_v2(c, RP_CODE_SEND_REPLY_MESSAGE_V2, "T", 2, properties, text(body), queue);
}

static inline void send_reply(client *c, const char *body) {
    number_text queue;
    rp_command request = reply_of(c, PROPERTIES, body, &queue);
    client_send(c, &request);
}

static inline rp_command receive(client *c) {
    rp_command command;
    CHECK(client_receive(c, &command, WAIT_MS) == 1);
    return command;
}

/* Receives the next push; its opaque is that of the answer. */
static inline rp_command receive_push(client *requester) {
    rp_command push = receive(requester);
    CHECK(push.code == RP_CODE_PUSH_REPLY_MESSAGE && (push.flag & RP_COMMAND_RESPONSE) == 0 && push.opaque >= RP_PUSH_OPAQUE);
    return push;
}

static inline void answer_push(client *requester, int32_t opaque, int32_t code) {
    rp_command response = {.code = code, .version = 479, .opaque = opaque, .flag = RP_COMMAND_RESPONSE};
    response.serialize_type = requester->serialize_type;
    client_send(requester, &response);
}

static inline void check_remark(const rp_command *answer, int32_t code, const char *remark) {
    if (answer->code != code || !slice_is(answer->remark, remark))
        fprintf(stderr, "answered %d: %.*s\n", answer->code, (int)answer->remark.size, (const char *)answer->remark.data);
    CHECK(answer->code == code && slice_is(answer->remark, remark));
    CHECK(slice_is(rp_command_field(answer, "MSG_REGION"), "DefaultRegion") && slice_is(rp_command_field(answer, "TRACE_ON"), "true"));
}

static inline int64_t stored_count(const fixture *fx) {
    rp_consume_queue *queue = rp_message_store_queue(fx->store, text("T"), 2, 0, NULL);
    return queue != NULL ? rp_consume_queue_max_offset(queue) : 0;
}

#endif
