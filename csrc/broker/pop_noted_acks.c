/* pop_noted_acks.c: see pop_noted_acks.h. */
#include "pop_noted_acks.h"

#include <stdlib.h>
#include <string.h>

static rp_slice keep(uint8_t **at, rp_slice text) {
    rp_slice kept = {*at, text.size};
    if (text.size > 0)
        memcpy(*at, text.data, text.size);
    *at += text.size;
    return kept;
}

rp_noted_ack *rp_noted_ack_copy(const rp_pop_ack *ack) {
    size_t offsets = ack->offset_count * sizeof *ack->offsets;
    size_t names = (size_t)ack->topic.size + ack->group.size + ack->broker_name.size;
    rp_noted_ack *noted = malloc(sizeof *noted + offsets + names);
    if (noted == NULL)
        return NULL;
    uint8_t *at = (uint8_t *)noted->offsets + offsets;
    memcpy(noted->offsets, ack->offsets, offsets);
    noted->next = NULL;
    noted->ack = *ack;
    noted->ack.offsets = noted->offsets;
    noted->ack.topic = keep(&at, ack->topic);
    noted->ack.group = keep(&at, ack->group);
    noted->ack.broker_name = keep(&at, ack->broker_name);
    return noted;
}

void rp_noted_acks_add(rp_noted_acks *acks, rp_noted_ack *noted) {
    if (noted == NULL)
        return;
    if (atomic_fetch_add_explicit(&acks->count, 1, memory_order_relaxed) >= RP_NOTED_ACKS_MAX) {
        atomic_fetch_sub_explicit(&acks->count, 1, memory_order_relaxed);
        free(noted);
        return;
    }
    noted->next = atomic_load_explicit(&acks->stack, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&acks->stack, &noted->next, noted, memory_order_release, memory_order_relaxed))
        ;
}

rp_noted_ack *rp_noted_acks_take(rp_noted_acks *acks) {
    rp_noted_ack *taken = atomic_exchange_explicit(&acks->stack, NULL, memory_order_acquire);
    uint32_t count = 0;
    for (const rp_noted_ack *noted = taken; noted != NULL; noted = noted->next)
        count++;
    atomic_fetch_sub_explicit(&acks->count, count, memory_order_relaxed);
    return taken;
}
