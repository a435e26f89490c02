/* group_table.c: see group_table.h. The key of a consumption is the addresses of its two entries, which never move: 16 bytes name the
 * pair, and no text is compared. */
#include "group_table.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITIES 32 /* powers of two */
#define CAPACITY_MIN 4u

typedef struct rp_word_array {
    struct rp_word_array *next; /* link among the spare ones; writer only */
    uint32_t capacity;          /* fixed; a power of two */
    _Atomic int32_t words[];
} rp_word_array;

struct rp_group_table {
    rp_name_table *groups;       /* fixed */
    rp_name_table *consumptions; /* fixed */
    rp_word_array *spare[CAPACITIES]; /* writer only: by capacity; not freed while there may be readers */
    uint64_t words;                   /* writer only: in all arrays */
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
    free(atomic_load_explicit(&consumption->subscription.words, memory_order_relaxed));
}

void rp_group_table_destroy(rp_group_table *table) {
    if (table == NULL)
        return;
    rp_name_table_destroy(table->consumptions, free_consumption);
    rp_name_table_destroy(table->groups, NULL);
    for (int i = 0; i < CAPACITIES; i++) {
        for (rp_word_array *array = table->spare[i], *next; array != NULL; array = next) {
            next = array->next;
            free(array);
        }
    }
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

/* The sequence lock. Data is stored with release after the odd number, and loaded with acquire before the sequence is read again, which
 * keeps both in order (a fence would do too, but ThreadSanitizer does not model fences). */
static void begin_write(rp_subscription *subscription) { atomic_fetch_add_explicit(&subscription->sequence, 1, memory_order_acq_rel); }
static void end_write(rp_subscription *subscription) { atomic_fetch_add_explicit(&subscription->sequence, 1, memory_order_release); }

static rp_word_array *take_array(rp_group_table *table, uint32_t count) {
    uint32_t capacity = CAPACITY_MIN;
    while (capacity < count)
        capacity *= 2;
    rp_word_array **spare = &table->spare[__builtin_ctz(capacity)], *array = *spare;
    if (array != NULL) {
        *spare = array->next;
        return array;
    }
    if (table->words + capacity > RP_SUBSCRIPTION_WORDS_MAX ||
        (array = calloc(1, sizeof *array + capacity * sizeof array->words[0])) == NULL)
        return NULL;
    array->capacity = capacity;
    table->words += capacity;
    return array;
}

static void give_array(rp_group_table *table, rp_word_array *array) {
    if (array == NULL)
        return;
    rp_word_array **spare = &table->spare[__builtin_ctz(array->capacity)];
    array->next = *spare;
    *spare = array;
}

int rp_consumption_subscribe(rp_group_table *table, rp_consumption *consumption, const rp_message_filter *filter, int64_t version,
                             int32_t broadcast, int32_t native) {
    rp_subscription *subscription = &consumption->subscription;
    rp_word_array *before = atomic_load_explicit(&subscription->words, memory_order_relaxed), *array = NULL;
    if (filter->count > 0 && (array = take_array(table, filter->count)) == NULL)
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
    give_array(table, before);
    if (!was_present)
        atomic_fetch_add_explicit(&consumption->group->subscriptions, 1, memory_order_relaxed);
    return RP_OK;
}

void rp_consumption_unsubscribe(rp_group_table *table, rp_consumption *consumption) {
    rp_subscription *subscription = &consumption->subscription;
    if (!atomic_load_explicit(&subscription->present, memory_order_relaxed))
        return;
    rp_word_array *before = atomic_load_explicit(&subscription->words, memory_order_relaxed);
    begin_write(subscription);
    atomic_store_explicit(&subscription->present, 0, memory_order_release);
    atomic_store_explicit(&subscription->word_count, 0, memory_order_release);
    atomic_store_explicit(&subscription->words, NULL, memory_order_release);
    end_write(subscription);
    give_array(table, before);
    atomic_fetch_sub_explicit(&consumption->group->subscriptions, 1, memory_order_relaxed);
}

/* Copies once; 0 if the writer was inside, and the view must not be used. */
static int copy_subscription(const rp_subscription *subscription, int32_t *words, uint32_t words_max, rp_subscription_view *view) {
    uint32_t sequence = atomic_load_explicit(&subscription->sequence, memory_order_acquire);
    view->present = atomic_load_explicit(&subscription->present, memory_order_acquire);
    view->native = atomic_load_explicit(&subscription->native, memory_order_acquire);
    view->broadcast = atomic_load_explicit(&subscription->broadcast, memory_order_acquire);
    view->version = atomic_load_explicit(&subscription->version, memory_order_acquire);
    int32_t kind = atomic_load_explicit(&subscription->kind, memory_order_acquire);
    uint32_t count = atomic_load_explicit(&subscription->word_count, memory_order_acquire);
    const rp_word_array *array = atomic_load_explicit(&subscription->words, memory_order_acquire);
    uint32_t there = array == NULL ? 0 : array->capacity;
    for (uint32_t i = 0; i < count && i < words_max && i < there; i++)
        words[i] = atomic_load_explicit(&array->words[i], memory_order_acquire);
    view->filter = (rp_message_filter){.words = words, .count = count, .kind = kind};
    view->sequence = sequence;
    return (sequence & 1) == 0 && count <= words_max && atomic_load_explicit(&subscription->sequence, memory_order_relaxed) == sequence;
}

void rp_subscription_reader_free(rp_subscription_reader *reader) {
    free(reader->words);
    *reader = (rp_subscription_reader){.of = NULL};
}

static int make_room(rp_subscription_reader *reader, uint32_t count) {
    int32_t *larger = realloc(reader->words, count * sizeof *larger);
    if (larger == NULL)
        return RP_E_NO_MEMORY;
    reader->words = larger;
    reader->words_max = count;
    return RP_OK;
}

int rp_consumption_read_subscription(const rp_consumption *consumption, rp_subscription_reader *reader, rp_subscription_view *view) {
    const rp_subscription *subscription = &consumption->subscription;
    if (reader->of == consumption && atomic_load_explicit(&subscription->sequence, memory_order_acquire) == reader->view.sequence) {
        *view = reader->view;
        return RP_OK;
    }
    reader->of = NULL;
    for (uint32_t attempt = 1;; attempt++) {
        if (copy_subscription(subscription, reader->words, reader->words_max, view)) {
            reader->of = consumption;
            reader->view = *view;
            return RP_OK;
        }
        if (view->filter.count > reader->words_max) {
            if (make_room(reader, view->filter.count) != RP_OK)
                return RP_E_NO_MEMORY;
        } else if (attempt % 64 == 0) {
            sched_yield(); /* the writer was preempted during its few stores */
        }
    }
}
