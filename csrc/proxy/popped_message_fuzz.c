/* popped_message_fuzz.c: libFuzzer target for a broker's answer to a pop, whose records hold untrusted messages, and for a consumer's
 * requests. Not in the library.
 *
 * Input   records of the commit log; the same bytes are read as a ReceiveMessageRequest and a ChangeInvisibleDurationRequest.
 * Claims  nothing outside of it is read (it is copied to a block of its exact size); a message has the size that was announced, and its
 *         response can be read to its end.
 */
#include <stdlib.h>
#include <string.h>

#include "../base/fuzz_inl.h"
#include "../base/slice_inl.h"
#include "changed_message.h"
#include "pop_command.h"
#include "protobuf.h"
#include "received_message.h"
#include "received_request.h"
#include "tag_filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW_MS INT64_C(1700000000000)

static const rp_slice topic = {(const uint8_t *)"t", 1}, broker = {(const uint8_t *)"b", 1};

static void add(rp_command *response, const char *name, const char *value) {
    rp_command_add_field(response, rp_slice_of(name), rp_slice_of(value));
}

static void try_message(const rp_popped_message *popped, rp_arena *arena) {
    rp_received_message received;
    rp_protobuf_field field;
    demand(popped->handle_size > 0 && popped->handle_size <= sizeof popped->handle);
    if (!rp_received_message_fill(&received, popped, topic, NOW_MS, arena))
        return;
    uint8_t *response = malloc(received.size);
    demand(response != NULL);
    rp_received_message_write(&received, response);
    rp_slice rest = {response, received.size};
    demand(rp_protobuf_next(&rest, &field) == 1 && rest.size == 0 && field.bytes.size == received.message_size);
    rest = field.bytes;
    uint32_t body_size = 0;
    while (rp_protobuf_next(&rest, &field) == 1)
        body_size = field.number == 4 ? field.bytes.size : body_size;
    demand(rest.size == 0 && body_size == popped->stored.body.size);
    free(response);
}

static void try_records(rp_slice records) {
    rp_popped_message popped;
    rp_command response;
    rp_pop_answer answer;
    rp_arena *arena = rp_arena_create(0, 1 << 24);
    demand(arena != NULL);
    rp_command_clear(&response, 0, RP_SERIALIZE_JSON);
    response.body = records;
    add(&response, "popTime", "1700000000000");
    add(&response, "invisibleTime", "60000");
    add(&response, "reviveQid", "0");
    add(&response, "startOffsetInfo", "0 0 5;0 1 7");
    add(&response, "orderCountInfo", "0 0 2;0 qo0%0 3");
    if (rp_pop_answer_read(&answer, &response, broker)) {
        uint32_t count = 0;
        while (rp_pop_answer_next(&answer, arena, &popped)) {
            try_message(&popped, arena);
            count++;
        }
        demand(count == answer.count);
    }
    rp_arena_destroy(arena);
}

static void try_requests(rp_slice request) {
    const rp_receive_rules rules = {5000, 20000, 10000, 43200000, 60000, 1};
    rp_received_request received;
    rp_changed_message changed;
    rp_pop_command pop;
    if (rp_received_request_read(request, &rules, &received)) {
        int64_t polling_ms = rp_receive_polling_ms(&received, &rules, 30000, 1500);
        demand(polling_ms >= 5000 && polling_ms <= 20000 && received.batch_size >= 1 && received.batch_size <= 32);
        rp_pop_command_fill(&pop, &received, polling_ms, NOW_MS, 0);
        demand(rp_command_field(&pop.command, "topic").size == received.topic.size);
        rp_tag_filter_takes(received.filter, received.topic);
    }
    if (rp_changed_message_read(request, 43200000, &changed))
        demand(changed.invisible_ms >= 0 && changed.invisible_ms <= 43200000 && changed.group.size > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size > 0 ? size : 1);
    demand(copy != NULL);
    memcpy(copy, data, size);
    try_records((rp_slice){copy, (uint32_t)size});
    try_requests((rp_slice){copy, (uint32_t)size});
    free(copy);
    return 0;
}
