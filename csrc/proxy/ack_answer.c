/* ack_answer.c: see ack_answer.h. */
#include "ack_answer.h"

#include <stdbool.h>

#include "protobuf.h"

enum response_field { RESPONSE_STATUS = 1, RESPONSE_ENTRIES = 2 };
enum result_field { RESULT_MESSAGE_ID = 1, RESULT_HANDLE = 2, RESULT_STATUS = 3 };

void rp_ack_status_of(rp_answer_status *status, const rp_command *response) {
    static const char abnormal[] = "status is abnormal";
    rp_slice why = response->remark.size > 0 ? response->remark : (rp_slice){(const uint8_t *)abnormal, sizeof abnormal - 1};
    if (response->code == 0)
        rp_answer_status_name(status, RP_CODE_OK);
    else
        rp_answer_status_set(status, RP_CODE_INTERNAL_SERVER_ERROR, "ack failed: %.*s", (int)why.size, (const char *)why.data);
}

static int32_t code_of(const rp_answer_status *failed) { return failed != NULL ? failed->code : RP_CODE_OK; }

int32_t rp_ack_answer_code(uint32_t count, const rp_answer_status *const failed[]) {
    for (uint32_t i = 1; i < count; i++) {
        if (code_of(failed[i]) != code_of(failed[0]))
            return RP_CODE_MULTIPLE_RESULTS;
    }
    return code_of(failed[0]);
}

static uint32_t entry_size(const rp_acked_message *message, const rp_answer_status *status) {
    uint32_t size = rp_answer_status_size(status);
    return rp_protobuf_bytes_size(RESULT_MESSAGE_ID, message->message_id.size) +
           rp_protobuf_bytes_size(RESULT_HANDLE, message->handle.size) + rp_protobuf_head_size(RESULT_STATUS, size) + size;
}

/* The statuses of an answer besides those of failed messages: of the whole answer, and of each acknowledged message. */
typedef struct said_statuses {
    rp_answer_status joined, ok;
} said_statuses;

static void name_statuses(said_statuses *said, const rp_acked_messages *acked, const rp_answer_status *const failed[]) {
    rp_answer_status_name(&said->joined, rp_ack_answer_code(acked->count, failed));
    rp_answer_status_name(&said->ok, RP_CODE_OK);
}

uint32_t rp_ack_answer_size(const rp_acked_messages *acked, const rp_answer_status *const failed[]) {
    said_statuses said;
    name_statuses(&said, acked, failed);
    uint32_t status = rp_answer_status_size(&said.joined), size = rp_protobuf_head_size(RESPONSE_STATUS, status) + status;
    for (uint32_t i = 0; i < acked->count; i++) {
        uint32_t entry = entry_size(&acked->messages[i], failed[i] != NULL ? failed[i] : &said.ok);
        size += rp_protobuf_head_size(RESPONSE_ENTRIES, entry) + entry;
    }
    return size;
}

void rp_ack_answer_write(const rp_acked_messages *acked, const rp_answer_status *const failed[], uint8_t *target) {
    said_statuses said;
    name_statuses(&said, acked, failed);
    target = rp_protobuf_put_head(target, RESPONSE_STATUS, rp_answer_status_size(&said.joined));
    target = rp_answer_status_write(&said.joined, target);
    for (uint32_t i = 0; i < acked->count; i++) {
        const rp_acked_message *message = &acked->messages[i];
        const rp_answer_status *status = failed[i] != NULL ? failed[i] : &said.ok;
        target = rp_protobuf_put_head(target, RESPONSE_ENTRIES, entry_size(message, status));
        target = rp_protobuf_put_bytes(target, RESULT_MESSAGE_ID, message->message_id);
        target = rp_protobuf_put_bytes(target, RESULT_HANDLE, message->handle);
        target = rp_protobuf_put_head(target, RESULT_STATUS, rp_answer_status_size(status));
        target = rp_answer_status_write(status, target);
    }
}
