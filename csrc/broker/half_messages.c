/* half_messages.c: see half_messages.h. */
#include "half_messages.h"

#include "../base/slice_inl.h"
#include "lane.h"
#include "stored_message.h"

#define NAME(literal) ((rp_slice){(const uint8_t *)(literal), sizeof(literal) - 1})

static int open_queue(rp_broker *broker, rp_slice name, rp_topic **topic, rp_consume_queue **queue) {
    *topic = rp_topic_table_find(broker->topics, name);
    return *topic != NULL && rp_topic_open_queue_to_send(broker->topics, *topic, 0, queue) != NULL ? RP_OK : RP_E_IO;
}

int rp_half_open_queue(rp_broker *broker, rp_topic **topic, rp_consume_queue **queue) {
    return open_queue(broker, NAME(RP_HALF_TOPIC), topic, queue);
}

int rp_op_open_queue(rp_broker *broker, rp_topic **topic, rp_consume_queue **queue) {
    return open_queue(broker, NAME(RP_OP_TOPIC), topic, queue);
}

rp_consume_queue *rp_half_queue(const rp_broker *broker) { return rp_message_store_queue(broker->store, NAME(RP_HALF_TOPIC), 0, 0, NULL); }

rp_consume_queue *rp_op_queue(const rp_broker *broker) { return rp_message_store_queue(broker->store, NAME(RP_OP_TOPIC), 0, 0, NULL); }

int64_t rp_half_said_first_offset(rp_slice properties) {
    rp_slice text = rp_message_property(properties, RP_FIRST_OFFSET);
    int64_t offset;
    return text.data != NULL && rp_slice_to_i64(text, &offset) == RP_OK && offset >= 0 ? offset : -1;
}

static int are_one(const rp_message *left, const rp_message *right) {
    static const char key[] = "UNIQ_KEY";
    return left->born_timestamp_ms == right->born_timestamp_ms && rp_slice_equals(left->born_host, right->born_host) &&
           left->body_crc == right->body_crc && left->body.size == right->body.size &&
           rp_slice_equals(rp_message_property(left->properties, key), rp_message_property(right->properties, key));
}

int rp_half_is_copy_of(rp_broker *broker, const rp_message *half, int64_t first_offset) {
    rp_queue_entry entry;
    rp_stored_message first;
    rp_consume_queue *queue = rp_half_queue(broker);
    if (queue == NULL || first_offset < 0 || first_offset >= half->queue_offset)
        return 0;
    if (first_offset < rp_consume_queue_min_offset(queue))
        return 1;
    int64_t count = rp_consume_queue_read(queue, first_offset, &entry, 1);
    if (count <= 0)
        return count == 0 ? 1 : count == RP_E_NO_MEMORY ? RP_E_NO_MEMORY : RP_E_IO;
    int status = rp_stored_message_open(broker->commit_log, entry.commit_log_offset, &first);
    if (status != RP_OK)
        return rp_status_is_passing(status) ? status : 1;
    int is_copy = are_one(half, &first.message);
    rp_stored_message_close(&first);
    return is_copy;
}
