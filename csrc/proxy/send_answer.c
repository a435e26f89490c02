/* send_answer.c: see send_answer.h. */
#include "send_answer.h"

#include "protobuf.h"
#include "sent_batch.h"

enum response_field { RESPONSE_STATUS = 1, RESPONSE_ENTRIES = 2 };
enum entry_field { ENTRY_STATUS = 1, ENTRY_MESSAGE_ID = 2, ENTRY_TRANSACTION_ID = 3, ENTRY_OFFSET = 4, ENTRY_RECALL_HANDLE = 5 };

/* Returns a text field; empty if it is not UTF-8, which gRPC could not carry. */
static rp_slice text_of(const rp_command *response, const char *name) {
    rp_slice text = rp_command_field(response, name);
    return text.data != NULL && rp_protobuf_is_text(text) ? text : (rp_slice){NULL, 0};
}

static void fill_stored(rp_send_answer *answer, const rp_command *response, rp_slice request) {
    rp_slice offset = rp_command_field(response, "queueOffset");
    answer->has_entry = 1;
    answer->offset = 0;
    if (offset.data != NULL && rp_slice_to_i64(offset, &answer->offset) != RP_OK) {
        answer->has_entry = 0;
        rp_answer_status_set(&answer->status, RP_CODE_INTERNAL_SERVER_ERROR, "a broker answered a send with the queue offset '%.*s'",
                             (int)(offset.size < 100 ? offset.size : 100), (const char *)offset.data);
        return;
    }
    rp_answer_status_name(&answer->status, RP_CODE_OK);
    rp_answer_status_name(&answer->entry_status, RP_CODE_OK);
    answer->request = request;
    answer->ids_size = rp_sent_ids_size(request);
    answer->transaction_id = text_of(response, "transactionId");
    answer->recall_handle = text_of(response, "recallHandle");
}

/* Fills in an answer for a message that is stored, but not as safely as configured. */
static void fill_unsafe(rp_send_answer *answer, int32_t code, const char *send_status) {
    answer->has_entry = 1;
    answer->offset = 0;
    answer->ids_size = 0;
    answer->request = answer->transaction_id = answer->recall_handle = (rp_slice){NULL, 0};
    rp_answer_status_name(&answer->status, code);
    rp_answer_status_set(&answer->entry_status, code, "send message failed, sendStatus=%s", send_status);
}

void rp_send_answer_of(rp_send_answer *answer, const rp_command *response, rp_slice request) {
    switch (response->code) {
    case RP_STORED:
        fill_stored(answer, response, request);
        break;
    case RP_STORED_FLUSH_DISK_TIMEOUT:
        fill_unsafe(answer, RP_CODE_MASTER_PERSISTENCE_TIMEOUT, "FLUSH_DISK_TIMEOUT");
        break;
    case RP_STORED_FLUSH_SLAVE_TIMEOUT:
        fill_unsafe(answer, RP_CODE_SLAVE_PERSISTENCE_TIMEOUT, "FLUSH_SLAVE_TIMEOUT");
        break;
    case RP_STORED_SLAVE_NOT_AVAILABLE:
        fill_unsafe(answer, RP_CODE_HA_NOT_AVAILABLE, "SLAVE_NOT_AVAILABLE");
        break;
    default:
        answer->has_entry = 0;
        rp_answer_status_of(&answer->status, response);
        break;
    }
}

static uint32_t entry_size(const rp_send_answer *answer) {
    uint32_t status = rp_answer_status_size(&answer->entry_status);
    return rp_protobuf_head_size(ENTRY_STATUS, status) + status + rp_protobuf_bytes_size(ENTRY_MESSAGE_ID, answer->ids_size) +
           rp_protobuf_bytes_size(ENTRY_TRANSACTION_ID, answer->transaction_id.size) +
           rp_protobuf_number_size(ENTRY_OFFSET, answer->offset) + rp_protobuf_bytes_size(ENTRY_RECALL_HANDLE, answer->recall_handle.size);
}

uint32_t rp_send_answer_size(const rp_send_answer *answer) {
    uint32_t status = rp_answer_status_size(&answer->status), entry = answer->has_entry ? entry_size(answer) : 0;
    return rp_protobuf_head_size(RESPONSE_STATUS, status) + status +
           (answer->has_entry ? rp_protobuf_head_size(RESPONSE_ENTRIES, entry) + entry : 0);
}

void rp_send_answer_write(const rp_send_answer *answer, uint8_t *target) {
    target = rp_protobuf_put_head(target, RESPONSE_STATUS, rp_answer_status_size(&answer->status));
    target = rp_answer_status_write(&answer->status, target);
    if (!answer->has_entry)
        return;
    target = rp_protobuf_put_head(target, RESPONSE_ENTRIES, entry_size(answer));
    target = rp_protobuf_put_head(target, ENTRY_STATUS, rp_answer_status_size(&answer->entry_status));
    target = rp_answer_status_write(&answer->entry_status, target);
    if (answer->request.size > 0)
        target = rp_sent_ids_write(answer->request, rp_protobuf_put_head(target, ENTRY_MESSAGE_ID, answer->ids_size));
    target = rp_protobuf_put_bytes(target, ENTRY_TRANSACTION_ID, answer->transaction_id);
    target = rp_protobuf_put_number(target, ENTRY_OFFSET, answer->offset);
    rp_protobuf_put_bytes(target, ENTRY_RECALL_HANDLE, answer->recall_handle);
}
