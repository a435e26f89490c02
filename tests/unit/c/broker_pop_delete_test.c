/* broker_pop_delete_test.c: pops of a topic while it is deleted: nothing of them is left for a new topic of the same name. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "../../../csrc/broker/pop_choice.h"
#include "pop_revive_fixture.h"

enum { ROUNDS = 300 };

typedef struct popper {
    fixture *fx;
    rp_topic *topic;
    rp_group *group;
    _Atomic uint64_t pops;
    _Atomic bool is_over;
} popper;

/* Does what a reactor does once it has found topic and group. The fixture's own reactor is idle. */
static void *pop_on(void *context) {
    popper *all = context;
    rp_lane *lane = all->fx->broker->lanes[0];
    while (!atomic_load(&all->is_over)) {
        rp_pop pop = {.topic = all->topic, .group = all->group, .invisible_ms = 60000, .max_messages = 1, .from_min = 1};
        rp_pop_catch caught;
        rp_pop_catch_begin(lane, &pop, &caught);
        rp_pop_choose(lane, &pop, all->topic, 0, &caught);
        rp_pop_catch_release(&caught);
        atomic_fetch_add(&all->pops, 1);
    }
    return NULL;
}

static int two_more(void *context) {
    const uint64_t *wanted = ((void **)context)[1];
    return atomic_load(&((popper *)((void **)context)[0])->pops) >= *wanted;
}

static void wait_for_two(popper *all) {
    uint64_t wanted = atomic_load(&all->pops) + 2;
    wait_until(two_more, (void *[]){all, &wanted});
}

static void an_offset_of_a_deleted_topic_stays_deleted(void) {
    fixture fx;
    client c;
    pthread_t thread;
    open_revive(&fx, &c);
    popper all = {
        .fx = &fx, .topic = rp_topic_table_find(fx.broker->topics, text("T")), .group = rp_group_table_find(fx.broker->groups, text("G"))};
    CHECK(pthread_create(&thread, NULL, pop_on, &all) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        rp_append_item item = {.body = text("body"), .properties = {text("")}};
        CHECK(rp_topic_open_queue_to_send(fx.broker->topics, all.topic, 0, &item.queue) != NULL);
        CHECK(rp_commit_log_append(fx.broker->commit_log, &item, 1) == 1);
        wait_for_two(&all);
        CHECK(rp_broker_read_offset(fx.broker, text("G"), text("T"), 0) >= 0);
        rp_broker_delete_topic(fx.broker, text("T"));
        rp_broker_delete_offsets(fx.broker, text("G"), text("T"));
        wait_for_two(&all);
        CHECK(rp_broker_read_offset(fx.broker, text("G"), text("T"), 0) == -1);
        CHECK(rp_broker_put_topic(fx.broker, text("T"), 4, 4, 6, 0, NATIVE) == RP_OK);
    }
    atomic_store(&all.is_over, true);
    CHECK(pthread_join(thread, NULL) == 0);
    close_revive(&fx, &c);
}

int main(void) {
    an_offset_of_a_deleted_topic_stays_deleted();
    return 0;
}
