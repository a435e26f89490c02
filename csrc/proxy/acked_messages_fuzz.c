/* acked_messages_fuzz.c: libFuzzer target for an untrusted AckMessageRequest. Not in the library.
 *
 * Input   a request.
 * Claims  nothing outside of it is read (it is copied to a block of its exact size), and every slice lies inside; the request to a
 *         broker decodes to what was read of each message; an answer has the size that was announced.
 */
#include <stdlib.h>
#include <string.h>

#include "../base/fuzz_inl.h"
#include "ack_answer.h"
#include "ack_command.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_message(const rp_acked_messages *acked, const rp_acked_message *message, rp_slice request) {
    rp_receipt_handle handle;
    rp_ack_command ack;
    rp_command again;
    lies_in(message->message_id, request);
    lies_in(message->handle, request);
    if (!rp_receipt_handle_read(message->handle, &handle))
        return;
    rp_ack_command_fill(&ack, acked->topic, acked->group, message->handle, &handle);
    size_t frame_size = rp_command_size_max(&ack.command);
    uint8_t *frame = malloc(frame_size);
    demand(frame != NULL);
    int64_t encoded = rp_command_encode(&ack.command, frame, frame_size);
    demand(encoded > 0 && rp_command_decode(frame, (uint32_t)encoded, NULL, &again, NULL) == RP_OK);
    demand(rp_command_field(&again, "extraInfo").size == message->handle.size);
    free(frame);
}

/* Every other message has failed. */
static void try_answer(const rp_acked_messages *acked) {
    static rp_answer_status no = {RP_CODE_INTERNAL_SERVER_ERROR, 2, "no"};
    const rp_answer_status *failed[RP_ACKED_MAX];
    for (uint32_t i = 0; i < acked->count; i++)
        failed[i] = i % 2 == 1 ? &no : NULL;
    uint32_t size = rp_ack_answer_size(acked, failed);
    uint8_t *answer = malloc(size);
    demand(answer != NULL);
    rp_ack_answer_write(acked, failed, answer);
    free(answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size > 0 ? size : 1);
    demand(copy != NULL);
    memcpy(copy, data, size);
    const rp_slice request = {copy, (uint32_t)size};
    rp_acked_messages acked;
    if (rp_acked_messages_read(request, &acked)) {
        for (uint32_t i = 0; i < acked.count; i++)
            try_message(&acked, &acked.messages[i], request);
        try_answer(&acked);
    }
    free(copy);
    return 0;
}
