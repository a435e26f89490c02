/* route_table.c: see route_table.h. A hash table with chains; a route is one block with its texts behind it. */
#include "route_table.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../base/error.h"
#include "../base/hash.h"
#include "../base/slice_inl.h"

#define BUCKETS 1024u
#define HASH_SEED UINT64_C(0x9E3779B97F4A7C15)

typedef struct known_route {
    struct known_route *next;
    rp_slice key;
    rp_route route; /* its arrays and their texts are stored behind it */
    bool is_asked;  /* a call was left to Python, which then asks for the route again */
} known_route;

struct rp_route_table {
    pthread_mutex_t lock; /* a leaf */
    uint32_t topics_max;  /* fixed */
    uint32_t count;       /* guarded by lock, like all below */
    uint64_t turns;
    known_route *buckets[BUCKETS];
};

rp_route_table *rp_route_table_create(uint32_t topics_max) {
    rp_route_table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return NULL;
    pthread_mutex_init(&table->lock, NULL);
    table->topics_max = topics_max;
    return table;
}

void rp_route_table_destroy(rp_route_table *table) {
    if (table == NULL)
        return;
    for (uint32_t i = 0; i < BUCKETS; i++) {
        while (table->buckets[i] != NULL) {
            known_route *gone = table->buckets[i];
            table->buckets[i] = gone->next;
            free(gone);
        }
    }
    pthread_mutex_destroy(&table->lock);
    free(table);
}

/* Returns the link to the key's route, or where it would be linked. */
static known_route **find(rp_route_table *table, rp_slice key) {
    known_route **link = &table->buckets[rp_hash_bytes(key.data, key.size, HASH_SEED) % BUCKETS];
    while (*link != NULL && !rp_slice_equals((*link)->key, key))
        link = &(*link)->next;
    return link;
}

static void drop(rp_route_table *table, known_route **link) {
    known_route *gone = *link;
    *link = gone->next;
    table->count--;
    free(gone);
}

static void drop_ended(rp_route_table *table, int64_t now_ns) {
    for (uint32_t i = 0; i < BUCKETS; i++) {
        for (known_route **link = &table->buckets[i]; *link != NULL;) {
            if ((*link)->route.ends_ns <= now_ns)
                drop(table, link);
            else
                link = &(*link)->next;
        }
    }
}

static bool is_name(rp_slice name) { return name.size > 0 && name.size <= RP_ROUTE_NAME_MAX; }

static bool is_valid(rp_slice key, const rp_route *route) {
    if (key.size == 0 || key.size > RP_ROUTE_KEY_MAX || route->queue_count == 0 || route->queue_count > RP_ROUTE_QUEUES_MAX ||
        route->broker_count > RP_ROUTE_BROKERS_MAX)
        return false;
    for (uint32_t i = 0; i < route->broker_count; i++) {
        if (!is_name(route->brokers[i].name))
            return false;
    }
    for (uint32_t i = 0; i < route->queue_count; i++) {
        if (route->queues[i].broker >= route->broker_count)
            return false;
    }
    return true;
}

static known_route *copy_route(rp_slice key, const rp_route *route) {
    size_t brokers = route->broker_count * sizeof *route->brokers, queues = route->queue_count * sizeof *route->queues, texts = key.size;
    for (uint32_t i = 0; i < route->broker_count; i++)
        texts += route->brokers[i].name.size;
    known_route *made = malloc(sizeof *made + brokers + queues + texts);
    if (made == NULL)
        return NULL;
    rp_route_broker *broker = (rp_route_broker *)(void *)(made + 1);
    rp_route_queue *queue = (rp_route_queue *)(void *)(broker + route->broker_count);
    uint8_t *at = (uint8_t *)(queue + route->queue_count);
    *made = (known_route){.route = *route};
    made->route.brokers = broker;
    made->route.queues = queue;
    made->key = rp_slice_copy(&at, key);
    memcpy(queue, route->queues, queues);
    for (uint32_t i = 0; i < route->broker_count; i++)
        broker[i] = (rp_route_broker){rp_slice_copy(&at, route->brokers[i].name), route->brokers[i].address};
    return made;
}

int rp_route_table_put(rp_route_table *table, rp_slice key, const rp_route *route, int64_t now_ns) {
    if (!is_valid(key, route))
        return RP_E_INVALID;
    known_route *made = copy_route(key, route);
    if (made == NULL)
        return RP_E_NO_MEMORY;
    pthread_mutex_lock(&table->lock);
    known_route **link = find(table, key);
    if (*link == NULL && table->count >= table->topics_max) {
        drop_ended(table, now_ns);
        link = find(table, key);
    }
    bool has_room = *link != NULL || table->count < table->topics_max;
    if (*link != NULL)
        drop(table, link);
    if (has_room) {
        made->next = *link;
        *link = made;
        table->count++;
    }
    pthread_mutex_unlock(&table->lock);
    if (!has_room)
        free(made);
    return has_room ? RP_OK : RP_E_BUSY;
}

void rp_route_table_forget(rp_route_table *table, rp_slice key) {
    pthread_mutex_lock(&table->lock);
    known_route **link = find(table, key);
    if (*link != NULL)
        drop(table, link);
    pthread_mutex_unlock(&table->lock);
}

rp_slice rp_reading_key(rp_slice topic, rp_slice group, uint8_t room[RP_ROUTE_KEY_MAX]) {
    if ((uint64_t)topic.size + 1 + group.size > RP_ROUTE_KEY_MAX)
        return (rp_slice){room, 0};
    uint8_t *at = room;
    rp_slice_copy(&at, topic);
    *at++ = '@';
    rp_slice_copy(&at, group);
    return (rp_slice){room, (uint32_t)(at - room)};
}

uint32_t rp_consistent_bucket(int32_t key, uint32_t buckets) {
    uint64_t state = (uint64_t)(int64_t)key;
    uint32_t candidate = 0;
    for (;;) {
        state = UINT64_C(2862933555777941757) * state + 1;
        uint32_t divisor = (uint32_t)(state >> 33) + 1u;
        if (divisor == UINT32_C(1) << 31) /* Java's int is negative here */
            return candidate;
        double following = (candidate + 1) / (divisor / 0x1p31);
        if (!(following < buckets))
            return candidate;
        candidate = (uint32_t)following;
    }
}

/* Whether a message may use the route. After the route's first age the first message may not. */
static bool is_fresh(known_route *known, int64_t now_ns) {
    if (now_ns < known->route.ask_again_ns)
        return true;
    if (now_ns >= known->route.ends_ns || !known->is_asked) {
        known->is_asked = true;
        return false;
    }
    return true;
}

static void fill_choice(rp_route_choice *choice, const rp_route *route, uint32_t place) {
    const rp_route_broker *broker = &route->brokers[route->queues[place].broker];
    choice->address = broker->address;
    choice->queue_id = route->queues[place].queue_id;
    choice->is_orderly = route->is_orderly;
    choice->retries = route->retries;
    choice->broker_name_size = broker->name.size;
    memcpy(choice->broker_name, broker->name.data, broker->name.size);
}

int rp_route_table_choose(rp_route_table *table, rp_slice topic, uint32_t type, rp_slice group, int64_t now_ns, rp_route_choice *choice) {
    pthread_mutex_lock(&table->lock);
    known_route *known = *find(table, topic);
    bool is_there = known != NULL && (known->route.types & type) != 0 && is_fresh(known, now_ns);
    if (is_there) {
        const rp_route *route = &known->route;
        uint32_t place = group.size > 0 ? rp_consistent_bucket(rp_hash_java(group.data, group.size), route->queue_count)
                                        : (uint32_t)(table->turns++ % route->queue_count);
        fill_choice(choice, route, place);
    }
    pthread_mutex_unlock(&table->lock);
    return is_there;
}

int rp_route_table_choose_broker(rp_route_table *table, rp_slice key, rp_slice wanted, uint64_t turn, int64_t now_ns,
                                 rp_route_choice *choice) {
    pthread_mutex_lock(&table->lock);
    known_route *known = *find(table, key);
    bool is_there = known != NULL && is_fresh(known, now_ns);
    if (is_there) {
        const rp_route *route = &known->route;
        uint32_t place = 0;
        while (place < route->queue_count && !rp_slice_equals(route->brokers[route->queues[place].broker].name, wanted))
            place++;
        fill_choice(choice, route, place < route->queue_count ? place : (uint32_t)(turn % route->queue_count));
    }
    pthread_mutex_unlock(&table->lock);
    return is_there;
}
