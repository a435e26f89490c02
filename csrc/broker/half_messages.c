/* half_messages.c: the queues of half_messages.h. */
#include "half_messages.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "lane.h"

struct rp_half_messages {
    rp_broker *broker; /* fixed */
    rp_topic *topic;   /* fixed */
    pthread_mutex_t lock;
    _Atomic(rp_consume_queue *) half, op; /* released by who makes them, under `lock` */
};

static rp_consume_queue *find(const rp_half_messages *halves, rp_slice topic, int create) {
    return rp_message_store_queue(halves->broker->store, topic, 0, create, NULL);
}

#define NAME(literal) ((rp_slice){(const uint8_t *)(literal), sizeof(literal) - 1})

rp_half_messages *rp_half_messages_create(rp_broker *broker) {
    rp_half_messages *halves = calloc(1, sizeof *halves);
    if (halves == NULL)
        return NULL;
    halves->broker = broker;
    pthread_mutex_init(&halves->lock, NULL);
    halves->topic = rp_topic_table_entry(broker->topics, NAME(RP_HALF_TOPIC));
    atomic_store_explicit(&halves->half, find(halves, NAME(RP_HALF_TOPIC), 0), memory_order_release);
    atomic_store_explicit(&halves->op, find(halves, NAME(RP_OP_TOPIC), 0), memory_order_release);
    if (halves->topic == NULL) {
        rp_half_messages_destroy(halves);
        return NULL;
    }
    return halves;
}

void rp_half_messages_destroy(rp_half_messages *halves) {
    if (halves == NULL)
        return;
    pthread_mutex_destroy(&halves->lock);
    free(halves);
}

rp_consume_queue *rp_half_queue(const rp_half_messages *halves) { return atomic_load_explicit(&halves->half, memory_order_acquire); }

rp_consume_queue *rp_op_queue(const rp_half_messages *halves) { return atomic_load_explicit(&halves->op, memory_order_acquire); }

rp_topic *rp_half_topic(const rp_half_messages *halves) { return halves->topic; }

static int open_queue(rp_half_messages *halves, _Atomic(rp_consume_queue *) *known, rp_slice topic, rp_consume_queue **queue) {
    *queue = atomic_load_explicit(known, memory_order_acquire);
    if (*queue == NULL) {
        pthread_mutex_lock(&halves->lock);
        *queue = find(halves, topic, 1);
        atomic_store_explicit(known, *queue, memory_order_release);
        pthread_mutex_unlock(&halves->lock);
    }
    if (*queue == NULL)
        return RP_E_IO;
    if (rp_consume_queue_max_offset(*queue) > 0)
        return RP_OK;
    return rp_message_store_prepare_queue(halves->broker->store, *queue, NULL) == RP_OK ? RP_OK : RP_E_IO;
}

int rp_half_open_queue(rp_half_messages *halves, rp_consume_queue **queue) {
    return open_queue(halves, &halves->half, NAME(RP_HALF_TOPIC), queue);
}

int rp_op_open_queue(rp_half_messages *halves, rp_consume_queue **queue) {
    return open_queue(halves, &halves->op, NAME(RP_OP_TOPIC), queue);
}
