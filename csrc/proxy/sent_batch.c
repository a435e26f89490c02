/* sent_batch.c: see sent_batch.h. Each message is read twice, once for its size and once to be written, since keeping them all decoded
 * would take much memory. */
#include "sent_batch.h"

#include <stdbool.h>
#include <string.h>

#include "../base/bytes_inl.h"
#include "../base/slice_inl.h"
#include "message_fields.h"
#include "protobuf.h"

#define RECORD_HEAD 20u /* before the body */
#define RECORD_REST 2u  /* the size of the properties */

static uint64_t size_max_of(const rp_sent_message *message, uint32_t peer_host_size) {
    return RECORD_HEAD + (uint64_t)message->body.size + RECORD_REST + rp_sent_message_properties_size(message, peer_host_size);
}

static bool join(rp_sent_batch *batch, const rp_sent_message *first, const rp_sent_message *message, uint32_t peer_host_size) {
    uint32_t properties = rp_sent_message_properties_size(message, peer_host_size);
    batch->count++;
    batch->size_max += size_max_of(message, peer_host_size);
    return batch->count <= RP_SENT_BATCH_MAX && message->lite_topic.size == 0 && !message->has_delivery && properties <= UINT16_MAX &&
           rp_slice_equals(message->resource, first->resource) && batch->size_max <= INT32_MAX;
}

int rp_sent_batch_read(rp_slice request, const rp_send_rules *rules, int64_t now_ms, uint32_t peer_host_size, rp_sent_message *first,
                       rp_sent_batch *batch) {
    rp_slice bytes;
    rp_sent_message other;
    int status;
    *batch = (rp_sent_batch){0};
    while ((status = rp_sent_next(&request, &bytes)) == 1) {
        rp_sent_message *message = batch->count == 0 ? first : &other;
        if (!rp_sent_message_read(bytes, rules, now_ms, message) || !join(batch, first, message, peer_host_size))
            return 0;
    }
    return status == 0 && batch->count > 1;
}

static uint8_t *write_record(const rp_sent_message *message, rp_slice peer_host, uint8_t *target) {
    uint8_t *body = target + RECORD_HEAD, *properties = body + message->body.size + RECORD_REST;
    uint32_t size = rp_sent_message_write_properties(message, peer_host, properties);
    memset(target, 0, RECORD_HEAD);
    rp_put_u32(target, (uint32_t)(properties - target) + size);
    rp_put_u32(body - sizeof(uint32_t), message->body.size);
    if (message->body.size > 0)
        memcpy(body, message->body.data, message->body.size);
    rp_put_u16(properties - RECORD_REST, (uint16_t)size);
    return properties + size;
}

uint64_t rp_sent_batch_write(rp_slice request, const rp_send_rules *rules, int64_t now_ms, rp_slice peer_host, uint8_t *target) {
    rp_slice bytes;
    rp_sent_message message;
    uint8_t *at = target;
    while (rp_sent_next(&request, &bytes) == 1 && rp_sent_message_read(bytes, rules, now_ms, &message))
        at = write_record(&message, peer_host, at);
    return (uint64_t)(at - target);
}

/* ---- message ids ---- */

/* Returns the last bytes field with this number; empty if there is none. */
static rp_slice last_of(rp_slice bytes, uint32_t number) {
    rp_protobuf_field field;
    rp_slice found = {NULL, 0};
    while (rp_protobuf_next(&bytes, &field) == 1) {
        if (field.number == number)
            found = field.bytes;
    }
    return found;
}

static rp_slice id_of(rp_slice message) { return last_of(last_of(message, MESSAGE_SYSTEM), SYSTEM_ID); }

uint32_t rp_sent_ids_size(rp_slice request) {
    rp_slice bytes;
    uint32_t size = 0, count = 0;
    while (rp_sent_next(&request, &bytes) == 1)
        size += id_of(bytes).size + (count++ > 0);
    return size;
}

uint8_t *rp_sent_ids_write(rp_slice request, uint8_t *target) {
    rp_slice bytes;
    uint32_t count = 0;
    while (rp_sent_next(&request, &bytes) == 1) {
        if (count++ > 0)
            *target++ = ',';
        rp_slice_copy(&target, id_of(bytes));
    }
    return target;
}
