/* sent_message_fuzz.c: libFuzzer target for a stranger's SendMessageRequest. Not in the library.
 *
 * Input   a request.
 * Claims  nothing is read outside of it (it is copied to a block of its exact size), what comes out lies inside, and its properties need no
 *         more room than was said; the request to a broker decodes to what was read.
 */
#include <stdlib.h>
#include <string.h>

#include "protobuf.h"
#include "send_command.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int claim) {
    if (!claim)
        abort();
}

static void lies_in(rp_slice part, rp_slice whole) {
    demand(part.size == 0 || (part.data >= whole.data && part.data + part.size <= whole.data + whole.size));
}

static void try_message(const rp_sent_message *message, rp_slice request) {
    static const rp_slice host = {(const uint8_t *)"10.0.0.7", 8};
    const rp_route_choice choice = {.queue_id = 1, .broker_name_size = 1, .broker_name = "b"};
    lies_in(message->topic, request);
    lies_in(message->body, request);
    uint32_t room = rp_sent_message_properties_size(message, host.size);
    uint8_t *properties = malloc(room);
    demand(properties != NULL);
    uint32_t written = rp_sent_message_write_properties(message, host, properties);
    demand(written <= room && rp_protobuf_is_text((rp_slice){properties, written}));
    rp_send_command sent;
    rp_send_command_fill(&sent, message, &choice, (rp_slice){properties, written});
    size_t frame_size = rp_command_size_max(&sent.command);
    uint8_t *frame = malloc(frame_size);
    demand(frame != NULL);
    int64_t encoded = rp_command_encode(&sent.command, frame, frame_size);
    rp_command again;
    demand(encoded > 0 && rp_command_decode(frame, (uint32_t)encoded, NULL, &again, NULL) == RP_OK);
    demand(again.body.size == message->body.size && rp_command_field(&again, "i").size == written);
    free(frame);
    free(properties);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const rp_send_rules rules = {.user_properties_max = 128, .user_property_size_max = 16384, .message_group_size_max = 64};
    uint8_t *copy = malloc(size > 0 ? size : 1);
    demand(copy != NULL);
    memcpy(copy, data, size);
    rp_sent_message message;
    if (rp_sent_message_read((rp_slice){copy, (uint32_t)size}, &rules, 1700000000000, &message))
        try_message(&message, (rp_slice){copy, (uint32_t)size});
    free(copy);
    return 0;
}
