/* producer_table.c: see producer_table.h. Chained rows; the array doubles when there are as many rows as chains. */
#include "producer_table.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../base/hash.h"
#include "broker.h"

#define CHAINS_FIRST 64u

typedef struct producer_row {
    struct producer_row *next;
    uint64_t hash;
    rp_producer_place place;
    uint32_t size;
    uint8_t client_id[];
} producer_row;

struct rp_producer_table {
    pthread_mutex_t lock;
    uint64_t seed; /* fixed */
    producer_row **chains; /* lock, as all below */
    uint32_t mask;         /* chains - 1 */
    uint32_t count;
};

rp_producer_table *rp_producer_table_create(void) {
    rp_producer_table *table = calloc(1, sizeof *table);
    producer_row **chains = calloc(CHAINS_FIRST, sizeof(producer_row *));
    if (table == NULL || chains == NULL) {
        free(table);
        free(chains);
        return NULL;
    }
    pthread_mutex_init(&table->lock, NULL);
    table->seed = (uint64_t)(uintptr_t)chains; /* as of name_table.c */
    table->chains = chains;
    table->mask = CHAINS_FIRST - 1;
    return table;
}

void rp_producer_table_destroy(rp_producer_table *table) {
    if (table == NULL)
        return;
    for (uint32_t i = 0; i <= table->mask; i++) {
        for (producer_row *row = table->chains[i], *next; row != NULL; row = next) {
            next = row->next;
            free(row);
        }
    }
    pthread_mutex_destroy(&table->lock);
    free(table->chains);
    free(table);
}

/* The link that points to the row, or the end of its chain. */
static producer_row **find_link(const rp_producer_table *table, uint64_t hash, rp_slice client_id) {
    producer_row **link = &table->chains[(uint32_t)hash & table->mask];
    while (*link != NULL &&
           ((*link)->hash != hash || (*link)->size != client_id.size || memcmp((*link)->client_id, client_id.data, client_id.size) != 0))
        link = &(*link)->next;
    return link;
}

/* Without the memory for it chains just get longer. */
static void grow(rp_producer_table *table) {
    uint32_t mask = table->mask * 2 + 1;
    producer_row **chains = calloc((size_t)mask + 1, sizeof(producer_row *));
    if (chains == NULL)
        return;
    for (uint32_t i = 0; i <= table->mask; i++) {
        for (producer_row *row = table->chains[i], *next; row != NULL; row = next) {
            next = row->next;
            row->next = chains[(uint32_t)row->hash & mask];
            chains[(uint32_t)row->hash & mask] = row;
        }
    }
    free(table->chains);
    table->chains = chains;
    table->mask = mask;
}

static int add(rp_producer_table *table, uint64_t hash, rp_slice client_id, rp_producer_place place) {
    if (table->count == RP_PRODUCERS_MAX)
        return RP_E_BUSY;
    producer_row *row = malloc(sizeof *row + client_id.size);
    if (row == NULL)
        return RP_E_NO_MEMORY;
    if (table->count > table->mask)
        grow(table);
    producer_row **chain = &table->chains[(uint32_t)hash & table->mask];
    *row = (producer_row){.next = *chain, .hash = hash, .place = place, .size = client_id.size};
    memcpy(row->client_id, client_id.data, client_id.size);
    *chain = row;
    table->count++;
    return RP_OK;
}

int rp_producer_table_put(rp_producer_table *table, rp_slice client_id, rp_producer_place place) {
    uint64_t hash = rp_hash_bytes(client_id.data, client_id.size, table->seed);
    int status = RP_OK;
    pthread_mutex_lock(&table->lock);
    producer_row *row = *find_link(table, hash, client_id);
    if (row != NULL)
        row->place = place;
    else
        status = add(table, hash, client_id, place);
    pthread_mutex_unlock(&table->lock);
    return status;
}

void rp_producer_table_delete(rp_producer_table *table, rp_slice client_id) {
    uint64_t hash = rp_hash_bytes(client_id.data, client_id.size, table->seed);
    pthread_mutex_lock(&table->lock);
    producer_row **link = find_link(table, hash, client_id), *row = *link;
    if (row != NULL) {
        *link = row->next;
        table->count--;
    }
    pthread_mutex_unlock(&table->lock);
    free(row);
}

int rp_producer_table_find(rp_producer_table *table, rp_slice client_id, rp_producer_place *place) {
    uint64_t hash = rp_hash_bytes(client_id.data, client_id.size, table->seed);
    pthread_mutex_lock(&table->lock);
    const producer_row *row = *find_link(table, hash, client_id);
    if (row != NULL)
        *place = row->place;
    pthread_mutex_unlock(&table->lock);
    return row != NULL;
}
