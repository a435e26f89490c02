/* held_handles.c: see held_handles.h. A hash table with chains. */
#include "held_handles.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../base/error.h"
#include "../base/hash.h"
#include "../base/slice_inl.h"

#define BUCKETS 65536u
#define HASH_SEED UINT64_C(0x9E3779B97F4A7C15)

struct rp_held_handle {
    rp_held_handle *next;
    uint64_t hash;
    rp_held_key key; /* its texts lie behind it */
    uint8_t *today;  /* NULL: the first one still */
    uint32_t today_size;
    int state; /* RP_HELD or RP_HELD_RENEWED */
};

struct rp_held_handles {
    pthread_mutex_t lock; /* a leaf */
    uint32_t count;       /* lock, as the buckets */
    rp_held_handle *buckets[BUCKETS];
};

rp_held_handles *rp_held_handles_create(void) {
    rp_held_handles *handles = calloc(1, sizeof *handles);
    if (handles != NULL)
        pthread_mutex_init(&handles->lock, NULL);
    return handles;
}

void rp_held_handles_destroy(rp_held_handles *handles) {
    if (handles == NULL)
        return;
    for (uint32_t i = 0; i < BUCKETS; i++) {
        while (handles->buckets[i] != NULL) {
            rp_held_handle *gone = handles->buckets[i];
            handles->buckets[i] = gone->next;
            rp_held_handle_free(gone);
        }
    }
    pthread_mutex_destroy(&handles->lock);
    free(handles);
}

static uint64_t hash_of(const rp_held_key *key) {
    uint64_t hash = rp_hash_bytes(key->first.data, key->first.size, HASH_SEED);
    hash = rp_hash_bytes(key->client_id.data, key->client_id.size, hash);
    return rp_hash_bytes(key->group.data, key->group.size, hash);
}

static int is_same(const rp_held_key *left, const rp_held_key *right) {
    return rp_slice_equals(left->first, right->first) && rp_slice_equals(left->client_id, right->client_id) &&
           rp_slice_equals(left->group, right->group);
}

/* Where it is linked, or would be; locked. */
static rp_held_handle **find(rp_held_handles *handles, const rp_held_key *key, uint64_t hash) {
    rp_held_handle **link = &handles->buckets[hash % BUCKETS];
    while (*link != NULL && ((*link)->hash != hash || !is_same(&(*link)->key, key)))
        link = &(*link)->next;
    return link;
}

static rp_slice put_text(uint8_t **at, rp_slice text) {
    rp_slice copy = {*at, text.size};
    if (text.size > 0)
        memcpy(*at, text.data, text.size);
    *at += text.size;
    return copy;
}

static rp_held_handle *copy_key(const rp_held_key *key, uint64_t hash) {
    rp_held_handle *made = malloc(sizeof *made + key->client_id.size + key->group.size + key->first.size);
    if (made == NULL)
        return NULL;
    uint8_t *at = (uint8_t *)(made + 1);
    *made = (rp_held_handle){.hash = hash, .state = RP_HELD};
    made->key.client_id = put_text(&at, key->client_id);
    made->key.group = put_text(&at, key->group);
    made->key.first = put_text(&at, key->first);
    return made;
}

int rp_held_handles_hold(rp_held_handles *handles, const rp_held_key *key) {
    uint64_t hash = hash_of(key);
    rp_held_handle *made = copy_key(key, hash);
    if (made == NULL)
        return RP_E_NO_MEMORY;
    pthread_mutex_lock(&handles->lock);
    rp_held_handle **link = find(handles, key, hash);
    int status = *link == NULL && handles->count >= RP_HELD_HANDLES_MAX ? RP_E_BUSY : RP_OK;
    if (*link == NULL && status == RP_OK) {
        *link = made;
        made = NULL;
        handles->count++;
    }
    pthread_mutex_unlock(&handles->lock);
    rp_held_handle_free(made);
    return status;
}

int rp_held_handles_state(rp_held_handles *handles, const rp_held_key *key) {
    uint64_t hash = hash_of(key);
    pthread_mutex_lock(&handles->lock);
    const rp_held_handle *held = *find(handles, key, hash);
    int state = held != NULL ? held->state : RP_HELD_NOT;
    pthread_mutex_unlock(&handles->lock);
    return state;
}

int rp_held_handles_begin_renewal(rp_held_handles *handles, const rp_held_key *key) {
    uint64_t hash = hash_of(key);
    pthread_mutex_lock(&handles->lock);
    rp_held_handle *held = *find(handles, key, hash);
    int begins = held != NULL && held->state == RP_HELD;
    if (begins)
        held->state = RP_HELD_RENEWED;
    pthread_mutex_unlock(&handles->lock);
    return begins;
}

int rp_held_handles_end_renewal(rp_held_handles *handles, const rp_held_key *key, rp_slice today) {
    uint64_t hash = hash_of(key);
    uint8_t *text = today.size > 0 ? malloc(today.size) : NULL;
    int status = today.size > 0 && text == NULL ? RP_E_NO_MEMORY : RP_OK;
    if (text != NULL)
        memcpy(text, today.data, today.size);
    pthread_mutex_lock(&handles->lock);
    rp_held_handle *held = *find(handles, key, hash);
    if (held == NULL) {
        status = RP_E_NOT_FOUND;
    } else {
        held->state = RP_HELD;
        if (text != NULL) {
            uint8_t *before = held->today;
            held->today = text;
            held->today_size = today.size;
            text = before;
        }
    }
    pthread_mutex_unlock(&handles->lock);
    free(text);
    return status;
}

/* Out of the table; locked. */
static rp_held_handle *unlink_at(rp_held_handles *handles, rp_held_handle **link) {
    rp_held_handle *gone = *link;
    *link = gone->next;
    gone->next = NULL;
    handles->count--;
    return gone;
}

int rp_held_handles_take(rp_held_handles *handles, const rp_held_key *key, rp_held_handle **taken) {
    uint64_t hash = hash_of(key);
    pthread_mutex_lock(&handles->lock);
    rp_held_handle **link = find(handles, key, hash);
    int state = *link != NULL ? (*link)->state : RP_HELD_NOT;
    if (state == RP_HELD)
        *taken = unlink_at(handles, link);
    pthread_mutex_unlock(&handles->lock);
    return state;
}

void rp_held_handles_give_back(rp_held_handles *handles, rp_held_handle *taken) {
    pthread_mutex_lock(&handles->lock);
    rp_held_handle **link = find(handles, &taken->key, taken->hash);
    if (*link == NULL) {
        *link = taken;
        taken = NULL;
        handles->count++;
    }
    pthread_mutex_unlock(&handles->lock);
    rp_held_handle_free(taken);
}

int rp_held_handles_forget(rp_held_handles *handles, const rp_held_key *key) {
    uint64_t hash = hash_of(key);
    pthread_mutex_lock(&handles->lock);
    rp_held_handle **link = find(handles, key, hash);
    rp_held_handle *gone = *link != NULL ? unlink_at(handles, link) : NULL;
    pthread_mutex_unlock(&handles->lock);
    int was_there = gone != NULL;
    rp_held_handle_free(gone);
    return was_there;
}

uint32_t rp_held_handles_count(rp_held_handles *handles) {
    pthread_mutex_lock(&handles->lock);
    uint32_t count = handles->count;
    pthread_mutex_unlock(&handles->lock);
    return count;
}

rp_slice rp_held_handle_today(const rp_held_handle *taken) {
    return taken->today != NULL ? (rp_slice){taken->today, taken->today_size} : taken->key.first;
}

void rp_held_handle_free(rp_held_handle *taken) {
    if (taken != NULL)
        free(taken->today);
    free(taken);
}
