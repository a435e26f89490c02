/* timer_metrics.c: see timer_metrics.h. */
#include "timer_metrics.h"

#include <stdlib.h>

#include "../base/hash.h"
#include "lane.h"
#include "timed_messages.h"

static void note_change(rp_broker *broker, rp_topic *topic, int64_t now_ms) {
    atomic_store_explicit(&topic->timers_changed_ms, now_ms, memory_order_relaxed);
    rp_note_change(&broker->timer_count_version);
}

void rp_timer_metrics_add(rp_broker *broker, rp_slice name, int64_t now_ms) {
    rp_topic *topic = rp_topic_table_find(broker->topics, name);
    if (topic == NULL)
        return;
    atomic_fetch_add_explicit(&topic->timers, 1, memory_order_relaxed);
    note_change(broker, topic, now_ms);
}

void rp_timer_metrics_remove(rp_broker *broker, rp_slice name, int64_t now_ms) {
    rp_topic *topic = rp_topic_table_find(broker->topics, name);
    int64_t count = topic != NULL ? atomic_load_explicit(&topic->timers, memory_order_relaxed) : 0;
    while (count > 0 &&
           !atomic_compare_exchange_weak_explicit(&topic->timers, &count, count - 1, memory_order_relaxed, memory_order_relaxed))
        ;
    if (count > 0)
        note_change(broker, topic, now_ms);
}

/* ---- counting again ---- */

typedef struct hashed_topic {
    int32_t hash;
    rp_topic *topic;
    int64_t count;
} hashed_topic;

typedef struct recount {
    hashed_topic *topics; /* owned; ordered by hash */
    size_t count, room;
    const rp_timing_wheel *wheel;
    int64_t read_time_ms;
    int status;
} recount;

static int take_topic(void *context, rp_name_entry *entry) {
    recount *counted = context;
    rp_topic *topic = (rp_topic *)entry;
    if (!rp_topic_is_live(topic))
        return 0;
    if (counted->count == counted->room) {
        size_t room = counted->room == 0 ? 256 : counted->room * 2;
        hashed_topic *larger = realloc(counted->topics, room * sizeof *larger);
        if (larger == NULL) {
            counted->status = RP_E_NO_MEMORY;
            return 1;
        }
        counted->topics = larger;
        counted->room = room;
    }
    counted->topics[counted->count++] = (hashed_topic){rp_hash_java(topic->head.name.data, topic->head.name.size), topic, 0};
    return 0;
}

static int compare(const void *left, const void *right) {
    int32_t a = ((const hashed_topic *)left)->hash, b = ((const hashed_topic *)right)->hash;
    return a < b ? -1 : a > b;
}

/* For a slot that was left half read, the log also has what was delivered. */
static int is_waiting(const recount *counted, int64_t position, int64_t due_ms) {
    rp_timer_slot slot;
    return due_ms >= counted->read_time_ms && rp_timing_wheel_slot(counted->wheel, due_ms, &slot) && position >= slot.first_position;
}

/* Topics with the same hash share what is found: a record does not distinguish them. */
static int take_record(void *context, int64_t position, const rp_timer_record *record) {
    recount *counted = context;
    hashed_topic wanted = {.hash = record->topic_hash};
    hashed_topic *found = NULL;
    if (!(record->magic & RP_TIMER_DELETE) && counted->count > 0 && is_waiting(counted, position, rp_timer_record_due_ms(record)))
        found = bsearch(&wanted, counted->topics, counted->count, sizeof *found, compare);
    if (found != NULL)
        found->count++;
    return 1;
}

int rp_timer_metrics_recount(rp_broker *broker, rp_timer_files *files, int64_t read_time_ms, int64_t now_ms, rp_error *error) {
    recount counted = {.wheel = rp_timer_files_wheel(files), .read_time_ms = read_time_ms, .status = RP_OK};
    rp_timer_log *log = rp_timer_files_log(files);
    rp_topic_table_each(broker->topics, take_topic, &counted);
    if (counted.count > 0)
        qsort(counted.topics, counted.count, sizeof *counted.topics, compare);
    int status = counted.status != RP_OK ? rp_error_set(error, counted.status, 0, NULL, -1, "no memory to count timed messages")
                                         : rp_timer_log_each(log, rp_timer_log_begin(log), take_record, &counted, error);
    for (size_t i = 0; i < counted.count; i++) {
        int64_t before = atomic_exchange_explicit(&counted.topics[i].topic->timers, counted.topics[i].count, memory_order_relaxed);
        if (before != counted.topics[i].count)
            note_change(broker, counted.topics[i].topic, now_ms);
    }
    free(counted.topics);
    return status;
}

/* ---- for Python ---- */

typedef struct count_walk {
    int (*visit)(void *context, const rp_timer_count *count);
    void *context;
} count_walk;

static int visit_count(void *context, rp_name_entry *entry) {
    const count_walk *walk = context;
    const rp_topic *topic = (const rp_topic *)entry;
    rp_timer_count row = {
        .topic = topic->head.name,
        .count = atomic_load_explicit(&topic->timers, memory_order_relaxed),
        .changed_ms = atomic_load_explicit(&topic->timers_changed_ms, memory_order_relaxed),
    };
    return row.changed_ms != 0 && rp_topic_is_live(topic) ? walk->visit(walk->context, &row) : 0;
}

void rp_broker_each_timer_count(rp_broker *broker, int (*visit)(void *context, const rp_timer_count *count), void *context) {
    count_walk walk = {visit, context};
    rp_topic_table_each(broker->topics, visit_count, &walk);
}

uint64_t rp_broker_timer_count_version(const rp_broker *broker) { return rp_change_number(&broker->timer_count_version); }
