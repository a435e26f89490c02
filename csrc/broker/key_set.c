/* key_set.c: see key_set.h. */
#include "key_set.h"

#include <stdlib.h>
#include <string.h>

#include "../base/error.h"
#include "../base/hash.h"
#include "../store/message.h"
#include "topic_table.h"

#define ROOM_MIN 64u
#define ROOM_MAX (1u << 30)
#define KEY_SIZE_MAX (RP_TOPIC_NAME_MAX + 1 + RP_PROPERTIES_SIZE_MAX)

void rp_key_set_init(rp_key_set *set, uint64_t random) {
    *set = (rp_key_set){.seeds = {rp_hash_bytes(&random, sizeof random, 1), rp_hash_bytes(&random, sizeof random, 2)}};
}

void rp_key_set_clear(rp_key_set *set) {
    free(set->slots);
    set->slots = NULL;
    set->room = set->count = 0;
}

static rp_key_hash hash_of(const rp_key_set *set, const void *key, size_t size) {
    return (rp_key_hash){rp_hash_bytes(key, size, set->seeds[0]) | 1, rp_hash_bytes(key, size, set->seeds[1])};
}

/* The slot that holds the hash, or the empty one where it belongs. */
static rp_key_hash *slot_of(rp_key_hash *slots, uint32_t room, rp_key_hash hash) {
    uint32_t at = (uint32_t)(hash.second >> 32) & (room - 1);
    while ((slots[at].first != 0 || slots[at].second != 0) && (slots[at].first != hash.first || slots[at].second != hash.second))
        at = (at + 1) & (room - 1);
    return &slots[at];
}

static int grow(rp_key_set *set) {
    uint32_t room = set->room == 0 ? ROOM_MIN : set->room * 2;
    rp_key_hash *slots = room <= ROOM_MAX ? calloc(room, sizeof *slots) : NULL;
    if (slots == NULL)
        return RP_E_NO_MEMORY;
    for (uint32_t i = 0; i < set->room; i++) {
        if (set->slots[i].first != 0)
            *slot_of(slots, room, set->slots[i]) = set->slots[i];
    }
    free(set->slots);
    set->slots = slots;
    set->room = room;
    return RP_OK;
}

int rp_key_set_add(rp_key_set *set, rp_slice key) {
    if (set->count >= set->room / 2 && grow(set) != RP_OK)
        return RP_E_NO_MEMORY;
    rp_key_hash hash = hash_of(set, key.data, key.size), *slot = slot_of(set->slots, set->room, hash);
    set->count += slot->first == 0;
    *slot = hash;
    return RP_OK;
}

int rp_key_set_has(const rp_key_set *set, rp_slice key) {
    return set->count > 0 && slot_of(set->slots, set->room, hash_of(set, key.data, key.size))->first != 0;
}

/* "topic+key". 0: too long, or one of them is empty. */
static uint32_t join(rp_slice topic, rp_slice unique_key, uint8_t key[KEY_SIZE_MAX]) {
    size_t size = (size_t)topic.size + 1 + unique_key.size;
    if (topic.size == 0 || unique_key.size == 0 || size > KEY_SIZE_MAX)
        return 0;
    memcpy(key, topic.data, topic.size);
    key[topic.size] = '+';
    memcpy(key + topic.size + 1, unique_key.data, unique_key.size);
    return (uint32_t)size;
}

int rp_key_set_add_recalled(rp_key_set *set, rp_slice topic, rp_slice named) {
    uint8_t key[KEY_SIZE_MAX];
    if (named.size > topic.size && named.data[topic.size] == '+' && memcmp(named.data, topic.data, topic.size) == 0)
        return rp_key_set_add(set, named);
    uint32_t size = join(topic, named, key);
    return size > 0 ? rp_key_set_add(set, (rp_slice){key, size}) : RP_OK;
}

int rp_key_set_has_recalled(const rp_key_set *set, rp_slice topic, rp_slice unique_key) {
    uint8_t key[KEY_SIZE_MAX];
    uint32_t size = set->count > 0 ? join(topic, unique_key, key) : 0;
    return size > 0 && rp_key_set_has(set, (rp_slice){key, size});
}
