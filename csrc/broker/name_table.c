/* name_table.c: see name_table.h. An entry is complete before its pointer is stored with release; a slot array is complete before the
 * table points to it. Readers load both with acquire, so they see whole entries or none. */
#include "name_table.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../base/hash.h"

#define SLOTS_FIRST 64u

typedef struct slot_array {
    uint32_t mask;               /* slots - 1; fixed */
    struct slot_array *previous; /* retired arrays; freed at destroy; guarded by the mutex */
    _Atomic(rp_name_entry *) slots[];
} slot_array;

struct rp_name_table {
    _Atomic(slot_array *) array; /* acquire/release: see the head */
    size_t entry_size;           /* fixed, as the next */
    uint64_t seed;
    void (*init)(void *context, rp_name_entry *entry);
    void *context;
    uint32_t count; /* guarded by the mutex */
    pthread_mutex_t mutex;
};

static slot_array *make_array(uint32_t slots) {
    slot_array *array = calloc(1, sizeof *array + slots * sizeof array->slots[0]);
    if (array != NULL)
        array->mask = slots - 1;
    return array;
}

rp_name_table *rp_name_table_create(size_t entry_size, void (*init)(void *context, rp_name_entry *entry), void *context) {
    rp_name_table *table = calloc(1, sizeof *table);
    slot_array *array = make_array(SLOTS_FIRST);
    if (table == NULL || array == NULL) {
        free(table);
        free(array);
        return NULL;
    }
    table->entry_size = entry_size;
    table->seed = (uint64_t)(uintptr_t)array; /* unknown to strangers, who could otherwise construct names that collide */
    table->init = init;
    table->context = context;
    pthread_mutex_init(&table->mutex, NULL);
    atomic_init(&table->array, array);
    return table;
}

void rp_name_table_destroy(rp_name_table *table, void (*fini)(rp_name_entry *entry)) {
    if (table == NULL)
        return;
    slot_array *array = atomic_load_explicit(&table->array, memory_order_relaxed);
    for (uint32_t i = 0; i <= array->mask; i++) {
        rp_name_entry *entry = atomic_load_explicit(&array->slots[i], memory_order_relaxed);
        if (entry == NULL)
            continue;
        if (fini != NULL)
            fini(entry);
        free(entry);
    }
    while (array != NULL) {
        slot_array *previous = array->previous;
        free(array);
        array = previous;
    }
    pthread_mutex_destroy(&table->mutex);
    free(table);
}

static rp_name_entry *probe(slot_array *array, uint64_t hash, rp_slice name, uint32_t *free_slot) {
    for (uint32_t i = (uint32_t)hash & array->mask;; i = (i + 1) & array->mask) {
        rp_name_entry *entry = atomic_load_explicit(&array->slots[i], memory_order_acquire);
        if (entry == NULL) {
            *free_slot = i;
            return NULL;
        }
        if (entry->hash == hash && entry->name.size == name.size && memcmp(entry->name.data, name.data, name.size) == 0)
            return entry;
    }
}

rp_name_entry *rp_name_table_find(const rp_name_table *table, rp_slice name) {
    uint32_t unused;
    slot_array *array = atomic_load_explicit(&table->array, memory_order_acquire);
    return probe(array, rp_hash_bytes(name.data, name.size, table->seed), name, &unused);
}

/* Doubles the slots; mutex held. */
static slot_array *grow(rp_name_table *table, slot_array *old) {
    slot_array *array = make_array((old->mask + 1) * 2);
    if (array == NULL)
        return NULL;
    for (uint32_t i = 0; i <= old->mask; i++) {
        rp_name_entry *entry = atomic_load_explicit(&old->slots[i], memory_order_relaxed);
        if (entry == NULL)
            continue;
        uint32_t at = (uint32_t)entry->hash & array->mask;
        while (atomic_load_explicit(&array->slots[at], memory_order_relaxed) != NULL)
            at = (at + 1) & array->mask;
        atomic_init(&array->slots[at], entry);
    }
    array->previous = old;
    atomic_store_explicit(&table->array, array, memory_order_release);
    return array;
}

static rp_name_entry *make_entry(rp_name_table *table, uint64_t hash, rp_slice name) {
    rp_name_entry *entry = calloc(1, table->entry_size + name.size);
    if (entry == NULL)
        return NULL;
    uint8_t *copy = (uint8_t *)entry + table->entry_size;
    if (name.size > 0)
        memcpy(copy, name.data, name.size);
    entry->hash = hash;
    entry->name = (rp_slice){copy, name.size};
    if (table->init != NULL)
        table->init(table->context, entry);
    return entry;
}

rp_name_entry *rp_name_table_put(rp_name_table *table, rp_slice name) {
    rp_name_entry *entry = rp_name_table_find(table, name);
    if (entry != NULL)
        return entry;
    uint64_t hash = rp_hash_bytes(name.data, name.size, table->seed);
    uint32_t slot;
    pthread_mutex_lock(&table->mutex);
    slot_array *array = atomic_load_explicit(&table->array, memory_order_relaxed);
    entry = probe(array, hash, name, &slot);
    if (entry == NULL && table->count < RP_NAME_ENTRIES_MAX) {
        if (table->count * 2 > array->mask && (array = grow(table, array)) != NULL)
            probe(array, hash, name, &slot);
        if (array != NULL && (entry = make_entry(table, hash, name)) != NULL) {
            table->count++;
            atomic_store_explicit(&array->slots[slot], entry, memory_order_release);
        }
    }
    pthread_mutex_unlock(&table->mutex);
    return entry;
}

void rp_name_table_each(const rp_name_table *table, int (*visit)(void *context, rp_name_entry *entry), void *context) {
    slot_array *array = atomic_load_explicit(&table->array, memory_order_acquire);
    for (uint32_t i = 0; i <= array->mask; i++) {
        rp_name_entry *entry = atomic_load_explicit(&array->slots[i], memory_order_acquire);
        if (entry != NULL && visit(context, entry) != 0)
            return;
    }
}
