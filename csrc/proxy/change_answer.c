/* change_answer.c: see change_answer.h. */
#include "change_answer.h"

#include <stdbool.h>
#include <string.h>

#include "../base/decimal_inl.h"
#include "protobuf.h"

enum response_field { RESPONSE_STATUS = 1, RESPONSE_HANDLE = 2 };

static bool read_number(const rp_command *response, const char *name, int64_t *number) {
    rp_slice text = rp_command_field(response, name);
    return text.data != NULL && rp_slice_to_i64(text, number) == RP_OK;
}

static uint8_t *put_number(uint8_t *at, int64_t number) {
    at = rp_decimal(at, number);
    *at++ = ' ';
    return at;
}

static uint8_t *put_text(uint8_t *at, rp_slice text) {
    memcpy(at, text.data, text.size);
    at[text.size] = ' ';
    return at + text.size + 1;
}

/* Writes the new handle. It starts at the message's own offset, since the broker has popped just this one again. */
static uint32_t write_handle(const rp_receipt_handle *handle, int64_t pop_ms, int64_t invisible_ms, int64_t revive_queue, uint8_t *target) {
    uint8_t *at = put_text(target, handle->offset);
    at = put_number(put_number(put_number(at, pop_ms), invisible_ms), revive_queue);
    at = put_text(put_number(at, handle->kind), handle->broker);
    at = put_text(put_text(at, handle->queue_id), handle->offset);
    if (handle->log_offset.data != NULL)
        at = put_text(at, handle->log_offset);
    return (uint32_t)(at - target) - 1;
}

void rp_change_answer_of(rp_change_answer *answer, const rp_receipt_handle *handle, const rp_command *response) {
    int64_t pop_ms, invisible_ms, revive_queue;
    int broker_size = (int)handle->broker.size;
    const char *broker = (const char *)handle->broker.data;
    answer->handle_size = 0;
    if (response->code != 0) {
        bool has_remark = response->remark.size > 0;
        rp_answer_status_set(&answer->status, RP_CODE_INTERNAL_SERVER_ERROR, "changeInvisibleDuration failed: %.*s",
                             has_remark ? (int)response->remark.size : INT32_MAX,
                             has_remark ? (const char *)response->remark.data : "status is abnormal");
    } else if (!read_number(response, "popTime", &pop_ms) || !read_number(response, "invisibleTime", &invisible_ms) ||
               !read_number(response, "reviveQid", &revive_queue)) {
        rp_answer_status_set(&answer->status, RP_CODE_INTERNAL_SERVER_ERROR,
                             "%.*s answered a change of invisible time with fields that cannot be read", broker_size, broker);
    } else {
        rp_answer_status_name(&answer->status, RP_CODE_OK);
        answer->handle_size = write_handle(handle, pop_ms, invisible_ms, revive_queue, answer->handle);
    }
}

uint32_t rp_change_answer_size(const rp_change_answer *answer) {
    uint32_t size = rp_answer_status_size(&answer->status);
    return rp_protobuf_head_size(RESPONSE_STATUS, size) + size + rp_protobuf_bytes_size(RESPONSE_HANDLE, answer->handle_size);
}

void rp_change_answer_write(const rp_change_answer *answer, uint8_t *target) {
    target = rp_protobuf_put_head(target, RESPONSE_STATUS, rp_answer_status_size(&answer->status));
    target = rp_answer_status_write(&answer->status, target);
    rp_protobuf_put_bytes(target, RESPONSE_HANDLE, (rp_slice){answer->handle, answer->handle_size});
}
