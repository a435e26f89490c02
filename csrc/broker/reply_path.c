/* reply_path.c: see reply_path.h. The checks are in RocketMQ's order. */
#include "reply_path.h"

#include <string.h>

#include "../base/clock.h"
#include "../base/slice_inl.h"
#include "../store/message.h"
#include "lane.h"
#include "response_writer_inl.h"

#define PUSH_TIME "PUSH_REPLY_TIME\1"
#define FIELD_ROOM 24 /* room for a number in a field */

static uint8_t *put(uint8_t *at, rp_slice slice) {
    if (slice.size > 0)
        memcpy(at, slice.data, slice.size);
    return at + slice.size;
}

/* Returns the properties as they are stored, with PUSH_REPLY_TIME appended. data NULL: no memory. */
static rp_slice pushed_properties(const rp_send_request *request, int64_t now_ms) {
    rp_slice sent = request->properties.text, tail = request->lane->broker->reply_tail;
    uint8_t *start = rp_arena_take(rp_reactor_arena(request->lane->reactor), (size_t)sent.size + tail.size + sizeof PUSH_TIME + FIELD_ROOM);
    if (start == NULL)
        return (rp_slice){NULL, 0};
    uint8_t *at = put(start, sent);
    if (sent.size == 0 || at[-1] == RP_PROPERTY_VALUE_END) /* the tail begins with a separator */
        tail = (rp_slice){tail.data + 1, tail.size - 1};
    at = put(at, tail);
    at = put(at, rp_slice_of(PUSH_TIME));
    at = rp_decimal(at, now_ms);
    *at++ = RP_PROPERTY_VALUE_END;
    return (rp_slice){start, (uint32_t)(at - start)};
}

static void add_number(rp_command *push, const char *name, int64_t number, uint8_t room[FIELD_ROOM]) {
    rp_command_add_field(push, rp_slice_of(name), (rp_slice){room, (uint32_t)(rp_decimal(room, number) - room)});
}

/* Writes the broker's store host, as in every msgId. */
static void store_host_text(const rp_broker *broker, char text[RP_ADDRESS_TEXT_MAX]) {
    rp_address address = {.size = broker->options.store_host_is_v6 ? 16 : 4};
    memcpy(address.bytes, broker->options.store_host, address.size);
    const uint8_t *port = broker->options.store_host + address.size;
    address.port = (uint16_t)(port[2] << 8 | port[3]);
    rp_address_text(&address, text);
}

/* Encodes ReplyMessageRequestHeader in JSON, which every client reads. RP_OK, or as rp_push_frame_create. */
static int make_frame(const rp_send_request *request, const rp_reply_header *reply, rp_push_frame **frame, int32_t *opaque) {
    const rp_send_header *header = &request->header;
    int64_t now_ms = rp_clock_wall_ms(rp_clock_system());
    rp_slice properties = pushed_properties(request, now_ms);
    if (properties.data == NULL)
        return RP_E_NO_MEMORY;
    char born_host[RP_ADDRESS_TEXT_MAX], store_host[RP_ADDRESS_TEXT_MAX];
    rp_peer_text(request->to.connection, born_host);
    store_host_text(request->lane->broker, store_host);
    uint8_t numbers[7][FIELD_ROOM];
    rp_command push;
    rp_command_clear(&push, RP_CODE_PUSH_REPLY_MESSAGE, RP_SERIALIZE_JSON);
    push.version = RP_RESPONSE_VERSION;
    rp_command_add_field(&push, rp_slice_of("producerGroup"), reply->producer_group);
    rp_command_add_field(&push, rp_slice_of("topic"), header->topic);
    rp_command_add_field(&push, rp_slice_of("defaultTopic"), reply->default_topic);
    add_number(&push, "defaultTopicQueueNums", reply->default_topic_queues, numbers[0]);
    add_number(&push, "queueId", header->queue_id, numbers[1]);
    add_number(&push, "sysFlag", header->sys_flag, numbers[2]);
    add_number(&push, "bornTimestamp", header->born_timestamp_ms, numbers[3]);
    add_number(&push, "flag", header->flag, numbers[4]);
    rp_command_add_field(&push, rp_slice_of("properties"), properties);
    add_number(&push, "reconsumeTimes", header->reconsume_times, numbers[5]);
    rp_command_add_field(&push, rp_slice_of("unitMode"), rp_slice_of(reply->unit_mode ? "true" : "false"));
    rp_command_add_field(&push, rp_slice_of("bornHost"), rp_slice_of(born_host));
    rp_command_add_field(&push, rp_slice_of("storeHost"), rp_slice_of(store_host));
    add_number(&push, "storeTimestamp", now_ms, numbers[6]);
    push.body = request->command->body;
    int status = rp_push_frame_create(request->lane->broker, &push, frame);
    *opaque = push.opaque;
    return status;
}

/* Notes the client id for remarks, cut to their bound at a character's begin. */
static void note_requester(rp_reply *reply, rp_slice client_id) {
    uint32_t size = client_id.size < RP_REQUESTER_TEXT_MAX ? client_id.size : RP_REQUESTER_TEXT_MAX - 1;
    while (size < client_id.size && size > 0 && (client_id.data[size] & 0xC0) == 0x80)
        size--;
    memcpy(reply->requester, client_id.data, size);
    reply->requester[size] = 0;
}

/* Sends the reply to the client that asked for it, or notes why that is impossible. RP_OK; RP_E_BUSY, RP_E_NO_MEMORY: nothing was done. */
static int push(const rp_send_request *request, const rp_reply_header *header, rp_reply *reply) {
    rp_slice client_id = rp_message_property(request->properties.text, "REPLY_TO_CLIENT");
    if (client_id.data == NULL)
        return RP_OK;
    note_requester(reply, client_id);
    rp_producer_place place;
    if (!rp_producer_table_find(request->lane->broker->producers, client_id, &place)) {
        reply->outcome = RP_PUSH_NOT_FOUND;
        return RP_OK;
    }
    rp_push_frame *frame;
    int32_t opaque;
    int status = make_frame(request, header, &frame, &opaque);
    if (status == RP_E_BUSY || status == RP_E_NO_MEMORY)
        return status;
    if (status != RP_OK)
        reply->outcome = RP_PUSH_TOO_LARGE;
    else
        rp_reply_push(reply, place, frame, opaque);
    return RP_OK;
}

static int check(rp_send_request *request, rp_reply_header *reply) {
    rp_header_fault fault;
    int outcome = rp_send_check_time(request);
    if (outcome != RP_OK)
        return outcome;
    if (rp_send_header_read(request->command, &request->lane->reply_layout, &request->header, &fault) != RP_OK ||
        rp_reply_header_read(request->command, reply, &fault) != RP_OK)
        return rp_answer_fault(request->to, &fault);
    outcome = rp_send_check_topic(request);
    if (outcome == RP_OK)
        outcome = rp_send_check_properties(request);
    if (outcome == RP_OK && (request->properties.delay_level > 0 || request->properties.timed > 1)) /* Python refuses these */
        outcome = RP_PUNT;
    if (outcome == RP_OK)
        outcome = rp_send_check_body(request);
    return outcome;
}

/* Pushes and stores what passed the checks. RP_HANDLED, or the result of answering a refusal. */
static int pass_on(rp_send_request *request, const rp_reply_header *header) {
    rp_reply *reply = rp_reply_take(request->lane, request->to, request->queue_id);
    if (reply == NULL || push(request, header, reply) != RP_OK) {
        if (reply != NULL)
            rp_reply_drop(reply);
        return rp_answer(request->to, RP_RESPONSE_SYSTEM_BUSY, NULL, 0, RP_OVERLOADED);
    }
    reply->waits_for_store = 1; /* set before adding, which may flush the batch, this message included */
    if (!rp_send_add_reply(request, reply))
        rp_reply_stored(reply, 0);
    return RP_HANDLED;
}

int rp_reply_path_request(rp_lane *lane, rp_connection *connection, const rp_command *command) {
    rp_send_request request; /* the checks fill in the rest */
    rp_reply_header header;
    request.lane = lane;
    request.command = command;
    request.to = rp_answer_to_command(lane, connection, command);
    request.found = RP_SEND_IS_NEW;
    request.delay_ms = -1;
    request.global_id = -1;
    int outcome = check(&request, &header);
    if (outcome == RP_OK)
        return pass_on(&request, &header);
    if (outcome != RP_PUNT)
        rp_count(&lane->counters.replies_failed, 1);
    return outcome;
}
