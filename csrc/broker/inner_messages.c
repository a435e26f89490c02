/* inner_messages.c: see inner_messages.h. */
#include "inner_messages.h"

#include <stdlib.h>

#include "../store/inner_batch.h"
#include "../store/message_encode.h"
#include "send_batch.h"

static rp_encode_source source_of(const rp_message *record, int64_t offset) {
    return (rp_encode_source){
        .queue_id = record->queue_id,
        .flag = record->flag,
        .sys_flag = record->sys_flag & ~RP_SYSFLAG_BATCH_MASK,
        .reconsume_times = record->reconsume_times,
        .born_timestamp_ms = record->born_timestamp_ms,
        .store_timestamp_ms = record->store_timestamp_ms,
        .queue_offset = offset,
        .physical_offset = record->physical_offset,
        .prepared_transaction_offset = record->prepared_transaction_offset,
        .born_host = record->born_host.data,
        .store_host = record->store_host.data,
        .topic = record->topic,
        .body = record->body,
        .properties = {record->properties},
    };
}

/* 0: it is one message. */
static int is_batch(const rp_message *record, rp_queue_entry *entry) {
    uint32_t position = 0;
    if (!rp_inner_batch_read(record, entry)) {
        entry->queue_offset = record->queue_offset;
        entry->messages = 1;
    }
    return (record->sys_flag & RP_SYSFLAG_NEED_UNWRAP) != 0 && (record->sys_flag & RP_SYSFLAG_COMPRESSED) == 0 &&
           rp_batch_count(record->body, &position) == entry->messages;
}

/* 1: it was put down. */
static int put(const rp_encode_source *source, uint64_t *size, uint8_t *to) {
    int64_t own = rp_message_encoded_size(source);
    if (own < 0)
        return 0;
    if (to != NULL)
        rp_message_encode(source, to + *size, (uint32_t)own);
    *size += (uint64_t)own;
    return 1;
}

uint32_t rp_inner_messages(const rp_message *record, int64_t from, uint32_t most, int64_t *offsets, uint64_t *size, uint8_t *to) {
    rp_queue_entry entry;
    rp_batch_message message;
    uint32_t count = 0, position = 0;
    *size = 0;
    if (most == 0)
        return 0;
    if (!is_batch(record, &entry)) { /* its last offset: who has got it and goes on behind that does not get it again */
        offsets[0] = entry.queue_offset + entry.messages - 1;
        rp_encode_source source = source_of(record, offsets[0]);
        return from <= offsets[0] && put(&source, size, to);
    }
    for (int64_t offset = entry.queue_offset; count < most && rp_batch_next(record->body, &position, &message) == 1; offset++) {
        if (offset < from)
            continue;
        rp_encode_source source = source_of(record, offset);
        source.flag = message.flag;
        source.body = message.body;
        source.properties[0] = message.properties;
        offsets[count] = offset;
        count += (uint32_t)put(&source, size, to);
    }
    return count;
}

/* All of the ranges, one behind the other. Returns the count; *next: behind the last. */
static uint32_t take_apart(const rp_get_scratch *scratch, const rp_get_result *result, int64_t from, uint32_t most, int64_t *offsets,
                           uint64_t *size, uint8_t *to, int64_t *next) {
    uint32_t count = 0;
    *size = 0;
    *next = result->next_offset;
    for (uint32_t i = 0; i < result->range_count; i++) {
        const rp_file_range *range = &scratch->ranges[i];
        rp_message record;
        for (uint32_t at = 0; at < range->size; at += record.size) {
            uint64_t own;
            if (rp_message_decode(range->address + at, range->size - at, RP_CHECK_NO_CRC, &record, NULL) != RP_RECORD_MESSAGE) {
                *next = count > 0 ? offsets[count - 1] + 1 : *next; /* what is behind it here is got by the next look */
                return count;
            }
            uint32_t more = rp_inner_messages(&record, from, most - count, offsets + count, &own, to != NULL ? to + *size : NULL);
            count += more;
            *size += own;
            if (count == most) {
                *next = more > 0 ? offsets[count - 1] + 1 : *next;
                return count;
            }
        }
    }
    return count;
}

int rp_inner_messages_got(rp_get_scratch *scratch, rp_get_result *result, int64_t from, uint32_t most, int64_t *offsets) {
    uint64_t size;
    int64_t next;
    uint32_t count = take_apart(scratch, result, from, most, offsets, &size, NULL, &next);
    uint8_t *bytes = size <= INT32_MAX ? malloc(size + 1) : NULL;
    if (bytes == NULL)
        return RP_E_NO_MEMORY;
    (void)take_apart(scratch, result, from, most, offsets, &size, bytes, &next);
    rp_get_release(scratch, result);
    scratch->ranges[0] = (rp_file_range){bytes, (uint32_t)size, -1, 0, free, bytes};
    result->range_count = 1;
    result->count = count;
    result->bytes = size;
    result->next_offset = next;
    return RP_OK;
}
