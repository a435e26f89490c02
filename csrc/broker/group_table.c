/* group_table.c: see group_table.h. The key of a consumption is the two entries' addresses: they never move, so 16 bytes name the
 * pair and no text is compared. */
#include "group_table.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

typedef struct rp_word_array {
    struct rp_word_array *previous; /* outgrown ones; writer only */
    uint32_t capacity;              /* fixed */
    _Atomic int32_t words[];
} rp_word_array;

struct rp_group_table {
    rp_name_table *groups;       /* fixed */
    rp_name_table *consumptions; /* fixed */
};

typedef struct pair_key {
    const rp_group *group;
    const rp_topic *topic;
} pair_key;

static void set_pair(void *context, rp_name_entry *entry) {
    (void)context;
    rp_consumption *consumption = (rp_consumption *)entry;
    pair_key key;
    memcpy(&key, entry->name.data, sizeof key);
    consumption->group = (rp_group *)key.group;
    consumption->topic = (rp_topic *)key.topic;
}

rp_group_table *rp_group_table_create(void) {
    rp_group_table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return NULL;
    table->groups = rp_name_table_create(sizeof(rp_group), NULL, NULL);
    table->consumptions = rp_name_table_create(sizeof(rp_consumption), set_pair, NULL);
    if (table->groups == NULL || table->consumptions == NULL) {
        rp_group_table_destroy(table);
        return NULL;
    }
    return table;
}

static void free_consumption(rp_name_entry *entry) {
    rp_consumption *consumption = (rp_consumption *)entry;
    rp_offset_cells_free(&consumption->offsets);
    rp_word_array *array = atomic_load_explicit(&consumption->subscription.words, memory_order_relaxed);
    while (array != NULL) {
        rp_word_array *previous = array->previous;
        free(array);
        array = previous;
    }
}

void rp_group_table_destroy(rp_group_table *table) {
    if (table == NULL)
        return;
    rp_name_table_destroy(table->consumptions, free_consumption);
    rp_name_table_destroy(table->groups, NULL);
    free(table);
}

rp_group *rp_group_table_find(const rp_group_table *table, rp_slice name) {
    rp_group *group = (rp_group *)rp_name_table_find(table->groups, name);
    return group != NULL && rp_group_is_live(group) ? group : NULL;
}

rp_group *rp_group_table_known(const rp_group_table *table, rp_slice name) { return (rp_group *)rp_name_table_find(table->groups, name); }

rp_group *rp_group_table_entry(rp_group_table *table, rp_slice name) {
    if (name.data == NULL || name.size == 0 || name.size > RP_TOPIC_NAME_MAX)
        return NULL;
    return (rp_group *)rp_name_table_put(table->groups, name);
}

int rp_group_is_live(const rp_group *group) { return atomic_load_explicit(&group->live, memory_order_acquire); }

rp_consumption *rp_group_table_consumption(const rp_group_table *table, const rp_group *group, const rp_topic *topic) {
    pair_key key = {group, topic};
    return (rp_consumption *)rp_name_table_find(table->consumptions, (rp_slice){(const uint8_t *)&key, sizeof key});
}

rp_consumption *rp_group_table_consumption_entry(rp_group_table *table, rp_group *group, rp_topic *topic) {
    pair_key key = {group, topic};
    return (rp_consumption *)rp_name_table_put(table->consumptions, (rp_slice){(const uint8_t *)&key, sizeof key});
}

void rp_group_table_each_consumption(const rp_group_table *table, int (*visit)(void *context, rp_name_entry *entry), void *context) {
    rp_name_table_each(table->consumptions, visit, context);
}

/* The sequence lock. Data is stored with release after the odd number and loaded with acquire before the second look, which is
 * what keeps both in order (a fence would do, but ThreadSanitizer does not know fences). */
static void begin_write(rp_subscription *subscription) { atomic_fetch_add_explicit(&subscription->sequence, 1, memory_order_acq_rel); }
static void end_write(rp_subscription *subscription) { atomic_fetch_add_explicit(&subscription->sequence, 1, memory_order_release); }

static rp_word_array *room_for(rp_subscription *subscription, uint32_t count) {
    rp_word_array *array = atomic_load_explicit(&subscription->words, memory_order_relaxed);
    if (array != NULL && array->capacity >= count)
        return array;
    uint32_t capacity = array != NULL ? array->capacity * 2 : 4;
    while (capacity < count)
        capacity *= 2;
    rp_word_array *larger = calloc(1, sizeof *larger + capacity * sizeof larger->words[0]);
    if (larger == NULL)
        return NULL;
    larger->previous = array;
    larger->capacity = capacity;
    return larger;
}

int rp_consumption_subscribe(rp_consumption *consumption, const rp_message_filter *filter, int64_t version, int32_t broadcast,
                             int32_t native) {
    rp_subscription *subscription = &consumption->subscription;
    rp_word_array *array = room_for(subscription, filter->count);
    if (array == NULL)
        return RP_E_NO_MEMORY;
    int was_present = atomic_load_explicit(&subscription->present, memory_order_relaxed);
    begin_write(subscription);
    for (uint32_t i = 0; i < filter->count; i++)
        atomic_store_explicit(&array->words[i], filter->words[i], memory_order_release);
    atomic_store_explicit(&subscription->words, array, memory_order_release);
    atomic_store_explicit(&subscription->word_count, filter->count, memory_order_release);
    atomic_store_explicit(&subscription->kind, filter->kind, memory_order_release);
    atomic_store_explicit(&subscription->version, version, memory_order_release);
    atomic_store_explicit(&subscription->broadcast, broadcast, memory_order_release);
    atomic_store_explicit(&subscription->native, native, memory_order_release);
    atomic_store_explicit(&subscription->present, 1, memory_order_release);
    end_write(subscription);
    if (!was_present)
        atomic_fetch_add_explicit(&consumption->group->subscriptions, 1, memory_order_relaxed);
    return RP_OK;
}

void rp_consumption_unsubscribe(rp_consumption *consumption) {
    rp_subscription *subscription = &consumption->subscription;
    if (!atomic_load_explicit(&subscription->present, memory_order_relaxed))
        return;
    begin_write(subscription);
    atomic_store_explicit(&subscription->present, 0, memory_order_release);
    end_write(subscription);
    atomic_fetch_sub_explicit(&consumption->group->subscriptions, 1, memory_order_relaxed);
}

/* One look; 0 when the writer was inside, then the view is not to be used. */
static int copy_subscription(const rp_subscription *subscription, int32_t *words, uint32_t words_max, rp_subscription_view *view) {
    uint32_t sequence = atomic_load_explicit(&subscription->sequence, memory_order_acquire);
    view->present = atomic_load_explicit(&subscription->present, memory_order_acquire);
    view->native = atomic_load_explicit(&subscription->native, memory_order_acquire);
    view->broadcast = atomic_load_explicit(&subscription->broadcast, memory_order_acquire);
    view->version = atomic_load_explicit(&subscription->version, memory_order_acquire);
    int32_t kind = atomic_load_explicit(&subscription->kind, memory_order_acquire);
    uint32_t count = atomic_load_explicit(&subscription->word_count, memory_order_acquire);
    const rp_word_array *array = atomic_load_explicit(&subscription->words, memory_order_acquire);
    for (uint32_t i = 0; i < count && i < words_max && i < array->capacity; i++)
        words[i] = atomic_load_explicit(&array->words[i], memory_order_acquire);
    view->filter = (rp_message_filter){.words = words, .count = count, .kind = kind};
    return (sequence & 1) == 0 && count <= words_max && atomic_load_explicit(&subscription->sequence, memory_order_relaxed) == sequence;
}

int rp_consumption_read_subscription(const rp_consumption *consumption, rp_arena *arena, rp_subscription_view *view) {
    const rp_subscription *subscription = &consumption->subscription;
    int32_t *words = NULL;
    uint32_t words_max = 0;
    for (uint32_t attempt = 1;; attempt++) {
        if (copy_subscription(subscription, words, words_max, view))
            return RP_OK;
        if (view->filter.count > words_max) {
            words_max = view->filter.count;
            words = rp_arena_take(arena, words_max * sizeof *words);
            if (words == NULL)
                return RP_E_NO_MEMORY;
        } else if (attempt % 64 == 0) {
            sched_yield(); /* the writer was put aside in the middle of its few stores */
        }
    }
}
