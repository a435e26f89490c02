/* lite_client.h: a broker with the parent of lite topics, and a client's requests about lite topics. */
#ifndef RP_TESTS_LITE_CLIENT_H
#define RP_TESTS_LITE_CLIENT_H

#include "broker/lite.h"
#include "pop_fixture.h"

#define LITE(name) "__LITE_TOPIC\1" name "\2"

static inline void open_lite(fixture *fx, uint16_t reactors) {
    fixture_init(fx);
    fx->server_options.reactors = reactors;
    fx->store_options.light_queues_max = 400;
    fixture_open(fx);
    CHECK(rp_broker_put_topic(fx->broker, text("T"), 4, 4, 6, 0, NATIVE | RP_TOPIC_LITE) == RP_OK);
    CHECK(rp_broker_put_lite_group(fx->broker, text("G"), text("T"), 0) == RP_OK);
}

static inline int32_t send_pop_lite(client *c, const char *client_id, int64_t poll_ms, int64_t invisible_ms) {
    number_text numbers[2];
    rp_command command = request_of(c, RP_CODE_POP_LITE_MESSAGE);
    with_text(&command, "clientId", client_id);
    with_text(&command, "consumerGroup", "G");
    with_text(&command, "topic", "T");
    with_text(&command, "maxMsgNum", "8");
    with_text(&command, "invisibleTime", number_of(&numbers[0], invisible_ms));
    with_text(&command, "pollTime", number_of(&numbers[1], poll_ms));
    with_text(&command, "bornTime", "1");
    client_send(c, &command);
    return command.opaque;
}

static inline rp_command pop_lite(client *c, const char *client_id, int64_t poll_ms, int64_t invisible_ms) {
    rp_command response;
    int32_t opaque = send_pop_lite(c, client_id, poll_ms, invisible_ms);
    CHECK(client_receive(c, &response, WAIT_MS) == 1 && response.opaque == opaque);
    return response;
}

static inline int32_t ack_lite(client *c, int64_t pop_ms, const char *lite, int64_t offset) {
    number_text number;
    char handle[96];
    snprintf(handle, sizeof handle, "0 %" PRId64 " 60000 999 0 broker 0 %" PRId64, pop_ms, offset);
    rp_command command = request_of(c, RP_CODE_ACK_MESSAGE);
    with_text(&command, "consumerGroup", "G");
    with_text(&command, "topic", "T");
    with_text(&command, "queueId", "0");
    with_text(&command, "liteTopic", lite);
    with_text(&command, "offset", number_of(&number, offset));
    with_text(&command, "extraInfo", handle);
    return client_call(c, &command).code;
}

#endif
