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

/* 0: the record is one message. */
static int is_batch(const rp_message *record, rp_queue_entry *entry) {
    uint32_t position = 0;
    if (!rp_inner_batch_read(record, entry)) {
        entry->queue_offset = record->queue_offset;
        entry->messages = 1;
    }
    return (record->sys_flag & RP_SYSFLAG_NEED_UNWRAP) != 0 && (record->sys_flag & RP_SYSFLAG_COMPRESSED) == 0 &&
           rp_batch_count(record->body, &position) == entry->messages;
}

/* 1: the record was written, or measured. */
static int put(const rp_encode_source *source, uint64_t *size, uint8_t *to) {
    int64_t own = rp_message_encoded_size(source);
    if (own < 0)
        return 0;
    if (to != NULL)
        rp_message_encode(source, to + *size, (uint32_t)own);
    *size += (uint64_t)own;
    return 1;
}

/* ---- places ---- */

static rp_inner_place *place_for(rp_inner_places *places, const rp_message *record, int64_t from) {
    uint64_t hash = ((uint64_t)record->physical_offset ^ (uint64_t)from) * UINT64_C(0x9E3779B97F4A7C15);
    return &places->of[(hash >> 32) % RP_INNER_PLACES];
}

/* NULL: no place is known. */
static const rp_inner_place *find_place(rp_inner_places *places, const rp_message *record, int64_t from) {
    const rp_inner_place *known = place_for(places, record, from);
    int is_it = known->position > 0 && known->from == from && known->log_offset == record->physical_offset &&
                known->store_ms == record->store_timestamp_ms && known->size == record->size && known->body_crc == record->body_crc;
    return is_it ? known : NULL;
}

static void keep_place(rp_inner_places *places, const rp_message *record, int64_t from, int64_t offset, uint32_t position) {
    *place_for(places, record, from) = (rp_inner_place){
        .log_offset = record->physical_offset,
        .store_ms = record->store_timestamp_ms,
        .from = from,
        .offset = offset,
        .size = record->size,
        .body_crc = record->body_crc,
        .position = position,
    };
}

/* ---- messages ---- */

/* Walks a batch whose message at `offset` begins at `position` of the body. */
static uint32_t walk(rp_inner_places *places, const rp_message *record, int64_t from, int64_t offset, uint32_t position, uint32_t most,
                     int64_t *offsets, uint64_t *size, uint8_t *to) {
    rp_batch_message message;
    uint32_t count = 0;
    for (uint32_t begin = position; count < most && rp_batch_next(record->body, &position, &message) == 1; offset++, begin = position) {
        if (offset < from)
            continue;
        if (count == 0 && to == NULL) /* the caller measures, and comes again to write */
            keep_place(places, record, from, offset, begin);
        rp_encode_source source = source_of(record, offset);
        source.flag = message.flag;
        source.body = message.body;
        source.properties[0] = message.properties;
        offsets[count] = offset;
        count += (uint32_t)put(&source, size, to);
    }
    if (to != NULL && count > 0)
        keep_place(places, record, offsets[count - 1] + 1, offset, position);
    return count;
}

uint32_t rp_inner_messages(rp_inner_places *places, const rp_message *record, int64_t from, uint32_t most, int64_t *offsets, uint64_t *size,
                           uint8_t *to) {
    rp_queue_entry entry;
    *size = 0;
    if (most == 0)
        return 0;
    const rp_inner_place *known = find_place(places, record, from);
    if (known != NULL)
        return walk(places, record, from, known->offset, known->position, most, offsets, size, to);
    if (is_batch(record, &entry))
        return walk(places, record, from, entry.queue_offset, 0, most, offsets, size, to);
    /* Its last offset, so that a consumer that continues behind it does not get it again. */
    offsets[0] = entry.queue_offset + entry.messages - 1;
    rp_encode_source source = source_of(record, offsets[0]);
    return from <= offsets[0] && put(&source, size, to);
}

/* Takes all ranges apart, one behind the other. Returns the count; *next: the offset behind the last. */
static uint32_t take_apart(rp_inner_places *places, const rp_get_scratch *scratch, const rp_get_result *result, int64_t from, uint32_t most,
                           int64_t *offsets, uint64_t *size, uint8_t *to, int64_t *next) {
    uint32_t count = 0;
    *size = 0;
    *next = result->next_offset;
    for (uint32_t i = 0; i < result->range_count; i++) {
        const rp_file_range *range = &scratch->ranges[i];
        rp_message record;
        for (uint32_t at = 0; at < range->size; at += record.size) {
            uint64_t own;
            if (rp_message_decode(range->address + at, range->size - at, RP_CHECK_NO_CRC, &record, NULL) != RP_RECORD_MESSAGE) {
                *next = count > 0 ? offsets[count - 1] + 1 : *next; /* what lies behind it is found by the next pop */
                return count;
            }
            uint32_t more = rp_inner_messages(places, &record, from, most - count, offsets + count, &own, to != NULL ? to + *size : NULL);
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

int rp_inner_messages_got(rp_inner_places *places, rp_get_scratch *scratch, rp_get_result *result, int64_t from, uint32_t most,
                          int64_t *offsets) {
    uint64_t size;
    int64_t next;
    uint32_t count = take_apart(places, scratch, result, from, most, offsets, &size, NULL, &next);
    uint8_t *bytes = size <= INT32_MAX ? malloc(size + 1) : NULL;
    if (bytes == NULL)
        return RP_E_NO_MEMORY;
    (void)take_apart(places, scratch, result, from, most, offsets, &size, bytes, &next);
    rp_get_release(scratch, result);
    scratch->ranges[0] = (rp_file_range){bytes, (uint32_t)size, -1, 0, free, bytes};
    result->range_count = 1;
    result->count = count;
    result->bytes = size;
    result->next_offset = next;
    return RP_OK;
}
