/* broker_addresses.c: see broker_addresses.h. A hash table with chains; names stay when their address is forgotten. */
#include "broker_addresses.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../base/hash.h"
#include "../base/slice_inl.h"
#include "route_table.h"

#define BUCKETS 256u
#define HASH_SEED UINT64_C(0x9E3779B97F4A7C15)

typedef struct known_broker {
    struct known_broker *next;
    rp_slice name;      /* stored behind it */
    rp_address address; /* size 0: not known */
} known_broker;

struct rp_broker_addresses {
    pthread_mutex_t lock; /* a leaf */
    uint32_t count;       /* guarded by lock, like the buckets */
    known_broker *buckets[BUCKETS];
};

rp_broker_addresses *rp_broker_addresses_create(void) {
    rp_broker_addresses *addresses = calloc(1, sizeof *addresses);
    if (addresses != NULL)
        pthread_mutex_init(&addresses->lock, NULL);
    return addresses;
}

void rp_broker_addresses_destroy(rp_broker_addresses *addresses) {
    if (addresses == NULL)
        return;
    for (uint32_t i = 0; i < BUCKETS; i++) {
        while (addresses->buckets[i] != NULL) {
            known_broker *gone = addresses->buckets[i];
            addresses->buckets[i] = gone->next;
            free(gone);
        }
    }
    pthread_mutex_destroy(&addresses->lock);
    free(addresses);
}

/* Returns the link to the broker, or where it would be linked. Called with the lock held. */
static known_broker **find(rp_broker_addresses *addresses, rp_slice name) {
    known_broker **link = &addresses->buckets[rp_hash_bytes(name.data, name.size, HASH_SEED) % BUCKETS];
    while (*link != NULL && !rp_slice_equals((*link)->name, name))
        link = &(*link)->next;
    return link;
}

static known_broker *make(rp_slice name) {
    known_broker *made = calloc(1, sizeof *made + name.size);
    if (made != NULL) {
        made->name = (rp_slice){(uint8_t *)(made + 1), name.size};
        memcpy(made + 1, name.data, name.size);
    }
    return made;
}

/* Called with the lock held. */
static int put(rp_broker_addresses *addresses, rp_slice name, const rp_address *address) {
    known_broker **link = find(addresses, name);
    if (*link == NULL) {
        if (addresses->count >= RP_BROKER_ADDRESSES_MAX)
            return RP_E_BUSY;
        if ((*link = make(name)) == NULL)
            return RP_E_NO_MEMORY;
        addresses->count++;
    }
    (*link)->address = *address;
    return RP_OK;
}

int rp_broker_addresses_put(rp_broker_addresses *addresses, rp_slice name, const rp_address *address) {
    if (name.size == 0 || name.size > RP_ROUTE_NAME_MAX)
        return RP_E_INVALID;
    pthread_mutex_lock(&addresses->lock);
    int status = put(addresses, name, address);
    pthread_mutex_unlock(&addresses->lock);
    return status;
}

void rp_broker_addresses_forget(rp_broker_addresses *addresses, rp_slice name) {
    pthread_mutex_lock(&addresses->lock);
    known_broker *known = *find(addresses, name);
    if (known != NULL)
        known->address.size = 0;
    pthread_mutex_unlock(&addresses->lock);
}

int rp_broker_addresses_find(rp_broker_addresses *addresses, rp_slice name, rp_address *address) {
    pthread_mutex_lock(&addresses->lock);
    const known_broker *known = *find(addresses, name);
    int is_known = known != NULL && known->address.size > 0;
    if (is_known)
        *address = known->address;
    pthread_mutex_unlock(&addresses->lock);
    return is_known;
}
