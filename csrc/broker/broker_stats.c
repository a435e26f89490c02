/* broker_stats.c: sums up the lanes' counters; readers compute rates from them. */
#include "broker_stats.h"

#include <string.h>

#include "lane.h"

static uint64_t read_counter(const _Atomic uint64_t *counter) { return atomic_load_explicit(counter, memory_order_relaxed); }

typedef struct stats_walk {
    int (*topic)(void *context, const rp_topic_stats *stats);
    int (*group)(void *context, const rp_group_stats *stats);
    void *context;
} stats_walk;

static int visit_topic(void *context, rp_name_entry *entry) {
    const stats_walk *walk = context;
    const rp_topic *topic = (const rp_topic *)entry;
    rp_topic_stats stats = {
        .topic = topic->head.name,
        .messages_out = read_counter(&topic->messages_out),
        .bytes_out = read_counter(&topic->bytes_out),
        .timers_out = read_counter(&topic->timers_out),
        .ends = {.commits = read_counter(&topic->commits), .rollbacks = read_counter(&topic->rollbacks)},
    };
    rp_durations_read(&topic->commit_times, &stats.ends.took);
    rp_durations_read(&topic->delays, &stats.delays);
    for (uint32_t type = 0; type < RP_MESSAGE_TYPES; type++) {
        rp_intake_read(&topic->in[type], &stats.in[type]);
        stats.bytes_in += stats.in[type].bytes;
        for (uint32_t i = 0; i < RP_INTAKE_SIZES; i++)
            stats.messages_in += stats.in[type].sizes[i];
    }
    return rp_topic_is_live(topic) ? walk->topic(walk->context, &stats) : 0;
}

void rp_broker_each_topic_stats(rp_broker *broker, int (*visit)(void *context, const rp_topic_stats *stats), void *context) {
    stats_walk walk = {.topic = visit, .context = context};
    rp_topic_table_each(broker->topics, visit_topic, &walk);
}

void rp_broker_each_answer_stats(rp_broker *broker, int (*visit)(void *context, const rp_answer_stats *stats), void *context) {
    uint32_t lanes = atomic_load_explicit(&broker->lane_count, memory_order_acquire);
    for (uint32_t lane = 0; lane < lanes; lane++) {
        const rp_answer_times *times = &broker->lanes[lane]->answer_times;
        uint32_t count = atomic_load_explicit(&times->count, memory_order_acquire);
        for (uint32_t i = 0; i < count; i++) {
            const rp_answer_row *row = &times->rows[i];
            rp_answer_stats stats = {row->request_code, row->response_code, row->has_waited, read_counter(&row->total_ns), {0}};
            for (uint32_t class = 0; class < RP_ANSWER_CLASSES; class++)
                stats.classes[class] = read_counter(&row->classes[class]);
            if (visit(context, &stats) != 0)
                return;
        }
    }
}

static int visit_consumption(void *context, rp_name_entry *entry) {
    const stats_walk *walk = context;
    const rp_consumption *consumption = (const rp_consumption *)entry;
    rp_group_stats stats = {
        .group = consumption->group->head.name,
        .topic = consumption->topic->head.name,
        .messages_out = read_counter(&consumption->messages_out),
        .bytes_out = read_counter(&consumption->bytes_out),
        .sent_back = read_counter(&consumption->sent_back),
    };
    int is_live = rp_group_is_live(consumption->group) && rp_topic_is_live(consumption->topic);
    return is_live && (stats.messages_out > 0 || stats.sent_back > 0) ? walk->group(walk->context, &stats) : 0;
}

void rp_broker_each_group_stats(rp_broker *broker, int (*visit)(void *context, const rp_group_stats *stats), void *context) {
    stats_walk walk = {.group = visit, .context = context};
    rp_group_table_each_consumption(broker->groups, visit_consumption, &walk);
}

static void add_lane(rp_broker_stats *stats, const rp_lane_counters *counters) {
    stats->sends += read_counter(&counters->sends);
    stats->sends_failed += read_counter(&counters->sends_failed);
    stats->sends_punted += read_counter(&counters->sends_punted);
    stats->pulls += read_counter(&counters->pulls);
    stats->pulls_found += read_counter(&counters->pulls_found);
    stats->pulls_missed += read_counter(&counters->pulls_missed);
    stats->pulls_punted += read_counter(&counters->pulls_punted);
    stats->pulls_suspended_now += read_counter(&counters->pulls_suspended);
    stats->pulls_woken += read_counter(&counters->pulls_woken);
    stats->messages_in += read_counter(&counters->messages_in);
    stats->bytes_in += read_counter(&counters->bytes_in);
    stats->messages_out += read_counter(&counters->messages_out);
    stats->bytes_out += read_counter(&counters->bytes_out);
    stats->responses_parked_now += read_counter(&counters->parked);
    stats->flush_timeouts += read_counter(&counters->flush_timeouts);
    stats->slave_timeouts += read_counter(&counters->slave_timeouts);
    stats->slaves_missing += read_counter(&counters->slaves_missing);
    stats->replies += read_counter(&counters->replies);
    stats->replies_failed += read_counter(&counters->replies_failed);
    stats->replies_pending_now += read_counter(&counters->replies_pending);
    uint64_t get_ns_max = read_counter(&counters->get_ns_max);
    if (get_ns_max > stats->get_ns_max)
        stats->get_ns_max = get_ns_max;
    for (uint32_t i = 0; i < RP_PUT_MS_BUCKETS; i++)
        stats->put_ms[i] += read_counter(&counters->put_ms[i]);
}

void rp_broker_read_stats(const rp_broker *broker, rp_broker_stats *stats) {
    memset(stats, 0, sizeof *stats);
    uint32_t lanes = atomic_load_explicit(&broker->lane_count, memory_order_acquire);
    for (uint32_t i = 0; i < lanes; i++)
        add_lane(stats, &broker->lanes[i]->counters);
    stats->puts_inside = read_counter(&broker->puts_inside);
    stats->put_ns_p50 = rp_histogram_percentile(broker->put_ns, 50);
    stats->put_ns_p99 = rp_histogram_percentile(broker->put_ns, 99);
    stats->put_ns_p999 = rp_histogram_percentile(broker->put_ns, 99.9);
    stats->put_ns_max = rp_histogram_max(broker->put_ns);
}
