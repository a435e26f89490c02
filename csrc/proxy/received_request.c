/* received_request.c: see received_request.h. Field numbers are those of rocketpy/proxy/schema.py. */
#include "received_request.h"

#include <stdbool.h>

#include "protobuf.h"
#include "resource.h"
#include "tag_filter.h"

#define BATCH_MAX 32
#define FILTER_SQL 2u

enum request_field {
    REQUEST_GROUP = 1,
    REQUEST_QUEUE = 2,
    REQUEST_FILTER = 3,
    REQUEST_BATCH = 4,
    REQUEST_INVISIBLE = 5,
    REQUEST_RENEWS = 6,
    REQUEST_POLLING = 7,
    REQUEST_ATTEMPT = 8,
    REQUEST_LAST = 8
};
enum queue_field { QUEUE_TOPIC = 1, QUEUE_ID = 2, QUEUE_PERMISSION = 3, QUEUE_BROKER = 4, QUEUE_TYPES = 5 };
enum broker_field { BROKER_NAME = 1, BROKER_ID = 2, BROKER_ENDPOINTS = 3 };
enum endpoints_field { ENDPOINTS_SCHEME = 1, ENDPOINTS_ADDRESSES = 2 };
enum address_field { ADDRESS_HOST = 1, ADDRESS_PORT = 2 };
enum filter_field { FILTER_TYPE = 1, FILTER_EXPRESSION = 2 };

/* ---- fields that must be well-formed, though nothing uses them ---- */

static bool check_address(rp_slice address) {
    rp_protobuf_field field;
    int status;
    while ((status = rp_protobuf_next(&address, &field)) == 1) {
        bool is_text = field.wire_type == RP_WIRE_BYTES && rp_protobuf_is_text(field.bytes);
        if (field.number > ADDRESS_PORT || !(field.number == ADDRESS_HOST ? is_text : field.wire_type == RP_WIRE_VARINT))
            return false;
    }
    return status == 0;
}

static bool check_endpoints(rp_slice endpoints) {
    rp_protobuf_field field;
    int status;
    while ((status = rp_protobuf_next(&endpoints, &field)) == 1) {
        bool is_address = field.wire_type == RP_WIRE_BYTES && check_address(field.bytes);
        if (field.number > ENDPOINTS_ADDRESSES || !(field.number == ENDPOINTS_SCHEME ? field.wire_type == RP_WIRE_VARINT : is_address))
            return false;
    }
    return status == 0;
}

/* Checks packed message types: the known ones have one byte each. */
static bool check_packed(rp_slice packed) {
    uint32_t at = 0;
    while (at < packed.size && packed.data[at] < 0x80)
        at++;
    return at == packed.size;
}

/* ---- fields that are used ---- */

static bool read_text(const rp_protobuf_field *field, rp_slice *text) {
    *text = field->bytes;
    return field->wire_type == RP_WIRE_BYTES && rp_protobuf_is_text(*text);
}

static bool read_broker(rp_slice broker, rp_received_request *received) {
    rp_protobuf_field field;
    int status;
    while ((status = rp_protobuf_next(&broker, &field)) == 1) {
        bool is_read = false;
        if (field.number == BROKER_NAME)
            is_read = read_text(&field, &received->broker);
        else if (field.number == BROKER_ID)
            is_read = field.wire_type == RP_WIRE_VARINT;
        else if (field.number == BROKER_ENDPOINTS)
            is_read = field.wire_type == RP_WIRE_BYTES && check_endpoints(field.bytes);
        if (!is_read)
            return false;
    }
    return status == 0;
}

static bool read_queue_field(const rp_protobuf_field *field, rp_received_request *received, uint32_t *topics, uint32_t *brokers) {
    bool is_bytes = field->wire_type == RP_WIRE_BYTES;
    switch (field->number) {
    case QUEUE_TOPIC:
        return is_bytes && ++*topics == 1 && rp_resource_read(field->bytes, &received->topic);
    case QUEUE_ID:
    case QUEUE_PERMISSION:
        return field->wire_type == RP_WIRE_VARINT;
    case QUEUE_BROKER:
        return is_bytes && ++*brokers == 1 && read_broker(field->bytes, received);
    case QUEUE_TYPES:
        return field->wire_type == RP_WIRE_VARINT || (is_bytes && check_packed(field->bytes));
    default:
        return false;
    }
}

static bool read_queue(rp_slice queue, rp_received_request *received) {
    rp_protobuf_field field;
    uint32_t topics = 0, brokers = 0;
    int status;
    while ((status = rp_protobuf_next(&queue, &field)) == 1) {
        if (!read_queue_field(&field, received, &topics, &brokers))
            return false;
    }
    return status == 0;
}

/* An enum or an int32 of at least 0. */
static bool read_number(const rp_protobuf_field *field, uint64_t *number) {
    *number = field->value;
    return field->wire_type == RP_WIRE_VARINT && field->value <= INT32_MAX;
}

static bool read_filter(rp_slice filter, rp_received_request *received) {
    rp_protobuf_field field;
    uint64_t type = 0;
    int status;
    while ((status = rp_protobuf_next(&filter, &field)) == 1) {
        if (field.number > FILTER_EXPRESSION ||
            !(field.number == FILTER_TYPE ? read_number(&field, &type) : read_text(&field, &received->filter)))
            return false;
    }
    received->is_sql = type == FILTER_SQL;
    return status == 0 && type <= FILTER_SQL;
}

/* How often fields have come that protobuf would merge if they were repeated. */
typedef struct counts {
    uint32_t groups, queues, filters, invisible, polling;
} counts;

static bool read_field(const rp_protobuf_field *field, rp_received_request *received, counts *seen, uint64_t *batch, uint64_t *renews) {
    bool is_bytes = field->wire_type == RP_WIRE_BYTES;
    switch (field->number) {
    case REQUEST_GROUP:
        return is_bytes && ++seen->groups == 1 && rp_resource_read(field->bytes, &received->group);
    case REQUEST_QUEUE:
        return is_bytes && ++seen->queues == 1 && read_queue(field->bytes, received);
    case REQUEST_FILTER:
        return is_bytes && ++seen->filters == 1 && read_filter(field->bytes, received);
    case REQUEST_BATCH:
        return read_number(field, batch);
    case REQUEST_INVISIBLE:
        return is_bytes && ++seen->invisible == 1 && rp_protobuf_read_duration(field->bytes, &received->invisible_ms);
    case REQUEST_RENEWS:
        *renews = field->value;
        return field->wire_type == RP_WIRE_VARINT;
    case REQUEST_POLLING:
        return is_bytes && ++seen->polling == 1 && rp_protobuf_read_duration(field->bytes, &received->polling_ms);
    case REQUEST_ATTEMPT:
        return read_text(field, &received->attempt_id) && field->bytes.size <= RP_ATTEMPT_SIZE_MAX;
    default:
        return false;
    }
}

/* Whether all characters are visible ASCII or blanks, and it has a tag, or for SQL any character. */
static bool is_filter(rp_slice filter, bool is_sql) {
    if (filter.size > RP_FILTER_SIZE_MAX)
        return false;
    for (uint32_t at = 0; at < filter.size; at++) {
        if (filter.data[at] < 0x20 || filter.data[at] > 0x7E)
            return false;
    }
    return is_sql ? filter.size > 0 : rp_tag_filter_is_one(filter);
}

int rp_received_request_read(rp_slice request, const rp_receive_rules *rules, rp_received_request *received) {
    rp_protobuf_field field;
    counts seen = {0};
    uint64_t batch = 0, renews = 0;
    int status;
    *received = (rp_received_request){.polling_ms = -1};
    while ((status = rp_protobuf_next(&request, &field)) == 1) {
        if (!read_field(&field, received, &seen, &batch, &renews))
            return 0;
    }
    received->batch_size = batch < 1 ? 1 : batch > BATCH_MAX ? BATCH_MAX : (int32_t)batch;
    received->is_renewed = rules->may_renew && renews != 0;
    if (received->is_renewed)
        received->invisible_ms = rules->invisible_renewed;
    else if (received->invisible_ms < rules->invisible_min || (rules->invisible_max > 0 && received->invisible_ms > rules->invisible_max))
        return 0;
    if (received->filter.size == 0 && !received->is_sql)
        received->filter = (rp_slice){(const uint8_t *)"*", 1};
    return status == 0 && seen.queues == 1 && is_filter(received->filter, received->is_sql != 0) && rp_resource_is_topic(received->topic) &&
           rp_resource_is_group(received->group);
}

int64_t rp_receive_polling_ms(const rp_received_request *received, const rp_receive_rules *rules, int64_t remaining_ms,
                              int64_t reserve_ms) {
    int64_t wanted_ms = received->polling_ms >= 0 ? received->polling_ms : remaining_ms - reserve_ms;
    wanted_ms = wanted_ms < rules->polling_min ? rules->polling_min : wanted_ms;
    wanted_ms = wanted_ms > rules->polling_max ? rules->polling_max : wanted_ms;
    if (wanted_ms <= remaining_ms)
        return wanted_ms;
    return remaining_ms >= rules->polling_min ? remaining_ms : -1;
}
