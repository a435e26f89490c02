/* held_handles.c: see held_handles.h. A hash table with chains. */
#include "held_handles.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../base/error.h"
#include "../base/hash.h"
#include "../base/slice_inl.h"

#define BUCKETS 65536u
#define CLOCK_LEAP_MS 60000 /* a message held this much later than now: the clock was turned back */
#define HASH_SEED UINT64_C(0x9E3779B97F4A7C15)

struct rp_held_handle {
    rp_held_handle *next;
    uint64_t hash;
    rp_held_key key; /* its texts are stored behind it */
    uint8_t *today;  /* NULL: still the first handle */
    uint32_t today_size;
    int state; /* RP_HELD or RP_HELD_RENEWED */
    /* For one that was received natively; the texts lie behind those of the key: */
    rp_slice topic, message_id;
    int64_t since_ms;
    int32_t attempts;
    bool is_untold; /* Python has not heard of it: it is in the untold list */
    rp_held_handle *older, *newer;
};

struct rp_held_handles {
    pthread_mutex_t lock; /* a leaf */
    uint32_t count;       /* guarded by lock, like all below */
    rp_held_handle *oldest, *newest; /* the untold list: messages that Python has not heard of */
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

/* Returns the link to the message, or where it would be linked. Called with the lock held. */
static rp_held_handle **find(rp_held_handles *handles, const rp_held_key *key, uint64_t hash) {
    rp_held_handle **link = &handles->buckets[hash % BUCKETS];
    while (*link != NULL && ((*link)->hash != hash || !is_same(&(*link)->key, key)))
        link = &(*link)->next;
    return link;
}

static rp_held_handle *copy_message(const rp_held_message *message, uint64_t hash) {
    const rp_held_key *key = &message->key;
    rp_held_handle *made =
        malloc(sizeof *made + key->client_id.size + key->group.size + key->first.size + message->topic.size + message->message_id.size);
    if (made == NULL)
        return NULL;
    uint8_t *at = (uint8_t *)(made + 1);
    *made = (rp_held_handle){.hash = hash, .state = RP_HELD, .since_ms = message->since_ms, .attempts = message->attempts};
    made->key.client_id = rp_slice_copy(&at, key->client_id);
    made->key.group = rp_slice_copy(&at, key->group);
    made->key.first = rp_slice_copy(&at, key->first);
    made->topic = rp_slice_copy(&at, message->topic);
    made->message_id = rp_slice_copy(&at, message->message_id);
    return made;
}

/* ---- the untold list; called with the lock held ---- */

static void list_untold(rp_held_handles *handles, rp_held_handle *held) {
    held->older = handles->newest;
    held->newer = NULL;
    *(handles->newest != NULL ? &handles->newest->newer : &handles->oldest) = held;
    handles->newest = held;
}

static void unlist_untold(rp_held_handles *handles, rp_held_handle *held) {
    *(held->older != NULL ? &held->older->newer : &handles->oldest) = held->newer;
    *(held->newer != NULL ? &held->newer->older : &handles->newest) = held->older;
}

/* Called with the lock held. */

/* Called with the lock held. */
static void link_at(rp_held_handles *handles, rp_held_handle **link, rp_held_handle *held) {
    *link = held;
    handles->count++;
    if (held->is_untold)
        list_untold(handles, held);
}

/* Called with the lock held. */
static rp_held_handle *unlink_at(rp_held_handles *handles, rp_held_handle **link) {
    rp_held_handle *gone = *link;
    *link = gone->next;
    gone->next = NULL;
    handles->count--;
    if (gone->is_untold)
        unlist_untold(handles, gone);
    return gone;
}

static int hold(rp_held_handles *handles, const rp_held_message *message, bool is_untold) {
    uint64_t hash = hash_of(&message->key);
    rp_held_handle *made = copy_message(message, hash);
    if (made == NULL)
        return RP_E_NO_MEMORY;
    made->is_untold = is_untold;
    pthread_mutex_lock(&handles->lock);
    rp_held_handle **link = find(handles, &message->key, hash);
    int status = *link == NULL && handles->count >= RP_HELD_HANDLES_MAX ? RP_E_BUSY : RP_OK;
    if (*link == NULL && status == RP_OK) {
        link_at(handles, link, made);
        made = NULL;
    }
    pthread_mutex_unlock(&handles->lock);
    rp_held_handle_free(made);
    return status;
}

int rp_held_handles_hold(rp_held_handles *handles, const rp_held_key *key) {
    const rp_held_message message = {.key = *key};
    return hold(handles, &message, false);
}

int rp_held_handles_hold_received(rp_held_handles *handles, const rp_held_message *message) { return hold(handles, message, true); }

static rp_held_message *copy_of(const rp_held_handle *held) {
    const rp_held_key *key = &held->key;
    rp_held_message *copy =
        malloc(sizeof *copy + key->client_id.size + key->group.size + key->first.size + held->topic.size + held->message_id.size);
    if (copy == NULL)
        return NULL;
    uint8_t *at = (uint8_t *)(copy + 1);
    copy->key.client_id = rp_slice_copy(&at, key->client_id);
    copy->key.group = rp_slice_copy(&at, key->group);
    copy->key.first = rp_slice_copy(&at, key->first);
    copy->topic = rp_slice_copy(&at, held->topic);
    copy->message_id = rp_slice_copy(&at, held->message_id);
    copy->since_ms = held->since_ms;
    copy->attempts = held->attempts;
    return copy;
}

rp_held_message *rp_held_handles_tell(rp_held_handles *handles, int64_t before_ms) {
    rp_held_message *copy = NULL;
    pthread_mutex_lock(&handles->lock);
    rp_held_handle *held = handles->oldest;
    bool is_due = held != NULL && (held->since_ms < before_ms || held->since_ms - before_ms > CLOCK_LEAP_MS);
    if (is_due && (copy = copy_of(held)) != NULL) {
        unlist_untold(handles, held);
        held->is_untold = false;
    }
    pthread_mutex_unlock(&handles->lock);
    return copy;
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
        link_at(handles, link, taken);
        taken = NULL;
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

rp_slice rp_held_handle_today(const rp_held_handle *taken) {
    return taken->today != NULL ? (rp_slice){taken->today, taken->today_size} : taken->key.first;
}

void rp_held_handle_free(rp_held_handle *taken) {
    if (taken != NULL)
        free(taken->today);
    free(taken);
}
