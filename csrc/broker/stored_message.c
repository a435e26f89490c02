/* stored_message.c: see stored_message.h. */
#include "stored_message.h"

#include <string.h>

#include "../base/bytes_inl.h"

#define RECORD_BYTES_MAX (1024 * 1024) /* largest record that a reactor reads */

/* Reads the size of the record that may begin there; 0: none does. RP_OK; RP_E_IO, RP_E_NO_MEMORY. */
static int read_size(rp_commit_log *log, int64_t log_offset, uint32_t *size) {
    rp_log_range head;
    *size = 0;
    int status = rp_commit_log_read(log, log_offset, sizeof *size, &head);
    if (status != RP_OK)
        return rp_status_is_passing(status) ? status : RP_OK;
    *size = rp_get_u32(head.address);
    rp_log_range_release(head.pin);
    return RP_OK;
}

int rp_stored_message_open(rp_commit_log *log, int64_t log_offset, rp_stored_message *stored) {
    uint32_t size;
    rp_log_range range;
    int status = read_size(log, log_offset, &size);
    if (status == RP_OK)
        status = size > sizeof size ? rp_commit_log_read(log, log_offset, size, &range) : RP_E_NOT_FOUND;
    if (status != RP_OK)
        return rp_status_is_passing(status) ? status : RP_E_NOT_FOUND;
    stored->pin = range.pin;
    int kind = rp_message_decode(range.address, range.size, RP_CHECK_BODY_CRC, &stored->message, NULL);
    if (kind == RP_RECORD_MESSAGE && stored->message.physical_offset == log_offset)
        return RP_OK;
    rp_stored_message_close(stored);
    return RP_E_NOT_FOUND;
}

void rp_stored_message_close(rp_stored_message *stored) {
    rp_log_range_release(stored->pin);
    stored->pin = NULL;
}

rp_append_item rp_item_of_message(const rp_message *message) {
    rp_append_item item = {
        .flag = message->flag,
        .sys_flag = message->sys_flag,
        .born_timestamp_ms = message->born_timestamp_ms,
        .reconsume_times = message->reconsume_times,
        .tags_code = rp_message_tags_code(message->properties),
        .is_copy = 1,
        .body = message->body,
    };
    memcpy(item.born_host, message->born_host.data, message->born_host.size);
    return item;
}

int rp_stored_message_in_memory(rp_commit_log *log, int64_t log_offset) {
    uint32_t size;
    if (log_offset > rp_commit_log_max_offset(log)) /* the offset comes from a client: the sums below must not overflow */
        return 0;
    if (!rp_commit_log_in_memory(log, log_offset, log_offset + (int64_t)sizeof size) || read_size(log, log_offset, &size) != RP_OK)
        return 0;
    return size > sizeof size && size <= RECORD_BYTES_MAX && rp_commit_log_in_memory(log, log_offset, log_offset + size);
}
