/* known_clients.c: see known_clients.h. A hash table with chains. */
#include "known_clients.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../base/hash.h"
#include "../base/slice_inl.h"

#define BUCKETS 16384u
#define HASH_SEED UINT64_C(0x9E3779B97F4A7C15)

typedef struct known_client {
    struct known_client *next;
    rp_slice id; /* stored behind it */
    int64_t reserve_ms;
} known_client;

struct rp_known_clients {
    pthread_mutex_t lock; /* a leaf */
    uint32_t count;       /* guarded by lock, like the buckets */
    known_client *buckets[BUCKETS];
};

rp_known_clients *rp_known_clients_create(void) {
    rp_known_clients *clients = calloc(1, sizeof *clients);
    if (clients != NULL)
        pthread_mutex_init(&clients->lock, NULL);
    return clients;
}

/* Called with the lock held, or with no other user left. */
static void drop(rp_known_clients *clients, known_client **link) {
    known_client *gone = *link;
    *link = gone->next;
    clients->count--;
    free(gone);
}

void rp_known_clients_destroy(rp_known_clients *clients) {
    if (clients == NULL)
        return;
    for (uint32_t i = 0; i < BUCKETS; i++) {
        while (clients->buckets[i] != NULL)
            drop(clients, &clients->buckets[i]);
    }
    pthread_mutex_destroy(&clients->lock);
    free(clients);
}

/* Returns the link to the client, or where it would be linked. Called with the lock held. */
static known_client **find(rp_known_clients *clients, rp_slice id) {
    known_client **link = &clients->buckets[rp_hash_bytes(id.data, id.size, HASH_SEED) % BUCKETS];
    while (*link != NULL && !rp_slice_equals((*link)->id, id))
        link = &(*link)->next;
    return link;
}

/* Called with the lock held. */
static int put(rp_known_clients *clients, rp_slice id, int64_t reserve_ms) {
    known_client **link = find(clients, id);
    if (*link == NULL) {
        if (clients->count >= RP_KNOWN_CLIENTS_MAX)
            return RP_E_BUSY;
        known_client *made = calloc(1, sizeof *made + id.size);
        if (made == NULL)
            return RP_E_NO_MEMORY;
        made->id = (rp_slice){(uint8_t *)(made + 1), id.size};
        memcpy(made + 1, id.data, id.size);
        *link = made;
        clients->count++;
    }
    (*link)->reserve_ms = reserve_ms;
    return RP_OK;
}

int rp_known_clients_put(rp_known_clients *clients, rp_slice id, int64_t reserve_ms) {
    if (id.size == 0 || id.size > RP_CLIENT_ID_MAX)
        return RP_E_INVALID;
    pthread_mutex_lock(&clients->lock);
    int status = put(clients, id, reserve_ms);
    pthread_mutex_unlock(&clients->lock);
    return status;
}

void rp_known_clients_forget(rp_known_clients *clients, rp_slice id) {
    pthread_mutex_lock(&clients->lock);
    known_client **link = find(clients, id);
    if (*link != NULL)
        drop(clients, link);
    pthread_mutex_unlock(&clients->lock);
}

int rp_known_clients_find(rp_known_clients *clients, rp_slice id, int64_t *reserve_ms) {
    pthread_mutex_lock(&clients->lock);
    const known_client *known = *find(clients, id);
    if (known != NULL)
        *reserve_ms = known->reserve_ms;
    pthread_mutex_unlock(&clients->lock);
    return known != NULL;
}
