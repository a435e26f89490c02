/* stored_messages.h: the content of a broker's queues: ends, records, their properties. */
#ifndef RP_TESTS_STORED_MESSAGES_H
#define RP_TESTS_STORED_MESSAGES_H

#include <stdbool.h>

#include "broker_fixture.h"

static inline int64_t end_of(const fixture *fx, const char *topic, int32_t queue_id) {
    rp_consume_queue *queue = rp_message_store_queue(fx->store, text(topic), queue_id, 0, NULL);
    return queue != NULL ? rp_consume_queue_max_offset(queue) : 0;
}

/* Reads the record of an entry and, unless that is NULL, the entry. The caller releases the pin. */
static inline void *read_message(const fixture *fx, const char *topic, int32_t queue_id, int64_t offset, rp_message *message,
                                 rp_queue_entry *entry) {
    rp_log_range range;
    rp_queue_entry found;
    rp_error error;
    rp_consume_queue *queue = rp_message_store_queue(fx->store, text(topic), queue_id, 0, NULL);
    CHECK(queue != NULL && rp_consume_queue_read(queue, offset, &found, 1) == 1);
    CHECK(rp_commit_log_read(rp_message_store_commit_log(fx->store), found.commit_log_offset, (uint32_t)found.size, &range) == RP_OK);
    must(rp_message_decode(range.address, range.size, RP_CHECK_BODY_CRC, message, &error), &error, "decode record");
    if (entry != NULL)
        *entry = found;
    return range.pin;
}

/* value NULL: the message has no such property. */
static inline bool property_is(const rp_message *message, const char *name, const char *value) {
    rp_slice found = rp_message_property(message->properties, name);
    return value == NULL ? found.data == NULL : found.data != NULL && slice_is(found, value);
}

static inline bool body_is(const fixture *fx, const char *topic, int32_t queue_id, int64_t offset, const char *body) {
    rp_message message;
    void *pin = read_message(fx, topic, queue_id, offset, &message, NULL);
    bool is = slice_is(message.body, body);
    rp_log_range_release(pin);
    return is;
}

#endif
