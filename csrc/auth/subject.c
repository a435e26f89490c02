/* subject.c: see subject.h. */
#include "subject.h"

#include <stdlib.h>
#include <string.h>

#include "../base/error.h"
#include "../base/hash.h"
#include "../base/slice_inl.h"

#define SLOTS_MIN 16u
#define SEED 0x5b1ec7u

static uint64_t hash_of(rp_slice name) { return rp_hash_bytes(name.data, name.size, SEED); }

rp_subject *rp_subject_make(rp_slice name, const rp_subject *like, rp_rights *rights) {
    rp_subject *made = malloc(sizeof *made + name.size);
    if (made == NULL) {
        return NULL;
    }
    memset(made, 0, sizeof *made);
    atomic_init(&made->references, 1);
    if (like != NULL) {
        made->is_user = like->is_user;
        made->is_super = like->is_super;
        made->is_enabled = like->is_enabled;
        made->key = like->key;
    }
    made->hash = hash_of(name);
    made->rights = rp_rights_hold(rights);
    made->name_size = name.size;
    memcpy(made->name, name.data, name.size);
    return made;
}

static rp_subject *hold(rp_subject *subject) {
    atomic_fetch_add_explicit(&subject->references, 1, memory_order_relaxed);
    return subject;
}

void rp_subject_release(rp_subject *subject) {
    /* acq_rel: the thread that frees it sees that the others are done with it. */
    if (atomic_fetch_sub_explicit(&subject->references, 1, memory_order_acq_rel) == 1) {
        rp_rights_release(subject->rights);
        rp_wipe(&subject->key, sizeof subject->key);
        free(subject);
    }
}

static bool is_named(const rp_subject *subject, uint64_t hash, rp_slice name) {
    return subject->hash == hash && rp_slice_equals((rp_slice){subject->name, subject->name_size}, name);
}

/* Returns the slot of the name, or the free slot where it belongs. There is one: half of them are free. */
static uint32_t slot_of(const rp_subject_map *map, uint64_t hash, rp_slice name) {
    uint32_t slot = (uint32_t)hash & (map->slot_count - 1);
    while (map->slots[slot] != NULL && !is_named(map->slots[slot], hash, name)) {
        slot = (slot + 1) & (map->slot_count - 1);
    }
    return slot;
}

rp_subject *rp_subject_map_find(const rp_subject_map *map, rp_slice name) {
    return map->slot_count == 0 ? NULL : map->slots[slot_of(map, hash_of(name), name)];
}

static int grow(rp_subject_map *map) {
    rp_subject_map larger = {.slot_count = map->slot_count == 0 ? SLOTS_MIN : 2 * map->slot_count, .count = map->count};
    larger.slots = calloc(larger.slot_count, sizeof *larger.slots);
    if (larger.slots == NULL) {
        return RP_E_NO_MEMORY;
    }
    for (uint32_t slot = 0; slot < map->slot_count; slot++) {
        rp_subject *subject = map->slots[slot];
        if (subject != NULL) {
            larger.slots[slot_of(&larger, subject->hash, (rp_slice){subject->name, subject->name_size})] = subject;
        }
    }
    free(map->slots);
    *map = larger;
    return RP_OK;
}

int rp_subject_map_put(rp_subject_map *map, rp_subject *subject) {
    if (2 * (map->count + 1) > map->slot_count && grow(map) != RP_OK) {
        return RP_E_NO_MEMORY;
    }
    uint32_t slot = slot_of(map, subject->hash, (rp_slice){subject->name, subject->name_size});
    if (map->slots[slot] != NULL) {
        rp_subject_release(map->slots[slot]);
    } else {
        map->count++;
    }
    map->slots[slot] = subject;
    return RP_OK;
}

void rp_subject_map_remove(rp_subject_map *map, rp_slice name) {
    uint32_t mask = map->slot_count - 1, hole = map->slot_count == 0 ? 0 : slot_of(map, hash_of(name), name);
    if (map->slot_count == 0 || map->slots[hole] == NULL) {
        return;
    }
    rp_subject_release(map->slots[hole]);
    map->count--;
    /* An entry behind the hole that belongs at or before the hole moves into it. */
    for (uint32_t slot = (hole + 1) & mask; map->slots[slot] != NULL; slot = (slot + 1) & mask) {
        uint32_t home = (uint32_t)map->slots[slot]->hash & mask;
        if (((slot - home) & mask) >= ((slot - hole) & mask)) {
            map->slots[hole] = map->slots[slot];
            hole = slot;
        }
    }
    map->slots[hole] = NULL;
}

int rp_subject_map_copy(const rp_subject_map *map, rp_subject_map *copy) {
    *copy = (rp_subject_map){.slot_count = map->slot_count, .count = map->count};
    if (map->slot_count == 0) {
        return RP_OK;
    }
    copy->slots = calloc(map->slot_count, sizeof *copy->slots);
    if (copy->slots == NULL) {
        copy->slot_count = copy->count = 0;
        return RP_E_NO_MEMORY;
    }
    for (uint32_t slot = 0; slot < map->slot_count; slot++) {
        copy->slots[slot] = map->slots[slot] != NULL ? hold(map->slots[slot]) : NULL;
    }
    return RP_OK;
}

void rp_subject_map_free(rp_subject_map *map) {
    for (uint32_t slot = 0; slot < map->slot_count; slot++) {
        if (map->slots[slot] != NULL) {
            rp_subject_release(map->slots[slot]);
        }
    }
    free(map->slots);
    *map = (rp_subject_map){0};
}
