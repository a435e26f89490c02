/* pop_fixture.h: a broker with a revive topic, and a client that pops, peeks and acks. */
#ifndef RP_TESTS_POP_FIXTURE_H
#define RP_TESTS_POP_FIXTURE_H

#include "broker/pop.h"
#include "broker_fixture.h"

enum {
    SUCCESS = 0,
    SYSTEM_ERROR = 1,
    ILLEGAL = 13,
    NO_PERMISSION = 16,
    NO_TOPIC = 17,
    NOT_FOUND = 19,
    INVALID = 29,
    NO_MESSAGE = 208,
    TIMEOUT = 210
};

#define REVIVE "rmq_sys_REVIVE_LOG_DefaultCluster"
#define RETRY "%RETRY%G_T"
#define NATIVE (RP_TOPIC_NATIVE_SEND | RP_TOPIC_NATIVE_PULL)

static inline void put_pop_topics(fixture *fx) {
    CHECK(rp_broker_put_topic(fx->broker, text(REVIVE), 8, 8, 6, 0, NATIVE) == RP_OK);
    CHECK(rp_broker_put_topic(fx->broker, text(RETRY), 1, 1, 6, 0, NATIVE) == RP_OK);
}

static inline void open_pop(fixture *fx, uint16_t reactors) {
    fixture_init(fx);
    fx->server_options.reactors = reactors;
    fixture_open(fx);
    put_pop_topics(fx);
}

typedef struct pop_request {
    const char *group, *topic, *expression, *expression_type, *attempt_id; /* only the first two are required; NULL: none */
    int32_t queue_id, max_messages, init_mode;
    int64_t invisible_ms, poll_ms;
    int order;
} pop_request;

static inline pop_request pop_of(int32_t queue_id) {
    return (pop_request){.group = "G", .topic = "T", .queue_id = queue_id, .max_messages = 32, .invisible_ms = 60000};
}

static inline int32_t client_send_pop(client *c, int32_t code, const pop_request *pop) {
    number_text numbers[6];
    rp_command command = request_of(c, code);
    with_text(&command, "consumerGroup", pop->group);
    with_text(&command, "topic", pop->topic);
    with_text(&command, "queueId", number_of(&numbers[0], pop->queue_id));
    with_text(&command, "maxMsgNums", number_of(&numbers[1], pop->max_messages));
    with_text(&command, "invisibleTime", number_of(&numbers[2], pop->invisible_ms));
    with_text(&command, "pollTime", number_of(&numbers[3], pop->poll_ms));
    with_text(&command, "bornTime", "1"); /* a client whose clock is slow */
    with_text(&command, "initMode", number_of(&numbers[4], pop->init_mode));
    with_text(&command, "order", pop->order ? "true" : "false");
    if (pop->expression != NULL)
        with_text(&command, "exp", pop->expression);
    if (pop->expression_type != NULL)
        with_text(&command, "expType", pop->expression_type);
    if (pop->attempt_id != NULL)
        with_text(&command, "attemptId", pop->attempt_id);
    client_send(c, &command);
    return command.opaque;
}

static inline rp_command client_ask(client *c, int32_t code, const pop_request *pop) {
    rp_command response;
    int32_t opaque = client_send_pop(c, code, pop);
    CHECK(client_receive(c, &response, WAIT_MS) == 1 && response.opaque == opaque);
    return response;
}

static inline rp_command client_pop(client *c, const pop_request *pop) { return client_ask(c, RP_CODE_POP_MESSAGE, pop); }

static inline rp_command client_ack(client *c, int32_t code, int32_t queue_id, int64_t offset, const char *handle, int64_t invisible_ms) {
    number_text numbers[3];
    rp_command command = request_of(c, code);
    with_text(&command, "consumerGroup", "G");
    with_text(&command, "topic", "T");
    with_text(&command, "queueId", number_of(&numbers[0], queue_id));
    with_text(&command, "offset", number_of(&numbers[1], offset));
    with_text(&command, "extraInfo", handle);
    with_text(&command, "invisibleTime", number_of(&numbers[2], invisible_ms));
    return client_call(c, &command);
}

/* Makes the handle of a message that was popped alone, as clients do. */
static inline void handle_of(const rp_command *response, int32_t queue_id, int64_t offset, char handle[128]) {
    snprintf(handle, 128, "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " 0 broker %d %" PRId64, offset, field_number(response, "popTime"),
             field_number(response, "invisibleTime"), field_number(response, "reviveQid"), queue_id, offset);
}

static inline uint32_t messages_in(rp_slice body) {
    uint32_t count = 0;
    for (uint32_t at = 0; at < body.size; count++)
        at += rp_get_u32(body.data + at);
    return count;
}

static inline int64_t records(const fixture *fx) {
    int64_t count = 0;
    for (int32_t i = 0; i < 8; i++) {
        rp_consume_queue *queue = rp_message_store_queue(fx->store, text(REVIVE), i, 0, NULL);
        count += queue != NULL ? rp_consume_queue_max_offset(queue) : 0;
    }
    return count;
}

static inline int64_t offset_of(const fixture *fx, int32_t queue_id) {
    return rp_broker_read_offset(fx->broker, text("G"), text("T"), queue_id);
}

static inline void close_pop(fixture *fx, client *c) {
    client_close(c);
    drop_events(fx);
    fixture_close(fx);
}

#endif
