/* lane.c: see lane.h. */
#include "lane.h"

#include <stdlib.h>

#include "../base/clock_inl.h"
#include "lite_path.h"
#include "pop_escape.h"

#define SLOW_MS 5 /* an append takes microseconds */
#define QUICK_NS (RP_NS_PER_MS / 4) /* what takes no longer is no sign of a slow log, however often it happens */

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

rp_lane *rp_lane_create(rp_broker *broker, rp_server *server, rp_reactor *reactor, uint16_t index) {
    rp_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL)
        return NULL;
    lane->broker = broker;
    lane->server = server;
    lane->reactor = reactor;
    lane->answer_times.reactor = reactor;
    lane->index = index;
    lane->safe_deadline_ns = lane->lite_due_ns = INT64_MAX;
    lane->random = ((uint64_t)rp_clock_monotonic_ns(rp_clock_system()) << 8 | index) * UINT64_C(0x9E3779B97F4A7C15) | 1;
    rp_unique_id_init(&lane->unique_id, broker->options.store_host, lane->random >> 16);
    if (rp_send_batch_init(&lane->sends) != RP_OK || rp_get_scratch_init(&lane->scratch) != RP_OK) {
        rp_lane_destroy(lane);
        return NULL;
    }
    return lane;
}

void rp_lane_destroy(rp_lane *lane) {
    if (lane == NULL)
        return;
    rp_send_batch_free(&lane->sends);
    rp_get_scratch_free(&lane->scratch);
    rp_parked_responses_free(&lane->parked);
    rp_suspended_pulls_free(&lane->suspended);
    rp_pop_escape_free_all(lane);
    rp_pop_waits_free(lane);
    rp_subscription_reader_free(&lane->subscription);
    rp_replies_free(lane);
    free(lane);
}

int64_t rp_lane_deadline(const rp_lane *lane) {
    int64_t polling = earlier(rp_long_polling_deadline(&lane->suspended), rp_pop_waits_deadline(&lane->pop_waits));
    return earlier(earlier(polling, lane->safe_deadline_ns), earlier(rp_pushes_deadline(&lane->pushes), lane->lite_due_ns));
}

void rp_lane_schedule(rp_lane *lane) {
    lane->lite_due_ns = rp_lite_deadline(lane); /* read once: other lanes change it */
    rp_reactor_set_deadline(lane->reactor, rp_lane_deadline(lane));
}

void rp_lane_complete(rp_lane *lane) {
    int64_t now_ns = rp_reactor_now_ns(lane->reactor);
    int64_t next = rp_parked_responses_complete(lane, now_ns);
    if (next != lane->safe_deadline_ns) {
        lane->safe_deadline_ns = next;
        rp_lane_schedule(lane);
    }
}

int rp_lane_log_is_slow(rp_lane *lane) {
    int64_t turn_ns = rp_reactor_now_ns(lane->reactor);
    if (lane->alone_turn_ns != turn_ns) {
        lane->alone_turn_ns = turn_ns;
        lane->alone_ns = 0;
    }
    return lane->alone_ns >= SLOW_MS * RP_NS_PER_MS || rp_commit_log_held_ms(lane->broker->commit_log) > SLOW_MS;
}

void rp_lane_spent(rp_lane *lane, int64_t begun_ns) {
    int64_t spent_ns = rp_clock_monotonic_ns(rp_clock_system()) - begun_ns;
    lane->alone_ns += spent_ns > QUICK_NS ? spent_ns : 0;
}
