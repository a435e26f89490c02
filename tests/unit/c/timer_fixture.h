/* timer_fixture.h: a broker that delivers timed messages by the test's clock, which runs, and is ahead of the system's by
 * clock_ahead_ms. */
#ifndef RP_TESTS_TIMER_FIXTURE_H
#define RP_TESTS_TIMER_FIXTURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "broker/answers.h"
#include "broker/timed_messages.h"
#include "stored_messages.h"

#define PRECISION_MS 20

static _Atomic int64_t clock_ahead_ms;

static inline int64_t turned_wall_ms(void *context) {
    (void)context;
    return rp_clock_wall_ms(rp_clock_system()) + atomic_load(&clock_ahead_ms);
}
static inline int64_t turned_monotonic_ns(void *context) {
    (void)context;
    return rp_clock_monotonic_ns(rp_clock_system());
}
static const rp_clock turned_clock = {turned_monotonic_ns, turned_wall_ms, NULL};

static inline rp_timer_options timer_options(const fixture *fx) {
    rp_timer_options options;
    rp_timer_options_default(&options);
    options.root_path = fx->path;
    options.log_file_size = 1 << 16;
    options.precision_ms = PRECISION_MS;
    options.flush_interval_ms = 20;
    options.clock = &turned_clock;
    return options;
}

static inline void timers_start(fixture *fx, const rp_timer_options *options) {
    rp_error error = {.message = ""};
    must(rp_broker_start_timers(fx->broker, options, &error), &error, "start timers");
}
static inline void timers_stop(fixture *fx) {
    rp_error error = {.message = ""};
    must(rp_broker_stop_timers(fx->broker, &error), &error, "stop timers");
}

static inline void ended(fixture *fx, client *c) {
    client_close(c);
    drop_events(fx);
    fixture_close(fx);
}

static inline void timer_fixture_init(fixture *fx) {
    static const uint8_t host[] = {127, 0, 0, 1, 0, 0, 0x2A, 0x9F};
    fixture_init(fx);
    atomic_store(&clock_ahead_ms, 0);
    memcpy(fx->store_options.store_host, host, sizeof host);
    fx->settings.timer_enable = 1;
    fx->settings.timer_precision_ms = PRECISION_MS;
    fx->settings.timer_delay_max_ms = INT64_C(30) * 86400 * 1000;
}

/* As after a restart of the process: the same directory, another broker over it. */
static inline void timer_fixture_reopen(fixture *fx) {
    rp_error error = {.message = ""};
    rp_server_stop(fx->server, 0);
    rp_broker_close(fx->broker);
    rp_server_close(fx->server);
    must(rp_message_store_close(fx->store, &error), &error, "close store");
    fixture_open(fx);
}

static inline void wait_end(const fixture *fx, const char *topic, int32_t queue_id, int64_t end) {
    for (int64_t until = now_ms() + WAIT_MS; end_of(fx, topic, queue_id) < end;) {
        CHECK(now_ms() < until);
        sched_yield();
    }
}

static inline rp_timer_stats stats_of(const fixture *fx) {
    rp_timer_stats stats;
    rp_broker_read_timer_stats(fx->broker, &stats);
    return stats;
}

typedef struct wanted_count {
    const char *topic;
    int64_t count;
} wanted_count;
static inline int take_count(void *context, const rp_timer_count *count) {
    wanted_count *wanted = context;
    if (slice_is(count->topic, wanted->topic))
        wanted->count = count->count;
    return 0;
}
static inline int64_t count_of(const fixture *fx, const char *topic) {
    wanted_count wanted = {topic, -1};
    rp_broker_each_timer_count(fx->broker, take_count, &wanted);
    return wanted.count;
}

/* Waits until everything that was sent is in the wheel, or was delivered or skipped. */
static inline void wait_entered(const fixture *fx) {
    for (int64_t until = now_ms() + WAIT_MS;;) {
        rp_timer_stats stats = stats_of(fx);
        if (stats.queue_offset == stats.queue_max_offset)
            return;
        CHECK(now_ms() < until);
        sched_yield();
    }
}

/* Waits until every slot before `time_ms` of the test's clock has been read. */
static inline void wait_read(const fixture *fx, int64_t time_ms) {
    for (int64_t until = now_ms() + WAIT_MS; stats_of(fx).read_time_ms < time_ms;) {
        CHECK(now_ms() < until);
        sched_yield();
    }
}

/* Advances the clock by ms, and waits until everything that is due by then has been delivered. */
static inline void turn_clock(const fixture *fx, int64_t ms) {
    int64_t before_ms = turned_wall_ms(NULL);
    wait_entered(fx);
    atomic_fetch_add(&clock_ahead_ms, ms);
    wait_read(fx, (before_ms + ms) / PRECISION_MS * PRECISION_MS);
}

static inline rp_command send_timed(client *c, const char *topic, int32_t queue_id, const char *properties, const char *body) {
    number_text queue;
    rp_command request = send_request_v2(c, RP_CODE_SEND_MESSAGE_V2, topic, queue_id, properties, text(body), &queue);
    return client_call(c, &request);
}
static inline void send_later(client *c, const char *topic, int32_t queue_id, const char *properties, const char *body) {
    rp_command response = send_timed(c, topic, queue_id, properties, body);
    if (response.code != 0)
        fprintf(stderr, "send answered %d: %.*s\n", response.code, (int)response.remark.size, (const char *)response.remark.data);
    CHECK(response.code == 0);
}

/* Appends a message to the timer queue as another product, or a damaged file, may have left it there. */
static inline void put_strange(const fixture *fx, const char *properties, const char *body) {
    rp_append_item item = {.body = text(body), .properties = {text(properties)}};
    item.queue = rp_message_store_queue(fx->store, text(RP_TIMER_TOPIC), 0, 1, NULL);
    CHECK(item.queue != NULL && rp_message_store_prepare_queue(fx->store, item.queue, NULL) == RP_OK);
    CHECK(rp_commit_log_append(rp_message_store_commit_log(fx->store), &item, 1) == 1);
}

static inline int put_recall(const fixture *fx, const char *topic, const char *key, int64_t deliver_ms) {
    static int32_t calls; /* both spellings */
    rp_recall recall = {.topic = text(topic), .unique_key = text(key), .producer_group = text("PG"), .deliver_ms = deliver_ms};
    recall.names_topic = calls++ % 2;
    int64_t end = -1;
    int status = rp_broker_put_recall(fx->broker, &recall, &end);
    CHECK((status == RP_OK) == (end > 0));
    return status;
}

#endif
