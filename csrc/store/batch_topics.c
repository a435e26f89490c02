/* batch_topics.c: a hash set of names with open addressing, at most half full. A removal re-enters the names that follow the freed slot. */
#include "batch_topics.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../base/error.h"
#include "../base/hash.h"

#define SLOTS_MIN 16

/* Returns the slot that holds the name, or the free slot where it belongs. */
static uint32_t slot_of(const rp_batch_topics *topics, rp_slice name) {
    uint32_t slot = (uint32_t)rp_hash_bytes(name.data, name.size, 0) & (topics->slot_count - 1);
    const rp_slice *found = &topics->names[slot];
    while (found->data != NULL && (found->size != name.size || memcmp(found->data, name.data, name.size) != 0)) {
        slot = (slot + 1) & (topics->slot_count - 1);
        found = &topics->names[slot];
    }
    return slot;
}

static bool grow(rp_batch_topics *topics) {
    rp_batch_topics larger = {.slot_count = topics->slot_count == 0 ? SLOTS_MIN : topics->slot_count * 2, .count = topics->count};
    larger.names = calloc(larger.slot_count, sizeof *larger.names);
    if (larger.names == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < topics->slot_count; i++) {
        if (topics->names[i].data != NULL) {
            larger.names[slot_of(&larger, topics->names[i])] = topics->names[i];
        }
    }
    free(topics->names);
    *topics = larger;
    return true;
}

int rp_batch_topics_has(const rp_batch_topics *topics, rp_slice name) {
    return topics->count != 0 && name.size != 0 && topics->names[slot_of(topics, name)].data != NULL;
}

int rp_batch_topics_add(rp_batch_topics *topics, rp_slice name) {
    if (name.size == 0 || rp_batch_topics_has(topics, name)) {
        return RP_OK;
    }
    if (topics->count >= topics->slot_count / 2 && !grow(topics)) {
        return RP_E_NO_MEMORY;
    }
    uint8_t *copy = malloc(name.size);
    if (copy == NULL) {
        return RP_E_NO_MEMORY;
    }
    memcpy(copy, name.data, name.size);
    topics->names[slot_of(topics, name)] = (rp_slice){copy, name.size};
    topics->count++;
    return RP_OK;
}

void rp_batch_topics_remove(rp_batch_topics *topics, rp_slice name) {
    if (!rp_batch_topics_has(topics, name)) {
        return;
    }
    uint32_t slot = slot_of(topics, name);
    free((void *)topics->names[slot].data);
    topics->names[slot] = (rp_slice){NULL, 0};
    topics->count--;
    for (uint32_t next = (slot + 1) & (topics->slot_count - 1); topics->names[next].data != NULL;
         next = (next + 1) & (topics->slot_count - 1)) {
        rp_slice moved = topics->names[next];
        topics->names[next] = (rp_slice){NULL, 0};
        topics->names[slot_of(topics, moved)] = moved;
    }
}

void rp_batch_topics_free(rp_batch_topics *topics) {
    for (uint32_t i = 0; i < topics->slot_count; i++) {
        free((void *)topics->names[i].data);
    }
    free(topics->names);
    *topics = (rp_batch_topics){0};
}
