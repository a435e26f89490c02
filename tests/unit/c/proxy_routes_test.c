/* proxy_routes_test.c: routes that change while reactors look them up: a choice comes from one route, never from a mixture. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "../../../csrc/proxy/route_table.h"
#include "check.h"

#define TOPICS 8
#define ROUNDS 20000
#define READERS 2

typedef struct table_under_test {
    rp_route_table *table;
    _Atomic int is_done;
    _Atomic uint64_t chosen;
} table_under_test;

static rp_slice topic_of(uint32_t number) {
    static const char names[] = "abcdefgh";
    return (rp_slice){(const uint8_t *)&names[number % TOPICS], 1};
}

/* Brokers' names, ports and queues of a route say its version, which all of them share. */
static int put(rp_route_table *table, rp_slice topic, uint8_t version) {
    const rp_route_broker broker = {{&version, 1}, {{127, 0, 0, version}, 4, version}};
    const rp_route_queue queues[2] = {{0, version}, {0, version}};
    const rp_route route = {1, &broker, 1, queues, 2, INT64_MAX, INT64_MAX, 0, 0};
    return rp_route_table_put(table, topic, &route, 0);
}

static void *read_routes(void *context) {
    table_under_test *shared = context;
    rp_route_choice choice;
    for (uint32_t number = 0; !atomic_load(&shared->is_done); number++) {
        if (!rp_route_table_choose(shared->table, topic_of(number), 1, (rp_slice){NULL, 0}, 0, &choice))
            continue;
        uint8_t version = choice.broker_name[0];
        CHECK(choice.broker_name_size == 1 && choice.address.port == version && choice.queue_id == version);
        atomic_fetch_add(&shared->chosen, 1);
    }
    return NULL;
}

int main(void) {
    table_under_test shared = {.table = rp_route_table_create(TOPICS)};
    pthread_t readers[READERS];
    for (int i = 0; i < READERS; i++)
        CHECK(pthread_create(&readers[i], NULL, read_routes, &shared) == 0);
    for (uint32_t round = 0; round < ROUNDS || atomic_load(&shared.chosen) < 100; round++) {
        CHECK(put(shared.table, topic_of(round), (uint8_t)(round % 250 + 1)) == RP_OK);
        if (round % 5 == 0)
            rp_route_table_forget(shared.table, topic_of(round / 3));
    }
    atomic_store(&shared.is_done, 1);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    rp_route_table_destroy(shared.table);
    return 0;
}
