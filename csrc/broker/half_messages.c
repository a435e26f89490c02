/* half_messages.c: the queues of half_messages.h. */
#include "half_messages.h"

#include "lane.h"

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

int64_t rp_half_first_offset(rp_slice properties) {
    rp_slice text = rp_message_property(properties, RP_FIRST_OFFSET);
    int64_t offset;
    return text.data != NULL && rp_slice_to_i64(text, &offset) == RP_OK && offset >= 0 ? offset : -1;
}
