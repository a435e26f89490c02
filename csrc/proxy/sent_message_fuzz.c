/* sent_message_fuzz.c: libFuzzer target for an untrusted SendMessageRequest. Not in the library.
 *
 * Input   a request.
 * Claims  nothing outside of it is read (it is copied to a block of its exact size), and every slice lies inside; properties, and the
 *         batch that several messages make, need no more room than announced; the request to a broker decodes to what was read; the
 *         written ids have the announced size.
 */
#include <stdlib.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "../base/fuzz_inl.h"
#include "protobuf.h"
#include "send_command.h"
#include "sent_batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const rp_send_rules rules = {
    .user_properties_max = 128, .user_property_size_max = 16384, .message_group_size_max = 64, .lite_topic_size_max = 64};
static const rp_slice host = {(const uint8_t *)"10.0.0.7", 8};
#define NOW_MS 1700000000000

/* The request to a broker decodes to what was read. batch: of several messages. */
static void try_command(const rp_sent_message *first, rp_slice properties, rp_slice batch) {
    const rp_route_choice choice = {.queue_id = 1, .broker_name_size = 1, .broker_name = "b"};
    rp_send_command sent;
    rp_send_command_fill(&sent, first, &choice, properties, batch);
    size_t frame_size = rp_command_size_max(&sent.command);
    uint8_t *frame = malloc(frame_size);
    demand(frame != NULL);
    int64_t encoded = rp_command_encode(&sent.command, frame, frame_size);
    rp_command again;
    demand(encoded > 0 && rp_command_decode(frame, (uint32_t)encoded, NULL, &again, NULL) == RP_OK);
    demand(again.body.size == (batch.data != NULL ? batch.size : first->body.size) &&
           rp_command_field(&again, "i").size == properties.size);
    free(frame);
}

static void try_message(const rp_sent_message *message, rp_slice request, rp_slice batch) {
    lies_in(message->topic, request);
    lies_in(message->body, request);
    lies_in(message->lite_topic, request);
    uint32_t room = rp_sent_message_properties_size(message, host.size);
    uint8_t *properties = malloc(room);
    demand(properties != NULL);
    uint32_t written = rp_sent_message_write_properties(message, host, properties);
    demand(written <= room && rp_protobuf_is_text((rp_slice){properties, written}));
    try_command(message, (rp_slice){properties, written}, batch);
    free(properties);
}

/* There are as many records as messages, one behind the other. */
static void walk(rp_slice batch, uint32_t count) {
    for (uint32_t at = 0; count > 0; count--) {
        demand(batch.size - at >= 22);
        uint32_t size = rp_get_u32(batch.data + at), body = rp_get_u32(batch.data + at + 16);
        demand(size <= batch.size - at && body <= size - 22 && rp_get_u16(batch.data + at + 20 + body) == size - body - 22);
        at += size;
        demand(count > 1 || at == batch.size);
    }
}

static void try_batch(rp_slice request) {
    rp_sent_message first;
    rp_sent_batch batch;
    if (!rp_sent_batch_read(request, &rules, NOW_MS, host.size, &first, &batch))
        return;
    uint8_t *target = malloc(batch.size_max);
    demand(target != NULL);
    uint64_t written = rp_sent_batch_write(request, &rules, NOW_MS, host, target);
    demand(written <= batch.size_max);
    walk((rp_slice){target, (uint32_t)written}, batch.count);
    try_message(&first, request, (rp_slice){target, (uint32_t)written});
    free(target);
}

static void try_ids(rp_slice request) {
    uint32_t size = rp_sent_ids_size(request);
    uint8_t *ids = malloc(size > 0 ? size : 1);
    demand(ids != NULL && rp_sent_ids_write(request, ids) == ids + size);
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size > 0 ? size : 1);
    demand(copy != NULL);
    memcpy(copy, data, size);
    const rp_slice request = {copy, (uint32_t)size};
    rp_slice rest = request, bytes;
    rp_sent_message message;
    if (rp_sent_next(&rest, &bytes) == 1 && rp_sent_message_read(bytes, &rules, NOW_MS, &message))
        try_message(&message, request, (rp_slice){NULL, 0});
    try_batch(request);
    try_ids(request);
    free(copy);
    return 0;
}
